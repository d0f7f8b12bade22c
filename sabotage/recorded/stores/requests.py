"""Scenes of requests to a store: random sequences of all that a journal can be asked, at the edges of its times."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.sqlite_file import DatabaseFile
from stepward.vm.journal.store import Append, Entry, Head, Journal, JournalError, Lease, Switch
from stepward.vm.journal.through import ThroughJournal

RUNS: Final = ("r", "a b", "é'\"", "", "r2")
PROGRAMS: Final = ("p", "q", "")
STATUSES: Final = ("RUNNING", "SUSPENDED", "SUCCESS")
HOLDERS: Final = ("ann", "bob")
SWITCHES: Final = ("tool:pay", "tool:mail", "program:p")
EDGE: Final = 2.0**-20
"""The smallest time of these scenes, in seconds: a float has exactly all times of them."""

MOST: Final = 2**62
SPECIAL: Final = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "VACUUM")


def requests(probe: Probe) -> None:
    """Ask a store, by one or two doors, and show it after each request."""
    scene = _Requests(probe)
    names = list(_WEIGHTS)
    count = 34 if scene.is_memory else 22
    for name in ("create", "create", "create", *probe.chance.choices(names, list(_WEIGHTS.values()), k=count)):
        getattr(scene, name)()
        scene.show()
    scene.end()


class _Requests:
    """A store of a scene. `doors` are the connections to it; `leases` all leases that were given."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.chance = probe.chance
        self.kind = probe.draw(*["memory"] * 6, "through", "through", "file", "files")
        self.is_memory = self.kind in ("memory", "through")
        self.clock = 1000.0
        self.leases: list[Lease] = []
        self.doors = self._opened()
        self.heads: list[Head] = []

    def _opened(self) -> list[Journal]:
        if self.kind in ("file", "files"):
            return [self._file() for _ in range(2 if self.kind == "files" else 1)]
        store = MemoryJournal()
        return [ThroughJournal(store), store] if self.kind == "through" else [store]

    def _file(self) -> Journal:
        store = SQLiteJournal(self.probe.path("runs.db"))
        self.probe.stack.callback(_close, store)
        self.probe.note(pragmas(store._file._connection))
        quick(store._file)
        store._file._connection.set_trace_callback(self._statement)
        return store

    def _statement(self, text: str) -> None:
        if text.startswith(SPECIAL):
            self.probe.notes.add(text)

    # -- what is drawn -------------------------------------------------------------------------------------------------

    @property
    def door(self) -> Journal:
        return self.chance.choice(self.doors)

    def _run(self) -> str:
        there = list(self.doors[0].names())
        return self.chance.choice(there) if there and self.probe.some(0.9) else self.probe.draw(*RUNS)

    def _now(self) -> float:
        """Return a time: the present, or the edge of a lease or of a due."""
        if self.leases and self.probe.some(0.6):
            row = self.doors[0].row(self.leases[-1].run)
            ends = [lease.expires for lease in self.leases[-3:]] + [row.expires if row else 0.0]
            return self.chance.choice(ends) + self.probe.draw(-EDGE, 0.0, EDGE)
        self.clock += self.probe.draw(0.0, 0.5, 3.0)
        return self.clock + self.probe.draw(-EDGE, 0.0, 0.0, EDGE)

    def _ttl(self) -> float:
        return self.probe.draw(0.0, 1.0, 5.0, 60.0, EDGE)

    def _due(self) -> float | None:
        return self.probe.draw(None, 0.0, self.clock, self.clock + 1, self.clock + EDGE, 0.0)

    def _lease(self) -> Lease:
        if not self.leases or self.probe.some(0.1):
            return Lease(self._run(), self.probe.draw(0, 1, 2), self.clock)
        newest = {lease.run: lease for lease in self.leases}
        lease = self.chance.choice(list(newest.values()) if self.probe.some(0.8) else self.leases)
        return lease._replace(fence=lease.fence + self.probe.draw(-1, 0, 0, 0, 0, 0, 0, 1))

    def _entries(self, start: int, count: int) -> list[Entry]:
        mark = self.chance.randrange(3)
        records = [(seq, f"{seq} {mark}\x00".encode()) for seq in range(start, start + count)]
        return [Entry(seq, record, sha256(record).digest()) for seq, record in records]

    def _head(self, run: str) -> Head:
        """Return a head of a run: the present one, an old one, or one that is a little wrong."""
        present = self.doors[0].head(run) or Head(run, 0, bytes(32), None)
        if self.heads and self.probe.some(0.15):
            return self.chance.choice(self.heads)
        match self.probe.draw(0, 1, 2, 3, 4, 5, 6, 7):
            case 0:
                return present._replace(seq=present.seq + self.probe.draw(-1, 1))
            case 1:
                return present._replace(digest=bytes(32))
            case 2:
                return present._replace(run=self._run())
        return present

    # -- requests ------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make a run."""
        count = self.probe.draw(1, 1, 2, 3)
        entries = self._entries(self.probe.draw(*[0] * 49, 1), count)
        expected = self.probe.draw(*[-1] * 49, 0)
        now, signature = self._now(), self.probe.draw(None, b"s")
        append = Append(
            self.probe.draw(*RUNS),
            expected,
            entries,
            self._status(),
            now,
            self.probe.draw(True, False),
            signature,
            self._due(),
        )
        lease = self.probe.ask(
            "create", self.door.create, append, self.probe.draw(*PROGRAMS), self.probe.draw(*HOLDERS), self._ttl()
        )
        self.leases += [lease] if lease is not None else []

    def _status(self) -> str:
        return self.probe.draw(*STATUSES)

    def append(self) -> None:
        """Add entries, mostly with the right number and fence."""
        lease = self._lease()
        run = lease.run if self.probe.some(0.8) else self._run()
        head = self.doors[0].head(run)
        expected = (head.seq if head else -1) + self.probe.draw(*[0] * 12, -1, 1)
        fence = self.probe.draw(None, None, lease.fence, lease.fence)
        entries = self._entries(expected + self.probe.draw(*[1] * 40, 2), self.probe.draw(1, 1, 2))
        durable, signature = self.probe.draw(True, False), self.probe.draw(None, b"t")
        append = Append(run, expected, entries, self._status(), self._now(), durable, signature, self._due())
        self.probe.ask("append", self.door.append, append, fence)
        after = self.doors[0].head(run)
        self.heads += [after] if after else []

    def acquire(self) -> None:
        """Lease a run."""
        lease = self.probe.ask(
            "acquire", self.door.acquire, self._run(), self.probe.draw(*HOLDERS), self._now(), self._ttl()
        )
        self.leases += [lease] if lease is not None else []

    def claim(self) -> None:
        """Lease what is due."""
        more: dict[str, Any] = {}
        if self.probe.some(0.5):
            more["programs"] = self.probe.draw((), ("p",), ["q", ""], PROGRAMS, ("none",), None)
        if self.probe.some(0.5):
            more["passed"] = self._passed()
        limit = self.probe.draw(0, 1, 1, 2, 9)
        got = self.probe.ask(
            "claim", self.door.claim, self.probe.draw(*HOLDERS), self._now(), self._ttl(), limit, **more
        )
        self.leases += got or []

    def _passed(self) -> Mapping[str, int]:
        heads = [head for run in RUNS if (head := self.doors[0].head(run)) is not None]
        return {head.run: head.seq + self.probe.draw(0, 0, 1, -1) for head in heads if self.probe.some(0.5)}

    def renew(self) -> None:
        """Make a lease last longer."""
        lease = self.probe.ask("renew", self.door.renew, self._lease(), self._now(), self._ttl())
        self.leases += [lease] if lease is not None else []

    def release(self) -> None:
        """Give a lease back."""
        self.probe.ask("release", self.door.release, self._lease())

    def read(self) -> None:
        """Read entries from some number on."""
        self.probe.ask("read", self.door.read, self._run(), self.probe.draw(0, 1, 2, 3, MOST))

    def sign(self) -> None:
        """Sign a head anew."""
        head = self._head(self._run())._replace(signature=self.probe.draw(b"u", None))
        self.probe.ask("sign", self.door.sign, head)

    def rows(self) -> None:
        """List runs by filters."""
        statuses = self.probe.draw(None, None, (), ["RUNNING"], STATUSES[1:], iter(("SUCCESS",)))
        more: dict[str, Any] = {}
        if self.probe.some(0.5):
            more["limit"] = self.probe.draw(0, 1, 2, 9, None)
        if self.probe.some(0.5):
            started = [row.started for row in self.doors[0].rows()] or [0.0]
            more["since"] = self.chance.choice(started) + self.probe.draw(-EDGE, 0.0, EDGE)
        if self.probe.some(0.5):
            more["program"] = self.probe.draw(*PROGRAMS, "none", None)
        if not isinstance(statuses, tuple | list | None):
            self.probe.note("the statuses come once")
            self.probe.ask("rows", lambda: self.door.rows(statuses, **more))
        else:
            self.probe.ask("rows", self.door.rows, statuses, **more)

    def switch(self) -> None:
        """Open or close a breaker."""
        one = Switch(self.probe.draw(*SWITCHES), self.probe.draw(True, True, False), self._now(), "why", "ann")
        self.probe.ask("switch", self.door.switch, one)

    def hold(self) -> None:
        """Hold a run until a breaker is closed, mostly one that is open."""
        opened = sorted(self.doors[0].opened())
        name = self.chance.choice(opened) if opened and self.probe.some(0.8) else self.probe.draw(*SWITCHES)
        self.probe.ask("hold", self.door.hold, self._lease(), name)

    def prune(self) -> None:
        """Remove a run."""
        self.probe.ask("prune", self.door.prune, self._head(self._run()), self.probe.draw(b"kept", b"", b"more"))

    def put(self) -> None:
        """Put values into the vault."""
        secrets = self.probe.draw({}, {"a": b"1"}, {"a": b"2", "b": b"3"}, {"": b"4"} if self.is_memory else {})
        self.probe.ask("put", self.door.vault.put, self._run(), secrets)

    def erase(self) -> None:
        """Erase one run or several."""
        if self.probe.some(0.5):
            self.probe.ask("erase", self.door.vault.erase, self._run())
        else:
            count = self.probe.draw(0, 1, 2)
            self.probe.ask("erase all", self.door.vault.erase_all, self.chance.sample(RUNS, count))

    def put_document(self) -> None:
        """Store a document."""
        self.probe.ask("put", self.door.put_document, self.probe.draw("d", "e"), self.probe.draw(b"", b"1", b"2"))

    def freeze(self) -> None:
        """Ask a store as it is at one moment, while the other goes on."""
        door = self.door
        with door.frozen() as still:
            for name in self.chance.choices(("append", "create", "switch", "put_document", "prune"), k=2):
                getattr(self, name)()
            self._show(still)

    def reopen(self) -> None:
        """Close a connection to a file, ask it then, and open the file again."""
        if self.is_memory:
            self.door.close()
            self.probe.note("closed", self.doors[0].blocks)
            return
        number = self.chance.randrange(len(self.doors))
        old = self.doors[number]
        old.close()
        self.probe.note("closed", old.blocks)
        self.probe.ask("closed", old.read, "r")
        self.probe.ask("closed", old.put_document, "d", b"")
        self.probe.ask("closed", old.vault.get, "r")
        self.doors[number] = self._file()

    # -- what is there -------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Note all that every reader says of the store."""
        self._show(self.doors[-1])

    def _show(self, store: Journal) -> None:
        if isinstance(store, SQLiteJournal) and store._values._opened is not None:
            quick(store._values._opened)
        runs = [(store.row(run), store.head(run), store.read(run), store.kept(run)) for run in RUNS]
        dues = [store.due(self.clock + later) for later in (-EDGE, 0.0, EDGE, 60.0, 10.0**6)]
        names = list(store.names()), list(store.pruned())
        documents = [store.document(name) for name in ("d", "e", "none")]
        switched = store.switches(), store.switches("tool:pay"), store.opened()
        self.probe.note(runs, dues, names, documents, switched, store.rows(), [store.vault.get(run) for run in RUNS])

    def end(self) -> None:
        """Let all leases pass, and claim all; show what the other connection says."""
        for door in self.doors:
            self._show(door)
        self.probe.ask("claim", self.doors[-1].claim, "end", self.clock + 10.0**6, 1.0, 99)
        if not self.is_memory:
            connection = self.doors[0]._file._connection  # type: ignore[attr-defined]
            self.probe.note(pragmas(connection), schema(connection))


def _close(store: Journal) -> None:
    with suppress(JournalError):
        store.close()


def quick(file: DatabaseFile) -> None:
    """Let a file not wait for the disk. Its statements still say where it would."""
    file._layout = replace(file._layout, synchronous="OFF")
    file._synchronize("OFF")


def pragmas(connection: sqlite3.Connection) -> list[Any]:
    """Return the settings of a connection."""
    names = ("synchronous", "fullfsync", "journal_mode", "application_id", "user_version", "secure_delete")
    return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in (*names, "temp_store", "busy_timeout")]


def schema(connection: sqlite3.Connection) -> list[Any]:
    """Return the objects of a file."""
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


_WEIGHTS: Final[Mapping[str, int]] = {
    "create": 14,
    "append": 22,
    "acquire": 12,
    "claim": 14,
    "renew": 8,
    "release": 8,
    "read": 3,
    "sign": 5,
    "rows": 8,
    "switch": 11,
    "hold": 13,
    "prune": 5,
    "put": 6,
    "erase": 3,
    "put_document": 3,
    "freeze": 3,
    "reopen": 2,
}
"""How often each request comes."""
