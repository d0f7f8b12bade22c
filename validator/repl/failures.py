"""Why a turn failed, in the words for the one who wrote it."""

from __future__ import annotations

from typing import Any, Final

from stepward.validator.repl.answers import TurnError, lisp_text, visible
from stepward.vm.lisp.compiling.document import Turn
from stepward.vm.lisp.faults import LispError
from stepward.vm.machine.history import History
from stepward.vm.machine.refusals import RunTaken
from stepward.vm.machine.run import Run
from stepward.vm.reading.source import Path, Place

AGAIN: Final = (
    "correct the turn and send it again: calls that were made, with the same form and arguments, are not repeated"
)


def taken_elsewhere(error: RunTaken, session: str) -> TurnError:
    """Return that somebody else has taken this turn of a session."""
    hint = "look at what that turn has done, then send yours again: it is proved from there"
    return TurnError("refused", f"{error}: somebody else has gone on with session `{session}`", hint=hint)


def waiting(history: History, why: str = "") -> TurnError:
    """Return that the run of a turn has not ended, and `why` nobody can go on with it here."""
    status = history.state.status
    details = {"run": history.run, "status": status}
    if status == "SUSPENDED":
        hint = "the operator answers with `stepward runs resume`; then send the turn again"
        return TurnError("waits", "a call waits for a person", details, hint)
    if status == "IN_DOUBT":
        hint = "the operator finds out, and says so with `stepward runs reconcile`; then send the turn again"
        return TurnError("waits", "nobody knows whether a call has happened", details, hint)
    hint = "send the turn again: if its process has ended, the turn is recovered a minute after that"
    return TurnError("waits", f"the turn goes on: {why}" if why else "the turn goes on", details, hint)


def failure_of(run: Run, history: History, turn: Turn, error: LispError | None) -> TurnError:
    """Return why the run of a turn failed; `error` is that of its last computation, if there is one."""
    step = _failed_step(history, run)
    details: dict[str, Any] = {"status": run.status, **_place(turn, step)}
    message = run.error or run.reason or run.status
    if run.status == "CANCELLED":
        return TurnError("failed", "the turn was cancelled", details, AGAIN)
    if run.status != "FAILED":
        hint = "handle fewer items, or let a tool take them all"
        return TurnError("limit", f"the session has no steps left ({run.status})", details, hint)
    if step == turn.sites.checked:
        return TurnError("signature", message, details, f"return a value of the type of the signature; {AGAIN}")
    if step in turn.sites.calls:
        return TurnError("tool_error", message, details, AGAIN)
    if error is not None:
        hint = f"{error.hint}; {AGAIN}" if error.hint else AGAIN
        return TurnError(error.reason, error.message, {**error.details, **details}, hint)
    if history.state.output is not None and not run.error:
        value = visible(history.state.output)
        return TurnError("failed", value if isinstance(value, str) else lisp_text(value), details, AGAIN)
    return TurnError("failed", message, details, AGAIN)


def _failed_step(history: History, run: Run) -> str:
    """Return the step of the last failed call or computation if the run failed by it, else where the run ended."""
    for event in reversed(history.events):
        if event.kind in ("attempt", "blocked") and event.body.get("error") == run.error:
            return str(event.body["step"])
    return run.step


def _place(turn: Turn, step: str) -> dict[str, int]:
    """Return the line and column of the form of a step."""
    path = _path(turn.document.data["steps"], step, ("steps",))
    if path is None:
        return {}
    place = Place(path)
    span = turn.document.locate([place])[place]
    return {"line": span.line, "column": span.column}


def _path(steps: list[dict[str, Any]], id: str, path: Path) -> Path | None:
    for number, step in enumerate(steps):
        here = (*path, number)
        found = here if step["id"] == id else _path(step.get("steps", []), id, (*here, "steps"))
        if found is not None:
            return found
    return None
