"""Acts with calls that machines make: odd answers, time-outs, cached replies, breakers, outputs at their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.models.replies import drawn_model
from stepward.sabotage.recorded.shared.context import Act, SceneContext, thing
from stepward.vm import ExecutionVM, InDoubt, MemoryJournal, ModelReply, Program, Run, Suspend, ToolError
from stepward.vm.journal.canonical import LARGEST
from stepward.vm.journal.store import Switch
from stepward.vm.machine import breakers
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ANY_NAME, ModelFailed, ModelRequest
from stepward.vm.machine.state import Limits
from stepward.vm.models.cache import CacheFault
from stepward.vm.models.named import NamedModels

# -- what tools and models give ----------------------------------------------------------------------------------------


class Lacking(Exception):  # noqa: N818 - the name is what matters
    """An error that manifests list."""


class Below(Lacking):
    """One of a class below it."""


class SilentError(Exception):
    """An error whose text can't be had."""

    def __str__(self) -> str:
        raise ValueError


class Lazy(list[Any]):
    """A list that raises when it is read."""

    def __iter__(self) -> Any:
        raise KeyError("lazy")


class FalseClass:
    """An object that says that it is of another class."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Suspend


class Odd(str):
    """A text with an opinion of its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


_ERRORS: Final = (
    *(
        Lacking("no"),
        Below(""),
        ToolError("Declined", "no funds"),
        ToolError("Other"),
        ToolError("Lacking"),
        SilentError(),
    ),
    *(InDoubt("lost"), TimeoutError("own"), SystemExit(3), asyncio.CancelledError("own"), ValueError("e" * 2000)),
    *(ValueError("e" * 2001), KeyError("\udc80"), OSError(), ToolError(7), ConnectionError("é")),  # type: ignore[arg-type]
)
_OUTPUTS: Final[tuple[Any, ...]] = (
    *("yes", "no", "", 7, -1, Decimal("0.10"), 1.5, True, None, [1, "x"], {"a": 1}, {"a": {"b": [None]}}, 10**30),
    *(Suspend(), Suspend({"q": "?"}), Suspend("s" * 200_000), Suspend({1}), Suspend(Lazy([1]))),
    *(
        float("nan"),
        float("inf"),
        {1, 2},
        b"x",
        Lazy([1]),
        FalseClass(),
        ("a", 1),
        object(),
        Odd("yes"),
        object,
        {1: 2},
        ("a",),
        "x" * 150_000,
    ),
)
_TYPES: Final[tuple[Any, ...]] = (
    *(None, None, {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer", "maximum": 7}),
    *({"type": "array", "items": {"type": "integer"}}, {"type": "object", "properties": {"a": {"type": "integer"}}}),
    *({"type": "string", "sensitive": True}, {"type": "object", "properties": {"a": {"sensitive": True}}}),
)
_CONTENTS: Final[tuple[Any, ...]] = (
    *(
        "yes",
        " no\n",
        "maybe",
        "7",
        '"x"',
        '{"a": 1}',
        '{"a": 1.50}',
        "[1, 2]",
        "NaN",
        "[Infinity]",
        "{",
        "1e999999999",
    ),
    *(7, None, {"a": 1}, ["x"], Odd("no"), Lazy([1]), float("nan"), "[" * 100_000, "null", "true", "z" * 140_000),
)
_COUNTS: Final[tuple[Any, ...]] = (0, 1, 10, -1, LARGEST, LARGEST + 1, "5", None, 2.9, float("nan"), float("inf"), True)
_COSTS: Final[tuple[Any, ...]] = (0, 1, Decimal("0.01"), 0.25, None, None, -1, "1", float("nan"), True, Decimal("NaN"))
_NAMES: Final[tuple[Any, ...]] = ("m", "", "n" * 199, "n" * 200, "n" * 201, None, 7, SilentError(), "\ud800x")


class RandomTools:
    """Tools and a model whose answers chance decides."""

    names = ANY_NAME

    def __init__(self, context: SceneContext, clock: ManualClock, *, odd: float = 0.2) -> None:
        self.context = context
        self.chance = context.chance
        self.clock = clock
        self.odd = odd
        self.parameters: Any = context.pick({"model": "given"}, {"model": "given"}, {}, None, {"a": {1}}, [1])

    def has(self, name: str) -> bool:
        """Return that there is a tool."""
        return name != "missing"

    async def call(self, name: str, args: Mapping[str, Any], context: Any) -> Any:
        """Answer a call of a tool."""
        self.context.notes.add(
            "call", name, args, context.attempt, context.performance, context.timeout, context.returns
        )
        self._take_time()
        if self.chance.random() < self.odd:
            raise self.chance.choice(_ERRORS)
        return self.chance.choice(_OUTPUTS)

    async def complete(self, request: ModelRequest) -> Any:
        """Answer a request to a model."""
        self.context.notes.add("ask", *request)
        self._take_time()
        chance = self.chance
        content = chance.choice(_CONTENTS)
        if request.allowed is not None and chance.random() < 0.6:
            content = chance.choice(request.allowed)
        spent = ModelReply(content, chance.choice(_COUNTS), chance.choice(_COSTS), chance.choice(_NAMES))
        if chance.random() < self.odd / 2:
            raise chance.choice((*_ERRORS, ModelFailed("f"), ModelFailed("f", spent), ModelFailed("", spent)))
        if chance.random() < 0.08:
            return chance.choice(("yes", None, {}, ("yes", 1, 0, "m")))
        return spent

    def _take_time(self) -> None:
        self.clock.time += self.chance.choice((0, 0, 1000, 999_990, 1_000_000, 1_000_001, 2_000_000))


def _call(chance: Random, number: int) -> dict[str, Any]:
    """Return a step that calls a tool or a model."""
    step: dict[str, Any] = {"id": f"s{number}", "output_key": f"v{number}", "next_step": f"s{number + 1}"}
    if chance.random() < 0.5:
        tool = chance.choice(("read", "read", "write", "again", "ask", "typed", "typed"))
        step |= {"type": "tool", "tool": tool, "args": {"a": chance.choice((1, "x", "$card", [1.5]))}}
    else:
        step |= {
            "type": "llm",
            "prompt": chance.choice(("go?", "of {{card}}", "go {{plain}}")),
            "cache": chance.random() < 0.4,
        }
        step |= chance.choice(({}, {"allowed_outputs": ["yes", "no"]}, {"returns": chance.choice(_TYPES) or {}}))
        more: dict[str, tuple[Any, ...]] = {"system": ("be brief",), "model": ("small",), "temperature": (0, 0.5)}
        step |= {name: chance.choice(values) for name, values in more.items() if chance.random() < 0.2}
        step |= {"max_output_tokens": 5} if chance.random() < 0.1 else {}
    if chance.random() < 0.4:
        step |= {"timeout_seconds": chance.choice((1, 0.5, 2))}
        step |= {"on_timeout": "fallback", "fallback": "yes"} if chance.random() < 0.2 else {}
    step |= chance.choice(({}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}, {"on_error": "skip"}))
    return step


def _program(chance: Random, steps: list[dict[str, Any]], **more: Any) -> Program | None:
    tools = {
        "read": {"effect": "read"},
        "write": {"effect": "write", "errors": ["Lacking", "Declined"]},
        "again": {"effect": "write", "idempotent": True, "errors": ["Lacking"]},
        "ask": {"effect": "none", "suspends": True},
        "typed": {"effect": "read", "returns": chance.choice(_TYPES) or {}, "errors": ["Below"]},
    }
    end = {"id": f"s{len(steps)}", "type": "end"}
    kind = {"type": "string", "sensitive": True}
    data = {"name": "p", "language": 2, "inputs": {"card": kind, "plain": {"type": "string"}}, "tools": tools, **more}
    return Program.from_dict({**data, "steps": [*steps, end]})


_INPUTS: Final = {"card": "4111-1111", "plain": "there"}


def _machine(context: SceneContext, clock: ManualClock, tools: Any, model: Any = None, **more: Any) -> ExecutionVM:
    options = {
        "clock": clock,
        "random": context.chance.randbytes,
        "retry_delay": lambda n: n / 2,
        **context.options,
        **more,
    }
    return ExecutionVM(tools, model, checker=options.pop("checker", None), **options)


def _show(context: SceneContext, machine: ExecutionVM, run: Run | None) -> None:
    """Note a run with its records."""
    if run is None:
        return
    context.notes.add(run, [[(doubt.place, doubt.why) for doubt in run.doubts]])
    for entry in machine.journal.read(run.id):
        context.notes.add(entry.record)


def _run(
    context: SceneContext, machine: ExecutionVM, program: Program, inputs: Mapping[str, Any], name: str
) -> Run | None:
    return context.quiet(lambda: context.wait(machine.run(program, inputs, run_id=name)))


def answer_calls(context: SceneContext) -> None:
    """Answer the calls of a program in every way."""
    chance, tools = context.chance, RandomTools(context, ManualClock())
    more = {"max_cost": chance.choice((1, 5))} if chance.random() < 0.3 else {}
    steps = [_call(chance, number) for number in range(5)]
    program = context.quiet(lambda: _program(chance, steps, **more))
    if program is None:
        return
    limits = Limits(chance.choice((1 << 20, 1 << 20, 100_000, 1000)))
    machine = _machine(context, tools.clock, tools, tools, limits=limits)
    run = context.quiet(lambda: context.wait(machine.run(program, _INPUTS, run_id="r")))
    for _ in range(4):
        payload: Any = chance.choice(_OUTPUTS)
        if run is not None and run.suspensions:
            token = run.suspensions[0].token
            run = (
                context.quiet(lambda token=token, payload=payload: context.wait(machine.resume(token, payload))) or run
            )
        elif run is not None and run.doubts:
            settled = "r", run.doubts[0].place, chance.choice(("done", "not_done", "abandon")), payload
            run = context.quiet(lambda settled=settled: context.wait(machine.reconcile(*settled))) or run
    _show(context, machine, run)


def weigh_calls(context: SceneContext) -> None:
    """Run programs whose outputs are at the limits of a machine."""
    chance, clock = context.chance, ManualClock()
    large, total = chance.choice((150, 200)), chance.choice((410, 450, 500, 600))
    sizes = [max(chance.choice((large - 3, large - 2, large - 1, total - large - 2, 3, 8)), 0) for _ in range(4)]

    async def read(**_: Any) -> Any:
        text = "é" * (sizes[0] // 2) if chance.random() < 0.2 else "x" * sizes[0]
        sizes.append(sizes.pop(0))
        return text

    steps: list[dict[str, Any]] = [
        {"id": f"s{number}", "type": "tool", "tool": "read", "args": {"a": 1}, "output_key": f"v{number}",
         "next_step": f"s{number + 1}", "on_error": chance.choice(("skip", "fail"))}
        for number in range(3)
    ]  # fmt: skip
    if chance.random() < 0.5:
        built = {"w": chance.choice(("$v0", {"a": "$v0", "b": "$v1"}, [1, "$v1"]))}
        steps.insert(2, {"id": "s2", "type": "set", "set": built, "next_step": "s3"})
        steps[-1] |= {"id": "s3", "next_step": "s4"}
    program = context.quiet(lambda: _program(chance, steps))
    if program is None:
        return
    limits = Limits(large, total, chance.choice((3, 4, 100)))
    machine = _machine(context, clock, {"read": read}, limits=limits)
    inputs = {"card": "c" * chance.choice((1, 10)), "plain": "p"}
    _show(context, machine, context.quiet(lambda: context.wait(machine.run(program, inputs, run_id="r"))))


# -- replies from a cache ----------------------------------------------------------------------------------------------


class FaultyCache:
    """A cache in memory, which may fail, or have something else."""

    def __init__(self, context: SceneContext) -> None:
        self.context = context
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return an entry."""
        self.context.notes.add("get", key)
        if self.context.maybe(0.08):
            raise self.context.pick(CacheFault("no cache"), KeyError("x"), SilentError())
        return self.kept.get(key) if self.context.maybe(0.95) else self.context.pick(b"{", b"", None)

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry."""
        self.context.notes.add("put", key, entry)
        if self.context.maybe(0.08):
            raise self.context.pick(CacheFault("full"), ValueError("x"))
        self.kept[key] = entry


_SCRIPTS: Final[tuple[Any, ...]] = (["yes"], ['{"a": 1}', "x"], ["4111-1111"], [ModelReply("no", 3, 1, "m")])


def take_from_cache(context: SceneContext) -> None:
    """Ask the same again with a cache: in other runs, by other machines, with other models and types."""
    chance, cache = context.chance, FaultyCache(context)
    context.note_log("stepward.cache")
    step = {"id": "s0", "type": "llm", "output_key": "v", "next_step": "s1", "cache": chance.random() < 0.9}
    step |= {"prompt": chance.choice(("go?", "go {{plain}}", "of {{card}}")), "on_error": "skip"}
    forms: tuple[dict[str, Any], ...] = (
        {},
        {"allowed_outputs": ["yes", "no"]},
        {"returns": chance.choice(_TYPES) or {}},
    )
    for number in range(5):
        form = chance.choice(forms)
        other = {"system": chance.choice(("s", "of {{card}}"))} if chance.random() < 0.2 else {}
        other |= {"model": "small"} if chance.random() < 0.1 else {}
        steps = [{**step, **form, **other}]
        program = context.quiet(lambda steps=steps: _program(chance, steps))
        if program is None:
            continue
        tools: Any = RandomTools(context, ManualClock(), odd=0.1)
        scripted = drawn_model(context)
        scripted.script = {"s0": chance.choice(_SCRIPTS)}
        model = chance.choice((tools, scripted, scripted, NamedModels(scripted, small=scripted)))
        machine = _machine(context, tools.clock, tools, model, cache=cache, limits=Limits(130_000))
        inputs = {**_INPUTS, "plain": chance.choice(("there", "here"))}
        run = _run(context, machine, program, inputs, f"r{number}")
        _show(context, machine, run)
    for key in sorted(cache.kept):
        context.notes.add(key, cache.kept[key])


# -- breakers ----------------------------------------------------------------------------------------------------------


_ERRING: Final[tuple[dict[str, Any], ...]] = ({"on_error": "retry", "max_retries": 3}, {"on_error": "skip"}, {})


def hold_at_breakers(context: SceneContext) -> None:
    """Run programs whose tools fail until a breaker opens, and go on after somebody has closed it."""
    chance, clock = context.chance, ManualClock()
    fails = [chance.random() < 0.7 for _ in range(8)]

    async def write(**args: Any) -> Any:
        context.notes.add("write", args)
        if fails and fails.pop(0):
            raise chance.choice((ValueError("f"), Lacking("d"), InDoubt("l"), TimeoutError()))
        return "done"

    steps = [
        {
            "id": f"s{number}",
            "type": "tool",
            "tool": chance.choice(("again", "write", "read")),
            **chance.choice(_ERRING),
        }
        for number in range(3)
    ]
    steps = [{**step, "next_step": f"s{number + 1}"} for number, step in enumerate(steps)]
    program = context.quiet(lambda: _program(chance, steps))
    if program is None:
        return
    journal = MemoryJournal()
    context.swap(breakers, "time", thing(monotonic=lambda: clock.time / 1e6))
    tools = dict.fromkeys(("read", "write", "again"), write)
    more = {"journal": journal, "retry_delay": lambda _: 0, "breaks_after": chance.choice((1, 2, 3))}
    machine = _machine(context, clock, tools, **more)
    for number in range(3):
        run = _run(context, machine, program, _INPUTS, f"r{number}")
        context.notes.add(run, [tuple(switch) for switch in journal.switches()])
        for name in sorted(journal.opened()):
            if chance.random() < 0.6:
                journal.switch(Switch(name, False, clock.time / 1e6, "mended", "ann"))
                machine._setup.breakers.forget()
        clock.time += chance.choice((0, 10**6, 10**8))
        context.quiet(lambda name=f"r{number}": context.wait(machine.recover(name)))
        _show(context, machine, context.quiet(lambda name=f"r{number}": context.wait(machine.get(name))))


ACTS: Final[tuple[Act, ...]] = (answer_calls, answer_calls, weigh_calls, take_from_cache, hold_at_breakers)
