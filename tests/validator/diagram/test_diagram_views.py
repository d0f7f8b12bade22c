"""Fast: views of a diagram: collapsed, around a step, from left to right; what is hidden leaves its mark."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diagram_programs import large_program
from golden_diagrams import node
from paths import BAD, ROOT
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.cli import main
from stepward.validator.diagram.around import around
from stepward.validator.diagram.collapse import collapsed
from stepward.validator.diagram.drawing import draw
from stepward.validator.diagram.picture import Badge, Box, Node, Picture
from stepward.validator.diagram.ranks import ranks_of
from stepward.validator.diagram.stubs import with_stubs
from stepward.vm import Program

LOAN = ROOT / "specs/programs/good/loan_decision.yaml"
GOLD = BAD / "SW401/gold-bonus.yaml"


def whole(program: Path | str | dict) -> Picture:
    read = Program.from_dict(program) if isinstance(program, dict) else None
    read = read or (Program.load(program) if isinstance(program, Path) else Program.from_yaml(program))
    return draw(ProgramFacts(read))


def shown(picture: Picture) -> dict[str, str]:
    """Return the text of each node, by its name."""
    return {one.name: " ".join(line.text for line in one.lines) for one in picture.nodes}


def pairs(picture: Picture) -> set[tuple[str, str]]:
    return {(one.start, one.end) for one in picture.edges}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["graph", "--isolated", *map(str, arguments)], catch_exceptions=False)


# -- bodies ------------------------------------------------------------------------------------------------------------

IN_BODIES = """
name: bodies
language: 2
inputs: {amounts: {type: array, maxItems: 9, items: {type: number}}}
tools: {pay: {effect: write, idempotent: true, args: {amount: {type: number}}}, look: {effect: read}}
steps:
  - {id: before, type: tool, tool: pay, args: {amount: 1}}
  - id: each
    type: for_each
    items: $amounts
    as: amount
    guardrails: [{name: once, at_most_once: {tool: pay}}]
    steps: [{id: seen, type: tool, tool: look}, {id: paid, type: tool, tool: pay, args: {amount: $amount}}]
  - id: both
    type: parallel
    branches:
      left:
        guardrails: [{name: look-first, protects: {tool: pay}, requires: {tool: look}}]
        steps: [{id: looked, type: tool, tool: look}, {id: sent, type: tool, tool: pay, args: {amount: 2}}]
      right: {steps: [{id: other, type: tool, tool: look}]}
  - {id: done, type: end}
"""


def test_the_rules_of_bodies_are_drawn_where_they_count() -> None:
    found = whole(IN_BODIES)
    told = "\n".join(line for note in found.notes for line in note.lines)
    assert "once (each item of each): tool `pay` at most once" in told
    assert "look-first (branch left): tool `pay` only after tool `look`" in told
    texts = shown(found)
    steps = {node.step: texts[node.name] for node in found.nodes}
    assert [step for step, text in steps.items() if "rules: once" in text] == ["paid"]
    assert [step for step, text in steps.items() if "rules: look-first" in text] == ["sent"]
    assert [step for step, text in steps.items() if "required by: look-first" in text] == ["looked"]


# -- collapsed ---------------------------------------------------------------------------------------------------------

CHAIN = """\
name: chain
inputs: {amount: {type: number}}
tools: {look: {effect: read}, pay: {effect: write, idempotent: true}}
guardrails: [{name: once, at_most_once: {tool: pay}}, {name: seen, protects: {step: second}, requires: {step: first}}]
steps:
  - {id: first, type: tool, tool: look, error_step: failed}
  - {id: second, type: tool, tool: pay}
  - {id: both, type: parallel, parallel_steps: [{id: left, type: tool, tool: look}, {id: right, type: tool, tool: pay}]}
  - {id: big, type: condition, condition: $amount > 5, then: tell, otherwise: small}
  - {id: tell, type: tool, tool: look, next_step: done}
  - {id: done, type: end}
  - {id: small, type: end, outcome: failure}
  - {id: failed, type: tool, tool: look, is_terminal: true, outcome: failure}
"""


def test_a_chain_is_a_node_that_names_its_first_its_last_and_their_number() -> None:
    found = collapsed(whole(CHAIN))
    texts = shown(found)
    assert texts["s0"] == "first … big, 4 steps WRITES ×2 2 guardrails"
    assert texts["s4"] == "tell … done, 2 steps end: success"
    assert texts["s7"] == "failed look end: failure"
    assert set(texts) == {"start", "s0", "s4", "s6", "s7"}
    assert pairs(found) == {("start", "s0"), ("s0", "s4"), ("s0", "s6"), ("s0", "s7")}


def test_a_parallel_step_is_a_node_that_says_how_many_calls_it_makes() -> None:
    found = collapsed(around(whole(CHAIN), "left", 1))
    assert not [one for one in found.nodes if isinstance(one, Box)]
    assert shown(found)["s2"] == "both 2 in parallel WRITES 1 guardrail"


def test_a_chain_ends_where_another_way_comes_in_or_a_condition_asks() -> None:
    loop = CHAIN.replace("next_step: done", "next_step: second, max_visits: 3")
    texts = shown(collapsed(whole(loop)))
    assert texts["s0"].startswith("first look")
    assert texts["s1"].startswith("second … big, 3 steps")


def test_every_step_is_in_one_node_of_a_collapsed_picture() -> None:
    for file in (LOAN, GOLD, ROOT / "specs/programs/good/post_checkout.yaml"):
        picture = whole(file)
        nodes = [shown_of(one) for one in collapsed(picture).nodes if isinstance(one, Node) and one.step]
        sizes = [re.search(r", (\d+) steps", text) for text in nodes]
        assert sum(int(found[1]) if found else 1 for found in sizes) == len([one for one in picture.nodes if one.step])


def shown_of(one: Node) -> str:
    return " ".join(line.text for line in one.lines)


def test_a_group_has_the_marks_of_all_that_it_hides() -> None:
    def part(name: str, number: str, *codes: str) -> Node:
        marks = (Badge(number, "path"), *(Badge(code, "warning" if "5" in code else "error") for code in codes))
        return Node(name, "llm", badges=marks, step=name, rules=(f"rule-of-{name}",), is_walked=True)

    picture = whole(CHAIN)
    parts = [part("a", "2", "SW201"), part("b", "3, 5", "SW201 ×2", "SW503"), part("c", "4")]
    edges = tuple(picture.edges[0]._replace(start=start, end=end) for start, end in ("ab", "bc"))
    (group,) = collapsed(picture._replace(nodes=tuple(parts), edges=edges)).nodes
    assert [badge.text for badge in group.badges] == ["2–5", "SW201 ×3", "SW503"]
    assert [badge.kind for badge in group.badges] == ["path", "error", "warning"]
    assert isinstance(group, Node)
    assert group.rules == ("rule-of-a", "rule-of-b", "rule-of-c")
    assert group.is_walked
    assert shown_of(group) == "a … c, 3 steps 3 guardrails"


def test_of_more_codes_than_there_is_room_for_the_last_says_so() -> None:
    badges = tuple(Badge(f"SW{number}", "error") for number in range(201, 207))
    one, other = (Node(name, "llm", badges=badges[at : at + 3], step=name) for name, at in (("a", 0), ("b", 3)))
    picture = whole(CHAIN)
    (group,) = collapsed(
        picture._replace(nodes=(one, other), edges=(picture.edges[0]._replace(start="a", end="b"),))
    ).nodes
    assert [badge.text for badge in group.badges] == ["SW201", "SW202", "SW203", "SW204 …"]


def test_findings_of_bad_programs_keep_their_badges_in_a_collapsed_diagram() -> None:
    for file in (GOLD, BAD / "SW406/siblings.yaml", BAD / "SW503/obvious.yaml"):
        code = file.parent.name
        source = run(file, "--collapse").stdout
        assert re.search(rf"<b>{code}( ×\d+)?</b>", source), code
        assert "guardrail" in source or code == "SW503"


def test_a_branch_says_how_many_guardrails_ask_for_it() -> None:
    lines = [line.text for one in collapsed(whole(LOAN)).edges for line in one.lines]
    assert Counter(lines)["1 guardrail"] == 6
    assert not [line for line in lines if "$" in line]


# -- columns -----------------------------------------------------------------------------------------------------------


def test_a_long_collapsed_program_stands_in_columns_that_are_joined_by_stubs_alone() -> None:
    found = with_stubs(collapsed(whole(LOAN)))
    assert len(found.heads) == 3
    names = {one.name for one in found.nodes}
    reached: dict[str, set[str]] = {}
    for head in found.heads:
        reached[head], rest = {head}, [head]
        while rest:
            at = rest.pop()
            near = {end for start, end in pairs(found) if start == at} | {
                start for start, end in pairs(found) if end == at
            }
            rest += near - reached[head]
            reached[head] |= near
    first, second, third = reached.values()
    assert not first & second
    assert not second & third
    assert {"start", "s0"} <= first
    aside = {one.name for one in found.nodes if one.step == "refer"}
    assert found.aside == tuple(aside)
    assert aside <= names - first - second - third
    assert with_stubs(collapsed(whole(CHAIN))).heads == ()


@pytest.mark.parametrize("is_sideways", [False, True])
def test_a_program_of_over_30_steps_is_folded_even_if_it_is_not_collapsed(is_sideways: bool) -> None:
    for steps in (30, 31, 150):
        found = with_stubs(whole(large_program(steps))._replace(is_sideways=is_sideways))
        assert (len(found.heads) > 2) == (steps > 30), steps
    in_one_piece = with_stubs(collapsed(around(whole(LOAN), "offer", 30)))
    assert in_one_piece.heads == ()


def test_the_command_says_that_a_diagram_has_several_parts() -> None:
    said = run(LOAN, "--no-findings")
    assert "note: the program is large, so its diagram has 3 parts side by side" in said.stderr
    assert "`--collapse` draws the first level" in said.stderr
    assert not run(LOAN, "--no-findings", "--collapse").stderr
    assert not run(LOAN, "--no-findings", "--around", "offer").stderr
    assert not run(GOLD, "--no-findings").stderr


def test_the_first_level_of_the_loan_decision_fits_a_screen() -> None:
    """Pixels depend on the program that draws; this is what they come from: the longest column, and what is in it."""
    found = with_stubs(collapsed(whole(LOAN)))
    ranks = ranks_of(found.nodes, found.edges)
    assert max(ranks.values()) <= 18
    assert max(len(one.lines) for one in found.nodes) <= 4
    assert len([one for one in found.nodes if one.step]) <= 38


# -- around ------------------------------------------------------------------------------------------------------------


def test_around_a_step_is_what_leads_there_and_where_it_leads() -> None:
    found = around(whole(LOAN), "offer", 1)
    assert {one.step for one in found.nodes if one.step} == {
        "four_eyes_gate", "small_ok", "one_gate", "offer", "send_offer", "refer",
    }  # fmt: skip
    assert [one.step for one in found.nodes if one.is_focus] == ["offer"]
    words = " ".join(line for note in found.notes for line in note.lines)
    assert "6 of 52 steps: those up to 1 step before or after `offer`" in words
    further = {one.step for one in around(whole(LOAN), "offer", 2).nodes if one.step}
    assert further >= {"big", "one_officer", "offered", "four_eyes"}
    assert "subprime_limit" not in further, "a step that shares an ending with another is not near it"


def test_what_is_cut_off_is_counted_by_stubs() -> None:
    found = around(whole(LOAN), "offer", 1)
    texts = shown(found)
    number = next(one.name for one in found.nodes if one.step == "refer")
    assert texts[f"{number}before"].startswith("from 9 more steps: ")
    gate = next(one.name for one in found.nodes if one.step == "one_gate")
    assert texts[f"{gate}before"] == "from 1 more step: one_officer"
    assert texts[f"{gate}after"] == "to 1 more step: decline_officer"
    assert (f"{gate}before", gate) in pairs(found)
    assert (gate, f"{gate}after") in pairs(found)
    thinned = with_stubs(found)
    assert "start" not in {one.name for one in thinned.nodes}


def test_a_sub_step_stands_for_its_parallel_step_and_the_start_for_no_step() -> None:
    found = around(whole(CHAIN), "left", 1)
    assert [one.step for one in found.nodes if one.is_focus] == ["both"]
    near = around(whole(CHAIN), "first", 1)
    assert ("start", "s0") in pairs(near)
    words = " ".join(line for note in near.notes for line in note.lines)
    assert "3 of 8 steps" in words


def test_edges_of_the_step_itself_are_drawn_whole_however_many_they_are() -> None:
    found = with_stubs(around(whole(LOAN), "refer", 1))
    number = next(one.name for one in found.nodes if one.step == "refer")
    assert len([pair for pair in pairs(found) if pair[1] == number]) == 11
    assert not [one for one in found.nodes if one.name.endswith("errors")]


def test_the_step_around_which_is_drawn_is_in_no_group() -> None:
    found = {one.step: one for one in collapsed(around(whole(CHAIN), "second", 2)).nodes}
    assert found["second"].is_focus
    assert "…" not in " ".join(line.text for line in found["second"].lines)


# -- the command -------------------------------------------------------------------------------------------------------


def test_an_unknown_step_is_refused_with_a_similar_one() -> None:
    result = run(LOAN, "--around", "offr")
    assert result.exit_code == 2
    assert "program `loan_decision` has no step `offr`" in result.stderr
    assert "did you mean `offer`?" in result.stderr
    other = run(LOAN, "--around", "zzz")
    assert other.exit_code == 2
    assert "leave `--around` out" in other.stderr


def test_a_distance_needs_a_step_and_is_at_least_one() -> None:
    assert "--distance is for --around" in run(LOAN, "--distance", "3").stderr
    assert run(LOAN, "--around", "offer", "--distance", "0").exit_code == 2


def test_a_marked_step_has_a_heavy_border_in_every_format() -> None:
    source = run(LOAN, "--no-findings", "--around", "offer").stdout
    (line,) = [line for line in source.splitlines() if "<b>offer</b>" in line]
    assert 'color="#000000"' in line
    assert "penwidth=3" in line
    box = run(LOAN, "--no-findings", "--around", "credit_seat").stdout.split("subgraph cluster_")[1]
    assert 'color="#000000"' in box.split("fork")[0]
    mermaid = run(LOAN, "--no-findings", "--around", "offer", "--format", "mermaid").stdout
    assert re.search(r"class s\d+ focus", mermaid)


def test_left_to_right_turns_ranks_and_bars() -> None:
    source = run(LOAN, "--no-findings", "--left-to-right").stdout
    assert "rankdir=LR" in source
    assert "height=1.0" in node(source, "s2fork")
    assert "rankdir" not in run(LOAN, "--no-findings").stdout
    mermaid = run(LOAN, "--no-findings", "--left-to-right", "--format", "mermaid").stdout
    assert mermaid.splitlines()[1] == "flowchart LR"


def test_the_views_go_together_and_mermaid_shows_the_same_nodes() -> None:
    options = ["--no-findings", "--around", "history", "--distance", "3", "--collapse", "--left-to-right"]
    source = run(LOAN, *options).stdout
    mermaid = run(LOAN, *options, "--format", "mermaid").stdout
    names = set(re.findall(r"^\s*(s\w+) \[", source, re.MULTILINE))
    assert names == set(re.findall(r'^\s*(s\w+)[\[({>]+"', mermaid, re.MULTILINE))
    assert "flowchart LR" in mermaid


def test_a_collapsed_program_of_150_steps_has_far_fewer_nodes() -> None:
    found = with_stubs(collapsed(whole(large_program(150))))
    assert len([one for one in found.nodes if one.step]) < 90
    assert len(found.heads) > 3
