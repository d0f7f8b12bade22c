"""Fast: what a check adds to a diagram: findings, paths, what no run reaches; and the options of `stepward graph`."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from golden_diagrams import edge, edge_lines, node
from paths import BAD
from stepward.validator.cli import main

GOLD = BAD / "SW401/gold-bonus.yaml"
PATH_COLOR, GREY = "#c4007a", "#999999"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["graph", "--isolated", *map(str, arguments)], catch_exceptions=False)


def drawn(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def text(source: str) -> str:
    return " ".join(re.sub(r"<br[^>]*>", " ", source).split())


# -- findings ----------------------------------------------------------------------------------------------------------


def test_findings_are_badges_on_their_steps_and_listed() -> None:
    source = drawn(GOLD)
    assert "SW401" in node(source, "s8")
    assert source.count("SW401") == 4, "on the step, as its hint, in the list, over the path"
    assert "<b>1 finding</b>" in source
    assert "error SW401 at large: `large` can start without branch `then` of step `agreed`" in text(source)


def test_a_sub_step_and_a_parallel_step_carry_their_own_findings(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("""\
name: p
inputs: {}
tools: {pay: {effect: write, idempotent: false}}
steps:
  - id: both
    type: parallel
    parallel_steps: [{id: left, type: tool, tool: pay, on_error: retry}, {id: right, type: tool, tool: pay}]
""")
    source = drawn(file)
    assert "SW503" in node(source, "s0p0")
    assert "SW503" not in node(source, "s0p1")
    assert "SW406" in drawn(BAD / "SW406/siblings.yaml").split("cluster_s0")[1].split("s0fork")[0]


def test_findings_of_one_code_are_counted_and_more_than_four_codes_cut(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    args = ", ".join(f"a{number}: $missing_{number}" for number in range(3))
    file.write_text(f"""\
name: p
inputs: {{}}
tools: {{pay: {{effect: write, idempotent: false, args: {{b: {{type: string}}}}}}}}
steps: [{{id: go, type: tool, tool: pay, args: {{{args}}}}}]
""")
    source = drawn(file)
    assert "SW201 ×3" in node(source, "s0")
    assert "SW207 ×4" in node(source, "s0")


def test_what_is_suppressed_is_not_drawn(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    program = "name: p\ninputs: {}\nsteps:\n  - {id: a, type: set, set: {x: $nothing}}\n"
    file.write_text(program)
    assert "SW201" in drawn(file)
    file.write_text(program.replace("$nothing}}", "$nothing}} # stepward: ignore[SW201] a trial"))
    assert "SW201" not in drawn(file)


def test_a_policy_is_held_and_its_rules_are_drawn(tmp_path: Path) -> None:
    policy = BAD / "SW403/read-only.policy.yaml"
    source = drawn(BAD / "SW403/read-only.yaml", "--policy", policy)
    assert "SW403" in source
    assert "(policy " in source
    assert "SW403" not in drawn(BAD / "SW403/read-only.yaml")


def test_without_findings_nothing_is_checked_and_nothing_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.validator.validator.ProgramValidator.validate", lambda _: pytest.fail("it checks"))
    source = drawn(GOLD, "--no-findings")
    assert "SW401" not in source
    assert PATH_COLOR not in source
    assert "manager-above-500" in source


# -- paths -------------------------------------------------------------------------------------------------------------

WALKED = {"s0": "1", "s3": "2", "s4": "3", "s5": "4", "s7": "5", "s8": "6"}


def test_the_path_of_a_witness_is_numbered_as_the_check_prints_it() -> None:
    source = drawn(GOLD)
    for name, number in WALKED.items():
        assert f"<b>{number}</b>" in node(source, name)
        assert PATH_COLOR in node(source, name)
    assert PATH_COLOR not in node(source, "s1")
    walk = ["start", *WALKED]
    for start, end in pairwise(walk):
        assert PATH_COLOR in edge(source, start, end)
    walked = re.findall(rf'^\s*(\w+) -> (\w+) .*color="{PATH_COLOR}" penwidth=2.5', source, re.MULTILINE)
    steps = [pair for pair in walked if not pair[0].startswith("e")]
    assert len(steps) == len(WALKED), "no edge beside the path"
    assert "SW401 at large, with amount = 476, customer = &quot;gold&quot;" in text(source)


def test_a_path_that_comes_back_has_all_its_numbers_and_shows_how_the_run_ends() -> None:
    source = drawn(BAD / "SW405/visits-used-up.yaml")
    assert "2, 4, 6, 8, 10 …" in node(source, "s1")
    (end,) = [line for line in source.splitlines() if "the run stalls" in line]
    assert PATH_COLOR in edge(source, "s1", end.split()[0])


def test_a_witness_file_draws_its_own_path(tmp_path: Path) -> None:
    file = BAD / "SW401/small-amounts.yaml"
    check = CliRunner().invoke(main, ["check", "--isolated", str(file), "--witnesses", str(tmp_path)])
    assert check.exit_code == 1
    found = sorted(tmp_path.glob("*.json"))
    assert found, "the check writes witnesses"
    for witness in found:
        for more in ([], ["--no-findings"]):
            source = drawn(file, "--witness", witness, *more)
            claim = json.loads(witness.read_text())["shows"]
            assert f"{claim['code']} at {claim['step']}: " in text(source)
            assert PATH_COLOR in source


@pytest.mark.parametrize(
    ("content", "says"),
    [("{}", "is no witness"), (None, "can't be read"), ("other", "is a witness of another program, `gold_refund`")],
)
def test_a_witness_that_does_not_fit_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    witness = tmp_path / "w.json"
    if content == "other":
        CliRunner().invoke(main, ["check", "--isolated", str(GOLD), "--witnesses", str(tmp_path / "found")])
        (witness,) = (tmp_path / "found").glob("*.json")
    elif content is not None:
        witness.write_text(content)
    result = run(BAD / "SW401/obvious.yaml", "--witness", witness)
    assert result.exit_code == 2
    assert says in result.stderr


# -- what no run reaches -----------------------------------------------------------------------------------------------


def test_one_visit_is_one(tmp_path: Path) -> None:
    program = tmp_path / "once.yaml"
    steps = [
        "{id: a, type: llm, prompt: x, max_visits: 1, error_step: b, next_step: a}",
        "{id: b, type: end, outcome: failure}",
    ]
    program.write_text("name: once\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
    source = drawn(program, "--no-findings")
    assert "at most 1 visit<" in source
    assert "after 1 visit " in source


def test_steps_and_branches_that_are_proved_infeasible_are_grey() -> None:
    source = drawn(BAD / "SW103/subtle.yaml")
    (dead,) = [line for line in source.splitlines() if "<b>board_review</b>" in line]
    name = dead.split()[0]
    assert "no run gets here" in dead
    assert GREY in dead
    starts = {start for start in re.findall(r"^\s*(s\d+) -> ", source, re.MULTILINE) if start != name}
    into = [line for start in starts for line in edge_lines(source, start, name)]
    assert into
    assert all(GREY in line and "never taken" in line for line in into)
    assert GREY not in drawn(BAD / "SW103/subtle.yaml", "--no-findings")


@pytest.mark.parametrize(
    ("condition", "dead"),
    [("$n >= 0", "otherwise"), ("$n < 0", "then"), ("1 == 1", "otherwise"), ("$n > 5", None)],
)
def test_the_branch_that_a_constant_condition_never_takes_is_grey(
    tmp_path: Path, condition: str, dead: str | None
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"""\
name: p
inputs: {{n: {{type: integer, minimum: 0}}, m: {{type: integer}}}}
steps:
  - {{id: a, type: condition, condition: {condition}, then: b, otherwise: c}}
  - {{id: b, type: end}}
  - {{id: c, type: end}}
""")
    source = drawn(file)
    grey = {branch for branch, end in (("then", "s1"), ("otherwise", "s2")) if GREY in edge(source, "s0", end)}
    assert grey == ({dead} if dead else set())


def test_a_shadowed_case_is_grey_and_a_gap_that_is_proved_away_is_not_drawn(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("""\
name: p
inputs: {n: {type: integer, minimum: 0}}
steps:
  - {id: a, type: condition, cases: [{when: $n > 5, then: b}, {when: $n > 7, then: c}, {when: $n <= 5, then: c}]}
  - {id: b, type: end}
  - {id: c, type: end}
""")
    source = drawn(file)
    first, second = edge_lines(source, "s0", "s2")
    assert GREY in first
    assert GREY not in second
    assert "no branch" not in source
    assert "no branch" in drawn(file, "--no-findings")


def test_what_is_ill_formed_is_drawn_all_the_same() -> None:
    for name in ("SW101/obvious.yaml", "SW106/obvious.yaml", "SW301/obvious.yaml", "SW203/obvious.yaml"):
        source = drawn(BAD / name)
        assert name[:5] in source


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--no-findings", "--policy=x.yaml"], "give one of the two"),
        (["--config=x.toml"], "give one of the two"),
        (["--policy=missing.yaml"], "can't be read"),
    ],
)
def test_options_that_contradict_or_do_not_exist_are_told(arguments: list[str], says: str) -> None:
    result = run(GOLD, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_policy_that_is_none_is_told(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: p\nguard_rails: []\n")
    result = run(GOLD, "--policy", policy)
    assert result.exit_code == 2
    assert "guard_rails" in result.stderr


def test_mermaid_is_written_by_suffix_and_by_format(tmp_path: Path) -> None:
    for name in ("p.mmd", "p.mermaid"):
        assert run(GOLD, "-o", tmp_path / name).exit_code == 0
        assert (tmp_path / name).read_text() == drawn(GOLD, "--format=mermaid")
    assert "flowchart TD\n" in (tmp_path / "p.mmd").read_text()
