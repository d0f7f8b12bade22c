"""What the runs of one caller have spent in the last hour, and the model that stops at its limits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container
from decimal import Decimal
from typing import Final, NamedTuple

from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.quiet import failed
from stepward.validator.gateway.refusals import RequestRefused
from stepward.vm.errors import StepwardError
from stepward.vm.machine.models import Model, ModelFailed, ModelReply, ModelRequest, names_of, parameters_of, reply_of

HOUR: Final = 3_600.0


class Spent(NamedTuple):
    """What a reply, or an earlier run, has cost.

    `at` is in seconds since the epoch; `money` is None where nobody knows the cost.
    """

    at: float
    tokens: int
    money: Decimal | None


class LimitReached(StepwardError):  # noqa: N818 - it is an answer to a step: the model is not asked
    """The caller has used up its tokens or its money of this hour."""


class Meter:
    """The runs, tokens and money of one caller. Callers may ask from several threads."""

    def __init__(self, caller: Caller, clock: Callable[[], float] = time.time) -> None:
        self._caller = caller
        self._clock = clock
        self._lock = threading.Lock()
        self._starts: deque[float] = deque()
        self._spent: deque[Spent] = deque()

    def restore(self, started: float, tokens: int, money: Decimal) -> None:
        """Count a run of the last hour that an earlier process has started."""
        with self._lock:
            self._starts.append(started)
            self._spent.append(Spent(started, tokens, money))

    def start(self) -> None:
        """Count one more run; raises RequestRefused if the caller has started all that it may start in an hour."""
        with self._lock:
            now = self._clock()
            while self._starts and self._starts[0] <= now - HOUR:
                self._starts.popleft()
            if len(self._starts) >= self._caller.runs_per_hour:
                wait = max(1, round((self._starts[0] + HOUR - now) / 60))
                raise RequestRefused(f"you may start {self._caller.runs_per_hour} runs an hour", f"wait {wait} minutes")
            self._starts.append(now)

    def take_back(self) -> None:
        """Take back the newest start: the run was refused, or existed already."""
        with self._lock:
            self._starts.pop()

    def require_budget(self) -> None:
        """Raise LimitReached if the tokens or the money of this hour are used up."""
        with self._lock:
            now = self._clock()
            while self._spent and self._spent[0].at <= now - HOUR:
                self._spent.popleft()
            tokens = sum(one.tokens for one in self._spent)
            known = [one.money for one in self._spent if one.money is not None]
            is_known, money = len(known) == len(self._spent), sum(known, Decimal(0))
        if tokens >= self._caller.tokens_per_hour:
            raise LimitReached(f"caller `{self._caller.name}` may use {self._caller.tokens_per_hour:,} tokens an hour")
        if not is_known:
            why = "the cost of a reply is unknown: the operator has to give `--prices`"
            raise LimitReached(f"the money of caller `{self._caller.name}` can't be counted: {why}")
        # A model that costs nothing, such as a local one, needs no money.
        if money > self._caller.money_per_hour or (money and money == self._caller.money_per_hour):
            raise LimitReached(f"caller `{self._caller.name}` may spend {self._caller.money_per_hour} an hour")

    def charge(self, reply: ModelReply) -> None:
        """Count what a reply has cost."""
        with self._lock:
            money = None if reply.cost is None else Decimal(reply.cost)
            self._spent.append(Spent(self._clock(), reply.tokens, money))


class MeteredModel:
    """A model that one caller pays for: it is asked only while the caller has tokens and money left.

    A call that is under way is not cut off, so the calls that run side by side may pass the limit together.
    """

    def __init__(self, model: Model, meter: Meter) -> None:
        self._model = model
        self._meter = meter
        self.parameters = parameters_of(model)

    @property
    def names(self) -> Container[object]:
        """The names of models that the metered model knows."""
        return names_of(self._model)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the model; raises LimitReached, or Failed without the text of the model's error."""
        self._meter.require_budget()
        try:
            reply = await reply_of(self._model, request)
        except ModelFailed as error:
            self._meter.charge(error.spent)
            raise ModelFailed(str(failed("the model", error)), error.spent) from None
        except Exception as error:
            raise failed("the model", error) from None
        self._meter.charge(reply)
        return reply
