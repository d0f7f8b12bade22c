"""Patterns against RE2: what is read, what automata and derivatives decide, and which classes of texts there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import re2

from sizes import size
from stepward.validator.engine.values import languages as classes_of_texts
from stepward.validator.engine.values.languages import cut_by_automata
from stepward.validator.engine.values.texts import Atom
from stepward.validator.recheck.languages import covers, may_match
from stepward.vm.language.types import TypeSpec, implies, refusal
from stepward.vm.patterns import automaton, charsets, languages
from stepward.vm.patterns.automaton import START, Automaton, AutomatonTooLarge, letters_of
from stepward.vm.patterns.languages import is_within, lengths_of, shortest
from stepward.vm.patterns.matching import matches
from stepward.vm.patterns.syntax import PatternError, parse

PIECES = [
    *("a", "b", "k", "S", "é", "1", "-", ",", "9", "a-c", "\\d", "\\w", "\\S", "\\s", "\\D", "\\W", "."),
    *("[ab]", "[^a]", "[a-c]", "[^k]", "[[:alpha:]]", "[^[:digit:]]", "[^\\W]", "\\n", "\\x41", "\\x{e9}", "\\Qa+\\E"),
    *("(", "(?:", ")", "|", "*", "+", "?", "{2}", "{1,2}", "{0,}", "{2,}", "^", "$", "\\A", "\\z"),
    *("(?i)", "(?i:", "(?s)", "(?s:.)", "(?-i)", "(?P<n>", "(?<m>"),
]
ODD = [
    *("[", "]", "[^", "{,2}", "{", "}", "\\b", "\\Z", "(?m)", "(?x)", "\\1", "\\12", "\\0", "\\x{", "[:alpha:]"),
    *("[:foo:]", "\\Q", "\\E", "\\pL", "\\p{Greek}", "(?=", "(?!", "(?<!", "\\.", "\\_", "\\q", "\\", "(?", "?", "++"),
    *("{3", "{2}{3}", "(?U)", "\\v", "\\C", "(?P=n)", "(?>", "\\u", "(?-)", "{1001}", "{2,1}"),
]
SIGNS = ["a", "b", "k", "K", "\u212a", "s", "S", "ſ", "1", " ", "\n", "\v", "-", "_", "é", "É", "A", "😀"]


def compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def patterns(seed: int, number: int, pieces: list[str] = PIECES, longest: int = 8) -> Iterator[str]:
    """Yield random patterns that RE2 accepts."""
    rng, found = random.Random(seed), 0
    while found < number:
        pattern = "".join(rng.choice(pieces) for _ in range(rng.randint(1, longest)))
        try:
            compiled(pattern)
        except re2.error:
            continue
        found += 1
        yield pattern


def texts(rng: random.Random, number: int, signs: list[str] = SIGNS, longest: int = 6) -> list[str]:
    return ["", *signs, *("".join(rng.choice(signs) for _ in range(rng.randint(1, longest))) for _ in range(number))]


def every_text(signs: str, longest: int) -> list[str]:
    return ["".join(one) for length in range(longest + 1) for one in product(signs, repeat=length)]


def test_what_is_read_is_what_re2_reads() -> None:
    rng, accepted = random.Random(1), 0
    for _ in range(size(2_500, 30_000)):
        pattern = "".join(rng.choice(PIECES + ODD) for _ in range(rng.randint(1, 7)))
        try:
            parse(pattern)
            mine = True
        except PatternError:
            mine = False
        try:
            compiled(pattern)
            theirs = True
        except re2.error as error:
            theirs = False
            if "invalid character class range: \\p" in error.args[0].decode():
                continue  # RE2 knows the names of Unicode's classes
        assert mine is theirs, pattern
        accepted += theirs
    assert accepted > size(600, 5_000)


def disagreement(seed: int, number: int) -> str | None:
    """Return a pattern and a text of which an automaton and RE2 say different things."""
    rng = random.Random(seed)
    for pattern in patterns(seed, number):
        tree = parse(pattern)
        try:
            letters = letters_of([tree])
            built = Automaton(tree, letters)
        except AutomatonTooLarge:
            continue
        known = compiled(pattern)
        for text in texts(rng, 30):
            state = START
            for sign in text:
                inside = [any(low <= ord(sign) <= high for low, high in one) for one in letters.of]
                letter = next(
                    number
                    for number in range(len(letters.examples))
                    if [bool(mask >> number & 1) for mask in letters.of.values()] == inside
                )
                state = built.step(state, letter)
            if built.accepts(state) != (known.search(text) is not None):
                return f"{pattern!r} and {text!r}"
    return None


def test_an_automaton_finds_what_re2_finds() -> None:
    assert disagreement(2, size(250, 1_500)) is None


def test_most_patterns_have_an_automaton() -> None:
    found = [one for one in patterns(3, size(100, 500)) if shortest(one)]
    assert len(found) > size(70, 350)


def test_the_shortest_texts_are_found_by_re2() -> None:
    for pattern in patterns(4, size(75, 400)):
        for text in shortest(pattern):
            assert compiled(pattern).search(text), (pattern, text)
            low, high = lengths_of(pattern)
            assert low <= len(text), pattern
            assert high is None or len(text) <= high, pattern


SMALL = [
    "a",
    "b",
    "[ab]",
    "[^a]",
    ".",
    "(",
    "(?:",
    ")",
    "|",
    "*",
    "+",
    "?",
    "{2}",
    "{1,2}",
    "{2,}",
    "^",
    "$",
    "^a",
    "b$",
]
TEXTS = every_text("abc", 5)
ATOMS = [
    Atom(question, literal)
    for question in ("is", "contains", "starts_with", "ends_with")
    for literal in ("a", "ab", "bb", "")
]  # type: ignore[arg-type]


def test_one_pattern_is_within_another_only_where_every_text_is() -> None:
    """By automata and by derivatives; texts of up to five characters decide about most of these patterns."""
    sure, rng = 0, random.Random(5)
    pool = list(patterns(5, 300, SMALL, 6))
    for _ in range(size(200, 1_200)):
        narrow, wide = rng.choice(pool), rng.choice([*pool, "^.*$", "a|b|c|^$"])
        longest, upto = rng.choice([None, 2, 4]), rng.choice([None, None, 1, 3])
        one, other = compiled(narrow), compiled(wide)
        counter = next(
            (
                text
                for text in TEXTS
                if one.search(text)
                and (longest is None or len(text) <= longest)
                and (not other.search(text) or (upto is not None and len(text) > upto))
            ),
            None,
        )
        said = is_within(narrow, longest, wide, upto)
        assert not (said and counter is not None), (narrow, wide, longest, upto, counter)
        assert not (covers(wide, narrow, longest, upto) and counter is not None), (narrow, wide, longest, upto, counter)
        assert covers(wide, narrow, longest, upto) is said, (narrow, wide, longest, upto)
        sure += said
    assert sure > size(12, 100)


def classes_by_hand(atoms: list[Atom], lengths: list[int], pattern: str, longest: int | None) -> set[Any]:
    return {
        place(text, atoms, lengths)
        for text in TEXTS
        if matches(pattern, text) and (longest is None or len(text) <= longest)
    }


def place(text: str, atoms: list[Atom], lengths: list[int]) -> Any:
    return tuple(atom.of(text) for atom in atoms), tuple((len(text) > one, len(text) < one) for one in lengths)


def classes_agree(seed: int, number: int) -> bool:
    """Hold classes against all texts of up to five characters, of patterns that need no longer ones."""
    rng, compared = random.Random(seed), 0
    for pattern in patterns(seed, number, SMALL, 5):
        atoms = rng.sample(ATOMS, rng.randint(0, 3))
        lengths = sorted(rng.sample(range(4), rng.randint(0, 2)))
        longest = rng.choice([None, 1, 3, 5])
        found = cut_by_automata(atoms, lengths, pattern, longest, 1_000)
        if found is None:
            continue
        compared += 1
        known = {place(text, atoms, lengths) for text in found}
        fitting = all(matches(pattern, text) and (longest is None or len(text) <= longest) for text in found)
        if not fitting or len(known) < len(found) or not classes_by_hand(atoms, lengths, pattern, longest) <= known:
            return False
    assert compared > number * 0.9
    return True


def test_every_text_is_of_a_class_and_every_class_has_its_text() -> None:
    assert classes_agree(6, size(100, 500))


def test_the_second_checker_leaves_just_the_classes_of_the_first() -> None:
    rng = random.Random(7)
    for pattern in patterns(7, size(30, 120), SMALL, 5):
        atoms = rng.sample([atom for atom in ATOMS if atom.question != "is"], 2)
        longest = rng.choice([None, 2, 4])
        found = cut_by_automata(atoms, (), pattern, longest, 1_000)
        assert found is not None
        known = {tuple(atom.of(text) for atom in atoms) for text in found}
        for answers in product([True, False], repeat=2):
            asked = frozenset((tuple(atom), answer) for atom, answer in zip(atoms, answers, strict=True))
            below = None if longest is None else longest + 1
            assert may_match(pattern, asked, -1, below) is (answers in known), (pattern, atoms, answers)  # type: ignore[arg-type]


def test_a_literal_that_is_left_out_leaves_the_rest() -> None:
    assert not may_match("^(a|b)$", but=frozenset(["a", "b"]))
    assert may_match("^(a|b|c)$", but=frozenset(["a", "b"]))
    assert not may_match("^a{3}$", above=3)
    assert may_match("^a{3}$", above=2, below=4)
    assert not may_match("^a{3}$", below=3)


def test_what_is_too_much_to_look_at_is_not_decided() -> None:
    hard = "(a|b)*a(a|b){30}c"
    assert not is_within(hard, None, "d|c", None)
    assert cut_by_automata([], (), hard, None, 10) is None
    assert may_match(hard, without="d|c")
    assert not is_within(r"\bx", None, "x", None)
    assert may_match(r"\bx", without="x")


TYPES = [
    *({"type": "string", "pattern": one} for one in ("^a", "a", "^[ab]+$", "^a{2,3}$", "b$", r"\ba", ".")),
    *({"type": "string", "pattern": one, "maxLength": 2} for one in ("^a", "^[ab]*$")),
    {"type": "string", "maxLength": 3},
    {"type": ["string", "null"], "pattern": "^b"},
    {"enum": ["a", "aa", "b"]},
    {"type": "string", "enum": ["aab", "ab"], "pattern": "b$"},
    {"type": "array", "items": {"type": "string", "pattern": "^a"}},
    {"type": "array", "items": {"type": "string", "pattern": "^a+$"}},
]


def test_a_text_is_built_for_each_class_and_not_for_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 20,000 states, of texts with up to 4,000 characters: a text for each would be 22 million characters."""
    built = []
    build = languages.Seen.text.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(languages.Seen, "text", property(lambda seen: built.append(build(seen)) or built[-1]))
    found = cut_by_automata([Atom("contains", "http")], [0, 4_000], None, None, 100)
    assert found is not None
    assert sorted((len(text), "http" in text) for text in found) == [
        (0, False),
        (1, False),
        (4, True),
        (4_000, False),
        (4_000, True),
        (4_001, False),
        (4_001, True),
    ]
    assert built == found


def test_what_is_seen_has_the_length_of_its_text() -> None:
    trees = [tree for tree in map(languages.tree_of, ("a+b?", "^.{2,5}$")) if tree is not None]
    for seen in languages.Product(trees, counted=7, longest=9).search():
        assert len(seen.text) == seen.length


def test_a_type_implies_another_only_where_every_value_is_of_both() -> None:
    values: list[Any] = [None, 1, *TEXTS, *((text,) for text in TEXTS if len(text) < 4)]
    specs = [TypeSpec.model_validate(one) for one in TYPES]
    sure = 0
    for one, other in product(specs, repeat=2):
        if implies(one, other):
            sure += one is not other
            for value in values:
                assert refusal(value, one) is not None or refusal(value, other) is None, (one, other, value)
    assert sure >= 12


# -- planted mistakes: each has to be seen -----------------------------------------------------------------------------


def test_a_wrong_class_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(charsets.CLASSES, "w", charsets.CLASSES["d"])
    assert disagreement(2, 1_500) is not None


def test_an_end_that_may_be_anywhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Automaton._reached
    monkeypatch.setattr(Automaton, "_reached", lambda self, at, is_start, **_: whole(self, at, is_start=is_start))
    assert disagreement(2, 1_500) is not None


def test_a_start_that_may_be_anywhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Automaton._reached
    monkeypatch.setattr(Automaton, "_reached", lambda self, at, is_start, **end: whole(self, at, is_start=True, **end))
    assert disagreement(2, 1_500) is not None


@pytest.mark.parametrize("change", ["counts", "asks"])
def test_classes_that_are_cut_too_coarsely_are_seen(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    whole = languages.Product.__init__

    def less(self: Any, trees: Any, *, needed: int = 0, counted: int = 0, longest: int | None = None) -> None:
        if change == "asks":
            trees = [*trees[:needed], *(trees[needed + 1 :] and [*trees[needed + 1 :], trees[needed + 1]])]
        whole(self, trees, needed=needed, counted=0 if change == "counts" else counted, longest=longest)

    monkeypatch.setattr(classes_of_texts.Product, "__init__", less)
    assert not classes_agree(6, 500)


def test_a_bound_on_states_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 5)
    tree = parse("^abcdefgh$")
    built = Automaton(tree, letters_of([tree]))
    with pytest.raises(AutomatonTooLarge):
        [built.step(state, letter) for state in range(2, 20) for letter in range(9)]
