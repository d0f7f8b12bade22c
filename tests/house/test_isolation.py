"""An internal error costs the part of a check in which it happens: errors are planted at every place, one at a time."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import z3
from click.testing import CliRunner, Result

from stepward.validator import Finding, ProgramValidator, Report, Verdict, assert_valid
from stepward.validator.cli import main
from stepward.validator.engine.clock import OutOfTime
from stepward.validator.failures import CODE
from stepward.validator.report import FORMATS, OUTPUTS
from stepward.validator.rules.base import ReportedElsewhere
from stepward.validator.rules.guardrails import GuardrailRule
from stepward.validator.rules.housekeeping import InternalError
from stepward.validator.rules.registry import RULES
from stepward.vm import Policy, Program
from stepward.vm.reading.files import read_text

ERRORS: Final = (KeyError("k"), RecursionError("deep"), MemoryError(), AssertionError("no"), z3.Z3Exception("out"))

BROKEN: Final = """
name: broken
inputs: {amount: {type: integer}, code: {type: string}, flag: {type: boolean}}
tools: {pay: {effect: write, idempotent: true}, ask: {effect: read}}
max_steps: 50
guardrails:
  - {name: certain, never: {step: start}}
  - {name: kept, protects: {step: kept}, requires: {step: asked}}
  - {name: once, at_most_once: {tool: pay}}
  - {name: by-value, never: {tool: pay}, when: $amount < 5}
  - {name: bypassed, protects: {tool: pay}, requires: {tool: ask}}
steps:
  - {id: start, type: condition, condition: $flag, then: asked, otherwise: sorted}
  - {id: asked, type: tool, tool: ask, on_error: skip, output_key: seen, next_step: kept}
  - {id: kept, type: condition, condition: $amount > 5, then: pay, otherwise: sorted}
  - {id: pay, type: tool, tool: pay, next_step: done}
  - id: sorted
    type: condition
    exclusive: true
    cases:
      - {when: $amount < 10, then: pay}
      - {when: $amount > 20, then: done}
  - {id: done, type: end, output: $seen}
"""

POLICY: Final = {
    "policy": "house",
    "allow": [{"tool": "ask"}],
    "guardrails": [{"name": "ban", "never": {"tool": "pay"}}],
}


def program() -> Program:
    return Program.from_document(read_text("broken.yaml", BROKEN, is_json=False)[0])


def check() -> Report:
    return ProgramValidator(program(), [Policy.from_dict(POLICY)], today=datetime.date(2026, 1, 1)).validate()


def said(findings: Iterator[Finding] | tuple[Finding, ...]) -> list[tuple[str, str, str]]:
    return [(one.code, one.place.text(), one.message) for one in findings]


def plant(monkeypatch: pytest.MonkeyPatch, target: str, error: BaseException) -> None:
    """Make a function or a method raise whenever it is called."""
    module, _, name = target.partition(":")
    owner = import_module(f"stepward.validator.{module}")
    *owners, last = name.split(".")
    for one in owners:
        owner = getattr(owner, one)

    def burst(*_: Any, **__: Any) -> Any:
        raise error

    assert hasattr(owner, last), f"{target} is gone: plant the error elsewhere"
    is_property = not callable(getattr(owner, last))
    monkeypatch.setattr(owner, last, property(burst) if is_property else burst)


WHOLE: Final = check()


def test_the_program_has_something_for_every_kind_of_finding() -> None:
    codes = {one.code for one in WHOLE.findings}
    assert {"SW202", "SW302", "SW401", "SW403"} <= codes
    assert CODE not in codes
    assert {one.verdict for one in WHOLE.properties} == {Verdict.PROVED, Verdict.VIOLATED}


# -- rules -------------------------------------------------------------------------------------------------------------


BROKEN_RULES: Final = [
    (rule, after)
    for rule in RULES
    if not issubclass(rule, ReportedElsewhere)
    # After its first finding only a rule can break that has one: the others would end as before.
    for after in range(2 if rule.code in {one.code for one in WHOLE.findings} else 1)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rule", "after"), BROKEN_RULES, ids=lambda one: getattr(one, "code", str(one)))
def test_an_error_in_a_rule_costs_what_that_rule_had_still_to_find(
    rule: Any, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Iterator[Finding]] = rule.check
    expected = said(WHOLE.findings)
    own = [one for one in expected if one[0] == rule.code]
    unordered = list(real(rule(), ProgramValidator(program())._context)) if after else []

    def breaks(self: Any, context: Any) -> Iterator[Finding]:
        for number, finding in enumerate(real(self, context)):
            if number == after:
                break
            yield finding
        raise KeyError("k")

    monkeypatch.setattr(rule, "check", breaks)
    report = check()
    (broken,) = [one for one in report.findings if one.code == CODE]
    assert f"an internal error ended rule {rule.code}: KeyError: 'k' (test_isolation.py, line " in broken.message
    found = [one for one in said(report.findings) if one[0] != CODE]
    assert [one for one in found if one[0] != rule.code] == [one for one in expected if one[0] != rule.code]
    assert len([one for one in found if one[0] == rule.code]) == min(after, len(own)), unordered
    assert not report.ok
    if not issubclass(rule, GuardrailRule):
        assert [one[:3] for one in report.properties] == [one[:3] for one in WHOLE.properties]


# -- properties --------------------------------------------------------------------------------------------------------

PROPERTIES: Final = (
    "engine.reach:Engine.ask",
    "engine.reach:_Search.answer",
    "engine.systems.building:Builder.__init__",
    "engine.search.finite:Table.__init__",
    "engine.witnesses.synthesis:Witnesses.evidence",
    "engine.witnesses.synthesis:Witnesses.confirm",
    "engine.verdicts:ConditionVerdicts._coverage",
    "engine.verdicts:ConditionVerdicts._exclusiveness",
    "engine.verdicts:ConditionVerdicts._constant",
    "engine.verdicts:ConditionVerdicts._never_taken",
    "engine.dead:InfeasibleBranches._table",
    "engine.dead:InfeasibleBranches.infeasible",
    "engine.cases:Cases.covered",
    "engine.guardrails:_Judge._decide",
    "engine.guardrails:_Judge._never_when",
    "engine.guardrails:vacuous",
    "engine.guardrails:explore_counted",
    "engine.conditions:Conditions.cases",
    "analysis.transition_choices:TransitionChoices.__init__",
    "analysis.assignment:Assignment.__init__",
    "analysis.bounds:Bounds.__init__",
    "validator:with_waivers",
    "validator:located",
)
"""Where a rule or the judging of a property may break."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("target", "error"),
    [(target, ERRORS[0]) for target in PROPERTIES]
    + [(target, error) for target in PROPERTIES[:3] for error in ERRORS[1:]],
)
def test_an_error_in_the_engine_makes_properties_unknown_and_no_more(
    target: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, target, error)
    report = check()
    broken = [one for one in report.findings if one.code == CODE]
    assert broken, "the error was not met"
    assert len(broken) < 4, "one cause is one finding"
    assert all(f"{type(error).__name__}" in one.message and "Traceback" not in one.message for one in broken)
    assert report.failures
    assert all("Traceback" in one.traceback for one in report.failures)
    before = {one[:2]: one.verdict for one in WHOLE.properties}
    after = {one[:2]: one.verdict for one in report.properties}
    for key, verdict in after.items():
        assert verdict in (before[key], Verdict.UNKNOWN)
    guardrails = {key for key in before if key[0] not in ("coverage", "exclusive cases")}
    assert guardrails <= after.keys()
    for one in report.properties:
        if one.verdict is Verdict.UNKNOWN:
            named = [
                f
                for f in report.findings
                if f.code == "SW408" and (f.evidence is one.evidence or one.rule in f.message)
            ]
            assert named, f"nothing says that {one.name} of {one.rule} is unknown"


def test_the_properties_do_not_depend_on_the_rules_that_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.validator.rules.registry.RULES", ())
    assert [one[:3] for one in check().properties] == [one[:3] for one in WHOLE.properties]


def test_an_error_while_one_property_is_judged_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepward.validator.engine.guardrails import _Judge

    real = _Judge.judge_rule

    def breaks(self: Any) -> Any:
        if self.rule.name == "once":
            raise KeyError("k")
        return real(self)

    monkeypatch.setattr(_Judge, "judge_rule", breaks)
    report = check()
    assert [one.rule for one in report.properties if one.verdict is Verdict.UNKNOWN] == ["once"]
    others = [one for one in said(report.findings) if one[0] not in (CODE, "SW408")]
    assert others == [one for one in said(WHOLE.findings) if "`once`" not in one[2]]
    (unproved,) = [one for one in report.findings if one.code == "SW408"]
    assert unproved.message == "guardrail `once` is not proved: internal error: KeyError: 'k'"
    assert unproved.place.text() == "guardrails[2].name"


def test_what_the_clock_stops_is_unknown_and_no_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "engine.guardrails:_Judge.judge_rule", OutOfTime("stopped by the clock after 3 s"))
    report = check()
    assert not report.failures
    assert CODE not in {one.code for one in report.findings}
    messages = [one.message for one in report.findings if one.code == "SW408"]
    assert "guardrail `once` is not proved: stopped by the clock after 3 s" in messages


def test_a_test_of_a_team_fails_where_a_check_was_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = {"steps": [{"id": "a", "type": "end"}]}
    assert_valid(fine)
    plant(monkeypatch, "rules.names:UndefinedVariable.check", KeyError("k"))
    with pytest.raises(AssertionError, match="SW903"):
        assert_valid(fine)


def test_one_error_says_its_parts_once_and_counts_many() -> None:
    from stepward.validator.failures import Failures

    failures = Failures()

    def burst() -> None:
        raise KeyError("k" * 1000)

    for number in range(9):
        failures.attempt(f"part {number}", burst, lambda _: None)
    (found,) = InternalError().of(failures.found)
    assert found.message.startswith("an internal error ended part 0, part 1, part 2, part 3 and 5 more: KeyError: 'kkk")
    assert len(found.message) < 500


# -- files and reports -------------------------------------------------------------------------------------------------

FINE: Final = "steps: [{id: a, type: end}]\n"
GAP: Final = """
inputs: {n: {type: integer}}
steps:
  - {id: c, type: condition, cases: [{when: $n > 1, then: d}]}
  - {id: d, type: end}
"""

FILES: Final = (
    "gate.checking:read_candidate",
    "gate.checking:Run._reports",
    "gate.checking:Run._check_file",
    "gate.checking:silence",
    "gate.checking:read_comments",
    "validator:Program.from_document",
    "validator:ProgramValidator.__init__",
    "validator:ProgramValidator.validate",
    "gate.corrections:with_fixes",
    "findings:Report.bounds",
    "gate.cached_reports:FileCache.find",
    "gate.cached_reports:FileCache.store",
    "gate.checking:idle_entries",
    "gate.checking:vacuous_rules",
)


def entry(files: str, code: str = "SW302") -> str:
    """Return a configuration that silences a code in files."""
    return f'[[per-file-ignores]]\nfiles = "{files}"\ncodes = ["{code}"]\nreason = "nobody cares"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEPWARD_NO_CACHE", raising=False)
    Path("fine.yaml").write_text(FINE)
    Path("gap.yaml").write_text(GAP)
    Path("stepward.toml").write_text(entry("*.yml"))
    Path("typo.yaml").write_text("inputs: {kind: {enum: [gold]}}\nsteps:\n  - {id: e, type: end, output: $kin}\n")
    return tmp_path


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["check", "--output-format", "json", *options])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", FILES)
@pytest.mark.parametrize("cached", [True, False])
def test_an_error_in_one_file_costs_what_is_left_of_that_file(
    target: str, cached: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted error is met in every file, so that each has to be isolated from the others."""
    if target in ("gate.cached_reports:FileCache.find", "gate.cached_reports:FileCache.store") and not cached:
        pytest.skip("there is no cache")
    if target == "gate.checking:read_candidate" and cached:
        target = "gate.checking:read_content"
    assert project
    plant(monkeypatch, target, KeyError("planted"))
    result = run(*([] if cached else ["--no-cache"]))
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    data = json.loads(result.stdout)
    broken = [one for one in data["findings"] if one["code"] == CODE]
    assert broken
    assert all("KeyError: 'planted'" in one["message"] for one in broken)
    once = {
        "gate.checking:idle_entries": ["."],
        "gate.checking:vacuous_rules": ["."],
        "gate.corrections:with_fixes": ["typo.yaml"],
    }
    assert sorted({one["file"] for one in broken}) == once.get(target, ["fine.yaml", "gap.yaml", "typo.yaml"])
    assert "Traceback" not in result.output
    monkeypatch.undo()
    monkeypatch.chdir(project)
    monkeypatch.delenv("STEPWARD_NO_CACHE", raising=False)
    again = run(*([] if cached else ["--no-cache"]))
    assert again.exit_code == 1
    assert CODE not in again.stdout, "what was broken is not kept"


def test_an_error_in_one_file_leaves_the_other_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepward.validator.gate.checking import Run

    assert project
    real = Run._add_contents

    def breaks(self: Any, contents: Any, path: Path, *others: Any) -> None:
        if path.name == "fine.yaml":
            raise RecursionError("deep")
        real(self, contents, path, *others)

    whole = json.loads(run("--no-cache").stdout)
    monkeypatch.setattr(Run, "_add_contents", breaks)
    result = run("--no-cache", "--ignore", CODE, "--exit-zero")
    data = json.loads(result.stdout)
    assert result.exit_code == 2
    assert [one for one in data["findings"] if one["code"] != CODE] == whole["findings"]
    (broken,) = [one for one in data["findings"] if one["code"] == CODE]
    assert broken["file"] == "fine.yaml"
    assert broken["message"].startswith(
        "an internal error ended the check of this file: RecursionError: deep (test_iso"
    )
    assert "please report it" in broken["help"]


def test_an_internal_error_can_not_be_silenced(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in project.glob("*.yaml"):
        file.write_text(f"# stepward: ignore[{CODE}] I don't care\n{file.read_text()}")
    Path("stepward.toml").write_text(entry("*.yaml", CODE))
    plant(monkeypatch, "rules.names:UndefinedVariable.check", KeyError("k"))
    result = run("--select", "SW1", "--write-baseline", "b.json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert [one["code"] for one in data["findings"]].count(CODE) == 3
    assert CODE not in Path("b.json").read_text()


@pytest.mark.parametrize("format", FORMATS)
def test_an_error_in_one_report_leaves_the_others(format: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project
    plant(monkeypatch, f"report.{FORMATS[format].module}:render", KeyError("planted"))
    others = [f"--{one}-output={one}.txt" for one in OUTPUTS]
    result = CliRunner().invoke(main, ["check", "--no-cache", f"--output-format={format}", *others])
    assert result.exit_code == 2
    if format in ("full", *OUTPUTS):
        assert f"error: an internal error ended the report as {format}: KeyError: 'planted'" in result.stderr
    if format == "full":
        assert "gap.yaml:4:10: error SW302" in result.stdout
    for one in OUTPUTS:
        text = Path(f"{one}.txt").read_text() if Path(f"{one}.txt").exists() else ""
        if one == format:
            continue
        assert "SW302" in text
        ElementTree.fromstring(text) if one == "junit" else json.loads(text)


def test_the_tracebacks_are_shown_to_who_asks_for_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project
    plant(monkeypatch, "rules.names:UndefinedVariable.check", KeyError("k"))
    assert "Traceback" not in run("--no-cache").output
    monkeypatch.setenv("STEPWARD_DEBUG", "1")
    result = run("--no-cache")
    assert result.exit_code == 2
    assert result.stderr.count("Traceback (most recent call last)") == 3
    assert "SW302" in result.stdout


def test_a_diagram_is_drawn_without_what_the_check_could_not_say(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project
    plant(monkeypatch, "diagram.marks:marks_of", KeyError("planted"))
    result = CliRunner().invoke(main, ["graph", "gap.yaml", "--format=dot"])
    assert result.exit_code == 2
    assert result.stdout.startswith("digraph")
    assert "error: an internal error ended the marking of findings: KeyError: 'planted'" in result.stderr


def test_a_check_that_breaks_off_is_drawn_as_a_finding(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project
    plant(monkeypatch, "engine.verdicts:ConditionVerdicts._coverage", KeyError("planted"))
    result = CliRunner().invoke(main, ["graph", "gap.yaml", "--format=dot"])
    assert result.exit_code == 0
    assert CODE in result.stdout
