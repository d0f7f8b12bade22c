"""Removes fields whose value is null: some serializers write them, and the models refuse them."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.language.record import fields_of
from stepward.vm.language.steps import STEP_MODELS, SUB_STEP_MODELS, BaseStep
from stepward.vm.language.types import same

TYPE_MAPS: Final = frozenset({"inputs", "args", "properties"})
"""The fields whose value maps names to types."""


def without_nulls(data: dict[str, Any]) -> dict[str, Any]:
    """Return the document without fields of the language that are null; the user's own values stay unchanged."""
    fields: dict[str, Any] = _fields_without_nulls(data)
    for key in ("inputs", "tools"):
        if isinstance(fields.get(key), dict):
            fields[key] = {name: _declaration_without_nulls(entry) for name, entry in fields[key].items()}
    if isinstance(fields.get("steps"), list):
        fields["steps"] = [_whole_step_without_nulls(entry) for entry in fields["steps"]]
    if isinstance(fields.get("programs"), dict):
        fields["programs"] = {
            name: without_nulls(one) if isinstance(one, dict) else one for name, one in fields["programs"].items()
        }
    for key in ("guardrails", "allow", "waivers"):
        if key in fields:
            fields[key] = _all_without_nulls(fields[key])
    return fields


def _whole_step_without_nulls(entry: Any) -> Any:
    """Clean a step with its sub-steps, its cases, its handling of errors and its body."""
    step = _step_without_nulls(entry, STEP_MODELS)
    if not isinstance(step, dict):
        return step
    if isinstance(step.get("parallel_steps"), list):
        step["parallel_steps"] = [_part_without_nulls(part) for part in step["parallel_steps"]]
    if isinstance(step.get("cases"), list):
        step["cases"] = [_fields_without_nulls(case) for case in step["cases"]]
    if isinstance(step.get("steps"), list):
        step["steps"] = [_whole_step_without_nulls(inner) for inner in step["steps"]]
    if "do" in step:
        step["do"] = _part_without_nulls(step["do"])
    if "guardrails" in step:
        step["guardrails"] = _all_without_nulls(step["guardrails"])
    return _handling_without_nulls(step)


def _part_without_nulls(entry: Any) -> Any:
    return _handling_without_nulls(_step_without_nulls(entry, SUB_STEP_MODELS))


def _handling_without_nulls(part: Any) -> Any:
    """Clean the entries of `catch` and `retry`."""
    for key in ("catch", "retry"):
        if isinstance(part, dict) and isinstance(part.get(key), list):
            part[key] = [_fields_without_nulls(one) for one in part[key]]
    return part


_WRITTEN_DEFAULTS: Final[dict[str, Any]] = {
    "args": {},
    "parallel_steps": [],
    "on_error": "fail",
    "on_timeout": "fail",
    "max_retries": 3,
    "is_terminal": False,
    "carry": {},
    "guardrails": [],
    "on_item_error": "fail",
}
"""The fields that a serializer may write on steps of any type: with these values they are ignored on other types."""


def _step_without_nulls(entry: Any, models: dict[str, type[BaseStep]]) -> Any:
    fields = _fields_without_nulls(entry)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str) or fields["type"] not in models:
        return fields
    own = fields_of(models[fields["type"]])
    return {
        key: value
        for key, value in fields.items()
        if key in own or key not in _WRITTEN_DEFAULTS or not same(value, _WRITTEN_DEFAULTS[key])
    }


def _all_without_nulls(entry: Any) -> Any:
    """Clean a part whose values, at every depth, are fields of the language."""
    if isinstance(entry, dict):
        return {key: _all_without_nulls(value) for key, value in entry.items() if value is not None}
    return [_all_without_nulls(item) for item in entry] if isinstance(entry, list) else entry


def _fields_without_nulls(entry: Any) -> Any:
    return {key: value for key, value in entry.items() if value is not None} if isinstance(entry, dict) else entry


def _declaration_without_nulls(entry: Any) -> Any:
    """Clean a tool's entry or a type; `default: null` is a value, and so is a null in `enum`."""
    if not isinstance(entry, dict):
        return entry
    cleaned = {}
    for key, value in entry.items():
        if value is None and key != "default":
            continue
        if key in TYPE_MAPS and isinstance(value, dict):
            cleaned[key] = {name: _declaration_without_nulls(inner) for name, inner in value.items()}
        elif key in ("returns", "items", "additionalProperties"):
            cleaned[key] = _declaration_without_nulls(value)
        else:
            cleaned[key] = value
    return cleaned
