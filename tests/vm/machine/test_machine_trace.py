"""The typed records of a run: every kind, its values, and nothing sensitive."""

from __future__ import annotations

import dataclasses
import datetime
import re
from decimal import Decimal
from typing import Any, get_args

import pytest

from machines import TOOLS, Bench
from paths import ROOT
from stepward.vm import InDoubt, ModelReply, Program, Suspend
from stepward.vm import trace as records
from stepward.vm.machine.clock import ManualClock
from stepward.vm.trace import AnyRecord, Attempt, Branched, Cancel, Ended, Erased, Intent, LeavingRecord, Started

KINDS = get_args(AnyRecord)


def program(*steps: Any, **more: Any) -> Program:
    return Program.from_dict({"name": "traced", "tools": TOOLS, "steps": list(steps), **more})


TRAVEL = program(
    {"id": "look", "type": "tool", "tool": "read", "args": {"of": "$who"}, "on_error": "retry", "max_retries": 2},
    {"id": "pick", "type": "llm", "prompt": "pick", "allowed_outputs": ["yes", "no"], "output_key": "said"},
    {"id": "put", "type": "set", "set": {"n": "1"}},
    {"id": "side", "type": "parallel", "parallel_steps": [{"id": "a", "type": "tool", "tool": "again"}]},
    {"id": "if", "type": "condition", "condition": "$said == 'yes'", "then": "wait", "otherwise": "out"},
    {"id": "wait", "type": "tool", "tool": "ask", "next_step": "write"},
    {"id": "write", "type": "tool", "tool": "write", "next_step": "out"},
    {"id": "out", "type": "end", "output": {"a": "$n"}},
    inputs={"who": {"type": "string", "sensitive": True}},
)


def journey() -> tuple[Bench, Any]:
    reply = ModelReply("yes", 7, Decimal("0.25"), "m-1")
    answers = {"look": [ValueError("down"), "found"], "wait": Suspend({"ok": "?"}), "write": InDoubt("lost")}
    bench = Bench(answers, {"pick": reply})
    bench.run(TRAVEL, who="someone secret")
    run = bench.resume(bench.vm.get_sync("run"), "fine")
    assert run.status == "IN_DOUBT"
    bench.vm.reconcile_sync("run", "write", "done", "written", by="ann")
    return bench, bench.vm.erase_sync("run", by="bob")


def test_a_report_says_what_each_step_has_cost_if_several_have() -> None:
    from stepward.validator.cli.machine import history_of
    from stepward.validator.report.trace import render_outcome, run_data

    steps = [{"id": name, "type": "llm", "prompt": "?"} for name in "abc"]
    said = {"a": ModelReply("x", 1, Decimal("0.5"), "m"), "b": ModelReply("x", 2, 2), "c": "x"}
    bench = Bench(model=said)
    run = bench.run(program(*steps, max_cost=3))
    found = history_of(bench.vm.journal, run.id)
    assert "cost by step: `a` 0.5, `b` 2\n" in render_outcome(run, found)
    assert run_data(run, found)["spent"] == {
        "a": {"tokens": 1, "cost": "0.5", "model": "m"},
        "b": {"tokens": 2, "cost": "2", "model": ""},
        "c": {"tokens": 0, "cost": "0", "model": ""},
    }
    run = Bench(model=said).run(program(steps[0]))
    assert "by step" not in render_outcome(run, found)


def test_a_run_has_its_records_in_order_with_their_values() -> None:
    _, run = journey()
    assert [one.seq for one in run.trace] == list(range(run.seq + 1))
    kinds = "started attempt attempt attempt assigned intent attempt joined branched intent attempt resumed intent"
    assert " ".join(one.kind for one in run.trace) == f"{kinds} attempt reconciled ended erased"
    first, failed, found, said = run.trace[:4]
    assert isinstance(first, Started)
    assert (first.inputs, first.by, first.waived) == ({"who": "[erased]"}, None, ())
    assert isinstance(failed, Attempt)
    assert (failed.outcome, failed.error, failed.attempt, failed.next) == ("again", "down", 1, None)
    assert isinstance(found, Attempt)
    assert (found.outcome, found.output, found.attempt, found.next) == ("success", "found", 2, "pick")
    assert isinstance(said, Attempt)
    assert (said.tokens, said.cost, said.model, said.output) == (7, Decimal("0.25"), "m-1", "yes")
    branched = run.trace[8]
    assert isinstance(branched, Branched)
    assert (branched.step, branched.visit, branched.branch, branched.next) == ("if", 1, "then", "wait")
    asked, written = run.trace[9], run.trace[12]
    assert isinstance(asked, Intent)
    assert isinstance(written, Intent)
    assert (written.tool, written.args, written.performance, len(written.key)) == ("write", {}, 1, 64)
    ended, erased = run.trace[-2:]
    assert isinstance(ended, Ended)
    assert (ended.ends, ended.reason, ended.step, ended.output) == ("SUCCESS", "declared", "out", {"a": Decimal(1)})
    assert isinstance(erased, Erased)
    assert (erased.by, len(erased.references)) == ("bob", 1)


def test_times_are_those_of_the_clock_in_utc_and_durations_are_seconds() -> None:
    bench = Bench({})
    start = bench.clock.time
    run = bench.run(program({"id": "look", "type": "tool", "tool": "read"}))
    first, attempt = run.trace
    assert first.at == datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=start + 1)
    assert isinstance(attempt, Attempt)
    assert attempt.took == 1e-6 * ManualClock().tick


def test_the_trace_of_a_run_ends_where_the_run_was_read() -> None:
    bench = Bench({"wait": Suspend()})
    run = bench.run(program({"id": "wait", "type": "tool", "tool": "ask"}))
    before = bench.vm.get_sync(run.id)
    after = bench.vm.cancel_sync(run.id, by="ann")
    assert run.trace == before.trace == after.trace[: run.seq + 1]
    assert isinstance(after.trace[run.seq + 1], Cancel)
    assert after.trace[run.seq + 1].by == "ann"  # type: ignore[union-attr]


def test_nothing_sensitive_is_in_a_trace_before_it_is_erased() -> None:
    bench = Bench({"wait": Suspend()})
    run = bench.run(TRAVEL, who="someone secret")
    assert "someone secret" not in repr(run.trace)
    assert "[sensitive]" in repr(run.trace)


def test_records_are_frozen_and_equal_by_value() -> None:
    _, run = journey()
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.trace[0].seq = 3
    assert dataclasses.replace(run.trace[0]) == run.trace[0]


def test_every_kind_of_the_journal_has_a_class_with_the_fields_that_its_page_names() -> None:
    page = (ROOT / "specs/journal.md").read_text(encoding="utf-8")
    table = page.partition("| kind | body | note |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)\|", table, re.MULTILINE))
    assert list(rows) == [one.kind for one in KINDS]
    for one in KINDS:
        known = {field.name for field in dataclasses.fields(one)} - {
            "seq",
            "at",
            "by",
            "outcome",
            "next",
            "ends",
            "closes",
            "frame",
            "reason",
        }
        for name in known:
            assert f"`{name}`" in rows[one.kind], (one.kind, name)
        leaves = bool(re.search(r"leaves|abandoned: ends", rows[one.kind]))
        assert issubclass(one, LeavingRecord) is leaves, one.kind
        assert one.__doc__
        assert getattr(records, one.__name__) is one
