"""Branches, on the machine and on the reference in lockstep; planted mistakes of the machine are found.

`STEPWARD_BRANCHES_LOCKSTEP=1000` plays that many drawn programs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sizes import asked_for
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import Parted
from stepward.vm.language.automata import RequiresAutomaton
from stepward.vm.machine import apply, bodies, branches, decide, forks, timely

CHUNK = 20
CHUNKS = max(1, asked_for("STEPWARD_BRANCHES_LOCKSTEP", 20, 200) // CHUNK)


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(CHUNKS)])
def test_machine_and_reference_agree_on_programs_with_branches(chunk: int) -> None:
    endings: Counter[str] = Counter()
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        case = drawn_case("branches", str(number))
        if case is not None:
            assert case.program.layout.forks
            endings[lockstep(case).ending[0]] += 1
    assert len(endings) > 2


def test_what_a_machine_remembers_of_branches_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def compared(plan: Any, state: Any, under_way: Any = frozenset(), memory: Any = None) -> Any:
        found = decide.decide(plan, state, under_way, memory)
        assert found == decide.decide(plan, state, under_way)
        asked["of branches"] += state.fork is not None
        asked["beside calls"] += state.fork is not None and bool(under_way)
        return found

    monkeypatch.setattr(timely, "decide", compared)
    for number in range(5, 14):
        for kind in ("branches", "items"):
            case = drawn_case(kind, str(number))
            if case is not None:
                lockstep(case)
    assert min(asked.values()) > 100


ITEM_CHUNKS = max(1, asked_for("STEPWARD_ITEMS_LOCKSTEP", 20, 200) // CHUNK)


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(ITEM_CHUNKS)])
def test_machine_and_reference_agree_on_programs_with_items_at_once(chunk: int) -> None:
    endings: Counter[str] = Counter()
    first = 5 + chunk * CHUNK  # two of the first five programs take as long as the other forty
    for number in range(first, first + CHUNK):
        case = drawn_case("items", str(number))
        if case is not None:
            assert case.program.layout.beside
            endings[lockstep(case).ending[0]] += 1
    assert len(endings) > 2


def finds(first: int, last: int, theme: str = "branches") -> bool:
    """Return whether some program shows a difference."""
    for number in range(first, last):
        case = drawn_case(theme, str(number))
        try:
            if case is not None:
                lockstep(case)
        except (Parted, AssertionError):
            return True
    return False


def forgets_the_branches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequiresAutomaton, "joined", lambda self, memory, ends, before: memory)


def folds_as_they_arrive(patch: pytest.MonkeyPatch) -> None:
    real = bodies._with_member
    patch.setattr(bodies, "_with_member", lambda members, trace: real(*sorted((members, trace))))


def blames_the_last(patch: pytest.MonkeyPatch) -> None:
    real = branches.failures_of
    patch.setattr(branches, "failures_of", lambda plan, state: real(plan, state)[::-1])


def starts_without_what_it_needs(patch: pytest.MonkeyPatch) -> None:
    def bound(step: Any, branch: Any) -> list[Any]:
        del step, branch
        return []

    patch.setattr(branches, "_bound", bound)


def measures_siblings_together(patch: pytest.MonkeyPatch) -> None:
    seen, whole = forks.seen_by, forks.after_branch
    for module in (decide, apply):
        patch.setattr(module, "seen_by", lambda plan, run, number: seen(plan, run, number)._replace(size=run.size))
    patch.setattr(apply, "after_branch", lambda *said: whole(*said)._replace(size=said[-1].size))


def counts_no_outputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(branches, "_size", lambda output: 0)


MISTAKES = [
    (forgets_the_branches, 175),
    (folds_as_they_arrive, 0),
    (blames_the_last, 24),
    (starts_without_what_it_needs, 25),
    (measures_siblings_together, 1),
    (counts_no_outputs, 24),
]
"""Mistakes, each with a program not long before the first one that shows it."""


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "first"), MISTAKES)
def test_a_planted_mistake_is_found(mistake: Any, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    assert finds(first, first + 250)
