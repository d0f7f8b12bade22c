"""Certificates that were changed, or that a broken engine has written, are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from certifying import LOAN, SEEDS, proofs, small, written, yaml_of
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.systems import moves
from stepward.validator.recheck import formulas
from stepward.validator.recheck.certificates import digest, parsed, recheck_data
from stepward.vm import Policy, Program
from stepward.vm.language import automata


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """Name the program by its new digest, as somebody would who knows how."""
    policies = tuple(Policy.from_dict(one) for one in data["policies"])
    data["digest"] = digest(Program.from_dict(data["program"]), policies)
    return data


def rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    found = data["parts"][0]["rows"]
    assert isinstance(found, list)
    return found


def drop_row(data: dict[str, Any]) -> None:
    rows(data).pop(0)


def drop_last_states(data: dict[str, Any]) -> None:
    row = next(row for row in rows(data)[::-1] if row.get("states") not in ("any", []))
    row["states"] = row["states"][1:]


def change_memory(data: dict[str, Any]) -> None:
    for row in rows(data):
        row["memory"] = [1 for _ in row["memory"]]


def forget_classes(data: dict[str, Any]) -> None:
    data["parts"][0]["references"] = []


def change_bound(data: dict[str, Any]) -> None:
    classes = data["parts"][0]["references"][0]["classes"]
    classes[0] = {"number": {"above": 1, "below": 1}}


def anything_may_be(data: dict[str, Any]) -> None:
    for row in rows(data):
        row.pop("costs", None)
        row["states"] = "any"


def cheaper(data: dict[str, Any]) -> None:
    row = next(row for row in rows(data)[1:] if "costs" in row)
    row["costs"] = [[cost + 3, states] for cost, states in row["costs"]]


def a_larger_budget(data: dict[str, Any]) -> None:
    data["program"]["max_steps"] = 500
    resealed(data)


def satisfiable(data: dict[str, Any]) -> None:
    data["parts"][0]["scripts"] = [{"shows": "all is well", "text": "(set-logic ALL)\n(assert true)\n(check-sat)\n"}]


def no_scripts(data: dict[str, Any]) -> None:
    data["parts"][0]["scripts"] = []


def a_command(data: dict[str, Any]) -> None:
    text = '(set-logic ALL)\n(echo "unsat")\n(check-sat)\n'
    data["parts"][0]["scripts"] = [{"shows": "all is well", "text": text}]


def no_parts(data: dict[str, Any]) -> None:
    data["parts"] = []


def another_program(data: dict[str, Any]) -> None:
    data["program"]["steps"] = data["program"]["steps"][::-1]


def another_rule(data: dict[str, Any]) -> None:
    data["proves"]["rule"] = "no-such-rule"


def unknown_field(data: dict[str, Any]) -> None:
    data["parts"][0]["trust_me"] = True


def later_version(data: dict[str, Any]) -> None:
    data["version"] = 2


TAMPERED: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("cut", drop_row),
    ("cut", change_memory),
    ("cut", no_parts),
    ("cut", another_program),
    ("cut", another_rule),
    ("cut", unknown_field),
    ("cut", later_version),
    ("table", drop_row),
    ("table", drop_last_states),
    ("table", forget_classes),
    ("table", change_bound),
    ("table", anything_may_be),
    ("states", drop_row),
    ("states", drop_last_states),
    ("states", anything_may_be),
    ("budget", drop_row),
    ("budget", cheaper),
    ("budget", anything_may_be),
    ("budget", a_larger_budget),
    ("formula", satisfiable),
    ("formula", no_scripts),
    ("formula", a_command),
]


@pytest.fixture(scope="module")
def accepted() -> dict[str, dict[str, Any]]:
    return {kind: written(kind) for kind in SEEDS}


@pytest.mark.parametrize(("kind", "change"), TAMPERED, ids=lambda one: getattr(one, "__name__", one))
def test_a_tampered_certificate_is_refused(
    accepted: dict[str, dict[str, Any]], kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    data = deepcopy(accepted[kind])
    change(data)
    assert not recheck_data(data).is_accepted


def loan() -> dict[str, Any]:
    return next(proofs(Program.from_dict(yaml_of(LOAN))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("$sum <= 50", "$sum <= 51"),
        ("$sum <= 50", "$sum >= 50"),
        ('$risk == \\"low\\"', '$risk != \\"low\\"'),
        ('"then": "fine"', '"then": "pay"'),
        ('"enum": ["low", "high"]', '"enum": ["low", "high", "unknown"]'),
        ("or $sum > 50", "or $sum > 49"),
    ],
)
def test_a_certificate_of_another_program_is_refused(old: str, new: str) -> None:
    data = loan()
    assert recheck_data(data).why_not == ""
    text = json.dumps(data)
    assert old in text
    changed = parsed(text.replace(old, new))
    if "unknown" in new:
        changed["program"]["steps"][2]["condition"] = '$risk != "high"'
    assert not recheck_data(resealed(changed)).is_accepted


def flipped(step: Any, way: Any, true: Callable[..., tuple[int, ...]] = moves.outcomes) -> tuple[int, ...]:
    found = true(step, way)
    if step.condition is None or way.kind != "branch":
        return found
    return (-1,) if way.branch == "then" else (0,)


def without_failures(self: Any, number: int, step: Any, ways: Any, true: Any = moves.Moves._call) -> Iterator[Any]:
    return (one for one in true(self, number, step, ways) if one.transition.kind != "failed")


MISTAKES: dict[str, tuple[Any, str, Any, range]] = {
    "a branch is flipped": (moves, "outcomes", flipped, range(12)),
    "failures are forgotten": (moves.Moves, "_call", without_failures, range(50, 60)),
    "nothing goes stale": (automata, "_stale_by", lambda guard, meaning: frozenset(), range(15, 40)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_broken_engine_proves_is_refused(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    owner, name, wrong, seeds = MISTAKES[mistake]
    true = {
        (seed, number): one.verdict
        for seed in seeds
        for number, one in enumerate(ProgramValidator(small(seed), recheck=False).validate().properties)
    }
    monkeypatch.setattr(owner, name, wrong)
    caught = 0
    for seed in seeds:
        for number, one in enumerate(ProgramValidator(small(seed), certify=True, recheck=False).validate().properties):
            if one.verdict is Verdict.PROVED and true[seed, number] is Verdict.VIOLATED:
                assert one.certify is not None
                assert not recheck_data(parsed(one.certify().to_json())).is_accepted, f"seed {seed}"
                caught += 1
    assert caught, "the mistake shows nowhere: look for other seeds"


# -- who checks --------------------------------------------------------------------------------------------------------


def test_z3_checks_formulas_where_cvc5_is_absent(
    accepted: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cvc5")
    assert "cvc5" in recheck_data(accepted["formula"]).checkers
    monkeypatch.setattr(formulas, "find_spec", lambda name: None)
    formulas.solver.cache_clear()
    try:
        found = recheck_data(accepted["formula"])
    finally:
        monkeypatch.undo()
        formulas.solver.cache_clear()
    assert found.is_accepted
    assert "z3" in found.checkers
