"""What a caller may ask for: its programs and its runs, each behind the gate and its limits."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.gateway.caller_account import CallerAccount, Operator, prefix_of
from stepward.validator.gateway.callers import Caller
from stepward.validator.gateway.judging import Judged, in_force, judge
from stepward.validator.gateway.metering import HOUR
from stepward.validator.gateway.refusals import RequestRefused, answered
from stepward.validator.gateway.saved_programs import SavedPrograms
from stepward.validator.gateway.sessions import Sessions
from stepward.validator.gateway.telling import path_of, status_of_run, told_row
from stepward.validator.planner.before import Before, Continuing, before_of
from stepward.validator.planner.brief import brief_of
from stepward.validator.planner.loop import TRIES, planning_inputs, planning_program, planning_tools
from stepward.validator.planner.refusal import PlanRefused
from stepward.vm.errors import StepwardError
from stepward.vm.journal.records import read_record
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.continuing import id_after
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.runs import is_id
from stepward.vm.machine.turns import turn_name

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.machine.run import Run

MAX_LISTED: Final = 50
"""Runs of one list, the newest."""

MAX_CHECKS: Final = 4
"""Programs of one caller that wait for the gate."""

_TICK: Final = 0.25

Progress = Callable[[int, str], Awaitable[None]]
"""Called while a run goes on, with the number of its records and its status."""


class Gateway:
    """Answers callers. Every method raises RequestRefused, with the reason and what the caller can do."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._journal = operator.journal
        self._saved = SavedPrograms(operator.programs)
        self._accounts: dict[str, CallerAccount] = {}
        self._gate = asyncio.Lock()  # one check at a time: Z3 has one context, and a check may use much memory
        self._checks: dict[str, set[asyncio.Task[Judged]]] = {}
        self._going: dict[str, asyncio.Task[Run]] = {}
        self._sessions = Sessions(self._gate, operator.wait)
        self._stop = asyncio.Event()

    # -- programs ------------------------------------------------------------------------------------------------------

    @answered
    async def check_program(self, caller: Caller, text: str) -> str:
        """Return the answer of the gate."""
        return (await self._judged(caller, text)).answer

    @answered
    async def draw_program(self, caller: Caller, text: str) -> str:
        """Return a program as a diagram in Mermaid."""
        judged = await self._judged(caller, text)
        if judged.program is None:
            raise RequestRefused("the program does not pass the gate", judged.answer)
        return await asyncio.to_thread(_drawn, judged.program, self._account(caller).policies)

    @answered
    async def list_tools(self, caller: Caller) -> dict[str, Any]:
        """Return the manifest of the tools that a caller may call."""
        allowed = [one.tool for one in self._account(caller).policies[-1].allow or ()]
        tools = {name: dict(self._operator.facts[name]) for name in allowed}
        return {"tools": tools, **({} if tools else {"note": "no tools are configured for you"})}

    @answered
    async def save_program(self, caller: Caller, name: str, text: str) -> dict[str, Any]:
        """Save a program that passes the gate."""
        judged = await self._judged(caller, text)
        if judged.program is None:
            raise RequestRefused("the program does not pass the gate, so it is not saved", judged.answer)
        await asyncio.to_thread(self._saved.save, caller.name, name, text)
        return {"saved": name, "program": judged.program.name}

    @answered
    async def list_programs(self, caller: Caller) -> dict[str, Any]:
        """Return the names of the saved programs of a caller."""
        return {"programs": await asyncio.to_thread(self._saved.names, caller.name)}

    @answered
    async def policies(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the policies in force for a caller as plain data."""
        return [policy.to_data() for policy in self._account(caller).policies]

    @answered
    async def plan(
        self,
        caller: Caller,
        task: str,
        inputs: Mapping[str, Any] | None,
        request: str | None = None,
        progress: Progress | None = None,
        *,
        continues: str | None = None,
    ) -> dict[str, Any]:
        """Let the operator's model write a program for a task; return the run of the plan, as `run_program` does.

        With `continues`, the program is to do what that run of the caller has left.
        """
        account = self._account(caller)
        before = None if continues is None else await self._before(caller, continues)
        try:
            brief = brief_of(
                task,
                name="plan",
                manifest=None,
                policies=account.policies,
                about=self._operator.about,
                inputs=inputs,
                before=None if before is None else lambda _: before,
            )
        except PlanRefused as error:
            raise RequestRefused(error.message, error.help) from None
        policies = None if before is None else brief.policies
        machine = account.planning_machine(planning_tools(brief, partial(self._judged, caller, policies=policies)))
        run = _run_id(caller, request)
        plans = partial(machine.run, planning_program(TRIES), planning_inputs(brief), run_id=run)
        await self._run(account, plans, run, progress)
        return await self.get_run(caller, run)

    # -- runs ----------------------------------------------------------------------------------------------------------

    @answered
    async def run_program(
        self,
        caller: Caller,
        text: str | None,
        name: str | None,
        inputs: Mapping[str, Any],
        request: str | None = None,
        progress: Progress | None = None,
        *,
        continues: str | None = None,
    ) -> dict[str, Any]:
        """Run a program that passes the gate; return its run when it stops, or after some seconds.

        `request` names the request: the same request starts one run, however often it is sent. With `continues`, the
        program continues that run of the caller, and its inputs are what it reads of it.
        """
        if (text is None) == (name is None):
            raise RequestRefused(
                "a run needs one of `program` and `name`", "send the text, or the name of a saved program"
            )
        if self._operator.tools is None:
            raise RequestRefused(
                "no tools are configured", "the operator names them with `stepward mcp --tools MODULE`"
            )
        source = text if text is not None else await asyncio.to_thread(self._saved.text, caller.name, str(name))
        account = self._account(caller)
        if continues is not None:
            if inputs or request is not None:
                raise RequestRefused("a continuation reads its inputs, and its run has a name", "leave both out")
            return await self._continue(account, await self._before(caller, continues), source, progress)
        judged = await self._judged(caller, source)
        if judged.program is None:
            raise RequestRefused("the program does not pass the gate, so it is not run", judged.answer)
        run = _run_id(caller, request)
        await self._run(account, partial(account.machine.run, judged.program, inputs, run_id=run), run, progress)
        return await self.get_run(caller, run)

    async def _before(self, caller: Caller, run: str) -> Before:
        """Return what comes before the continuation of a run of the caller; a caller is granted nothing."""
        await self._require_own(caller, run)
        try:
            return await asyncio.to_thread(
                before_of, self._journal, Continuing(run), in_force(self._account(caller).policies)
            )
        except PlanRefused as error:
            raise RequestRefused(error.message, error.for_caller) from None

    async def _continue(
        self, account: CallerAccount, before: Before, source: str, progress: Progress | None
    ) -> dict[str, Any]:
        """Continue a run by a program that passes the gate in the state in which that run has ended."""
        judged = await self._judged(account.caller, source, policies=before.policies)
        if judged.program is not None:
            judged = await self._judged(
                account.caller, before.within(judged.program).to_yaml(), policies=before.policies
            )
        if judged.program is None:
            raise RequestRefused("the program does not pass the gate, so it is not run", judged.answer)
        reads = before.reads_of(judged.program)
        run = id_after([one.run for one in before.chain])
        driving = partial(account.machine.continue_run, before.run, judged.program, reads, head=before.head)
        await self._run(account, driving, run, progress)
        return await self.get_run(account.caller, run)

    @answered
    async def run_lisp(
        self,
        caller: Caller,
        text: str | None,
        session: str | None,
        signature: str | None,
        data: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Take a turn of a session, a new one without `session`; return its answer, or after some seconds that it
        goes on."""
        account = self._account(caller)
        if session is not None and (signature is not None or data):
            raise RequestRefused(
                "`signature` and `data` are for a new session", "leave them out, or leave `session` out"
            )
        if self._operator.tools is None:
            raise RequestRefused(
                "no tools are configured", "the operator names them with `stepward mcp --tools MODULE`"
            )
        if session is not None:
            open_session = await self._sessions.find(
                caller, session, account.session, partial(self._has_session, caller)
            )
        elif text is None:
            raise RequestRefused("a new session needs its first turn", "send it as `program`")
        else:
            session, open_session = self._sessions.start(caller, data, signature, account.session)
        return await self._sessions.turn(session, open_session, text, account.meter)

    async def _has_session(self, caller: Caller, name: str) -> bool:
        """Return whether the journal has a session of a caller."""
        first = turn_name(f"{prefix_of(caller)}{name}", 1)
        return await asyncio.to_thread(self._owner, first) == caller.name

    @answered
    async def get_run(self, caller: Caller, run: str) -> dict[str, Any]:
        """Return how a run of the caller stands; one that is due goes on first, as nothing else drives it here."""
        await self._require_own(caller, run)
        account = self._account(caller)
        found = await self._announced(caller, account.machine.get(run))
        if found.due is not None and found.due <= account.machine.clock.now() / 1e6 and run not in self._going:
            await self._recover(account, run)
        return status_of_run(await asyncio.to_thread(self._history, run))

    async def _recover(self, account: CallerAccount, run: str) -> None:
        """Go on with a run and wait until it stops, for some seconds at most, unless another process drives it.

        A turn is left to its session.
        """
        if self._stop.is_set() or "turn" in (await asyncio.to_thread(self._history, run)).events[0].body:
            return
        with suppress(StepwardError):  # it stands as it did, and that is told
            await self._waited(self._under_way(account, run, _recovered(account, run)), run, None)

    @answered
    async def list_runs(self, caller: Caller) -> dict[str, Any]:
        """Return the newest runs of the caller."""
        rows = await asyncio.to_thread(self._journal.rows)
        mine = [row for row in rows if row.run.startswith(prefix_of(caller))][-MAX_LISTED:]
        owned = [row for row in mine if await asyncio.to_thread(self._owner, row.run) == caller.name]
        return {"runs": [told_row(row) for row in reversed(owned)]}

    @answered
    async def verify_run(self, caller: Caller, run: str) -> dict[str, Any]:
        """Return whether the records of a run are as they were written."""
        from stepward.vm.journal.verify import verify
        from stepward.vm.machine.replay import replayer

        await self._require_own(caller, run)
        operator = self._operator
        keys = () if operator.key is None else (operator.key.public, *operator.trusted)
        check = partial(verify, self._journal, run, keys=keys, replay=replayer(self._journal, run))
        verdict = await asyncio.to_thread(check)
        return {
            "run": run,
            "intact": verdict.is_intact,
            "records": verdict.records,
            "signed": bool(verdict.signed_by),
            "faults": [fault.what for fault in verdict.faults],
        }

    @answered
    async def replay_run(self, caller: Caller, run: str) -> dict[str, Any]:
        """Return whether the machine would write the same records again, and the path of the run."""
        from stepward.vm.machine.replay import replay

        await self._require_own(caller, run)
        result = await asyncio.to_thread(replay, self._journal, run)
        assert result is not None, "the run exists"
        faults = [fault.what for fault in result.faults]
        path = path_of(await asyncio.to_thread(self._history, run))
        return {"run": run, "same": not faults, "faults": faults, "path": path}

    @answered
    async def cancel_run(self, caller: Caller, run: str) -> dict[str, Any]:
        """End a run of the caller."""
        await self._require_own(caller, run)
        await self._account(caller).machine.cancel(run, by=caller.name)
        return await self.get_run(caller, run)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _account(self, caller: Caller) -> CallerAccount:
        if caller.name not in self._accounts:
            account = CallerAccount(caller, self._operator, self._stop)
            self._restore(account)  # before anybody sees it: this may fail, and then the limits would hold for less
            self._accounts[caller.name] = account
        return self._accounts[caller.name]

    def _restore(self, account: CallerAccount) -> None:
        """Count the runs of the last hour, which an earlier process of the gateway has started."""
        for row in self._journal.rows(since=time.time() - HOUR):
            if row.run.startswith(prefix_of(account.caller)) and self._owner(row.run) == account.caller.name:
                state = self._history(row.run).state
                account.meter.restore(row.started, state.tokens, Decimal(state.cost))

    async def _judged(self, caller: Caller, text: str, *, policies: Sequence[Policy] | None = None) -> Judged:
        """Return the judgement on a text, when it is its turn, under the caller's policies or others.

        A check goes on in its thread although its caller has cancelled the request. So it keeps its turn until then.
        """
        checks = self._checks.setdefault(caller.name, set())
        if len(checks) >= MAX_CHECKS:
            raise RequestRefused(f"{MAX_CHECKS} of your programs wait for the gate", "send one after the other")
        task = asyncio.create_task(self._judged_in_turn(caller, text, policies))
        checks.add(task)
        task.add_done_callback(partial(_finished, checks))
        return await asyncio.shield(task)

    async def _judged_in_turn(self, caller: Caller, text: str, policies: Sequence[Policy] | None) -> Judged:
        async with self._gate:
            return await asyncio.to_thread(
                judge, text, self._account(caller).policies if policies is None else policies
            )

    async def _run(
        self, account: CallerAccount, start: Callable[..., Awaitable[Run]], run: str, progress: Progress | None
    ) -> None:
        """Start a run and wait until it stops, for some seconds at most; a run that exists is not started again.

        Raises RequestRefused if the caller may start no more runs, and RunRefused if the machine refuses the run.
        """
        before = self._going.get(run)
        is_new = before is None and await asyncio.to_thread(self._journal.row, run) is None
        if is_new:
            account.meter.start()
        envelope = Envelope(account.caller.name, self._operator.gate, account.caller.settles_own)
        driving = start(by=account.caller.name, envelope=envelope)
        task = self._under_way(account, run, driving)
        try:
            await self._waited(task, run, progress)
        except RunRefused:
            if is_new:
                account.meter.take_back()
            raise

    def _under_way(self, account: CallerAccount, run: str, driving: Awaitable[Run]) -> asyncio.Task[Run]:
        """Drive a run in a task of its own, which ends with the process at the latest."""
        task = asyncio.create_task(self._announced(account.caller, driving))
        self._going.setdefault(run, task)
        task.add_done_callback(partial(self._ended, run))
        return task

    async def _announced(self, caller: Caller, driving: Awaitable[Run]) -> Run:
        """Return a run when it stops; the operator is told what it waits for, whether or not anybody polls it."""
        found = await driving
        if self._operator.approvals is not None and found.suspensions:
            await asyncio.to_thread(self._operator.approvals.announce, caller.name, found)
        return found

    def _ended(self, run: str, task: asyncio.Task[Run]) -> None:
        if self._going.get(run) is task:
            del self._going[run]
        _note_error(task)

    async def _waited(self, task: asyncio.Task[Run], run: str, progress: Progress | None) -> None:
        """Wait until a task is done, or the run exists and the time is over; raises what the task raises."""
        end = time.monotonic() + self._operator.wait
        while True:
            done, _ = await asyncio.wait([task], timeout=_TICK)
            if task.cancelled():
                raise RequestRefused("the server ends", f"when it is back, call `get_run` with the run `{run}`")
            if done:
                task.result()
                return
            row = await asyncio.to_thread(self._journal.row, run)
            if row is None:
                continue  # it is being made: nobody can poll it yet
            if time.monotonic() >= end:
                return
            if progress is not None:
                await progress(row.seq + 1, row.status)

    def stop(self) -> None:
        """Let no call start any more, because the process ends."""
        self._stop.set()

    async def close(self, grace: float) -> None:
        """End what is under way, because the process ends: calls have `grace` seconds to come back, and none starts.

        What comes back is recorded, and the leases of the runs are given back.
        """
        self.stop()
        going = {*self._going.values(), *self._sessions.under_way()}
        try:
            if going:
                await asyncio.wait(going, timeout=grace)
        finally:
            for task in going:
                task.cancel()
            await asyncio.gather(*going, return_exceptions=True)
            for account in self._accounts.values():
                account.let_go()

    async def _require_own(self, caller: Caller, run: str) -> None:
        """Raise RequestRefused unless a run is of the caller: for one of another in the same words as for none."""
        if await asyncio.to_thread(self._owner, run) != caller.name:
            raise RequestRefused("you have no such run", "`list_runs` names those that you have")

    def _owner(self, run: str) -> str | None:
        """Return the caller that the first record of a run names, or None."""
        if not is_id(run):
            return None
        try:
            entries = self._journal.read(run)
            envelope = read_record(entries[0]).note.get("envelope") if entries else None
        except StepwardError:
            return None
        return str(envelope.get("caller")) if isinstance(envelope, Mapping) else None

    def _history(self, run: str) -> History:
        found = load(self._journal, run, partial(stored_plan, self._journal))
        assert found is not None, "the run exists"
        return found


async def _recovered(account: CallerAccount, run: str) -> Run:
    (found,) = await account.machine.recover(run)
    return found


def _finished(checks: set[asyncio.Task[Judged]], task: asyncio.Task[Judged]) -> None:
    checks.discard(task)
    _note_error(task)


def _note_error(task: asyncio.Task[Any]) -> None:
    """Take note of the error of a task: whoever waits for it is told, and nobody else has to be."""
    if not task.cancelled():
        task.exception()


def _run_id(caller: Caller, request: str | None) -> str:
    """Return the id of a run: that of a named request, or one that nobody can guess."""
    unique = (
        secrets.token_hex(16) if request is None else sha256(request.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    )
    return f"{prefix_of(caller)}{unique}"


def _drawn(program: Program, policies: Sequence[Policy]) -> str:
    from stepward.validator.analysis.facts import ProgramFacts
    from stepward.validator.diagram.drawing import draw
    from stepward.validator.diagram.mermaid import to_mermaid
    from stepward.validator.diagram.stubs import with_stubs

    return to_mermaid(with_stubs(draw(ProgramFacts(program, policies))))
