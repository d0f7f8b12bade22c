"""The trace hash of a run in a SQLite journal, written from specs/journal.md alone: it imports nothing of Stepward."""

from __future__ import annotations

import json
import sqlite3
import sys
from hashlib import sha256
from typing import Any

TAG = b"stepward.trace.1\n"
NOTHING = bytes(32)
ALWAYS = ("started", "governed", "branched", "assigned", "passed", "ended", "opened", "item", "closed")
SOMETIMES = ("attempt", "resumed", "reconciled", "blocked", "rejected")


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def unnamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unnamed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unnamed(item) for item in value]
    return "#v" if isinstance(value, str) and value.startswith("#v") else value


def extended(trace: bytes, record: Any) -> bytes:
    kind = "attempt" if record["kind"] in ("resumed", "reconciled") else record["kind"]
    return sha256(TAG + trace + f"{kind}\n{canonical(unnamed(record['body']))}".encode()).digest()


def is_item(record: Any) -> bool:
    kind, body = record["kind"], record["body"]
    if kind in ALWAYS or (kind == "attempt" and "rule" in body):
        return True
    settles = body.get("kind") in ("success", "fallback", "skipped", "failed")
    return kind in SOMETIMES and (settles or not body.keys().isdisjoint(("next", "ends", "closes")))


def within(trace: bytes, inner: bytes) -> bytes:
    return sha256(TAG + trace + inner).digest()


def all_steps(steps: list[Any]) -> list[Any]:
    inner = [one for step in steps for one in (*step.get("steps", ()), *filter(None, [step.get("do")]))]
    return [*steps, *(all_steps(inner) if inner else [])]


def trace_hash(records: list[Any], program: Any) -> bytes:
    """Return the trace hash of a run; `records` are those of its journal, `program` is the document of its program."""
    every = all_steps(program["steps"])
    steps = {step["id"]: [part["id"] for part in step.get("parallel_steps", [])] for step in every}
    each = {step["id"] for step in every if step["type"] == "for_each"}
    owner = {part: step for step, parts in steps.items() for part in parts}
    trace, parts, failed = NOTHING, {}, set()
    around: list[bytes] = []  # T around each open for_each step, and its digest M around each open frame
    for record in records:
        kind, body, step = record["kind"], record["body"], record["body"].get("step")
        again = body.get("kind") == "again"
        while around and ("ends" in body or (kind == "joined" and step in each)):
            trace = within(around.pop(), trace)
            if kind == "joined":
                break
        if kind == "joined":
            if step not in each:
                trace = within(trace, b"".join(parts.get(part, NOTHING) for part in steps[step]))
                kept = set(steps[step]) - failed if again else set()
                parts, failed = {part: made for part, made in parts.items() if part in kept}, set()
            trace = trace if again else extended(trace, record)
        elif step in owner and "ends" not in body and is_item(record):
            parts[step] = extended(parts.get(step, NOTHING), record)
            failed |= {step} if body.get("kind") == "failed" else set()
        elif is_item(record):
            around += [trace] if kind == "item" else []
            trace = extended(NOTHING if kind == "item" else trace, record)
        if kind == "opened" or (kind == "joined" and again and step in each):
            around, trace = [*around, trace], NOTHING
        trace = within(around.pop(), trace) if "closes" in body else trace
    return trace


def main(path: str, run: str) -> str:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT record FROM records WHERE run = ? ORDER BY seq", (run,)).fetchall()
    records = [json.loads(record) for (record,) in rows]
    digest = records[0]["body"]["program"]
    (text,) = connection.execute("SELECT text FROM documents WHERE digest = ?", (digest,)).fetchone()
    return trace_hash(records, json.loads(text)).hex()


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
