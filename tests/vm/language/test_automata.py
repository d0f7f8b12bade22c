"""Differential: what a guardrail remembers in a run on the machine is among what the checker holds possible there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pytest

from machines import unchecked
from sizes import size
from small_programs import small_program
from small_runs import FAILING, Chance
from stepward.validator.analysis import monitors as possible
from stepward.validator.analysis.product import State
from stepward.validator.analysis.siblings import monitor_of
from stepward.validator.context import Context
from stepward.vm import MemoryJournal, Program
from stepward.vm.language import automata
from stepward.vm.machine import monitors
from stepward.vm.machine.apply import apply
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.state import before as initial

SEEDS = range(size(120, 240))
RUNS = 3


class Left(NamedTuple):
    """A step that a run has left: what the machine remembers of a rule after it, and what the checker says it may."""

    kind: str
    memory: Any
    may: set[State]


def histories(seed: int) -> Iterator[History]:
    data = small_program(seed)
    for number in range(RUNS):
        chance, journal = Chance(data, (seed, number), FAILING[number % len(FAILING)]), MemoryJournal()
        machine = unchecked(chance, chance, journal, clock=chance.clock)
        machine.run_sync(Program.from_dict(data), chance.inputs(), run_id="run")
        found = load(journal, "run", partial(stored_plan, journal))
        assert found is not None
        yield found


def looked_at(seeds: range) -> tuple[list[Left], Counter[str]]:
    """Return the steps that runs have left, and how often the machine and the checker objected to a start together."""
    left: list[Left] = []
    objections: Counter[str] = Counter()
    for seed in seeds:
        context = Context(Program.from_dict(small_program(seed)))
        rules = [rule for rule, _ in context.facts.meaning.rules]
        beside = [monitor_of(rule, context.analyses) for rule in rules]
        for found in histories(seed):
            states = list(accumulate(found.events, partial(apply, found.plan), initial=initial(found.plan)))
            entered = states[1].monitors if len(states) > 1 else ()
            for happened, before, after in zip(found.events, states, states[1:], strict=False):
                step = before.at
                if happened.kind == "rejected" and "reason" in happened.body:
                    kinds = {
                        rule.name: one.enter(step, entered[n])
                        for n, (rule, one) in enumerate(zip(rules, beside, strict=True))
                    }
                    assert kinds[happened.body["rule"]], happened
                    objections[str(kinds[happened.body["rule"]])] += 1
                if "next" not in happened.body:
                    continue
                ways = [way for way in context.facts.flow.transitions[step] if way.to == after.at]
                for memory, was, one in zip(after.monitors, entered, beside, strict=True):
                    may = {state for way in ways for state in one.leave(step, was, way)}
                    left.append(Left(one.automaton.kind, memory, may))  # type: ignore[attr-defined]
                entered = after.monitors
    return left, objections


def test_what_the_machine_remembers_is_among_what_the_checker_holds_possible() -> None:
    left, objections = looked_at(SEEDS)
    assert [one for one in left if one.memory not in one.may] == []
    seen = Counter(one.kind for one in left if len({one.memory} | one.may) == 1)
    assert min(seen[kind] for kind in ("requires", "never", "at_most_once", "exclusive", "followed_by")) > 20, seen
    assert sum(len(one.may) > 1 for one in left) > 10
    assert set(objections) >= {"bypassed", "forbidden", "repeated", "both"}, objections


def forgets_successes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(possible, "succeeds", lambda _: False)


def forgets_starts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(possible, "starts", lambda *_: (False,))


def never_goes_stale(patch: pytest.MonkeyPatch) -> None:
    true = monitors.bound
    stays = lambda *asked: (found := true(*asked))._replace(stale_by=(frozenset(),) * len(found.stale_by))  # noqa: E731
    patch.setattr(monitors, "bound", stays)


def owes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(monitors.Monitor, "left", lambda self, memory, left: memory)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mistake", [forgets_successes, forgets_starts, never_goes_stale, owes_nothing])
def test_a_difference_between_the_two_is_seen(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mistake(monkeypatch)
    assert any(one.memory not in one.may for seed in SEEDS[:50] for one in looked_at(range(seed, seed + 1))[0])


def test_an_exclusion_is_broken_once() -> None:
    program = Program.from_dict(
        {
            "name": "sides",
            "tools": {"a": {"effect": "write"}, "b": {"effect": "write"}},
            "guardrails": [{"name": "one", "exclusive": [{"tool": "a"}, {"tool": "b"}]}],
            "steps": [{"id": "x", "type": "tool", "tool": "a"}, {"id": "y", "type": "tool", "tool": "b"}],
        }
    )
    automaton = automata.automaton_of(program.guardrails[0])
    assert automaton.objection(automaton.started(automaton.first, {0}), {0}) is None
    assert automaton.objection(automaton.started(automaton.first, {0}), {1}) == "both"
    assert automaton.objection(automaton.first, {0, 1}) == "both"
    assert automaton.is_broken(automaton.started(automaton.started(automaton.first, {0}), {1}))
