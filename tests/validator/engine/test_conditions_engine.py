"""Differential: what the engine says of conditions is held against the evaluator of the machine, state by state.

Where references have few values, every state is tried, and the engine must be right and must not give up. Where they
have many, what it proves must hold in thousands of sampled states, and each state that it shows must show its claim.
Finite classes answer every question; the solver proves that cases are covered and exclusive. Planted mistakes must be
caught.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest

from condition_lists import (
    FEW,
    FEW_POOLS,
    MANY,
    cases_of,
    every_state,
    few_atom,
    is_gap,
    is_overlap,
    lists,
    many_atom,
    program,
    sampled_states,
    sum_atom,
    taken_by,
    values_of,
)
from sizes import size
from stepward.validator.engine.cases import Cases, Finite
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.engine.smt import facts, terms
from stepward.validator.engine.smt.solver import Solved
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS
from stepward.validator.engine.values import calculated, classes, cuts, texts
from stepward.validator.engine.values.classes import Space
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domain, Domains, Range
from stepward.validator.engine.values.states import State, outcome
from stepward.validator.engine.values.texts import Atom, TextRequirements
from stepward.validator.findings import Verdict
from stepward.vm import Meaning
from stepward.vm.expressions.operators import compare
from stepward.vm.language.types import refusal

PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN

# -- the differential ------------------------------------------------------------------------------------------------


OUTCOMES = {True: 0, False: NONE_HOLDS, None: FAILS}
"""The outcome of a condition alone, by its value."""


def hold_exactly(conditions: list[str]) -> None:
    """Compare every answer with all states: raises AssertionError where one is wrong or missing."""
    cases = cases_of(FEW, conditions)
    if cases.finite is None:
        hold_proofs_exactly(conditions)
        return
    outcomes = [values_of(cases, state) for state in every_state(cases, FEW_POOLS)]
    for answer, shows in ((cases.covered(), is_gap), (cases.exclusive(), is_overlap)):
        wanted = VIOLATED if any(map(shows, outcomes)) else PROVED
        assert answer.verdict is wanted, (conditions, answer)
        if answer.state is not None:
            assert shows(values_of(cases, answer.state)), (conditions, answer)
            assert answer.state in list(every_state(cases, FEW_POOLS)), (conditions, answer)
    taken = {taken_by(values) for values in outcomes}
    for number in range(len(conditions)):
        assert cases.never_taken(number) is (number not in taken), (conditions, number)
        alone = Cases([cases.trees[number]], cases.domains, UNLIMITED)
        assert alone.outcomes == {OUTCOMES[values[number]] for values in outcomes}, (conditions, number)


def hold_proofs_exactly(conditions: list[str]) -> None:
    """Compare what the solver proves with all states: raises AssertionError where a proof is wrong or missing."""
    cases = cases_of(FEW, conditions, by_solver=True)
    outcomes = [values_of(cases, state) for state in every_state(cases, FEW_POOLS)]
    for answer, shows in ((cases.covered(), is_gap), (cases.exclusive(), is_overlap)):
        assert answer.verdict is (UNKNOWN if any(map(shows, outcomes)) else PROVED), (conditions, answer)


def hold_on_samples(conditions: list[str], seed: int, samples: int) -> list[Verdict]:
    """Hold what is proved against sampled states, and what is shown against itself."""
    cases = cases_of(MANY, conditions)
    answers = [(cases.covered(), is_gap), (cases.exclusive(), is_overlap)]
    alone = [Cases([tree], cases.domains, UNLIMITED).outcomes for tree in cases.trees]
    never = [cases.never_taken(number) for number in range(len(conditions))]
    for answer, shows in answers:
        if answer.state is not None:
            assert shows(values_of(cases, answer.state)), (conditions, answer)
            assert_of_its_types(answer.state)
    for state in sampled_states(conditions, cases, Random(seed), samples):
        values = values_of(cases, state)
        for answer, shows in answers:
            assert answer.verdict is not PROVED or not shows(values), (conditions, answer, state)
        first = taken_by(values)
        assert first is None or not never[first], (conditions, first, state)
        for value, possible in zip(values, alone, strict=True):
            assert possible is None or OUTCOMES[value] in possible, (conditions, state)
    return [answer.verdict for answer, _ in answers]


def hold_calculated(conditions: list[str]) -> int:
    """Hold what the classes of calculations prove against all states, and count the proofs."""
    cases = cases_of(FEW, conditions)
    trees = calculated.calculated(cases.trees)
    if trees is None:
        return 0
    try:
        layer = Finite(trees, calculated.CalculatedDomains(cases.domains))
    except TooMany:
        return 0
    outcomes = [values_of(cases, state) for state in every_state(cases, FEW_POOLS)]
    said = [(layer.uncovered() is None, any(map(is_gap, outcomes)))]
    said += [(layer.overlapping() is None, any(map(is_overlap, outcomes)))]
    taken = {taken_by(values) for values in outcomes}
    said += [(not layer.decided[number], number in taken) for number in range(len(conditions))]
    for number, tree in enumerate(trees):
        alone = Finite([tree], calculated.CalculatedDomains(cases.domains)).decided
        said += [(not alone[OUTCOMES[one]], any(values[number] is one for values in outcomes)) for one in (True, False)]
    assert not any(is_proved and is_there for is_proved, is_there in said), (conditions, said)
    return sum(is_proved for is_proved, _ in said)


def assert_of_its_types(state: State) -> None:
    specs = program(MANY, ["true"]).inputs or {}
    for name, value in state.items():
        if len(name) == 1 and name[0] in specs and not isinstance(value, dict):
            assert refusal(value, specs[name[0]]) is None, (name, value)


def search(seed: int, count: int) -> None:
    every = (lists(seed, count, few_atom), lists(seed, count, many_atom), text_lists(seed, count))
    sums = iter(lists(seed, 3 * count, sum_atom))
    for few, many, text in zip(*every, strict=True):
        hold_exactly(few)
        hold_proofs_exactly(few)
        hold_on_samples(many, seed, 100)
        hold_texts_exactly(text)
        for conditions in islice(sums, 3):
            hold_calculated(conditions)


def test_where_values_are_few_finite_classes_are_exact() -> None:
    for conditions in lists(1, size(60, 250), few_atom):
        hold_exactly(conditions)


def test_where_values_are_few_the_solver_is_exact() -> None:
    for conditions in lists(2, size(30, 120), few_atom):
        hold_proofs_exactly(conditions)


def test_what_is_proved_of_calculations_as_values_of_their_own_holds() -> None:
    proofs = sum(map(hold_calculated, lists(8, size(100, 900), sum_atom)))
    assert proofs > size(50, 500)


def test_what_is_calculated_is_proved_without_a_solver() -> None:
    bands = ["$a + $b < 1", *(f"$a + $b >= {one} and $a + $b < {one + 1}" for one in range(1, 50)), "$a + $b >= 50"]
    cases = cases_of(MANY, bands)
    assert (cases.covered(), cases.exclusive()) == ((PROVED, "cases", None, ""),) * 2
    assert "solved" not in cases.__dict__
    overlap = cases_of(MANY, [*bands, "$a + $b > 49.5"]).exclusive()
    assert (overlap.verdict, overlap.layer) == (UNKNOWN, "smt")
    # What stands for the sum can be 0.5; the sum of two whole numbers can't, and the solver knows.
    whole = cases_of(MANY, ["$b + $b < 1", "$b + $b >= 1 and $b + $b < 1.5", "$b + $b > 1"]).covered()
    assert whole.verdict is PROVED


def test_many_classes_are_looked_up_as_if_each_was_evaluated() -> None:
    cases = cases_of(MANY, [f"$a + $b < {one}" for one in range(40)])
    trees = calculated.calculated(cases.trees)
    assert trees is not None
    space = Finite(trees, calculated.CalculatedDomains(cases.domains)).space
    (slot,) = space.slots.values()
    for operator, bound in itertools.product(("<", "<=", ">", ">=", "==", "!="), (0, 7, 39)):
        asked = space._ask(slot, (operator, bound), lambda one: compare(operator, classes._defined(one), bound))  # noqa: B023
        assert space._quick(slot, operator, bound) == asked, (operator, bound)
    assert asked.fails == 1


def test_where_values_are_many_what_is_proved_holds_and_what_is_shown_is_so() -> None:
    verdicts = [
        verdict for conditions in lists(3, size(25, 90), many_atom) for verdict in hold_on_samples(conditions, 3, 200)
    ]
    assert verdicts.count(PROVED) >= size(3, 12)


def test_the_two_layers_agree() -> None:
    compared = 0
    for conditions in lists(4, size(60, 220), many_atom):
        finite = cases_of(MANY, conditions)
        if finite.finite is None:
            continue
        solved = cases_of(MANY, conditions, by_solver=True)
        compared += 1
        for one, two in ((finite.covered(), solved.covered()), (finite.exclusive(), solved.exclusive())):
            # The solver has no functions of texts that change a text; classes answer questions about them.
            changes = any(f"{word}(" in text for text in conditions for word in ("lower", "upper", "trim", "matches"))
            assert (one.verdict is PROVED) is (two.verdict is PROVED) or changes, (conditions, one, two)
            assert one.verdict is PROVED or two.verdict is not PROVED, (conditions, one, two)
    assert compared >= size(6, 25)


# -- texts -----------------------------------------------------------------------------------------------------------

_WORDS = ["", *("".join(signs) for size in range(1, 5) for signs in itertools.product("abx", repeat=size))]
SHORT: dict[str, Any] = {"s": {"type": "string", "maxLength": 4}}


def text_atom(random: Random) -> str:
    literal = random.choice(["a", "b", "ab", "ba", "aa", "aba"])
    question = random.choice(["==", "contains", "contains", "not contains", "starts_with", "ends_with"])
    length = f"len($s) {random.choice(['<', '>=', '=='])} {random.choice('123')}"
    return random.choice([f"$s {question} '{literal}'"] * 3 + [length])


def text_lists(seed: int, count: int) -> Iterator[list[str]]:
    return lists(seed, count, text_atom)


def hold_texts_exactly(conditions: list[str]) -> None:
    """A text of at most four signs, of which only `a` and `b` are asked for: every one is tried."""
    cases = cases_of(SHORT, conditions, by_solver=True)
    outcomes = [values_of(cases, {("s",): text}) for text in _WORDS]
    for answer, shows in ((cases.covered(), is_gap), (cases.exclusive(), is_overlap)):
        is_there = any(map(shows, outcomes))
        assert not (is_there and answer.verdict is PROVED), (conditions, answer)
        is_short = len(" ".join(conditions).split("'")) <= 5
        assert is_there or answer.verdict is PROVED or not is_short, (conditions, answer)


def test_short_texts_against_all_of_them() -> None:
    for conditions in text_lists(5, size(30, 120)):
        hold_texts_exactly(conditions)


def test_classes_of_texts_are_all_that_there_are() -> None:
    random = Random(6)
    words = ["", *("".join(signs) for size in range(1, 9) for signs in itertools.product("abx", repeat=size))]
    questions = [question for question in texts.ANSWERS if question != "matches"]  # automata have those
    for _ in range(25):
        atoms = [Atom(random.choice(questions), random.choice(["a", "b", "ab", "ba", "aa"])) for _ in range(3)]
        found = cuts.classes(atoms, 4_096)
        assert found is not None
        assert {tuple(atom.of(text) for atom in atoms) for text in found} == {
            tuple(atom.of(text) for atom in atoms) for text in words
        }, atoms


def test_the_rules_of_texts_are_true_of_every_text() -> None:
    literals = ["", "a", "b", "ab", "ba", "aba"]
    atoms = [Atom(question, literal) for question in texts.ANSWERS for literal in literals]
    for one, two in itertools.product(atoms, repeat=2):
        both = [text for text in _WORDS if one.of(text) and two.of(text)]
        if texts.implied(one, two):
            assert all(two.of(text) for text in _WORDS if one.of(text)), (one, two)
        if texts.excluded(one, two):
            assert not both, (one, two)
        if "is" not in (one.question, two.question):
            assert all(len(text) >= texts.least_length(one, two) for text in both), (one, two)


def test_a_text_is_written_as_short_as_it_can_be() -> None:
    assert texts.text_of(
        TextRequirements({Atom("contains", "cancel"): True, Atom("contains", "cancel order"): True})
    ) == ("cancel order")
    assert texts.text_of(TextRequirements({Atom("is", "a"): False})) == ""
    assert texts.text_of(TextRequirements({Atom("starts_with", "ab"): True, Atom("ends_with", "ba"): True}, 3)) == "aba"
    assert texts.text_of(TextRequirements({Atom("contains", "a"): True, Atom("is", "a"): True}, 2)) is None


TIGHT: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    ({"type": "string", "maxLength": 0}, ("",)),
    ({"type": ["string", "null"], "maxLength": 0}, ("", None)),
    ({"type": ["string", "integer"], "maxLength": 0, "minimum": 0.2, "maximum": 0.8}, ("",)),
    ({"type": "string", "enum": ["abc", "d"], "maxLength": 1}, ("d",)),
    ({"type": "integer", "minimum": 3, "maximum": 3}, (3,)),
    ({"type": "number", "minimum": 3, "maximum": 3}, (3,)),
    ({"type": "integer", "minimum": 0.5, "maximum": 2.5}, (1, 2)),
    ({"type": "boolean", "enum": [True]}, (True,)),
    ({"type": "null"}, (None,)),
]
ASKED = {
    str: ["$i == 'xyz'", "$i == 'd' or $i == ''", "$i == $j", "$i contains 'x'", "len($i) > 0", "'abc' contains $i"],
    int: ["$i == 3", "$i > 1 and $i < 2", "$i == 1 or $i == 2", "$i < 1.5", "$i == $j", "$i + 1 > 3"],
    bool: ["$i", "$i == false", "$i == $j"],
    type(None): ["$i == null", "$i != $j"],
}


@pytest.mark.parametrize(("spec", "values"), TIGHT, ids=[str(spec) for spec, _ in TIGHT])
def test_of_a_tight_type_no_value_is_forgotten(spec: dict[str, Any], values: tuple[Any, ...]) -> None:
    for condition in dict.fromkeys(one for value in values for one in ASKED[type(value)]):
        inputs = {name: spec for name in "ij" if f"${name}" in condition}
        meaning = Meaning(program(inputs, [condition]))
        tree = meaning.clauses[0].tree
        assert tree is not None
        states = [
            dict(zip([(name,) for name in inputs], state, strict=True))
            for state in itertools.product(values, repeat=len(inputs))
        ]
        seen = {outcome(tree, state) for state in states}
        try:
            space = Space([tree], Domains(meaning))
        except TooMany:
            continue
        found = space.outcome(tree)
        answers = {True: found.holds, None: found.fails, False: space.all & ~(found.holds | found.fails)}
        assert {answer for answer, mask in answers.items() if mask} == seen, condition


# -- planted mistakes ------------------------------------------------------------------------------------------------


def substrings_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(facts, "implied", lambda one, two: False)


def texts_exclude_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(facts, "excluded", lambda one, two: False)


def an_error_is_false_to_the_solver(patch: pytest.MonkeyPatch) -> None:
    original = terms.Terms._compare
    patch.setattr(terms.Terms, "_compare", lambda self, tree: original(self, tree)._replace(fails=False))


def an_error_is_false_to_the_classes(patch: pytest.MonkeyPatch) -> None:
    original = Space._ask
    patch.setattr(Space, "_ask", lambda self, *rest: original(self, *rest)._replace(fails=0))


def whole_numbers_are_any_to_the_solver(patch: pytest.MonkeyPatch) -> None:
    original = terms.Terms._number
    patch.setattr(
        terms.Terms,
        "_number",
        lambda self, word, ranges: original(self, word, tuple(one._replace(integral=False) for one in ranges)),
    )


def whole_numbers_are_any_to_the_classes(patch: pytest.MonkeyPatch) -> None:
    original = cuts.between
    patch.setattr(cuts, "between", lambda low, high, *, integral: original(low, high, integral=False))


def nothing_is_ever_undefined(patch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    original = Domains.of
    patch.setattr(Domains, "of", lambda self, names: replace(original(self, names), undefined=False))


def null_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    original = Domains.of
    patch.setattr(Domains, "of", lambda self, names: replace(original(self, names), null=False))


def the_solver_forgets_the_last_case(patch: pytest.MonkeyPatch) -> None:
    original = Solved.__init__
    patch.setattr(Solved, "__init__", lambda self, trees, *more: original(self, trees[:-1] or trees, *more))


def all_calculations_are_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calculated, "repr", lambda tree: "", raising=False)


def what_is_calculated_is_whole(patch: pytest.MonkeyPatch) -> None:
    whole = Domain(undefined=True, ranges=(Range(integral=True),))
    patch.setitem(calculated.CALCULATED, "number", whole)


def bounds_belong_to_both_sides(patch: pytest.MonkeyPatch) -> None:
    wrong = {"<": "<=", ">": ">="}
    patch.setattr(classes, "compare", lambda operator, a, b: compare(wrong.get(operator, operator), a, b))


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "seed"),
    [
        (substrings_are_forgotten, 23),
        (texts_exclude_nothing, 23),
        (an_error_is_false_to_the_solver, 7),
        (an_error_is_false_to_the_classes, 7),
        (whole_numbers_are_any_to_the_solver, 18),
        (whole_numbers_are_any_to_the_classes, 7),
        (nothing_is_ever_undefined, 7),
        (null_is_forgotten, 7),
        (the_solver_forgets_the_last_case, 7),
        (all_calculations_are_one, 7),
        (what_is_calculated_is_whole, 7),
        (bounds_belong_to_both_sides, 34),
    ],
)
def test_an_engine_that_is_wrong_is_caught(break_it: Callable[[pytest.MonkeyPatch], None], seed: int) -> None:
    """The differential is itself tested: each of these mistakes must make it fail, with a seed that shows it soon."""
    with pytest.MonkeyPatch.context() as patch:
        break_it(patch)
        with pytest.raises(AssertionError):
            search(seed, 300)
