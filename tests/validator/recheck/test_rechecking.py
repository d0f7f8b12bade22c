"""No proof is reported that the second checker has not accepted in the same run, and right proofs are accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_recheck_reading import careless_patterns

from brute_force import truth
from comparing import Comparison, compare_proofs
from engine_mistakes import MISTAKES
from engine_seeds import SEEDS
from layers import only
from modules import loaded_after
from paths import ROOT
from sizes import by_day, size
from small_programs import small_program
from stepward.validator import ProgramValidator, Report, Verdict, assert_valid, check_program
from stepward.validator.analysis import given_types
from stepward.validator.cli import main
from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.recheck import search, tables, walking
from stepward.validator.recheck.certificates import parsed, recheck_data
from stepward.validator.recheck.checking import Checker
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.claims import watcher
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.rules import Watcher
from stepward.vm import Policy, Program, ProgramError

GOOD = sorted((ROOT / "specs/programs/good").glob("*.yaml"))


def check(text: str, **options: Any) -> Report:
    return ProgramValidator(Program.from_yaml(text), **options).validate()


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


# -- what is reported --------------------------------------------------------------------------------------------------

PAID = """
name: paid
inputs: {amount: {type: integer, minimum: 0}}
tools: {pay: {effect: write, idempotent: false, args: {sum: {type: integer}}}}
guardrails:
  - {name: once, at_most_once: {tool: pay}}
  - {name: small, never: {tool: pay}, when: $amount > 50}
steps:
  - {id: is_small, type: condition, condition: $amount <= 50, then: pay, otherwise: stop}
  - {id: pay, type: tool, tool: pay, args: {sum: $amount}}
  - {id: stop, type: end, outcome: failure}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", GOOD[:: size(5, 1)], ids=lambda path: path.stem)
def test_every_proof_of_the_examples_is_accepted_in_the_run_that_makes_it(path: Path) -> None:
    """Those of all examples, under every policy, are asked for by `test_fixtures.py`."""
    report = ProgramValidator(Program.load(path)).validate()
    assert report.properties
    assert all(one.rechecked for one in report.properties)
    assert all(one.evidence.certificate == () and one.certify is None for one in report.properties)


def test_without_it_the_proofs_stand_and_the_report_says_so(tmp_path: Path) -> None:
    assert all(one.rechecked for one in check(PAID).properties)
    alone = check(PAID, recheck=False)
    assert all(one.verdict is Verdict.PROVED and not one.rechecked for one in alone.properties)
    file = tmp_path / "paid.yaml"
    file.write_text(PAID, encoding="utf-8")
    for option, rechecked in (("--no-cache", 3), ("--no-recheck", 0)):
        done = run("check", file, "--isolated", option, "--output-format", "json")
        data = json.loads(done.stdout)
        assert [one["rechecked"] for one in data["properties"]] == [bool(rechecked)] * 3
        assert (data["summary"]["rechecked"], data["summary"]["verdicts"]["proved"]) == (rechecked, 3)
        sarif = json.loads(run("check", file, "--isolated", option, "--output-format", "sarif").stdout)
        assert sarif["runs"][0]["properties"] == {"proved": 3, "rechecked": rechecked}
    assert "1 program: no findings (3 proofs not rechecked)" in run("check", file, "--isolated", "--no-recheck").stdout
    assert "not rechecked" not in run("check", file, "--isolated").stdout
    for option, said in (("--no-cache", False), ("--no-recheck", True)):
        text = run("check", file, "--isolated", option, "--output-format", "junit").stdout
        assert text.count(' is proved, and not rechecked"') == 3 * said
        answer = run("check", file, "--isolated", option, "--output-format", "model").stdout
        assert answer == f"accepted: no findings{' (3 proofs not rechecked)' if said else ''}\n"
    statistics = run("check", file, "--isolated", "--statistics").stdout
    assert "properties: 3 proved (3 rechecked), 0 violated, 0 unknown" in statistics
    (tmp_path / "stepward.toml").write_text("recheck = false\n", encoding="utf-8")
    assert "3 proofs not rechecked" in run("check", file).stdout


def test_the_cache_knows_what_was_rechecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWARD_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "paid.yaml"
    file.write_text(PAID, encoding="utf-8")
    for option, said in (((), True), ((), True), (("--no-recheck",), False), (("--no-recheck",), False), ((), True)):
        data = json.loads(run("check", file, "--isolated", *option, "--output-format", "json").stdout)
        assert [one["rechecked"] for one in data["properties"]] == [said] * 3


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def test_a_clean_check_needs_no_solver() -> None:
    program = ROOT / "specs/programs/good/customer_refund.yaml"
    code = f"""
from stepward.validator import ProgramValidator
from stepward.vm import Program
report = ProgramValidator(Program.load({str(program)!r})).validate()
assert all(one.rechecked for one in report.properties)"""
    assert not loaded_after(code) & {"z3", "cvc5", "hypothesis"}


# -- what is refused ---------------------------------------------------------------------------------------------------


def refusing(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    """Make the second checker see a breach everywhere, or break off."""

    def verdict(self: Checker, claim: Any, parts: Any) -> Any:
        if error is not None:
            raise error
        return recheck_data({})

    monkeypatch.setattr(Checker, "is_plain", lambda self, claim: False)
    monkeypatch.setattr(Checker, "verdict", verdict)


def test_a_refused_proof_is_unknown_and_reported_as_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch)
    report = check(PAID)
    assert codes(report) == ["SW902"] * 3
    assert {one.verdict for one in report.properties} == {Verdict.UNKNOWN}
    assert all("the second checker does not accept the proof" in one.evidence.reason for one in report.properties)
    places = [finding.place.text() for finding in report.findings]
    assert places == ["guardrails[0].name", "guardrails[1].name", "steps[0].id"]
    assert all("please report it" in finding.help for finding in report.findings)
    with pytest.raises(AssertionError, match="SW902"):
        assert_valid(Program.from_yaml(PAID))
    assert [one.code for one in check_program(Program.from_yaml(PAID))] == ["SW902"] * 3


def test_a_refused_proof_of_a_policy_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch)
    rules = {"policy": "house", "allow": ["pay"], "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}]}
    report = ProgramValidator(Program.from_yaml(PAID), [Policy.from_dict(rules)]).validate()
    (found,) = [one for one in report.findings if one.policy]
    assert str(found.policy) == "house/once"
    assert "guardrail `once` of policy `house` is not proved" in found.message


@pytest.mark.parametrize("error", [KeyError("gap"), RecursionError("deep"), ZeroDivisionError("none")])
def test_a_second_checker_that_breaks_off_proves_nothing_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    refusing(monkeypatch, error)
    report = check(PAID + "  - {id: lost, type: end}\n")
    assert "SW102" in codes(report)
    assert codes(report).count("SW408") == 3
    (broken,) = [one for one in report.findings if one.code == "SW903"]
    assert "the second check of guardrail `once`, the second check of guardrail `small`" in broken.message
    assert {one.verdict for one in report.properties} == {Verdict.UNKNOWN}
    assert all(type(error).__name__ in one.evidence.reason for one in report.properties)


def test_a_program_that_does_not_say_where_control_goes_proves_nothing() -> None:
    report = check(PAID.replace("otherwise: stop", "otherwise: nowhere"))
    assert "SW101" in codes(report)
    assert "SW902" not in codes(report)
    assert not [one for one in report.properties if one.verdict is Verdict.PROVED]
    assert any("does not say where control goes" in one.evidence.reason for one in report.properties)


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_what_is_beyond_the_bounds_of_the_second_checker_is_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MAX_PAIRS", 1)
    monkeypatch.setattr(tables, "MAX_STATES", 1)
    report = check(PAID)
    assert codes(report) == ["SW408", "SW408"], "coverage is plain to see"
    assert all("over 1 states" in one.message for one in report.findings)


def test_the_clock_ends_the_second_checker_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the proofs; here it runs out as soon as they are made."""

    proved: list[Claim] = []

    def check_once(self: Clock) -> None:
        if proved:
            raise OutOfTime("stopped by the clock after 60 s")

    monkeypatch.setattr(Clock, "check", check_once)
    monkeypatch.setattr(Checker, "is_plain", lambda self, claim: proved.append(claim))
    report = check(PAID)
    assert set(codes(report)) == {"SW408"}
    assert all("can't check the proof: stopped by the clock after 60 s" in one.message for one in report.findings)
    assert not [one for one in report.properties if one.verdict is Verdict.PROVED and not one.rechecked]


def test_every_search_of_the_second_checker_looks_at_the_clock() -> None:
    class Struck(Exception):  # noqa: N818 - what a watch says
        pass

    class Watch:
        def __init__(self, looks: int) -> None:
            self.looks = looks

        def check(self) -> None:
            self.looks -= 1
            if self.looks < 0:
                raise Struck

        def left(self) -> float:
            return 1.0

    program = Program.from_yaml(PAID)

    def looked(claim: Claim, looks: int) -> tuple[Reading, Watcher]:
        reading = Reading(program, (), Watch(looks))
        return reading, watcher(claim, reading)

    for claim in (Claim("at_most_once", "once", None, None, 1), Claim("never", "small", None, None, 2)):
        with pytest.raises(Struck):
            walking.explored(*looked(claim, 1))
        with pytest.raises(Struck):
            search.refuted(*looked(claim, 2))


# -- right proofs are accepted -----------------------------------------------------------------------------------------

HEAD = "name: rule\ninputs: {u: {type: string}}\ntools: {pay: {effect: write, idempotent: true}}\n"
ACCEPTED = {
    "no argument is handed over": ("defined($args.amount)", "", ""),
    "no field of an argument is handed over": ("defined($args.order.amount)", "", ""),
    "an argument without the field that is asked for": ("defined($args.order.amount)", "", "{order: {sum: 1}}"),
    "a list of texts": ("'x' in $tags", "['a', 'b']", ""),
    "a list of texts as a value": ("$tags contains 'x'", ["a", "b"], ""),
    "a list of texts that is not contained in": ("not ('a' in $tags)", "['a', 'b']", ""),
    "a list of numbers": ("3 in $tags", "[1, 2.5]", ""),
    "a list of numbers as a value": ("$tags contains 3", [1, 2.5], ""),
    "a list of booleans": ("$tags contains false", "[true]", ""),
    "a list of nulls": ("not ($tags contains null)", "[null]", ""),
    "an empty list": ("$tags contains 'x'", "[]", ""),
    "an empty list as a value": ("len($tags) > 0", [], ""),
    "the length of a list": ("len($tags) != 2", "['a', 'b']", ""),
    "a list that is asked whether it is there": ("not defined($tags)", ["a"], ""),
    "an input in a list": ("$u in $tags and $u != 'a'", "['a']", ""),
    "a copy of a list": ("$more contains 'x'", "['a']", ""),
}


@pytest.mark.parametrize(("when", "value", "args"), ACCEPTED.values(), ids=ACCEPTED)
def test_right_proofs_about_lists_and_arguments_are_accepted(when: str, value: Any, args: str) -> None:
    program = Program.from_yaml(
        f"{HEAD}guardrails: [{{name: rule, never: {{tool: pay}}, when: {json.dumps(when)}}}]\nsteps:\n"
        + (f"  - {{id: init, type: set, set: {{tags: {json.dumps(value)}}}}}\n" if value != "" else "")
        + ("  - {id: copy, type: set, set: {more: $tags}}\n" if "$more" in when else "")
        + f"  - {{id: p, type: tool, tool: pay, args: {args or '{}'}}}\n"
    )
    report = ProgramValidator(program, certify=True).validate()
    assert "SW902" not in codes(report), [one.message for one in report.findings]
    (rule,) = [one for one in report.properties if one.name == "never"]
    if rule.verdict is Verdict.PROVED:
        assert rule.rechecked
        assert rule.certify is not None
        assert recheck_data(parsed(rule.certify().to_json())).why_not == ""


def test_most_of_them_are_proved() -> None:
    proved = []
    for name, (when, value, args) in ACCEPTED.items():
        try:
            test_right_proofs_about_lists_and_arguments_are_accepted(when, value, args)
            proved.append(name)
        except AssertionError:
            continue
    assert len(proved) == len(ACCEPTED)


# -- the mistakes of the first checker ---------------------------------------------------------------------------------


def false_proofs(seed: int, *, recheck: bool) -> list[str]:
    """Return what is proved of a small program although it is broken in some run."""
    data, result = small_program(seed), Comparison()
    try:
        report = ProgramValidator(Program.from_dict(data), recheck=recheck).validate()
    except Exception:  # a mistake may break the engine: then nothing is proved
        return []
    compare_proofs(data, report, truth(data), result)
    return [text for text in result.wrong if "UNSOUND" in text]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_mistake_of_the_engine_proves_is_not_believed(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if MISTAKES[name].layer:
            only(patch, MISTAKES[name].layer)
        MISTAKES[name].plant(patch)
        assert [one for seed in SEEDS[name] for one in false_proofs(seed, recheck=True)] == []


UNHASHABLE = """
name: objects
tools: {look: {effect: read, returns: &seen {type: object, properties: {kind: {type: string}}, required: [kind]}}}
steps:
  - {id: a, type: llm, prompt: look, returns: *seen, on_error: skip}
  - {id: b, type: tool, tool: look, args: {x: {y: [1]}}}
  - {id: c, type: set, set: {o: {p: 1}}}
  - {id: d, type: condition, condition: defined($o.p), then: e, otherwise: e}
  - {id: e, type: end, output: {o: $o}}
guardrails:
"""
RULES = (
    "{protects: {step: %s}, requires: {step: %s}}",
    "{at_most_once: {step: %s}}",
    "{exclusive: [{step: %s}, {step: %s}]}",
    "{followed_by: {first: {step: %s}, then: {step: %s}}}",
    "{followed_by: {first: {step: %s}, then: {step: %s}}, ends: any}",
    "{never: {step: %s}, when: defined($o.q)}",
)


@pytest.mark.parametrize("first", "abcde")
def test_no_part_of_a_rule_breaks_the_second_checker(first: str) -> None:
    """Steps hold types, arguments and values that can't be hashed."""
    for number, rule in enumerate(RULES):
        for other in "abcde" if rule.count("%s") == 2 else "a":
            named = rule % ((first, other) if rule.count("%s") == 2 else first)
            text = UNHASHABLE + f"  - {{name: r{number}, {named[1:]}"
            try:
                report = check(text)
            except ProgramError:
                continue  # not every rule takes every step
            assert not {"SW902", "SW903"} & set(codes(report)), (named, report.findings)


PATTERNS = """
name: patterns
inputs: {a: {type: string, pattern: "^a"}}
tools:
  pay: {effect: write, idempotent: true, args: {}}
  log: {effect: write, idempotent: true, args: {x: {type: string, pattern: "^b"}}}
guardrails: [{name: logged, followed_by: {first: {tool: pay}, then: {tool: log}}}]
steps:
  - {id: pay, type: tool, tool: pay}
  - {id: log, type: tool, tool: log, args: {x: $a}, on_error: skip}
"""


def test_a_language_by_which_any_pattern_implies_any_other_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second checker took that from the language once, and accepted what followed."""
    assert not [one for one in check(PATTERNS).properties if one.verdict is Verdict.PROVED]
    monkeypatch.setattr(given_types, "implies", careless_patterns)
    alone = check(PATTERNS, recheck=False)
    assert [one.verdict for one in alone.properties] == [Verdict.PROVED], "the mistake makes a false proof"
    report = check(PATTERNS)
    assert [one.verdict for one in report.properties] == [Verdict.UNKNOWN]
    assert "SW902" in codes(report)


@pytest.mark.slow
def test_most_mistakes_of_the_engine_prove_something_false() -> None:
    """Else nothing would be seen of the second checker there."""
    found = []
    chosen = by_day(MISTAKES.items(), 3)
    for name, mistake in chosen:
        with pytest.MonkeyPatch.context() as patch:
            if mistake.layer:
                only(patch, mistake.layer)
            mistake.plant(patch)
            if any(false_proofs(seed, recheck=False) for seed in SEEDS[name]):
                found.append(name)
    print(f"{len(found)} of {len(chosen)} planted mistakes prove something false")
    assert len(found) >= len(chosen) // 2


@pytest.mark.parametrize("first", [1, 3])
def test_a_condition_about_the_arguments_of_two_calls_is_asked_again_where_the_second_starts(first: int) -> None:
    """At the first call its answer says nothing of the input, of which the second one has the value as an argument."""
    pay = {"effect": "write", "idempotent": False, "args": {"x": {"type": "integer"}}}
    data = {
        "name": "p",
        "inputs": {"m": {"type": "integer", "minimum": 0, "maximum": 2}},
        "tools": {"pay": pay},
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "$args.x == 0 and $m != 0"}],
        "steps": [
            {"id": "one", "type": "tool", "tool": "pay", "args": {"x": first}},
            {"id": "other", "type": "tool", "tool": "pay", "args": {"x": "$m"}},
        ],
    }
    (found,) = ProgramValidator(Program.from_dict(data)).validate().properties
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)
