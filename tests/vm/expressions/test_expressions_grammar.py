"""The condition language a second time: a grammar and an evaluator, written from the language's page.

Both read `language: 2`, in which `+` also joins. The two are held against `stepward.vm.expressions` on conditions that
Hypothesis generates and breaks: both accept or both refuse a text, and where both accept it has the same value, or
none, in every state. Where the page is silent, the grammar states what was chosen: a list may end with a comma, its
items are not in parentheses, and `defined` may.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Final

import lark
import pytest
import re2
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evaluations import lookup_in
from sizes import size
from stepward.vm.errors import EvaluationError, ExpressionError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.parser import parse
from stepward.vm.patterns.acceptance import require_accepted
from stepward.vm.patterns.syntax import PatternError
from strategies import conditions, mutated_conditions, states

GRAMMAR: Final = r"""
start: disjunction

disjunction: conjunction (OR conjunction)*
conjunction: negation (AND negation)*
negation: NOT negation -> not_
        | comparison
comparison: sum [operator sum]
operator: EQUAL | UNEQUAL | LESS | LESS_EQUAL | MORE | MORE_EQUAL | STARTS | ENDS
        | IN | NOT IN -> not_in | CONTAINS | NOT CONTAINS -> not_contains
sum: product ((PLUS | MINUS) product)*
product: unary (TIMES unary)*
unary: MINUS unary -> minus
     | primary
primary: NUMBER -> number
       | TEXT -> text
       | TRUE -> true
       | FALSE -> false
       | NULL -> null
       | REFERENCE -> reference
       | "[" [item ("," item)* [","]] "]" -> array
       | LEN "(" disjunction ")" -> len
       | CHANGE "(" disjunction ")" -> changed
       | JOIN "(" disjunction "," TEXT ")" -> joined
       | MATCHES "(" disjunction "," TEXT ")" -> matching
       | DEFINED "(" asked ")" -> defined
       | "(" disjunction ")" -> group
item: NUMBER -> number
    | MINUS NUMBER -> negative
    | TEXT -> text
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | REFERENCE -> reference
asked: REFERENCE | "(" asked ")"

OR: /or(?!\w)/
AND: /and(?!\w)/
NOT: /not(?!\w)/
IN: /in(?!\w)/
CONTAINS: /contains(?!\w)/
STARTS: /starts_with(?!\w)/
ENDS: /ends_with(?!\w)/
LEN: /len(?!\w)/
CHANGE: /(lower|upper|trim)(?!\w)/
JOIN: /join(?!\w)/
MATCHES: /matches(?!\w)/
DEFINED: /defined(?!\w)/
TRUE: /true(?!\w)/
FALSE: /false(?!\w)/
NULL: /null(?!\w)/
EQUAL: "=="
UNEQUAL: "!="
LESS_EQUAL: "<="
MORE_EQUAL: ">="
LESS: "<"
MORE: ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
NUMBER: /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![\w.])/
TEXT: /'(?:[^'\\]|\\(?:[\\'"nrt]|u[0-9A-Fa-f]{4}))*'|"(?:[^"\\]|\\(?:[\\'"nrt]|u[0-9A-Fa-f]{4}))*"/
REFERENCE: /\$[^\W\d]\w*(\.[^\W\d]\w*)*/
SPACE: /[ \t\r\n]+/
%ignore SPACE
"""

LARK: Final = lark.Lark(GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=False)


class RefusedError(Exception):
    """The text is no condition: a rule that a grammar can't state is broken."""


class NoValueError(Exception):
    """The third result: the evaluation fails."""


# -- what a grammar can't state -------------------------------------------------------------------------------------


def second_parse(text: str) -> lark.Tree[lark.Token]:
    try:
        tree = LARK.parse(text)
    except lark.UnexpectedInput:
        raise RefusedError from None
    for node in tree.iter_subtrees():
        if node.data in ("number", "negative"):
            literal_number(node)
        elif node.data == "text":
            literal_text(node.children[0])
        elif node.data == "joined":
            literal_text(node.children[2])
        elif node.data == "matching":
            accepted_pattern(literal_text(node.children[2]))
        elif node.data == "array":
            literals = (item for item in node.children if item.data != "reference")
            if len({kind_of(literal(item)) for item in literals}) > 1:
                raise RefusedError
    return tree


def literal_number(node: lark.Tree[lark.Token]) -> Fraction:
    number = Fraction(str(node.children[-1]))
    if digits(number) > 1000:
        raise RefusedError
    return -number if node.data == "negative" else number


def accepted_pattern(text: str) -> None:
    """Patterns are described apart, and tested in tests/vm/patterns: here they are refused or not."""
    try:
        require_accepted(text)
    except PatternError:
        raise RefusedError from None


def literal_text(token: Any) -> str:
    inside = str(token)[1:-1]
    plain = {"n": "\n", "r": "\r", "t": "\t"}
    units = re.sub(
        r"\\(u.{4}|.)",
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) == 5 else plain.get(match[1], match[1]),
        inside,
    )
    joined = re.sub(
        "([\ud800-\udbff])([\udc00-\udfff])",
        lambda match: chr(0x10000 + (ord(match[1]) - 0xD800) * 0x400 + ord(match[2]) - 0xDC00),
        units,
    )
    if re.search("[\ud800-\udfff]", joined):
        raise RefusedError
    return joined


def digits(number: Fraction) -> int:
    """Count the digits of a number written out: before the point at least one, after it as many as it needs."""
    places, rest = 0, number.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    return len(str(abs(number.numerator) // number.denominator)) + places


# -- the evaluator --------------------------------------------------------------------------------------------------


def kind_of(thing: Any) -> str:
    for kind, types in (("null", type(None)), ("boolean", bool), ("number", Fraction), ("text", str), ("array", tuple)):
        if isinstance(thing, types):
            return kind
    return "object"


def need(kind: str, thing: Any) -> Any:
    if kind_of(thing) != kind:
        raise NoValueError
    return thing


def bounded(number: Fraction) -> Fraction:
    if digits(number) > 1000:
        raise NoValueError
    return number


def look_up(name: str, state: dict[str, Any]) -> Any:
    found: Any = state
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            raise NoValueError
        found = found[part]
    return found


def value(node: Any, state: dict[str, Any]) -> Any:
    return getattr(Meaning, node.data)(node.children, state) if hasattr(Meaning, node.data) else literal(node)


def literal(node: lark.Tree[lark.Token]) -> Any:
    if node.data in ("number", "negative"):
        return literal_number(node)
    return (
        literal_text(node.children[0])
        if node.data == "text"
        else {"true": True, "false": False, "null": None}[node.data]
    )


def equal(left: Any, right: Any) -> bool:
    kinds = {kind_of(left), kind_of(right)}
    if "null" in kinds:
        return len(kinds) == 1
    if len(kinds) > 1 or kinds & {"array", "object"}:
        raise NoValueError
    return bool(left == right)


def member(item: Any, array: Any) -> bool:
    return any(equal(item, other) for other in need("array", array))


def contains(holder: Any, item: Any) -> bool:
    if isinstance(holder, tuple):
        return member(item, holder)
    return need("text", item) in need("text", holder)


class Meaning:
    """One function for each rule of the grammar that is no literal."""

    @staticmethod
    def start(parts: list[Any], state: dict[str, Any]) -> Any:
        return value(parts[0], state)

    group = primary = start

    @staticmethod
    def disjunction(parts: list[Any], state: dict[str, Any]) -> Any:
        if len(parts) == 1:
            return value(parts[0], state)
        return any(need("boolean", value(part, state)) for part in parts[::2])

    @staticmethod
    def conjunction(parts: list[Any], state: dict[str, Any]) -> Any:
        if len(parts) == 1:
            return value(parts[0], state)
        return all(need("boolean", value(part, state)) for part in parts[::2])

    negation = unary = start

    @staticmethod
    def not_(parts: list[Any], state: dict[str, Any]) -> Any:
        return not need("boolean", value(parts[1], state))

    @staticmethod
    def comparison(parts: list[Any], state: dict[str, Any]) -> Any:
        left = value(parts[0], state)
        if len(parts) == 1:
            return left
        return compared(" ".join(parts[1].children), left, value(parts[2], state))

    @staticmethod
    def sum(parts: list[Any], state: dict[str, Any]) -> Any:
        total = value(parts[0], state)
        for sign, part in zip(parts[1::2], parts[2::2], strict=True):
            if "-" not in parts[1::2] and kind_of(total) in ("text", "array"):
                total = total + need(kind_of(total), value(part, state))
                continue
            left, right = need("number", total), need("number", value(part, state))
            total = bounded(left + right if sign == "+" else left - right)
        return total

    @staticmethod
    def product(parts: list[Any], state: dict[str, Any]) -> Any:
        total = value(parts[0], state)
        for part in parts[2::2]:
            total = bounded(need("number", total) * need("number", value(part, state)))
        return total

    @staticmethod
    def minus(parts: list[Any], state: dict[str, Any]) -> Any:
        return -need("number", value(parts[1], state))

    @staticmethod
    def reference(parts: list[Any], state: dict[str, Any]) -> Any:
        return look_up(str(parts[0])[1:], state)

    @staticmethod
    def array(parts: list[Any], state: dict[str, Any]) -> Any:
        return tuple(value(item, state) if item.data == "reference" else literal(item) for item in parts)

    @staticmethod
    def len(parts: list[Any], state: dict[str, Any]) -> Any:
        inner = value(parts[1], state)
        if kind_of(inner) not in ("text", "array"):
            raise NoValueError
        return Fraction(sum(1 for _ in inner))

    @staticmethod
    def changed(parts: list[Any], state: dict[str, Any]) -> Any:
        text = need("text", value(parts[1], state))
        if parts[0] == "trim":
            return re.sub(r"\A\s+|\s+\Z", "", text)
        return "".join(map(lowered if parts[0] == "lower" else raised, text))

    @staticmethod
    def joined(parts: list[Any], state: dict[str, Any]) -> Any:
        items = [need("text", item) for item in need("array", value(parts[1], state))]
        between = literal_text(parts[2])
        return "".join(between * bool(number) + item for number, item in enumerate(items))

    @staticmethod
    def matching(parts: list[Any], state: dict[str, Any]) -> Any:
        return re2.search(literal_text(parts[2]), need("text", value(parts[1], state))) is not None

    @staticmethod
    def defined(parts: list[Any], state: dict[str, Any]) -> Any:
        (name,) = parts[1].scan_values(lambda token: token.type == "REFERENCE")
        try:
            look_up(str(name)[1:], state)
        except NoValueError:
            return False
        return True


def lowered(sign: str) -> str:
    """Return the simple lower case of a code point, from the full one of Python."""
    return sign.lower()[:1] if sign == "İ" or len(sign.lower()) == 1 else sign


def raised(sign: str) -> str:
    """Return the simple upper case of a code point: where the full one is longer, it is the title case, or none."""
    full = sign.upper() if len(sign.upper()) == 1 else sign.title()
    return full if len(full) == 1 else sign


def compared(operator: str, left: Any, right: Any) -> bool:
    match operator:
        case "==":
            return equal(left, right)
        case "!=":
            return not equal(left, right)
        case "in":
            return member(left, right)
        case "not in":
            return not member(left, right)
        case "contains":
            return contains(left, right)
        case "not contains":
            return not contains(left, right)
        case "starts_with":
            return bool(need("text", left).startswith(need("text", right)))
        case "ends_with":
            return bool(need("text", left).endswith(need("text", right)))
    a, b = need("number", left), need("number", right)
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator])


# -- the two against each other -------------------------------------------------------------------------------------


def fractions(thing: Any) -> Any:
    """Return a value or a state with its numbers as fractions, the second evaluator's only kind of number."""
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, dict):
        return {key: fractions(item) for key, item in thing.items()}
    return tuple(map(fractions, thing)) if isinstance(thing, tuple) else Fraction(thing)


def first_result(text: str, state: dict[str, Any]) -> Any:
    try:
        return fractions(evaluate(parse(text, 2), lookup_in(state)))
    except EvaluationError:
        return "no value"


def second_result(tree: lark.Tree[lark.Token], state: dict[str, Any]) -> Any:
    try:
        return value(tree, fractions(state))
    except NoValueError:
        return "no value"


def refusal(text: str) -> str | None:
    try:
        parse(text)
    except ExpressionError as error:
        return str(error)
    return None


def accepted_by_both(text: str) -> lark.Tree[lark.Token] | None:
    """Return the second tree of a text that both accept, None for one that both refuse; fails where they differ."""
    try:
        tree = second_parse(text)
    except RefusedError:
        tree = None
    assert (tree is not None) == (refusal(text) is None), (
        f"the grammar's tree: {tree}; the parser says: {refusal(text)}"
    )
    return tree


def hold_against(text: str, *some_states: dict[str, Any]) -> lark.Tree[lark.Token] | None:
    tree = accepted_by_both(text)
    if tree is not None:
        for state in some_states:
            first, second = first_result(text, state), second_result(tree, state)
            assert (type(first), first) == (type(second), second), f"{text!r} in {state!r}"
    return tree


WORDS = ("not", "in", "contains", "and", "or", "null", "len", "defined", "lower", "join", "matches")
ROW = (*WORDS, "$a", "1", "'x'", *"-*+<()[],", "==")
QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(QUICK, max_examples=size(40, 1000))


@given(conditions(), states(), states())
@QUICK
def test_both_accept_a_generated_condition_and_give_it_one_value(
    text: str, one: dict[str, Any], two: dict[str, Any]
) -> None:
    assert hold_against(text, one, two) is not None


@given(mutated_conditions(), states())
@example("$a == 1 not in [1]", {})
@example("not $ok == $ok", {"ok": False})
@example("- $a - -1 * 2", {"a": 3})
@example("defined(($gone))", {})
@example("[(1)] contains 1", {})
@example("[-1, 2,] contains - 1", {})
@example("1.5.2 == 1", {})
@example("$a.b. == 1", {"a": {"b": 1}})
@example("2*-3<1", {})
@example("$a + ['b'] + [1]", {"a": ("x",)})
@example("$a + 'b' - 1", {"a": "x"})
@example("1 in[1]and true", {})
@example("$a starts_with 'b'", {"a": "ab"})
@example("$a ends_with 'a'", {"a": "ab"})
@example("$a in [, 1]", {"a": 1})
@example("$a in [1,, 2]", {"a": 1})
@QUICK
def test_both_accept_or_both_refuse_a_broken_condition(text: str, state: dict[str, Any]) -> None:
    hold_against(text, state)


@pytest.mark.slow
@given(conditions(), states(), states(), states())
@THOROUGH
def test_many_generated_conditions_have_one_value(
    text: str, one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    assert hold_against(text, one, two, three) is not None


@pytest.mark.slow
@given(mutated_conditions(), states())
@THOROUGH
def test_many_broken_conditions_are_judged_alike(text: str, state: dict[str, Any]) -> None:
    hold_against(text, state)


@pytest.mark.slow
@given(st.lists(st.sampled_from(ROW), max_size=8))
@settings(THOROUGH, max_examples=size(100, 3000))
def test_arbitrary_rows_of_tokens_are_judged_alike(tokens: list[str]) -> None:
    hold_against(" ".join(tokens), {"a": 1})


def test_generated_conditions_reach_all_three_results() -> None:
    """A generator that only ever made errors would prove nothing: the harness is tested, too."""
    seen: dict[object, int] = {}

    @given(conditions(), states())
    @settings(QUICK, max_examples=200, database=None, derandomize=True)
    def collect(text: str, state: dict[str, Any]) -> None:
        result = first_result(text, state)
        seen[result] = seen.get(result, 0) + 1

    collect()
    assert min(seen.get(True, 0), seen.get(False, 0), seen.get("no value", 0)) >= 10, seen
