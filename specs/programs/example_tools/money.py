"""Payments, subscriptions, invoices, expenses and loans."""

from __future__ import annotations

from decimal import Decimal

from example_tools.values import Data, id_of
from stepward.vm import Suspend, ToolError


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
    return {"plan_id": id_of("PLN", customer_id, total, instalments)}


def freeze_card(customer_id: str) -> str:
    return f"{customer_id} frozen"


def open_fraud_case(**subject: str) -> Data:
    return {"case_id": id_of("FRD", sorted(subject.items()))}


def is_settled(invoice: str) -> bool:
    return False


def remind_debtor(invoice: str, round: int) -> str:
    return id_of("RMD", invoice, round)


def hand_to_collection(invoice: str) -> str:
    return id_of("COL", invoice)


def update_ledger(payment_id: str, state: str) -> str:
    return id_of("LED", payment_id, state)


def ask_line_manager(sku: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"may {amount} be paid back for {sku}?"})


def refund_line(order_id: str, sku: str, amount: Decimal) -> str:
    return id_of("RFL", order_id, sku, amount)


def tell_customer(order_id: str, total: Decimal) -> str:
    return id_of("TEL", order_id, total)


def buy_article(article: str, price: Decimal) -> str:
    return id_of("BUY", article, price)


def keep_wish(article: str) -> str:
    return id_of("WSH", article)


# The provider knows one card that is declined.
def charge_invoice(invoice_id: str, amount: Decimal) -> str:
    if invoice_id.endswith("2"):
        raise ToolError("CardDeclined", f"the card of {invoice_id} is declined")
    return id_of("CHR", invoice_id, amount)


def ask_for_card(invoice_id: str) -> str:
    return id_of("CRD", invoice_id)


def book_payment(invoice_id: str, receipt: str) -> str:
    return id_of("BKP", invoice_id, receipt)


def open_case(invoice_id: str) -> str:
    return id_of("CAS", invoice_id)


def check_voucher(voucher_id: str) -> Data:
    return {"valid": True, "value": 45}


def pay_out(voucher_id: str, amount: Decimal) -> str:
    return id_of("OUT", voucher_id, amount)


def ask_claims_manager(claim_id: str) -> Suspend:
    return Suspend({"question": f"may {claim_id} be paid?", "who": "the claims manager on duty"})


def get_claim(claim_id: str) -> Data:
    return {"open": True}


def pay_large(claim_id: str, amount: Decimal) -> str:
    return id_of("PAL", claim_id, amount)


def pay_small(claim_id: str, amount: Decimal) -> str:
    return id_of("PAS", claim_id, amount)


def get_subscription(subscription_id: str) -> Data:
    return {"status": "active", "plan": "plus", "monthly_price": 19, "months_active": 14, "in_trial": False}


def present_offer(subscription_id: str, kind: str, price: Decimal) -> Suspend:
    return Suspend({"offer": kind, "price": price})


def change_price(subscription_id: str, price: Decimal) -> str:
    return id_of("PRC", subscription_id, price)


def pause_subscription(**subscription: object) -> str:
    return id_of("PAU", sorted(subscription.items()))


def cancel_subscription(subscription_id: str) -> Data:
    return {"ends_on": "2026-12-31"}


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
    return {"payment_id": id_of("PAY", invoice_id, amount, currency)}


def notify_supplier(supplier_id: str, invoice_id: str, reason: str) -> str:
    return id_of("NTF", supplier_id, invoice_id, reason)


def get_expense_report(report_id: str) -> Data:
    return {"total": Decimal("86.40"), "lines": 4}


def ask_approver(subject_id: str, role: str) -> Suspend:
    return Suspend({"question": f"approve {subject_id}?", "who": role})


def pay_employee(employee_id: str, amount: Decimal) -> Data:
    return {"payment_id": id_of("PAY", employee_id, amount)}


def book_entry(subject_id: str, cost_centre: str, payment_id: str) -> str:
    return id_of("BOK", subject_id, cost_centre, payment_id)


def queue_manual(**subject: str) -> str:
    return id_of("MAN", sorted(subject.items()))


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
    return {"offer_id": id_of("OFF", application_id, amount, term_months, rate_percent, fee)}


def send_letter(application_id: str, template: str, reference: str) -> str:
    return id_of("LTR", application_id, template, reference)


def seller_is_known(seller: str) -> bool:
    return seller != "SLR-0000"


def ask_accountant(seller: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"may {seller} get {amount}?"})


def pay_seller(seller: str, amount: Decimal) -> str:
    return id_of("SEL", seller, amount)


def tell_buyer(order_id: str, text: str) -> str:
    return id_of("BUY", order_id, text)


def ask_budget_manager(request: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"may {request} spend {amount}?"})


def ask_budget_director(request: str, amount: Decimal) -> Suspend:
    return Suspend({"question": f"may {request} spend {amount}? the manager did not answer"})


def release_money(request: str, amount: Decimal) -> str:
    return id_of("TRF", request, amount)


def tell_requester(request: str, text: str) -> str:
    return id_of("TEL", request, text)
