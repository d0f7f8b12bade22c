"""Fast: a run that goes on keeps the machine's present policies beside its own, and says who let it go on."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from machines import Bench, ask, assign, both, check, end, program, tool
from stepward.vm import DeliveryRefused, InDoubt, Policy, Program, RunRefused, Suspend
from stepward.vm.journal.store import Append, JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine import authority
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.events import entry_of, make_event
from stepward.vm.machine.history import load
from stepward.vm.machine.plan import document_of, policy_digest
from stepward.vm.machine.replay import misfits, replay, replayer
from stepward.vm.machine.turns import TurnRequest


def policy(name: str = "desk", **fields: Any) -> Policy:
    return Policy.from_dict({"policy": name, **fields})


class Died(BaseException):
    """The process of a machine, where a test ends it."""


def left_at(
    monkeypatch: pytest.MonkeyPatch, step: str, program: Program, bench: Bench | None = None, name: str = "run"
) -> Bench:
    """Run a program until its process dies at a step, with the intent written where there is one."""
    bench = bench or Bench(lease_seconds=0.001)
    attempt = Driver.attempt

    async def dies(self: Driver, call: Any) -> None:
        if call.step != step:
            await attempt(self, call)
            return
        plan = self.plan.steps[self.state.at].calls[call.sub]
        if plan.has_intent:
            await self._intend(plan, call, {"attempt": call.attempt, "performance": call.performance})
        await self.flush()
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "attempt", dies)
        with pytest.raises(Died):
            bench.run(program, name)
    bench.clock.time += 10**9
    return bench


def later(first: Bench, policies: Any = (), tools: Any = None) -> Bench:
    """Return another machine at the same store, with policies of its own."""
    bench = Bench(tools, journal=first.journal, policy=policies)
    bench.clock.time = first.clock.time
    return bench


# -- what the past has broken ------------------------------------------------------------------------------------------


PLANTED = program(tool("go", "again", args={"to": "attacker"}))
CLOSED = policy("closed", allow=["read"])


def test_a_run_under_no_policy_does_not_perform_what_the_machine_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = later(left_at(monkeypatch, "go", PLANTED), CLOSED)
    with pytest.raises(RunRefused) as refused:
        machine.vm.recover_sync("run")
    assert str(refused.value) == (
        "run `run` breaks rule `allow` of this machine's policies in record 1: "
        "policy `closed` does not allow tool `again`"
    )
    with pytest.raises(RunRefused, match="breaks rule `allow`"):
        machine.vm.recover_sync()
    assert machine.tools.asked == []
    assert machine.vm.get_sync("run").status == "RUNNING"
    assert machine.kinds() == ["started", "intent"]


def test_a_run_that_is_refused_keeps_no_other_from_going_on_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    first = left_at(monkeypatch, "go", PLANTED)
    left_at(monkeypatch, "look", program(tool("look", "read")), first, "good")
    machine = later(first, CLOSED)
    runs, refused = machine.vm.recover_all_sync()
    assert [(run.id, run.status) for run in runs] == [("good", "SUCCESS")]
    assert list(refused) == ["run"]
    assert machine.vm.cancel_sync("run").status == "CANCELLED"
    assert machine.tools.steps() == ["look"]


def test_what_is_forbidden_from_now_on_is_rejected_and_replays() -> None:
    waits = program(tool("w", "ask"), tool("pay", "write"))
    run = (first := Bench({"w": Suspend()})).run(waits)
    machine = later(first, policy("closed", allow=["ask", "read"]))
    run = machine.resume(run, 1)
    assert (run.status, run.error) == ("FAILED", "policy `closed` does not allow tool `write`")
    assert machine.tools.asked == []
    assert machine.kinds() == ["started", "intent", "attempt", "governed", "resumed", "rejected"]
    assert replay(machine.journal, "run").faults == ()  # type: ignore[union-attr]


WAIT = tool("w", "ask")
BROKEN = {
    "never": ([tool("a", "write")], {"never": {"tool": "write"}}, "it must never start"),
    "never, when it held": (
        [assign("s", x=3), tool("a")],
        {"never": {"step": "a"}, "when": "$x > 2"},
        "`$x > 2` holds",
    ),
    "never with these arguments": (
        [tool("a", "write", args={"sum": 9})],
        {"never": {"tool": "write"}, "when": "$args.sum > 5"},
        "`$args.sum > 5` holds",
    ),
    "never, of what has no intent": (
        [tool("a", "read", args={"sum": 9})],
        {"never": {"tool": "read"}, "when": "$args.sum > 5"},
        "`$args.sum > 5` holds",
    ),
    "at most once": ([tool("a", "write"), tool("b", "write")], {"at_most_once": {"tool": "write"}}, "performed before"),
    "exclusive": (
        [tool("a", "write"), tool("b", "again")],
        {"exclusive": [{"tool": "write"}, {"tool": "again"}]},
        "what it excludes was performed",
    ),
    "requires": (
        [tool("a", "write")],
        {"protects": {"tool": "write"}, "requires": {"step": "w"}},
        "did not come before",
    ),
    "stale": (
        [
            assign("s", x=1),
            check("c", "$x > 0", "t", "no"),
            assign("t", {"next_step": "a"}, x=2),
            tool("a", "write", next_step="w"),
            end("no"),
        ],
        {"protects": {"tool": "write"}, "requires": {"step": "c", "branch": "then"}, "fresh": True},
        "is stale",
    ),
    "a sub-step": (
        [both("p", tool("a", "write"), tool("b", "read"))],
        {"never": {"tool": "write"}},
        "it must never start",
    ),
    "two sub-steps": (
        [both("p", tool("a", "write"), tool("b", "write"))],
        {"at_most_once": {"tool": "write"}},
        "performed before",
    ),
    "a parallel step": ([both("p", tool("a"), tool("b"))], {"never": {"step": "p"}}, "it must never start"),
    "a model": ([ask("m")], {"never": {"step": "m"}}, "it must never start"),
    "a condition": ([check("c", "true", "w", "w")], {"never": {"step": "c"}}, "it must never start"),
    "an assignment": ([assign("s", x=1)], {"never": {"step": "s"}}, "it must never start"),
    "by its effect": ([tool("a", "write")], {"never": {"effect": "write"}}, "it must never start"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_run_whose_past_breaks_a_rule_is_refused_and_the_rule_is_named(name: str) -> None:
    steps, rule, why = BROKEN[name]
    first = Bench({"w": Suspend()}, {"m": "said"})
    waits = first.run(program(*steps, WAIT, end()))
    assert waits.status == "SUSPENDED"
    machine = later(first, policy(guardrails=[{"name": "the-rule", **rule}]))
    with pytest.raises(RunRefused, match=rf"^run `run` breaks rule `the-rule` .* in record \d+: .*{re.escape(why)}"):
        machine.resume(waits, 1)
    assert machine.vm.get_sync("run").status == "SUSPENDED"
    assert later(first).resume(waits, 1).status == "SUCCESS", "a machine that does not hold the rule goes on"


KEPT = {
    "never": ([tool("a", "write")], {"never": {"tool": "again"}}),
    "never, when it did not hold": ([assign("s", x=1), tool("a")], {"never": {"step": "a"}, "when": "$x > 2"}),
    "at most once, and one is to come": ([tool("a")], {"at_most_once": {"tool": "write"}}),
    "a failed attempt that is made again": (
        [tool("a", "again", on_error="retry", max_retries=3)],
        {"at_most_once": {"tool": "again"}},
    ),
    "requires": ([tool("g"), tool("a", "write")], {"protects": {"tool": "write"}, "requires": {"step": "g"}}),
    "a branch": (
        [assign("s", x=1), check("c", "$x > 0", "a", "no"), tool("a", "write", next_step="w"), end("no")],
        {"protects": {"tool": "write"}, "requires": {"step": "c", "branch": "then"}},
    ),
    "what comes behind": ([tool("a")], {"followed_by": {"first": {"step": "a"}, "then": {"step": "w"}}}),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_policy_that_was_tightened_strands_no_run_that_kept_it(name: str) -> None:
    steps, rule = KEPT[name]
    first = Bench({"w": Suspend(), "a": ["no" if "attempt" not in name else ValueError("no"), "yes"]}, policy=policy())
    waits = first.run(program(*steps, WAIT, end()))
    assert waits.status == "SUSPENDED"
    tightened = policy(guardrails=[{"name": "the-rule", **rule}])
    run = later(first, tightened).resume(waits, 1)
    assert run.status == "SUCCESS"
    assert later(first).kinds().count("governed") == 1
    assert replay(first.journal, "run").faults == ()  # type: ignore[union-attr]
    assert verify(first.journal, "run", replay=replayer(first.journal, "run")).is_intact


@pytest.mark.parametrize("reads", [1, 2])
def test_a_later_policy_may_count_reads_in_branches_that_had_no_intent(reads: int) -> None:
    """They had none because no rule counted their starts then; what starts later has one."""
    last = [
        tool("w", "ask"),
        *([tool("b", is_terminal=True)] if reads == 2 else [tool("p", "write", is_terminal=True)]),
    ]
    branches = {"b0": {"steps": [tool("a", is_terminal=True)]}, "b1": {"steps": last}}
    first = Bench({"w": Suspend()}, policy=policy())
    waits = first.run(program({"id": "all", "type": "parallel", "branches": branches}, end(), language=2))
    assert (waits.status, first.kinds().count("intent")) == ("SUSPENDED", 1)
    once = policy(guardrails=[{"name": "the-rule", "at_most_once": {"tool": "read"}}])
    run = later(first, once).resume(waits, 1)
    assert run.status == ("FAILED" if reads == 2 else "SUCCESS")
    assert replay(first.journal, "run").faults == ()  # type: ignore[union-attr]
    assert verify(first.journal, "run", replay=replayer(first.journal, "run")).is_intact


def test_a_run_comes_under_a_policy_once() -> None:
    first = Bench({"w": Suspend(), "v": Suspend()}, policy=policy("old"))
    run = first.run(program(WAIT, tool("v", "ask"), tool("u", "ask"), end()))
    now = [policy("old"), policy("new", guardrails=[{"name": "r", "never": {"tool": "write"}}])]
    machine = later(first, now, {"v": Suspend(), "u": Suspend()})
    run = machine.resume(machine.resume(run, 1), 2)
    assert machine.bodies("governed") == [{"policies": [policy_digest(now[1])], "waived": []}]
    run = later(first, [now[1]]).resume(run, 3)
    assert (run.status, later(first).kinds().count("governed")) == ("SUCCESS", 1)
    intents = [body["policies"] for body in machine.bodies("intent")]
    assert intents == [[policy_digest(now[0])]] + [[policy_digest(now[0]), policy_digest(now[1])]] * 2


def test_a_run_keeps_its_own_policies_where_the_machine_has_none() -> None:
    first = Bench({"w": Suspend()}, policy=policy("old", allow=["ask"]))
    run = later(first).resume(first.run(program(WAIT, tool("pay", "write"))), 1)
    assert (run.status, run.error) == ("FAILED", "policy `old` does not allow tool `write`")


def test_a_waiver_of_today_holds_for_a_policy_that_is_new_to_the_run() -> None:
    waiver = {"program": "bench", "rule": "the-rule", "reason": "r", "expiry": "2030-01-01"}
    rules = [{"name": "the-rule", "never": {"tool": "write"}}]
    for waivers, status in (([waiver], "SUCCESS"), ([], "FAILED")):
        first = Bench({"w": Suspend()})
        run = first.run(program(WAIT, tool("pay", "write")))
        machine = later(first, policy(guardrails=rules, waivers=waivers))
        assert machine.resume(run, 1).status == status
        assert machine.bodies("governed")[0]["waived"] == (["desk:the-rule"] if waivers else [])


def test_a_policy_by_path_is_held_where_the_run_knows_its_name() -> None:
    rules = {"guardrails": [{"name": "the-rule", "never": {"tool": "write"}}]}
    for known, status in ((policy("pay"), "FAILED"), ((), "SUCCESS")):
        first = Bench({"w": Suspend()}, policy=known)
        run = first.run(program(WAIT, tool("pay", "write")))
        assert later(first, policy("pay", applies_to=["pay/*"], **rules)).resume(run, 1).status == status


def test_a_journal_that_says_a_run_came_under_a_rule_that_it_broke_is_no_journal() -> None:
    first = Bench({"w": Suspend()})
    waits = first.run(program(tool("a", "write"), WAIT))
    forbids = policy(guardrails=[{"name": "the-rule", "never": {"tool": "write"}}])
    first.journal.put_document(policy_digest(forbids), document_of(forbids))
    happened = make_event("governed", {"policies": (policy_digest(forbids),), "waived": ()})
    entry = entry_of(happened, first.journal.read("run")[-1], 0)
    first.journal.append(Append("run", entry.seq - 1, [entry], "SUSPENDED", 0.0, durable=True), None)
    (fault,) = replay(first.journal, "run").faults  # type: ignore[union-attr]
    assert (fault.seq, fault.what) == (1, "record 1: the machine would not have called `a` here")
    with pytest.raises(JournalError, match="would not have called `a` here"):
        later(first).resume(waits, 1)


# -- who --------------------------------------------------------------------------------------------------------------


ASKS = program(WAIT, end())
EYES = policy(four_eyes=["ask"])


def notes(bench: Bench) -> dict[str, Any]:
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    return {record.kind: record.note.get("by") for record in found.records}


def test_who_acted_is_in_the_record_and_in_no_other() -> None:
    bench = Bench({"w": Suspend()})
    run = bench.vm.run_sync(ASKS, run_id="run", by="ada")
    run = bench.vm.resume_sync(run.suspensions[0].token, 1, by="bob")
    bench.vm.erase_sync("run", by="eve")
    assert notes(bench) == {"started": "ada", "intent": None, "attempt": None, "resumed": "bob", "ended": None}
    versions = [json.loads(entry.record)["v"] for entry in bench.journal.read("run")]
    assert versions == [2, 1, 1, 2, 1], "a record has the lowest version that it needs"


def test_who_reconciled_cancelled_and_erased_is_in_the_record() -> None:
    secret = {"inputs": {"s": {"type": "string", "sensitive": True, "default": "x"}}}
    bench = Bench({"a": InDoubt("who knows"), "w": Suspend()})
    bench.run(program(tool("a", "write"), WAIT, **secret))
    bench.vm.reconcile_sync("run", "a", "done", 1, by="ada")
    bench.vm.cancel_sync("run", by="bob")
    bench.vm.erase_sync("run", by="eve")
    who = notes(bench)
    assert (who["reconciled"], who["cancel"], who["erased"]) == ("ada", "bob", "eve")


@pytest.mark.parametrize("by", ["", "x" * 201, "a\nb", 7, " ", "ada ", " ada", "ada\u3164", "ada\u2800", "ada\ufe0f"])
def test_what_names_nobody_is_refused_before_anything_happens(by: Any) -> None:
    bench = Bench({"w": Suspend()})
    with pytest.raises(RunRefused, match="`by` names somebody in 1 to 200 printable characters"):
        bench.vm.run_sync(ASKS, run_id="run", by=by)
    run = bench.run(ASKS)
    for act in (
        lambda: bench.vm.resume_sync(run.suspensions[0].token, 1, by=by),
        lambda: bench.vm.reconcile_sync("run", "w", "done", by=by),
        lambda: bench.vm.cancel_sync("run", by=by),
        lambda: bench.vm.erase_sync("run", by=by),
    ):
        with pytest.raises(DeliveryRefused, match="`by` names somebody"):
            act()
    assert bench.kinds() == ["started", "intent", "attempt"]


@pytest.mark.parametrize(
    ("starter", "by", "why"),
    [
        ("ada", "ada", "who started the run, and that was `ada`"),
        ("ada", None, "who started the run; say who you are"),
    ],
)
def test_who_started_a_run_does_not_approve_it_where_a_policy_asks_for_four_eyes(
    starter: str, by: str | None, why: str
) -> None:
    bench = Bench({"w": Suspend()}, policy=EYES)
    run = bench.vm.run_sync(ASKS, run_id="run", by=starter)
    with pytest.raises(DeliveryRefused, match=f"policy `desk` asks that another settles a call of `ask` than {why}"):
        bench.vm.resume_sync(run.suspensions[0].token, 1, by=by)
    assert bench.kinds()[-1] == "refused"
    assert bench.vm.get_sync("run").status == "SUSPENDED"


NOBODY = "policy `desk` asks that another settles a call of `ask` than who started the run, and nobody is named"
STARTS: dict[str, Any] = {
    "run": lambda vm, by: vm.run_sync(ASKS, run_id="run", by=by),
    "queue": lambda vm, by: vm.queue_sync(ASKS, run_id="run", by=by),
    "continuation": lambda vm, by: vm.continue_run_sync("old", ASKS, grant={"steps": 9}, by=by),
    "turn": lambda vm, by: asyncio.run(vm.take_turn("run", ASKS, {}, TurnRequest("(tool/ask {})"), None, by=by)),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_run_in_which_two_people_settle_a_call_is_started_by_name(start: str) -> None:
    first = Bench()
    first.vm.run_sync(program(assign("x", x=1), assign("y", y=2), end(), max_steps=1), run_id="old")
    bench = Bench({"w": Suspend()}, journal=first.journal, policy=EYES)
    with pytest.raises(RunRefused, match=NOBODY) as refused:
        STARTS[start](bench.vm, None)
    assert refused.value.help == "say who starts it, with `by=` in Python and `--by NAME` on the command line"
    assert [row.run for row in bench.journal.rows()] == ["old"], "nothing was started"
    assert STARTS[start](bench.vm, "ada").status in ("SUSPENDED", "RUNNING")
    if start == "run":
        assert bench.vm.run_sync(ASKS, run_id="run").status == "SUSPENDED", "it is there, and nothing starts"


def test_a_run_that_nobody_started_by_name_is_not_settled_under_four_eyes_that_come_later() -> None:
    first = Bench({"w": Suspend()})
    run = first.vm.run_sync(ASKS, run_id="run")
    with pytest.raises(DeliveryRefused, match="who started the run, and that is not known"):
        later(first, EYES).vm.resume_sync(run.suspensions[0].token, 1, by="ada")


def test_another_may_approve() -> None:
    bench = Bench({"w": Suspend()}, policy=EYES)
    run = bench.vm.run_sync(ASKS, run_id="run", by="ada")
    assert bench.vm.resume_sync(run.suspensions[0].token, 1, by="bob").status == "SUCCESS"
    assert replay(bench.journal, "run").faults == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["ada ", " ", "ada\u3164"])
def test_a_journal_of_a_machine_that_took_other_names_stays_readable(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bench = Bench({"w": Suspend()}, policy=policy(four_eyes=["ask"]))
    with monkeypatch.context() as patch:
        patch.setattr(authority, "is_name", lambda by: True)
        run = bench.vm.run_sync(ASKS, run_id="run", by=name)
    with pytest.raises(DeliveryRefused, match="without a space at the start or the end"):
        bench.vm.resume_sync(run.suspensions[0].token, 1, by=name)
    assert bench.vm.resume_sync(run.suspensions[0].token, 1, by="bob").status == "SUCCESS"
    assert verify(bench.journal, "run", replay=replayer(bench.journal, "run")).is_intact


def test_four_eyes_hold_for_what_is_said_of_a_call_in_doubt() -> None:
    bench = Bench({"a": InDoubt("who knows")}, policy=policy(four_eyes=["write"]))
    bench.vm.run_sync(program(tool("a", "write"), end()), run_id="run", by="ada")
    with pytest.raises(DeliveryRefused, match="and that was `ada`"):
        bench.vm.reconcile_sync("run", "a", "done", 1, by="ada")
    assert bench.vm.reconcile_sync("run", "a", "done", 1, by="bob").status == "SUCCESS"


def test_a_run_that_one_person_approved_breaks_four_eyes_that_come_later() -> None:
    first = Bench({"w": Suspend(), "v": Suspend()})
    run = first.vm.run_sync(program(WAIT, tool("v", "ask"), end()), run_id="run", by="ada")
    run = first.vm.resume_sync(run.suspensions[0].token, 1, by="ada")
    with pytest.raises(RunRefused, match=r"breaks rule `four_eyes` .* and that was `ada`"):
        later(first, EYES).vm.resume_sync(run.suspensions[0].token, 1, by="bob")


def test_a_waiver_may_name_four_eyes() -> None:
    waiver = {"program": "bench", "rule": "four_eyes", "reason": "r", "expiry": "2030-01-01"}
    bench = Bench({"w": Suspend()}, policy=policy(four_eyes=["ask"], waivers=[waiver]))
    assert bench.resume(bench.run(ASKS), 1).status == "SUCCESS"


def test_a_journal_in_which_one_person_did_both_is_no_journal() -> None:
    bench = Bench({"w": Suspend()}, policy=EYES)
    run = bench.vm.run_sync(ASKS, run_id="run", by="ada")
    bench.vm.resume_sync(run.suspensions[0].token, 1, by="bob")
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    forged = [one._replace(note={**one.note, "by": "ada"}) if one.kind == "resumed" else one for one in found.events]
    faults = misfits(found._replace(events=tuple(forged)))
    assert [fault.seq for fault in faults] == [3]


# -- runs that a caller of a gateway asked for -------------------------------------------------------------------------


def asked_for(*, settles_own: bool = False, by: str | None = "model") -> tuple[Bench, Any]:
    """Return a bench and its suspended run, which caller `model` asked for."""
    bench = Bench({"w": Suspend("may I?")})
    envelope = Envelope("model", "gate-1", settles_own)
    return bench, bench.vm.run_sync(ASKS, {}, run_id="run", by=by, envelope=envelope)


@pytest.mark.parametrize("by", ["model", None])
def test_a_caller_or_nobody_settles_no_call_of_its_own_run(by: str | None) -> None:
    bench, run = asked_for()
    token = run.suspensions[0].token
    with pytest.raises(DeliveryRefused, match="caller `model` asked for the run"):
        bench.vm.resume_sync(token, 1, by=by)
    assert bench.vm.get_sync("run").status == "SUSPENDED"
    assert bench.vm.resume_sync(token, 1, by="ada").status == "SUCCESS"
    assert replay(bench.journal, "run").faults == ()  # type: ignore[union-attr]


def test_a_caller_settles_its_own_run_where_the_operator_allows_it() -> None:
    bench, run = asked_for(settles_own=True)
    assert bench.vm.resume_sync(run.suspensions[0].token, 1, by="model").status == "SUCCESS"


def test_the_first_record_says_who_asked_and_under_what_gate() -> None:
    bench, run = asked_for()
    assert run.trace[0].envelope == {"caller": "model", "gate": "gate-1", "settles_own": False}
    assert json.loads(bench.journal.read("run")[0].record)["v"] == 2


def test_a_forged_approval_by_the_caller_does_not_replay() -> None:
    bench, run = asked_for()
    bench.vm.resume_sync(run.suspensions[0].token, 1, by="ada")
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    forged = [one._replace(note={**one.note, "by": "model"}) if one.kind == "resumed" else one for one in found.events]
    faults = misfits(found._replace(events=tuple(forged)))
    assert [fault.seq for fault in faults] == [3]


@pytest.mark.parametrize("envelope", [Envelope("", "g"), Envelope("a\nb", "g"), Envelope("a", "")])
def test_an_envelope_has_names(envelope: Envelope) -> None:
    with pytest.raises(RunRefused, match="an envelope names"):
        Bench().vm.run_sync(ASKS, {}, envelope=envelope)
