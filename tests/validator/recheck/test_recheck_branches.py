"""Wrong joins of siblings and a forgotten failure, planted in the engine: the second checker refuses their proofs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from stepward.validator import Verdict
from stepward.validator.analysis import siblings
from stepward.validator.analysis.bodies import Bodies
from stepward.validator.analysis.monitors import RuleMonitor
from stepward.validator.analysis.siblings import DebtMonitor, GuardMonitor
from stepward.validator.engine import guardrails
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.findings import Property
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.claims import watcher
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.search import refuted
from stepward.validator.recheck.walking import explored
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program

TOOLS: dict[str, Any] = {
    "approve": {"effect": "read"},
    "look": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True},
}
APPROVED = {"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}
NOTED = {"name": "r", "protects": {"tool": "pay"}, "requires": {"step": "ok"}}
ONCE = {"name": "r", "at_most_once": {"tool": "pay"}}
EITHER = {"name": "r", "exclusive": [{"tool": "pay"}, {"tool": "look"}]}


def call(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **more}


def judged(rule: dict[str, Any], first: list[Any], second: list[Any], *after: Any, needs: bool = False) -> Property:
    branches: dict[str, Any] = {"a": {"steps": first}, "b": {"steps": second}}
    branches["b"] |= {"depends_on": ["a"]} if needs else {}
    steps = [{"id": "p", "type": "parallel", "branches": branches}, *after]
    data = {"name": "t", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "steps": steps}
    (found,) = ProgramValidator(Program.from_dict(data)).validate().properties
    return found


def test_each_kind_of_rule_is_proved_or_broken_as_siblings_join() -> None:
    """The founding cases: approval and payment side by side, one behind the other, and two payments."""
    approve, pay = [call("ok", "approve")], [call("paid", "pay")]
    assert judged(APPROVED, approve, pay).verdict is Verdict.VIOLATED
    behind = judged(APPROVED, approve, pay, needs=True)
    assert (behind.verdict, behind.rechecked) == (Verdict.PROVED, True)
    assert judged(APPROVED, approve, [call("seen", "look")], call("paid", "pay")).verdict is Verdict.PROVED
    assert judged(ONCE, [call("once", "pay")], pay).verdict is Verdict.VIOLATED
    assert judged(ONCE, [call("seen", "look"), call("late", "pay")], pay).verdict is Verdict.VIOLATED
    assert judged(ONCE, approve, pay).verdict is Verdict.PROVED
    assert judged(EITHER, [call("seen", "look")], pay).verdict is Verdict.VIOLATED
    assert judged({"name": "r", "never": {"tool": "pay"}}, approve, pay).verdict is Verdict.VIOLATED


FOLLOWED = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}


@pytest.mark.parametrize("ends", [None, "success", "any"])
def test_what_follows_is_decided_as_siblings_join(ends: str | None) -> None:
    """A Q in a sibling does not follow; one later in the branch, in one behind it, or behind the join does."""
    rule = FOLLOWED | ({} if ends is None else {"ends": ends})
    pay, look, other = call("paid", "pay"), call("seen", "look"), call("ok", "approve", on_error="skip")
    is_any = ends == "any"
    assert judged(rule, [pay], [look]).verdict is Verdict.VIOLATED
    behind = judged(rule, [pay], [look], needs=True)
    assert (behind.verdict, behind.rechecked) == (Verdict.PROVED, True)
    later = judged(rule, [pay, look], [other])
    assert later.verdict is (Verdict.VIOLATED if is_any else Verdict.PROVED)
    assert judged(rule, [other], [other | {"id": "k"}], pay, look).verdict is Verdict.PROVED
    late = judged(rule, [pay | {"on_error": "skip"}], [other], look)
    assert late.verdict is (Verdict.VIOLATED if is_any else Verdict.PROVED)


@pytest.mark.parametrize("ends", [None, "any"])
def test_a_debt_from_before_is_paid_in_any_branch(ends: str | None) -> None:
    found = before_fork([call("seen", "look")], [call("ok", "approve")], ends)
    assert found.verdict is (Verdict.VIOLATED if ends else Verdict.PROVED), "before the fork a run may be cancelled"
    assert before_fork([call("k", "approve")], [call("ok", "approve")], ends).verdict is Verdict.VIOLATED


def before_fork(first: list[Any], second: list[Any], ends: str | None) -> Property:
    fork = {"id": "p", "type": "parallel", "branches": {"a": {"steps": first}, "b": {"steps": second}}}
    rule = FOLLOWED | ({} if ends is None else {"ends": ends})
    steps = [call("paid", "pay"), fork]
    data = {"name": "t", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "steps": steps}
    (found,) = ProgramValidator(Program.from_dict(data)).validate().properties
    return found


@pytest.mark.parametrize(
    ("when", "verdict"),
    [
        ("defined($a.output)", Verdict.PROVED),
        ("defined($a.error)", Verdict.PROVED),
        ("not defined($a.output)", Verdict.VIOLATED),
        ("$a.output == 1", Verdict.VIOLATED),
        ("defined($a.output) and $a.output == 1", Verdict.PROVED),
    ],
)
def test_the_outcome_of_a_sibling_is_undefined_in_a_branch(when: str, verdict: Verdict) -> None:
    told = [{"id": "told", "type": "end", "output": 1}]
    found = judged({"name": "r", "never": {"tool": "pay"}, "when": when}, told, [call("paid", "pay")])
    assert (found.verdict, found.rechecked) == (verdict, verdict is Verdict.PROVED)


@pytest.mark.parametrize(
    ("when", "verdict"),
    [
        ("not defined($a.output)", Verdict.PROVED),
        ("defined($a.error)", Verdict.PROVED),
        ("defined($a.output)", Verdict.VIOLATED),
    ],
)
@pytest.mark.parametrize("is_behind", [False, True])
def test_a_condition_may_read_the_outcome_of_a_branch_where_that_is_known(
    when: str, verdict: Verdict, *, is_behind: bool
) -> None:
    """In a branch that depends on it, and behind the join."""
    told = [{"id": "told", "type": "end", "output": 1}]
    rule = {"name": "r", "never": {"tool": "pay"}, "when": when}
    if is_behind:
        found = judged(rule, told, [call("seen", "look")], call("paid", "pay"))
    else:
        found = judged(rule, told, [call("paid", "pay")], needs=True)
    assert found.verdict is verdict
    assert found.rechecked or verdict is not Verdict.PROVED


def one_after_another(patch: pytest.MonkeyPatch) -> None:
    """What a sibling did counts as before."""
    real = GuardMonitor.leave

    def leave(self: Any, step: int, state: Any, *rest: Any) -> Iterable[Any]:
        return (state,) if step in self.branches else real(self, step, state, *rest)

    patch.setattr(GuardMonitor, "leave", leave)


class Forgetting(RuleMonitor):
    """Each branch begins as if no sibling had started anything: starts are joined only at the exits."""

    def leave(self, step: int, state: Any, *rest: Any) -> Iterable[Any]:
        layout = self.facts.flow.layout
        branches = {branch for fork in layout.forks.values() for branch in fork.branches}
        return (self.start(),) if step in branches else super().leave(step, state, *rest)

    @property
    def watched(self) -> Any:
        return None

    @watched.setter
    def watched(self, value: Any) -> None:
        del value


def only_at_exits(patch: pytest.MonkeyPatch) -> None:
    def monitor_of(rule: Any, analyses: Any, *, doubtless: bool = False, owner: int | None = None) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(siblings, "RuleMonitor", Forgetting)
            return siblings.monitor_of(rule, analyses, doubtless=doubtless, owner=owner)

    patch.setattr(guardrails, "monitor_of", monitor_of)


def sees_siblings(patch: pytest.MonkeyPatch) -> None:
    """A condition sees what a sibling has come to."""
    patch.setattr(guardrails, "as_seen", lambda facts, tree, step: tree)
    patch.setattr(guardrails, "is_unseen", lambda facts, names, step: False)


def any_sibling_pays(patch: pytest.MonkeyPatch) -> None:
    """A Q pays what siblings owe that have ended."""
    patch.setattr(DebtMonitor, "paid_at", lambda self, step: range(self.count))


def forgets_branches(patch: pytest.MonkeyPatch) -> None:
    """What a branch owes is forgotten at its end."""
    real = DebtMonitor._brought_together

    def together(self: Any, step: int, debts: Any, transition: Any) -> list[int]:
        return real(self, step, (0,) * self.count if step in self.stages else debts, transition)

    patch.setattr(DebtMonitor, "_brought_together", together)


def any_ending_is_in_order(patch: pytest.MonkeyPatch) -> None:
    """No run is cancelled in a sibling."""
    patch.setattr(DebtMonitor, "rival", lambda *_: None)


SURE = {"id": "seen", "type": "tool", "tool": "look", "on_error": "skip"}
SET = {"id": "noted", "type": "set", "set": {"v": 1}}
SEEN = {"name": "r", "never": {"tool": "pay"}, "when": "not defined($a.output)"}


@pytest.mark.parametrize(
    ("mistake", "rule", "first", "second"),
    [
        (sees_siblings, SEEN, [{"id": "told", "type": "end", "output": 1}], [call("paid", "pay")]),
        (any_sibling_pays, FOLLOWED, [call("paid", "pay")], [SURE]),
        (forgets_branches, FOLLOWED, [call("paid", "pay")], [call("ok", "approve")]),
        (any_ending_is_in_order, {**FOLLOWED, "ends": "any"}, [call("paid", "pay"), call("seen", "look")], [SET]),
        (one_after_another, NOTED, [{"id": "ok", "type": "set", "set": {"v": 1}}], [call("paid", "pay")]),
        (only_at_exits, ONCE, [call("once", "pay")], [call("paid", "pay")]),
        (only_at_exits, EITHER, [call("seen", "look")], [call("paid", "pay")]),
    ],
)
def test_a_wrong_join_gives_no_proof(
    mistake: Any, rule: dict[str, Any], first: list[Any], second: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    found = judged(rule, first, second)
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


@pytest.mark.parametrize("needs", [False, True])
def test_a_search_goes_on_behind_branches_that_succeed(*, needs: bool) -> None:
    """A payment in a branch that depends on another one, and one behind the join, are places that runs get to."""
    second = {"steps": [call("paid", "pay")]} | ({"depends_on": ["a"]} if needs else {})
    steps = [
        {"id": "p", "type": "parallel", "branches": {"a": {"steps": [call("ok", "approve")]}, "b": second}},
        call("last", "pay"),
    ]
    rule = {"name": "r", "never": {"tool": "pay"}}
    data = {"name": "t", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "steps": steps}
    reading = Reading(Program.from_dict(data), (), UNLIMITED)
    broken = explored(reading, watcher(Claim("never", "r", None, number=1), reading))
    assert {reading.steps[step].id for step, _ in broken} == {"paid", "last"}


def a_list_always_fits(patch: pytest.MonkeyPatch) -> None:
    """No list is longer than `max_items`, so that a for_each step never fails before its start."""
    patch.setattr(Bodies, "list_fits", lambda self, number: True)


def test_a_proof_that_forgets_the_failure_of_a_long_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = longer(2)
    assert (fits.verdict, fits.rechecked) == (Verdict.PROVED, True)
    assert longer(3).verdict is not Verdict.PROVED
    a_list_always_fits(monkeypatch)
    found = longer(3)
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


def longer(most: int) -> Property:
    """Judge a payment that only an `error_step` reaches: a list has up to `most` items, and the step takes two."""
    each = {"id": "e", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, "error_step": "paid"}
    look = {"id": "n", "type": "set", "set": {"v": 1}}
    data = {
        "name": "t",
        "language": 2,
        "inputs": {"l": {"type": "array", "maxItems": most}},
        "tools": TOOLS,
        "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
        "steps": [each | {"steps": [look]}, {"id": "z", "type": "end"}, call("paid", "pay")],
    }
    (found,) = ProgramValidator(Program.from_dict(data)).validate().properties
    return found


@pytest.mark.parametrize(("ends_as", "verdict"), [("failure", Verdict.PROVED), ("success", Verdict.VIOLATED)])
def test_which_branches_fail_decides_a_rule_where_a_list_has_too_many_values(ends_as: str, verdict: Verdict) -> None:
    """The engine's formulas know it without a solver, and the second checker has to see it in the states."""
    tell = [
        {"id": "asks", "type": "condition", "condition": "$blocked", "then": "no", "otherwise": "told"},
        {"id": "told", "type": "tool", "tool": "notify", "is_terminal": True},
        {"id": "no", "type": "end", "outcome": ends_as},
    ]
    listed = {"type": "array", "items": {"type": "integer"}, "maxItems": 20}
    data = {
        "name": "p",
        "language": 2,
        "inputs": {"sku": {"type": "integer"}, "blocked": {"type": "boolean"}, "known": listed},
        "tools": {"pay": {"effect": "write", "idempotent": True}, "notify": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "notify"}}}],
        "steps": [
            {"id": "is_known", "type": "condition", "condition": "$sku in $known", "then": "paid", "otherwise": "bad"},
            {"id": "paid", "type": "tool", "tool": "pay", "error_step": "bad", "next_step": "both"},
            {"id": "both", "type": "parallel", "branches": {"tell": {"steps": tell}}, "error_step": "bad"}
            | {"is_terminal": True},
            {"id": "bad", "type": "end", "outcome": "failure"},
        ],
    }
    data["guardrails"][0]["ends"] = "success"  # type: ignore[index]
    (found,) = [one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.rule == "r"]
    assert (found.verdict, found.rechecked is True) == (verdict, verdict is Verdict.PROVED)


def test_a_branch_that_always_fails_keeps_a_run_from_what_follows() -> None:
    """A search of single values must not take the join for a success: it refuted a proof that was right."""
    never = [
        {"id": "first", "type": "condition", "condition": "$e == 'a'", "then": "no", "otherwise": "second"},
        {"id": "second", "type": "condition", "condition": "$e == 'a'", "then": "yes", "otherwise": "no"},
        {"id": "yes", "type": "end"},
        {"id": "no", "type": "end", "outcome": "failure"},
    ]
    branches = {"a": {"steps": never}, "b": {"steps": [{"id": "e", "type": "end"}]}}
    data = {
        "name": "p",
        "language": 2,
        "inputs": {"e": {"enum": ["a", "b"]}},
        "tools": {"pay": {"effect": "write", "idempotent": True}, "look": {"effect": "read"}},
        "guardrails": [{"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "look"}}],
        "steps": [
            {"id": "both", "type": "parallel", "branches": branches},
            call("p", "pay"),
        ],
    }
    reading = Reading(Program.from_dict(data), ())
    assert not refuted(reading, watcher(Claim("requires", "r", None, None, 1), reading))


def test_followed_by_does_not_concern_items_that_no_path_reaches() -> None:
    """What follows before any end is checked beside no other item; here none runs."""
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "x", "max_items": 2, "max_concurrency": 2}
    data = {
        "name": "p",
        "language": 2,
        "inputs": {},
        "tools": TOOLS,
        "guardrails": [
            {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}, "ends": "any"}
        ],
        "steps": [{"id": "done", "type": "end"}, {**each, "steps": [call("inner", "pay")]}, call("last", "look")],
    }
    reading = Reading(Program.from_dict(data), ())
    assert not explored(reading, watcher(Claim("followed_by", "r", None, None, 1), reading))
