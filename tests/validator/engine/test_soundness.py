"""What the checker says is held against runs of the reference interpreter, on random programs with random answers.

A proof must survive every run, a violation must happen when its path is followed, and no run may read an undefined
name or break a rule where nothing was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from machines import never_stale
from programs import COMMON, programs
from reference_runs import Course, CutOff, Fate, good
from sizes import size
from stepward.sabotage.reference import Answer, PendingCall, Raised, TimedOut
from stepward.sabotage.reference.calls import Call
from stepward.sabotage.reference.expressions import Undefined
from stepward.sabotage.reference.rules import RuleMonitor
from stepward.sabotage.reference.run import Over
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis import monitors, siblings
from stepward.validator.analysis.assignment import Assignment, Effect
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.validator.findings import Move
from stepward.vm import Flow, Program, Transition

RUNS = 20
MOST_STEPS = 60
WEIGHTS = (12, 5, 3, 1, 1)
"""How often a call succeeds, raises, is late, is lost, and answers what is ill-typed."""
MISSES = {"SW401": {"SW401", "SW402", "SW408"}, "SW402": {"SW401", "SW402", "SW408"}}
CODES = {"requires": "SW401", "never": "SW403", "at_most_once": "SW404", "exclusive": "SW406"}


class Unguarded(Course):
    """A run that no rule stops: `undefined` are the names that it could not read, `violations` the rules it broke."""

    def __init__(self, program: Program, chance: Random) -> None:
        super().__init__(
            program, Fate(program, chance, WEIGHTS), lambda _: "done" if chance.random() < 0.6 else "not_done"
        )
        self._chance = chance
        self.undefined: set[tuple[str, str]] = set()
        self.violations: set[tuple[str, str]] = set()

    def play(self) -> Self:
        """Run to the end, or for as many steps as are enough."""
        with suppress(CutOff):
            self.go({"x": self._chance.choice("kmn")})
            self.violations |= {("SW405", self._at) for _ in self.broken()}
        return self

    def _enter(self, step: Any) -> Generator[None, None, str]:
        if self.steps > MOST_STEPS or sum(self.visits.values()) > MOST_STEPS:
            raise CutOff
        return (yield from super()._enter(step))

    def _decide(self, step: Any) -> str:
        try:
            return super()._decide(step)
        except Undefined as error:
            self.undefined.add((step.id, str(error)))
            raise

    def _prepared(self, call: Call) -> tuple[str, str] | None:
        why = super()._prepared(call)
        if why is not None and why[0].startswith("undefined "):
            self.undefined.add((call.step.id, why[0].removeprefix("undefined ")))
        return why

    def _ask_rules(self, step: Any, starts: Sequence[tuple[Any, dict[str, Any] | None]]) -> None:
        (kept,) = self._rules
        try:
            super()._ask_rules(step, starts)
        except Over:
            self.log.pop()
            if kept.form == "requires" and self._would_be_met(kept):
                self.violations.add(("SW402", self._at))
            elif kept.form != "exclusive" or kept.performed != {0, 1}:  # it is broken once
                self.violations.add((CODES[kept.form], self._at))

    def _would_be_met(self, kept: RuleMonitor) -> bool:
        """Return whether nothing but staleness breaks a `requires`."""
        stale, kept.stale = kept.stale, set()
        is_met = kept._is_met(kept.rule.requires)
        kept.stale = stale
        return is_met


class Guided(Unguarded):
    """A run that follows a path: what each call does is given, the rest stays chance."""

    def __init__(self, program: Program, chance: Random, path: tuple[Move, ...]) -> None:
        super().__init__(program, chance)
        self._path = path
        self._position = -1
        self._by_chance, self._answers = self._answers, self._guided
        self._parts: dict[tuple[str, int], str] = {}

    def _enter(self, step: Any) -> Generator[None, None, str]:
        self._position += 1
        if self._position >= len(self._path) or self._path[self._position].step != step.id:
            raise CutOff
        return (yield from super()._enter(step))

    def _guided(self, asked: PendingCall) -> Answer:
        move = self._path[self._position]
        how = move.how
        if asked.step != move.step:  # a sub-step goes one way for a visit, or by chance
            how = self._parts.setdefault(
                (asked.step, asked.visit), self._chance.choice(["succeeds", "fails", "starts"])
            )
        if how == "starts":
            return self._by_chance(asked)
        if how == "succeeds":
            return good(asked, self._chance.choice("kmn"))
        return TimedOut() if how == "times out, fallback" else Raised()


def check(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data), recheck=False).validate()


def happens(data: dict[str, Any], path: tuple[Move, ...], code: str) -> bool:
    """Return whether following the path breaks the rule; sub-steps go by chance, so it is tried often."""
    program = Program.from_dict(data)
    return any((code, path[-1].step) in Guided(program, Random(seed), path).play().violations for seed in range(200))


def assert_nothing_missed(data: dict[str, Any], seed: int) -> None:
    report = check(data)
    owners = {part["id"]: step["id"] for step in data["steps"] for part in step.get("parallel_steps", ())}
    places = {(finding.code, owners.get(finding.step or "", finding.step)) for finding in report.findings}
    proved = {prop.rule for prop in report.properties if prop.verdict is Verdict.PROVED}
    reads = {
        (owners.get(finding.step or "", finding.step), finding.message.split("`")[1].removeprefix("$"))
        for finding in report.findings
        if finding.code in ("SW201", "SW202")
    }
    program = Program.from_dict(data)
    for number in range(RUNS):
        walk = Unguarded(program, Random(f"{seed}/{number}")).play()
        for code, step in walk.violations:
            assert "rule" not in proved, f"proved, and broken at {step} ({code})"
            expected = MISSES.get(code, {code, "SW408"})
            is_said_once = code in MISSES and ("SW407", None) in places  # it asks for an `end` step
            is_said = is_said_once or any((said, step) in places for said in expected)
            assert is_said, f"{step} broke the rule ({code}) unsaid"
        for step, name in walk.undefined:
            assert (owners.get(step, step), name) in reads, f"{step} read `${name}` undefined unsaid"


def assert_every_violation_happens(data: dict[str, Any]) -> None:
    for finding in check(data).findings:
        if finding.code in ("SW401", "SW402", "SW403", "SW404", "SW406") or (
            finding.code == "SW405" and data["guardrails"][0].get("ends") != "any"
        ):
            assert finding.evidence is not None
            assert happens(data, finding.evidence.path, finding.code), finding


def search(examples: int, start: int) -> None:
    """Hold the checker against the walks on that many programs; raises AssertionError where they disagree."""

    @seed(start)
    @settings(COMMON, derandomize=False, max_examples=examples)
    @given(programs(), st.integers(0, 1_000))
    def run(data: dict[str, Any], chance: int) -> None:
        assert_nothing_missed(data, chance)
        assert_every_violation_happens(data)

    run()


@settings(max_examples=size(25, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 1_000))
def test_no_walk_meets_what_the_checker_did_not_say(data: dict[str, Any], seed: int) -> None:
    assert_nothing_missed(data, seed)


@settings(max_examples=size(25, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_violation_happens_when_its_path_is_followed(data: dict[str, Any]) -> None:
    assert_every_violation_happens(data)


def skipped_counts_as_success(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(monitors, "succeeds", lambda way: way.kind in ("success", "branch", "skipped", "fallback"))


def nothing_goes_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(siblings, "bound", never_stale)


def conditions_decide_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransitionChoices, "is_certain", TransitionChoices.is_possible)


def errors_lead_nowhere(patch: pytest.MonkeyPatch) -> None:
    real = Flow._transitions

    def transitions(self: Flow, number: int, step: Any) -> tuple[Transition, ...]:
        return tuple(way for way in real(self, number, step) if way.kind not in ("failed", "fallback", "skipped"))

    patch.setattr(Flow, "_transitions", transitions)


def siblings_come_before_one_another(patch: pytest.MonkeyPatch) -> None:
    original = monitors.RuleMonitor.enter

    def enter(self: Any, step: int, state: Any) -> str | None:
        after = max(self.leave(step, state, Flow(self.facts.program).transitions[step][0]))
        return (
            original(self, step, after)
            if self.facts.program.steps[step].type == "parallel"
            else original(self, step, state)
        )

    patch.setattr(monitors.RuleMonitor, "enter", enter)


def failed_outputs_stay(patch: pytest.MonkeyPatch) -> None:
    original = Assignment.effect
    patch.setattr(
        Assignment, "effect", lambda self, number, way: Effect(original(self, number, way).defined, frozenset())
    )


def visits_never_run_out(patch: pytest.MonkeyPatch) -> None:
    original = TransitionChoices.is_possible
    patch.setattr(
        TransitionChoices, "is_possible", lambda self, step, way: way.kind != "visits" and original(self, step, way)
    )


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "start"),
    [
        (skipped_counts_as_success, 20),
        (nothing_goes_stale, 0),
        (conditions_decide_nothing, 0),
        (errors_lead_nowhere, 0),
        (siblings_come_before_one_another, 23),
        (failed_outputs_stay, 0),
        (visits_never_run_out, 6),
    ],
)
def test_a_checker_that_is_wrong_is_caught(break_it: Callable[[pytest.MonkeyPatch], None], start: int) -> None:
    """The search is itself tested: each of these mistakes must make it fail, from a seed that soon finds it."""
    with pytest.MonkeyPatch.context() as patch:
        break_it(patch)
        with pytest.raises(AssertionError):
            search(6_000, start)


def test_the_search_meets_both_verdicts_often() -> None:
    """A search that only ever meets one verdict would prove nothing about the other."""
    met: Counter[str] = Counter()

    @settings(COMMON, max_examples=size(120, 300))
    @given(programs())
    def count(data: dict[str, Any]) -> None:
        rules = [prop for prop in check(data).properties if prop.rule == "rule"]
        met.update({str(prop.verdict) for prop in rules if prop.evidence.layer == "graph"})

    count()
    assert min(met["proved"], met["violated"]) >= 15
