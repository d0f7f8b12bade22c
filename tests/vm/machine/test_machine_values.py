"""Fast: values on their way through a run: copies or frozen, exact, and refused where they are none."""

from __future__ import annotations

import decimal
import json
from collections import OrderedDict, UserDict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from machines import Bench, Late, ask, assign, check, end, program, tool, unchecked
from stepward.vm import DeliveryRefused, MemoryJournal, ModelReply, RunRefused, ScriptedModel, SQLiteJournal, Suspend
from stepward.vm.journal.memory import MemoryJournal as Memory
from stepward.vm.language.types import KINDS
from stepward.vm.machine.clock import ManualClock

ECHO = program(tool("a", args={"x": "$x"}), end(output=["$x", "$a.output"]), inputs={"x": {}})


def returned(value: Any, **more: Any) -> Any:
    """Return a run in which a tool returned a value."""
    return Bench({"a": lambda: value}).run(program(tool("a", **more), end(output="$a.output")))


# -- nobody outside changes history ------------------------------------------------------------------------------------


def test_a_tool_can_not_change_what_it_is_given() -> None:
    tried: list[type] = []

    def meddle(x: Any) -> Any:
        for change in (
            lambda: x.__setitem__("n", 2),
            lambda: x["list"].append(3),
            lambda: x["deep"].update(y=1),
            x.clear,
            lambda: x["deep"].__ior__({"y": 1}),
        ):
            try:
                change()
            except (TypeError, AttributeError) as error:
                tried.append(type(error))
        return x

    given = {"n": 1, "list": [1, 2], "deep": {"y": 0}}
    bench = Bench()
    bench.vm = unchecked({"read": meddle}, journal=bench.journal, clock=bench.clock)
    run = bench.run(ECHO, x=given)
    assert len(tried) == 5
    assert run.output == ({"n": 1, "list": (1, 2), "deep": {"y": 0}},) * 2
    assert given == {"n": 1, "list": [1, 2], "deep": {"y": 0}}


def test_the_inputs_are_a_copy() -> None:
    given = {"list": [1]}

    def change() -> str:
        given["list"].append(2)
        return "done"

    made = program(tool("a"), end(output="$x"), inputs={"x": {}})
    bench = Bench({"a": change})
    assert bench.run(made, x=given).output == {"list": (1,)}


def test_what_a_tool_returned_is_a_copy() -> None:
    kept: list[Any] = [1]
    held = {"deep": kept}
    steps = [tool("a", output_key="v"), tool("b"), check("c", "len($v.deep) == 1", "e"), end("e", "$v")]
    bench = Bench({"a": lambda: held, "b": lambda: kept.append(2)})
    assert bench.run(program(*steps)).output == {"deep": (1,)}
    assert kept == [1, 2]


def test_what_a_model_replied_and_what_was_asked_for_are_copies() -> None:
    reply = {"n": [1]}
    returns = {"type": "object", "properties": {"n": {"type": "array"}}}
    bench = Bench({"b": lambda: reply["n"].append(2), "s": Suspend(reply)}, {"a": ModelReply(reply)})
    run = bench.run(program(ask("a", returns=returns), tool("s", "ask"), tool("b"), end(output="$a.output")))
    reply["n"].append(3)
    assert run.suspensions[0].request == {"n": (1,)}
    run = bench.resume(run, 1)
    assert run.output == {"n": (1,)}


@pytest.mark.parametrize(
    "look", [lambda run: run.output, lambda run: run.view("tool"), lambda run: run.view("trace")["x"]]
)
def test_what_a_caller_sees_is_frozen(look: Any) -> None:
    run = Bench().run(program(end(output={"x": "$x"}), inputs={"x": {}}), x={"n": [1]})
    before = run.snapshot()
    with pytest.raises(TypeError):
        look(run)["n"] = 2
    with pytest.raises((TypeError, AttributeError)):
        look(run).clear()
    assert run.snapshot() == before


def test_the_schema_that_a_model_gets_is_its_own() -> None:
    returns = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    class Meddler:
        def complete(self, request: Any) -> ModelReply:
            request.schema["properties"].clear()
            request.schema["required"] = []
            return ModelReply({"n": "text"})

    machine = unchecked({}, Meddler(), clock=ManualClock())
    run = machine.run_sync(program(ask("a", returns=returns, on_error="retry")))
    assert run.status == "FAILED"


SCHEMAS: dict[str, dict[str, Any]] = {
    "boolean": {"enum": [True], "default": True},
    "integer": {"minimum": -5, "maximum": 5, "default": 3},
    "number": {"minimum": Decimal("0.1"), "maximum": Decimal("99.95"), "enum": [Decimal("0.5"), 2], "default": 2},
    "string": {"maxLength": 9, "pattern": "^[a-z]+$", "default": "a"},
    "array": {"items": {"type": "number", "minimum": Decimal("0.25")}, "default": [Decimal("0.5"), [1]]},
    "object": {
        "properties": {"price": {"type": "number", "maximum": Decimal("1.5"), "sensitive": True}},
        "required": ["price"],
        "additionalProperties": {"type": "number", "maximum": Decimal("2.5")},
        "default": {"price": Decimal("0.5"), "more": [{"n": Decimal("1.25")}]},
    },
    "null": {"enum": [None]},
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_schema_that_a_model_gets_is_plain_json(kind: str) -> None:
    returns = {"type": kind, **SCHEMAS[kind]}
    model = ScriptedModel({"a": "0"})
    unchecked({}, model, clock=ManualClock()).run_sync(program(ask("a", returns=returns)))
    sent = json.loads(json.dumps(model.asked[0].schema, allow_nan=False), parse_float=Decimal)
    assert sent == returns


def test_a_late_answer_changes_nothing_any_more() -> None:
    held: dict[str, Any] = {"n": 1}
    late = tool("a", timeout_seconds=1, on_timeout="fallback", fallback={"n": 0}, output_key="v")
    bench = Bench({"a": Late(5, held), "b": lambda: held.update(n=2)})
    assert bench.run(program(late, tool("b"), end(output="$v"))).output == {"n": 0}


# -- what is no value --------------------------------------------------------------------------------------------------

LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = "x"
for _ in range(64):
    DEEP = [DEEP]


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


NONE = [
    float("nan"),
    float("inf"),
    -float("inf"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    10**1000,
    Decimal("1e-1001"),
    1e308 * 10,
    b"bytes",
    {1, 2},
    object(),
    Odd(),
    Fraction(1, 3),
    1j,
    {1: 2},
    {None: 1},
    {("a", "b"): 1},
    "\ud800",
    {"\udfff": 1},
    LOOP,
    [DEEP],
    range(3),
    (n for n in "ab"),
    type,
    lambda: 1,
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("value", NONE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("inside", [False, True])
def test_what_is_no_value_is_refused_wherever_it_comes_from(value: Any, inside: bool) -> None:
    bad = [{"in": value}] if inside else value
    run = returned(bad)
    assert (run.status, run.reason) == ("FAILED", "error")
    assert Bench({"a": lambda: bad}).run(program(tool("a", "write"))).status == "IN_DOUBT"
    assert Bench(model={"a": ModelReply(bad)}).run(program(ask("a", returns={"type": "array"}))).status == "FAILED"
    bench = Bench()
    with pytest.raises(RunRefused):
        bench.run(ECHO, x=bad)
    assert bench.journal.rows() == []


class Gone(UserDict[str, Any]):
    def items(self) -> Any:
        raise OSError("the cursor is closed")


class Lazy(list[Any]):
    def __iter__(self) -> Any:
        raise OSError("the cursor is closed")


@pytest.mark.parametrize("value", [Gone(a=1), Lazy([1]), [Gone(a=1)]])
def test_what_fails_when_it_is_read_is_an_ill_typed_output(value: Any) -> None:
    run = Bench({"a": lambda: value}).run(program(tool("a")))
    assert (run.status, "closed" in run.error) == ("FAILED", True)
    assert Bench({"a": lambda: value}).run(program(tool("a", "write"))).status == "IN_DOUBT"
    bench = Bench({"a": Suspend(value)})
    run = bench.run(program(tool("a", "ask")))
    with pytest.raises(DeliveryRefused):
        bench.resume(run, value)
    assert bench.resume(run, 1).status == "SUCCESS"


def test_a_value_as_deep_as_the_language_admits_goes_all_the_way() -> None:
    run = Bench({"a": lambda x: x}).run(ECHO, x=DEEP)
    assert run.status == "SUCCESS"
    steps = [
        tool("a", output_key="v"),
        assign("s", w="$v"),
        tool("b", args={"x": ["$w"]}),
        ask("l", "is $w", on_error="skip"),
    ]
    bench = Bench({"a": lambda: DEEP, "b": lambda x: 1}, {"l": "x"})
    run = bench.run(program(*steps, end(output={"a": ["$w"], "b": "is $w"})))
    assert run.status == "SUCCESS"
    assert "[" * 64 in run.output["b"]


# -- what is one -------------------------------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1.0, 1),
        (-0.0, 0),
        (0.1, Decimal("0.1")),
        (1e22, 10**22),
        (5e-324, Decimal("5e-324")),
        (Decimal("2.50"), Decimal("2.5")),
        (Decimal("-0"), 0),
        (2**53 + 1, 2**53 + 1),
        (-(2**200), -(2**200)),
        (10**1000 - 1, 10**1000 - 1),
        (Decimal("0." + "3" * 900), Decimal("0." + "3" * 900)),
        (True, True),
        (None, None),
        ("", ""),
        ("\x00\u2028😀", "\x00\u2028😀"),
        ("#nonsense", "#nonsense"),
        ("##", "##"),
        ("#n1", "#n1"),
        ("#vabc:def", "#vabc:def"),
        (Text("x"), "x"),
        (Whole(3), 3),
        ((1, [2]), (1, (2,))),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict(a=[1]), {"a": (1,)}),
        ({"": {"$x": "$$", "#v": "#v"}}, {"": {"$x": "$$", "#v": "#v"}}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_comes_out_as_it_went_in(value: Any, kept: Any, tmp_path: Any) -> None:
    for journal in (MemoryJournal(), SQLiteJournal(tmp_path / "runs.db")):
        bench = Bench({"a": lambda x, value=value: value}, journal=journal)
        run = bench.run(ECHO, x=value)
        for seen in (run.output, bench.vm.get_sync("run").output):
            assert seen == (kept, kept)
            assert all(isinstance(one, type(kept)) and isinstance(one, bool) == isinstance(kept, bool) for one in seen)
            assert repr(seen[0]) == repr(kept) or isinstance(kept, dict)
        assert type(bench.tools.asked[0].args["x"]) in (type(kept), *type(kept).__subclasses__())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=30)
    | st.text(max_size=8)
    | st.sampled_from(["#n", "#v", "##", "$x", "$$", "\ufeff", "é", "😀\ue000"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def plain(value: Any) -> Any:
    """Return a value as one can compare it: exact, and with its kind of scalar."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, int | Decimal):
        return ("number", Fraction(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


@settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None, max_examples=120)
@given(VALUES, VALUES, st.integers(1, 40))
def test_any_value_goes_through_the_journal_and_back_exactly(x: Any, answer: Any, precision: int) -> None:
    steps = [
        tool("a", args={"x": "$x"}, output_key="v"),
        assign("s", w="$v"),
        end(output=["$x", "$v", "$w", {"k": "$w"}]),
    ]
    with decimal.localcontext() as context:
        context.prec = precision
        bench = Bench({"a": lambda x: answer}, journal=Memory())
        run = bench.run(program(*steps, inputs={"x": {}}), x=x)
        for seen in (run.output, bench.vm.get_sync("run").output):
            assert plain(seen) == [plain(x), plain(answer), plain(answer), {"k": plain(answer)}]
    assert plain(bench.tools.asked[0].args["x"]) == plain(x)
    for entry in bench.journal.read("run"):
        json.loads(entry.record)


# -- numbers and texts -------------------------------------------------------------------------------------------------


def test_arithmetic_is_exact_and_overflow_fails_what_computes_it() -> None:
    with decimal.localcontext() as context:
        context.prec = 4
        steps = [assign("s", a="$x + 0.2", b="$y * $y", c="$y * $y - 1 == 100000000000000020000000000000000", d="-$z")]
        made = program(
            *steps, end(output=["$a", "$b", "$c", "$d"]), inputs={name: {"type": "number"} for name in "xyz"}
        )
        run = Bench().run(made, x=0.1, y=10000000000000001, z=Decimal("0.123456789"))
    assert [str(value) for value in run.output] == ["0.3", "100000000000000020000000000000001", "True", "-0.123456789"]
    run = Bench().run(program(assign("s", a="$x * $x"), end(), inputs={"x": {"type": "number"}}), x=10**600)
    assert (run.status, run.reason, "1000" in run.error) == ("FAILED", "error", True)


def test_numbers_in_longer_text_are_plain_digits_and_data_is_never_read_as_a_reference() -> None:
    inputs = {name: {} for name in ("n", "text", "list")}
    said = {"a": "$n, $text, $list, $$n, $5", "b": "$text", "c": ["$list"]}
    run = Bench().run(
        program(end(output=said), inputs=inputs), n=1e21, text="$n and $$ and ${n}", list=[1.0, "$n", None, 2.50]
    )
    assert run.output["a"] == '1000000000000000000000, $n and $$ and ${n}, [1, "$n", null, 2.5], $n, $5'
    assert run.output["b"] == "$n and $$ and ${n}"
    assert run.output["c"][0][:3] == (1, "$n", None)


def test_one_is_one_point_nought_and_true_is_no_number() -> None:
    inputs = {"x": {"type": "number"}}
    assert (
        Bench().run(program(check("c", "$x == 1", "e", "f"), end("e", "yes"), end("f"), inputs=inputs), x=1.0).output
        == "yes"
    )
    with pytest.raises(RunRefused):
        Bench().run(program(end(), inputs=inputs), x=True)
    assert returned(True).output is True
