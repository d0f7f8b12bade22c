"""Fast: when calls that go on beside each other are written down: reads with the next write, as in a flat program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import MemoryJournal, ModelReply, Program, Run
from stepward.vm.journal.store import Append, Entry
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import replay

TOOLS: dict[str, Any] = {
    "look": {"effect": "read"},
    "wait": {"effect": "none"},
    "save": {"effect": "write", "idempotent": True},
    "pay": {"effect": "write", "idempotent": False},
    "ask": {"effect": "read", "suspends": True},
}
READS = ("look", "wait")
DURABLE = ("save", "pay", "ask")


def _call(name: str, use: str, **more: Any) -> dict[str, Any]:
    if use == "llm":
        return {"id": name, "type": "llm", "prompt": "?", **more}
    return {"id": name, "type": "tool", "tool": use, **more}


def _last(name: str, use: str) -> dict[str, Any]:
    return _call(name, use, is_terminal=True)


def _items(*uses: str) -> dict[str, Any]:
    """Return a step with an item for each position, all at once, that make the same calls one after another."""
    body = [_call(f"i{number}", use) for number, use in enumerate(uses[:-1])]
    body.append(_last("last", uses[-1]))
    return {"id": "s", "type": "for_each", "items": [1, 2, 3, 4], "as": "n", "max_items": 4, "max_concurrency": 4} | {
        "steps": body
    }


def _branches(*uses: str) -> dict[str, Any]:
    """Return a step with a branch for each call."""
    branches = {f"b{number}": {"steps": [_last(f"c{number}", use)]} for number, use in enumerate(uses)}
    return {"id": "s", "type": "parallel", "branches": branches}


def _ordered(*uses: str) -> dict[str, Any]:
    """Return a step whose sub-steps wait for each other."""
    parts = [_call(f"o{number}", use) for number, use in enumerate(uses)]
    for number, part in enumerate(parts[1:]):
        part["depends_on"] = [f"o{number}"]
    return {"id": "s", "type": "parallel", "parallel_steps": parts}


def _nested(*uses: str) -> dict[str, Any]:
    """Return a step with branches in which items go on at once."""
    return {
        "id": "s",
        "type": "parallel",
        "branches": {"b0": {"steps": [_items(*uses) | {"id": "t", "is_terminal": True}]}},
    }


SHAPES: dict[str, Callable[..., dict[str, Any]]] = {
    "items": _items,
    "branches": _branches,
    "ordered": _ordered,
    "nested": _nested,
}


def _program(step: Mapping[str, Any], **more: Any) -> Program:
    steps = [step, {"id": "done", "type": "end"}]
    return Program.from_dict({"name": "p", "language": 2, "tools": TOOLS, "steps": steps, **more})


class Heard(MemoryJournal):
    """A journal that notes what each append brings, and whether it is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[tuple[bool, list[str]]] = []

    def append(self, append: Append, fence: int | None = None) -> None:
        """Note the records, and append them."""
        super().append(append, fence)
        self.appends.append((append.durable, [_kind(entry) for entry in append.entries]))

    @property
    def durable(self) -> set[str]:
        """The kinds of the records that durable appends brought."""
        return {kind for is_durable, kinds in self.appends if is_durable for kind in kinds}


def _kind(entry: Entry) -> str:
    from stepward.vm.journal.records import read_record

    return read_record(entry).kind


class Tools:
    """Tools that note the appends before their calls."""

    def __init__(self, journal: Heard) -> None:
        self.journal = journal
        self.before: list[tuple[str, list[str]]] = []

    def has(self, name: str) -> bool:
        """Return True."""
        return name in TOOLS

    async def call(self, name: str, args: Any, context: Any) -> None:
        """Note what is in the journal."""
        self.before.append((name, [kind for _, kinds in self.journal.appends for kind in kinds]))

    async def complete(self, request: Any) -> ModelReply:
        """Return a reply."""
        return ModelReply("yes", 1)


def _run(program: Program) -> tuple[Run, Heard, Tools]:
    journal = Heard()
    tools = Tools(journal)
    return unchecked(tools, tools, journal).run_sync(program, {}), journal, tools


@pytest.mark.parametrize("use", READS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_wait_for_the_end_of_the_run(shape: str, use: str) -> None:
    """One append at the end: a crash before it repeats the reads, as in a flat program."""
    run, journal, _ = _run(_program(SHAPES[shape](use, use, use)))
    assert run.status == "SUCCESS"
    assert len(journal.appends) <= 2
    flat, of_flat, _ = _run(_program(_call("s", use)))
    assert flat.status == "SUCCESS"
    assert len(journal.appends) == len(of_flat.appends)


@pytest.mark.parametrize("use", ["save", "pay"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_intent_of_a_write_is_durable_before_it_starts(shape: str, use: str) -> None:
    """It brings the reads before it that have come back; in an order, each start of a read has an intent, too."""
    run, journal, tools = _run(_program(SHAPES[shape]("look", use, "look")))
    assert run.status == "SUCCESS"
    assert "intent" in journal.durable
    writes = [known for name, known in tools.before if name == use]
    assert writes
    assert all(known.count("intent") >= (2 if shape == "ordered" else 1) for known in writes)
    assert shape == "branches" or all("attempt" in known for known in writes), "the read before it"


@pytest.mark.parametrize("use", READS)
@pytest.mark.parametrize("shape", ["items", "branches", "nested"])
def test_a_read_has_an_intent_where_a_rule_counts_it(shape: str, use: str) -> None:
    """Its siblings see its start at once, whoever comes back first."""
    step = SHAPES[shape]("look", use, "look")
    rule = {"name": "once", "at_most_once": {"tool": "look"}}
    for rules, count in (([], 0), ([rule], 1)):
        _, journal, _ = _run(_program(step, guardrails=rules))
        kinds = [kind for _, kinds in journal.appends for kind in kinds]
        assert kinds.count("intent") == count


@pytest.mark.parametrize("shape", ["items", "branches", "nested"])
def test_a_journal_of_an_older_machine_has_an_intent_of_each_read(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a run is replayed, and its trace hash is that of a run of today."""
    program = _program(SHAPES[shape]("look", "wait", "look"))
    now, _, _ = _run(program)
    with monkeypatch.context() as changed:
        changed.setattr(Plan, "is_counted", lambda plan, step: step.is_in_branch)
        then, journal, _ = _run(program)
    assert sum(kinds.count("intent") for _, kinds in journal.appends) >= 3
    played = replay(journal, then.id)
    assert played is not None
    assert played.faults == ()
    assert then.trace_hash == now.trace_hash


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_that_suspends_is_durable_before_it_starts(shape: str) -> None:
    """Somebody else may have its token at once."""
    _, journal, tools = _run(_program(SHAPES[shape]("look", "ask", "look")))
    assert all("intent" in known for name, known in tools.before if name == "ask")
    assert "intent" in journal.durable


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_of_a_model_is_committed_before_the_next_call(shape: str) -> None:
    """Its cost counts for budgets after a crash, too."""
    run, journal, _ = _run(_program(SHAPES[shape]("llm", "llm", "llm")))
    assert run.status == "SUCCESS"
    assert sum("attempt" in kinds for _, kinds in journal.appends) >= 2


# -- a cancellation beside reads that are not written down yet ---------------------------------------------------------


class Slow(Tools):
    """Tools of which reads wait until a write has begun, at which somebody has cancelled the run."""

    def __init__(self, journal: Heard) -> None:
        super().__init__(journal)
        self.goes_on = asyncio.Event()
        self.late: list[str] = []
        """The calls that started after the cancellation."""
        self.is_cancelled = False
        self.cancel: Callable[[], Awaitable[Any]]

    async def call(self, name: str, args: Any, context: Any) -> None:
        """Wait, or cancel the run."""
        await super().call(name, args, context)
        self.late += [name] if self.is_cancelled else []
        if context.step == "c1":
            await self.cancel()
            self.is_cancelled = True
            asyncio.get_running_loop().call_later(0.01, self.goes_on.set)
        elif context.step == "c0":
            await self.goes_on.wait()


@pytest.mark.parametrize("after", ["save", "look", "llm", "ask"])
@pytest.mark.parametrize("beside", ["look", "wait"])
def test_a_cancelled_run_keeps_the_reads_that_had_started(beside: str, after: str) -> None:
    """What had started is written down behind the request, and nothing starts after it that the machine knows of."""
    journal = Heard()
    tools = Slow(journal)
    clock = ManualClock()
    branches = {
        "b0": {"steps": [_last("c0", beside)]},
        "b1": {"steps": [_call("c1", "look"), _last("c2", after)]},
        "b2": {"steps": [_call("c3", "look"), _last("c4", "save")]},
    }
    program = _program({"id": "s", "type": "parallel", "branches": branches})
    machine = unchecked(tools, tools, journal, clock=clock)
    tools.cancel = lambda: unchecked(tools, tools, journal, clock=clock).cancel("run")
    run = machine.run_sync(program, {}, run_id="run")
    assert run.status == "CANCELLED"
    assert not {*DURABLE}.intersection(tools.late)
    ended = [record.step for record in run.trace if record.kind == "attempt"]
    assert {"c0", "c1"} <= {*ended}
    played = replay(journal, "run")
    assert played is not None
    assert played.faults == ()
    again = machine.get_sync("run")
    assert again.snapshot() == run.snapshot()
    assert again.trace_hash == run.trace_hash
