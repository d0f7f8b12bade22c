"""The newest runs of a journal for any number of readers: each gets what has changed since it looked last."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.review.runs import row_of
from stepward.vm.machine.events import IN_DOUBT, RUNNING, SUSPENDED, UNFINISHED

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal, Row

MOST_RUNS: Final = 500
"""The newest runs that are listed."""

MOST_WAITING: Final = 100
"""The newest of those that wait, and of those that go on, which are listed even if many others came later."""

MOST_GONE: Final = 2_000
"""Runs that left the list, of which readers are told; who was away for longer gets the whole list."""

RATE_OVER: Final = 10.0
"""Seconds over which the rate of new runs is measured."""

RATE_AFTER: Final = 2.0
"""Seconds after which the rate is known, from the first look on, or from the first one after a pause."""


class Feed:
    """The runs of `journal`, as `look` has found them.

    `version` grows with every change. Memory is bounded, however many runs come: only the newest state of a run is
    kept, and old runs leave the list.
    """

    def __init__(self, journal: Journal, now: Callable[[], float] = time.monotonic) -> None:
        self.version = 0
        self.ended = 0
        """How many runs were seen to end."""
        self._journal = journal
        self._now = now
        self._rows: dict[str, tuple[Row, int]] = {}
        self._gone: deque[tuple[int, str]] = deque(maxlen=MOST_GONE)
        self._forgotten = 0
        self._came: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Read the list again, and return whether something has changed; raises JournalError."""
        found = {row.run: row for row in self._read()}
        with self._lock:
            return self._take(found)

    def _take(self, found: dict[str, Row]) -> bool:
        version = self.version + 1
        new = [row for row in found.values() if row.run not in self._rows]
        changed = [row for row in found.values() if row.run in self._rows and row != self._rows[row.run][0]]
        removed = [run for run in self._rows if run not in found]
        for row in (*new, *changed):
            before = self._rows.get(row.run)
            was_over = before is not None and before[0].status not in UNFINISHED
            self.ended += row.status not in UNFINISHED and not was_over
            self._rows[row.run] = row, version
        for run in removed:
            del self._rows[run]
            if len(self._gone) == MOST_GONE:
                self._forgotten = self._gone[0][0]
            self._gone.append((version, run))
        self._count(len(new))
        if new or changed or removed:
            self.version = version
            return True
        return False

    def _read(self) -> list[Row]:
        rows = self._journal.rows(limit=MOST_RUNS)
        if len(rows) < MOST_RUNS:
            return rows
        waiting = self._journal.rows((SUSPENDED, IN_DOUBT), limit=MOST_WAITING)
        running = self._journal.rows((RUNNING,), limit=MOST_WAITING)
        return [*waiting, *running, *rows]

    def _count(self, new: int) -> None:
        now = self._now()
        self._came.append((now, new))
        while self._came and self._came[0][0] < now - RATE_OVER:
            self._came.popleft()

    @property
    def rate(self) -> float | None:
        """New runs in a second, over the last seconds; None where nobody has looked for long enough to know.

        More than MOST_RUNS between two looks are not counted.
        """
        looks = list(self._came)
        if not looks or (seconds := looks[-1][0] - looks[0][0]) < RATE_AFTER:
            return None
        return round(sum(new for _, new in looks[1:]) / seconds, 1)  # those of the first look came before it

    def since(self, version: int) -> dict[str, Any]:
        """Return what a reader of `version` lacks, as JSON data.

        `all` says that the list is whole, and what the reader has is dropped. A row has the id, the program, the
        status, when it started, its number of records, and the start in seconds since the epoch.
        """
        with self._lock:
            return self._since(version)

    def _since(self, version: int) -> dict[str, Any]:
        is_whole = version < self._forgotten or not 0 <= version <= self.version
        rows = [row for row, changed in self._rows.values() if is_whole or changed > version]
        removed = [] if is_whole else [run for at, run in self._gone if at > version and run not in self._rows]
        waiting = sum(row.status in (SUSPENDED, IN_DOUBT) for row, _ in self._rows.values())
        going = sum(row.status == RUNNING for row, _ in self._rows.values())
        return {
            "all": is_whole,
            "runs": [[*row_of(row), row.seq + 1, row.started] for row in rows],
            "gone": removed,
            "waiting": waiting,
            "going": going,
            "rate": self.rate,
            "ended": self.ended,
        }
