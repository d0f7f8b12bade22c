"""Scenes of copies: runs that go from one store to another, which has some of them, and keys that are changed."""

from __future__ import annotations

from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.sabotage.recorded.stores.chains import DOCUMENTS, KEYS, DamagedStore, SampleRun, prune
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


def _store(probe: Probe, name: str) -> Journal:
    if probe.some(0.85):
        return MemoryJournal()
    journal = SQLiteJournal(probe.path(name))
    probe.stack.callback(journal.close)
    quick(journal._file)
    return journal


def copies(probe: Probe) -> None:
    """Copy a store to one that has some of its runs, twice; in between, runs go on, are signed, erased and pruned."""
    source, target = _store(probe, "source.db"), _store(probe, "target.db")
    runs = [SampleRun(probe, f"r{number}", probe.draw(1, 1, 2, 4)) for number in range(probe.draw(1, 2, 3, 4))]
    for sample in runs:
        is_there = probe.some(0.3)
        if is_there:
            _have(probe, target, sample)
        sample.store(source, probe.draw(*ROWS))
        if probe.some(0.5 if is_there else 0.2):
            prune(probe, source, sample)
    _copy(
        probe,
        source,
        probe.draw(target, target, Busy(target, probe.draw(1, 2, 3, 9), probe.draw(("create",), ("append",)))),
    )
    _show(probe, target)
    for sample in runs:
        if source.head(sample.run) is not None and probe.some(0.5):
            _go_on(probe, source, sample)
    _copy(probe, source, target)
    _show(probe, target)


def _copy(probe: Probe, source: Journal, target: Journal) -> None:
    def due(journal: Journal, run: str) -> float | None:
        head = journal.head(run)
        return None if head is None or head.seq == 1 else 7.0 + head.seq

    damaged = DamagedStore(source)
    if probe.some(0.3):
        _damage(probe, damaged)
    probe.ask(
        "copied", lambda: list(copy_runs(_Still(damaged) if damaged.lines or damaged.texts else source, target, due))
    )


class _Still(ThroughJournal):
    """A store that is frozen as it is."""

    def frozen(self) -> Any:
        return self

    def __enter__(self) -> Journal:
        return self.inner

    def __exit__(self, *_: object) -> None:
        pass


def _damage(probe: Probe, damaged: DamagedStore) -> None:
    """Let the source say something wrong of its first run."""
    run = next(damaged.names(), "none")
    match probe.draw(0, 1, 2, 3, 4, 5, 5):
        case 5:
            damaged.texts["none"] = None
            damaged.lost = probe.draw(None, {}, {"other": b"1"})
        case 0:
            damaged.lines[run] = None
        case 1:
            damaged.lines[run] = Row.read((run, 5, "s", 0, 0.0, 0.0, 0.0))
        case 2:
            damaged.texts[DOCUMENTS[probe.draw(0, 1, 2)][0]] = probe.draw(None, b"other")
        case 3:
            damaged.texts["none"] = None
            damaged.heads[run] = [None]
        case _:
            damaged.texts["none"] = None
            damaged.entries[run] = damaged.read(run)[:-1]


def _have(probe: Probe, target: Journal, sample: SampleRun) -> None:
    """Let the target have something of a run: some or all records, other ones, more, values, or that it was pruned."""
    match probe.draw("some", "some", "other", "more", "pruned", "erased", "all"):
        case "some":
            some = sample.entries[: probe.chance.randint(1, len(sample.entries))]
            target.create(Append(sample.run, -1, some, "RUNNING", 1.0, True), "p", "x", 0.0)
        case "other":
            SampleRun(probe, sample.run, probe.draw(1, 2)).store(target)
        case "more":
            before = len(sample.entries)
            sample.add("attempt", {"step": "z"}, {}, 5)
            sample.store(target)
            del sample.entries[before:]
        case "pruned":
            sample.store(target)
            prune(probe, target, sample)
        case "erased":
            target.vault.erase(sample.run)
        case _:
            sample.store(target, "RUNNING")


def _go_on(probe: Probe, source: Journal, sample: SampleRun) -> None:
    """Let a run of the source go on."""
    head = source.head(sample.run)
    assert head is not None, "only runs that are there go on"
    match probe.draw("append", "append", "sign", "erase", "prune", "prune", "lose", "lost"):
        case "append" | "lost" as how:
            if how == "lost":
                probe.ask("lose", source.vault.erase, sample.run)
            before = len(sample.entries)
            for _ in range(probe.draw(1, 2)):
                sample.add("attempt", {"step": "later"}, {}, 9)
            append = Append(
                sample.run, before - 1, sample.entries[before:], probe.draw(*ROWS), 8.0, True, sample.signature()
            )
            probe.ask("go on", source.append, append, None)
        case "sign":
            sample.key = KEYS[2]
            probe.ask("sign", source.sign, sample.head())
        case "erase":
            before = len(sample.entries)
            sample.erased = sorted(sample.secrets)
            sample.add("erased", {"references": sample.erased}, {}, 9)
            append = Append(sample.run, before - 1, sample.entries[before:], "SUCCESS", 8.0, True, sample.signature())
            probe.ask("erase", source.append, append, None)
            probe.ask("erase", source.vault.erase, sample.run)
        case "prune":
            prune(probe, source, sample)
        case _:
            probe.ask("lose", source.vault.erase, sample.run)


def _show(probe: Probe, store: Journal) -> None:
    for row in store.rows():
        probe.note(row, store.head(row.run), store.read(row.run), store.vault.get(row.run))
    probe.note(list(store.names()), [(run, store.kept(run)) for run in store.pruned()])
    probe.note([store.document(digest) for digest, _ in DOCUMENTS], [store.due(time) for time in (0.0, 6.0, 7.0, 99.0)])
    probe.note(store.claim("end", 9.0, 1.0, 2), store.opened())


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


def rotations(probe: Probe) -> None:
    """Sign the heads of a store with a new key, of which some are signed by others, and some are damaged."""
    inner = _store(probe, "runs.db")
    for number in range(probe.draw(1, 2, 3)):
        sample = SampleRun(probe, f"r{number}", probe.draw(1, 3))
        sample.store(inner)
        if probe.some(0.3):
            prune(probe, inner, sample)
    store: Journal = Busy(inner, probe.draw(0, 0, 1, 9, 10, 11, 30))
    if probe.some(0.3):
        store = _Moving(store, SigningKey.from_seed(bytes([9]) * 32))
    if probe.some(0.3):
        damaged = DamagedStore(store)
        damaged.texts[DOCUMENTS[0][0]] = probe.draw(None, b"other")
        store = damaged
    old = [key.public for key in probe.draw(KEYS[:1], KEYS[:2], KEYS[:0], KEYS[1:])]
    replay = probe.draw(None, None, lambda run: lambda entries, _: [Fault(run, 0, "no")] if len(entries) == 1 else [])
    for key in (probe.draw(*KEYS), SigningKey.from_seed(bytes([9]) * 32)):
        probe.ask("signed", lambda key=key: list(sign_anew(store, key, old, replay)))
    _show(probe, inner)
