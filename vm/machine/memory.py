"""What branches do next, remembered for whoever decides often about one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepward.vm.machine.events import Action, Calls, Event
from stepward.vm.machine.forks import number_of
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Branch, Fork, State

UnderWay = frozenset[tuple[FrameName, int]]
"""Calls that go on in this process, or wait to be tried again: the frame of each, and its position in its step."""


class Memory:
    """What the branches that go on do next: each would say it again until something has changed that it reads.

    `branches` has each branch as it was when it was asked, by number; `events` and `calls` have what they do next, if
    anything. `inner` are the memories of branches with branches of their own.
    """

    __slots__ = ("_joined", "_read", "_running", "_under_way", "branches", "calls", "events", "inner")

    def __init__(self) -> None:
        self.branches: dict[int, Branch] = {}
        self.events: dict[int, Event] = {}
        self.calls: dict[int, Calls] = {}
        self.inner: dict[int, Memory] = {}
        self._joined: tuple[State, Event] | None = None
        self._read: tuple[Any, ...] = ()
        self._running: tuple[int, ...] = ()
        self._under_way: UnderWay = frozenset()

    def outdated(self, plan: Plan, state: State, fork: Fork, under_way: UnderWay) -> list[int]:
        """Return the branches that have to be asked, in their order; forget those that have ended.

        A branch reads its own state, what rules, tokens and costs have come to in the run, and which of its calls are
        under way.
        """
        read = (state.monitors, state.tokens, state.cost)
        if read != self._read:
            self._read = read
            self.branches.clear()
        if under_way != self._under_way:
            depth = len(state.frame)
            for frame, _ in under_way ^ self._under_way:
                number = number_of(plan, fork, frame[depth][3]) if len(frame) > depth else None
                if number is not None:
                    self.branches.pop(number, None)
            self._under_way = under_way
        running, branches, known_branches = fork.running, fork.branches, self.branches
        if running is not self._running:
            for number in set(self._running).difference(running):
                self.forget(number)
            self._running = running
        found = []
        for number in running:
            if known_branches.get(number) is not branches[number]:
                found.append(number)
        return found

    def keep(self, number: int, branch: Branch, action: Action) -> None:
        """Remember what a branch does next."""
        self.branches[number] = branch
        self.events.pop(number, None)
        self.calls.pop(number, None)
        if type(action) is Event:
            self.events[number] = action
        elif type(action) is Calls:
            self.calls[number] = action

    def join_of(self, state: State, join: Callable[[], Event]) -> Event:
        """Return the event that joins the branches in a state; who drives the run asks twice for it."""
        if self._joined is None or self._joined[0] is not state:
            self._joined = state, join()
        return self._joined[1]

    def forget(self, number: int) -> None:
        """Forget a branch that has ended."""
        for known in (self.branches, self.events, self.calls, self.inner):
            known.pop(number, None)

    def next_event(self, starting: Sequence[int]) -> Event | None:
        """Return the event that comes next where nothing has changed that branches read; None if there is none, or if
        one of the branches that may start comes first."""
        first = min(self.events, default=None)
        return None if first is None or (starting and min(starting) < first) else self.events[first]
