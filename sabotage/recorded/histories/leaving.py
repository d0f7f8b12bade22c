"""Histories of what is kept: receipts, erasures, copies and pruning of chains, forged records, and limits of size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.histories.kit import KEY, Story, tool_step
from stepward.sabotage.stores.forging import RawMemory, chained
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import Head
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.stored_due import stored_due
from stepward.vm.machine.turns import TurnRequest, turn_name, turn_policies

_CARD: Final = {"type": "string", "sensitive": True}
_NUMBER: Final = {"type": "number"}


# -- receipts ----------------------------------------------------------------------------------------------------------

_ACTS: Final = ("erase", "copy", "prune", "go")
KEEPING: Final = tuple(
    (way, first, second, third)
    for at, (first, second, third) in enumerate(product(_ACTS, repeat=3))
    for way in (("go", "move", "turn")[at % 3],)
    if len({first, second, third}) == 3 or (at % 4 == 0 and first != second)
)
"""How a chain goes on, and what becomes of it: in which order it is erased, copied, pruned and continued."""


def keeping(story: Story, way: str, first: str, second: str, third: str, run: str) -> None:
    """Give receipts for each state of a chain, and hold its runs against them after everything that becomes of it."""
    story.script = {"ask": ["wait", "wait"], "fails": ["fail", "fail"], "pay": []}
    story.store = story.new_store()
    story.policies = []
    receipts: list[Receipt] = []
    _begin(story, way, run)
    _give(story, receipts)
    if way == "move":
        story.move(run, {**_chain(way), "description": "second"})
        _give(story, receipts)
    story.answer(run, 1)
    _give(story, receipts)
    for act in (first, second, third):
        story.at(1_000_000)
        _do(story, act, way, run)
        if act != "copy":
            _give(story, receipts)
        _hold(story, receipts)
    for number, receipt in enumerate(receipts[:6]):
        _hold(story, [_changed(receipt, number)])


def _chain(way: str) -> dict[str, Any]:
    end = tool_step("fails", "look") if way == "go" else tool_step("pay", "pay")
    return {
        "inputs": {"card": _CARD},
        "steps": [tool_step("ask", "ask"), end, {"id": "over", "type": "end", "output": "$card"}],
    }


def _begin(story: Story, way: str, run: str) -> None:
    if way == "turn":
        program = story.program(_chain(way))
        assert program is not None
        work = story.process().take_turn(
            turn_name(run, 1), program, {"card": "4929 1111"}, TurnRequest("first", {"a": 1}), None
        )
        story.do("turn", work)
    else:
        story.start(_chain(way), {"card": "4929 1111"}, run)


def _do(story: Story, act: str, way: str, run: str) -> None:
    names = [row.run for row in story.store.rows()] or [run]
    match act:
        case "erase":
            story.do(f"erase {names[0]}", story.process().erase(names[0], by="ann"))
        case "copy":
            source, story.store = story.store, story.new_store()
            story.notes.add([tuple(one) for one in copy_runs(source, story.store, stored_due(source))])
        case "prune":
            story.do("prune", story.process().prune(story.clock.time / 1e6, by="ann"))
        case "go" if way == "turn":
            before = story.quiet(story.process().turns(run))
            program = story.program(_chain(way))
            if before and program is not None:
                story.policies = [*turn_policies(before[-1].plan.policies, before[-1])]
                work = story.process().take_turn(
                    turn_name(run, 2), program, {"card": "1"}, TurnRequest("next"), before[-1]
                )
                story.do("turn", work)
                story.policies = []
        case _:
            story.go_on(names[-1], _chain("go"), {"card": "card"})


def _give(story: Story, receipts: list[Receipt]) -> None:
    """Give a receipt for the present state of each run, unless there is one."""
    for row in story.store.rows():
        found = story.read(row.run)
        if found is not None and all((one.run, one.seq) != (row.run, found.seq) for one in receipts):
            digest, trace = bytes.fromhex(found.head), bytes.fromhex(found.trace_hash)
            receipts.append(
                Receipt.give(row.run, found.seq, digest, found.status, trace, KEY if len(receipts) % 2 else None)
            )


def _hold(story: Story, receipts: Sequence[Receipt]) -> None:
    """Note what a verifier says of each run with a receipt."""
    for run in dict.fromkeys(one.run for one in receipts):
        own = [one for one in receipts if one.run == run]
        check = replayer(story.store, run, own, plans=story.plans())
        story.notes.add(verify(story.store, run, receipts=own, replay=check))


def _changed(receipt: Receipt, number: int) -> Receipt:
    """Return a receipt that says something else."""
    parts: list[Any] = [receipt.run, receipt.seq, receipt.digest, receipt.status, receipt.trace]
    match number % 5:
        case 0:
            parts[3] = "SUCCESS" if receipt.status != "SUCCESS" else "FAILED"
        case 1:
            parts[4] = bytes(32)
        case 2:
            parts[2] = bytes(32)
        case 3:
            parts[1] += 1
        case _:
            parts[3] = "CANCELLED"
    run, seq, digest, status, trace = parts
    return Receipt.give(run, seq, digest, status, trace)


# -- forged records ----------------------------------------------------------------------------------------------------

FORGED: Final[Sequence[tuple[str, str, Any]]] = (
    *(("continues", "run", value) for value in ("m", "r", "r~1", "nobody")),
    *(("continues", "head", value) for value in (0, 1, 2, 3, "m", "")),
    *(
        ("continues", "reads", value)
        for value in ({}, {"a": "b"}, {"a": "a"}, {"a": "a", "b": "a"}, {"c": "a"}, {"a": "$a"})
    ),
    *(("continues", "number", value) for value in (0, 1, 2, 3, True, "1")),
    *(
        ("continues", "granted", value)
        for value in ({}, {"tokens": 1}, {"steps": 1}, {"tokens": 90}, {"other": 1}, None)
    ),
    *(("inputs", "a", value) for value in (9, None, "text", 1)),
    *(("inputs", "b", value) for value in (9, 2, 7)),
    *(("body", "policies", value) for value in ("less", "more", "turned", "none", "m")),
    *(("body", "program", value) for value in ("r", "m", "m~1", "r~1")),
    *(("note", "by", value) for value in ("carl", "")),
    *(("note", "due", value) for value in (1, 10**18)),
    *(
        ("moved", field, value)
        for field, value in (("program", "r"), ("granted", {"steps": 2}), ("policies", []), ("visit", 2))
    ),
    *(("moved", field, value) for field, value in (("step", "over"), ("program", "nobody"))),
    *(("id", "run", value) for value in ("r~7", "m~2", "s.3")),
    *(
        ("turn", field, value)
        for field, value in (("text", "other"), ("max_steps", 9), ("data", {}), ("signature", "x"), ("odd", 1))
    ),
)
"""What is said otherwise in the first record of a continuation, in `moved`, or in a turn; and what is said."""

FORGERY_STORIES: Final = 4


def forgeries(story: Story, number: int) -> None:
    """Change records of chains, sign them, and show what a verifier and a machine say."""
    assert isinstance(story.store, MemoryJournal)
    _forgeable(story)
    for at, (where, field, value) in enumerate(FORGED[number::FORGERY_STORIES]):
        runs = {"moved": ["m"], "turn": ["s.1", "s.2"]}.get(where, ["r~1", "r~2", "m~1", "s.2"])
        for run in runs if at % 2 else runs[:3]:
            entries = list(story.store.read(run))
            if not entries:
                continue
            records = [json.loads(one.record) for one in entries]
            _forge(story, records, where, field, value)
            story.notes.add("forged", run, where, field, value)
            name: str = value if where == "id" else run
            _put(story.store, run, records)
            if where == "id":
                story.store._runs[name] = story.store._runs.pop(run)
            story.verify(name)
            story.do("before", story.process().before(name))
            story.go_on(name, {"steps": [{"id": "over", "type": "end"}]}, ())
            if where == "id":
                story.store._runs[run] = story.store._runs.pop(name)
            raw, last = RawMemory(story.store), entries[-1]
            raw.put(run, entries, Head(run, last.seq, last.digest, KEY.sign_head(run, last.seq, last.digest)), None)


def _forgeable(story: Story) -> None:
    """Play a chain of three runs, one that moves, and a session of two turns."""
    inputs = {"inputs": {"a": _NUMBER, "b": {**_NUMBER, "default": 7}}}
    rule = {"name": "seen", "protects": {"tool": "pay"}, "requires": {"tool": "look"}}
    story.policy("house", guardrails=[rule])
    story.script = {"fails": ["fail"] * 3, "ask": ["wait"] * 2, "think": [("well", 5, 1)] * 3}
    think = {"id": "think", "type": "llm", "prompt": "go"}
    data = {
        **inputs,
        "max_tokens": 30,
        "steps": [tool_step("look", "look"), think, tool_step("fails", "mail"), {"id": "over", "type": "end"}],
    }
    story.start(data, {"a": 1, "b": 2}, by="ann")
    story.policy("later", guardrails=[{"name": "once", "at_most_once": {"tool": "pay"}}])
    story.go_on("r", {**data, "timeout_seconds": 50}, {"a": "a", "b": "b"}, grant={"tokens": 2}, by="bob")
    story.go_on("r~1", data, {"a": "b"}, by="bob")
    moving = {
        **inputs,
        "steps": [
            tool_step("ask", "ask"),
            tool_step("pay", "pay", "$a", on_error="skip"),
            {"id": "over", "type": "end"},
        ],
    }
    story.start(moving, {"a": 3}, "m", by="ann")
    story.move("m", {**moving, "description": "second"}, grant={"steps": 3})
    story.answer("m", 1)
    program = story.program({**data, "max_steps": 20})
    assert program is not None
    turn = TurnRequest("first", {"a": 1}, max_steps=20)
    story.do("turn", story.process().take_turn("s.1", program, {"a": 1}, turn, None))
    before = story.quiet(story.process().turns("s"))[-1]
    story.policies = [*turn_policies(before.plan.policies, before)]
    program = story.program({**data, "max_steps": 16})
    assert program is not None
    story.do("turn", story.process().take_turn("s.2", program, {"a": 1}, TurnRequest("second"), before))


def _forge(story: Story, records: list[dict[str, Any]], where: str, field: str, value: Any) -> None:
    """Change the first record of a run, or that with which it moves."""
    at = next((number for number, one in enumerate(records) if one["kind"] == "moved"), 0) if where == "moved" else 0
    body, note = dict(records[at]["body"]), dict(records[at]["note"])
    match where, field:
        case "continues" | "turn", _ if where in body:
            body[where] = {**body[where], field: value}
            if field == "head":
                body[where][field] = _digest_of(story, body[where].get("run", ""), value)
            if value is None:
                del body[where][field]
        case "inputs", _:
            body["inputs"] = {**body["inputs"], field: value}
        case "body" | "moved", "program":
            body["program"] = _program_of(story, value)
        case "body", _:
            own = list(body["policies"])
            others = {"less": own[1:], "more": [*own, *own[:1]], "turned": own[::-1], "none": []}
            body["policies"] = others[value] if value in others else _first_of(story, value)["policies"]
        case "moved", _:
            body[field] = value
        case "note" | "id", _:
            note[field] = value
    records[at] = {**records[at], "body": body, "note": note}


def _first_of(story: Story, run: str) -> Mapping[str, Any]:
    entries = story.store.read(run)
    return read_record(entries[0]).body if entries else {}


def _program_of(story: Story, run: str) -> Any:
    return _first_of(story, run).get("program", "0" * 64)


def _digest_of(story: Story, run: str, value: Any) -> str:
    entries = story.store.read(run if isinstance(value, int) else str(value))
    return entries[min(value, len(entries) - 1) if isinstance(value, int) else -1].digest.hex() if entries else "0" * 64


def _put(store: MemoryJournal, run: str, records: Sequence[Mapping[str, Any]]) -> None:
    entries = chained(map(dict, records))
    last = entries[-1]
    head = Head(run, last.seq, last.digest, KEY.sign_head(run, last.seq, last.digest))
    RawMemory(store).put(run, entries, head, None)


# -- scenes ------------------------------------------------------------------------------------------------------------

STORIES: Final = 12


def receipts(story: Story, number: int) -> None:
    """Play the cases of a story."""
    for at, one in enumerate(KEEPING[number::STORIES]):
        keeping(story, *one, f"r{at}")
        story.after()
