"""Programs in the style of llm-nano-vm 0.8, in our own words: they parse, and each help corrects its finding.

The programs of that project itself were tried the same way and are not committed. `legacy_rewrites.py` applies what a
help says; a help that it can't apply is one that a reader has to puzzle out, so a new wording belongs into its table.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from doing import DOING
from legacy_rewrites import rewrites, settle
from paths import DATA
from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding
from stepward.vm import Program
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.parser import parse

LEGACY = DATA / "legacy"

ABOUT = {
    "arms_in_a_row.yaml": {"SW106"},
    "bare_words.yaml": {"SW301"},
    "constant_gate.yaml": {"SW301", "SW303"},
    "contains_turned.yaml": {"SW203"},
    "copied_condition.yaml": {"SW301"},
    "endless.yaml": {"SW104", "SW105"},
    "fallback_unsaid.yaml": {"SW002"},
    "leftovers.yaml": {"SW002", "SW005", "SW101", "SW102"},
    "no_otherwise.yaml": {"SW302"},
    "number_or_text.yaml": {"SW203", "SW204"},
    "parts_of_a_parallel_step.yaml": {"SW201"},
    "plain_pipeline.json": set(),
    "polling.yaml": {"SW105", "SW213"},
    "quoted_reference.yaml": {"SW204"},
    "retried_tools.yaml": {"SW213"},
    "serialised.json": {"SW210"},
    "skipped_reply.yaml": {"SW202"},
    "text_straight_to_tools.json": {"SW210", "SW213"},
}
"""What each program is there for: findings that it must have, whatever others come beside them."""

Data = dict[str, Any]


def read(name: str) -> Data:
    text = (LEGACY / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def findings(data: Data) -> tuple[Finding, ...]:
    return ProgramValidator(Program.from_dict(data)).validate().findings


def is_still_there(finding: Finding, data: Data) -> bool:
    return any(
        (other.code, other.message, other.place) == (finding.code, finding.message, finding.place)
        for other in findings(data)
    )


def test_every_program_says_what_it_is_about() -> None:
    assert set(ABOUT) == {path.name for path in LEGACY.iterdir() if path.suffix in (".yaml", ".json")}


@pytest.mark.parametrize("name", ABOUT)
def test_a_legacy_program_parses_and_the_unsafe_gets_a_finding(name: str) -> None:
    program = Program.load(LEGACY / name)
    assert program == Program.from_dict(read(name))
    assert ABOUT[name] <= {finding.code for finding in findings(read(name))}


@pytest.mark.parametrize("name", ABOUT)
def test_each_rewrite_of_a_help_removes_its_finding(name: str) -> None:
    data = read(name)
    for finding in findings(data):
        for rewritten in rewrites(data, finding, DOING):
            assert not is_still_there(finding, rewritten), f"{finding.code} {finding.message} | {finding.help}"


@pytest.mark.parametrize("name", ABOUT)
def test_doing_what_the_helps_say_one_after_the_other_ends_without_a_finding(name: str) -> None:
    data = read(name)
    for rewritten in settle(data, findings, DOING):
        data = rewritten
    assert not findings(data)


@pytest.mark.parametrize(("reply", "expected"), [("yes", True), ("yes, gladly", True), ("no", False)])
def test_the_condition_that_everybody_copies_gets_a_rewrite_that_works(reply: str, expected: bool) -> None:
    data = read("copied_condition.yaml")
    (finding,) = (finding for finding in findings(data) if finding.code in ("SW301", "SW204"))
    (rewritten,) = rewrites(data, finding)
    condition = rewritten["steps"][1]["condition"]
    assert evaluate(parse(condition), lambda names: {("decision",): reply}[names]) is expected
