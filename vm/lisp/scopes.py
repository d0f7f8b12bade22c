"""Names and their slots: which value of which function a name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from stepward.vm.lisp.forms import Form
from stepward.vm.lisp.nodes import Node


class Unit:
    """One function while it is analysed: its slots, and the values that it takes from the function around it."""

    def __init__(self, around: Unit | None) -> None:
        self.around = around
        self.size = 0
        self.targets: list[int] = []
        self._scopes: list[dict[str, int]] = [{}]
        self._captures: dict[str, tuple[int, int]] = {}

    @property
    def captures(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a slot of the function around this one and a slot of this one."""
        return tuple(self._captures.values())

    def slot(self) -> int:
        """Return a new slot without a name."""
        self.size += 1
        return self.size - 1

    def name(self, name: str, slot: int) -> None:
        """Give a slot a name in the innermost scope."""
        self._scopes[-1][name] = slot

    def find(self, name: str) -> int | None:
        """Return the slot of a name, taken from the function around this one if need be; None if nothing has it."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name in self._captures:
            return self._captures[name][1]
        outer = self.around.find(name) if self.around is not None else None
        if outer is None:
            return None
        inner = self.slot()
        self._captures[name] = (outer, inner)
        return inner

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are given inside are known only there."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def target(self, count: int) -> Iterator[None]:
        """A `recur` inside goes to this place, with so many values."""
        self.targets.append(count)
        try:
            yield
        finally:
            self.targets.pop()


class Analysing(Protocol):
    """What turns forms into nodes: the function that it is in, and the node of a form."""

    unit: Unit

    def node(self, form: Form, *, tail: bool = False) -> Node:
        """Return the node of a form."""
        ...
