"""Scenes of copies: runs that go from one store to another, which has some of them, and keys that are changed."""

from __future__ import annotations

from typing import Any, Final

from stepward.sabotage.recorded.stages.desk import Desk
from stepward.sabotage.recorded.stores.chains import DOCUMENTS, KEYS, Made, Told, prune
from stepward.sabotage.recorded.stores.requests import quick
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.rotation import sign_anew
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, AppendConflict, Head, Journal, Lease, Row
from stepward.vm.journal.through import ThroughJournal
from stepward.vm.journal.verdict import Fault

ROWS: Final = ("SUCCESS", "RUNNING", "SUSPENDED", "FAILED")


class Busy(ThroughJournal):
    """A target or a source with which somebody else goes on. `left` says how often it is in the way."""

    def __init__(self, inner: Journal, left: int, of: tuple[str, ...] = ("create", "append", "sign")) -> None:
        super().__init__(inner)
        self.left = left
        self.of = of

    def _is_in_the_way(self, of: str) -> bool:
        if of not in self.of:
            return False
        self.left -= 1
        return self.left >= 0

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run, unless somebody else is faster."""
        return None if self._is_in_the_way("create") else super().create(append, program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, unless somebody else does."""
        if self._is_in_the_way("append"):
            raise AppendConflict("somebody else")
        super().append(append, fence)

    def sign(self, head: Head) -> bool:
        """Sign a head, unless it is another one by now."""
        return not self._is_in_the_way("sign") and super().sign(head)


def _store(desk: Desk, name: str) -> Journal:
    if desk.some(0.85):
        return MemoryJournal()
    made = SQLiteJournal(desk.path(name))
    desk.stack.callback(made.close)
    quick(made._file)
    return made


def copies(desk: Desk) -> None:
    """Copy a store to one that has some of its runs, twice; in between, runs go on, are signed, erased and pruned."""
    source, target = _store(desk, "source.db"), _store(desk, "target.db")
    runs = [Made(desk, f"r{number}", desk.draw(1, 1, 2, 4)) for number in range(desk.draw(1, 2, 3, 4))]
    for made in runs:
        is_there = desk.some(0.3)
        if is_there:
            _have(desk, target, made)
        made.store(source, desk.draw(*ROWS))
        if desk.some(0.5 if is_there else 0.2):
            prune(desk, source, made)
    _copy(
        desk,
        source,
        desk.draw(target, target, Busy(target, desk.draw(1, 2, 3, 9), desk.draw(("create",), ("append",)))),
    )
    _show(desk, target)
    for made in runs:
        if source.head(made.run) is not None and desk.some(0.5):
            _go_on(desk, source, made)
    _copy(desk, source, target)
    _show(desk, target)


def _copy(desk: Desk, source: Journal, target: Journal) -> None:
    def due(journal: Journal, run: str) -> float | None:
        head = journal.head(run)
        return None if head is None or head.seq == 1 else 7.0 + head.seq

    told = Told(source)
    if desk.some(0.3):
        _damage(desk, told)
    desk.ask("copied", lambda: list(copy_runs(_Still(told) if told.lines or told.texts else source, target, due)))


class _Still(ThroughJournal):
    """A store that is frozen as it is."""

    def frozen(self) -> Any:
        return self

    def __enter__(self) -> Journal:
        return self.inner

    def __exit__(self, *_: object) -> None:
        pass


def _damage(desk: Desk, told: Told) -> None:
    """Let the source say something wrong of its first run."""
    run = next(told.names(), "none")
    match desk.draw(0, 1, 2, 3, 4, 5, 5):
        case 5:
            told.texts["none"] = None
            told.lost = desk.draw(None, {}, {"other": b"1"})
        case 0:
            told.lines[run] = None
        case 1:
            told.lines[run] = Row.read((run, 5, "s", 0, 0.0, 0.0, 0.0))
        case 2:
            told.texts[DOCUMENTS[desk.draw(0, 1, 2)][0]] = desk.draw(None, b"other")
        case 3:
            told.texts["none"] = None
            told.heads[run] = [None]
        case _:
            told.texts["none"] = None
            told.entries[run] = told.read(run)[:-1]


def _have(desk: Desk, target: Journal, made: Made) -> None:
    """Let the target have something of a run: some or all records, other ones, more, values, or that it was pruned."""
    match desk.draw("some", "some", "other", "more", "pruned", "erased", "all"):
        case "some":
            some = made.entries[: desk.chance.randint(1, len(made.entries))]
            target.create(Append(made.run, -1, some, "RUNNING", 1.0, True), "p", "x", 0.0)
        case "other":
            Made(desk, made.run, desk.draw(1, 2)).store(target)
        case "more":
            before = len(made.entries)
            made.add("attempt", {"step": "z"}, {}, 5)
            made.store(target)
            del made.entries[before:]
        case "pruned":
            made.store(target)
            prune(desk, target, made)
        case "erased":
            target.vault.erase(made.run)
        case _:
            made.store(target, "RUNNING")


def _go_on(desk: Desk, source: Journal, made: Made) -> None:
    """Let a run of the source go on."""
    head = source.head(made.run)
    assert head is not None, "only runs that are there go on"
    match desk.draw("append", "append", "sign", "erase", "prune", "prune", "lose", "lost"):
        case "append" | "lost" as how:
            if how == "lost":
                desk.ask("lose", source.vault.erase, made.run)
            before = len(made.entries)
            for _ in range(desk.draw(1, 2)):
                made.add("attempt", {"step": "later"}, {}, 9)
            append = Append(made.run, before - 1, made.entries[before:], desk.draw(*ROWS), 8.0, True, made.signature())
            desk.ask("go on", source.append, append, None)
        case "sign":
            made.key = KEYS[2]
            desk.ask("sign", source.sign, made.head())
        case "erase":
            before = len(made.entries)
            made.erased = sorted(made.secrets)
            made.add("erased", {"references": made.erased}, {}, 9)
            append = Append(made.run, before - 1, made.entries[before:], "SUCCESS", 8.0, True, made.signature())
            desk.ask("erase", source.append, append, None)
            desk.ask("erase", source.vault.erase, made.run)
        case "prune":
            prune(desk, source, made)
        case _:
            desk.ask("lose", source.vault.erase, made.run)


def _show(desk: Desk, store: Journal) -> None:
    for row in store.rows():
        desk.note(row, store.head(row.run), store.read(row.run), store.vault.get(row.run))
    desk.note(list(store.names()), [(run, store.kept(run)) for run in store.pruned()])
    desk.note([store.document(digest) for digest, _ in DOCUMENTS], [store.due(time) for time in (0.0, 6.0, 7.0, 99.0)])
    desk.note(store.claim("end", 9.0, 1.0, 2), store.opened())


class _Moving(ThroughJournal):
    """A store with whose runs machines go on that have another key."""

    def __init__(self, inner: Journal, key: SigningKey) -> None:
        super().__init__(inner)
        self.key = key

    def row(self, run: str) -> Row | None:
        """Return a row; the head of the run is signed meanwhile."""
        head = self.inner.head(run)
        if head is not None:
            self.inner.sign(head._replace(signature=self.key.sign_head(run, head.seq, head.digest)))
        return super().row(run)


# -- keys of a store ---------------------------------------------------------------------------------------------------


def rotations(desk: Desk) -> None:
    """Sign the heads of a store with a new key, of which some are signed by others, and some are damaged."""
    inner = _store(desk, "runs.db")
    for number in range(desk.draw(1, 2, 3)):
        made = Made(desk, f"r{number}", desk.draw(1, 3))
        made.store(inner)
        if desk.some(0.3):
            prune(desk, inner, made)
    store: Journal = Busy(inner, desk.draw(0, 0, 1, 9, 10, 11, 30))
    if desk.some(0.3):
        store = _Moving(store, SigningKey.from_seed(bytes([9]) * 32))
    if desk.some(0.3):
        told = Told(store)
        told.texts[DOCUMENTS[0][0]] = desk.draw(None, b"other")
        store = told
    old = [key.public for key in desk.draw(KEYS[:1], KEYS[:2], KEYS[:0], KEYS[1:])]
    replay = desk.draw(None, None, lambda run: lambda entries, _: [Fault(run, 0, "no")] if len(entries) == 1 else [])
    for key in (desk.draw(*KEYS), SigningKey.from_seed(bytes([9]) * 32)):
        desk.ask("signed", lambda key=key: list(sign_anew(store, key, old, replay)))
    _show(desk, inner)
