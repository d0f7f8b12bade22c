"""Fast: static bounds by table, and who uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from machines import ask, assign, both, check, end, tool
from machines import program as bench_program
from stepward.validator import ProgramValidator
from stepward.validator.analysis import bounds as bounds_module
from stepward.validator.analysis.bounds import Bounds, Most, ProgramBounds
from stepward.validator.cli import main

Data = dict[str, Any]
LOOK = tool("look", "read", max_visits=3, error_step="late", next_step="is_paid")
PAID = check("is_paid", "$look.output == 'k'", "done", "nudge")
NUDGE = tool("nudge", "write", next_step="look")
ENDS = (end("done"), end("late"))


def measured(*steps: Data, **more: Any) -> ProgramBounds:
    return ProgramValidator(bench_program(*steps, **more))._context.analyses.bounds.in_all


def counts(found: ProgramBounds) -> tuple[int | None, int | None, dict[str, tuple[int | None, int | None]]]:
    tools = {name: (of.attempts.count, of.performances.count) for name, of in found.tools.items()}
    return found.steps.count, found.model_calls.count, tools


# -- by table ----------------------------------------------------------------------------------------------------------

RETRIED = {"on_error": "retry", "max_retries": 4}
CASES: dict[str, tuple[list[Data], Data, int, int, dict[str, tuple[int, int]]]] = {
    "one end": ([end()], {}, 1, 0, {}),
    "a chain": ([assign("a", x=1), tool("b"), ask("c"), end()], {}, 4, 1, {"read": (1, 1)}),
    "attempts under keys of their own": ([tool("a", "read", **RETRIED)], {}, 4, 0, {"read": (4, 4)}),
    "attempts under one key": ([tool("a", "again", **RETRIED)], {}, 4, 0, {"again": (4, 1)}),
    "an idempotent write is repeated whatever it says": ([tool("a", "again")], {}, 3, 0, {"again": (3, 1)}),
    "and when it is skipped": ([tool("a", "again", on_error="skip", max_retries=2)], {}, 2, 0, {"again": (2, 1)}),
    "a write that is not is not": ([tool("a", "write")], {}, 1, 0, {"write": (1, 1)}),
    "a model's attempts": ([ask("a", **RETRIED)], {}, 4, 4, {}),
    "the longer branch": (
        [check("a", "1 == 1", "b", "c"), end("b"), tool("c", is_terminal=True, error_step="d"), end("d")],
        {},
        3,
        0,
        {"read": (1, 1)},
    ),
    "what is not reached": ([end(), tool("a")], {}, 1, 0, {}),
    "each tool on its own way": (
        [
            check("a", "1 == 1", "b", "c"),
            tool("b", next_step="d"),
            tool("c", next_step="e"),
            tool("d", is_terminal=True),
            tool("e"),
        ],
        {},
        3,
        0,
        {"read": (2, 2)},
    ),
    "a parallel step": (
        [both("p", tool("a"), tool("b", "again"), ask("c"))],
        {},
        6,
        1,
        {"read": (1, 1), "again": (3, 1)},
    ),
    "its rounds": (
        [both("p", tool("a"), tool("b", "again"), tool("c", "read", on_error="skip"), **RETRIED)],
        {},
        4 + 4 + 12 + 1,
        0,
        {"read": (5, 5), "again": (12, 1)},
    ),
    "no rounds when all are skipped": ([both("p", tool("a", on_error="skip"), **RETRIED)], {}, 2, 0, {"read": (1, 1)}),
    "attempts in rounds": ([both("p", ask("a", **RETRIED), **RETRIED)], {}, 4 + 16, 16, {}),
    # look, is_paid, nudge three times; then look is passed, and the run goes to `late`
    "a loop": ([LOOK, PAID, NUDGE, *ENDS], {}, 10, 0, {"read": (3, 3), "write": (3, 3)}),
    "a loop that stalls": (
        [LOOK | {"error_step": None}, PAID, NUDGE, end("done")],
        {},
        9,
        0,
        {"read": (3, 3), "write": (3, 3)},
    ),
    "a loop that is entered behind its bound": (
        [assign("a", {"next_step": "nudge"}, x=1), LOOK, PAID, NUDGE, *ENDS],
        {},
        12,
        0,
        {"read": (3, 3), "write": (4, 4)},
    ),
    "a pass that comes back": (
        [LOOK | {"error_step": "nudge"}, PAID, NUDGE, end("done")],
        {},
        10,
        0,
        {"read": (3, 3), "write": (4, 4)},
    ),
    "the last round leaves on the longest way": (
        [LOOK | {"error_step": None}, PAID, NUDGE, ask("done", next_step="b"), ask("b", next_step="c"), ask("c")],
        {},
        6 + 2 + 3,
        3,
        {"read": (3, 3), "write": (3, 3)},
    ),
    "a step that leads to itself": ([tool("a", max_visits=5, next_step="a")], {}, 5, 0, {"read": (5, 5)}),
    "two bounds on one round": (
        [tool("a", max_visits=2, next_step="b"), tool("b", max_visits=3, next_step="a")],
        {},
        4,
        0,
        {"read": (4, 4)},
    ),
    "two loops in a row": (
        [
            ask("a", max_visits=2, output_key="x", next_step="b"),
            check("b", "$x == 'k'", "c", "a"),
            ask("c", max_visits=3, output_key="y", next_step="d"),
            check("d", "$y == 'k'", "e", "c"),
            end("e"),
        ],
        {},
        4 + 6 + 1,
        5,
        {},
    ),
    "max_steps caps all": ([LOOK, PAID, NUDGE, *ENDS], {"max_steps": 2}, 2, 0, {"read": (2, 2), "write": (2, 2)}),
    "max_steps bounds a loop": (
        [tool("a", next_step="b"), ask("b", next_step="a"), end()],
        {"max_steps": 7},
        7,
        7,
        {"read": (7, 7)},
    ),
    "a budget that is not used up": ([tool("a"), end()], {"max_steps": 7}, 2, 0, {"read": (1, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_counts_are_these(name: str) -> None:
    steps, more, *expected = CASES[name]
    found = measured(*steps, **more)
    assert counts(found) == tuple(expected)
    assert found.reason == ""


def test_a_loop_without_a_bound_is_named() -> None:
    found = measured(ask("first"), LOOK | {"max_visits": None}, PAID, NUDGE, *ENDS)
    loop = ("look", "is_paid", "nudge")
    assert found.steps == Most(None, loop)
    assert found.reason == "nothing bounds the loop of `look`, `is_paid`, `nudge`"
    assert found.model_calls == Most(1), "what stands outside of the loop has its bound"
    assert found.tools["write"].attempts == found.tools["write"].performances == Most(None, loop)


def test_each_count_names_the_loop_that_it_hangs_on() -> None:
    found = measured(
        check("a", "1 == 1", "b", "c"),
        ask("b", error_step="b", next_step="b"),
        tool("c", next_step="d"),
        check("d", "1 == 1", "c", "e"),
        end("e"),
    )
    assert (found.steps.loop, found.model_calls.loop, found.tools["read"].attempts.loop) == (("b",), ("b",), ("c", "d"))
    assert found.loops == (("b",), ("c", "d"))
    assert found.reason == "nothing bounds the loop of `b`, nor that of `c`"


def test_an_irreducible_loop_has_a_bound_that_holds() -> None:
    """Two ways in, two bounds, no single step that cuts it: what each bound allows is added up."""
    steps = [
        ask("in", output_key="x"),
        check("way", "$x == 'k'", "a", "b"),
        tool("a", max_visits=2, next_step="c"),
        tool("b", max_visits=3, next_step="d"),
        check("c", "$x == 'm'", "a", "b"),
        check("d", "$x == 'm'", "b", "a"),
    ]
    assert counts(measured(*steps)) == (2 + 2 * 2 + 3 * 2, 1, {"read": (5, 5)})


def each(name: str, *steps: Data, most: int = 5, **more: Any) -> Data:
    found = {"id": name, "type": "for_each", "items": "$l", "as": f"{name}_item", "max_items": most}
    return {**found, "steps": list(steps), **more}


def bounded(*steps: Data) -> ProgramBounds:
    return measured(*steps, end("z"), language=2, inputs={"l": {}})


def test_items_are_bounded_by_max_items() -> None:
    assert counts(bounded(each("a", tool("t")))) == (7, 0, {"read": (5, 5)})


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("how", [{}, {"on_item_error": "skip"}, {"error_step": "z"}], ids=["fail", "skip", "lead on"])
@pytest.mark.parametrize("body", [[ask("t")], [tool("u"), ask("t")], [ask("t"), tool("u")]], ids=len)
def test_an_item_that_ends_its_step_is_one_of_the_items(most: int, how: Data, body: list[Data]) -> None:
    found = bounded(each("a", *body, most=most, **how))
    assert (found.model_calls.count, found.steps.count) == (most, 2 + len(body) * most)


@pytest.mark.parametrize(
    "body",
    [each("b", tool("t"), most=2), tool("t", max_visits=2, next_step="t", error_step="t")],
    ids=["items in items", "visits in each item"],
)
def test_what_repeats_in_a_body_is_bounded_for_all_items(body: Data) -> None:
    of_tool = bounded(each("a", body, on_item_error="skip")).tools["read"].attempts.count
    assert of_tool is not None
    assert 10 <= of_tool <= 16, "10 in a run; what is said is an upper bound"


def test_nothing_bounds_the_items_of_a_step_in_a_loop() -> None:
    found = bounded(each("a", tool("t"), next_step="a"))
    assert found.tools["read"].attempts.count is None
    assert found.reason.startswith("nothing bounds the loop of `a`, `t`")


def test_a_tool_beyond_the_passes_is_bounded_place_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = CASES["each tool on its own way"][0]
    branches = [check("z", "1 == 1", "a", "y"), tool("y", max_visits=2, next_step="y"), *steps]
    assert counts(measured(*branches))[2] == {"read": (2, 2)}
    monkeypatch.setattr(bounds_module, "_PASSES", 0)
    assert counts(measured(*branches))[2] == {"read": (6, 6)}


def test_the_shortest_path_counts_its_calls() -> None:
    found = measured(tool("a"), both("p", tool("b"), ask("c")), tool("d", "write"), end()).shortest
    assert found is not None
    assert (found.steps, found.model_calls, found.tools) == (6, 1, {"read": 2, "write": 1})
    assert measured(assign("a", {"next_step": "a"}, x=1)).shortest is None


def test_a_program_that_does_not_say_where_it_goes_has_no_bounds() -> None:
    found = measured(tool("a", next_step="nowhere"), end())
    assert (counts(found), found.reason) == ((None, None, {}), "the program does not say where control goes")


def test_long_programs_take_no_recursion() -> None:
    """A chain, and loops in loops, of 5,000 steps."""
    size = 5_000
    assert measured(*(assign(f"s{number}", x=1) for number in range(size))).steps == Most(size)
    ring = [tool(f"s{n}", error_step=f"s{(n * 7 + 1) % size}") for n in range(size - 1)]
    ring.append(tool(f"s{size - 1}", max_visits=3, next_step="s0"))
    found = measured(*(step | {"next_step": f"s{n + 1}"} if n < size - 1 else step for n, step in enumerate(ring)))
    assert found.steps.count is None or found.steps.count >= 3 * size


# -- who uses them -----------------------------------------------------------------------------------------------------

ONCE = [
    (True, [LOOK, PAID, NUDGE, *ENDS]),
    (False, [LOOK, PAID, NUDGE | {"max_visits": 1}, *ENDS]),
    (True, [LOOK, PAID, NUDGE | {"max_visits": 2}, *ENDS]),
    (False, [LOOK | {"max_visits": 1}, PAID, NUDGE, *ENDS]),
    (True, [LOOK | {"max_visits": 1, "error_step": "nudge"}, PAID, NUDGE, end("done")]),
    (True, [assign("a", {"next_step": "nudge"}, x=1), LOOK | {"max_visits": 1}, PAID, NUDGE, *ENDS]),
    (True, [LOOK | {"max_visits": None}, PAID, NUDGE, *ENDS]),
]


@pytest.mark.parametrize(("is_found", "steps"), ONCE)
def test_a_write_that_starts_once_is_no_effect_in_a_loop(is_found: bool, steps: list[Data]) -> None:
    found = ProgramValidator(bench_program(*steps, max_steps=20)).validate().findings
    assert ("SW504" in {finding.code for finding in found}) is is_found


def never(*_: Any) -> Any:
    raise AssertionError("nobody asked for it")


def test_nobody_pays_for_bounds_that_are_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Bounds, "in_all", property(never))
    monkeypatch.setattr(Bounds, "starts", never)
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(json.dumps({"name": "p", "inputs": {}, "steps": [{"id": "a", "type": "end"}]}))
    for format in ("concise", "full"):
        assert CliRunner().invoke(main, ["check", "p.json", f"--output-format={format}"]).exit_code == 0
    assert CliRunner().invoke(main, ["check", "p.json", "--output-format=json"]).exit_code == 2, "here somebody asks"


TWO = """
name: first
inputs: {}
tools: {read: {effect: read}}
steps: [{id: a, type: tool, tool: read, next_step: b}, {id: b, type: llm, prompt: x, next_step: a}]
---
name: second
inputs: {}
steps: [{id: a, type: llm, prompt: x, on_error: retry}, {id: b, type: end}]
---
name: third
inputs: {}
steps: [{id: a, type: llm, prompt: x, next_step: c}, {id: b, type: end}]
"""


def test_json_and_statistics_show_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(TWO)
    data = json.loads(CliRunner().invoke(main, ["check", "--output-format=json"]).stdout)
    first, second, third = data["bounds"]
    assert first == {
        "file": "two.yaml",
        "program": "first",
        "steps": None,
        "model_calls": None,
        "model_steps": {"b": None},
        "tools": {"read": {"attempts": None, "performances": None}},
        "reason": "nothing bounds the loop of `a`, `b`",
        "loops": [["a", "b"]],
        "shortest": None,
    }
    assert [second[key] for key in ("steps", "model_calls", "reason", "loops")] == [4, 3, None, []]
    assert second["shortest"] == {"steps": 2, "model_calls": 1, "tools": {}}
    assert [third[key] for key in ("steps", "tools", "reason")] == [
        None,
        {},
        "the program does not say where control goes",
    ]
    lines = CliRunner().invoke(main, ["check", "--statistics"]).stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("file"))
    assert [line.split("  ")[0] for line in lines[start : start + 4]] == ["file", *["two.yaml"] * 3]
    assert lines[start + 1].split()[1:5] == ["first", "-", "no", "bound"]
    assert lines[start + 2].split() == ["two.yaml", "second", "2", "4", "3"]


def test_each_step_has_the_bound_of_its_own_model_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("""\
name: p
inputs: {good: {type: boolean}}
steps:
  - {id: plan, type: llm, prompt: x}
  - {id: draft, type: llm, prompt: x, on_error: retry, max_retries: 5, max_visits: 4, error_step: no, next_step: ok}
  - {id: ok, type: condition, condition: $good, then: both, otherwise: draft}
  - id: both
    type: parallel
    parallel_steps: [{id: one, type: llm, prompt: x, on_error: retry}, {id: two, type: llm, prompt: x}]
    next_step: done
  - {id: done, type: end}
  - {id: no, type: end, outcome: failure}
""")
    (bounds,) = json.loads(CliRunner().invoke(main, ["check", "--output-format=json"]).stdout)["bounds"]
    assert (bounds["model_calls"], bounds["model_steps"]) == (25, {"plan": 1, "draft": 20, "both": 4})
    assert "plan 1, draft 20, both 4" in CliRunner().invoke(main, ["check", "--statistics"]).stdout
