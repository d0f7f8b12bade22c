"""Random programs with sensitive values that outputs, errors and requests may repeat."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

COINED: Final = "zq-4711-kprt-99"
"""A text that only outputs have: it is looked for once a sensitive one has it."""

DEFAULTS: Final = ("wrk-2207-mbxq-41", "lgt-9035-vnsd-76")
"""Sensitive values that a program has as defaults: of an input, and of an argument of `file`."""

HIDDEN: Final = {"type": "string", "sensitive": True}
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read"},
    "mail": {"effect": "write", "idempotent": True, "returns": {"type": ["string", "null"]}},
    "book": {"effect": "write", "returns": {"type": "object", "properties": {"ref": {"type": "string"}}}},
    "push": {"effect": "write", "suspends": True},
    "sort": {"effect": "read", "returns": {"type": "string", "enum": ["refund", "eeeeeeeeeeee"]}},
    "open": {
        "effect": "read",
        "returns": {
            "type": "object",
            "properties": {
                "pin": HIDDEN,
                "note": {"type": "string"},
                "kind": {"type": "string", "enum": ["refund", "ok"]},
            },
            "required": ["pin", "note"],
        },
    },
    "list": {"effect": "read", "returns": {"type": "array", "items": HIDDEN}},
    "file": {
        "effect": "write",
        "idempotent": True,
        "args": {"x": {"default": 1}, "pin": {**HIDDEN, "default": DEFAULTS[1]}},
    },
    "coin": {"effect": "read", "returns": {**HIDDEN, "pattern": f"^{COINED}$"}},
}
SALARY: Final = 4711471147
INPUTS: Final[dict[str, Any]] = {
    "e": {"type": "string", "enum": ["refund", "order"], "sensitive": True},
    "h": HIDDEN,
    "k": {"type": "integer", "minimum": SALARY, "maximum": SALARY, "sensitive": True},
    "o": {"type": "object", "properties": {"a": HIDDEN, "b": {"type": "string"}}},
    "q": {"type": "object", "properties": {"in": {"type": "object", "sensitive": True, "properties": {"on": {}}}}},
    "m": {"type": "object", "additionalProperties": HIDDEN},
    "p": HIDDEN,
    "d": {**HIDDEN, "default": DEFAULTS[0]},
    "n": {"type": "integer"},
    "t": {"type": "string"},
}
VARIABLES: Final = ("v", "w", "z")

DEEP: Final = {"o": "$o.a", "q": "$q.in.on.at", "m": "$m.f0"}
"""References to what lies in an input, at any depth below what is marked as sensitive."""

NUMBERS: Final = {"k": "$k", "n": "$n", "h": "len($h)", "t": "len($t)", "p": "len($p)"}
TRUTHS: Final = {
    "h": "$h != 'a'",
    "k": "$k > 5",
    "o": "defined($o.a)",
    "e": "$e == 'order'",
    "m": "defined($m.f0)",
    "n": "$n > 1",
    "t": "$t == 'plain'",
}
"""Expressions that read one input each, by its name."""

TWIN: Final = "refund"
"""A member of an `enum`, which is not looked for; the same text in another sensitive value is."""

REPEATS: Final = 0.4
"""The share of cases whose answers repeat these two."""

NUMERALS: Final = (TWIN, str(SALARY), str(2 * SALARY))
"""What answers repeat where no text is sensitive."""

SHORT: Final = "qv7zk"
"""A sensitive value that is too short to be looked for."""

MANY: Final = 40
"""The number of sensitive values of some runs: the machine searches for many by another method than for few."""

_LETTERS: Final = "bcdfghjklmnpqrstvwz0123456789"


def secret_program(seed: str) -> dict[str, Any]:
    """Return the program of a seed: a sequence of steps that read random variables."""
    chance = Random(f"secret {seed}")
    inputs = {name: spec for name, spec in INPUTS.items() if chance.random() < 0.6}
    steps = [_step(f"s{number}", chance, list(inputs)) for number in range(chance.randint(3, 8))]
    if _repeats(seed):
        steps.insert(0, _settled("both"))
    first = {"id": "first", "type": "set", "set": {"v": 1, "w": "'a'", "z": True}}
    if chance.random() < 0.7:
        steps.insert(0, first)
    data = {"name": "secret", "inputs": inputs, "tools": TOOLS, "steps": steps, "max_steps": 40}
    return data | {"steps": [*steps, {"id": "end", "type": "end", "output": ["$v", "$w"]}]}


def _repeats(seed: str) -> bool:
    return Random(f"repeats {seed}").random() < REPEATS


class Secrets(NamedTuple):
    """The inputs of a run, the sensitive values among them that occur nowhere else, and those that answers repeat."""

    inputs: dict[str, Any]
    unique: tuple[str, ...]
    repeated: tuple[str, ...]


def secret_inputs(seed: str, names: list[str]) -> Secrets:
    """Return the inputs of a seed."""
    chance = Random(f"secrets {seed}")
    texts = ["".join(chance.choices(_LETTERS, k=chance.randint(12, 20))) for _ in range(MANY + 3)]
    fields = chance.choice((1, 3, MANY))
    inputs: dict[str, Any] = {
        "h": texts[0],
        "k": SALARY,
        "o": {"a": texts[1], "b": "plain"},
        "q": {"in": {"on": {"at": texts[-1]}}},
        "e": TWIN,
        "p": SHORT,
        "n": 3,
        "t": "plain",
        "m": {f"f{number}": text for number, text in enumerate(texts[2 : 2 + fields])},
    }
    if _repeats(seed):
        inputs["h"] = inputs["m"]["f0"] = TWIN
        return Secrets({name: inputs[name] for name in names if name in inputs}, (), (TWIN, COINED, COINED))
    texts_of_inputs = {
        "d": [DEFAULTS[0]],
        "h": [inputs["h"]],
        "o": [inputs["o"]["a"]],
        "q": [texts[-1]],
        "m": list(inputs["m"].values()),
    }
    unique = tuple(text for name in texts_of_inputs if name in names for text in texts_of_inputs[name])
    short = [SHORT] if "p" in names else []
    known = {name: inputs[name] for name in names if name in inputs}
    return Secrets(known, (*unique, DEFAULTS[1]) if unique else (), (*(unique or NUMERALS), *short))


def _step(name: str, chance: Random, inputs: list[str]) -> dict[str, Any]:
    kind = chance.choice(["call", "call", "call", "set", "parallel", "ask"])
    if kind == "set":
        names = chance.sample(VARIABLES, chance.randint(1, len(VARIABLES)))
        return {"id": name, "type": "set", "set": {to: _assigned(chance, inputs, to) for to in names}}
    if kind == "parallel":
        parts = [_call(f"{name}_{number}", chance, inputs) for number in range(chance.randint(2, 3))]
        more = {"on_error": "retry", "max_retries": 2} if chance.random() < 0.3 else {"on_error": "skip"}
        return {"id": name, "type": "parallel", "parallel_steps": parts, "output_key": "z", **more}
    if kind == "ask":
        prompt = f"say {_words(chance, inputs)}"
        shape: dict[str, Any] = chance.choice(
            [{}, {"allowed_outputs": ["refund", "order"]}, {"returns": TOOLS["open"]["returns"]}]
        )
        if chance.random() < 0.3:
            shape |= {"system": _words(chance, inputs)}
        return {"id": name, "type": "llm", "prompt": prompt, "on_error": "skip", "output_key": "w", **shape}
    return _call(name, chance, inputs)


def _settled(name: str) -> dict[str, Any]:
    """Return a parallel step: what one call finds out is known when somebody settles the other."""
    coins = {"id": f"{name}_0", "type": "tool", "tool": "coin", "on_error": "skip"}
    books = {"id": f"{name}_1", "type": "tool", "tool": "book", "on_error": "skip"}
    return {"id": name, "type": "parallel", "parallel_steps": [coins, books], "output_key": "z"}


def _assigned(chance: Random, inputs: list[str], to: str) -> Any:
    """Return the value of one name of a `set`: another one of the same `set` may be sensitive."""
    if "k" in inputs and chance.random() < 0.3:
        return "$k * 2"
    if chance.random() < 0.4:
        return _expression(chance, inputs)
    plain = ["1 + 1", "'a' == 'b'", *(["$n + 1"] if "n" in inputs else []), *(["len($t)"] if "t" in inputs else [])]
    return chance.choice([*plain, *plain, 5, *(f"${name}" for name in (*inputs, *VARIABLES) if name != to)])


def _read(chance: Random, inputs: list[str]) -> str:
    """Return a reference, to something that is not sensitive more often than not."""
    plain = [f"${name}" for name in "nt" if name in inputs]
    hidden = [chance.choice([f"${name}", *[DEEP.get(name, f"${name}")] * 3]) for name in inputs if name not in "nt"]
    return chance.choice([*hidden, *(f"${name}" for name in VARIABLES), *(plain * 3)])


def _words(chance: Random, inputs: list[str]) -> str:
    """Return a text with one to three references, of which any one may be sensitive."""
    return " of ".join(_read(chance, inputs) for _ in range(chance.randint(1, 3)))


def _expression(chance: Random, inputs: list[str]) -> str:
    """Return an expression with several references, of which any one may be sensitive."""
    numbers = [word for name, word in NUMBERS.items() if name in inputs]
    truths = [word for name, word in TRUTHS.items() if name in inputs]
    if len(numbers) > 1 and chance.random() < 0.5:
        operands = chance.sample(numbers, min(len(numbers), chance.randint(2, 3)))
        return chance.choice(
            (" + ".join(operands), " - ".join(operands), f"{operands[0]} * ({' + '.join(operands[1:])})")
        )
    operands = chance.sample([*truths, "1 == 1"], min(len(truths) + 1, chance.randint(2, 3)))
    return chance.choice((" and ", " or ")).join(operands)


def _call(name: str, chance: Random, inputs: list[str]) -> dict[str, Any]:
    args: dict[str, Any] = {"x": _read(chance, inputs)} if inputs and chance.random() < 0.7 else {}
    if args and chance.random() < 0.4:
        args |= {"y": [_words(chance, inputs), {"z": _read(chance, inputs)}]}
    more: dict[str, Any] = chance.choice([{"on_error": "skip"}, {"on_error": "retry", "max_retries": 3}])
    tool = chance.choice([*TOOLS, "get", "get", "mail"])
    if tool == "file":
        args = {key: value for key, value in args.items() if key == "x"}
    return {"id": name, "type": "tool", "tool": tool, "args": args, "output_key": chance.choice(VARIABLES), **more}
