"""Crash in the files: writes of SQLite are torn, unsynced data is lost, or the disk has no room."""

from __future__ import annotations

from contextlib import closing, suppress

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.crashes import outlive
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import WatchedStore
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.images import (
    TEARS,
    Image,
    PhotographedJournal,
    StoreFiles,
    Tear,
    checkpointed,
    temporary_stores,
    torn,
)
from stepward.sabotage.stores.rollback import PhotographedFile, Torn, tears, written
from stepward.vm.journal.sqlite_vault import SQLiteVault
from stepward.vm.journal.store import JournalError

SMALL_PAGES = 512
"""The page size in bytes for files that shall grow often."""


class TornLog(Attack):
    """The system crashes while SQLite writes an append, and the files have a part of it, in bytes, frames and
    sectors."""

    family = Family.CRASH
    surface = "files of the SQLite store"
    action = "interrupted in the middle of an append, and opened by another process"
    invariant = Invariant.KEPT
    defence = "an append is one transaction in a write-ahead log with checksums"
    enumerates = (
        "every append of the generated run, interrupted in 18 different ways, also during a checkpoint of the log"
    )
    weight = 60

    def play(self, case: Case) -> Outcome:
        """Take images around each append, tear them, and check that each has the run before or after it."""
        from hypothesis import strategies as st

        pages = case.pick("pages of the log", st.sampled_from([4, 1000]))
        tear = case.pick("recovered from", st.integers(0, len(TEARS) - 1))
        with temporary_stores() as files:
            store = files.open(pages=pages)
            whole = Trial(case, store=store, faults=False)
            whole.finish()
            case.story.clear()
            for number in case.each("torn append", range(len(store.images))):
                for kind in case.each("way", TEARS):
                    case.log(f"append {number} is torn: {kind.description}")
                    for image in _torn(store, number, kind):
                        case.count()
                        self._look(case, files, store, number, image, whole.run)
                self._recover(case, files, number, TEARS[tear], pages)
        return Outcome.ABSORBED

    def _look(
        self, case: Case, files: StoreFiles, store: PhotographedJournal, number: int, image: Image, run: str
    ) -> None:
        """Check that a torn image has the run before or after the append."""
        entries, head = files.glance(image, run)
        ends = (store.ends[number - 1] if number else -1, store.ends[number])
        end = -1 if head is None else head.seq
        is_whole = end in ends and entries == store.read(run)[: end + 1]
        case.hold(is_whole, Invariant.KEPT, "a torn append left neither the run before it nor the one after it")
        case.hold(not head or head.digest == entries[-1].digest, Invariant.KEPT, "a torn append left another head")

    def _recover(self, case: Case, files: StoreFiles, number: int, tear: Tear, pages: int) -> None:
        """Run up to that append, tear it, and continue from the remainder."""
        points = Points()
        store = files.open(dies_in=number, points=points, pages=pages)
        trial = Trial(case, store=store, faults=False)
        machine = trial.machine(points)
        with suppress(Killed):
            trial.carry_on(trial.start(machine), machine)
        case.log(f"the system goes down in append {number}: {tear.description}")
        trial.store = WatchedStore(files.open(_torn(store, number, tear)[0]), trial.oracle)
        outlive(trial)


class TornVault(Attack):
    """The system crashes while SQLite writes values to the vault or destroys them. The file and its rollback journal
    have a part of the write.
    """

    family = Family.CRASH
    surface = "files of the SQLite store"
    action = "interrupted in the middle of a commit of the vault, and opened by another process"
    invariant = Invariant.KEPT
    defence = "the vault is changed in transactions, and the rollback journal is on the disk first"
    enumerates = "every commit of the vault in the generated run and in its erasure, interrupted in 18 different ways"
    weight = 20
    needs = (Need("the vault has no values of the run", lambda target: target.plan.has_sensitive or target.waits),)

    def play(self, case: Case) -> Outcome:
        """Take images of the vault around each commit, tear them, and check that each has the values before or
        after."""
        with temporary_stores() as files:
            store = files.open()
            photographed = PhotographedFile(store.inner._values._file())  # type: ignore[attr-defined]
            trial = Trial(case, store=store, faults=False)
            trial.finish()
            case.do(trial.machine().erase(trial.run))
            case.story.clear()
            for number in case.each("torn commit", range(len(photographed.commits))):
                commit = photographed.commits[number]
                before, after = (
                    self._values(files, Torn(file, None), trial.run) for file in (commit.before, commit.after)
                )
                for kind in case.each("way", TEARS):
                    case.log(f"commit {number} of the vault is torn: {kind.description}")
                    for image in tears(commit, kind):
                        case.count()
                        due = after if image.is_done else before
                        is_kept = self._values(files, image, trial.run) == due
                        case.hold(is_kept, Invariant.KEPT, "a torn commit of the vault left other values")
        return Outcome.ABSORBED if photographed.commits else Outcome.NOT_APPLICABLE

    def _values(self, files: StoreFiles, image: Torn, run: str) -> dict[str, bytes]:
        """Open an image and return the values of a run. Raises JournalError if it can't be opened."""
        path = files.path()
        written(image, path)
        with closing(SQLiteVault(str(path), path.name)) as vault:
            return vault.get(run)


def _torn(store: PhotographedJournal, number: int, tear: Tear) -> list[Image]:
    """Return the possible images after a torn append: the log is torn, or the database during a checkpoint."""
    before, after = store.images[number]
    moved = [checkpointed(before, after, tear)] if before.database != after.database else []
    return [torn(before, after, tear), *moved]


class UnsyncedFiles(Attack):
    """The power fails, and data that SQLite had not synced is lost from its files."""

    family = Family.CRASH
    surface = "files of the SQLite store"
    action = "the data that was not synced is lost with the power"
    invariant = Invariant.ONCE
    defence = "commits of intents, outcomes, endings, leases and values wait until they are on the disk"
    enumerates = "every state of the generated run in which some data is not synced"
    weight = 8

    def play(self, case: Case) -> Outcome:
        """Run once to find the points with unsynced data, then lose it there."""
        outcome = Outcome.NOT_APPLICABLE
        with temporary_stores() as files:
            store = files.open()
            whole = _Noting(store)
            trial = Trial(case, store=store, faults=False)
            trial.finish(trial.machine(whole))
            case.story.clear()
            for point in case.each("power lost", whole.losing):
                self._lose(case, files, point)
                outcome = Outcome.ABSORBED
        return outcome

    def _lose(self, case: Case, files: StoreFiles, number: int) -> None:
        store = files.open()
        trial = Trial(case, store=store, faults=False)
        machine = trial.machine(Points(number, case.log))
        with suppress(Killed):
            trial.carry_on(trial.start(machine), machine)
        durable = trial.oracle.durable
        case.log("the power fails, and what was not synced is gone")
        lost = files.open(store.synced)
        head = lost.head(trial.run)
        is_kept = durable < 0 or (head is not None and head.seq >= durable)
        case.hold(is_kept, Invariant.INTENT, f"record {durable} was to be durable, and is gone with the power")
        trial.store = WatchedStore(lost, trial.oracle)
        outlive(trial)


class _Noting(Points):
    """Points that record where a loss of power would undo a new write."""

    def __init__(self, store: PhotographedJournal) -> None:
        super().__init__()
        self.losing: list[int] = []
        self._store = store

    async def pass_by(self, name: str) -> None:
        """Record the state and pass. After a write or an effect it stays the same until the next one."""
        if name.startswith("after") and self._store.unsynced:
            self.losing.append(len(self.passed))
        await super().pass_by(name)


class NoRoomInFiles(Attack):
    """The file of the SQLite store can't grow by one more page; then there is room again."""

    family = Family.CRASH
    surface = "files of the SQLite store"
    action = "there is no room for another page"
    invariant = Invariant.REFUSAL
    defence = (
        "a write without room is rolled back completely and reported, and the run is recovered from the stored records"
    )
    severity = "high"
    enumerates = "every page by which the files grow in the generated run"
    weight = 40

    def play(self, case: Case) -> Outcome:
        """Run once to measure the growth of the files, then with less room for each page."""
        with temporary_stores() as files:
            store = files.open(page_bytes=SMALL_PAGES)
            began = store.pages
            Trial(case, store=store, faults=False).finish()
            case.story.clear()
            outcome = Outcome.NOT_APPLICABLE
            for number in case.each("pages of room", range(store.pages - began)):
                if self._run(case, files, began + number):
                    outcome = Outcome.ABSORBED
        return outcome

    def _run(self, case: Case, files: StoreFiles, room: int) -> bool:
        """Run with limited room, and continue with more. Return whether the room did not suffice."""
        store = files.open(page_bytes=SMALL_PAGES)
        store.room = room
        trial = Trial(case, store=store, faults=False)
        machine = trial.machine()
        try:
            trial.carry_on(trial.start(machine), machine)
            return False  # the file grew for writes that this run did not make
        except JournalError as error:
            is_said = "the disk is full" in str(error)
            case.hold(is_said, Invariant.REFUSAL, f"the disk is full, and the machine says `{error}`")
            case.log(f"there is no room: {error}")
        faults = trial.faults() if trial.found() else ()
        case.hold(not faults, Invariant.KEPT, f"a full disk damaged the run: {faults[:1]}")
        store.room = None
        outlive(trial)
        return True
