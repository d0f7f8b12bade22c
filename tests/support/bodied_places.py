"""Programs with their steps in another place: in a body of each kind, in a called program, or behind a `catch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Data = dict[str, Any]
Steps = list[Data]

OF_RUN: Final = (
    "name",
    "description",
    "version",
    "max_steps",
    "max_stalled_steps",
    "max_tokens",
    "max_cost",
    "timeout_seconds",
)
"""What a called program can't say."""

IDLE: Final[Steps] = [{"id": "zz_idle", "type": "end"}]


def each(steps: Steps, id: str = "zz_each", **more: Any) -> Steps:
    step = {"id": id, "type": "for_each", "items": [1], "as": f"{id}_item", "max_items": 1, "steps": steps}
    return [step | more]


def branch(steps: Steps, **more: Any) -> Steps:
    return [{"id": "zz", "type": "parallel", "branches": {"zz_a": {"steps": steps, **more}, "zz_b": {"steps": IDLE}}}]


def behind_failure(steps: Steps) -> Steps:
    """Return the steps behind the `catch` of a step whose item fails."""
    failing = [{"id": "zz_end", "type": "end", "outcome": "failure"}]
    caught: Data = {"catch": [{"errors": ["any"], "then": "zz_go"}], "next_step": "zz_ok"}
    go = {"id": "zz_go", "type": "set", "set": {}, "next_step": steps[0].get("id")}
    return [*each(failing, **caught), {"id": "zz_ok", "type": "end"}, go, *steps]


def _inside(put: Callable[[Steps], Steps]) -> Callable[[Data], Data]:
    return lambda data: {**data, "language": 2, "steps": put(data["steps"])}


def _with_rules(put: Callable[..., Steps]) -> Callable[[Data], Data]:
    """Return a place in which the guardrails stand beside the steps."""

    def placed(data: Data) -> Data:
        rest = {name: value for name, value in data.items() if name != "guardrails"}
        return {**rest, "language": 2, "steps": put(data["steps"], guardrails=data.get("guardrails", []))}

    return placed


def called(data: Data) -> Data:
    inner = {name: value for name, value in data.items() if name not in (*OF_RUN, "language")}
    outer = {name: data[name] for name in (*OF_RUN, "inputs", "tools") if name in data}
    call = {"id": "zz", "type": "call", "program": "zz_p", "args": {one: f"${one}" for one in data.get("inputs") or {}}}
    return {**outer, "language": 2, "programs": {"zz_p": inner}, "steps": [call]}


def called_in_each(data: Data) -> Data:
    whole = called(data)
    return {**whole, "steps": each(whole["steps"])}


PLACES: Final[dict[str, Callable[[Data], Data]]] = {
    "top": _inside(lambda steps: steps),
    "for_each": _inside(each),
    "for_each in for_each": _inside(lambda steps: each(each(steps, "zz_inner"))),
    "branch": _inside(branch),
    "branch behind another": _inside(lambda steps: branch(steps, depends_on=["zz_b"])),
    "called": called,
    "called in for_each": called_in_each,
    "behind a failure": _inside(behind_failure),
    "for_each with rules": _with_rules(each),
    "branch with rules": _with_rules(branch),
}
