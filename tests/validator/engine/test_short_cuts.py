"""The short cuts of the checker: each finds what the full check finds, and is taken as often as it should be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from paths import ROOT
from sizes import size
from small_programs import small_program
from stepward.validator.context import Context
from stepward.validator.engine.dead import InfeasibleBranches
from stepward.vm import Program

sys.path.insert(0, str(ROOT / "benchmarks"))
from shapes import tree

# -- clusters of conditions of which no table is made ----------------------------------------------------------------


def _branches(chance: int) -> dict[str, Any]:
    """Return a small tree of conditions on two inputs; on its ways an input may be asked for again."""
    asked = [("$a", "$b")[chance >> place & 1] for place in range(7)]
    steps: list[dict[str, Any]] = [
        {
            "id": f"node_{number}",
            "type": "condition",
            "condition": f"{asked[number]} > {(chance >> 7 + number) % 3}",
            "then": f"node_{2 * number + 1}",
            "otherwise": f"node_{2 * number + 2}",
        }
        for number in range(7)
    ]
    steps += [{"id": f"node_{number}", "type": "end"} for number in range(7, 15)]
    return {"name": "branches", "inputs": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "steps": steps}


@cache
def samples() -> tuple[Program, ...]:
    data = [small_program(seed) for seed in range(-12, size(60, 150))] + [
        _branches(chance * 977) for chance in range(17)
    ]
    return tuple(map(Program.from_dict, [*data, tree(31), tree(300)]))


def dead_ways() -> Iterator[InfeasibleBranches]:
    contexts = map(Context, samples())
    return (context.proofs.dead for context in contexts if context.facts.conditions)


def _grouped(dead: InfeasibleBranches) -> list[tuple[list[int], set[tuple[str, ...]]]]:
    """Return the conditions that read the same variables, or what is copied between these, one after the other."""
    groups: list[tuple[list[int], set[tuple[str, ...]]]] = []
    for number, _ in dead.facts.conditions:
        cases = dead.readable.cases(number)
        if cases is None or number not in dead.facts.graph.reachable:
            continue
        roots = set(dead.moves.closed([dead.domains.root(names) for names in cases.names]))
        meeting = [group for group in groups if group[1] & roots]
        groups = [group for group in groups if not group[1] & roots]
        groups.append((sum((group[0] for group in meeting), [number]), roots.union(*(group[1] for group in meeting))))
    return groups


def test_conditions_that_share_nothing_and_read_what_one_step_assigns_are_no_cluster() -> None:
    alone = together = 0
    for dead in dead_ways():
        groups = [group for group in _grouped(dead) if group[1]]
        worth = [one for one in groups if len(one[0]) > 1 or any(len(dead.moves.writers(root)) > 1 for root in one[1])]
        assert sorted((sorted(one), sorted(roots)) for one, roots in worth) == sorted(
            (one, sorted(roots)) for one, roots in dead._clusters()
        )
        alone += len(groups) - len(worth)
        together += len(worth)
    assert alone > 20 < together


# -- dominators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 150, 7))
def test_a_step_dominates_another_when_no_path_goes_past_it(seed: int) -> None:
    graph = Context(Program.from_dict(small_program(seed))).facts.graph
    flow, dominators = graph.flow, graph.dominators
    for above in range(len(flow.steps)):
        seen, pending = {0}, [0]
        while pending and above != 0:
            for target in flow.successors[pending.pop()]:
                if target != above and target not in seen:
                    seen.add(target)
                    pending.append(target)
        for below in range(len(flow.steps)):
            if {above, below} <= graph.reachable:
                assert dominators.dominates(above, below) is (above in (0, below) or below not in seen)
