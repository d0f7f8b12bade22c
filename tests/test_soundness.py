"""What the checker says is held against what happens: random programs, walked at random by a naive judge.

A proof must survive every walk, a violation must happen when its path is followed, and no walk may read an undefined
name or break a rule where nothing was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from programs import programs
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis import monitors
from stepward.validator.analysis.assignment import Assignment, Effect
from stepward.validator.analysis.ways import Ways
from stepward.validator.engine import guardrails
from stepward.validator.findings import Move
from stepward.vm import Flow, Program, Transition
from test_machine_properties import never_stale
from walker import Stop, Walk

WALKS = 60
MISSES = {"SW401": {"SW401", "SW402", "SW408"}, "SW402": {"SW401", "SW402", "SW408"}}


def check(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data), recheck=False).validate()


def walks(data: dict[str, Any], seed: int) -> list[Walk]:
    return [Walk(data, Random(f"{seed}/{number}")).go() for number in range(WALKS)]


@dataclass
class Guided(Walk):
    """A walk that follows a path: what each call does is given, the rest stays chance."""

    path: tuple[Move, ...] = ()
    position: int = -1

    def move(self, step: dict[str, Any]) -> str:
        self.position += 1
        if self.position >= len(self.path) or self.path[self.position].step != step["id"]:
            raise Stop("OFF", "the walk left the path")
        return super().move(step)

    def call(self, step: dict[str, Any], *, again: bool = False) -> str:
        how = self.path[self.position].how
        if step["id"] != self.path[self.position].step or how == "starts":
            return super().call(step, again=again)
        if how.startswith("fails") and not self.can_start(step):
            return {"fails": "failed", "fails, skipped": "skipped"}[how]
        self.started(step, again=again)
        if how == "succeeds":
            return "success"
        for _ in range(self.attempts(step) - 1):
            self.performs(step, again=True)
        return {"fails": "failed", "fails, skipped": "skipped", "times out, fallback": "fallback"}[how]


def happens(data: dict[str, Any], path: tuple[Move, ...], code: str) -> bool:
    """Return whether following the path breaks the rule; sub-steps go by chance, so it is tried often."""
    step = path[-1].step
    return any((code, step) in Guided(data, Random(seed), path=path).go().broken for seed in range(400))


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
    for walk in walks(data, seed):
        for code, step in walk.broken:
            assert "rule" not in proved, f"proved, and broken at {step} ({code})"
            expected = MISSES.get(code, {code, "SW408"})
            assert any((said, step) in places for said in expected), f"{step} broke the rule ({code}) unsaid"
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
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(programs(), st.integers(0, 1_000))
    def run(data: dict[str, Any], chance: int) -> None:
        assert_nothing_missed(data, chance)
        assert_every_violation_happens(data)

    run()


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 1_000))
def test_no_walk_meets_what_the_checker_did_not_say(data: dict[str, Any], seed: int) -> None:
    assert_nothing_missed(data, seed)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_violation_happens_when_its_path_is_followed(data: dict[str, Any]) -> None:
    assert_every_violation_happens(data)


def skipped_counts_as_success(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(monitors, "succeeds", lambda hit, way: (way.kind in ("success", "branch", "skipped", "fallback"),))


def nothing_goes_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guardrails, "bound", never_stale)


def conditions_decide_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ways, "is_certain", Ways.is_possible)


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
        Assignment, "effect", lambda self, number, way: Effect(original(self, number, way).given, frozenset())
    )


def visits_never_run_out(patch: pytest.MonkeyPatch) -> None:
    original = Ways.is_possible
    patch.setattr(Ways, "is_possible", lambda self, step, way: way.kind != "visits" and original(self, step, way))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "start"),
    [
        (skipped_counts_as_success, 0),
        (nothing_goes_stale, 0),
        (conditions_decide_nothing, 0),
        (errors_lead_nowhere, 0),
        (siblings_come_before_one_another, 4),
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

    @settings(max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(programs())
    def count(data: dict[str, Any]) -> None:
        rules = [prop for prop in check(data).properties if prop.rule == "rule"]
        met.update({str(prop.verdict) for prop in rules if prop.evidence.layer == "graph"})

    count()
    assert min(met["proved"], met["violated"]) >= 15
