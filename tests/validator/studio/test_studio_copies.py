"""Fast: failures in copies of runs that wait, that are in doubt, that go past their records, or continue others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stepward.sabotage.invariants import Invariant
from stepward.validator.studio import copies
from stepward.validator.studio.copies import Copy, NotCopied, copy_of
from stepward.validator.studio.disturbances import DISTURBANCES, Shown, Unfit
from stepward.vm import ExecutionVM, InDoubt, MemoryJournal, Policy, Program, Run, Suspend
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import cached_plans
from stepward.vm.machine.turns import TurnRequest, turn_policies

PAYS: dict[str, Any] = {
    "name": "pays", "inputs": {"amount": {"type": "integer"}},
    "tools": {
        "look": {"effect": "read", "returns": {"type": "integer", "minimum": 7}},
        "ask": {"effect": "none", "suspends": True, "returns": {
            "type": "object", "required": ["agreed", "by"],
            "properties": {"agreed": {"type": "boolean"}, "by": {"type": "string", "pattern": "^[A-Z]{2}$"}}}},
        "pay": {"effect": "write", "idempotent": False, "returns": {"type": "string"}},
        "tell": {"effect": "write", "idempotent": True, "returns": {"type": "string"}},
        "ticket": {"effect": "write", "idempotent": True, "returns": {"type": "string"}},
    },
    "steps": [
        {"id": "seen", "type": "tool", "tool": "look", "error_step": "help", "timeout_seconds": 5},
        {"id": "ask", "type": "tool", "tool": "ask", "output_key": "answer", "error_step": "help"},
        {"id": "agreed", "type": "condition", "condition": "$answer.agreed", "then": "pay", "otherwise": "tell"},
        {"id": "pay", "type": "tool", "tool": "pay", "error_step": "help", "next_step": "tell"},
        {"id": "tell", "type": "tool", "tool": "tell", "error_step": "help", "is_terminal": True},
        {"id": "help", "type": "tool", "tool": "ticket", "is_terminal": True, "outcome": "failure"},
    ],
}  # fmt: skip


def machine_of(journal: MemoryJournal, pay: Callable[[], Any], **more: Any) -> ExecutionVM:
    tools = {
        "look": lambda: 9, "ask": lambda: Suspend({"question": "Shall we pay?"}), "pay": pay, "tell": lambda: "told",
        "ticket": lambda: "T-1",
    }  # fmt: skip
    return ExecutionVM(tools, None, journal, **{"checker": None, **more})


def answered(machine: ExecutionVM, run: Run) -> Run:
    return machine.resume_sync(run.suspensions[0].token, {"agreed": True, "by": "AB"}, by="bea")


def lost() -> str:
    raise InDoubt("the connection was lost")


@pytest.fixture(scope="module")
def journal() -> MemoryJournal:
    journal = MemoryJournal()
    program = Program.from_dict(PAYS)
    fine, doubtful = machine_of(journal, lambda: "paid"), machine_of(journal, lost)
    answered(fine, fine.run_sync(program, {"amount": 3}, run_id="paid"))
    fine.run_sync(program, {"amount": 3}, run_id="waits")
    assert answered(doubtful, doubtful.run_sync(program, {"amount": 3}, run_id="doubtful")).status == "IN_DOUBT"
    return journal


def copied(journal: MemoryJournal, run: str) -> Copy:
    found = load(journal, run, cached_plans(journal))
    assert found is not None
    return copy_of(journal, found)


def tried(journal: MemoryJournal, run: str, what: str, step: str = "") -> Shown:
    return DISTURBANCES[what].disturb(copied(journal, run), step)


# -- a run that is in doubt --------------------------------------------------------------------------------------------

IN_DOUBT = {
    ("kill", "seen"): "absorbed",
    ("kill", "pay"): "detected",
    ("time-out", "seen"): "detected",
    ("forged-reply", "seen"): "blocked",
    ("forged-reply", "pay"): "detected",
    ("twice", ""): "blocked",
    ("twice", "pay"): "absorbed",
    ("clock-jump", ""): "absorbed",
}


@pytest.mark.parametrize(("what", "step"), IN_DOUBT)
def test_a_doubt_that_was_there_before_says_nothing_of_the_disturbance(
    journal: MemoryJournal, what: str, step: str
) -> None:
    shown = tried(journal, "doubtful", what, step)
    assert (shown.outcome.value, shown.broken) == (IN_DOUBT[what, step], ()), shown.story


# -- a run that waits --------------------------------------------------------------------------------------------------


def test_an_answer_that_nobody_gave_yet_is_made_up_and_delivered_twice(journal: MemoryJournal) -> None:
    shown = tried(journal, "waits", "twice")
    assert (shown.outcome.value, shown.held, shown.step) == ("blocked", Invariant.DELIVERY, "ask")
    assert shown.story[0].startswith("Nobody has answered `ask` yet. The sandbox makes an answer up, of its type: {")
    assert "The same answer comes again, and is refused" in " ".join(shown.story)
    assert "does not wait" not in " ".join(shown.story)


def test_a_step_that_does_not_wait_is_named_when_the_run_is_started_twice(journal: MemoryJournal) -> None:
    shown = tried(journal, "waits", "twice", "seen")
    assert "`seen` does not wait for an answer, so the run is started a second time under its id." in shown.story


# -- what can be tried -------------------------------------------------------------------------------------------------


def test_each_failure_names_the_steps_at_which_it_can_act(journal: MemoryJournal) -> None:
    found = copied(journal, "paid").found
    places = {name: list(one.places(found)) for name, one in DISTURBANCES.items()}
    assert places["time-out"] == ["seen"]
    assert places["forged-reply"] == ["seen", "ask", "pay", "tell"]
    assert places["twice"] == ["ask"]
    assert places["kill"] == ["seen", "ask", "agreed", "pay", "tell"]
    for name, steps in places.items():
        for step in steps:
            assert tried(journal, "paid", name, step).broken == (), (name, step)


def test_nothing_can_be_tried_on_a_run_without_steps(journal: MemoryJournal) -> None:
    copy = copied(journal, "paid")
    fresh = copy.found._replace(events=copy.found.events[:1], records=copy.found.records[:1])
    for name, one in DISTURBANCES.items():
        assert list(one.places(fresh)) == [], name
        assert one.nowhere or name == "twice"
    for name in ("kill", "corrupted-record", "skipped-step", "clock-jump"):
        with pytest.raises(Unfit, match="the run has performed no step yet"):
            DISTURBANCES[name].disturb(copy_of(journal, fresh), "")


# -- what the story says -----------------------------------------------------------------------------------------------


def test_a_run_that_leaves_its_recording_goes_on_with_answers_that_are_made_up(journal: MemoryJournal) -> None:
    shown = tried(journal, "paid", "forged-reply", "seen")
    story = " ".join(shown.story)
    assert "The recording has no answer of `help`. The sandbox makes one up, of its type:" in story
    assert shown.story[-1] == "In the end the run is FAILED, and without the disturbance SUCCESS."


def test_what_happens_is_told_in_the_order_in_which_it_happens(journal: MemoryJournal) -> None:
    shown = tried(journal, "paid", "forged-reply", "pay")
    order = ("`pay` answers", "The machine records of `pay`: in doubt", "Somebody looks", "In the end the run is")
    found = [next(number for number, line in enumerate(shown.story) if words in line) for words in order]
    assert found == sorted(found)


def test_an_idempotent_write_is_called_again_under_its_key_and_that_is_said(journal: MemoryJournal) -> None:
    shown = tried(journal, "paid", "kill", "tell")
    assert (shown.outcome.value, shown.broken) == ("absorbed", ())
    found = [line.partition(",")[0] for line in shown.story]
    assert found.index("Another machine finds the run when its lease is over") < found.index("`tell` is called again")


def test_a_copy_of_a_run_that_was_cancelled_goes_on_and_that_is_said() -> None:
    journal = MemoryJournal()
    machine = machine_of(journal, lambda: "paid")
    machine.run_sync(Program.from_dict(PAYS), {"amount": 3}, run_id="c")
    machine.cancel_sync("c", by="ann")
    shown = tried(journal, "c", "kill", "seen")
    assert shown.story[0] == "Somebody has cancelled the run. Nobody cancels its copy: it goes on."
    assert (shown.outcome.value, shown.broken) == ("absorbed", ())


# -- runs that continue others -----------------------------------------------------------------------------------------

SHORT = {
    **PAYS, "name": "short", "max_steps": 1,
    "steps": [{"id": "before", "type": "tool", "tool": "look", "output_key": "told"},
              {"id": "then", "type": "tool", "tool": "tell"}],
}  # fmt: skip


def test_every_failure_can_be_tried_on_a_run_that_continues_another() -> None:
    journal = MemoryJournal()
    machine = machine_of(journal, lambda: "paid")
    assert machine.run_sync(Program.from_dict(SHORT), {"amount": 3}, run_id="r").status == "BUDGET_EXCEEDED"
    second = {**PAYS, "inputs": {"told": {"type": "integer"}}}
    run = machine.continue_run_sync("r", Program.from_dict(second), ["told"], grant={"steps": 20}, by="ann")
    assert answered(machine, run).status == "SUCCESS"
    before = [(row, journal.read(row.run)) for row in journal.rows()]
    copy = copied(journal, run.id)
    assert [one.run for one in copy.earlier] == ["r"]
    for name, one in DISTURBANCES.items():
        for step in ("", *one.places(copy.found)):
            shown = one.disturb(copy, step)
            assert shown.broken == (), (name, step, shown.story)
    assert "while `seen` is performed" in " ".join(DISTURBANCES["skipped-step"].disturb(copy, "seen").story)
    assert [(row, journal.read(row.run)) for row in journal.rows()] == before


def test_every_failure_can_be_tried_on_a_run_that_has_moved_to_a_new_version() -> None:
    journal = MemoryJournal()
    machine = machine_of(journal, lambda: "paid", checker=lambda *_: ())
    run = machine.run_sync(Program.from_dict(PAYS), {"amount": 3}, run_id="r", by="ann")
    steps = [{**step, "timeout_seconds": 9} if step["id"] == "pay" else step for step in PAYS["steps"]]
    machine.migrate_sync("r", Program.from_dict({**PAYS, "steps": steps}), by="bob")
    assert (answered(machine, run).id, journal.read("r~1") != []) == ("r~1", True)
    copy = copied(journal, "r~1")
    for name, one in DISTURBANCES.items():
        shown = one.disturb(copy, "")
        assert shown.broken == (), (name, shown.story)


def test_every_failure_can_be_tried_on_a_turn_of_a_session() -> None:
    journal = MemoryJournal()
    program = Program.from_dict(PAYS)
    once = Policy.from_dict({"policy": "once", "guardrails": [{"name": "once", "at_most_once": {"tool": "ticket"}}]})
    machine = machine_of(journal, lambda: "paid", policy=[once])
    answered(machine, asyncio.run(machine.take_turn("s.1", program, {"amount": 3}, TurnRequest("(pays 3)"), None)))
    first = load(journal, "s.1", cached_plans(journal))
    assert first is not None
    again = machine_of(journal, lambda: "paid", policy=turn_policies(first.plan.policies, first))
    answered(again, asyncio.run(again.take_turn("s.2", program, {"amount": 4}, TurnRequest("(pays 4)"), first)))
    copy = copied(journal, "s.2")
    for name, one in DISTURBANCES.items():
        shown = one.disturb(copy, "")
        assert shown.broken == (), (name, shown.story)


def test_a_chain_that_is_too_long_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = MemoryJournal()
    machine = machine_of(journal, lambda: "paid")
    machine.run_sync(Program.from_dict(SHORT), {"amount": 3}, run_id="r")
    run = machine.continue_run_sync("r", Program.from_dict({**SHORT, "inputs": {}}), grant={"steps": 20})
    monkeypatch.setattr(copies, "MOST_RECORDS", 4)
    with pytest.raises(NotCopied, match=f"run `{run.id}`, with those that it continues, has more than the 4 records"):
        copied(journal, run.id)
