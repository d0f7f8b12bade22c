"""Fast: how a run is told: the excerpt under wide characters, tabs, long lines; the formats and the summary."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from paths import ROOT
from stepward.validator import ProgramValidator
from stepward.validator.findings import Evidence, Finding, Label, Move, PolicyTag, Property, Severity, Verdict
from stepward.validator.report import FORMATS, full, render
from stepward.validator.report.excerpt import MAX_WIDTH, Mark, excerpt
from stepward.validator.report.statistics import render as render_statistics
from stepward.validator.report.text import safe, summary, width
from stepward.validator.report.values import Values
from stepward.validator.result import RunResult
from stepward.vm import Program
from stepward.vm.reading.document import Document
from stepward.vm.reading.source import Place, Span

SOURCE = "name: p\nsteps:\n  - {id: a, type: end, nxt: b}\n" + "# filler\n" * 20 + "last: line\n"


def mark(line: int, start: int, end: int, text: str = "", *, is_primary: bool = True) -> Mark:
    return Mark(Span(line, start, line, end), text, is_primary)


def rows(source: str, *marks: Mark) -> list[str]:
    return [f"{row.number}|{row.text}" for row in excerpt(source.split("\n"), list(marks))]


def finding(**fields: Any) -> Finding:
    given: dict[str, Any] = {
        "code": "SW401",
        "name": "guardrail-bypassed",
        "severity": Severity.ERROR,
        "message": "`a` can start",
        "help": "route it",
        "place": Place(("steps", 0, "nxt")),
        "file": "flows/p.yaml",
        "span": Span(3, 25, 3, 28),
    }
    return Finding(**{**given, **fields})


def result(*findings: Finding, **fields: Any) -> RunResult:
    return RunResult(findings=findings, **{"programs": 1, "sources": {"flows/p.yaml": SOURCE}, **fields})


# -- the excerpt -------------------------------------------------------------------------------------------------------


def test_a_mark_stands_under_its_characters() -> None:
    assert rows("ab cde f", mark(1, 4, 7)) == ["1|ab cde f", "|   ^^^"]


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert rows("日本 ab", mark(1, 4, 5)) == ["1|日本 ab", "|     ^"]
    assert rows("日本 ab", mark(1, 2, 3)) == ["1|日本 ab", "|  ^^"]
    assert rows("e\u0301 ab", mark(1, 4, 5)) == ["1|e\u0301 ab", "|  ^"]


@pytest.mark.parametrize(
    ("character", "columns"),
    [
        ("a", 1),
        ("ä", 1),
        ("€", 1),
        ("界", 2),
        ("\uff21", 2),
        ("\u0301", 0),  # Mn: a combining accent
        ("\u20dd", 0),  # Me: an enclosing circle
        ("\u200d", 0),  # Cf: joins two signs, and is none itself
        ("\u2060", 0),  # Cf: keeps two words on one line
        ("\u00ad", 0),  # Cf: where a word may be divided
        ("\u200e", 1),  # Cf that could turn the text around: a sign is printed in its place
        ("\u202e", 1),
    ],
)
def test_a_character_takes_as_many_columns_as_a_terminal_gives_it(character: str, columns: int) -> None:
    assert width(character, 0) == columns


def test_tabs_are_widened_to_the_next_stop() -> None:
    assert rows("\ta\tb", mark(1, 4, 5)) == ["1|    a   b", "|        ^"]


def test_an_empty_stretch_and_one_past_the_end_have_one_caret() -> None:
    assert rows("ab", mark(1, 3, 3)) == ["1|ab", "|  ^"]
    assert rows("", mark(1, 1, 1)) == ["1|", "|^"]


def test_a_stretch_over_lines_is_marked_to_the_end_of_the_first() -> None:
    assert rows("abc\ndef", Mark(Span(1, 2, 2, 3), is_primary=True)) == ["1|abc", "| ^^"]


def test_several_marks_of_a_line_come_in_order_with_their_texts() -> None:
    assert rows("ab cd", mark(1, 4, 6), mark(1, 1, 3, "first", is_primary=False)) == [
        "1|ab cd",
        "|-- first",
        "|   ^^",
    ]


def test_close_lines_are_shown_between_and_far_ones_are_not() -> None:
    source = "a\nb\nc\nd\ne\nf\ng"
    assert rows(source, mark(1, 1, 2), mark(4, 1, 2)) == ["1|a", "|^", "2|b", "3|c", "4|d", "|^"]
    assert rows(source, mark(1, 1, 2), mark(5, 1, 2)) == ["1|a", "|^", "...|", "5|e", "|^"]


@pytest.mark.parametrize("length", [300, 5_000, 200_000])
@pytest.mark.parametrize("where", [0, 1, 100, 150, 250, 293])
def test_of_a_long_line_the_part_around_the_mark_is_shown(length: int, where: int) -> None:
    at = where if where < 200 else length - (300 - where)
    source = "x" * at + "MARKED" + "y" * (length - at - 6)
    shown, carets = rows(source, mark(1, at + 1, at + 7))
    shown, carets = shown.removeprefix("1|"), carets.removeprefix("|")
    assert len(shown) <= MAX_WIDTH
    start = carets.index("^")
    assert carets[start:] == "^" * 6
    assert shown[start : start + 6] == "MARKED"
    assert shown.startswith("…") == (at > 60)
    assert shown.endswith("…") == (length - at > 100)


def test_a_long_line_of_wide_characters_is_cut_between_characters() -> None:
    shown, carets = rows("日" * 100 + "X" + "本" * 100, mark(1, 101, 102))
    before = shown.removeprefix("1|").split("X")[0]
    assert carets.index("^") - 1 == sum(2 if character in "日本" else 1 for character in before)


def test_marks_of_a_long_line_share_a_part_where_they_fit_and_else_have_their_own() -> None:
    line = "x" * 400
    assert len(rows(line, mark(1, 10, 12), mark(1, 50, 52))) == 3
    assert len(rows(line, mark(1, 10, 12), mark(1, 300, 302))) == 4


def test_a_mark_wider_than_the_line_shown_is_cut_with_it() -> None:
    shown, carets = rows("x" * 500, mark(1, 1, 500))
    assert len(carets) - 1 <= MAX_WIDTH
    assert len(shown) - 2 <= MAX_WIDTH


def test_what_would_repaint_the_terminal_is_shown_as_a_sign() -> None:
    assert safe("a\x1b[31mb\nc\x7f\x9b\u202e\ud800") == "a␛[31mb␊c␡\ufffd\ufffd\ufffd"
    assert rows("\x1b[2J ab", mark(1, 6, 7)) == ["1|␛[2J ab", "|     ^"]


def test_no_text_has_a_character_that_xml_can_not_have() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    # XML 1.0, production 2, in its words.
    allowed = [range(0x20, 0xD800), range(0xE000, 0xFFFE), range(0x10000, 0x110000)]
    assert not [f"U+{ord(one):04X}" for one in safe(everything) if not any(ord(one) in some for some in allowed)]
    assert len(safe(everything)) == len(everything)


# -- full --------------------------------------------------------------------------------------------------------------


def test_the_full_report_of_one_finding() -> None:
    evidence = Evidence("graph", path=(Move("load", "succeeds"), Move("a", "starts")))
    near = Label(Place(), "the list", span=Span(2, 1, 2, 6))
    far = Label(Place(), "the end", span=Span(24, 1, 24, 5))
    text = render(result(finding(evidence=evidence, related=(near, far)), programs_with_findings=1), "full")
    assert (
        text
        == """\
error[SW401] guardrail-bypassed: `a` can start
 --> flows/p.yaml:3:25
  |
2 | steps:
  | ----- the list
3 |   - {id: a, type: end, nxt: b}
  |                         ^^^
  |
  = path, step by step:
      1. load  succeeds
      2. a     starts
  = help: route it
note: the end
  --> flows/p.yaml:24:1
   |
24 | last: line
   | ----

1 error in 1 of 1 program
"""
    )


def test_a_label_in_a_policy_names_its_file_and_the_finding_its_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = Document("rules/money.yaml", "policy: money\n", "yaml", {}, lambda wanted: {})
    label = Label(Place(("policy",)), "the rule", policy, Span(1, 9, 1, 14))
    found = finding(related=(label,), policy=PolicyTag("money", "no-refund"), severity=Severity.WARNING)
    lines = render(result(found), "full").splitlines()
    assert "  = policy: money/no-refund; only a waiver in the policy can suppress it" in lines
    assert lines[lines.index("note: the rule") + 1] == " --> rules/money.yaml:1:9"
    (related,) = json.loads(render(result(found), "json"))["findings"][0]["related"]
    assert related == {
        "message": "the rule",
        "file": "rules/money.yaml",
        "line": 1,
        "column": 9,
        "end_line": 1,
        "end_column": 14,
    }


def test_of_a_vacuous_rule_no_waiver_is_spoken() -> None:
    lines = render(result(finding(code="SW407", policy=PolicyTag("money", "no-refund"))), "full").splitlines()
    assert "  = policy: money/no-refund" in lines


def test_in_a_continuation_no_waiver_is_promised() -> None:
    lines = render(result(finding(policy=PolicyTag("money", "no-refund", continues=True))), "full").splitlines()
    assert "  = policy: money/no-refund; no waiver counts in a continuation" in lines


def test_without_a_text_the_place_in_the_program_is_said() -> None:
    bare = finding(span=None, file="pkg.mod:NAME", related=(Label(Place(("guardrails", 0)), "the rule"),))
    assert render(result(bare), "full").splitlines()[:5] == [
        "error[SW401] guardrail-bypassed: `a` can start",
        " --> pkg.mod:NAME:steps[0].nxt",
        "  = help: route it",
        "note: the rule",
        " --> pkg.mod:NAME:guardrails[0]",
    ]
    assert render(result(bare), "concise").startswith("pkg.mod:NAME:steps[0].nxt: error SW401 ")


def test_of_a_very_long_path_the_two_ends_are_shown() -> None:
    path = tuple(Move(f"s{number}", "succeeds") for number in range(100))
    lines = render(result(finding(evidence=Evidence("graph", path=path))), "full").splitlines()
    moves = [line for line in lines if " succeeds" in line]
    assert len(moves) == 24
    assert moves[0].split() == ["1.", "s0", "succeeds"]
    assert moves[-1].split() == ["100.", "s99", "succeeds"]
    assert "… 76 more …" in render(result(finding(evidence=Evidence("graph", path=path))), "full")


def test_of_many_findings_of_one_code_in_one_file_the_first_are_shown_and_the_others_counted() -> None:
    several = [finding(file="a.yaml", code="SW304")] * (full.MAX_ALIKE + 2)
    run = result(*several, finding(file="b.yaml", code="SW304"), finding(file="a.yaml", code="SW102"))
    text = full.render(run)
    assert text.count("[SW304]") == full.MAX_ALIKE + 1
    assert text.count("[SW102]") == 1
    assert text.count("note: ") == 1
    assert "\nnote: 2 more findings of SW304 in a.yaml; `--output-format concise` lists all\n" in text
    assert render(run, "concise").count("SW304") == len(several) + 1


def test_colors_come_only_when_asked_for() -> None:
    assert "\x1b[" not in render(result(finding()), "full")
    colored = render(result(finding()), "full", color=True)
    assert "\x1b[91m\x1b[1merror[SW401]\x1b[0m" in colored


# -- concise, statistics, json -----------------------------------------------------------------------------------------


def test_the_concise_report_has_a_line_for_each_finding() -> None:
    text = render(result(finding(), finding(severity=Severity.WARNING, message="x\ny")), "concise")
    assert text.splitlines() == [
        "flows/p.yaml:3:25: error SW401 [guardrail-bypassed] `a` can start",
        "flows/p.yaml:3:25: warning SW401 [guardrail-bypassed] x␊y",
        "1 error and 1 warning in `flows/p.yaml`, none in the program",
    ]


def test_statistics_count_the_codes_the_most_frequent_first() -> None:
    other = finding(code="SW101", name="missing-target", severity=Severity.WARNING)
    text = render_statistics(result(other, finding(), finding(), programs_with_findings=1))
    assert text.splitlines() == [
        "     2  SW401  error    guardrail-bypassed",
        "     1  SW101  warning  missing-target",
        "",
        "2 errors and 1 warning in 1 of 1 program",
    ]


def test_the_json_report_has_every_field_of_version_1() -> None:
    evidence = Evidence("graph", path=(Move("a", "starts"),), reason="why")
    proved = Property("requires", "rule", Verdict.PROVED, Evidence("graph", cut=("c",)), 0.12345678, "flows/p.yaml")
    data = json.loads(
        render(
            result(
                finding(evidence=evidence, step="a", related=(Label(Place(), "here", span=Span(1, 2, 3, 4)),)),
                finding(span=None),
                properties=(proved,),
                programs=3,
                programs_with_findings=2,
                skipped=4,
                not_literal=("a.py:5",),
                hidden=6,
                stale=({"file": "f"},),
            ),
            "json",
        )
    )
    assert list(data) == ["version", "error", "findings", "properties", "bounds", "summary"]
    assert data["version"] == 1
    first, second = data["findings"]
    assert first == {
        "code": "SW401",
        "name": "guardrail-bypassed",
        "severity": "error",
        "message": "`a` can start",
        "help": "route it",
        "file": "flows/p.yaml",
        "line": 3,
        "column": 25,
        "end_line": 3,
        "end_column": 28,
        "step": "a",
        "related": [
            {"message": "here", "file": "flows/p.yaml", "line": 1, "column": 2, "end_line": 3, "end_column": 4}
        ],
        "evidence": {"layer": "graph", "path": [{"step": "a", "how": "starts"}], "reason": "why"},
        "fix": None,
    }
    assert [second[key] for key in ("line", "column", "end_line", "end_column", "step", "evidence")] == [None] * 6
    assert data["properties"] == [
        {
            "file": "flows/p.yaml",
            "name": "requires",
            "rule": "rule",
            "verdict": "proved",
            "rechecked": False,
            "layer": "graph",
            "seconds": 0.123457,
            "evidence": {"layer": "graph", "cut": ["c"]},
        }
    ]
    assert data["summary"] == {
        "programs": 3,
        "programs_with_findings": 2,
        "files_skipped": 4,
        "excluded": [],
        "programs_not_literal": 1,
        "not_checked": ["a.py:5"],
        "errors": 2,
        "warnings": 0,
        "codes": {"SW401": 2},
        "verdicts": {"proved": 1, "violated": 0, "unknown": 0},
        "rechecked": 0,
        "hidden_by_baseline": 6,
        "stale_baseline": [{"file": "f"}],
    }


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_ends_with_a_line_end_and_can_be_encoded(format: str) -> None:
    text = render(result(finding(message="half \ud800 a pair, 日本")), format)
    assert text.endswith("\n")
    assert text.encode()


def test_half_a_surrogate_pair_is_an_escape_in_json() -> None:
    data = json.loads(render(result(finding(message="half \ud800")), "json"))
    assert data["findings"][0]["message"] == "half \ud800"


# -- the summary -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (RunResult(programs=17), "17 programs: no findings"),
        (RunResult(programs=1), "1 program: no findings"),
        (RunResult(), "no programs"),
        (RunResult(skipped=4), "no programs (4 files skipped; see `--statistics`)"),
        (result(finding(), finding(), finding(severity=Severity.WARNING), programs=17, programs_with_findings=2,
                skipped=1), "2 errors and 1 warning in 2 of 17 programs (1 file skipped; see `--statistics`)"),
        (result(finding(severity=Severity.WARNING), programs_with_findings=1), "1 warning in 1 of 1 program"),
        (result(finding(), programs=0), "1 error"),
        (RunResult(programs=2, skipped=1, not_literal=("a.py:5",), hidden=3, stale=({}, {})), "2 programs: no findings "
         "(1 file skipped; 1 program in Python not checked; 3 findings hidden by the baseline; "
         "2 stale baseline entries; see `--statistics`)"),
    ],
)  # fmt: skip
def test_the_summary_is_one_line(run: RunResult, line: str) -> None:
    assert summary(run) == line


# -- the values of a witness -------------------------------------------------------------------------------------------


def values(*steps: dict[str, Any], rule: dict[str, Any], **more: Any) -> list[str]:
    tools = {"read": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}}
    data = {"name": "p", "inputs": {}, "tools": tools, "guardrails": [{"name": "rule", **rule}], **more}
    findings = ProgramValidator(Program.from_dict({**data, "steps": list(steps)})).validate().findings
    (found,) = [one for one in findings if one.code.startswith("SW40")]
    return Values().of(found)


def choice(name: str, condition: str, then: str, otherwise: str) -> dict[str, Any]:
    return {"id": name, "type": "condition", "condition": condition, "then": then, "otherwise": otherwise}


NEVER = {"never": {"tool": "pay"}, "when": "$args.sum > 10"}
END = {"id": "end", "type": "end"}


def test_only_what_decides_is_said_of_a_witness() -> None:
    """Inputs first, then replies; `$args` and what `set` computes lead back to where they come from."""
    steps = (
        {"id": "look", "type": "tool", "tool": "read", "output_key": "order"},
        {"id": "add", "type": "set", "set": {"sum": "$base + $order.tax", "noise": "$unread"}},
        choice("c", "$look.output.open == true", "pay", "end"),
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$sum"}, "is_terminal": True},
        END,
    )
    order = {"type": "object", "properties": {"open": {"type": "boolean"}, "tax": {"type": "integer", "minimum": 3}}}
    tools = {"read": {"effect": "read", "returns": order | {"required": ["open", "tax"]}}, "pay": {"effect": "write"}}
    inputs = {"unread": {"type": "string"}, "base": {"type": "integer", "minimum": 0}}
    found = values(*steps, rule=NEVER, inputs=inputs, tools=tools)
    assert [one.split(" = ")[0] for one in found] == ["base", "look.output.open", "order.tax"]
    base, tax = (int(found[number].split(" = ")[1]) for number in (0, 2))
    assert base + tax == 11


def test_what_comes_again_is_said_once_and_what_changes_in_order() -> None:
    steps = (
        {"id": "look", "type": "tool", "tool": "read", "output_key": "found", "max_visits": 9, "error_step": "end"},
        choice("c", "$found == 'more'", "pay", "end"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "look"},
        END,
    )
    tools = {"read": {"effect": "read", "returns": {"enum": ["none", "more"]}}, "pay": {"effect": "write"}}
    assert values(*steps, rule={"at_most_once": {"tool": "pay"}}, tools=tools) == ['found = "more"']
    program = Program.load(ROOT / "specs/programs/bad/SW402/next-item.yaml")
    (found,) = ProgramValidator(program).validate().findings
    assert Values().of(found) == ["voucher = 1000, then 1"]


def test_a_part_of_a_parallel_step_is_found_in_its_object() -> None:
    parts = [{"id": name, "type": "tool", "tool": "read", "output_key": f"{name}_view"} for name in ("one", "two")]
    steps = (
        {"id": "both", "type": "parallel", "parallel_steps": parts, "output_key": "seats"},
        choice("c", "$seats.one == 'yes' and $two_view == 'yes'", "pay", "end"),
        {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
        END,
    )
    tools = {"read": {"effect": "read", "returns": {"enum": ["no", "yes"]}}, "pay": {"effect": "write"}}
    assert values(*steps, rule={"never": {"tool": "pay"}}, tools=tools) == ['seats.one = "yes"', 'two_view = "yes"']


def test_values_take_two_lines_at_most() -> None:
    values = [f"name_{number} = {number}" for number in range(40)]
    first, second = full._with(values)
    assert first.startswith("with name_0 = 0, name_1 = 1")
    assert second.startswith("     name_")
    assert second.endswith(" more")
    assert len(first) <= 110
    assert list(full._with(["a = \x1b[1m"])) == ["with a = \u241b[1m"]
    assert list(full._with([])) == []
