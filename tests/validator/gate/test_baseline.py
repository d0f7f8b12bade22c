"""Fast: baselines: what they hold, what they hide, what of them is stale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepward.validator.findings import Finding
from stepward.validator.gate.baseline import Baseline, write_baseline
from stepward.validator.gate.settings import ConfigurationError
from stepward.validator.rules.registry import RULE_BY_CODE
from stepward.vm.reading.source import Place, Span

pytestmark = pytest.mark.usefixtures("in_own_folder")


def finding(message: str, line: int = 1, file: str = "flows/a.yaml", code: str = "SW102") -> Finding:
    made = RULE_BY_CODE[code]().finding(message, "h", Place(), step="s")
    return replace(made, file=file, span=Span(line, 1, line, 2))


def test_the_file_is_sorted_counted_and_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    path = tmp_path / "gate/known.json"
    write_baseline(path, [finding("z"), finding("a", 3), finding("z", 9)])
    assert json.loads(path.read_text()) == {
        "version": 1,
        "findings": [
            {"file": "../flows/a.yaml", "code": "SW102", "step": "s", "message": "a", "count": 1},
            {"file": "../flows/a.yaml", "code": "SW102", "step": "s", "message": "z", "count": 2},
        ],
    }
    first = path.read_text()
    write_baseline(path, [finding("z"), finding("z"), finding("a")])
    assert path.read_text() == first


def test_a_finding_is_known_on_any_line_and_as_often_as_it_was(tmp_path: Path) -> None:
    write_baseline(tmp_path / "b.json", [finding("a"), finding("a")])
    baseline = Baseline.load(tmp_path / "b.json")
    assert [baseline.hides(finding("a", line)) for line in (5, 6, 7)] == [True, True, False]


@pytest.mark.parametrize(
    "other",
    [finding("b"), finding("a", file="flows/b.yaml"), finding("a", code="SW101"), replace(finding("a"), step="t")],
)
def test_another_message_file_code_or_step_is_another_finding(tmp_path: Path, other: Finding) -> None:
    write_baseline(tmp_path / "b.json", [finding("a")])
    assert not Baseline.load(tmp_path / "b.json").hides(other)


def test_what_is_left_is_stale_where_all_findings_are_known(tmp_path: Path) -> None:
    write_baseline(tmp_path / "b.json", [finding("a"), finding("a"), finding("b", file="flows/b.yaml")])
    baseline = Baseline.load(tmp_path / "b.json")
    assert baseline.hides(finding("a"))
    assert baseline.stale(lambda path: path.name == "a.yaml") == [
        {"file": "flows/a.yaml", "code": "SW102", "step": "s", "message": "a", "count": 1}
    ]
    assert baseline.stale(lambda path: False) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a baseline"),
        ("[]", "is not a baseline"),
        ("{}", "is not a baseline"),
        ('{"version": 2, "findings": []}', "has the version `2`"),
        ('{"version": 1, "findings": [3]}', "is not a baseline"),
        ('{"version": 1, "findings": [{"file": "a", "code": "b", "step": "", "message": "m"}]}', "is not a baseline"),
        ('{"version": 1, "findings": [{"file": 1, "code": "b", "step": "", "message": "m", "count": 1}]}', "is not a"),
        (
            '{"version": 1, "findings": [{"file": "a", "code": "b", "step": "", "message": "m", "count": 0}]}',
            "is not a",
        ),
        ("\xff", "is not a baseline"),
    ],
)
def test_what_is_no_baseline_is_refused_clearly(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=says) as caught:
        Baseline.load(path)
    assert "--write-baseline" in caught.value.help


def test_a_baseline_that_is_not_there_or_can_not_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read: no such file"):
        Baseline.load(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="can't be written: no such file"):
        write_baseline(tmp_path / "none/b.json", [])
