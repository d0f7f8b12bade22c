"""What is proved and found about for_each steps: a loop with a fresh item each time, which is never unrolled."""

from __future__ import annotations

from typing import Any

import pytest

from paths import PROGRAMS
from stepward.validator import ProgramValidator
from stepward.validator.findings import Verdict
from stepward.validator.report.values import Values
from stepward.vm import Program

TOOLS = {
    "pay": {"effect": "write", "idempotent": False, "args": {"n": {"type": "number"}}, "returns": {"type": "number"}},
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
}
NUMBER = {"type": "number", "minimum": 0, "maximum": 100}
PAY = {"id": "p", "type": "tool", "tool": "pay", "args": {"n": "$x"}}
ASK = {"id": "q", "type": "tool", "tool": "ask", "output_key": "yes", "next_step": "c"}
AGREED = {"id": "c", "type": "condition", "condition": "$yes", "then": "p", "otherwise": "no"}
NO = {"id": "no", "type": "end"}
END = {"id": "z", "type": "end"}
ONCE = [{"name": "once", "at_most_once": {"tool": "pay"}}]
APPROVED = [{"name": "ok", "protects": {"tool": "pay"}, "requires": {"step": "c", "branch": "then"}}]
LIMIT = [{"name": "limit", "never": {"tool": "pay"}, "when": "$t + $args.n > 200"}]
FITS = {"id": "f", "type": "condition", "condition": "$t + $x <= 200", "then": "p", "otherwise": "no"}
ADD = {"id": "s", "type": "set", "set": {"t": "$t + $x"}, "is_terminal": True}
LAST = {**PAY, "is_terminal": True}


def each(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"id": "a", "type": "for_each", "items": "$l", "as": "x", "max_items": 5, "steps": list(steps), **more}


def program(*steps: Any, most: int = 5, **more: Any) -> Program:
    inputs = {"l": {"type": "array", "items": NUMBER, "maxItems": most}}
    found = {"name": "t", "language": 2, "inputs": inputs, "tools": TOOLS, "steps": [*steps, END], **more}
    return Program.from_dict(found)


def verdict(made: Program, rule: str) -> Any:
    found = ProgramValidator(made).validate()
    assert not [one for one in found.findings if one.code.startswith("SW9")]
    return next(one for one in found.properties if one.rule == rule)


def test_a_payment_in_each_item_is_repeated_at_the_second_item() -> None:
    found = verdict(program(each(PAY), guardrails=ONCE), "once")
    assert found.verdict is Verdict.VIOLATED
    assert found.evidence.witness is not None
    assert len(found.evidence.witness.inputs["l"]) == 2


def test_a_payment_in_a_single_item_is_proved() -> None:
    assert verdict(program(each(PAY, max_items=1), most=1, guardrails=ONCE), "once").verdict is Verdict.PROVED


def test_an_approval_in_each_item_is_proved_and_a_thousand_items_are_not_unrolled() -> None:
    for most in (5, 1000):
        found = verdict(program(each(ASK, AGREED, LAST, NO, max_items=most), most=most, guardrails=APPROVED), "ok")
        assert found.verdict is Verdict.PROVED
        assert "17 reachable pairs" in found.evidence.cut[0]


def test_an_approval_of_an_earlier_item_is_stale_in_a_later_one() -> None:
    first = {"id": "f", "type": "condition", "condition": "$done", "then": "p", "otherwise": "q"}
    mark = {"id": "m", "type": "set", "set": {"done": True}, "is_terminal": True}
    body = each(first, ASK, AGREED, {**PAY, "next_step": "m"}, mark, NO, carry={"done": False})
    result = ProgramValidator(program(body, guardrails=APPROVED)).validate()
    assert [one.step for one in result.findings if one.code == "SW402"] == ["p"]


def test_a_running_total_keeps_a_limit() -> None:
    body = each(FITS, {**PAY, "next_step": "s"}, ADD, NO, carry={"t": 0})
    assert verdict(program(body, guardrails=LIMIT), "limit").verdict is Verdict.PROVED


def test_a_running_total_that_is_read_too_late_is_found_with_the_items_that_show_it() -> None:
    late = {**FITS, "condition": "$t <= 200"}
    found = verdict(program(each(late, {**PAY, "next_step": "s"}, ADD, NO, carry={"t": 0}), guardrails=LIMIT), "limit")
    assert found.verdict is Verdict.VIOLATED
    assert found.evidence.witness is not None
    assert len(found.evidence.witness.inputs["l"]) == 3, "each item is at most half of the limit"
    assert sum(found.evidence.witness.inputs["l"]) > 200


def test_items_that_need_different_values_have_them_in_a_witness() -> None:
    """The solver says which item needs which value, and the list of the witness has them in this order."""
    asks = {"id": "f", "type": "condition", "condition": "$x == 7", "then": "m", "otherwise": "g"}
    mark = {"id": "m", "type": "set", "set": {"open": True}, "is_terminal": True}
    gate = {"id": "g", "type": "condition", "condition": "$x == 9 and $open", "then": "p", "otherwise": "no"}
    rule = [{"name": "never", "never": {"tool": "pay"}}]
    found = verdict(program(each(asks, mark, gate, LAST, NO, carry={"open": False}), guardrails=rule), "never")
    assert found.verdict is Verdict.VIOLATED
    assert found.evidence.witness is not None
    assert found.evidence.witness.inputs["l"] == (7, 9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("good", "code", "bad"),
    [
        ("refund_order_lines", "SW404", "order-lines"),
        ("team_budget", "SW403", "team-budget"),
        ("question_desk", "SW401", "question-desk"),
        ("card_collection", "SW401", "card-collection"),
        ("supplier_quotes", "SW404", "supplier-quotes"),
        ("trip_booking", "SW406", "trip-booking"),
        ("order_release", "SW401", "order-release"),
        ("price_update", "SW403", "price-update"),
    ],
)
def test_the_mistake_of_a_twin_is_found_with_a_run_and_the_good_one_is_proved(good: str, code: str, bad: str) -> None:
    proved = ProgramValidator(Program.load(PROGRAMS / "good" / f"{good}.yaml")).validate()
    assert not proved.findings
    assert {one.verdict for one in proved.properties} == {Verdict.PROVED}
    result = ProgramValidator(Program.load(PROGRAMS / "bad" / code / f"{bad}.yaml")).validate()
    assert [one.code for one in result.findings] == [code]
    assert result.findings[0].evidence is not None
    assert result.findings[0].evidence.witness is not None, "the machine has confirmed it"
    assert Verdict.UNKNOWN not in {one.verdict for one in result.properties}


def test_a_guardrail_of_the_body_holds_for_each_item_by_itself() -> None:
    assert verdict(program(each(PAY, guardrails=ONCE)), "once").verdict is Verdict.PROVED
    found = verdict(program(each(PAY, {**PAY, "id": "p2"}, guardrails=ONCE)), "once")
    assert found.verdict is Verdict.VIOLATED


def codes(made: Program) -> set[tuple[str, str | None]]:
    return {(one.code, one.step) for one in ProgramValidator(made).validate().findings} - {("SW212", None)}


def test_items_are_no_loop_for_the_rules_about_loops() -> None:
    assert not codes(program(each(ASK, AGREED, LAST, NO)))


def test_local_names_are_undefined_outside_and_in_the_next_item() -> None:
    local = {"id": "s", "type": "set", "set": {"v": 1}}
    made = Program.from_dict({**program(each(local)).to_dict(), "steps": [each(local), {**END, "output": "$v"}]})
    assert ("SW202", "z") in codes(made)


def test_carried_variables_are_defined_in_each_item_and_after_the_loop() -> None:
    add = {"id": "s", "type": "set", "set": {"t": "$t + $x"}}
    step = each(add, carry={"t": 0}, on_item_error="skip")
    made = Program.from_dict({**program(step).to_dict(), "steps": [step, {**END, "output": "$t"}]})
    assert ("SW202", "z") not in codes(made)
    assert ("SW202", "s") not in codes(made)


FAILING = {"id": "p", "type": "tool", "tool": "look"}
LISTING = {**TOOLS, "look": {"effect": "read", "errors": ["Gone"]}}
SORRY = {"id": "sorry", "type": "end", "outcome": "failure"}
CATCH = [{"errors": ["Gone"], "then": "sorry"}]


@pytest.mark.parametrize(
    ("step", "is_reported"),
    [
        (each(FAILING), True),
        (each(FAILING, on_item_error="skip"), False),
        (each(FAILING, on_error="skip"), False),
        (each(FAILING, catch=CATCH), False),
        (each(FAILING, catch=[{"errors": ["Declared"], "then": "sorry"}]), True),
        (each({**FAILING, "error_step": "no", "is_terminal": True}, NO), False),
        (each(each(FAILING, id="b", **{"as": "y"}), catch=CATCH), False),
        (each(each(FAILING, id="b", **{"as": "y"})), True),
    ],
)
def test_an_error_of_an_item_is_handled_by_the_steps_around_it(step: Any, is_reported: bool) -> None:
    found = codes(program({**step, "next_step": "z"}, SORRY, tools=LISTING))
    assert (("SW111", "p") in found) is is_reported


def test_a_catch_of_a_for_each_step_takes_what_its_items_can_fail_with() -> None:
    taken = [{"errors": [name], "then": "sorry"} for name in ("Gone", "Unexpected", "TooManyItems")]
    assert "SW112" not in {
        code for code, _ in codes(program(each(FAILING, catch=taken, next_step="z"), SORRY, tools=LISTING))
    }
    idle = [{"errors": ["Declared"], "then": "sorry"}]
    assert ("SW112", "a") in codes(program(each(FAILING, catch=idle, next_step="z"), SORRY, tools=LISTING))


@pytest.mark.parametrize(
    ("step", "is_idle"),
    [
        (each(FAILING), True),
        (each(FAILING, items=[1, 2]), True),
        (each(FAILING, carry={"v": 1}), True),
        (each(FAILING, carry={"v": "$w"}), False),
        (each(FAILING, items="$w"), False),
        (each(FAILING, on_item_error="skip"), True),
        (
            each({"id": "c", "type": "condition", "condition": "$x > 1", "then": "p"}, FAILING, on_item_error="skip"),
            True,
        ),
        (each({"id": "c", "type": "condition", "condition": "len($w) > 1", "then": "p"}, FAILING), False),
        (each({"id": "c", "type": "condition", "condition": "$x > 1", "then": "p"}, FAILING), True),
        (each({**FAILING, "error_step": "s", "is_terminal": True}, {"id": "s", "type": "set", "set": {"v": 1}}), True),
    ],
)
def test_a_list_that_is_always_there_is_never_undefined(step: Any, is_idle: bool) -> None:
    get = {"id": "get", "type": "tool", "tool": "list", "output_key": "w", "on_error": "skip"}
    tools = {**LISTING, "list": {"effect": "read", "returns": {"type": "array", "items": {"type": "integer"}}}}
    taken = [{"errors": ["Undefined"], "then": "sorry"}, {"errors": ["any"], "then": "sorry"}]
    found = codes(program(get, {**step, "catch": taken, "next_step": "z"}, SORRY, tools=tools))
    assert (("SW112", "a") in found) is is_idle


@pytest.mark.parametrize(
    ("step", "most", "is_reported"),
    [
        (each(PAY), 5, False),
        (each(PAY), 6, True),
        (each(PAY, on_error="skip"), 6, False),
        (each(PAY, error_step="sorry"), 6, False),
        (each(PAY, catch=[{"errors": ["TooManyItems"], "then": "sorry"}]), 6, False),
        (each(PAY, catch=[{"errors": ["Unexpected"], "then": "sorry"}]), 6, True),
        (each(PAY, items=[1, 2], max_items=2), 5, False),
        (each(PAY, items=[1, 2, 3], max_items=2), 5, True),
    ],
)
def test_a_list_that_can_be_longer_than_max_items_is_reported(step: Any, most: int, is_reported: bool) -> None:
    found = codes(program({**step, "next_step": "z"}, SORRY, most=most))
    assert (("SW113", "a") in found) is is_reported


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([{"id": "i", "type": "set", "set": {"v": 1}}, each({"id": "s", "type": "set", "set": {"v": 2}})], "SW006"),
        ([each({**PAY, "next_step": "z"})], "SW101"),
        ([each(PAY, id="z")], "SW005"),
        ([{"id": "i", "type": "set", "set": {"x": 1}}, each(PAY)], "SW006"),
    ],
)
def test_what_crosses_the_boundary_of_a_body_is_an_error(steps: Any, code: str) -> None:
    assert code in {one for one, _ in codes(program(*steps))}


def test_a_path_says_that_a_for_each_starts_and_not_that_it_succeeds() -> None:
    found = verdict(program(each(PAY), guardrails=ONCE), "once")
    (first, second, *_) = found.evidence.path
    assert (first.words, first.to_data()["how"]) == ("starts", "starts")
    assert second.words == "goes on to an item"
    assert all(move.words == "succeeds" for move in found.evidence.path if move.step == "p" and move.how == "succeeds")


@pytest.mark.parametrize("items", ["[true, false]", "[]", "[{a: 1}]"])
def test_a_list_that_is_written_down_is_there(items: str) -> None:
    text = f"""
language: 2
name: written
inputs: {{}}
tools: {{pay: {{effect: write}}, note: {{effect: read}}}}
guardrails: [{{name: r, protects: {{tool: pay}}, requires: {{step: other}}}}]
steps:
  - id: each
    type: for_each
    items: {items}
    as: x
    max_items: 2
    on_item_error: skip
    steps: [{{id: inner, type: tool, tool: note}}]
    catch: [{{errors: [any], then: pays}}]
    next_step: other
  - {{id: other, type: tool, tool: note}}
  - {{id: pays, type: tool, tool: pay, next_step: end}}
  - {{id: end, type: end}}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert "SW902" not in [one.code for one in report.findings]
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.PROVED]


REQUIRED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "text": {"type": "string", "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^SKU-[0-9]{3}$"},
    "enum": {"enum": ["new", "used"]},
    "number": {"type": "number", "minimum": 7, "exclusiveMaximum": 8},
    "object": {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]},
    "list": {"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2},
}
"""What an item of a list has to have, and what no question asks for."""


ORIGINS = ("input", "input.field", "output", "output.field", "item")
"""Where a list comes from: an input, the output of a call, a field of one of them, or a field of an item of a list."""


def _listed(origin: str, item: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], str]:
    """Return the inputs, the tools and the steps by which a program has a list, and the expression of the list."""
    whole = {"type": "array", "maxItems": 3, "items": item}
    holder = {"type": "object", "properties": {"lines": whole}, "required": ["lines"]}
    if origin.endswith("item"):
        return {"l": {"type": "array", "maxItems": 3, "items": holder}}, {}, [], "$outer.lines"
    spec, names = (whole, "$l") if origin in ("input", "output") else (holder, "$l.lines")
    if origin.startswith("output"):
        load = {"id": "load", "type": "tool", "tool": "load", "output_key": "l"}
        return {}, {"load": {"effect": "read", "returns": spec}}, [load], names
    return {"l": spec}, {}, [], names


@pytest.mark.parametrize(
    ("origin", "required"),
    [*(("input", one) for one in REQUIRED), *((one, "text") for one in ORIGINS)],
)
def test_an_item_of_a_witness_has_what_its_type_requires(origin: str, required: str) -> None:
    made = _listing(origin, required, "$args.n > $found.price * 1.2")
    found = ProgramValidator(made).validate()
    (finding,) = [one for one in found.findings if one.code != "SW212"]
    assert finding.code == "SW403"
    assert Values().of(finding) == ["x.price = 1", "found.price = 0"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_item_has_the_type_that_its_list_declares(origin: str) -> None:
    """The machine refuses a price above 100, so a rule about one is proved, also by the second checker."""
    found = verdict(_listing(origin, "text", "$x.price > 100"), "rise")
    assert found.verdict is Verdict.PROVED
    assert found.rechecked


@pytest.mark.parametrize("most", [None, 2, 3, 4])
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_list_is_as_long_as_its_type_says(origin: str, most: int | None) -> None:
    """Its type says `maxItems: 3`, so `max_items` may be missing, and 2 is too small."""
    found = ProgramValidator(_listing(origin, "text", "$x.price > 100", most)).validate()
    assert [one.code for one in found.findings if one.code != "SW212"] == (["SW113"] if most == 2 else [])


def _listing(origin: str, required: str, when: str, most: int | None = 3) -> Program:
    """Return a program that pays the price of each item of a list, and forbids it in a state."""
    extra = {"extra": REQUIRED[required]} if required != "nothing" else {}
    item = {"type": "object", "properties": {"price": NUMBER, **extra}, "required": ["price", *extra]}
    inputs, tools, before, names = _listed(origin, item)
    read = {"id": "r", "type": "tool", "tool": "read", "output_key": "found"}
    found = {"type": "object", "properties": {"price": NUMBER}, "required": ["price"]}
    pay = {**LAST, "args": {"n": "$x.price"}}
    step = {**each(read, pay), "items": names, "max_items": most}
    if origin == "item":
        step = {**each({**step, "id": "inner"}), "as": "outer", "max_items": 3}
    step = {name: value for name, value in step.items() if value is not None}
    return program(
        *before,
        step,
        inputs=inputs,
        tools={**TOOLS, **tools, "read": {"effect": "read", "returns": found}},
        guardrails=[{"name": "rise", "never": {"tool": "pay"}, "when": when}],
    )


@pytest.mark.parametrize(("most", "wanted"), [("100", Verdict.PROVED), ("101", Verdict.VIOLATED)])
def test_a_product_of_two_fields_of_an_item_is_decided(most: str, wanted: Verdict) -> None:
    item = {"type": "object", "properties": {"hours": NUMBER, "rate": NUMBER}, "required": ["hours", "rate"]}
    body = [
        {"id": "s", "type": "set", "set": {"n": "$x.hours * $x.rate"}},
        {"id": "f", "type": "condition", "condition": f"$n <= {most}", "then": "p", "otherwise": "no"},
        {**LAST, "args": {"n": "$n"}},
        NO,
    ]
    rules = [{"name": "limit", "never": {"tool": "pay"}, "when": "$args.n > 100"}]
    inputs = {"l": {"type": "array", "items": item, "maxItems": 5}}
    assert verdict(program(each(*body), inputs=inputs, guardrails=rules), "limit").verdict is wanted


def test_a_list_that_is_an_item_of_itself_is_reported_and_breaks_nothing() -> None:
    alone = each(PAY, items="$x")
    round_ = {**each({**each(PAY, items="$outer"), "id": "inner"}, items="$x"), "as": "outer"}
    for step in (alone, round_):
        found = ProgramValidator(program(step, guardrails=LIMIT)).validate().findings
        assert {one.code for one in found} & {"SW201", "SW202"}
        assert not [one for one in found if one.code.startswith("SW9")]
