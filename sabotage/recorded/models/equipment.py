"""Acts with what a machine is made with: models, tools and functions that fit or do not; breakers, sizes and time."""

from __future__ import annotations

import asyncio
import functools
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from decimal import Decimal
from inspect import isfunction
from types import ModuleType
from typing import Any, Final, NoReturn

from stepward.sabotage.recorded.shared.context import Act, SceneContext, module, thing
from stepward.vm import Policy, Program
from stepward.vm.journal.canonical import LARGEST, Sealed, Secret
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import JournalError, Switch
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.machine import breakers
from stepward.vm.machine.breakers import Breakers, of_program, of_tool
from stepward.vm.machine.declared import ToolFacts, facts_of, tool
from stepward.vm.machine.equipment import require_facts, require_model, signature_fault, tool_fault, tools_of
from stepward.vm.machine.events import Result, make_event
from stepward.vm.machine.models import ModelReply, ModelRequest, ScriptedModel
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.sizes import left_size, may_be_oversize, oversize, recorded_size, refusal
from stepward.vm.machine.slots import put
from stepward.vm.machine.state import Limits, before
from stepward.vm.machine.timeouts import end_of_time, ending_misfit, is_late, limit_note, run_out, start_misfit
from stepward.vm.machine.tools import FunctionTools, InDoubt, Suspend, ToolContext, ToolError, in_thread
from stepward.vm.values import FrozenMap, freeze

# -- functions of every kind -------------------------------------------------------------------------------------------


def nothing() -> str:
    """Take nothing."""
    return "nothing"


def one(a: Any) -> Any:
    """Take one argument."""
    return ["one", a]


def two(a: int, b: int = 2) -> Any:
    """Take two."""
    return ["two", a, b]


def any_more(a: int = 1, **more: Any) -> Any:
    """Take any by name."""
    return ["any", a, more]


def many(*all_of_them: Any, a: Any = None) -> Any:
    """Take any by place."""
    return ["many", all_of_them, a]


def by_place(a: Any, /, b: Any = 1) -> Any:
    """Take one by place alone."""
    return ["place", a, b]


def maybe_by_place(a: Any = 0, /, b: Any = 1) -> Any:
    """Take one by place, if it is given."""
    return ["maybe", a, b]


def keyed(a: Any, *, idempotency_key: str) -> Any:
    """Take the key."""
    return ["keyed", a, idempotency_key]


def told(context: Any, a: Any = 3) -> Any:
    """Take the context."""
    return ["told", context if isinstance(context, str | int | None) else (*context, context.idempotency_key), a]


async def later(a: Any = 4, context: Any = None, idempotency_key: str = "") -> Any:
    """Take both, later."""
    await asyncio.sleep(0)
    return ["later", a, context is not None, idempotency_key]


def returns_later(a: Any = 5) -> Any:
    """Return something to await."""
    return later(a)


def raises(a: Any = None) -> NoReturn:
    """Raise what is named."""
    known: dict[Any, BaseException] = {1: StopIteration(), 2: SystemExit(3), 3: KeyboardInterrupt(), 4: KeyError("k")}
    raise known.get(a, InDoubt("nobody knows"))


class Holder:
    """An object with methods."""

    value = 7

    def shown(self, a: int) -> Any:
        """Return an argument."""
        return ["shown", a]

    def _hidden(self) -> None: ...

    async def __call__(self, b: Any = 1) -> Any:
        """Return an argument, later."""
        return ["called", b]


def _module() -> ModuleType:
    found = module(
        "scene_tools", one=one, two=two, _three=one, value=3, sqrt=math.sqrt, partial=functools.partial(one, 5)
    )
    vars(found)["json_dumps"], vars(found)["own"], vars(found)["Holder"] = json.dumps, Holder(), Holder
    return found


def _listed() -> ModuleType:
    found = _module()
    vars(found)["__all__"] = ["one", "sqrt", "value", "missing", "_three"]
    return found


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        nothing,
        one,
        two,
        any_more,
        many,
        by_place,
        maybe_by_place,
        keyed,
        told,
        later,
        returns_later,
        raises,
    )
}
_CONTEXT: Final = ToolContext("p" * 64, "r", "s", 1, 2, 3, "token", 1.5, None, (("e", 1, 1, 0),))


def call_functions(context: SceneContext) -> None:
    """Call functions as tools, from mappings, modules and objects."""
    chance = context.chance
    providers: tuple[Any, ...] = (FUNCTIONS, {**FUNCTIONS, "odd": 7, "_own": one}, _module(), _listed(), Holder())
    tools = FunctionTools(chance.choice(providers))
    context.notes.add(tools.names())
    names = [*tools.names(), "odd", "_own", "_three", "_hidden", "value", "missing", "sqrt", "json_dumps", "__all__"]
    for name in chance.choices(names, k=6):
        context.notes.add(name, tools.has(name), tools.special(name), getattr(tools.function(name), "__name__", None))
        args = {one: chance.choice((1, "x", None)) for one in ("a", "b", "context") if chance.random() < 0.4}
        if tools.has(name) and name not in ("Holder", "own"):
            context.do(args, lambda name=name, args=args: context.wait(tools.call(name, args, _CONTEXT)))
    for what in chance.sample((1, 2, 3, 4, 5), 2):
        context.do("raises", lambda what=what: context.wait(in_thread(raises, {"a": what})), has_own_words=False)
    context.notes.add(
        _CONTEXT.idempotency_key, _CONTEXT._replace(frame=()).idempotency_key, Suspend(), Suspend({"a": 1})
    )
    context.notes.add(ToolContext("p", "r", "s", 1, 1, 1, ""))
    for error in (ToolError("Name"), ToolError("Name", "text"), ToolError("Name", "")):
        context.notes.add(error.name, str(error))


_UNREADABLE: Final = functools.partial(print)


def take_arguments(context: SceneContext) -> None:
    """Say why functions can't take declared arguments."""
    chance = context.chance
    known = ("a", "b", "c", "context", "idempotency_key", "all_of_them", "more")
    for name in chance.sample(sorted(FUNCTIONS), 6):
        for _ in range(3):
            declared = chance.sample(known, chance.choice((0, 1, 1, 2, 3)))
            context.do(declared, lambda name=name, declared=declared: signature_fault(FUNCTIONS[name], declared))
    for function in (print, dict, type, "x".join, Holder(), Holder().shown, Holder, functools.partial(one, 5), iter):
        declared = chance.choice((["a"], ["a"], []))
        context.do("other", lambda function=function, declared=declared: signature_fault(function, declared))
    tools = FunctionTools(FUNCTIONS)
    for provider in (tools, Provider(), FunctionTools({})):
        context.do("fault", lambda provider=provider: tool_fault(provider, chance.choice(("one", "keyed")), ["a", "b"]))
    facts: dict[str, Any] = {}
    for name in chance.sample(sorted(FUNCTIONS), 2):
        args = chance.choice((None, ["a"], [], ["b"]))
        facts[name] = {"effect": "read", **({} if args is None else {"args": {arg: {} for arg in args}})}
    policies = [Policy.from_dict({"policy": "p", "tools": facts}), Policy.from_dict({"policy": "q"})]
    context.do(facts, lambda: require_facts(tools, chance.sample(policies, 2)), has_own_words=True)


class Provider:
    """A provider of tools."""

    def has(self, name: str) -> bool:
        """Return that there are none."""
        return not name

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Return what came."""
        return [name, args, context]


def take_tools(context: SceneContext) -> None:
    """Give machines tools of every kind."""
    namespace = {"__name__": "scene", "one": one, "value": 7}
    odd: tuple[Any, ...] = (
        *(
            None,
            {},
            {"a": one},
            {"a": 7},
            {7: one},
            {"a": None},
            {"a": [1]},
            {"a": "x"},
            namespace,
            "tools",
            b"x",
            7,
            1.5,
        ),
        *([one], (one,), {1}, one, len, Holder(), Holder, Provider(), Provider, _module(), {"a": Holder}, True),
        *(
            frozenset(),
            "x".join,
            Holder().shown,
            {"a": 1.5},
            {"a": {}},
            thing(has=1, call=one),
            thing(has=one, call=one),
        ),
    )
    for tools in context.chance.sample(odd, 8):
        found = context.do(odd.index(tools), lambda tools=tools: type(tools_of(tools)).__name__, has_own_words=True)
        if found == "FunctionTools":
            context.notes.add(tools_of(tools).has("one"), tools_of(tools).has("a"))


# -- models that can't be asked ----------------------------------------------------------------------------------------


def _with(complete: Any) -> Any:
    return type("Own", (), {"complete": complete})()


class _Completes:
    """What may be the `complete` of a model."""

    async def right(self, request: ModelRequest) -> ModelReply: ...  # type: ignore[empty-body]
    async def parts(self, _request: ModelRequest) -> AsyncIterator[str]:
        yield "x"

    def plain_parts(self, _request: Any) -> Any:
        yield "x"

    def text(self, request: ModelRequest) -> str: ...  # type: ignore[empty-body]
    def data(self, request: ModelRequest) -> dict[str, Any]: ...  # type: ignore[empty-body]
    def listed(self, request: ModelRequest) -> list[str]: ...  # type: ignore[empty-body]
    def none(self, request: ModelRequest) -> None: ...
    def raw(self, request: ModelRequest) -> bytes: ...  # type: ignore[empty-body]
    def bare(self, request: ModelRequest) -> dict: ...  # type: ignore[empty-body,type-arg]
    def prompt(self, request: str) -> ModelReply: ...  # type: ignore[empty-body]
    def tuples(self, request: tuple) -> Any: ...  # type: ignore[type-arg]
    def wild(self, request: Any) -> Any: ...
    def unknown(self, request: Missing) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
    def no_one(self) -> ModelReply: ...  # type: ignore[empty-body]
    def some_more(self, request: Any, more: Any) -> ModelReply: ...  # type: ignore[empty-body]
    def some(self, request: Any, more: Any = 1) -> ModelReply: ...  # type: ignore[empty-body]
    def named(self, *, request: Any) -> ModelReply: ...  # type: ignore[empty-body]
    def every(self, *requests: Any) -> ModelReply: ...  # type: ignore[empty-body]


def _models() -> tuple[Any, ...]:
    found = [_with(function) for function in vars(_Completes).values() if isfunction(function)]
    other: tuple[Any, ...] = (None, 7, "x", [1], {}, ScriptedModel, ScriptedModel({}), thing(complete=7), 1.5)
    more = one, Holder(), print, dict
    return (*found, *other, Holder(), *(thing(complete=each) for each in more))


def take_models(context: SceneContext) -> None:
    """Give machines models that can be asked, and others."""
    models = _models()
    for number in context.chance.sample(range(len(models)), 9):
        context.do(number, lambda number=number: require_model(models[number]), has_own_words=True)


def declare_tools(context: SceneContext) -> None:
    """Declare facts of functions."""
    facts = context.some(
        {"effect": ("read", "none", "write"), "idempotent": (True, False), "suspends": (True,), "echoes": (False,)}
    )
    function: Any = lambda: 1  # noqa: E731 - each scene has its own
    declared = tool(**facts)(function)
    context.notes.add(declared is function, facts_of(function), facts_of(one), facts_of(7), ToolFacts())
    function.__stepward_tool__ = context.pick(None, "write", ("write",))
    context.notes.add(facts_of(function))


# -- breakers ----------------------------------------------------------------------------------------------------------


class _Store(MemoryJournal):
    """A store that may fail."""

    fails = False

    def opened(self) -> frozenset[str]:
        if self.fails:
            raise JournalError("no store")
        return super().opened()

    def switch(self, switch: Switch) -> bool:
        if self.fails:
            raise JournalError("no store")
        return super().switch(switch)


_RESULTS: Final = (
    *(Result("failed", name=UNEXPECTED), Result("failed", name=UNEXPECTED), Result("timeout"), Result("doubt")),
    *(Result("output", 1), Result("failed", name="Declined"), Result("suspended")),
)


def break_circuits(context: SceneContext) -> None:
    """Count failures of tools, open breakers and close them again, as time passes."""
    chance, store, clock = context.chance, _Store(), thing(now=100.0)
    context.swap(breakers, "time", thing(monotonic=lambda: clock.now))
    context.do("most", lambda: Breakers(store, chance.choice((0, -1, 1, None)))._max_failures, has_own_words=True)
    machines = [Breakers(store, chance.choice((1, 2, 3, None))) for _ in range(2)]
    for _ in range(16):
        one, name = chance.choice(machines), chance.choice(("pay", "mail"))
        store.fails = chance.random() < 0.1
        match chance.choice(("count", "count", "count", "count", "look", "beside", "forget", "time", "switch", "ask")):
            case "count":
                result = chance.choice(_RESULTS)
                switch = one.count(name, result, clock.now)
                context.notes.add("count", result.answer, switch)
                if switch is not None and chance.random() < 0.8:
                    one.open(switch)
            case "look":
                context.do("look", one.look)
            case "beside":
                function = chance.choice((store.opened, one.look, lambda: "beside"))
                context.do("beside", lambda one=one, function=function: one.beside(function))
            case "forget":
                one.forget()
            case "time":
                clock.now += chance.choice((0.5, 0.999, 1.0, 1.001, 0.0))
            case "switch":
                name = chance.choice((of_tool(name), of_program("p"), of_program("q")))
                switch = Switch(name, chance.random() < 0.6, clock.now, "by hand", "ann")
                context.do("switch", lambda switch=switch: store.switch(switch))
            case _:
                programs = chance.choice((["p"], ["q", "p"], []))
                context.notes.add(one.open_one(chance.choice((name, "")), programs))
        context.notes.add(
            [(each.is_stale, sorted(each._failures.items()), each.open_one(name, ["p"])) for each in machines]
        )
    context.notes.add([tuple(switch) for switch in store.switches()])


# -- sizes and time ----------------------------------------------------------------------------------------------------

_VALUES: Final[tuple[Any, ...]] = (
    *(None, "", "x" * 20, "é€\U0001f600", 0, -1, 1.5, Decimal("0.10"), True, [], [1, [2]], {}, {"a": "é"}, 10**20),
)
_SEALED: Final = Sealed("ab" * 8, "c" * 64, None)


def _program(**more: Any) -> Program:
    steps = [
        {"id": "set", "type": "set", "set": {"v": "$a"}, "next_step": "end"},
        {"id": "end", "type": "end", "output": "$v"},
    ]
    kind = {"type": "string", "sensitive": True} if more.pop("sensitive", False) else {}
    return Program.from_dict({"name": "p", "language": 2, "inputs": {"a": kind}, "steps": steps, **more})


def weigh(context: SceneContext) -> None:
    """Weigh values, and hold them to limits at their edges."""
    chance = context.chance
    program = context.quiet(lambda: Plan(_program(sensitive=chance.random() < 0.4)))
    if program is None:
        return
    values = [freeze(chance.choice(_VALUES)) for _ in range(4)]
    odd = (*values, Secret("x" * chance.choice((1, 5, 300))), _SEALED, (values[0], _SEALED, Secret(values[1])))
    odd = (*odd, FrozenMap({"a": Secret("y"), "b": _SEALED, "c": values[2]}))
    step = program.steps[0]
    for value in odd:
        size = recorded_size(value)
        most, total = size + chance.choice((-1, 0, 1, 300)), chance.choice((0, 5, 100))
        limits = Limits(most, size + total + chance.choice((-1, 0, 1, 10**6)))
        state = before(program)._replace(limits=limits, size=total, is_once_sized=chance.random() < 0.2)
        if chance.random() < 0.5:
            state = state._replace(slots=_visited(program, step, chance.choice((0, 3, 5))))
        context.notes.add(size, oversize(program, state, step, value), oversize(program, state, step, value, size - 1))
        for counted in (size, size + 1):
            context.notes.add(refusal(state, step, size, counted), refusal(state, step, counted, size, size))
        long = "y" * chance.choice((0, 300, 450, 480, 500, 520, 700, 1500))
        for text in (long, "é" + long):
            found = context.quiet(
                lambda value=value, text=text: make_event("attempt", {"output": value, "other": text})
            )
            if found is not None:
                context.do("left", lambda state=state, found=found: left_size(state, found, "output"))
                context.do("may be", lambda state=state, found=found: may_be_oversize(state, found))
                context.do("unsealed", lambda state=state, found=found: may_be_oversize(state, found._replace(text="")))


def _visited(plan: Plan, step: Any, size: int) -> Any:
    return put(before(plan).slots, [(step.visits, (1, size))])


def run_late(context: SceneContext) -> None:
    """Ask when the time of a run is over, and hold records to it."""
    chance = context.chance
    timeout = chance.choice((None, 1, 60, 0.5, 31_536_000, Decimal("0.000001")))
    program = context.quiet(lambda: Plan(_program(**({} if timeout is None else {"timeout_seconds": timeout}))))
    if program is None:
        return
    for start in (0, 10**6, LARGEST - 10**6, LARGEST):
        context.notes.add(timeout, end_of_time(program, start), limit_note(program, start))
        due = end_of_time(program, start)
        for note in ({}, {"due": due}, {"due": (due or 0) + 1}, {"due": None}):
            context.notes.add(start_misfit(program, note, start))
        state = before(program)._replace(ends_by=due or 0)
        state = state._replace(is_cancelled=chance.random() < 0.2, moved=chance.choice(("", "", "m")))
        for now in ((due or start) + edge for edge in (-1, 0, 1)):
            ended = context.quiet(lambda state=state, now=now: run_out(program, state, now))
            context.notes.add(is_late(state, now), ended)
            if ended is not None:
                context.notes.add(ending_misfit(program, state, ended))
                for other in ({}, {"time": now + 1}, {"time": True}, {"time": now, "more": 1}):
                    context.notes.add(ending_misfit(program, state, ended._replace(note=other)))


ACTS: Final[tuple[Act, ...]] = (
    *(call_functions, call_functions, take_arguments, take_tools, take_models, declare_tools, break_circuits),
    *(break_circuits, weigh, run_late),
)
