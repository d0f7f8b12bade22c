"""Fast: failures in sandboxes of a studio: what the machine does, which promise held, and that no run changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from review_pages import HOSTILE
from stepward.sabotage.invariants import Invariant
from stepward.validator.review.elements import element
from stepward.validator.studio import disturbances as disturbing
from stepward.validator.studio.acting import ActionRefused
from stepward.validator.studio.copies import Copy, NotCopied, copy_of
from stepward.validator.studio.disturbances import DISTURBANCES, Unfit
from stepward.validator.studio.sandboxes import MOST_KEPT, Sandboxes
from stepward.validator.studio.worlds import TrialWorld
from stepward.vm import (
    ExecutionVM,
    InDoubt,
    MemoryJournal,
    ModelReply,
    Program,
    ScriptedModel,
    SQLiteJournal,
    ToolError,
)
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import cached_plans
from studios import SECRET, TOKEN, Studio, served


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with served(tmp_path_factory.mktemp("studio")) as opened:
        opened.run("small", 7)
        waits = opened.run("paid", 70)
        opened.machine.resume_sync(waits.suspensions[0].token, True, by="bea")
        opened.run("waits", 80)
        yield opened


def copied(journal: Any, run: str) -> Copy:
    found = load(journal, run, cached_plans(journal))
    assert found is not None
    return copy_of(journal, found)


def everything(studio: Studio) -> Any:
    journal = studio.journal
    return [(row, journal.read(row.run), journal.vault.get(row.run)) for row in journal.rows()], list(studio.tools.paid)


OUTCOMES = {
    ("kill", "pay"): ("detected", Invariant.ONCE, "`pay` is in doubt. Somebody looks, and says: it happened."),
    ("kill", "look"): ("absorbed", Invariant.ONCE, "Another machine finds the run when its lease is over"),
    ("kill", "large"): ("absorbed", Invariant.ONCE, "The process is killed at `large`, before its record is stored."),
    ("time-out", ""): ("detected", Invariant.KEPT, "`look` took longer than 5 seconds"),
    ("forged-reply", "look"): ("blocked", Invariant.DATA, "the output of `look`: must be a string"),
    ("forged-reply", "pay"): ("detected", Invariant.DATA, "The machine records of `pay`: in doubt"),
    ("twice", ""): ("blocked", Invariant.DELIVERY, "The same answer comes again, and is refused"),
    ("twice", "pay"): ("absorbed", Invariant.IDENTITY, "nothing was done again"),
    ("corrupted-record", "ask"): ("detected", Invariant.TAMPERING, "its stored digest does not match"),
    ("skipped-step", "large"): ("detected", Invariant.GRAPH, "`intent` of `ask` while `large` is performed"),
    ("skipped-step", "done"): ("detected", Invariant.GRAPH, "The receipt that was given for the run shows it."),
    ("clock-jump", ""): ("absorbed", Invariant.REPLAY, "The run is the same as with a steady clock"),
}


@pytest.mark.parametrize(("what", "step"), OUTCOMES)
def test_each_failure_has_its_outcome_and_its_promise_holds(studio: Studio, what: str, step: str) -> None:
    before = everything(studio)
    shown = DISTURBANCES[what][1](copied(studio.journal, "paid"), step)
    outcome, promise, said = OUTCOMES[what, step]
    assert (shown.outcome.value, shown.held, shown.broken) == (outcome, promise, ())
    assert said in " ".join(shown.story)
    assert everything(studio) == before


def test_every_failure_at_every_step_of_items_and_side_by_side(tmp_path: Path) -> None:
    letters = iter(["first", ToolError("NoAddress", "gone"), "third"])

    async def write(number: str) -> str:
        letter = next(letters)
        if isinstance(letter, ToolError):
            raise letter
        return letter

    async def pay() -> int:
        return 3

    each = {
        "name": "both", "language": 2,
        "inputs": {"names": {"type": "array", "items": {"type": "string"}, "maxItems": 5}},
        "tools": {
            "write": {"effect": "write", "idempotent": True, "errors": ["NoAddress"],
                      "args": {"number": {"type": "string"}}, "returns": {"type": "string"}},
            "pay": {"effect": "write", "idempotent": False, "returns": {"type": "integer"}},
        },
        "steps": [
            {"id": "each", "type": "for_each", "items": "$names", "as": "name", "max_items": 5, "on_item_error": "skip",
             "steps": [{"id": "send", "type": "tool", "tool": "write", "args": {"number": "$name"}}]},
            {"id": "all", "type": "parallel", "parallel_steps": [
                {"id": "x", "type": "tool", "tool": "pay"}, {"id": "y", "type": "tool", "tool": "pay"}]},
            {"id": "end", "type": "end"},
        ],
    }  # fmt: skip
    journal = MemoryJournal()
    machine = ExecutionVM({"write": write, "pay": pay}, None, journal, checker=None)
    assert machine.run_sync(Program.from_dict(each), {"names": ["a", "b", "c"]}, run_id="r").status == "SUCCESS"
    copy = copied(journal, "r")
    played = 0
    for one in DISTURBANCES.values():
        assert set(one.places(copy.found)) <= set(copy.performed)
        for step in ("", *copy.performed):
            try:
                shown = one.disturb(copy, step)
            except Unfit:
                continue
            assert shown.broken == (), (step, shown.story)
            played += 1
    assert copy.performed == ("each", "send", "x", "y", "all", "end")
    assert played > 30


# -- a promise that breaks is told -------------------------------------------------------------------------------------


def test_a_record_that_is_lost_with_its_process_is_a_broken_promise(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    revive = TrialWorld.revive

    def forgetful(world: TrialWorld) -> None:
        store = world.store.inner
        assert isinstance(store, MemoryJournal)
        del store._runs[world.run_id].entries[-1:]
        revive(world)

    monkeypatch.setattr(TrialWorld, "revive", forgetful)
    shown = disturbing.kill(copied(studio.journal, "paid"), "pay")
    assert (shown.outcome.value, shown.held) == ("breached", Invariant.ONCE)
    assert "`pay` is performed again, though it happened" in [one.what for one in shown.broken]


@pytest.mark.parametrize("what", ["corrupted-record", "skipped-step"])
def test_damage_that_nobody_finds_is_a_broken_promise(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(disturbing, "_faults", lambda *_: ())
    shown = DISTURBANCES[what][1](copied(studio.journal, "paid"), "")
    assert (shown.outcome.value, len(shown.broken)) == ("breached", 1)


def test_an_answer_that_is_taken_though_it_is_none_is_a_broken_promise(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disturbing, "_forged", lambda _: ("a text, which may be taken", True))
    shown = disturbing.forge(copied(studio.journal, "paid"), "look")
    assert (shown.outcome.value, shown.held) == ("breached", Invariant.DATA)


# -- over the server ---------------------------------------------------------------------------------------------------


def test_the_operator_disturbs_a_copy_and_everybody_sees_the_result(studio: Studio) -> None:
    before = everything(studio)
    answer = studio.act("/disturb", {"what": "kill", "run": "paid", "step": "pay"})
    assert (answer.status, answer.text) == (200, '{"said":"detected"}')
    (row, *_) = studio.events("paid")[0]["sandboxes"][-1:]
    assert row[1:] == ["paid", "kill the process", "pay", "detected", Invariant.ONCE.value]
    part = studio.ask("GET", f"/sandbox?number={row[0]}").text
    assert "in the memory of the studio, with a store of its own" in part
    assert "The journal was only read, and no tool was called." in part
    assert SECRET not in part
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in part
    assert everything(studio) == before


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"what": "kill", "run": "of another journal"}, 404, "there is no run"),
        ({"what": "burn", "run": "paid"}, 400, "there is no disturbance `burn`"),
        ({"what": "kill", "run": "paid", "step": "nowhere"}, 400, "the run has no record of `nowhere` yet"),
        ({"what": "time-out", "run": "paid", "step": "pay"}, 400, "`pay` has no time-out: the machine would wait"),
        ({"what": "time-out", "run": "paid", "step": "large"}, 400, "`large` asks nobody"),
        ({"what": "forged-reply", "run": "paid", "step": "done"}, 400, "`done` asks nobody"),
    ],
)
def test_what_can_not_be_tried_is_said(studio: Studio, body: Any, status: int, words: str) -> None:
    answer = studio.act("/disturb", body)
    assert (answer.status, words in answer.text) == (status, True), answer


def test_nobody_disturbs_without_the_token_or_from_another_page(studio: Studio) -> None:
    body = {"what": "kill", "run": "paid"}
    assert studio.act("/disturb", body, Authorization="").status == 401
    assert studio.act("/disturb", body, Origin="http://evil.example").status == 403
    assert studio.act(f"/disturb?token={TOKEN}", body, Authorization="").status == 401
    assert "is not kept any more" in studio.ask("GET", "/sandbox?number=999").text


def test_only_the_newest_results_are_kept(studio: Studio) -> None:
    sandboxes = Sandboxes(studio.journal, lambda _: element("div"))
    found = load(studio.journal, "small", cached_plans(studio.journal))
    assert found is not None
    for _ in range(MOST_KEPT + 2):
        sandboxes.disturb(found, "corrupted-record", "look")
    rows = sandboxes.since(-1)["sandboxes"]
    assert [row[0] for row in rows] == list(range(3, MOST_KEPT + 3))
    assert sandboxes.since(sandboxes.version) == {"sandboxes": []}
    with pytest.raises(ActionRefused, match="the sandbox 1 is not kept"):
        sandboxes.part(1)


def test_a_run_whose_values_were_erased_is_not_copied(tmp_path: Path) -> None:
    with closing(SQLiteJournal(str(tmp_path / "runs.db"))) as journal:
        studio = Studio(tmp_path, journal, 0)
        studio.run("gone", 7)
        studio.machine.erase_sync("gone")
        with pytest.raises(NotCopied, match="values of run `gone` were erased"):
            copied(journal, "gone")


def test_a_run_that_goes_on_is_disturbed_as_far_as_it_went(studio: Studio) -> None:
    shown = disturbing.kill(copied(studio.journal, "waits"), "")
    ended = "In the end the run is SUSPENDED, as it is without the disturbance."
    assert (shown.outcome.value, shown.broken, shown.story[-1]) == ("absorbed", (), ended)
    assert json.loads(studio.journal.read("waits")[-1].record)["kind"] == "attempt"


async def slow() -> int:
    await asyncio.sleep(5)
    return 1


async def refuses() -> None:
    raise ToolError("Declined", "no funds")


async def loses() -> int:
    raise InDoubt("the connection was lost")


def test_a_copy_that_nothing_disturbs_goes_as_the_run_went() -> None:
    """Late answers, errors by name, an outcome that somebody settled, and a model: all as they were recorded."""
    program = {
        "name": "odd", "language": 2, "inputs": {},
        "tools": {
            "slow": {"effect": "read", "returns": {"type": "integer"}},
            "refuses": {"effect": "read", "errors": ["Declined"]},
            "loses": {"effect": "write", "idempotent": False, "returns": {"type": "integer"}},
        },
        "steps": [
            {"id": "late", "type": "tool", "tool": "slow", "timeout_seconds": 0.01, "on_timeout": "fallback",
             "fallback": 7, "next_step": "no"},
            {"id": "no", "type": "tool", "tool": "refuses", "catch": [{"errors": ["Declined"], "then": "pay"}],
             "next_step": "pay"},
            {"id": "pay", "type": "tool", "tool": "loses", "output_key": "paid", "next_step": "say"},
            {"id": "say", "type": "llm", "prompt": "Well?", "output_key": "said", "next_step": "end"},
            {"id": "end", "type": "end", "output": "$paid"},
        ],
    }  # fmt: skip
    journal = MemoryJournal()
    tools = {"slow": slow, "refuses": refuses, "loses": loses}
    model = ScriptedModel({"say": ModelReply("yes", 12, Decimal("0.25"), "small")})
    machine = ExecutionVM(tools, model, journal, checker=None)
    run = machine.run_sync(Program.from_dict(program), run_id="r")
    open_world = TrialWorld(copied(journal, "r"))
    assert open_world.carry_on(open_world.start()).trace_hash == run.trace_hash, "a doubt that nobody settled stays one"
    run = machine.reconcile_sync("r", run.doubts[0].step, "done", 3)
    assert (run.status, run.output, run.cost) == ("SUCCESS", 3, Decimal("0.25"))
    world = TrialWorld(copied(journal, "r"))
    again = world.carry_on(world.start())
    assert (again.status, again.trace_hash, again.cost, again.tokens) == (
        run.status, run.trace_hash, run.cost, run.tokens
    )  # fmt: skip
