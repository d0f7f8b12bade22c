"""Sequences without an end, and the refusal of what asks for all their items; `endless.py` makes them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.values import MeteredValue

Next = Generator[Any, Any, tuple[Any, Any]]


class Endless(MeteredValue):
    """An endless sequence; `step` gets the context and the state, and gives an item and the state behind it."""

    __slots__ = ("state", "step")

    def __init__(self, ctx: Any, step: Callable[[Any, Any], Next], state: Any) -> None:
        super().__init__(ctx.meter)
        self.step = step
        self.state = state
        self.hold(200)

    def in_words(self) -> str:
        """Return what the value is."""
        return "an endless sequence"

    def __eq__(self, other: object) -> bool:
        raise refused("=")

    def __hash__(self) -> int:
        raise refused("=")

    def next(self, ctx: Any) -> Next:
        """Return the first item, and the sequence behind it."""
        ctx.meter.step()
        item, state = yield from self.step(ctx, self.state)
        return item, Endless(ctx, self.step, state)


def refused(function: str) -> Fault:
    """Return the fault of a function that was asked for all items of an endless sequence."""
    return Fault(
        "type_error",
        f"`{function}` needs all items, and the sequence has no end",
        "take some first: `(take 10 xs)`, `(take-while pred xs)`",
        function=function,
    )
