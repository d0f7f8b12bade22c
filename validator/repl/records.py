"""What the records of a turn say beyond its result: the lines that it printed, and why a computation failed.

Both are computed from the records again, so nothing of them is kept twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from stepward.validator.repl.values import HIDDEN
from stepward.vm.errors import EvaluationError
from stepward.vm.journal.canonical import ErasedError, is_sealed, opened
from stepward.vm.language.steps import ComputeStep
from stepward.vm.lisp import Limits, LispError, Outcome, evaluate
from stepward.vm.lisp.faults import Reason
from stepward.vm.lisp.limits import FEWER
from stepward.vm.machine.apply import apply
from stepward.vm.machine.computing import MAX_MEMORY, MAX_STEPS
from stepward.vm.machine.data import REDACTED, filled
from stepward.vm.machine.history import History
from stepward.vm.machine.state import Reader, State, before

_PRINTS: Final = "println"


class TurnOutput(NamedTuple):
    """The lines that a turn printed, the characters that were left out, and the error of its last computation."""

    lines: tuple[str, ...] = ()
    cut: int = 0
    error: LispError | None = None


def printed_in(history: History, limit: int) -> TurnOutput:
    """Return what the `compute` steps of a run have printed, in order, in at most `limit` characters, and the last
    error of one.

    The lines of a step that reads a sensitive value are `[sensitive]`, and its error is left out.
    """
    lines: list[str] = []
    room, cut, error = limit, 0, None
    state = before(history.plan)
    for event in history.events:
        step = history.plan.steps[state.at].step
        if isinstance(step, ComputeStep) and event.kind in ("assigned", "blocked"):
            is_blocked = event.kind == "blocked"
            limit_error = _of_limit(str(event.body.get("error", "")))
            if limit_error is not None:  # what it has printed is lost: it would take as long again
                error = limit_error
            elif is_blocked or _PRINTS in step.lisp:
                found, is_secret = _evaluated(history, state, step, max(room, 0))
                if found is not None:
                    lines += [REDACTED if is_secret else line for line in found.printed]
                    room -= sum(len(line) + 1 for line in found.printed)
                    cut += found.cut
                    error = found.error if is_blocked and not is_secret else None
        state = apply(history.plan, state, event)
    # Its place is one in the text of the step, which is not that of the turn.
    return TurnOutput(tuple(lines), cut, None if error is None else replace(error, span=None))


_LIMITS: Final[dict[str, Reason]] = {
    "the program takes more than": "steps_exceeded",
    "the data of the program has more than": "memory_exceeded",
    "nested deeper than": "depth_exceeded",
}
"""The reasons of limits, by words of their messages."""


def _of_limit(message: str) -> LispError | None:
    """Return the error of a limit that a record tells of."""
    found = next((reason for words, reason in _LIMITS.items() if words in message), None)
    return None if found is None else LispError(found, message.partition("can't be computed: ")[2] or message, FEWER)


def _evaluated(history: History, state: State, step: ComputeStep, room: int) -> tuple[Outcome | None, bool]:
    """Return the evaluation of a step, None if it had no arguments, and whether it reads a sensitive value."""
    try:
        args: Any = filled(step.args, Reader(history.plan, state.slots))
        limits = Limits(steps=MAX_STEPS, memory=MAX_MEMORY, printed=room)
        return evaluate(step.lisp, opened(args), limits, hides=HIDDEN), is_sealed(args)
    except (EvaluationError, ErasedError):
        return None, False
