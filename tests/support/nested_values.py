"""Small values with fields, items and nulls in one another: their types, all of them, and conditions on them.

Each condition is evaluated on each value, which says what a proof about two conditions may say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.fields import part
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression
from stepward.vm.values import freeze

NUMBER: Final = {"type": "number"}
ABSENT: Final = object()


class World(NamedTuple):
    """The type of `$v`, its values, and conditions that are asked of it."""

    spec: dict[str, Any]
    values: list[Any]
    conditions: tuple[str, ...]


def objects(**fields: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects with every choice of fields."""
    for chosen in product(*fields.values()):
        yield {name: value for name, value in zip(fields, chosen, strict=True) if value is not ABSENT}


def lists(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Yield the lists of at most so many items."""
    known = list(items)
    return (list(one) for length in range(most + 1) for one in product(known, repeat=length))


OPTIONAL: Final = World(
    {
        "type": ["object", "null"],
        "properties": {
            "p": {"type": "object", "properties": {"q": NUMBER}},
            "l": {"type": "array", "maxItems": 3, "items": NUMBER},
            "u": {"type": ["boolean", "null"]},
        },
        "required": ["l"],
    },
    [
        None,
        *objects(
            p=[ABSENT, {}, {"q": 0}, {"q": 1}],
            l=[[], [0], [1], [0, 1], [1, 0], [0, 1, 2], [1, 1, 1]],
            u=[ABSENT, None, True, False],
        ),
    ],
    (
        *("defined($v.p)", "defined($v.p.q)", "defined($v.l)", "defined($v.l[0])", "defined($v.l[2])"),
        *("defined($v.u)", "$v == null", "$v.u == null", "len($v.l) < 1", "len($v.l) >= 2", "len($v.l) == 3"),
        *("$v.p.q < 1", "$v.l[0] == 0", "$v.u != null"),
    ),
)
GRID: Final = World(
    {"type": "array", "maxItems": 2, "items": {"type": "array", "maxItems": 2, "items": NUMBER}},
    list(lists(lists([-1, 0, 1], 2), 2)),
    (
        *("defined($v[0])", "defined($v[1])", "defined($v[0][0])", "defined($v[1][1])", "len($v) < 1"),
        *("len($v) == 2", "len($v[0]) > 1", "len($v[1]) == 0", "$v[0][0] == 0", "$v[1][0] < $v[0][0]"),
    ),
)
DEEP: Final = World(
    {
        "type": "object",
        "properties": {
            "i": {
                "type": ["array", "null"],
                "maxItems": 2,
                "items": {
                    "type": ["object", "null"],
                    "properties": {"n": {"type": ["number", "null"]}, "m": NUMBER},
                    "required": ["m"],
                },
            },
            "a": {
                "type": "object",
                "properties": {
                    "b": {"type": "object", "properties": {"c": {"type": "boolean"}}, "required": ["c"]},
                },
            },
        },
    },
    list(
        objects(
            i=[ABSENT, None, *lists([None, {"m": 0}, {"m": 1}, {"m": 0, "n": None}, {"m": 1, "n": 0}], 2)],
            a=[ABSENT, {}, {"b": {"c": True}}, {"b": {"c": False}}],
        )
    ),
    (
        *("defined($v.i)", "$v.i == null", "len($v.i) == 2", "defined($v.i[0])", "$v.i[0] == null"),
        *("defined($v.i[0].m)", "defined($v.i[0].n)", "$v.i[0].n == null", "$v.i[1].m > 0", "defined($v.i[1].n)"),
        *("defined($v.a)", "defined($v.a.b)", "defined($v.a.b.c)", "$v.a.b.c"),
    ),
)
KINDS: Final = World(
    {
        "type": ["object", "array", "string", "null"],
        "properties": {
            "a": {
                "type": ["array", "object"],
                "maxItems": 1,
                "items": NUMBER,
                "properties": {"z": NUMBER},
                "required": ["z"],
            },
        },
        "items": {"type": ["object", "number"], "properties": {"b": NUMBER}},
        "maxItems": 2,
        "maxLength": 2,
    },
    [
        *(None, "", "ab", "a"),
        *objects(a=[ABSENT, [], [0], {"z": 0}, {"z": 1}]),
        *lists([0, 1, {}, {"b": 0}, {"b": 1}], 2),
    ],
    (
        *("$v == null", "$v == 'a'", "len($v) < 1", "len($v) == 2", "defined($v.a)", "defined($v.a[0])"),
        *("defined($v.a.z)", "len($v.a) == 1", "$v.a.z == 0", "defined($v[0])", "defined($v[1])", "$v[0] == 0"),
        *("defined($v[0].b)", "$v[1].b == 0"),
    ),
)
WORLDS: Final = {"optional": OPTIONAL, "grid": GRID, "deep": DEEP, "kinds": KINDS}


@cache
def truths(world: str, condition: str) -> tuple[bool | None, ...]:
    """Return what a condition is for each value of a world; None where it fails."""
    tree = parse(condition, 2)
    return tuple(_truth(tree, freeze(value)) for value in WORLDS[world].values)


def _truth(tree: Expression, value: Any) -> bool | None:
    def look_up(names: tuple[str, ...]) -> Any:
        found = value
        for name in names[1:]:
            found = part(found, name, ABSENT)
            if found is ABSENT:
                raise UndefinedReferenceError(names[0])
        return found

    try:
        return bool(evaluate(tree, look_up))
    except EvaluationError:
        return None


def asked(world: World) -> list[str]:
    """Return the conditions of a world, and their negations."""
    return [*world.conditions, *(f"not ({one})" for one in world.conditions)]


# -- programs ----------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """How `$v` gets to the question: the input and the steps before, and what condition and rule read in its place."""

    steps: tuple[dict[str, Any], ...] = ()
    condition: str = "$v"
    rule: str = "$v"
    from_tool: bool = False
    args: dict[str, Any] | None = None


def _set(value: Any) -> tuple[dict[str, Any], ...]:
    return ({"id": "s", "type": "set", "set": {"w": value}},)


WAYS: Final = {
    "an input": Way(),
    "an output": Way(({"id": "g", "type": "tool", "tool": "get"},), "$g.output", "$g.output", from_tool=True),
    "a copy": Way(_set("$v"), "$w", "$w"),
    "a value and its copy": Way(_set("$v"), "$v", "$w"),
    "a field of a built object": Way(_set({"y": "$v"}), "$w.y", "$w.y"),
    "an item of a built list": Way(_set(["$v"]), "$w[0]", "$w[0]"),
    "an argument": Way(rule="$args.x", args={"x": "$v"}),
    "a value and a field with it": Way(_set({"y": "$v"}), "$v", "$w.y"),
}


def program(world: World, way: Way, condition: str, rules: Iterable[str]) -> dict[str, Any]:
    """Return a program that pays where a condition holds, and a rule for each condition under which it must not."""
    get = {"get": {"effect": "read", "returns": world.spec}} if way.from_tool else {}
    pay = {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True, **({"args": way.args} if way.args else {})}
    asks = {"id": "c", "type": "condition", "condition": condition.replace("$v", way.condition)}
    return {
        "name": "t",
        "language": 2,
        "inputs": {} if way.from_tool else {"v": world.spec},
        "tools": {"pay": {"effect": "write", "idempotent": True}, **get},
        "guardrails": [
            {"name": f"r{number}", "never": {"tool": "pay"}, "when": when.replace("$v", way.rule)}
            for number, when in enumerate(rules)
        ],
        "steps": [*way.steps, {**asks, "then": "p", "otherwise": "no"}, pay, {"id": "no", "type": "end"}],
    }
