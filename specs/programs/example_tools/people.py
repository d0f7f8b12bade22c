"""Onboarding, access, erasure and resets."""

from __future__ import annotations

from decimal import Decimal

from example_tools.values import Data, id_of
from stepward.vm import Suspend


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
    return {"account_id": id_of("ACC", applicant_id, country)}


def add_to_waitlist(applicant_id: str, country: str) -> str:
    return id_of("WAI", applicant_id, country)


def get_employee(employee_id: str) -> Data:
    return {"active": True, "training_done": True}


def list_grants(employee_id: str, system: str) -> list[str]:
    return ["reader"]


def ask_voter(requester_id: str, voter: str) -> Suspend:
    return Suspend({"question": f"may {requester_id} have this role?", "who": voter})


def grant_access(employee_id: str, system: str, role: str, days: int) -> Data:
    return {"grant_id": id_of("GRA", employee_id, system, role, days)}


def revoke_access(grant_id: str) -> str:
    return f"{grant_id} revoked"


def append_audit(grant_id: str, employee_id: str) -> str:
    return id_of("AUD", grant_id, employee_id)


def create_superuser(system: str) -> str:
    raise RuntimeError("nobody gets a superuser from here")


def verify_requester(request_id: str, email: str) -> Suspend:
    return Suspend({"until": f"the person of {request_id} has followed the link in the mail"})


def find_subject(email: str) -> Data:
    return {"found": True, "subject_id": id_of("SUB", email), "legal_hold": False, "open_orders": 0}


def await_orders_closed(subject_id: str) -> Suspend:
    return Suspend({"until": "no order is open"})


def seal_copy(subject_id: str) -> Data:
    return {"archive_id": id_of("ARC", subject_id)}


def delete_crm(subject_id: str) -> str:
    return f"{subject_id} deleted"


delete_mailing = delete_analytics = delete_crm


def delete_audit_log(subject_id: str) -> str:
    raise RuntimeError("an audit log is not deleted")


def write_certificate(request_id: str, archive_id: str) -> Data:
    return {"certificate_id": id_of("CRT", request_id, archive_id)}


def count_resets(account_id: str) -> int:
    return 1


def get_profile(member_id: str) -> Data:
    return {"complete": True}


def export_profile(member_id: str, partner: str) -> str:
    return id_of("EXP", member_id, partner)


def log_export(member_id: str) -> str:
    return id_of("LOG", member_id)


def send_code(account_id: str, to: str) -> str:
    return id_of("COD", account_id)


def await_code(account_id: str) -> Suspend:
    return Suspend({"until": "the code was typed in"})


def open_reset(account_id: str) -> str:
    return id_of("RST", account_id)
