"""Fast: for_each steps: order, outputs, errors, carried variables, frames in records and keys, deliveries."""

from __future__ import annotations

from typing import Any

import pytest

from machines import Bench, assign, check, end, program, tool
from stepward.vm import InDoubt, Program, Run, Suspend
from stepward.vm.errors import ProgramError
from stepward.vm.machine.history import load
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import snapshot

NO = ValueError("no")


def each(name: str, *steps: dict[str, Any], items: Any = "$l", **more: Any) -> dict[str, Any]:
    found = {"id": name, "type": "for_each", "items": items, "as": f"{name}_item", "max_items": 5, "steps": list(steps)}
    return {**found, **more}


def listed(*steps: dict[str, Any], **more: Any) -> Any:
    return program(*steps, language=2, inputs={"l": {}}, **more)


def run_of(*steps: dict[str, Any], items: Any = (1, 2, 3), answers: dict[str, Any] | None = None, **more: Any) -> Run:
    bench = Bench(answers or {})
    return bench.checked(bench.run(listed(*steps, **more), l=list(items)))


def test_items_come_in_order_and_the_output_has_an_entry_for_each() -> None:
    bench = Bench()
    body = (assign("s", v="$a_item + $n"), end("e", "$v"))
    made = listed(each("a", *body, index_as="n", output_key="all"), end("z", ["$all", "$a.errors"]))
    run = bench.checked(bench.run(made, l=[10, 20, 30]))
    assert run.output == ((10, 21, 32), ())
    assert [body["frame"] for body in bench.bodies("item")] == [[["a", 1, 1, number]] for number in range(3)]


def test_no_items_are_a_success_with_an_empty_list() -> None:
    assert run_of(each("a", end("e", 1)), end("z", ["$a.output", "$a.errors"]), items=()).output == ((), ())


def test_an_item_without_an_output_has_null() -> None:
    assert run_of(each("a", tool("t")), end("z", "$a.output")).output == (None, None, None)


def test_the_output_of_do_is_that_of_its_call() -> None:
    bench = Bench({"t": [1, 2, 3]})
    step = each("a", do=tool("t", args={"n": "$a_item"}))
    del step["steps"]
    assert bench.run(listed(step, end("z", "$a.output")), l=[4, 5, 6]).output == (1, 2, 3)
    assert [asked.args["n"] for asked in bench.tools.asked] == [4, 5, 6]


def test_a_failed_item_fails_the_step_with_its_error_and_no_other_starts() -> None:
    bench = Bench({"t": [1, NO]})
    made = listed(each("a", tool("t"), error_step="z"), end("y"), end("z", ["$a.error", "$a.errors"]))
    run = bench.checked(bench.run(made, l=[1, 2, 3]))
    assert run.output == ("no", ({"index": 1, "error": "no", "error_name": "Unexpected"},))
    assert len(bench.tools.asked) == 2


def test_a_failed_item_may_be_skipped() -> None:
    run = run_of(
        each("a", tool("t"), end("e", "$t.output"), on_item_error="skip"),
        end("z", ["$a.output", "$a.errors"]),
        answers={"t": [7, NO, 9]},
    )
    assert run.output == ((7, None, 9), ({"index": 1, "error": "no", "error_name": "Unexpected"},))


@pytest.mark.parametrize(
    "steps",
    [
        (end("e", outcome="failure"),),
        (check("c", "$a_item > 5", "e"), end("e")),
        (assign("s", v="$a_item + $nothing"),),
        (tool("t", max_visits=1, next_step="t"),),
        (end("e", "$nothing"),),
    ],
)
def test_what_would_fail_a_run_fails_the_item(steps: Any) -> None:
    run = run_of(each("a", *steps, on_item_error="skip"), end("z", "$a.errors"))
    assert [error["index"] for error in run.output] == [0, 1, 2]


@pytest.mark.parametrize("items", ["no list", [1] * 6, "$a.output"])
def test_no_list_and_too_many_items_fail_before_the_step_starts(items: Any) -> None:
    bench = Bench()
    step = each("a", tool("t"), error_step="z", on_error="retry", items=items)
    run = bench.checked(bench.run(program(step, end("y"), end("z", "$a.error"), language=2)))
    assert "can't start" in str(run.output)
    assert (bench.tools.asked, bench.bodies("item"), run.steps) == ([], [], 2)


def test_max_items_may_come_from_the_type_of_the_list() -> None:
    step = each("a", tool("t"))
    del step["max_items"]
    with pytest.raises(ProgramError, match="`max_items` is missing in `a`"):
        Bench().run(listed(step), l=[])
    made = program(step, end("z", "$a.output"), language=2, inputs={"l": {"type": "array", "maxItems": 2}})
    assert Bench().run(made, l=[1, 2]).output == (None, None)


# -- names -------------------------------------------------------------------------------------------------------------


def test_local_names_are_undefined_for_each_item_and_outside() -> None:
    seen = check("c", "defined($v) or defined($t.output)", "bad", "s")
    body = (seen, assign("s", {"next_step": "t"}, v="1"), tool("t"), end("e", "$v"), end("bad", outcome="failure"))
    run = run_of(
        each("a", *body),
        check("o", "defined($v) or defined($a_item) or defined($t.output)", "x", "z"),
        end("z", "$a.output"),
        end("x"),
    )
    assert run.output == (1, 1, 1)


def test_items_carry_variables_on_and_outer_ones_get_the_last_values() -> None:
    body = (assign("s", total="$total + $a_item"), end("e", "$total"))
    run = run_of(
        assign("i", total=10), each("a", *body, carry={"total": "$total + 1"}), end("z", ["$a.output", "$total"])
    )
    assert run.output == ((12, 14, 17), 17)


def test_an_item_that_failed_carries_nothing_on() -> None:
    body = (
        assign("s", total="$total + $a_item"),
        check("c", "$a_item != 2", "e", "bad"),
        end("e"),
        end("bad", outcome="failure"),
    )
    run = run_of(each("a", *body, carry={"total": 0}, on_item_error="skip"), end("z", "$total"))
    assert run.output == 4


def test_after_a_failure_carried_variables_are_undefined() -> None:
    body = (end("bad", outcome="failure"),)
    run = run_of(
        each("a", *body, carry={"total": 0}, error_step="c"),
        end("y"),
        check("c", "defined($total)", "y", "z"),
        end("z", "gone"),
    )
    assert run.output == "gone"


def test_a_body_that_assigns_what_is_around_has_no_plan() -> None:
    for step in (assign("s", v="1"), tool("s", output_key="v"), each("b", end("e"), **{"as": "v"})):
        with pytest.raises(ProgramError, match="a body assigns `v`, which belongs to the steps around it"):
            Bench().run(listed(assign("i", v="1"), each("a", step)), l=[])


# -- attempts, budgets, visits -----------------------------------------------------------------------------------------


def test_another_attempt_is_a_new_round_with_the_same_items_and_first_values() -> None:
    bench = Bench({"t": [1, NO, 3, 4]})
    body = (tool("t", "write"), assign("s", n="$n + 1"), end("e", "$n"))
    made = listed(each("a", *body, carry={"n": 0}, on_error="retry", max_retries=2), end("z", "$a.output"))
    run = bench.checked(bench.run(made, l=[1, 2]))
    assert run.output == (1, 2)
    assert [body["frame"][0][2:] for body in bench.bodies("intent")] == [[1, 0], [1, 1], [2, 0], [2, 1]]
    assert len(set(bench.tools.keys("t"))) == 4


def test_visits_count_per_item_and_steps_for_all() -> None:
    loop = (assign("s", {"max_visits": 2, "next_step": "c"}, v="1"), check("c", "$a_item > 2", "s", "e"), end("e"))
    run = run_of(each("a", *loop, on_item_error="skip"), end("z", "$a.errors"))
    assert [error["index"] for error in run.output] == [2]
    assert run.steps == 1 + 3 + 3 + 4 + 1
    assert run_of(each("a", *loop), end("z"), max_steps=5).status == "BUDGET_EXCEEDED"


def test_no_progress_counts_per_body_and_ends_the_run() -> None:
    still = tuple(check(f"c{number}", "true", f"c{number + 1}", "e") for number in range(3))
    body = (*still, check("c3", "true", "e", "e"), end("e"))
    assert run_of(each("a", *body), end("z"), max_stalled_steps=3).reason == "no-progress"
    assert run_of(each("a", *body), end("z"), max_stalled_steps=5).status == "SUCCESS"


# -- guardrails --------------------------------------------------------------------------------------------------------

ONCE = {"name": "once", "at_most_once": {"tool": "write"}}


def test_a_rule_of_the_program_sees_all_items_and_a_rule_of_the_body_one() -> None:
    body = (tool("t", "write"), end("e"))
    assert run_of(each("a", *body), end("z"), guardrails=[ONCE]).reason == "guardrail"
    assert run_of(each("a", *body, guardrails=[ONCE]), end("z")).status == "SUCCESS"
    twice = (tool("t", "write"), tool("u", "write"), end("e"))
    assert run_of(each("a", *twice, guardrails=[ONCE]), end("z")).reason == "guardrail"
    assert run_of(each("a", *body, guardrails=[ONCE]), tool("after", "write"), end("z")).status == "SUCCESS"


def test_an_approval_of_one_item_is_stale_in_the_next() -> None:
    rule = {"name": "ok", "protects": {"tool": "write"}, "requires": {"step": "c", "branch": "then"}}
    first = check("f", "$n == 0", "c", "t")
    body = (first, check("c", "$a_item > 0", "t"), tool("t", "write", next_step="e"), end("e"))
    run = run_of(each("a", *body, index_as="n"), end("z"), guardrails=[rule])
    assert (run.status, run.reason) == ("FAILED", "guardrail")
    assert "stale" in run.error


def test_a_debt_of_a_frame_is_told() -> None:
    rule = {"name": "booked", "followed_by": {"first": {"step": "t"}, "then": {"step": "u"}}}
    body = (tool("t"), check("c", "$a_item == 2", "e", "u"), tool("u", next_step="e"), end("e"))
    run = run_of(each("a", *body, guardrails=[rule]), end("z"))
    assert [name for name, _ in run.broken] == ["booked"]


# -- crashes and deliveries --------------------------------------------------------------------------------------------


def test_keys_differ_between_items() -> None:
    bench = Bench()
    bench.run(listed(each("a", each("b", tool("t", "again"), items=[1, 2]))), l=[1, 2])
    assert len(set(bench.tools.keys("t"))) == 4


def test_a_suspended_item_is_resumed_by_its_own_token() -> None:
    bench = Bench({"t": Suspend("well?")})
    run = bench.run(listed(each("a", tool("t", "asks"), end("e", "$t.output")), end("z", "$a.output")), l=[1, 2])
    tokens = []
    for number in range(2):
        assert [one.frame for one in run.suspensions] == [(("a", 1, 1, number),)]
        tokens.append(run.suspensions[0].token)
        run = bench.resume(run, f"yes {number}")
    assert run.output == ("yes 0", "yes 1")
    assert len(set(tokens)) == 2
    bench.checked(run)


def test_a_write_in_doubt_is_reconciled_inside_its_item() -> None:
    bench = Bench({"t": [1, InDoubt("gone"), 3]})
    made = listed(each("a", tool("t", "write"), end("e", "$t.output")), end("z", "$a.output"))
    run = bench.run(made, l=[1, 2, 3])
    assert [(one.step, one.frame) for one in run.doubts] == [("t", (("a", 1, 1, 1),))]
    assert run.doubts[0].key == bench.tools.keys("t")[-1]
    run = bench.checked(bench.vm.reconcile_sync("run", "t", "done", 2))
    assert run.output == (1, 2, 3)


def test_a_cancelled_run_names_the_write_that_may_have_happened_in_an_item() -> None:
    bench = Bench({"t": [1, InDoubt("gone")]})
    bench.run(listed(each("a", tool("t", "write"))), l=[1, 2])
    run = bench.checked(bench.vm.cancel_sync("run"))
    assert run.status == "CANCELLED"
    assert bench.bodies("ended")[-1]["in_doubt"] == ["a[1]/t"]


def test_a_run_in_an_item_is_the_same_however_its_program_is_written() -> None:
    """A stored program has its keys in another order; its plan numbers the carried variables in the same."""
    bench = Bench({"t": [InDoubt("gone")]})
    body = (tool("t", "write"), assign("s", z_last="1", a_first="2"))
    made = listed(each("a", *body, carry={"z_last": 0, "a_first": 1}))
    run = bench.run(made, l=[1])
    plan = Plan(made)
    found = load(bench.journal, "run", lambda *_: plan)
    assert found is not None
    assert found.state.frames
    assert plan.names_of_slots == Plan(Program.from_json(plan.document.decode())).names_of_slots
    assert snapshot(plan, found.state) == run.snapshot()
