"""Assigned fields in drawn programs: `set` puts what steps read into fields of objects, and later steps read it."""

from __future__ import annotations

import re
from random import Random
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$([^\W\d]\w*(?:\.[^\W\d]\w*)*)(?![\w.\[(])")
_FORM: Final = "form"
"""The variable of which fields are assigned."""

_FIRST: Final[tuple[Any, ...]] = (
    {"one": 1, "deep": {"two": False, "deeper": {}}},
    {"one": 3, "deep": {"two": True}, "kept": [1, None]},
    {"deep": {"deeper": {"three": 0}}},
    {"one": 2, "deep": "no object"},
)
"""What the variable is at first; some of it has no object where a path needs one."""

_PATHS: Final[dict[str, tuple[Any, ...]]] = {
    "one": (7, "$form.one", "$form.one + 1"),
    "new": ("'new'", ["a", "b"], {"in": "$form.one"}),
    "deep.two": ("1 == 1", "$form.deep.two", False),
    "deep.new": ("$form.deep", "$form.one"),
    "deep.deeper.three": (0, "$form.one", "$form.deep.deeper.three"),
    '["a field"]': ("$form", None),
    "missing.field": (1,),
}
"""The paths, each with values; some of them get what the program reads elsewhere, too."""

_ANY: Final = ("new", "deep.new", '["a field"]')
_READ: Final = ("$form", "one is $form.one", "$form.deep", {"new": "$form.new"}, "$before")
_QUESTIONS: Final = (
    "not defined($form.one) or defined($form.deep)",
    "defined($form.new) and defined($before)",
    "not defined($form.deep.two) or $form.deep.two == $form.deep.two",
    'defined($form["a field"])',
    "defined($before.new) or defined($form.deep.deeper.three)",
)


def with_fields(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which a `share` of the `set` steps assign fields of an object, and later steps read it.

    It says `language: 2` if one does. The program that was given is not changed.
    """
    if chance.random() >= 2 * share or _FORM in str(data.get("inputs")):
        return data
    steps = data["steps"]
    read = sorted({name for step in steps for name in _REFERENCE.findall(_expressions_of(step))})
    found: list[dict[str, Any]] = []
    for step in steps:
        is_there = any(_FORM in one.get("set", ()) for one in found)
        found.append(_changed(step, read, chance, is_there=is_there))
    if not any(_FORM in step.get("set", ()) for step in found):
        return data
    return {**data, "steps": found, "language": 2}


def _expressions_of(step: dict[str, Any]) -> str:
    texts = [step.get("condition"), *(case["when"] for case in step.get("cases", ()))]
    texts += step.get("set", {}).values()
    return " ".join(text for text in texts if isinstance(text, str))


def _changed(step: dict[str, Any], read: list[str], chance: Random, *, is_there: bool) -> dict[str, Any]:
    """Return a step that assigns the object, a field of it or two, or asks for them; it may fail, and then ends the
    run.

    `is_there`: a step before it in the list has assigned the object.
    """
    how = chance.random()
    if step["type"] == "set" and how < (0.1 if is_there else 0.85):
        return {**step, "set": {**step["set"], _FORM: chance.choice(_FIRST)}}
    if step["type"] == "set":
        return {**step, "set": {**step["set"], **_fields(read, chance)}}
    if step["type"] == "condition" and "condition" in step and how < 0.5:
        return {**step, "condition": f"({step['condition']}) and ({chance.choice(_QUESTIONS)})"}
    if step["type"] == "end" and how < 0.6:
        return {**step, "output": {"said": step.get("output"), "form": chance.choice(_READ)}}
    return step


def _fields(read: list[str], chance: Random) -> dict[str, Any]:
    """Return what a `set` puts into fields of the object, and now and then a copy of it as it was before."""
    paths = chance.sample(list(_PATHS), chance.choice((1, 1, 2, 3))) if chance.random() < 0.7 else ["one"]
    found: dict[str, Any] = {}
    for path in paths:
        value = chance.choice(_PATHS[path])
        if path in _ANY and read and chance.random() < 0.3:
            value = f"${chance.choice(read)}"
        found[f"{_FORM}{path}" if path.startswith("[") else f"{_FORM}.{path}"] = value
    if chance.random() < 0.3:
        found["before"] = "$form"
    return found
