"""The tools of the purchases."""

from __future__ import annotations

from pathlib import Path

from stepward.vm import Suspend

ORDERS = Path(__file__).parent / "orders.txt"


def ask_manager(item: str, amount: float) -> Suspend:
    """Ask a manager; the run waits for the answer."""
    return Suspend({"question": f"Shall we buy {item} for {amount}?"})


def place_order(item: str, amount: float, idempotency_key: str) -> str:
    """Order once for each key. The orders are lines of orders.txt: key, item, amount."""
    lines = ORDERS.read_text(encoding="utf-8").splitlines() if ORDERS.exists() else []
    if not any(line.startswith(idempotency_key) for line in lines):
        with ORDERS.open("a", encoding="utf-8") as file:
            file.write(f"{idempotency_key} {item} {amount}\n")
    return f"ORDER-{idempotency_key[:6]}"
