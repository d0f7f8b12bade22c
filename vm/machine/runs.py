"""The runs of a store for a machine: it reads and leases them, and appends records that need no lease."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from stepward.vm.arguments import COUNT, NUMBER, TEXT, require, require_each
from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import Append, AppendConflict, JournalError, Lease, LeaseLost, Row
from stepward.vm.language.policy import plain
from stepward.vm.machine.apply import apply
from stepward.vm.machine.authority import governed, missing_terms
from stepward.vm.machine.chains import chain_after, chain_before, link_misfit, link_of, turn_link_misfit
from stepward.vm.machine.continuing import Start, derived_policies
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.due import due_of
from stepward.vm.machine.events import Event, entry_of, make_event
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.history import History, load
from stepward.vm.machine.keeping import Abandoned, LeaseKeeper
from stepward.vm.machine.keys import idempotency_key, stored_token, token_reference
from stepward.vm.machine.plan import Plan, Terms, document_of, policy_digest
from stepward.vm.machine.refusals import NoSuchRun, RunBusy, RunRefused
from stepward.vm.machine.replay import cached_plans, misfits
from stepward.vm.machine.run import Doubt, Run, Suspension
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.state import State, visits_of
from stepward.vm.machine.turns import is_turn, turn_name

T = TypeVar("T")

MAX_REFUSALS: Final = 100
"""Maximal number of refused deliveries that the journal of one run records."""

LONGEST_LEASE: Final = 86_400
"""The longest possible lease in seconds: a longer one was given by a wrong clock."""

INLINE: ContextVar[bool] = ContextVar("stepward_inline", default=False)
"""Whether the journal is called directly although it blocks, because nothing else runs on this event loop."""


class Runs:
    """The runs of one store."""

    def __init__(self, setup: Setup) -> None:
        self.journal = setup.journal
        self.clock = setup.clock
        self._setup = setup
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._leases = 0
        self._keepers: weakref.WeakSet[LeaseKeeper] = weakref.WeakSet()
        self._stored = cached_plans(setup.journal)

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        """Call the journal: directly if it does not block or nothing else runs, else in a thread."""
        if not self.journal.blocks or INLINE.get():
            return function(*args)
        return await asyncio.to_thread(self._setup.breakers.beside, function, *args)

    async def _leased(self, function: Callable[..., Lease | None], *args: Any) -> Lease | None:
        """Ask the journal for a lease. If the caller is cancelled meanwhile, the lease is released."""
        if not self.journal.blocks or INLINE.get():
            return await self._io(function, *args)  # by way of `_io`: attacks kill the process before and behind it
        lease_request = asyncio.ensure_future(self._io(function, *args))
        try:
            return await asyncio.shield(lease_request)
        except asyncio.CancelledError:
            while not lease_request.done():  # a thread can't be cancelled
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({lease_request})
            lease = (
                None if lease_request.cancelled() or lease_request.exception() is not None else lease_request.result()
            )
            if lease is not None:
                await self._io(self.journal.release, lease)
            raise

    async def get(self, run: str) -> Run:
        """Return a run as recorded in its journal; raises NoSuchRun."""
        return run_of(await self._found(run))

    async def runs(
        self,
        statuses: Collection[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the store's list of runs, oldest first; no record is read.

        `statuses` and `program` filter by status and by the program's name, `since` by the start, in seconds since the
        epoch; `limit` selects the newest ones.
        """
        if statuses is not None:
            require_each(TEXT, statuses=statuses)
        require(TEXT.or_none(), program=program)
        require(NUMBER.or_none(), since=since)
        require(COUNT.or_none(), limit=limit)
        return await self._io(partial(self.journal.rows, statuses, program=program, since=since, limit=limit))

    async def before(self, run: str) -> list[str]:
        """Return the ids of the runs that a run continues, oldest first; raises NoSuchRun, JournalError."""
        found = await self._found(run)
        return [one.run for one in await self._io(chain_before, found, self._read)]

    async def turns(self, session: str) -> list[History]:
        """Return the turns of a session, in order.

        Raises JournalError for records that no machine would have written, and RunRefused if the name of the first turn
        is that of another run.
        """
        return await self._io(self._turns, session)

    def _turns(self, session: str) -> list[History]:
        first = self._read(turn_name(session, 1))
        if first is None:
            return []
        if not is_turn(first):
            raise RunRefused(f"run `{first.run}` is no turn of a session: name the session otherwise")
        found = [first, *chain_after(first, (), self._read)]
        for number, history in enumerate(found):
            self._require_meaning(history)
            why = turn_link_misfit(history, link_of(history), found[number - 1] if number else None, self.journal)
            if why is not None:
                raise JournalError(f"run `{history.run}`: {why}; see `stepward verify`")
        return found

    async def _load(self, run: str) -> History | None:
        return await self._io(self._read, run) if is_id(run) else None

    def _chain_to(self, run: str) -> list[History]:
        """Return a run behind those that it continues, oldest first; this may block.

        Raises NoSuchRun, and JournalError for a chain that no machine would have written.
        """
        found = self._read(run) if is_id(run) else None
        if found is None:
            raise NoSuchRun(f"there is no run `{run}`")
        chain = [*chain_before(found, self._read), found]
        for number, history in enumerate(chain):
            self._require_meaning(history)
            why = link_misfit(history, chain[:number], self.journal)
            if why is not None:
                raise JournalError(f"run `{history.run}`: {why}; see `stepward verify`")
        return chain

    def _others_of_chain(self, run: str) -> list[str]:
        """Return the ids of the runs that a run continues and of those that continue it, the last first.

        Raises JournalError if this machine may append to one of them only with a key.
        """
        found = self._read(run) if is_id(run) else None
        if found is None:
            return []
        earlier = chain_before(found, self._read)
        later = list(chain_after(found, earlier, self._read))
        for one in (found, *earlier, *later):
            self._require_signer(one)
        return [one.run for one in (*earlier, *later)][::-1]

    def _read(self, run: str) -> History | None:
        """Return a run from the journal, or None if there is none; this may block."""
        keys = self._setup.keys
        try:
            return load(self.journal, run, self._stored_plan, keys)
        except JournalError:
            # An erasure may have come between reading the records and the values: real damage fails again.
            return load(self.journal, run, self._stored_plan, keys)

    async def _found(self, run: str) -> History:
        found = await self._load(run)
        if found is None:
            is_pruned = is_id(run) and await self._io(self.journal.kept, run) is not None
            raise NoSuchRun(f"run `{run}` was pruned" if is_pruned else f"there is no run `{run}`")
        return found

    async def _require_unpruned(self, run: str) -> None:
        """Raise RunRefused for the id of a run that was pruned."""
        if await self._io(self.journal.kept, run) is not None:
            raise RunRefused(f"run `{run}` was pruned, and no other run gets its id: nothing happens twice")

    def _stored_plan(self, *documents: Any) -> Plan:
        """Return the cached plan of stored documents, with the parameters of `stored_plan` after the journal."""
        return self._stored(*documents)

    def _next_holder(self) -> str:
        """Return a new holder's name: two tasks of one machine must not share a lease."""
        self._leases += 1
        return f"{self._holder}:{self._leases}"

    def _present_terms(self, plan: Plan) -> Terms:
        """Return the policies and waivers under which this machine continues runs of a program."""
        raise NotImplementedError

    async def _take(
        self, run: str, until: float | None = None, *, performs: bool = True
    ) -> tuple[Driver, History] | None:
        """Lease a run and read it; None while somebody else drives it. A present lease up to `until` is ignored.

        If the run is to perform something, it comes under the machine's present policies; raises RunRefused if it broke
        one of their rules.
        """
        now, ttl = self.clock.now() / 1e6, self._setup.lease_seconds
        at = now if until is None else until
        lease = await self._leased(self.journal.acquire, run, self._next_holder(), at, ttl)
        if lease is None:
            return None
        if until is not None:
            try:
                lease = await self._io(self.journal.renew, lease, now, ttl)
            except (StepwardError, asyncio.CancelledError):
                await self._io(self.journal.release, lease)
                raise
        return await self._begin(lease, performs=performs)

    async def _begin(
        self, lease: Lease, require: Callable[[History], Awaitable[None]] | None = None, *, performs: bool = True
    ) -> tuple[Driver, History]:
        """Read a run that is leased, and return what drives it; on any error the lease is released.

        `require` raises an error for a run that is to be left alone. The rest is as in `_take`.
        """
        run = lease.run
        try:
            found = await self._found(run)
            self._require_signer(found)
            if require is not None:
                await require(found)
            self._require_meaning(found)
            found, change = await self._governed(found) if performs else (found, None)
        except (StepwardError, asyncio.CancelledError):
            await self._io(self.journal.release, lease)
            raise
        driver = Driver(self._setup, found.plan, run, found.state, found.last, lease)
        if found.plan.has_sensitive:
            for event in found.events:
                driver.known.learn(event)
        if change is not None:
            driver.record(change)
        return driver, found

    async def _governed(self, found: History) -> tuple[History, Event | None]:
        """Return a run under its own and the machine's policies, and the event for those that are new, if any."""
        missing = None if found.state.is_cancelled else missing_terms(found.plan, self._present_terms(found.plan))
        if missing is None:
            return found, None
        if link_of(found) is not None:
            chain = await self._io(chain_before, found, self._read)
            missing = Terms(derived_policies(chain, list(map(plain, missing.policies)), Start.of(found)))
        found, change = governed(found, missing)
        for policy in missing.policies:
            await self._io(self.journal.put_document, policy_digest(policy), document_of(policy))
        return found, change

    def _require_meaning(self, found: History) -> None:
        """Raise JournalError for records that no machine would have written, so that nothing is done because of them.

        With a key, the signature of the head has been checked instead.
        """
        if self._setup.key is None:
            for fault in misfits(found):
                raise JournalError(f"{fault.what}; see `stepward verify`")

    def _require_signer(self, found: History) -> None:
        """Raise JournalError for a signed run if this machine has no key."""
        why = self._lacks_signer(found)
        if why is not None:
            raise JournalError(why)

    def _lacks_signer(self, found: History) -> str | None:
        """Return why nothing may be appended to a signed run if this machine has no key: the signature would be lost.

        Nobody could tell its records from forged ones then, and the machine with the key would refuse the run.
        """
        if not found.is_signed or self._setup.key is not None:
            return None
        why = f"the head of run `{found.run}` is signed, and this machine has no key"
        return f"{why}: give the key that has signed it (`--key`)"

    async def _taken(self, run: str, *, past_any_lease: bool = False, performs: bool = True) -> tuple[Driver, History]:
        """Lease a run that exists and read it; raises RunBusy. `past_any_lease` ignores the lease of a wrong clock."""
        await self._found(run)
        lease_and_run = await self._take(run, performs=performs)
        if lease_and_run is None and past_any_lease:
            until = await self._impossible_expiry(run)
            lease_and_run = None if until is None else await self._take(run, until, performs=performs)
        if lease_and_run is None:
            raise await self._busy(run)
        return lease_and_run

    async def _impossible_expiry(self, run: str) -> float | None:
        """Return the end of a run's lease if it is beyond the longest possible one, else None."""
        row = await self._io(self.journal.row, run)
        is_stranded = row is not None and row.expires > self.clock.now() / 1e6 + LONGEST_LEASE
        return row.expires if row is not None and is_stranded else None

    async def _busy(self, run: str) -> RunBusy:
        """Return the error for a run that is leased to somebody else."""
        until = await self._impossible_expiry(run)
        if until is None:
            return RunBusy(f"somebody else drives run `{run}`")
        days = (until - self.clock.now() / 1e6) / 86_400
        why = "that clock was wrong, or this one is; recover the run by its name"
        return RunBusy(f"the lease of run `{run}` lasts {days:,.0f} more days by this clock: {why}")

    async def _drive(self, driver: Driver) -> Run:
        """Drive a run until it stops, or until somebody else has taken it over, and return it."""
        # Nobody needs the lease of a run that is over: releasing it would be a useless commit.
        is_held = False
        try:
            await driver.drive()
        except LeaseLost:
            return run_of(await self._found(driver.run))
        except (asyncio.CancelledError, KeyboardInterrupt):
            calls = [] if driver.committed[0].is_over else driver.abandoned_calls()
            is_held = bool(calls)
            if is_held:
                self._hold_lease(driver.lease, calls)
            raise
        finally:
            if not is_held and not driver.committed[0].is_over:
                await self._io(self.journal.release, driver.lease)
        state, last = driver.committed
        if state.is_over:
            return Run(driver.run, driver.plan, state, last, history=partial(self._read, driver.run))
        found = await self._found(driver.run)
        if found.state.is_cancelled and not found.state.is_over:
            # The request came after the last append, while this driver still had the lease.
            lease_and_run = await self._take(driver.run, performs=False)
            if lease_and_run is not None:
                return await self._drive(lease_and_run[0])
        return run_of(found, driver.held_by)

    def _hold_lease(self, lease: Lease, calls: list[Abandoned]) -> None:
        """Hold a lease while calls of an interrupted caller still run."""
        keeper = LeaseKeeper(self.journal, self.clock, lease, self._setup.lease_seconds, calls)
        self._keepers.add(keeper)
        keeper.start()

    def let_go(self) -> None:
        """Release the leases that are held for interrupted callers; for a process that ends now, with its tools.

        A process that exits normally does so by itself if its journal is still open.
        """
        for keeper in list(self._keepers):
            keeper.release()

    async def _refuse(self, run: str, what: str, why: str, who: Mapping[str, str]) -> None:
        """Record a refused delivery in the journal of the run."""
        body = {"what": what, "why": why}
        await self._append(
            run, lambda state: make_event("refused", body, who) if state.refusals < MAX_REFUSALS else None
        )

    async def _append(self, run: str, make: Callable[[State], Event | None]) -> None:
        """Append an event that needs no lease, made by `make` from the state; nothing if it returns None."""
        while True:
            found = await self._found(run)
            event = make(found.state)
            if event is None:
                return
            self._require_signer(found)
            last, now = found.last, self.clock.now()
            state = apply(found.plan, found.state, event)
            entry = entry_of(event, last, now)
            key = self._setup.key
            signature = None if key is None else key.sign_head(run, entry.seq, entry.digest)
            try:
                append = Append(run, last.seq, [entry], state.status, now / 1e6, True, signature, due_of(state))
                await self._io(self.journal.append, append, None)
            except AppendConflict:
                await asyncio.sleep(0)
                continue
            return


def is_id(run: object) -> bool:
    """Return whether a value can be the id of a run: not every caller has a type checker."""
    return isinstance(run, str) and 0 < len(run) <= 200 and run.isprintable()


def run_of(found: History, held_by: str | None = None) -> Run:
    """Return the public view of a run, with its suspensions and doubts."""
    plan, state = found.plan, found.state
    suspensions, doubts = [], []
    for local in leaves(plan, state):
        step, frame = plan.steps[local.at], local.frame
        visit = 0 if step.is_stage else visits_of(local, step)
        for call, call_state in zip(step.calls, local.calls or (), strict=False):
            if call_state.phase == "suspended":
                secret = found.secrets.get(token_reference(call.id, visit, call_state.performance, frame))
                token = stored_token(secret, found.run, call_state.token, plan.digest, call.id, visit, frame)
                suspensions.append(Suspension(call.id, token, call_state.value, frame))
            elif call_state.phase == "doubt":
                key = idempotency_key(plan.digest, found.run, call.id, visit, call_state.performance, frame)
                doubts.append(Doubt(call.id, call.tool, key, call_state.error, frame))
    return Run(
        found.run, plan, state, found.last, tuple(suspensions), tuple(doubts), history=lambda: found, held_by=held_by
    )
