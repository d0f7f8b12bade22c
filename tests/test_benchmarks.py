"""The benchmarks measure what they say; how long anything takes is no test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from clock import multiple, spread  # noqa: E402
from shapes import SHAPES, Census, Shape, census  # noqa: E402
from stages import stages  # noqa: E402

from stepward.validator import ProgramValidator  # noqa: E402
from stepward.vm import Program  # noqa: E402


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("n", [9, 10, 99, 100])
def test_a_program_is_what_its_shape_says(shape: Shape, n: int) -> None:
    data = shape.program(n)
    assert census(data).steps == len(data["steps"]) == n
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert [finding.code for finding in report.findings] == (["SW201"] if "fault" in shape.name else [])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_checker_sees_the_same_graph_as_the_census(shape: Shape) -> None:
    data = shape.program(100)
    graph = ProgramValidator(Program.from_dict(data)).graph
    found = census(data)
    assert sum(graph.flow.reachable) == found.reachable == 100
    assert sum(step["type"] == "condition" for step in data["steps"]) == found.conditions
    assert len(graph.loops) == found.backward
    assert sum(way.kind == "branch" for ways in graph.flow.transitions for way in ways) == found.branches


def test_a_program_that_is_not_what_it_says_is_refused() -> None:
    lame = Shape("lame", SHAPES[0].make, lambda n: Census(n, n, 1, 2, 0))
    with pytest.raises(AssertionError, match="lame of 10 steps is none"):
        lame.program(10)


def test_the_stages_are_those_of_one_check() -> None:
    import json

    from stepward.validator.rules import registry

    rules = registry.RULES
    seconds = stages(json.dumps(SHAPES[1].program(100)))
    assert registry.RULES is rules
    assert {"reading", "models", "flow", "report"} <= seconds.keys()
    assert {name.split(" ")[0] for name in seconds if name.startswith("SW")} == {rule.code for rule in rules}
    assert all(value >= 0 for value in seconds.values())


def test_a_multiple_is_the_median_over_the_rounds() -> None:
    assert multiple([2.0, 8.0, 3.0], [1.0, 1.0, 1.0]) == 3.0
    assert spread([2.0, 8.0, 3.0], [1.0, 1.0, 1.0]) == 1.0


def test_the_table_prints() -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(BENCHMARKS / "check.py"),
            "--sizes=50,100",
            "--peer-sizes=100",
            "--rounds=1",
            "--cold-rounds=1",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for title in ("structural check", "where it goes", "collector on", "cold start", "side by side"):
        assert title in done.stdout
    for shape in SHAPES:
        assert re.search(rf"^{shape.name}  +\d+\.\d  ±\d+%", done.stdout, re.MULTILINE), done.stdout
