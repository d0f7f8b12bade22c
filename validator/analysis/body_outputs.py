"""Operators on the outputs of bodies: of an item of a for_each step, and of a branch.

The machine holds the output of a call to its type. Nothing holds that of an `end` step to what is done with it later.
So an operator on it is right only where the `end` steps say of what type it is, and a field only where they give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.vm.expressions.facts import reads
from stepward.vm.expressions.fields import ITEMS, index_of, of_type
from stepward.vm.expressions.inside import Leaf
from stepward.vm.expressions.operands import kind_of, needs, result_kinds
from stepward.vm.expressions.operators import ANY, ARRAY, BOOLEAN, FUNCTIONS, OPERATORS, STRING, Kinds
from stepward.vm.expressions.syntax import Built, Compare, Constant, Expression, FunctionCall, Reference, walk
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.made import leaf_view, made_of, meaning_of
from stepward.vm.language.name_types import COPIES, Location
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.required import required
from stepward.vm.language.steps import BranchStep, EndStep, ForEachStep, InvokeStep, LlmStep, ToolStep
from stepward.vm.language.type_words import either
from stepward.vm.language.typecheck import TypeProblem
from stepward.vm.language.views import static_kinds
from stepward.vm.values import MAX_DEPTH

if TYPE_CHECKING:
    from stepward.vm.language.clauses import Clause
    from stepward.vm.language.meaning import Meaning

NotNullAt = Callable[[int, Iterable[tuple[str, ...]]], frozenset[tuple[str, ...]]]
"""Returns which of some references are certainly not null where a step begins."""

_NULL: Final = frozenset({"null"})
_ABSENT: Final[Kinds] = frozenset()
"""The kinds of a field that is not there: reading it is reported, and no operator sees it."""

_HELP: Final = "let what gives the value declare its type (`returns`), or hand it to a `compute` step with `returns`"


class BodyOutputs:
    """The outputs of the bodies of one program, and what may be done with them."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning, self._layout = meaning, meaning.flow.layout
        self._names, self._typing = meaning.names, meaning.typing
        self._follows_calls = False

    def problems(self, clause: Clause, not_null: NotNullAt) -> Iterator[TypeProblem]:
        """Yield the operands of an expression that come from a body, if their kind may be wrong for the operator.

        `not_null` says what is not null where the step of the expression begins.
        """
        tree = clause.tree
        if tree is None or not self._layout.bodies:
            return
        for need in (*_needs(tree, is_condition=clause.is_condition), *self._beside_others(tree)):
            operand = need.operand
            if not isinstance(operand, Reference):
                continue
            resolution = self._names.meaning(operand.names)
            kinds = self._of_reference(resolution, set())
            if not kinds or resolution is None:
                continue
            known = {id(node): facts.not_null for node, facts in reads(tree)}.get(id(operand), frozenset())
            if operand.names in known or operand.names in not_null(clause.step, [operand.names]):
                kinds = [one if one is None else one - _NULL for one in kinds]
            if not _all_fit(kinds, need.kinds):
                yield _problem(clause, operand, kinds, need.kinds, need.word)
            elif need.items is not None and any("array" in one for one in kinds if one is not None):
                items = self._of_reference(resolution._replace(fields=(*resolution.fields, ITEMS)), set())
                if not _all_fit(items, need.items):
                    yield _problem(clause, operand, items, need.items, need.word, "an item of ")

    def _beside_others(self, tree: Expression) -> Iterator[_Need]:
        """Yield what `==` and `!=` need of an operand beside another one that is no constant."""
        for node in walk(tree):
            if isinstance(node, Compare) and node.operator in ("==", "!="):
                for operand, other in ((node.left, node.right), (node.right, node.left)):
                    kinds = self._kinds(other)
                    if kinds is not None:
                        yield _Need(operand, kinds | _NULL, f"`{node.operator}`")

    def _kinds(self, tree: Expression) -> Kinds | None:
        """Return the kinds of an operand; None for a constant, and where nothing says what they are."""
        if isinstance(tree, Constant):
            return None
        if not isinstance(tree, Reference):
            return result_kinds(tree)
        given = self._of_reference(self._names.meaning(tree.names), set())
        view = self._meaning.view(tree.names)
        if given:
            return None if None in given else frozenset().union(*(one for one in given if one is not None))
        return view.kinds if view is not None and view.is_known else None

    def kinds_of(self, source: Source, fields: tuple[str, ...]) -> list[Kinds | None] | None:
        """Return the kinds of each value that a body gives to an output or a field of it; None for any other source.

        None among them stands for a value of any kind, and no kinds for a field that is not there.
        """
        step = self._layout.steps[source.step] if source.kind == "output" and source.step is not None else None
        is_fork = source.step in self._layout.forks
        if not (isinstance(step, ForEachStep) or is_fork) or isinstance(step, InvokeStep) or source.sub is not None:
            return None
        return self._at((source, fields), set()) or None

    @classmethod
    def of_calls_too(cls, meaning: Meaning) -> BodyOutputs:
        """Return those of called programs, too, where no use of an output holds it to a type."""
        outputs = cls(meaning)
        outputs._follows_calls = True
        return outputs

    def kinds_given(self, resolution: Resolution) -> list[Kinds | None]:
        """Return the kinds of each value of a reference that bodies give, as `kinds_of` does; empty for any other."""
        return self._of_reference(resolution, set()) if self._layout.bodies else []

    def may_lack(self, resolution: Resolution) -> bool:
        """Return whether a field of what a body gives may be absent."""
        return bool(self._layout.bodies) and _ABSENT in self._of_reference(resolution, set())

    def lacks_on_the_way(self, resolution: Resolution | None) -> bool:
        """Return whether any of the fields on the path of a reference may be absent from what a body gives.

        The engine's types say of such a field that it is there, because it is read. Of what branches give together, it
        knows which are there.
        """
        if resolution is None:
            return False
        are_joined = all(source.kind == "output" and source.step in self._layout.forks for source in resolution.sources)
        owners = [resolution.fields[: depth + 1] for depth in range(int(are_joined), len(resolution.fields))]
        return any(self.may_lack(resolution._replace(fields=fields)) for fields in owners)

    def _of_reference(self, resolution: Resolution | None, visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds of each value of a reference that a body made; None for one of unknown type."""
        locations = [] if resolution is None else [(source, resolution.fields) for source in resolution.sources]
        return [kinds for location in locations for kinds in self._at(location, visited)]

    def _at(self, location: Location, visited: set[Location]) -> list[Kinds | None]:
        source, path = location
        if location in visited or len(path) > MAX_DEPTH:  # a list that is an item of itself has no end of items
            return []
        visited.add(location)
        if source.kind in COPIES:
            copied = self._typing.copied(source)
            tree, inside = self._typing.made(source, path)
            inside = inside if isinstance(tree, Built) else of_type(inside)  # joined arrays have items of one type
            if copied is not None:
                return self._of_reference(copied._replace(fields=(*copied.fields, *path)), visited)
            return self._of_leaves(made_of(tree, inside), visited)
        step = self._layout.steps[source.step] if source.kind == "output" and source.step is not None else None
        if source.kind == "output" and source.step in self._layout.forks and path:
            return self._together(source.step, path, visited)
        if not isinstance(step, ForEachStep) or source.sub is not None or source.step is None:
            return []
        if isinstance(step, InvokeStep):
            return self._of_call(source, path, visited) if self._follows_calls else []
        if isinstance(step, BranchStep):
            return self._made(source.step, path, visited)
        if not path or not (path[0] == ITEMS or index_of(path[0]) is not None):
            return []
        failed = [_ABSENT if path[1:] else _NULL] if step.on_item_error == "skip" else []  # null has no fields
        return self._made(source.step, path[1:], visited) + failed

    def _of_call(self, source: Source, path: tuple[str, ...], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds at some fields of what a program gives, unless the machine holds them to a type."""
        assert source.step is not None
        is_held = self._typing.view(Resolution((source,), path)).is_known
        gives_none = self._meaning.flow.gives(source.step) == "never"
        return [] if is_held or gives_none else self._made(source.step, path, visited)

    def _together(self, owner: int, path: tuple[str, ...], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds at some fields of the object that a step with branches gives: what these give, by name."""
        branches = self._layout.forks[owner].branches
        branch = next((one for one in branches if own_name(self._layout.steps[one].id) == path[0]), None)
        frequency = "never" if branch is None else self._meaning.flow.gives(branch)
        if branch is None or frequency == "never":
            return [_ABSENT]
        return self._made(branch, path[1:], visited) + ([_ABSENT] if frequency == "sometimes" and not path[1:] else [])

    def _of_leaves(self, leaves: list[Leaf], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds of what a value is built or joined of; none if no body gives any of it."""
        known: list[Kinds | None] = []
        others: list[Kinds | None] = []
        for leaf in leaves:
            resolution = meaning_of(self._names, leaf.tree)
            of_bodies = self._of_reference(resolution, visited)
            known += of_bodies
            if resolution is None:
                view = leaf_view(leaf)
                others += [] if view.never else [view.kinds]
            elif not of_bodies and all(source.kind in ("input", "output") for source in resolution.sources):
                view = self._typing.view(resolution)
                others.append(static_kinds(view.kinds) if view.is_known and not view.never else None)
        return known + others if known else []

    def _made(self, owner: int, path: tuple[str, ...], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds at some fields of what a body gives: by its `end` steps, or by its only step (`do`)."""
        layout = self._layout
        inside = [(one, layout.steps[one]) for one in sorted(layout.inside(owner)) if layout.owner(one) == owner]
        each = self._layout.steps[owner]
        if isinstance(each, ForEachStep) and each.do is not None:
            parts = [one for _, one in inside if isinstance(one, ToolStep | LlmStep)]
            return [kinds for one in parts for kinds in self._value(f"${one.id}.output", path, visited)]
        kinds_found: list[Kinds | None] = []
        for _, step in inside:
            if isinstance(step, EndStep) and step.outcome == "success":
                kinds_found += self._value(step.output, path, visited)
        is_list = isinstance(each, ForEachStep) and not each.is_once
        if is_list and self._meaning.flow.gives(owner) != "always":  # an item without an output is null
            kinds_found.append(_ABSENT if path else _NULL)
        return kinds_found or [_ABSENT if path else _NULL]

    def _value(self, value: Any, path: tuple[str, ...], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds at some fields of a value with references."""
        names = lone_reference(value)
        if names is not None:
            return self._referred(names, path, visited)
        if not path:
            return [kind_of(value)]
        name, rest = path[0], path[1:]
        if isinstance(value, Mapping) and name in value:
            return self._value(value[name], rest, visited)
        if isinstance(value, list | tuple):
            index = index_of(name)
            chosen = value if name == ITEMS else value[index : index + 1] if index is not None else ()
            return [kinds for one in chosen for kinds in self._value(one, rest, visited)] or [_ABSENT]
        return [_ABSENT]

    def _referred(self, names: tuple[str, ...], path: tuple[str, ...], visited: set[Location]) -> list[Kinds | None]:
        """Return the kinds at some fields of a reference: those that are held when it gets its value."""
        resolution = self._names.meaning(names)
        if resolution is None:
            return [None]
        below = resolution._replace(fields=(*resolution.fields, *path))
        of_bodies = self._of_reference(below, visited)
        if of_bodies:
            return of_bodies
        view = self._typing.view(resolution, *path)
        absent = [_ABSENT] if path and (view.optional or not self._has(resolution, path)) else []
        return [*absent, static_kinds(view.kinds) if view.is_known and not view.never else None]

    def _has(self, resolution: Resolution, path: tuple[str, ...]) -> bool:
        """Return whether each field of a path is required by the type of the value that has it; items are no fields."""
        fields = [((*resolution.fields, *path[:depth]), name) for depth, name in enumerate(path) if name[:1] != "["]
        return all(
            name in required(self._typing, (source, owner))
            for source in resolution.sources
            if source.kind not in COPIES
            for owner, name in fields
        )


class _Need(NamedTuple):
    """What an operator needs of an operand, and of the items if that is an array; `word` says who needs it."""

    operand: Expression
    kinds: Kinds
    word: str
    items: Kinds | None = None


def _all_fit(all_kinds: list[Kinds | None], kinds: Kinds) -> bool:
    return all(one is not None and one <= kinds for one in all_kinds)


def _problem(
    clause: Clause, operand: Reference, all_kinds: list[Kinds | None], kinds: Kinds, word: str, whose: str = ""
) -> TypeProblem:
    operand_text = f"{whose}`{clause.text[operand.start : operand.end]}`"
    wrong = frozenset().union(*(one - kinds for one in all_kinds if one is not None))
    message = (
        f"{word} needs {either(kinds)}, but nothing says of what type {operand_text} is, which an `end` step gives"
    )
    if None not in all_kinds:
        message = f"{word} needs {either(kinds)}, but {operand_text}, which an `end` step gives, may be {either(wrong)}"
    return TypeProblem("SW203", message, _HELP, operand.start, operand.end)


def _needs(tree: Expression, *, is_condition: bool) -> Iterator[_Need]:
    """Yield what the operators of an expression need of their operands."""
    if is_condition:
        yield _Need(tree, BOOLEAN, "a condition")
    for node in walk(tree):
        items = FUNCTIONS[node.function].items if isinstance(node, FunctionCall) else None
        yield from (_Need(operand, kinds, f"`{word}`", items) for operand, kinds, word in needs(node))
        if isinstance(node, Compare) and not isinstance(OPERATORS[node.operator].takes, frozenset):
            if isinstance(node.right, Constant):
                yield _on_the_left(node, node.left, node.right)
            if isinstance(node.left, Constant):
                yield _on_the_right(node, node.left, node.right)


def _on_the_left(node: Compare, operand: Expression, constant: Constant) -> _Need:
    """Return what an operator needs of the operand on the left of a constant."""
    match node.operator.removeprefix("not "):
        case "contains":
            kinds = STRING | ARRAY if isinstance(constant.value, str) else ARRAY
            return _Need(operand, kinds, f"`{node.operator}`", kind_of(constant.value) | _NULL)
        case "in" if isinstance(constant.value, tuple):
            return _Need(operand, _NULL.union(*map(kind_of, constant.value)), f"`{node.operator}`")
        case _:
            return _Need(
                operand, ANY if constant.value is None else kind_of(constant.value) | _NULL, f"`{node.operator}`"
            )


def _on_the_right(node: Compare, constant: Constant, operand: Expression) -> _Need:
    """Return what an operator needs of the operand on the right of a constant."""
    match node.operator.removeprefix("not "):
        case "contains" if isinstance(constant.value, tuple):
            return _Need(operand, _NULL.union(*map(kind_of, constant.value)), f"`{node.operator}`")
        case "contains":
            return _Need(operand, STRING, f"`{node.operator}`")
        case "in":
            return _Need(operand, ARRAY, f"`{node.operator}`", kind_of(constant.value) | _NULL)
        case _:
            return _Need(
                operand, ANY if constant.value is None else kind_of(constant.value) | _NULL, f"`{node.operator}`"
            )
