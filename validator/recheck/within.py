"""A program as the rules of one of its bodies see it."""

from __future__ import annotations

from typing import Any

from stepward.validator.recheck.reading import Reading


class Within:
    """A program, of which selectors see only the steps of one body."""

    def __init__(self, reading: Reading, owner: int) -> None:
        self._reading = reading
        inside = reading.layout.inside(owner)
        self.position = {name: step for name, step in reading.position.items() if step in inside}
        self.parts = tuple(hit for hit in reading.parts if hit.step in inside)
        self.tool_calls = tuple(hit for hit in reading.tool_calls if hit.step in inside)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)
