"""What needs `language: 2`, put into drawn programs: each with a chance of its own, so that the rest stays as drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.values import has_values

PATTERNS: Final = ("^a", "[ab]$", "^(?:ok|a)?$", "b")

_ASKED: Final = re.compile(r"(\$[\w.]+) (==|!=|in|not in|contains|starts_with|ends_with) ('[^']*'|\['[^\]]*\])")
"""A question about a text: a reference, an operator, and a text or a list of texts."""


_LIST: Final = re.compile(r"\$l")
_ITEM: Final = r"\$[\w.]+|\d[\w.]*|'[^']*'"
_OF_LIST: Final = re.compile(rf"(\$l) (contains|not contains) ({_ITEM})|({_ITEM}) (in|not in) (\$l\b)")
"""A list of drawn programs, and a question whether it has an item."""


def with_language_2(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which `share` of the types, and of the questions about texts, have words of language 2.

    It says `language: 2` if one does. The program that was given is not changed.
    """
    steps = [_changed(step, lambda text: _compared(text, chance, share)) for step in data["steps"]]
    steps = [_set_up(step, chance, share) for step in steps]
    found = {**data, "steps": steps}
    if "inputs" in data:
        found["inputs"] = {name: in_words_of_2(spec, chance, share) for name, spec in data["inputs"].items()}
    if "tools" in data:
        found["tools"] = {
            name: {**tool, "returns": in_words_of_2(tool["returns"], chance, share)} if "returns" in tool else tool
            for name, tool in data["tools"].items()
        }
    later = Random(f"{chance.random()}/items")
    found["steps"] = [_changed(step, lambda text: _by_index(text, later, share)) for step in found["steps"]]
    return data if found == data else {**found, "language": 2}


def in_words_of_2(spec: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a type, or one of language 2 with values of the same kinds."""
    if chance.random() >= share or "default" in spec or spec.get("sensitive"):
        return spec
    found = dict(spec)
    match spec.get("type"):
        case "integer" if "enum" not in spec:
            if "minimum" in spec and spec.get("minimum") == spec.get("maximum"):
                return {"type": "integer", "const": spec["minimum"]}
            for word, other, one in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
                if word in spec:
                    found[other] = found.pop(word) - one
        case "number" if "enum" not in spec:
            found[chance.choice(("exclusiveMinimum", "exclusiveMaximum"))] = chance.choice((0, 0.5))
        case "string" if "enum" not in spec and spec.get("maxLength", 1) > 0:
            found["minLength"] = 1
        case "array":
            found |= chance.choice(({"maxItems": 1}, {"maxItems": 1}, {"minItems": 1}))
    return found if has_values(found) else spec


def _changed(step: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    found = dict(step)
    if isinstance(step.get("condition"), str):
        found["condition"] = change(step["condition"])
    if "cases" in step:
        found["cases"] = [{**case, "when": change(case["when"])} for case in step["cases"]]
    if step["type"] == "set":
        found["set"] = {name: change(value) if isinstance(value, str) else value for name, value in step["set"].items()}
    return found


def _set_up(step: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a step whose calls of models say now and then which model they want, and how it is called."""
    if "parallel_steps" in step:
        return {**step, "parallel_steps": [_set_up(part, chance, share) for part in step["parallel_steps"]]}
    if step["type"] != "llm" or chance.random() >= share:
        return step
    settings = {"model": chance.choice(("small", "large")), "temperature": 0.5, "max_output_tokens": 100}
    return {**step, **{name: value for name, value in settings.items() if chance.random() < 0.6}}


def _by_index(text: str, chance: Random, share: float) -> str:
    """Return an expression in which some questions about a list are about one of its items."""

    def written(found: re.Match[str]) -> str:
        if chance.random() >= share:
            return found.group()
        left, word, right = (one for one in found.groups() if one is not None)
        array, item = (left, right) if "contains" in word else (right, left)
        sign = "!=" if word.startswith("not") else "=="
        read = f"{array}[{chance.choice((0, 0, 1))}]"
        return chance.choice((f"{read} {sign} {item}", f"(defined({read}) and {read} {sign} {item})"))

    if _LIST.fullmatch(text):
        return f"{text}[0]" if chance.random() < share else text
    return _OF_LIST.sub(written, text)


def _compared(text: str, chance: Random, share: float) -> str:
    def written(found: re.Match[str]) -> str:
        name, operator, literal = found.groups()
        if chance.random() >= share:
            return found[0]
        forms = [
            f"lower({name}) {operator} {literal}",
            f"trim({name}) {operator} {literal}",
            f"lower(trim({name})) {operator} {literal}",
            f"upper({name}) {operator} {literal.upper()}",
            f"matches({name}, '{chance.choice(PATTERNS)}')",
            f"{name} + '{chance.choice(('', 'b'))}' {operator} {literal}",
            f"'a' + {name} {operator} {literal}",
        ]
        if operator == "contains":
            forms += [f"join({name}, '-') contains {literal}", f"{name} + ['b'] contains {literal}"]
        return chance.choice(forms)

    return _ASKED.sub(written, text)
