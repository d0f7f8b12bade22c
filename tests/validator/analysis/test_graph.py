"""Property: the step graph, its kinds, its loops and the order of its components."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from stepward.validator import ProgramValidator
from stepward.validator.analysis.graph import StepGraph
from stepward.vm import Program
from stepward.vm.language.flow import Flow


def test_the_graph_is_networkx_and_knows_kinds_and_branches() -> None:
    program = Program.from_dict(
        {
            "inputs": {"id": {"type": "integer"}},
            "tools": {"look": {"effect": "read"}},
            "steps": [
                {"id": "a", "type": "tool", "tool": "look", "error_step": "c"},
                {"id": "b", "type": "condition", "condition": "$id > 1", "then": "c", "otherwise": "d"},
                {"id": "c", "type": "tool", "tool": "look", "is_terminal": True},
                {"id": "d", "type": "end", "outcome": "failure"},
            ],
        }
    )
    graph = ProgramValidator(program).graph.digraph
    assert [node["id"] for node in graph.nodes.values()] == ["a", "b", "c", "d"]
    assert graph.nodes[1]["type"] == "condition"
    assert [way.kind for way in graph[0][2]["transitions"]] == ["failed"]
    assert [way.branch for way in graph[1][2]["transitions"]] == ["then"]
    assert not graph.has_edge(2, 3)


def loops_of(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the loops of a small graph: the steps that lead to each other, one way or the other."""
    size = len(successors)
    leads = [{step for target in successors[start] for step in reached(successors, target)} for start in range(size)]
    return sorted({tuple(b for b in range(size) if b in leads[a] and a in leads[b]) for a in range(size)} - {()})  # type: ignore[return-value]


def reached(successors: Sequence[Sequence[int]], start: int) -> set[int]:
    seen, pending = {start}, [start]
    while pending:
        for target in successors[pending.pop()]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def test_loops_are_the_steps_that_lead_to_each_other_and_components_come_after_what_they_lead_to() -> None:
    chance = Random(5)
    several = 0
    for _ in range(300):
        size = chance.randint(1, 10)
        near = [range(max(0, step - 3), min(size, step + 4)) for step in range(size)]
        more = [set(chance.choices(near[step], k=chance.choice([0, 0, 1, 2]))) for step in range(size)]
        onward = [{step + 1} if step + 1 < size and chance.random() < 0.8 else set() for step in range(size)]
        following = [tuple(one | other) for one, other in zip(more, onward, strict=True)]
        steps = [
            {
                "id": f"s{step}",
                "type": "condition",
                "cases": [{"when": "true", "then": f"s{target}"} for target in targets],
            }
            if targets
            else {"id": f"s{step}", "type": "end"}
            for step, targets in enumerate(following)
        ]
        graph = StepGraph(Flow(Program.from_dict({"steps": steps})))
        assert list(map(tuple, graph.loops)) == loops_of(following)
        several += len(graph.loops) > 1
        components = graph.components(range(size))
        place = {step: number for number, component in enumerate(components) for step in component}
        assert all(place[target] <= place[step] for step in range(size) for target in following[step])
    assert several > 30
