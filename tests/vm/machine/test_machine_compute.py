"""Fast: `compute` steps on the machine: values, how they fail, what is sensitive, and what a replay computes again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from machines import Bench, assign, end, program
from sizes import size
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.wide import WIDE, wide_program
from stepward.vm import Meaning, Policy, Program
from stepward.vm.errors import ProgramError
from stepward.vm.machine import computing as machine_computing
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import misfits, replay

ORDERS = {"type": "array"}
HIDDEN = {"type": "string", "sensitive": True}


def compute(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "compute", "lisp": text, **more}


def computing(*steps: dict[str, Any], **inputs: Any) -> Program:
    return program(*steps, language=2, inputs=inputs)


def summed(**more: Any) -> Program:
    step = compute("sum", "(sum-by :total data/orders)", args={"orders": "$orders"}, **more)
    return computing(
        step, end("good", "$sum.output"), end("bad", {"why": "$sum.error_name"}, outcome="failure"), orders=ORDERS
    )


def test_a_value_is_the_output_and_the_variable_of_its_step() -> None:
    bench = Bench()
    made = computing(
        compute("sum", "(sum-by :total data/orders)", args={"orders": "$orders"}, output_key="total"),
        assign("more", all="$total + $sum.output"),
        end("done", "$all"),
        orders=ORDERS,
    )
    run = bench.run(made, orders=[{"total": 1.5}, {"total": 2}])
    assert (run.status, run.output) == ("SUCCESS", 7)
    assert list(bench.bodies("assigned")[0]["values"]) == ["total"]
    assert replay(bench.journal, "run").faults == ()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("orders", "returns", "name"),
    [
        ([{"total": "x"}], {"type": "number"}, "Unexpected"),
        ([], {"type": "number", "minimum": 1}, "BadOutput"),
        ([{"total": 1}], {"type": "string"}, "BadOutput"),
    ],
)
def test_a_failure_has_a_name_and_leads_where_catch_says(orders: Any, returns: Any, name: str) -> None:
    bench = Bench()
    made = summed(returns=returns, catch=[{"errors": [name], "then": "bad"}], next_step="good")
    run = bench.run(made, orders=orders)
    assert (run.status, run.output) == ("FAILED", {"why": name})
    assert bench.kinds() == ["started", "blocked", "ended"]
    assert replay(bench.journal, "run").faults == ()  # type: ignore[union-attr]


def test_without_catch_a_failure_ends_the_run_in_words() -> None:
    run = Bench().run(summed(returns={"type": "string"}, next_step="good"), orders=[{"total": 1}])
    assert (run.status, run.reason) == ("FAILED", "error")
    assert run.error == "the value of `sum`: must be a string, not `1`"


def test_an_undefined_argument_fails_the_step_before_it_computes() -> None:
    step = compute(
        "c", "data/a", args={"a": "$none.field"}, catch=[{"errors": ["Undefined"], "then": "bad"}], is_terminal=True
    )
    run = Bench().run(computing(step, end("bad", "$c.error_name", outcome="failure"), none={}), none={})
    assert run.output == "Undefined"


def test_a_skipped_failure_goes_on_without_an_output() -> None:
    step = compute("c", '(fail "no")', on_error="skip", output_key="v")
    run = Bench().run(computing(assign("before", v=1), step, end("done", "$c.error")))
    assert run.status == "SUCCESS"
    assert "v" not in json.loads(run.snapshot())["values"]
    assert run.output == "`c` can't be computed: no"


def test_a_loop_without_end_fails_after_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_computing.MAX_STEPS == 1_000_000
    steps = size(20_000, 1_000_000)  # a million takes seconds
    monkeypatch.setattr(machine_computing, "MAX_STEPS", steps)
    run = Bench().run(computing(compute("c", "(loop [i 0] (recur (inc i)))", is_terminal=True)))
    assert run.error == f"`c` can't be computed: the program takes more than {steps} steps"


def test_used_up_visits_lead_where_the_error_leads() -> None:
    step = compute("c", "1", next_step="c", max_visits=2, error_step="out")
    run = Bench().run(computing(step, end("out", "$c.error_name")))
    assert run.output == "Visits"


def test_a_value_of_what_is_sensitive_is_sealed_and_its_error_quotes_nothing() -> None:
    made = computing(
        compute("part", "(subs data/iban 0 6)", args={"iban": "$iban"}),
        compute("bad", "(+ 1 data/iban)", args={"iban": "$iban"}, on_error="skip"),
        end("done", "$part.output"),
        iban=HIDDEN,
    )
    bench = Bench()
    run = bench.run(made, iban="DE8937-TOP-SECRET")
    assert run.status == "SUCCESS"
    written = b"".join(entry.record for entry in bench.journal.read("run"))
    assert b"DE8937" not in written
    assert b"its expression has no value" in written


def test_a_sensitive_type_seals_the_value() -> None:
    bench = Bench()
    made = computing(
        compute("pin", '(str "1234" "56789")', returns=HIDDEN),
        {"id": "tell", "type": "tool", "tool": "read"},
        end("done"),
    )
    bench.tools.answers["read"] = ["the pin is 123456789"]
    bench.run(made)
    assert b"123456789" not in b"".join(entry.record for entry in bench.journal.read("run"))


def test_a_forged_value_does_not_replay() -> None:
    bench = Bench()
    bench.run(summed(next_step="good"), orders=[{"total": 1}])
    found = load(bench.journal, "run", bench.stored)
    assert found is not None
    assert misfits(found) == []
    forged = [
        one._replace(body={**one.body, "values": {"sum.output": 2}}, text="") if one.kind == "assigned" else one
        for one in found.events
    ]
    assert [fault.seq for fault in misfits(found._replace(events=tuple(forged)))] == [1]


@pytest.mark.parametrize(
    ("text", "args", "message", "help"),
    [
        (
            "(+ data/a 1)",
            {},
            "it reads `data/a`, and has no such argument",
            "add `a` to `args`: `args: {a: $REFERENCE}`",
        ),
        (
            "(fitler odd? [1])",
            {},
            "`lisp`: `fitler` has no value (line 1, column 2)",
            "did you mean `filter` or `filterv`?",
        ),
        ("(inc 1", {}, "`lisp`: `(` is never closed (line 1, column 1)", ""),
        ("(tool/pay {})", {}, "a call of a tool (`tool/pay`)", "hand its result in as data"),
    ],
)
def test_an_expression_that_means_nothing_is_refused(text: str, args: Any, message: str, help: str) -> None:
    with pytest.raises(ProgramError) as caught:
        computing(compute("c", text, args=args))
    (problem,) = caught.value.problems
    assert message in problem.message
    assert help in (problem.help or "")
    assert problem.step == "c"


def test_a_compute_step_needs_language_2() -> None:
    with pytest.raises(ProgramError, match="a `compute` step needs language 2"):
        program(compute("c", "1"))


@pytest.mark.parametrize("field", ["timeout_seconds", "max_retries", "fallback", "retry"])
def test_fields_of_calls_mean_nothing_here(field: str) -> None:
    with pytest.raises(ProgramError, match=f"`{field}` does not belong to"):
        computing(compute("c", "1", **{field: 1}))


def test_in_lockstep_with_the_reference_on_programs_that_compute() -> None:
    theme = WIDE._replace(computes=1.0, kinds=("call", "call", "condition", *["set"] * 5, "parallel", "end"))
    endings: list[tuple[str, str]] = []
    for seed in range(60):
        data, *both = wide_program(f"compute/{seed}", theme)
        made, (now, later) = Program.from_dict(data), [list(map(Policy.from_dict, policies)) for policies in both]
        if any(step.type == "compute" for step in made.steps) and not Meaning(made, [*now, *later]).typing.conflicts:
            endings.append(lockstep(DrawnCase(made, str(seed), now, later)).ending)
    assert len(endings) > 30
    assert len(set(endings)) > 5


def test_the_record_of_a_value_names_its_variable() -> None:
    bench = Bench()
    bench.run(computing(compute("c", "{:a [1 :b]}", output_key="made"), end("done")))
    records = [json.loads(entry.record) for entry in bench.journal.read("run")]
    assert records[1]["kind"] == "assigned"
    assert records[1]["body"]["values"] == {"made": {"a": [1, "b"]}}
