"""Property: static bounds, held against runs of random programs of the reference; planted mistakes are caught."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from programs import COMMON, longer, programs
from reference_runs import Course, Fate, Verdict, every_run, good
from sizes import size
from stepward.sabotage.reference import Answer, Lost, PendingCall, Raised, Replied
from stepward.validator import ProgramValidator
from stepward.validator.analysis import bounds as bounds_module
from stepward.validator.analysis import heaviest_run
from stepward.validator.analysis.bounds import Bounds
from stepward.validator.analysis.heaviest_run import HeaviestRun, Loop
from stepward.vm import Program
from stepward.vm.language.steps import Failing

Data = dict[str, Any]

ENOUGH = 120
"""Steps after which a run without an end is cut off."""

FATES = 12
WEIGHTS = [(6, 1, 1, 1, 1), (2, 2, 2, 2, 1), (20, 1, 0, 0, 0), (3, 6, 1, 1, 0), (4, 0, 3, 3, 1)]
"""How often a call succeeds, raises, is late, is lost, and answers what is ill-typed."""


@pytest.fixture(scope="module")
def sample() -> list[Data]:
    """Random programs without guardrails, which would end runs sooner."""
    found: list[Data] = []

    @settings(COMMON, max_examples=size(150, 300))
    @given(programs())
    def draw(data: Data) -> None:
        found.append(longer(data, random.Random(len(found))) | {"guardrails": []})

    draw()
    return found


def bounds_of(data: Data) -> Bounds:
    return ProgramValidator(Program.from_dict(data))._context.analyses.bounds


class Spent:
    """What a run did, in counts."""

    def __init__(self, data: Data, run: Course) -> None:
        self.steps = run.steps
        self.repeated = run.verdicts.count("not_done")
        """The attempts that reconciliations have added."""
        visits = [run.visits.get(step["id"], 0) for step in data["steps"]]
        self.starts = [
            min(count, step.get("max_visits", count)) for count, step in zip(visits, data["steps"], strict=True)
        ]
        self.attempts = Counter(asked.tool for asked in run.calls)
        performances = {(asked.step, asked.visit, asked.performance): asked.tool for asked in run.calls}
        self.performances = Counter(performances.values())

    def counts(self, bounds: Bounds) -> list[tuple[int, int | None]]:
        """Pair each count, without what reconciliations have added, with its bound."""
        found = bounds.in_all
        pairs = [(self.steps - self.repeated, found.steps), (self.attempts[""], found.model_calls)]
        for name, of in found.tools.items():
            pairs += [(self.attempts[name] - self.repeated, of.attempts), (self.performances[name], of.performances)]
        assert set(self.attempts) - {""} <= set(found.tools), "a tool was called that has no bound"
        starts = [(count, bounds.starts(number)) for number, count in enumerate(self.starts)]
        return [(count, most.count) for count, most in pairs] + starts


def within(data: Data, bounds: Bounds, seed: int, max_steps: int = ENOUGH) -> None:
    """Run a program under one fate, and hold it against the bounds."""
    chance = random.Random(seed)
    program = bounds.facts.program
    answers = Fate(program, chance, chance.choice(WEIGHTS))
    verdicts: list[Verdict] = ["done", "done", "not_done", "abandon"]
    run = Course(program, answers, lambda _: chance.choice(verdicts), max_steps=max_steps)
    run.go({"x": chance.choice("kmn")})
    for count, most in Spent(data, run).counts(bounds):
        assert most is None or count <= most, (data, run.log, run.calls)


def hold(sample: list[Data]) -> None:
    """Hold many runs of many programs against their bounds, with a budget and without."""
    for number, data in enumerate(sample):
        found = bounds_of(data)
        for fate in range(FATES):
            within(data, found, number * FATES + fate)
        for budget in (2, 9):
            capped = bounds_of(data | {"max_steps": budget})
            assert capped.in_all.steps.count is not None, "a budget bounds every loop"
            within(data, capped, number, max_steps=budget)


def test_no_run_does_more_than_its_bounds(sample: list[Data]) -> None:
    hold(sample)


# -- exact where they say so -------------------------------------------------------------------------------------------


WHICH = "which way?"


def freed(data: Data) -> Data:
    """Return a program in which every way that control flow draws can be taken, at every visit.

    A model is asked before each condition, and nothing else is read.
    """
    steps: list[Data] = []
    for given_step in data["steps"]:
        step = dict(given_step)
        for part in (step, *step.get("parallel_steps", ())):
            part.pop("args", None)
            part.update({"prompt": "say"} if part["type"] == "llm" else {})
        if step["type"] == "set":
            step["set"] = {"a": "'k'"}
        if step["type"] == "condition":
            asked = {"type": "llm", "prompt": WHICH, "output_key": f"v_{step['id']}", "next_step": f"{step['id']}_if"}
            steps.append({"id": step["id"], **asked})
            if "cases" in step:
                names = zip(step["cases"], "km", strict=True)
                step["cases"] = [case | {"when": f"$v_{step['id']} == '{value}'"} for case, value in names]
            else:
                step["condition"] = f"$v_{step['id']} == 'k'"
            step["id"] += "_if"
        steps.append(step)
    return data | {"steps": steps}


def options(asked: PendingCall) -> list[Answer]:
    """Return what may be answered; what leads to many attempts comes first."""
    if asked.prompt == WHICH:
        return [Replied(value) for value in "nmk"] + [Raised()]
    return [*([Lost()] if asked.tool == "again" else []), Raised(), good(asked, "k")]


def is_exact(data: Data) -> bool:
    """Whether the page of the bounds calls them exact: every loop has at most one step with `max_visits`, and one."""
    run = HeaviestRun(ProgramValidator(Program.from_dict(data)).graph, lambda _: None)
    loops = [part for part in run.parts if isinstance(part, Loop)]
    return not run.unbounded and all(len(loop.cuts[0].bounded) == 1 for loop in loops)


def attain(sample: list[Data], most: int = 300) -> Counter[str]:
    """Look for runs that attain the bounds, and return how many programs were decided: by a run, or by all runs."""
    seen: Counter[str] = Counter()
    for data in map(freed, sample):
        if len(data["steps"]) > 7 or not is_exact(data):
            continue
        found = bounds_of(data)
        total = found.in_all.steps.count
        has_loop = bool(found.facts.graph.loops)
        best: list[int] = []
        try:
            for run in every_run(found.facts.program, options, most):
                spent = [count for count, _ in Spent(data, run).counts(found)]
                best = list(map(max, best or spent, spent))
        except TimeoutError:
            seen["by a run" if best[0] == total else "left open"] += 1
            continue
        bounds = [bound for _, bound in Spent(data, run).counts(found)]
        assert best == bounds, (data["steps"], best, bounds)
        seen["by all runs, loops" if has_loop else "by all runs"] += 1
    return seen


def test_some_run_attains_the_bounds_of_a_program_in_which_they_are_exact(sample: list[Data]) -> None:
    seen = attain(sample)
    assert seen["by all runs"] > size(20, 40), seen
    assert seen["by all runs, loops"] > size(20, 40), seen
    assert seen["left open"] < 5, seen


# -- planted mistakes --------------------------------------------------------------------------------------------------


def only_retries(_: Any, call: Failing, spec: Any) -> int:
    return call.max_retries if call.on_error == "retry" else 1


def no_pass(visits: int, weight: int, returns: int, leaves: int, passes: Any) -> int:
    return visits * weight + max(visits - 1, 0) * max(returns, 0) + leaves


def only_once(self: HeaviestRun) -> list[int]:
    return [1] * len(self.flow.steps)


REAL_CUTS, REAL_ONE, REAL_ALL = HeaviestRun._cuts, heaviest_run._rounds_of_one, heaviest_run._rounds_of_all
TOO_LITTLE: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "one attempt for each call": (bounds_module.Bounds, "_attempts", lambda *_: 1),
    "idempotent writes made once": (bounds_module.Bounds, "_attempts", only_retries),
    "a loop's last visit forgotten": (
        heaviest_run,
        "_rounds_of_one",
        lambda visits, *rest: REAL_ONE(max(visits - 1, 1), *rest),
    ),
    "no way on from used-up visits": (heaviest_run, "_rounds_of_one", no_pass),
    "the last way out of a loop forgotten": (
        heaviest_run,
        "_rounds_of_all",
        lambda starts, _: sum(s[0] * s[1] for s in starts),
    ),
    "every step starts once": (HeaviestRun, "starts", property(only_once)),
}
TOO_MUCH: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "an attempt too many": (bounds_module.Bounds, "_attempts", lambda _, call, __: call.max_retries),
    "every round of a loop leaves it": (heaviest_run, "_rounds_of_one", lambda *of: REAL_ALL([of[:4]], of[4]) + of[3]),
    "starts counted whatever leads there": (
        HeaviestRun,
        "_starts",
        lambda self, cut, loop: dict.fromkeys(loop.steps, 1 + sum(self.visits[step] + 1 for step in cut.bounded)),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TOO_LITTLE)
def test_bounds_that_are_too_low_are_caught(monkeypatch: pytest.MonkeyPatch, sample: list[Data], name: str) -> None:
    monkeypatch.setattr(*TOO_LITTLE[name])
    with pytest.raises(AssertionError):
        hold(sample)


@pytest.mark.parametrize("name", TOO_MUCH)
def test_bounds_that_are_too_high_are_caught(monkeypatch: pytest.MonkeyPatch, sample: list[Data], name: str) -> None:
    monkeypatch.setattr(*TOO_MUCH[name])
    with pytest.raises(AssertionError):
        attain(sample)
