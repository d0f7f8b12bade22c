"""Fast: single questions of conditions: what is unknown, which state is shown, which need no solver."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from condition_lists import (
    FEW,
    MANY,
    cases_of,
    lists,
    many_atom,
)
from paths import BAD
from sizes import by_day
from stepward.validator import ProgramValidator
from stepward.validator.engine.smt import solver
from stepward.validator.engine.values.domains import Domain, Domains, Range
from stepward.validator.findings import Verdict
from stepward.vm import Meaning, Program

PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN


def test_a_value_that_has_no_finite_decimal_is_no_witness() -> None:
    cases = cases_of(MANY, ["$a * 3 != 1"])
    assert cases.covered().verdict is UNKNOWN


def test_products_of_two_names_are_unknown_or_right() -> None:
    assert cases_of(MANY, ["$a * $a >= 0"]).covered().verdict in (PROVED, UNKNOWN)
    assert cases_of(MANY, ["$a * $b * $a * $b * $a != 7919"]).covered().verdict is not PROVED


def test_work_that_runs_out_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MAX_UNITS", 10)
    answer = cases_of(MANY, ["$a + $b < 1", "$b + $a >= 1"]).covered()
    assert answer.verdict is UNKNOWN
    assert answer.reason


def test_twenty_runs_say_the_same() -> None:
    for conditions in itertools.islice(lists(8, 5, many_atom), 5):
        runs = [cases_of(MANY, conditions) for _ in range(20)]
        assert len({str((cases.covered(), cases.exclusive())) for cases in runs}) == 1, conditions


@pytest.mark.parametrize("count", [100, 200])
@pytest.mark.parametrize(
    ("inputs", "write", "end"),
    [
        ({"a": {"type": "number", "minimum": 0}}, "$a >= {0} and $a < {1}", "$a >= {0}"),
        ({"e": {"type": "integer"}}, "$e == {0}", "$e < 0 or $e >= {0}"),
        ({"a": {"type": "number"}}, "$a + $a >= {0} and $a + $a < {1}", "$a + $a >= {0} or $a < 0"),
    ],
    ids=["bands", "members", "sums"],
)
def test_long_lists_of_cases_are_decided(count: int, inputs: dict[str, Any], write: str, end: str) -> None:
    conditions = [write.format(number, number + 1) for number in range(count)]
    whole = cases_of(inputs, [*conditions, end.format(count)])
    assert whole.covered().verdict is PROVED
    assert whole.exclusive().verdict is PROVED
    assert not any(whole.never_taken(number) for number in range(0, count, 50))
    broken = cases_of(inputs, [*conditions[:40], *conditions[41:], end.format(count)])
    answer = broken.covered()
    assert answer.verdict is (UNKNOWN if broken.finite is None else VIOLATED)
    assert (answer.state is None) is (broken.finite is None)


def test_simple_states_are_shown() -> None:
    assert cases_of(MANY, ["$a < 20", "$a > 20"]).covered().state == {("a",): 20}
    assert cases_of(MANY, ["$a <= 100"]).covered().state == {("a",): 101}
    assert cases_of(MANY, ["$s != ''"]).covered().state == {("s",): ""}
    assert cases_of(FEW, ["$e == 'x'", "$e == 'xy'"]).covered().state == {("e",): "z"}
    assert cases_of(MANY, ["$c > 1", "$c <= 1"]).covered().verdict is PROVED  # null fails, and fails is not uncovered


def test_a_name_that_two_cases_do_not_read_is_not_reported_as_undefined() -> None:
    inputs = {
        "n": {"type": "integer"},
        "t": {"type": "string"},
        "o": {"type": "object", "properties": {"f": {"type": "boolean"}}, "required": ["f"]},
    }
    conditions = ["$n >= 3 and $n <= 6", "$n == 6", "$t == 'é' and $n > 6 and $o.f"]
    choice: dict[str, Any] = {"id": "c", "type": "condition", "exclusive": True, "otherwise": "e"}
    choice["cases"] = [{"when": one, "then": "e"} for one in conditions]
    data = {"inputs": inputs, "steps": [choice, {"id": "e", "type": "end"}]}
    report = ProgramValidator(Program.from_dict(data)).validate()
    (found,) = [finding.message for finding in report.findings if finding.code == "SW305"]
    assert found == "case 1 and case 2 of `c` both hold when `$n` is 6"


def test_domains_join_what_several_sources_give() -> None:
    low, high = Domain(ranges=(Range(0, 1),)), Domain(texts=("a", "abc"), undefined=True)
    both = low | high
    assert both.allows(1)
    assert both.allows("abc")
    assert not both.allows(2)
    assert not both.allows(None)
    assert both.undefined
    assert (high | Domain(any_text=True, max_length=2)).max_length == 3


def test_a_set_name_has_the_values_of_its_expression() -> None:
    steps = [
        {"id": "one", "type": "set", "set": {"rate": 2.5, "word": "'ja'", "same": "$n", "sum": "$n + 1"}},
        {"id": "end", "type": "end"},
    ]
    domains = Domains(Meaning(Program.from_dict({"inputs": FEW, "steps": steps})))
    assert domains.of(("rate",)).ranges == (Range(Decimal("2.5"), Decimal("2.5")),)
    assert domains.of(("word",)).texts == ("ja",)
    assert domains.of(("same",)).ranges == (Range(0, 3, integral=True),)
    assert domains.of(("sum",)).ranges == (Range(),)


NEEDS_A_FORMULA = {
    "failed_payment_recovery",
    "loan_decision",
    "price_update",
    "record_cleanup",
    "refund_order_lines",
    "team_budget",
}
"""Good programs with a guardrail that hangs on arithmetic."""


def test_no_good_program_needs_a_solver_but_for_arithmetic() -> None:
    """By day a third of them is checked."""
    paths = by_day(sorted((BAD.parent / "good").iterdir()), 3)
    are_checked_without_z3(*(path for path in paths if path.stem not in NEEDS_A_FORMULA))


def test_many_cases_over_a_sum_need_no_solver(tmp_path: Path) -> None:
    bands = ["$a - $b + $c < 1", *(f"$a - $b + $c >= {one} and $a - $b + $c < {one + 1}" for one in range(1, 60))]
    steps = [
        {
            "id": "by_sum",
            "type": "condition",
            "exclusive": True,
            "cases": [{"when": band, "then": "stop"} for band in [*bands, "$a - $b + $c >= 60"]],
        },
        {"id": "stop", "type": "end"},
    ]
    inputs = {name: {"type": "number", "minimum": 0, "maximum": 1000} for name in "abc"}
    (tmp_path / "sums.json").write_text(json.dumps({"name": "sums", "inputs": inputs, "steps": steps}))
    are_checked_without_z3(tmp_path / "sums.json", options=["--no-recheck"])  # a certificate of sums is a formula


def are_checked_without_z3(*paths: Path, options: Sequence[str] = ()) -> None:
    files = [*options, *(str(path) for path in paths)]
    code = f"""
import sys
from stepward.validator.cli import main
try:
    main(["check", "--isolated", "--no-cache", *{files!r}], standalone_mode=False)
except SystemExit as end:
    assert not end.code
assert "z3" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
