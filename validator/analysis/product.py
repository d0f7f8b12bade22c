"""Product search: the program's graph and a small monitor, explored together.

`explore` visits every pair of step and monitor state that some path of edges reaches. It over-approximates the runs
of the program: it takes both branches of a condition. So

- no reachable pair is bad: the property is proved, with no solver, and the visited pairs are the certificate;
- a bad pair is reachable by transitions that are certainly possible (no condition decides, nothing may be undefined, no
  visit is used up): the property is violated, and the path shows how;
- otherwise conditions decide, and this layer has no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from stepward.validator.findings import Move
from stepward.vm.language.flow import Flow
from stepward.vm.language.layout import Body
from stepward.vm.language.transitions import END, Kind, Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.lengths import Length

State = Hashable

CallOutcome = Literal["succeeds", "times out", "fails", "unstarted"]
"""The outcome of a call: `times out` continues with its fallback, `unstarted` is a failure before its start."""

CallOutcomes = Mapping[int | None, CallOutcome]
"""The outcomes of a step's own call (key None) and of its sub-steps (by position); empty where they are not known."""

NOT_KNOWN: Final[CallOutcomes] = {}

USED_UP: Final = "has used up its visits"
"""The words of a path for a step that was not started again."""

ON_TO_ITEM: Final = "goes on to an item"
"""The words of a path for a stage at which the next item starts."""

TRIES_AGAIN: Final = "tries again"
"""The words of a path for a stage at which another attempt of a step with items begins."""

MAX_PAIRS: Final = 4_000_000
"""Pairs of step and monitor state that one search may visit."""


class Monitor:
    """An automaton that observes a run and remembers what its property needs; this one never reports a violation.

    `asks_ends` says whether `end` may report where a run ends, `closing` behind which stages it may where an item ends
    there, and `is_counting` whether states have counts. `watched` are the steps that may be reported on entry, or that
    change the state; None when any step may. `home` is a body that has all of them and is always entered in the state
    of the start, None where there is no such body.
    """

    asks_ends = False
    closing: frozenset[int] = frozenset()
    is_counting = False
    watched: Collection[int] | None = None
    home: Body | None = None

    def start(self) -> State:
        """Return the state before the run."""
        return 0

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        """Return the kind of violation if the step starts in this state, or None."""
        return None

    def violating_starts(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        """Return the alternatives that make `enter` report: each is a set of parts of the step that start together."""
        return ((),)

    def leave(
        self,
        step: int,  # noqa: ARG002
        state: State,
        transition: Transition,  # noqa: ARG002
        call_outcomes: CallOutcomes = NOT_KNOWN,  # noqa: ARG002
    ) -> Iterable[State]:
        """Return the states that are possible after this transition of the step."""
        return (state,)

    def end(self, step: int, state: State, transition: Transition) -> str | None:  # noqa: ARG002
        """Return the kind of violation if the run, or an item, ends by this transition in this state, or None."""
        return None

    def closes(self, transition: Transition) -> bool:
        """Return whether a transition ends what a rule of a body is about: an item, a branch or a call."""
        return transition.to in self.closing and transition.ending is not None


class Choice:
    """A subset of the transitions of a program: those that `passes` accepts.

    At every step outside of `checked`, all transitions to other steps belong to it. `lengths` are those of the lists of
    for_each steps, by the position of the step.
    """

    def __init__(
        self,
        flow: Flow,
        passes: Callable[[int, Transition], bool],
        checked: Iterable[int],
        lengths: Mapping[int, Length],
    ) -> None:
        self.flow = flow
        self.passes = passes
        self._checked = checked
        self.lengths = lengths

    @cached_property
    def following(self) -> Mapping[int, Sequence[int]] | Sequence[Sequence[int]]:
        """The steps that may follow each step by these transitions."""
        targets = list(self.flow.successors)
        for number in self._checked:
            transitions = self.flow.transitions[number]
            passed = (one.to for one in transitions if one.to >= 0 and self.passes(number, one))
            targets[number] = tuple(dict.fromkeys(passed))
        return targets


class Inside(Choice):
    """The transitions of another choice that do not leave a body."""

    def __init__(self, choice: Choice, body: Body) -> None:
        self.steps = range(body.first, body.end)
        super().__init__(choice.flow, self._stays, (), choice.lengths)
        self._whole = choice

    def _stays(self, step: int, transition: Transition) -> bool:
        return transition.to in self.steps and self._whole.passes(step, transition)

    @cached_property
    def following(self) -> Mapping[int, Sequence[int]]:
        """The steps of the body that may follow each of its steps by these transitions."""
        following = self._whole.following
        return {step: [to for to in following[step] if to in self.steps] for step in self.steps}


class Bad:
    """A violation that the search found: its kind, its step, and the path to it."""

    def __init__(self, kind: str, step: int, exploration: Exploration, number: int, last: Transition | None) -> None:
        self.kind = kind
        self.step = step
        self._exploration = exploration
        self._end = number, last

    @cached_property
    def path(self) -> tuple[Move, ...]:
        """The moves from the entry to the violation. Computed on demand, since most are never used."""
        return tuple(self._exploration.moves(*self._end))[::-1]


class Exploration:
    """The reached pairs of step and monitor state, numbered in the order of their discovery.

    `steps` and `states` are the two halves of the pairs, `out` the successors of each pair. `marks` are the violations:
    the number of a pair, the kind, and the transition by which the run ends, None for a violation on entry.
    `is_complete` is false when the search stopped at its limit; `is_counted` says that the pairs include counts of
    visits.
    """

    def __init__(self, flow: Flow, monitor: Monitor, passable: Choice) -> None:
        self.flow = flow
        self.monitor = monitor
        self.passable = passable
        self.is_counted = monitor.is_counting
        self.is_complete = False
        self.steps: list[int] = []
        self.states: list[State] = []
        self.out: list[Sequence[int]] = []
        self.marks: list[tuple[int, str, Transition | None]] = []
        self._numbers: dict[State, dict[int, int]] = {}
        self._known_pairs: list[dict[int, int]] = []
        """For each pair, the pairs of its state by their step."""

    @property
    def pairs(self) -> int:
        """The number of pairs that were visited."""
        return len(self.steps)

    @cached_property
    def visited(self) -> list[tuple[int, State]]:
        """The pairs that were visited, in order."""
        return list(zip(self.steps, self.states, strict=True))

    @cached_property
    def bad(self) -> dict[tuple[str, int], Bad]:
        """The first violation of each kind at each step."""
        first: dict[tuple[str, int], Bad] = {}
        for number, kind, transition in self.marks:
            step = self.steps[number]
            if (kind, step) not in first:
                first[kind, step] = Bad(kind, step, self, number, transition)
        return first

    @cached_property
    def before(self) -> list[list[int]]:
        """The predecessors of each pair."""
        result: list[list[int]] = [[]]
        for number, targets in enumerate(self.out):
            for target in targets:
                if target == len(result):  # pairs are numbered in the order of their discovery
                    result.append([number])
                else:
                    result[target].append(number)
        return result

    def number(self, step: int, state: State) -> int | None:
        """Return the number of a pair, or None if it was not visited."""
        return self._numbers.get(state, {}).get(step)

    def may_end(self, step: int) -> bool:
        """Return whether a passable transition of a step ends the run."""
        return any(one.to == END and self.passable.passes(step, one) for one in self.flow.transitions[step])

    def transitions(self, number: int) -> Iterator[tuple[int | None, Transition]]:
        """Yield the transitions of a pair, each with its target pair; None where the run ends."""
        step, state = self.steps[number], self.states[number]
        for transition in self.flow.transitions[step]:
            if not self.passable.passes(step, transition):
                continue
            if transition.to == END and not self.monitor.asks_ends:
                yield None, transition
                continue
            for after in self.monitor.leave(step, state, transition):
                if transition.to == END:
                    yield None, transition
                elif transition.to >= 0:
                    yield self.number(transition.to, after), transition

    def moves(self, number: int, last: Transition | None) -> Iterator[Move]:
        """Yield the path to a pair in reverse order, starting with the transition `last` from it."""
        transition = last
        while True:
            yield moved(self.flow, self.steps[number], transition)
            if number == 0:
                return
            before = self.before[number][0]  # the pair that discovered it
            transition = next(transition for target, transition in self.transitions(before) if target == number)
            number = before

    # -- the search ------------------------------------------------------------------------------------------------

    def search(self, limit: int, starts: Iterable[int] = (0,)) -> None:
        """Visit all pairs breadth first, from some steps in the state of the start; stop beyond `limit`."""
        for step in starts:
            self._visit(step, self.monitor.start())
        following, is_watched = self.passable.following, self._is_watched
        for number, step in enumerate(self.steps):  # the list grows during the loop
            if len(self.steps) > limit:
                return
            state = self.states[number]
            if is_watched[step]:
                self.out.append(self._expand(number, step, state))
            else:  # the state stays; one that counts visits is long, so it is not looked for again
                known = self._known_pairs[number]
                self.out.append([self._number(target, state, known) for target in following[step]])
        self.is_complete = True

    @cached_property
    def _is_watched(self) -> bytearray:
        """For each step, 1 if the monitor must be asked. Most steps of a large program do not concern it."""
        size, watched = len(self.flow.steps), self.monitor.watched
        if watched is None:
            return bytearray(b"\1") * size
        result = bytearray(size)
        for step in watched:
            result[step] = 1
        if self.monitor.asks_ends:
            for step, transitions in enumerate(self.flow.transitions):
                if any(transition.to == END for transition in transitions):
                    result[step] = 1
        for step, transitions in enumerate(self.flow.transitions) if self.monitor.closing else ():
            if any(map(self.monitor.closes, transitions)):
                result[step] = 1
        return result

    def _expand(self, number: int, step: int, state: State) -> list[int]:
        """Ask the monitor about a pair, and visit its successors."""
        monitor = self.monitor
        kind = monitor.enter(step, state)
        if kind is not None:
            self.marks.append((number, kind, None))
        successors: dict[int, None] = {}
        for transition in self.flow.transitions[step]:
            if (transition.to == END and not monitor.asks_ends) or not self.passable.passes(step, transition):
                continue
            for after in monitor.leave(step, state, transition):
                if transition.to == END or monitor.closes(transition):
                    kind = monitor.end(step, after, transition)
                    if kind is not None:
                        self.marks.append((number, kind, transition))
                if transition.to >= 0:
                    successors[self._visit(transition.to, after)] = None
        return list(successors)

    def _visit(self, step: int, state: State) -> int:
        known = self._numbers.get(state)
        if known is None:
            known = self._numbers[state] = {}
        return self._number(step, state, known)

    def _number(self, step: int, state: State, known: dict[int, int]) -> int:
        """Return the number of a pair; one that is new gets the next. `known` are the known pairs of its state."""
        pair = known.get(step)
        if pair is None:
            pair = known[step] = len(self.steps)
            self.steps.append(step)
            self.states.append(state)
            self._known_pairs.append(known)
        return pair


def explore(flow: Flow, monitor: Monitor, passable: Choice, *, limit: int = MAX_PAIRS) -> Exploration:
    """Visit, breadth first, every pair that `passable` transitions reach from the entry.

    If `bad` is empty, no path of such transitions violates the monitor's property.
    """
    exploration = Exploration(flow, monitor, passable)
    exploration.search(limit)
    return exploration


def clear_at_home(flow: Flow, monitor: Monitor, passable: Choice) -> int | None:
    """Return the number of pairs of a monitor in its home, if none of them is bad; None if one is, or it has no home.

    A rule of a body concerns one item after another, so for each the whole program need not be searched.
    """
    home = monitor.home
    if home is None:
        return None
    exploration = Exploration(flow, monitor, Inside(passable, home))
    exploration.search(MAX_PAIRS, (home.first, home.next, *([home.failed] if home.failed is not None else [])))
    return exploration.pairs if exploration.is_complete and not exploration.marks else None


def how(transition: Transition) -> str:
    """Return the words for a transition in a path."""
    if transition.kind == "branch":
        return f"case {transition.branch}" if isinstance(transition.branch, int) else f"takes {transition.branch}"
    return _WORDS[transition.kind]


_WORDS: Final[dict[Kind, str]] = {
    "success": "succeeds",
    "fallback": "times out, fallback",
    "skipped": "fails, skipped",
    "failed": "fails",
    "uncovered": "takes no branch",
    "visits": USED_UP,
    "end": "ends the run",
    "item": ON_TO_ITEM,
    "again": TRIES_AGAIN,
}


def moved(flow: Flow, step: int, transition: Transition | None, error: str = "") -> Move:
    """Return the move of a path that leaves a step, or that ends at its start; `error` names why it failed."""
    if transition is None:
        return Move(flow.steps[step].id, "starts")
    is_start = transition.kind == "success" and (step in flow.layout.bodies or step in flow.layout.forks)
    is_close = transition.kind == "end" and transition.to != END
    return Move(flow.steps[step].id, how(transition), error, is_start, is_close)
