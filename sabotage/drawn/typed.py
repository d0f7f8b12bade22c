"""Tables of random types and values: one run judges many pairs, as arguments and as outputs of tools."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.second import in_words_of_2
from stepward.sabotage.drawn.values import ONE_LIMIT, TWO_LIMITS, beside, drawn_type, fitting
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.reference.plain import NoValue, to_value
from stepward.sabotage.reference.types import is_of
from stepward.vm import Program, ToolContext
from stepward.vm.language.types import TypeSpec

PAIRS: Final = 14

SHARE_OF_BESIDE: Final = 0.6
"""The share of values that are just outside their type."""


class Pair(NamedTuple):
    """A type, and a value that is its argument or its output. `is_fine`: the value is of the type."""

    type: Mapping[str, Any]
    value: Any
    is_output: bool
    is_fine: bool


def drawn_pairs(chance: Random) -> list[Pair]:
    """Return random pairs."""
    return [_pair(chance, is_output=number % 2 == 0) for number in range(PAIRS)]


def _pair(chance: Random, *, is_output: bool) -> Pair:
    type = chance.choice((*ONE_LIMIT, *TWO_LIMITS)) if chance.random() < 0.5 else drawn_type(chance)
    data = in_words_of_2(type, chance, 0.4)
    spec = TypeSpec.model_validate(data)
    value = (beside if chance.random() < SHARE_OF_BESIDE else fitting)(spec, chance)
    try:
        is_fine = is_of(to_value(value), TypeSpec.model_validate(data))
    except NoValue:
        is_fine = False
    return Pair(data, value, is_output, is_fine)


class TypedCalls(EveryTool):
    """A program that calls one tool for each pair, and its tools. Arguments come from inputs of any type."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = {f"c{number}": pair for number, pair in enumerate(pairs)}
        self.inputs = {name: pair.value for name, pair in self.pairs.items() if not pair.is_output}
        tools = {f"t_{name}": self._facts(pair) for name, pair in self.pairs.items()}
        calls = [
            {"id": name, "type": "tool", "tool": f"t_{name}", "on_error": "skip", "args": self._args(name, pair)}
            for name, pair in self.pairs.items()
        ]
        self.program = Program.from_dict(
            {
                "name": "typed",
                "language": 2,
                "inputs": {name: {} for name in self.inputs},
                "tools": tools,
                "steps": [{"id": "all", "type": "parallel", "parallel_steps": calls, "on_error": "skip"}],
            }
        )

    @staticmethod
    def _facts(pair: Pair) -> dict[str, Any]:
        typed = {"args": {}, "returns": pair.type} if pair.is_output else {"args": {"a": pair.type}}
        return {"effect": "read", **typed}

    @staticmethod
    def _args(name: str, pair: Pair) -> dict[str, Any]:
        return {} if pair.is_output else {"a": f"${name}"}

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a pair, or null."""
        del name, args
        pair = self.pairs[context.step]
        return pair.value if pair.is_output else None
