"""Fast: diagrams: what is drawn for each part of a program, what is cut, and how pictures are made."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diagram_programs import large_program
from golden_diagrams import EVERYTHING, edge, edge_lines, node
from paths import ROOT
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.diagram import dot as dot_text
from stepward.validator.diagram import rendering
from stepward.validator.diagram.collapse import collapsed
from stepward.validator.diagram.drawing import draw
from stepward.validator.diagram.picture import Picture, all_nodes
from stepward.validator.diagram.rendering import DiagramError, render
from stepward.validator.diagram.stubs import MAX_EDGES, MAX_ERROR_EDGES, MAX_SPAN, with_stubs
from stepward.validator.diagram.words import wrapped
from stepward.validator.report.text import columns_of
from stepward.vm import Policy, Program

PROGRAM = EVERYTHING


def picture(text: str | dict = PROGRAM, *policies: Policy) -> Picture:
    program = Program.from_yaml(text) if isinstance(text, str) else Program.from_dict(text)
    return with_stubs(draw(ProgramFacts(program, policies)))


def dot(text: str | dict = PROGRAM) -> str:
    return dot_text.to_dot(picture(text))


def words(source: str, name: str) -> str:
    return re.sub(r"</?(b|font|table|tr|td)\b[^>]*>", "", node(source, name).replace("<br/>", " "))


def edges(source: str) -> set[tuple[str, str]]:
    """Return the edges, those with a label in one piece."""
    pairs = re.findall(r"^\s*(\w+) -> (\w+)", source, re.MULTILINE)
    labelled = {start: end for start, end in pairs if re.fullmatch(r"e\d+", start)}
    return {(start, labelled.get(end, end)) for start, end in pairs if start not in labelled}


def test_the_same_program_gives_the_same_text_whatever_the_hash_seed() -> None:
    script = """
from stepward.validator.cli import main
for form in ("dot", "mermaid"):
    words = ["graph", "--isolated", "specs/programs/bad/SW401/gold-bonus.yaml", "--format", form]
    main(words, standalone_mode=False)"""
    command = [sys.executable, "-c", script]
    found = {
        subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert found.pop().count(b"SW401") > 2


def test_every_type_of_step_has_its_shape() -> None:
    source = dot()
    shapes = {"s0": "box", "s1": "box", "s2": "hexagon", "s4": "note", "s8": "box"}
    for name, shape in shapes.items():
        assert f"shape={shape}" in node(source, name)
    assert "rounded" in node(source, "s1")
    assert "peripheries=2" in node(source, "s8")


def test_effects_are_marked() -> None:
    source = dot()
    assert "reads" in words(source, "s0")
    assert "WRITES, not idempotent, suspends" in words(source, "s6p0")
    assert "WRITES (not declared)" in words(source, "s6p1")
    assert "WRITES, idempotent" in words(source, "s7")
    fill = re.compile(r'fillcolor="(#\w+)"')
    read, write = fill.search(node(source, "s0")), fill.search(node(source, "s6p0"))
    assert read is not None
    assert write is not None
    assert read[1] != write[1]


def test_retries_visits_and_what_sub_steps_do_on_failure_are_told() -> None:
    source = dot()
    assert "retried: 4 attempts in all" in words(source, "s9")
    assert "at most 3 visits" in words(source, "s0")
    assert "goes on when it fails" in words(source, "s6p1")
    assert "goes on after a time-out" in words(source, "s6p2")


def test_edges_follow_control_flow_and_say_why() -> None:
    source = dot()
    assert ("start", "s0") in edges(source)
    assert "also when it fails" in edge(source, "s0", "s1")
    assert "on error" in edge(source, "s1", "s9")
    assert "dashed" in edge(source, "s1", "s9")
    assert "then" in edge(source, "s2", "s6fork")
    assert "$amount &gt; 5 and $reply == &quot;yes&quot;" in words(source, "s2")
    assert "otherwise" in edge(source, "s2", "s3")
    assert "one" in edge(source, "s3", "s4")
    assert "case 2" in edge(source, "s3", "s0")
    assert "$amount == 2" in edge(source, "s3", "s0")
    assert "also after a time-out" in edge(source, "s5", "s0")
    assert "after 2 visits" in edge_lines(source, "s5", "s9")[1]


def test_endings_are_drawn_and_so_is_what_is_not_covered_or_missing() -> None:
    source = dot()
    assert "failure" in words(source, "s7success")
    assert ("s7", "s7success") in edges(source)
    assert "no branch" in words(source, "s3uncovered")
    assert "missing: nowhere" in words(source, "s6success")


def test_the_end_of_an_item_leads_back_and_is_no_end_of_the_run() -> None:
    drawn = picture(
        """
name: items
language: 2
inputs: {lines: {type: array, maxItems: 5, items: {type: string}}}
steps:
  - id: each
    type: for_each
    items: $lines
    as: line
    steps:
      - {id: known, type: condition, condition: $line == 'a', then: good, otherwise: bad}
      - {id: good, type: end, output: $line}
      - {id: bad, type: end, outcome: failure}
  - {id: done, type: end}
"""
    )
    nodes = {one.step: one for one in all_nodes(drawn.nodes) if one.step}
    kinds = {name: one.kind for name, one in nodes.items()}
    assert kinds["each"] == kinds["each next"] == "loop"
    assert kinds["good"] == kinds["bad"] == "item"
    assert kinds["done"] == "success"
    ends = {(one.start, one.end) for one in drawn.edges if one.kind == "next"}
    assert (nodes["good"].name, nodes["each next"].name) in ends
    assert any(start == nodes["bad"].name for start, _ in ends)
    assert not any(one.start == nodes["done"].name for one in drawn.edges)
    assert "end of the item: failure" in [line.text for line in nodes["bad"].lines]


def test_a_set_step_shows_texts_as_expressions_and_values_as_the_language_writes_them() -> None:
    source = dot("name: p\nsteps: [{id: a, type: set, set: {x: $y + 1, z: true, n: null, l: [1, a]}}]\n")
    assert "x = $y + 1 z = true n = null l = [1, &quot;a&quot;]" in words(source, "s0")


def test_what_can_not_be_reached_is_drawn_pale() -> None:
    source = dot()
    assert "style=dashed" in node(source, "s7")
    assert "no run gets here" in words(source, "s7")
    assert "style=dashed" not in node(source, "s0")


def test_a_parallel_step_is_a_box_with_a_fork_and_a_join() -> None:
    source = dot()
    assert "subgraph cluster_s6" in source
    assert {("s6fork", "s6p0"), ("s6p0", "s6join"), ("s6fork", "s6p1"), ("s6p1", "s6join")} <= edges(source)
    assert ("s6join", "s6success") in edges(source)


def test_guardrails_are_listed_in_words_and_named_at_what_they_protect_and_require() -> None:
    source = " ".join(dot().replace('<br align="left"/>', " ").split())
    assert "looked-before-paying: tool `pay` only after (step `load` or branch `then` of step `big`)" in source
    assert "once: tool `pay` at most once" in source
    assert "noted: tool `pay` is followed by tool `note`" in source
    assert "small: never tool `pay` when $amount &gt; 9" in source
    assert "either: not both tool `pay` and step `done`" in source
    assert "rules: looked-before-paying, once, noted, small, either" in words(dot(), "s6p0")
    assert "required by: looked-before-paying" in words(dot(), "s0")
    assert "required by: looked-before-paying" in edge(dot(), "s2", "s6fork")
    assert "required by" not in edge(dot(), "s2", "s3")
    assert "required by: noted" in words(dot(), "s7")


def test_the_rules_of_a_policy_are_drawn_where_they_speak_of_the_program() -> None:
    rules = [
        {"name": "look-first", "protects": {"tool": "note"}, "requires": {"tool": "look"}},
        {"name": "elsewhere", "at_most_once": {"tool": "nobody_calls_this"}},
    ]
    found = picture(PROGRAM, Policy.from_dict({"policy": "house", "guardrails": rules}))
    told = "\n".join(line for note in found.notes for line in note.lines)
    assert "look-first (policy house): tool `note` only after tool `look`" in told
    assert "elsewhere" not in told
    assert "rules: look-first" in words(dot_text.to_dot(found), "s7")


# -- many edges to one place -------------------------------------------------------------------------------------------


def fan(count: int, **fields: str) -> dict:
    """A program whose conditions, or whose models' failures, all lead to one step."""
    steps = [{"id": f"s{number}", "type": "llm", "prompt": "x", **fields} for number in range(count)]
    ends = [{"id": "done", "type": "end"}, {"id": "failed", "type": "end", "outcome": "failure"}]
    return {"name": "p", "steps": [*steps, *ends]}


def test_few_errors_that_lead_to_one_place_are_edges_and_many_are_told_by_their_steps() -> None:
    few, many = dot(fan(MAX_ERROR_EDGES, error_step="failed")), dot(fan(MAX_ERROR_EDGES + 1, error_step="failed"))
    assert len([pair for pair in edges(few) if pair[1] == f"s{MAX_ERROR_EDGES + 1}"]) == MAX_ERROR_EDGES
    failed = f"s{MAX_ERROR_EDGES + 2}"
    assert [pair for pair in edges(many) if pair[1] == failed] == [(f"{failed}errors", failed)]
    assert "on error → failed" in words(many, "s0")
    assert f"on error: from {MAX_ERROR_EDGES + 1} steps" in words(many, f"{failed}errors")
    assert "style=dashed" in edge(many, f"{failed}errors", failed)


def test_an_ending_that_many_errors_share_stands_at_the_far_end_and_not_beside_the_start() -> None:
    many = dot(fan(MAX_ERROR_EDGES + 1, error_step="failed"))
    rank = re.compile(r"graph \[rank=(\w+)\]\s+([^{}]*)\}")
    assert {found[1]: found[2].split() for found in rank.finditer(many)} == {
        "min": ["start"],
        "max": [f"s{MAX_ERROR_EDGES + 2}"],
    }
    steps = [{"id": f"s{number}", "type": "llm", "prompt": "x", "error_step": "help"} for number in range(5)]
    more = [{"id": "done", "type": "end"}, {"id": "help", "type": "llm", "prompt": "x", "next_step": "s0"}]
    goes_on = dot({"name": "p", "steps": [*steps, *more]})
    assert "helperrors" not in goes_on
    assert "s6errors" in goes_on
    assert "rank=max" not in goes_on


def test_of_many_edges_to_one_place_the_nearest_is_drawn_and_the_others_lead_to_stubs() -> None:
    count = MAX_EDGES + 1
    steps = [
        {"id": f"c{number}", "type": "condition", "condition": "$x > 1", "then": f"c{number + 1}", "otherwise": "out"}
        for number in range(count)
    ]
    ends = [{"id": f"c{count}", "type": "end"}, {"id": "out", "type": "end", "outcome": "failure"}]
    source = dot({"name": "p", "steps": [*steps, *ends]})
    out = f"s{count + 1}"
    assert {pair for pair in edges(source) if pair[1] == out} == {(f"s{count - 1}", out), (f"{out}from", out)}
    assert words(source, f"s0to{count + 1}").count("otherwise") == 1
    assert "→ out" in words(source, f"s0to{count + 1}")
    assert ("s0", f"s0to{count + 1}") in edges(source)
    assert f"from {count - 1} steps" in words(source, f"{out}from")


def line_of(count: int, **first: str) -> dict:
    """A program of so many steps in a line; its first has more fields."""
    steps = [{"id": f"a{number}", "type": "llm", "prompt": "x"} for number in range(count - 1)]
    steps[0] |= first
    return {"name": "p", "steps": [*steps, {"id": "last", "type": "end"}]}


def test_an_edge_over_many_ranks_ends_in_a_stub_and_begins_again_at_its_target() -> None:
    short, long = dot(line_of(MAX_SPAN, error_step="last")), dot(line_of(MAX_SPAN + 2, error_step="last"))
    assert ("s0", f"s{MAX_SPAN - 1}") in edges(short)
    end = f"s{MAX_SPAN + 1}"
    assert ("s0", end) not in edges(long)
    assert {("s0", f"s0to{end[1:]}"), (f"{end}from", end)} <= edges(long)
    assert words(long, f"s0to{end[1:]}").split("label=<")[1].startswith("on error → last")
    assert "from a0" in words(long, f"{end}from")


def test_a_long_way_back_is_a_stub_too() -> None:
    steps = line_of(MAX_SPAN + 4)["steps"]
    steps[-2] = {"id": "again", "type": "condition", "condition": "$x > 1", "then": "a1", "otherwise": "last"}
    source = dot({"name": "p", "steps": steps})
    assert (f"s{MAX_SPAN + 2}", "s1") not in edges(source)
    assert ("s1from", "s1") in edges(source)
    assert "then → a1" in words(source, f"s{MAX_SPAN + 2}to1")


def crossed(source: str) -> set[tuple[str, str, str]]:
    """Return the edges of a laid out diagram that run over a node which is not one of their ends, with this node."""
    boxes: dict[str, tuple[float, ...]] = {}
    curves: list[tuple[str, str, list[tuple[float, ...]]]] = []
    for line in render(source, "plain").decode().replace("\\\n", "").splitlines():
        kind, *rest = line.split(" ")
        if kind == "node":
            boxes[rest[0]] = tuple(map(float, rest[1:5]))
        elif kind == "edge" and "invis" not in rest:
            numbers = list(map(float, rest[3 : 3 + 2 * int(rest[2])]))
            curves.append((rest[0], rest[1], list(zip(numbers[::2], numbers[1::2], strict=True))))
    return {
        (start, end, name)
        for start, end, points in curves
        for first in range(0, len(points) - 3, 3)
        for x, y in points_of(points[first : first + 4])
        for name, (middle, level, width, height) in boxes.items()
        if name not in (start, end) and abs(x - middle) < width / 2 - 0.02 and abs(y - level) < height / 2 - 0.02
    }


def points_of(bezier: list[tuple[float, ...]], count: int = 20) -> list[tuple[float, ...]]:
    shares = [number / count for number in range(count + 1)]
    weights = [((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3) for t in shares]
    return [
        tuple(sum(w * point[axis] for w, point in zip(ws, bezier, strict=True)) for axis in (0, 1)) for ws in weights
    ]


def test_an_edge_over_a_node_is_seen() -> None:
    assert crossed("digraph { splines=line; node [width=3]; a -> b -> c; a -> c }") == {("a", "c", "b")}


@pytest.mark.parametrize("is_sideways", [False, True])
@pytest.mark.parametrize("name", ["loan_decision", "customer_onboarding"])
@pytest.mark.parametrize("is_brief", [False, True])
def test_no_label_is_under_an_edge(name: str, is_brief: bool, is_sideways: bool) -> None:
    """A label is a node of its own, around which edges are led: an edge has none itself."""
    facts = ProgramFacts(Program.load(ROOT / f"specs/programs/good/{name}.yaml"))
    whole = draw(facts, is_brief=is_brief)._replace(is_sideways=is_sideways)
    source = dot_text.to_dot(with_stubs(collapsed(whole) if is_brief else whole))
    assert crossed(source) == set()
    arrows = [line for line in source.splitlines() if " -> " in line]
    assert arrows
    assert not [line for line in arrows if "label=" in line]
    labels = set(re.findall(r"^\s*(e\d+) \[", source, re.MULTILINE))
    assert labels
    for label in labels:
        (into,) = [line for line in arrows if re.search(rf"-> {label} ", line)]
        (out,) = [line for line in arrows if re.match(rf"\s*{label} -> ", line)]
        assert "arrowhead=none" in into
        assert "arrowhead=none" not in out


# -- texts -------------------------------------------------------------------------------------------------------------


def test_texts_of_the_user_can_not_break_the_drawing() -> None:
    assert "everything &lt;&amp;&gt; &quot;quoted&quot;" in dot()
    steps = [
        {"id": "a<b>&\\", "type": "set", "set": {"x": '"<i>\n\\N"'}},
        {"id": "日本", "type": "condition", "then": "c", "cases": None, "condition": '$x == "\\"<b>\x07\u202e"'},
        {"id": "c", "type": "end"},
    ]
    source = dot({"name": "<p>\n\\G", "steps": steps})
    svg = render(source, "svg").decode()
    assert "a&lt;b&gt;&amp;\\" in svg
    assert "日本" in svg
    assert "\x07" not in source
    assert "\u202e" not in source
    assert "<i>" not in svg


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "<a(b)>", "\\N", "<", "<>"])
def test_a_name_that_looks_like_markup_is_drawn_as_a_text(name: str) -> None:
    source = dot({"name": name, "steps": [{"id": name, "type": "set", "set": {"x": "1"}}]})
    svg = render(source, "svg").decode()
    assert "<script" not in svg
    assert name in html.unescape(svg)


def test_a_long_name_is_shown_whole_and_nodes_are_wide_enough_for_any_font() -> None:
    long = "a_very_long_name_of_a_tool_that_goes_on_and_on_" * 3
    text = f"name: p\ntools: {{{long}: {{effect: read}}}}\nsteps:\n  - {{id: {'x' * 150}, type: tool, tool: {long}}}\n"
    source = dot(text)
    label = node(source, "s0").replace("<br/>", "").replace("</b><b>", "")
    assert long in label
    assert "x" * 150 in label
    for line in source.splitlines():
        label_, width = re.search(r"label=<(.*)>", line), re.search(r'width="?([\d.]+)', line)
        if label_ and width and "<b>" in label_[1]:
            longest = max(len(re.sub(r"<[^>]*>|&\w+;", "", part)) for part in label_[1].split("<br/>"))
            assert float(width[1]) >= longest * 0.6 * 11 / 72


def test_a_condition_of_5000_characters_is_cut_with_an_ellipsis_and_shown_whole_as_a_hint() -> None:
    condition = " or ".join(f"$amount == {number}" for number in range(300))
    assert len(condition) > 5000
    found = picture({"name": "p", "steps": [
        {"id": "a", "type": "condition", "condition": condition, "then": "b", "otherwise": "b"},
        {"id": "b", "type": "end"}]})  # fmt: skip
    (drawn,) = [one for one in all_nodes(found.nodes) if one.name == "s0"]
    assert drawn.lines[-1].text.endswith("…")
    assert len(drawn.lines) <= 8
    assert drawn.hint.startswith("$amount == 0 or $amount == 1 ")
    assert drawn.hint.endswith("…")
    assert len(drawn.hint) <= 1500
    source = dot_text.to_dot(found)
    assert len(source) < 5000
    assert b"$amount == 0" in render(source, "svg")


def test_many_assignments_are_cut() -> None:
    source = dot({"name": "p", "steps": [{"id": "a", "type": "set", "set": {f"v{n}": n for n in range(30)}}]})
    assert "v7 = 7" in words(source, "s0")
    assert "… and 22 more" in words(source, "s0")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("short", ["short"]),
        ("aaaa bbbb cccc", ["aaaa bbbb cccc"]),  # a little over the limit, where that saves a line
        ("aaaa bbbb cccc dddd eeee", ["aaaa bbbb cccc", "dddd eeee"]),
        ("aaaaaa and bbbbbbbb or cccc", ["aaaaaa", "and bbbbbbbb", "or cccc"]),
        ("x" * 80, ["x" * 16, "x" * 16, "x" * 9 + "…"]),
        ("日本語日本語日本語日本語", ["日本語日本", "語日本語日本語"]),
        ("a\nb", ["a b"]),
    ],
)
def test_wrapping(text: str, lines: list[str]) -> None:
    assert wrapped(text, 10, 3) == lines
    assert all(columns_of(line) <= 16 for line in lines)


# -- pictures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["password_reset", "loan_decision", "post_checkout"])
def test_good_programs_are_drawn_as_pictures(name: str) -> None:
    program = Program.load(ROOT / f"specs/programs/good/{name}.yaml")
    source = dot_text.to_dot(with_stubs(draw(ProgramFacts(program))))
    svg = render(source, "svg")
    for step in program.steps:
        assert f">{step.id}".encode() in svg
    assert render(source, "png").startswith(b"\x89PNG")


def test_a_large_program_is_drawn_whole_and_no_node_is_lost_among_edges() -> None:
    found = picture(large_program(150))
    assert len(found.edges) < 300
    ends: dict[str, int] = {}
    for one in found.edges:
        ends[one.end] = ends.get(one.end, 0) + 1
    assert max(ends.values()) <= MAX_EDGES + MAX_ERROR_EDGES
    svg = render(dot_text.to_dot(found), "svg").decode()
    for step in large_program(150)["steps"]:
        assert f">{step['id']}" in svg


def fake(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_dot_on_the_path_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "dot", "cat > /dev/null; echo drawn $1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert render("digraph {}", "svg") == b"drawn -Tsvg\n"


def test_without_one_the_one_beside_the_interpreter_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert render("digraph {}", "svg").startswith(b"<?xml")


def test_when_nothing_can_draw_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(DiagramError, match="no `dot`") as caught:
        render("digraph {}", "svg")
    assert "graphviz-pure" in caught.value.help


@pytest.mark.parametrize(("script", "says"), [("echo oh no >&2; exit 1", "oh no"), ("exit 0", "it says nothing")])
def test_a_failure_of_the_drawing_program_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    fake(tmp_path / "dot", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(DiagramError, match=says):
        render("digraph {}", "svg")


def test_a_drawing_program_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "dot", "exec sleep 30")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(rendering, "TIME_LIMIT_SECONDS", 0.2)
    with pytest.raises(DiagramError, match="was not drawn within"):
        render("digraph {}", "svg")


BRANCHED = """
language: 2
inputs: {}
tools: {load: {effect: read, returns: {type: string}}, pay: {effect: write, idempotent: true}}
steps:
  - id: both
    type: parallel
    branches:
      limits: {steps: [{id: l, type: tool, tool: load}, {id: e, type: end, output: $l.output}]}
      payment: {depends_on: [limits], steps: [{id: p, type: tool, tool: pay}]}
"""


def test_a_branch_does_not_start_after_a_failure_of_one_that_it_needs() -> None:
    drawn = picture(BRANCHED)
    names = {one.name: one.step for one in all_nodes(drawn.nodes) if one.step}
    found = {(names.get(one.start), names.get(one.end)) for one in drawn.edges}
    assert {("limits next", "payment"), ("limits failed", "both joined"), ("payment failed", "both joined")} <= found
    assert ("limits failed", "payment") not in found
    text = dot(BRANCHED)
    assert "end of the branch: success" in text
    assert "the branch has ended" in text
    assert "the branch failed" in text
    assert "item" not in text
