"""Product search: the program's graph beside a small monitor, explored together.

`explore` visits every pair of step and monitor state that some path of edges reaches. It over-approximates the runs
of the program: it takes both branches of a condition. So

- no reachable pair is bad: the property is proved, with no solver, and the visited pairs are the certificate;
- a bad pair is reachable by moves that are certainly possible (no condition decides, nothing may be undefined, no
  visit is used up): the property is violated, and the path shows how;
- otherwise conditions decide, and this layer says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from stepward.validator.findings import Move
from stepward.vm.language.flow import END, Flow, Transition
from stepward.vm.language.steps import EndStep

State = Hashable

Fate = Literal["succeeds", "times out", "fails", "unstarted"]
"""What becomes of a call: `times out` is with its fallback, `unstarted` that it fails before it starts."""

Fates = Mapping[int | None, Fate]
"""The fates of a step's call, under None, and of its sub-steps, by their positions; empty where they are not known."""

NOT_TOLD: Final[Fates] = {}

USED_UP: Final = "has used up its visits"
"""What a path says of a step that was not started again."""

MAX_PAIRS: Final = 4_000_000
"""Pairs of step and monitor state that one search may visit."""


class Monitor(Protocol):
    """Watches a run, and remembers just what its property needs. `asks_ends` says whether `end` can be bad at all."""

    asks_ends: bool

    def start(self) -> State:
        """Return the state before the run."""
        ...

    def enter(self, step: int, state: State) -> str | None:
        """Return why it is bad that the step starts in this state (a kind of violation), or None."""
        ...

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        """Return what has to start for `enter` to be bad: alternatives, each of parts of the step that all do."""
        ...

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[State]:
        """Return the states that are possible after the step was left this way."""
        ...

    def end(self, step: int, state: State, way: Transition) -> str | None:
        """Return why it is bad that the run ends this way in this state, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Bad:
    """A violation that a search met: its kind, the step at which it stands, and the path there."""

    kind: str
    step: int
    path: tuple[Move, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a search found: the first bad pair of each kind and step, and the pairs that it visited.

    `is_complete` is false when the search gave up at MAX_PAIRS; `is_counted` says that visits are counted in them.
    """

    bad: dict[tuple[str, int], Bad]
    visited: list[tuple[int, State]]
    is_complete: bool
    is_counted: bool = False

    @property
    def pairs(self) -> int:
        """How many pairs were visited."""
        return len(self.visited)


Passable = Callable[[int, Transition], bool]


def explore(flow: Flow, monitor: Monitor, passable: Passable, *, limit: int = MAX_PAIRS) -> Exploration:
    """Visit, breadth first, every pair that `passable` transitions reach from the entry.

    Unsatisfiable iff `bad` is empty: no path of such transitions violates the monitor's property.
    """
    search = _Search(flow, monitor)
    search.visit((0, monitor.start()), None)
    position = 0
    while position < len(search.order):
        if len(search.order) > limit:
            return Exploration(search.bad, search.order, is_complete=False)
        search.expand(position, passable)
        position += 1
    return Exploration(search.bad, search.order, is_complete=True)


MAX_COUNTED_PAIRS: Final = 20_000
"""Pairs that a search with visits counted may visit before it goes on without counting."""


def explore_counted(flow: Flow, monitor: Monitor, passable: Passable) -> Exploration:
    """Explore with the visits of `max_visits` counted where that is cheap, so that bounds are used up when they are.

    Without counting a step may use up its visits at any time: more is possible then, never less.
    """
    counting = counted(flow, monitor)
    if counting is not None:
        found = explore(flow, counting, passable, limit=MAX_COUNTED_PAIRS)
        if found.is_complete:
            return replace(found, is_counted=True)
    return explore(flow, monitor, passable)


def counted(flow: Flow, monitor: Monitor) -> Monitor | None:
    """Return a monitor that counts the visits of every bounded step beside; None where no step has `max_visits`."""
    bounds = {
        number: step.max_visits
        for number, step in enumerate(flow.steps)
        if not isinstance(step, EndStep) and step.max_visits is not None
    }
    return _Counting(flow, monitor, bounds) if bounds else None


class _Counting:
    """Another monitor, with the visits of every bounded step counted beside its state."""

    def __init__(self, flow: Flow, monitor: Monitor, bounds: dict[int, int]) -> None:
        self.monitor = monitor
        self.asks_ends = monitor.asks_ends
        self.bounds = bounds
        self.slot = {step: number for number, step in enumerate(bounds)}
        self.routed = {
            step for step in bounds if any(way.kind == "visits" and way.to != END for way in flow.transitions[step])
        }

    def start(self) -> State:
        return self.monitor.start(), (0,) * len(self.bounds)

    def enter(self, step: int, state: State) -> str | None:
        inner, counts = _split(state)
        if step in self.slot and counts[self.slot[step]] >= self.bounds[step]:
            return None  # the step is not started
        return self.monitor.enter(step, inner)

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        return self.monitor.culprits(step, _split(state)[0])

    def leave(self, step: int, state: State, way: Transition, fates: Fates = NOT_TOLD) -> Iterator[State]:
        inner, counts = _split(state)
        if step in self.slot:
            slot, bound = self.slot[step], self.bounds[step]
            if not self._applies(way, counts[slot], bound, has_route=step in self.routed):
                return
            counts = (*counts[:slot], counts[slot] + 1, *counts[slot + 1 :])
        for after in self.monitor.leave(step, inner, way, fates):
            yield after, counts

    @staticmethod
    def _applies(way: Transition, count: int, bound: int, *, has_route: bool) -> bool:
        if count < bound:
            return way.kind != "visits"
        goes_on = has_route and count == bound
        return way.kind == "visits" and (way.to != END) is goes_on

    def end(self, step: int, state: State, way: Transition) -> str | None:
        return self.monitor.end(step, _split(state)[0], way)


def _split(state: State) -> tuple[State, tuple[int, ...]]:
    assert isinstance(state, tuple)
    inner, counts = state
    return inner, counts


class _Search:
    def __init__(self, flow: Flow, monitor: Monitor) -> None:
        self.flow = flow
        self.monitor = monitor
        self.order: list[tuple[int, State]] = []
        self.parents: dict[tuple[int, State], tuple[int, Transition] | None] = {}
        self.bad: dict[tuple[str, int], Bad] = {}

    def visit(self, pair: tuple[int, State], parent: tuple[int, Transition] | None) -> None:
        if pair not in self.parents:
            self.parents[pair] = parent
            self.order.append(pair)

    def expand(self, position: int, passable: Passable) -> None:
        step, state = self.order[position]
        kind = self.monitor.enter(step, state)
        if kind is not None:
            self.note(kind, step, position, None)
        for way in self.flow.transitions[step]:
            if (way.to == END and not self.monitor.asks_ends) or not passable(step, way):
                continue
            for after in self.monitor.leave(step, state, way):
                if way.to == END:
                    kind = self.monitor.end(step, after, way)
                    if kind is not None:
                        self.note(kind, step, position, way)
                elif way.to >= 0:
                    self.visit((way.to, after), (position, way))

    def note(self, kind: str, step: int, position: int, last: Transition | None) -> None:
        if (kind, step) not in self.bad:
            moves = list(self.moves(position, last))[::-1]
            self.bad[kind, step] = Bad(kind, step, tuple(moves), len(moves))

    def moves(self, position: int, last: Transition | None) -> Iterator[Move]:
        """Yield the path to a pair backwards."""
        way = last
        while True:
            step, _ = pair = self.order[position]
            yield Move(self.flow.steps[step].id, how(way) if way is not None else "starts")
            parent = self.parents[pair]
            if parent is None:
                return
            position, way = parent


def how(way: Transition) -> str:
    """Return what became of a step, in words."""
    if way.kind == "branch":
        return f"case {way.branch}" if isinstance(way.branch, int) else f"takes {way.branch}"
    words = {
        "success": "succeeds",
        "fallback": "times out, fallback",
        "skipped": "fails, skipped",
        "failed": "fails",
        "uncovered": "takes no branch",
        "visits": USED_UP,
        "end": "ends the run",
    }
    return words[way.kind]
