"""Small programs with for_each steps: what the checker says is held against every run, and runs of the machine.

`STEPWARD_BODIED=1000` tries that many.
"""

from __future__ import annotations

from typing import Any

import pytest

from bodied_programs import bodied_program
from brute_force import truth
from comparing import checked, checked_with_dead, compare
from sizes import asked_for
from small_runs import contradictions
from stepward.validator import Verdict
from stepward.validator.findings import Evidence, Property

CHUNK = 5
CHUNKS = max(1, asked_for("STEPWARD_BODIED", 5, 10) // CHUNK)


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(CHUNKS)])
def test_small_programs_with_bodies_agree_with_every_run(chunk: int) -> None:
    wrong: dict[int, list[str]] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        data = bodied_program(number)
        report, dead = checked_with_dead(data)
        found = compare(data, lambda _, report=report: report, is_rechecked=True, dead=dead)  # type: ignore[misc]
        said = found.wrong + contradictions(data, report.properties, dead, number, runs=20)
        if said:
            wrong[number] = said
    assert not wrong


def test_random_runs_break_what_is_violated() -> None:
    """The judge of runs sees rules broken, in bodies and around them, and no rule that always holds."""
    seen: set[str] = set()
    for number in range(12):
        data = bodied_program(number)
        places = truth(data).broken
        called = [Property("", rule, Verdict.PROVED, Evidence("none")) for rule in places]
        broken = {text.split(": ")[1].split(" ")[0] for text in contradictions(data, called, set(), number, runs=10)}
        assert broken <= {rule for rule in places if places[rule]}
        seen |= {"body" if rule in _of_bodies(data) else "around" for rule in broken}
    assert seen == {"body", "around"}


def _of_bodies(data: dict[str, Any]) -> set[str]:
    return {rule["name"] for step in data["steps"] for rule in step.get("guardrails", ())}


# -- by hand -----------------------------------------------------------------------------------------------------------

LIST = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 2}, "maxItems": 2}
TOOLS: dict[str, Any] = {"pay": {"effect": "write", "idempotent": True}}


def program(*steps: dict[str, Any], **rule: Any) -> dict[str, Any]:
    rules = [{"name": "r", **rule}]
    found = {"name": "t", "language": 2, "inputs": {"l": LIST}, "tools": TOOLS, "guardrails": rules}
    return {**found, "steps": list(steps)}


def each(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, "steps": list(steps), **more}


def verdict(data: dict[str, Any]) -> tuple[Verdict, bool]:
    (found,) = [one for one in checked(data).properties if one.rule == "r"]
    assert found.rechecked is (found.verdict is Verdict.PROVED)
    return found.verdict, bool(truth(data).broken["r"])


PAY = {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True}
END = {"id": "z", "type": "end"}
BAD = {"id": "bad", "type": "end", "outcome": "failure"}


@pytest.mark.parametrize(("first", "asked", "set_to"), [("false", "$f", "true"), (0, "$f > 0", "1")])
def test_a_variable_falls_back_to_what_an_earlier_item_gave_it(first: Any, asked: str, set_to: str) -> None:
    """The first item succeeds and sets it; the second one fails, and leaves it so."""
    body = (
        {"id": "c", "type": "condition", "condition": asked, "then": "m", "otherwise": "s"},
        {"id": "s", "type": "set", "set": {"f": set_to}, "is_terminal": True},
        {"id": "m", "type": "set", "set": {"y": 1}, "next_step": "bad"},
        BAD,
    )
    after = {"id": "after", "type": "condition", "condition": asked, "then": "p", "otherwise": "z"}
    steps = (each(*body, carry={"f": first}, on_item_error="skip", next_step="after"), after, PAY, END)
    assert verdict(program(*steps, exclusive=[{"step": "m"}, {"step": "p"}])) == (Verdict.VIOLATED, True)


def test_a_rule_of_a_body_speaks_of_no_step_outside() -> None:
    """The rule reads the item, which is undefined outside, and selects by effect, as the step before does."""
    before = {"id": "q", "type": "tool", "tool": "pay"}
    rule = {"name": "r", "never": {"effect": "write"}, "when": "$x > 5"}
    data = program(before, each({**PAY, "id": "b"}, guardrails=[rule]), END, never={"step": "p"})
    data["guardrails"] = []
    assert verdict(data) == (Verdict.PROVED, False)


@pytest.mark.parametrize(
    ("first", "is_read"), [("not $g and $q.output", False), ("$g or $q.output", False), ("$q.output or $g", True)]
)
def test_what_items_carry_on_first_is_read_only_as_far_as_it_has_to_be(first: str, *, is_read: bool) -> None:
    """Without the question its answer is undefined: the step fails if it reads it."""
    data = program(
        {"id": "c", "type": "condition", "condition": "$g", "then": "each", "otherwise": "q"},
        {"id": "q", "type": "tool", "tool": "ask", "next_step": "each"},
        each({"id": "s", "type": "set", "set": {"f": "true"}}, carry={"f": first}, next_step="p"),
        PAY,
        protects={"step": "p"},
        requires={"step": "q"},
    )
    data["inputs"] = {**data["inputs"], "g": {"type": "boolean"}}
    assert verdict(data) == ((Verdict.PROVED, False) if is_read else (Verdict.VIOLATED, True))


ENDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "items are skipped": {"on_item_error": "skip"},
    "tried again": {"on_error": "retry", "max_retries": 2},
    "with a variable": {"output_key": "w"},
}
ASKED = {
    "$f": "at the end",
    "$f and $came == false": "between items",
    "$x >= 0": "between items",
    "defined($each.output) or true": "at the end",
    "true": "never",
}
"""Conditions of a body, and when what they read is assigned; what items carry on is so where the step ends, too."""


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_branch_of_a_body_goes_stale_where_what_it_reads_is_assigned(is_inside: bool, asked: str, ends: str) -> None:
    """The payment stands behind the step, or in an item after the one that asked."""
    came = {"type": "condition", "condition": "$came", "then": "p"}
    body: list[dict[str, Any]] = [
        {"id": "c", "type": "condition", "condition": asked, "then": "s", "otherwise": "bad"},
        {"id": "s", "type": "set", "set": {"came": "true"}, "is_terminal": True},
        BAD,
    ]
    body = [{"id": "go", **came, "otherwise": "c"}, PAY, *body] if is_inside else body
    behind = () if is_inside else ({"id": "go", **came, "otherwise": "z"}, PAY)
    step = each(*body, carry={"f": True, "came": False}, next_step="z" if is_inside else "go", **ENDS[ends])
    data = program(step, *behind, END, protects={"step": "p"}, requires={"step": "c", "branch": "then"})
    is_stale = ASKED[asked] in (("between items",) if is_inside else ("between items", "at the end"))
    assert verdict(data) == (Verdict.VIOLATED if is_stale else Verdict.PROVED, is_stale)


@pytest.mark.parametrize("key", ["v", "w"])
def test_a_branch_goes_stale_where_its_parallel_step_gives_the_variable_that_it_reads(key: str) -> None:
    steps: list[dict[str, Any]] = [
        {"id": "c", "type": "condition", "condition": "$v", "then": "e", "otherwise": "bad"},
        {"id": "e", "type": "end"},
        BAD,
    ]
    both = {"id": "both", "type": "parallel", "branches": {"m": {"steps": steps}}, "output_key": key}
    first = {"id": "first", "type": "set", "set": {"v": True}}
    data = program(first, both, PAY, protects={"step": "p"}, requires={"step": "c", "branch": "then"})
    (found,) = [one for one in checked(data).properties if one.rule == "r"]
    assert (found.verdict, found.rechecked) == ((Verdict.VIOLATED, False) if key == "v" else (Verdict.PROVED, True))


LISTS: dict[str, tuple[Any, int, int]] = {
    "one written": ([0], 2, 1),
    "two written": ([0, 1], 2, 2),
    "five written": ([0, 1, 2, 0, 1], 9, 5),
    "none written": ([], 2, 0),
    "none or more": ("$l", 2, 0),
    "one or more": ("$l", 2, 1),
    "two or more": ("$l", 2, 2),
    "one or more of many": ("$l", 9, 1),
    "a copy of one or more": ("$m", 2, 1),
    "a copy of none or more": ("$m", 2, 0),
}
"""What a step takes items of, its `max_items`, and how many items there are at least."""

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "items are skipped": {"on_item_error": "skip"},
    "tried again": {"on_error": "retry", "max_retries": 2},
    "skipped": {"on_error": "skip"},
    "at once": {"max_concurrency": 2},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("items", LISTS)
@pytest.mark.parametrize("fails", [True, False])
def test_what_stands_behind_items_is_decided_by_how_many_there_are(fails: bool, items: str, way: str) -> None:
    """A body that always fails, or one whose payment what comes behind needs."""
    listed, most, least = LISTS[items]
    look = {"id": "look", "type": "tool", "tool": "look"}
    paid = {"id": "p", "type": "tool", "tool": "pay", "next_step": "bad" if fails else "done"}
    step = each(paid, BAD if fails else {"id": "done", "type": "end"}, items=listed, max_items=most, **WAYS[way])
    copy = {"id": "copy", "type": "set", "set": {"m": "$l"}}
    rule = {"never": {"step": "look"}} if fails else {"protects": {"step": "look"}, "requires": {"step": "p"}}
    data = program(copy, step, look, **rule)
    data["inputs"] = {"l": {**LIST, "minItems": least if least < 3 else 0}}
    data["tools"] = {**TOOLS, "look": {"effect": "read"}}
    is_passed = WAYS[way].keys() & {"on_error", "on_item_error"} and way != "tried again"
    is_kept = least > 0 and not is_passed
    (found,) = [one for one in checked(data).properties if one.rule == "r"]
    assert (found.verdict, found.rechecked) == (Verdict.PROVED if is_kept else Verdict.VIOLATED, is_kept)
    if way != "at once":
        assert bool(truth(data).broken["r"]) is not is_kept


USED_UP: dict[str, dict[str, Any]] = {
    "in each round": {"on_error": "retry", "max_retries": 2, "error_step": "p"},
    "in each round at once": {"on_error": "retry", "max_retries": 2, "error_step": "p", "max_concurrency": 2},
    "in each item": {"on_item_error": "skip", "next_step": "p"},
}


@pytest.mark.parametrize("call", [{}, {"on_error": "skip"}])
@pytest.mark.parametrize("way", USED_UP)
def test_a_run_in_which_items_use_up_the_visits_of_a_step_is_shown(way: str, call: dict[str, Any]) -> None:
    """A visit too many calls nothing, and so it counts for no answer of a later item."""
    looks = {"id": "a", "type": "tool", "tool": "look", "next_step": "a", "max_visits": 2, **call}
    step = each(looks, items=[1, 2], **USED_UP[way])
    data = program(step, {**END, "id": "c"}, PAY, exclusive=[{"step": "a"}, {"step": "p"}])
    data["tools"] = {**TOOLS, "look": {"effect": "read"}}
    (found,) = [one for one in checked(data).properties if one.rule == "r"]
    assert (found.verdict, found.evidence.witness is not None) == (Verdict.VIOLATED, True)


def test_drawn_programs_ask_of_every_kind() -> None:
    """The generator makes broken and kept rules of each kind, in bodies and around them."""
    missing = {(is_of_a_body, is_broken) for is_of_a_body in (True, False) for is_broken in (True, False)}
    for number in range(12):
        broken = truth(bodied_program(number)).broken
        missing -= {(rule.startswith("body"), bool(is_broken)) for rule, is_broken in broken.items()}
        if not missing:
            return
    raise AssertionError(missing)


ITEM = {"items": ["$n"], "as": "x", "max_items": 1}
WITHIN: dict[str, dict[str, Any]] = {
    "an item": {"type": "for_each", **ITEM},
    "an item that is skipped": {"type": "for_each", **ITEM, "on_item_error": "skip"},
    "items at once": {"type": "for_each", **ITEM, "max_concurrency": 2, "on_item_error": "skip"},
    "a branch": {"type": "parallel"},
    "a branch before one that calls": {"type": "parallel"},
    "a branch behind one that calls": {"type": "parallel"},
    "an item before a branch that calls": {"type": "parallel"},
    "an item behind a branch that calls": {"type": "parallel"},
    "a call": {"type": "call", "program": "p", "args": {"n": "$n"}},
    "a call that is skipped": {"type": "call", "program": "p", "args": {"n": "$n"}, "on_error": "skip"},
}


def branches(kind: str, body: list[dict[str, Any]]) -> dict[str, Any]:
    steps = [{"id": "each", "type": "for_each", **ITEM, "steps": body}] if kind.startswith("an item") else body
    calls = {"steps": [{"id": "b", "type": "tool", "tool": "look"}]}
    found = {"k": calls} if "behind" in kind else {}
    found["m"] = {"steps": steps}
    return {"branches": found | ({"o": calls} if "before" in kind else {})}


@pytest.mark.parametrize("kind", WITHIN)
@pytest.mark.parametrize(("asked", "due"), [("$n > 1", Verdict.VIOLATED), ("$n >= 0", Verdict.PROVED)])
def test_a_condition_of_a_body_that_takes_no_branch_is_shown(kind: str, asked: str, due: Verdict) -> None:
    """It ends its body, and perhaps not the run; what runs beside it may call."""
    number = {"type": "integer", "minimum": 0, "maximum": 3}
    body = [{"id": "c", "type": "condition", "condition": asked, "then": "e"}, {"id": "e", "type": "end"}]
    step: dict[str, Any] = {"id": "both", **WITHIN[kind]}
    data: dict[str, Any] = {"name": "t", "language": 2, "inputs": {"n": number}, "steps": [step, {**END, "id": "z"}]}
    if step["type"] == "call":
        data["programs"] = {"p": {"inputs": {"n": number}, "steps": body}}
    else:
        step |= branches(kind, body) if step["type"] == "parallel" else {"steps": body}
        data["tools"] = {"look": {"effect": "read"}}
    (found,) = [one for one in checked(data).properties if one.name == "coverage"]
    assert (found.verdict, found.rechecked) == (due, due is Verdict.PROVED)
    assert (found.evidence.witness is not None) is (due is Verdict.VIOLATED)
