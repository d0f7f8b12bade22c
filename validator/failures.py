"""Internal errors of a check: it records each of them, goes on with the other parts, and reports it as SW903.

A check is made of parts: the rules, each property, the fixes, the reports. An internal error ends the part in which it
happens and nothing else. A part that the clock stops is no internal error: it is not done, and SW408 says so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from stepward.validator.engine.clock import OutOfTime
from stepward.validator.reasons import UnknownReason

if TYPE_CHECKING:
    from stepward.validator.engine.watch import Watch

T = TypeVar("T")

CODE: Final = "SW903"

REPORT_IT: Final = "this is a bug in Stepward: please report it, with the traceback of `STEPWARD_DEBUG=1`"

BROKEN: Final = "report the internal error, which SW903 shows; until it is fixed this stays unknown"

_LONGEST: Final = 300
"""Characters of an exception's message that are reported."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An internal error: the part of the check that it ended, the exception in words, its location and traceback."""

    part: str
    error: str
    place: str
    traceback: str = ""


class Failures:
    """Collects the internal errors of one check. `passing` are exceptions that the caller handles."""

    def __init__(self, *passing: type[Exception]) -> None:
        self.passing = passing
        self.found: list[Failure] = []
        self.watch: Watch | None = None
        """Stops the parts that exceed the time limit of the check."""

    def attempt(self, part: str, work: Callable[[], T], otherwise: Callable[[UnknownReason], T]) -> T:
        """Return the result of `work`, or that of `otherwise` for the reason why an error or the clock ended `work`."""
        watch = self.watch
        if watch is not None and watch.is_overdue:
            return otherwise(UnknownReason(watch.clock.words, watch.clock.help))
        is_armed = watch is not None and watch.is_armed
        try:
            return work() if watch is None else watch.guarded(work)
        except OutOfTime as error:
            if watch is not None:
                watch.is_armed = is_armed
            return otherwise(UnknownReason(str(error), error.help))
        except Exception as error:
            if isinstance(error, self.passing):
                raise
            if watch is not None and watch.clock.has_struck:
                # Stopped code may raise anything: Z3 raises `canceled` wherever it is interrupted.
                return otherwise(UnknownReason(watch.clock.words, watch.clock.help))
            return otherwise(UnknownReason(self.note(part, error), BROKEN))

    def spared(self, work: Callable[[], T]) -> T:
        """Return the result of `work`; the watch does not stop it, because it has bounds of its own."""
        return work() if self.watch is None else self.watch.spared(work)

    def collect(self, part: str, items: Callable[[], Iterable[T]]) -> list[T]:
        """Return all items, or those before an error or the end of the time."""
        found: list[T] = []

        def work() -> None:
            found.extend(items())

        self.attempt(part, work, lambda _: None)
        return found

    def gather(self, part: str, items: Callable[[], Iterable[T]]) -> list[T]:
        """Return all items, or those before an error. Each item has an `attempt` of its own: none is left out at the
        end of the time."""
        found: list[T] = []

        def work() -> None:
            found.extend(items())

        try:
            self.spared(work)
        except Exception as error:
            if isinstance(error, self.passing):
                raise
            self.note(part, error)
        return found

    def note(self, part: str, error: Exception) -> str:
        """Record an internal error, and return it as the reason why the part is not done."""
        failure = _failure(part, error)
        if failure not in self.found:
            self.found.append(failure)
        return f"internal error: {failure.error}"


def _failure(part: str, error: Exception) -> Failure:
    """Return an internal error in words, also where little memory or stack is left."""
    name = type(error).__name__
    try:
        text = str(error)
        words = f"{name}: {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}" if text else name
        frames = traceback.extract_tb(error.__traceback__, -1)
        place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "nowhere"
        return Failure(part, words, place, "".join(traceback.format_exception(error)))
    except Exception:
        return Failure(part, name, "its place is not known")
