"""Why a run does not wait for a resume token, for whoever reads the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepward.validator.cli.machine import MachineError, history_of
from stepward.validator.cli.printed import command

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.machine.history import History
    from stepward.vm.machine.keys import FrameName, Token


@contextmanager
def refusal_explained(token: Token, journal: Journal) -> Iterator[None]:
    """Say why a run does not wait for a token. The machine tells nobody, but whoever reads the journal may know."""
    from stepward.vm.machine.refusals import DeliveryRefused

    try:
        yield
    except DeliveryRefused as error:
        if not str(error).startswith("the token was used"):
            raise
        raise MachineError(*_why_idle(token, history_of(journal, token.run))) from None


def _why_idle(token: Token, found: History) -> tuple[str, str]:
    """Return why a run does not wait for a token, by its records, and what to do."""
    from stepward.vm.machine.keys import shown

    run, look = token.run, f"`{command('runs', token.run)}` shows what the run waits for"
    for record, event in zip(found.records, found.events, strict=True):
        if record.kind != "intent" or "token" not in record.note:
            continue
        call = step, visit, frame = _call(event.body)
        if record.note["token"] != token.digest(found.plan.digest, step, visit, frame):
            continue
        answered = any(one.kind == "resumed" and _call(one.body) == call for one in found.events)
        name = shown(frame, step)
        if answered:
            return f"the token was used: `{name}` of run `{run}` has its answer", look
        if found.state.is_over:
            return f"the token is too late: run `{run}` ended as {found.state.status}", "start a new run"
        return f"the token is not valid any more: `{name}` of run `{run}` does not wait for an answer", look
    return f"the token is of another program, or misspelt: run `{run}` gave out no such token", look


def _call(body: Mapping[str, Any]) -> tuple[str, int, FrameName]:
    """Return the step, the visit and the frame of a call in an event."""
    return body["step"], body["visit"], tuple(map(tuple, body.get("frame", ())))
