"""Removes fields whose value is null: some serializers write them, and the models refuse them.

A field that the language does not know stays, so that the models refuse it: a misspelt name is no absent field.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from pydantic import BaseModel

from stepward.vm.language import guardrails
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.record import Record, fields_of
from stepward.vm.language.steps import STEP_MODELS, SUB_STEP_MODELS, BaseStep, Case
from stepward.vm.language.steps.catching import Catch, Retry
from stepward.vm.language.types import TypeSpec, same

TYPE_MAPS: Final = frozenset({"inputs", "args", "properties"})
"""The fields whose value maps names to types."""

ENTRIES: Final[dict[str, type[Record]]] = {"cases": Case, "catch": Catch, "retry": Retry}
"""The lists of a step whose entries have fields of their own, with the models of these."""


def names_of(model: type[BaseModel] | type[Record]) -> list[str]:
    """Return the names of a model's fields, as documents write them."""
    if issubclass(model, Record):
        return list(fields_of(model))
    return [field.alias or name for name, field in model.model_fields.items()]


def without_nulls(data: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a document without known fields that are null; the user's own values stay unchanged.

    `model` is that of the document.
    """
    fields: dict[str, Any] = _fields_without_nulls(data, frozenset(names_of(model)))
    for key, declared in (("inputs", _TYPE), ("tools", _TOOL)):
        if isinstance(fields.get(key), dict):
            fields[key] = {name: _declaration_without_nulls(entry, declared) for name, entry in fields[key].items()}
    if isinstance(fields.get("steps"), list):
        fields["steps"] = [_whole_step_without_nulls(entry) for entry in fields["steps"]]
    if isinstance(fields.get("programs"), dict):
        fields["programs"] = {
            name: without_nulls(one, model) if isinstance(one, dict) else one
            for name, one in fields["programs"].items()
        }
    if "guardrails" in fields:
        fields["guardrails"] = _all_without_nulls(fields["guardrails"], _RULE)
    entry_models: dict[str, type[BaseModel]] = getattr(model, "entry_models", {})
    for key in entry_models.keys() & fields.keys():
        fields[key] = _all_without_nulls(fields[key], frozenset(names_of(entry_models[key])))
    return fields


def _whole_step_without_nulls(entry: Any) -> Any:
    """Clean a step with its sub-steps, its cases, its handling of errors and its body."""
    step = _step_without_nulls(entry, STEP_MODELS)
    if not isinstance(step, dict):
        return step
    if isinstance(step.get("parallel_steps"), list):
        step["parallel_steps"] = [_part_without_nulls(part) for part in step["parallel_steps"]]
    if isinstance(step.get("steps"), list):
        step["steps"] = [_whole_step_without_nulls(inner) for inner in step["steps"]]
    if "do" in step:
        step["do"] = _part_without_nulls(step["do"])
    if "guardrails" in step:
        step["guardrails"] = _all_without_nulls(step["guardrails"], _RULE)
    return _entries_without_nulls(step)


def _part_without_nulls(entry: Any) -> Any:
    return _entries_without_nulls(_step_without_nulls(entry, SUB_STEP_MODELS))


def _entries_without_nulls(part: Any) -> Any:
    """Clean the entries of the lists of a step."""
    for key, model in ENTRIES.items():
        if isinstance(part, dict) and isinstance(part.get(key), list):
            part[key] = [_fields_without_nulls(one, fields_of(model).keys()) for one in part[key]]
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

_STEP: Final = frozenset(
    name for models in (STEP_MODELS, SUB_STEP_MODELS) for model in models.values() for name in fields_of(model)
)
"""The fields of all steps: a serializer may write null for those of other types."""

_TYPE: Final = frozenset(names_of(TypeSpec))
_TOOL: Final = frozenset(names_of(ToolSpec))
_RULE: Final = frozenset(name for model in guardrails.PARTS for name in names_of(model))
"""The fields of all kinds of rules, and of what stands in them."""


def _step_without_nulls(entry: Any, models: dict[str, type[BaseStep]]) -> Any:
    fields = _fields_without_nulls(entry, _STEP)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str) or fields["type"] not in models:
        return fields
    own = fields_of(models[fields["type"]])
    return {
        key: value
        for key, value in fields.items()
        if key in own or key not in _WRITTEN_DEFAULTS or not same(value, _WRITTEN_DEFAULTS[key])
    }


def _all_without_nulls(entry: Any, known: Set[str]) -> Any:
    """Clean a part whose values, at every depth, are fields of the language."""
    if isinstance(entry, dict):
        return {key: _all_without_nulls(value, known) for key, value in _fields_without_nulls(entry, known).items()}
    return [_all_without_nulls(item, known) for item in entry] if isinstance(entry, list) else entry


def _fields_without_nulls(entry: Any, known: Set[str]) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: value for key, value in entry.items() if value is not None or key not in known}


def _declaration_without_nulls(entry: Any, known: Set[str]) -> Any:
    """Clean a tool's entry or a type; `default: null` is a value, and so is a null in `enum`."""
    if not isinstance(entry, dict):
        return entry
    cleaned = {}
    for key, value in _fields_without_nulls(entry, known - {"default"}).items():
        if key in TYPE_MAPS and isinstance(value, dict):
            cleaned[key] = {name: _declaration_without_nulls(inner, _TYPE) for name, inner in value.items()}
        elif key in ("returns", "items", "additionalProperties"):
            cleaned[key] = _declaration_without_nulls(value, _TYPE)
        else:
            cleaned[key] = value
    return cleaned
