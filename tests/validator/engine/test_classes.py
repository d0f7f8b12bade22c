"""The classes of values, against single values: which classes a source gives, and the shortest text of each class."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.engine.values.cuts import Cuts, TooMany
from stepward.validator.engine.values.domains import Domain, Range, of_constant
from stepward.validator.engine.values.partition import Partition
from stepward.validator.engine.values.shortest_texts import shortest
from stepward.validator.engine.values.texts import Atom, Question
from stepward.validator.recheck.short_texts import may_exist
from stepward.vm import Program
from stepward.vm.values import FrozenMap

QUESTIONS: tuple[Question, ...] = ("is", "contains", "starts_with", "ends_with")
LITERALS = ["", "a", "b", "ab", "ba", "aa", "aba", "bab"]
TEXTS = ["".join(signs) for size in range(6) for signs in product("abz", repeat=size)]
NUMBERS = [-1, 0, 1, 2, 3, 4, 5, 9, 10, 11]
ITEMS = [None, Domain(null=True), Domain(ranges=(Range(0, 10, integral=True),)), Domain(texts=("a",)), Domain()]
DOMAINS = [
    Domain(any_text=True),
    *(Domain(any_text=True, max_length=size) for size in range(5)),
    Domain(texts=("a", "ab", "zz")),
    Domain(texts=("",)),
    Domain(ranges=(Range(),)),
    Domain(ranges=(Range(0, 10, integral=True),)),
    Domain(ranges=(Range(3, None),)),
    Domain(ranges=(Range(None, 4),)),
    Domain(ranges=(Range(2, 2),)),
    Domain(ranges=(Range(0, 1), Range(9, 11, integral=True))),
    *(Domain(array=True, items=items) for items in ITEMS),
    of_constant(()),
    of_constant("ab"),
    Domain(null=True),
    Domain(booleans=frozenset({True})),
    Domain(is_object=True),
]
VALUES: list[Any] = [
    *TEXTS, *NUMBERS, None, True, False, FrozenMap(),
    *((item,) * size for size in range(5) for item in (None, 0, "a", "b")),
]  # fmt: skip


def random_cuts(chance: Random) -> Cuts:
    match chance.randrange(3):
        case 0:
            atoms = [Atom(chance.choice(QUESTIONS), chance.choice(LITERALS)) for _ in range(chance.randrange(1, 5))]
            return Cuts(numbers=set(chance.sample(NUMBERS, 2)), atoms=dict.fromkeys(atoms))
        case 1:
            return Cuts(numbers=set(chance.sample(NUMBERS, 3)), lengths={0, chance.randrange(5)})
    return Cuts(lengths={0, 1, 2.5 if chance.random() < 0.1 else 2})  # type: ignore[arg-type]


def same(one: Any, other: Any, cuts: Cuts) -> bool:
    """Return whether nothing that is asked tells two values apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, str):
        return all(atom.of(one) is atom.of(other) for atom in cuts.atoms) and _alike(len(one), len(other), cuts.lengths)
    if isinstance(one, tuple):
        return _alike(len(one), len(other), cuts.lengths)
    return (
        one == other
        if isinstance(one, bool) or one is None
        else isinstance(one, dict) or _alike(one, other, cuts.numbers)
    )


def _alike(one: Any, other: Any, points: set[Any]) -> bool:
    return all((one < point, one == point) == (other < point, other == point) for point in points)


@pytest.mark.parametrize("first", range(0, 150, 15))
def test_a_source_gives_the_classes_of_its_values(first: int) -> None:
    """Each value of a source is in a class of its own answers, and that is one which the source is said to give."""
    for seed in range(first, first + 15):
        chance = Random(seed)
        cuts, sources = random_cuts(chance), chance.sample(DOMAINS, 2)
        try:
            partition = Partition(sources[0] | sources[1], cuts, may_be_missing=False)
            given = [partition.classes_of(one) for one in sources]
        except TooMany:
            continue
        met = [0, 0]
        for value in VALUES:
            number = partition.class_of(value) if (sources[0] | sources[1]).allows(value) else None
            for side, one in enumerate(sources):
                if one.allows(value):
                    assert number is not None, value
                    assert same(value, partition.values[number], cuts), (value, partition.values[number])
                    assert given[side] >> number & 1, (value, one)
                    met[side] |= 1 << number
        if not any(one.ranges for one in sources):  # of numbers not every class is among the values here
            assert met == given, seed


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_the_shortest_texts_are_all_there(first: int) -> None:
    for seed in range(first, first + 20):
        chance = Random(seed)
        atoms = [Atom(chance.choice(QUESTIONS), chance.choice(LITERALS)) for _ in range(chance.randrange(1, 6))]
        longest = chance.randrange(6)
        best: dict[tuple[bool, ...], int] = {}
        for text in TEXTS:
            if len(text) <= longest:
                best.setdefault(tuple(atom.of(text) for atom in dict.fromkeys(atoms)), len(text))
        found = shortest(atoms, longest)
        assert found is not None, seed
        assert {tuple(atom.of(text) for atom in dict.fromkeys(atoms)): len(text) for text in found} == best
        assert len(found) == len(best), seed


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_the_second_checker_knows_of_the_same_short_texts(first: int) -> None:
    """It tries them all, and shares no code with the search: both must find the same answers."""
    for seed in range(first, first + 20):
        chance = Random(f"recheck {seed}")
        asked = [(chance.choice(QUESTIONS[1:]), chance.choice(LITERALS)) for _ in range(chance.randrange(1, 4))]
        but = frozenset(chance.sample(LITERALS, chance.randrange(3)))
        asked, longest = list(dict.fromkeys(asked)), chance.randrange(4)
        atoms = [*(Atom(*one) for one in asked), *(Atom("is", text) for text in but)]
        found = shortest(atoms, longest)
        assert found is not None, seed
        there = {tuple(Atom(*one).of(text) for one in asked) for text in found if text not in but}
        for answers in product((True, False), repeat=len(asked)):
            wanted = frozenset(zip(asked, answers, strict=True))
            assert may_exist(wanted, but, 0, longest) is (answers in there), seed


def test_a_search_for_short_texts_is_bounded() -> None:
    words = [f"{one}{two}{three}" for one, two, three in product("abcd", repeat=3)]
    assert shortest([Atom("contains", word) for word in words], 50) is None


# -- more patterns about one text --------------------------------------------------------------------------------------


def _choice(patterns: list[str], when: str) -> Report:
    asked = " or ".join(f"matches($a, '{one}')" for one in patterns)
    data = {
        "name": "choice",
        "language": 2,
        "inputs": {"a": {"type": "string"}},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": when}],
        "steps": [
            {"id": "asked", "type": "condition", "condition": asked, "then": "act", "otherwise": "done"},
            {"id": "act", "type": "tool", "tool": "pay", "next_step": "done"},
            {"id": "done", "type": "end"},
        ],
    }
    return ProgramValidator(Program.from_dict(data)).validate()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [3, 4, 5, 7])
def test_a_choice_between_patterns_is_decided(count: int) -> None:
    """A text matches few of them, so that they give few classes."""
    patterns = [f"^{letter}[0-9]+$" for letter in "abcdefg"[:count]]
    (proved,) = [one for one in _choice(patterns, "matches($a, '^[0-9]')").properties if one.rule == "r"]
    assert (proved.verdict, proved.rechecked) == (Verdict.PROVED, True)
    report = _choice(patterns, "matches($a, '^c')")
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.VIOLATED]
    (found,) = [one for one in report.findings if one.code == "SW403"]
    assert found.evidence is not None
    assert found.evidence.witness is not None, "the machine has confirmed it"


def test_many_patterns_that_one_text_may_match_are_left_open_at_once() -> None:
    """They give a class for each combination, and both checkers would take long."""
    patterns = [f"{one}.{{2}}{other}" for one, other in zip("abcde", "bcdef", strict=True)]
    report = _choice(patterns, "matches($a, '^ $')")
    (found,) = [one for one in report.properties if one.rule == "r"]
    assert found.verdict is Verdict.UNKNOWN
    assert found.seconds < 20
    assert {one.code for one in report.findings} == {"SW408"}
