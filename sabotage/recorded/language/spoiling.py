"""Programs, policies and texts with one thing changed, as people and models get them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 1.5, 100, 10**21, "", "1", "x", "any", "$x", "true", "retry", "steps"),
    *([], ["x"], {}, {"a": 1}, {"type": "string"}, [{}], {"tool": "get"}, "1.5", "2027-01-01T00:00:00Z"),
)
FIELDS: Final = (
    *(
        "id",
        "type",
        "next_step",
        "error_step",
        "goto",
        "if",
        "on_error",
        "max_visits",
        "output_key",
        "when",
        "condition",
    ),
    *("retries", "default", "name", "description", "parallel", "step", "args", "params", "depends_on", "items", "do"),
    *("carry", "min", "max_length", "format", "nullable", "timeout", "language", "already", "file", "program", "set"),
    *("cases", "otherwise", "branches", "guardrails", "returns", "sensitive", "enum", "const", "effect", "model"),
)
SIGNS: Final = "\t :,-[]{}'\"#&*!|>\\\n$%@\u00e9\x85\x00=()"


def spoilt(data: Any, chance: Random) -> Any:
    """Return data with one thing changed; it is changed in place."""
    found = [one for one in _containers(data) if one[0]]
    if not found:
        return data
    holder, keys = chance.choice(found)
    key = chance.choice(keys)
    match chance.choice(("drop", "name", "value", "value", "value", "add", "twin", "swap", "text", "text", "number")):
        case "drop":
            del holder[key]
        case "name" if isinstance(holder, dict):
            holder[_misspelt(key, chance)] = holder.pop(key)
        case "add" if isinstance(holder, dict):
            holder[chance.choice(FIELDS)] = chance.choice(ODD)
        case "twin" if isinstance(holder, list):
            holder.insert(chance.randrange(len(holder) + 1), holder[key])
        case "swap":
            other, others = chance.choice(found)
            holder[key] = _copied(other[chance.choice(others)])
        case "text" if isinstance(holder[key], str):
            holder[key] = spoilt_text(holder[key], chance)
        case "number" if isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] += chance.choice((-1, 1, -holder[key]))
        case _:
            holder[key] = _copied(chance.choice(ODD))
    return data


def with_past(policy: Any, chance: Random) -> Any:
    """Return a policy as a machine derives it for a run that continues another; now and then not quite so."""
    policy["continues"] = "run-1"
    policy["performed"] = [{"tool": "pay", "args": "00", "without": ["x"]}] if chance.random() < 0.5 else []
    rules = policy.get("guardrails")
    for rule in rules if isinstance(rules, list) else []:
        if not isinstance(rule, dict) or chance.random() < 0.2:
            continue
        if "requires" in rule:
            levels = [chance.choice(("never", "stale", "fresh")) for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 0)))]
            rule["already"] = [{"level": level, "reads": ["x", "a.output"]} for level in levels]
        elif "exclusive" in rule:
            rule["already"] = [chance.random() < 0.5 for _ in range(2)]
        else:
            rule["already"] = chance.random() < 0.7
    return policy


def _copied(value: Any) -> Any:
    """Return a copy, so that no data holds itself."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _containers(value: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the mappings and lists of some data, each with its keys or positions."""
    if isinstance(value, dict):
        yield value, list(value)
        for item in value.values():
            yield from _containers(item)
    elif isinstance(value, list):
        yield value, list(range(len(value)))
        for item in value:
            yield from _containers(item)


def spoilt_text(text: str, chance: Random) -> str:
    """Return a text with one sign dropped, doubled, put in or changed, or cut, or with two lines in another order."""
    at = chance.randrange(len(text) + 1)
    match chance.choice(("drop", "double", "put", "change", "cut", "lines", "line")):
        case "drop":
            return text[:at] + text[at + 1 :]
        case "double":
            return text[:at] + text[at : at + 1] + text[at:]
        case "put":
            return text[:at] + chance.choice(SIGNS) + text[at:]
        case "change":
            return text[:at] + chance.choice(SIGNS) + text[at + 1 :]
        case "cut":
            return text[:at]
    lines = text.split("\n")
    one, other = (chance.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _misspelt(name: Any, chance: Random) -> str:
    if not isinstance(name, str) or len(name) < 3 or chance.random() < 0.3:
        return chance.choice(FIELDS)
    at = chance.randrange(len(name) - 1)
    return chance.choice((name[:at] + name[at + 1] + name[at] + name[at + 2 :], name[:at] + name[at + 1 :], name + "s"))
