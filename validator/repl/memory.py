"""What failed turns have done: a turn that is tried again does not repeat a call with the same site and arguments.

The site of a call is the text of its form, and which of the forms with this text it is. To find out which calls are
the same, the turn is run against the memory alone: it stops at the first call that nobody has made. All that it has
come to is known, so the gate is shown a program in which these calls are results, and not calls. A call behind that
looks in the memory when the run gets to it: the gate is shown both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from stepward.validator.repl.values import type_of
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import opened
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.types import same
from stepward.vm.lisp.compiling.document import Turn, read_turn
from stepward.vm.lisp.compiling.starting_point import StartingPoint
from stepward.vm.machine.apply import apply
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Calls
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.known import brings_output
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import State, before
from stepward.vm.machine.tools import ToolContext
from stepward.vm.values import FrozenMap, freeze

MAX_ROUNDS: Final = 50
"""Loops of one turn whose calls can be known."""


@dataclass(frozen=True, eq=False)
class Made:
    """A call that was made: its site, its tool and arguments, and its result as the run holds it."""

    site: tuple[str, int]
    tool: str
    args: Mapping[str, Any]
    result: Any


def calls_in(history: History, turn: Turn) -> list[Made]:
    """Return the calls of a run that have succeeded, in order."""
    found: list[Made] = []
    intended: dict[tuple[str, FrameName], Any] = {}
    state = before(history.plan)
    for event in history.events:
        body = event.body
        place = body.get("step", ""), body.get("frame", ())
        if event.kind == "intent":
            intended[place] = body["args"]
        elif brings_output(event):
            args = intended[place] if place in intended else _args(history.plan, state, place[0])
            tool = next(call.tool for call in history.plan.steps[state.at].calls if call.id == place[0])
            found.append(Made(turn.sites.sites[place[0]], tool, FrozenMap(opened(args)), body["output"]))
        state = apply(history.plan, state, event)
    return found


def _args(plan: Plan, state: State, step: str) -> Mapping[str, Any]:
    """Return the arguments of the call that a run makes next; those of a read are in no record."""
    action = decide(plan, state)
    assert isinstance(action, Calls), "the record of a call follows"
    return next(call.args or {} for call in action.calls if call.step == step)


class _Unknown(StepwardError):  # noqa: N818 - it is the end of what is known
    """Nobody has made this call."""


class _Memory:
    """Tools that answer from memory, each call of it once.

    `answered` are the places of the answers, `left` is the rest of the memory.
    """

    def __init__(self, calls_before: Iterable[Made], turn: Turn) -> None:
        self.left = list(calls_before)
        self._turn = turn
        self.answered: list[tuple[str, FrameName, Made]] = []

    def has(self, name: str) -> bool:  # noqa: ARG002 - as the machine calls it
        """Return that there is a tool of any name."""
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the result of the same call; raises _Unknown if there is none."""
        site = self._turn.sites.sites[context.step]
        for one in self.left:
            if (one.site, one.tool) == (site, name) and same(one.args, FrozenMap(freeze(dict(args)))):
                self.left.remove(one)
                self.answered.append((context.step, context.frame, one))
                return opened(one.result)
        raise _Unknown("nobody has made this call")


@dataclass(frozen=True)
class Recalled:
    """A turn without the calls that were made before: the program, and the results by the number of the call."""

    turn: Turn
    results: Mapping[int, Any] = field(default_factory=dict)


Inputs = Callable[[Turn, Mapping[int, Any]], Mapping[str, Any]]
"""Gives the inputs of a turn, from the results that are known."""


async def recalled(
    name: str, text: str, start: StartingPoint, calls_before: Iterable[Made], inputs: Inputs, facts: Policy
) -> Recalled:
    """Return a turn without the calls that were made before; raises a Fault for a text that can't be compiled.

    `facts` has the types of the tools.
    """
    calls_before = list(calls_before)
    turn = read_turn(name, text, start)
    for _ in range(MAX_ROUNDS if calls_before else 0):
        memory, history = await _played(turn, calls_before, inputs, facts)
        looped = [frame[0] for _, frame, _ in memory.answered if frame]
        if not looped:
            return _known(name, text, start, turn, memory)
        step = min((frame[0] for frame in looped), key=lambda one: turn.sites.loops[one])
        count = 1 + max(int(frame[3]) for frame in looped if frame[0] == step)
        total = next(
            len(one.body["items"]) for one in history.events if one.kind == "opened" and one.body["step"] == step
        )
        start = replace(start, unrolled={**start.unrolled, turn.sites.loops[step]: (count, total)})
        turn = read_turn(name, text, start)
    return Recalled(turn)


def _known(name: str, text: str, start: StartingPoint, turn: Turn, memory: _Memory) -> Recalled:
    """Return a turn whose first calls are results; its other calls look whether they were made, where they may be."""
    results = {turn.sites.calls[step]: one.result for step, _, one in memory.answered}
    start = replace(start, recalled={number: type_of(result) for number, result in results.items()})
    left = _at_sites(turn, memory.left, results)
    start = replace(start, remembered={number: type_of(calls) for number, calls in left.items()})
    return Recalled(read_turn(name, text, start), {**results, **left})


def _at_sites(turn: Turn, left: Iterable[Made], known: Collection[int]) -> dict[int, tuple[Any, ...]]:
    """Return the calls that were made and are not known yet, by the number of the call in the turn that may be one."""
    by_site: dict[tuple[str, int], list[Any]] = {}
    for one in left:
        by_site.setdefault(one.site, []).append(FrozenMap({"args": one.args, "result": one.result}))
    numbers = {number: turn.sites.sites[step] for step, number in turn.sites.calls.items() if number not in known}
    return {number: tuple(by_site[site]) for number, site in numbers.items() if site in by_site}


async def _played(turn: Turn, calls_before: Iterable[Made], inputs: Inputs, facts: Policy) -> tuple[_Memory, History]:
    """Run a turn against the memory alone, as far as it goes."""
    memory, journal = _Memory(calls_before, turn), MemoryJournal()
    machine = ExecutionVM(memory, None, journal, facts, checker=None)
    run = await machine.run(Program.from_document(turn.document), inputs(turn, {}))
    found = await _history(journal, run.id)
    return memory, found


async def _history(journal: MemoryJournal, run: str) -> History:
    found = load(journal, run, partial(stored_plan, journal))
    assert found is not None, "the run exists"
    return found
