"""Fast: where single rules stop: what they must not say, and whose word counts where a program and a policy differ."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from machines import Bench, end, program, tool, unchecked
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.recheck.certificates import parsed, recheck_data
from stepward.vm import Meaning, ModelReply, Policy, Program, Suspend
from stepward.vm.machine.models import ModelRequest

PAY = {"id": "p", "type": "tool", "tool": "pay"}
EFFECTS = ("none", "read", "write")


def check(*steps: dict[str, Any]) -> Report:
    tools = {"pay": {"effect": "write", "idempotent": False}, "look": {"effect": "read"}}
    return ProgramValidator(Program.from_dict({"name": "p", "inputs": {}, "tools": tools, "steps": steps})).validate()


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


# -- SW503: a single attempt is no retry -------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempts", "is_retried"), [(1, False), (2, True), (3, True), (None, True)])
@pytest.mark.parametrize("is_parallel", [False, True])
def test_one_attempt_in_all_repeats_no_effect(attempts: int | None, is_retried: bool, is_parallel: bool) -> None:
    retry = {"on_error": "retry"} | ({} if attempts is None else {"max_retries": attempts})
    step = {"id": "b", "type": "parallel", "parallel_steps": [PAY], **retry} if is_parallel else PAY | retry
    assert ("SW503" in codes(check(step))) is is_retried


EACH = {"id": "each", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": [{**PAY, "id": "w"}]}
BODIES: dict[str, dict[str, Any]] = {
    "items": EACH,
    "items at once": {**EACH, "max_concurrency": 2},
    "one sub-step": {**EACH, "do": PAY, "steps": None},
    "a body within": {**EACH, "steps": [{**EACH, "id": "inner", "as": "j", "on_item_error": "skip"}]},
    "a branch within": {**EACH, "steps": [{"id": "b", "type": "parallel", "branches": {"left": {"steps": [PAY]}}}]},
    "a call": {"id": "each", "type": "call", "program": "paying"},
    "items that are skipped": {**EACH, "on_item_error": "skip"},
}


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_a_retry_of_a_step_performs_the_writes_of_its_body_again(body: str, is_idempotent: bool, attempts: int) -> None:
    step = {key: value for key, value in BODIES[body].items() if value is not None}
    data = {
        "language": 2,
        "name": "p",
        "inputs": {},
        "tools": {"pay": {"effect": "write", "idempotent": is_idempotent}},
        "programs": {"paying": {"inputs": {}, "steps": [PAY]}},
        "steps": [{**step, "on_error": "retry", "max_retries": attempts, "error_step": "z"}, end("z")],
    }
    if step["type"] != "call":
        del data["programs"]
    found = ProgramValidator(Program.from_dict(data)).validate().findings
    said = [one.message for one in found if one.code == "SW503"]
    is_repeated = attempts > 1 and body != "items that are skipped"
    assert said == ["`pay` writes in the body of `each`: a retry performs the body again"] * is_repeated


# -- SW102: who ends the run above a step that nothing reaches ---------------------------------------------------------


def test_a_step_that_never_runs_ends_no_run_above_another() -> None:
    """`second` stands below `first`, which ends runs; `third` stands below `second`, which no run gets to."""
    steps = [PAY | {"id": name, "is_terminal": True} for name in ("first", "second", "third")]
    labels = {one.step: [label.text for label in one.related] for one in check(*steps).findings if one.code == "SW102"}
    assert set(labels) == {"second", "third"}
    assert labels["second"]
    assert labels["third"] == []


# -- whose word counts -------------------------------------------------------------------------------------------------


def manifest_of(claim: dict[str, Any], *facts: dict[str, Any]) -> tuple[str, bool, bool]:
    """Return what counts for a tool of which a program claims this, and policies know that."""
    policies = [Policy.from_dict({"policy": f"p{n}", "tools": {"t": fact}}) for n, fact in enumerate(facts)]
    steps = [{"id": "a", "type": "tool", "tool": "t"}]
    spec = Meaning(Program.from_dict({"name": "p", "tools": {"t": claim}, "steps": steps}), policies).tool("t")
    return spec.effect, spec.idempotent, spec.suspends


def every_claim() -> list[dict[str, Any]]:
    choices = [(name, values) for name, values in (
        ("effect", (None, *EFFECTS)), ("idempotent", (None, False, True)), ("suspends", (None, False, True))
    )]  # fmt: skip
    names = [name for name, _ in choices]
    every = itertools.product(*(values for _, values in choices))
    return [{name: value for name, value in zip(names, one, strict=True) if value is not None} for one in every]


def worse(left: dict[str, Any], right: dict[str, Any]) -> tuple[str, bool, bool]:
    """Return the worse word of two, by the language's page: what nobody says is a write, not idempotent, no waiting."""
    effects = [one["effect"] for one in (left, right) if "effect" in one]
    keys = [one["idempotent"] for one in (left, right) if "idempotent" in one]
    waits = [one["suspends"] for one in (left, right) if "suspends" in one]
    return max(effects, key=EFFECTS.index, default="write"), bool(keys) and all(keys), any(waits)


def test_the_worse_word_counts_of_a_program_and_a_policy() -> None:
    for claim, fact in itertools.product(every_claim(), repeat=2):
        assert manifest_of(claim, fact) == worse(claim, fact), (claim, fact)


def test_the_worse_word_counts_of_two_policies() -> None:
    for left, right in itertools.product(every_claim()[::3], repeat=2):
        both = {"effect": "none", "idempotent": True, "suspends": False}
        expected = worse(dict(zip(("effect", "idempotent", "suspends"), worse(left, right), strict=True)), both)
        told = {name: value for one in (left, right) for name, value in one.items()}
        if set(told) == set(both):  # what neither says is the program's to say
            assert manifest_of(both, left, right) == expected, (left, right)


@pytest.mark.parametrize("claims", [True, False, None])
@pytest.mark.parametrize("knows", [True, False, None])
def test_a_tool_may_suspend_where_the_program_or_a_policy_says_so(claims: bool | None, knows: bool | None) -> None:
    """A program can't take back what a policy knows: a run that the tool suspends waits, and does not fail."""
    facts = {} if knows is None else {"suspends": knows}
    bench = Bench({"a": Suspend()}, policy=Policy.from_dict({"policy": "desk", "tools": {"wait": facts}}))
    spec = {"effect": "none"} | ({} if claims is None else {"suspends": claims})
    run = bench.run(program(tool("a", "wait"), end("e"), tools={"wait": spec}))
    assert (run.status == "SUSPENDED") is bool(claims or knows)


# -- SW405 with `ends: any`: every budget that can keep what is owed from starting -------------------------------------


class _Talkative:
    """A model whose every reply takes ten tokens."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply("well", tokens=10, cost=2)


def owing(then: dict[str, Any], **budget: int) -> Program:
    steps = [
        {"id": "think", "type": "llm", "prompt": "hm"},
        {"id": "p", "type": "tool", "tool": "pay", "next_step": "q"},
        {"id": "q", "is_terminal": True, **then},
    ]
    rule = {"name": "told", "followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}, "ends": "any"}
    tools = {"pay": {"effect": "write", "idempotent": True, "returns": {"type": "string"}}}
    return Program.from_dict({"inputs": {}, "tools": tools, "guardrails": [rule], "steps": steps, **budget})


ASKS = {"type": "llm", "prompt": "well?"}
ASKS_INSIDE = {"type": "parallel", "parallel_steps": [{"id": "sub", **ASKS}]}
CALLS = {"type": "tool", "tool": "pay"}


@pytest.mark.parametrize(
    ("then", "budget", "is_proved"),
    [
        (ASKS, {}, True),
        (ASKS, {"max_tokens": 5}, False),
        (ASKS_INSIDE, {"max_tokens": 5}, False),
        (ASKS, {"max_cost": 1}, False),
        (ASKS_INSIDE, {"max_cost": 1}, False),
        (CALLS, {"max_cost": 1}, True),
        (CALLS, {"max_tokens": 5}, True),  # tokens are looked at before a model call, and nowhere else
        (CALLS, {"max_steps": 2}, False),
        (CALLS, {"max_steps": 20}, True),
        (CALLS, {"max_stalled_steps": 1}, False),
    ],
)
def test_what_is_owed_is_not_proved_where_a_budget_may_keep_it_from_starting(
    then: dict[str, Any], budget: dict[str, int], is_proved: bool
) -> None:
    program = owing(then, **budget)
    report = ProgramValidator(program, certify=True).validate()
    (prop,) = [one for one in report.properties if one.name == "followed_by"]
    assert (prop.verdict is Verdict.PROVED) is is_proved
    if is_proved:
        assert prop.certify is not None
        assert recheck_data(parsed(prop.certify().to_json())).is_accepted
    run = unchecked({"pay": lambda: "done"}, _Talkative()).run_sync(program, {})
    assert not (run.broken and is_proved)
    assert bool(run.broken) is (not is_proved and "max_stalled_steps" not in budget)


# -- SW302: a condition that a constant leaves without a branch --------------------------------------------------------


@pytest.mark.parametrize(("first", "gets_there"), [("$n > 1", True), ("$n > 9", False), ("1 == 2", False)])
def test_a_constant_without_its_branch_is_reported_where_runs_reach_it(first: str, gets_there: bool) -> None:
    steps = [
        {"id": "a", "type": "condition", "condition": first, "then": "c", "otherwise": "e"},
        {"id": "c", "type": "condition", "condition": "2 > 1", "otherwise": "e"},
        {"id": "e", "type": "end"},
    ]
    inputs = {"n": {"type": "integer", "minimum": 0, "maximum": 5}}
    report = ProgramValidator(Program.from_dict({"inputs": inputs, "tools": {}, "steps": steps})).validate()
    said = [one for one in report.findings if one.code == "SW302"]
    assert [one.step for one in said] == (["c"] if gets_there else [])
    assert all(one.evidence is not None and one.evidence.witness is not None for one in said)


# -- SW202: what a step reads and assigns again ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "is_lost"),
    [
        ({"type": "set", "set": {"x": "$y.g", "y": {"h": 1}}}, True),
        ({"type": "set", "set": {"y": {"h": "$y.g"}}}, True),
        ({"type": "set", "set": {"x": "$y.g", "y.h": 1}}, False),
        ({"type": "set", "set": {"x": "$y.g", "w": {"h": 1}}}, False),
        ({"type": "for_each", "items": [1], "as": "i", "carry": {"y": {"h": "$y.g"}}, "do": PAY}, True),
    ],
)
def test_a_field_that_was_read_is_undefined_with_its_value(step: dict[str, Any], is_lost: bool) -> None:
    load = {"effect": "read", "returns": {"type": "object"}}
    data = {
        "language": 2,
        "name": "p",
        "inputs": {},
        "tools": {"load": load, "pay": {"effect": "read"}},
        "steps": [
            {"id": "get", "type": "tool", "tool": "load", "output_key": "y"},
            {"id": "again", **step},
            end("use", "$y.g"),
        ],
    }
    found = ProgramValidator(Program.from_dict(data)).validate().findings
    assert ("use" in {one.step for one in found if one.code == "SW202"}) is is_lost


# -- SW102: the help is the same where the arm above is unreachable itself ---------------------------------------------


def test_below_two_arms_both_helps_say_what_to_add() -> None:
    first, second = (
        {"id": name, "type": "condition", "condition": "$n > 1", "then": arm, "otherwise": "no"}
        for name, arm in (("c", "a"), ("d", "b"))
    )
    steps = [first, {**PAY, "id": "a"}, second, {**PAY, "id": "b"}, {**PAY, "id": "e"}, {"id": "no", "type": "end"}]
    assert [one.help.partition(", and")[0] for one in check(*steps).findings if one.code == "SW102"] == [
        "`a` is a branch of `c`, so the run ends after it; add `next_step: d` to `a`",
        "`b` is a branch of `d`, so the run ends after it; add `next_step: e` to `b`",
    ]
