"""Databases, flags, alerts and services."""

from __future__ import annotations

from decimal import Decimal

from example_tools.values import Data, id_of
from stepward.vm import Suspend


def acquire_lock(database: str) -> str:
    return id_of("LCK", database)


def release_lock(database: str) -> str:
    return id_of("LCK", database)


def inspect_schema(database: str) -> Data:
    return {"pending": 1, "size_gb": Decimal("41.5")}


def take_backup(database: str) -> Data:
    return {"backup_id": id_of("BAK", database), "bytes": 44_560_285_696}


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
    return id_of("DEL", store, older_than_days)


def copy_old_rows(table: str) -> int:
    return 420


# The copy of the visits lacks a row: they stay where they are until the next night.
def count_copied_rows(table: str) -> int:
    return 419 if table == "visits" else 420


def delete_old_rows(table: str) -> int:
    return 420


def report_night(tables: list[str], text: str) -> str:
    return id_of("NGT", text, *tables)


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
    return id_of("STA", service, text)


def mute_alert(alert_id: str, minutes: int) -> str:
    return f"{alert_id} muted for {minutes} minutes"


def close_alert(alert_id: str, note: str) -> str:
    return f"{alert_id} closed"


# A real one would sleep; the examples are quick.
def wait(seconds: int) -> bool:
    return True
