"""What a caller is told of its run: how it stands, and its path. No sensitive value, no token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepward.vm.journal.store import Row
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.history import History
from stepward.vm.machine.views import traced
from stepward.vm.values import as_text

PENDING: Final = {
    "SUSPENDED": "a person whom the operator names has to decide",
    "IN_DOUBT": "nobody knows whether a write has happened; the operator has to find out",
}


def status_of_run(found: History) -> dict[str, Any]:
    """Return how a run stands. A run that waits has no output yet, so no tool can repeat its resume token here."""
    state = found.state
    data: dict[str, Any] = {
        "run": found.run,
        "program": found.plan.program.name,
        "status": _status(state.status),
        "step": found.plan.steps[state.at].id,
        "steps": state.steps,
        "tokens": state.tokens,
        "cost": as_text(state.cost),
        "records": found.last.seq + 1,
        "head": found.last.digest.hex(),
    }
    if state.status in PENDING:
        data |= {
            "waits_for": _waits_for(found),
            "next": "call get_run again later; you can't resume the run yourself",
        }
    elif not state.is_over:
        data |= {"next": "the run goes on; call get_run again"}
    if state.is_over:
        data |= {"reason": state.reason, "output": _plain(traced(state.output))}
        data |= {"error": state.error} if state.error else {}
    return data


def _waits_for(found: History) -> str:
    """Return what a run waits for; where it waits for nobody, it waits for a time."""
    calls = [call for here in leaves(found.plan, found.state) for call in here.calls or ()]
    is_asked = found.state.status != "SUSPENDED" or any(call.phase == "suspended" for call in calls)
    return PENDING[found.state.status] if is_asked else "a time to come; then the run goes on"


def told_row(row: Row) -> dict[str, Any]:
    """Return a run of a list."""
    return {"run": row.run, "program": row.program, "status": _status(row.status), "records": row.seq + 1}


def path_of(found: History) -> list[dict[str, Any]]:
    """Return the records of a run without values: what happened at which step, and where the run went."""
    path = []
    for record in found.records:
        body = record.body
        entry = {"record": record.seq, "what": record.kind}
        entry |= {key: body[name] for key, name in _SHOWN.items() if isinstance(body.get(name), str | int)}
        path.append(entry)
    return path


_SHOWN: Final = {"step": "step", "outcome": "kind", "branch": "branch", "next": "next", "ends": "ends", "rule": "rule"}


def _status(status: str) -> str:
    return "pending" if status in PENDING else status.lower()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
