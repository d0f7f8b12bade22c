"""Conditions as terms of Z3: for each expression when it fails, and otherwise its value by kind.

Numbers are reals (whole ones integers), members of an `enum` are numbered, and a text is known by the answers to
questions about it (texts.py). A term describes every possible state, and some impossible ones: what is unsatisfiable is
proved. A model is only a candidate: models.py builds a state from it, and the evaluator checks the state.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, assert_never

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.functions import Functions
from stepward.validator.engine.smt.items import link
from stepward.validator.engine.smt.payloads import Array, Slot, Term, Text, Truth, Value, compares, never_too_long
from stepward.validator.engine.smt.sums import Sums
from stepward.validator.engine.values.domains import Domain, Domains, Names, Range
from stepward.validator.engine.values.numbers import number_of
from stepward.validator.engine.values.texts import Atom, parts_of
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.operators import NUMBER, Question, kind
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
    Template,
)

MAX_PAIRS: Final = 4_096
"""The most pairs of members of two enums in one comparison."""

MAX_PARTS: Final = 100
"""The most parts of a text in one question."""


class TooLarge(Exception):  # noqa: N818 - no error: the verdict is unknown
    """A comparison has too many cases to write out."""


class Terms(ABC):
    """Translates the conditions of one question, in its own Z3 context. Raises OutOfTime at the deadline."""

    def __init__(self, domains: Domains, clock: Clock) -> None:
        clock.check()  # after the deadline questions continue to come, and a context is expensive
        self.context = z3.Context()
        self.domains = domains
        self.clock = clock
        self.slots: dict[Names, Slot] = {}
        self.facts: list[Any] = []
        self.same: dict[tuple[Names, Names], Any] = {}
        self.pairs: list[tuple[Question, Text, Text, Any]] = []
        self.functions = Functions(self)
        self.sums = Sums(self)
        self.is_linear = True
        self.may_be_too_long: Callable[[Expression], bool] = never_too_long
        """Whether a calculation may give a number of over a thousand digits, and so fail."""
        self.too_long: dict[int, tuple[Any, Any]] = {}
        """For each result that may have too many digits, by its number in Z3: the result, and whether it has them."""
        self.variables: list[Any] = []
        """Every variable, in the order of creation."""
        self._count = 0

    # -- small words -----------------------------------------------------------------------------------------------

    def symbol(self, name: str) -> str:
        """Return a name that no other variable has, and that SMT-LIB accepts without quoting."""
        self.clock.check()
        self._count += 1
        return f"{re.sub('[^A-Za-z0-9_.]', '_', name[:40])}_{self._count}"

    def boolean(self, name: str) -> Any:
        """Return a fresh Boolean."""
        self.variables.append(z3.Bool(self.symbol(name), self.context))
        return self.variables[-1]

    def integer(self, name: str) -> Any:
        """Return a fresh integer."""
        self.variables.append(z3.Int(self.symbol(name), self.context))
        return self.variables[-1]

    def number(self, name: str) -> Any:
        """Return a fresh real number."""
        self.variables.append(z3.Real(self.symbol(name), self.context))
        return self.variables[-1]

    def real(self, number: Any) -> Any:
        """Return a number as a term."""
        if isinstance(number, int | Decimal | Fraction):
            fraction = Fraction(number)
            return z3.RealVal(f"{fraction.numerator}/{fraction.denominator}", self.context)
        return number

    def both(self, *parts: Term) -> Term:
        """Return the conjunction."""
        return self._joined(parts, z3.And, decisive=False)

    def either(self, *parts: Term) -> Term:
        """Return the disjunction."""
        return self._joined(parts, z3.Or, decisive=True)

    @staticmethod
    def _joined(parts: tuple[Term, ...], join: Callable[[list[Term]], Term], *, decisive: bool) -> Term:
        if any(part is decisive for part in parts):
            return decisive
        terms = [part for part in parts if not isinstance(part, bool)]
        return join(terms) if len(terms) > 1 else terms[0] if terms else not decisive

    @staticmethod
    def no(part: Term) -> Term:
        """Return the negation."""
        return not part if isinstance(part, bool) else z3.Not(part)

    def state(self, condition: Term) -> None:
        """Add a fact that holds in every state."""
        if condition is not True:
            self.facts.append(z3.BoolVal(False, self.context) if condition is False else condition)

    # -- references ------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, names: Names) -> Value:
        """Return the value of a reference."""

    def made(self, names: Names, domain: Domain, has_holder: Term = True) -> Slot:
        """Return a new slot for any value of a domain, or for no value where `has_holder` is false."""
        kinds = sorted(domain.kinds)
        if domain.undefined or has_holder is not True:
            kinds.append("undefined")
        word = written(names)
        slot = Slot(names, tuple(kinds), self._guards(word, kinds))
        is_undefined = slot.guards.get("undefined", False)
        self.state(self.either(has_holder, is_undefined))
        if not domain.undefined:
            self.state(self.either(self.no(has_holder), self.no(is_undefined)))
        if not kinds:
            self.state(False)
        if domain.booleans:
            slot.boolean = min(domain.booleans) if len(domain.booleans) == 1 else self.boolean(word)
        if domain.ranges:
            slot.number = self._number(word, domain.ranges)
        if domain.any_text:
            slot.text = Text(names, None, max_length=domain.max_length, forms=domain.forms, known=domain.texts)
        elif domain.texts:
            number = self.integer(word)
            self.state(z3.And(number >= 0, number < len(domain.texts)))
            slot.text = Text(names, domain.texts, number)
        if domain.array:
            slot.array = Array(names, domain.items, self.integer(word))
            self.state(slot.array.length >= domain.least)
            self.state(True if domain.most is None else slot.array.length <= domain.most)
        return slot

    def _guards(self, word: str, kinds: list[str]) -> dict[str, Term]:
        if len(kinds) <= 1:
            return dict.fromkeys(kinds, True)
        if len(kinds) == 2:
            first = self.boolean(word)
            return {kinds[0]: first, kinds[1]: z3.Not(first)}
        tag = self.integer(word)
        self.state(z3.And(tag >= 0, tag < len(kinds)))
        return {one: tag == number for number, one in enumerate(kinds)}

    def _number(self, word: str, ranges: tuple[Range, ...]) -> Any:
        number = z3.ToReal(self.integer(word)) if all(one.integral for one in ranges) else self.number(word)
        self.state(self.either(*(self._in_range(number, one, ranges) for one in ranges)))
        return number

    def _in_range(self, number: Any, range_: Range, ranges: tuple[Range, ...]) -> Term:
        is_whole = range_.integral and not all(other.integral for other in ranges)
        return self.both(
            True
            if range_.low is None
            else number > self.real(range_.low)
            if range_.above
            else number >= self.real(range_.low),
            True
            if range_.high is None
            else number < self.real(range_.high)
            if range_.below
            else number <= self.real(range_.high),
            z3.IsInt(number) if is_whole else True,
        )

    # -- expressions -----------------------------------------------------------------------------------------------

    def truth(self, tree: Expression) -> Truth:
        """Return when a condition holds and when it fails; it is false in a state iff neither is true."""
        self.clock.check()
        match tree:
            case Defined(reference=reference):
                return Truth(self.no(self.read(reference.names).fails), False)
            case Negation(operand=operand):
                inner = self.truth(operand)
                return Truth(self.both(self.no(inner.holds), self.no(inner.fails)), inner.fails)
            case Logic(operator=operator, operands=operands):
                return self._logic(operands, decisive=operator == "or")
            case Compare():
                return self._compare(tree)
            case _:
                value = self.value(tree)
                guard, holds = value.kinds.get("boolean", (False, False))
                others = [one for word, (one, _) in value.kinds.items() if word != "boolean"]
                return Truth(self.both(guard, holds), self.either(value.fails, *others))

    def _logic(self, operands: tuple[Expression, ...], *, decisive: bool) -> Truth:
        reached: Term = True
        decided, fails = [], []
        for operand in operands:
            part = self.truth(operand)
            decides = part.holds if decisive else self.both(self.no(part.holds), self.no(part.fails))
            decided.append(self.both(reached, decides))
            fails.append(self.both(reached, part.fails))
            reached = self.both(reached, self.no(decides), self.no(part.fails))
        return Truth(self.either(*decided) if decisive else reached, self.either(*fails))

    def value(self, tree: Expression) -> Value:
        """Return an expression's value by kind."""
        match tree:
            case Constant(value=value):
                return Value(False, {kind(value): (True, value)})
            case Reference(names=names):
                return self.read(names)
            case FunctionCall(function="len", operand=operand):
                return self._length(self.value(operand))
            case FunctionCall(function=function, operand=operand, literal=literal):
                return self.functions.of(function, self.value(operand), literal)
            case Minus(operand=operand):
                fails, number = self._number_of(self.value(operand))
                return Value(fails, {"number": (self.no(fails), self.real(0) - self.real(number))})
            case Arithmetic(first=first, rest=rest, joins=joins) if joins - NUMBER:
                result = self.value(first)
                for _, operand in rest:
                    result = self.sums.plus(result, self.value(operand), lambda a, b: self._added(tree, a, b))
                return result
            case Arithmetic(first=first, rest=rest):
                total = self._number_of(self.value(first))
                for sign, operand in rest:
                    total = self._added(tree, total, self._number_of(self.value(operand)), sign)
                return Value(total[0], {"number": (self.no(total[0]), total[1])})
            case Built() | Template():
                return self.sums.of_parts(tree, self.value)
            case Defined() | Negation() | Logic() | Compare():
                holds, fails = self.truth(tree)
                return Value(fails, {"boolean": (self.no(fails), holds)})
            case _:
                assert_never(tree)

    def _number_of(self, value: Value) -> tuple[Term, Any]:
        guard, number = value.kinds.get("number", (False, 0))
        others = [one for word, (one, _) in value.kinds.items() if word != "number"]
        return self.either(value.fails, *others, *([] if guard is not False else [True])), number

    def _added(self, tree: Expression, left: tuple[Term, Any], right: tuple[Term, Any], sign: str = "+") -> Any:
        fails, result = self._calculated(sign, left, right)
        return self.either(fails, self._is_too_long(result, tree)), result

    def _calculated(self, sign: str, left: tuple[Term, Any], right: tuple[Term, Any]) -> tuple[Term, Any]:
        a, b = left[1], right[1]
        known = [isinstance(side, int | Decimal | Fraction) for side in (a, b)]
        if all(known):
            a, b = Fraction(a), Fraction(b)
        else:
            a, b = self.real(a), self.real(b)
            self.is_linear &= sign != "*" or any(known)
        result = a + b if sign == "+" else a - b if sign == "-" else a * b
        return self.either(left[0], right[0]), result

    def _is_too_long(self, result: Any, tree: Expression) -> Term:
        """Return whether a result has too many digits: known of constants, else an open question, with one answer for
        one term."""
        if not z3.is_expr(result):
            return number_of(result) is None
        if not self.may_be_too_long(tree):
            return False
        if result.get_id() not in self.too_long:
            self.too_long[result.get_id()] = result, self.boolean("too_long")
        return self.too_long[result.get_id()][1]

    def _length(self, value: Value) -> Value:
        fails, parts = value.fails, []
        for word, (guard, payload) in value.kinds.items():
            if word in ("string", "array"):
                parts.append((guard, self.length_of(payload)))
            else:
                fails = self.either(fails, guard)
        if not parts:
            return Value(True, {})
        result = parts[0][1]
        for guard, length in parts[1:]:
            result = z3.If(guard, length, result) if guard is not True else length
        return Value(fails, {"number": (self.no(fails), result)})

    def length_of(self, payload: Any) -> Any:
        """Return the length of a text or an array."""
        if isinstance(payload, str | tuple):
            return self.real(len(payload))
        if isinstance(payload, Text):
            if payload.members is not None:
                lengths = [self.real(len(member)) for member in payload.members]
                result = lengths[-1]
                for number, length in enumerate(lengths[:-1]):
                    result = z3.If(payload.number == number, length, result)
                return result
            return z3.ToReal(self.text_length(payload))
        return z3.ToReal(payload.length)

    def found_in(self, text: Any, pattern: str) -> Term:
        """Return whether a pattern is found in a text."""
        return self.functions.found_in(text, pattern)

    def text_length(self, text: Text) -> Any:
        """Return the length of a text that is not an enum member."""
        if text.length is None:
            text.length = self.integer(f"len {written(text.names)}")
            if text.halves is not None:
                self.state(z3.ToReal(text.length) == self.sums.length(text))
        return text.length

    def _compare(self, tree: Compare) -> Truth:
        left, right = self.value(tree.left), self.value(tree.right)
        holds, fails = [], [left.fails, right.fails]
        for left_word, (guard, payload) in left.kinds.items():
            for right_word, (other_guard, right_payload) in right.kinds.items():
                guards = self.both(guard, other_guard)
                if guards is False:
                    continue
                result = self._pair(tree, (left_word, payload), (right_word, right_payload))
                holds.append(self.both(guards, result.holds, self.no(result.fails)))
                fails.append(self.both(guards, result.fails))
        failed = self.either(*fails)
        return Truth(self.both(self.either(*holds), self.no(self.either(left.fails, right.fails))), failed)

    def _pair(self, tree: Compare, left: tuple[str, Any], right: tuple[str, Any]) -> Truth:
        """Return the comparison of two values of known kinds."""
        operator = tree.operator
        match operator:
            case "==" | "!=":
                holds, fails = self.equal(left, right)
            case "in" | "not in":
                holds, fails = self.member(tree.left, left, right)
            case "contains" | "not contains" if left[0] == "array":
                holds, fails = self.member(tree.right, right, left)
            case "contains" | "not contains" | "starts_with" | "ends_with":
                question: Question = "contains" if operator == "not contains" else operator
                are_texts = left[0] == right[0] == "string"
                holds, fails = (self.answer_of(question, left[1], right[1]), False) if are_texts else (False, True)
            case "<" | "<=" | ">" | ">=":
                if left[0] != "number" or right[0] != "number":
                    return Truth(False, True)
                a, b = self.real(left[1]), self.real(right[1])
                holds, fails = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator], False
            case _:
                assert_never(operator)
        return Truth(self.no(holds) if operator in ("!=", "not in", "not contains") else holds, fails)

    def equal(self, left: tuple[str, Any], right: tuple[str, Any]) -> Truth:
        """Return when two values of known kinds are equal, and when they can't be compared."""
        if "null" in (left[0], right[0]):
            return Truth(left[0] == right[0], False)
        if left[0] != right[0] or left[0] in ("array", "object"):
            return Truth(False, True)
        a, b = left[1], right[1]
        if left[0] == "number":
            return Truth(self.real(a) == self.real(b), False)
        if left[0] == "boolean":
            if isinstance(a, bool):
                a, b = b, a
            if isinstance(b, bool):
                return Truth(a if b else self.no(a), False)
            return Truth(a == b, False)
        return Truth(self.answer_of("is", a, b), False)

    def answer_of(self, question: Question, holder: Any, compared: Any) -> Term:
        """Return the answer to a question about a text, with a literal or another text."""
        if isinstance(compared, str):
            if isinstance(holder, str):
                return Atom(question, compared).of(holder)
            if holder.members:
                return self._members(holder, lambda text: Atom(question, compared).of(text))
            return self.atom(holder, Atom(question, compared))
        if holder is compared:
            return True
        if question == "is" and isinstance(holder, str):
            return self.answer_of("is", compared, holder)
        if compared.members is not None:
            self.bounded(len(compared.members) * len(getattr(holder, "members", None) or (1,)), MAX_PAIRS)
            return self._of_members(compared, lambda member: self.answer_of(question, holder, member))
        if isinstance(holder, str):
            parts = parts_of(question, holder)
            self.bounded(len(parts), MAX_PARTS)
            return self.either(*(self.atom(compared, Atom("is", part)) for part in parts))
        if holder.members is not None:
            self.bounded(sum(len(member) ** 2 for member in holder.members), MAX_PAIRS)
            return self._of_members(holder, lambda member: self.answer_of(question, member, compared))
        return self._between(question, holder, compared)

    def _of_members(self, text: Text, ask: Callable[[str], Term]) -> Term:
        """Return the answer about a text of an enum, from the answers about each member."""
        answers = enumerate(map(ask, text.members or ()))
        return self.either(*(self.both(text.number == number, answer) for number, answer in answers))

    @staticmethod
    def bounded(cases: int, limit: int) -> None:
        """Raise TooLarge where there are too many cases to write out."""
        if cases > limit:
            raise TooLarge

    def _members(self, text: Text, holds: Callable[[str], bool]) -> Term:
        assert text.members is not None
        fitting = [number for number, member in enumerate(text.members) if holds(member)]
        if len(fitting) == len(text.members):
            return True
        return self.either(*(text.number == number for number in fitting))

    def atom(self, text: Text, atom: Atom) -> Term:
        """Return the answer to one question about a text that is not an enum member."""
        if atom.question != "is" and not atom.literal:
            return True
        if text.max_length is not None and len(atom.literal) > text.max_length:
            return False
        if atom not in text.atoms:
            text.atoms[atom] = self.boolean(f"{written(text.names)} {atom.question} {atom.literal!r}")
            answer = self.sums.answer(text, atom)
            if answer is not None:
                self.state(text.atoms[atom] == answer)
        return text.atoms[atom]

    def _between(self, question: Question, holder: Text, other: Text) -> Term:
        pair = (holder.names, other.names) if holder.names <= other.names else (other.names, holder.names)
        if pair not in self.same:
            self.same[pair] = self.boolean("same")
        equal = self.same[pair]
        if question == "is":
            return equal
        answer = self.boolean(question)
        self.pairs.append((question, holder, other, answer))
        self.state(self.either(self.no(self.either(equal, self.sums.suffices(question, holder, other))), answer))
        self.state(z3.Implies(answer, self.text_length(holder) >= self.text_length(other)))
        return answer

    def member(self, item_tree: Expression, item: tuple[str, Any], array: tuple[str, Any]) -> Truth:
        """Return when an array contains an item of a known kind, and when the search for it fails."""
        word, payload = array
        if word != "array":
            return Truth(False, True)
        if isinstance(payload, Array) and payload.halves is not None:
            first, second = (self.member(item_tree, item, (word, half)) for half in payload.halves)
            return self.sums.member(first, second)
        if isinstance(payload, Array) and payload.parts is not None:
            return self.sums.member_of(payload.parts, lambda element: self.equal(item, element))
        if isinstance(payload, tuple):
            reached: Term = True
            holds, fails = [], []
            for literal in payload:
                part = self.equal(item, (kind(literal), literal))
                holds.append(self.both(reached, part.holds))
                fails.append(self.both(reached, part.fails))
                reached = self.both(reached, self.no(part.holds), self.no(part.fails))
            return Truth(self.either(*holds), self.either(*fails))
        if item[0] in ("array", "object") or not isinstance(item_tree, Constant):
            is_found, failed = self.boolean("in"), self.boolean("in fails")
            payload.lookups.append((item_tree, is_found, failed))
            self.state(z3.Implies(is_found, z3.And(payload.length >= 1, z3.Not(failed))))
            self.state(z3.Implies(failed, payload.length >= 1))
            if compares(payload.items, item[0]):
                self.state(z3.Not(failed))
            return Truth(is_found, failed)
        return self.holds(payload, item[0], item[1])

    def holds(self, array: Array, word: str, literal: Any) -> Truth:
        """Return when an array contains a literal, and when the search for it fails on an item of another kind."""
        key = (word, literal)
        if key not in array.holds:
            can_hold = array.items is None or array.items.allows(literal)
            array.holds[key] = self.boolean("holds") if can_hold else False
            array.fails[key] = False if compares(array.items, word) else self.boolean("holds fails")
            for term in (array.holds[key], array.fails[key]):
                if term is not False:
                    self.state(z3.Implies(term, array.length >= 1))
            self.state(self.no(self.both(array.holds[key], array.fails[key])))
            for slot in array.indexed:
                link(self, array, key, slot)
        return Truth(array.holds[key], array.fails[key])
