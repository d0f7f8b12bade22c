"""Messages to customers and teams."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from example_tools.values import id_of


# The gateway sends one mail for one key, however often it is asked.
def send_email(to: str, template: str, reference: str, idempotency_key: str) -> str:
    return f"MAIL-{idempotency_key[:8]}"


def send_sms(to: str, text: str, idempotency_key: str) -> str:
    return f"SMS-{idempotency_key[:8]}"


def send_notice(user_id: str, template: str) -> str:
    return id_of("NTC", user_id, template)


def post_message(channel: str, text: str) -> str:
    return id_of("MSG", channel, text)


def set_discount(order_id: str, percent: Decimal) -> str:
    return id_of("DSC", order_id, str(percent))


def book_carrier(parcel_id: str, carrier: str) -> dict[str, Any]:
    return {"tracking": id_of("TRK", parcel_id, carrier)}


def open_ticket(queue: str, subject: str) -> str:
    return id_of("TCK", queue, subject)


def page_oncall(team: str, text: str) -> str:
    return id_of("PAG", team, text)


def page_team(team: str, subject: str) -> str:
    return id_of("PAG", team, subject)


def page_security(subject: str) -> str:
    return id_of("PAG", "security", subject)
