"""Programs as serializers write them: null fields count as absent, while null values remain."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.reference.plain import same
from stepward.vm import Program
from stepward.vm.values import freeze

_STEP: Final = (
    "output_key",
    "error_step",
    "max_visits",
    "timeout_seconds",
    "next_step",
    "max_retries",
    "allowed_outputs",
)
_DEFAULTS: Final[dict[str, Any]] = {"on_error": "fail", "max_retries": 3, "args": {}, "is_terminal": False}
_TYPE: Final = ("minimum", "maxLength", "items", "properties", "additionalProperties", "enum", "pattern", "required")
_PROGRAM: Final = ("description", "max_tokens", "max_cost", "max_stalled_steps", "inputs", "tools", "guardrails")
_VALUES: Final = ("set", "args", "output")


def with_nulls(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program's data with null added for missing fields."""

    def more(entry: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        return {**entry, **{name: None for name in names if name not in entry and chance.random() < 0.3}}

    def typed(spec: dict[str, Any]) -> dict[str, Any]:
        inner = {key: typed(spec[key]) for key in ("items", "additionalProperties") if isinstance(spec.get(key), dict)}
        fields = spec.get("properties")
        known = {} if fields is None else {"properties": {name: typed(one) for name, one in fields.items()}}
        return more({**spec, **inner, **known}, _TYPE)

    def tool(facts: dict[str, Any]) -> dict[str, Any]:
        args = {"args": {name: typed(spec) for name, spec in facts["args"].items()}} if "args" in facts else {}
        returns = {"returns": typed(facts["returns"])} if "returns" in facts else {}
        return more({**facts, **args, **returns}, ("args", "returns", "idempotent", "suspends"))

    def step(entry: dict[str, Any]) -> dict[str, Any]:
        found = more(entry, _STEP)
        if entry["type"] in ("condition", "end"):  # defaults of other types' fields do not apply
            found |= {name: default for name, default in _DEFAULTS.items() if chance.random() < 0.3}
        for key, change in (("parallel_steps", step), ("cases", lambda case: more(case, ("name",)))):
            if key in entry:
                found[key] = [change(one) for one in entry[key]]
        return found

    found = more({**data, "steps": [step(entry) for entry in data["steps"]]}, _PROGRAM)
    for key, change in (("inputs", typed), ("tools", tool)):
        if key in data:
            found[key] = {name: change(one) for name, one in data[key].items()}
    return found


def misread(program: Program, data: dict[str, Any], plain: Program) -> str | None:
    """Return the difference of a program read from data with nulls to `plain`, the one read without them, or None."""
    if _without_nulls(program.to_dict()) != _without_nulls(plain.to_dict()):
        return "with null for fields that are absent it is another program"
    for step, written in zip(program.steps, data["steps"], strict=True):
        pairs = [
            (step, written),
            *zip(getattr(step, "parallel_steps", ()), written.get("parallel_steps", ()), strict=True),
        ]
        for part, entry in pairs:
            for key in _VALUES:
                value = getattr(part, key, None)
                if value is not None and key in entry and not same(freeze(value), freeze(entry[key])):
                    return f"`{key}` of `{part.id}` is {value}, and {entry[key]} was written"
    return None


def _without_nulls(data: Any) -> Any:
    """Return data without null fields. Null values are compared separately."""
    if isinstance(data, dict):
        items = {key: item for key, item in data.items() if item is not None or key == "default"}
        return {key: _without_nulls(item) for key, item in items.items()}
    return [_without_nulls(item) for item in data] if isinstance(data, list | tuple) else data
