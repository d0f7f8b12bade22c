"""The machine: runs programs, and picks up, resumes, reconciles, cancels and erases the runs that it finds."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol, TypeVar

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import canonical, opened
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.records import NO_DIGEST, write_record
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Append, AppendConflict, Entry, Journal, Lease, LeaseLost, Row
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.types import same
from stepward.vm.machine.apply import apply
from stepward.vm.machine.ask import typed
from stepward.vm.machine.calls import oversize, way_out
from stepward.vm.machine.clock import Clock, SystemClock
from stepward.vm.machine.data import completed
from stepward.vm.machine.driver import Driver, Setup
from stepward.vm.machine.events import Event, Result, event, unsealed
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.keys import Token, idempotency_key, token_reference
from stepward.vm.machine.models import Model
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.run import Doubt, Run, Suspension
from stepward.vm.machine.state import Limits, State, before, visits_of
from stepward.vm.machine.tools import FunctionTools, Tools
from stepward.vm.values import FrozenMap, ValueRefused, freeze

T = TypeVar("T")

MAX_REFUSALS: Final = 100
"""Refused deliveries that one run's journal records; more are refused all the same."""

MAX_PLANS: Final = 64
"""Programs that a machine keeps ready to run."""

Verdict = Literal["done", "not_done", "abandon"]


class RunRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A run does not start: its program has findings, its inputs are not as declared, a tool is missing, or the run id
    is taken by a run of something else. The message says which, and nothing has happened."""


class NoSuchRun(StepwardError):  # noqa: N818
    """The journal has no run of that id."""


class RunBusy(StepwardError):  # noqa: N818
    """Somebody else drives the run; try again when its lease has ended."""


class DeliveryRefused(StepwardError):  # noqa: N818
    """A resume or a reconciliation is not accepted: a token that is used, or of another run, step or program, a payload
    of the wrong type, a step that is not in doubt. The run is as it was."""


class Finding(Protocol):
    """What the machine needs to know of a checker's finding."""

    code: str
    message: str

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        ...


Checker = Callable[[Program, Sequence[Policy]], Iterable[Finding]]

_INLINE: ContextVar[bool] = ContextVar("stepward_inline", default=False)


class ExecutionVM:
    """Runs programs.

    `tools` are functions by name (or an object or module that has them), `model` an adapter, `journal` a store (memory
    unless given), `policy` one policy or several, `checker` what judges a program before its first run. `key` signs
    heads. `retry_delay` gives the seconds to wait before an attempt, `lease_seconds` is how long a run stays with a
    machine that gives no sign of life.
    """

    def __init__(  # noqa: PLR0913 - each is a part of the machine that one may want another of
        self,
        tools: Tools | Mapping[str, Callable[..., Any]] | object = None,
        model: Model | None = None,
        journal: Journal | None = None,
        policy: Policy | Sequence[Policy] = (),
        checker: Checker | None = None,
        *,
        key: SigningKey | None = None,
        clock: Clock | None = None,
        limits: Limits = Limits(),  # noqa: B008 - a frozen tuple
        retry_delay: Callable[[int], float] = lambda attempt: min(2.0 ** (attempt - 2), 30.0),
        lease_seconds: float = 60.0,
    ) -> None:
        self.tools: Tools = tools if _has_tools(tools) else FunctionTools({} if tools is None else tools)  # type: ignore[assignment]
        self.model = model
        self.journal: Journal = MemoryJournal() if journal is None else journal
        self.policies = (policy,) if isinstance(policy, Policy) else tuple(policy)
        self.checker = checker
        self.limits = limits
        self.clock: Clock = SystemClock() if clock is None else clock
        self._setup = Setup(self.journal, self.tools, model, self.clock, key, retry_delay, lease_seconds, self._io)
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._leases = 0
        self._limits = list(limits)
        self._has_waivers = any(policy.waivers for policy in self.policies)
        self._plans: dict[Any, tuple[Program, Plan, datetime.date | None]] = {}
        self._stored: dict[Any, Plan] = {}
        self._known: set[str] = set()
        self._equipped: set[str] = set()
        self._passed: dict[str, list[Finding]] = {}

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        """Call the journal: at once where that does not block or nobody else waits, else in a thread."""
        if not self.journal.blocks or _INLINE.get():
            return function(*args)
        return await asyncio.to_thread(function, *args)

    # -- run -----------------------------------------------------------------------------------------------------------

    async def run(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        accept: Collection[str] = (),
    ) -> Run:
        """Run a program until it ends, suspends or is in doubt, and return the run.

        With a `run_id` that exists, the run that exists is returned, finished or not; raises RunRefused when it is of
        another program, other policies or other inputs. `accept` names the codes of findings that may be.
        """
        plan = self._plan(program)
        self._check(plan, accept)
        self._require_tools(plan)
        given, why = completed(_frozen(inputs or {}), plan.input_types)
        if why is not None:
            raise RunRefused(f"input {why}")
        run = f"run-{uuid.uuid4().hex}" if run_id is None else run_id
        _refuse_id(run)
        if run_id is not None:
            found = await self._load(run)
            if found is not None:
                return self._same(found, plan, given)
        driver = await self._create(plan, run, given)
        if driver is None:
            found = await self._load(run)
            assert found is not None, "a run that could not be made exists"
            return self._same(found, plan, given)
        return await self._drive(driver)

    async def _create(self, plan: Plan, run: str, inputs: Mapping[str, Any]) -> Driver | None:
        setup = self._setup
        if plan.digest not in self._known:
            for digest, text in {plan.digest: plan.document, **plan.policy_documents}.items():
                await self._io(self.journal.put_document, digest, text)
            self._known.add(plan.digest)
        body = {
            "inputs": FrozenMap(inputs),
            "policies": plan.policy_digests,
            "program": plan.digest,
            "waived": tuple(sorted(plan.waived)),
        }
        note = {"limits": self._limits, "run": run}
        nobody = Lease(run, 0, 0.0)
        driver = Driver(setup, plan, run, before(plan), Entry(-1, b"", NO_DIGEST), nobody)
        driver.record(unsealed("started", body, note) if plan.has_sensitive else event("started", body, note))
        first = driver.pending[0]
        size = len(first.entry.record)
        if size > self.limits.state_bytes:
            raise RunRefused(f"the inputs have {size} bytes, more than the {self.limits.state_bytes} allowed")
        if driver.secrets:
            await self._io(self.journal.vault.put, run, driver.secrets)
            driver.secrets = {}
        signature = None if setup.key is None else setup.key.sign_head(run, 0, first.entry.digest)
        append = Append(run, -1, [first.entry], first.state.status, self.clock.now() / 1e6, False, signature)
        name = plan.program.name
        lease = await self._io(self.journal.create, append, name, self._next_holder(), setup.lease_seconds)
        if lease is None:
            return None
        driver.lease, driver.committed = lease, (first.state, first.entry)
        driver.pending, driver.urgency = [], 0
        return driver

    def _same(self, found: History, plan: Plan, inputs: Mapping[str, Any]) -> Run:
        """Return a run that exists if it is the one that was asked for."""
        body = found.records[0].body
        if body["program"] != plan.digest:
            raise RunRefused(f"run `{found.run}` exists, and is of another program")
        if body["policies"] != list(plan.policy_documents):
            raise RunRefused(f"run `{found.run}` exists, and is under other policies")
        if found.state.is_erased and plan.has_sensitive:
            raise RunRefused(f"run `{found.run}` exists, and its inputs were erased")
        if not same(opened(found.events[0].body["inputs"]), opened(FrozenMap(inputs))):
            raise RunRefused(f"run `{found.run}` exists, and has other inputs")
        return _seen(found)

    async def _drive(self, driver: Driver) -> Run:
        """Drive a run as far as it goes; where somebody else has taken it over, return it as it is."""
        try:
            await driver.drive()
        except LeaseLost:
            return await self.get(driver.run)
        finally:
            await self._io(self.journal.release, driver.lease)
        state, last = driver.committed
        if state.calls is None:
            return Run(driver.run, driver.plan, state, last)
        return await self.get(driver.run)

    # -- what is asked before a run starts -----------------------------------------------------------------------------

    def _plan(self, program: Program) -> Plan:
        # A waiver ends while the machine goes on.
        today = (
            datetime.datetime.fromtimestamp(self.clock.now() / 1e6, datetime.UTC).date() if self._has_waivers else None
        )
        kept = self._plans.get(id(program))
        if kept is not None and kept[0] is program and kept[2] == today:
            return kept[1]
        policies = [policy for policy in self.policies if policy.applies(program.name, program.source_name)]
        waived = sorted(
            f"{policy.policy}:{waiver.rule}"
            for policy in policies
            for waiver in policy.waivers
            if today is not None and waiver.program == program.name and not waiver.is_expired(today)
        )
        plan = Plan(program, policies, waived)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[id(program)] = (program, plan, today)
        return plan

    def _check(self, plan: Plan, accept: Collection[str]) -> None:
        if self.checker is None:
            return
        if plan.digest not in self._passed:
            findings = list(self.checker(plan.program, self.policies))
            self._passed[plan.digest] = [finding for finding in findings if str(finding.severity) == "error"]
        found = [finding for finding in self._passed[plan.digest] if finding.code not in accept]
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            codes = ", ".join(sorted({finding.code for finding in found}))
            raise RunRefused(f"{found[0].code}: {found[0].message}{more}; mend the program, or accept {codes} by name")

    def _require_tools(self, plan: Plan) -> None:
        if plan.digest in self._equipped:
            return
        for step in plan.steps:
            for call in step.calls:
                if call.is_model:
                    if self.model is None:
                        raise RunRefused(f"`{call.id}` asks a model, and the machine has none")
                elif not self.tools.has(call.tool):
                    raise RunRefused(f"`{call.id}` calls tool `{call.tool}`, and the machine has no such tool")
        self._equipped.add(plan.digest)

    # -- runs that exist -----------------------------------------------------------------------------------------------

    async def get(self, run: str) -> Run:
        """Return a run as its journal has it; raises NoSuchRun."""
        return _seen(await self._found(run))

    async def runs(self, statuses: Iterable[str] | None = None) -> list[Row]:
        """Return the list of runs, oldest first; with `statuses` only those."""
        return await self._io(self.journal.rows, statuses)

    async def _load(self, run: str) -> History | None:
        if not _is_id(run):
            return None
        return await self._io(load, self.journal, run, self._stored_plan)

    async def _found(self, run: str) -> History:
        found = await self._load(run)
        if found is None:
            raise NoSuchRun(f"there is no run `{run}`")
        return found

    def _stored_plan(self, program: str, policies: tuple[str, ...], waived: tuple[str, ...]) -> Plan:
        key = (program, policies, waived)
        if key not in self._stored:
            if len(self._stored) >= MAX_PLANS:
                self._stored.clear()
            self._stored[key] = stored_plan(self.journal, program, policies, waived)
        return self._stored[key]

    def _next_holder(self) -> str:
        """A name for each lease: two tasks of one machine must not share one."""
        self._leases += 1
        return f"{self._holder}:{self._leases}"

    async def _take(self, run: str) -> tuple[Driver, History] | None:
        """Lease a run and read it; None while somebody else drives it."""
        now = self.clock.now() / 1e6
        lease = await self._io(self.journal.acquire, run, self._next_holder(), now, self._setup.lease_seconds)
        if lease is None:
            return None
        found = await self._found(run)
        driver = Driver(self._setup, found.plan, run, found.state, found.last, lease)
        return driver, found

    async def _taken(self, run: str) -> tuple[Driver, History]:
        await self._found(run)
        taken = await self._take(run)
        if taken is None:
            raise RunBusy(f"somebody else drives run `{run}`")
        return taken

    async def recover(self, run_id: str | None = None) -> list[Run]:
        """Go on with the runs that nobody drives any more, or with one; return those that were picked up.

        A write that had started is repeated under its key when its tool is idempotent; else the run is IN_DOUBT.
        """
        if run_id is not None:
            self._require_tools((await self._found(run_id)).plan)
            driver, _ = await self._taken(run_id)
            return [await self._drive(driver)]
        now = self.clock.now() / 1e6
        rows = await self.runs(["RUNNING"])
        recovered = []
        for row in rows:
            taken = await self._take(row.run) if row.expires <= now else None
            if taken is None:
                continue
            try:
                self._require_tools(taken[1].plan)
            except RunRefused:  # a run of another machine's tools is left to that
                await self._io(self.journal.release, taken[0].lease)
                continue
            recovered.append(await self._drive(taken[0]))
        return recovered

    async def resume(self, token: str, payload: Any = None) -> Run:
        """Resume the step that a token is for: `payload` is its output. Return the run when it stops again.

        Raises DeliveryRefused for a token that is used or of something else, and for a payload of the wrong type; the
        journal of the run that the token names says so.
        """
        read = Token.read(token)
        if read is None:
            raise DeliveryRefused("this is no resume token")
        while True:
            found = await self._load(read.run)
            if found is None:
                raise DeliveryRefused("the token is for no run here")
            self._require_tools(found.plan)
            call = _awaited(found, read)
            if call is None:
                await self._refuse(read.run, "resume", "the token was used, or is for another step or program")
                raise DeliveryRefused("the token was used, or is for another step or program")
            result = _delivered(found, call, payload)
            if result.answer != "output":
                await self._refuse(read.run, "resume", f"the payload for `{call.id}` is too large, or not of its type")
                raise DeliveryRefused(result.error)
            taken = await self._take(read.run)
            if taken is not None and _awaited(taken[1], read) is not None:
                break
            if taken is not None:
                await self._io(self.journal.release, taken[0].lease)
            await self.clock.sleep(0.02)  # whoever has the lease uses the token, or lets go
        driver, found = taken
        self._settle(driver, call, "resumed", {"output": result.value})
        return await self._drive(driver)

    def _settle(
        self, driver: Driver, call: CallPlan, kind: Literal["resumed", "reconciled"], more: dict[str, Any]
    ) -> None:
        """Record that a call has its output from outside."""
        step = driver.plan.steps[driver.state.at]
        visit = visits_of(driver.plan, driver.state, step.position)
        body = {"kind": "success", "step": call.id, "visit": visit, **more}
        if not step.is_parallel:
            body |= way_out(driver.plan, step.ways["success"])
        driver.record(unsealed(kind, body) if driver.plan.has_sensitive else event(kind, body))

    async def reconcile(self, run_id: str, step: str, verdict: Verdict, output: Any = None) -> Run:
        """Say what became of a write that is in doubt, and go on.

        `done`: it happened, and `output` is what it returned; `not_done`: it did not, so it is performed again under
        its key; `abandon`: the run ends CANCELLED. Raises DeliveryRefused when the step is not in doubt, or the output
        is not of its type.
        """
        self._require_tools((await self._found(run_id)).plan)
        driver, found = await self._taken(run_id)
        try:
            call = _doubted(found, step)
            if verdict == "done":
                result = _delivered(found, call, output)
                if result.answer != "output":
                    raise DeliveryRefused(result.error)
                self._settle(driver, call, "reconciled", {"output": result.value, "verdict": "done"})
            elif verdict in ("not_done", "abandon"):
                visit = visits_of(found.plan, found.state, found.state.at)
                body: dict[str, Any] = {"step": step, "verdict": verdict, "visit": visit}
                if verdict == "abandon":
                    body |= {"ends": "CANCELLED", "reason": "abandoned"}
                driver.record(event("reconciled", body))
            else:
                raise DeliveryRefused(f"a verdict is `done`, `not_done` or `abandon`, not `{verdict}`")
        except DeliveryRefused:
            await self._io(self.journal.release, driver.lease)
            raise
        return await self._drive(driver)

    async def cancel(self, run_id: str) -> Run:
        """End a run CANCELLED. A call that is under way is finished first, by whoever drives the run."""
        found = await self._found(run_id)
        if found.state.is_over:
            return _seen(found)
        if not found.state.is_cancelled:
            await self._append(run_id, lambda state: None if state.is_over else event("cancel", {}))
        taken = await self._take(run_id)
        return await self.get(run_id) if taken is None else await self._drive(taken[0])

    async def erase(self, run_id: str) -> Run:
        """Destroy every sensitive value of a run, and return it. An unfinished run is cancelled first.

        Raises RunBusy while somebody else drives it.
        """
        run = await self.cancel(run_id)
        if not run.is_over:
            raise RunBusy(f"somebody else drives run `{run_id}`; erase it when that has ended")
        secrets = await self._io(self.journal.vault.get, run_id)
        references = tuple(sorted(name for name in secrets if not name.startswith("token:")))
        body = {"references": references}
        # The tombstone first: a crash between the two leaves values that nothing reads, and the next erasure finds.
        await self._append(run_id, lambda _: event("erased", body) if references else None)
        await self._io(self.journal.vault.erase, run_id)
        return await self.get(run_id)

    async def _refuse(self, run: str, what: str, why: str) -> None:
        """Put a refused delivery into the journal of the run, so that somebody sees it."""
        body = {"what": what, "why": why}
        await self._append(run, lambda state: event("refused", body) if state.refusals < MAX_REFUSALS else None)

    async def _append(self, run: str, make: Callable[[State], Event | None]) -> None:
        """Append what anybody may append, whoever drives the run; nothing where `make` returns None."""
        while True:
            found = await self._found(run)
            happened = make(found.state)
            if happened is None:
                return
            last, now = found.last, self.clock.now()
            state = apply(found.plan, found.state, happened)
            entry = write_record(
                last.seq + 1, last.digest, happened.kind, happened.text, canonical(dict(happened.note)), now
            )
            key = self._setup.key
            signature = None if key is None else key.sign_head(run, entry.seq, entry.digest)
            try:
                append = Append(run, last.seq, [entry], state.status, now / 1e6, True, signature)
                await self._io(self.journal.append, append, None)
            except AppendConflict:
                await asyncio.sleep(0)
                continue
            return

    # -- for code without an event loop --------------------------------------------------------------------------------

    def run_sync(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        accept: Collection[str] = (),
    ) -> Run:
        """Do as `run` does, for code without an event loop."""
        return _sync(self.run(program, inputs, run_id=run_id, accept=accept))

    def get_sync(self, run: str) -> Run:
        """Do as `get` does, for code without an event loop."""
        return _sync(self.get(run))

    def recover_sync(self, run_id: str | None = None) -> list[Run]:
        """Do as `recover` does, for code without an event loop."""
        return _sync(self.recover(run_id))

    def resume_sync(self, token: str, payload: Any = None) -> Run:
        """Do as `resume` does, for code without an event loop."""
        return _sync(self.resume(token, payload))

    def reconcile_sync(self, run_id: str, step: str, verdict: Verdict, output: Any = None) -> Run:
        """Do as `reconcile` does, for code without an event loop."""
        return _sync(self.reconcile(run_id, step, verdict, output))

    def cancel_sync(self, run_id: str) -> Run:
        """Do as `cancel` does, for code without an event loop."""
        return _sync(self.cancel(run_id))

    def erase_sync(self, run_id: str) -> Run:
        """Do as `erase` does, for code without an event loop."""
        return _sync(self.erase(run_id))


def _has_tools(tools: object) -> bool:
    return callable(getattr(tools, "has", None)) and callable(getattr(tools, "call", None))


def _sync(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coroutine.close()
        raise StepwardError("an event loop runs here: await the form without `_sync`")
    token = _INLINE.set(True)
    try:
        return asyncio.run(coroutine)
    finally:
        _INLINE.reset(token)


def _frozen(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return freeze(dict(inputs))  # type: ignore[no-any-return]
    except ValueRefused as error:
        raise RunRefused(f"an input is no value: {error}") from None


def _refuse_id(run: str) -> None:
    if not _is_id(run):
        raise RunRefused("a run id has 1 to 200 printable characters")


def _is_id(run: str) -> bool:
    return 0 < len(run) <= 200 and run.isprintable()


def _awaited(found: History, token: Token) -> CallPlan | None:
    """Return the suspended call that a token is for, or None."""
    step = found.plan.steps[found.state.at]
    visit = visits_of(found.plan, found.state, step.position)
    for call, held in zip(step.calls, found.state.calls or (), strict=False):
        if held.phase == "suspended" and held.token == token.digest(found.plan.digest, call.id, visit):
            return call
    return None


def _delivered(found: History, call: CallPlan, payload: Any) -> Result:
    """Return an output that comes from outside, held against its type and the limits of size."""
    result = typed(call, payload, "failed")
    if result.answer == "output":
        too_large = oversize(found.plan, found.state, found.plan.steps[found.state.at], result.value)
        if too_large is not None:
            return Result("failed", error=too_large)
    return result


def _doubted(found: History, name: str) -> CallPlan:
    step = found.plan.steps[found.state.at]
    for call, held in zip(step.calls, found.state.calls or (), strict=False):
        if call.id == name and held.phase == "doubt":
            return call
    raise DeliveryRefused(f"`{name}` is not in doubt in run `{found.run}`")


def _seen(found: History) -> Run:
    """Return a run with what it waits for."""
    plan, state = found.plan, found.state
    step = plan.steps[state.at]
    visit = visits_of(plan, state, step.position)
    suspensions, doubts = [], []
    for call, held in zip(step.calls, state.calls or (), strict=False):
        if held.phase == "suspended":
            secret = found.secrets.get(token_reference(call.id, visit, held.performance), b"").decode()
            suspensions.append(Suspension(call.id, f"{found.run}.{secret}" if secret else "", held.value))
        elif held.phase == "doubt":
            key = idempotency_key(plan.digest, found.run, call.id, visit, held.performance)
            doubts.append(Doubt(call.id, call.tool, key, held.error))
    return Run(found.run, plan, state, found.last, tuple(suspensions), tuple(doubts))
