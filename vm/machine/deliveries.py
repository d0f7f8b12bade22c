"""Deliveries to a run from outside: resumption, reconciliation of an effect, cancellation and erasure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from stepward.vm.machine.ask import typed
from stepward.vm.machine.authority import require_name, two_people
from stepward.vm.machine.calls import place_of
from stepward.vm.machine.continuing import id_after
from stepward.vm.machine.deadlines import overdue
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.events import MOVED, Result, make_event, unsealed
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.history import History
from stepward.vm.machine.keys import Token, shown
from stepward.vm.machine.plan import CallPlan, Plan, successor_fields
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import Runs, run_of
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.sizes import oversize
from stepward.vm.machine.state import State, visits_of

Verdict = Literal["done", "not_done", "abandon"]

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks at a run that somebody else drives: the pauses grow, since each look reads the run."""


class Deliveries(Runs):
    """The runs of a store, with the deliveries to them."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._require_tools_now = getattr(setup.tools, "require_current", None)

    def _require_tools(self, plan: Plan) -> None:
        """Raise RunRefused if a tool or the model of a program is missing."""
        raise NotImplementedError

    async def _require_current(self, plan: Plan) -> None:
        """Raise RunRefused if a tool of a program has changed and must not be called; a provider may look now."""
        if self._require_tools_now is not None:
            names = {call.tool for step in plan.steps for call in step.calls if not call.is_model}
            await self._require_tools_now(names)

    async def resume(self, token: str, payload: Any = None, *, by: str | None = None) -> Run:
        """Resume the step of a token with `payload` as its output; return the run when it stops again.

        `by` names the person. Raises DeliveryRefused for a token that is used or of something else, after the deadline
        of the step, for a payload of the wrong type, and if a policy requires another person; the journal of the
        token's run records the refusal.
        Raises RunBusy for a lease beyond the longest possible one, and RunRefused if the run broke a rule of this
        machine's policies.
        """
        who = require_name(by, DeliveryRefused)
        read = Token.read(token)
        if read is None:
            raise DeliveryRefused("this is no resume token")
        pause = 0.0
        while True:
            found = await self._load(read.run)
            if found is None:
                raise DeliveryRefused("the token is for no run here")
            waiting = _awaited(found, read)
            if waiting is None:
                await self._refuse(read.run, "resume", "the token was used, or is for another step or program", who)
                raise DeliveryRefused("the token was used, or is for another step or program")
            local, call = waiting
            self._require_tools(found.plan)
            if not pause:
                await self._require_current(found.plan)
            result = _delivered(found.plan, local, call, payload)
            if result.answer != "output":
                why = f"the payload for `{call.id}` is too large, or not of its type"
                await self._refuse(read.run, "resume", why, who)
                raise DeliveryRefused(result.error)
            lease_and_run = await self._take(read.run)
            if lease_and_run is not None and (still := _awaited(lease_and_run[1], read)) is not None:
                local, call = still
                break
            if lease_and_run is not None:
                await self._io(self.journal.release, lease_and_run[0].lease)
            elif not pause and await self._impossible_expiry(read.run) is not None:
                raise await self._busy(read.run)
            pause = min(1.25 * pause, LONGEST_PAUSE) if pause else FIRST_PAUSE
            await self.clock.sleep(pause)  # the holder of the lease uses the token, or releases the run
        driver, found = lease_and_run
        if overdue(driver.plan, driver.state, self.clock.now()) is not None:
            local, call = await self._in_time(driver, found, read, who)
        objection = two_people(found.plan, driver.state, call, by or "")
        why_not = self._settle(driver, local, call, "resumed", result.value, who) if objection is None else objection[1]
        if why_not is not None:
            await self._io(self.journal.release, driver.lease)
            await self._refuse(read.run, "resume", why_not, who)
            raise DeliveryRefused(why_not)
        return await self._drive(driver)

    async def _in_time(
        self, driver: Driver, found: History, token: Token, who: Mapping[str, Any]
    ) -> tuple[State, CallPlan]:
        """Record what is over by the clock of this machine; return the call of a token, and the state that it sees.

        Raises DeliveryRefused if its deadline has passed. The run is let go then: whoever takes up runs goes on.
        """
        while (event := overdue(driver.plan, driver.state, self.clock.now())) is not None:
            driver.record(event)
        still = _awaited(found._replace(state=driver.state), token)
        if still is not None:
            return still
        try:
            await driver.flush()
        finally:
            await self._io(self.journal.release, driver.lease)
        late = "the deadline of the step has passed"
        await self._refuse(token.run, "resume", late, who)
        raise DeliveryRefused(late)

    def _settle(
        self,
        driver: Driver,
        local: State,
        call: CallPlan,
        kind: Literal["resumed", "reconciled"],
        output: Any,
        note: Mapping[str, Any],
    ) -> str | None:
        """Record the output of a call that was delivered from outside; `local` is the state as its frame sees it.

        Returns why it is too large with the references in place of sensitive values, if so: then nothing is recorded.
        """
        step = driver.plan.steps[local.at]
        visit = visits_of(local, step)
        body = {"kind": "success", "output": output, **place_of(local, call.id, visit)}
        if not step.is_parallel:
            body |= successor_fields(driver.plan.steps, step.transitions["success"])
        if not driver.plan.has_sensitive:
            driver.record(make_event(kind, body, note))
            return None
        event = unsealed(kind, body, note)
        too_large = oversize(driver.plan, local, step, driver.known.veiled(event))
        if too_large is None:
            driver.record(event)
        return too_large

    async def reconcile(
        self, run_id: str, step: str, verdict: Verdict, output: Any = None, *, by: str | None = None
    ) -> Run:
        """Settle a write that is in doubt, and continue the run.

        `step` is its id, or its place where several items wait with it: `each[3]/pay`.
        `done`: it happened, and `output` is what it returned; `not_done`: it did not, so it is performed again under
        its key; `abandon`: the run ends CANCELLED. `by` names the person. Raises DeliveryRefused if the step is not in
        doubt, the output is not of its type, or a policy requires another person; RunRefused if the run is to go on,
        but broke a rule of this machine's policies.
        """
        who = require_name(by, DeliveryRefused)
        found = await self._found(run_id)
        _doubted(found, step)
        if verdict != "abandon":  # nothing is called any more
            self._require_tools(found.plan)
            await self._require_current(found.plan)
        driver, found = await self._taken(run_id, performs=verdict != "abandon")
        try:
            local, call = _doubted(found, step)
            if verdict == "done":
                result = _delivered(found.plan, local, call, output)
                if result.answer != "output":
                    raise DeliveryRefused(result.error)
                objection = two_people(found.plan, found.state, call, by or "")
                if objection is not None:
                    raise DeliveryRefused(objection[1])
                why_not = self._settle(driver, local, call, "reconciled", result.value, {"verdict": "done", **who})
                if why_not is not None:
                    raise DeliveryRefused(why_not)
            elif verdict in ("not_done", "abandon"):
                visit = visits_of(local, found.plan.steps[local.at])
                body = place_of(local, call.id, visit)
                if verdict == "abandon":
                    body |= {"ends": "CANCELLED", "reason": "abandoned"}
                driver.record(make_event("reconciled", body, {"verdict": verdict, **who}))
            else:
                raise DeliveryRefused(f"a verdict is `done`, `not_done` or `abandon`, not `{verdict}`")
        except DeliveryRefused:
            await self._io(self.journal.release, driver.lease)
            raise
        return await self._drive(driver)

    async def cancel(self, run_id: str, *, by: str | None = None) -> Run:
        """End a run CANCELLED; `by` names the person. The driver of the run first finishes a call in progress."""
        who = require_name(by, DeliveryRefused)
        found = await self._found(run_id)
        if found.state.is_over and found.state.reason == MOVED:
            names = [*await self.before(run_id), run_id]
            return await self.cancel(id_after(names), by=by)
        if found.state.is_over:
            return run_of(found)
        if not found.state.is_cancelled:
            await self._append(run_id, lambda state: None if state.is_over else make_event("cancel", {}, who))
        lease_and_run = await self._take(run_id, performs=False)
        return await self.get(run_id) if lease_and_run is None else await self._drive(lease_and_run[0])

    async def erase(self, run_id: str, *, by: str | None = None) -> Run:
        """Destroy every sensitive value of a run, and return it. An unfinished run is cancelled first.

        The runs that it continues, and those that continue it, are erased with it. `by` names the person. Raises
        RunBusy while somebody else drives one of them.
        """
        for name in await self._io(self._others_of_chain, run_id):
            await self._erase_one(name, by)
        return await self._erase_one(run_id, by)

    async def _erase_one(self, run_id: str, by: str | None) -> Run:
        run = await self.cancel(run_id, by=by)
        if not run.is_over:
            busy = await self._busy(run_id)
            raise RunBusy(f"{busy}; erase it when that has ended")
        if await self._note_erasure(run_id, by):
            await self._io(self.journal.vault.erase, run_id)
        return await self.get(run_id)

    async def _note_erasure(self, run_id: str, by: str | None) -> bool:
        """Record that the sensitive values of a run are erased; return whether the vault has to erase some."""
        who = require_name(by, DeliveryRefused)
        secrets = await self._io(self.journal.vault.get, run_id)
        references = tuple(sorted(name for name in secrets if not name.startswith("token:")))
        body = {"references": references}
        # The record comes first: a crash between the two leaves values that nothing reads, and that the next erasure
        # destroys. It is needed without values, too: a fenced driver may still bring some, and the vault refuses them.
        is_sealed = (await self._found(run_id)).plan.has_sensitive
        await self._append(
            run_id,
            lambda state: (
                make_event("erased", body, who) if references or (is_sealed and not state.is_erased) else None
            ),
        )
        return bool(secrets) or is_sealed


def _awaited(found: History, token: Token) -> tuple[State, CallPlan] | None:
    """Return the suspended call of a token, and the state as its frame sees it; None if there is none."""
    for local in leaves(found.plan, found.state):
        step = found.plan.steps[local.at]
        for call, call_state in zip(step.calls, local.calls or (), strict=False):
            digest = token.digest(found.plan.digest, call.id, visits_of(local, step), local.frame)
            if call_state.phase == "suspended" and call_state.token == digest:
                return local, call
    return None


def _delivered(plan: Plan, local: State, call: CallPlan, payload: Any) -> Result:
    """Return the result of an output from outside, checked against its type and the limits of size."""
    limits = local.limits
    result = typed(call, payload, "failed", min(limits.output_bytes, limits.state_bytes))
    if result.answer == "output":
        too_large = oversize(plan, local, plan.steps[local.at], result.value)
        if too_large is not None:
            return Result("failed", error=too_large)
    return result


def _doubted(found: History, name: str) -> tuple[State, CallPlan]:
    """Return the call in doubt of a step, and the state as its frame sees it.

    `name` is the step, or its place: `each[3]/pay`. Raises DeliveryRefused if it names no call in doubt, or several.
    """
    doubts = {
        shown(local.frame, call.id): (local, call)
        for local in leaves(found.plan, found.state)
        for call, call_state in zip(found.plan.steps[local.at].calls, local.calls or (), strict=False)
        if name in (call.id, shown(local.frame, call.id)) and call_state.phase == "doubt"
    }
    if not doubts:
        raise DeliveryRefused(f"`{name}` is not in doubt in run `{found.run}`")
    if len(doubts) > 1 and name not in doubts:
        several = ", ".join(f"`{place}`" for place in doubts)
        raise DeliveryRefused(f"`{name}` is in doubt in several places of run `{found.run}`, name one: {several}")
    return doubts.get(name) or next(iter(doubts.values()))
