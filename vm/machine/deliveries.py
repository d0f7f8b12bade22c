"""What comes to a run from outside: its resumption, what became of an effect, its cancellation, its erasure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from stepward.vm.machine.ask import typed
from stepward.vm.machine.authority import require_name, two_people
from stepward.vm.machine.calls import oversize, way_out
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.events import Result, event, unsealed
from stepward.vm.machine.history import History
from stepward.vm.machine.keys import Token
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import Runs, seen
from stepward.vm.machine.state import visits_of

Verdict = Literal["done", "not_done", "abandon"]


class Deliveries(Runs):
    """A store's runs, and what may be delivered to them."""

    def _require_tools(self, plan: Plan) -> None:
        """Raise RunRefused when a tool or the model of a program is missing."""
        raise NotImplementedError

    async def resume(self, token: str, payload: Any = None, *, by: str | None = None) -> Run:
        """Resume the step that a token is for: `payload` is its output. Return the run when it stops again.

        `by` says who does. Raises DeliveryRefused for a token that is used or of something else, for a payload of the
        wrong type, and where a policy asks for somebody else; the journal of the run that the token names says so.
        Raises RunBusy for a lease that lasts longer than any does, RunRefused where the run broke a rule of this
        machine's policies.
        """
        who = require_name(by, DeliveryRefused)
        read = Token.read(token)
        if read is None:
            raise DeliveryRefused("this is no resume token")
        waits = False
        while True:
            found = await self._load(read.run)
            if found is None:
                raise DeliveryRefused("the token is for no run here")
            call = _awaited(found, read)
            if call is None:
                await self._refuse(read.run, "resume", "the token was used, or is for another step or program", who)
                raise DeliveryRefused("the token was used, or is for another step or program")
            self._require_tools(found.plan)
            result = _delivered(found, call, payload)
            if result.answer != "output":
                why = f"the payload for `{call.id}` is too large, or not of its type"
                await self._refuse(read.run, "resume", why, who)
                raise DeliveryRefused(result.error)
            taken = await self._take(read.run)
            if taken is not None and _awaited(taken[1], read) is not None:
                break
            if taken is not None:
                await self._io(self.journal.release, taken[0].lease)
            elif not waits and await self._stranded(read.run) is not None:
                raise await self._busy(read.run)
            waits = True
            await self.clock.sleep(0.02)  # whoever has the lease uses the token, or lets go
        driver, found = taken
        objection = two_people(found.plan, found.state, call, by or "")
        if objection is not None:
            await self._io(self.journal.release, driver.lease)
            await self._refuse(read.run, "resume", objection[1], who)
            raise DeliveryRefused(objection[1])
        self._settle(driver, call, "resumed", result.value, who)
        return await self._drive(driver)

    def _settle(
        self,
        driver: Driver,
        call: CallPlan,
        kind: Literal["resumed", "reconciled"],
        output: Any,
        note: Mapping[str, Any],
    ) -> None:
        """Record that a call has its output from outside."""
        step = driver.plan.steps[driver.state.at]
        visit = visits_of(driver.plan, driver.state, step.position)
        body = {"kind": "success", "output": output, "step": call.id, "visit": visit}
        if not step.is_parallel:
            body |= way_out(driver.plan, step.ways["success"])
        driver.record(unsealed(kind, body, note) if driver.plan.has_sensitive else event(kind, body, note))

    async def reconcile(
        self, run_id: str, step: str, verdict: Verdict, output: Any = None, *, by: str | None = None
    ) -> Run:
        """Say what became of a write that is in doubt, and go on.

        `done`: it happened, and `output` is what it returned; `not_done`: it did not, so it is performed again under
        its key; `abandon`: the run ends CANCELLED. `by` says who says so. Raises DeliveryRefused when the step is
        not in doubt, the output is not of its type, or a policy asks for somebody else; RunRefused where the run is to
        go on, and broke a rule of this machine's policies.
        """
        who = require_name(by, DeliveryRefused)
        found = await self._found(run_id)
        _doubted(found, step)
        if verdict != "abandon":  # nothing is called any more
            self._require_tools(found.plan)
        driver, found = await self._taken(run_id, performs=verdict != "abandon")
        try:
            call = _doubted(found, step)
            if verdict == "done":
                result = _delivered(found, call, output)
                if result.answer != "output":
                    raise DeliveryRefused(result.error)
                objection = two_people(found.plan, found.state, call, by or "")
                if objection is not None:
                    raise DeliveryRefused(objection[1])
                self._settle(driver, call, "reconciled", result.value, {"verdict": "done", **who})
            elif verdict in ("not_done", "abandon"):
                visit = visits_of(found.plan, found.state, found.state.at)
                body: dict[str, Any] = {"step": step, "visit": visit}
                if verdict == "abandon":
                    body |= {"ends": "CANCELLED", "reason": "abandoned"}
                driver.record(event("reconciled", body, {"verdict": verdict, **who}))
            else:
                raise DeliveryRefused(f"a verdict is `done`, `not_done` or `abandon`, not `{verdict}`")
        except DeliveryRefused:
            await self._io(self.journal.release, driver.lease)
            raise
        return await self._drive(driver)

    async def cancel(self, run_id: str, *, by: str | None = None) -> Run:
        """End a run CANCELLED, and say `by` whom. A call that is under way is finished first, by whoever drives it."""
        who = require_name(by, DeliveryRefused)
        found = await self._found(run_id)
        if found.state.is_over:
            return seen(found)
        if not found.state.is_cancelled:
            await self._append(run_id, lambda state: None if state.is_over else event("cancel", {}, who))
        taken = await self._take(run_id, performs=False)
        return await self.get(run_id) if taken is None else await self._drive(taken[0])

    async def erase(self, run_id: str, *, by: str | None = None) -> Run:
        """Destroy every sensitive value of a run, and return it. An unfinished run is cancelled first.

        `by` says who does. Raises RunBusy while somebody else drives it.
        """
        who = require_name(by, DeliveryRefused)
        run = await self.cancel(run_id, by=by)
        if not run.is_over:
            busy = await self._busy(run_id)
            raise RunBusy(f"{busy}; erase it when that has ended")
        secrets = await self._io(self.journal.vault.get, run_id)
        references = tuple(sorted(name for name in secrets if not name.startswith("token:")))
        body = {"references": references}
        # The record first: a crash between the two leaves values that nothing reads, and the next erasure finds. Also
        # where there are no values yet: a driver that was fenced may still bring some, and the vault refuses them then.
        is_sealed = (await self._found(run_id)).plan.has_sensitive
        await self._append(
            run_id,
            lambda state: event("erased", body, who) if references or (is_sealed and not state.is_erased) else None,
        )
        if secrets or is_sealed:
            await self._io(self.journal.vault.erase, run_id)
        return await self.get(run_id)


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
    limits = found.state.limits
    result = typed(call, payload, "failed", min(limits.output_bytes, limits.state_bytes))
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
