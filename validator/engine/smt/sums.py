"""`+` of language 2 as terms: a sum, or two texts or arrays that are joined.

A joined text answers a question exactly as its two halves do: it contains a literal if one half does, or if the first
ends and the second starts with the two parts of one of its splits. So it needs no string solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import proxy

import z3

from stepward.validator.engine.smt.functions import Functions
from stepward.validator.engine.smt.payloads import Array, Term, Text, Truth, Value
from stepward.validator.engine.values.domains import NOTHING, Domain, of_constant, of_kinds
from stepward.validator.engine.values.texts import Atom
from stepward.vm.expressions.operators import Question
from stepward.vm.expressions.syntax import Built, Expression, Template

MAX_MEMBERS = 256
"""The most members of a text that is joined from two enums."""

MAX_SPLITS = 64
"""The longest literal for which the splits are written out; of a longer one nothing is known."""

MAX_JOINS = 150
"""The most texts that are joined one after the other: each is asked about inside of the answer about the next."""

KINDS = ("number", "string", "array")

Number = tuple[Term, Any]
"""When a calculation fails, and its number."""


class Writer(Protocol):
    """What is needed of the terms of one question."""

    context: z3.Context
    functions: Functions

    def both(self, *parts: Term) -> Term:
        """Return the conjunction."""

    def either(self, *parts: Term) -> Term:
        """Return the disjunction."""

    def no(self, part: Term) -> Term:
        """Return the negation."""

    def state(self, condition: Term) -> None:
        """Add a fact that holds in every state."""

    def bounded(self, cases: int, limit: int) -> None:
        """Raise TooLarge where there are too many cases."""

    def integer(self, name: str) -> Any:
        """Return a fresh integer."""

    def symbol(self, name: str) -> str:
        """Return a name that no other variable has."""

    def answer_of(self, question: Question, holder: Any, compared: Any) -> Term:
        """Return the answer to a question about a text."""

    def length_of(self, payload: Any) -> Any:
        """Return the length of a text or an array."""


class Sums:
    """The texts and arrays that are joined in one question's terms. Equal halves give one joined value."""

    def __init__(self, terms: Writer) -> None:
        self.terms: Writer = proxy(terms)  # the terms refer to us: no reference cycle, which would hold Z3's memory
        self.texts: list[Text] = []
        """The joined texts that are no members of an enum, after the halves that they are joined from."""
        self._known: dict[tuple[Any, Any], tuple[Any, Any, Any]] = {}
        self._joins: dict[int, int] = {}

    def plus(self, left: Value, right: Value, added: Callable[[Number, Number], Number]) -> Value:
        """Return the value of `+`; `added` adds two numbers."""
        terms, kinds = self.terms, {}
        fails: list[Term] = [left.fails, right.fails]
        fitting = []
        for kind in KINDS:
            (left_guard, a), (right_guard, b) = (
                left.kinds.get(kind, (False, None)),
                right.kinds.get(kind, (False, None)),
            )
            guard = terms.both(left_guard, right_guard)
            if guard is False:
                continue
            fitting.append(guard)
            if kind == "number":
                failed, payload = added((False, a), (False, b))
                fails.append(terms.both(guard, failed))
                guard = terms.both(guard, terms.no(failed))
            else:
                payload = self._joined(a, b)
            kinds[kind] = guard, payload
        return Value(terms.either(*fails, terms.no(terms.either(*fitting))), kinds)

    def _joined(self, left: Any, right: Any) -> Any:
        if type(left) is type(right) and isinstance(left, str | tuple):
            return left + right
        key = tuple(side if isinstance(side, str | tuple) else id(side) for side in (left, right))
        if key not in self._known:
            is_text = isinstance(left, str | Text) or isinstance(right, str | Text)
            joined = self._text(left, right) if is_text or not _is_array(left, right) else self._array(left, right)
            self._known[key[0], key[1]] = left, right, joined
        return self._known[key[0], key[1]][2]

    # -- texts -----------------------------------------------------------------------------------------------------

    def _text(self, left: Any, right: Any) -> Text:
        names = (self.terms.symbol("=joined"),)
        first, second = _members(left), _members(right)
        if first is not None and second is not None and len(first) * len(second) <= MAX_MEMBERS:
            members = tuple(one + other for one in first for other in second)
            return Text(names, members, _number(left) * len(second) + _number(right))
        text = Text(names, None, halves=(left, right))
        joins = 1 + max(self._joins.get(id(left), 0), self._joins.get(id(right), 0))
        self.terms.bounded(joins, MAX_JOINS)
        self._joins[id(text)] = joins
        self.texts.append(text)
        return text

    def length(self, text: Text) -> Any:
        """Return the length of a joined text, as the sum of its halves'."""
        left, right = text.halves or ("", "")
        return self.terms.length_of(left) + self.terms.length_of(right)

    def answer(self, text: Text, atom: Atom) -> Term | None:
        """Return the answer to a question about a joined text, None for a literal that is too long."""
        terms, literal = self.terms, atom.literal
        if text.halves is None or len(literal) > MAX_SPLITS:
            return None
        left, right = text.halves
        first: Question = "is" if atom.question in ("is", "starts_with") else "ends_with"
        second: Question = "is" if atom.question in ("is", "ends_with") else "starts_with"
        splits = range(len(literal) + 1) if atom.question == "is" else range(1, len(literal))
        options = [
            terms.both(terms.answer_of(first, left, literal[:at]), terms.answer_of(second, right, literal[at:]))
            for at in splits
        ]
        match atom.question:
            case "is":
                pass
            case "starts_with":
                options.append(terms.answer_of("starts_with", left, literal))
                options.append(
                    terms.both(terms.answer_of("is", left, ""), terms.answer_of("starts_with", right, literal))
                )
            case "ends_with":
                options.append(terms.answer_of("ends_with", right, literal))
                options.append(
                    terms.both(terms.answer_of("is", right, ""), terms.answer_of("ends_with", left, literal))
                )
            case "contains":
                options += [terms.answer_of("contains", left, literal), terms.answer_of("contains", right, literal)]
        return terms.either(*options)

    def suffices(self, question: Question, text: Text, other: Any) -> Term:
        """Return whether one of the halves of a joined text answers a question about another text for both."""
        if text.halves is None:
            return False
        halves = {"starts_with": text.halves[:1], "ends_with": text.halves[1:]}.get(question, text.halves)
        return self.terms.either(
            *(
                half is other or self.terms.answer_of(question, half, other)
                for half in halves
                if not isinstance(half, str)
            )
        )

    # -- arrays ----------------------------------------------------------------------------------------------------

    def _array(self, left: Any, right: Any) -> Array:
        names = (self.terms.symbol("=joined"),)
        array = Array(names, _items(left, right), self.terms.integer("joined"), halves=(left, right))
        self.terms.state(z3.ToReal(array.length) == self.terms.length_of(left) + self.terms.length_of(right))
        return array

    def of_parts(self, tree: Built | Template, value: Callable[[Expression], Value]) -> Value:
        """Return the value of a list, an object or a template, from those of its parts."""
        parts = [value(part) for part in tree.parts]
        if isinstance(tree, Template):
            return self.template(parts)
        value_built = self.built(parts, is_list=tree.is_list)
        if tree.base is None:
            return value_built
        base = value(tree.base)
        is_none = self.terms.either(base.fails, *(when for kind, (when, _) in base.kinds.items() if kind != "object"))
        fails = self.terms.either(value_built.fails, is_none)
        return Value(fails, {"object": (self.terms.no(fails), value_built.kinds["object"][1])})

    def built(self, parts: Sequence[Value], *, is_list: bool) -> Value:
        """Return the value of a list or an object of parts: each of them has a value, and none of them fails."""
        fails = self.terms.either(*(part.fails for part in parts))
        names = (self.terms.symbol("=built"),)
        if not is_list:
            return Value(fails, {"object": (self.terms.no(fails), names)})
        kinds = frozenset(kind for part in parts for kind in part.kinds)
        length = z3.IntVal(len(parts), self.terms.context)
        return Value(
            fails, {"array": (self.terms.no(fails), Array(names, of_kinds(kinds), length, parts=tuple(parts)))}
        )

    def template(self, parts: Sequence[Value]) -> Value:
        """Return the text of a template: known where its references are texts, any text where they are not."""
        fails = self.terms.either(*(part.fails for part in parts))
        text: Any = ""
        for part in parts:
            is_text = part.kinds.keys() == {"string"}
            text = self._joined(text, part.kinds["string"][1] if is_text else self.terms.functions.any_text("template"))
        return Value(fails, {"string": (self.terms.no(fails), text)})

    def member_of(self, parts: Sequence[Value], equal: Callable[[tuple[str, Any]], Truth]) -> Truth:
        """Return when a built list contains an item, and when the search for it fails: it ends at a match."""
        terms = self.terms
        result = Truth(False, False)
        for part in parts:
            holds, fails = [], []
            for kind, (guard, payload) in part.kinds.items():
                match = equal((kind, payload))
                holds.append(terms.both(guard, match.holds))
                fails.append(terms.both(guard, match.fails))
            result = self.member(result, Truth(terms.either(*holds), terms.either(*fails)))
        return result

    def member(self, first: Truth, second: Truth) -> Truth:
        """Return when a joined array contains an item, and when the search for it fails, from both of its halves."""
        terms = self.terms
        reached = terms.both(terms.no(first.holds), terms.no(first.fails))
        return Truth(
            terms.either(first.holds, terms.both(reached, second.holds)),
            terms.either(first.fails, terms.both(reached, second.fails)),
        )


def _is_array(left: Any, right: Any) -> bool:
    """Return whether halves are arrays; two merged values say it by their parts."""
    for side in (left, right):
        part = side
        while not isinstance(part, str | tuple | Text | Array):
            part = part.parts[-1][1]
        if isinstance(part, tuple | Array):
            return True
    return False


def _members(side: Any) -> tuple[str, ...] | None:
    if isinstance(side, str):
        return (side,)
    return side.members if isinstance(side, Text) else None


def _number(side: Any) -> Any:
    return 0 if isinstance(side, str) else side.number


def _items(*sides: Any) -> Domain | None:
    """Return the domain of the items of both arrays, None where one is not known."""
    domain = NOTHING
    for side in sides:
        if isinstance(side, tuple):
            for item in side:
                domain |= of_constant(item)
        elif isinstance(side, Array) and side.items is not None:
            domain |= side.items
        else:
            return None
    return domain
