"""What is left open without a search: the help says what to do, and done literally it is decided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from stepward.validator import Verdict
from stepward.validator.engine.clock import MORE_TIME, SMALLER, OutOfTime
from stepward.validator.failures import BROKEN
from stepward.validator.findings import Finding, Property
from stepward.validator.recheck.refusals import TooLarge
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program

ALONE = "`--no-recheck` reports the proof without a second check"
TOOLS: dict[str, Any] = {"look": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}}
FOLLOWED: dict[str, Any] = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}
ANY = FOLLOWED | {"ends": "any"}
PAY, LOOK = ({"id": name, "type": "tool", "tool": name} for name in TOOLS)
PAID = [{"id": "paid", "type": "tool", "tool": "pay"}, {"id": "seen", "type": "tool", "tool": "look"}]
NOTED = [{"id": "noted", "type": "set", "set": {"v": 1}}]
LOOKED = [{"id": "looked", "type": "tool", "tool": "look", "max_visits": 9}]
LAST = {"id": "last", "type": "tool", "tool": "look"}


def branches(*steps: Any, **more: Any) -> dict[str, Any]:
    """Return a parallel step with the branches `a`, `b` and so on."""
    named = dict(zip("abc", steps, strict=False))
    return {"id": "p", "type": "parallel", "branches": {name: {"steps": one} for name, one in named.items()}, **more}


def items(steps: list[Any], **more: Any) -> dict[str, Any]:
    return {"id": "each", "type": "for_each", "items": "$l", "as": "x", "on_item_error": "skip", "steps": steps, **more}


def made(*steps: Any, rules: Any = (), **more: Any) -> dict[str, Any]:
    inputs = {"l": {"type": "array", "maxItems": 9}, "f": {"type": "boolean"}}
    written = {"name": "t", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": list(rules)}
    return deepcopy(written | {"steps": list(steps)} | more)


def again(branch: list[Any]) -> list[Any]:
    """Return a parallel step to which a run may come back, with `paid` beside a branch that tells something."""
    told = [{"id": "told", "type": "end", "output": 1}]
    ask = {"id": "more", "type": "condition", "condition": "$f", "then": "p", "otherwise": "done"}
    return [
        branches(told, branch, max_visits=3, error_step="done", next_step="more"),
        ask,
        {"id": "done", "type": "end"},
    ]


CALL = {"id": "buy", "type": "call", "program": "buying"}
BUYING = {"programs": {"buying": {"inputs": {}, "steps": PAID, "guardrails": [ANY]}}}
BY_ID = {"name": "r", "followed_by": {"first": {"step": "paid"}, "then": {"step": "seen"}}, "ends": "any"}
BUYING_BY_ID = {"programs": {"buying": {"inputs": {}, "steps": PAID, "guardrails": [BY_ID]}}}
READ = {"name": "r", "never": {"tool": "pay"}, "when": "defined($a.output)"}

CASES = {
    "any ending beside a branch": made(branches(PAID, LOOKED), rules=[ANY]),
    "any ending beside two branches": made(branches(PAID, LOOKED, [LAST]), rules=[ANY]),
    "any ending beside items": made(items(PAID, max_concurrency=3), LAST, rules=[ANY]),
    "any ending beside branches and items": made(branches([items(PAID, max_concurrency=2)], LOOKED), LAST, rules=[ANY]),
    "a rule of items": made(items(PAID, guardrails=[ANY])),
    "a rule of items at once": made(items(PAID, max_concurrency=2, guardrails=[ANY])),
    "a rule of a branch": made({**branches(PAID, NOTED), "branches": {"a": {"steps": PAID, "guardrails": [ANY]}}}),
    "a rule of a called program": made(CALL, **BUYING),
    "a rule of a called program by ids": made(CALL, **BUYING_BY_ID),
    "a condition in a later round": made(*again(PAID), rules=[READ]),
}


def judged(data: dict[str, Any]) -> tuple[Property, Finding | None]:
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in report.findings if one.code.startswith("SW9")]
    found = [one for one in report.findings if one.code == "SW408"]
    return next(one for one in report.properties if one.rule.endswith("r")), found[0] if found else None


def rules_in(data: Any) -> Iterator[list[Any]]:
    """Yield every list of guardrails of a program."""
    if isinstance(data, dict):
        if data.get("guardrails"):
            yield data["guardrails"]
        for one in data.values():
            yield from rules_in(one)
    elif isinstance(data, list):
        for one in data:
            yield from rules_in(one)


def of_name(data: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the step or the branch of a name."""
    if isinstance(data, dict):
        if data.get("id") == name:
            yield data
        for key, one in data.items():
            if key == name and isinstance(one, dict) and "steps" in one:
                yield one
            yield from of_name(one, name)
    elif isinstance(data, list):
        for one in data:
            yield from of_name(one, name)


def done(data: dict[str, Any], told: str) -> dict[str, Any]:
    """Do one of the things that a help tells to do, in a copy of the program."""
    data = deepcopy(data)
    for name, where in re.findall(r"write `depends_on: \[(\w+)\]` in `(\w+)`", told):
        (branch,) = of_name(data, where)
        branch["depends_on"] = [name]
    for name in re.findall(r"remove `max_concurrency` of `(\w+)`", told):
        (step,) = of_name(data, name)
        del step["max_concurrency"]
    rule = next(rules_in(data))[0]
    if told == "do without `ends: any`":
        del rule["ends"]
    if told.startswith("do without `$"):
        rule["when"] = "$f"
    if told.startswith("move it to the `guardrails` of the program"):
        next(rules_in(data)).clear()
        if " with steps as " in told:
            rule["followed_by"] = {key: {"step": f"buy/{one['step']}"} for key, one in rule["followed_by"].items()}
        data["guardrails"] = [rule]
    assert told.split(" `", maxsplit=1)[0] in ("write", "remove", "do without", "move it to the"), told
    return data


@pytest.mark.parametrize("name", CASES)
def test_what_the_help_says_helps(name: str) -> None:
    data = CASES[name]
    found, finding = judged(data)
    assert found.verdict is Verdict.UNKNOWN
    assert finding is not None
    assert finding.message.endswith(found.evidence.reason)
    assert "time" not in finding.help
    for told in finding.help.split(", or "):
        assert judged(changed := done(data, told))[0].verdict is not Verdict.UNKNOWN, told
        assert changed != data


def test_a_condition_of_a_first_round_is_decided() -> None:
    """Where a run does not come back, or only in another item, nothing is left of an earlier round."""
    told = [{"id": "told", "type": "end", "output": 1}]
    for steps in ([branches(told, PAID)], [items([branches(told, PAID)])]):
        found, _ = judged(made(*steps, rules=[READ]))
        assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)


def test_a_rule_that_siblings_break_says_how_they_get_an_order() -> None:
    told = [{"id": "told", "type": "end", "output": 1}]
    needs = READ | {"when": "$a.output == 2"}
    for data, code in ((made(branches(told, PAID), rules=[needs]), "SW403"), (BESIDE, "SW405")):
        assert "`depends_on" in told_of(data, code)
        ordered = deepcopy(data)
        ordered["steps"][0]["branches"]["b"]["depends_on"] = ["a"]
        assert "`depends_on" not in told_of(ordered, code)


def told_of(data: dict[str, Any], code: str) -> str:
    report = ProgramValidator(Program.from_dict(data)).validate()
    return " ".join(one.help or "" for one in report.findings if one.code == code)


BESIDE = made(branches(PAID[:1], PAID[1:]), rules=[FOLLOWED | {"ends": "success"}])


def raises(error: Exception) -> Any:
    def work(*_: Any) -> Any:
        raise error

    return work


@pytest.mark.parametrize(
    ("place", "error", "told"),
    [
        ("engine.guardrails._Judge.judge_rule", OutOfTime("stopped by the clock after 1 s"), MORE_TIME),
        ("engine.guardrails._Judge.judge_rule", OutOfTime("stopped at 700 MB of memory", SMALLER), SMALLER),
        ("engine.guardrails._Judge.judge_rule", KeyError("k"), BROKEN),
        ("recheck.checking.Checker.is_plain", OutOfTime("stopped by the clock after 1 s"), f"{MORE_TIME}; {ALONE}"),
        ("recheck.checking.Checker.is_plain", TooLarge("it has too many"), f"make the program smaller; {ALONE}"),
        ("recheck.checking.Checker.is_plain", KeyError("k"), f"{BROKEN}; {ALONE}"),
    ],
)
def test_more_time_is_advised_only_where_the_clock_has_stopped_something(
    place: str, error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"stepward.validator.{place}", raises(error))
    report = ProgramValidator(Program.from_dict(made(*PAID, rules=[FOLLOWED]))).validate()
    assert [one.help for one in report.findings if one.code == "SW408"] == [told]
