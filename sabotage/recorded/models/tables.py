"""Tables of models: each setting and pair of settings in keys and requests; usages, prices, times and breakers."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.shared.context import thing
from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.vm import MemoryJournal, Program
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.machine import due
from stepward.vm.machine.ask import _request, _spent, accepted_value, error_text, name_of, typed
from stepward.vm.machine.breakers import Breakers, of_program, of_tool
from stepward.vm.machine.caching import Replies
from stepward.vm.machine.events import Call, Event, Result
from stepward.vm.machine.known import Known
from stepward.vm.machine.models import ModelReply, ScriptedModel
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.timeouts import end_of_time, is_late, limit_note, start_misfit
from stepward.vm.machine.tools import ToolError
from stepward.vm.models.cache import CachedReply, read_entry, reply_key, write_entry
from stepward.vm.models.chat import chat_of, settings_of
from stepward.vm.models.prices import Price, PriceTable, Usage
from stepward.vm.models.recordings import key_of
from stepward.vm.values import freeze

# -- settings ----------------------------------------------------------------------------------------------------------

_FORMS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"allowed_outputs": ["b", "a"]},
    {"returns": {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}},
    {"returns": {"type": "string", "sensitive": True}},
)
_PARAMETERS: Final[tuple[Any, ...]] = (
    *(None, {}, {"model": "a"}, {"model": "a", "temperature": 0}, {"temperature": None}, {"temperature": False}),
    *({"temperature": Decimal("0.0")}, {"stop": []}, {"stop": [""]}, {"model": ""}),
)
_TEMPERATURES: Final = (None, 0, Decimal("0.0"), Decimal("0.5"), 1, 2)


def _settings() -> Iterator[tuple[Any, ...]]:
    yield from product((None, "small"), _TEMPERATURES, (None, 1, 9), range(len(_FORMS)), (True, False))


def _step_with(model: Any, temperature: Any, most: Any, form: int, **more: Any) -> tuple[Plan, CallPlan]:
    settings = {"model": model, "temperature": temperature, "max_output_tokens": most}
    step: dict[str, Any] = {"id": "s0", "type": "llm", "prompt": "go", **more, **_FORMS[form]}
    step |= {name: value for name, value in settings.items() if value is not None}
    program = Program.from_dict({"name": "p", "language": 2, "inputs": {}, "steps": [step]})
    plan = Plan(program)
    return plan, plan.steps[0].calls[0]


def _show_setting(model: Any, temperature: Any, most: Any, form: int, is_cached: bool) -> Any:
    plan, call = _step_with(model, temperature, most, form, **({"cache": True} if is_cached else {}))
    known = Known(plan)
    found: list[Any] = []
    for system, visit in product((None, "", "s"), (1, 2)):
        call_asked = Call(0, "s0", visit, 1, 1, None, "go", system)
        request = _request(call, call_asked, ())
        found += [request, request.settings, settings_of(request), settings_of(request, "most"), key_of(request)]
        found += [chat_of(request, structured) for structured in ("schema", "object", "prompt")]
        for parameters in _PARAMETERS if is_cached else _PARAMETERS[2:3]:
            adapter = ScriptedModel({}, parameters=parameters)
            replies = Replies(thing(), adapter, thing())
            replies._report = found.append  # type: ignore[method-assign,assignment]
            found.append(replies.key(call, call_asked, known))
    return found


def _show_key(prompt: str, system: Any, allowed: Any, schema: Any, settings: Any) -> Any:
    found = [reply_key(freeze(one), prompt, system, allowed, freeze(schema), settings) for one in _PARAMETERS[1:]]
    cached = CachedReply(freeze(schema), prompt)
    entry = write_entry(found[0], cached)
    return found, entry, read_entry(found[0], entry), outcome(lambda: read_entry(found[1], entry))


def _keys() -> Iterator[tuple[Any, ...]]:
    schemas: tuple[Any, ...] = (None, {}, {"type": "string"}, {"minimum": 0}, {"minimum": Decimal("0.0")}, {"enum": []})
    settings: tuple[Any, ...] = (
        None,
        {},
        {"temperature": 0},
        {"temperature": Decimal("0.5")},
        {"max_output_tokens": 0},
        {"model": ""},
    )
    yield from product(("", "x"), (None, "", "x"), (None, (), ("a",), ("a", "b"), ("b", "a")), schemas, settings)


# -- usages and prices -------------------------------------------------------------------------------------------------

_RATES: Final = (0, 1, Decimal("0.15"), Decimal("0.000000000001"))


def _show_price(read: Any, written: Any, cached: Any) -> Any:
    price = Price(read, written) if cached == "missing" else Price(read, written, cached)
    counts = product((0, 1, 10, 10**6), (0, 1, 10**6), (0, 1, 10, 11))
    return [price.cost(Usage(*count)) for count in counts], price.cost(Usage(3, 4))


def _show_table(row: Any) -> Any:
    return outcome(lambda: PriceTable({"m": row}).price("m"))


def _rows_of_prices() -> Iterator[tuple[Any, ...]]:
    values = (0, 1, -1, 0.5, True, "1", None, 10**6, 10**6 + 1, Decimal("0.0000000000001"), Decimal("1e-12"))
    for field, value in product(("input", "output", "cached_input", "other"), values):
        yield ({"input": 1, "output": 2, field: value},)
    yield from (({"input": 1},), ({"output": 1},), ({},), (None,), ([],), ({"cached_input": 1},))


def _show_spent(tokens: Any, cost: Any, name: Any) -> Any:
    return _spent(ModelReply("x", tokens, cost, name))


def _spendings() -> Iterator[tuple[Any, ...]]:
    tokens = (0, 1, -1, None, True, 2.5, "3", 2**53 - 1, 2**53, 2**63)
    costs = (None, 0, 1, -1, Decimal("0.0"), Decimal("-0.5"), Decimal("0.10"), 0.5, "1", True)
    yield from product(tokens, costs, ("m",))
    yield from product((1,), (1,), ("", "n" * 199, "n" * 200, "n" * 201, None, 0))


# -- answers -----------------------------------------------------------------------------------------------------------

_VALUES: Final[tuple[Any, ...]] = (
    *(None, "", "a", "b", " a", "a\n", "A", 0, 1, -1, True, False, 0.0, 0.5, Decimal("0.10"), [], {}, [0], {"a": 0}),
    *({"a": "x"}, {"a": None}, {"b": 1}, (1, 2), float("nan"), b"x", {1: 2}, {1}, "x" * 140_000),
)


def _answers() -> Iterator[tuple[Any, ...]]:
    yield from product(range(len(_FORMS)), range(len(_VALUES)), ("failed", "doubt"))


def _show_answer(form: int, at: int, otherwise: Any) -> Any:
    _, call = _step_with(None, None, None, form)
    value = _VALUES[at]
    return [_shortened(typed(call, value, otherwise, most)) for most in (0, 3, 100)], [
        _shortened(accepted_value(call, value, most)) for most in (0, 100)
    ]


def _shortened(result: Result) -> Any:
    return result._replace(value=repr(result.value)[:99])


class _Own(Exception):  # noqa: N818 - the name is what matters
    pass


class _Below(_Own):
    pass


_RAISED: Final[tuple[BaseException, ...]] = (
    *(_Own(), _Below("x"), ToolError("_Own"), ToolError("_Below", ""), ToolError(""), ToolError("Other", "t")),
    *(ValueError(""), KeyError("k"), ValueError("e" * 1999), ValueError("e" * 2000), ValueError("e" * 2001)),
)


def _show_error(at: int, declared: Any) -> Any:
    text = error_text(_RAISED[at])
    return name_of(_RAISED[at], declared), len(text), text[:9], text[-9:]


def _errors() -> Iterator[tuple[Any, ...]]:
    declared = ((), ("_Own",), ("_Below",), ("_Below", "_Own"), ("ToolError",), ("Exception",), ("",), ("LookupError",))
    yield from product(range(len(_RAISED)), declared)


# -- times -------------------------------------------------------------------------------------------------------------


def _show_late(ends_by: int, is_over: Any, is_cancelled: Any, is_leaving: Any) -> Any:
    state = thing(ends_by=ends_by, is_over=is_over, is_cancelled=is_cancelled, is_leaving=is_leaving)
    return [is_late(state, now) for now in (0, 1, 8, 9, 10)]


def _show_end(seconds: Any) -> Any:
    more = {} if seconds is None else {"timeout_seconds": seconds}
    data = {"name": "p", "language": 2, "inputs": {}, "steps": [{"id": "e", "type": "end"}], **more}
    plan = Plan(Program.from_dict(data))
    starts = (0, 1, 2**53 - 1 - 10**6, 2**53 - 10**6, 2**53 - 1)
    ends = [(end_of_time(plan, start), limit_note(plan, start)) for start in starts]
    dues = (None, 0, 1, 500_001, 1_000_000, 1_000_001, 1_000_002)
    return ends, [start_misfit(plan, {} if one is None else {"due": one}, 1) for one in dues]


_CALLS: Final = (None, *(tuple(one) for many in (1, 2) for one in product(range(9), repeat=many)))
_PHASES: Final = (
    *(("ready", 0), ("ready", 5), ("ready", 9), ("open", 0), ("open", 7), ("suspended", 0), ("suspended", 5)),
    *(("suspended", 9), ("success", 3)),
)


def _state(calls: Any, due_at: int = 0, status: str = "RUNNING", **more: Any) -> Any:
    call_states = None if calls is None else tuple(thing(phase=_PHASES[at][0], due=_PHASES[at][1]) for at in calls)
    known = {"is_over": False, "is_cancelled": False, "ends_by": 0, "fork": None}
    return thing(**{**known, "calls": call_states, "due": due_at, "status": status, **more})


def _show_due(calls: Any, due_at: int) -> Any:
    found = []
    for status, ends_by in product(("RUNNING", "SUSPENDED"), (0, 1, 6)):
        state = _state(calls, due_at, status, ends_by=ends_by)
        found.append((due.due_of(state), due.first_wait(state)))
    over = _state(calls, due_at, is_over=True), _state(calls, due_at, is_cancelled=True, ends_by=6)
    return found, [due.due_of(one) for one in over]


def _dues() -> Iterator[tuple[Any, ...]]:
    yield from product(_CALLS, (0, 4))


_INNER: Final = (None, ("RUNNING", (1,), 0), ("RUNNING", (0,), 0), ("SUSPENDED", (6,), 0), ("SUSPENDED", None, 3))


def _show_fork(one: Any, other: Any, begun: int, has_stopped: Any) -> Any:
    branches = [thing(state=None if each is None else _state(each[1], each[2], each[0])) for each in (one, other, None)]
    found = []
    for running, status in product(((), (0,), (1, 0)), ("RUNNING", "SUSPENDED")):
        fork = thing(branches=branches, begun=begun, has_stopped=has_stopped, running=running)
        state = _state(None, 0, status, fork=fork)
        found.append((due.due_of(state), due.first_wait(state)))
    return found


def _forks() -> Iterator[tuple[Any, ...]]:
    yield from product(_INNER, _INNER, (2, 3), (False, True))


# -- breakers ----------------------------------------------------------------------------------------------------------

_RESULTS: Final = {
    "F": Result("failed", name=UNEXPECTED),
    "D": Result("failed", name="Declined"),
    "T": Result("timeout"),
    "U": Result("doubt"),
    "S": Result("output", 1),
    "H": Result("suspended"),
}


def _counted() -> Iterator[tuple[Any, ...]]:
    events = ("aF", "aS", "bF", "bS")
    for most, run in product((None, 1, 2, 3), product(events, repeat=4)):
        yield most, " ".join(run)
    for most, run in product((1, 2, 3), product(("aF", "aD", "aT", "aU", "aH"), repeat=3)):
        yield most, " ".join(run)


def _show_counts(most: Any, run: str) -> Any:
    store = MemoryJournal()
    breakers, found = Breakers(store, most), []
    for at, one in enumerate(run.split(" ")):
        switch = breakers.count(one[0], _RESULTS[one[1]], float(at))
        if switch is not None:
            breakers.open(switch)
        found.append((switch, sorted(breakers._failures.items()), breakers.seen[1], sorted(store.opened())))
    breakers.look()
    cases = product(("a", "b", ""), ((), ("p",), ("p", "q")))
    return found, [breakers.open_one(tool, programs) for tool, programs in cases], store.switches()


def _show_open(opened: Any, tool: str, programs: Any) -> Any:
    breakers = Breakers(MemoryJournal(), 1)
    breakers.seen = (frozenset(opened), 0.0)
    return breakers.open_one(tool, programs)


def _open() -> Iterator[tuple[Any, ...]]:
    names = (of_tool("a"), of_tool(""), of_program("p"), of_program("q"), of_program("a"))
    opened = [(), *((one,) for one in names), (names[0], names[2]), (names[2], names[3])]
    yield from product(opened, ("", "a", "p"), ((), ("p",), ("q", "p"), ("p", "q")))


# -- the cache ---------------------------------------------------------------------------------------------------------


def _show_kept(kind: str, output: Any) -> Any:
    from asyncio import run

    found: list[Any] = []

    async def io(_: Any, *args: Any) -> Any:
        return found.append(args)

    replies = Replies(thing(put=None), ScriptedModel({}), io)
    event = Event("attempt", freeze({"kind": kind, "output": output}), {}, "")
    run(replies.keep("k", event, _RESULTS["S"]))
    return found


TABLES: Final = (
    Table("settings", _settings, _show_setting),
    Table("keys", _keys, _show_key),
    Table("prices", lambda: product(_RATES, _RATES, ("missing", None, *_RATES)), _show_price),
    Table("rows of prices", _rows_of_prices, _show_table),
    Table("spent", _spendings, _show_spent),
    Table("answers", _answers, _show_answer),
    Table("errors", _errors, _show_error),
    Table("late", lambda: product((0, 1, 9), *[(False, True)] * 3), _show_late),
    Table("end", lambda: product((None, 1, Decimal("0.5"), 10**6)), _show_end),
    Table("due", _dues, _show_due),
    Table("forks", _forks, _show_fork),
    Table("counts", _counted, _show_counts),
    Table("open", _open, _show_open),
    Table("kept", lambda: product(("success", "failed", "fallback"), (None, 0, "", "x", [], {})), _show_kept),
)
