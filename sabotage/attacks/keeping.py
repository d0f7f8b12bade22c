"""Replay: what is kept in files beside the journal: old journals, cached replies, recorded replies."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry, Switch
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.models.cache_sqlite import SQLiteCache
from stepward.vm.models.recorded import RecordedModel, ReplyMissing
from stepward.vm.models.refusals import ModelRefused

NOW: Final = 1_000_000.0
STATUSES: Final = ("RUNNING", "SUSPENDED", "IN_DOUBT", "SUCCESS", "FAILED")
DUES: Final = (None, 0.0, NOW - 5.0, NOW, NOW + 5.0)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


# -- journals of older versions ----------------------------------------------------------------------------------------


_BACK: Final = {
    3: ("DROP INDEX runs_held", "DROP TABLE switches", "ALTER TABLE runs DROP COLUMN held"),
    2: ("ALTER TABLE runs DROP COLUMN kept",),
    1: ("DROP INDEX runs_due", "ALTER TABLE runs DROP COLUMN due"),
}
"""What brings a file to each version from the one after it."""


class OldJournalOpened(Attack):
    """Journals in files are of each older version, with runs that are due, that wait and that have ended. Two processes
    open each, and claim what is due."""

    family = Family.REPLAY
    surface = "journal of an older version"
    action = "opened, with runs in every state"
    invariant = Invariant.KEPT
    defence = "a file of an older version has all it had, and what an older version did not say is due at once"
    severity = "high"
    weight = 2
    draws = True

    def play(self, case: Case) -> Outcome:
        """Make a file, take it back to an older version, and look what is there when it is opened."""
        chance = Random(f"old {case.seed()}")
        for version in case.each("version", sorted(_BACK)):
            with _folder() as folder:
                self._play(case, chance, os.fspath(folder / "runs.db"), version)
        return Outcome.ABSORBED

    def _play(self, case: Case, chance: Random, path: str, version: int) -> None:
        with closing(SQLiteJournal(path)) as store:
            due = self._filled(store, chance, version)
            before = [self._content(store, run) for run in due]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for number in range(3, version - 1, -1):
                for statement in _BACK[number]:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        case.act(f"open a journal of version {version}, where runs are due at {due}")
        with closing(SQLiteJournal(path, create=False)) as one, closing(SQLiteJournal(path, create=False)) as other:
            for store in (one, other):
                after = [self._content(store, run) for run in due]
                case.hold(after == before, self.invariant, f"{after} is there, and {before} was")
            first = [lease.run for lease in one.claim("ann", NOW, 60.0, 2)]
            found = first + [lease.run for lease in other.claim("bob", NOW, 60.0, 9)]
            times = sorted(
                (at, number, run) for number, (run, at) in enumerate(due.items()) if at is not None and at <= NOW
            )
            expected = [run for *_, run in times]
            case.hold(found == expected, Invariant.DRIVER, f"{found} are claimed, and due are {expected}")
            case.hold(other.opened() == frozenset(), Invariant.BOUNDS, f"breakers {other.opened()} are open")
            is_switched = other.switch(Switch("tool:a", True, NOW, "", "ann")) and one.opened() == {"tool:a"}
            case.hold(is_switched, Invariant.BOUNDS, "no breaker can be opened in a journal of an older version")

    def _filled(self, store: SQLiteJournal, chance: Random, version: int) -> dict[str, float | None]:
        """Make runs, and return when each is due once the file was of a version; some have ended and were pruned."""
        due: dict[str, float | None] = {}
        for number in range(6):
            run, status, at = f"r{number}", STATUSES[number % len(STATUSES)], chance.choice(DUES)
            records = [f"{run} {one}".encode() for one in range(chance.randint(1, 3))]
            entries = [Entry(seq, record, digest_of(record)) for seq, record in enumerate(records)]
            append = Append(run, -1, entries, status, NOW - 50 + number, True, chance.choice((None, b"s" * 64)), at)
            store.create(append, "p", "gone", 1.0)
            due[run] = at if version > 1 else 0.0 if status == "RUNNING" else None
            head = store.head(run)
            if number == 3 and version == 3 and head is not None:
                store.prune(head, b"kept")
                due[run] = None
        store.put_document("d", b"text")
        store.vault.put("r0", {"x": b"1"})
        return due

    def _content(self, store: SQLiteJournal, run: str) -> tuple[Any, ...]:
        row, head, rest = store.row(run), store.head(run), (store.document("d"), store.vault.get(run))
        return row, head, store.read(run), store.kept(run), *rest


# -- replies in a cache ------------------------------------------------------------------------------------------------


MOST_BYTES: Final = 1 << 17
SIZES: Final = (10, 900, 5_000, 9_000, MOST_BYTES // 8, MOST_BYTES // 8 + 1)
MOVES: Final = 70


class CacheInAFile(Attack):
    """Two processes keep replies in one small file, more than have room, some again, and some too large. The file is
    closed and opened again in between."""

    family = Family.LOAD
    surface = "file of cached replies"
    action = "more replies than have room, from two processes"
    invariant = Invariant.KEPT
    defence = "a reply is found as it was kept, and the oldest ones go first, a few at a time"
    severity = "medium"
    draws = True

    def play(self, case: Case) -> Outcome:
        """Put and get, and compare with a list of what was put."""
        chance = Random(f"cache {case.seed()}")
        entries: dict[str, bytes] = {}
        with _folder() as folder:
            caches = [SQLiteCache(folder / "replies.db", most_bytes=MOST_BYTES) for _ in range(2)]
            for number in range(MOVES):
                cache = chance.choice(caches)
                key = chance.choice([*entries, f"k{number}"]) if chance.random() < 0.3 else f"k{number}"
                entry = chance.randbytes(chance.choice(SIZES))
                case.act(f"put {len(entry)} bytes under {key}")
                cache.put(key, entry)
                if len(entry) <= MOST_BYTES // 8:
                    entries.pop(key, None)
                    entries[key] = entry
                self._compare(case, chance.choice(caches), entries, folder)
                if chance.random() < 0.1:
                    cache.close()
            for cache in caches:
                cache.close()
        return Outcome.ABSORBED

    def _compare(self, case: Case, cache: SQLiteCache, entries: dict[str, bytes], folder: Path) -> None:
        there = {key: found for key in entries if (found := cache.get(key)) is not None}
        left = list(entries)[len(entries) - len(there) :]
        case.hold(list(there) == left, self.invariant, f"of {list(entries)} there are {list(there)}")
        case.hold(all(entries[key] == found for key, found in there.items()), Invariant.DATA, "a reply is another one")
        size, count = sum(map(len, entries.values())), len(entries)
        case.hold(size > MOST_BYTES // 3 or len(there) == count, self.invariant, f"of {size} bytes some are dropped")
        case.hold(len(there) >= count // 2, self.invariant, f"of {count} replies {len(there)} are left at once")
        total = sum(map(len, there.values()))
        case.hold(total <= MOST_BYTES, Invariant.BOUNDS, f"{total} bytes are kept in {MOST_BYTES}")
        for key in [*entries]:
            if key not in there:
                del entries[key]
        mode = os.stat(folder / "replies.db").st_mode & 0o077 if entries else 0
        case.hold(not mode, Invariant.SECRECY, f"others may use the file of replies: {mode:o}")


# -- recorded replies --------------------------------------------------------------------------------------------------


_PARTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "prompt": ("a", "a b"),
    "system": (None, "a"),
    "allowed": (None, ("a",), ("a", "b")),
    "schema": (None, {"type": "integer"}),
    "step": ("s", "t"),
    "visit": (1, 2),
    "attempt": (1, 2),
    "model": (None, "large"),
    "temperature": (None, 0, 1),
    "max_output_tokens": (None, 9),
}
"""What a request may say: each of it decides which reply is the one to it."""


class _Oracle:
    """A model that gives another reply each time."""

    names = frozenset({"large"})

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.parameters = parameters
        self.count = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Give a new reply."""
        del request
        self.count += 1
        return ModelReply({"n": self.count, "t": "#x"}, self.count, self.count, f"m{self.count}")


class RepliesRecorded(Attack):
    """Two processes record the replies to requests that are alike but for one part, in one file, and a third one plays
    them. Somebody else's model comes to the file, and a line is written twice, or torn."""

    family = Family.REPLAY
    surface = "file of recorded replies"
    action = "requests that are alike, two that record, and lines that are changed"
    invariant = Invariant.DATA
    defence = (
        "a reply is played to the very request that it was recorded for, as it was, and only the first one is kept"
    )
    severity = "medium"
    weight = 2
    draws = True

    def play(self, case: Case) -> Outcome:
        """Record and play, and compare with a table."""
        chance = Random(f"recorded {case.seed()}")
        with _folder() as folder:
            desk = _Desk(case, chance, folder / "replies.jsonl")
            for _ in range(30):
                desk.ask()
            desk.play_all()
            desk.change()
        return Outcome.ABSORBED


class _Desk:
    """Two recorders of one file, and what is in the file, and what each of them knows of it."""

    def __init__(self, case: Case, chance: Random, file: Path) -> None:
        self.case, self.chance, self.file = case, chance, file
        self.model = _Oracle({"model": "m", "seed": 1})
        self.base = {name: chance.choice(values) for name, values in _PARTS.items()}
        self.recorded: dict[str, tuple[ModelRequest, ModelReply]] = {}
        self.known: list[set[str]] = [set(), set()]
        self.recorders = [RecordedModel(file, self.model) for _ in range(2)]

    def request(self) -> ModelRequest:
        """Return a request that differs from others in one part or two, or in none."""
        parts = self.chance.sample(sorted(_PARTS), self.chance.choice((0, 1, 1, 2)))
        return ModelRequest(**{**self.base, **{name: self.chance.choice(_PARTS[name]) for name in parts}})

    def ask(self) -> None:
        """Let a process ask, which records the reply unless it knows one."""
        request, who = self.request(), self.chance.randrange(2)
        self.case.act(f"process {who} asks {request}")
        name, before = repr(request), self.model.count
        reply = self.case.do(self.recorders[who].complete(request))
        is_known = name in self.known[who]
        requests = self.model.count - before
        self.case.hold(requests == (not is_known), Invariant.BOUNDS, f"the model is asked {requests} times")
        if is_known:
            self._hold(reply, self.recorded[name][1])
            return
        self.recorded.setdefault(name, (request, reply))
        self.known[who] = {*self.recorded}

    def _hold(self, reply: ModelReply, due: ModelReply) -> None:
        self.case.hold(reply == due, Invariant.DATA, f"{reply} is played, and {due} was recorded")

    def play_all(self) -> None:
        """Play all that was recorded, and ask for what was not."""
        player = RecordedModel(self.file)
        parameters = {name: player.parameters.get(name) for name in self.model.parameters}
        self.case.hold(parameters == self.model.parameters, Invariant.DATA, "the recording is of another model")
        for request, reply in self.recorded.values():
            self._hold(self.case.do(player.complete(request)), reply)
        for _ in range(9):
            request = self.request()
            if repr(request) not in self.recorded:
                is_missing = _is_refused(lambda request=request: self.case.do(player.complete(request)), ReplyMissing)
                self.case.hold(is_missing, Invariant.DATA, f"a reply is played that was not recorded: {request}")

    def change(self) -> None:
        """Come with another model; then write a line twice, tear one, and leave the first one out."""
        other = _Oracle({"model": "m", "seed": self.chance.choice((2, "1", None, True))})
        lines = self.file.read_text().splitlines(keepends=True)
        self._refuses("another model records", other)
        for what, changed in (
            ("a line is there twice", [*lines, lines[-1]]),
            ("a line is torn", [*lines[:-1], lines[-1][:-9]]),
            ("the first line is gone", lines[1:]),
            ("a field more", [*lines[:-1], lines[-1].replace("{", '{"more":1,', 1)]),
            (
                "the version is another one",
                [lines[0].replace('"stepward_replies":1', '"stepward_replies":2'), *lines[1:]],
            ),
        ):
            self.file.write_text("".join(changed))
            self._refuses(what, None)

    def _refuses(self, what: str, model: _Oracle | None) -> None:
        self.case.act(what)
        is_refused = _is_refused(lambda: RecordedModel(self.file, model), ModelRefused)
        self.case.hold(is_refused, Invariant.DATA, f"{what}, and nobody tells")


def _is_refused(call: Any, refusal: type[Exception]) -> bool:
    try:
        call()
    except refusal:
        return True
    return False
