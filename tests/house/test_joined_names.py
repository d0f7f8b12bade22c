"""Fast: where names that users choose are joined to one text, two different pairs of names never give the same text."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from machines import Bench, program, tool
from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding, PolicyTag, Severity
from stepward.validator.gate.baseline import entry_of
from stepward.validator.gateway.callers import Callers
from stepward.validator.gateway.gateway import _run_id
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.refusals import Unreadable
from stepward.validator.report.fingerprints import fingerprints
from stepward.validator.result import AdvisedError
from stepward.vm import Policy, PolicyError, Program, StepwardError
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.within import waived
from stepward.vm.machine.keys import Token, idempotency_key, token_reference
from stepward.vm.machine.plan import Plan
from stepward.vm.reading.source import Place

NAMES = ["a", "b", "c", "a:b", "b:c", "a:b:c", "a/b", "b/c", "a.b", "b.c", "a b", "1", "1:1", "a:1", "a.output", ""]
"""Names of which two, joined by a separator, may look like two others."""

PROGRAM = "0" * 64


def policy(name: str, rule: str = "r", waived: str | None = None) -> Policy:
    waiver = {"program": "p", "rule": waived, "reason": "we are moving", "expiry": "2099-01-01"}
    guardrails = [{"name": rule, "never": {"step": "pay"}}]
    return Policy.from_dict({"policy": name, "guardrails": guardrails, "waivers": [waiver] if waived else []})


def waiver(name: str, rule: str) -> object:
    (text,) = waived(program(tool("pay"), name="p"), [policy(name, waived=rule)], datetime.date(2026, 1, 1))
    return text


def finding(step: str, message: str) -> Finding:
    return Finding("SW403", "forbidden-state", Severity.ERROR, message, "", Place(), step, file="f")


def shown(step: str, variable: str) -> object:
    """Return the names of the values of a run that a step and a variable make."""
    data = {"name": "p", "steps": [{"id": step, "type": "tool", "tool": "read", "output_key": variable}]}
    names = Plan(Program.from_dict(data)).names_of_slots.values()
    assert len(set(names)) == len(names)
    return step, variable


def run_of_caller(caller: str, request: str) -> object:
    callers = Callers.of([{"name": caller, "token": "t" * 16}])
    return _run_id(callers.by_name[caller], request)


JOINED: dict[str, Callable[[str, str], object]] = {
    "a waived rule in a record: policy, rule": waiver,
    "an idempotency key: run, step": lambda run, step: idempotency_key(PROGRAM, run, step, 1, 1),
    "a token: run, secret": lambda run, step: Token(run, step.encode().hex()).text(),
    "the digest of a token: run, step": lambda run, step: Token(run, "secret").digest(PROGRAM, step, 1),
    "a token in the vault: step, number of the visit": lambda step, visit: token_reference(step, NAMES.index(visit), 1),
    "a fingerprint: step, message": lambda step, message: fingerprints([finding(step, message)])[0],
    "an entry of a baseline: step, message": lambda step, message: entry_of(finding(step, message), Path()),
    "values of a run: step, variable": shown,
    "a run of a caller: caller, request": run_of_caller,
    "the rule of a finding: policy, rule": PolicyTag,
}


@pytest.mark.parametrize("what", JOINED)
def test_two_pairs_of_names_give_two_texts_or_are_refused(what: str) -> None:
    found: dict[object, tuple[str, str]] = {}
    for pair in product(NAMES, NAMES):
        try:
            text = JOINED[what](*pair)
        except (StepwardError, AdvisedError, ValueError):
            continue  # one of the names is refused
        assert found.setdefault(text, pair) == pair
    assert len(found) > len(NAMES)


# -- a waiver lifts a rule of its own policy, and no other -------------------------------------------------------------

MEANT = [("a", "b:c", "a:b", "c"), ("a", "b/c", "a/b", "c"), ("a", "r", "a", "r")]
"""A policy and the rule that it waives, and another policy with a rule that looks the same when they are joined."""


def looks(name: str, waived: str, other: str, rule: str) -> list[Policy]:
    return [policy(name, "its-own", waived), policy(other, rule)]


@pytest.mark.parametrize("names", MEANT)
def test_no_waiver_lifts_a_rule_of_another_policy_in_the_machine(names: tuple[str, str, str, str]) -> None:
    try:
        run = Bench(policy=looks(*names)).run(program(tool("pay", "write"), name="p"))
    except PolicyError:
        return
    assert run.status == "FAILED"


@pytest.mark.parametrize("names", MEANT)
def test_no_waiver_lifts_a_finding_of_another_policy(names: tuple[str, str, str, str]) -> None:
    try:
        report = ProgramValidator(program(tool("pay", "write"), name="p"), policies=looks(*names)).validate()
    except PolicyError:
        return
    assert PolicyTag(*names[2:]) in [one.policy for one in report.errors]


def test_a_colon_in_the_name_of_a_policy_is_refused_and_a_recorded_one_is_read() -> None:
    with pytest.raises(PolicyError, match="the name `team:pay` of a policy has a colon") as caught:
        policy("team:pay")
    assert caught.value.problems[0].help == "write it without the colon, as `team-pay`"
    assert Policy.from_record({"policy": "team:pay"}, None).policy == "team:pay"


def test_two_policies_of_one_name_are_refused_for_one_program_only() -> None:
    paying = program(tool("pay", "write"), name="p")
    two = [policy("a", "one"), policy("a", "two")]
    for use in (
        lambda: Bench(policy=two).run(paying),
        lambda: ProgramValidator(paying, policies=two),
    ):
        with pytest.raises(PolicyError, match="two policies for one program have the name `a`"):
            use()
    with pytest.raises(Unreadable, match="two policies have the name `a`"):
        Parsed(paying, two)
    elsewhere = Policy.from_dict({**two[1].to_data(), "applies_to": ["q"]})
    assert ProgramValidator(paying, policies=[two[0], two[0], elsewhere]).validate().errors
    assert len(Meaning(paying, [two[0], elsewhere]).policies) == 1
