"""The product of program and monitor: what it leaves out for speed changes nothing of what it finds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from bodied_programs import bodied_program
from paths import ROOT
from sizes import size
from small_programs import small_program

sys.path.insert(0, str(ROOT / "benchmarks"))

import bodies
from twins import TWINS

from stepward.validator.analysis import counting, monitors, product, rounds
from stepward.validator.analysis.counting import MAX_COUNTED_PAIRS, explore_counted
from stepward.validator.analysis.product import Exploration, Monitor
from stepward.validator.analysis.siblings import monitor_of
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.validator.context import Context
from stepward.vm import Program
from stepward.vm.language.automata import AtMostOnceAutomaton
from stepward.vm.language.guardrails import Never, ToolSelector, protected
from stepward.vm.language.selectors import matches

SEEDS = range(-12, size(30, 150))


class Watchful:
    """A monitor that is asked at every step."""

    watched = None

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._monitor, name)


def contexts() -> Iterator[Context]:
    for seed in SEEDS:
        yield Context(Program.from_dict(small_program(seed)))


def found(exploration: Exploration) -> tuple[object, ...]:
    paths = {key: bad.path for key, bad in exploration.bad.items()}
    return exploration.visited, exploration.marks, [sorted(out) for out in exploration.out], paths


def explored(context: Context) -> Iterator[tuple[Exploration, Exploration]]:
    """Yield the searches for every guardrail of a program, as they are and with a monitor that is asked everywhere."""
    for rule, _ in context.facts.meaning.rules:
        for certain, choice in (
            (False, context.analyses.transitions.possible),
            (True, context.analyses.transitions.certain),
        ):
            monitor = monitor_of(rule, context.analyses, doubtless=certain)
            yield tuple(explore_counted(context.facts.flow, one, choice) for one in (monitor, Watchful(monitor)))  # type: ignore[misc]


def test_a_monitor_that_watches_few_steps_finds_what_it_finds_at_all_of_them() -> None:
    searches = [pair for context in contexts() for pair in explored(context)]
    assert all(found(one) == found(other) for one, other in searches)
    assert sum(bool(one.bad) for one, _ in searches) > len(SEEDS) // 4
    assert sum(len(one.steps) > 5 for one, _ in searches) > len(SEEDS)


def test_a_monitor_that_watches_too_little_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = monitors.RuleMonitor.__init__

    def made(self: Any, *asked: Any, **more: Any) -> None:
        true(self, *asked, **more)
        if isinstance(self.automaton, AtMostOnceAutomaton):
            self.watched = ()

    monkeypatch.setattr(monitors.RuleMonitor, "__init__", made)
    with pytest.raises(AssertionError):
        test_a_monitor_that_watches_few_steps_finds_what_it_finds_at_all_of_them()


def follow_what_passes(ways: TransitionChoices) -> bool:
    return all(
        following == tuple(dict.fromkeys(way.to for way in out if way.to >= 0 and choice.passes(number, way)))
        for choice in (ways.possible, ways.certain)
        for number, (following, out) in enumerate(zip(choice.following, ways.flow.transitions, strict=True))
    )


def test_the_successors_by_some_transitions_are_their_targets() -> None:
    found = [context.analyses.transitions for context in contexts()]
    assert all(map(follow_what_passes, found))
    assert any(ways.certain.following != ways.possible.following for ways in found)


def counts_behind(following: list[list[int]], bounds: dict[int, int]) -> int:
    """Return how many combinations of visits there are at the step at which there are most, one by one."""
    pending = [(0, tuple(0 for _ in following))]
    seen = set(pending)
    for step, counts in pending:
        if counts[step] < bounds.get(step, 1_000):
            visited = tuple(count + (one == step and step in bounds) for one, count in enumerate(counts))
            new = {(to, visited) for to in following[step]} - seen
            seen |= new
            pending += new
    return max(Counter(step for step, _ in seen).values())


def drawn_loops(seed: int) -> tuple[list[list[int]], dict[int, int]]:
    """Return some small loops and branches, one behind the other, and the most visits of some of their steps."""
    chance, following = Random(seed), list[list[int]]()
    for _ in range(chance.randint(1, 3)):
        first, size = len(following), chance.randint(1, 3)
        for step in range(first, first + size):
            back = chance.randint(first, step)
            following.append([step + 1, *([back] if chance.random() < 0.6 else [])])
    following.append([])
    bounds = {step: chance.randint(1, 5) for step in range(len(following)) if chance.random() < 0.6}
    return following, bounds


def test_loops_in_a_row_have_at_least_the_reported_counts() -> None:
    drawn = [drawn_loops(seed) for seed in range(400)]
    said = [rounds.loops_in_a_row(*one) for one in drawn]
    assert all(counts_behind(*one) >= 2**least for one, least in zip(drawn, said, strict=True))
    assert sum(least > 1 for least in said) > 20


def test_loops_that_end_before_a_second_round_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "FREE", 1)
    with pytest.raises(AssertionError):
        test_loops_in_a_row_have_at_least_the_reported_counts()


def test_a_search_that_is_not_begun_would_not_end() -> None:
    polling = next(one for one in TWINS if one.name == "polling loops")
    for steps, is_begun in ((12, True), (60, False)):
        context = Context(Program.from_dict(polling.program(steps, breaks=True)))
        ((rule, _),) = context.facts.meaning.rules
        possible = context.analyses.transitions.possible
        counts, limit = counting._Counting(possible, monitor_of(rule, context.analyses)), MAX_COUNTED_PAIRS
        assert counts.exceeds(limit, possible) is not is_begun
        assert product.explore(context.facts.flow, counts, possible, limit=limit).is_complete is is_begun


def body_rules() -> Iterator[tuple[int | None, Exploration]]:
    """Yield for each rule of a body what is found in the body alone, and the search of the whole program."""
    for seed in range(size(30, 60)):
        context = Context(Program.from_dict(bodied_program(seed)))
        flow, possible = context.facts.flow, context.analyses.transitions.possible
        for rule, owner in context.facts.meaning.body_rules:
            monitor = monitor_of(rule, context.analyses, owner=owner)
            yield product.clear_at_home(flow, monitor, possible), product.explore(flow, monitor, possible)


def test_what_is_clear_in_a_body_is_clear_in_the_whole_program() -> None:
    found = list(body_rules())
    assert not any(whole.bad for clear, whole in found if clear is not None)
    assert sum(clear is not None for clear, _ in found) > size(5, 10)
    assert sum(clear is None and not whole.bad for clear, whole in found) < len(found) // 4


def test_a_search_that_does_not_get_into_a_body_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product.Inside, "following", [()] * 1_000)
    with pytest.raises(AssertionError):
        test_what_is_clear_in_a_body_is_clear_in_the_whole_program()


def test_the_search_for_rules_of_bodies_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[int] = []
    true = product.Exploration.search

    def search(self: Exploration, *asked: Any) -> None:
        true(self, *asked)
        visited.append(self.pairs)

    monkeypatch.setattr(product.Exploration, "search", search)
    sums = []
    for count in (10, 20):
        bodies.check(bodies.many(count, are_ruled=True))
        sums.append(sum(visited))
        visited.clear()
    assert sums[1] < 2.5 * sums[0]


def test_the_calls_of_a_tool_are_those_that_its_selector_matches() -> None:
    count = 0
    for facts in (context.facts for context in contexts()):
        asked = {ToolSelector(tool=name) for name in facts.program.tools or ()}
        asked |= {one for rule, _ in facts.meaning.rules if not isinstance(rule, Never) for one in protected(rule)}  # type: ignore[arg-type]
        for selector in asked:
            hits = facts.hits(selector)
            assert hits == matches(selector, facts.meaning)
            count += any(hit.sub is not None for hit in hits)
    assert count > 10
