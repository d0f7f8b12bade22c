"""Fast: every limit of size, to the byte: a value that is exactly as large passes, and one byte more is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from machines import TOOLS, Bench, Late, ask, assign, end, program, tool
from stepward.vm import InDoubt, Limits, RunRefused, Suspend
from stepward.vm.machine import execution
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.replay import replay
from stepward.vm.machine.state import State, before

LONG = "x" * 1_998
"""2,000 bytes of JSON, more than the first record of a run."""

REFERENCE = 2 + len("#v") + 16 + 1 + 64
"""The bytes of a reference in place of a sensitive value ("Sensitive values" of the page on the journal)."""

TEXT = {"type": "string"}
SECRET = {"hidden": {"effect": "read", "returns": {"type": "string", "sensitive": True}}}
Step = dict[str, Any]


class Sized(NamedTuple):
    """A program and what its calls answer, with the bytes that it needs: of one output, or of the state."""

    limit: str
    what: str
    needs: int
    steps: tuple[Step, ...]
    answers: Mapping[str, Any] = {}
    payload: Any = None


def doubtful(name: str) -> Step:
    return tool(name, "write")


def late(name: str, fallback: str) -> Step:
    return tool(name, timeout_seconds=1, on_timeout="fallback", fallback=fallback)


def computed(name: str) -> Step:
    return {"id": name, "type": "compute", "lisp": "data/v", "args": {"v": LONG}}


def each(*steps: Step, **more: Any) -> Step:
    return {"id": "each", "type": "for_each", "items": [1, 2], "as": "i", "max_items": 2, "steps": list(steps), **more}


def both(*parts: Step, **more: Any) -> Step:
    return {"id": "p", "type": "parallel", "parallel_steps": list(parts), **more}


def fork(**more: Any) -> Step:
    inside = {"a": "t", "b": "u"}
    branches = {name: {"steps": [tool(one), end(f"{name}_end", f"${one}.output")]} for name, one in inside.items()}
    return {"id": "p", "type": "parallel", "branches": branches, **more}


ONE = "output_bytes"
ALL = "state_bytes"
TWO = 4_000 + len('{"t":,"u":}')
NO = ValueError("no")
CASES = (
    Sized(ONE, "an output", 2_000, (tool("t"),), {"t": LONG}),
    Sized(ONE, "an output of other letters", 2_000, (tool("t"),), {"t": "\u00e4" * 999}),
    Sized(ONE, "a reply", 2_000, (ask("t"),), {"t": LONG}),
    Sized(ONE, "a fallback", 2_000, (late("t", LONG),), {"t": [Late(5)]}),
    Sized(ONE, "values that are set", 2_000 + len('{"x":}'), (assign("s", x=f"'{LONG}'"),)),
    Sized(ONE, "a value that is computed", 2_000 + len('{"c.output":}'), (computed("c"),)),
    Sized(ONE, "an output of a sub-step", 2_000, (both(tool("t"), tool("u")),), {"t": LONG}),
    Sized(ONE, "an output of a body", 2_000, (each(end("e", LONG)), end("z"))),
    Sized(ONE, "carried values", 2_000 + len('{"v":}'), (each(tool("t"), carry={"v": f"'{LONG}'"}), end("z"))),
    Sized(ONE, "a request", 2_000, (tool("t", "ask"),), {"t": Suspend(LONG)}, 1),
    Sized(ONE, "a payload", 2_000, (tool("t", "ask"),), {"t": Suspend()}, LONG),
    Sized(ONE, "an output that settles a doubt", 2_000, (doubtful("t"),), {"t": InDoubt("gone")}, LONG),
    Sized(ONE, "a sensitive output", 2_000, (tool("t", "hidden"),), {"t": LONG}),
    Sized(ALL, "outputs", 4_000, (tool("t"), tool("u")), {"t": LONG, "u": LONG}),
    Sized(ALL, "outputs of other letters", 4_000, (tool("t"), tool("u")), {"t": "\u00e4" * 999, "u": "\u00e4" * 999}),
    Sized(ALL, "replies", 4_000, (ask("t"), ask("u")), {"t": LONG, "u": LONG}),
    Sized(ALL, "fallbacks", 4_000, (tool("t"), late("u", LONG)), {"t": LONG, "u": [Late(5)]}),
    Sized(ALL, "values that are set", 4_006, (tool("t"), assign("s", x="$t.output")), {"t": LONG}),
    Sized(ALL, "values that are computed", 4_013, (tool("t"), computed("c")), {"t": LONG}),
    Sized(ALL, "outputs of sub-steps", TWO, (both(tool("t"), tool("u")),), {"t": LONG, "u": LONG}),
    Sized(
        ALL,
        "outputs beside a failure",
        TWO,
        (both(tool("t"), tool("u"), tool("w"), on_error="skip"), end("z")),
        {"t": LONG, "u": LONG, "w": NO},
    ),
    Sized(ALL, "outputs of branches", TWO, (fork(), end("z")), {"t": LONG, "u": LONG}),
    Sized(ALL, "outputs of items", 4_003, (each(end("e", LONG)), end("z"))),
    Sized(
        ALL,
        "outputs of items that run at once",
        4_003,
        (each(end("e", LONG), max_concurrency=2, on_item_error="skip"), end("z")),
    ),
    Sized(ALL, "a request", 4_000, (tool("t"), tool("u", "ask")), {"t": LONG, "u": Suspend(LONG)}, 1),
    Sized(ALL, "a payload", 4_000, (tool("t"), tool("u", "ask")), {"t": LONG, "u": Suspend("?")}, LONG),
    Sized(ALL, "a settled doubt", 4_000, (tool("t"), doubtful("u")), {"t": LONG, "u": InDoubt("gone")}, LONG),
    Sized(ALL, "a sensitive value", 4_000, (tool("t"), tool("u", "hidden")), {"t": LONG, "u": LONG}),
    Sized(ALL, "a reference", 2_000 + REFERENCE, (tool("t"), tool("u", "hidden")), {"t": LONG, "u": "no"}),
)
"""Each way in which a value comes into a run, under each of the limits that hold for it."""


def played(case: Sized, most: int) -> str:
    """Play a case under its limit, and return how it ends; the journal has to stand a replay."""
    asked = {step["id"] for step in case.steps if "prompt" in step}
    models = {name: value for name, value in case.answers.items() if name in asked}
    bench = Bench(case.answers, models, limits=Limits()._replace(**{case.limit: most}))
    tools = {**TOOLS, **SECRET} if any(step.get("tool") == "hidden" for step in case.steps) else TOOLS
    run = bench.vm.run_sync(program(*case.steps, tools=tools, language=2), {}, run_id="run")
    try:
        if run.suspensions:
            run = bench.vm.resume_sync(run.suspensions[0].token, case.payload)
        elif run.doubts and case.payload is not None:
            run = bench.vm.reconcile_sync("run", run.doubts[0].step, "done", case.payload)
    except DeliveryRefused:
        return "REFUSED"
    found = replay(bench.journal, "run")
    assert found is not None
    assert found.faults == ()
    assert run.status == "SUCCESS" or str(most) in run.error
    assert found.run._state.size <= most or case.limit != ALL
    return run.status


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.what} under {case.limit}")
def test_a_limit_holds_to_the_byte(case: Sized) -> None:
    assert played(case, case.needs) == "SUCCESS"
    assert played(case, case.needs - 1) in ("FAILED", "REFUSED")


def test_the_inputs_have_the_limit_of_the_state() -> None:
    """The first record, which has them, may be as large as the state."""
    asked = program(end(), inputs={"x": TEXT})
    bench = Bench(limits=Limits(state_bytes=9_999))
    bench.run(asked, x=LONG)
    needed = len(bench.journal.read("run")[0].record)
    assert Bench(limits=Limits(state_bytes=needed)).run(asked, x=LONG).status == "SUCCESS"
    with pytest.raises(RunRefused, match=str(needed)):
        Bench(limits=Limits(state_bytes=needed - 1)).run(asked, x=LONG)


def test_a_step_that_is_visited_again_counts_once() -> None:
    loop = (tool("t", next_step="s"), assign("s", n="'again'", _step={"next_step": "t", "max_visits": 3}))
    run = Bench({"t": LONG}, limits=Limits(state_bytes=2_000 + len('{"n":"again"}'))).run(program(*loop))
    assert (run.status, run.reason) == ("STALLED", "visits")


# -- journals of machines that measured in another way -----------------------------------------------------------------

CAUGHT = (both(tool("t"), tool("u"), error_step="z"), end("z", "$t.output"))
WENT_ON: tuple[tuple[Sized, int], ...] = (
    (Sized(ALL, "a record that is longer than its value", 0, (assign("s", x=f"'{LONG}'"), tool("t"))), 2_008),
    (Sized(ALL, "a full state", 0, (tool("t"), assign("s", x="$t.output"), assign("r", y=1)), {"t": LONG}), 4_006),
    (Sized(ALL, "sub-steps whose failure was caught", 0, CAUGHT, {"t": LONG, "u": LONG}), 3_000),
    (Sized(ALL, "items", 0, (each(end("e", LONG)), end("z"))), 3_000),
)
"""What such a machine decided in another way, with the limit at that time."""


@pytest.mark.parametrize(("case", "most"), WENT_ON, ids=lambda one: getattr(one, "what", ""))
def test_a_journal_of_before_still_stands_a_replay(case: Sized, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def once(plan: Any) -> State:
        return before(plan)._replace(is_once_sized=True)

    def records(start: Callable[[Any], State]) -> list[bytes]:
        monkeypatch.setattr(execution, "before", start)
        bench = Bench(case.answers, limits=Limits(state_bytes=most))
        bench.vm.run_sync(program(*case.steps, language=2), {}, run_id="run")
        found = replay(bench.journal, "run")
        assert found is not None
        assert found.faults == ()
        return [entry.record for entry in bench.journal.read("run")]

    assert records(once) != records(before), "the rule of before makes a difference here"
