"""Time: the calls of a store, in any order and at any time, compared with a plain model of a store."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.stores.faulty_file import FaultyFile
from stepward.sabotage.stores.store_model import ROOM, StoreError, StoreModel
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import (
    Append,
    AppendConflict,
    Entry,
    Head,
    Journal,
    JournalError,
    Lease,
    LeaseLost,
    Switch,
)

MOVES: Final = 60
"""The number of calls of one case."""

MOVES_OF_ONE: Final = 20
"""The number of calls after which a file is closed and opened again."""

HOLDERS: Final = ("ann", "bob", "cid")
STATUSES: Final = ("RUNNING", "SUSPENDED", "SUCCESS")
PROGRAMS: Final = ("pay", "ship")
LEASES: Final = (60.0, 7.0, 0.5)
STEPS: Final = (0.0, 0.001, 0.5, 6.999, 30.0, 59.999, 61.0)
"""Seconds that pass before a call."""

BESIDE: Final = (-1.0, -0.001, 0.0, 0.001, 1.0)
"""Seconds before or after the end of a lease at which another holder requests it."""

FAILS: Final = 0.25
"""The share of calls in which a statement fails, if the store is a file."""

STATEMENTS: Final = 6
"""More statements than one call has."""

MANY: Final = 1_100
"""A number of runs larger than one batch of reading."""


class _Twins:
    """A store and its model. Each call is made on both, and both must answer the same. Raises Breach."""

    def __init__(self, case: Case, stores: list[Journal], random: Random) -> None:
        self.model = StoreModel()
        self.now = ROOM
        self._case = case
        self._stores = stores
        self._random = random
        self._names = {name: f"{case.run_id()}-{name}" for name in ("a", "b", "c", "d")}
        self._programs = {name: f"{case.run_id()}-{name}" for name in PROGRAMS}
        self._breakers = [f"tool:{program}" for program in self._programs.values()]
        self._still: tuple[AbstractContextManager[Journal], Journal, StoreModel] | None = None
        self._leases: list[Lease] = []
        self._number = 0

    def move(self) -> None:
        """Make one call at a random time."""
        self.now += self._random.choice(STEPS)
        moves: tuple[tuple[Callable[[], None], int], ...] = (
            (self.create, 3),
            (self.append, 6),
            (self.acquire, 6),
            (self.renew, 5),
            (self.release, 3),
            (self.values, 4),
            (self.erase, 1),
            (self.document, 1),
            (self.claim, 3),
            (self.sign, 1),
            (self.prune, 1),
            (self.switch, 2),
            (self.hold, 2),
            (self.freeze, 1),
        )
        self._random.choices([move for move, _ in moves], [weight for _, weight in moves])[0]()
        self.look()

    def _store(self) -> Journal:
        return self._random.choice(self._stores)

    def _run(self) -> str:
        return self._random.choice(list(self._names.values()))

    def _entries(self, start: int) -> list[Entry]:
        entries = []
        for seq in range(start, start + self._random.randint(1, 3)):
            self._number += 1
            record = f"record {self._number}\0".encode() * self._random.choice((1, 1, 60))
            entries.append(Entry(seq, record, digest_of(record)))
        return entries

    def _signature(self) -> bytes | None:
        return self._random.choice((None, self._random.randbytes(64)))

    def _ready(self) -> float | None:
        """Return the time from which on a run can be claimed: at once, now, soon, or never."""
        return self._random.choice((None, 0.0, self.now, self.now, self.now + 0.001, self.now + 7.0))

    def create(self) -> None:
        """Make a run, or one that exists."""
        run, entries, status = self._run(), self._entries(0), self._random.choice(STATUSES)
        program, holder = self._random.choice(list(self._programs.values())), self._random.choice(HOLDERS)
        ttl, signature, ready = self._random.choice(LEASES), self._signature(), self._ready()
        append = Append(run, -1, entries, status, self.now, self._random.random() < 0.5, signature, ready)
        due = self.model.create(run, entries, status, self.now, signature, program, holder, ttl, ready)
        got = self._compared(f"create {run}", lambda: self._store().create(append, program, holder, ttl), due)
        self._keep(got)

    def append(self) -> None:
        """Add entries after the last one or another, under a current lease, an old one, or none."""
        run, status = self._run(), self._random.choice(STATUSES)
        stored = self.model.runs.get(run)
        last, leases = (0, 1) if stored is None else (len(stored.entries) - 1, stored.leases)
        expected = last + self._random.choice((0, 0, 0, 0, -1, 1))
        number = self._random.choice((leases, leases, None, None, leases - 1, leases + 1))
        entries, signature, ready = self._entries(expected + 1), self._signature(), self._ready()
        append = Append(run, expected, entries, status, self.now, self._random.random() < 0.5, signature, ready)
        due = self.model.append(run, expected, entries, status, self.now, signature, number, ready)
        self._compared(f"append to {run} behind {expected}", lambda: self._store().append(append, number), due)

    def acquire(self) -> None:
        """Request a lease, now or near the end of another holder's lease."""
        run, holder, ttl = self._run(), self._random.choice(HOLDERS), self._random.choice(LEASES)
        stored = self.model.runs.get(run)
        if stored is not None and stored.ends and self._random.random() < 0.6:
            self.now = stored.ends + self._random.choice(BESIDE)
        due = self.model.acquire(run, holder, self.now, ttl)
        self._keep(self._compared(f"lease {run}", lambda: self._store().acquire(run, holder, self.now, ttl), due))

    def renew(self) -> None:
        """Renew a lease, the newest or an older one."""
        if self._leases:
            lease, ttl = self._random.choice(self._leases[-4:]), self._random.choice(LEASES)
            due = self.model.renew(lease, self.now, ttl)
            self._compared(f"renew {lease}", lambda: self._store().renew(lease, self.now, ttl), due)

    def release(self) -> None:
        """Give a lease back, the newest or an older one."""
        if self._leases:
            lease = self._random.choice(self._leases[-4:])
            self._compared(f"release {lease}", lambda: self._store().release(lease), self.model.release(lease))  # type: ignore[func-returns-value]

    def values(self) -> None:
        """Put values into the vault, some of them again."""
        run, count = self._run(), self._random.randint(1, 3)
        values = {self._random.choice(("x", "y", "token:pay:1:1")): self._random.randbytes(20) for _ in range(count)}
        self._compared(
            f"put values of {run}", lambda: self._store().vault.put(run, values), self.model.put(run, values)
        )

    def erase(self) -> None:
        """Erase the values of a run, also of one that has none; or those of two runs at once."""
        run, also = self._run(), self._run()
        if also < run:
            due = self.model.erase(run) + self.model.erase(also)
            self._compared(f"erase {run} and {also}", lambda: self._store().vault.erase_all([run, also]), due)
        else:
            self._compared(f"erase {run}", lambda: self._store().vault.erase(run), self.model.erase(run))

    def document(self) -> None:
        """Put a document, perhaps again."""
        digest = f"{self._names['a']}-{self._random.choice('pq')}"
        text = self.model.documents.setdefault(digest, digest.encode() * 3)
        self._compared("put a document", lambda: self._store().put_document(digest, text), None)

    # -- upkeep ----------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Claim runs that are due, of some of the programs, but for some that are passed over."""
        chance, holder = self._random, f"claim {self._number}"
        self._number += 1
        if (late := [stored.due for stored in self.model.runs.values() if stored.due]) and chance.random() < 0.5:
            self.now = max(self.now, chance.choice(late) + chance.choice((0.0, -0.001)))
        programs = chance.sample(list(self._programs.values()), chance.choice((0, 1, 2, 2)))
        seqs = {run: len(stored.entries) - chance.choice((0, 1, 1, 2)) for run, stored in self.model.runs.items()}
        passed = {run: seq for run, seq in seqs.items() if chance.random() < 0.3}
        args = (holder, self.now, chance.choice(LEASES), chance.choice((1, 2, 9)), programs, passed)
        for lease in self._compared(f"claim {args[3:]}", lambda: self._store().claim(*args), self.model.claim(*args)):
            self._keep(lease)

    def _head(self) -> Head:
        """Return the head of a run, or one that is not its last entry, signed anew."""
        chance, run = self._random, self._run()
        seq, digest, _ = self.model.kept.get(run, (0, bytes(32), b""))
        head = self.model.head(run) or Head(run, seq, digest, None)
        if chance.random() < 0.3:
            wrong: tuple[dict[str, Any], ...] = ({"seq": head.seq + 1}, {"digest": bytes(32)})
            head = head._replace(**chance.choice(wrong))
        return head._replace(signature=self._signature())

    def sign(self) -> None:
        """Sign a head anew."""
        head = self._head()
        self._compared(f"sign {head[:2]} anew", lambda: self._store().sign(head), self.model.sign(head))

    def prune(self) -> None:
        """Prune a run, perhaps again."""
        head, pruned = self._head(), self._random.randbytes(9)
        self._compared(f"prune {head[:2]}", lambda: self._store().prune(head, pruned), self.model.prune(head, pruned))

    def switch(self) -> None:
        """Open or close a breaker."""
        self._number += 1
        fields = (self._random.random() < 0.6, self.now, f"switch {self._number}", self._random.choice(HOLDERS))
        switch = Switch(self._random.choice(self._breakers), *fields)
        self._compared(f"switch {switch[:2]}", lambda: self._store().switch(switch), self.model.switch(switch))

    def hold(self) -> None:
        """Hold a run by a breaker, under its newest lease or an older one."""
        if self._leases:
            lease, name = self._random.choice(self._leases[-4:]), self._random.choice(self._breakers)
            self._compared(
                f"hold {lease} by {name}", lambda: self._store().hold(lease, name), self.model.hold(lease, name)
            )

    def freeze(self) -> None:
        """Take a snapshot, or look at the last one, which has to be what the store was then."""
        if self._still is None:
            context = self._store().frozen()
            self._still = (context, context.__enter__(), deepcopy(self.model))
            return
        context, still, model = self._still
        for name in self._names.values():
            self._same("head in a snapshot", still.head(name), model.head(name))
            self._same("entries in a snapshot", still.read(name), model.read(name, 0))
            self._same("line in a snapshot", still.row(name), model.row(name))
            self._same("kept in a snapshot", still.kept(name), model.kept[name][2] if name in model.kept else None)
            values = model.values.get(name, {}) if name not in self.model.buried else {}
            self._same("values in a snapshot", values.keys() - still.vault.get(name).keys(), set())
        self._same("breakers in a snapshot", still.opened() & {*self._breakers}, model.opened())
        self.close()

    def close(self) -> None:
        """Give the snapshot back, if there is one."""
        if self._still is not None:
            self._still[0].__exit__(None, None, None)
            self._still = None

    def _keep(self, lease: Any) -> None:
        if isinstance(lease, Lease):
            self._leases.append(lease)

    def _compared(self, what: str, call: Callable[[], Any], due: Any) -> Any:
        self._case.log(f"{what}, at {self.now - ROOM:g} s")
        self._case.count()
        failing = self._failing(what)
        got = _answer(call)
        for file in failing:
            file.restore()
        if any(file.has_failed for file in failing):
            # The store reports the failure, and the call may be repeated; an erasure then can't report its count.
            self._case.log("a statement of it fails, and it is asked again")
            self._same(what, got, StoreError("no run"))
            got = _answer(call)
            due = got if what.startswith("erase") and got == 0 else due
        self._same(what, got, due)
        return got

    def _failing(self, what: str) -> list[FaultyFile]:
        """Return the files, sometimes none, of which a statement fails during a call."""
        stores = [store for store in self._stores if isinstance(store, SQLiteJournal)]
        if not stores or self._random.random() > FAILS:
            return []
        number = self._random.randrange(STATEMENTS)
        is_of_vault = what.startswith(("put values", "erase"))
        files = [store._values._file() if is_of_vault else store._file for store in stores]
        return [FaultyFile(file, number) for file in files]

    def _same(self, what: str, got: Any, due: Any) -> None:
        if got != due:
            raise Breach(Invariant.DRIVER, f"{what}: the store answers {got}, and it has to be {due}")

    def look(self) -> None:
        """Check that the store returns everything that the model has."""
        model, store, chance = self.model, self._store(), self._random
        run = self._run()
        start = chance.randint(0, 3)
        self._same(f"read from {start}", store.read(run, start), model.read(run, start))
        for name in self._names.values():
            self._same("head", store.head(name), model.head(name))
            self._same("line of a run", store.row(name), model.row(name))
            self._same("values", store.vault.get(name), model.values.get(name, {}))
        program = chance.choice(list(self._programs.values()))
        statuses = chance.choice((None, [], ["RUNNING"], ["SUCCESS", "SUSPENDED"], list(STATUSES)))
        since = chance.choice((None, None, self.now, *(stored.started for stored in model.runs.values())))
        limit = chance.choice((None, None, 0, 1, 2, 9))
        question = f"runs of {statuses} since {since}, {limit} at most"
        rows = store.rows(None if statuses is None else iter(statuses), program=program, since=since, limit=limit)
        self._same(question, rows, model.rows(statuses, program, since, limit))
        mine = set(self._names.values())
        ours = [row for row in store.rows(statuses, since=since) if row.run in mine]
        self._same(question, ours, model.rows(statuses, None, since, None))
        names = [name for name in itertools.islice(store.names(), MANY * 3) if name in mine]
        self._same("names", names, list(model.runs))
        self._same("pruned", [name for name in store.pruned() if name in mine], model.pruned())
        for name in mine:
            self._same("kept", store.kept(name), model.kept[name][2] if name in model.kept else None)
        due, programs = store.due(self.now), set(self._programs.values())
        self._same("due", {name: count for name, count in due.items() if name in programs}, model.due(self.now))
        self._same("open breakers", store.opened() & {*self._breakers}, model.opened())
        breaker = chance.choice(self._breakers)
        self._same("switches", store.switches(breaker), [one for one in model.switches if one.name == breaker])
        for digest in (f"{self._names['a']}-{one}" for one in "pqr"):
            self._same("document", store.document(digest), model.documents.get(digest))


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except AppendConflict:
        return StoreError("conflict")
    except LeaseLost:
        return StoreError("lost")
    except JournalError:
        return StoreError("no run")


class StoreAgainstModel(Attack):
    """Runs are created, extended, leased, claimed, renewed, released, held, erased, signed, pruned and listed, in any
    order, at any time and by any holder. A plain model of a store predicts the answer of each call and the content
    afterwards."""

    family = Family.TIME
    surface = "calls of a store"
    action = "in any order, at any moment, by anybody"
    invariant = Invariant.DRIVER
    defence = "the store fulfils its contract: who has a lease, until when, and what is appended with it"
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make calls of the store, and compare each answer with the model."""
        return _played(case, [case.store], lambda: None)


class FileAgainstModel(Attack):
    """The same attack on a store in a file that two processes have open. The file is closed and opened again in
    between, and sometimes a statement fails during a call, which is then repeated."""

    family = Family.TIME
    surface = "calls of the store in a file"
    action = "in any order, at any moment, by two processes"
    invariant = Invariant.DRIVER
    defence = (
        "the file fulfils the contract of a store for every process that has it open, also after it is opened again"
    )
    store = "sqlite"
    weight = 3
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make calls of both, reopen one at times, and compare each answer with the model."""
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
            path = os.path.join(folder, "runs.db")
            opened: list[Journal] = [SQLiteJournal(path) for _ in range(2)]

            def close() -> None:
                for store in opened:
                    store.close()

            stack.callback(close)

            def open_again() -> None:
                opened[0].close()
                opened[0] = SQLiteJournal(path)

            return _played(case, opened, open_again)


def _played(case: Case, stores: list[Journal], open_again: Callable[[], None]) -> Outcome:
    random = Random(case.seed())
    twins = _Twins(case, stores, random)
    try:
        for number in range(MOVES):
            if number % MOVES_OF_ONE == MOVES_OF_ONE - 1:
                open_again()
            twins.move()
    finally:
        twins.close()
    return Outcome.ABSORBED


class ManyRuns(Attack):
    """A store has more runs than it reads at once, and a caller iterates over all of them."""

    family = Family.LOAD
    surface = "list of runs"
    action = "longer than one page of results"
    invariant = Invariant.HISTORY
    defence = "every run is listed once, in the order of creation"
    severity = "medium"
    store = "sqlite"
    weight = 100
    draws = True

    def play(self, case: Case) -> Outcome:
        """Create runs, and check that each is listed."""
        prefix = case.run_id()
        runs = [f"{prefix}-{number}" for number in range(MANY)]
        for number, run in enumerate(runs):
            entry = Entry(0, run.encode(), digest_of(run.encode()))
            append = Append(run, -1, [entry], "SUCCESS", ROOM + number, False)
            case.hold(case.store.create(append, prefix, "ann", 1.0) is not None, self.invariant, "a run was not made")
        case.count(MANY)
        named = [name for name in _bounded(case.store) if name.startswith(f"{prefix}-")]
        case.hold(named == runs, self.invariant, f"of {MANY} runs {len(named)} are named")
        listed = [row.run for row in case.store.rows(program=prefix)]
        case.hold(listed == runs, self.invariant, f"of {MANY} runs {len(listed)} are listed")
        return Outcome.ABSORBED


def _bounded(store: Journal) -> Iterator[str]:
    return itertools.islice(store.names(), 100 * MANY)
