"""Waits: a run, or one of its branches, rests until somebody says that the time is over ("Waiting")."""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from stepward.sabotage.reference.branches import Branches
from stepward.sabotage.reference.plain import NoValue, to_value
from stepward.sabotage.reference.run import Over
from stepward.sabotage.reference.templates import filled, names_in

_TIME: Final = re.compile(
    r"(\d\d\d\d)-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", flags=re.ASCII
)
_LONGEST: Final = 10 * 365 * 86_400
_LAST: Final = datetime(2200, 1, 1)
_FIRST: Final = datetime(1970, 1, 1)


class Resting(NamedTuple):
    """A wait that goes on: its step, visit and frame, and either how long it lasts or until when, in microseconds."""

    step: str
    visit: int
    frame: tuple[Any, ...]
    lasts: int | None
    until: int | None


class Waits(Branches):
    """A run that can wait. `now` is a time that has passed, in microseconds since 1970."""

    now = 0

    @property
    def resting(self) -> tuple[Resting, ...]:
        """The waits that go on."""
        return tuple(self._everywhere(lambda: [self._resting] if self._resting is not None else []))

    def let_pass(self, resting: Resting) -> None:
        """Let the time of a wait pass."""
        self._passed = resting
        self._go_on()

    def run_out(self) -> None:
        """End the run, because its time is over ("The time of a run")."""
        self._end(Over("BUDGET_EXCEEDED", "time"))

    def _end(self, over: Over) -> None:
        """End the run."""
        raise NotImplementedError

    _passed: Resting | None = None
    """The wait that is over, as somebody has just said."""

    def _go_on(self) -> None:
        """Go on with the run."""
        raise NotImplementedError

    def _wait(self, step: Any) -> Generator[None, None, None]:
        """Wait; raises CannotEvaluate or NoValue for what is no time."""
        lasts, until = self._asked_time(step)
        if not (lasts == 0 or (until is not None and until <= self.now)):
            self._resting = Resting(step.id, self._visits[step.id], self._frames, lasts, until)
            while self._passed != self._resting:
                self._heed_cancellation()
                self.status = "SUSPENDED"
                yield
            self._resting = self._passed = None
        self._change([])
        self._succeeded(step)

    def _asked_time(self, step: Any) -> tuple[int | None, int | None]:
        written = step.until if step.until is not None else step.seconds
        value = to_value(filled(written, self._data.read))
        if any(self._data.hidden_below(names) for names in names_in([written])):
            raise NoValue("it is sensitive")
        if step.until is not None:
            return None, _time(value)
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= _LONGEST:
            raise NoValue("no number of seconds")
        exact = Fraction(value) * 1_000_000
        return -(-exact.numerator // exact.denominator), None


def _time(value: Any) -> int:
    """Return a time of RFC 3339 in microseconds since 1970, rounded up; raises NoValue."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise NoValue("no time")
    *numbers, fraction, zone = found.groups()
    ahead = timedelta()
    if zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[4:])
        if hours > 23 or minutes > 59:
            raise NoValue("no time")
        ahead = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    try:
        whole = datetime(*map(int, numbers))  # type: ignore[arg-type]
    except ValueError:
        raise NoValue("no time") from None
    seconds = Fraction((whole - _FIRST) // timedelta(seconds=1) - ahead // timedelta(seconds=1))
    micros = (seconds + (Fraction(f"0.{fraction}") if fraction else 0)) * 1_000_000
    rounded = -(-micros.numerator // micros.denominator)
    if rounded > (_LAST - _FIRST) // timedelta(microseconds=1):
        raise NoValue("too late")
    return max(rounded, 1)
