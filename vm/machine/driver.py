"""Drives one run: decide, act, append, apply. All effects that the core must not have are here."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, Secret
from stepward.vm.journal.chain import read_together
from stepward.vm.journal.records import read_record
from stepward.vm.journal.sealing import seal
from stepward.vm.journal.store import Append, AppendConflict, Entry, JournalError, Lease, LeaseLost, packed
from stepward.vm.language.steps.catching import BAD_OUTPUT
from stepward.vm.machine.apply import apply
from stepward.vm.machine.ask import ask_model, ask_tool
from stepward.vm.machine.calls import is_unpaid, judge
from stepward.vm.machine.due import due_of
from stepward.vm.machine.events import IDLE, Call, Calls, Event, Result, entry_of, make_event, unsealed
from stepward.vm.machine.forks import within
from stepward.vm.machine.history import checked_records, require_head
from stepward.vm.machine.holding import count, is_held, look, was_closed
from stepward.vm.machine.keeping import UNDER_WAY, Abandoned, PartUnderWay
from stepward.vm.machine.keys import FrameName, Token, idempotency_key, stored_token, token_reference
from stepward.vm.machine.known import Known, brings_output
from stepward.vm.machine.memory import Memory
from stepward.vm.machine.ordered import MAX_PENDING, Asleep, keep_going
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.sizes import may_be_oversize, oversize
from stepward.vm.machine.state import OPEN, State
from stepward.vm.machine.timely import LONGEST_SLEEP, is_out_of_time, next_action, time_left
from stepward.vm.machine.tools import ToolContext
from stepward.vm.machine.waiting import notify_first_wait
from stepward.vm.values import FrozenMap, as_text

MAX_WAIT: Final = 1_000_000
"""Maximal time between the records of one commit, in microseconds, if a call is due."""

LONGEST_DELAY: Final = 5.0
"""Seconds of a delay above which a worker lets a run go until it is over."""

MAX_RENEWALS: Final = 3
"""How often an expired lease is renewed before a call."""

ANY_TIME, COMMITS, DURABLE = 0, 1, 2
"""The urgency of the next commit: at any time; before the next call; or before the next call, and durable."""

_URGENCY: Final = dict.fromkeys(
    ("doubt", "reconciled", "resumed", "expired", "ended", "moved", "waiting", "cancel", "erased"), DURABLE
) | {"governed": COMMITS, "rejected": COMMITS}

_FOREIGN: Final = ("cancel", "refused")
"""The records that others may append to a run while it is driven."""

Pending = tuple[Event, int, Entry]
"""An event whose record is not in the store yet, its time, and that record."""


class Driver:
    """The driver of one run for a machine that holds its lease."""

    def __init__(self, setup: Setup, plan: Plan, run: str, state: State, last: Entry, lease: Lease) -> None:
        self.setup = setup
        self.plan = plan
        self.run = run
        self.state = state
        self.memory: Memory | None = None
        """What branches do next, once there are some."""
        self.lease = lease
        self.committed = (state, last)
        self.pending: list[Pending] = []
        self.urgency = ANY_TIME
        self.max_bytes = 0
        """Bytes that an output may have, once the run is driven."""
        self.secrets: dict[str, bytes] = {}
        self.under_way: dict[tuple[FrameName, int], tuple[list[PartUnderWay], float | None]] = {}
        self._intended: set[tuple[str, FrameName]] = set()
        """The calls with an intent that have not started yet."""
        self._last = last
        self._is_parked = False
        self.held_by: str | None = None
        self.successor: Driver | None = None
        self._flushing: asyncio.Lock | None = None
        self._renewing: asyncio.Task[None] | None = None

    @cached_property
    def known(self) -> Known:
        """The sensitive values of the run."""
        return Known(self.plan)

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Drive the run until it ends or waits for a delivery; raises LeaseLost if somebody else drives it by now."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self.setup.lease_seconds / 3
        timers: list[asyncio.TimerHandle] = []
        try:
            await notify_first_wait(self._finish(), lambda: timers.append(loop.call_at(due, self._start_renewing)))
        finally:
            for timer in timers:
                timer.cancel()
            if self._renewing is not None:
                self._renewing.cancel()

    async def _finish(self) -> None:
        limits = self.state.limits
        self.max_bytes = min(limits.output_bytes, limits.state_bytes)
        while True:
            while await self._advance() and not self.stops():
                pass
            if self.held_by is None or not await was_closed(self):
                return

    def stops(self) -> bool:
        """Return whether no call of the run starts any more on this machine."""
        stop = self.setup.stop
        return self._is_parked or self.held_by is not None or (stop is not None and stop.is_set())

    def _may_park(self) -> bool:
        """Return whether the run is to be let go, because nothing but a long delay is ahead."""
        due = due_of(self.state) if self.setup.parks else None
        return due is not None and due - self.setup.clock.now() / 1e6 > LONGEST_DELAY

    async def _advance(self) -> bool:
        """Perform actions until MAX_PENDING records are pending or none is due; return whether to call it again."""
        steps, breakers = self.plan.steps, self.setup.breakers
        while len(self.pending) < MAX_PENDING and not self.stops():
            action = next_action(self)
            if type(action) is Event:
                if self.state.is_leaving:
                    await self._depart()
                self.record(action)
            elif type(action) is not Calls:
                await self.flush()
                # The flush may have read a request to cancel.
                return next_action(self) is not IDLE
            elif self.state.fork is not None or steps[self.state.at].order is not None:
                self.memory = self.memory or Memory()
                await keep_going(self)
            elif len(action.calls) == 1:
                if breakers.is_stale:
                    await look(self)
                await self.attempt(action.calls[0])
            else:
                await self._make(action.calls)
        await self.flush()
        await asyncio.sleep(0)
        return True

    async def _depart(self) -> None:
        """Have the run created that goes on, after everything that it stands on is stored."""
        assert self.setup.depart is not None, "a machine that moves runs creates those that go on"
        await self.flush()
        await self.setup.depart(self)

    def record(self, event: Event, at: int = 0, own: State | None = None) -> State:
        """Apply an event to the run, or to the state `own` of a branch, and write it; `at` is its time, else now."""
        plan, before = self.plan, own or self.state
        if plan.has_sensitive:
            event = self._sealed(event)
        state = apply(plan, before, event)
        if plan.has_sensitive:
            self.known.learn(event)
        at = at or self.setup.clock.now()
        self._last = entry = entry_of(event, self._last, at)
        self.pending.append((event, at, entry))
        if event.kind in _URGENCY:
            self.urgency = max(self.urgency, _URGENCY[event.kind])
        if own is None:
            if state.status is not before.status:
                self.urgency = DURABLE
            self.state = state
        return state

    def put(self, state: State) -> None:
        """Put the state after some records in place."""
        if state.status is not self.state.status:
            self.urgency = DURABLE
        self.state = state

    async def flush(self) -> None:
        """Append the pending records; raises LeaseLost, or JournalError if the store fails."""
        if self._flushing is None:  # most programs, which pay for no context
            while self.pending:
                await self._append()
            return
        async with self._flushing:
            while self.pending:
                await self._append()

    async def _append(self) -> None:
        setup, state, is_durable = self.setup, self.state, self.urgency == DURABLE
        entries = [entry for _, _, entry in self.pending]
        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
        last = entries[-1]
        signature = None
        if setup.key is not None:
            signature = setup.key.sign_head(self.run, last.seq, last.digest)
        now, expected = setup.clock.now() / 1e6, self.committed[1].seq
        parts = (self.run, expected, entries, state.status, now, is_durable, signature, due_of(state))
        append = packed(Append, parts)
        try:
            await setup.io(setup.journal.append, append, self.lease.fence)
        except AppendConflict:
            await self._give_way()
            return
        self.committed = (state, last)
        del self.pending[: len(entries)]
        self.urgency = ANY_TIME if not self.pending else self.urgency

    async def _give_way(self) -> None:
        """Insert records of others before the pending ones: a request to cancel, or a refused delivery."""
        setup, (state, last) = self.setup, self.committed
        head, entries = await setup.io(read_together, setup.journal, self.run)
        foreign = [entry for entry in entries if entry.seq > last.seq]
        for entry in foreign:
            record = read_record(entry)
            if record.kind not in _FOREIGN or record.prev != last.digest.hex():
                raise LeaseLost(f"somebody else drives run `{self.run}` by now")
            state = apply(self.plan, state, Event(record.kind, record.body, record.note, ""))
            last = entry
        if not foreign:
            raise LeaseLost(f"the journal of run `{self.run}` is shorter than it was")
        if setup.key is not None:  # the next signature of this machine covers these records, too
            checked_records(self.run, entries)
            require_head(self.run, head, last, setup.keys)
        again, self.pending, self._last, self.committed = self.pending, [], last, (state, last)
        for event, at, _ in again:
            call = (event.body.get("step", ""), event.body.get("frame", ()))
            if state.is_cancelled and event.kind == "intent" and call in self._intended:
                continue  # its call has not started, and need not any more
            state = apply(self.plan, state, event)
            self._last = entry = entry_of(event, self._last, at)
            self.pending.append((event, at, entry))
        self.state = state

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def _make(self, calls: tuple[Call, ...]) -> None:
        """Make attempts concurrently; if one raises, the others still finish."""
        self.share_flushes()
        gate = asyncio.Semaphore(self.plan.steps[self.state.at].concurrency or len(calls))

        async def one(call: Call) -> None:
            async with gate:
                await look(self)
                await self.attempt(call)

        # Not a TaskGroup: it would cancel the siblings of one whose append fails, but not their effects.
        results = await asyncio.gather(*map(one, calls), return_exceptions=True)
        errors = [result for result in results if result is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, LeaseLost)):
            raise error

    def share_flushes(self) -> None:
        """Let one flush at a time run, because several calls are about to be under way."""
        self._flushing = self._flushing or asyncio.Lock()

    async def pause(self, call: Call, asleep: Asleep) -> None:
        """Wait before an attempt that is not the first; each sleep is in a context of `asleep`."""
        if call.due:
            await self._wait_until_due(call, asleep)
        else:
            with asleep():
                await self._sleep(min(self.setup.retry_delay(call.attempt), time_left(self)))
        await look(self)

    async def _sleep(self, seconds: float) -> None:
        """Wait; the end comes early if this machine is to stop."""
        stop = self.setup.stop
        if stop is None:
            await self.setup.clock.sleep(seconds)
            return
        ends = {asyncio.ensure_future(self.setup.clock.sleep(seconds)), asyncio.ensure_future(stop.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ends:
                one.cancel()

    def state_of(self, call: Call) -> State:
        """Return the state as the frame of a call sees it."""
        return self.state if self.state.fork is None else within(self.plan, self.state, call.frame)

    async def attempt(self, call: Call) -> None:
        """Make an attempt of a call of the present step, and record its outcome."""
        setup = self.setup
        sub, step, visit, attempt, performance, _, _, _, is_retry, is_started, _, frame = call
        plan = self.plan.calls[step]
        if is_retry and not is_started:
            await self.pause(call, nullcontext)
        state = self.state
        is_late = not is_started and (state.is_cancelled or self.stops() or (state.ends_by and is_out_of_time(self)))
        if is_late or is_held(self, plan):
            return
        note: dict[str, Any] = {"attempt": attempt, "performance": performance}
        token = await self._intend(plan, call, note) if plan.has_intent else ""
        if self.urgency or self._is_overdue():
            await self.flush()
            if self.state.is_cancelled and not self._is_open(call):
                return
        self._intended.discard((step, frame))
        limit = self.max_bytes
        replies = setup.replies
        key = None if replies is None else replies.key(plan, call, self.known)
        # Only a first attempt looks for a reply, and before the look at the lease, because it may take time.
        cached = (
            await replies.find(key, plan, limit) if replies is not None and key is not None and attempt == 1 else None
        )
        started = setup.clock.now()
        if started / 1e6 >= self.lease.expires:
            started = await self._require_lease()
        parts: list[PartUnderWay] | None = [] if plan.is_durable else None
        UNDER_WAY.set(parts)
        if parts is not None:
            self.under_way[frame, sub] = (parts, None if plan.timeout is None else time.monotonic() + plan.timeout)
        if plan.is_model:
            assert setup.model is not None, "a run without its model is refused"
            result = cached or await ask_model(setup.model, setup.clock, plan, call, limit, frame)
            spent = result.spent
            note |= {"tokens": spent.tokens, "cost": as_text(spent.cost), "model": spent.model}
            note |= {"cached": True} if result.is_cached else {}
        else:
            digest, timeout, returns = self.plan.digest, plan.timeout, plan.returns
            place = (digest, self.run, step, visit, attempt, performance, token, timeout, returns, frame)
            context = packed(ToolContext, place)
            result = await ask_tool(setup.tools, setup.clock, plan, call, context, limit)
        if parts is not None:
            del self.under_way[frame, sub]
        ended = setup.clock.now()
        note["started"] = started
        note["took"] = ended - started if ended > started else 0  # the clock may have been set back
        if self.state.fork is not None and not plan.has_intent and is_unpaid(self.plan, self.state, call.frame):
            return  # the run is about to end, as if this read had not started
        event = self._answer(plan, call, result, note, ended)
        if replies is not None and key is not None and not result.is_cached:
            await replies.keep(key, event, result)
        if setup.breakers.counts:
            await count(self, plan, result, ended / 1e6)

    async def _wait_until_due(self, call: Call, asleep: Asleep) -> None:
        """Wait for the time at which an attempt is due; a request to cancel ends the waiting.

        The time is in the journal before the waiting starts, so that another machine waits only for the rest of it.
        """
        setup, local = self.setup, self.state_of(call)
        assert local.calls is not None, "a call that is repeated is one of the present step"
        before = local.calls[call.sub]
        entry = self.plan.steps[local.at].calls[call.sub].retry_of(before.name)
        assert entry is not None, "only an entry of `retry` states a due time"
        await self.flush()
        # A clock that was set back makes no delay longer than the program says.
        until = min(call.due, setup.clock.now() + entry.delay(before.attempt - before.base))
        until = min(until, self.state.ends_by or until)
        while (left := until - setup.clock.now()) > 0 and not (self.state.is_cancelled or self.stops()):
            if self._may_park():
                self._is_parked = True
                return
            with asleep():
                await self._sleep(min(left / 1e6, LONGEST_SLEEP))
            await self._read_foreign()

    async def _read_foreign(self) -> None:
        """Insert records that others have appended since the last append: a request to cancel, for example."""
        head = await self.setup.io(self.setup.journal.head, self.run)
        async with self._flushing or nullcontext():
            if head is not None and head.seq > self.committed[1].seq:
                await self._give_way()

    def abandoned_calls(self) -> list[Abandoned]:
        """Return the calls with an intent that still run after the caller was interrupted."""
        abandoned = [Abandoned(tuple(parts), until) for parts, until in self.under_way.values()]
        return [one for one in abandoned if not one.is_over]

    async def _require_lease(self) -> int:
        """Return a time at which the lease is valid; renews it if needed, and raises LeaseLost if that fails.

        After a long pause of this process somebody else may have leased the run, and must not see another effect. The
        process may also pause during the renewal, so the time is checked again.
        """
        setup = self.setup
        for _ in range(MAX_RENEWALS):
            now = setup.clock.now()
            if now / 1e6 < self.lease.expires:
                return now
            self.lease = await setup.io(setup.journal.renew, self.lease, now / 1e6, setup.lease_seconds)
        raise LeaseLost(f"the lease of run `{self.run}` runs out sooner than it can be renewed")

    def _is_overdue(self) -> bool:
        """Return whether records have waited for too long: only an append reads requests to cancel."""
        return len(self.pending) > 1 and self.pending[-1][1] - self.pending[0][1] >= MAX_WAIT

    def _is_open(self, call: Call) -> bool:
        calls = self.state_of(call).calls
        return calls is not None and calls[call.sub].phase == OPEN

    def _start_renewing(self) -> None:
        self._renewing = asyncio.get_running_loop().create_task(self._renew(self.setup.lease_seconds / 3))

    async def _renew(self, pause: float) -> None:
        """Renew the lease for as long as the run is driven."""
        setup = self.setup
        while True:
            now = setup.clock.now() / 1e6
            try:
                self.lease = await setup.io(setup.journal.renew, self.lease, now, setup.lease_seconds)
            except LeaseLost:
                return  # the next append raises it, where it can be reported
            except JournalError:
                pass  # the next append raises it, unless the store recovers
            await asyncio.sleep(pause)

    async def _intend(self, plan: CallPlan, call: Call, note: dict[str, Any]) -> str:
        """Record the intent of an effect, unless it is recorded already; return the performance's resume token."""
        frame = call.frame
        reference = token_reference(call.step, call.visit, call.performance, frame) if plan.may_suspend else ""
        if call.is_started:
            if not plan.may_suspend:
                return ""
            secrets, local = await self.setup.io(self.setup.journal.vault.get, self.run), self.state_of(call)
            assert local.calls is not None, "a call that has started is one of the present step"
            digest = local.calls[call.sub].token
            secret = secrets.get(reference)
            return stored_token(secret, self.run, digest, self.plan.digest, call.step, call.visit, frame)
        key = idempotency_key(self.plan.digest, self.run, call.step, call.visit, call.performance, frame)
        fields, token = note | {"key": key}, None
        if plan.may_suspend:
            token = Token.new(self.run, self.setup.random)
            fields["token"] = token.digest(self.plan.digest, call.step, call.visit, frame)
            self.secrets[reference] = token.secret.encode()
        args, policies = call.args or FrozenMap(), self.plan.digests_under(self.state.governed)
        body = {"args": args, "policies": policies, "step": call.step, "tool": plan.tool, "visit": call.visit}
        if frame:
            body["frame"] = frame
        self.record(unsealed("intent", body, fields) if self.plan.has_sensitive else make_event("intent", body, fields))
        self._intended.add((call.step, frame))
        self.urgency = max(self.urgency, DURABLE if plan.is_durable else COMMITS if plan.is_model else ANY_TIME)
        return token.text() if token is not None else ""

    def _answer(self, plan: CallPlan, call: Call, result: Result, note: dict[str, Any], at: int) -> Event:
        """Record the outcome of an attempt, and return its event."""
        local, too_large = self.state_of(call), None
        event = judge(self.plan, local, call, result, note)
        body = event.body
        name = "output" if "output" in body else "request"
        if name in body:
            is_secret = self.plan.has_sensitive
            if is_secret:
                event = self._sealed(event)
            # The record is longer than the output in it, unless it has only a reference to the output.
            if is_secret or may_be_oversize(local, event):
                too_large = oversize(self.plan, local, self.plan.steps[local.at], event.body[name])
            if too_large is not None:
                unfit = Result("doubt" if plan.writes else "failed", error=too_large, name=BAD_OUTPUT)
                event = judge(self.plan, local, call, unfit._replace(spent=result.spent), note)
        self.record(event, at)
        if plan.is_durable:
            self.urgency = DURABLE
        elif plan.is_model:
            self.urgency = max(self.urgency, COMMITS)
        return event

    # -- sensitive values ----------------------------------------------------------------------------------------------

    def _sealed(self, event: Event) -> Event:
        """Return an event without secrets: sealed in values, redacted in texts of errors and requests.

        Outputs may repeat a sensitive value where no type marks it.
        """
        if event.text and not event.body.keys() & {"error", "request"}:
            return event
        body, known = dict(event.body), self.known
        if brings_output(event):
            body["output"] = known.veiled(event)
        body = {name: self._seal(value) for name, value in body.items()}
        if "error" in body:
            body["error"] = known.redacted(str(body["error"]), event)
        if "request" in body:
            body["request"] = known.redacted_value(body["request"], event)
        return make_event(event.kind, body, event.note)  # type: ignore[arg-type]

    def _seal(self, value: Any) -> Any:
        if isinstance(value, Secret):
            sealed, secret = seal(value.value, self.setup.random)
            self.secrets[sealed.reference] = secret
            return sealed
        if isinstance(value, Sealed):
            return value
        if isinstance(value, dict):
            return FrozenMap((key, self._seal(item)) for key, item in value.items())
        return tuple(self._seal(item) for item in value) if isinstance(value, tuple) else value
