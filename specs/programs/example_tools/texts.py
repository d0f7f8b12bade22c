"""Documents, posts, tickets, reports and releases."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from example_tools.values import Data, id_of
from stepward.vm import Suspend


def get_text(document_id: str) -> Data:
    return {"text": "Northwind Ltd. Total due: EUR 412.50. Issued 2026-03-02.", "pages": 1}


def add_up_lines(document_id: str) -> Data:
    return {"total": Decimal("412.50")}


def store_record(document_id: str, supplier: str, total: Decimal, currency: str, issued: str) -> Data:
    return {"record_id": id_of("REC", document_id)}


def delete_document(document_id: str) -> str:
    raise RuntimeError("no document is deleted from here")


def queue_review(document_id: str) -> str:
    return id_of("REV", document_id)


def get_author_record(author_id: str) -> Data:
    return {"strikes": 0, "trusted": False}


def set_visibility(post_id: str, visibility: str) -> str:
    return f"{post_id} is {visibility}"


def remove_post(post_id: str) -> str:
    return f"{post_id} removed"


def add_strike(author_id: str) -> str:
    return id_of("STR", author_id)


def queue_for_moderator(post_id: str) -> str:
    return id_of("MOD", post_id)


def look_up(question: str, history: str) -> str:
    return "returns are free within 30 days" if "send it back" in question else "we pay the parcel"


def send_answer(question: str, text: str) -> str:
    return id_of("ANS", question, text)


def hand_over(question: str) -> str:
    return id_of("HND", question)


def search_known_issues(topic: str) -> list[Data]:
    return [{"title": "exports end after an hour", "answer": "split the export by month"}]


def send_reply(ticket_id: str, text: str) -> str:
    return id_of("RPL", ticket_id, text)


def assign_ticket(ticket_id: str, team: str, priority: int, due_hours: Decimal) -> str:
    return f"{ticket_id} is with {team}"


def queue_ticket(ticket_id: str) -> str:
    return id_of("QUE", ticket_id)


def query_sales(day: str) -> Data:
    return {"total": Decimal("18204.75"), "orders": 311}


def query_refunds(day: str) -> Data:
    return {"total": Decimal("640.20")}


def query_signups(day: str) -> Data:
    return {"count": 58}


def query_tickets(day: str) -> Data:
    return {"open": 23}


def query_stock(day: str) -> Data:
    return {"low_items": 4}


def store_report(day: str, net: Decimal, headline: str, body: str) -> Data:
    return {"report_id": id_of("RPT", day)}


def send_report(to: Sequence[str], report_id: str) -> str:
    return f"{report_id} sent to {len(to)}"


def list_changes(release: str) -> list[str]:
    return ["exports are split by month", "the login page remembers the language"]


def ask_editor(release: str, text: str) -> Suspend:
    return Suspend({"question": f"may the notes of {release} go out?", "text": text})


def publish_notes(release: str, text: str) -> str:
    return f"notes of {release} published"
