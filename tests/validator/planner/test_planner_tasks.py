"""Ten tasks planned end to end, with the replies of a model: what is refused, and what the accepted one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chat_server import chat_server, said
from plans import ORDER, POLICY, REFUNDS, TASKS, Shop, planner, task_in
from stepward.validator import ProgramValidator
from stepward.vm import ExecutionVM, MemoryJournal, OpenAIModel, ScriptedModel
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replay, replayer


def test_there_are_ten_tasks() -> None:
    assert len(TASKS) == 10
    assert sum(bool(task_in(path)["refused"]) for path in TASKS) >= 5, "the first try of many is refused"


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_task_is_planned_and_its_program_runs(path: Path) -> None:
    task, journal = task_in(path), MemoryJournal()
    model = ScriptedModel({"propose": list(task["replies"])})
    found = planner(model, journal=journal).plan_sync(task["task"], name=path.stem, inputs=task["takes"], run_id="plan")

    assert found.program is not None, found.reason
    assert [one.is_accepted for one in found.proposals] == [False] * len(task["refused"]) + [True]
    for one, why in zip(found.proposals, task["refused"], strict=False):
        assert why in one.answer
    assert verify(journal, "plan", replay=replayer(journal, "plan")).is_intact
    replayed = replay(journal, "plan")
    assert replayed is not None
    assert not replayed.faults

    assert found.program.name == path.stem
    assert not [one for one in ProgramValidator(found.program, policies=[POLICY]).validate().findings if one.is_error]
    shop = Shop()
    machine = ExecutionVM(shop.tools(), ScriptedModel(_script(task)), journal, found.policies, checker=None, key=None)
    run = machine.run_sync(found.program, task["given"], run_id="plan-run")
    assert (run.status, shop.called) == (task["status"], [list(one) for one in task["called"]]), run.error
    if run.status == "SUSPENDED":
        (waits,) = run.suspensions
        assert machine.resume_sync(waits.token, "agree").status == "SUCCESS"
        assert shop.called == [["refund", task["given"]["order"], 40]]


def _script(task: Any) -> dict[str, Any]:
    script = task.get("model") or {"nobody": "asks"}
    return {step: list(said) if isinstance(said, list | tuple) else said for step, said in script.items()}


def test_a_server_for_chat_completions_can_plan() -> None:
    """What the model is told is a system text and one request; a reply that is cut off is no reply."""
    with chat_server() as server:
        server.answers = [said("```yaml\nsteps: []\n```"), said(REFUNDS)]
        model = OpenAIModel("small", base_url=server.url)
        found = planner(model).plan_sync("Pay an order back.", inputs=ORDER)
        assert [one.is_accepted for one in found.proposals] == [False, True]
        assert found.tokens == 34
        roles = [message["role"] for message in server.asked[1].body["messages"]]
        assert roles == ["system", "user"]
        assert "response_format" not in server.asked[1].body
        assert "steps: []" in server.asked[1].body["messages"][1]["content"]
        server.answers = [said(REFUNDS[:80], finish="length")]
        found = planner(model).plan_sync("Pay an order back.", inputs=ORDER)
        assert (found.program, found.proposals) == (None, ())
        assert found.reason
