"""What the program may call. The functions are ready: you need not change them."""

from __future__ import annotations

from stepward.vm import Suspend


def ask_manager(invoice: str, amount: float) -> Suspend:
    """Ask a manager. The answer comes later: `{"approved": true}` or `{"approved": false}`."""
    return Suspend({"question": f"Shall we pay {amount} for {invoice}?"})


def pay_invoice(invoice: str, amount: float, idempotency_key: str) -> str:
    """Pay an invoice and return the number of the payment. The bank pays once for each key."""
    return f"PAY-{idempotency_key[:6]}"


def tell_supplier(invoice: str, text: str, idempotency_key: str) -> None:
    """Write to the supplier. The mail service sends one mail for each key."""
