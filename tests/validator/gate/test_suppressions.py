"""Fast: ignore comments: which texts are some, which findings they silence, and what is said of idle ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepward.validator.findings import Finding, PolicyTag
from stepward.validator.gate.suppressions import Silenced, read_comments, silence
from stepward.validator.rules.registry import RULE_BY_CODE
from stepward.vm.reading.document import Format
from stepward.vm.reading.source import Place, Span


def finding(code: str, line: int, policy: str | None = None) -> Finding:
    made = RULE_BY_CODE[code]().finding("m", "h", Place(), policy=policy)
    return replace(made, span=Span(line, 1, line, 2))


def silenced(text: str, *findings: Finding, format: Format = "yaml") -> Silenced:
    comments = read_comments(text, format)
    return silence(findings, comments, "f.yaml", lambda finding: finding.policy is not None)


def targets(text: str, format: Format = "yaml") -> list[tuple[int, list[str], str]]:
    return [
        (comment.target, [code for code, _ in comment.codes], comment.reason) for comment in read_comments(text, format)
    ]


# -- which texts are comments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1  # stepward: ignore[SW401] why not", [(1, ["SW401"], "why not")]),
        ("a: 1  #stepward:ignore[SW401,SW402]: why", [(1, ["SW401", "SW402"], "why")]),
        ("a: 1  # stepward: ignore [ SW401 , SW402 ] -- why", [(1, ["SW401", "SW402"], "why")]),
        ("a: 1  # stepward: ignore[SW401]", [(1, ["SW401"], "")]),
        ("a: 1  # stepward: ignore", [(1, [], "")]),
        ("a: 1  # stepward: ignored by nobody", []),
        ("a: 1  # see stepward: ignore[SW401]", []),
        ("a: '# stepward: ignore[SW401] x'", []),
        ('a: "x\n  # stepward: ignore[SW401] x\n  y"', []),
        ("a: |\n  # stepward: ignore[SW401] x\n  y\n", []),
        ("a: >-\n\n  text\n  # stepward: ignore[SW401] x\nb: 1", []),
        ("a: |  # stepward: ignore[SW401] x\n  y\n", [(1, ["SW401"], "x")]),
        ("a: |\n  y\n# stepward: ignore[SW401] x\nb: 1", [(4, ["SW401"], "x")]),
        ("a: b#stepward: ignore[SW401] x", []),
        ("a: {b: 1,  # stepward: ignore[SW401] x\n  c: 2}", [(1, ["SW401"], "x")]),
        ("a: 1\n# stepward: ignore[SW401] at the end", [(3, ["SW401"], "at the end")]),
        ("# stepward: ignore[SW401] x\n# more\n# stepward: ignore[SW402] y\nb: 1",
         [(4, ["SW401"], "x"), (4, ["SW402"], "y")]),
        ("# stepward: ignore[SW401] x\n\nb: 1", [(2, ["SW401"], "x")]),
        ("größe: 日本  # stepward: ignore[SW401] ünï", [(1, ["SW401"], "ünï")]),
        ("a: 1\r\n# stepward: ignore[SW401] x\r\nb: 1\r\n", [(3, ["SW401"], "x")]),
        ("a: 1  # stepward: ignore[SW401] x\nb: [", [(1, ["SW401"], "x")]),
    ],
)  # fmt: skip
def test_comments_of_yaml(text: str, expected: list[tuple[int, list[str], str]]) -> None:
    assert targets(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1  # stepward: ignore[SW401] why", [(1, ["SW401"], "why")]),
        ("a = '# stepward: ignore[SW401] why'", []),
        ("a = '''\n# stepward: ignore[SW401] why\n'''", []),
        ("a = [\n    # stepward: ignore[SW401] why\n    1,\n]", [(3, ["SW401"], "why")]),
        ("日本 = 'é'  # stepward: ignore[SW401] why", [(1, ["SW401"], "why")]),
        ("a = 1  # stepward: ignore[SW401] why\n'''", [(1, ["SW401"], "why")]),
    ],
)
def test_comments_of_python(text: str, expected: list[tuple[int, list[str], str]]) -> None:
    assert targets(text, "python") == expected


def test_json_has_no_comments() -> None:
    assert targets('{"a": "# stepward: ignore[SW401] x"}', "json") == []


# -- what they silence -------------------------------------------------------------------------------------------------


def test_a_comment_silences_its_code_on_its_line_and_nothing_else() -> None:
    here, other, below = finding("SW108", 1), finding("SW102", 1), finding("SW108", 2)
    result = silenced("a: 1  # stepward: ignore[SW108] why\nb: 1", here, other, below)
    assert result.remaining == [other, below]
    assert result.complaints == []


def test_a_comment_alone_silences_on_the_line_below_and_not_on_its_own() -> None:
    result = silenced("# stepward: ignore[SW108] why\n# and more\nb: 1", finding("SW108", 3))
    assert (result.remaining, result.complaints) == ([], [])


def test_one_comment_may_silence_several_findings_of_several_codes() -> None:
    findings = [finding("SW108", 1), finding("SW108", 1), finding("SW102", 1)]
    result = silenced("a: 1  # stepward: ignore[SW108, SW102] why", *findings)
    assert (result.remaining, result.complaints) == ([], [])


@pytest.mark.parametrize(
    ("comment", "says", "offers", "column"),
    [
        ("# stepward: ignore[SW102] why", "`SW102` suppresses nothing", "remove it", 26),
        ("# stepward: ignore[SW108]", "without a reason suppresses nothing", "reason", 7),
        ("# stepward: ignore[SW108] --", "without a reason suppresses nothing", "reason", 7),
        ("# stepward: ignore why", "names no code", "ignore[CODE]", 7),
        ("# stepward: ignore[] why", "names no code", "ignore[CODE]", 7),
        ("# stepward: ignore[SW1O8] why", "`SW1O8` is not a code", "did you mean `SW108`?", 26),
        ("# stepward: ignore[same-branches] why", "`same-branches` is not a code", "did you mean `SW108`?", 26),
        ("# stepward: ignore[SW701] why", "`SW701` can't be silenced by a comment", "--ignore SW701", 26),
    ],
)
def test_what_silences_nothing_is_a_finding_on_the_comment(comment: str, says: str, offers: str, column: int) -> None:
    kept = finding("SW108", 1)
    result = silenced(f"a: 1  {comment}", kept)
    (complaint,) = result.complaints
    assert result.remaining == [kept]
    assert (complaint.code, complaint.file) == ("SW701", "f.yaml")
    assert says in complaint.message
    assert offers in complaint.help
    assert complaint.span is not None
    assert complaint.span.column == column


def test_of_two_codes_only_the_idle_one_is_reported() -> None:
    result = silenced("a: 1  # stepward: ignore[SW108, SW102] why", finding("SW108", 1))
    assert [complaint.message for complaint in result.complaints] == [
        "the ignore comment for `SW102` suppresses nothing"
    ]


def test_a_finding_of_a_policy_is_not_silenced_and_the_attempt_is_reported() -> None:
    fixed = finding("SW401", 1, policy=PolicyTag("money", "no-refund"))
    result = silenced("a: 1  # stepward: ignore[SW401] please", fixed)
    assert result.remaining == [fixed]
    (complaint,) = result.complaints
    assert complaint.message == "`SW401` comes from the policy `money/no-refund` here and can't be silenced"


def test_beside_a_finding_of_a_policy_the_programs_own_is_silenced() -> None:
    own, fixed = finding("SW401", 1), finding("SW401", 1, policy=PolicyTag("money", "no-refund"))
    result = silenced("a: 1  # stepward: ignore[SW401] please", own, fixed)
    assert (result.remaining, result.complaints) == ([fixed], [])
