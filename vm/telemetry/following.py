"""Follows the runs of one journal: takes in what is stored, and gives the spans that it ends."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from typing import Final

from stepward.vm.journal.records import Record
from stepward.vm.journal.store import Append, Entry, Journal, JournalError
from stepward.vm.machine.events import RUNNING
from stepward.vm.telemetry.outline import Outline, outline_of
from stepward.vm.telemetry.spans import Span, Spans

MAX_RUNS: Final = 1_024
"""Maximal number of runs that are followed at a time; a run that was dropped is read again from the journal."""

MAX_OUTLINES: Final = 256
"""Maximal number of programs whose outlines are kept."""

MAX_WAITING: Final = 128
"""Maximal number of entries of a run that wait: making many spans at a time costs less than making each alone."""

MAX_WAIT: Final = 1.0
"""Seconds after which entries wait no longer for the next ones."""


class _Run:
    """A run that is followed: `waiting` are entries without spans yet, `since` is when spans were made last."""

    __slots__ = ("since", "spans", "waiting")

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.waiting: list[Entry] = []
        self.since = time.monotonic()


class Followed:
    """The runs of one journal, for a machine whose appends come in; they may come from several threads."""

    def __init__(self, journal: Journal, *, values: bool) -> None:
        self.mine: set[bytes] = set()
        """The digests of entries that this process is just storing, and whose spans are not made yet."""
        self._journal = journal
        self._values = values
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._outlines: dict[str, Outline] = {}

    def follow(self, append: Append) -> list[Span]:
        """Return the spans that new entries of a run end; while it goes on, they may wait for the next ones.

        Raises JournalError if the journal can't be read, KeyError, TypeError or ValueError for records of no machine.
        """
        with self._lock:
            run = self._runs.pop(append.run, None)
            if run is None:
                run = _Run(Spans(append.run, self.outline, values=self._values))
            run.waiting += [entry for entry in append.entries if entry.digest in self.mine]
            now = time.monotonic()
            goes_on = append.status == RUNNING
            if goes_on and len(run.waiting) < MAX_WAITING and now - run.since < MAX_WAIT:
                found: list[Span] = []
            else:
                run.since = now
                found = self._spans(append.run, run)
            if goes_on:
                self._runs[append.run] = run
                if len(self._runs) > MAX_RUNS:
                    found += self._spans(*self._runs.popitem(last=False))
            return found

    def rest(self) -> list[Span]:
        """Return the spans that waiting entries end; raises as `follow` does."""
        with self._lock:
            return [span for name, run in self._runs.items() for span in self._spans(name, run)]

    def _spans(self, name: str, run: _Run) -> list[Span]:
        """Return the spans that the waiting entries end.

        What others have stored in between, or before this machine had the run, is read from the journal. The spans that
        it ends are theirs, unless another thread of this process is just storing it, and is late.
        """
        spans, found = run.spans, []
        waiting = {entry.seq: entry for entry in run.waiting if entry.seq >= spans.following}
        run.waiting = []
        if not waiting:
            return []
        last = max(waiting)
        entries = [waiting[seq] for seq in sorted(waiting)]
        if len(entries) < last + 1 - spans.following:
            entries = [entry for entry in self._journal.read(name, spans.following) if entry.seq <= last]
        for entry in entries:
            ended = spans.add(_record(entry))
            if entry.seq in waiting:
                found += ended
            elif entry.digest in self.mine:
                self.mine.discard(entry.digest)
                found += ended
        return found

    def outline(self, digest: str) -> Outline:
        """Return the outline of a program; raises JournalError if its document is missing."""
        found = self._outlines.get(digest)
        if found is None:
            document = self._journal.document(digest)
            if document is None:
                raise JournalError(f"the document `{digest[:16]}…` is missing")
            found = outline_of(document)
            if len(self._outlines) >= MAX_OUTLINES:
                self._outlines.clear()
            self._outlines[digest] = found
        return found


def _record(entry: Entry) -> Record:
    """Return the record in an entry that a machine has written or checked: nothing is checked again here."""
    data = json.loads(entry.record.decode())
    return Record(entry.seq, data["kind"], data["body"], data["note"], data["at"], data["prev"])
