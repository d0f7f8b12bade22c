"""The table of operators and functions: it is whole, true, and known to all that are kept apart from it.

Four implementations say what a comparison or a function is worth: the table by which the machine evaluates, the
reference interpreter, the second checker and the solver's terms. They are asked for every row, with values of every
kind, and for a word that none of them has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any, get_args

import lark
import pytest
import z3
from test_expressions_grammar import LARK, hold_against

import strategies
from language_features import every_feature
from stepward.sabotage.reference import expressions as reference
from stepward.sabotage.reference.expressions import CannotEvaluate, value_of
from stepward.sabotage.reference.places import Shape
from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.versions import Versions
from stepward.validator.engine.values import texts
from stepward.validator.engine.values.classes import Space
from stepward.validator.engine.values.cuts import Cuts, class_values
from stepward.validator.engine.values.domains import Domain, Domains, Range
from stepward.validator.engine.values.languages import cut_by_automata, pattern_of
from stepward.validator.engine.values.shortest_texts import shortest
from stepward.validator.engine.values.states import UNDEFINED
from stepward.validator.engine.values.texts import Atom
from stepward.validator.recheck import blocks, evaluation, languages
from stepward.validator.recheck.evaluation import FAILS, result_blocks, values
from stepward.validator.recheck.short_texts import ANSWERS
from stepward.vm.errors import EvaluationError, ExpressionError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.lexer import tokens
from stepward.vm.expressions.operands import needs, result_kinds
from stepward.vm.expressions.operators import (
    FUNCTION_WORDS,
    FUNCTIONS,
    INSTEAD,
    KEYWORDS,
    LITERALS,
    METHODS,
    OPERATORS,
    POWERS,
    SIGNS,
    Comparison,
    Connective,
    FunctionName,
    Question,
    Sign,
    compare,
    kind,
)
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Compare, Constant, Expression, FunctionCall, Reference
from stepward.vm.values import FrozenMap

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, Decimal("1.5"), "", "a", "ab", "b", "1", " Ä\n", "ǅ"),
    *((), (1,), ("a", "b"), (True,), (None,), FrozenMap(), FrozenMap({"a": 1})),
]
TEXTS = ["".join(signs) for size in range(4) for signs in product("abx", repeat=size)]
ERROR = "error"


def nothing(names: tuple[str, ...]) -> Any:
    raise AssertionError(f"a constant reads nothing, not {names}")


def by_machine(tree: Expression) -> Any:
    try:
        return evaluate(tree, nothing)
    except EvaluationError:
        return ERROR


def by_reference(tree: Expression) -> Any:
    try:
        return value_of(tree, nothing)
    except CannotEvaluate:
        return ERROR


def by_recheck(tree: Expression) -> Any:
    """Return what the second checker says where it knows one value, else the set of what it holds possible."""
    found = values(tree, {})
    if len(found) == 1:
        (cell,) = found
        return ERROR if cell == FAILS else cell.value if cell.single or cell.kind == "boolean" else {cell.kind}
    return {ERROR if cell == FAILS else cell.value for cell in found}


class OneDomain(Domains):
    """The same domain for each reference."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def of(self, names: tuple[str, ...]) -> Domain:
        return self.domain

    def parent(self, names: tuple[str, ...]) -> None:
        return None


def by_terms(tree: Expression) -> Any:
    """Return what the solver's terms say: they are decided where only constants are compared."""
    holds, fails = (
        term if isinstance(term, bool) else z3.is_true(z3.simplify(term)) for term in solver_terms().truth(tree)
    )
    return ERROR if fails else holds


@cache
def solver_terms() -> Versions:
    return Versions(OneDomain(Domain()), Clock(1e9))


LITERALS_OF: dict[str, str] = {"join": ", ", "matches": "^a?b*$"}
"""The second argument of the functions that have one."""


def called(word: str, value: Any) -> FunctionCall:
    return FunctionCall(0, 0, word, Constant(0, 0, value), LITERALS_OF.get(word))  # type: ignore[arg-type]


def call_text(word: str) -> str:
    return f"{word}($a, '{LITERALS_OF[word]}')" if word in LITERALS_OF else f"{word}($a)"


def compared(word: str, left: Any, right: Any) -> Compare:
    return Compare(0, 0, word, Constant(0, 0, left), Constant(0, 0, right))  # type: ignore[arg-type]


# -- the table is whole ------------------------------------------------------------------------------------------------


def test_every_word_has_its_row() -> None:
    assert OPERATORS.keys() == set(get_args(Comparison))
    assert FUNCTIONS.keys() == set(get_args(FunctionName))
    assert POWERS.keys() == {*get_args(Connective), *get_args(Sign)}
    for taken in (reference.TAKEN, evaluation.TAKEN):
        assert taken == {word: row.takes for word, row in OPERATORS.items() if isinstance(row.takes, frozenset)}
    for functions in (reference.FUNCTIONS, evaluation.FUNCTIONS):
        assert functions.keys() == FUNCTIONS.keys()
    assert {row.asks for row in OPERATORS.values()} <= {*get_args(Question), "order", None}


@pytest.mark.parametrize("word", OPERATORS)
def test_a_comparison_is_read_as_it_is_written(word: Comparison) -> None:
    tree = parse(f"$a {word} $b")
    assert isinstance(tree, Compare)
    assert tree.operator == word
    LARK.parse(f"$a {word} $b")


@pytest.mark.parametrize("word", FUNCTIONS)
def test_a_function_is_read_as_it_is_written(word: FunctionName) -> None:
    tree = parse(call_text(word))
    assert isinstance(tree, FunctionCall)
    assert tree.function == word
    assert tree.literal == LITERALS_OF.get(word)
    LARK.parse(call_text(word))


@pytest.mark.parametrize("word", [word for word, row in FUNCTIONS.items() if row.is_idempotent])
def test_a_function_gives_only_what_it_does_not_change(word: FunctionName) -> None:
    for value in ("", "a", "A", " a ", "ß", "İ", "ǅ", "ﬁ", "Ω\u2126"):
        once = by_machine(called(word, value))
        assert by_machine(called(word, once)) == once


def test_the_words_of_the_lexer_are_those_of_the_table() -> None:
    for word in SIGNS:
        assert [token.kind for token in tokens(word)] == ["sign", "end"]
    for word in KEYWORDS:
        with pytest.raises(lark.exceptions.LarkError):
            LARK.parse(f"{word} {word} {word}")
        with pytest.raises(ExpressionError):
            parse(f"{word} {word} {word}")


def test_the_generators_know_every_word() -> None:
    assert set(strategies.KEYWORDS) == KEYWORDS
    assert set(strategies.SIGNS) == {*SIGNS, *"()[],"}
    features = {f"operator {word}" for word in (*OPERATORS, *FUNCTION_WORDS, *POWERS)}
    assert features <= set(every_feature())


@pytest.mark.parametrize(("other", "word"), [*INSTEAD.items(), *METHODS.items()])
def test_what_other_languages_write_is_no_word_here(other: str, word: str) -> None:
    assert other not in KEYWORDS - METHODS.keys()
    assert other not in SIGNS
    assert word in OPERATORS or word in KEYWORDS or word in SIGNS or word in LITERALS


# -- the table is true -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", OPERATORS)
def test_a_comparison_takes_what_the_table_says(word: Comparison) -> None:
    """Of operands with kinds of their own; those of a relation are asked by `test_all_agree`."""
    takes = OPERATORS[word].takes
    for left, right in product(VALUES, repeat=2):
        if isinstance(takes, frozenset):
            assert (by_machine(compared(word, left, right)) != ERROR) is ({kind(left), kind(right)} <= takes)
        needed = [kinds for _, kinds, _ in needs(compared(word, left, right))]
        assert needed == ([takes, takes] if isinstance(takes, frozenset) else [])


@pytest.mark.parametrize("word", FUNCTIONS)
def test_a_function_takes_and_gives_what_the_table_says(word: FunctionName) -> None:
    for value in VALUES:
        found = by_machine(called(word, value))
        items = FUNCTIONS[word].items
        has_items = items is None or not isinstance(value, tuple) or {kind(item) for item in value} <= items
        assert (found != ERROR) is (kind(value) in FUNCTIONS[word].takes and has_items)
        assert found == ERROR or kind(found) in FUNCTIONS[word].gives
    assert result_kinds(called(word, "")) == FUNCTIONS[word].gives


@pytest.mark.parametrize("word", OPERATORS)
def test_a_comparison_asks_no_more_than_the_table_says(word: Comparison) -> None:
    """Two values that answer alike to what is asked come out alike: the classes of the engine rest on that."""
    asks = OPERATORS[word].asks
    negated = OPERATORS[word].is_negated
    if asks == "order":
        numbers = [-1, 0, Decimal("0.5"), 1, 2, 10**30]
        for left, right in product(numbers, repeat=2):
            assert compare(word, left, right) is compare(word, (left > right) - (left < right) + 1, 1)
    elif asks == "is":
        wrapped = OPERATORS[word].takes == "member"
        for left, right in product(TEXTS, repeat=2):
            assert compare(word, left, (right,) if wrapped else right) is ((left == right) is not negated)
    elif asks is not None:
        for left, right in product(TEXTS, repeat=2):
            assert compare(word, left, right) is (Atom(asks, right).of(left) is not negated)


@pytest.mark.parametrize("word", [word for word, row in FUNCTIONS.items() if row.asks == "length"])
def test_a_function_that_asks_for_a_length_is_the_length(word: FunctionName) -> None:
    assert all(by_machine(called(word, value)) == len(value) for value in [*TEXTS, (), (1,), (1, 2)])


MANY = {
    "numbers": (Domain(ranges=(Range(0, 50, integral=True),)), [3, 17, 50, 51], range(0, 50, 1)),
    "texts": (Domain(texts=tuple(f"t{number}" for number in range(50))), ["t3", "t49", "t", ""], []),
}


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize("of", MANY)
@pytest.mark.parametrize("word", OPERATORS)
def test_many_classes_are_answered_as_one_by_one(word: Comparison, of: str, *, is_missing: bool) -> None:
    """The engine finds the classes of many by bisection, for every operator as the machine decides each."""
    domain, constants, cuts = MANY[of]
    held = [(one,) for one in constants] if OPERATORS[word].takes == "member" else constants
    trees = [Compare(0, 0, word, Reference(0, 0, ("x",)), Constant(0, 0, value)) for value in held]
    cutting = [Compare(0, 0, "==", Reference(0, 0, ("x",)), Constant(0, 0, value)) for value in cuts]
    space = Space([*trees, *cutting], OneDomain(replace(domain, undefined=is_missing)))
    slot = space.slots["x",]
    assert len(slot.values) > 32
    for tree, value in zip(trees, held, strict=True):
        holds, fails = space.outcome(tree)
        for number, one in enumerate(slot.values):
            found = ERROR if one is UNDEFINED else by_machine(compared(word, one, value))
            assert ((holds >> number & 1), (fails >> number & 1)) == (found is True, found == ERROR), one


# -- the four agree ----------------------------------------------------------------------------------------------------


def assert_all_agree(tree: Expression, *, is_condition: bool) -> None:
    found = by_machine(tree)
    assert by_reference(tree) == found, tree
    known = by_recheck(tree)
    assert known == found or (isinstance(known, set) and (found in known or kind(found) in known)), tree
    if is_condition:
        assert by_terms(tree) is found if found != ERROR else by_terms(tree) == ERROR, tree


@pytest.mark.parametrize("word", OPERATORS)
def test_all_agree(word: Comparison) -> None:
    for left, right in product(VALUES, repeat=2):
        assert_all_agree(compared(word, left, right), is_condition=True)


@pytest.mark.parametrize("word", FUNCTIONS)
def test_all_agree_about_functions(word: FunctionName) -> None:
    gives = FUNCTIONS[word].gives
    shape = Shape(frozenset(cell.kind for cell in result_blocks(called(word, ""))))
    assert shape.kinds == gives
    for value in VALUES:
        assert_all_agree(called(word, value), is_condition="boolean" in gives)
        result = by_machine(called(word, value))
        if result != ERROR:
            tree = Compare(0, 0, "==", called(word, value), Constant(0, 0, result))
            assert_all_agree(tree, is_condition=True)


STATES = [{"a": left, "b": right} for left, right in product(VALUES, repeat=2)]


@pytest.mark.parametrize("text", [*(f"$a {word} $b" for word in (*OPERATORS, *POWERS)), *map(call_text, FUNCTIONS)])
def test_the_second_grammar_agrees(text: str) -> None:
    """Generated conditions hold it against the table, too, and have some of the words seldom."""
    assert hold_against(text, *STATES) is not None


@pytest.mark.parametrize("decide", [by_machine, by_reference, by_recheck, by_terms])
@pytest.mark.parametrize(
    "tree", [compared("resembles", "a", "b"), compared("resembles", 1, 2), called("shorten", "a")], ids=repr
)
def test_none_takes_an_unknown_word_for_another_one(decide: Callable[[Expression], Any], tree: Expression) -> None:
    with pytest.raises((AssertionError, KeyError)):
        decide(tree)


# -- questions about texts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", get_args(Question))
def test_everyone_knows_every_question_about_a_text(question: Question) -> None:
    literals = [text for text in TEXTS if 0 < len(text) < 3]
    for literal in literals:
        atom = Atom(question, literal)
        answers = {atom.of(text) for text in TEXTS}
        assert answers == {True, False}
        ways: dict[str, list[str] | None] = {
            "classes": texts.classes([atom], 100),
            "shortest": shortest([atom], 3),
            "automata": cut_by_automata([atom], [], None, None, 100),
            "domain": class_values(Domain(any_text=True), Cuts(atoms={atom: None})),
        }
        for name, found in ways.items():
            assert found is not None, name
            assert {atom.of(text) for text in found} == answers, name
        assert {text for text in TEXTS if literal in texts.parts_of(question, text)} == {
            text for text in TEXTS if atom.of(text)
        }
    assert pattern_of(Atom(question, "a"))
    if question != "is":
        for literal, text in product(literals, TEXTS):
            answer = Atom(question, literal).of(text)
            assert blocks.answer_of(text, (question, literal)) is answer
            assert languages.may_match(f"^{text}$", frozenset({((question, literal), True)})) is answer
        assert question in ANSWERS
