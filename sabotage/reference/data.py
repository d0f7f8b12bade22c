"""What a run knows: the values that are defined, by what holds them, and which of them are sensitive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.reference.expressions import Undefined, value_of
from stepward.sabotage.reference.facts import has_output, holder
from stepward.sabotage.reference.plain import same
from stepward.vm.expressions import syntax

if TYPE_CHECKING:
    from stepward.vm import Program

Holder = tuple[str, ...]
"""`("name",)` for a variable or an input, `("step", "output")` and `("step", "error")` for a step's."""

Way = tuple[str, ...]
"""The names of fields, from the outside in."""

Changes = list[tuple[Holder, Any]]


class _Gone:
    """Stands for what becomes undefined."""


GONE: Final = _Gone()


class Data:
    """The values of one run: `held` by holder, `hidden` the sensitive fields below a holder."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.held: dict[Holder, Any] = {}
        self.hidden: dict[Holder, set[Way]] = {}

    def read(self, names: tuple[str, ...]) -> Any:
        """Return what a reference names; raises Undefined where it can't be read ("Data" 1 to 3)."""
        where, fields = holder(names, self._program)
        if where not in self.held:
            raise Undefined(names[0])
        value = self.held[where]
        for name in fields:
            if not isinstance(value, dict) or name not in value:
                raise Undefined(name)
            value = value[name]
        return value

    def change(self, changes: Changes) -> bool:
        """Bind what a step leaves, in order; return whether any of it is another value than there was before.

        Of two siblings that give one variable a value each, both count ("Control flow, Choices").
        """
        before = dict(self.held)
        for where, value in changes:
            self.hidden.pop(where, None)
            self.held[where] = value
            if value is GONE:
                del self.held[where]
        return any(_differs(before.get(where, GONE), value) for where, value in changes)

    # -- what is sensitive: it follows `set` and fields, not branches ("Data" 7) ---------------------------------------

    def hide(self, where: Holder, ways: set[Way]) -> None:
        """Note which fields of what is held are sensitive, as far as they are there."""
        there = {way for way in ways if where in self.held and _has(self.held[where], way)}
        self.hidden.pop(where, None)
        if there:
            self.hidden[where] = there

    def hidden_below(self, names: tuple[str, ...]) -> set[Way]:
        """Return which fields of what a reference names are sensitive; `()` is the whole of it."""
        where, fields = holder(names, self._program)
        found: set[Way] = set()
        for way in self.hidden.get(where, ()):
            if fields[: len(way)] == way:
                found.add(())
            elif way[: len(fields)] == fields:
                found.add(way[len(fields) :])
        return found

    def computed(self, tree: syntax.Expression) -> tuple[Any, set[Way]]:
        """Return what an expression is worth, and which fields of that are sensitive.

        They are those of what it names, or all of a result for which something sensitive was read.
        """
        if isinstance(tree, syntax.Reference):
            return self.read(tree.names), self.hidden_below(tree.names)
        seen: list[tuple[str, ...]] = []

        def noted(names: tuple[str, ...]) -> Any:
            value = self.read(names)
            seen.append(names)
            return value

        value = value_of(tree, noted)
        return value, {()} if any(map(self.hidden_below, seen)) else set()


def _has(value: Any, way: Way) -> bool:
    for name in way:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _differs(old: Any, new: Any) -> bool:
    if old is GONE or new is GONE:
        return old is not new
    return not same(old, new)


def left_with(part: Any, value: Any) -> Changes:
    """Return what a step leaves that has an output: that, its variable, and no error ("Failure, Choices")."""
    return [((name), value) for name in _names(part)] + [((part.id, "error"), GONE)]


def left_without(part: Any, error: str) -> Changes:
    """Return what a step leaves that ended without an output, also where an earlier visit had set it ("Failure" 3)."""
    if not has_output(part):
        return []
    return [(name, GONE) for name in _names(part)] + [((part.id, "error"), error)]


def _names(part: Any) -> Iterable[Holder]:
    return [(part.id, "output"), *([(part.output_key,)] if part.output_key is not None else [])]
