"""Holds the word of the machine about a run that was killed against what the recorder says."""

import json
from collections import Counter
from contextlib import closing
from typing import Any

from crash_programs import REFUND
from crash_world import RUN, TOOLS, Effect, World
from stepward.vm import SQLiteJournal
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer


def records_of(journal: Journal) -> list[dict[str, Any]]:
    return [json.loads(entry.record) for entry in journal.read(RUN)]


def where(body: dict[str, Any]) -> str:
    """Return the step of a record, with its frame in a body: items that run at once perform the same steps."""
    return json.dumps([body.get("step"), body.get("frame")])


def settled_keys(records: list[dict[str, Any]]) -> tuple[dict[str, str], set[str]]:
    """Return the keys of writes whose outcome is recorded, with that outcome, and of those in doubt."""
    begun: dict[str, str] = {}
    settled: dict[str, str] = {}
    doubted: set[str] = set()
    for record in records:
        step, kind = where(record["body"]), record["kind"]
        if kind == "intent" and TOOLS[record["body"]["tool"]][0]:
            begun[step] = record["note"]["key"]
        elif kind in ("attempt", "resumed", "reconciled", "doubt") and step in begun:
            outcome = record["body"].get("kind", "doubt")
            if kind == "reconciled":
                outcome = {"done": "success"}.get(record["note"]["verdict"], record["note"]["verdict"])
            (doubted.add if outcome == "doubt" else doubted.discard)(begun[step])
            if outcome != "doubt":
                settled[begun[step]] = outcome
    return settled, doubted


def verdicts_of(records: list[dict[str, Any]]) -> set[str]:
    """Return what people said of the run's doubts."""
    return {record["note"]["verdict"] for record in records if record["kind"] == "reconciled"}


def told(world: World) -> list[str]:
    """Return what a recovered run does not tell of: effects without outcome or doubt; and whether it is stuck."""
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        rows, records = journal.rows(), records_of(journal)
    faults = [f"the run is stuck: {row.status}" for row in rows if row.status in ("RUNNING", "SUSPENDED")]
    settled, doubted = settled_keys(records)
    for effect in world.recorder.effects():
        if effect.key not in settled and effect.key not in doubted:
            faults.append(f"lost: {effect.tool} {effect.args} happened, and is neither settled nor in doubt")
    if rows and (rows[0].status == "IN_DOUBT") != bool(doubted):
        faults.append(f"the run is {rows[0].status}, and {len(doubted)} writes are in doubt")
    return faults


def judge(world: World, reference: dict[str, Any], expected: list[Effect]) -> list[str]:
    """Return what is wrong with an ended run: against the recorder, the reference and its own journal."""
    effects = world.recorder.effects()
    faults = miscounted(effects, {effect.what for effect in expected})
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        records = records_of(journal)
        verdict = verify(journal, RUN, replay=replayer(journal, RUN))
    faults += [f"verify: {fault}" for fault in verdict.faults]
    settled, doubted = settled_keys(records)
    happened = {effect.key for effect in effects}
    faults += [
        f"lost: {key} is settled as {how}" for key, how in settled.items() if how == "success" and key not in happened
    ]
    if doubted:
        faults.append("a write is still in doubt at the end")
    ended = world.ended()
    return faults + differences(ended, reference, verdicts_of(records), world.program.name)


def miscounted(effects: list[Effect], once: set[tuple[str, str]]) -> list[str]:
    """Return what happened too often, or not at all."""
    faults = []
    keys: dict[tuple[str, str], set[str]] = {}
    for effect in effects:
        keys.setdefault(effect.what, set()).add(effect.key)
    for what, count in Counter(effect.what for effect in effects).items():
        if count > 1 and not TOOLS[what[0]][1]:
            faults.append(f"doubled: {what} happened {count} times")
        if len(keys[what]) > 1:
            faults.append(f"doubled: {what} under {len(keys[what])} keys")
    faults += [f"lost: {what} never happened" for what in once - keys.keys()]
    faults += [f"too much: {what} happened" for what in keys.keys() - once]
    return faults


def differences(ended: dict[str, Any], reference: dict[str, Any], verdicts: set[str], name: str) -> list[str]:
    """Return how the end differs from that of a run that was never killed."""
    faults = [
        f"{part} is {ended[part]!r}, not {reference[part]!r}"
        for part in ("status", "output")
        if ended[part] != reference[part]
    ]
    if name in ("customer_refund", "stubborn"):
        return faults  # what is sealed has another reference each time, and a further attempt is a step more
    here, there = ended["state"], reference["state"]
    if here["trace"] != ended["trace"]:
        faults.append("the run's trace hash is not that of its state")
    parts = set(here)
    if "not_done" in verdicts:
        parts -= {"steps"}  # a further attempt costs a step
    return faults + [f"state: {part} differs" for part in sorted(parts) if here[part] != there[part]]


def erased(world: World, in_doubt: list[str]) -> list[str]:
    """Return what is wrong with a run that was cancelled and erased."""
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        verdict = verify(journal, RUN, replay=replayer(journal, RUN))
        status, records = journal.rows()[0].status, records_of(journal)
    faults = [f"verify: {fault}" for fault in verdict.faults]
    if status != "CANCELLED":
        faults.append(f"the run is {status}, not cancelled")
    named = [record["body"].get("in_doubt", []) for record in records if record["kind"] == "ended"]
    if named != [in_doubt]:
        faults.append(f"in doubt are {named}, not {in_doubt}")
    secret = REFUND["customer_email"].encode()
    faults += [f"{path.name} holds a secret" for path in world.folder.glob("runs.db*") if secret in path.read_bytes()]
    return faults
