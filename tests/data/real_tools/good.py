"""Tools that keep what their manifests promise, in the ways in which people write them. Nobody may accuse one."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from stepward.vm import InDoubt

TAKEN: dict[str, int] = {}


def book(amount: int, idempotency_key: str) -> str:
    """Put one file for each key in its place, in one step."""
    place = Path(f"booking-{idempotency_key}.json")
    if not place.exists():
        draft = Path(f"{place}.{os.urandom(4).hex()}.draft")
        draft.write_text(json.dumps({"amount": amount}))
        draft.replace(place)
    return "booked"


def set_limit(amount: int) -> None:
    """Write the same wherever it is said again: it needs no key."""
    Path("limit").write_text(str(amount))


def insert(amount: int, idempotency_key: str) -> int:
    """Let the database refuse a second row under one key."""
    with sqlite3.connect("rows.db", timeout=5) as rows:
        rows.execute("create table if not exists rows (key text primary key, amount integer)")
        rows.execute("insert or ignore into rows values (?, ?)", (idempotency_key, amount))
    rows.close()
    return amount


async def send(amount: int, idempotency_key: str) -> str:
    """Wait before and after, and claim the key in one step."""
    await asyncio.sleep(0)
    try:
        Path(f"sent-{idempotency_key}").mkdir()
    except FileExistsError:
        return "sent"
    await asyncio.sleep(0)
    return "sent"


def pay(amount: int) -> str:
    """Write twice, and say that nobody knows, when the second fails."""
    Path("paid").write_text(str(amount))
    try:
        Path("receipt").write_text(str(amount))
    except OSError as error:
        raise InDoubt("there is no receipt") from error
    return "paid"


def refuse_large(amount: int) -> str:
    """Refuse before anything happens."""
    if amount > 100:
        raise ValueError("too large")
    Path("small").write_text(str(amount))
    return "done"


def load() -> dict[str, Any]:
    """Read, and use a file of its own meanwhile."""
    with tempfile.NamedTemporaryFile("w") as scratch:
        scratch.write("some")
    return {"lines": len(Path(__file__).read_text().splitlines())}


def largest(amounts: list[int]) -> int:
    """Sort a copy."""
    return sorted(amounts)[-1] if amounts else 0


def take(amount: int, idempotency_key: str) -> int:
    """Keep what happened in memory, where only a probe sees it."""
    return TAKEN.setdefault(idempotency_key, amount)


def taken() -> dict[str, int]:
    return TAKEN
