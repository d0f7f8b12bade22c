"""Tools for the example programs, as a team would write them: functions by the names in the manifests.

Nothing here reaches a network. What is looked up is written down, and every id is computed from what it names, so that
the same call gives the same answer. To run one of the programs with them:

    stepward run specs/programs/good/stuck_order.yaml --input order_id=ORD-000042 --tools specs/programs/tools.py
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

from stepward.vm import Suspend

Data = dict[str, Any]


def _id(prefix: str, *parts: object) -> str:
    return f"{prefix}-{sha256(repr(parts).encode()).hexdigest()[:8]}"


# -- orders, refunds, checkout -----------------------------------------------------------------------------------------


def get_order(order_id: str) -> Data:
    return {"total": 740, "days_since_delivery": 9, "item_count": 3}


def get_order_state(order_id: str) -> Data:
    return {"stage": "shipped", "minutes_in_stage": 12}


def ask_manager(order_id: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"refund {amount} for {order_id}?", "who": "the manager on duty"})


# The payment provider knows no idempotency keys for refunds: a run that is killed here waits for somebody to look.
def issue_refund(order_id: str, amount: Decimal) -> Data:
    return {"refund_id": _id("REF", order_id, amount)}


def ask_warehouse(order_id: str) -> Suspend:
    return Suspend({"question": f"may {order_id} leave?"})


def requeue_order(order_id: str) -> str:
    return _id("QUE", order_id)


def ask_sales(order_id: str) -> str:
    return "agree"


def pick_goods(order_id: str) -> str:
    return _id("PCK", order_id)


def ship_large(order_id: str) -> str:
    return _id("SHL", order_id)


def ship_plain(order_id: str) -> str:
    return _id("SHP", order_id)


def ship_on_account(order_id: str) -> str:
    return _id("SHA", order_id)


def check_credit(customer_id: str) -> Data:
    return {"good": True}


def add_bonus(customer_id: str) -> str:
    return _id("BON", customer_id)


def check_signature(event_id: str, signature: str) -> bool:
    return signature == sha256(event_id.encode()).hexdigest()[:16]


def reserve_stock(order_id: str) -> Data:
    return {"reservation_id": _id("RSV", order_id), "complete": True}


def release_stock(reservation_id: str) -> str:
    return f"{reservation_id} released"


def confirm_order(order_id: str, reservation_id: str) -> str:
    return _id("CNF", order_id, reservation_id)


def create_pick_list(order_id: str, reservation_id: str) -> Data:
    return {"pick_list_id": _id("PCK", order_id, reservation_id)}


def add_note(order_id: str, note: str) -> str:
    return _id("NOT", order_id, note)


def log_event(event_id: str, verdict: str) -> str:
    return _id("LOG", event_id, verdict)


# -- payments and subscriptions ----------------------------------------------------------------------------------------


def get_payment(payment_id: str) -> Data:
    return {"status": "failed", "failure_code": "insufficient_funds"}


# What the key was used for once, the provider does not do again.
def charge_card(payment_id: str, amount: Decimal, currency: str, idempotency_key: str) -> Data:
    return {"status": "succeeded"}


def await_payday(customer_id: str) -> Suspend:
    return Suspend({"until": "the salary of the customer has come"})


def await_new_card(customer_id: str) -> Suspend:
    return Suspend({"until": "the customer has a new card"})


def create_plan(customer_id: str, total: Decimal, instalments: int, note: str) -> Data:
    return {"plan_id": _id("PLN", customer_id, total, instalments)}


def freeze_card(customer_id: str) -> str:
    return f"{customer_id} frozen"


def open_fraud_case(**subject: str) -> Data:
    return {"case_id": _id("FRD", sorted(subject.items()))}


def update_ledger(payment_id: str, state: str) -> str:
    return _id("LED", payment_id, state)


def check_voucher(voucher_id: str) -> Data:
    return {"valid": True, "value": 45}


def pay_out(voucher_id: str, amount: Decimal) -> str:
    return _id("OUT", voucher_id, amount)


def ask_claims_manager(claim_id: str) -> Suspend:
    return Suspend({"question": f"may {claim_id} be paid?", "who": "the claims manager on duty"})


def get_claim(claim_id: str) -> Data:
    return {"open": True}


def pay_large(claim_id: str, amount: Decimal) -> str:
    return _id("PAL", claim_id, amount)


def pay_small(claim_id: str, amount: Decimal) -> str:
    return _id("PAS", claim_id, amount)


def get_subscription(subscription_id: str) -> Data:
    return {"status": "active", "plan": "plus", "monthly_price": 19, "months_active": 14, "in_trial": False}


def present_offer(subscription_id: str, kind: str, price: Decimal) -> Suspend:
    return Suspend({"offer": kind, "price": price})


def change_price(subscription_id: str, price: Decimal) -> str:
    return _id("PRC", subscription_id, price)


def pause_subscription(**subscription: object) -> str:
    return _id("PAU", sorted(subscription.items()))


def cancel_subscription(subscription_id: str) -> Data:
    return {"ends_on": "2026-12-31"}


# -- invoices and expenses ---------------------------------------------------------------------------------------------


def get_invoice(invoice_id: str) -> Data:
    return {"net": 1000, "tax": 190, "total": 1190, "supplier_id": "SUP-000007", "due_in_days": 21}


def find_duplicates(invoice_id: str) -> list[str]:
    return []


def get_supplier(supplier_id: str) -> Data:
    return {"active": True, "preferred": False, "bank_changed_days": 400, "closed_on": None}


def confirm_bank_details(supplier_id: str) -> Suspend:
    return Suspend({"question": f"does {supplier_id} confirm its account by telephone?"})


def get_purchase_order(purchase_order_id: str) -> Data:
    return {"status": "open", "remaining": 5000, "received_percent": 100}


def await_delivery(purchase_order_id: str) -> Suspend:
    return Suspend({"until": f"everything of {purchase_order_id} has come"})


def get_rate(currency: str) -> Data:
    return {"rate": {"EUR": 1, "USD": Decimal("0.92"), "GBP": Decimal("1.17"), "CHF": Decimal("1.04")}[currency]}


def schedule_payment(invoice_id: str, amount: Decimal, currency: str, in_days: int) -> Data:
    return {"payment_id": _id("PAY", invoice_id, amount, currency)}


def notify_supplier(supplier_id: str, invoice_id: str, reason: str) -> str:
    return _id("NTF", supplier_id, invoice_id, reason)


def get_expense_report(report_id: str) -> Data:
    return {"total": Decimal("86.40"), "lines": 4}


def ask_approver(subject_id: str, role: str) -> Suspend:
    return Suspend({"question": f"approve {subject_id}?", "who": role})


def pay_employee(employee_id: str, amount: Decimal) -> Data:
    return {"payment_id": _id("PAY", employee_id, amount)}


def book_entry(subject_id: str, cost_centre: str, payment_id: str) -> str:
    return _id("BOK", subject_id, cost_centre, payment_id)


def queue_manual(**subject: str) -> str:
    return _id("MAN", sorted(subject.items()))


# -- loans -------------------------------------------------------------------------------------------------------------


def get_applicant(application_id: str) -> Data:
    return {"existing_customer": True, "months_known": 36, "open_loans": 0}


def get_credit_report(application_id: str) -> Data:
    return {"score": 720, "defaults": 0, "utilisation": Decimal("0.31")}


def get_bank_summary(application_id: str) -> Data:
    return {"net_income": 3400, "rent": 900, "other_debt": 150}


def check_fraud(application_id: str) -> Data:
    return {"risk": "low"}


def check_employer(application_id: str) -> Data:
    return {"confirmed": True}


def ask_fraud_team(application_id: str) -> Suspend:
    return Suspend({"question": f"is {application_id} clean?"})


def ask_officer(request_id: str, question: str) -> Suspend:
    return Suspend({"question": question, "about": request_id})


def ask_customer(application_id: str, offer: Decimal) -> Suspend:
    return Suspend({"question": f"would {offer} do?"})


def create_offer(application_id: str, amount: Decimal, term_months: int, rate_percent: Decimal, fee: Decimal) -> Data:
    return {"offer_id": _id("OFF", application_id, amount, term_months, rate_percent, fee)}


def send_letter(application_id: str, template: str, reference: str) -> str:
    return _id("LTR", application_id, template, reference)


# -- people: onboarding, access, erasure, resets -----------------------------------------------------------------------


def get_identity_document(document_id: str) -> Data:
    return {"kind": "passport", "expires_in_days": 900, "legible": True}


def match_identity(applicant_id: str, full_name: str, document_id: str) -> Data:
    return {"match": Decimal("0.97")}


def screen_sanctions(full_name: str) -> Data:
    return {"hits": 0}


def check_address(applicant_id: str) -> Data:
    return {"valid": True}


def ask_compliance(applicant_id: str) -> Suspend:
    return Suspend({"question": f"admit {applicant_id}?", "who": "compliance"})


def create_account(applicant_id: str, country: str) -> Data:
    return {"account_id": _id("ACC", applicant_id, country)}


def add_to_waitlist(applicant_id: str, country: str) -> str:
    return _id("WAI", applicant_id, country)


def get_employee(employee_id: str) -> Data:
    return {"active": True, "training_done": True}


def list_grants(employee_id: str, system: str) -> list[str]:
    return ["reader"]


def ask_voter(requester_id: str, voter: str) -> Suspend:
    return Suspend({"question": f"may {requester_id} have this role?", "who": voter})


def grant_access(employee_id: str, system: str, role: str, days: int) -> Data:
    return {"grant_id": _id("GRA", employee_id, system, role, days)}


def revoke_access(grant_id: str) -> str:
    return f"{grant_id} revoked"


def append_audit(grant_id: str, employee_id: str) -> str:
    return _id("AUD", grant_id, employee_id)


def create_superuser(system: str) -> str:
    raise RuntimeError("nobody gets a superuser from here")


def verify_requester(request_id: str, email: str) -> Suspend:
    return Suspend({"until": f"the person of {request_id} has followed the link in the mail"})


def find_subject(email: str) -> Data:
    return {"found": True, "subject_id": _id("SUB", email), "legal_hold": False, "open_orders": 0}


def await_orders_closed(subject_id: str) -> Suspend:
    return Suspend({"until": "no order is open"})


def seal_copy(subject_id: str) -> Data:
    return {"archive_id": _id("ARC", subject_id)}


def delete_crm(subject_id: str) -> str:
    return f"{subject_id} deleted"


delete_mailing = delete_analytics = delete_crm


def delete_audit_log(subject_id: str) -> str:
    raise RuntimeError("an audit log is not deleted")


def write_certificate(request_id: str, archive_id: str) -> Data:
    return {"certificate_id": _id("CRT", request_id, archive_id)}


def count_resets(account_id: str) -> int:
    return 1


def get_profile(member_id: str) -> Data:
    return {"complete": True}


def export_profile(member_id: str, partner: str) -> str:
    return _id("EXP", member_id, partner)


def log_export(member_id: str) -> str:
    return _id("LOG", member_id)


def send_code(account_id: str, to: str) -> str:
    return _id("COD", account_id)


def await_code(account_id: str) -> Suspend:
    return Suspend({"until": "the code was typed in"})


def open_reset(account_id: str) -> str:
    return _id("RST", account_id)


# -- operations --------------------------------------------------------------------------------------------------------


def acquire_lock(database: str) -> str:
    return _id("LCK", database)


def release_lock(database: str) -> str:
    return _id("LCK", database)


def inspect_schema(database: str) -> Data:
    return {"pending": 1, "size_gb": Decimal("41.5")}


def take_backup(database: str) -> Data:
    return {"backup_id": _id("BAK", database), "bytes": 44_560_285_696}


def check_backup(backup_id: str) -> bool:
    return True


def rehearse_migration(database: str, migration_id: str) -> Data:
    return {"ok": True, "seconds": Decimal("212.4")}


def apply_migration(database: str, migration_id: str) -> str:
    return f"{migration_id} applied to {database}"


def run_smoke_tests(database: str) -> Data:
    return {"passed": 38, "failed": 0}


def restore_backup(database: str, backup_id: str) -> str:
    return f"{database} restored from {backup_id}"


def drop_database(database: str) -> str:
    raise RuntimeError("no database is dropped from here")


def get_health(flag: str) -> Data:
    return {"error_rate": Decimal("0.002"), "latency_ms": 110}


def set_flag(flag: str, percent: int) -> str:
    return f"{flag} at {percent} %"


def delete_flag(flag: str) -> str:
    raise RuntimeError("no flag is deleted from here")


def count_records(store: str, older_than_days: int) -> int:
    return 1200


def delete_records(store: str, older_than_days: int) -> str:
    return _id("DEL", store, older_than_days)


def ask_flag_owner(flag: str, percent: int) -> Suspend:
    return Suspend({"question": f"is {flag} to go beyond {percent} %?"})


def get_alert(alert_id: str) -> Data:
    return {"severity": "high", "count": 7}


def search_logs(service: str) -> list[str]:
    return [f"{service}: time-out after 2000 ms", f"{service}: time-out after 2000 ms"]


def query_metrics(service: str) -> Data:
    return {"error_rate": Decimal("0.004"), "latency_ms": 240, "replicas": 6}


def list_deploys(service: str) -> list[Data]:
    return [{"version": "v41.2", "minutes_ago": 18}]


def get_supplier_status(service: str) -> Data:
    return {"state": "ok"}


def ask_oncall(alert_id: str, question: str) -> Suspend:
    return Suspend({"question": question, "about": alert_id})


def rollback_deploy(service: str) -> str:
    return f"{service} rolled back"


def scale_service(service: str, replicas: int) -> str:
    return f"{service} at {replicas}"


def publish_status(service: str, text: str) -> str:
    return _id("STA", service, text)


def mute_alert(alert_id: str, minutes: int) -> str:
    return f"{alert_id} muted for {minutes} minutes"


def close_alert(alert_id: str, note: str) -> str:
    return f"{alert_id} closed"


# A real one would sleep; the examples are quick.
def wait(seconds: int) -> bool:
    return True


# -- texts: documents, posts, tickets, reports, releases ---------------------------------------------------------------


def get_text(document_id: str) -> Data:
    return {"text": "Northwind Ltd. Total due: EUR 412.50. Issued 2026-03-02.", "pages": 1}


def add_up_lines(document_id: str) -> Data:
    return {"total": Decimal("412.50")}


def store_record(document_id: str, supplier: str, total: Decimal, currency: str, issued: str) -> Data:
    return {"record_id": _id("REC", document_id)}


def delete_document(document_id: str) -> str:
    raise RuntimeError("no document is deleted from here")


def queue_review(document_id: str) -> str:
    return _id("REV", document_id)


def get_author_record(author_id: str) -> Data:
    return {"strikes": 0, "trusted": False}


def set_visibility(post_id: str, visibility: str) -> str:
    return f"{post_id} is {visibility}"


def remove_post(post_id: str) -> str:
    return f"{post_id} removed"


def add_strike(author_id: str) -> str:
    return _id("STR", author_id)


def queue_for_moderator(post_id: str) -> str:
    return _id("MOD", post_id)


def search_known_issues(topic: str) -> list[Data]:
    return [{"title": "exports end after an hour", "answer": "split the export by month"}]


def send_reply(ticket_id: str, text: str) -> str:
    return _id("RPL", ticket_id, text)


def assign_ticket(ticket_id: str, team: str, priority: int, due_hours: Decimal) -> str:
    return f"{ticket_id} is with {team}"


def queue_ticket(ticket_id: str) -> str:
    return _id("QUE", ticket_id)


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
    return {"report_id": _id("RPT", day)}


def send_report(to: Sequence[str], report_id: str) -> str:
    return f"{report_id} sent to {len(to)}"


def list_changes(release: str) -> list[str]:
    return ["exports are split by month", "the login page remembers the language"]


def ask_editor(release: str, text: str) -> Suspend:
    return Suspend({"question": f"may the notes of {release} go out?", "text": text})


def publish_notes(release: str, text: str) -> str:
    return f"notes of {release} published"


# -- messages ----------------------------------------------------------------------------------------------------------


# The gateway sends one mail for one key, however often it is asked.
def send_email(to: str, template: str, reference: str, idempotency_key: str) -> str:
    return f"MAIL-{idempotency_key[:8]}"


def send_sms(to: str, text: str, idempotency_key: str) -> str:
    return f"SMS-{idempotency_key[:8]}"


def send_notice(user_id: str, template: str) -> str:
    return _id("NTC", user_id, template)


def post_message(channel: str, text: str) -> str:
    return _id("MSG", channel, text)


def set_discount(order_id: str, percent: Decimal) -> str:
    return _id("DSC", order_id, str(percent))


def book_carrier(parcel_id: str, carrier: str) -> dict[str, Any]:
    return {"tracking": _id("TRK", parcel_id, carrier)}


def open_ticket(queue: str, subject: str) -> str:
    return _id("TCK", queue, subject)


def page_oncall(team: str, text: str) -> str:
    return _id("PAG", team, text)


def page_team(team: str, subject: str) -> str:
    return _id("PAG", team, subject)


def page_security(subject: str) -> str:
    return _id("PAG", "security", subject)
