"""Every store keeps the contract, and the kit that says so finds what does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sizes import by_day
from stepward.vm.journal.conformance import CHECKS, Check, check
from stepward.vm.journal.memory import MemoryJournal, MemoryVault
from stepward.vm.journal.store import NOBODY, Append, AppendConflict, Entry, Head, Journal, JournalError, Lease, Row

Opener = Callable[[], Journal]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Open the same store again at each call."""
    if request.param == "memory":
        store = MemoryJournal()
        return lambda: store
    if request.param == "sqlite":
        from stepward.vm.journal.sqlite import SQLiteJournal

        return lambda: SQLiteJournal(tmp_path / "journal.db")
    place = request.getfixturevalue("postgres")
    from stepward.vm.journal.postgres import PostgresJournal

    return lambda: PostgresJournal(place.conninfo, schema=place.schema)


@pytest.mark.parametrize("one", CHECKS, ids=lambda one: one.name)
def test_a_store_keeps_the_contract(one: Check, make: Opener) -> None:
    one.run(make)


@pytest.mark.slow
def test_a_store_may_hold_other_runs_while_it_is_checked(make: Opener) -> None:
    """By day a third of the checks come first: all others find their runs there, and they come again."""
    for one in by_day(CHECKS, 3):
        one.run(make)
    check(make)


def a_moment(seconds: float = 0.005) -> None:
    """Give other threads the time to come in between."""
    time.sleep(seconds)


class ForgetsToCompare(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        head = self.head(append.run)
        assert head is not None
        shifted = [entry._replace(seq=head.seq + 1 + i) for i, entry in enumerate(append.entries)]
        super().append(append._replace(expected=head.seq, entries=shifted), fence)


class ComparesTooEarly(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        kept = self._runs.get(append.run)
        if kept is not None and len(kept.entries) == append.expected + 1:
            a_moment(0.1)  # of one race, on a machine that may be busy
            kept.entries.extend(append.entries)
        else:
            super().append(append, fence)


class KeepsHalfOfWhatItRefuses(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        try:
            super().append(append, fence)
        except AppendConflict:
            if append.run in self._runs:
                held = self._runs[append.run].entries
                held.extend(entry for entry in append.entries if entry.seq == len(held))
            raise


class AppendsOneByOne(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        for i, entry in enumerate(append.entries):
            super().append(append._replace(expected=append.expected + i, entries=[entry]), fence)
            a_moment()


class SharesAnAppendAmongThreads(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        self.current = append
        a_moment()
        super().append(self.current, fence)


class CreatesAgain(MemoryJournal):
    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        self._runs.pop(append.run, None)
        return super().create(append, program, holder, ttl)


class LooksBeforeItCreates(MemoryJournal):
    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        if self.head(append.run):
            return None
        a_moment()
        self._runs.pop(append.run, None)
        return super().create(append, program, holder, ttl)


class IgnoresFences(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        super().append(append, None)


class WantsAFence(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        super().append(append, -1 if fence is None else fence)


class ReusesFences(MemoryJournal):
    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        lease = super().acquire(run, holder, now, ttl)
        if lease is None:
            return None
        self._runs[run].fence -= 1
        return lease._replace(fence=lease.fence - 1)


class CountsAgainAfterARelease(MemoryJournal):
    def release(self, lease: Lease) -> None:
        super().release(lease)
        self._runs[lease.run].fence = 0


class LeasesEarly(MemoryJournal):
    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        return super().acquire(run, holder, now + ttl / 2, ttl)


class LooksBeforeItLeases(MemoryJournal):
    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        kept = self._runs.get(run)
        if kept is not None and kept.expires > now and kept.holder != holder:
            return None
        a_moment(0.1)  # of one race, on a machine that may be busy
        if kept is not None:
            kept.expires = 0
        return super().acquire(run, holder, now, ttl)


class MakesARunByLeasing(MemoryJournal):
    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        if run not in self._runs:
            return Lease(run, 1, now + ttl)
        return super().acquire(run, holder, now, ttl)


class RenewsWhatIsLost(MemoryJournal):
    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        stored = self._runs.get(lease.run)
        return super().renew(lease if stored is None else lease._replace(fence=stored.fence), now, ttl)


class OnlySaysThatItRenews(MemoryJournal):
    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        return lease._replace(expires=now + ttl)


class ReleasesWhatIsLost(MemoryJournal):
    def release(self, lease: Lease) -> None:
        super().release(lease._replace(fence=self._runs[lease.run].fence))


class NeverReleases(MemoryJournal):
    def release(self, lease: Lease) -> None:
        pass


class ReadsFromTheBeginning(MemoryJournal):
    def read(self, run: str, start: int = 0) -> list[Entry]:
        return super().read(run)


class KeepsText(MemoryJournal):
    def read(self, run: str, start: int = 0) -> list[Entry]:
        entries = super().read(run, start)
        return [entry._replace(record=entry.record.decode("utf-8", "replace").encode()) for entry in entries]


class CutsAtZeros(MemoryJournal):
    def document(self, digest: str) -> bytes | None:
        text = super().document(digest)
        return None if text is None else text.split(b"\0")[0]


class KnowsNoCase(MemoryJournal):
    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        return super().create(append._replace(run=append.run.lower()), program, holder, ttl)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        return super().read(run.lower(), start)


class SortsByName(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        return sorted(super().rows(statuses, **more))


class SortsByLastChange(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        return sorted(super().rows(statuses, **more), key=lambda row: row.updated)


class ListsAll(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        return super().rows(statuses or None, **more)


class ListsEveryProgram(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        return super().rows(statuses, **{**more, "program": None})


class ListsWhatCameBefore(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        return super().rows(statuses, **{**more, "since": None})


class ListsTheOldest(MemoryJournal):
    def rows(self, statuses: Iterable[str] | None = None, *, limit: int | None = None, **more: Any) -> list[Row]:
        return super().rows(statuses, **more)[:limit]


class HasTheLineOfAnother(MemoryJournal):
    def row(self, run: str) -> Row | None:
        return self.rows()[0]


class NamesARunTwice(MemoryJournal):
    def names(self) -> Iterator[str]:
        yield from super().names()
        yield from super().names()


class KeepsAnOldSignature(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        head = self.head(append.run)
        super().append(append._replace(signature=append.signature or (head and head.signature)), fence)


class HasTheFirstHead(MemoryJournal):
    def head(self, run: str) -> Head | None:
        kept = self._runs.get(run)
        return kept and Head(run, 0, kept.entries[0].digest, kept.signature)


class ClaimsWhatIsLeased(MemoryJournal):
    def claim(self, holder: str, now: float, ttl: float, limit: int, *more: Any, **named: Any) -> list[Lease]:
        for kept in self._runs.values():
            kept.expires = 0.0
        return super().claim(holder, now, ttl, limit, *more, **named)


class ForgetsWhenARunIsDue(MemoryJournal):
    def append(self, append: Append, fence: int | None) -> None:
        kept = self._runs.get(append.run)
        super().append(append._replace(due=kept and kept.due), fence)


class ClaimsEarly(MemoryJournal):
    def claim(self, holder: str, now: float, ttl: float, limit: int, *more: Any, **named: Any) -> list[Lease]:
        return super().claim(holder, now + 100, ttl, limit, *more, **named)


class ClaimsTheRunsOfEveryProgram(MemoryJournal):
    def claim(self, holder: str, now: float, ttl: float, limit: int, *more: Any, **named: Any) -> list[Lease]:
        return super().claim(holder, now, ttl, limit, None, named.get("passed", NOBODY))


class PassesNothingOver(MemoryJournal):
    def claim(self, holder: str, now: float, ttl: float, limit: int, *more: Any, **named: Any) -> list[Lease]:
        named.pop("passed", None)
        return super().claim(holder, now, ttl, limit, *more, **named)


class LooksBeforeItClaims(MemoryJournal):
    def claim(self, holder: str, now: float, ttl: float, limit: int, *more: Any, **named: Any) -> list[Lease]:
        free = [run for run, kept in self._runs.items() if kept.due is not None and kept.expires <= now][:limit]
        a_moment()
        return [self._runs[run].__setattr__("expires", now + ttl) or Lease(run, 2, now + ttl) for run in free]


class RefusesAKnownDocument(MemoryJournal):
    def put_document(self, digest: str, text: bytes) -> None:
        if self.document(digest) is not None:
            raise JournalError("that document is there")
        super().put_document(digest, text)


class OneVaultForAll(MemoryJournal):
    class Vault(MemoryVault):
        def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
            super().put("", secrets)

        def get(self, run: str) -> dict[str, bytes]:
            return super().get("")

        def erase(self, run: str) -> int:
            return super().erase("")

    def __init__(self) -> None:
        super().__init__()
        self.vault = self.Vault()


class OnlyCountsWhatItErases(OneVaultForAll):
    class Vault(MemoryVault):
        def erase(self, run: str) -> int:
            return len(self.get(run))


class TakesValuesAfterAnErasure(OneVaultForAll):
    class Vault(MemoryVault):
        def erase(self, run: str) -> int:
            count = super().erase(run)
            self._erased.clear()
            return count


class KeepsValuesInTheList(OneVaultForAll):
    class Vault(MemoryVault):
        def all(self, run: str) -> str:
            return repr(self.get(run))

    def rows(self, statuses: Iterable[str] | None = None, **more: Any) -> list[Row]:
        assert isinstance(self.vault, self.Vault)
        return [row._replace(program=row.program + self.vault.all(row.run)) for row in super().rows(statuses, **more)]


class SignsAnyHead(MemoryJournal):
    """Signs what was the head when the caller looked."""

    def sign(self, head: Head) -> bool:
        if head.run in self._runs:
            self._runs[head.run].signature = head.signature
        return head.run in self._runs


class ShowsWhatIsWrittenMeanwhile(MemoryJournal):
    @contextmanager
    def frozen(self) -> Iterator[MemoryJournal]:
        yield self


class GivesAPrunedIdAgain(MemoryJournal):
    def prune(self, head: Head, kept: bytes) -> bool:
        done = super().prune(head, kept)
        self._kept.pop(head.run, None)
        return done


class PrunesAnyHead(MemoryJournal):
    def prune(self, head: Head, kept: bytes) -> bool:
        last = self.head(head.run)
        return super().prune(head if last is None else last, kept)


class PrunesInTwoSteps(MemoryJournal):
    """Removes the run first, and takes its id a moment later."""

    def prune(self, head: Head, kept: bytes) -> bool:
        done = super().prune(head, kept)
        held = self._kept.pop(head.run, None)
        a_moment()
        if held is not None:
            self._kept[head.run] = held
        return done


class ErasesTheFirst(OneVaultForAll):
    class Vault(MemoryVault):
        def erase_all(self, runs: Collection[str]) -> int:
            return sum(map(self.erase, list(runs)[:1]))


class HoldsWhatIsClosed(MemoryJournal):
    def hold(self, lease: Lease, name: str) -> bool:
        super().hold(lease, name)
        self._runs[lease.run].due = None
        return True


class StartsAnew(MemoryJournal):
    """Not one store at each opening, but one at the first."""

    def close(self) -> None:
        self.__init__()  # type: ignore[misc]


BROKEN: dict[type[MemoryJournal], set[str]] = {
    ForgetsToCompare: {"conflict", "append_race"},
    ComparesTooEarly: {"append_race"},
    KeepsHalfOfWhatItRefuses: {"conflict"},
    AppendsOneByOne: {"append_whole"},
    SharesAnAppendAmongThreads: {"one_store_many_threads"},
    CreatesAgain: {"create_once", "create_again"},
    LooksBeforeItCreates: {"create_once"},
    IgnoresFences: {"fences"},
    WantsAFence: {"fences"},
    ReusesFences: {"fences", "fences_rise", "reopened"},
    CountsAgainAfterARelease: {"fences_rise"},
    LeasesEarly: {"lease_lasts"},
    LooksBeforeItLeases: {"lease_race"},
    MakesARunByLeasing: {"unknown_run"},
    RenewsWhatIsLost: {"renew"},
    OnlySaysThatItRenews: {"renew"},
    ReleasesWhatIsLost: {"release"},
    NeverReleases: {"release"},
    ReadsFromTheBeginning: {"append_in_order"},
    KeepsText: {"bytes_survive"},
    CutsAtZeros: {"bytes_survive"},
    KnowsNoCase: {"strange_names"},
    SortsByName: {"rows"},
    SortsByLastChange: {"rows"},
    ListsAll: {"rows"},
    ListsEveryProgram: {"rows"},
    ListsWhatCameBefore: {"rows"},
    ListsTheOldest: {"rows"},
    HasTheLineOfAnother: {"rows"},
    NamesARunTwice: {"rows"},
    KeepsAnOldSignature: {"heads"},
    HasTheFirstHead: {"heads"},
    ClaimsWhatIsLeased: {"claims"},
    ForgetsWhenARunIsDue: {"claims"},
    ClaimsEarly: {"claims"},
    ClaimsTheRunsOfEveryProgram: {"claims"},
    PassesNothingOver: {"claims"},
    LooksBeforeItClaims: {"claim_race"},
    RefusesAKnownDocument: {"documents"},
    OneVaultForAll: {"vault"},
    OnlyCountsWhatItErases: {"vault"},
    TakesValuesAfterAnErasure: {"vault"},
    KeepsValuesInTheList: {"vault_apart"},
    SignsAnyHead: {"signed_anew"},
    ShowsWhatIsWrittenMeanwhile: {"snapshots"},
    GivesAPrunedIdAgain: {"prunes"},
    PrunesAnyHead: {"prunes"},
    PrunesInTwoSteps: {"pruned_race"},
    ErasesTheFirst: {"erases_many"},
    HoldsWhatIsClosed: {"breakers"},
    StartsAnew: {"reopened"},
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_the_kit_finds_a_broken_store(broken: type[MemoryJournal]) -> None:
    found = set()
    for one in (one for one in CHECKS if one.name in BROKEN[broken]):
        store = broken()
        try:
            one.run(lambda store=store: store)  # type: ignore[misc]
        except AssertionError:
            found.add(one.name)
    assert found == BROKEN[broken]


def test_every_check_finds_something() -> None:
    assert set().union(*BROKEN.values()) == {one.name for one in CHECKS}


def test_every_check_says_what_it_demands() -> None:
    for one in CHECKS:
        assert one.demand.endswith("."), one.name
    assert len({one.name for one in CHECKS}) == len(CHECKS)


def test_the_kit_does_not_run_where_assertions_are_dropped() -> None:
    import subprocess
    import sys

    script = "from stepward.vm.journal import conformance, memory\nconformance.check(memory.MemoryJournal)"
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)
    assert "`python -O` drops assertions" in done.stderr
