"""The answer to a model that wrote a program: short for any findings, each told once, with a fragment that is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import check
from findings import HOSTILE, finding, result
from layers import impatient
from paths import BAD
from sizes import size
from stepward.validator.findings import Edit, Evidence, Fix, Move, PolicyTag, Severity
from stepward.validator.report.model import MAX_CHARACTERS, example_of, render
from stepward.validator.report.text import safe
from stepward.validator.result import AdvisedError, undecided
from stepward.validator.rules.registry import RULES
from stepward.vm.reading.source import Span

SLIP = """\
name: slip
steps:
  - {id: ask, type: llm, prompt: "Bug or question?", next_step: sorrt}
  - {id: sort, type: llm, prompt: "Sort it."}
"""


def test_no_answer_about_a_bad_program_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    impatient(monkeypatch)
    for folder in sorted(path.name for path in BAD.iterdir() if path.is_dir())[:: size(8, 1)]:
        answer = check("--isolated", "--output-format=model", folder).stdout
        assert 0 < len(answer) <= MAX_CHARACTERS, folder
        assert answer.startswith(("refused: ", "accepted: ", "not checked")), folder


def test_the_longest_findings_leave_room_for_two_and_the_places_of_others() -> None:
    moves = tuple(Move(f"step-{number}" * 30, "takes otherwise") for number in range(30))
    worst = [
        finding(
            message=f"{number} {HOSTILE * 40}",
            help="h" * 5_000,
            step="s" * 300,
            policy=PolicyTag("p" * 400, "r"),
            evidence=Evidence("graph", moves),
            span=Span(number, 1, number, 2),
        )
        for number in range(1, 1_001)
    ]
    answer = render(result(*worst))
    assert len(answer) <= MAX_CHARACTERS
    assert "\n1. SW101" in answer
    assert "more: SW101 at " in answer
    assert all(safe(line) == line for line in answer.splitlines())


def test_one_finding_of_the_greatest_length_is_told() -> None:
    answer = render(result(finding(message="m" * 9_000, help="h" * 9_000, file="f" * 9_000, step="s" * 9_000)))
    assert "\n1. SW101" in answer
    assert len(answer) <= MAX_CHARACTERS


def test_the_same_finding_is_told_once_with_all_its_places() -> None:
    same = [finding(span=Span(line, 3, line, 9)) for line in range(1, 21)]
    answer = render(result(*same))
    assert answer.count("there is no step `gone`") == 1
    assert "p.yaml:1:3, p.yaml:2:3" in answer
    assert "14 other places" in answer


def test_the_example_of_a_code_is_shown_once() -> None:
    answer = render(result(finding(message="one"), finding(message="two")))
    assert answer.count("a corrected example") == 1


def test_what_fails_the_check_comes_first() -> None:
    warning = finding(severity=Severity.WARNING, message="a warning", span=Span(1, 1, 1, 2))
    error = finding(message="an error")
    answer = render(result(warning, error, failing=frozenset({error})))
    assert answer.index("an error") < answer.index("a warning")
    assert answer.startswith("refused: 1 error and 1 warning;")


def test_a_fix_is_shown_in_the_text_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slip.yaml").write_text(SLIP)
    answer = check("--isolated", "--output-format=model", "slip.yaml").stdout
    assert 'write:\n  - {id: ask, type: llm, prompt: "Bug or question?", next_step: sort}\n' in answer
    assert answer.count("next_step: sort}") == 1  # the lines that do not change are left out


def test_of_a_program_on_one_line_the_changed_part_is_shown() -> None:
    text = "x" * 5_000 + "sorrt" + "y" * 5_000
    fix = Fix("replace `sorrt` by `sort`", (Edit(Span(1, 5_001, 1, 5_006), "sort"),))
    answer = render(result(finding(fix=fix), sources={"p.yaml": text}))
    assert re.search(r"^…x+sorty+…$", answer, re.MULTILINE)
    assert len(answer) <= MAX_CHARACTERS


def test_an_answer_says_that_nothing_was_decided() -> None:
    answer = render(undecided(AdvisedError("the policy can't be read", "correct it")))
    assert answer == "not checked\nthe policy can't be read\nhelp: correct it\n"


def test_a_good_program_is_accepted() -> None:
    assert render(result()) == "accepted: no findings\n"


# Their two examples differ in a file beside them, or by a line that is gone.
WITHOUT_EXAMPLE = {"SW403", "SW701", "SW702", "SW703", "SW704"}


@pytest.mark.parametrize("code", [rule.code for rule in RULES if rule.code not in WITHOUT_EXAMPLE])
def test_the_page_of_every_rule_has_a_corrected_fragment(code: str) -> None:
    assert example_of(code)
