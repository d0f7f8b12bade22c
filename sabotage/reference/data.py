"""The data of a run: the defined values by holder, and which of them are sensitive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.reference.expressions import CannotEvaluate, Undefined, value_of
from stepward.sabotage.reference.facts import has_output, holder
from stepward.sabotage.reference.fields import Fields
from stepward.sabotage.reference.plain import same, to_value
from stepward.sabotage.reference.templates import alone, filled, is_built, names_in
from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse

if TYPE_CHECKING:
    from stepward.vm import Program

Holder = tuple[str, ...]
"""`("name",)` for a variable or an input, `("step", "output")` and `("step", "error")` for a step's."""

FieldPath = tuple[str, ...]
"""A path of field names, from the outside in."""

Changes = list[tuple[Holder, Any]]

Hidden = list[tuple[Holder, set[FieldPath]]]
"""The sensitive fields of holders."""


class _Gone:
    """Marks a holder that becomes undefined."""


GONE: Final = _Gone()


class Data:
    """The values of one run: `values` has them by holder, `hidden` has the sensitive fields below a holder."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.values: dict[Holder, Any] = {}
        self.hidden: dict[Holder, set[FieldPath]] = {}

    def with_changes(self, changes: Changes, hidden: Iterable[tuple[Holder, set[FieldPath]]]) -> Data:
        """Return the data after changes that this data does not get, with the sensitive fields of what changed."""
        found = Data(self._program)
        found.values, found.hidden = dict(self.values), dict(self.hidden)
        found.change(changes)
        for where, paths in hidden:
            found.hide(where, paths)
        return found

    def read(self, names: tuple[str, ...]) -> Any:
        """Return the value of a reference. Raises Undefined if it can't be read ("Data" 1 to 3)."""
        where, fields = holder(names, self._program)
        if where not in self.values:
            raise Undefined(names[0])
        value = self.values[where]
        for name in fields:
            value = inside(value, name)
        return value

    def change(self, changes: Changes) -> bool:
        """Apply the changes of a step in order. Return whether any value changed.

        If two siblings assign one variable, both changes count ("Control flow, Choices").
        """
        before = dict(self.values)
        if self._program.language == 1:  # its errors have no names
            changes = [(where, value) for where, value in changes if where[1:] != ("error_name",)]
        for where, value in changes:
            self.hidden.pop(where, None)
            self.values[where] = value
            if value is GONE:
                del self.values[where]
        return any(_differs(before.get(where, GONE), value) for where, value in changes)

    # -- sensitivity follows `set` and fields, not branches ("Data" 7) -------------------------------------------------

    def restoring(self, names: Iterable[str]) -> tuple[Changes, Hidden]:
        """Return the changes by which variables have the values again that they have now, with their sensitive
        fields."""
        holders: list[Holder] = [(name,) for name in names]
        hidden = [(where, set(self.hidden.get(where, ()))) for where in holders]
        return [(where, self.values.get(where, GONE)) for where in holders], hidden

    def hide_all(self, hidden: Hidden) -> None:
        """Mark fields of several holders as sensitive."""
        for where, paths in hidden:
            self.hide(where, paths)

    def hide(self, where: Holder, paths: set[FieldPath]) -> None:
        """Mark fields of a held value as sensitive, as far as they exist."""
        there = {path for path in paths if where in self.values and _has(self.values[where], path)}
        self.hidden.pop(where, None)
        if there:
            self.hidden[where] = there

    def hidden_below(self, names: tuple[str, ...]) -> set[FieldPath]:
        """Return the sensitive fields of a reference's value; `()` is the whole value."""
        where, fields = holder(names, self._program)
        found: set[FieldPath] = set()
        for path in self.hidden.get(where, ()):
            if fields[: len(path)] == path:
                found.add(())
            elif path[: len(fields)] == fields:
                found.add(path[len(fields) :])
        return found

    def computed(self, tree: syntax.Expression) -> tuple[Any, set[FieldPath]]:
        """Return the value of an expression and its sensitive fields.

        A plain reference has the sensitive fields of its value. Any other result is wholly sensitive if it read one.
        """
        if isinstance(tree, syntax.Reference):
            return self.read(tree.names), self.hidden_below(tree.names)
        if isinstance(tree, syntax.Built):
            return self._together([(f"[{number}]", self.computed(part)) for number, part in enumerate(tree.parts)])
        seen: list[tuple[str, ...]] = []

        def noted(names: tuple[str, ...]) -> Any:
            value = self.read(names)
            seen.append(names)
            return value

        value = value_of(tree, noted)
        return value, {()} if any(map(self.hidden_below, seen)) else set()

    def assigned(self, value: Any) -> tuple[Any, set[FieldPath]]:
        """Return what a value of a `set` stands for, with its sensitive fields ("Steps")."""
        if isinstance(value, str):
            return self.computed(parse(value, self._program.language))
        return self.built(value) if is_built(value, self._program.language) else (to_value(value), set())

    def changed(self, names: tuple[str, ...], fields: Fields) -> tuple[Any, set[FieldPath]]:
        """Return an object with other values in some fields, and its sensitive fields.

        An object that is sensitive as a whole stays so. Raises CannotEvaluate if there is no object.
        """
        whole, hidden = self.read(names), self.hidden_below(names)
        if not isinstance(whole, Mapping):
            raise CannotEvaluate("an object is needed")
        value = dict(whole)
        for name, put in fields.items():
            is_object = isinstance(put, Fields)
            value[name], inside = self.changed((*names, name), put) if is_object else self.assigned(put)
            hidden = {path for path in hidden if path[:1] != (name,)} | {(name, *path) for path in inside}
        return value, {()} if () in hidden else hidden

    def built(self, value: Any) -> tuple[Any, set[FieldPath]]:
        """Return a list or an object whose texts are templates: each of its parts is as sensitive as what it says."""
        if isinstance(value, str):
            names = alone(value)
            if names is not None:
                return self.read(names), self.hidden_below(names)
            hidden = any(map(self.hidden_below, names_in(value)))
            return filled(value, self.read), {()} if hidden else set()
        if isinstance(value, Mapping):
            parts = {name: self.built(item) for name, item in value.items()}
            paths = {(name, *path) for name, (_, inner) in parts.items() for path in inner}
            return {name: part for name, (part, _) in parts.items()}, paths
        if isinstance(value, list | tuple):
            return self._together([(f"[{number}]", self.built(item)) for number, item in enumerate(value)])
        return to_value(value), set()

    @staticmethod
    def _together(items: list[tuple[str, tuple[Any, set[FieldPath]]]]) -> tuple[Any, set[FieldPath]]:
        """Return the list of some items, with their sensitive fields."""
        paths = {(name, *path) for name, (_, inner) in items for path in inner}
        return tuple(value for _, (value, _) in items), paths


def below(paths: Iterable[FieldPath], name: str) -> set[FieldPath]:
    """Return the sensitive fields of a part of a value with these: of a field, or of an item."""
    return {() if path == () else path[1:] for path in paths if path == () or path[0] == name}


def above(paths: Iterable[FieldPath], name: str) -> set[FieldPath]:
    """Return the sensitive fields of what has a part with these."""
    return {(name, *path) for path in paths}


def outermost(paths: Iterable[FieldPath]) -> set[FieldPath]:
    """Return the paths that are not below another one."""
    found = set(paths)
    return {path for path in found if not any(path[:depth] in found for depth in range(len(path)))}


def _has(value: Any, path: FieldPath) -> bool:
    try:
        for name in path:
            value = inside(value, name)
    except Undefined:
        return False
    return True


def inside(value: Any, name: str) -> Any:
    """Return a field of an object, or the item of an array whose index `name` is. Raises Undefined ("Data" 3)."""
    if name.startswith("["):
        number = int(name[1:-1])
        if isinstance(value, tuple) and number < len(value):
            return value[number]
    elif isinstance(value, dict) and name in value:
        return value[name]
    raise Undefined(name)


def _differs(old: Any, new: Any) -> bool:
    if old is GONE or new is GONE:
        return old is not new
    return not same(old, new)


def left_with(part: Any, value: Any) -> Changes:
    """Return the changes of a step with an output: output, variable, and no error ("Failure, Choices")."""
    return [((name), value) for name in _names(part)] + [((part.id, what), GONE) for what in ("error", "error_name")]


def left_without(part: Any, error: str, name: str) -> Changes:
    """Return the changes of a step without an output, which also clears that of an earlier visit ("Failure" 3).

    `name` is that of the error.
    """
    if not has_output(part):
        return []
    return [*((one, GONE) for one in _names(part)), ((part.id, "error"), error), ((part.id, "error_name"), name)]


def _names(part: Any) -> Iterable[Holder]:
    return [(part.id, "output"), *([(part.output_key,)] if part.output_key is not None else [])]
