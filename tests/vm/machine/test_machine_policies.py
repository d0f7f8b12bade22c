"""Fast: what a policy allows, knows, forbids and waives, in programs that nobody checked."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from machines import Bench, ask, assign, both, end, program, tool
from stepward.vm import ExecutionVM, InDoubt, Policy, Program, Suspend
from stepward.vm.journal.memory import MemoryJournal

PAY = {"tool": "write"}


# -- policies ----------------------------------------------------------------------------------------------------------


def policy(name: str = "desk", **fields: Any) -> Policy:
    return Policy.from_dict({"policy": name, **fields})


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ({}, ("FAILED", "error")),
        ({"on_error": "retry"}, ("FAILED", "error")),
        ({"on_error": "skip"}, ("SUCCESS", "declared")),
        ({"error_step": "out"}, ("FAILED", "declared")),
    ],
)
def test_a_tool_that_is_not_allowed_is_a_journaled_rejection_without_retries(how: Any, ending: Any) -> None:
    bench = Bench(policy=policy(allow=["read"]))
    run = bench.run(
        program(tool("a"), tool("pay", "write", next_step="e", **how), end("e"), end("out", outcome="failure"))
    )
    assert (run.status, run.reason) == ending
    assert bench.tools.steps() == ["a"]
    assert [(body["rule"], body["step"]) for body in bench.bodies("rejected")] == [("allow", "pay")]
    assert "intent" not in bench.kinds()


@pytest.mark.parametrize(("n", "is_allowed"), [(5, True), (200, True), (200.01, False), ("'5'", False), (None, False)])
def test_allow_with_a_condition_fails_closed(n: Any, is_allowed: bool) -> None:
    bench = Bench(policy=policy(allow=[{"tool": "write", "when": "$args.n <= 200"}]))
    args = {} if n is None else {"n": "$v"}
    run = bench.run(program(assign("s", v=0 if n is None else n), tool("pay", "write", args=args)))
    assert (run.status == "SUCCESS") is is_allowed
    assert len(bench.tools.asked) == is_allowed


def test_any_entry_of_a_recorded_policy_is_enough_but_every_policy_has_to_agree() -> None:
    entries = [{"tool": "write", "when": "$args.n < 0"}, {"tool": "write", "when": "$args.n == 5"}]
    many = Policy.from_record({"policy": "p", "allow": entries}, None)
    step = tool("pay", "write", args={"n": 5})
    assert Bench(policy=many).run(program(step)).status == "SUCCESS"
    assert Bench(policy=[many, policy("other", allow=["read"])]).run(program(step)).status == "FAILED"


def test_a_model_needs_no_allowance_and_sub_steps_do() -> None:
    bench = Bench(model={"l": "x"}, policy=policy(allow=["read"]))
    run = bench.run(program(both("p", ask("l"), tool("a"), tool("pay", "write"))))
    assert (run.status, bench.tools.steps(), len(bench.model.asked)) == ("FAILED", ["a"], 1)


def test_rules_and_facts_of_a_policy_hold_whatever_the_program_says() -> None:
    careful = policy(
        tools={"read": {"effect": "write", "idempotent": False}},
        guardrails=[{"name": "r", "at_most_once": {"effect": "write"}}],
    )
    bench = Bench(policy=careful)
    assert bench.run(program(tool("a"), tool("b"))).reason == "guardrail"
    assert [(body["step"], body["rule"]) for body in bench.bodies("rejected")] == [("b", "r")]
    assert bench.tools.steps() == ["a"]
    bench = Bench({"a": InDoubt("?")}, policy=careful)
    assert bench.run(program(tool("a"))).status == "IN_DOUBT"
    assert Bench(policy=policy(applies_to=["another"], allow=[])).run(program(tool("a"))).status == "SUCCESS"


def test_the_policies_are_in_every_intent_and_no_run_goes_on_under_others() -> None:
    bench = Bench(policy=policy(allow=["write"]))
    bench.run(program(tool("pay", "write")))
    assert bench.bodies("intent")[0]["policies"] == bench.bodies("started")[0]["policies"] != []


def test_one_text_in_two_files_comes_under_the_policies_of_each(tmp_path: Path) -> None:
    for folder in ("free", "ruled"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.yaml").write_text("steps: [{id: a, type: set, set: {x: 1}}]")
    journal = MemoryJournal()
    machine = ExecutionVM(journal=journal, policy=policy(applies_to=["*/ruled/*"]), checker=None)
    for folder in ("free", "ruled"):
        machine.run_sync(Program.load(tmp_path / folder / "p.yaml"), run_id=folder)
        assert machine.get_sync(folder).status == "SUCCESS"


def waived(expiry: str, rule: str = "once", program: str = "bench") -> Policy:
    waiver = {"program": program, "rule": rule, "reason": "two instalments", "expiry": expiry}
    return policy(guardrails=[{"name": "once", "at_most_once": PAY}], allow=["write", "read"], waivers=[waiver])


TWICE = program(tool("a", "write"), tool("pay", "write"))
TODAY = datetime.date(2026, 1, 1)  # that of the manual clock


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (waived("2026-01-01"), "SUCCESS"),
        (waived("2025-12-31"), "FAILED"),
        (waived("2030-01-01", rule="other"), "FAILED"),
        (waived("2030-01-01", program="another"), "FAILED"),
    ],
)
def test_a_waiver_holds_to_its_last_day_for_its_program_and_rule(made: Policy, status: str) -> None:
    bench = Bench(policy=made)
    assert datetime.datetime.fromtimestamp(bench.clock.time / 1e6, datetime.UTC).date() == TODAY
    assert bench.run(TWICE).status == status


def test_a_waiver_ends_while_the_machine_goes_on_but_not_within_a_run() -> None:
    bench = Bench({"w": Suspend()}, policy=policy(guardrails=[{"name": "once", "at_most_once": PAY}], waivers=[
        {"program": "bench", "rule": "once", "reason": "r", "expiry": "2026-01-01"}]))  # fmt: skip
    waits = program(tool("w", "ask"), tool("a", "write"), tool("pay", "write"))
    run = bench.run(waits, "waiting")
    assert bench.run(TWICE, "one").status == "SUCCESS"
    bench.clock.time += 2 * 86_400 * 1_000_000
    assert bench.run(TWICE, "two").status == "FAILED"
    assert bench.resume(run, 1).status == "SUCCESS"


def test_a_waiver_speaks_for_its_own_policy_alone() -> None:
    other = policy("other", guardrails=[{"name": "once", "at_most_once": PAY}])
    assert Bench(policy=[waived("2030-01-01"), other]).run(TWICE).status == "FAILED"
    own = program(tool("a", "write"), tool("pay", "write"), guardrails=[{"name": "once", "at_most_once": PAY}])
    assert Bench(policy=waived("2030-01-01")).run(own).status == "FAILED"
    forbids = policy("other", allow=["read"])
    assert (
        Bench(policy=[waived("2030-01-01", rule="allow"), forbids]).run(program(tool("a", "write"))).status == "FAILED"
    )


def test_a_waiver_may_name_a_code() -> None:
    assert Bench(policy=waived("2030-01-01", rule="SW404")).run(TWICE).status == "SUCCESS"
