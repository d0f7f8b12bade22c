"""A run compared with the path that it was made for: the common moves, the first difference, and its budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepward.validator.engine.witnesses.observed import StartedAhead, calls_of, is_between, leaves, started_ahead
from stepward.validator.engine.witnesses.replay import Replayed
from stepward.validator.findings import Move
from stepward.vm.expressions.inner_names import legible
from stepward.vm.language.steps import AnyCall, AnyStep, BranchStep, Failing, SetStep, Stage
from stepward.vm.language.transitions import END

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.validator.analysis.facts import ProgramFacts


def instead(analyses: Analyses, replayed: Replayed, path: tuple[Move, ...]) -> str:
    """Return in words how the run that was tried differs from the path, and what would make a `set` fail there."""
    position = len(common(replayed.moves, path))
    if position < min(len(path), len(replayed.moves)) and replayed.moves[position].step == path[position].step:
        actual, expected = replayed.moves[position], path[position]
        if expected.how != "starts" and not (replayed.run.is_over and position == len(replayed.moves) - 1):
            words = f"`{actual.step}` {actual.words} in the run that was tried, "
            words += f"where the path says that it {expected.words}"
            reason = _why_it_fails(analyses, expected.step) if expected.how.startswith("fail") else ""
            return f"{words}; it {reason}" if reason else words
    if replayed.missing is not None:
        return f"the run that was tried reaches `{replayed.missing[0]}` without breaking the rule"
    return replayed.why.replace("the run ", "the run that was tried ", 1)


def long_results(analyses: Analyses, path: tuple[Move, ...]) -> str:
    """Return in words that a `set` at the end of a path may fail by a result of too many digits; empty if none may."""
    failing = [move.step for move in path if move.how.startswith("fails")][-2:]  # perhaps a step around it fails, too
    return "".join(f"; `{one}` {reason}" for one in failing if (reason := _why_it_fails(analyses, one)))


def _why_it_fails(analyses: Analyses, id: str) -> str:
    """Return in words why the values of a step may fail it; empty for calls, and where they can't."""
    from stepward.validator.engine.values.domains import Domains
    from stepward.validator.engine.values.overflow import Overflow

    number = analyses.facts.flow.position[id]
    is_set = isinstance(analyses.facts.flow.steps[number], SetStep)
    if number in analyses.facts.large_values.steps:
        subject = "what it assigns" if is_set else "a value that it hands over"
        return f"fails where {subject} is larger than the machine allows, which a `maxLength` or a `maxItems` rules out"
    if not is_set:
        return ""
    overflow = Overflow(analyses, Domains(analyses.facts.meaning))
    clauses = analyses.facts.meaning.clauses_of.get(number, ())
    long = next((one.text for one in clauses if one.tree is not None and overflow.may_happen(one.tree)), None)
    if long is None:
        return ""
    return f"fails where `{legible(long)}` has over 1,000 digits, as sums of integers within limits never have"


def common(moves: tuple[Move, ...], path: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return the moves that a run and a path share from the start."""
    count = 0
    for actual, expected in zip(moves, path, strict=False):
        if actual != expected:
            break
        count += 1
    return path[:count]


def named(facts: ProgramFacts, path: tuple[Move, ...], position: int) -> str:
    """Return the name of an error by which a step of a path fails and leads to the next one, empty if none is known."""
    if not facts.failing.has_names or not path[position].how.startswith("fails"):
        return ""
    number = facts.flow.position[path[position].step]
    to = facts.flow.position[path[position + 1].step] if position + 1 < len(path) else END
    names = (facts.failing.surely_takes(number, one) for one in facts.flow.transitions[number] if one.to == to)
    return next((name for name in names if name is not None), "")


def budget(size: int, steps: Iterator[AnyStep]) -> int:
    """Return a budget larger than the cost of a path: a power of two, so that one machine serves most paths of a
    program."""
    cost = max(32, size, 1 + sum(map(_most, steps)))
    return 1 << cost.bit_length()


def _most(step: AnyStep) -> int:
    if not isinstance(step, Failing):
        return 1
    return 1 + (step.max_retries + 1) * sum(_most_attempts(call) + 1 for _, call in step.calls)


def _most_attempts(call: AnyCall) -> int:
    return max(call.max_retries, *(entry.max_attempts for entry in call.retry or ()), 0)


def is_recorded(facts: ProgramFacts, move: Move) -> bool:
    """Return whether a run records a move: it says nothing of the end of a branch beside its last step, and of one
    that is not started."""
    steps, position = facts.flow.steps, facts.flow.position
    step = steps[position[move.step]]
    if isinstance(step, Stage):
        return not isinstance(steps[position[step.owner]], BranchStep)
    return not isinstance(step, BranchStep) or move.how == "succeeds"


def spent_after(replayed: Replayed, moves: int) -> int:
    """Return the steps that a run had used after so many moves of its path."""
    from stepward.vm.machine.apply import apply
    from stepward.vm.machine.state import before

    history = replayed.history()
    each = {history.plan.steps[number].id for number in history.plan.bodies}
    calls = calls_of(history.plan.program.layout)
    ahead = StartedAhead(started_ahead(history.plan.program.layout))
    state = before(history.plan)
    for happened in history.events:
        if moves <= 0 and happened.kind != "started":
            return state.steps
        state = apply(history.plan, state, happened)
        moves -= len(ahead.starting(happened.kind, happened.body))
        if ahead.holds(happened.kind, happened.body):
            continue
        if is_between(happened.kind, happened.body, each, calls) or leaves(happened.body):
            moves -= 1
    return 0
