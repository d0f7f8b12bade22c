"""Replay: the fold of a journal is the state of the live run, after every prefix, in every process and time zone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import replays
import stepward.vm.machine.apply as fold_module
from machines import Bench, ask, assign, both, check, end, program, tool
from paths import SUPPORT
from programs import programs
from replays import cut, good_programs, made, told
from sizes import MANY, size
from stepward.vm import ModelReply, Program, Run, SQLiteJournal
from stepward.vm.journal.canonical import Secret, opened
from stepward.vm.machine.apply import apply
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Calls, Event, Idle
from stepward.vm.machine.history import History, fold, load
from stepward.vm.machine.ordering import open_calls
from stepward.vm.machine.replay import replay
from stepward.vm.machine.state import before, snapshot

SEEDS = ["a", "b", "c"]
GOOD = good_programs()
FATES = {name: SEEDS if MANY else [SEEDS[number % len(SEEDS)]] for number, name in enumerate(GOOD)}
"""The seeds of each good program: by day one of them, in turn."""

FROM_OUTSIDE = ("started", "waited", "expired", "intent", "attempt", "resumed", "reconciled")
FROM_OUTSIDE += ("cancel", "refused", "erased")


def history(bench: Bench, run: str) -> History:
    found = load(bench.journal, run, bench.stored)
    assert found is not None
    return found


def folded(found: History) -> list[bytes]:
    """Hold every prefix of a journal against what the core decides there; return the state after each."""
    plan, state, states = found.plan, before(found.plan), []
    for happened in found.events:
        if happened.kind != "started":
            action = decide(plan, state)
            if isinstance(action, Event):
                # Others may come first; and a write that is under way would be in doubt if the machine stopped now.
                is_ordered = plan.steps[state.at].order is not None  # its calls go on beside what is decided
                is_beside = is_ordered or state.fork is not None or action.kind == "doubt"
                is_under_way = is_beside and happened.kind in ("intent", "attempt")
                action = decide(plan, state, open_calls(state)) if is_ordered and not is_under_way else action
                assert isinstance(action, Event)
                if not is_under_way and happened.kind not in ("cancel", "refused"):
                    assert (action.kind, _open(action.body)) == (happened.kind, _open(happened.body))
            elif isinstance(action, Calls):
                assert happened.kind in FROM_OUTSIDE
                waited = {(call.step, call.visit, call.attempt) for call in action.calls}
                if happened.kind in ("intent", "attempt"):
                    assert (happened.body["step"], happened.body["visit"], happened.note["attempt"]) in waited
            else:
                assert isinstance(action, Idle)
                assert happened.kind in FROM_OUTSIDE
        state = apply(plan, state, happened)
        states.append(snapshot(plan, state))
    return states


def _open(value: Any) -> Any:
    if isinstance(value, Secret):
        return _open(value.value)
    if isinstance(value, dict):
        return {key: _open(item) for key, item in value.items()}
    return [_open(item) for item in value] if isinstance(value, tuple | list) else opened(value)


def recovered(bench: Bench, run: Run, fate: Any, records: int) -> Run:
    """Pick a run up after a prefix, with the same answers, and take it to its end."""
    other = Bench(journal=cut(bench.journal, run.id, records))
    other.vm.tools, other.vm.model = fate, fate
    other.vm._setup = replace(other.vm._setup, tools=fate, model=fate)
    again = other.vm.recover_sync(run.id)[0]
    while again.status in ("SUSPENDED", "IN_DOUBT"):
        again = replays.goes_on(other, again, fate)
        for doubt in again.doubts:
            output = _happened(history(bench, run.id), doubt.key)
            if output is None:
                return run  # it did not happen in the live run, and no verdict says so
            again = other.vm.reconcile_sync(run.id, doubt.step, "done", output[0])
    return other.checked(again)


def _happened(found: History, key: str) -> tuple[Any] | None:
    """Return the output of the performance that has a key in a journal."""
    intents = [number for number, event in enumerate(found.events) if event.note.get("key") == key]
    for event in found.events[intents[-1] :]:
        same = event.kind == "attempt" and event.body["step"] == found.events[intents[-1]].body["step"]
        if same and event.body["kind"] == "success":
            return (opened(event.body["output"]),)
        if same:
            return None
    return None


def test_the_short_way_of_the_fold_comes_to_what_the_long_way_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome, where nothing else is to be counted, is folded in one go."""
    loop = [tool("a", "again", max_visits=3, next_step="b"), tool("b", "write", next_step="c"), check("c", "true", "a")]
    guarded = program(*loop, guardrails=[{"name": "once", "at_most_once": {"step": "b"}}])
    own = {"loop": program(*loop), "guarded": guarded, "retried": program(tool("a", "again", on_error="retry"))}
    shorter = 0
    for name, each in {**GOOD, **own}.items():
        for seed in FATES.get(name, SEEDS):
            bench = Bench()
            made(each, seed, bench, "run")
            found = history(bench, "run")
            states = list(accumulate(found.events, partial(apply, found.plan), initial=before(found.plan)))
            with monkeypatch.context() as patch:
                patch.setattr(fold_module, "_is_outcome", lambda *_: False)
                for state, happened, after in zip(states, found.events, states[1:], strict=False):
                    assert apply(found.plan, state, happened) == after, f"{name}, seed {seed}: {happened.kind}"
            shorter += sum(happened.kind == "intent" for happened in found.events)
    assert shorter > size(15, 50)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", GOOD)
def test_every_prefix_of_a_good_program_is_folded_and_goes_on_to_the_same_end(name: str) -> None:
    for seed in FATES[name]:
        bench = Bench()
        run, fate = made(GOOD[name], seed, bench, "run")
        found = history(bench, "run")
        states = folded(found)
        assert states[-1] == run.snapshot()
        for length in range(1, len(found.events) + 1):
            assert snapshot(found.plan, fold(found.plan, found.events[:length])) == states[length - 1]
        for length in range(1, len(found.events) + 1, 3):
            again = recovered(bench, run, fate, length)
            assert (again.status, again.reason, again.step, again.steps) == (
                run.status,
                run.reason,
                run.step,
                run.steps,
            )
            if not found.plan.has_sensitive:
                assert (again.trace_hash, again.snapshot()) == (run.trace_hash, run.snapshot())
            assert _values(again) == _values(run)


def _values(run: Run) -> Any:
    return _open(run.view("tool"))


def test_the_seeds_take_the_good_programs_to_many_ends() -> None:
    ends = {
        (run.status, run.reason, run.step)
        for name in GOOD
        for seed in FATES[name]
        for run, _ in [made(GOOD[name], seed, Bench(), "r")]
    }
    assert len(ends) > size(15, 25)
    assert {"SUCCESS", "FAILED"} <= {status for status, _, _ in ends}


@settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None, max_examples=60,
          phases=[Phase.generate])  # fmt: skip
@given(programs(), st.integers(0, 1 << 30), st.integers(3, 25))
def test_every_prefix_of_a_random_program_is_folded(data: dict[str, Any], seed: int, budget: int) -> None:
    bench = Bench()
    run, fate = made(Program.from_dict({**data, "max_steps": budget}), str(seed), bench, "run")
    found = history(bench, "run")
    assert folded(found)[-1] == run.snapshot()
    for length in range(1, len(found.events) + 1, 2):
        again = recovered(bench, run, fate, length)
        assert (again.trace_hash, again.snapshot()) == (run.trace_hash, run.snapshot())


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "zone"), [("4242", "America/St_Johns"), ("1", "Pacific/Kiritimati")][: size(1, 2)])
def test_another_process_with_another_hash_seed_and_time_zone_gets_the_same(
    seed: str, zone: str, tmp_path: Path
) -> None:
    bench = Bench(journal=SQLiteJournal(tmp_path / "runs.db"))
    fates = SEEDS[: size(1, 2)]
    runs = {f"{name}-{fate}": made(GOOD[name], fate, bench, f"{name}-{fate}")[0] for name in GOOD for fate in fates}
    bench.journal.close()
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, replays.__file__, str(tmp_path / "runs.db"), *fates]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    stored, again = (json.loads(line) for line in done.stdout.splitlines())
    assert stored == {name: told(run) for name, run in runs.items()}
    assert len(again) > 10
    assert again == {name: told(run) for name, run in runs.items() if name in again}


# -- the trace hash ----------------------------------------------------------------------------------------------------

STEPS = [
    ask("l"),
    tool("a", args={"x": "$l.output"}),
    check("c", "$a.output == 'k'", "e", "f"),
    end("e", "$x"),
    end("f", "$x"),
]
TRACED = program(*STEPS, inputs={"x": {}})


def trace(made: Program, bench: Bench, x: Any = "in", run_id: str = "run") -> str:
    return bench.run(made, run_id, x=x).trace_hash


def test_equal_runs_have_an_equal_trace_hash_whatever_their_ids_times_and_costs() -> None:
    one = trace(TRACED, Bench({"a": "k"}, {"l": ModelReply("said", 5, 0.5, "big")}))
    bench = Bench({"a": "k"}, {"l": ModelReply("said", 9, 0.1, "small")})
    bench.clock.time += 86_400_000_000
    assert trace(TRACED, bench, run_id="other") == one
    spaced = Program.from_dict(json.loads(json.dumps(TRACED.to_data())))
    assert trace(spaced, Bench({"a": "k"}, {"l": "said"})) == one


@pytest.mark.parametrize(
    ("made", "tools", "model", "x"),
    [
        (TRACED, {"a": "k"}, {"l": "said"}, "in2"),
        (TRACED, {"a": "k"}, {"l": "Said"}, "in"),
        (TRACED, {"a": "m"}, {"l": "said"}, "in"),
        (TRACED, {"a": ValueError("no")}, {"l": "said"}, "in"),
        (program(*STEPS[:-1], end("f"), inputs={"x": {}}), {"a": "k"}, {"l": "said"}, "in"),
        (program(*STEPS, inputs={"x": {}}, version="2"), {"a": "k"}, {"l": "said"}, "in"),
        (TRACED, {"a": "k"}, {"l": "said"}, 1),
        (TRACED, {"a": "k"}, {"l": "said"}, "1"),
        (TRACED, {"a": "k"}, {"l": "said"}, ["in"]),
        (TRACED, {"a": "k"}, {"l": "said"}, None),
    ],
)
def test_one_changed_character_changes_the_trace_hash(made: Program, tools: Any, model: Any, x: Any) -> None:
    assert trace(made, Bench(tools, model), x) != trace(TRACED, Bench({"a": "k"}, {"l": "said"}))


def test_equal_runs_with_sensitive_values_have_an_equal_trace_hash() -> None:
    hidden = program(*STEPS, inputs={"x": {"type": "string", "sensitive": True}})
    assert trace(hidden, Bench({"a": "k"}, {"l": "said"})) == trace(hidden, Bench({"a": "k"}, {"l": "said"}))


def test_a_recovered_run_has_the_trace_hash_of_one_that_never_stopped() -> None:
    steps = [
        tool("a", "again"),
        both("p", tool("b", "again"), tool("c", "again"), tool("d")),
        assign("s", v=1),
        end(output="$v"),
    ]
    bench = Bench()
    run = bench.run(program(*steps))
    for records in range(1, len(bench.journal.read("run"))):
        other = Bench(journal=cut(bench.journal, "run", records))
        again = other.checked(asyncio.run(other.vm.recover("run"))[0])
        assert (again.trace_hash, again.snapshot()) == (run.trace_hash, run.snapshot())
        assert set(other.tools.keys("a")) <= set(bench.tools.keys("a"))


def test_a_run_that_is_cancelled_after_its_process_died_in_a_call_is_called_honest() -> None:
    bench = Bench()
    bench.run(program(tool("a", "again"), end("e")))
    kinds = bench.kinds()
    other = Bench(journal=cut(bench.journal, "run", kinds.index("intent") + 1))
    cancelled = other.checked(asyncio.run(other.vm.cancel("run")))
    assert (cancelled.status, other.bodies()[-1]["in_doubt"]) == ("CANCELLED", ["a"])
    assert replay(other.journal, "run").faults == ()
