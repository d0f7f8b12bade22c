"""Fast: branches of a parallel step: what they share, how they join, rules, deliveries, crashes, and trace hashes."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from machines import Bench, ask, assign, check, end, program, tool, unchecked
from siblings import killed, took
from stepward.vm import InDoubt, MemoryJournal, ModelReply, Run, Suspend
from stepward.vm.errors import ProgramError
from stepward.vm.machine.history import fold, load
from stepward.vm.machine.state import Limits, snapshot

NO = ValueError("no")
Step = dict[str, Any]


def branch(*steps: Step, **more: Any) -> dict[str, Any]:
    return {"steps": list(steps), **more}


def fork(name: str, /, *, more: dict[str, Any] | None = None, **branches: dict[str, Any]) -> Step:
    return {"id": name, "type": "parallel", "branches": branches, **(more or {})}


def made(*steps: Step, **more: Any) -> Any:
    return program(*steps, language=2, **more)


def run_of(*steps: Step, answers: dict[str, Any] | None = None, **more: Any) -> Run:
    bench = Bench(answers or {})
    return bench.checked(bench.run(made(*steps, **more)))


# -- names and results -------------------------------------------------------------------------------------------------


def test_each_branch_has_names_of_its_own_and_leaves_its_output() -> None:
    body = (assign("s", v="$x + 1"), end("e", "$v"))
    other = (assign("t", v="$x + 2"), end("f", "$v"))
    run = run_of(
        assign("i", x=1),
        fork("p", left=branch(*body), right=branch(*other)),
        end("z", ["$left.output", "$right.output", "$p.output"]),
    )
    assert run.output == (2, 3, {"left": 2, "right": 3})


def test_a_branch_without_an_end_has_no_output() -> None:
    run = run_of(
        fork("p", left=branch(tool("t")), right=branch(end("e", 1))),
        check("c", "defined($left.output)", "bad", "z"),
        end("z", "$p.output"),
        end("bad"),
    )
    assert run.output == {"right": 1}


def test_a_step_has_the_error_of_its_first_failed_branch_and_the_others_go_on() -> None:
    bench = Bench({"t": NO, "u": KeyError("key")})
    steps = (
        fork("p", more={"error_step": "z"}, b=branch(tool("u")), a=branch(tool("t")), c=branch(tool("w"), end("e", 5))),
        end("y"),
        end("z", ["$p.error_name", "$a.error", "$b.error", "$c.output"]),
    )
    run = bench.checked(bench.run(made(*steps)))
    assert run.output == ("Unexpected", "no", "'key'", 5)
    assert sorted(asked.step for asked in bench.tools.asked) == ["t", "u", "w"]


def test_a_branch_waits_for_others_reads_their_outputs_and_fails_without_them() -> None:
    first = branch(tool("t"), end("e", "$t.output"))
    second = branch(tool("u", args={"x": "$a.output"}), end("f", "$u.output"), depends_on=["a"])
    bench = Bench({"t": 7, "u": 8})
    run = bench.checked(bench.run(made(fork("p", a=first, b=second), end("z", "$p.output"))))
    assert run.output == {"a": 7, "b": 8}
    assert [dict(asked.args) for asked in bench.tools.asked] == [{}, {"x": 7}]
    steps = (fork("p", more={"on_error": "skip"}, a=first, b=second), end("z", ["$a.error", "$b.error_name"]))
    assert run_of(*steps, answers={"t": NO}).output == ("no", "Dependency")


@pytest.mark.parametrize(
    ("branches", "message"),
    [
        ({"a": branch(end("e", "$b.output")), "b": branch(end("f"))}, "runs at the same time"),
        ({"a": branch(tool("t", next_step="t"))}, "nothing bounds a loop beside which others go on: `t`"),
        ({"a": branch(end("e"), depends_on=["x"])}, "`x` is no branch of `p`"),
        ({"a": branch(end("e"), depends_on=["b"]), "b": branch(end("f"), depends_on=["a"])}, "waits for itself"),
        ({"a": branch(assign("s", x="1"))}, "a body assigns `x`, which belongs to the steps around it"),
    ],
)
def test_what_has_no_clear_meaning_has_no_plan(branches: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Bench().run(made(assign("i", x="1"), fork("p", **branches), end("z")))


def test_a_branch_is_no_step_to_go_to() -> None:
    with pytest.raises(ProgramError, match="names no step"):
        Bench().run(made(tool("t", next_step="a"), fork("p", a=branch(end("e")))))


# -- rules -------------------------------------------------------------------------------------------------------------

APPROVED = {"name": "ok", "protects": {"tool": "write"}, "requires": {"step": "t"}}
ONCE = {"name": "once", "at_most_once": {"tool": "write"}}


def test_what_a_sibling_does_is_before_nothing() -> None:
    for order in (("a", "b"), ("b", "a")):
        bodies = dict(zip(order, (branch(tool("t")), branch(tool("v"), tool("u", "write"))), strict=True))
        assert run_of(fork("p", **bodies), end("z"), guardrails=[APPROVED]).reason == "guardrail"


def test_what_a_branch_depends_on_and_what_joined_is_before() -> None:
    first, second = branch(tool("t")), branch(tool("u", "write"), depends_on=["a"])
    assert run_of(fork("p", a=first, b=second), end("z"), guardrails=[APPROVED]).status == "SUCCESS"
    after = (fork("p", a=first, b=branch(tool("v"))), tool("u", "write"), end("z"))
    assert run_of(*after, guardrails=[APPROVED]).status == "SUCCESS"


def test_siblings_share_what_they_have_started() -> None:
    bodies = {"a": branch(tool("t", "write")), "b": branch(tool("u", "write"))}
    run = run_of(fork("p", **bodies), end("z"), guardrails=[ONCE])
    assert (run.status, run.reason) == ("FAILED", "guardrail")
    own = {name: {**one, "guardrails": [ONCE]} for name, one in bodies.items()}
    assert run_of(fork("p", **own), end("z")).status == "SUCCESS"


OWED = {"name": "booked", "followed_by": {"first": {"step": "t"}, "then": {"step": "u"}}}


@pytest.mark.parametrize(
    ("steps", "is_broken"),
    [
        ((fork("p", a=branch(tool("t")), b=branch(tool("u"))), end("z")), True),
        ((fork("p", a=branch(tool("t"), tool("u")), b=branch(tool("v"))), end("z")), False),
        ((fork("p", a=branch(tool("u"), tool("t")), b=branch(tool("v"))), end("z")), True),
        ((fork("p", a=branch(tool("t")), b=branch(tool("u"), depends_on=["a"])), end("z")), False),
        ((fork("p", a=branch(tool("t")), b=branch(tool("v"))), tool("u"), end("z")), False),
        ((tool("t"), fork("p", a=branch(tool("u")), b=branch(tool("v"))), end("z")), False),
        ((tool("t"), fork("p", a=branch(tool("w")), b=branch(tool("v"))), end("z")), True),
    ],
)
def test_a_debt_is_paid_behind_it_and_not_beside_it(steps: Any, is_broken: bool) -> None:
    assert bool(run_of(*steps, guardrails=[OWED]).broken) is is_broken


# -- concurrency -------------------------------------------------------------------------------------------------------


DIAMOND = fork(
    "p",
    a=branch(tool("a1"), tool("a2")),
    b=branch(tool("b1"), depends_on=["a"]),
    c=branch(tool("c1"), tool("c2"), depends_on=["a"]),
    d=branch(tool("d1"), end("e", "$d1.output"), depends_on=["b", "c"]),
)


def test_a_diamond_of_branches_takes_its_critical_path() -> None:
    """a 1 + 1, b 5, c 2 + 2, d 1: the critical path is a, b, d."""
    run, seconds = took(made(DIAMOND, end("z", "$d.output")), {"a1": 1, "a2": 1, "b1": 5, "c1": 2, "c2": 2, "d1": 1})
    assert (run.status, run.output, seconds) == ("SUCCESS", "d1", 8)


def test_branches_go_on_each_at_its_own_pace() -> None:
    left, right = branch(tool("a1"), tool("a2")), branch(tool("b1"), tool("b2"))
    _, seconds = took(made(fork("p", left=left, right=right), end("z")), {"a1": 1, "a2": 4, "b1": 4, "b2": 1})
    assert seconds == 5


def test_the_trace_hash_does_not_depend_on_who_arrives_first() -> None:
    """Nor does it on nested branches, items, or waves in them."""
    inner = fork("q", x=branch(tool("x1")), y=branch(tool("y1")))
    wave = {"id": "w", "type": "parallel", "parallel_steps": [tool("w1"), tool("w2")]}
    each = {"id": "l", "type": "for_each", "items": [1, 2], "as": "i", "do": tool("l1")}
    data = made(fork("p", a=branch(inner, tool("a1")), b=branch(wave, each), c=branch(tool("c1"))), end("z"))
    names = ["x1", "y1", "a1", "w1", "w2", "l1", "c1"]
    found = set()
    for seed in range(12):
        chance = Random(seed)
        run, _ = took(data, {name: chance.randint(1, 9) for name in names})
        assert run.status == "SUCCESS"
        found.add(run.trace_hash)
    assert len(found) == 1


def test_the_bytes_of_a_state_do_not_depend_on_which_sibling_was_first() -> None:
    bench = Bench({})
    bench.run(made(fork("p", a=branch(tool("t")), b=branch(tool("u", "write")), c=branch(assign("s", v=1))), end("z")))
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    events, swaps = list(found.events), 0
    for place in range(1, len(events) - 1):
        left, right = (one.body.get("frame", ()) for one in events[place : place + 2])
        if left and right and left != right:
            swapped = [*events[:place], events[place + 1], events[place]]
            states = [fold(found.plan, some) for some in (events[: place + 2], swapped)]
            assert snapshot(found.plan, states[0]) == snapshot(found.plan, states[1])
            swaps += 1
    assert swaps > 2


# -- sizes -------------------------------------------------------------------------------------------------------------

LONG = "x" * 500


def sized(most: int, *steps: Step, answers: dict[str, Any] | None = None) -> Run:
    bench = Bench({"read": LONG, **(answers or {})}, limits=Limits(state_bytes=most))
    return bench.checked(bench.run(made(*steps)))


def reading(name: str, **more: Any) -> dict[str, Any]:
    return branch(tool(name), end(f"{name}_end", f"${name}.output"), **more)


def test_what_branches_leave_together_is_held_to_the_limit_of_the_state() -> None:
    all_of = fork("p", a=reading("t"), b=reading("u"), c=reading("v"))
    assert sized(1600, all_of, end("z")).status == "SUCCESS"
    run = sized(1500, all_of, end("z"))
    assert (run.status, run.reason) == ("FAILED", "error")
    assert run.error == "`p` can't end: the output has 1522 bytes, more than the 1500 allowed"


def test_so_is_what_they_leave_where_one_has_failed() -> None:
    good = {name: reading(name + "1") for name in "abc"}
    failing = fork("p", more={"on_error": "skip"}, **good, d=branch(tool("x")))
    run = sized(2000, failing, tool("w"), end("z"), answers={"x": NO})
    assert "the state would have 2" in run.error
    run = sized(1500, failing, end("z"), answers={"x": NO})
    assert (run.status, run.reason) == ("FAILED", "error")
    assert "`p` can't end" in run.error


def test_a_branch_is_held_to_the_limit_by_itself_with_what_it_was_given() -> None:
    """What its siblings have left meanwhile does not count, because that depends on timing."""
    short = {"a": branch(tool("t"), tool("t2")), "b": branch(tool("u"), tool("u2"))}
    assert sized(1500, fork("p", **short), end("z")).status == "SUCCESS"
    run = sized(1500, fork("p", a=reading("t"), b=branch(tool("u"), tool("v"), depends_on=["a"])), end("z"))
    assert "the state would have" in run.error


@pytest.mark.parametrize("most", [1200, 1500, 1800, 2400])
def test_whose_output_is_too_large_does_not_depend_on_who_arrives_first(most: int) -> None:
    wide = {"a": branch(tool("t"), tool("t2"), end("e", "$t.output")), "b": reading("u"), "c": branch(tool("v"))}
    data = made(fork("p", more={"on_error": "skip"}, **wide), tool("w"), end("z"))
    found = set()
    for seed in range(8):
        chance = Random(seed)
        seconds = {name: chance.randint(1, 9) for name in ("t", "t2", "u", "v", "w")}
        run, _ = took(data, seconds, answer=LONG, limits=Limits(state_bytes=most))
        found.add((run.trace_hash, run.status, run.error))
    assert len(found) == 1


# -- deliveries --------------------------------------------------------------------------------------------------------


def test_a_branch_that_waits_holds_up_no_other_one() -> None:
    bench = Bench({"t": Suspend("well?"), "v": 3})
    steps = (
        fork("p", a=branch(tool("t", "asks"), tool("u")), b=branch(tool("v"), tool("w"), end("e", "$v.output"))),
        end("z", "$p.output"),
    )
    run = bench.run(made(*steps))
    assert (run.status, sorted(asked.step for asked in bench.tools.asked)) == ("SUSPENDED", ["t", "v", "w"])
    assert [one.frame for one in run.suspensions] == [(("p", 1, 1, "a"),)]
    run = bench.checked(bench.resume(run, "yes"))
    assert run.output == {"b": 3}


def test_two_branches_wait_and_each_is_settled_by_its_own() -> None:
    bench = Bench({"t": Suspend("well?"), "u": InDoubt("gone")})
    bodies = {
        "a": branch(tool("t", "asks"), end("e", "$t.output")),
        "b": branch(tool("u", "write"), end("f", "$u.output")),
    }
    run = bench.run(made(fork("p", **bodies), end("z", "$p.output")))
    assert run.status == "IN_DOUBT"
    assert ([one.step for one in run.suspensions], [one.step for one in run.doubts]) == (["t"], ["u"])
    token = run.suspensions[0].token
    run = bench.vm.reconcile_sync("run", "u", "done", 2)
    assert run.status == "SUSPENDED"
    run = bench.checked(bench.vm.resume_sync(token, "yes"))
    assert run.output == {"a": "yes", "b": 2}


def test_a_cancelled_run_names_the_writes_of_all_branches_that_may_have_happened() -> None:
    bench = Bench({"t": InDoubt("gone"), "u": InDoubt("gone")})
    bench.run(made(fork("p", a=branch(tool("t", "write")), b=branch(tool("u", "write"))), end("z")))
    run = bench.checked(bench.vm.cancel_sync("run"))
    assert run.status == "CANCELLED"
    assert bench.bodies("ended")[-1]["in_doubt"] == ["p[a]/t", "p[b]/u"]


def test_a_budget_that_is_used_up_ends_the_run_once_all_calls_have_come_back() -> None:
    long = branch(*(assign(f"s{number}", v="1") for number in range(9)))
    bench = Bench()
    run = bench.checked(bench.run(made(fork("p", a=branch(tool("t"), tool("u")), b=long), end("z"), max_steps=6)))
    assert run.status == "BUDGET_EXCEEDED"
    assert not any(asked.step == "u" for asked in bench.tools.asked)


def test_what_a_reply_cost_counts_for_a_sibling_that_has_been_asked_before_it() -> None:
    bench = Bench(model={"a": ModelReply("x", 5), "b": ModelReply("x", 1)})
    run = bench.run(made(fork("p", left=branch(ask("a")), right=branch(ask("b"))), end("z"), max_tokens=5))
    assert (run.status, run.reason) == ("BUDGET_EXCEEDED", "max_tokens")
    assert [asked.step for asked in bench.model.asked] == ["a"]


# -- crashes -----------------------------------------------------------------------------------------------------------


CRASHING = (
    fork(
        "p",
        a=branch(tool("a1", "again"), tool("a2"), tool("a3", "again"), end("ea", "$a3.output")),
        b=branch(tool("b1", "again"), fork("q", x=branch(tool("x1", "again")), y=branch(tool("y1", "again")))),
        c=branch(tool("c1", "again"), end("ec", "$c1.output"), depends_on=["a"]),
    ),
    tool("last", "again"),
    end("z", ["$a.output", "$c.output"]),
)
EFFECTS = ("a1", "a3", "b1", "x1", "y1", "c1", "last")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(4)])
def test_killed_processes_double_lose_and_block_nothing(chunk: int) -> None:
    data = made(*CRASHING)
    died = sum(killed(seed, data, ("a3", "c1"), Counter(EFFECTS)) for seed in range(chunk * 15, (chunk + 1) * 15))
    assert died >= 25


@pytest.mark.parametrize("turns", range(6))
def test_a_call_of_a_branch_does_not_start_for_which_the_budget_is_spent_meanwhile(turns: int) -> None:
    """Two reads come back between the decision that three calls start, and the first of their starts."""

    async def look() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def pay() -> None:
        await asyncio.sleep(0.01)

    sub_steps = {"type": "parallel", "parallel_steps": [tool("c2", "pay"), tool("c3", "look"), tool("c4", "look")]}
    tools = {"look": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}}
    branches = {
        "a": branch(tool("a1", "look")),
        "b": branch(tool("b1", "look")),
        "c": branch({"id": "c1", **sub_steps}),
    }
    found = program(fork("p", **branches), end("z"), language=2, tools=tools, max_steps=5)
    run = unchecked({"look": look, "pay": pay}, None, MemoryJournal()).run_sync(found, {})
    assert (run.status, run.reason) == ("BUDGET_EXCEEDED", "max_steps")
    assert run.steps <= 5
