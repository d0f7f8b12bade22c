"""Built values in drawn programs: `set` puts what steps read into lists and objects, and later steps read it there."""

from __future__ import annotations

import re
from random import Random
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?![\w.\[])")
_AMONG: Final = re.compile(r"(\$[\w.]+) (in|not in) \[([^\]$]*)\]")
"""A question whether a value is in a list of literals."""

_BOX: Final = "box"
"""The variable that is built."""


def with_built(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which a `share` of the steps build a list or an object of what they read, or read it.

    It says `language: 2` if one does. The program that was given is not changed.
    """
    found = {**data, "steps": _with_boxes(data["steps"], chance, share)}
    return data if found == data else {**found, "language": 2}


def _with_boxes(steps: list[dict[str, Any]], chance: Random, share: float) -> list[dict[str, Any]]:
    """Return steps of which some build a list or an object of what they read, and some read it.

    A run that did not build it reads nothing of it: those that do test `defined` first.
    """
    read = sorted({name for step in steps for name in _REFERENCE.findall(_expression_of(step))})
    found: list[dict[str, Any]] = []
    for step in steps:
        changed = dict(step)
        is_built = any(_BOX in one.get("set", ()) for one in found)
        if step["type"] == "set" and read and chance.random() < 2 * share:
            changed["set"] = {**step["set"], _BOX: _value(_REFERENCE.findall(_expression_of(step)) or read, chance)}
        elif step["type"] == "condition" and "condition" in step and is_built and chance.random() < 2 * share:
            changed["condition"] = f"({step['condition']}) and ({chance.choice(_QUESTIONS)})"
        elif step["type"] == "end" and is_built and chance.random() < 2 * share:
            changed["output"] = {"said": step.get("output"), "built": chance.choice(_READ)}
        found.append(_with_lists(changed, chance, share))
    return found


_QUESTIONS: Final = (
    "not defined($box.one) or (defined($box.many) and defined($box.many[0]))",
    "not defined($box.many) or len($box.many) > 1",
    "defined($box) or 1 == 1",
    "defined($box.deep) and defined($box.deep.inner)",
    "not defined($box.text) or $box.text starts_with 'so '",
)
_READ: Final = ("$box", "$box.one", "one is $box.text", "$box.many", ["$box.deep", 1])


def _expression_of(step: dict[str, Any]) -> str:
    texts = [step.get("condition"), *(case["when"] for case in step.get("cases", ()))]
    texts += step.get("set", {}).values()
    return " ".join(text for text in texts if isinstance(text, str))


def _value(read: list[str], chance: Random) -> Any:
    """Return a value with templates; what it reads may be undefined when it is built, and then the run fails."""
    name = f"${chance.choice(read)}"
    fields = {
        "one": name,
        "many": [name, f"{name}; and $$", {"last": f"(${chance.choice(read)})"}],
        "text": f"so {name}",
        "deep": {"inner": {"value": name, "plain": "no reference", "none": None}},
        "costs": "$$5",
    }
    names = [field for field in fields if chance.random() < 0.6] or ["one"]
    return {field: fields[field] for field in names} if chance.random() < 0.9 else [name, "plain"]


def _with_lists(step: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a condition in which lists of literals have a reference, too: the value that is searched for."""

    def written(found: re.Match[str]) -> str:
        if chance.random() >= share:
            return found[0]
        name, word, items = found.groups()
        return f"{name} {word} [{', '.join(one for one in (items, name) if one.strip())}]"

    if not isinstance(step.get("condition"), str):
        return step
    return {**step, "condition": _AMONG.sub(written, step["condition"])}
