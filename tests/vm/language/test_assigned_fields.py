"""Fields of objects that `set` assigns by their paths: what a run has then, refusals, types, and what is sensitive."""

from __future__ import annotations

from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding
from stepward.vm import Meaning, Program, ProgramError, Run
from stepward.vm.expressions.paths import names_of_key
from stepward.vm.machine import data as machine_data

INPUTS = {"x": {"type": "number"}, "iban": {"type": "string", "sensitive": True}, "s": {"type": "string"}}
GIVEN = {"x": 5, "iban": "DE89370400440532013000", "s": "north"}
ORDER = {"id": "a1", "total": 10, "customer": {"name": "Ada", "seen": {}}, "lines": [1, 2]}


def program(*sets: dict[str, Any], output: Any = "$o", first: Any = ORDER, **fields: Any) -> Program:
    """Return a program whose `set` steps follow one another; the first one assigns the object `o`."""
    steps = [{"id": f"s{number}", "type": "set", "set": one} for number, one in enumerate(({"o": first}, *sets))]
    end = {"id": "done", "type": "end", "output": output}
    return Program.from_dict({"language": 2, "inputs": INPUTS, "steps": [*steps, end], **fields})


def run_of(made: Program) -> Run:
    return Bench().run(made, **GIVEN)


def output_of(*sets: dict[str, Any], output: Any = "$o", first: Any = ORDER) -> Any:
    run = run_of(program(*sets, output=output, first=first))
    return run.output if run.status == "SUCCESS" else run.error


def changed(**fields: Any) -> dict[str, Any]:
    return {**ORDER, "lines": (1, 2), **fields}


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([{"o.total": "$x"}], changed(total=5)),
        ([{"o.total": "$o.total + $x"}], changed(total=15)),
        ([{"o.new": 7}], changed(new=7)),
        ([{"o.new": {"of": "from $s", "x": ["$x"]}}], changed(new={"of": "from north", "x": (5,)})),
        ([{"o.total": "$x", "o.id": "'b'"}], changed(total=5, id="b")),
        ([{"o.total": "$o.id", "o.id": "$o.total"}], changed(total="a1", id=10)),
        ([{"o.customer.name": "$s"}], changed(customer={"name": "north", "seen": {}})),
        ([{"o.customer.seen.at": "$x > 4", "o.customer.new": None}],
         changed(customer={"name": "Ada", "seen": {"at": True}, "new": None})),
        ([{"o.lines": "$o.lines + [3]"}], changed(lines=(1, 2, 3))),
        ([{'o["unit-price"]': 2}], changed(**{"unit-price": 2})),
        ([{"o.customer": "$o"}], changed(customer=changed())),
        ([{"o.total": 1}, {"o.total": "$o.total + 1"}, {"o.total": "$o.total * 3"}], changed(total=6)),
    ],
)  # fmt: skip
def test_what_a_path_assigns(sets: list[dict[str, Any]], expected: Any) -> None:
    assert output_of(*sets) == expected


def test_all_is_assigned_at_once() -> None:
    assigned = {"o.total": "$o.total + 1", "old": "$o", "n": "$o.total"}
    assert output_of(assigned, output=["$o.total", "$old.total", "$n"]) == (11, 10, 10)


def mutating(tree: Any, base: Any, reader: Any) -> Any:
    """Put the new fields into the object itself: whatever else has it is changed, too."""
    whole = reader.raw(base.names)
    made = {name: machine_data.computed(part, reader) for name, part in zip(tree.names, tree.parts, strict=True)}
    dict.update(whole, made)
    return whole


def alias_after() -> Any:
    assigned = {"copy": "$o", "inner": "$o.customer", "o.total": 1, "o.customer.name": "'Eve'"}
    return output_of(assigned, output=["$copy.total", "$inner.name", "$copy.customer.name", "$o.total"])


def test_another_variable_with_the_object_keeps_it() -> None:
    assert alias_after() == (10, "Ada", "Ada", 1)


def test_a_machine_that_changes_the_object_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_data, "_changed", mutating)
    assert alias_after() != (10, "Ada", "Ada", 1)


@pytest.mark.parametrize(
    ("sets", "error"),
    [
        ([{"o.who.name": 1}], "`$o.who` is undefined"),
        ([{"o.id.x": 1}], "`$o.id` must be an object to get a field, not string"),
        ([{"o.lines.x": 1}], "`$o.lines` must be an object to get a field, not array"),
        ([{"o.total": "$o.none"}], "`$o.none` is undefined"),
        ([{"p.total": 1}], "`$p` is undefined"),
    ],
)
def test_without_an_object_the_step_fails(sets: list[dict[str, Any]], error: str) -> None:
    assert output_of(*sets) == f"`s1` can't be evaluated: {error}"


@pytest.mark.parametrize(
    ("assigned", "name"),
    [({"v.x": 1}, "Undefined"), ({"v": {"a": 1}}, ""), ({"w.a.b": 1}, "BadValue"), ({"w.b.c": 1}, "Undefined")],
)
def test_the_error_of_a_body_has_a_name(assigned: dict[str, Any], name: str) -> None:
    body = [{"id": "w", "type": "set", "set": {"w": {"a": 1}}}, {"id": "in", "type": "set", "set": assigned}]
    each = {"id": "each", "type": "for_each", "items": [1], "as": "item", "steps": body, "error_step": "sorry"}
    sorry = {"id": "sorry", "type": "end", "output": "$each.error_name"}
    made = Program.from_dict({"language": 2, "steps": [each, {"id": "done", "type": "end", "output": ""}, sorry]})
    assert Bench().run(made).output == name


def test_items_carry_an_object_on() -> None:
    body = [{"id": "add", "type": "set", "set": {"sum.n": "$sum.n + $item", "sum.last": "$item"}}]
    each = {
        "id": "each", "type": "for_each", "items": [1, 2, 3], "as": "item", "carry": {"sum": {"n": 0, "of": "all"}},
        "steps": body,
    }  # fmt: skip
    made = Program.from_dict({"language": 2, "steps": [each, {"id": "done", "type": "end", "output": "$sum"}]})
    assert Bench().run(made).output == {"n": 6, "of": "all", "last": 3}


def test_a_called_program_assigns_fields_of_its_own_variables() -> None:
    called = {
        "inputs": {"n": {"type": "number"}},
        "steps": [
            {"id": "a", "type": "set", "set": {"o": {"n": 1, "d": {}}}},
            {"id": "b", "type": "set", "set": {"o.d.m": "$n", "o.n": "$o.n + $n"}},
            {"id": "end", "type": "end", "output": "$o"},
        ],
    }
    call = {"id": "ask", "type": "call", "program": "p", "args": {"n": 4}, "output_key": "got"}
    done = {"id": "done", "type": "end", "output": "$got"}
    made = Program.from_dict({"language": 2, "programs": {"p": called}, "steps": [call, done]})
    assert Bench().run(made).output == {"n": 5, "d": {"m": 4}}


# -- what is refused ---------------------------------------------------------------------------------------------------


def problem_of(assigned: dict[str, Any], **fields: Any) -> Any:
    with pytest.raises(ProgramError) as caught:
        program(assigned, **fields)
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("assigned", "message", "help"),
    [
        ({"o.lines[0]": 1}, "`o.lines[0]` has an index: `set` assigns fields of objects", "as a whole: `o`"),
        ({"o[0].x": 1}, "`o[0].x` has an index", "as a whole: `o`"),
        ({"o": 1, "o.total": 2}, "`o` and `o.total` are assigned at once", "remove one of them"),
        ({"o.total": 1, "o": 2}, "`o` and `o.total` are assigned at once", "remove one of them"),
        ({"o.d": 1, "x2": 1, "o.d.e": 2}, "`o.d` and `o.d.e` are assigned at once", "in two steps"),
        ({"o.": 1}, "`o.` is no path", "`order.total`"),
        ({".o": 1}, "`.o` is no path", "`order.total`"),
        ({"o..x": 1}, "`o..x` is no path", "`order.total`"),
        ({"o.x y": 1}, "`o.x y` is no path", "`order.total`"),
        ({"1o.x": 1}, "`1o` is not a name", ""),
    ],
)
def test_a_path_that_is_none_is_refused(assigned: dict[str, Any], message: str, help: str) -> None:
    problem = problem_of(assigned)
    assert problem.code == "SW002"
    assert message in problem.message
    assert help in problem.help


def test_a_path_needs_language_2() -> None:
    problem = problem_of({"o.total": 1}, language=1)
    assert (problem.code, problem.message) == ("SW002", "a path in `set` needs language 2")
    assert (problem.place.path, problem.place.key) == (("steps", 1, "set", "o.total"), True)


def test_only_set_has_paths() -> None:
    body = [{"id": "in", "type": "end"}]
    each = {"id": "each", "type": "for_each", "items": [1], "as": "i", "steps": body, "carry": {"o.n": 0}}
    with pytest.raises(ProgramError, match=r"`o\.n` is not a name"):
        Program.from_dict({"language": 2, "steps": [each]})


def test_a_path_with_a_slash_in_its_variable_is_one_of_a_called_program() -> None:
    assert names_of_key("ask/o.total") == ("ask/o", "total")


def findings_of(made: Program) -> list[Finding]:
    return [one for one in ProgramValidator(made).validate().findings if one.code != "SW212"]


def test_an_input_is_not_assigned() -> None:
    found = findings_of(program({"box.n": 1}, output="$box", inputs={**INPUTS, "box": {"type": "object"}}))
    assert [(one.code, one.message, one.place.path) for one in found] == [
        ("SW006", "the input `box` is assigned", ("steps", 1, "set", "box.n"))
    ]


@pytest.mark.parametrize(
    ("assigned", "code", "message"),
    [
        ({"p.n": 1}, "SW202", "`$p` "),
        ({"o.who.n": 1}, "SW202", "`$o.who`"),
        ({"o.id.n": 1}, "SW203", "a path of `set` needs an object, but `$o.id` may be text"),
        ({"o.total": "$o.id * 2"}, "SW203", "`*` needs a number, but `$o.id` is text"),
        ({"o.total": "$o.total +", "o.id": "$s +"}, "SW301", "expected a value"),
    ],
)
def test_what_the_gate_says(assigned: dict[str, Any], code: str, message: str) -> None:
    found = [one for one in findings_of(program(assigned)) if one.code == code]
    assert found
    assert message in found[0].message
    assert found[0].place.path[:3] == ("steps", 1, "set")
    assert {one.place.path[-1] for one in found} == set(assigned) if code == "SW301" else len(found) == 1


# -- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assigned", "names", "kinds", "optional"),
    [
        ({"o.total": "$x * 2"}, ("total",), {"number"}, False),
        ({"o.new": "$s"}, ("new",), {"string"}, True),
        ({"o.new": "$s + 'a'"}, ("new",), {"string"}, True),
        ({"o.new": "$x > 1"}, ("id",), {"string"}, False),
        ({"o.total": "'none'"}, ("total",), {"number", "string"}, False),
        ({"o.customer.age": "$x"}, ("customer", "age"), {"number"}, True),
        ({"o.customer.age": "$x"}, ("customer", "name"), {"string"}, False),
    ],
)
def test_a_field_has_the_type_of_its_values(
    assigned: dict[str, Any], names: tuple[str, ...], kinds: set[str], optional: bool
) -> None:
    view = Meaning(program(assigned)).view(("o", *names))
    assert view is not None
    assert (set(view.kinds), view.optional, view.is_known) == (kinds, optional, True)


GET = {"id": "get", "type": "tool", "tool": "get", "output_key": "o"}


def with_tool(*steps: dict[str, Any], **facts: Any) -> Program:
    named = [{"id": f"t{number}", **one} for number, one in enumerate(steps)]
    tools = {"get": {"effect": "read", **facts}, "pay": {"effect": "write", "idempotent": True}}
    return Program.from_dict({"language": 2, "inputs": INPUTS, "tools": tools, "steps": [GET, *named]})


def test_an_output_need_not_have_what_is_assigned_later() -> None:
    steps: list[dict[str, Any]] = [
        {"type": "set", "set": {"o.total": "$x", "o.who.name": "'a'"}},
        {"type": "condition", "condition": "$o.total > 1 and $o.kept", "then": "t2", "otherwise": "t3"},
        {"type": "end", "output": "$o"},
        {"type": "end", "output": 0},
    ]
    made = with_tool(*steps)
    assert findings_of(made) == []
    enforced = Meaning(made).typing.effective(Meaning(made).names.outputs["get"])
    assert enforced is not None
    assert set(enforced.required) == {"kept", "who"}
    bench = Bench({"get": [{"kept": True, "who": {}}]})
    assert bench.run(made, **GIVEN).output == {"kept": True, "who": {"name": "a"}, "total": 5}


def test_what_is_read_before_it_is_assigned_may_be_missing() -> None:
    read = {"type": "set", "set": {"n": "$o.total"}}
    put = {"type": "set", "set": {"o.total": "$x"}}
    end = {"type": "end", "output": "$o.total"}
    before = findings_of(with_tool(read, put, end))
    assert [(one.code, one.place.path[:2]) for one in before] == [("SW202", ("steps", 1))]
    assert findings_of(with_tool(put, read, end)) == []


def test_a_field_that_is_known_to_be_there_stays_so() -> None:
    fields = {"note": {"type": "string"}, "n": {"type": ["number", "null"]}}
    facts = {"returns": {"type": "object", "properties": fields}}
    asked = "defined($o.note) and defined($o.n) and $o.n != null"
    steps: list[dict[str, Any]] = [
        {"type": "condition", "condition": asked, "then": "t1", "otherwise": "t3"},
        {"type": "set", "set": {"o.total": 1}, "next_step": "t2"},
        {"type": "set", "set": {"m": "$o.n + 1", "note": "$o.note"}, "next_step": "t3"},
        {"type": "end", "output": "$o"},
    ]  # fmt: skip
    assert findings_of(with_tool(*steps, **facts)) == []
    steps[1]["set"] = {"o.n": None}
    assert {one.code for one in findings_of(with_tool(*steps, **facts))} >= {"SW203"}


# -- what is sensitive -------------------------------------------------------------------------------------------------


def shown(made: Program, tool: Any = None) -> list[Any]:
    bench = Bench({"get": [tool]})
    assert bench.run(made, **GIVEN).status == "SUCCESS"
    return [body["values"] for body in bench.bodies("assigned")]


def test_a_field_is_as_sensitive_as_its_value() -> None:
    last = shown(program({"o.bank": "$iban", "o.customer.bank": ["from $iban"]}, {"o.bank": "'none'"}, output=""))[1:]
    assert last[0]["o"]["id"] == "a1"
    assert str(last[0]["o"]["bank"]).startswith("#v")
    assert last[1]["o"]["bank"] == "none"


def test_an_object_that_is_sensitive_stays_so() -> None:
    secret = {"returns": {"type": "object", "sensitive": True}}
    steps = [{"type": "set", "set": {"o.total": 1}}, {"type": "end", "output": ""}]
    (first,) = shown(with_tool(*steps, **secret), {"id": "a-secret-id"})
    assert str(first["o"]).startswith("#v")
    inner = {"returns": {"type": "object", "properties": {"in": secret["returns"]}, "required": ["in"]}}
    steps = [{"type": "set", "set": {"o.in.total": 1, "o.id": 1}}, {"type": "end", "output": ""}]
    (first,) = shown(with_tool(*steps, **inner), {"in": {"id": "a-secret-id"}})
    assert (str(first["o"]["in"])[:2], first["o"]["id"]) == ("#v", 1)


@pytest.mark.parametrize(
    ("prompt", "codes"),
    [("$o.id", []), ("$o.bank", ["SW208"]), ("$o", ["SW208"]), ("$o.total", [])],
)
def test_a_sensitive_field_reaches_no_model(prompt: str, codes: list[str]) -> None:
    ask = {"id": "ask", "type": "llm", "prompt": f"Well, {prompt}?"}
    made = program({"o.bank": "$iban"}, {"o.total": 1})
    *sets, end = made.to_dict()["steps"]
    asking = Program.from_dict({**made.to_dict(), "steps": [*sets, ask, end]})
    assert [one.code for one in findings_of(asking) if one.code == "SW208"] == codes


# -- rules -------------------------------------------------------------------------------------------------------------


def test_an_assigned_field_makes_an_approval_stale() -> None:
    steps = [
        {"id": "is_fine", "type": "condition", "condition": "$o.id == 'a1'", "then": "put", "otherwise": "done"},
        {"id": "put", "type": "set", "set": {"o.total": 1}, "next_step": "pay"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "done"},
        {"id": "done", "type": "end"},
    ]
    begin = {"id": "begin", "type": "set", "set": {"o": {"id": "$s"}}}
    rule = {"name": "approved", "protects": {"tool": "pay"}, "requires": {"step": "is_fine", "branch": "then"}}
    data = {
        "language": 2, "inputs": {"s": INPUTS["s"]}, "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [rule], "steps": [begin, *steps],
    }  # fmt: skip
    found = findings_of(Program.from_dict(data))
    assert [one.code for one in found] == ["SW402"]
    run = Bench().run(Program.from_dict(data), s="a1")
    assert (run.status, run.reason) == ("FAILED", "guardrail")
