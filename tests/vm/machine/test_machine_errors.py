"""Errors by name on the machine: who names them, where they lead, and when an attempt is made again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import InDoubt, MemoryJournal, ModelReply, Program, Run, ToolError
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay

PAY: dict[str, Any] = {"effect": "write", "idempotent": False, "errors": ["CardDeclined", "Limit"]}
LOOK: dict[str, Any] = {"effect": "read", "errors": ["Busy", "TimeoutError"], "returns": {"type": "integer"}}
MAIL: dict[str, Any] = {"effect": "write", "idempotent": True, "errors": ["Busy"], "returns": {"type": "integer"}}


class CardDeclined(Exception):  # noqa: N818 - the manifest lists it by this name
    pass


class CardExpired(CardDeclined):
    pass


def program(*steps: dict[str, Any], **more: Any) -> Program:
    ends = [{"id": name, "type": "end", "output": name} for name in ("done", "first", "second")]
    tools = {"pay": PAY, "look": LOOK, "mail": MAIL}
    return Program.from_dict({"language": 2, "tools": tools, "steps": [*steps, *ends], **more})


def call(tool: str, **more: Any) -> dict[str, Any]:
    return {"id": "call", "type": "tool", "tool": tool, "next_step": "done", **more}


CATCH = [{"errors": ["CardDeclined"], "then": "first"}, {"errors": ["any"], "then": "second"}]


def raising(*raised: Any) -> Any:
    """Return a tool that raises or returns these in turn, and then the last one again and again."""
    said = list(raised)

    def tool() -> Any:
        one = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(one, BaseException):
            raise one
        return one

    return tool


def played(made: Program, clock: ManualClock | None = None, model: Any = None, **tools: Any) -> Run:
    """Run a program, and check that its journal replays."""
    journal = MemoryJournal()
    names = {"pay": raising(1), "look": raising(1), "mail": raising(1)}
    machine = unchecked(names | tools, model, journal, clock=clock or ManualClock())
    run = machine.run_sync(made)
    found = replay(journal, run.id)
    assert found is not None
    assert found.faults == ()
    assert found.run.snapshot() == run.snapshot()
    return run


@pytest.mark.parametrize(
    ("error", "name", "to"),
    [
        (CardDeclined("no"), "CardDeclined", "first"),
        (CardExpired("no"), "CardDeclined", "first"),
        (ToolError("CardDeclined", "no"), "CardDeclined", "first"),
        (ToolError("Limit"), "Limit", "second"),
        (ToolError("Other"), "Unexpected", "second"),
        (ValueError("no"), "Unexpected", "second"),
        (TimeoutError("no"), "Unexpected", "second"),
    ],
)
def test_the_nearest_listed_class_names_an_error(error: Exception, name: str, to: str) -> None:
    run = played(program(call("pay", catch=CATCH)), pay=raising(error))
    assert (run.output, run.view("tool")["call.error_name"]) == (to, name)


def test_what_a_tool_raises_itself_is_named_by_its_class_also_a_time_out() -> None:
    run = played(
        program(call("look", catch=[{"errors": ["TimeoutError"], "then": "first"}])), look=raising(TimeoutError())
    )
    assert run.output == "first"


def test_an_error_that_no_entry_takes_ends_the_run() -> None:
    run = played(program(call("pay", catch=CATCH[:1])), pay=raising(ToolError("Limit", "too much")))
    assert (run.status, run.reason, run.error) == ("FAILED", "error", "too much")


def test_without_language_2_errors_have_no_names() -> None:
    data = program(call("pay", error_step="first")).to_dict()
    data["tools"] = {"pay": {"effect": "write", "idempotent": False}}
    run = played(Program.from_dict({**data, "language": 1}), pay=raising(CardDeclined("no")))
    assert run.output == "first"
    assert "call.error_name" not in run.view("tool")
    assert all("error_name" not in vars(record) or record.error_name is None for record in run.trace)


@pytest.mark.parametrize(
    ("step", "tools", "name"),
    [
        (call("look", error_step="first"), {"look": raising("no integer")}, "BadOutput"),
        (call("look", error_step="first", args={"x": "$gone.output"}), {}, "Undefined"),
        (call("mail", error_step="first", max_visits=1, next_step="call"), {}, "Visits"),
        (
            {"id": "call", "type": "llm", "prompt": "?", "allowed_outputs": ["a"], "error_step": "first"},
            {},
            "BadOutput",
        ),
    ],
)
def test_the_machine_names_its_own_errors(step: dict[str, Any], tools: dict[str, Any], name: str) -> None:
    class Talks:
        def complete(self, request: Any) -> ModelReply:
            return ModelReply("b")

    gone = {"id": "gone", "type": "tool", "tool": "look", "is_terminal": True}
    made = program(step, inputs={})
    made = Program.from_dict({**made.to_dict(), "steps": [*made.to_dict()["steps"], gone]})
    run = played(made, None, Talks(), **tools)
    assert (run.output, run.view("tool")["call.error_name"]) == ("first", name)


def test_a_call_that_is_late_times_out() -> None:
    clock = ManualClock()

    def late() -> int:
        clock.time += 9_000_000
        return 1

    step = call("look", timeout_seconds=2, catch=[{"errors": ["Timeout"], "then": "first"}])
    assert played(program(step), clock, look=late).output == "first"


def test_nobody_catches_what_may_have_happened() -> None:
    for tool, raised in (("pay", InDoubt("lost")), ("mail", "no integer")):
        run = played(program(call(tool, error_step="first")), **{tool: raising(raised)})
        assert run.status == "IN_DOUBT", tool


def test_a_parallel_step_has_the_error_of_its_first_failed_sub_step() -> None:
    parts = [
        {"id": "a", "type": "tool", "tool": "look"},
        {"id": "b", "type": "tool", "tool": "mail"},
        {"id": "c", "type": "tool", "tool": "pay"},
    ]
    step = {"id": "call", "type": "parallel", "parallel_steps": parts, "next_step": "done"}
    catch = [{"errors": ["Limit"], "then": "second"}, {"errors": ["Busy"], "then": "first"}]
    run = played(program(step | {"catch": catch}), mail=raising(ToolError("Busy")), pay=raising(ToolError("Limit")))
    names = {name: value for name, value in run.view("tool").items() if name.endswith("error_name")}
    assert (run.output, names) == (
        "first",
        {"call.error_name": "Busy", "b.error_name": "Busy", "c.error_name": "Limit"},
    )


# -- retries -----------------------------------------------------------------------------------------------------------


RETRY = [{"errors": ["Busy"], "max_attempts": 4, "delay_seconds": 2, "backoff": 3, "max_delay_seconds": 10}]


def waited(clock: ManualClock) -> float:
    return round(sum(clock.slept), 3)


def test_delays_grow_up_to_their_limit() -> None:
    clock = ManualClock()
    run = played(program(call("look", retry=RETRY)), clock, look=raising(*[ToolError("Busy")] * 3, 7))
    assert (run.status, waited(clock)) == ("SUCCESS", 2 + 6 + 10)
    dues = [record.due for record in run.trace if getattr(record, "due", None) is not None]
    starts = [record.at for record in run.trace][2:5]
    assert all(start >= due for due, start in zip(dues, starts, strict=True))


def test_attempts_are_counted_together_whatever_their_errors() -> None:
    entries = [{"errors": ["Busy"], "max_attempts": 3}, {"errors": ["any"], "max_attempts": 2}]
    asked: list[int] = []

    def look() -> int:
        asked.append(1)
        raise ToolError("Busy") if len(asked) == 1 else ValueError("x")

    run = played(program(call("look", retry=entries, error_step="first")), look=look)
    assert (len(asked), run.view("tool")["call.error_name"]) == (2, "Unexpected")


def test_what_cannot_start_is_not_tried_again() -> None:
    clock = ManualClock()
    later = {"id": "later", "type": "tool", "tool": "look", "is_terminal": True}
    step = call("look", args={"x": "$later.output"}, retry=[{"errors": ["any"]}], error_step="first")
    made = Program.from_dict({**program(step).to_dict(), "steps": [*program(step).to_dict()["steps"], later]})
    assert (played(made, clock).output, clock.slept) == ("first", [])


def test_a_write_that_is_not_idempotent_is_never_tried_again() -> None:
    asked: list[int] = []

    def pay() -> None:
        asked.append(1)
        raise ToolError("Limit")

    run = played(program(call("pay", retry=[{"errors": ["any"], "max_attempts": 5}], error_step="first")), pay=pay)
    assert (run.output, len(asked)) == ("first", 1)


def test_an_idempotent_write_keeps_its_key_and_is_in_doubt_when_its_attempts_are_used_up() -> None:
    keys: list[str] = []

    def mail(idempotency_key: str) -> int:
        keys.append(idempotency_key)
        raise InDoubt("lost")

    run = played(program(call("mail", retry=[{"errors": ["any"], "max_attempts": 2}], error_step="first")), mail=mail)
    assert (run.status, len(keys), len(set(keys))) == ("IN_DOUBT", 2, 1)


class _Dead(BaseException):
    """The process dies."""


class _Dying(ManualClock):
    """A clock of a process that dies in its first sleep."""

    async def sleep(self, seconds: float) -> None:
        raise _Dead


def test_a_delay_survives_a_crash() -> None:
    journal, clock = MemoryJournal(), ManualClock()
    made = program(call("look", retry=[{"errors": ["Busy"], "delay_seconds": 100}]))
    dying = _Dying()
    with pytest.raises(_Dead):
        unchecked({"look": raising(ToolError("Busy"))}, None, journal, clock=dying, lease_seconds=5).run_sync(
            made, run_id="run"
        )
    clock.time = dying.time + 70_000_000
    began: list[int] = []

    def look() -> int:
        began.append(clock.time)
        return 1

    (run,) = unchecked({"look": look}, None, journal, clock=clock).recover_sync()
    due = next(record.due for record in run.trace if getattr(record, "due", None) is not None)
    assert run.status == "SUCCESS"
    assert 29.9 < waited(clock) <= 30
    assert began[0] >= due.timestamp() * 1e6


def test_a_clock_that_was_set_back_makes_no_delay_longer() -> None:
    class Back(ManualClock):
        def now(self) -> int:
            if len(self.slept) == 0 and self.time > start + 3:
                self.time -= 3_600_000_000
            return super().now()

    clock = Back()
    start = clock.time
    run = played(program(call("look", retry=RETRY)), clock, look=raising(ToolError("Busy"), 1))
    assert run.status == "SUCCESS"
    assert waited(clock) <= 2


def test_a_cancellation_ends_a_delay() -> None:
    journal = MemoryJournal()
    made = program(call("look", retry=[{"errors": ["Busy"], "delay_seconds": 3600}]))

    class Cancelling(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.slept) == 1:
                await unchecked({}, None, journal, clock=self).cancel("run")

    clock = Cancelling()
    machine = unchecked({"look": raising(ToolError("Busy"))}, None, journal, clock=clock)
    run = asyncio.run(machine.run(made, run_id="run"))
    assert (run.status, len(clock.slept)) == ("CANCELLED", 1)


# -- sub-steps that depend on each other -------------------------------------------------------------------------------


def ordered(*parts: dict[str, Any], **more: Any) -> Program:
    step = {"id": "call", "type": "parallel", "parallel_steps": list(parts), "next_step": "done", **more}
    return program(step)


def part(name: str, tool: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, **more} | ({"depends_on": list(needs)} if needs else {})


DEPENDENCY = [{"errors": ["Busy"], "then": "first"}, {"errors": ["Dependency"], "then": "second"}]


@pytest.mark.parametrize(("on_error", "to"), [("fail", "first"), ("skip", "second")])
def test_what_lacks_an_output_has_an_error_of_its_own_and_gives_it_to_the_step_only_alone(
    on_error: str, to: str
) -> None:
    parts = part("late", "pay", "early"), part("early", "look", on_error=on_error)
    run = played(ordered(*parts, catch=DEPENDENCY), look=raising(ToolError("Busy")))
    assert run.output == to
    assert run.view("tool")["late.error_name"] == "Dependency"


def test_what_lacks_an_output_is_not_tried_again() -> None:
    parts = part("late", "look", "early", retry=[{"errors": ["any"]}]), part("early", "mail", on_error="skip")
    clock = ManualClock()
    run = played(ordered(*parts, catch=DEPENDENCY), clock, mail=raising(ToolError("Busy")))
    assert (run.output, clock.slept) == ("second", [])


def test_a_delay_holds_up_only_what_depends_on_it() -> None:
    order: list[str] = []

    def tool(name: str, *raised: Any) -> Any:
        answer = raising(*raised)

        def called() -> Any:
            order.append(name)
            return answer()

        return called

    parts = part("slow", "look", retry=RETRY), part("behind", "mail", "slow"), part("beside", "pay")
    clock = ManualClock()
    tools = {"look": tool("slow", ToolError("Busy"), 1), "mail": tool("behind", 1), "pay": tool("beside", 1)}
    run = played(ordered(*parts), clock, **tools)
    assert run.status == "SUCCESS"
    assert order == ["slow", "beside", "slow", "behind"]
    assert 1.9 < waited(clock) <= 2


def test_a_delay_of_a_sub_step_survives_a_crash() -> None:
    journal, clock, dying = MemoryJournal(), ManualClock(), _Dying()
    made = ordered(
        part("slow", "look", retry=[{"errors": ["Busy"], "delay_seconds": 100}]), part("behind", "mail", "slow")
    )
    with pytest.raises(_Dead):
        unchecked(
            {"look": raising(ToolError("Busy")), "mail": raising(1)}, None, journal, clock=dying, lease_seconds=5
        ).run_sync(made, run_id="run")
    clock.time = dying.time + 70_000_000
    (run,) = unchecked({"look": raising(1), "mail": raising(1)}, None, journal, clock=clock).recover_sync()
    assert run.status == "SUCCESS"
    assert 29.9 < waited(clock) <= 30
    found = replay(journal, run.id)
    assert found is not None
    assert found.faults == ()


def test_a_rule_that_ends_the_run_ends_a_delay_of_a_sub_step() -> None:
    class Sleeping(ManualClock):
        async def sleep(self, seconds: float) -> None:
            started.set()
            await asyncio.sleep(3600)

    started = asyncio.Event()
    rule = {"name": "never", "never": {"step": "behind"}}
    parts = (
        part("slow", "look", retry=[{"errors": ["Busy"], "delay_seconds": 3600}]),
        part("beside", "mail"),
        part("behind", "pay", "beside"),
    )

    async def mail() -> int:
        await started.wait()
        return 1

    async def driven() -> Run:
        machine = unchecked(
            {"look": raising(ToolError("Busy")), "mail": mail, "pay": raising(1)}, None, clock=Sleeping()
        )
        return await asyncio.wait_for(machine.run(made), 30)

    step = {"id": "call", "type": "parallel", "parallel_steps": list(parts), "next_step": "done"}
    made = program(step, guardrails=[rule])
    run = asyncio.run(driven())
    assert (run.status, run.reason) == ("FAILED", "guardrail")
