"""What a store has at the end of a scene, as each reader of it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.environment import Environment, Process
from stepward.sabotage.stores.forging import chained, raw_store_of
from stepward.vm import Run, SigningKey
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verdict import Verdict
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replay, replayer
from stepward.vm.machine.views import View
from stepward.vm.telemetry.outline import outline_of
from stepward.vm.telemetry.spans import Span, Spans

SHARE_REPLAYED: Final = 0.2
"""The share of runs whose documents are read anew for a replay."""

VIEWS: Final[tuple[View, ...]] = ("model", "tool", "trace")


def show_store(env: Environment, machine: Process, key: SigningKey | None) -> None:
    """Note the runs of a store: their records, values, views, spans, verdicts; and those of a forged journal."""
    notes, store = env.notes, env.store
    for row in store.rows():
        notes.add("run", row.run, row.program, row.status, row.seq, row.started, row.updated)
        for entry in store.read(row.run):
            notes.add(entry.record)
        notes.add(sorted(store.vault.get(row.run).items()))
        _show_verdict(
            notes, verify(store, row.run, keys=_keys(key), replay=replayer(store, row.run, plans=env.plans()))
        )
        try:
            _show_run(notes, env.quiet(machine.get(row.run)))
            if env.chance.random() < SHARE_REPLAYED:
                replayed = replay(store, row.run)
                notes.add(replayed and (replayed.steps, replayed.run.snapshot()))
            for span in _spans(store, row.run):
                notes.add(span)
        except Exception as error:
            notes.add_error(error)
    notes.add("pruned", sorted((run, store.kept(run)) for run in store.pruned()))
    _forge(env, key)


def _keys(key: SigningKey | None) -> tuple[Any, ...]:
    return () if key is None else (key.public,)


def _show_verdict(notes: Notes, verdict: Verdict) -> None:
    faults = [(fault.seq, fault.what, fault.help) for fault in verdict.faults]
    notes.add(verdict.records, verdict.signed_by, verdict.continues, verdict.is_pruned, verdict.receipts, faults)


def _show_run(notes: Notes, run: Run) -> None:
    notes.add(run)
    for kind in VIEWS:
        try:
            notes.add(kind, run.view(kind))
        except Exception as error:
            notes.add_error(error)
    notes.add("output", _output(run), run.spent, run.continues)
    for record in run.trace:
        notes.add(record)


def _output(run: Run) -> Any:
    try:
        return run.output
    except Exception as error:
        return type(error).__name__


def _spans(store: Journal, run: str) -> Iterator[Span]:
    """Yield the spans of a run with its values."""
    entries = store.read(run)
    document = store.document(json.loads(entries[0].record)["body"]["program"])
    assert document is not None, "a run has its program in the store"
    outline = outline_of(document)
    spans = Spans(run, lambda _: outline, values=True)
    for entry in entries:
        yield from spans.add(read_record(entry))


# -- a forged journal --------------------------------------------------------------------------------------------------


def _forge(env: Environment, key: SigningKey | None) -> None:
    """Change one thing of the records of a run, and note what its verification says."""
    store, chance = env.store, env.chance
    runs = [row.run for row in store.rows()]
    if not runs:
        return
    run = chance.choice(runs)
    entries, head = store.read(run), store.head(run)
    records = [json.loads(entry.record) for entry in entries]
    receipt = Receipt.give(run, head.seq, head.digest, "RUNNING", bytes(32), key) if head is not None else None
    at = chance.randrange(len(records))
    _change(records, at, chance.choice(("drop", "swap", "twice", "value", "value", "value", "time", "kind")), env)
    if not records:
        return
    raw_store_of(store).put(run, chained(records), head, None)
    receipts = () if receipt is None or chance.random() < 0.5 else (receipt,)
    try:
        found = verify(store, run, keys=_keys(key), receipts=receipts, replay=replayer(store, run, receipts))
        _show_verdict(env.notes, found)
    except Exception as error:
        env.notes.add_error(error)


def _change(records: list[dict[str, Any]], at: int, how: str, env: Environment) -> None:
    match how:
        case "drop":
            del records[at]
        case "swap" if at:
            records[at - 1 : at + 1] = records[at - 1 : at + 1][::-1]
        case "twice":
            records.insert(at, records[at])
        case "time":
            records[at]["at"] += env.chance.choice((-1, 1, 10**6))
        case "kind":
            records[at]["kind"] = env.chance.choice(records)["kind"]
        case _:
            _change_value(records[at], env)


def _change_value(record: dict[str, Any], env: Environment) -> None:
    """Change one value of the body or the note of a record."""
    chance = env.chance
    part = record[chance.choice(("body", "body", "note"))]
    if not part:
        return
    name = chance.choice(sorted(part))
    value = part[name]
    if chance.random() < 0.2:
        del part[name]
    elif isinstance(value, bool) or value is None:
        part[name] = "other"
    elif isinstance(value, int):
        part[name] = value + chance.choice((-1, 1))
    elif isinstance(value, str):
        part[name] = chance.choice((value + "x", "", "success", "failed"))
    else:
        part[name] = chance.choice(([], {}, 0))
