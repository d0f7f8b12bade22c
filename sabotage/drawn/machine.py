"""A random case, and its machines, whose tools and model answer as a random world."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.caches import LyingCache
from stepward.sabotage.drawn.mishaps import LeapingClock, MortalStore
from stepward.sabotage.drawn.orders import Turns
from stepward.sabotage.drawn.values import respelled
from stepward.sabotage.drawn.world import DrawnWorld, Manner
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.reference import Answer, Lost, PendingCall, Raised, Replied, Returned, TimedOut, Waits
from stepward.sabotage.stores.plain_status import StandingStore, siblings_of
from stepward.vm import ExecutionVM, InDoubt, ModelReply, Policy, Program, Suspend, ToolContext, ToolError
from stepward.vm.journal.store import Journal
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.models import ANY_NAME
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Limits

SECRETS: Final = (  # texts and numbers that inputs and outputs have, sensitive now and then
    "refund",
    "e" * 12,
    "4711471147",
    "9422942294",
    "9422942294",
)
DAYS: Final = {"2026-01-01": 1_767_225_600_000_000, "2026-01-02": 1_767_312_000_000_000}
"""The days on which machines run programs, with the microsecond at which each begins."""

LATE: Final = 22 * 3_600_000_000
"""Microseconds after midnight: late in a day, but early enough for a whole run."""

USUAL: Final = Manner()


def place_on_record(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the place of an attempt, as `PendingCall` has it, from its record."""
    body = record["body"]
    return (body["step"], body["visit"], record["note"]["attempt"], *map(tuple, body.get("frame", ())))


def _plain(value: Any) -> Any:
    """Return what JSON has no word for as something that it has one for."""
    return dict(value) if isinstance(value, Mapping) else float(value)


class DrawnCase(NamedTuple):
    """A program, its policies, and a world for it.

    `later` are policies of later machines that continue the run: new ones, or new versions of those with the same
    names. `secrets` are repeated by outputs, errors and requests; those of `unique` occur only in sensitive values.
    `inputs` are drawn unless they are given. `day` is one of DAYS.
    """

    program: Program
    seed: str
    policies: Sequence[Policy] = ()
    later: Sequence[Policy] = ()
    manner: Manner = USUAL
    limits: Limits = Limits()
    secrets: tuple[str, ...] = SECRETS
    unique: tuple[str, ...] = ()
    inputs: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    day: str = "2026-01-01"

    def policies_with(self, later: int) -> list[Policy]:
        """Return the policies of a machine with a number of the later ones, which replace those of their names."""
        names = {policy.policy for policy in self.later[:later]}
        return [*(policy for policy in self.policies if policy.policy not in names), *self.later[:later]]

    def waived(self, policies: Sequence[Policy], now: int) -> list[str]:
        """Return the rules that policies waive at a time in microseconds, as `policy:rule`."""
        day = datetime.datetime.fromtimestamp(now // 1_000_000, datetime.UTC).date().isoformat()
        return [
            f"{policy.policy}:{waiver.rule}"
            for policy in policies
            for waiver in policy.waivers
            if waiver.program == self.program.name and waiver.expiry >= day
        ]


class Parted(AssertionError):  # noqa: N818 - it says what they did
    """The machine and the reference differ; `about` names the subject."""

    def __init__(self, about: str, what: str) -> None:
        super().__init__(f"{about}: {what}")
        self.about = about


def equal(what: str, ours: Any, theirs: Any, more: str = "") -> None:
    """Raise Parted unless both values are equal."""
    if ours != theirs:
        raise Parted(what, f"{ours} to the machine, {theirs} to the reference {more}")


def raised(names: Sequence[str], text: str) -> Exception:
    """Return an exception whose class and the classes above it have these names, or a ToolError with a single one."""
    if len(names) == 1:
        return ToolError(names[0], text)
    kind: type[Exception] = Exception
    for name in reversed(names):
        kind = type(name, (kind,), {})
    return kind(text)


MODELS: Final = ("", "small", "large-2")
"""The names of models that replies have."""

LEASE: Final = 60_000_000
"""The length of a lease in microseconds."""

MOST_DEATHS: Final = 4

Attempt = tuple[Any, ...]
"""A step or sub-step, its visit, its attempt, and its frame."""


@dataclass
class Called:
    """An attempt as tools and models saw it: its times in microseconds, and what a reply cost."""

    asked: PendingCall
    began: int
    key: str = ""
    token: str = ""
    ended: int = 0
    answer: Answer | None = None
    tokens: int = 0
    cost: Decimal = Decimal(0)
    model: str = ""


Processes = dict[int, ExecutionVM]
"""The machines that stay alive, by the number of their later policies."""


class Machine(EveryTool):
    """The machine's side: tools and a model that answer as the world, and record their calls."""

    def __init__(self, world: DrawnWorld, case: DrawnCase, journal: Journal, run: str, processes: Processes) -> None:
        self.world = world
        self.case = case
        self.run = run
        self.clock = LeapingClock(DAYS[case.day] + world.chance("hour").choice((0, LATE)), world.chance("leaps"))
        self.journal = StandingStore(journal, run, siblings_of(case.program.to_dict()))
        self._spelling = world.chance("spelling")
        self._processes = processes
        self._keeps = world.chance("processes").random() < 0.5
        self.asked: list[PendingCall] = []
        self.calls: dict[Attempt, Called] = {}
        self.parted: Parted | None = None
        """The first difference that a tool or model saw. The machine takes it for an error of the tool."""
        self.died = self._requests = 0
        self.parameters = {"model": "the world"}
        self._turns = Turns()
        self._cache = LyingCache(world.chance("cache"))
        self._keys: dict[tuple[Any, ...], str] = {}
        self._replied: set[tuple[Any, ...]] = set()
        """The replies of models that nobody has looked for in the store yet."""
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._parsed: dict[bytes, dict[str, Any]] = {}

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the run. Each is parsed once, and they are asked for again and again."""
        texts = [entry.record for entry in self.journal.read(self.run)]
        self._parsed |= {text: json.loads(text) for text in texts if text not in self._parsed}
        return [self._parsed[text] for text in texts]

    def vm(self, later: int = 0, *, is_mortal: bool = False) -> ExecutionVM:
        """Return a machine with a number of the later policies, often in a new process, which may be mortal."""
        old = self._processes.get(later)
        journal: Journal = self.journal
        self._requests += is_mortal
        chance = self.world.chance("death", self._requests)
        if is_mortal and self.died < MOST_DEATHS and chance.random() < self.world.deaths:
            journal = MortalStore(journal, chance)
        vm = self._processes[later] = ExecutionVM(
            self,
            self,
            journal,
            self.case.policies_with(later),
            checker=None,
            clock=self.clock,
            limits=self.case.limits,
            random=Random(f"{len(self.asked)} {self.clock.time}").randbytes,
            cache=self._cache,
            **self.case.options,
        )
        if old is not None and self._keeps:  # it is the old process, with its caches
            vm._plans, vm._stored = old._plans, old._stored
            vm._documented, vm._equipped = old._documented, old._equipped
        return vm

    def respelled(self, value: Any) -> Any:
        """Return a value with a random spelling, which must not matter."""
        return respelled(value, self._spelling)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Answer as the world."""
        step, visit, attempt, performance = context.step, context.visit, context.attempt, context.performance
        pending = PendingCall(step, visit, attempt, performance, name, args, frame=context.frame)
        with self._noting():
            equal("run and program of a context", (context.run, context.program), (self.run, self.world.plan.digest))
            self._note_key((step, visit, performance, *context.frame), context.idempotency_key)
            called = self._ask(pending, context.idempotency_key, context.resume_token)
        answer = await self._answer(called)
        if isinstance(answer, Waits):
            return Suspend(answer.request)
        return self.respelled(answer.value) if isinstance(answer, Returned) else None

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Parted as error:
            self.parted = self.parted or error
            raise

    def _ask(self, pending: PendingCall, key: str = "", token: str = "") -> Called:
        """Note an attempt. After a death an attempt is made again, unless it could happen twice."""
        place = pending.place
        before = self.calls.get(place)
        if before is None:
            self.asked.append(pending)
        else:
            call = self.world.calls[pending.step]
            equal("performance", call.writes and not call.keeps_key, False, f"{place} is made twice after a death")
            equal("attempt that is made again", pending, before.asked)
        if self._replied and pending.step in self.world.top:
            self._look_for_replies()
        row = self.journal.row(self.run)
        if row is None or row.expires <= self.clock.time / 1e6:
            raise Parted("lease", f"{place} is asked at {self.clock.time}, and the lease is {row}")
        found = self.calls[place] = Called(pending, self.clock.time, key, token)
        return found

    def _look_for_replies(self) -> None:
        """Check that what was paid for is in the store before the next call: a later process must not ask again."""
        recorded = {place_on_record(one) for one in self.records() if one["kind"] == "attempt"}
        equal("replies that are not in the store", self._replied - recorded, set())
        self._replied = set()

    def _note_key(self, performance: tuple[Any, ...], key: str) -> None:
        equal("key", key, self._keys.setdefault(performance, key), str(performance))
        others = [one for one, known_key in self._keys.items() if known_key == key and one != performance]
        equal("performances under one key", others, [])

    names = ANY_NAME

    async def complete(self, request: Any) -> ModelReply:
        """Answer as the world."""
        step = request.step
        call = self.world.calls[step].call
        allowed, returns = getattr(call, "allowed_outputs", None), getattr(call, "returns", None)
        with self._noting():
            called = self._ask(
                PendingCall(
                    step, request.visit, request.attempt, 0, "", {}, request.prompt, request.system, request.frame
                )
            )
            equal("allowed", request.allowed, allowed)
            declared = None if returns is None else json.dumps(returns.to_data(), default=_plain, sort_keys=True)
            equal("schema", request.schema and json.dumps(request.schema, sort_keys=True), declared)
        answer = await self._answer(called)
        if not isinstance(answer, Replied):
            return ModelReply("late")
        self._replied.add(called.asked.place)
        called.cost = max(answer.cost, Decimal(0))
        called.tokens = answer.tokens if type(answer.tokens) is int and answer.tokens > 0 else 0
        called.model = self.world.chance("model", step).choice(MODELS)
        return ModelReply(self.respelled(answer.content), answer.tokens, answer.cost, called.model)

    async def _answer(self, called: Called) -> Answer:
        step, place = called.asked.step, called.asked.place
        if self.world.is_ordered(step):
            await self._turns.come(place, self.world.rank(*place))
        if self.world.cancels(step, len(self.asked)):
            self.clock.is_even = True
            await self.vm().cancel(self.run)
            self.clock.is_even = False
        answer = called.answer = self.world.answer(*place)
        if isinstance(answer, Raised):
            raise raised(answer.names, f"{answer.why} {self.world.words(*place)}")
        if isinstance(answer, Lost):
            raise InDoubt(self.world.words(*place))
        if isinstance(answer, TimedOut):
            timeout = self.world.calls[step].timeout
            assert timeout is not None, "only what has a time-out is late"
            self.clock.time += int((timeout + 1) * 1_000_000)
            self.clock.is_late = True
        called.ended = self.clock.time
        return answer

    def bury(self) -> None:
        """Let the lease of a dead process end. The outcome of a write that it had started is lost."""
        self.clock.time += 2 * LEASE
        self._replied = set()
        started: dict[tuple[str, str], Attempt] = {}
        for record in self.records():
            if record["kind"] == "intent":
                started[_where(record)] = place_on_record(record)
            elif record["kind"] in ("attempt", "doubt"):
                started.pop(_where(record), None)
        self.world.lost |= {
            place
            for (step, _), place in started.items()
            if self.world.calls[step].writes and not self.world.calls[step].keeps_key
        }

    def stored_plan(self, *names: Any) -> Plan:
        """Return the cached plan of the store, which is read once for each run."""
        if names not in self._plans:
            self._plans[names] = stored_plan(self.journal, *names)
        return self._plans[names]

    def history(self) -> History:
        """Return the history of the run from its journal."""
        found = load(self.journal, self.run, self.stored_plan)
        assert found is not None
        return found


def _where(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the step of a record and its frame: items that run at once may be at one step."""
    return record["body"]["step"], str(record["body"].get("frame", ()))
