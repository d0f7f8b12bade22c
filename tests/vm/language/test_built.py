"""Built values: what `set` and `carry` put into lists and objects, with its types, and what is sensitive in it."""

from __future__ import annotations

from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator
from stepward.vm import Meaning, Program, Run
from stepward.vm.expressions.building import built, is_computed, pieces
from stepward.vm.values import freeze

INPUTS = {
    "name": {"type": "string"},
    "n": {"type": "number"},
    "o": {"type": "object", "properties": {"x": {"type": "boolean"}, "maybe": {"type": "string"}}, "required": ["x"]},
    "list": {"type": "array", "items": {"type": "string"}},
    "iban": {"type": "string", "sensitive": True},
}
GIVEN = {"name": "Ada", "n": 2, "o": {"x": True}, "list": ["a"], "iban": "DE89370400440532013000"}
END = {"id": "done", "type": "end", "output": "$b"}


def program(value: Any, *more: Any, language: int = 2, output: Any = "$b") -> Program:
    steps = [{"id": f"s{number}", "type": "set", "set": one} for number, one in enumerate(({"b": value}, *more))]
    return Program.from_dict(
        {"language": language, "inputs": INPUTS, "steps": [*steps, {**END, "output": output}]},
    )


def run_of(made: Program, inputs: dict[str, Any]) -> Run:
    return Bench().run(made, **inputs)


def output_of(value: Any, **how: Any) -> Any:
    run = run_of(program(value, **how), GIVEN)
    return run.output if run.status == "SUCCESS" else run.error


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"role": "user", "said": "$name"}, {"role": "user", "said": "Ada"}),
        (["Dear $name", "plain", 1, None, {"x": ["$n"]}], ("Dear Ada", "plain", 1, None, {"x": (2,)})),
        ({"a": "$o", "b": "$o.x", "c": "$list"}, {"a": {"x": True}, "b": True, "c": ("a",)}),
        ({"a": "$n * 2", "b": "'$name'", "c": "2 + 3"}, {"a": "2 * 2", "b": "'Ada'", "c": "2 + 3"}),
        ({"a": "costs $$5", "b": "$$name", "c": "a lone $", "d": "$5 for $name"},
         {"a": "costs $5", "b": "$name", "c": "a lone $", "d": "$5 for Ada"}),
        ({"$name": "$name"}, {"$name": "Ada"}),
        ({"a": "$name. Hello!"}, {"a": "Ada. Hello!"}),
        ({"a": "is $o and $list"}, {"a": 'is {"x": true} and ["a"]'}),
        ([], ()),
        ("[$name, 'b']", ("Ada", "b")),
        ("$list + [$o]", ("a", {"x": True})),
        ("[$n, $list]", (2, ("a",))),
    ],
)  # fmt: skip
def test_what_a_set_builds(value: Any, expected: Any) -> None:
    assert output_of(value) == expected


def test_in_language_1_a_nested_text_stands_for_itself() -> None:
    assert output_of({"said": "$name", "costs": "$$5"}, language=1) == {"said": "$name", "costs": "$$5"}


def test_an_undefined_reference_fails_as_in_an_expression() -> None:
    assert output_of({"a": {"b": "$o.maybe"}}) == "`s0` can't be evaluated: `$o.maybe` is undefined"
    assert output_of("[$o.maybe]") == "`s0` can't be evaluated: `$o.maybe` is undefined"


def test_all_values_are_built_from_the_state_before() -> None:
    made = program({"x": "$name"}, {"b": {"last": "$b.x"}, "c": ["$b"]}, output=["$b", "$c"])
    assert run_of(made, GIVEN).output == ({"last": "Ada"}, ({"x": "Ada"},))


def test_carry_builds_its_first_values() -> None:
    steps = [
        {
            "id": "each",
            "type": "for_each",
            "items": "$list",
            "as": "item",
            "max_items": 3,
            "carry": {"history": [{"role": "system", "text": "for $name"}]},
            "steps": [
                {"id": "note", "type": "set", "set": {"entry": {"role": "user", "text": "$item"}}},
                {"id": "keep", "type": "set", "set": {"history": "$history + [$entry]"}},
            ],
        },
        {**END, "output": "$history"},
    ]
    run = run_of(Program.from_dict({"language": 2, "inputs": INPUTS, "steps": steps}), GIVEN)
    assert run.output == ({"role": "system", "text": "for Ada"}, {"role": "user", "text": "a"})


def test_a_built_value_counts_for_the_limit_of_a_record() -> None:
    many = {"name": "x" * 600_000}
    run = run_of(program({"a": ["$name"] * 20}), {**GIVEN, **many})
    assert (run.status, "too large" in run.error or "bytes" in run.error) == ("FAILED", True)


def test_each_part_is_as_sensitive_as_what_it_says() -> None:
    value = {"role": "user", "bank": "$iban", "text": "from $iban", "list": ["$iban", "$name"]}
    bench = Bench()
    bench.run(program(value), **GIVEN)
    (body,) = bench.bodies("assigned")
    shown = body["values"]["b"]
    assert shown["role"] == "user"
    assert shown["list"][1] == "Ada"
    assert all(str(one).startswith("#v") for one in (shown["bank"], shown["text"], shown["list"][0]))


def view_of(value: Any, *names: str) -> Any:
    return Meaning(program(value)).view(("b", *names))


@pytest.mark.parametrize(
    ("value", "names", "kinds"),
    [
        ({"a": "$n"}, ("a",), {"number"}),
        ({"a": {"b": "$o"}}, ("a", "b", "x"), {"boolean"}),
        ({"a": "is $n"}, ("a",), {"string"}),
        ({"a": "plain", "b": "$n"}, ("a",), {"string"}),
        ({"a": ["$n"]}, ("a",), {"array"}),
        ({"a": ["$n", "x"]}, ("a", "[0]"), {"number"}),
        ({"a": ["$n", "x"]}, ("a", "[1]"), {"string"}),
        (["$n", {"c": "$list"}], ("[1]", "c", "[0]"), {"string"}),
        ("[$n, $name]", ("[1]",), {"string"}),
    ],
)
def test_a_field_has_the_type_of_what_it_was_built_from(value: Any, names: tuple[str, ...], kinds: set[str]) -> None:
    view = view_of(value, *names)
    assert (set(view.kinds), view.never, view.is_known) == (kinds, False, True)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"a": "$n"}, ("z",)),
        ({"a": "$n"}, ("a", "z")),
        (["$n"], ("[1]",)),
        ("[$n]", ("[1]",)),
        ({"a": "x $n"}, ("a", "b")),
    ],
)
def test_a_field_that_was_not_built_never_exists(value: Any, names: tuple[str, ...]) -> None:
    assert view_of(value, *names).never


def test_an_optional_field_is_defined_once_it_was_put_in() -> None:
    assert not view_of({"a": "$o.maybe"}, "a").optional
    assert view_of({"a": "$o"}, "a", "maybe").optional


def test_an_undeclared_input_gets_the_type_that_its_field_needs() -> None:
    steps = [
        {"id": "s", "type": "set", "set": {"b": {"a": {"c": "$x"}}}},
        {"id": "more", "type": "set", "set": {"y": "$b.a.c + 1"}},
        {**END, "output": "$y"},
    ]
    meaning = Meaning(Program.from_dict({"language": 2, "inputs": {"x": {}}, "steps": steps}))
    (source,) = meaning.names.variables["x"]
    spec = meaning.typing.effective(source)
    assert spec is not None
    assert spec.type == ("number",)


@pytest.mark.parametrize(
    ("value", "more", "code", "path"),
    [
        ({"a": ["x", "is $nobody"]}, {}, "SW201", ("steps", 0, "set", "b", "a", 1)),
        ({"a": {"b": "$o.maybe"}}, {}, "SW202", ("steps", 0, "set", "b", "a", "b")),
        ("[$o.maybe]", {}, "SW202", ("steps", 0, "set", "b")),
        ({"a": "$name"}, {"c": "$b.a + 1"}, "SW203", ("steps", 1, "set", "c")),
        ({"a": "$name"}, {"c": "$b.z == 1"}, "SW201", ("steps", 1, "set", "c")),
        ("$name in [$n, 'a']", {}, "SW203", ("steps", 0, "set", "b")),
        ("join([$name, $n], '')", {}, "SW203", ("steps", 0, "set", "b")),
        ("$name in ['a', '$n']", {}, "SW204", ("steps", 0, "set", "b")),
        ("$name in [$list]", {}, "SW203", ("steps", 0, "set", "b")),
    ],
)
def test_findings_stand_where_the_text_is(value: Any, more: dict[str, Any], code: str, path: tuple[Any, ...]) -> None:
    findings = ProgramValidator(program(value, *([more] if more else []), output=["$b"])).validate().findings
    found = [(one.code, one.place.path) for one in findings if one.severity.name == "ERROR"]
    assert found == [(code, path)]


def test_what_is_not_sensitive_in_an_object_may_be_shown() -> None:
    value = {"role": "user", "bank": "$iban", "text": "from $iban"}
    steps = [{"id": "s0", "type": "set", "set": {"b": value}}]
    for prompt, codes in (("$b.role", set()), ("$b.bank", {"SW208"}), ("$b.text", {"SW208"}), ("$b", {"SW208"})):
        ask = {"id": "ask", "type": "llm", "prompt": f"Look: {prompt}"}
        made = Program.from_dict({"language": 2, "inputs": INPUTS, "steps": [*steps, ask]})
        codes_found = {one.code for one in ProgramValidator(made).validate().findings if one.severity.name == "ERROR"}
        assert codes_found == codes, prompt


def test_free_text_is_followed_into_the_field_that_has_it() -> None:
    tools = {"send": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}}}
    for field, codes in (("said", {"SW209"}), ("role", set())):
        steps = [
            {"id": "s", "type": "set", "set": {"b": {"role": "user", "said": "$name"}}},
            {"id": "send_it", "type": "tool", "tool": "send", "args": {"text": f"$b.{field}"}},
        ]
        made = Program.from_dict({"language": 2, "inputs": {"name": INPUTS["name"]}, "tools": tools, "steps": steps})
        assert {one.code for one in ProgramValidator(made).validate().findings} - {"SW212"} == codes


def test_no_two_texts_of_a_tree_share_positions() -> None:
    value = freeze({"a": "$x and $y", "b": ["$x", "costs $$5"], "c": "plain"})
    assert [piece.path for piece in pieces(value)] == [("a",), ("b", 0), ("b", 1)]
    assert [piece.start for piece in pieces(value)] == [0, 10, 13]
    assert built(value) == built(value)
    assert [is_computed(one, 2) for one in (value, "1", freeze(["a $"]), freeze(["$$"]), 1)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert not is_computed(value, 1)
