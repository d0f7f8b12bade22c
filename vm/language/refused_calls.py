"""What is refused of programs that call others: unknown programs, circles, calls that are too deep, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stepward.vm.errors import Problem
from stepward.vm.expressions.inner_names import JOINT
from stepward.vm.language.programs import Programs, Scope, every_step, opened
from stepward.vm.language.similar import alike
from stepward.vm.language.steps import AnyStep, ForEachStep, InvokeStep, ParallelStep
from stepward.vm.reading.limits import MAX_STEPS
from stepward.vm.reading.source import Path, Place

MAX_DEPTH: Final = 30
"""The most calls that may be open at once."""

BUDGETS: Final = ("max_steps", "max_stalled_steps", "max_tokens", "max_cost", "timeout_seconds")

_HELP_FOR_CYCLES: Final = "make a loop of steps in one program, with `max_visits`"

_TOO_DEEP: Final = Problem(
    "SW004",
    f"programs call one another more than {MAX_DEPTH} deep",
    "call fewer programs from called programs",
    Place(("programs",), key=True),
)


class _Calls(NamedTuple):
    """A list of steps that calls: the programs that it can call, the path of the list, and its steps."""

    scope: Scope
    path: Path
    steps: Sequence[AnyStep]


def refused_calls(programs: Programs | None, steps: Sequence[AnyStep], data: object) -> Problem | None:
    """Return the first problem of the calls of a program: an unknown program, a cycle, too many steps, wrong names.

    `programs` are those that it lists, `data` is all of it.
    """
    if not programs and not any(step.type == "call" for step in every_step(steps)):
        return None
    programs = programs or {}
    found = _with_joint(programs, data)
    if found is not None:
        return found
    top = _Calls(opened(programs, ()), ("steps",), steps)
    lists = [top, *_lists(top.scope, ())]
    for calls in lists[1:]:
        found = _budget(calls)
        if found is not None:
            return found
    for calls in lists:
        found = next(_unknown(calls), None)
        if found is not None:
            return found
    found = _cycle(lists[1:])
    if found is not None:
        return found
    if _depth(top, {}, 0) > MAX_DEPTH:
        return _TOO_DEEP
    total = _size(top, {})
    if total <= MAX_STEPS:
        return None
    message = f"the program has {total:,} steps, those of all calls included; {MAX_STEPS:,} are the limit"
    return Problem("SW004", message, "call fewer programs", Place(("programs",), key=True))


def _lists(scope: Scope, around: Path) -> Iterator[_Calls]:
    """Yield the lists of steps of all programs that are listed below a path."""
    for program, path, own in scope.known.values():
        if path[: len(around)] == around and len(path) == len(around) + 2:
            inner = own.of(program, path)
            yield _Calls(inner, (*path, "steps"), program.steps)
            if program.programs:
                yield from _lists(inner, path)


def _paths(calls: _Calls) -> Iterator[tuple[Path, InvokeStep]]:
    """Yield the call steps of a list and of the bodies in it, each with its path."""
    pending: list[tuple[Path, Sequence[AnyStep]]] = [(calls.path, calls.steps)]
    while pending:
        path, steps = pending.pop(0)
        for number, step in enumerate(steps):
            here = (*path, number)
            if isinstance(step, InvokeStep):
                yield here, step
            elif isinstance(step, ForEachStep):
                pending.append(((*here, "steps"), step.steps or ()))
            elif isinstance(step, ParallelStep):
                pending += [((*here, "branches", name, "steps"), one.steps) for name, one in step.branches.items()]


def _unknown(calls: _Calls) -> Iterator[Problem]:
    for path, step in _paths(calls):
        if step.program not in calls.scope.known:
            near = alike(step.program, list(calls.scope.known), n=1, cutoff=0.6)
            help = f"did you mean `{near[0]}`?" if near else f"add `{step.program}` to `programs`"
            message = f"`{step.id}` calls `{step.program}`, which `programs` does not list"
            yield Problem("SW110", message, help, Place((*path, "program")), step=step.id)


def _cycle(lists: Sequence[_Calls]) -> Problem | None:
    """Return the problem of a program that calls itself, perhaps by way of others; each is looked at once."""
    done: set[Path] = set()
    for first in lists:
        way = [(first, _paths(first))]
        trail: list[Path] = []
        while way:
            calls, rest = way[-1]
            path, step = next(rest, (None, None))
            if path is None or step is None:
                done.add(calls.path)
                way.pop()
                trail = trail[: len(way) - 1]
                continue
            program, where, around = calls.scope.known[step.program]
            inner = _Calls(around.of(program, where), (*where, "steps"), program.steps)
            open_lists = [one.path for one, _ in way]
            if inner.path in open_lists:
                at = open_lists.index(inner.path)
                names = [*(str(one[-2]) for one in open_lists[at:]), str(inner.path[-2])]
                text = " → ".join(f"`{name}`" for name in names)
                begins = [*trail, (*path, "program")][at]
                return Problem("SW110", f"`{names[0]}` calls itself: {text}", _HELP_FOR_CYCLES, Place(begins))
            if inner.path not in done:
                if len(way) > MAX_DEPTH:
                    return _TOO_DEEP
                trail.append((*path, "program"))
                way.append((inner, _paths(inner)))
    return None


def _size(calls: _Calls, known: dict[Path, int]) -> int:
    """Return how many steps a list has with those of all that it calls."""
    total = sum(1 + len(step.sub_steps) for step in every_step(calls.steps))
    for _, step in _paths(calls):
        program, where, around = calls.scope.known[step.program]
        if where not in known:
            known[where] = _size(_Calls(around.of(program, where), (*where, "steps"), program.steps), known)
        total += known[where]
    return total


def _depth(calls: _Calls, known: dict[Path, int], above: int) -> int:
    """Return how many calls may be open at once; a number beyond the limit where that is all that is known."""
    if above > MAX_DEPTH:
        return 1
    deepest = 0
    for _, step in _paths(calls):
        program, where, around = calls.scope.known[step.program]
        if where not in known:
            inner = _Calls(around.of(program, where), (*where, "steps"), program.steps)
            known[where] = _depth(inner, known, above + 1)
        deepest = max(deepest, 1 + known[where])
    return deepest


def _budget(calls: _Calls) -> Problem | None:
    """Return the problem of a budget that nothing keeps: that of a program which runs only when it is called."""
    home = calls.path[:-1]
    program = calls.scope.known[str(home[-1])][0]
    name = next((one for one in BUDGETS if getattr(program, one) is not None), None)
    if name is None or program.file is not None:  # a file may also be run alone
        return None
    message = f"`{name}` of the called program `{home[-1]}` has no effect: budgets are those of the whole run"
    return Problem("SW002", message, f"set `{name}` on the top of the document", Place((*home, name), key=True))


def _with_joint(programs: Programs, data: object) -> Problem | None:
    """Return the problem of a name that would be mixed up with one of a called program."""
    if not programs or JOINT not in repr(data):
        return None
    message = f"the letter U+{ord(JOINT):04X} can't stand in a program that lists `programs`"
    return Problem("SW002", message, "write the name without it", Place(("programs",), key=True))


def moved(problem: Problem, path: Path) -> Problem:
    """Return a problem of a called program with its places below the path of that program."""
    correction = problem.correction
    if correction is not None:
        correction = correction._replace(place=_below(path, correction.place))
    return replace(problem, place=_below(path, problem.place), correction=correction)


def _below(path: Path, place: Place) -> Place:
    return place._replace(path=(*path, *place.path))
