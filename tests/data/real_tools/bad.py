"""Tools that each break one promise of their manifests. The campaign has to find every one."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import subprocess
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from stepward.vm import Suspend

CALLS: list[str] = []
CHARGED: dict[str, int] = {}
CHARGES: list[str] = []


def wrong_type() -> Any:
    return 7


def no_value() -> Any:
    return {1, 2}


def asks_somebody() -> Any:
    return Suspend("may I?")


def sorts_in_place(amounts: list[int]) -> int:
    amounts.sort()
    return len(amounts)


def fills_in(order: dict[str, Any]) -> str:
    order.setdefault("currency", "EUR")
    return "done"


def logs_elsewhere() -> str:
    with contextlib.suppress(OSError):
        Path("/var/stepward-log").write_text("read")
    return "read"


def leaves_a_file() -> str:
    Path("cache").write_text("read")
    return "read"


def deletes_on_a_server() -> str:
    with contextlib.suppress(OSError):
        urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:9/orders/1", method="DELETE"))
    return "read"


def appends(amount: int, idempotency_key: str) -> str:
    with open("ledger", "a") as ledger:
        ledger.write(f"{amount}\n")
    return "done"


def new_id_each_time(amount: int, idempotency_key: str) -> str:
    return uuid.uuid4().hex


def refuses_its_key(amount: int, idempotency_key: str) -> str:
    place = Path(idempotency_key)
    if place.exists():
        raise ValueError("duplicate key")
    place.write_text(str(amount))
    return "done"


def looks_then_acts(amount: int, idempotency_key: str) -> str:
    if not Path(idempotency_key).exists():
        with open("ledger", "a") as ledger:
            ledger.write(f"{amount}\n")
        Path(idempotency_key).write_text("done")
    return "done"


async def marks_then_acts(amount: int, idempotency_key: str) -> str:
    if not Path(idempotency_key).exists():
        Path(idempotency_key).write_text("done")
        await asyncio.sleep(0)
        Path(f"{idempotency_key}-sent").write_text(str(amount))
    return "done"


def raises_afterwards(amount: int) -> str:
    Path("paid").write_text(str(amount))
    Path("receipt").write_text(str(amount))
    return "paid"


def tells_somebody_afterwards(amount: int) -> str:
    Path("paid").write_text(str(amount))
    if amount > 1:
        urllib.request.urlopen("http://127.0.0.1:9/paid")
    return "paid"


def runs_a_program() -> str:
    return subprocess.run(["echo", "read"], capture_output=True, text=True, check=True).stdout


def calls_c() -> int:
    return int(ctypes.CDLL(None).getpid())


def writes_json() -> str:
    import orjson

    return orjson.dumps([1]).decode()


def hangs() -> None:
    time.sleep(1000)


def charge(amount: int, idempotency_key: str) -> str:
    """Find its key by looking, and count in memory, where only a probe sees it."""
    if idempotency_key in CHARGED:
        return "charged"
    CHARGES.append(idempotency_key)
    CHARGED[idempotency_key] = amount
    return "charged"


def charge_again(amount: int, idempotency_key: str) -> str:
    CHARGES.append(idempotency_key)
    return "charged"


def charges() -> int:
    return len(CHARGES)
