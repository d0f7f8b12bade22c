"""The start of a call after siblings: the state in which it starts has the outcomes of those on which it depends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.engine.systems.joint import FALLS_BACK, SUCCEEDS, Guards
from stepward.validator.engine.systems.moves import Moves
from stepward.validator.engine.systems.system import Assign
from stepward.vm.language.steps import Call


class Result(NamedTuple):
    """A result of a sibling after which the next call may start: its guards, and its assignments."""

    guards: Guards
    assigns: tuple[Assign, ...]
    sub: int
    outcome: CallOutcome


class CallAfterSiblings(NamedTuple):
    """A call, and the siblings before it in the order in which they start, each with its results.

    `starts` are the alternatives of guards under which the call starts behind them.
    """

    siblings: tuple[tuple[Result, ...], ...]
    starts: tuple[Guards, ...]


class Siblings:
    """The calls of a program that come behind siblings, each made on first use."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves
        self._known: dict[tuple[int, int], CallAfterSiblings] = {}

    def before(self, number: int, subs: tuple[int | None, ...]) -> CallAfterSiblings | None:
        """Return the call that starts behind siblings; None where it is no single one, or none is before it."""
        order = self.moves.facts.meaning.orders.get(number)
        sub = subs[0] if len(subs) == 1 else None
        if order is None or sub is None or not order.before[sub]:
            return None
        if (number, sub) not in self._known:
            line = [one for one in order.line if one in order.before[sub]]
            siblings = tuple(tuple(self._results(number, one)) for one in line)
            self._known[number, sub] = CallAfterSiblings(
                siblings, self.moves.starting.behind(number, sub, self._call(number, sub))
            )
        return self._known[number, sub]

    def _call(self, number: int, sub: int) -> Call:
        return self.moves.flow.steps[number].sub_steps[sub]

    def _results(self, number: int, sub: int) -> Iterator[Result]:
        call = self._call(number, sub)
        for guards in self.moves.starting.behind(number, sub, call):
            for outcome in (SUCCEEDS, FALLS_BACK) if self.moves.facts.falls_back(call) else (SUCCEEDS,):
                yield Result(guards, tuple(self.moves.left_with(call, outcome)), sub, outcome)
