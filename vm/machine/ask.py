"""One attempt, made for real: the tool or model is asked, and what comes back is held against its type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from decimal import Decimal
from typing import Any, Final

from stepward.vm.journal.canonical import LARGEST, opened
from stepward.vm.language.steps import LlmCall
from stepward.vm.machine.clock import Clock
from stepward.vm.machine.data import marked, refused
from stepward.vm.machine.events import Answer, Call, Result, Spent
from stepward.vm.machine.keeping import begin
from stepward.vm.machine.models import Model, ModelReply, ModelRequest, is_async
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, Tools, in_thread
from stepward.vm.values import Room, TooLarge, ValueRefused, exact, freeze

MAX_NAME: Final = 200
"""Characters of a model's name that are kept."""

LEAST_ROOM: Final = 1 << 16
"""Bytes of an output that are read in any case."""

MAX_ERROR: Final = 2_000
"""Characters of an error text that are kept."""


async def ask_tool(tools: Tools, clock: Clock, plan: CallPlan, call: Call, context: ToolContext, most: int) -> Result:
    """Call a tool, and return what became of it: an output of `most` bytes. What it raises is an answer, never ours."""
    args = opened(call.args)
    try:
        answer = _answered(tools.call(plan.tool, args, context))
        output = await (answer if plan.timeout is None else clock.limit(answer, plan.timeout))
    except InDoubt as error:
        return Result("doubt" if plan.writes else "failed", error=error_text(error))
    except TimeoutError:
        return _timed_out(plan)
    except Exception as error:
        return Result("failed", error=error_text(error))
    if issubclass(type(output), Suspend):  # what an object says of its class is not asked
        return _suspended(plan, output, most)
    return typed(plan, output, "doubt" if plan.writes else "failed", most)


class _Raised(Exception):  # noqa: N818 - it carries what a tool raised past those who would take it for their own
    pass


async def _answered(asked: Awaitable[Any]) -> Any:
    """Await an answer. A time-out, an exit or a cancellation of the tool's own is its failure, and nobody else's."""
    task, finish = asyncio.current_task(), begin()
    try:
        return await asked
    except (TimeoutError, SystemExit) as error:
        raise _Raised(error_text(error)) from error
    except asyncio.CancelledError:
        # Whoever cancels this task is heard; else it is the tool that was cancelled.
        if task is None or task.cancelling() or not _is_running(task):
            raise
        raise _Raised("it was cancelled") from None
    finally:
        finish()


def _is_running(task: asyncio.Task[Any]) -> bool:
    """Return whether a task is at it: a coroutine that is closed runs in none, or in that of somebody else."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def _timed_out(plan: CallPlan) -> Result:
    return Result("timeout", error=f"`{plan.id}` took longer than {plan.timeout:g} seconds")


def _suspended(plan: CallPlan, output: Suspend, most: int) -> Result:
    if not plan.may_suspend:
        why = f"tool `{plan.tool}` suspends, and its manifest does not say so"
        return Result("doubt" if plan.writes else "failed", error=why)
    try:
        return Result("suspended", freeze(output.request, room=_room(most)))
    except TooLarge:
        return Result("suspended", f"its request can't be kept: it has more than the {most} bytes allowed")
    except (Exception, SystemExit) as error:  # ValueRefused, or what a lazy list or object raises when it is read
        return Result("suspended", f"its request can't be kept: {error_text(error)}")


def typed(plan: CallPlan, output: Any, otherwise: Answer, most: int) -> Result:
    """Return an output as the program has it: frozen, of its type, sensitive parts marked; else the other answer.

    It is not copied where it has more than `most` bytes.
    """
    try:
        value = freeze(output, room=_room(most))
    except TooLarge:
        return Result(otherwise, error=f"the output of `{plan.id}` has more than the {most} bytes allowed")
    except ValueRefused as error:
        return Result(otherwise, error=f"the output of `{plan.id}` is no value: {error}")
    except (Exception, SystemExit) as error:  # a lazy list or object may do anything when it is read
        return Result(otherwise, error=f"the output of `{plan.id}` can't be read: {error_text(error)}")
    if plan.returns is None:
        return Result("output", value)
    why = refused(value, plan.returns, f"the output of `{plan.id}`")
    return Result("output", marked(value, plan.returns)) if why is None else Result(otherwise, error=why)


def _room(most: int) -> Room:
    """Return room for more than may be kept, so that of what is somewhat too large the size can be told."""
    return Room(2 * max(most, LEAST_ROOM))


async def ask_model(model: Model, clock: Clock, plan: CallPlan, call: Call, most: int) -> Result:
    """Ask a model, and return what became of it. A reply that the program does not accept is rejected, and charged."""
    request = ModelRequest(call.prompt, call.system, plan.allowed, _schema(plan), call.step, call.visit, call.attempt)
    try:
        if is_async(model.complete):
            waiting = model.complete(request)
        else:
            waiting = in_thread(model.complete, {"request": request})
        answer = _answered(waiting)  # type: ignore[arg-type]
        reply = await (answer if plan.timeout is None else clock.limit(answer, plan.timeout))
    except TimeoutError:
        return _timed_out(plan)
    except Exception as error:
        return Result("failed", error=error_text(error))
    if not issubclass(type(reply), ModelReply):
        return Result("failed", error=f"the model's adapter returned a {type(reply).__name__}, not a ModelReply")
    return _accepted(plan, reply, most)._replace(spent=_spent(reply))


def _spent(reply: ModelReply) -> Spent:
    try:
        cost = exact(reply.cost)
    except (ValueRefused, AssertionError):
        cost = 0
    try:
        tokens = min(max(int(reply.tokens), 0), LARGEST)
    except (TypeError, ValueError, OverflowError):
        tokens = 0
    return Spent(tokens, cost, _written(reply.model)[:MAX_NAME])


def _schema(plan: CallPlan) -> dict[str, Any] | None:
    assert isinstance(plan.call, LlmCall)
    return None if plan.call.returns is None else plan.call.returns.to_data()


def _accepted(plan: CallPlan, reply: ModelReply, most: int) -> Result:
    assert isinstance(plan.call, LlmCall)
    content = reply.content
    if issubclass(type(content), str):  # what a class says of itself, and what it calls equal, is not asked
        content = str.__str__(content)
    if plan.allowed is not None:
        choice = content.strip() if type(content) is str else None
        if choice in plan.allowed:
            return Result("output", choice)
        return Result(
            "failed", error=f"the reply to `{plan.id}` is none of its `allowed_outputs`", rule="allowed_outputs"
        )
    if plan.call.returns is not None and type(content) is str and not _takes_text(plan):
        try:
            content = json.loads(content, parse_float=Decimal, parse_constant=_no_constant)
        except (ValueError, RecursionError, ArithmeticError):  # an exponent may be too large for a decimal
            return Result("failed", error=f"the reply to `{plan.id}` is no JSON", rule="returns")
    result = typed(plan, content, "failed", most)
    return result if result.answer == "output" else result._replace(rule="returns")


def _takes_text(plan: CallPlan) -> bool:
    """Whether a text is itself a reply of the declared type, not JSON that holds one."""
    assert isinstance(plan.call, LlmCall)
    assert plan.call.returns is not None
    return plan.call.returns.type is not None and "string" in plan.call.returns.type


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _written(thing: object) -> str:
    """Return `str(thing)`, fit for a record, also of what can't write itself."""
    try:
        return str(thing).encode("utf-8", "replace").decode()
    except (Exception, SystemExit):  # it may want to end the process, and only says what went wrong
        return type(thing).__name__


def error_text(error: BaseException) -> str:
    """Return what an exception says, bounded, and fit for a record."""
    text = _written(error) or type(error).__name__
    return text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + "…"
