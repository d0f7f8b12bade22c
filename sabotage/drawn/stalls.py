"""Random programs that assign like values again and again, under a bound of steps that change nothing."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.vm import Program

LIKE: Final[tuple[tuple[Any, ...], ...]] = (
    (1, True, "1.0"),
    (0, False, None),
    ([1], [True], [], {}),
    ({"a": 1}, {"a": True}, {"a": [1]}, {"a": [True]}),
)
"""Values of `set`, of which a text is an expression: some that are equal in Python differ in the language."""

SHARE_WITH_BODIES: Final = 0.4
"""The share of the programs with a body among their steps."""

VARIABLES: Final = ("v", "w")


def stalls_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a sequence of assignments, and of calls that repeat an output."""
    chance = Random(f"stalls {seed}")
    like = chance.sample(chance.choice(LIKE), 2)
    steps = [_step(chance, f"s{number}", like) for number in range(chance.randint(3, 9))]
    tools = {"get": {"effect": "read", "args": {}, "returns": {"enum": [1, True]}}}
    data = {"name": "wide", "inputs": {}, "tools": tools, "steps": steps, "max_steps": 40}
    bodies = Random(f"bodies {seed}")
    if bodies.random() < SHARE_WITH_BODIES:
        data |= {"language": 2, "steps": _with_body(bodies, steps, like)}
    return DrawnCase(Program.from_dict(data | {"max_stalled_steps": chance.choice((1, 1, 2, 3))}), seed)


def _with_body(chance: Random, steps: list[dict[str, Any]], like: list[Any]) -> list[dict[str, Any]]:
    """Return steps behind a body that is performed twice: it counts its own steps, and those around it go on counting
    behind it."""
    inside = [_asks(f"q{number}", f"q{number + 1}") for number in range(chance.choice((1, 1, 2)))]
    inside[-1] |= {"then": "b0", "otherwise": "b0"}
    inside += [_like(f"b{number}", like[0]) for number in range(chance.choice((1, 1, 2)))]
    each = {
        "id": "each",
        "type": "for_each",
        "items": chance.choice(([1], [1, 2], [1, 2, 3])),
        "as": "it",
        "steps": inside,
    }
    around = [_like(f"a{number}", like[0], "y") for number in range(chance.choice((1, 2, 2, 3)))]
    again = {"id": "again", "type": "condition", "condition": "$n < 2", "then": "each", "otherwise": "behind"}
    bump = {"id": "bump", "type": "set", "set": {"n": "$n + 1"}, "next_step": "again"}
    behind = [_like("behind", like[0], "y"), _like("more", like[0], "y")]
    behind[0]["next_step"], each["next_step"], around[-1]["next_step"] = "more", "bump", "each"
    return [_like("zero", 0, "n"), *around, each, bump, again, *behind, *steps]


def _asks(name: str, following: str) -> dict[str, Any]:
    """Return a condition: it changes nothing, and the body goes on behind it."""
    return {"id": name, "type": "condition", "condition": "1 == 1", "then": following, "otherwise": following}


def _like(name: str, value: Any, variable: str = "own") -> dict[str, Any]:
    return {"id": name, "type": "set", "set": {variable: value}}


def _step(chance: Random, name: str, like: list[Any]) -> dict[str, Any]:
    kind = chance.choice(("set", "set", "set", "both", "call"))
    if kind == "call":
        return {"id": name, "type": "tool", "tool": "get", "output_key": chance.choice(VARIABLES), "on_error": "skip"}
    names = VARIABLES if kind == "both" else (chance.choice(VARIABLES),)
    return {"id": name, "type": "set", "set": {key: chance.choice(like) for key in names}}
