"""Injection of a person: the starter of a run settles a step that another person has to settle."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Invariant, NotApplicable, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import in_doubt, refused, suspended
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import under
from stepward.sabotage.stores.forging import chained, raw_store_of
from stepward.sabotage.target import Target
from stepward.vm.journal.store import Head
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer

DELIVERED: Final = ("resumed", "reconciled")
STARTED_BY: Final = "ann"
OTHER: Final = "bob"


class SettledByOne(Attack):
    """The starter of a run, or an unnamed person, resumes it or settles a write, although a policy requires two people.
    The policy belongs to the run, or is new to it. Then another person is written into the journal."""

    family = Family.INJECTION
    surface = "name of the person who delivers"
    action = "the name of the person who started the run, or no name"
    invariant = Invariant.PERMISSION
    defence = (
        "the person who delivers is compared with the person who started the run, under the policies of the run "
        "and of the machine"
    )
    weight = 4
    enumerates = "the person who started the run and an unnamed person, under a policy of the run and under a new one"
    needs = (Need("no tool suspends or writes", lambda target: target.waits or target.writes),)

    def play(self, case: Case) -> Outcome:
        """Check that the delivery is refused, and that of another person is accepted."""
        from hypothesis import strategies as st

        tools = sorted({call.tool for call in (*case.target.waits, *case.target.writes)})
        eyes = under(case.target, "four eyes", {"policy": "two-people", "four_eyes": tools})
        waits = bool(case.target.waits) and (not case.target.writes or case.pick("a step waits", st.booleans()))
        outcome = Outcome.NOT_APPLICABLE
        for by, is_new in case.each("the case is", _CASES):
            with suppress(NotApplicable):
                self._play(case, eyes, by, is_new=is_new, waits=waits)
                outcome = Outcome.BLOCKED
        return outcome

    def _play(self, case: Case, eyes: Target, by: str | None, *, is_new: bool, waits: bool) -> None:
        """Play one case. Raises NotApplicable if the run does not reach a delivery."""
        trial = Trial(case, target=case.target if is_new else eyes, faults=False)
        trial.by = STARTED_BY
        run = suspended(trial, trial.start()) if waits else in_doubt(trial)
        machine = trial.machine(policy=eyes.policies)
        step = run.suspensions[0].step if waits else run.doubts[0].step
        payload = trial.payload(step)
        if waits:
            token = run.suspensions[0].token
            work = machine.resume(token, payload, by=by)
            other = machine.resume(token, payload, by=OTHER)
        else:
            work = machine.reconcile(run.id, step, "done", payload, by=by)
            other = machine.reconcile(run.id, step, "done", payload, by=OTHER)
        try:
            refused(trial, f"{by or 'somebody'} settles `{step}`", work, invariant=self.invariant)
        except BaseException:
            other.close()
            raise
        case.act(f"{OTHER} settles `{step}`")
        case.do(other)
        self._forge(trial)

    def _forge(self, trial: Trial) -> None:
        """Write another person into the delivery, or nobody, with right digests: a verification has to notice."""
        case, store, run = trial.case, trial.store.inner, trial.run
        entries, row = store.read(run), store.row(run)
        assert row is not None, "the run is there"
        records = [json.loads(entry.record) for entry in entries]
        at = next(seq for seq, one in enumerate(records) if one["kind"] in DELIVERED and one["note"].get("by") == OTHER)
        note = {name: value for name, value in records[at]["note"].items() if name != "by"}
        for name, more in ((STARTED_BY, {"by": STARTED_BY}), ("nobody", {})):
            forged = chained([*records[:at], {**records[at], "note": {**note, **more}}, *records[at + 1 :]])
            head = Head(run, forged[-1].seq, forged[-1].digest, None)
            raw_store_of(store).put(run, forged, head, row.status)
            case.act(f"write that {name} has settled the step")
            faults = verify(store, run, replay=replayer(store, run)).faults
            case.hold(bool(faults), Invariant.TAMPERING, f"a verification does not tell that {name} settled a step")


_CASES: Final = ((STARTED_BY, False), (STARTED_BY, True), (None, False), (None, True))
"""The person who delivers, and whether the policy is new to the run."""
