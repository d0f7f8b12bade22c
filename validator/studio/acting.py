"""What the operator may do about runs from the page: resume, reconcile, cancel, and pick up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.result import AdvisedError
from stepward.validator.studio.answers import value_typed
from stepward.vm.errors import StepwardError
from stepward.vm.machine.runs import run_of

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.history import History
    from stepward.vm.machine.plan import Plan
    from stepward.vm.machine.run import Run

VERDICTS: Final = ("done", "not_done", "abandon")


class Operator(NamedTuple):
    """The means of who acts: a machine, and what complains of a program that it can't run.

    `require` raises AdvisedError for a plan whose tools or model are missing.
    """

    machine: ExecutionVM
    require: Callable[[Plan], None]


class ActionRefused(StepwardError):  # noqa: N818 - reads better where it is raised than with a suffix
    """A request can't be understood; the message says which field is wrong."""


async def act(operator: Operator, found: History, request: Mapping[str, Any]) -> Run:
    """Do what is asked for about a run, drive it on, and return it when it stops.

    Raises ActionRefused for a request without what it must have, AdvisedError without the tools, and what the machine
    raises when it refuses.
    """
    machine, what = operator.machine, text_of(request, "what")
    if what == "recover":
        operator.require(found.plan)
        return (await machine.recover(found.run))[0]
    if what not in ("cancel", "resume", "reconcile"):
        raise ActionRefused(f"nobody can `{what}` a run")
    by = text_of(request, "by", optional=True).strip()
    if not by:
        raise ActionRefused("write your name at the top of the page first: the records say who has done this")
    match what:
        case "cancel":
            return await machine.cancel(found.run, by=by)
        case "resume":
            return await _resume(operator, found, request, by)
    return await _reconcile(operator, found, request, by)


async def _resume(operator: Operator, found: History, request: Mapping[str, Any], by: str) -> Run:
    """Answer a step that waits. Its token never leaves this process: the page names the step."""
    step = text_of(request, "step")
    waits = next((one for one in run_of(found).suspensions if one.step == step), None)
    if waits is None:
        raise ActionRefused(f"`{step}` of run `{found.run}` does not wait for an answer")
    if not waits.token:
        raise ActionRefused(f"the token of `{step}` was erased: the run can only be cancelled")
    operator.require(found.plan)
    value = value_typed(text_of(request, "payload"), _returns(found, step), "the answer")
    return await operator.machine.resume(waits.token, value, by=by)


async def _reconcile(operator: Operator, found: History, request: Mapping[str, Any], by: str) -> Run:
    step, verdict = text_of(request, "step"), text_of(request, "verdict")
    if verdict not in VERDICTS:
        raise ActionRefused("`verdict` is `done`, `not_done` or `abandon`")
    doubts = [doubt.step for doubt in run_of(found).doubts if step in (doubt.step, doubt.place)]
    if not doubts:
        raise ActionRefused(f"`{step}` of run `{found.run}` is not in doubt")
    if verdict != "abandon":
        operator.require(found.plan)
    output = None
    if verdict == "done":
        returns, text = _returns(found, doubts[0]), text_of(request, "payload")
        is_nothing = not text.strip() and (returns is None or returns.admits("null"))
        output = None if is_nothing else value_typed(text, returns, "what it returned")
    word: Any = verdict
    return await operator.machine.reconcile(found.run, step, word, output, by=by)


def _returns(found: History, step: str) -> TypeSpec | None:
    calls = (call for one in found.plan.steps for call in one.calls)
    return next((call.returns for call in calls if call.id == step), None)


def text_of(request: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    """Return a text of a request; raises ActionRefused if it is missing, or is none."""
    value = request.get(name, "" if optional else None)
    if not isinstance(value, str):
        raise ActionRefused(f"`{name}` is missing, or is no text")
    return value


def words_of(error: StepwardError) -> str:
    """Return an error for the page: what is wrong, and what to do."""
    return f"{error.message}: {error.help}" if isinstance(error, AdvisedError) and error.help else str(error)
