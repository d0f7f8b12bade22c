"""A program as the rules of one of its bodies see it."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepward.validator.recheck.parts import Match
    from stepward.validator.recheck.reading import Reading


class BodyView:
    """A program in which selectors match only the steps of one body."""

    def __init__(self, reading: Reading, owner: int) -> None:
        self._reading = reading
        inside = reading.layout.inside(owner)
        ids = {reading.steps[number].id: number for number in reversed(inside)}
        self.position = {name: step for name, step in ids.items() if reading.position.get(name) == step}
        self.parts = _between(reading.parts, inside)
        self.tool_calls = _between(reading.tool_calls, inside)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)


def _between(parts: tuple[Match, ...], steps: range) -> tuple[Match, ...]:
    """Return the parts of a stretch of steps; parts are in the order of their steps."""
    first, last = (bisect_left(parts, end, key=lambda hit: hit.step) for end in (steps.start, steps.stop))
    return parts[first:last]
