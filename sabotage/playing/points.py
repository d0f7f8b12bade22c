"""The points at which a process may be stopped: before and after each call of its store, and of each effect."""

from __future__ import annotations

from collections.abc import Callable


class Killed(BaseException):
    """The process is dead. No `except Exception` of machine or tool catches this, and nothing runs after it."""


class Points:
    """Counts the points that a process passes, and kills it at one of them.

    `target` is the number of the point, counted from 0; None for a process that lives. `passed` names the points.
    """

    def __init__(self, target: int | None = None, on_pass: Callable[[str], None] | None = None) -> None:
        self.target = target
        self.passed: list[str] = []
        self.is_dead = False
        self._on_pass = on_pass

    async def pass_by(self, name: str) -> None:
        """Pass a point. Raises Killed at the target and at every point after it: a dead process does nothing."""
        if self.is_dead:
            raise Killed(name)
        if len(self.passed) == self.target:
            self.is_dead = True
            if self._on_pass is not None:
                self._on_pass(f"the process is killed {name}")
            raise Killed(name)
        self.passed.append(name)
