"""Lisp programs at the gate: those with a planted fault and their good twins, places, comments, files and commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from guarded_lisp import RULES, guarded_program, is_proved, pays_too_much
from lisp_programs import TOOLS
from planted_lisp import Kind, policy_of, programs
from sizes import asked_for
from stepward.validator import ProgramValidator
from stepward.validator.cli import main
from stepward.validator.engine.witnesses.replay import replay
from stepward.validator.findings import Severity
from stepward.vm import Policy, Program
from stepward.vm.lisp.compiling import branching
from stepward.vm.lisp.compiling.forms import call, head_of

PLANTED = programs()
COUNT = asked_for("STEPWARD_GUARDED_LISP", 24, 400)
MAYBE = Policy.from_dict(
    {**RULES, "tools": {**TOOLS, "maybe": {"effect": "read", "returns": {"type": ["number", "null"]}}}}
)


def test_there_are_more_than_forty() -> None:
    assert len({bad for *_, bad, _ in PLANTED}) == len({good for *_, good in PLANTED}) == 48


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "around", "kind", "bad", "good"), PLANTED, ids=[" ".join(one[:2]) for one in PLANTED])
def test_a_planted_fault_is_refused_with_a_run_to_it_and_its_twin_passes(
    name: str, around: str, kind: Kind, bad: str, good: str
) -> None:
    policy = Policy.from_dict(policy_of(kind))
    report = ProgramValidator(Program.from_lisp(bad), [policy]).validate()
    (finding, *_) = [one for one in report.findings if one.code == kind.code]
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    assert replay(finding.evidence.witness).confirmed
    lines = bad.splitlines()
    shown = lines[finding.span.line - 1][finding.span.column - 1 :]
    assert shown.startswith("(tool/") or kind.code == "SW405", shown
    twin = ProgramValidator(Program.from_lisp(good), [policy]).validate()
    assert not [one for one in twin.findings if one.severity is Severity.ERROR]
    assert {one.verdict for one in twin.properties} == {"proved"}


LIMITED = Policy.from_dict(
    {
        "policy": "limited",
        "tools": {
            "size": {"effect": "read", "returns": {"type": "integer"}},
            "ask": {"effect": "read", "returns": {"type": "boolean"}},
            "pay": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer"}}},
        },
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "$args.n > 500 or $args.n < 1"}],
    }
)
GUARDED = [
    ("(<= 1 x 500)", True),
    ("(< 0 x 501)", True),
    ("(>= 500 x 1)", True),
    ("(and (tool/ask) (<= 1 x 500))", True),
    ("(not (or (< x 1) (> x 500)))", True),
    ("(<= 1 x 501)", False),
    ("(<= 0 x 500)", False),
    ("(not (<= 1 x 500))", False),
]


@pytest.mark.parametrize(("test", "is_proved"), GUARDED)
@pytest.mark.parametrize("form", ["(when TEST (tool/pay {:n x}))", "(let [ok TEST] (if ok (tool/pay {:n x}) nil))"])
def test_comparisons_of_three_values_and_named_ones_guard_a_call(test: str, is_proved: bool, form: str) -> None:
    if "ask" in test and "ok" in form:
        return  # the value of `and` is not followed
    text = f"(let [x (tool/size)] {form.replace('TEST', test)})"
    report = ProgramValidator(Program.from_lisp(text), [LIMITED]).validate()
    assert [one.verdict for one in report.properties if one.rule == "r"] == ["proved" if is_proved else "violated"]
    assert not [one for one in report.findings if one.code in ("SW901", "SW902", "SW903")]


KINDS = Policy.from_dict(
    {
        "policy": "kinds",
        "tools": {
            "kind": {"effect": "read", "returns": {"type": "string", "enum": ["a", "b"]}},
            "pay": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer"}}},
        },
    }
)


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ('(case (tool/kind) "a" (tool/pay {:n 1}) "b" (tool/pay {:n 2}))', False),
        ('(case (tool/kind) ("a" "b") (tool/pay {:n 1}))', False),
        ('(let [k (tool/kind)] (cond (= k "a") (tool/pay {:n 1}) (= k "b") (tool/pay {:n 2})))', False),
        ('(let [k (tool/kind)] (cond (= k "a") (tool/pay {:n 1}) (not= k "a") (tool/pay {:n 2})))', False),
        ('(case (tool/kind) "a" (tool/pay {:n 1}) "b" (tool/pay {:n 2}) (tool/pay {:n 3}))', True),
        ('(case (tool/kind) "a" (tool/pay {:n 1}) (tool/pay {:n 3}))', False),
        ('(let [k (tool/kind)] (cond (= k "a") (tool/pay {:n 1}) (= k "b") (tool/pay {:n 2}) :else 3))', True),
        ('(let [k (tool/kind)] (when (= k "a") (when (not= k "b") (tool/pay {:n 1}))))', True),
    ],
)
def test_clauses_for_all_values_are_no_mistake_and_one_that_is_never_for_any_is_said(text: str, is_said: bool) -> None:
    findings = ProgramValidator(Program.from_lisp(text), [KINDS]).validate().findings
    assert [one.code for one in findings] == ["SW303"] * is_said
    assert all(one.help.endswith(", or leave out the form that is never evaluated") for one in findings)


# -- files and commands ------------------------------------------------------------------------------------------------

PLAN = """
(let [total (sum-by :amount (tool/orders {:of data/customer}))]
  (when (<= total 100)
    (tool/refund {:amount total})))
"""
POLICY = """
policy: money
tools:
  orders: {effect: read, args: {of: {type: string}}, returns: {type: array}}
  refund: {effect: write, idempotent: true, args: {amount: {type: number}}, returns: {type: string}}
guardrails: [{name: small, never: {tool: refund}, when: $args.amount > 100}]
"""
SHOP = """
def orders(of): return [{"amount": 12.5}, {"amount": 30}]
def refund(amount): return f"refunded {amount}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.clj").write_text(PLAN)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def stepward(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(args))
    return done.exit_code, done.output


TESTED = [
    "(when (and x (<= x 5)) PAY)",
    "(when x (when (<= x 5) PAY))",
    "(if x (if (> x 5) 1 PAY) 2)",
    "(if-not (and x (<= x 5)) 1 PAY)",
    "(when-not (or (nil? x) (> x 5)) PAY)",
    "(when-not (or (not x) (> x 5)) PAY)",
    "(cond (nil? x) 1 (> x 5) 2 :else PAY)",
    "(and x (<= x 5) PAY)",
    "(or (not x) (> x 5) PAY)",
    "(when-let [y x] (when (<= y 5) (tool/pay {:amount y :note 1})))",
    "(if-some [y x] (when (<= y 5) (tool/pay {:amount y :note 1})) 2)",
    "(let [ok (and x (<= x 5))] (when ok PAY))",
    "(let [bad (or (nil? x) (> x 5)) fine (not bad)] (if fine PAY 1))",
    "(let [ok (and x (<= x 5))] (if (nil? x) 1 (when ok PAY)))",
    "(let [most 5] (when (and x (<= x most)) PAY))",
    "(when (fine? x 5) PAY)",
    "(let [ok (fine? x 5)] (when x (when ok PAY)))",
]
VALUES = [
    "(:amount (tool/find {:id 1}))",
    "(first (map :amount (tool/orders)))",
    "(get data/o :amount)",
    "data/n",
    "(tool/maybe)",
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", TESTED)
def test_what_runs_only_behind_a_true_value_is_guarded_by_it(form: str, value: str) -> None:
    """No run goes wrong, so nothing is said; with another bound it is."""
    paid = form.replace("PAY", "(tool/pay {:amount x :note 1})")
    text = f"(defn fine? [x most] (and (some? x) (<= x most))) (let [x {value}] {paid})"
    report = ProgramValidator(Program.from_lisp(text), [MAYBE]).validate()
    assert report.findings == ()
    assert {one.verdict for one in report.properties} == {"proved"}
    wrong = ProgramValidator(Program.from_lisp(re.sub(r" 5([)\]])", r" 6\1", text)), [MAYBE]).validate()
    assert [one.code for one in wrong.findings] == ["SW403"]


def test_random_guards_of_values_that_may_be_nil_are_proved_only_where_no_evaluation_breaks_the_rule() -> None:
    seen = Counter((is_proved(text), pays_too_much(text, 60)) for text in map(guarded_program, range(COUNT)))
    assert not seen[True, True]
    assert min(seen[True, False], seen[False, True]) > COUNT / 8


def test_a_planted_mistake_of_guards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a named `or` are asked as those of an `and`."""
    real = branching._asked_by

    def planted(*args: Any) -> Any:
        found = real(*args)
        is_or = found is not None and head_of(found.form) == "or"
        return replace(found, form=call("and", *found.form.items[1:], of=found.form)) if is_or else found

    monkeypatch.setattr(branching, "_asked_by", planted)
    texts = map(guarded_program, range(100))
    assert any(is_proved(text) and pays_too_much(text, 60) for text in texts)


def test_a_name_of_a_test_that_prints_is_not_computed_again() -> None:
    text = '(let [x data/n ok (and x (do (println "a") (< x 5)))] (when ok (tool/pay {:amount x :note 1})))'
    assert sum("println" in (getattr(step, "lisp", None) or "") for step in Program.from_lisp(text).steps) == 1


@pytest.mark.parametrize("name", ["plan.clj", "plan.ptc"])
def test_check_takes_a_lisp_file(folder: Path, name: str) -> None:
    (folder / name).write_text(PLAN)
    assert stepward("check", name, "--policy", "policy.yaml") == (0, "1 program: no findings\n")
    (folder / name).write_text(PLAN.replace("100", "1000"))
    code, said = stepward("check", name, "--policy", "policy.yaml", "--output-format", "json")
    (finding,) = json.loads(said)["findings"]
    assert code == 1
    assert (finding["code"], finding["line"]) == ("SW403", 4)


def test_a_folder_has_lisp_files_that_call_tools_and_no_others(folder: Path) -> None:
    (folder / "other.clj").write_text("(ns my.app (:require [clojure.string :as str]))")
    code, said = stepward("check", "--policy", "policy.yaml")
    assert (code, said.partition(" (")[0]) == (0, "1 program: no findings")
    code, said = stepward("check", "other.clj")
    assert code == 1
    assert "error[SW001]" in said
    assert "`ns` is not in this language" in said
    assert " --> other.clj:1:2" in said


@pytest.mark.parametrize("mark", [";; stepward: ignore[SW207] known", "; stepward: ignore[SW207] known"])
def test_an_ignore_comment_stands_behind_semicolons(folder: Path, mark: str) -> None:
    wrong = PLAN.replace("{:amount total}", '{:amount total :note "; stepward: ignore[SW207]"}')
    (folder / "plan.clj").write_text(wrong)
    assert "SW207" in stepward("check", "plan.clj", "--policy", "policy.yaml")[1]
    (folder / "plan.clj").write_text(wrong.replace("    (tool/refund", f"    {mark}\n    (tool/refund"))
    assert "SW207" not in stepward("check", "plan.clj", "--policy", "policy.yaml")[1]


def test_fix_changes_no_lisp(folder: Path) -> None:
    before = PLAN.replace("(tool/orders {:of", "(tool/orders {:off")
    (folder / "plan.clj").write_text(before)
    code, said = stepward("check", "plan.clj", "--policy", "policy.yaml", "--fix")
    assert code == 1
    assert "SW207" in said
    assert (folder / "plan.clj").read_text() == before


def test_run_graph_sabotage_and_report_take_it(folder: Path) -> None:
    code, said = stepward("run", "plan.clj", "--policy", "policy.yaml", "--tools", "shop.py", "--input", "customer=ada")
    assert code == 0, said
    assert "refunded 42.5" in said
    code, said = stepward("graph", "plan.clj", "--format", "mermaid")
    assert code == 0
    assert "sum-by" in said
    attacks = ("--attacks", "steps-at-the-edge,branch-not-taken", "--no-specimens", "--examples", "1", "--seed", "1")
    code, said = stepward("sabotage", "plan.clj", "--policy", "policy.yaml", *attacks)
    assert code == 0, said
    code, said = stepward("report", "plan.clj", "--policy", "policy.yaml", "-o", "out.html")
    assert code == 0, said
    assert "(sum-by :amount" in (folder / "out.html").read_text()
