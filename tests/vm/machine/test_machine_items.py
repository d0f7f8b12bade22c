"""Fast: items of a for_each step that run at once: order and results, rules, deliveries, crashes, and trace hashes."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any

import pytest

from machines import Bench, assign, check, end, program, tool
from siblings import killed, took
from stepward.vm import InDoubt, Run, Suspend
from stepward.vm.machine import ordered
from stepward.vm.machine.forks import after_branch
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.state import Limits

NO = ValueError("no")
ASKED = {"name": "asked", "protects": {"tool": "write"}, "requires": {"tool": "read"}}
ONCE = {"name": "once", "at_most_once": {"tool": "write"}}
Step = dict[str, Any]


def at_once(*steps: Step, most: int = 2, items: Any = (1, 2, 3), **more: Any) -> Step:
    """Return a for_each step whose items run at once."""
    step = {"id": "each", "type": "for_each", "items": list(items), "as": "i", "max_items": 9, **more}
    return {**step, "max_concurrency": most, "on_item_error": "skip"} | ({"steps": list(steps)} if steps else {})


def made(*steps: Step, **more: Any) -> Any:
    return program(*steps, language=2, **more)


def run_of(*steps: Step, answers: dict[str, Any] | None = None, **more: Any) -> Run:
    bench = Bench(answers or {})
    return bench.checked(bench.run(made(*steps, **more)))


# -- results -----------------------------------------------------------------------------------------------------------


def test_outputs_and_errors_are_in_the_order_of_the_items() -> None:
    steps = (
        check("c", "$i == 2", "t", "s"),
        tool("t", next_step="e"),
        assign("s", v="$i * 10") | {"next_step": "e"},
        end("e", {"v": "$v", "n": "$n"}),
    )
    run = run_of(at_once(*steps, index_as="n"), end("z", ["$each.output", "$each.errors"]), answers={"t": NO})
    output, errors = run.output
    assert output == ({"v": 10, "n": 0}, None, {"v": 30, "n": 2})
    assert errors == ({"error": "no", "error_name": "Unexpected", "index": 1},)


def test_one_sub_step_is_a_body_and_an_empty_list_is_a_success() -> None:
    assert run_of(at_once(do=tool("t")), end("z", "$each.output"), answers={"t": [5, 6, 7]}).output == (5, 6, 7)
    assert run_of(at_once(do=tool("t"), items=()), end("z", ["$each.output", "$each.errors"])).output == ((), ())


def calls_of_functions(items: int) -> int:
    """Return how often a run of so many items calls a function, or goes on with a generator."""
    run = made(at_once(tool("t"), assign("s", v="$i"), end("e"), items=range(items), max_items=items), end("z"))
    bench, found = Bench(), 0

    def note(frame: object, what: str, argument: object) -> None:
        nonlocal found
        found += what == "call"

    bench.run(run, "first")
    sys.setprofile(note)
    try:
        bench.vm.run_sync(run, {}, run_id="second")
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("rules", [[], [ASKED]])
def test_an_item_that_goes_on_by_itself_has_the_records_of_one_that_is_asked_each_time(
    monkeypatch: pytest.MonkeyPatch, rules: list[Any]
) -> None:
    inner = at_once(tool("u"), assign("set", own="$k"), end("w")) | {"id": "inner", "as": "k", "next_step": "e"}
    steps = (tool("ask"), tool("t"), assign("s", v="$i"), check("c", "$i > 1", "inner", "e"), inner, end("e", "$i"))
    run, put_back = made(at_once(*steps, items=range(5)), end("z", "$each.output"), guardrails=rules), Counter[bool]()

    def counted(*parts: Any) -> Any:
        put_back[goes_on] += 1
        return after_branch(*parts)

    monkeypatch.setattr(ordered, "after_branch", counted)
    records = []
    for goes_on in (True, False):
        if not goes_on:
            monkeypatch.setattr(ordered._Members, "_may_go_on", lambda *_: False)
        bench = Bench({"t": [1, NO, 3, 4, 5]})
        bench.checked(bench.run(run))
        records.append([entry.record for entry in bench.journal.read("run")])
    assert records[0] == records[1]
    assert put_back[True] <= 0.6 * put_back[False], "their states are put back once for several records"


def test_an_item_costs_the_same_however_many_there_are() -> None:
    few, more, many = map(calls_of_functions, (10, 20, 60))
    assert abs((many - more) / 40 - (more - few) / 10) < 0.01 * (more - few) / 10, "no decision looks at all items"


def test_names_of_a_body_are_undefined_in_each_item_and_behind_them() -> None:
    steps = (check("c", "defined($v)", "bad", "s"), assign("s", v="$i") | {"next_step": "e"}, end("e", "$v"))
    bad = end("bad", "seen")
    run = run_of(
        at_once(*steps, bad), check("d", "defined($v) or defined($i)", "y", "z"), end("y"), end("z", "$each.output")
    )
    assert run.output == (1, 2, 3)


# -- concurrency -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "seconds"), [(2, 10), (3, 7), (9, 6)])
def test_as_many_items_run_at_once_as_the_step_says(most: int, seconds: int) -> None:
    """The items take 6, 3, 2, 3 and 4 seconds; the next one starts as soon as one has ended."""
    times = {f"t/{number}": float(one) for number, one in enumerate((6, 3, 2, 3, 4))}
    run, took_seconds = took(made(at_once(tool("t"), most=most, items=range(5)), end("z")), times)
    assert (run.status, took_seconds) == ("SUCCESS", seconds)


def test_an_item_that_waits_keeps_its_place_and_holds_up_no_other() -> None:
    bench = Bench({"t": [Suspend("well?"), 2, 3]})
    run = bench.run(made(at_once(tool("t", "asks"), end("e", "$t.output")), end("z", "$each.output")))
    assert (run.status, [one.frame for one in run.suspensions]) == ("SUSPENDED", [(("each", 1, 1, 0),)])
    assert bench.tools.steps() == ["t", "t", "t"]
    assert bench.resume(run, 1).output == (1, 2, 3)
    both = Bench({"t": Suspend("well?")})
    both.run(made(at_once(tool("t", "asks")), end("z")))
    assert both.tools.steps() == ["t", "t"], "the third item has no place"


def test_the_trace_hash_does_not_depend_on_who_arrives_first() -> None:
    inner = {**at_once(tool("u"), items=(4, 5)), "id": "inner", "as": "j"}
    wave = {"id": "w", "type": "parallel", "parallel_steps": [tool("w1"), tool("w2")]}
    data = made(at_once(tool("t"), inner, wave, end("e", "$t.output"), most=3), end("z", "$each.output"))
    found = set()
    for seed in range(12):
        chance = Random(seed)
        names = [*(f"t/{number}" for number in range(3)), "u/0", "u/1", "w1", "w2"]
        run, _ = took(data, {name: float(chance.randint(1, 9)) for name in names})
        assert run.status == "SUCCESS"
        found.add(run.trace_hash)
    assert len(found) == 1


def test_what_items_leave_together_is_held_to_the_limit_of_the_state() -> None:
    bench = Bench({"read": "x" * 500}, limits=Limits(state_bytes=1500))
    data = made(at_once(tool("t", "read"), end("e", "$t.output")), end("z"))
    assert bench.run(data).error == "`each` can't end: the output has 1510 bytes, more than the 1500 allowed"


# -- rules -------------------------------------------------------------------------------------------------------------


def test_what_one_item_did_is_not_before_another_and_all_of_it_is_behind_the_step() -> None:
    steps = (
        check("c", "$i == 1", "a", "b"), tool("a", "read", next_step="w"), tool("b", "again", next_step="w"),
        tool("w", "write"),
    )  # fmt: skip
    run = run_of(at_once(*steps, most=2), end("z"), guardrails=[ASKED])
    assert (run.status, run.reason) == ("FAILED", "guardrail")
    behind = (at_once(tool("a", "read"), items=(1, 2)), tool("w", "write"), end("z"))
    assert run_of(*behind, guardrails=[ASKED]).status == "SUCCESS"
    before = (tool("a", "read"), at_once(tool("w", "write")), end("z"))
    assert run_of(*before, guardrails=[ASKED]).status == "SUCCESS"


def test_starts_in_all_items_count_and_a_rule_of_the_body_sees_one() -> None:
    assert run_of(at_once(tool("w", "write"), items=(1, 2)), end("z"), guardrails=[ONCE]).reason == "guardrail"
    own = at_once(tool("w", "write"), items=(1, 2), guardrails=[ONCE])
    assert run_of(own, end("z")).status == "SUCCESS"
    twice = at_once(tool("w", "write"), tool("v", "write"), guardrails=[ONCE])
    assert run_of(twice, end("z")).reason == "guardrail"


def test_a_rule_of_the_body_does_not_count_what_goes_on_in_another_item() -> None:
    """What an item started is still under way when the next one gets there, with and without a body between."""
    once, either = (
        {"name": "r", "at_most_once": {"tool": "asks"}},
        {"name": "r", "exclusive": [{"step": "t"}, {"step": "u"}]},
    )
    inner = {**at_once(tool("s"), items=(4, 5)), "id": "inner", "as": "j", "next_step": "t"}
    for first in (tool("s", next_step="t"), inner):
        bench = Bench({"t": Suspend("well?")})
        run = bench.run(made(at_once(first, tool("t", "asks"), items=(1, 2), guardrails=[once]), end("z")))
        assert (run.status, len(run.suspensions)) == ("SUSPENDED", 2)
    steps = (tool("s", next_step="c"), check("c", "$i == 1", "t", "u"), tool("t", "asks"), tool("u", "asks"))
    bench = Bench({"t": Suspend("well?"), "u": Suspend("well?")})
    run = bench.run(made(at_once(*steps, items=(1, 2), guardrails=[either]), end("z")))
    assert (run.status, len(run.suspensions)) == ("SUSPENDED", 2)
    paid = at_once(tool("s", next_step="w"), tool("w", "write"), items=(1, 2), guardrails=[ONCE])
    run, seconds = took(made(paid, end("z")), {"s/0": 1.0, "s/1": 1.0, "w/0": 5.0, "w/1": 5.0})
    assert (run.status, seconds) == ("SUCCESS", 6)


def test_a_rule_around_an_item_counts_what_goes_on_beside_it_in_the_same_item() -> None:
    inner = {**at_once(tool("t", "asks"), items=(4, 5)), "id": "inner", "as": "j"}
    once = {"name": "once", "at_most_once": {"tool": "asks"}}
    run = run_of(at_once(inner, items=(1,), guardrails=[once]), end("z"), answers={"t": Suspend("well?")})
    assert (run.status, run.reason) == ("FAILED", "guardrail")


def test_a_guard_that_reads_the_item_is_stale_behind_the_items() -> None:
    steps = (check("c", "$i > 0", "e", "e"), end("e"))
    rule = {"name": "seen", "protects": {"step": "w"}, "requires": {"step": "c", "branch": "then"}}
    run = run_of(at_once(*steps), tool("w", "write"), end("z"), guardrails=[rule])
    assert run.error == "guardrail `seen` forbids `w` to start: what it requires came, but is stale"


# -- deliveries --------------------------------------------------------------------------------------------------------


def test_writes_in_doubt_in_several_items_are_settled_one_by_one() -> None:
    bench = Bench({"t": InDoubt("gone")})
    run = bench.run(made(at_once(tool("t", "write"), end("e", "$t.output"), items=(1, 2)), end("z", "$each.output")))
    assert [one.place for one in run.doubts] == ["each[0]/t", "each[1]/t"]
    with pytest.raises(DeliveryRefused) as caught:
        bench.vm.reconcile_sync("run", "t", "done", 1)
    assert str(caught.value) == ("`t` is in doubt in several places of run `run`, name one: `each[0]/t`, `each[1]/t`")
    run = bench.checked(bench.vm.reconcile_sync("run", "each[1]/t", "done", 8))
    assert (run.status, [one.place for one in run.doubts]) == ("IN_DOUBT", ["each[0]/t"])
    assert bench.checked(bench.vm.reconcile_sync("run", "t", "done", 7)).output == (7, 8)


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(3)])
def test_killed_processes_double_lose_and_block_nothing(chunk: int) -> None:
    inner = {**at_once(tool("x", "again"), items=(8, 9)), "id": "inner", "as": "j"}
    body = (tool("a", "again"), tool("b"), inner, tool("c", "again"), end("e", "$i"))
    data = made(at_once(*body, items=(1, 2, 3)), tool("last", "again"), end("z", "$each.output"))
    effects = Counter({"a": 3, "x": 6, "c": 3, "last": 1})
    assert sum(killed(seed, data, (1, 2, 3), effects) for seed in range(chunk * 15, (chunk + 1) * 15)) >= 25
