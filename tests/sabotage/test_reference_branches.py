"""Branches, on the machine and on the reference in lockstep; planted mistakes of the machine are found.

`STEPWARD_BRANCHES_LOCKSTEP=1000` plays that many drawn programs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from machines import unchecked
from sizes import asked_for
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import Parted
from stepward.sabotage.reference import Reference, Returned
from stepward.validator import ProgramValidator
from stepward.vm import Program
from stepward.vm.language.automata import RequiresAutomaton
from stepward.vm.machine import apply, bodies, branches, decide, forks, timely

CHUNK = 10
CHUNKS = max(1, asked_for("STEPWARD_BRANCHES_LOCKSTEP", 10, 200) // CHUNK)


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


ITEM_CHUNKS = max(1, asked_for("STEPWARD_ITEMS_LOCKSTEP", 10, 200) // CHUNK)


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


# -- when the output of a branch counts as assigned --------------------------------------------------------------------


def again(read: str) -> dict[str, Any]:
    """Return a program in which a condition reads what a branch came to, and the branches run again."""
    branches = {
        "m": {"steps": [{"id": "a", "type": "tool", "tool": "ask"}, {"id": "e", "type": "end", "output": 2}]},
        "k": {"steps": [{"id": "d", "type": "end", "output": 1}]},
    }
    steps = [
        {"id": "both", "type": "parallel", "max_visits": 3, "branches": branches, "next_step": "q"},
        {"id": "q", "type": "tool", "tool": "ask", "output_key": "is_first", "next_step": "w"},
        {"id": "w", "type": "condition", "condition": "$is_first", "then": "c", "otherwise": "p"},
        {"id": "c", "type": "condition", "condition": read, "then": "both", "otherwise": "both"},
        {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True},
    ]
    return {"steps": steps, "max_steps": 50}


def behind(read: str, outcome: str) -> dict[str, Any]:
    """Return a program in which a condition in a branch reads what the branch before it came to."""
    second = [
        {"id": "c", "type": "condition", "condition": read, "then": "d", "otherwise": "no"},
        {"id": "d", "type": "end", "outcome": outcome},
        {"id": "no", "type": "end", "outcome": "failure"},
    ]
    branches = {
        "m": {"steps": [{"id": "e", "type": "end", "output": 2}]},
        "k": {"depends_on": ["m"], "steps": second},
    }
    both = {"id": "both", "type": "parallel", "on_error": "skip", "branches": branches}
    return {"steps": [{**both, "next_step": "p"}, {"id": "p", "type": "tool", "tool": "pay"}]}


STALE: dict[str, tuple[dict[str, Any], bool]] = {
    "the output, and the branches run again": (again("$m.output == 2"), True),
    "a field of the whole, and they run again": (again("$both.output.m == 2"), True),
    "the error, and they run again": (again("not defined($m.error)"), True),
    "the output, in a branch behind it": (behind("$m.output == 2", "success"), False),
    "the output, in a branch behind it that fails": (behind("$m.output == 2", "failure"), False),
}


@pytest.mark.parametrize("name", STALE)
def test_the_output_of_a_branch_counts_as_assigned_when_the_step_starts(name: str) -> None:
    """For the machine, the reference and both checkers alike."""
    data, is_stale = STALE[name]
    tools = {"ask": {"effect": "read", "returns": {"type": "boolean"}}, "pay": {"effect": "write", "idempotent": True}}
    rule = {"name": "r", "protects": {"step": "p"}, "requires": {"step": "c", "branch": "then"}}
    made = Program.from_dict({"name": "s", "language": 2, "inputs": {}, "tools": tools, "guardrails": [rule], **data})
    calls: list[str] = []

    class Tools:
        def has(self, tool: str) -> bool:
            return bool(tool)

        async def call(self, tool: str, args: Any, context: Any) -> bool:
            calls.append(tool)
            return len(calls) == 2

    run = unchecked(Tools()).run_sync(made, {})
    reference = Reference(made)
    reference.start({})
    asked = 0
    while reference.asked:
        asked += 1
        reference.answer(reference.asked[0].step, Returned(asked == 2))
    assert (run.status, reference.status) == (("FAILED",) * 2 if is_stale else ("SUCCESS",) * 2)
    (found,) = [one for one in ProgramValidator(made).validate().properties if one.rule == "r"]
    assert found.verdict == ("violated" if is_stale else "proved")
