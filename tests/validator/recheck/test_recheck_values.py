"""What the second checker knows of variables with two sources: right proofs are accepted, false ones are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from seasoned_programs import Seasoned, seasoned_program
from sizes import size
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.recheck import evaluation, rules, search
from stepward.validator.recheck.blocks import Block, cut, meet, of_value
from stepward.validator.recheck.checking import Checker
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.claims import watcher
from stepward.validator.recheck.definite import Definite
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.origins import Origins, SourceFields
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.search import is_ruled_out
from stepward.validator.recheck.tracked import Tracked
from stepward.validator.recheck.walking import explored
from stepward.vm import Policy, Program
from stepward.vm.expressions.template import embedded
from two_sources import picked, program


def check(text: str) -> Report:
    return ProgramValidator(Program.from_yaml(text)).validate()


def verdicts(text: str) -> dict[str, str]:
    """Return the verdict on each property by its rule; no proof is refused."""
    report = check(text)
    refused = [one.message for one in report.findings if one.code == "SW902"]
    assert not refused, refused
    return {one.rule: one.verdict.value for one in report.properties}


# -- an input that a call takes away -----------------------------------------------------------------------------------

TAKEN = """
name: taken
inputs: {{v: {{type: string}}}}
tools: {{get: {{effect: read, returns: {{type: string}}}}, pay: {{effect: write, idempotent: true}}}}
steps:
  - {{id: a, type: {call}}}
  - {{id: c, type: condition, condition: defined($v), then: y}}
  - {{id: y, type: tool, tool: pay}}
"""
CALLS = {
    "a call that is skipped": ("tool, tool: get, output_key: v, on_error: skip", Verdict.VIOLATED),
    "a call whose error goes on": ("tool, tool: get, output_key: v, error_step: c, next_step: c", Verdict.VIOLATED),
    "a sub-step that is skipped": (
        "parallel, parallel_steps: [{id: b, type: tool, tool: get, output_key: v, on_error: skip}]",
        Verdict.VIOLATED,
    ),
    "a call that must succeed": ("tool, tool: get, output_key: v", Verdict.PROVED),
    "a `set`": ("set, set: {v: '$v'}", Verdict.PROVED),
    "a call for another variable": ("tool, tool: get, output_key: w, on_error: skip", Verdict.PROVED),
}


@pytest.mark.parametrize(("call", "verdict"), CALLS.values(), ids=CALLS)
def test_an_input_that_a_call_takes_away_is_not_always_there(call: str, verdict: Verdict) -> None:
    text = TAKEN.format(call=call)
    (one,) = check(text).properties
    assert one.verdict is verdict
    accepts = accepted(text, Claim("coverage", "c", None, "c"), [{"kind": "cut", "counts_visits": False}])
    assert accepts is (verdict is Verdict.PROVED)


def accepted(text: str, claim: Claim, parts: list[Any]) -> bool:
    """Return whether the second checker accepts a proof, whatever the engine says."""
    return Checker(Reading(Program.from_yaml(text)), solves_all=False).verdict(claim, parts).is_accepted


# -- right proofs ------------------------------------------------------------------------------------------------------

HEAD = """
name: two
inputs:
  mode: {type: string, maxLength: 1}
  other: {type: string, maxLength: 1}
  n: {type: integer}
  short: {type: string, pattern: "^a", maxLength: 4}
tools:
  texts: {effect: read, returns: {type: array, items: {type: string}}}
  empty: {effect: read, returns: {type: array, items: {type: string, maxLength: 0}}}
  flags: {effect: read, returns: {type: array, items: {type: boolean}}}
  nulls: {effect: read, returns: {type: array, items: {type: "null"}}}
  letter: {effect: read, returns: {type: string, maxLength: 1}}
  starts: {effect: read, returns: {type: string, pattern: "^a", maxLength: 4}}
  pay: {effect: write, idempotent: true}
  mail: {effect: write, idempotent: true, args: {x: {type: string}, y: {type: string}}}
  note: {effect: write, idempotent: true}
"""
LATER = "{id: pay, type: tool, tool: pay}"
WRITES = {
    "mode": "{id: a, type: tool, tool: letter, output_key: w}, {id: b, type: set, set: {w: $mode}}",
    "list": "{id: a, type: tool, tool: texts, output_key: t}, {id: b, type: set, set: {t: ['a']}}",
    "no list": "{id: a, type: tool, tool: texts, on_error: skip, output_key: t}, {id: b, type: set, set: {t: '[]'}}",
    "nulls": "{id: a, type: tool, tool: flags, output_key: t}, {id: b, type: tool, tool: nulls, output_key: t}",
    "empty": "{id: a, type: tool, tool: texts, output_key: t}, {id: b, type: tool, tool: empty, output_key: t}",
    "letter": "{id: a, type: tool, tool: texts, output_key: t}, {id: b, type: tool, tool: letter, output_key: t}",
}
"""Steps that give a variable a value twice, so that only the second counts."""

HOLDS = {
    "a copy of an input": ("mode", "$w == $mode"),
    "a copy of an input, asked the other way round": ("mode", "not ($mode != $w)"),
    "the members of a list": ("list", "$t contains 'a' and not ('b' in $t)"),
    "the length of a list and its members": ("list", "len($t) == 1 and $t contains 'a'"),
    "an empty list": ("no list", "not ('a' in $t)"),
    "a list of nulls": ("nulls", "not (1 in $t)"),
    "a list of empty texts": ("empty", "not ($t contains 'a')"),
    "a text that is shorter than what it is asked for": ("letter", "not ($t contains 'ok')"),
}


def never(when: str, steps: str) -> str:
    """Return a program in which a condition must not hold when `pay` starts."""
    rule = f'{{name: rule, never: {{tool: pay}}, when: "{when}"}}'
    return f"{HEAD}guardrails: [{rule}]\nsteps: [{steps}, {LATER}]"


def other_orders(writes: str) -> Iterator[str]:
    """Yield the two steps so that the other one counts, or so that one or the other comes."""
    first, second = WRITES[writes].replace("on_error: skip, ", "").split(", {id: b")
    yield f"{{id: b{second}, {first}"
    arm = "{id: c, type: condition, condition: $n > 0, then: a, otherwise: b}"
    yield f"{arm}, {first[:-1]}, next_step: pay}}, {{id: b{second[:-1]}, next_step: pay}}"


@pytest.mark.parametrize(("writes", "holds"), HOLDS.values(), ids=HOLDS)
def test_what_a_variable_is_given_last_counts(writes: str, holds: str) -> None:
    assert verdicts(never(f"not ({holds})", WRITES[writes]))["rule"] == "proved"
    for steps in other_orders(writes):
        assert verdicts(never(f"not ({holds})", steps))["rule"] == "violated"


COPIES = {
    "of two names of one input": ("{id: s, type: set, set: {v: $mode, w: $mode}}", "$v == $w", True),
    "along a chain": ("{id: s, type: set, set: {w: $mode}}, {id: s2, type: set, set: {v: $w}}", "$v == $mode", True),
    "of numbers in order": ("{id: s, type: set, set: {v: $n}}", "$v <= $n and not ($v < $n)", True),
    "that is overwritten": (
        "{id: s, type: set, set: {w: $mode}}, {id: s2, type: tool, tool: letter, output_key: w}",
        "$w == $mode",
        False,
    ),
    "of what is overwritten": (
        "{id: i, type: tool, tool: letter, output_key: x}, {id: s, type: set, set: {w: $x}}, "
        "{id: s2, type: tool, tool: letter, output_key: x}",
        "$w == $x",
        False,
    ),
    "of what the same step overwrites": (
        "{id: i, type: set, set: {x: $mode, w: $other}}, {id: s, type: set, set: {w: $x, x: $other}}",
        "$w == $x",
        False,
    ),
    "by an input that has a value already": (
        "{id: c, type: condition, condition: $n > 0, then: s, otherwise: pay}, "
        "{id: s, type: set, set: {other: $mode}, next_step: pay}",
        "$other == $mode",
        False,
    ),
    "in one arm alone": (
        "{id: i, type: set, set: {w: $other}}, {id: c, type: condition, condition: $n > 0, then: s, otherwise: pay}, "
        "{id: s, type: set, set: {w: $mode}, next_step: pay}",
        "$w == $mode",
        False,
    ),
}


@pytest.mark.parametrize(("steps", "holds", "is_proved"), COPIES.values(), ids=COPIES)
def test_a_copy_is_one_as_long_as_nobody_writes_either(steps: str, holds: str, is_proved: bool) -> None:
    assert verdicts(never(f"not ({holds})", steps))["rule"] == ("proved" if is_proved else "violated")


HANDED = f"""{HEAD}
guardrails: [{{name: rule, never: {{tool: mail}}, when: "$args.y != $ARG"}}]
steps:
  - {{id: s, type: set, set: {{w: $mode}}}}
  - {{id: m, type: tool, tool: mail, args: {{x: $other, y: $w}}}}
"""


def test_an_argument_is_what_it_was_handed() -> None:
    assert verdicts(HANDED.replace("$ARG", "$mode"))["rule"] == "proved"
    assert verdicts(HANDED.replace("$ARG", "$other"))["rule"] == "violated"


CASES = f"""{HEAD}
steps:
  - {{id: a, type: tool, tool: starts, error_step: c, output_key: t}}
  - {{id: b, type: set, set: {{t: VALUE}}}}
  - {{id: c, type: condition, cases: [{{when: "false", then: pay}}, {{when: len($t) > 1, then: pay}}], exclusive: true}}
  - {LATER}
"""


@pytest.mark.parametrize("value", ["\"'ab'\"", "$short", "7"])
def test_a_case_names_no_class_that_a_pattern_leaves_out(value: str) -> None:
    """One source has a pattern, the other is a `set`: together they give no text that neither gives."""
    report = check(
        CASES.replace("VALUE", value).replace("len($t) > 1", "defined($t)" if value == "7" else "len($t) > 1")
    )
    assert [one.code for one in report.findings if one.code == "SW902"] == []


# -- false proofs ------------------------------------------------------------------------------------------------------


def ruled_out(one: Seasoned) -> tuple[int, list[str]]:
    """Return how many violations the machine has confirmed, and those that the second checker rules out."""
    held, policies = Program.from_dict(one.program), [Policy.from_dict(data) for data in one.policies]
    report = ProgramValidator(held, policies, recheck=False).validate()
    reading, count, found = Reading(held, policies), 0, []
    for prop in report.properties:
        if prop.verdict is not Verdict.VIOLATED:
            continue
        count += 1
        watched = watcher(Claim(prop.name, prop.rule, prop.policy, prop.step, prop.number), reading)
        known = explored(reading, watched)
        if not known or is_ruled_out(reading, watched, known, is_wide=True):
            found.append(f"{prop.name} {prop.rule}")
    return count, found


def random_programs(numbers: Iterable[int]) -> Iterator[Seasoned]:
    for number in numbers:
        data = program(*picked(Random(number)))
        yield from (Seasoned(data, [], data), seasoned_program(number))


LONGER = [
    ("{id: a, type: tool, tool: letter, output_key: t}", "not ($t contains 'b')"),
    (
        "{id: c, type: condition, condition: $n > 0, then: a, otherwise: b}, "
        "{id: a, type: tool, tool: letter, output_key: t, next_step: pay}, "
        "{id: b, type: tool, tool: starts, output_key: t, next_step: pay}",
        "not ($t contains 'ab')",
    ),
]
"""Texts that are just as long as what they are asked for, and texts from two sources of which one gives longer ones."""


def minimal_programs() -> Iterator[Seasoned]:
    """Yield the programs of this file that break their rule."""
    texts = [never(f"not ({holds})", steps) for writes, holds in HOLDS.values() for steps in other_orders(writes)]
    texts += [never(f"not ({holds})", steps) for steps, holds, is_proved in COPIES.values() if not is_proved]
    texts += [never(f"not ({holds})", steps) for steps, holds in LONGER]
    texts += [TAKEN.format(call=call) for call, verdict in CALLS.values() if verdict is Verdict.VIOLATED]
    texts += [
        HANDED.replace("$ARG", "$other"),
        HANDED.replace("x: $other, y: $w", "x: $w, y: $other").replace("$ARG", "$mode"),
    ]
    for data in (Program.from_yaml(text).to_data() for text in texts):
        yield Seasoned(data, [], data)


def test_what_the_machine_has_seen_is_never_ruled_out() -> None:
    found = [ruled_out(one) for one in minimal_programs()]
    assert [count for count, _ in found] == [1] * len(found)
    found += [ruled_out(one) for one in random_programs(range(size(6, 40)))]
    assert sum(count for count, _ in found) > size(35, 120)
    assert [one for _, wrong in found for one in wrong] == []


def forgetful(right: Callable[..., Any]) -> Callable[..., Any]:
    """Return a data flow that has all facts after a step again."""

    def after(self: Definite, number: int, way: Transition, before: int, takes: Any) -> int | None:
        found = right(self, number, way, before, takes)
        return None if found is None else found | (1 << self._tracked.count) - 1

    return after


def without_lists(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return cells without those for arrays of which only the length is known, if others are."""
    exact = [cell for cell in blocks if cell.kind == "array" and cell.contents is not None]
    return tuple(cell for cell in blocks if cell.kind != "array" or cell in exact or not exact)


def shorter(right: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes a text for shorter by one than it can be."""
    return lambda question, text, literal: right(
        question, text if text.high is None else text._replace(high=text.high - 1), literal
    )


def careless(_: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes any argument for the first."""

    def handed(part: Any, names: tuple[str, ...]) -> tuple[str, ...]:
        return next(embedded(part.args)).reference.names if names[0] == "args" else names

    return handed


MISTAKES: dict[str, tuple[object, str, Callable[[Any], Any]]] = {
    "facts never end": (Tracked, "_changed", lambda right: lambda *a, **k: (0, right(*a, **k)[1])),
    "no input is given": (Tracked, "at_entry", lambda _: property(lambda self: (1 << self.count) - 1)),
    "a value is of no other source": (Tracked, "sources", lambda right: lambda *a: (right(*a) or ())[:1] or None),
    "two copies are alike": (Tracked, "is_one_value", lambda _: lambda *_: True),
    "an input is always there": (Origins, "is_always_there", lambda _: Origins.is_input),
    "a path that meets another is forgotten": (Definite, "_after", forgetful),
    "a list stands for all lists": (search, "cut", lambda right: lambda given: without_lists(right(given))),
    "a text has one character less": (evaluation, "_answers", shorter),
    "an argument is what a part of it is": (rules, "handed", careless),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_rules_out_what_happens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, mistake = MISTAKES[name]
    monkeypatch.setattr(where, what, mistake(getattr(where, what)))
    assert any(ruled_out(one)[1] for one in minimal_programs())


def test_a_proof_that_leaves_out_what_one_source_gives_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CASES.replace("VALUE", "\"'b'\"").replace('"false"', "$t == 'b'").replace("> 1", "> 0")
    of_pattern = {"texts": {"above": 0, "yes": [["starts_with", "a"]]}}
    part = {"kind": "cases", "references": [{"name": "$t", "classes": ["undefined", of_pattern]}]}
    claim = Claim("exclusive cases", "c", None, "c")
    assert verdicts(text)["c"] == "violated"
    assert not accepted(text, claim, [part])
    monkeypatch.setattr(
        Origins, "_givers", lambda self, names: SourceFields({(self.lookup.resolve(names).sources[0], ()): True}, False)
    )
    assert accepted(text, claim, [part])


@pytest.mark.parametrize("seed", range(5))
def test_every_value_is_in_one_cell(seed: int) -> None:
    chance = Random(seed)
    scalars = [None, True, 0, 1, 2, "", "a", "ab"]
    lists = [[chance.choice(scalars) for _ in range(chance.randrange(4))] for _ in range(30)]
    blocks = cut([*map(of_value, chance.sample(lists, 5)), *map(of_value, chance.sample(scalars, 3))])
    for value in [*scalars, *lists, [["a"], 1], {"a": 1}]:
        assert sum(meet(cell, of_value(value)) for cell in blocks) == 1, value


def test_exact_blocks_have_the_order_in_which_they_are_given() -> None:
    """That of a set would hang on the seed of the process, and with it the state that a refusal names."""
    words = ["pear", "fig", "apple", "plum", "kiwi", "lime", "date"]
    given = [of_value(word) for word in words]
    assert [block.value for block in cut(given) if block.kind == "string" and block.value is not None] == words
