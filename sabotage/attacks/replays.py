"""Replay: deliveries, answers and requests are repeated."""

from __future__ import annotations

from typing import Any

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.tokens import TokenAttack, redescribed
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import WRITE
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import in_doubt, refused, suspended
from stepward.sabotage.playing.interleaving import Work, interleave
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import Asking, Performance
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.language.policy import Policy
from stepward.vm.machine.keys import shown
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.values import to_json


class LateDelivery(TokenAttack):
    """An unused token is delivered after the run was cancelled or its values were erased."""

    action = "delivered after the run was cancelled or erased"
    invariant = Invariant.ENDINGS
    defence = "an ended run accepts no delivery"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """End a waiting run, deliver, and check that it stays ended."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = suspended(trial, trial.start())
        token = run.suspensions[0]
        how = case.pick("the run is", st.sampled_from(["cancelled", "erased"]))
        case.act(f"the run is {how} while `{token.step}` waits")
        machine = trial.machine()
        ended = case.do(machine.cancel(run.id) if how == "cancelled" else machine.erase(run.id))
        case.hold(ended.is_over, Invariant.ENDINGS, f"the run was {how}, and is {ended.status}")
        call = case.target.calls[token.step]
        payload = case.pick("late payload", case.target.output(call))
        what = f"deliver the token of `{token.step}` after the end"
        refused(
            trial, what, trial.machine().resume(token.token, payload, by=trial.settler), invariant=Invariant.ENDINGS
        )
        again = trial.reload()
        outcome = (again.status, again.reason, again.trace_hash)
        is_same = outcome == (ended.status, ended.reason, ended.trace_hash) or how == "erased"
        case.hold(is_same and again.is_over, Invariant.ENDINGS, f"the ended run is {again.status} now")
        return Outcome.BLOCKED


class ReconciledAgain(Attack):
    """A webhook reports the outcome of a write twice, or of a step that is not in doubt."""

    family = Family.REPLAY
    surface = "reconciliation"
    action = "reported again, or for a step that is not in doubt"
    invariant = Invariant.DELIVERY
    defence = "only a step in doubt is reconciled, and only once"
    weight = 2
    needs = (WRITE,)

    def play(self, case: Case) -> Outcome:
        """Reconcile a lost write, then again with any verdict, and also writes that were not lost."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = in_doubt(trial)
        doubts = {doubt.step for doubt in run.doubts}
        step = run.doubts[0].step
        verdict = case.pick("the second verdict", st.sampled_from(["done", "not_done", "abandon"]))
        others = sorted(case.target.calls.keys() - doubts)
        first = case.pick("the first verdict", st.sampled_from(["the truth", "abandon", "of another step"]))
        if first == "of another step" and others:
            other = case.pick("another step", st.sampled_from(others))
            self._again(trial, other, verdict)
        elif first == "abandon":
            case.act(f"reconcile `{step}`: abandon")
            run = case.do(trial.machine().reconcile(run.id, step, "abandon", by=trial.settler))
            case.hold(run.is_over, Invariant.ENDINGS, f"an abandoned run is {run.status}")
        if not run.is_over:
            run = trial.deliver(run, trial.machine())
        self._again(trial, step, verdict)
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED

    def _again(self, trial: Trial, step: str, verdict: Any) -> None:
        target = trial.case.target
        output = None
        if verdict == "done":
            output = trial.case.pick(f"forged output of {step}", target.output(target.calls[step]))
        what = f"reconcile `{step}`, which is not in doubt: {verdict}"
        refused(trial, what, trial.machine().reconcile(trial.run, step, verdict, output, by=trial.settler))


class ReconciledAtOnce(Attack):
    """Several processes learn the outcome of a write at the same time, and each reconciles it."""

    family = Family.REPLAY
    surface = "reconciliation"
    action = "reported by several processes at once"
    invariant = Invariant.ONCE
    defence = "the holder of the lease checks again that the step is still in doubt"
    weight = 4
    needs = (WRITE,)

    def play(self, case: Case) -> Outcome:
        """Let them race, and check that exactly one counts."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = in_doubt(trial)
        doubt = run.doubts[0]
        has_happened = any(effect.key == doubt.key for effect in trial.world.effects)
        output = trial.payload(doubt.step) if has_happened else None
        if not has_happened:
            trial.world.settled[doubt.place] += 1
        count = case.pick("processes", st.integers(2, 3))
        verdict: Any = "done" if has_happened else "not_done"
        case.act(f"{count} processes reconcile `{doubt.step}` at once: {verdict}", count)

        def say(points: Points) -> Any:
            return trial.machine(points).reconcile(trial.run, doubt.step, verdict, output, by=trial.settler)

        works: dict[str, Work] = {str(number): say for number in range(1, count + 1)}
        results = case.do(interleave(case, works))
        accepted = [result for result in results.values() if isinstance(result, Run)]
        _only(results, (Run, RunBusy, DeliveryRefused))
        case.hold(len(accepted) == 1, Invariant.DELIVERY, f"one reconciliation was taken {len(accepted)} times")
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED


def _only(results: dict[str, Any], kinds: tuple[type, ...]) -> None:
    """Raise Breach for a result of a process that is not allowed."""
    for name, result in results.items():
        if isinstance(result, StepwardError | Killed) and not isinstance(result, kinds):
            raise Breach(Invariant.REFUSAL, f"process {name} got {type(result).__name__}: {result}")


class RunIdReused(Attack):
    """A caller requests a run under a used id: with the same or with other inputs, program or policies."""

    family = Family.REPLAY
    surface = "run id"
    action = "used again, for the same or for something else"
    invariant = Invariant.IDENTITY
    defence = "program, policies and inputs are compared with those of the existing run"
    severity = "high"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Repeat the request, and check that the existing run is returned or the request refused, and nothing is
        performed."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = trial.start()
        if case.pick("the run has", st.sampled_from(["stopped", "ended"])) == "ended":
            run = trial.carry_on(run)
        target = case.target
        other = case.pick("other than before", st.sampled_from(["inputs", "program", "policies", "nothing"]))
        program, inputs, policies = target.program, dict(trial.inputs), target.policies
        if other == "program":
            program = redescribed(target)
        elif other == "policies":
            another = (Policy.from_dict({"policy": "another", "guardrails": []}),)
            how = case.pick("policies", st.sampled_from(["exchanged", "fewer", "more"] if policies else ["more"]))
            changed = policies if how == "more" else policies[1:]
            policies = changed if how == "fewer" else (*changed, *another)
        elif other == "inputs":
            inputs = case.pick("other inputs", target.inputs)
            case.needs(differs(target, inputs, trial.inputs))
        request = trial.machine(policy=policies).run(program, inputs, run_id=trial.run, by=trial.by)
        what = f"ask for the run again with {'the same' if other == 'nothing' else 'other ' + other}"
        if other != "nothing":
            refused(trial, what, request, invariant=Invariant.IDENTITY, errors=(RunRefused,))
        else:
            self._same(trial, run, what, request)
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.ABSORBED if other == "nothing" else Outcome.BLOCKED

    def _same(self, trial: Trial, run: Run, what: str, request: Any) -> None:
        case = trial.case
        case.act(what)
        before = len(trial.world.attempts)
        found = case.do(request)
        is_same = (found.id, found.status, found.trace_hash) == (run.id, run.status, run.trace_hash)
        case.hold(is_same, Invariant.IDENTITY, f"the run that exists is {run.status}, and {found.status} was returned")
        case.hold(
            len(trial.world.attempts) == before, Invariant.ONCE, "something was performed again for an equal request"
        )


def differs(target: Target, inputs: dict[str, Any], others: dict[str, Any]) -> bool:
    """Whether two sets of inputs differ after defaults are filled in."""
    types = target.plan.input_types
    completed = [
        to_json({name: values.get(name, spec.default if spec else None) for name, spec in types.items()})
        for values in (inputs, others)
    ]
    return completed[0] != completed[1]


class RunIdRaced(Attack):
    """Two to four callers request a run under one id at the same time, one of them perhaps with other inputs."""

    family = Family.REPLAY
    surface = "run id"
    action = "used by several callers at once"
    invariant = Invariant.ONCE
    defence = "only one of the callers can make the run, because the first write succeeds only once"
    weight = 5

    def play(self, case: Case) -> Outcome:
        """Let them race, and check that there is one run, and everything in it happens once."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        count = case.pick("callers", st.integers(2, 4))
        case.act(f"{count} callers run the program under one id with {to_json(trial.inputs)}", count)

        def ask(points: Points) -> Any:
            return trial.machine(points).run(case.target.program, trial.inputs, run_id=trial.run, by=trial.by)

        works: dict[str, Work] = {str(number): ask for number in range(1, count + 1)}
        results = case.do(interleave(case, works))
        _only(results, (Run,))
        strangers = [run.id for run in results.values() if run.id != trial.run]
        case.hold(not strangers, Invariant.IDENTITY, f"the run `{strangers[:1]}` was returned")
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.ABSORBED


class KeysThatCollide(Attack):
    """Performances are made to look alike: loops, retries, parallel siblings, a process that dies, a second run."""

    family = Family.REPLAY
    surface = "idempotency key"
    action = "requested for performances that look alike"
    invariant = Invariant.ONCE
    defence = "a key is computed from the run, program, step, visit and performance"
    weight = 4
    needs = (Need("no tool is called", lambda target: len(target.models) < len(target.calls)),)

    def play(self, case: Case) -> Outcome:
        """Make two equal runs, kill one, and check that performances and keys correspond one to one."""
        from hypothesis import strategies as st

        first, second = Trial(case), Trial(case)
        for trial in (first, second):
            trial.world.decides.append(lambda asking: _failing_at_first(case, asking))
        points = Points(case.pick("killed at point", st.integers(0, 40)), case.log)
        try:
            run = first.start(first.machine(points))
        except Killed:
            run = first.found() or first.start()
        first.outlive(run)
        second.finish()
        keys: dict[tuple[str, Performance], str] = {}
        owners: dict[str, tuple[str, Performance]] = {}
        for trial in (first, second):
            for asking, _ in trial.world.attempts:
                if asking.call.is_model:
                    continue
                performance = (trial.run, (asking.place, asking.performance))
                key = keys.setdefault(performance, asking.key)
                case.hold(key == asking.key, Invariant.ONCE, f"one performance of `{asking.call.id}` has two keys")
                owner = owners.setdefault(key, performance)
                message = f"{_named(owner, first)} and {_named(performance, first)} have one key"
                case.hold(owner == performance, Invariant.KEPT, message)
        return Outcome.ABSORBED if keys else Outcome.NOT_APPLICABLE


def _failing_at_first(case: Case, asking: Asking) -> CallAnswer | None:
    """Let a retried call fail at first, if the attack decides so; the retry is a new performance."""
    from hypothesis import strategies as st

    if asking.call.is_model or asking.call.attempts == 1 or asking.attempt > 1:
        return None
    fails = case.pick(f"fails at first: {asking.visited}", st.booleans())
    return CallAnswer("fails", "it broke") if fails else None


def _named(performance: tuple[str, Performance], first: Trial) -> str:
    run, ((step, visit, frame), number) = performance
    which = "first" if run == first.run else "second"
    return f"performance {number} of visit {visit} of `{shown(frame, step)}` in the {which} run"
