"""Fast: suggestions that did harm, with their neighbours: arms, vacuous guardrails, risky writes, and `--fix`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from doing import DOING
from legacy_rewrites import rewrites
from sizes import size
from stepward.validator import ProgramValidator
from stepward.validator.cli import main
from stepward.validator.findings import Finding, Severity, Verdict
from stepward.vm import Policy, Program
from stepward.vm.errors import ProgramError
from stepward.vm.language.similar import near_words, only_near

CALL = {"type": "tool", "tool": "load"}
END = {"id": "bad", "type": "end", "outcome": "failure"}


def program(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    inputs = {"x": {"type": "boolean"}, "n": {"type": "integer"}}
    return {"name": "p", "inputs": inputs, "tools": {"load": {"effect": "read"}}, **fields, "steps": list(steps)}


def check(data: dict[str, Any]) -> tuple[Finding, ...]:
    """Return the findings, without the warning that a program has no use for all inputs and tools of `program`."""
    found = ProgramValidator(Program.from_dict(data)).validate().findings
    return tuple(one for one in found if one.code != "SW212")


def codes(data: dict[str, Any]) -> list[str]:
    return [finding.code for finding in check(data)]


# -- around an arm -----------------------------------------------------------------------------------------------------

TWO_WAYS = {"id": "c", "type": "condition", "condition": "$x", "then": "a", "otherwise": "bad"}
BY_CASES = {"id": "c", "type": "condition", "cases": [{"when": "$x", "then": "a"}], "otherwise": "bad"}
FAILS = {"id": "c", **CALL, "error_step": "a", "next_step": "bad"}


@pytest.mark.parametrize(
    ("first", "what"), [(TWO_WAYS, "a branch"), (BY_CASES, "a branch"), (FAILS, "the `error_step`")]
)
@pytest.mark.parametrize("route", [{}, {"error_step": "bad"}])
@pytest.mark.parametrize("is_guarded", [False, True])
def test_the_help_at_a_step_below_an_arm_says_why_and_what(
    first: dict[str, Any], what: str, route: dict[str, str], is_guarded: bool
) -> None:
    rule = {"name": "a-before-b", "protects": {"step": "b"}, "requires": {"step": "a"}}
    data = program(
        first, {"id": "a", **CALL, **route}, {"id": "b", **CALL}, END, guardrails=[rule] if is_guarded else []
    )
    (finding,) = check(data)
    assert finding.code == "SW102"
    assert finding.help == (
        f"`a` is {what} of `c`, so the run ends after it; add `next_step: b` to `a`, "
        "and `is_terminal: true` to `b`, which would otherwise go on to `bad` and fail"
    )
    assert [label.text for label in finding.related] == ["the step above ends the run here"]
    (done,) = rewrites(data, finding, DOING)
    assert [code for code in codes(done) if code != "SW107"] == []


@pytest.mark.parametrize("whole", ["the body", "the branch"])
def test_below_an_arm_in_a_body_only_the_body_ends(whole: str) -> None:
    question = {"id": "c", "type": "condition", "condition": "$n > 1", "then": "a", "otherwise": "no"}
    written = [question, {"id": "a", **CALL}, {"id": "b", **CALL}, {"id": "no", "type": "end"}]
    outer: dict[str, Any] = {"id": "each", "type": "for_each", "items": "$list", "as": "one", "steps": written}
    if whole == "the branch":
        outer = {"id": "each", "type": "parallel", "branches": {"left": {"steps": written}}}
    inputs = {"n": {"type": "integer"}, "list": {"type": "array", "maxItems": 3}}
    found = check({**program(outer, END), "language": 2, "inputs": inputs})
    (finding,) = [one for one in found if one.code == "SW102"]
    assert finding.help.startswith(f"`a` is a branch of `c`, so {whole} ends after it; add `next_step: b` to `a`")


def test_an_arm_of_a_step_that_can_not_fail_is_one_all_the_same() -> None:
    part = {"id": "part", **CALL, "on_error": "skip"}
    first = {"id": "c", "type": "parallel", "parallel_steps": [part], "error_step": "a", "next_step": "a"}
    found = check(program(first, {"id": "a", **CALL}, {"id": "b", **CALL}, END))
    assert [one.help for one in found if one.step == "b"] == [
        "`a` is named as an arm, so the run ends after it; add `next_step: b` to `a`"
    ]


def test_a_step_below_a_terminal_one_gets_another_help() -> None:
    data = program({"id": "a", **CALL, "is_terminal": True}, {"id": "b", **CALL})
    (finding,) = check(data)
    assert finding.help == "name it in a branch, a `next_step` or an `error_step`, or remove it"


@pytest.mark.parametrize(
    "needs_it",
    [
        {"guardrails": [{"name": "r", "protects": {"step": "b"}, "requires": {"step": "a"}}]},
        {"guardrails": [{"name": "r", "protects": {"step": "a"}, "requires": {"step": "b"}}]},
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "other"}}]},
    ],
)
def test_a_step_of_which_a_guardrail_speaks_is_not_to_be_removed(needs_it: dict[str, Any]) -> None:
    tools = {"load": {"effect": "read"}, "other": {"effect": "write", "idempotent": True}}
    steps = ({"id": "a", **CALL, "is_terminal": True}, {"id": "b", "type": "tool", "tool": "other"})
    helps = [finding.help for finding in check(program(*steps, tools=tools, **needs_it)) if finding.code == "SW102"]
    assert helps == ["name it in a branch, a `next_step` or an `error_step`"]


def test_a_step_whose_removal_would_let_an_arm_go_on_is_not_to_be_removed() -> None:
    """`a` ends the run because `dead` names it in an `error_step`; without that, it would go on to `bad`."""
    steps = (
        {"id": "first", **CALL, "next_step": "a"},
        {"id": "dead", **CALL, "error_step": "a", "is_terminal": True},
        {"id": "a", **CALL},
        {"id": "other", "type": "condition", "condition": "$x", "then": "first", "otherwise": "bad"},
        END,
    )
    helps = [finding.help for finding in check(program(*steps)) if finding.step == "dead"]
    assert helps == ["name it in a branch, a `next_step` or an `error_step`"]


# -- vacuous guardrails ------------------------------------------------------------------------------------------------


def test_a_guardrail_of_an_unreachable_step_is_silent_beside_sw102_and_holds() -> None:
    rule = {"name": "r", "protects": {"step": "b"}, "requires": {"step": "a"}}
    steps = ({"id": "a", **CALL, "is_terminal": True}, {"id": "b", **CALL})
    report = ProgramValidator(Program.from_dict(program(*steps, guardrails=[rule]))).validate()
    assert [finding.code for finding in report.findings if finding.code != "SW212"] == ["SW102"]
    assert [prop.verdict for prop in report.properties] == [Verdict.PROVED]


def test_a_guardrail_of_an_infeasible_step_is_silent_beside_sw303() -> None:
    rule = {"name": "r", "protects": {"step": "b"}, "requires": {"step": "c"}}
    condition = {"id": "c", "type": "condition", "condition": "$n > 5 and $n < 3", "then": "b", "otherwise": "bad"}
    (found,) = check(program(condition, {"id": "b", **CALL}, END, guardrails=[rule]))
    assert found.code == "SW303"
    assert "no run gets to `b`" in found.message


def test_a_guardrail_of_an_infeasible_step_is_silent_beside_sw103() -> None:
    """Two conditions lead to it, so that none of them names it."""
    rule = {"name": "r", "protects": {"step": "b"}, "requires": {"step": "c"}}
    steps = (
        {"id": "c", "type": "condition", "condition": "1 > 2", "then": "b", "otherwise": "d"},
        {"id": "d", "type": "condition", "cases": [{"when": "2 > 1", "then": "bad"}], "otherwise": "b"},
    )
    found = codes(program(*steps, {"id": "b", **CALL}, END, guardrails=[rule]))
    assert "SW103" in found
    assert "SW407" not in found


@pytest.mark.parametrize("selector", [{"step": "nowhere"}, {"tool": "nothing"}])
def test_no_help_removes_a_guardrail(selector: dict[str, str]) -> None:
    rule = {"name": "r", "at_most_once": selector}
    (finding,) = check(program({"id": "a", **CALL}, guardrails=[rule]))
    assert finding.code == "SW407"
    assert "remove" not in finding.help


# -- writes ------------------------------------------------------------------------------------------------------------

RISKS: dict[str, dict[str, Any]] = {
    "SW503": {"on_error": "retry"},
    "SW504": {"next_step": "again", "max_visits": 3},
    "SW505": {"on_error": "skip"},
}


@pytest.mark.parametrize("code", RISKS)
@pytest.mark.parametrize("tools", [None, {"pay": {"effect": "write", "idempotent": False}}])
@pytest.mark.parametrize("is_part", [False, True])
def test_the_help_at_a_risky_write_never_says_that_it_reads_and_mends_when_done(
    code: str, tools: dict[str, Any] | None, is_part: bool
) -> None:
    part = {"id": "pay", "type": "tool", "tool": "pay"}
    fields = dict(RISKS[code])
    if is_part and code == "SW505":
        part |= {"on_error": fields.pop("on_error")}
    whole = {"id": "both", "type": "parallel", "parallel_steps": [part, {"id": "p", "type": "tool", "tool": "pay"}]}
    if is_part and code == "SW505":
        whole["parallel_steps"][1] |= {"on_error": "skip"}
    step = {**(whole if is_part else part), **fields}
    again = {"id": "again", "type": "condition", "condition": "$x", "then": step["id"], "otherwise": "bad"}
    data = program(step, again, END)
    if tools is None:
        del data["tools"]
    else:
        data["tools"] = tools
    before = check(data)
    expected = code if tools is not None else "SW213"
    risky = [finding for finding in before if finding.code == expected]
    assert len(risky) == 1 or tools is not None
    assert risky
    for finding in risky:
        assert "effect: read" not in finding.help
        first = rewrites(data, finding, DOING)[0]
        after = check(first)
        assert not [
            one for one in after if (one.code, one.message, one.step) == (finding.code, finding.message, finding.step)
        ]
        new = {one.code for one in after if one.severity is Severity.ERROR} - {one.code for one in before}
        assert not new, finding.help
        kept = {call["tool"] for call in Program.from_dict(first).to_dict()["steps"] if "tool" in call}
        assert kept <= {"pay"}, "it is still the same call"
        if tools is not None:
            assert first.get("tools") == data.get("tools"), "nothing else is claimed of the tool"


# -- `--fix` -----------------------------------------------------------------------------------------------------------


def programs_with_an_ambiguous_arm() -> list[dict[str, Any]]:
    """Every program of three calls and a condition, in which some arm is entered from above, too."""
    targets = ["s0", "s1", "s2", "bad"]
    found = []
    for then, otherwise, error, bound in itertools.product(targets, targets, [None, "s1", "s2"], [None, 9]):
        first = {"id": "s0", **CALL, **({"error_step": error} if error else {})}
        condition = {"id": "c", "type": "condition", "condition": "$x", "then": then, "otherwise": otherwise}
        data = program(first, {"id": "s1", **CALL}, condition, {"id": "s2", **CALL}, END)
        if bound:
            data["max_steps"] = bound
        if "SW106" in codes(data):
            found.append(data)
    return found


def test_a_fix_of_an_ambiguous_arm_adds_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cases = programs_with_an_ambiguous_arm()[:: size(6, 1)]
    for number, data in enumerate(cases):
        Path(f"{number}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    CliRunner().invoke(main, ["check", "--isolated", "--fix", "--no-cache", "."], catch_exceptions=False)
    fixed = 0
    for number, before in enumerate(cases):
        after = yaml.safe_load(Path(f"{number}.yaml").read_text())
        fixed += after != before
        old = {(finding.code, finding.step) for finding in check(before)}
        new = {(f.code, f.step, f.message) for f in check(after) if f.severity is Severity.ERROR}
        assert {(code, step) for code, step, _ in new} <= old, (before, new)
    assert len(cases) > size(13, 40)
    assert fixed > size(1, 5), "or nothing was tried"


def test_a_fix_that_lets_a_guardrail_break_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To go on from `look` is sound as control flow, and leads past the check that `pay` needs."""
    monkeypatch.chdir(tmp_path)
    data = program(
        {"id": "look", **CALL},
        {"id": "pay", **CALL},
        {"id": "again", "type": "condition", "condition": "$x", "then": "look", "otherwise": "bad"},
        END,
        max_steps=9,
        guardrails=[{"name": "r", "protects": {"step": "pay"}, "requires": {"step": "again", "branch": "otherwise"}}],
    )
    Path("p.yaml").write_text(yaml.safe_dump(data))
    assert codes(data) == ["SW106"]
    result = CliRunner().invoke(main, ["check", "--isolated", "--fix", "--no-cache", "p.yaml"], catch_exceptions=False)
    assert "nothing fixed" in result.stderr
    assert yaml.safe_load(Path("p.yaml").read_text()) == data


def test_an_arm_that_the_step_above_falls_into_is_offered_what_adds_no_error() -> None:
    data = program(
        {"id": "search", **CALL},
        {"id": "notify", **CALL},
        {"id": "was_found", "type": "condition", "condition": "$x", "then": "bad", "otherwise": "notify"},
        END,
    )
    (finding,) = check(data)
    assert finding.code == "SW106"
    assert finding.help == "add `next_step: was_found` to `search` to skip it"
    assert finding.correction is None


LIVE = {"id": "end_it", "type": "end"}


@pytest.mark.parametrize(
    ("below", "edits"),
    [
        ([{"id": "b", **CALL}, END], {"a": {"next_step": "b"}, "b": {"is_terminal": True}}),
        ([{"id": "b", **CALL}, LIVE, END], {"a": {"next_step": "b"}}),
        ([{"id": "b", **CALL}, {"id": "b2", **CALL}, END], {"a": {"next_step": "b"}, "b2": {"is_terminal": True}}),
        ([{"id": "b", **CALL, "next_step": "bad"}, END], {"a": {"next_step": "b"}}),
        ([{"id": "b", **CALL, "is_terminal": True}, END], {"a": {"next_step": "b"}}),
        ([{"id": "b", **CALL, "next_step": "c"}, END], None),
        ([{"id": "b", **CALL}, {"id": "d", "type": "condition", "condition": "$x", "then": "b2"}, END], None),
        ([{"id": "b2", **CALL}, {"id": "b", **CALL}, END], None),
    ],
    ids=["failure", "success", "two", "goes on", "ends", "loops", "condition", "two arms"],
)
def test_an_arm_goes_on_to_the_dead_step_below_where_only_that_can_be_meant(
    below: list[dict[str, Any]], edits: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [one["id"] for one in below]
    other = "b2" if names[0] == "b2" else "d" if "d" in names else "bad"
    data = program(
        {"id": "c", "type": "condition", "condition": "$x", "then": "a", "otherwise": other},
        {"id": "a", **CALL},
        *below,
    )
    Path("p.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    CliRunner().invoke(main, ["check", "--isolated", "--fix", "--no-cache", "p.yaml"], catch_exceptions=False)
    fixed = {one["id"]: one for one in yaml.safe_load(Path("p.yaml").read_text())["steps"]}
    before = {one["id"]: one for one in data["steps"]}
    changed = {name: fixed[name].items() - before[name].items() for name in fixed if fixed[name] != before[name]}
    assert {name: dict(items) for name, items in changed.items() if name in ("a", *(edits or ()))} == (edits or {})


# -- fields ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "others", "meant"),
    [
        ("minLength", ["maxLength", "pattern"], ""),
        ("max_minuts", ["max_minutes", "min_minutes"], "max_minutes"),
        ("maximun", ["minimum", "maximum"], "maximum"),
        ("min_prise", ["max_price"], ""),
    ],
)
def test_the_opposite_of_a_name_is_never_suggested(field: str, others: list[str], meant: str) -> None:
    assert near_words(field, others) == (f"did you mean `{meant}`?" if meant else "")
    assert only_near(field, others) == (meant or None)


@pytest.mark.parametrize("fields", [{"if": "$x"}, {"if": "$x", "else": "bad"}, {"condition": "$x", "else": "bad"}])
def test_the_words_of_a_branch_in_other_languages_are_corrected(
    fields: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = {"otherwise": "bad"} if "else" not in fields else {}
    data = program({"id": "c", "type": "condition", **fields, "then": "a", **whole}, {"id": "a", **CALL}, END)
    Path("p.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    CliRunner().invoke(main, ["check", "--isolated", "--fix", "--no-cache", "p.yaml"], catch_exceptions=False)
    step = yaml.safe_load(Path("p.yaml").read_text())["steps"][0]
    assert {"condition", "then", "otherwise"} <= step.keys()
    assert not {"if", "else"} & step.keys()


# -- texts -------------------------------------------------------------------------------------------------------------

FLOW = """
name: p
inputs: {{t: {{type: string}}}}
steps:
  - {{id: c, type: condition, condition: {condition}, then: d, otherwise: d2}}
  - {{id: d, type: end}}
  - {{id: d2, type: end, outcome: failure}}
"""


@pytest.mark.parametrize(
    "condition",
    [
        '$t in ["AT", "CH"]',
        "$t in ['AT'] or $t == \"x, y\"",
        'not ($t in ["AT"])',
        '"yes" == $t',
        "'yes' == $t",
        "len($t) > 1 and $t in ['it''s']".replace("''", "\\'"),
    ],
)
@pytest.mark.parametrize("is_block", [False, True])
def test_a_condition_that_yaml_stops_at_is_to_be_put_in_quotes(condition: str, is_block: bool) -> None:
    text = FLOW.format(condition=condition)
    if is_block:
        text = text.replace("{id: c, type: condition, ", "id: c\n    type: condition\n    ").replace(
            ", then: d, otherwise: d2}", "\n    then: d\n    otherwise: d2"
        )
    try:
        Program.from_yaml(text)
        return  # nothing to correct: a block takes brackets as they are
    except ProgramError as error:
        (problem,) = error.problems
    quoted = problem.help.removeprefix("put the condition in quotes: `condition: ").removesuffix("`")
    assert yaml.safe_load(quoted) == condition
    assert Program.from_yaml(text.replace(condition, quoted)).steps[0].condition == condition  # type: ignore[union-attr]


def test_an_allow_list_offers_the_tool_with_a_similar_name() -> None:
    policy = Policy.from_dict({"policy": "house", "allow": ["load_order", "pay"]})
    step = {"id": "a", "type": "tool", "tool": "load_ordr"}

    def helps(*declared: str) -> set[str]:
        data = program(step, tools={name: {"effect": "read"} for name in declared})
        return {one.help for one in ProgramValidator(Program.from_dict(data), [policy]).validate().findings}

    assert "use an allowed tool, such as `load_order`, or have it put on the list" in helps("load_ordr", "load_order")
    # A tool that the program does not declare would be the next error, so it is not offered.
    assert "use an allowed tool, or have it put on the list" in helps("load_ordr")


# -- one finding in place of many --------------------------------------------------------------------------------------


def test_a_program_without_tools_gets_one_finding_that_says_what_follows() -> None:
    steps = [{"id": f"s{n}", "type": "tool", "tool": f"t{n}", "on_error": "retry"} for n in range(5)]
    data = program(*steps)
    del data["tools"]
    (finding,) = [one for one in check(data) if one.code.startswith(("SW2", "SW5")) and one.code != "SW212"]
    assert finding.code == "SW213"
    assert finding.severity is Severity.ERROR
    assert "a retry performs `t0`, `t1`, `t2` and 2 more again" in finding.message


@pytest.mark.parametrize("fields", [{}, {"tools": {"t0": {"effect": "read"}}}])
def test_a_program_in_which_nothing_follows_gets_none(fields: dict[str, Any]) -> None:
    data = program({"id": "s", "type": "tool", "tool": "t0", **({"on_error": "retry"} if fields else {})}, **fields)
    if not fields:
        del data["tools"]
    assert "SW213" not in codes(data)


def test_what_a_policy_declares_is_not_unknown() -> None:
    policy = Policy.from_dict({"policy": "house", "tools": {"t0": {"effect": "write", "idempotent": False}}})
    steps = [{"id": f"s{n}", "type": "tool", "tool": f"t{n}", "on_error": "retry"} for n in range(2)]
    data = program(*steps)
    del data["tools"]
    found = ProgramValidator(Program.from_dict(data), [policy]).validate().findings
    assert [(one.code, one.step) for one in found if one.code in ("SW503", "SW213")] == [
        ("SW503", "s0"),
        ("SW213", "s1"),
    ]


@pytest.mark.parametrize(
    ("inputs", "tools", "is_found"),
    [
        ({"t": {"type": "string"}}, {"send": {"effect": "write", "idempotent": True}}, True),
        ({"t": {"type": "string"}}, {"send": {"effect": "read"}}, False),
        ({"t": {}}, {"send": {"effect": "write", "idempotent": True}}, False),
        (None, {"send": {"effect": "write", "idempotent": True}}, False),
    ],
)
def test_only_what_is_known_to_be_text_and_to_write_is_free_text_to_an_effect(
    inputs: dict[str, Any] | None, tools: dict[str, Any], is_found: bool
) -> None:
    data = program({"id": "s", "type": "tool", "tool": "send", "args": {"text": "$t"}}, inputs=inputs, tools=tools)
    assert ("SW209" in codes(data)) is is_found


def test_undeclared_inputs_are_one_finding() -> None:
    data = program({"id": "s", "type": "llm", "prompt": "$a $b $c $d $e"}, inputs=None)
    (finding,) = check(data)
    assert finding.code == "SW210"
    assert (
        finding.message
        == "nothing assigns `$a`, `$b`, `$c` and 2 more, and the program does not declare them as inputs"
    )
    (done,) = rewrites(data, finding, DOING)
    assert not check(done)


# -- the transition that avoids a guard --------------------------------------------------------------------------------

GUARDED = {
    "tools": {"load": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}},
    "guardrails": [{"name": "g", "protects": {"tool": "pay"}, "requires": {"step": "ok", "branch": "then"}}],
}
FIRST = {"id": "c", "type": "condition", "condition": "$x", "then": "ok", "otherwise": "fee"}
ASKED = {"id": "ok", "type": "condition", "condition": "$n > 3", "then": "send", "otherwise": "bad"}
FEE = {"id": "fee", **CALL, "error_step": "bad", "next_step": "send"}
SEND = {"id": "send", "type": "tool", "tool": "pay", "is_terminal": True}
LOOKS = {"id": "look", **CALL, "next_step": "send"}


@pytest.mark.parametrize(
    ("steps", "avoiding"),
    [
        ([FIRST, ASKED, FEE, SEND], "`fee` goes to `send`"),
        ([{**FIRST, "otherwise": "send"}, ASKED, SEND], "branch `otherwise` of `c` goes to `send`"),
        ([{**FIRST, "otherwise": "fee"}, ASKED, {**FEE, "error_step": "send", "next_step": "bad"}, SEND],
         "`fee` fails and goes to `send`"),
        # The guard is passed in some runs that take the last transition: another one may be wrong.
        ([FIRST, {**ASKED, "then": "look"}, {**FEE, "next_step": "look"}, LOOKS, SEND], ""),
        ([FIRST, {**ASKED, "then": "fee"}, FEE, SEND], ""),
        ([{**ASKED, "otherwise": "send"}, SEND], "branch `otherwise` of `ok` goes to `send`"),
    ],
)  # fmt: skip
def test_a_help_names_the_transition_that_avoids_a_guard_if_it_is_certain(
    steps: list[dict[str, Any]], avoiding: str
) -> None:
    (found,) = [one for one in check(program(*steps, END, **GUARDED)) if one.code == "SW401"]
    assert found.help.startswith("route every path to `send` through branch `then` of step `ok`, or around `send`")
    assert found.help.partition("; this path avoids it where ")[2] == avoiding


def test_without_the_transition_that_a_help_names_the_guard_holds() -> None:
    mended = program(FIRST, ASKED, {**FEE, "next_step": "ok"}, SEND, END, **GUARDED)
    assert "SW401" not in codes(mended)
