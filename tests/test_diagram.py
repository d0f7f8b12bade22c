"""Fast: diagrams: what is drawn for each part of a program, that nothing is cut, and how pictures are made."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepward.validator import diagram
from stepward.validator.diagram import DiagramError, render, to_dot
from stepward.vm import Program

ROOT = Path(__file__).parents[1]

PROGRAM = """\
name: everything <&> "quoted"
inputs: {amount: {type: number}}
tools:
  look: {effect: read}
  pay: {effect: write, idempotent: false, suspends: true}
  note: {effect: write, idempotent: true}
guardrails:
  - {name: looked-before-paying, protects: {tool: pay}, requires: {any_of: [{step: load}, {step: big, branch: then}]}}
  - {name: once, at_most_once: {tool: pay}}
  - {name: noted, followed_by: {first: {tool: pay}, then: {tool: note}}}
  - {name: small, never: {tool: pay}, when: $amount > 9}
  - {name: either, exclusive: [{tool: pay}, {step: done}]}
steps:
  - {id: load, type: tool, tool: look, output_key: found, on_error: skip, max_visits: 3, error_step: null}
  - {id: ask, type: llm, prompt: x, output_key: reply, allowed_outputs: [yes, no], error_step: failed}
  - {id: big, type: condition, condition: '$amount > 5 and $reply == "yes"', then: both, otherwise: which}
  - {id: which, type: condition,
     cases: [{name: one, when: $amount == 1, then: compute}, {when: $amount == 2, then: load}]}
  - {id: compute, type: set, set: {total: $amount + 1}, next_step: wait}
  - {id: wait, type: llm, prompt: x, timeout_seconds: 3, on_timeout: fallback, fallback: none, max_visits: 2,
     error_step: failed, next_step: load}
  - id: both
    type: parallel
    parallel_steps: [{id: left, type: tool, tool: pay}, {id: right, type: tool, tool: unheard_of}]
    next_step: nowhere
  - {id: orphan, type: tool, tool: note, is_terminal: true, outcome: failure}
  - {id: done, type: end}
  - {id: failed, type: end, outcome: failure}
"""


def dot(text: str = PROGRAM) -> str:
    return to_dot(Program.from_yaml(text))


def node(source: str, name: str) -> str:
    (line,) = [line for line in source.splitlines() if re.match(rf"\s*{name} \[", line)]
    return line


def edges(source: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^\s*(\w+) -> (\w+)", source, re.MULTILINE))


def edge(source: str, start: str, end: str) -> str:
    (line,) = [line for line in source.splitlines() if re.match(rf"\s*{start} -> {end}( |$)", line)]
    return line


def test_the_same_program_gives_the_same_text() -> None:
    assert dot() == dot()
    script = "import sys; from stepward.vm import Program; from stepward.validator.diagram import to_dot; "
    script += "sys.stdout.write(to_dot(Program.from_yaml(sys.stdin.read())))"
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", script], input=PROGRAM, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.stdout == dot()


def test_every_type_of_step_has_its_shape() -> None:
    source = dot()
    shapes = {"s0": "box", "s1": "box", "s2": "diamond", "s4": "note", "s8": "box"}
    for name, shape in shapes.items():
        assert f"shape={shape}" in node(source, name)
    assert "rounded" in node(source, "s1")
    assert "peripheries=2" in node(source, "s8")


def test_effects_are_marked() -> None:
    source = dot()
    assert "reads" in node(source, "s0")
    assert "WRITES, not idempotent, suspends" in node(source, "s6p0").replace("<br/>", " ")
    assert "WRITES (not declared)" in node(source, "s6p1")
    assert "WRITES, idempotent" in node(source, "s7")
    fill = re.compile(r'fillcolor="(#\w+)"')
    read, write = fill.search(node(source, "s0")), fill.search(node(source, "s6p0"))
    assert read is not None
    assert write is not None
    assert read[1] != write[1]


def test_edges_follow_control_flow_and_say_why() -> None:
    source = dot()
    assert ("start", "s0") in edges(source)
    assert "also when it fails" in edge(source, "s0", "s1")
    assert "on error" in edge(source, "s1", "s9")
    assert "dashed" in edge(source, "s1", "s9")
    assert "then" in edge(source, "s2", "s6fork")
    assert '$amount > 5 and $reply == \\"yes\\"' in edge(source, "s2", "s6fork")
    assert "otherwise" in edge(source, "s2", "s3")
    assert "one" in edge(source, "s3", "s4")
    assert "case 2" in edge(source, "s3", "s0")
    assert "also after a time-out" in edge(source, "s5", "s0")
    assert "after 2 visits" in [line for line in source.splitlines() if "s5 -> s9" in line][1]


def test_endings_are_drawn_and_so_is_what_is_not_covered_or_missing() -> None:
    source = dot()
    assert "failure" in node(source, "s7success")
    assert ("s7", "s7success") in edges(source)
    assert "uncovered" in node(source, "s3uncovered")
    assert "missing: nowhere" in node(source, "s6success")


def test_what_can_not_be_reached_is_drawn_pale() -> None:
    source = dot()
    assert "style=dashed" in node(source, "s7")
    assert "style=dashed" not in node(source, "s0")


def test_a_parallel_step_is_a_box_with_a_fork_and_a_join() -> None:
    source = dot()
    assert "subgraph cluster_s6" in source
    assert {("s6fork", "s6p0"), ("s6p0", "s6join"), ("s6fork", "s6p1"), ("s6p1", "s6join")} <= edges(source)
    assert ("s6join", "s6success") in edges(source)


def test_guardrails_are_listed_in_words_and_named_at_what_they_protect() -> None:
    source = " ".join(dot().replace('<br align="left"/>', " ").split())
    assert "looked-before-paying: tool `pay` only after (step `load` or branch `then` of step `big`)" in source
    assert "once: tool `pay` at most once" in source
    assert "noted: tool `pay` is followed by tool `note`" in source
    assert "small: never tool `pay` when $amount &gt; 9" in source
    assert "either: not both tool `pay` and step `done`" in source
    label = node(dot(), "s6p0").replace("<br/>", " ")
    assert "rules: looked-before-paying, once, noted, small, either" in label


def test_texts_of_the_user_can_not_break_the_drawing() -> None:
    assert "everything &lt;&amp;&gt; &quot;quoted&quot;" in dot()
    text = "name: p\nsteps:\n  - {id: 'a<b>&\\', type: set, set: {x: '\"<i>\\n\"'}}\n  - {id: 日本, type: end}\n"
    assert render(dot(text), "svg").count(b"</g>") > 4


def test_no_text_is_left_out_and_nodes_are_wide_enough_for_any_font() -> None:
    long = "a_very_long_name_of_a_tool_that_goes_on_and_on_" * 3
    text = f"name: p\ntools: {{{long}: {{effect: read}}}}\nsteps:\n  - {{id: {'x' * 150}, type: tool, tool: {long}}}\n"
    source = dot(text)
    words = node(source, "s0").replace("<br/>", "").replace("</b><b>", "")
    assert long in words
    assert "x" * 150 in words
    for line in source.splitlines():
        label, width = re.search(r"label=<(.*)>", line), re.search(r'width="?([\d.]+)', line)
        if label and width and "<b>" in label[1]:
            longest = max(len(re.sub(r"<[^>]*>|&\w+;", "", part)) for part in label[1].split("<br/>"))
            assert float(width[1]) >= longest * 0.6 * 11 / 72


def test_errors_that_all_lead_to_one_place_are_signs_beside_their_steps() -> None:
    steps = "".join(f"  - {{id: s{number}, type: llm, prompt: x, error_step: failed}}\n" for number in range(8))
    source = dot(f"name: p\nsteps:\n{steps}  - {{id: done, type: end}}\n  - {{id: failed, type: end}}\n")
    assert not [pair for pair in edges(source) if pair[1] == "s9"]
    assert "to <b>failed</b>" in node(source, "s0failed")


@pytest.mark.parametrize("name", ["password_reset", "loan_decision", "post_checkout"])
def test_good_programs_are_drawn_as_pictures(name: str) -> None:
    source = to_dot(Program.load(ROOT / f"specs/programs/good/{name}.yaml"))
    svg = render(source, "svg")
    program = Program.load(ROOT / f"specs/programs/good/{name}.yaml")
    for step in program.steps:
        assert f">{step.id}".encode() in svg
    assert render(source, "png").startswith(b"\x89PNG")
    assert render(source, "dot") == source.encode()


def test_a_large_program_is_drawn_in_time() -> None:
    steps = "".join(f"  - {{id: s{number}, type: llm, prompt: x}}\n" for number in range(150))
    assert b"s149" in render(dot(f"name: p\nsteps:\n{steps}"), "svg")


# -- drawing programs --------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(diagram, "TIME_LIMIT_SECONDS", 0.2)
    with pytest.raises(DiagramError, match="was not drawn within"):
        render("digraph {}", "svg")
