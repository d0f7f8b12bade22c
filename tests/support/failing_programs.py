"""Small programs that fail in further ways: calls beside others that are tried again, results of too many digits.

Each takes a program of another generator and puts something into it, by chance of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any, Final

from branched_programs import branched_program
from concurrent_programs import concurrent_program
from small_tools import KINDS

Data = dict[str, Any]


# -- calls that are tried again ----------------------------------------------------------------------------------------


def with_attempts(data: Data, chance: Random) -> Data:
    """Return a program with branches, or items at once, of which calls are tried again, in them and around them."""
    found = deepcopy(data)
    found["tools"]["look"]["errors"] = ["Busy"]
    calls = [step for step in _all_steps(found["steps"]) if step["type"] == "tool"]
    for step in calls:
        if chance.random() < 0.5:
            step.update(_tried_again(step, chance))
    return found


def _tried_again(call: Data, chance: Random) -> Data:
    """Return the fields of a call that is tried again, after any error or after some."""
    most = chance.choice([1, 2, 2, 3])
    if "on_error" not in call and chance.random() < 0.5:
        return {"on_error": "retry", "max_retries": most}
    names = ["any", "any", "Unexpected", *(["Busy"] if call["tool"] == "look" else [])]
    first: Data = {"errors": [chance.choice(names)], "max_attempts": most, "delay_seconds": chance.choice([0, 1])}
    last = [{"errors": ["any"], "max_attempts": 2}] if first["errors"] != ["any"] and chance.random() < 0.4 else []
    return {"retry": [first, *last]}


def _all_steps(steps: list[Data]) -> Iterator[Data]:
    for step in steps:
        yield step
        inner = [*step.get("steps", ()), *([step["do"]] if "do" in step else ())]
        yield from _all_steps(inner)
        for branch in step.get("branches", {}).values():
            yield from _all_steps(branch["steps"])


# -- results of too many digits ----------------------------------------------------------------------------------------

_COMPARED: Final = re.compile(r"\$(\w+) (==|!=|<|<=|>|>=) (\d)\b")
OF_NUMBERS: Final = (
    "$n * 5e999 > 0",
    "$n * 5e999 == 5e999",
    "not ($n * 9e999 > 0)",
    "$n > 1 or $n * 5e999 > 0",
    "$n < 2 and $n * 9e999 > 0",
    "$n == 2 or 0 - $n * 9e999 < 0",
    "$n * 5e999 + 5e999 > 0",
    "5e999 - $n * 5e999 - 9e999 < 0",
    "$n > 5 and 5e999 * 2 > 0",
    "5e999 * 2 > $n",
)
"""Questions about a whole number from 0 to 3, of which some values give over a thousand digits."""


def with_overflow(data: Data, chance: Random) -> Data:
    """Return a program of which some questions about numbers have too many digits for some values."""
    inputs = {**data["inputs"], "n": data["inputs"].get("n", {"type": "integer", "minimum": 0, "maximum": 2})}

    def asked(text: str) -> str:
        other = chance.choice(OF_NUMBERS)
        larger = _with_more_digits(text, chance)
        return (
            chance.choice([text, other, f"({text}) and {other}", f"{other} or ({text})"]) if larger == text else larger
        )

    found = _changed({**data, "inputs": inputs}, asked)
    if "programs" in data:  # their inputs are their own
        found["programs"] = _changed(data["programs"], lambda text: _with_more_digits(text, chance))
    rule = {"name": "digits", "never": {"step": chance.choice(data["steps"])["id"]}, "when": chance.choice(OF_NUMBERS)}
    return {**found, "guardrails": [*found["guardrails"], rule]}


def _with_more_digits(text: str, chance: Random) -> str:
    """Return a question with larger numbers on both sides, where it compares a number: it asks the same."""
    return _COMPARED.sub(lambda found: _larger(found, chance), text)


def _larger(found: re.Match[str], chance: Random) -> str:
    name, sign, number = found.groups()
    if KINDS.get(name.removeprefix("b")) != "number":
        return found[0]
    factor = chance.choice(["4e999", "5e999"])
    return f"${name} * {factor} {sign} {number} * {factor}" if int(number) < 2 else found[0]


def _changed(value: Any, change: Callable[[str], str], key: str = "") -> Any:
    """Return a program with other conditions."""
    if isinstance(value, dict):
        return {name: _changed(inner, change, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return change(value) if key in ("condition", "when") and isinstance(value, str) else value


# -- programs of a seed ------------------------------------------------------------------------------------------------


def _chance(seed: int) -> Random:
    return Random(f"{seed}/failing")


def tried_branches(seed: int) -> Data:
    """Return the program with branches of a seed, in which calls are tried again."""
    return with_attempts(branched_program(seed), _chance(seed))


def tried_items(seed: int) -> Data:
    """Return the program with items at once of a seed, in which calls are tried again."""
    return with_attempts(concurrent_program(seed), _chance(seed))


def too_long(seed: int, make: Callable[[int], Data]) -> Data:
    """Return the program that `make` returns for a seed, in which some results have too many digits."""
    return with_overflow(make(seed), _chance(seed))
