"""Canaries of leases, stores and authority as time goes by; a helper, no tests stand here."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from canaries import Canary
from canaries_replays import ASKS, ASKS_TWICE, FALSE, MAILS, PAYS, _program, _step
from rewriting import rewrite
from stepward.sabotage.attacks import receipts
from stepward.vm.journal import signing, sqlite, verify
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.sqlite_vault import SQLiteVault
from stepward.vm.language.policy import Waiver
from stepward.vm.machine import authority, replay, waiting
from stepward.vm.machine.admission import Admission
from stepward.vm.machine.claims import Claims
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.keeping import LeaseKeeper
from stepward.vm.machine.runs import Runs

verifying: Any = sys.modules["stepward.vm.journal.verify"]
RETRIES = _program(_step("mail", "mail", on_error="retry", max_retries=3))
MAILED = {"inputs": {}, "mail, visit 1, attempt 1": FALSE}


def renewed_to_one_end(patch: pytest.MonkeyPatch) -> None:
    now, loop = "now = setup.clock.now() / 1e6\n", "    while True:\n"
    rewrite(patch, Driver, "_renew", (f"{loop}        {now}", f"    {now}{loop}"))


def gives_up_renewing(patch: pytest.MonkeyPatch) -> None:
    old = "        pass  # the next append raises it, unless the store recovers"
    rewrite(patch, Driver, "_renew", (old, "        return"))


def pauses_of_another_attempt(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "pause", ("setup.retry_delay(call.attempt)", "setup.retry_delay(call.attempt + 1)"))


def holder_shares_its_name(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_next_holder", ('return f"{self._holder}:{self._leases}"', "return self._holder"))


def lease_ends_at_the_longest(patch: pytest.MonkeyPatch) -> None:
    old = "            stored.expires = now + ttl\n            return Lease(lease.run"
    new = "            stored.expires = max(stored.expires, now + ttl)\n            return Lease(lease.run"
    rewrite(patch, MemoryJournal, "renew", (_dedented(old), _dedented(new)))


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.split("\n"))


def old_signature_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite, "_ADVANCE", sqlite._ADVANCE.replace("signature = ?", "signature = coalesce(?, signature)"))


def prunes_by_the_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite, "_PRUNE", sqlite._PRUNE.replace("AND digest = ?", "AND length(?) > 0"))


def closes_for_everybody(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "switch", ("if name == switch.name]", "if name]"))


def lists_some_runs(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteJournal, "rows", ("-1 if limit is None", "1_000 if limit is None"))


def first_page_is_all(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteJournal, "_named", ("last = page[-1][0] if page else None", "last = None"))


def first_failure_ends_a_recovery(patch: pytest.MonkeyPatch) -> None:
    old = "failures[row.run] = error"
    rewrite(patch, Claims, "recover_all", (old, f"{old}\n                break"))


def waiver_ends_a_day_early(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Waiver, "is_expired", ("< today", "<= today"))


def attempts_are_not_in_the_past(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, authority, "_starts", ('in ("intent", "attempt")', 'in ("intent",)'))


def verdict_hangs_on_the_name(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Admission, "errors", ("key = (plan.digest,", "key = (plan.program.name,"))


def nobody_says_who_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExecutionVM, "cancel_sync", lambda self, run_id, **_: self._wait(self.cancel(run_id)))


def interrupt_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, waiting._Interrupt, "__call__", ("self.task.cancel()", "pass"))


def keeper_renews_late(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, LeaseKeeper, "_hold", ("pause = self._seconds / 3", "pause = self._seconds * 3"))


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    old = "None if plan.timeout is None else time.monotonic() + plan.timeout)"
    rewrite(patch, Driver, "attempt", (old, "None)"))


def receipts_of_others_are_good(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, verifying, "_judged", ("if receipt.run != run:", "if False:"))


def judges_the_last_receipt(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, verify, "_judged", ("for receipt in receipts:", "for receipt in receipts[-1:]:"))


def gone_runs_are_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, receipts, "verify_all", ("    yield from map(verified, list(by_run))\n", ""))


def any_schema_is_opened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DatabaseFile, "_require_schema", lambda self, connection: None)


def key_is_written_over(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, signing, "create", ("os.O_EXCL", "os.O_TRUNC"))


def any_rule_is_waived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "_waiver_misfit", lambda *_: None)


def values_come_after_an_erasure(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteVault, "put", ("if connection.execute(_IS_ERASED, (run,)).fetchone():", "if False:"))


def takes_any_waiver(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, replay, "_waiver_misfit", (" if waiver.program == name", ""))


def claims_what_it_saw(patch: pytest.MonkeyPatch) -> None:
    """Lease the runs that were due before the lock."""
    rewrite(
        patch,
        SQLiteJournal,
        "claim",
        (
            "if connection.execute(_FIND_DUE, query).fetchone() is None:",
            "found = connection.execute(_FIND_DUE, query).fetchall()\n        if not found:",
        ),
        ("in connection.execute(_FIND_DUE, query).fetchall():", "in found:"),
    )


def asks_before_it_puts(patch: pytest.MonkeyPatch) -> None:
    """Ask whether a run was erased before the lock."""
    rewrite(
        patch,
        SQLiteVault,
        "put",
        ("with self._file().writing(durable=True) as connection:", "with self._file().reading() as connection:"),
        (
            "        connection.executemany(",
            "    with self._file().writing(durable=True) as connection:\n        connection.executemany(",
        ),
    )


CANARIES: tuple[Canary, ...] = (
    Canary("claims-what-it-saw", "a claim looks under the lock", "calls-at-once", MAILS, claims_what_it_saw),
    Canary("asks-before-it-puts", "an erasure comes last", "calls-at-once", MAILS, asks_before_it_puts),
    Canary("tasks-share-a-name", "each task leases for itself", "two-tasks", MAILS, holder_shares_its_name),
    Canary("gives-up-renewing", "a renewal that fails is tried again", "slow-calls", PAYS, gives_up_renewing),
    Canary("renewed-to-one-end", "a renewal makes a lease last from then on", "slow-calls", PAYS, renewed_to_one_end),
    Canary(
        "pauses-of-another-attempt", "a pause is that of its attempt", "slow-calls", RETRIES, pauses_of_another_attempt
    ),
    Canary("holder-shares-its-name", "each lease has a name of its own", "slow-calls", ASKS, holder_shares_its_name),
    Canary(
        "lease-ends-at-the-longest",
        "a renewal says when a lease ends",
        "store-against-model",
        MAILS,
        lease_ends_at_the_longest,
    ),
    Canary("prunes-by-the-number", "a run is pruned by its head", "file-against-model", MAILS, prunes_by_the_number),
    Canary(
        "closes-for-everybody",
        "a breaker lets go of what it has held",
        "store-against-model",
        MAILS,
        closes_for_everybody,
    ),
    Canary("old-signature-is-kept", "a head has its own signature", "file-against-model", MAILS, old_signature_is_kept),
    Canary(
        "values-come-after-an-erasure",
        "an erased run takes no values",
        "file-against-model",
        MAILS,
        values_come_after_an_erasure,
    ),
    Canary("lists-some-runs", "all runs are listed", "many-runs", MAILS, lists_some_runs),
    Canary("first-page-is-all", "all runs are named", "many-runs", MAILS, first_page_is_all),
    Canary(
        "first-failure-ends-a-recovery",
        "one bad run stops no other",
        "runs-found-together",
        PAYS,
        first_failure_ends_a_recovery,
    ),
    Canary("takes-any-waiver", "a waiver is of one program", "waiver-forged", MAILS, takes_any_waiver),
    Canary("waiver-ends-a-day-early", "the last day counts", "policy-over-time", MAILS, waiver_ends_a_day_early),
    Canary(
        "attempts-are-not-in-the-past",
        "what was called without an intent is in the past too",
        "policy-over-time",
        _program(
            _step("look", "look"),
            _step("mail", "mail"),
            tools={
                "look": {"effect": "read", "returns": {"type": "boolean"}},
                "mail": {"effect": "write", "idempotent": True, "returns": {"type": "boolean"}},
            },
        ),
        attempts_are_not_in_the_past,
    ),
    Canary(
        "verdict-hangs-on-the-name",
        "a verdict is of one program",
        "program-not-admitted",
        MAILS,
        verdict_hangs_on_the_name,
    ),
    Canary(
        "nobody-says-who-cancelled", "both forms do the same", "forms-without-a-loop", ASKS, nobody_says_who_cancelled
    ),
    Canary(
        "interrupt-is-not-heard",
        "who presses Ctrl-C hears of it",
        "interrupted",
        MAILS,
        interrupt_is_not_heard,
        smallest=MAILED | {"in call": 0},
    ),
    Canary("keeper-renews-late", "a lease that is kept is renewed", "lease-kept-for-a-tool", MAILS, keeper_renews_late),
    Canary("waits-for-ever", "nobody waits past a time-out", "caller-cancelled-for-good", PAYS, waits_for_ever),
    Canary(
        "receipts-of-others-are-good",
        "a receipt is of one run",
        "edits-and-a-plain-verifier",
        PAYS,
        receipts_of_others_are_good,
    ),
    Canary(
        "judges-the-last-receipt",
        "each of several receipts is held against the run",
        "store-audited",
        ASKS_TWICE,
        judges_the_last_receipt,
    ),
    Canary(
        "gone-runs-are-not-asked-for",
        "a receipt tells of a run that is gone",
        "store-audited",
        MAILS,
        gone_runs_are_not_asked_for,
    ),
    Canary(
        "any-schema-is-opened",
        "a file has the tables that it was made with",
        "file-of-another-kind",
        MAILS,
        any_schema_is_opened,
    ),
    Canary("key-is-written-over", "a key is never written over", "keys-of-another-kind", MAILS, key_is_written_over),
    Canary("any-rule-is-waived", "a rule is waived by a policy", "fields-edited", MAILS, any_rule_is_waived),
)
