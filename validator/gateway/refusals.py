"""The refusal of a request, as its caller is told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.refusals import DeliveryRefused, NoSuchRun, RunBusy, RunRefused

log = logging.getLogger("stepward.gateway")

T = TypeVar("T")
P = ParamSpec("P")


class RequestRefused(StepwardError):  # noqa: N818 - it is an answer: the request is not carried out
    """A request is not carried out: `message` says why, and `help` what the caller can do."""

    def __init__(self, message: str, help: str = "") -> None:
        self.message = message
        self.help = help
        super().__init__(message)


def answered(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that raises RequestRefused in place of every error of the machine and of the journal."""

    @wraps(method)
    async def answering(owner: Any, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return await method(owner, *args, **named)
        except RequestRefused:
            raise
        except StepwardError as error:
            raise _in_words(error) from error

    return answering


def _in_words(error: StepwardError) -> RequestRefused:
    """Return what a caller is told of an error.

    A caller can act on what the machine says of its run. The words of a journal may have the place of a file or the
    name of a user, so the caller gets others.
    """
    if isinstance(error, RunRefused) and error.unsaid is not None:
        return RequestRefused(error.unsaid, "give each input of the program a value of its type, and no other")
    if isinstance(error, RunRefused | DeliveryRefused):
        help = error.help if isinstance(error, RunRefused) else ""
        return RequestRefused(str(error), help or "correct the inputs, or the program")
    if isinstance(error, NoSuchRun):
        return RequestRefused("you have no such run", "`list_runs` names those that you have")
    log.warning("a request was refused: %s", error)
    if isinstance(error, RunBusy):
        return RequestRefused("somebody else goes on with this run now", "call `get_run` later, and try again then")
    if isinstance(error, JournalError):
        return RequestRefused("the journal can't be used now", "try again later; the operator can see why")
    return RequestRefused("the machine has refused the request", "the operator can see why")
