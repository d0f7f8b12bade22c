"""Performs one attempt: asks the tool or model, and checks the answer against its type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from stepward.vm.journal.canonical import LARGEST, opened
from stepward.vm.language.steps import LlmCall
from stepward.vm.language.steps.catching import BAD_OUTPUT, TIMEOUT, UNEXPECTED
from stepward.vm.machine.clock import Clock
from stepward.vm.machine.data import marked, refused
from stepward.vm.machine.events import Answer, Call, Result, Spent, output_of
from stepward.vm.machine.keeping import begin
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.models import Model, ModelFailed, ModelReply, ModelRequest, is_async, names_of
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, ToolError, Tools, in_thread
from stepward.vm.values import ByteBudget, FrozenMap, TooLarge, ValueRefused, exact, freeze

MAX_NAME: Final = 200
"""Characters of a model's name that are recorded."""

LEAST_BUDGET: Final = 1 << 16
"""Bytes of an output that are always read."""

MAX_ERROR: Final = 2_000
"""Characters of an error text that are recorded."""


async def ask_tool(
    tools: Tools, clock: Clock, plan: CallPlan, call: Call, context: ToolContext, max_bytes: int
) -> Result:
    """Call a tool and return the result; its output has at most `max_bytes`. Its exceptions become results, too."""
    # A tool gets an object of its own: one that it changes must not be a part of the program, or of another run.
    args = opened(call.args) if call.args else FrozenMap()
    try:
        answer = _await_answer(tools.call(plan.tool, args, context))
        output = await (answer if plan.timeout is None else clock.limit(answer, plan.timeout))
    except InDoubt as error:
        return Result("doubt" if plan.writes else "failed", error=error_text(error), name=name_of(error, plan.errors))
    except TimeoutError:
        return _timed_out(plan)
    except Exception as error:
        return Result("failed", error=error_text(error), name=name_of(error, plan.errors))
    if issubclass(type(output), Suspend):  # not isinstance: an object may lie about its `__class__`
        return _suspended(plan, output, max_bytes)
    return typed(plan, output, "doubt" if plan.writes else "failed", max_bytes)


class _Raised(Exception):  # noqa: N818 - carries what a tool raised past handlers that would take it for their own
    pass


async def _await_answer(answer: Awaitable[Any]) -> Any:
    """Await an answer. A time-out, exit or cancellation that the tool itself raises becomes _Raised."""
    finish = begin()
    try:
        return await answer
    except (TimeoutError, SystemExit) as error:
        raise _Raised(error_text(error)) from error
    except asyncio.CancelledError:
        # A cancellation of this task is passed on; else the tool itself was cancelled.
        task = _present_task()
        if task is None or task.cancelling():
            raise
        raise _Raised("it was cancelled") from None
    finally:
        finish()


def _present_task() -> asyncio.Task[Any] | None:
    """Return the task in which the present code runs, if any: a coroutine that is being closed may be in none."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


_CLASS_NAME: Final[Callable[[type], str]] = type.__dict__["__name__"].__get__
"""Returns the name of a class, whatever its metaclass says."""


def name_of(error: BaseException, declared: Collection[str]) -> str:
    """Return the name of what a tool raised: that of a ToolError, or of the nearest class, if it is declared."""
    if isinstance(error, _Raised) and error.__cause__ is not None:
        error = error.__cause__
    error_name = error.name if issubclass(type(error), ToolError) else None  # type: ignore[attr-defined]
    if type(error_name) is str and error_name in declared:
        return error_name
    names = map(_CLASS_NAME, type(error).__mro__)
    return next((name for name in names if name in declared), UNEXPECTED)


def _timed_out(plan: CallPlan) -> Result:
    return Result("timeout", error=f"`{plan.id}` took longer than {plan.timeout:g} seconds", name=TIMEOUT)


def _suspended(plan: CallPlan, output: Suspend, max_bytes: int) -> Result:
    if not plan.may_suspend:
        why = f"tool `{plan.tool}` suspends, and its manifest does not say so"
        return Result("doubt" if plan.writes else "failed", error=why, name=BAD_OUTPUT)
    try:
        return Result("suspended", freeze(output.request, room=_budget(max_bytes)))
    except TooLarge:
        return Result("suspended", f"its request can't be kept: it has more than the {max_bytes} bytes allowed")
    except (Exception, SystemExit) as error:  # ValueRefused, or what a lazy list or object raises when it is read
        return Result("suspended", f"its request can't be kept: {error_text(error)}")


def typed(plan: CallPlan, output: Any, otherwise: Answer, max_bytes: int) -> Result:
    """Return an output, frozen, of its type and with sensitive parts marked; else a result of kind `otherwise`.

    An output of much more than `max_bytes` bytes is not copied.
    """
    try:
        value = output if output is None else freeze(output, room=_budget(max_bytes))
    except TooLarge:
        return _unfit(otherwise, f"the output of `{plan.id}` has more than the {max_bytes} bytes allowed")
    except ValueRefused as error:
        return _unfit(otherwise, f"the output of `{plan.id}` is no value: {error}")
    except (Exception, SystemExit) as error:  # a lazy list or object may do anything when it is read
        return _unfit(otherwise, f"the output of `{plan.id}` can't be read: {error_text(error)}")
    if plan.returns is None:
        return output_of(value)
    why = refused(value, plan.returns, f"the output of `{plan.id}`")
    return output_of(marked(value, plan.returns)) if why is None else _unfit(otherwise, why)


def _unfit(answer: Answer, error: str) -> Result:
    return Result(answer, error=error, name=BAD_OUTPUT)


def _budget(max_bytes: int) -> ByteBudget:
    """Return a budget above the limit, so that a message can name the size of an output that is slightly too large."""
    return ByteBudget(2 * max(max_bytes, LEAST_BUDGET))


def _request(plan: CallPlan, call: Call, frame: FrameName) -> ModelRequest:
    texts = (call.prompt, call.system, plan.allowed, _schema(plan))
    request = ModelRequest(*texts, call.step, call.visit, call.attempt, frame=frame)
    model_call = plan.call
    if not isinstance(model_call, LlmCall):
        return request
    return request._replace(
        model=model_call.model, temperature=model_call.temperature, max_output_tokens=model_call.max_output_tokens
    )


async def ask_model(
    model: Model, clock: Clock, plan: CallPlan, call: Call, max_bytes: int, frame: FrameName = ()
) -> Result:
    """Ask a model and return the result. A reply that the program does not accept is rejected, and charged."""
    request = _request(plan, call, frame)
    if request.model is not None and request.model not in names_of(model):
        why = f"`{plan.id}` asks the model `{request.model}`, and the machine has no model of that name"
        return Result("failed", error=f"{why}: give the names to `NamedModels`")
    try:
        if is_async(model.complete):
            waiting = model.complete(request)
        else:
            waiting = in_thread(partial(model.complete, request), {})
        answer = _await_answer(waiting)  # type: ignore[arg-type]
        reply = await (answer if plan.timeout is None else clock.limit(answer, plan.timeout))
    except TimeoutError:
        return _timed_out(plan)
    except ModelFailed as error:
        return Result("failed", error=error_text(error), spent=_spent(error.spent))
    except Exception as error:
        return Result("failed", error=error_text(error))
    if not issubclass(type(reply), ModelReply):
        return Result("failed", error=f"the model's adapter returned a {type(reply).__name__}, not a ModelReply")
    if reply.cost is None and plan.has_cost_limit:
        why = f"the model does not say what its reply to `{plan.id}` cost, and the program has `max_cost`"
        return Result("failed", error=why, spent=_spent(reply))
    return _accepted(plan, reply, max_bytes)._replace(spent=_spent(reply))


def _spent(reply: ModelReply) -> Spent:
    try:
        cost = 0 if reply.cost is None else max(exact(reply.cost), 0)
    except (ValueRefused, AssertionError):
        cost = 0
    try:
        tokens = min(max(int(reply.tokens), 0), LARGEST)
    except (TypeError, ValueError, OverflowError):
        tokens = 0
    return Spent(tokens, cost, _written(reply.model)[:MAX_NAME])


def _schema(plan: CallPlan) -> dict[str, Any] | None:
    assert isinstance(plan.call, LlmCall)
    return None if plan.call.returns is None else _json_of(plan.call.returns.to_data())


def _json_of(data: Any) -> Any:
    """Return plain data as JSON has it: adapters send it, and `json.dumps` knows no exact numbers."""
    if isinstance(data, Mapping):
        return {name: _json_of(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_json_of(value) for value in data]
    return float(data) if isinstance(data, Decimal) else data


def _accepted(plan: CallPlan, reply: ModelReply, max_bytes: int) -> Result:
    assert isinstance(plan.call, LlmCall)
    content = reply.content
    if issubclass(type(content), str):  # plain text: a subclass may have a `__class__` and `__eq__` of its own
        content = str.__str__(content)
    if plan.allowed is not None:
        return accepted_value(plan, content.strip() if type(content) is str else None, max_bytes)
    if plan.call.returns is not None and type(content) is str and not _accepts_text(plan):
        try:
            content = json.loads(content, parse_float=Decimal, parse_constant=_no_constant)
        except (ValueError, RecursionError, ArithmeticError):  # an exponent may be too large for a decimal
            return _unfit("failed", f"the reply to `{plan.id}` is no JSON")._replace(rule="returns")
    return accepted_value(plan, content, max_bytes)


def accepted_value(plan: CallPlan, value: Any, max_bytes: int) -> Result:
    """Return the result of a reply whose text has been read: one of the allowed texts, or a value of its type."""
    if plan.allowed is not None:
        if type(value) is str and value in plan.allowed:
            return output_of(value)
        why = f"the reply to `{plan.id}` is none of its `allowed_outputs`"
        return _unfit("failed", why)._replace(rule="allowed_outputs")
    result = typed(plan, value, "failed", max_bytes)
    return result if result.answer == "output" else result._replace(rule="returns")


def _accepts_text(plan: CallPlan) -> bool:
    """Return whether the declared type allows a text, so that a reply is not parsed as JSON."""
    assert isinstance(plan.call, LlmCall)
    assert plan.call.returns is not None
    return plan.call.returns.type is not None and "string" in plan.call.returns.type


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _written(thing: object) -> str:
    """Return `str(thing)`, fit for a record, or the name of its type if `str` fails."""
    try:
        return str(thing).encode("utf-8", "replace").decode()
    except (Exception, SystemExit):  # `__str__` may try to end the process
        return type(thing).__name__


def error_text(error: BaseException) -> str:
    """Return the text of an exception, bounded, and fit for a record."""
    text = _written(error) or type(error).__name__
    return text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + "…"
