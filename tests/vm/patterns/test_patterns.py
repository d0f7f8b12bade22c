"""Patterns: what the language's page says of each, what is refused in which words, and that no text takes long."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from typing import Any

import pytest

from machines import unchecked
from paths import ROOT
from stepward.sabotage.reference.types import is_of
from stepward.validator import ProgramValidator
from stepward.validator.engine.values.domains import of_type
from stepward.validator.recheck.certificates import parsed, recheck_data
from stepward.vm import Program, ProgramError, ScriptedModel
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.language.types import TypeSpec, refusal

PAGE = (ROOT / "specs/language.md").read_text(encoding="utf-8")


EMPTY = Program.from_dict({"name": "p", "steps": [{"id": "e", "type": "end"}]})


def rows() -> list[tuple[str, list[str], list[str]]]:
    """Return each row of the page's table: a pattern, texts that it is found in, and texts that it is not."""
    section = PAGE[PAGE.index("### Patterns") : PAGE.index("### Inference")]
    found = []
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = re.fullmatch(r"\| `(.*?)` \| (.*?) \| (.*?) ?\| .*? \|", line)
            assert cells is not None, line
            yes, no = ([json.loads(text) for text in re.findall(r"`(\".*?\")`", cell)] for cell in cells.groups()[1:])
            found.append((cells[1], yes, no))
    return found


CASES = [
    (pattern, text, fits) for pattern, yes, no in rows() for texts, fits in ((yes, True), (no, False)) for text in texts
]


def test_the_table_was_read() -> None:
    assert len(rows()) == 22
    assert len(CASES) > 60
    assert all(yes for _, yes, _ in rows())


@pytest.mark.parametrize(("pattern", "text", "fits"), CASES)
def test_a_row_of_the_page_is_what_everybody_does(pattern: str, text: str, fits: bool) -> None:
    data = {"type": "string", "pattern": pattern}
    spec = TypeSpec.model_validate(data)
    assert (refusal(text, spec) is None) is fits
    assert is_of(text, spec) is fits
    assert of_type(spec).allows(text) is fits
    program = Program.from_dict(
        {
            "name": "p",
            "steps": [{"id": "ask", "type": "llm", "prompt": "?", "returns": data}, {"id": "e", "type": "end"}],
        }
    )
    reply = json.dumps(text) if text != text.strip() or not text else text
    run = unchecked({}, ScriptedModel({"ask": reply})).run_sync(program)
    if reply == text:
        assert (run.status == "SUCCESS") is fits


def refused(pattern: str) -> str:
    with pytest.raises(ProgramError) as error:
        Program.from_dict(
            {
                "name": "p",
                "inputs": {"s": {"type": "string", "pattern": pattern}},
                "steps": [{"id": "e", "type": "end"}],
            }
        )
    (problem,) = error.value.problems
    assert problem.code == "SW002"
    assert problem.place.path == ("inputs", "s", "pattern")
    return f"{problem.message}; {problem.help}"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(?=b)", "a look-ahead `(?=…)` is not supported; write the pattern without it"),
        ("a(?!b)", "a look-ahead `(?!…)`"),
        ("(?<=a)b", "a look-behind `(?<=…)`"),
        ("(?<!a)b", "a look-behind `(?<!…)`"),
        (r"(a)\1", r"a back-reference `\1` is not supported; write the repeated part twice"),
        ("(?P<n>a)(?P=n)", "a back-reference `(?P=…)`"),
        ("(?>a)", "an atomic group `(?>…)` is not supported; write `(?:…)`"),
        ("a++", "a possessive repetition"),
        ("(a)?(?(1)b|c)", "a condition `(?(…)…)`"),
        ("a(?#b)", "a comment"),
        ("(?x)a b", "the flag `x` is not supported; the flags are `i`, `m`, `s` and `U`"),
        (r"a\Z", r"`\Z` is not supported; write `$` or `\z`"),
        (r"\u00e9", r"`\u` is not supported; write the code point as `\x{1F600}`"),
        (r"\q", r"`\q` has no meaning; write `q`"),
        ("a{,3}", "`{,3}` is plain text here, and a repetition in Python; write `{0,3}` to repeat"),
        ("a**", "`*` comes after another repetition; put `(?:…)` around the first one"),
        ("*a", r"`*` repeats nothing; write `\*`"),
        ("a{2,1}", "at least 2 and at most 1"),
        ("a{1001}", "repeats more than 1,000 times; write 1000 or less"),
        ("(?:a{1000}){1000}", "invalid repetition size"),
        (
            "[ab]{900}[cd]{900}[ef]{900}",
            "with its repetitions written out it has 2,700 characters; repeat less, 2,000 at most",
        ),
        (r"\pL{900}", "it is too large"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
        ("(a", "a `(` is not closed"),
        ("a)", "a `)` closes nothing"),
        ("[a", "a `[` is not closed"),
        ("[b-a]", "the range `b-a` runs backwards"),
        ("[[:letters:]]", "there is no class `[:letters:]`; write one of alnum, "),
        (r"\p{Klingon}", "invalid character class range"),
        ("a\\", r"a `\` ends the pattern"),
        (r"\xg", r"`\x` has no code point after it"),
    ],
)
def test_what_is_refused_is_said_in_words(pattern: str, words: str) -> None:
    assert words in refused(pattern)


@pytest.mark.parametrize(
    "pattern", [r"a\{,3}", r"\\{2}", "[ab]{1000}", "(?i)a", "(?P<n>a)", "(?<n>a)", "", r"\Qa+b\E", "a{b}"]
)
def test_what_is_no_mistake_is_accepted(pattern: str) -> None:
    TypeSpec.model_validate({"type": "string", "pattern": pattern})


@pytest.mark.parametrize(
    "pattern", [r"^(\w+\s?)*$", "^(a+)+$", "(a|a|a)+$", "a*a*a*a*a*a*b", "^(a|aa)+$", r"^(\w*)*!\w$", "(x+x+)+y"]
)
def test_no_text_takes_long(pattern: str) -> None:
    """Each of these takes Python's `re` minutes at least."""
    reply = "a" * 100_000 + "!"
    program = Program.from_dict(
        {
            "name": "p",
            "steps": [{"id": "a", "type": "llm", "prompt": "?", "returns": {"type": "string", "pattern": pattern}}],
        }
    )
    began = time.process_time()
    run = unchecked({}, ScriptedModel({"a": reply})).run_sync(program)
    assert run.status == "FAILED"
    assert time.process_time() - began < 2


def test_only_a_pattern_costs_the_import_of_re2() -> None:
    code = """
import sys
from stepward.vm import ExecutionVM, Program
steps = [{"id": "e", "type": "end"}]
text = {"type": "string", "default": ""}
ExecutionVM(checker=None).run_sync(Program.from_dict({"name": "p", "inputs": {"s": text}, "steps": steps}))
early = {"re2", "stepward.vm.patterns.syntax"} & set(sys.modules)
Program.from_dict({"name": "p", "inputs": {"s": {"type": "string", "pattern": "a"}}, "steps": steps})
print(early, "re2" in sys.modules, "stepward.vm.patterns.automaton" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split("\n")[0] == "set() True False"


# -- patterns in proofs and witnesses ----------------------------------------------------------------------------------


def checked(when: str, **spec: Any) -> tuple[str, str | None]:
    """Return the verdict on a rule that no call has an argument of a type of which something holds, and a witness."""
    program = Program.from_dict(
        {
            "name": "p",
            "inputs": {"s": {"type": "string", **spec}},
            "tools": {"t": {"effect": "write", "args": {"a": {}}}},
            "guardrails": [{"name": "g", "never": {"tool": "t"}, "when": when}],
            "steps": [{"id": "r", "type": "tool", "tool": "t", "args": {"a": "$s"}}],
        }
    )
    (found,) = ProgramValidator(program).validate().properties
    witness = found.evidence.witness
    return found.verdict.value, None if witness is None else dict(witness.inputs)["s"]


ORDER = "^ORD-[0-9]{6}$"


@pytest.mark.parametrize(
    ("pattern", "when", "verdict"),
    [
        (ORDER, "not ($args.a starts_with 'ORD-')", "proved"),
        (ORDER, "len($args.a) != 10", "proved"),
        (ORDER, "len($args.a) == 10", "ORD-000000"),
        (ORDER, "len($args.a) + 1 > 11", "proved"),
        (ORDER, "$args.a == 'ORD-12345'", "proved"),
        (ORDER, "$args.a == 'ORD-123456'", "ORD-123456"),
        (ORDER, "$args.a contains 'x' or $args.a contains '--'", "proved"),
        (ORDER, "$args.a ends_with '7' and $args.a contains '99'", "ORD-000997"),
        (ORDER, "$args.a in ['ORD-1', 'ord-000000', '']", "proved"),
        ("^(a|b)+$", "len($args.a) > 3 and not ($args.a contains 'a') and not ($args.a contains 'bb')", "proved"),
        ("^(a|b)+$", "len($args.a) > 3 and not ($args.a contains 'a')", "bbbb"),
        ("^[A-Z]{3}$", "len($args.a) + 1 == 4 and $args.a starts_with 'A' and $args.a ends_with 'B'", "AXB"),
        ("^[A-Z]{3}$", "len($args.a) + 1 == 4 and $args.a starts_with 'a'", "proved"),
        (r"\d", "$args.a == 'room'", "proved"),
        ("(?i)^yes$", "$args.a == 'no' or len($args.a) > 3", "proved"),
        (r"^\w+\b.*$", "$args.a == ''", "proved"),  # no automaton knows `\b`: but RE2 knows the literal
        (r"^\bx\b$", "$args.a starts_with 'y'", "unknown"),
    ],
)
def test_a_pattern_takes_part_in_proofs_and_witnesses(pattern: str, when: str, verdict: str) -> None:
    found, witness = checked(when, pattern=pattern)
    assert (witness if found == "violated" else found) == verdict


def test_a_pattern_and_a_length_take_part_together() -> None:
    assert checked("len($args.a) > 3", pattern=r"^\d+$", maxLength=3) == ("proved", None)
    assert checked("$args.a contains '77' and len($args.a) == 3", pattern=r"^\d+$", maxLength=3)[1] in ("077", "770")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"pattern": "^abc$", "maxLength": 2}, "matches no text of at most 2 characters; correct the pattern, or"),
        ({"pattern": "a^"}, "the pattern `a^` matches no text; correct the pattern"),
        ({"pattern": "$a|(?:b^)+"}, "matches no text"),
        ({"pattern": r"[^\x00-\x{10FFFF}]"}, "matches no text"),
    ],
)
def test_a_pattern_that_no_text_has_is_refused(spec: dict[str, Any], words: str) -> None:
    steps = [{"id": "e", "type": "end"}]
    with pytest.raises(ProgramError) as error:
        Program.from_dict({"name": "p", "inputs": {"s": {"type": "string", **spec}}, "steps": steps})
    (problem,) = error.value.problems
    assert words in f"{problem.message}; {problem.help}"


@pytest.mark.parametrize("pattern", ["a$|^b", "(?:^a|b$)", "$^", "(?:^)*a", "^(?:a|^b)$", r"a{2}\z"])
def test_ends_amid_a_pattern_are_no_mistake_where_a_text_has_it(pattern: str) -> None:
    TypeSpec.model_validate({"type": "string", "pattern": pattern, "maxLength": 2})


def test_a_pattern_of_two_sources_is_of_neither() -> None:
    """A variable with two sources has the texts of both patterns; a third one has any."""

    def program(*patterns: str | None) -> Program:
        returns = [{"type": "string"} | ({} if one is None else {"pattern": one}) for one in patterns]
        tools = {f"t{number}": {"effect": "read", "returns": spec} for number, spec in enumerate(returns)}
        steps: list[dict[str, Any]] = [
            {
                "id": f"s{n}",
                "type": "tool",
                "tool": f"t{n}",
                "output_key": "v",
                "next_step": "which",
                "on_error": "skip",
            }
            for n in range(len(patterns))
        ]
        routes = [{"when": f"$n == {n}", "then": f"s{n}"} for n in range(len(patterns))]
        route = {"id": "route", "type": "condition", "cases": routes, "otherwise": "stop"}
        end = {"id": "which", "type": "condition", "condition": "defined($v) and $v starts_with 'x'", "then": "pay"}
        pay = [{"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"}, {"id": "stop", "type": "end"}]
        return Program.from_dict(
            {
                "name": "p",
                "inputs": {"n": {"type": "integer"}},
                "tools": {**tools, "pay": {"effect": "write"}},
                "guardrails": [{"name": "g", "never": {"step": "pay"}}],
                "steps": [route, *steps, {**end, "otherwise": "stop"}, *pay],
            }
        )

    def verdict(*patterns: str | None) -> str:
        return ProgramValidator(program(*patterns)).validate().properties[0].verdict.value

    assert verdict("^a", "^b+$") == "proved"
    assert verdict("^a", "^b+$", "^[b-y]") == "violated"
    assert verdict("^a", None) == "violated"
    assert verdict("^[^x]", "^$|^[^x]+$") == "proved"


@pytest.mark.parametrize(("narrow", "wide", "is_sure"), [(ORDER, "^[A-Z]+-", True), ("^[A-Z]+-", ORDER, False)])
def test_a_call_whose_argument_has_a_narrower_pattern_starts(narrow: str, wide: str, is_sure: bool) -> None:
    """Else `followed_by` could be broken by a call that never starts."""
    program = Program.from_dict(
        {
            "name": "p",
            "inputs": {"order": {"type": "string", "pattern": narrow}},
            "tools": {
                "pay": {"effect": "write", "args": {"order": {"type": "string"}}},
                "book": {"effect": "write", "idempotent": True, "args": {"order": {"type": "string", "pattern": wide}}},
            },
            "guardrails": [{"name": "g", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "book"}}}],
            "steps": [
                {"id": "pay", "type": "tool", "tool": "pay", "args": {"order": "$order"}},
                {"id": "book", "type": "tool", "tool": "book", "args": {"order": "$order"}, "on_error": "skip"},
            ],
        }
    )
    report = ProgramValidator(program).validate()
    assert (report.properties[0].verdict.value == "proved") is is_sure


def test_random_patterns_are_proved_only_where_no_text_breaks_them() -> None:
    """Two sources of one variable, random patterns, a random rule: held against all texts of up to four characters."""
    rng = random.Random(8)
    pieces = ["a", "b", "[ab]", "[^a]", "(?:ab)", "|", "*", "+", "?", "{2}", "^", "$", "^a", "b$", "^[ab]*$", r"\b"]
    asked = ["$v starts_with 'a'", "$v ends_with 'b'", "$v contains 'ab'", "len($v) > 2", "$v == 'ab'", "len($v) == 1"]
    every = ["".join(one) for size in range(5) for one in product("abc", repeat=size)]
    seen: Counter[str] = Counter()
    while seen.total() < 80:
        forms = ["".join(rng.choice(pieces) for _ in range(rng.randint(1, 5))) for _ in range(2)]
        try:
            specs = [TypeSpec.model_validate({"type": "string", "pattern": form, "maxLength": 4}) for form in forms]
        except ValueError:
            continue
        rule = " and ".join(f"{rng.choice(['', 'not '])}({one})" for one in rng.sample(asked, 2))
        report = ProgramValidator(two_sources(*forms, rule=rule, longest=4), certify=True).validate()
        (found,) = [one for one in report.properties if one.name == "never"]
        seen[found.verdict.value] += 1
        tree = parse(rule.replace("$v", "$s"))
        broken = [
            text
            for text in every
            if any(refusal(text, spec) is None for spec in specs) and evaluate_condition(tree, lambda _: text)  # noqa: B023
        ]
        assert not (found.verdict.value == "proved" and broken), (forms, rule, broken[0])
        if found.verdict.value == "proved":
            assert found.certify is not None
            said = recheck_data(parsed(found.certify().to_json()))
            assert not said.why_not, (forms, rule, said.why_not)
    assert seen["proved"] >= 15
    assert seen["violated"] >= 15
    assert seen["unknown"] <= 12, "these are of `\\b`, which no automaton knows"


@pytest.mark.parametrize(
    ("first", "second", "when", "verdict"),
    [
        ("^a", "^b", "$v starts_with 'a' or $v starts_with 'b'", "proved"),
        ("^a", "^b", "$v starts_with 'a'", "violated"),
        ("^b", "^a", "$v starts_with 'a'", "violated"),
        ("^a", None, "$v starts_with 'a'", "violated"),
        (None, "^a", "$v starts_with 'a'", "violated"),
        ("^aa?$", "^b$", "$v in ['a', 'aa', 'b']", "proved"),
        ("^aa?$", "^b$", "len($v) == 1", "violated"),
    ],
)
def test_cases_cover_the_texts_of_every_source(first: str | None, second: str | None, when: str, verdict: str) -> None:
    data = two_sources(first or "", second or "", rule="true", longest=9).to_dict()
    for name, form in (("one", first), ("two", second)):
        if form is None:
            del data["tools"][name]["returns"]["pattern"]
    cases = {"id": "pay", "type": "condition", "cases": [{"when": when, "then": "e"}]}
    data["steps"] = [*data["steps"][:-1], cases, {"id": "e", "type": "end"}]
    del data["guardrails"]
    found = [one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.step == "pay"]
    assert [one.verdict.value for one in found] == [verdict]


def two_sources(first: str, second: str, *, rule: str, longest: int) -> Program:
    tools = {
        name: {"effect": "read", "returns": {"type": "string", "pattern": form, "maxLength": longest}}
        for name, form in (("one", first), ("two", second))
    }
    return Program.from_dict(
        {
            "name": "p",
            "inputs": {"n": {"type": "boolean"}},
            "tools": {**tools, "pay": {"effect": "write", "args": {"v": {}}}},
            "guardrails": [{"name": "g", "never": {"tool": "pay"}, "when": rule.replace("$v", "$args.v")}],
            "steps": [
                {"id": "c", "type": "condition", "condition": "$n", "then": "one", "otherwise": "two"},
                {"id": "one", "type": "tool", "tool": "one", "output_key": "v", "next_step": "pay"},
                {"id": "two", "type": "tool", "tool": "two", "output_key": "v", "next_step": "pay"},
                {"id": "pay", "type": "tool", "tool": "pay", "args": {"v": "$v"}},
            ],
        }
    )


# -- values for attacks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [ORDER, r"^\d+$", r"\w\s\d", r"(?i)^yes\z", "^[[:alpha:]]{2}$", r"^\x{41}$", "^é+$", "(?P<n>a)|b", r"\bx$", "^$"],
)
def test_attacks_have_values_of_a_pattern(pattern: str) -> None:
    """Also of one that Python reads otherwise, or not at all."""
    from hypothesis import given, settings

    from stepward.sabotage.playing.strategies import Constants, values_of
    from stepward.vm.language.meaning import Meaning

    spec = TypeSpec.model_validate({"type": "string", "pattern": pattern})

    @settings(max_examples=30, database=None, derandomize=True)
    @given(values_of(spec, Constants(Meaning(EMPTY))))
    def all_fit(value: Any) -> None:
        assert refusal(value, spec) is None

    all_fit()
