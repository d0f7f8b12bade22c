"""The trace hash of a run in a SQLite journal, written from specs/journal.md alone: it imports nothing of Stepward."""

from __future__ import annotations

import json
import sqlite3
import sys
from hashlib import sha256
from typing import Any

TAG, NOTHING = b"stepward.trace.1\n", bytes(32)
ALWAYS = "started governed moved waited branched assigned passed ended opened item closed"
SOMETIMES = ("attempt", "expired", "resumed", "reconciled", "blocked", "rejected")


def canonical(value: Any) -> str:
    """Return the canonical text of a value; of a sensitive one, only that there is one."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    is_sensitive = isinstance(value, str) and value.startswith("#v")
    return json.dumps("#v" if is_sensitive else value, ensure_ascii=False)


def within(trace: bytes, inner: bytes) -> bytes:
    return sha256(TAG + trace + inner).digest()


def extended(trace: bytes, record: Any) -> bytes:
    kind = "attempt" if record["kind"] in ("resumed", "reconciled") else record["kind"]
    return within(trace, f"{kind}\n{canonical(record['body'])}".encode())


def is_item(record: Any) -> bool:
    kind, body = record["kind"], record["body"]
    settles = body.get("kind") in ("success", "fallback", "skipped", "failed")
    counts = settles or not body.keys().isdisjoint(("next", "ends", "closes"))
    return kind in ALWAYS.split() or (kind == "attempt" and "rule" in body) or (kind in SOMETIMES and counts)


def all_steps(steps: list[Any]) -> list[Any]:
    inner = [one for step in steps for one in (*step.get("steps", ()), *filter(None, [step.get("do")]))]
    inner += [one for step in steps for branch in step.get("branches", {}).values() for one in branch["steps"]]
    return [*steps, *(all_steps(inner) if inner else [])]


def folded(frame: Any, traces: dict[Any, bytes], members: dict[Any, set[Any]]) -> bytes:
    """Return the trace of a frame, with the frames that are open in it."""
    if frame not in members:
        return traces.get(frame, NOTHING)
    made = NOTHING
    for one in sorted(members[frame]):
        made = within(made, folded(one, traces, members))
    return within(traces[frame], made)


def trace_hash(records: list[Any], program: Any) -> bytes:
    """Return the trace hash of a run; `records` are those of its journal, `program` is the document of its program."""
    every = {step["id"]: step for step in all_steps(program["steps"])}
    steps = {name: [part["id"] for part in step.get("parallel_steps", [])] for name, step in every.items()}
    owner = {part: step for step, parts in steps.items() for part in parts}
    traces: dict[Any, bytes] = {(): NOTHING}  # by the frame
    members: dict[Any, set[Any]] = {}  # the frames of the step with bodies that is open in a frame
    parts, failed = {}, set()  # by the frame and the sub-step
    for record in records:
        kind, body, step = record["kind"], record["body"], record["body"].get("step")
        frame = () if "ends" in body else tuple(map(tuple, body.get("frame", ())))
        again = body.get("kind") == "again"
        if "ends" in body or (kind == "joined" and frame in members):
            traces[frame] = folded(frame, traces, members)
            members = {} if "ends" in body else {one: found for one, found in members.items() if one != frame}
        elif kind == "joined":
            made = {part: parts.pop((frame, part), NOTHING) for part in steps[step]}
            traces[frame] = within(traces[frame], b"".join(made.values()))
            kept = {(frame, part): one for part, one in made.items() if one != NOTHING and (frame, part) not in failed}
            parts, failed = parts | (kept if again else {}), {one for one in failed if one[0] != frame}
        if step in owner and "ends" not in body and is_item(record):
            parts[frame, step] = extended(parts.get((frame, step), NOTHING), record)
            failed |= {(frame, step)} if body.get("kind") == "failed" else set()
        elif is_item(record) or (kind == "joined" and not again):
            traces[frame] = extended(traces.get(frame, NOTHING), record)
        if kind == "item":
            members[frame[:-1]].add(frame)
        elif kind == "opened" or (kind == "joined" and again and step not in owner.values()):
            members[frame] = {(*frame, (step, body["visit"], 1, name)) for name in every[step].get("branches", ())}
    return traces[()]


def main(path: str, run: str) -> str:
    rows = sqlite3.connect(path).execute
    records = [json.loads(one) for (one,) in rows("SELECT record FROM records WHERE run = ? ORDER BY seq", (run,))]
    ((text,),) = rows("SELECT text FROM documents WHERE digest = ?", (records[0]["body"]["program"],))
    return trace_hash(records, json.loads(text)).hex()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
