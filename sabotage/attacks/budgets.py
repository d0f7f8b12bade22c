"""Load at the limits: budgets, visits, retries and failures, each exactly sufficient or one less."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import MODEL
from stepward.sabotage.playing.answers import CallAnswer, wrong_answers
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import calls_in, lists_in, step_in, variant
from stepward.sabotage.playing.world import COST_OF_A_REPLY, TOKENS_OF_A_REPLY, Asking
from stepward.sabotage.target import Target
from stepward.vm.language.steps import EndStep
from stepward.vm.machine.plan import StepPlan
from stepward.vm.machine.run import Run


def _killed_somewhere(case: Case, trial: Trial, points: int) -> Run:
    """Play a trial in which the process may be killed at a point, and another one recovers the run."""
    from hypothesis import strategies as st

    at = case.pick("killed at point", st.one_of(st.none(), st.integers(0, max(points - 1, 0))))
    try:
        run = trial.start(trial.machine(Points(at, case.log)))
    except Killed:
        run = trial.found() or trial.start()
    return trial.outlive(run)


class _Edge(Attack):
    """A random run is repeated in a variant of its program whose budget is close to what the run used."""

    family = Family.LOAD
    invariant = Invariant.BOUNDS
    severity = "high"
    weight = 2
    faults = True
    unit: ClassVar[int | Decimal] = 1
    """The part of the budget that counts as one."""
    last = 1
    """The budget that the last charge uses: with that much less, the budget is used up before it."""
    field: ClassVar[str]
    """The field of a program that has the budget."""
    reason: ClassVar[str]
    """The reason of the ending of a run that has used up its budget."""

    @staticmethod
    @abstractmethod
    def spent(run: Run) -> int:
        """Return the budget that the run used."""

    def play(self, case: Case) -> Outcome:
        """Play a run, measure its budget, and repeat it with as much, less or more, and with a crash."""
        from hypothesis import strategies as st

        whole = Points()
        first = Trial(case, faults=self.faults)
        run = first.carry_on(first.start(first.machine(whole)))
        first.oracle.judge(run)
        spent = self.spent(run)
        case.needs(spent > 0)
        edges = dict.fromkeys((spent - self.last, spent - 1, spent, spent + 1, spent // 2, 1))
        most = case.pick("budget", st.sampled_from([one for one in edges if one > 0]))
        case.story.clear()
        case.log(f"the same run again, where it takes {spent} and has {most}")
        target = variant(case.target, f"{self.name} {most}", lambda data: data.update({self.field: most * self.unit}))
        ended = _killed_somewhere(case, Trial(case, target=target, faults=self.faults), len(whole.passed))
        return Outcome.BLOCKED if ended.reason == self.reason else Outcome.ABSORBED


class StepsAtTheEdge(_Edge):
    """The budget of steps is exactly sufficient, one less or one more, and the run is killed and recovered."""

    surface = "budget of steps"
    action = "spent to the last step, across recovery and resumption"
    defence = "the cost of steps is counted in the journal, and checked before each start"
    field = reason = "max_steps"

    @staticmethod
    def spent(run: Run) -> int:
        """Return the steps that were charged."""
        return run.steps


class TokensAtTheEdge(_Edge):
    """The budget of tokens is exactly sufficient, some less or one more, and many replies are rejected."""

    surface = "budget of tokens"
    action = "spent by replies and by rejected replies"
    defence = "the tokens of every reply are counted, and the budget is checked before each call"
    last = TOKENS_OF_A_REPLY
    field = reason = "max_tokens"
    needs = (MODEL,)

    @staticmethod
    def spent(run: Run) -> int:
        """Return the tokens that were charged."""
        return run.tokens


class CostAtTheEdge(_Edge):
    """The budget of money is exactly sufficient, a little less or more, and many replies are rejected."""

    surface = "budget of money"
    action = "spent by replies and by rejected replies"
    defence = "the cost of every reply is added exactly, and the budget is checked before each call"
    last = 10
    unit = COST_OF_A_REPLY / 10
    field, reason = "max_cost", "cost"
    needs = (MODEL,)

    @classmethod
    def spent(cls, run: Run) -> int:
        """Return the cost that was charged, in tenths of the cost of a reply."""
        return int(run.cost / cls.unit)


class StallsAtTheEdge(_Edge):
    """The bound on consecutive steps without change is exactly sufficient, one less or one more."""

    surface = "bound on steps without progress"
    action = "used up to the last step, across recovery"
    defence = "steps that changed no value are counted in the state from the journal"
    faults = False
    field = "max_stalled_steps"
    reason = "no-progress"

    @staticmethod
    def spent(run: Run) -> int:
        """Return a bound that some runs reach: a run has few idle steps in a row."""
        return min(run.steps, 3)


def _in_loops(target: Target) -> list[str]:
    """Return the steps in loops, without `end` steps; a call that is a whole body can't be bounded."""
    steps = target.plan.steps
    bounded = {step["id"] for inner_steps in lists_in(target.program.to_dict()).values() for step in inner_steps}
    after = {step.position: _targets(step) for step in steps}

    def reached(start: int) -> set[int]:
        seen: set[int] = set()
        open_ = [*after[start]]
        while open_:
            position = open_.pop()
            if position not in seen:
                seen.add(position)
                open_ += after[position]
        return seen

    found = [step for step in steps if step.id in bounded and not isinstance(step.step, EndStep)]
    return [step.id for step in found if step.position in reached(step.position)]


class VisitsAtTheEdge(Attack):
    """The bound on visits of a step is exactly sufficient, one less or one more, and the process dies meanwhile."""

    family = Family.LOAD
    surface = "bound on visits"
    action = "used up to the last visit, across recovery"
    invariant = Invariant.BOUNDS
    defence = "visits are counted in the state from the journal, and checked before each start"
    severity = "high"
    weight = 2
    needs = (Need("no step is in a loop", _in_loops),)

    def play(self, case: Case) -> Outcome:
        """Play a run, bound the visits of one of its steps, and repeat it with a crash."""
        from hypothesis import strategies as st

        whole = Points()
        first = Trial(case, faults=False)
        first.oracle.judge(first.carry_on(first.start(first.machine(whole))))
        seen = [one["body"] for one in first.oracle.records if "visit" in one["body"]]
        visits = {body["step"]: body["visit"] for body in sorted(seen, key=lambda body: body["visit"])}
        # The most visited steps come first, since a bound matters most there.
        steps = sorted((step for step in _in_loops(case.target) if step in visits), key=lambda step: -visits[step])
        case.needs(steps)
        step = case.pick("bounded", st.sampled_from(steps))
        edges = [one for one in dict.fromkeys((visits[step] - 1, visits[step], visits[step] + 1)) if one > 0]
        most = case.pick("visits", st.sampled_from(edges))

        def bound(data: dict[str, Any]) -> None:
            step_in(data, step)["max_visits"] = most

        target = variant(case.target, f"{step} visited {most}", bound)
        case.story.clear()
        case.log(f"the same run again, where `{step}` may be visited {most} times")
        again = Trial(case, target=target, faults=False)
        _killed_somewhere(case, again, len(whole.passed))
        if any(one["kind"] == "passed" and one["body"]["step"] == step for one in again.oracle.records):
            return Outcome.BLOCKED
        is_met = any(one["body"].get("step") == step for one in again.oracle.records)
        return Outcome.ABSORBED if is_met else Outcome.NOT_APPLICABLE


def _targets(step: StepPlan) -> set[int]:
    edges = [*step.transitions.values(), *step.branches.values()]
    return {edge.to for edge in edges if edge.to >= 0}


class EverythingFails(Attack):
    """Every call always fails in the same manner, and the process dies as well."""

    family = Family.LOAD
    surface = "tools and models"
    action = "every call fails every time"
    invariant = Invariant.BOUNDS
    defence = "attempts, iterations and visits are limited, so a run with only failures ends"
    severity = "medium"

    def play(self, case: Case) -> Outcome:
        """Let every call fail, and check that the run ends as the program says, without extra attempts."""
        from hypothesis import strategies as st

        manner = case.pick("everything", st.sampled_from(("fails", "wrong", "late")))
        trial = Trial(case, faults=False)

        def decide(asking: Asking) -> CallAnswer | None:
            call = asking.call
            if manner == "late" and call.timeout is not None:
                return CallAnswer("late")
            among = wrong_answers(case.target, call) if manner == "wrong" else None
            if among is None:
                return CallAnswer("fails", "it broke")
            answer = case.pick(f"wrong: {call.id}", among)
            return CallAnswer(answer["does"], answer["value"])

        trial.world.decides.append(decide)
        run = trial.finish()
        case.hold(run.is_over, Invariant.BOUNDS, "a run in which everything fails does not end")
        return Outcome.ABSORBED if trial.world.attempts else Outcome.NOT_APPLICABLE


class RetriesAfterCrash(Attack):
    """A call fails again and again, and the process is killed around each attempt. The budget of steps is exactly what
    the run uses without a crash."""

    family = Family.LOAD
    surface = "process, between the attempts of a call"
    action = "killed and recovered around each attempt"
    invariant = Invariant.BOUNDS
    defence = "attempts are counted in the state from the journal, and one that is made again is charged once"
    severity = "medium"
    enumerates = "every intent and every call of the run that was drawn"
    weight = 4
    needs = (Need("no step calls anything", lambda target: target.calls),)

    def play(self, case: Case) -> Outcome:
        """Let one call fail, give the run the steps that it then takes, and kill the process around each attempt."""
        from hypothesis import strategies as st

        attempts = case.pick("attempts", st.integers(2, 4))
        target = variant(case.target, f"tried {attempts}", partial(_retry, attempts=attempts))
        calm = Trial(case, target=target, faults=False)
        calm.finish()
        called = list(dict.fromkeys(attempt.asking.call.id for attempt in calm.world.attempts))
        case.needs(called)
        # Recovery makes an attempt of an idempotent write again: these come first.
        called.sort(key=lambda one: not (target.calls[one].writes and target.calls[one].is_idempotent))
        step = case.pick("fails", st.sampled_from(called))
        fails = case.pick("attempts that fail", st.sampled_from((attempts - 1, attempts)))

        def played(target: Target) -> Trial:
            trial = Trial(case, target=target, faults=False)
            trial.world.decides.append(
                lambda asking: (
                    CallAnswer("fails", "it broke") if asking.call.id == step and asking.attempt <= fails else None
                )
            )
            return trial

        steps = max(played(target).finish().steps, 1)
        exact = partial(_retry, attempts=attempts, steps=steps)
        target = variant(case.target, f"tried {attempts}, {steps} steps", exact)
        whole, first = Points(), played(target)
        run = first.carry_on(first.start(first.machine(whole)))
        first.oracle.judge(run)
        case.story.clear()
        case.log(f"`{step}` fails {fails} times, may be tried {attempts} times, and the run has {steps} steps")
        around = [number for number, name in enumerate(whole.passed) if "intent" in name or " is asked by " in name]
        for point in case.each("killed at point", around):
            trial = played(target)
            with suppress(Killed):
                trial.start(trial.machine(Points(point, case.log)))
            ended = trial.outlive(trial.found() or trial.start())
            self._compare(trial, ended, run)
        return Outcome.ABSORBED

    def _compare(self, trial: Trial, ended: Run, run: Run) -> None:
        """Compare a run that was recovered with the same one without a crash, unless the crash left a doubt."""
        has_waves = any(step.is_parallel for step in trial.target.plan.steps)
        if has_waves or any(record["kind"] == "doubt" for record in trial.oracle.records):
            return
        ended_values, due = [(one.status, one.reason, one.steps) for one in (ended, run)]
        trial.case.hold(
            ended_values == due, self.invariant, f"without a crash the run ends {due}, and after one {ended_values}"
        )


def _retry(data: dict[str, Any], attempts: int, steps: int | None = None) -> None:
    """Let each call be retried, and bound the steps of a run."""
    for call in calls_in(data):
        call.pop("retry", None)
        call.update(on_error="retry", max_retries=attempts)
    if steps is not None:
        data["max_steps"] = steps
