"""Random programs that ask models repeatedly with one cache of replies, and what a plain table says of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from stepward.vm import ModelReply, Program
from stepward.vm.machine.models import ANY_NAME

HIDDEN: Final = "zq-4711-kprt-99"
"""A sensitive input. What repeats it is neither looked for in the cache nor kept there."""

TOPICS: Final = ("a", "b", "a", f"of {HIDDEN}")
MODELS: Final[tuple[dict[str, Any], ...]] = (
    {"model": "small"},
    {"model": "large"},
    {"model": "small", "temperature": 1},
)
SYSTEMS: Final = (None, None, "be kind", "be $t", "$t")
SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {"allowed_outputs": ["yes", "no"]},
    {"allowed_outputs": ["yes", "no", "maybe"]},
    {"returns": {"type": "integer"}},
    {"returns": {"type": ["integer", "null"]}},
    {"returns": {"type": "string", "sensitive": True}},
)
SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {"model": "small"},
    {"model": "large"},
    {"temperature": 0},
    {"temperature": 1},
    {"max_output_tokens": 9},
    {"max_output_tokens": 90},
)
"""What steps say of the model that they ask."""

RUNS: Final = 4
MOST_STEPS: Final = 4
VISITS: Final = 2
SHARE_OF_FAILURES: Final = 0.15
TOKENS: Final = 3


class Got(NamedTuple):
    """The reply that a step got at a visit: its value, None if it is sealed, its tokens, and whether it was kept."""

    step: str
    visit: int
    value: Any
    tokens: int
    is_cached: bool


def questions_program(chance: Random) -> Program:
    """Return a program that asks models twice in a loop."""
    shapes, systems = chance.sample(SHAPES, 2), chance.sample(SYSTEMS, 2)  # few, so that questions are alike
    settings = chance.sample(SETTINGS, 2)
    asks = []
    for number in range(chance.randint(2, MOST_STEPS)):
        step = {"id": f"q{number}", "type": "llm", "prompt": chance.choice(("say", "say $t", "$t")), "max_visits": 3}
        system = chance.choice(systems)
        step |= {"on_error": "retry", "max_retries": 3, **chance.choice(shapes), **chance.choice(settings)}
        step |= {} if system is None else {"system": system}
        asks.append(step | ({"cache": True} if chance.random() < 0.85 else {}))
    steps = [
        {"id": "first", "type": "set", "set": {"n": 0}},
        {"id": "count", "type": "set", "set": {"n": "$n + 1"}, "next_step": "q0"},
        *asks,
        {"id": "again", "type": "condition", "condition": f"$n < {VISITS}", "then": "count", "otherwise": "over"},
        {"id": "over", "type": "end"},
    ]
    hidden = {"type": "string", "sensitive": True}
    return Program.from_dict(
        {"name": "asks", "language": 2, "inputs": {"t": {"type": "string"}, "h": hidden}, "steps": steps}
    )


class Questions:
    """A model whose replies all differ, and a plain table of those that a cache has to give again.

    `asked` counts the attempts. Some first attempts fail.
    """

    names = ANY_NAME

    def __init__(self, chance: Random, parameters: Mapping[str, Any], table: dict[str, Any], first: int) -> None:
        self.parameters = dict(parameters)
        self.asked = 0
        self._table = table
        self._next = first
        places = [(f"q{step}", visit) for step in range(MOST_STEPS) for visit in range(1, VISITS + 1)]
        self._fails = {place for place in places if chance.random() < SHARE_OF_FAILURES}
        self._echoes = chance.random() < 0.3

    def complete(self, request: Any) -> ModelReply:
        """Return a reply that was not given before, or fail."""
        self.asked += 1
        if request.attempt == 1 and (request.step, request.visit) in self._fails:
            raise ValueError("it is busy")
        return ModelReply(self._reply(request.allowed, request.schema), TOKENS)

    def _reply(self, allowed: Any, schema: Any) -> Any:
        self._next += 1
        if allowed is not None:
            return allowed[self._next % len(allowed)]
        if schema is not None and "string" not in schema["type"]:
            return self._next
        return f"r{self._next} {HIDDEN}" if self._echoes and self._next % 3 == 0 else f"r{self._next}"

    def due(self, program: Program, topic: str) -> Iterator[Got]:
        """Yield what the steps of a run have to get, in order, and keep in the table what its cache has to keep."""
        asks = [step for step in program.to_dict()["steps"] if step["type"] == "llm"]
        first = self._next
        for visit in range(1, VISITS + 1):
            for step in asks:
                yield self._due(step, visit, topic)
        self._next = first

    def _due(self, step: Mapping[str, Any], visit: int, topic: str) -> Got:
        texts = (step["prompt"], step.get("system"))
        prompt, system = (None if text is None else text.replace("$t", topic) for text in texts)
        allowed, returns = step.get("allowed_outputs"), step.get("returns")
        is_hidden = HIDDEN in f"{prompt} {system}" or (returns or {}).get("sensitive", False)
        may = bool(step.get("cache")) and visit == 1 and not is_hidden
        settings = [step.get(name) for one in SETTINGS for name in one]
        question = json.dumps([self.parameters, prompt, system, allowed, returns, settings])
        if may and question in self._table:
            return Got(step["id"], visit, self._table[question], 0, is_cached=True)
        value = self._reply(allowed, returns)
        is_sealed = HIDDEN in str(value) or (returns or {}).get("sensitive", False)
        if may and not is_sealed:
            self._table[question] = value
        return Got(step["id"], visit, None if is_sealed else value, TOKENS, is_cached=False)


def got(records: list[dict[str, Any]]) -> Iterator[Got]:
    """Yield what the steps of a run got, from its records."""
    for record in records:
        body, note = record["body"], record["note"]
        if record["kind"] == "attempt" and body["kind"] == "success":
            value = body["output"]
            is_sealed = isinstance(value, str) and value.startswith("#v")
            is_cached = note.get("cached", False)
            yield Got(body["step"], body["visit"], None if is_sealed else value, note["tokens"], is_cached=is_cached)
