"""Fast: idempotency keys are equal exactly when they must be, and intents are there before their writes."""

from __future__ import annotations

from typing import Any

from machines import TOOLS, Bench, both, check, end, program, tool, unchecked
from stepward.vm import InDoubt, Suspend
from stepward.vm.machine.clock import ManualClock

NO = ValueError("no")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_retry_of_an_idempotent_tool_keeps_its_key_and_any_other_gets_a_new_one() -> None:
    both_ways = {"yes": {"effect": "read", "idempotent": True}, "no": {"effect": "read"}, **TOOLS}
    for kind, keys in (("again", 1), ("write", 3), ("yes", 1), ("no", 3)):
        bench = Bench({"a": NO})
        bench.run(program(tool("a", kind, on_error="retry"), tools=both_ways))
        assert len(set(bench.tools.keys("a"))) == keys, kind


def test_keys_differ_between_visits_steps_runs_and_programs() -> None:
    loop = [tool("a", "again", max_visits=3, next_step="b"), tool("b", "again", next_step="c"), check("c", "true", "a")]
    bench = Bench()
    bench.run(program(*loop), "one")
    bench.run(program(*loop), "two")
    bench.run(program(*loop, name="another"), "three")
    keys = [asked.key for asked in bench.tools.asked]
    assert len(keys) == 18
    assert len(set(keys)) == 18
    other = Bench()
    other.run(program(*loop), "one")
    assert [asked.key for asked in other.tools.asked] == keys[:6]


def test_a_key_does_not_keep_a_failure_for_ever() -> None:
    bench = Bench({"a": [NO, "ok"]})
    steps = [
        tool("a", "again", error_step="a2", next_step="e"),
        tool("a2", "again", next_step="a"),
        end("e", "$a.output"),
    ]
    assert bench.run(program(*steps, max_steps=9)).output == "ok"
    assert len(set(bench.tools.keys("a"))) == 2


def test_a_tool_gets_the_key_it_asks_for_and_the_intent_has_the_same() -> None:
    seen: list[Any] = []

    def pay(amount: int, idempotency_key: str, context: Any) -> str:
        seen.append((amount, idempotency_key, context))
        return "ok"

    bench = Bench()
    bench.vm = unchecked({"write": pay}, journal=bench.journal, clock=bench.clock)
    bench.run(program(tool("a", "write", args={"amount": 5})))
    amount, key, context = seen[0]
    assert (amount, key, context.run, context.step, context.visit) == (5, context.idempotency_key, "run", "a", 1)
    assert key.encode() in b"".join(entry.record for entry in bench.journal.read("run"))


def test_no_argument_forges_a_key() -> None:
    seen: list[Any] = []

    def pay(idempotency_key: str, context: Any) -> None:
        seen.append((idempotency_key, context))

    machine = unchecked({"write": pay}, clock=ManualClock())
    machine.run_sync(program(tool("a", "write", args={"idempotency_key": "forged", "context": "its own"})))
    assert len(seen[0][0]) == 64
    assert seen[0][1] == "its own", "an argument of that name is an argument"


def test_an_intent_is_in_the_journal_before_its_write_starts_and_none_is_needed_for_a_read() -> None:
    bench = Bench()
    kinds: list[list[str]] = []
    bench.tools.answers |= {"w": [lambda: kinds.append(bench.kinds())], "r": [lambda: kinds.append(bench.kinds())]}
    bench.run(program(tool("r"), tool("w", "write")))
    assert kinds[-1][-1] == "intent"
    assert bench.kinds().count("intent") == 1


def test_a_failing_sub_step_of_a_suspended_run_keeps_its_key_over_a_resume() -> None:
    bench = Bench({"s": Suspend(), "a": [InDoubt("?"), 1]})
    run = bench.run(program(both("p", tool("s", "ask"), tool("a", "write"))))
    assert run.status == "IN_DOUBT"
    bench.resume(run, "go")
    assert bench.checked(bench.vm.reconcile_sync("run", "a", "not_done")).status == "SUCCESS"
    assert len(set(bench.tools.keys("a"))) == 1
