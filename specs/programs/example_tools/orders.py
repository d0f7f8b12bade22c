"""Orders, refunds and checkout."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256

from example_tools.values import Data, id_of
from stepward.vm import Suspend


def get_order(order_id: str) -> Data:
    return {"total": 740, "days_since_delivery": 9, "item_count": 3}


def get_order_state(order_id: str) -> Data:
    return {"stage": "shipped", "minutes_in_stage": 12}


def ask_manager(order_id: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"refund {amount} for {order_id}?", "who": "the manager on duty"})


# The payment provider knows no idempotency keys for refunds: a run that is killed here waits for somebody to look.
def issue_refund(order_id: str, amount: Decimal) -> Data:
    return {"refund_id": id_of("REF", order_id, amount)}


def ask_warehouse(order_id: str) -> Suspend:
    return Suspend({"question": f"may {order_id} leave?"})


def requeue_order(order_id: str) -> str:
    return id_of("QUE", order_id)


def ask_sales(order_id: str) -> str:
    return "agree"


def pick_goods(order_id: str) -> str:
    return id_of("PCK", order_id)


def ship_large(order_id: str) -> str:
    return id_of("SHL", order_id)


def ship_plain(order_id: str) -> str:
    return id_of("SHP", order_id)


def ship_on_account(order_id: str) -> str:
    return id_of("SHA", order_id)


def check_credit(customer_id: str) -> Data:
    return {"good": True}


def add_bonus(customer_id: str) -> str:
    return id_of("BON", customer_id)


def check_signature(event_id: str, signature: str) -> bool:
    return signature == sha256(event_id.encode()).hexdigest()[:16]


def reserve_stock(order_id: str) -> Data:
    return {"reservation_id": id_of("RSV", order_id), "complete": True}


def release_stock(reservation_id: str) -> str:
    return f"{reservation_id} released"


def confirm_order(order_id: str, reservation_id: str) -> str:
    return id_of("CNF", order_id, reservation_id)


def create_pick_list(order_id: str, reservation_id: str) -> Data:
    return {"pick_list_id": id_of("PCK", order_id, reservation_id)}


def add_note(order_id: str, note: str) -> str:
    return id_of("NOT", order_id, note)


def log_event(event_id: str, verdict: str) -> str:
    return id_of("LOG", event_id, verdict)


def reserve_line(order_id: str, sku: str, pieces: int) -> str:
    return id_of("RSV", order_id, sku, pieces)


def give_back_stock(order_id: str) -> str:
    return id_of("GBK", order_id)


def account_risk(order_id: str) -> int:
    return 55


def ask_risk_desk(order_id: str, risk: int) -> Suspend:
    return Suspend({"question": f"may {order_id} leave with a risk of {risk}?"})


def ship_lines(order_id: str, pieces: int) -> str:
    return id_of("SHL", order_id, pieces)
