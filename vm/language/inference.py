"""From every use of a name to its type: what an undeclared name must be, the machine enforces like a declaration.

Arithmetic and order need numbers, text operators text, a comparison the type of its other side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepward.vm.expressions.evaluator import kind
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    Length,
    Logic,
    Minus,
    Negation,
    Reference,
    children,
    walk,
)
from stepward.vm.language.name_types import (
    ANY,
    ARRAY,
    BOOLEAN,
    ITEMS,
    NUMBER,
    SIZED,
    STRING,
    Location,
    Typing,
    Use,
    static_kinds,
)
from stepward.vm.language.names import Source
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Clause, Meaning

_IMPLIED_ITEMS: Final = (ITEMS,)
_BETWEEN_EQUALS: Final = frozenset(["==", "!=", "<", "<=", ">", ">="])
_ONE_KIND: Final = {word: frozenset({word}) for word in ANY}


def infer(meaning: Meaning) -> Typing:
    """Return the types of a program's names, from its declarations and from every use in its expressions."""
    typing = Typing(meaning)
    collector = _Collector(meaning, typing)
    # What a `set` assigns comes first: a use that does not fit it is then the one that is reported.
    for number, step in enumerate(meaning.program.steps):
        for name, value in step.assigns.items():
            if not isinstance(value, str):
                path: Path = ("steps", number, "set", name)
                typing.need((Source("set", name, path, number), ()), Use(kind_of(value), path, 0, 0, "this assignment"))
    for clause in sorted(meaning.clauses, key=lambda clause: clause.is_condition):
        if clause.tree is not None:
            collector.clause(clause, clause.tree)
    collector.finish()
    return typing


def kind_of(value: object) -> frozenset[str]:
    """Return the kind of a constant, as a set of one."""
    return _ONE_KIND[kind(value)]


class _Collector:
    """Walks expressions and tells the typing what each use needs."""

    def __init__(self, meaning: Meaning, typing: Typing) -> None:
        self.meaning = meaning
        self.typing = typing
        self.path: Path = ()
        self.known: list[tuple[Location, Location, Use]] = []
        self._undeclared: dict[tuple[str, ...], list[Location]] = {}

    def clause(self, clause: Clause, tree: Expression) -> None:
        self.path = clause.path
        if clause.is_condition:
            if self.says_nothing(tree):
                return
            self.need(tree, BOOLEAN, "a condition")
        else:
            source = Source("set", str(clause.path[-1]), clause.path, clause.step)
            self.equate((source, ()), tree)
        for node in walk(tree):
            self.node(node)

    def says_nothing(self, tree: Expression) -> bool:
        """Return whether a declared name is compared with a constant, as in most conditions: no type follows."""
        return (
            isinstance(tree, Compare)
            and tree.operator in _BETWEEN_EQUALS
            and isinstance(tree.left, Reference)
            and isinstance(tree.right, Constant)
            and len(tree.left.names) == 1  # of a field it must be noted that it is read
            and not self.open(tree.left.names)
        )

    def node(self, node: Expression) -> None:
        match node:
            case Constant():
                pass
            case Reference(names=names):
                for location in self.locations(names) if len(names) > 1 else ():  # only a field has an owner
                    self.typing.note_read(location, asked_only=False)
            case Compare():
                self.comparison(node)
            case Defined(reference=reference):
                for location in self.locations(reference.names):
                    self.typing.note_read(location, asked_only=True)
            case Length(operand=operand):
                self.need(operand, SIZED, "`len`")
            case Negation(operand=operand):
                self.need(operand, BOOLEAN, "`not`")
            case Logic(operator=operator):
                self.need_all(children(node), BOOLEAN, f"`{operator}`")
            case Arithmetic(rest=rest):
                self.need_all(children(node), NUMBER, f"`{rest[0][0]}`")
            case Minus(operand=operand):
                self.need(operand, NUMBER, "`-`")
            case _:
                pass

    def need_all(self, operands: tuple[Expression, ...], kinds: frozenset[str], words: str) -> None:
        for operand in operands:
            self.need(operand, kinds, words)

    def comparison(self, node: Compare) -> None:
        words = f"`{node.operator}`"
        if node.operator in ("<", "<=", ">", ">="):
            self.need(node.left, NUMBER, words)
            self.need(node.right, NUMBER, words)
        elif node.operator in ("starts_with", "ends_with"):
            self.need(node.left, STRING, words)
            self.need(node.right, STRING, words)
        elif node.operator in ("==", "!="):
            self.equal(node.left, node.right, words)
        elif node.operator in ("in", "not in"):
            self.need(node.right, ARRAY, words)
            self.member(node.left, node.right, words)
        else:
            self.contains(node, words)

    def contains(self, node: Compare, words: str) -> None:
        """`contains` is a text operator, unless what is contained is certainly no text."""
        if isinstance(node.right, Constant) and not isinstance(node.right.value, str):
            self.need(node.left, ARRAY, words)
            self.member(node.right, node.left, words)
        elif (isinstance(node.left, Reference) and self.kinds(node.left) == ARRAY) or (
            isinstance(node.left, Constant) and isinstance(node.left.value, tuple)
        ):
            self.member(node.right, node.left, words)
        else:
            self.need(node.left, STRING, words)
            self.need(node.right, STRING, words)

    def member(self, item: Expression, array: Expression, words: str) -> None:
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            for value in array.value[:1]:
                self.need(item, kind_of(value), words)
        elif isinstance(array, Reference):
            for source, way in self.locations(array.names):
                self.typing.note_read((source, way + _IMPLIED_ITEMS), asked_only=False)
                self.equate((source, way + _IMPLIED_ITEMS), item, words)

    def equal(self, left: Expression, right: Expression, words: str) -> None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Reference):
                # A declared type learns nothing from a constant; from another reference that one may.
                for location in self.locations(one.names) if isinstance(other, Reference) else self.open(one.names):
                    self.equate(location, other, words)

    def equate(self, location: Location, other: Expression, words: str = "this assignment") -> None:
        """The two have one type: note it for an undeclared location."""
        if isinstance(other, Constant) and other.value is None:
            self.typing.admit_null(location)
        elif isinstance(other, Reference):
            use = Use(ANY, self.path, other.start, other.end, words)
            for twin in self.locations(other.names):
                self.known.append((location, twin, use))
        elif self.typing.spec(location) is None:
            self.typing.need(location, Use(result_kinds(other), self.path, other.start, other.end, words))

    def finish(self) -> None:
        """Unite what is undeclared on both sides, then pass declared types over to the undeclared side."""
        typing = self.typing
        for left, right, _ in self.known:
            if typing.spec(left) is None and typing.spec(right) is None:
                typing.unite(left, right)
        for left, right, use in self.known:
            for one, other in ((left, right), (right, left)):
                spec = typing.spec(other)
                if spec is not None and typing.spec(one) is None:
                    kinds = static_kinds(spec.kinds)
                    if "null" in kinds and len(kinds) > 1:
                        typing.admit_null(one)
                        kinds -= {"null"}
                    typing.need(one, Use(kinds, use.path, use.start, use.end, use.words))

    def need(self, operand: Expression, kinds: frozenset[str], words: str) -> None:
        if isinstance(operand, Reference):
            for location in self.open(operand.names):
                self.typing.need(location, Use(kinds, self.path, operand.start, operand.end, words))

    def open(self, names: tuple[str, ...]) -> list[Location]:
        """Return the locations that a reference speaks of and nobody declares: only their types are inferred."""
        found = self._undeclared.get(names)
        if found is None:
            found = [location for location in self.locations(names) if self.typing.spec(location) is None]
            self._undeclared[names] = found
        return found

    def kinds(self, reference: Reference) -> frozenset[str]:
        meant = self.meaning.names.meaning(reference.names)
        # Not `view`: it remembers its answers, and uses are still being collected.
        return self.typing.fresh_view(meant).kinds if meant else ANY

    def locations(self, names: tuple[str, ...]) -> list[Location]:
        meant = self.meaning.names.meaning(names)
        return [(source, meant.fields) for source in meant.sources] if meant is not None else []


def result_kinds(tree: Expression) -> frozenset[str]:
    """Return the kind of value that an expression other than a reference gives."""
    match tree:
        case Constant(value=value):
            return kind_of(value)
        case Length() | Arithmetic() | Minus():
            return NUMBER
        case _:
            return BOOLEAN
