"""The trace hash of a run in a SQLite journal, written from specs/journal.md alone: it imports nothing of Stepward."""

from __future__ import annotations

import json
import sqlite3
import sys
from hashlib import sha256
from typing import Any

TAG = b"stepward.trace.1\n"
NOTHING = bytes(32)
ALWAYS = ("started", "governed", "branched", "assigned", "passed", "ended")
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
    return kind in SOMETIMES and (settles or "next" in body or "ends" in body)


def trace_hash(records: list[Any], program: Any) -> bytes:
    """Return the trace hash of a run; `records` are those of its journal, `program` is the document of its program."""
    steps = {step["id"]: [part["id"] for part in step.get("parallel_steps", [])] for step in program["steps"]}
    owner = {part: step for step, parts in steps.items() for part in parts}
    trace, parts, failed = NOTHING, {}, set()
    for record in records:
        kind, body = record["kind"], record["body"]
        step = body.get("step")
        if kind == "joined":
            whole = b"".join(parts.get(part, NOTHING) for part in steps[step])
            trace = sha256(TAG + trace + whole).digest()
            again = failed if body["kind"] == "again" else set(steps[step])
            parts = {part: made for part, made in parts.items() if part not in again}
            failed = set()
            if body["kind"] != "again":
                trace = extended(trace, record)
        elif is_item(record):
            if step in owner and "ends" not in body:
                parts[step] = extended(parts.get(step, NOTHING), record)
                if body.get("kind") == "failed":
                    failed.add(step)
            else:
                trace = extended(trace, record)
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
