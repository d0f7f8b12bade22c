"""Follows the runs of one journal: reads what it has not seen, and gives the spans that new records end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from stepward.vm.journal.records import read_record
from stepward.vm.journal.store import Entry, Journal, JournalError
from stepward.vm.telemetry.outline import Outline, outline_of
from stepward.vm.telemetry.spans import Span, Spans

MAX_RUNS: Final = 4_096
"""Maximal number of runs that are followed at a time; a run that was dropped is read again from the journal."""

MAX_OUTLINES: Final = 256


class Followed:
    """The runs of one journal, for a machine whose entries come in; they may come from several threads."""

    def __init__(self, journal: Journal, *, values: bool) -> None:
        self.mine: set[bytes] = set()
        """The digests of entries that this process is just writing."""
        self._journal = journal
        self._values = values
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, Spans] = OrderedDict()
        self._outlines: dict[str, Outline] = {}

    def follow(self, run: str, entries: Sequence[Entry]) -> list[Span]:
        """Return the spans that new entries of a run end.

        Records that were stored before, by anybody, are read from the journal where this object has not seen them. The
        spans that they end are returned only if this process is just writing them: another thread may come first.
        Raises JournalError if the journal can't be read, KeyError or TypeError for records of no machine.
        """
        with self._lock:
            spans = self._runs.pop(run, None) or Spans(run, self.outline, values=self._values)
            first, found = entries[0].seq, []
            missed = self._journal.read(run, spans.following) if spans.following < first else []
            for entry in (*(one for one in missed if one.seq < first), *entries):
                if entry.seq == spans.following:
                    ended = spans.add(read_record(entry))
                    found += ended if entry.digest in self.mine else []
            if not spans.is_idle:
                self._runs[run] = spans
                if len(self._runs) > MAX_RUNS:
                    self._runs.popitem(last=False)
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
