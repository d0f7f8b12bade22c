"""The public class of the machine: it runs programs, and recovers, resumes, reconciles, cancels and erases runs."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from stepward.vm.arguments import made, require_each
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import LARGEST, canonical, opened, portable
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import NO_DIGEST
from stepward.vm.journal.signing import SigningKey, VerifyKey
from stepward.vm.journal.store import Append, Entry, Journal, JournalError, Lease, LeaseLost
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.types import same
from stepward.vm.language.within import applying, waived
from stepward.vm.machine.admission import Admission, Checker, unnamed, warn_of_no_checker
from stepward.vm.machine.ask import error_text
from stepward.vm.machine.authority import Envelope, envelope_note, require_name, require_starter
from stepward.vm.machine.breakers import Breakers
from stepward.vm.machine.caching import Replies
from stepward.vm.machine.clock import Clock, DatedClock, SystemClock
from stepward.vm.machine.continuation import (
    MAX_CONTINUATIONS,
    ContinuationRequest,
    checked_grant,
    named_reads,
    prepared,
    require_continuable,
)
from stepward.vm.machine.continuing import id_after
from stepward.vm.machine.data import completed
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.due import due_of
from stepward.vm.machine.equipment import require_facts, require_parts, tool_fault, tools_of
from stepward.vm.machine.events import NOTHING, make_event, unsealed
from stepward.vm.machine.history import History
from stepward.vm.machine.migration import Migrations
from stepward.vm.machine.models import Model
from stepward.vm.machine.observer import Observer
from stepward.vm.machine.plan import Plan, Terms
from stepward.vm.machine.refusals import NotEquipped, RunRefused, RunTaken, input_refused
from stepward.vm.machine.replay import MAX_PLANS
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import INLINE, LONGEST_LEASE, is_id, run_of
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.state import Limits, before
from stepward.vm.machine.timeouts import limit_note
from stepward.vm.machine.tools import Tools
from stepward.vm.machine.turns import TurnRequest, link_behind
from stepward.vm.machine.waiting import ThreadLoop, wait
from stepward.vm.models.cache import ReplyCache
from stepward.vm.models.opening import open_cache
from stepward.vm.values import ByteBudget, FrozenMap, TooLarge, ValueRefused, freeze

T = TypeVar("T")
P = ParamSpec("P")

_NO_ENTRY: Final = Entry(-1, b"", NO_DIGEST)
_NO_LEASE: Final = Lease("", 0, 0.0)
"""What a run has before it is created."""


def _without_loop(form: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that does as `form` does, for code without an event loop."""

    @wraps(form)
    def waiting(machine: Any, /, *args: P.args, **named: P.kwargs) -> T:
        result: T = machine._wait(getattr(machine, form.__name__)(*args, **named))
        return result

    return waiting


class ExecutionVM(Migrations):
    """Runs programs.

    `tools` are functions by name, or a module or object that has them, or a provider with `has` and `call`. `model` is
    a Model: an adapter with a method `complete`. `journal` is a store (memory unless given), `policy` one policy or
    several. `checker` is a function of a program and its policies that returns findings; a finding of severity `error`
    refuses the program before its first run on this machine. Give `stepward.validator.check_program`, or None to accept
    any program; without this argument there is a NoCheckerWarning. `key` signs heads, and a machine with one goes on
    only with runs that it has signed, or one of the keys `trusted`, which were in use before. After `breaks_after`
    failures of a tool in a row the machine opens its breaker, and holds the runs that reach it. `retry_delay` gets the
    number of the attempt that comes next (2 for the first retry) and returns the seconds to wait before it; unless
    given, 1, 2, 4, 8, 16, and then 30 seconds. `lease_seconds` is how long a run stays leased to a machine that does
    not renew its lease: a day at most, else ValueError. `random` returns a number of bytes that nobody can guess, for
    run ids, tokens and salts; only tests replace it. `observer` learns of every stored record and of what the
    checker finds: a `Telemetry` sends spans and metrics. `cache` keeps the replies to steps with `cache: true`: a file,
    the URL of a server, or a ReplyCache. What is wrong with it is logged under `stepward.cache`, and ends no run.

    Raises CacheFault for a name that can't be a cache's. Raises TypeError for a model that can't be asked, for tools
    that can't be called, and for a tool that can't take the arguments that a policy declares. Arguments that a program
    declares are compared when it is run: RunRefused.
    """

    def __init__(  # noqa: PLR0913 - each is a part of the machine that users may replace
        self,
        tools: Tools | Mapping[str, Callable[..., Any]] | object = None,
        model: Model | None = None,
        journal: Journal | None = None,
        policy: Policy | Sequence[Policy] = (),
        checker: Checker | None = unnamed,
        *,
        key: SigningKey | None = None,
        trusted: Sequence[VerifyKey] = (),
        breaks_after: int | None = None,
        clock: Clock | None = None,
        limits: Limits = Limits(),  # noqa: B008 - a frozen tuple
        retry_delay: Callable[[int], float] = lambda attempt: min(2.0 ** (attempt - 2), 30.0),
        lease_seconds: float = 60.0,
        random: Callable[[int], bytes] = os.urandom,
        observer: Observer | None = None,
        cache: ReplyCache | str | os.PathLike[str] | None = None,
    ) -> None:
        require_parts(model=model, journal=journal, key=key, clock=clock, observer=observer, cache=cache)
        require_parts(checker=checker, breaks_after=breaks_after, retry_delay=retry_delay, random=random)
        require_parts(lease_seconds=lease_seconds, limits=limits, trusted=trusted)
        self.tools = tools_of(tools)
        self.model = model
        require_each(made(Policy), policy=(policy,) if isinstance(policy, Policy) else policy)
        self.policies = (policy,) if isinstance(policy, Policy) else tuple(policy)
        require_facts(self.tools, self.policies)
        self.limits = Limits(*(min(int(bound), LARGEST) for bound in limits))  # records have no larger numbers
        store: Journal = MemoryJournal() if journal is None else journal
        if observer is not None:
            store = observer.watch(store)
            checker = checker if checker in (None, unnamed) else observer.checks(checker)
        if not 0 < lease_seconds <= LONGEST_LEASE:
            raise ValueError(f"`lease_seconds` is a number of seconds above 0, and {LONGEST_LEASE:,} at most")
        watch: Clock = SystemClock() if clock is None else DatedClock(clock)
        replies = _replies(cache, model)
        super().__init__(
            Setup(
                store,
                self.tools,
                model,
                watch,
                key,
                retry_delay,
                lease_seconds,
                random,
                self._io,
                Breakers(store, breaks_after),
                replies,
                self._depart,
                trusted=tuple(trusted),
            )
        )
        self._limits = list(self.limits)
        self._has_waivers = any(policy.waivers for policy in self.policies)
        self._plans: dict[Any, tuple[Program, Plan, datetime.date | None]] = {}
        # By program and policies: one program comes under different policies by the path of its file.
        self._documented: set[tuple[str, ...]] = set()
        self._equipped: set[tuple[str, ...]] = set()
        self._thread = threading.local()
        self._admission = Admission(None if checker is unnamed else checker)
        if checker is unnamed:
            warn_of_no_checker(2)

    # -- run -----------------------------------------------------------------------------------------------------------

    async def run(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        accept: Collection[str] = (),
        by: str | None = None,
        envelope: Envelope | None = None,
    ) -> Run:
        """Run a program until it ends, suspends or is in doubt, and return the run.

        With a `run_id` that exists, the existing run is returned, finished or not; raises RunRefused if it has another
        program, other policies or other inputs. `accept` lists codes of findings that are accepted. `by` names the
        person who starts the run, for the journal and for policies with `four_eyes`. `envelope` says which caller of a
        gateway asked for it.
        """
        who = {**require_name(by, RunRefused), **envelope_note(envelope, RunRefused)}
        plan = self._plan(program)
        await self._admission.require(plan, self.policies, accept)
        self._require_tools(plan)
        started = await self._started(plan, inputs, run_id, who, self._setup.lease_seconds)
        return started if isinstance(started, Run) else await self._drive(started)

    async def queue(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        accept: Collection[str] = (),
        by: str | None = None,
    ) -> Run:
        """Write a run for the next worker that claims it, and return it; nothing is performed.

        This machine needs neither the tools nor the model of the program. The rest is as in `run`.
        """
        who = require_name(by, RunRefused)
        plan = self._plan(program)
        await self._admission.require(plan, self.policies, accept)
        started = await self._started(plan, inputs, run_id, who, 0.0)
        return started if isinstance(started, Run) else await self.get(started.run)

    async def _started(
        self, plan: Plan, inputs: Mapping[str, Any] | None, run_id: str | None, who: Mapping[str, Any], ttl: float
    ) -> Driver | Run:
        """Write a new run, leased for `ttl` seconds, and return its driver, or return the run with this id.

        Without a lease the run is durable on return, and its tools may be those of another machine.
        """
        frozen = _frozen(inputs, self.limits.state_bytes) if inputs else {}
        values, why = completed(frozen, plan.input_types)
        if why is not None:
            raise input_refused(why, plan.input_types)
        run = f"run-{self._setup.random(16).hex()}" if run_id is None else run_id
        if run_id is not None:
            _require_id(run)
            found = await self._load(run)
            if found is not None:
                return self._existing(found, plan, values)
        require_starter(plan, who)
        if ttl:
            await self._require_current(plan)
        driver = await self._create(plan, run, values, who, ttl=ttl)
        if driver is None:
            found = await self._load(run)
            if found is None:
                await self._require_unpruned(run)
                raise JournalError(f"run `{run}` can't be made, and is not there")
            return self._existing(found, plan, values)
        return driver

    async def continue_run(  # noqa: PLR0913 - each is a choice of the caller
        self,
        run_id: str,
        program: Program,
        reads: Mapping[str, str] | Collection[str] = (),
        *,
        head: str | None = None,
        grant: Mapping[str, Any] = NOTHING,
        after_failure: bool = False,
        max_continuations: int = MAX_CONTINUATIONS,
        accept: Collection[str] = (),
        by: str | None = None,
        envelope: Envelope | None = None,
    ) -> Run:
        """Continue a run that has ended BUDGET_EXCEEDED or STALLED by another program, and return the new run.

        `reads` names the variables and outputs of the run that become inputs of the program: by the name of the input,
        or only their names where these are the same. With `head`, the digest of the last record that the caller has
        seen, a run that has changed since is refused. `grant` adds to what is left of `steps`, `tokens`, `cost` and
        `time` (seconds): only the operator may decide that. `after_failure` allows it after FAILED, too. A chain has
        `max_continuations` at most. The other parameters are those of `run`.

        The new run is under the policies of this machine and of the run before, in the state in which that has left
        them, and repeats none of its writes. Raises RunRefused if the run can't be continued in this way, NoSuchRun,
        and JournalError for records that do not fit together.
        """
        who = {**require_name(by, RunRefused), **envelope_note(envelope, RunRefused)}
        chain = await self._io(self._chain_to, run_id)
        self._require_signer(chain[-1])
        request = ContinuationRequest(
            program, named_reads(reads), head, checked_grant(grant), after_failure, max_continuations, accept
        )
        require_continuable(chain, request)
        run = id_after([one.run for one in chain])
        _require_id(run)
        if await self._load(run) is not None:
            raise RunRefused(f"run `{run_id}` is continued already, by run `{run}`: look at that one")
        policies = applying(program, self.policies)
        plan, inputs, continues = prepared(chain, request, policies)
        await self._admission.require(plan, plan.policies, accept)
        require_starter(plan, who)
        self._require_tools(plan)
        await self._require_current(plan)
        driver = await self._create(plan, run, inputs, who, {"continues": continues})
        if driver is None:
            raise RunRefused(f"run `{run_id}` was continued meanwhile, by run `{run}`: look at that one")
        return await self._drive(driver)

    async def take_turn(
        self,
        run_id: str,
        program: Program,
        inputs: Mapping[str, Any],
        said: TurnRequest,
        before: History | None,
        *,
        by: str | None = None,
        envelope: Envelope | None = None,
    ) -> Run:
        """Run the program of a turn of a session behind the turn `before`, None for the first one; return its run.

        `said` is the text of the turn, and what the session was started with. The machine has the policies of the
        session in the state in which that turn has left them. The rest is as in `run`. Raises RunTaken if there is a
        run with this id: somebody else has gone on with the session.
        """
        who = {**require_name(by, RunRefused), **envelope_note(envelope, RunRefused)}
        plan = self._plan(program)
        await self._admission.require(plan, self.policies, ())
        require_starter(plan, who)
        self._require_tools(plan)
        values, why = completed(_frozen(inputs, self.limits.state_bytes), plan.input_types)
        if why is not None:
            raise input_refused(why, plan.input_types)
        _require_id(run_id)
        await self._require_current(plan)
        if before is not None:
            self._require_signer(before)
        link = {} if before is None else {"continues": link_behind(before)}
        driver = await self._create(plan, run_id, values, who, {**link, "turn": FrozenMap(freeze(said.to_body()))})
        if driver is None:
            await self._require_unpruned(run_id)
            raise RunTaken(f"there is a run `{run_id}` already")
        return await self._drive(driver)

    async def _create(
        self,
        plan: Plan,
        run: str,
        inputs: Mapping[str, Any],
        who: Mapping[str, Any] = NOTHING,
        more: Mapping[str, Any] = NOTHING,
        *,
        ttl: float | None = None,
    ) -> Driver | None:
        setup = self._setup
        ttl = setup.lease_seconds if ttl is None else ttl
        if plan.digests not in self._documented:
            for digest, text in {plan.digest: plan.document, **plan.policy_documents}.items():
                await self._io(self.journal.put_document, digest, text)
            self._documented.add(plan.digests)
        start = self.clock.now()
        note = {"limits": self._limits, "run": run, **who, **limit_note(plan, start)}
        driver = Driver(setup, plan, run, before(plan), _NO_ENTRY, _NO_LEASE)
        body = {"inputs": FrozenMap(inputs), **plan.start, **more}
        driver.record((unsealed if plan.has_sensitive else make_event)("started", body, note), start)
        first = driver.pending[0][2]
        size = len(first.record)
        if plan.has_sensitive:  # the record has references in place of values
            size = max(size, len(canonical(portable(opened(FrozenMap(inputs)))).encode()))
        if size > self.limits.state_bytes:
            raise RunRefused(f"the inputs have {size} bytes, more than the {self.limits.state_bytes} allowed")
        if driver.secrets:
            try:
                await self._io(self.journal.vault.put, run, driver.secrets)
            except LeaseLost:
                await self._require_unpruned(run)
                raise
            driver.secrets = {}
        signature = None if setup.key is None else setup.key.sign_head(run, 0, first.digest)
        now = self.clock.now() / 1e6
        due = due_of(driver.state) if ttl else now  # of queued runs, those that were written first come first
        append = Append(run, -1, [first], driver.state.status, now, not ttl, signature, due)
        name = plan.program.name
        lease = await self._leased(self.journal.create, append, name, self._next_holder(), ttl)
        if lease is None:
            return None
        driver.lease, driver.committed = lease, (driver.state, first)
        driver.pending, driver.urgency = [], 0
        return driver

    def _existing(self, found: History, plan: Plan, inputs: Mapping[str, Any]) -> Run:
        """Return an existing run; raises RunRefused if its program, policies or inputs differ."""
        body = found.records[0].body
        if body["program"] != plan.digest:
            raise RunRefused(f"run `{found.run}` exists, and is of another program")
        if body["policies"] != list(plan.policy_documents):
            raise RunRefused(f"run `{found.run}` exists, and is under other policies")
        if found.state.is_erased and plan.has_sensitive:
            raise RunRefused(f"run `{found.run}` exists, and its inputs were erased")
        if not same(opened(found.events[0].body["inputs"]), opened(FrozenMap(inputs))):
            raise RunRefused(f"run `{found.run}` exists, and has other inputs")
        return run_of(found)

    # -- checks before a run starts ------------------------------------------------------------------------------------

    def _plan(self, program: Program) -> Plan:
        today = self._today()
        cached = self._plans.get(id(program))
        if cached is not None and cached[0] is program and cached[2] == today:
            return cached[1]
        policies = applying(program, self.policies)
        plan = Plan(program, policies, waived(program, policies, today))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[id(program)] = (program, plan, today)
        return plan

    def _today(self) -> datetime.date | None:
        """Return the date, on which waivers depend, or None if there are no waivers."""
        if not self._has_waivers:
            return None
        return datetime.datetime.fromtimestamp(self.clock.now() / 1e6, datetime.UTC).date()

    def _present_terms(self, plan: Plan) -> Terms:
        """Return the policies and waivers under which this machine continues runs of a program.

        The store has no path of the program's file: a policy that applies by a path counts if the run is under it.
        """
        program = plan.program
        known = {one.policy for terms in plan.terms for one in terms.policies}
        policies = [one for one in self.policies if one.policy in known or applying(program, [one], "")]
        return Terms(tuple(policies), frozenset(waived(program, policies, self._today())))

    def _require_tools(self, plan: Plan) -> None:
        if plan.digests in self._equipped:
            return
        for step in plan.steps:
            for call in step.calls:
                if call.is_model:
                    if self.model is None:
                        raise NotEquipped(f"`{call.id}` asks a model, and the machine has none")
                elif not self.tools.has(call.tool):
                    raise NotEquipped(f"`{call.id}` calls tool `{call.tool}`, and the machine has no such tool")
                else:
                    why = None if call.arg_types is None else tool_fault(self.tools, call.tool, call.arg_types)
                    if why is not None:
                        raise NotEquipped(f"`{call.id}` calls tool `{call.tool}`: {why}")
        self._equipped.add(plan.digests)

    # -- for code without an event loop --------------------------------------------------------------------------------

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of this thread: a new loop for each call would cost as much as a step."""
        if asyncio._get_running_loop() is not None:  # without the exception of the public function, on every call
            coroutine.close()
            raise StepwardError("an event loop runs here: await the form without `_sync`")
        thread_loop = getattr(self._thread, "loop", None)
        if thread_loop is None:
            thread_loop = self._thread.loop = ThreadLoop()
        context = contextvars.copy_context()
        context.run(INLINE.set, True)
        return wait(thread_loop.loop, coroutine, context)

    run_sync = _without_loop(run)
    queue_sync = _without_loop(queue)
    get_sync = _without_loop(Migrations.get)
    before_sync = _without_loop(Migrations.before)
    continue_run_sync = _without_loop(continue_run)
    migration_sync = _without_loop(Migrations.migration)
    migrate_sync = _without_loop(Migrations.migrate)
    recover_sync = _without_loop(Migrations.recover)
    recover_all_sync = _without_loop(Migrations.recover_all)
    resume_sync = _without_loop(Migrations.resume)
    reconcile_sync = _without_loop(Migrations.reconcile)
    cancel_sync = _without_loop(Migrations.cancel)
    erase_sync = _without_loop(Migrations.erase)
    prunable_sync = _without_loop(Migrations.prunable)
    prune_sync = _without_loop(Migrations.prune)


def _replies(cache: ReplyCache | str | os.PathLike[str] | None, model: Model | None) -> Replies | None:
    """Return the replies of a cache for a model, or None without one of them."""
    if cache is None or model is None:
        return None
    return Replies(open_cache(cache) if isinstance(cache, str | os.PathLike) else cache, model, _in_turn)


async def _in_turn(function: Callable[..., T], *args: Any) -> T:
    """Call a method of a cache: directly if nothing else runs on this event loop, else in a thread."""
    return function(*args) if INLINE.get() else await asyncio.to_thread(function, *args)


def _frozen(inputs: Mapping[str, Any], max_bytes: int) -> Mapping[str, Any]:
    room = ByteBudget(max_bytes)
    try:
        return {name: freeze(value, room=room) for name, value in inputs.items()}
    except TooLarge:
        raise RunRefused(f"the inputs have more than the {max_bytes} bytes allowed") from None
    except ValueRefused as error:
        raise RunRefused(f"an input is no value: {error}") from None
    except Exception as error:  # a lazy list or object may fail when it is read
        raise RunRefused(f"an input can't be read: {error_text(error)}") from error


def _require_id(run: str) -> None:
    if not is_id(run):
        raise RunRefused("a run id has 1 to 200 printable characters")
