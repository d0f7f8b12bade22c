"""Canaries of the family "crashes"; a helper, no tests stand here."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from canaries import Canary
from paths import SUPPORT
from rewriting import rewrite
from stepward.sabotage.campaigns import killing
from stepward.vm.journal import memory, sqlite, sqlite_file, sqlite_vault
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import JournalError, Lease
from stepward.vm.machine import calls, deliveries, driver, history
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.events import make_event
from stepward.vm.machine.runs import Runs
from stepward.vm.machine.state import OPEN

TOOLS = {
    "pay": {"effect": "write", "idempotent": False, "returns": {"type": "boolean"}},
    "mail": {"effect": "write", "idempotent": True, "returns": {"type": "boolean"}},
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
    "tell": {"effect": "read", "returns": {"type": "boolean"}},
}


def _program(*tools: str, **more: Any) -> dict[str, Any]:
    steps = [{"id": f"{tool}_{number}", "type": "tool", "tool": tool} for number, tool in enumerate(tools)]
    return {"name": "crashing", "inputs": {}, "tools": TOOLS, "steps": steps, **more}


PAYS = _program("pay")
MAILS = _program("mail")
TELLS = _program("tell")
ASKS_TWICE = _program("ask", "ask")
PAYS_TWICE = _program("pay", "mail")
KEEPS = _program(
    "know",
    tools={"know": {"effect": "read", "returns": {"type": "string", "sensitive": True, "enum": ["a secret"]}}},
)

RETURNS = {"does": "returns", "value": False}
PAYING = {"inputs": {}, "pay_0, visit 1, attempt 1": RETURNS}
MAILING = {"inputs": {}, "mail_0, visit 1, attempt 1": RETURNS}


def intent_rides(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_intend", ("DURABLE if plan.is_durable else", "ANY_TIME if plan.is_durable else"))


def intent_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_intend", ("DURABLE if", "COMMITS if"))


def takes_any_token(patch: pytest.MonkeyPatch) -> None:
    def awaited(found: Any, _: Any) -> Any:
        step = found.plan.steps[found.state.at]
        calls_of = zip(step.calls, found.state.calls or (), strict=False)
        return next(((found.state, call) for call, held in calls_of if held.phase == "suspended"), None)

    patch.setattr(deliveries, "_awaited", awaited)


def ending_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    whole = Driver.record

    def record(self: Driver, happened: Any, at: int = 0) -> None:
        before = self.urgency
        whole(self, happened, at)
        if self.state.status != "RUNNING":
            self.urgency = before

    patch.setattr(Driver, "record", record)
    patch.setattr(Driver, "_answer", _answers_softly)


def _answers_softly(self: Driver, plan: Any, call: Any, result: Any, note: Any, at: int) -> None:
    self.record(calls.judge(self.plan, self.state, call, result, note), at)


def repeats_anything(patch: pytest.MonkeyPatch) -> None:
    """Take every write for idempotent when it had started."""
    whole = calls.go_on

    def go_on(plan: Any, state: Any, step: Any, held: Any, under_way: Any) -> Any:
        found = whole(plan, state, step, held, under_way)
        is_doubt = getattr(found, "kind", "") == "doubt"
        return calls._wave(plan, state, step, held, calls.visits_of(state, step)) if is_doubt else found

    patch.setattr("stepward.vm.machine.decide.go_on", go_on)


def doubts_anything(patch: pytest.MonkeyPatch) -> None:
    whole = calls.go_on

    def go_on(plan: Any, state: Any, step: Any, held: Any, under_way: Any) -> Any:
        visit = calls.visits_of(state, step)
        for call, now in zip(step.calls, held, strict=True):
            if now.phase == OPEN:
                return make_event(
                    "doubt", {"step": call.id, "visit": visit, "error": "the machine stopped while it ran"}
                )
        return whole(plan, state, step, held, under_way)

    patch.setattr("stepward.vm.machine.decide.go_on", go_on)


def changes_keys(patch: pytest.MonkeyPatch) -> None:
    """Give what is repeated after a crash a key of its own."""
    whole = calls.prepare

    def prepare(at: Any, call: Any, now: Any, **how: Any) -> Any:
        found = whole(at, call, now, **how)
        is_repeated = now.phase == OPEN and not isinstance(found, calls.Event)
        return found._replace(performance=found.performance + 1) if is_repeated else found

    patch.setattr(calls, "prepare", prepare)


def keeps_values_afterwards(patch: pytest.MonkeyPatch) -> None:
    whole = Driver._append

    async def append(self: Driver) -> None:
        kept, self.secrets = self.secrets, {}
        await whole(self)
        if kept:
            await self.setup.io(self.setup.journal.vault.put, self.run, kept)

    patch.setattr(Driver, "_append", append)


def erases_first(patch: pytest.MonkeyPatch) -> None:
    async def erase(self: Deliveries, run_id: str, **_: Any) -> Any:
        await self.cancel(run_id)
        secrets = await self._io(self.journal.vault.get, run_id)
        references = tuple(sorted(name for name in secrets if not name.startswith("token:")))
        await self._io(self.journal.vault.erase, run_id)
        await self._append(run_id, lambda _: make_event("erased", {"references": references}) if references else None)
        return await self.get(run_id)

    patch.setattr(Deliveries, "erase", erase)


def leases_for_ever(patch: pytest.MonkeyPatch) -> None:
    whole = MemoryJournal.acquire

    def acquire(self: MemoryJournal, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        return whole(self, run, holder, min(now, 1.0), ttl)

    patch.setattr(MemoryJournal, "acquire", acquire)


def keeps_its_lease(patch: pytest.MonkeyPatch) -> None:
    async def drive(self: Runs, driven: Driver) -> Any:
        await driven.drive()
        if not driven.committed[0].is_over:
            await self._io(self.journal.release, driven.lease)
        return await self.get(driven.run)

    patch.setattr(Runs, "_drive", drive)


def anybody_drives(patch: pytest.MonkeyPatch) -> None:
    """Lease a run to everybody at once, and append behind whatever is there."""

    def acquire(self: MemoryJournal, run: str, holder: str, now: float, ttl: float) -> Lease:
        return Lease(run, self._runs[run].fence, now + ttl)

    def append(self: MemoryJournal, given: Any, fence: int | None) -> None:
        kept = self._runs[given.run]
        kept.entries.extend(given.entries)
        kept.status, kept.signature = given.status, given.signature

    patch.setattr(memory.MemoryJournal, "acquire", acquire)
    patch.setattr(memory.MemoryJournal, "append", append)


def goes_on_after_errors(patch: pytest.MonkeyPatch) -> None:
    whole = Driver._append

    async def append(self: Driver) -> None:
        batch, state = list(self.pending), self.state
        try:
            await whole(self)
        except JournalError:
            self.committed = (state, batch[-1][2])
            del self.pending[: len(batch)]
            self.urgency = driver.ANY_TIME

    patch.setattr(Driver, "_append", append)


def reads_any_chain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "checked_records", lambda run, entries: tuple(map(read_record, entries)))
    patch.setattr(history, "require_head", lambda *_: None)


def trusts_any_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "require_head", lambda *_: None)


def _layout(patch: pytest.MonkeyPatch, **other: str) -> None:
    patch.setattr(sqlite, "_LAYOUT", dataclasses.replace(sqlite._LAYOUT, **other))


def has_no_log(patch: pytest.MonkeyPatch) -> None:
    _layout(patch, journal_mode="off")


def rolls_back_from_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite_vault, "_LAYOUT", dataclasses.replace(sqlite_vault._LAYOUT, journal_mode="memory"))


def never_syncs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sqlite_file.DatabaseFile, "_synchronize", _off)


def _off(self: Any, level: str) -> None:
    self._connection.execute("PRAGMA synchronous = OFF")


def never_waits(patch: pytest.MonkeyPatch) -> None:
    """Take what must be durable for what need not be."""
    whole = sqlite.SQLiteJournal.append
    patch.setattr(
        sqlite.SQLiteJournal, "append", lambda self, given, fence: whole(self, given._replace(durable=False), fence)
    )


def has_no_transactions(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def writing(self: Any, *, durable: bool) -> Iterator[Any]:
        with self._lock, self._explained("written"):
            self._synchronize(self._layout.synchronous if durable else "NORMAL")
            yield self._connection

    patch.setattr(sqlite_file.DatabaseFile, "writing", writing)


def repeats_anything_in_forks(patch: pytest.MonkeyPatch) -> None:
    """Start processes on a machine that lacks what `repeats_anything` takes away."""
    server = str(SUPPORT / "killed_child.py")
    patch.setattr(killing, "command", lambda: [sys.executable, server, "repeats_anything"])


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="intent-rides",
        defence="an intent is written before its effect",
        attack="killed-anywhere",
        program=PAYS,
        patch=intent_rides,
        smallest={"inputs": {}},
    ),
    Canary(
        name="write-repeated",
        defence="a write that had started is in doubt",
        attack="killed-anywhere",
        program=PAYS,
        patch=repeats_anything,
        smallest=PAYING | {"killed at point": 7},
    ),
    Canary(
        name="read-doubted",
        defence="what can be repeated is repeated",
        attack="killed-anywhere",
        program=MAILS,
        patch=doubts_anything,
        smallest=MAILING | {"killed at point": 5},
    ),
    Canary(
        name="values-afterwards",
        defence="a value is in the vault before its record",
        attack="killed-anywhere",
        program=KEEPS,
        patch=keeps_values_afterwards,
    ),
    Canary(
        name="lease-for-ever",
        defence="a lease ends",
        attack="killed-anywhere",
        program=MAILS,
        patch=leases_for_ever,
        smallest=MAILING | {"killed at point": 3},
    ),
    Canary(
        name="key-changed",
        defence="a key is the same after a crash",
        attack="killed-in-recovery",
        program=MAILS,
        patch=changes_keys,
    ),
    Canary(
        name="token-unbound",
        defence="a token is for one performance",
        attack="killed-while-delivering",
        program=ASKS_TWICE,
        patch=takes_any_token,
    ),
    Canary(
        name="erased-first",
        defence="a tombstone comes before the erasure",
        attack="killed-while-ending",
        program=KEEPS,
        patch=erases_first,
    ),
    Canary(
        name="anybody-drives",
        defence="one machine at a time drives a run",
        attack="two-recoveries",
        program=PAYS_TWICE,
        patch=anybody_drives,
    ),
    Canary(
        name="lease-kept",
        defence="a machine that fails gives its lease back",
        attack="disk-full",
        program=PAYS,
        patch=keeps_its_lease,
        smallest=PAYING | {"writes that fail": 1, "fails at write": 2},
    ),
    Canary(
        name="errors-swallowed",
        defence="a failed append stops the run",
        attack="failing-sync",
        program=PAYS,
        patch=goes_on_after_errors,
        smallest=PAYING | {"writes that fail": 1, "fails at write": 2},
    ),
    Canary(
        name="intent-not-durable",
        defence="an intent survives a loss of power",
        attack="power-lost",
        program=PAYS,
        patch=intent_is_not_durable,
        smallest={"inputs": {}},
    ),
    Canary(
        name="ending-not-durable",
        defence="an ending survives a loss of power",
        attack="power-lost",
        program=TELLS,
        patch=ending_is_not_durable,
        smallest={"inputs": {}, "tell_0, visit 1, attempt 1": RETURNS},
    ),
    Canary(
        name="head-unread",
        defence="the head has to name the last entry",
        attack="torn-append",
        program=PAYS_TWICE,
        patch=trusts_any_head,
        smallest=PAYING | {"mail_1, visit 1, attempt 1": RETURNS, "tear": 0},
    ),
    Canary(
        name="chain-unread",
        defence="a record has to have its digest",
        attack="short-record",
        program=PAYS,
        patch=reads_any_chain,
        smallest=PAYING | {"record": 0, "way": 0},
    ),
    Canary(
        name="no-log",
        defence="an append is atomic in the file",
        attack="torn-log",
        program=PAYS,
        patch=has_no_log,
    ),
    Canary(
        name="vault-without-a-journal",
        defence="the vault is rolled back from a journal on the disk",
        attack="torn-vault",
        program=KEEPS,
        patch=rolls_back_from_memory,
    ),
    Canary(
        name="never-synced",
        defence="SQLite waits for the disk",
        attack="unsynced-files",
        program=PAYS,
        patch=never_syncs,
    ),
    Canary(
        name="never-waited-for",
        defence="what is to be durable is asked for",
        attack="unsynced-files",
        program=PAYS,
        patch=never_waits,
    ),
    Canary(
        name="no-transactions",
        defence="an append is rolled back whole",
        attack="no-room-in-files",
        program=PAYS_TWICE,
        patch=has_no_transactions,
    ),
    Canary(
        name="write-repeated-for-real",
        defence="a write that had started is in doubt",
        attack="sigkill",
        program=PAYS,
        patch=repeats_anything_in_forks,
        smallest=PAYING | {"first point": 0, "killed at the point of number": 7},
    ),
)
