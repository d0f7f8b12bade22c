"""Proposes a manifest for the tools of a server, from their schemas.

What a server says decides nothing: each tool is a write that is not idempotent, until the operator says otherwise.
Types are taken over as far as the language has them, because a type can only forbid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stepward.vm.language.manifest import ToolSpec
from stepward.vm.remote.pins import Listed
from stepward.vm.remote.results import printable

MAX_DEPTH: Final = 20

KEY: Final = "idempotency_key"
"""The argument that the machine fills in, where a tool has it: it is no argument of the manifest."""

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_WORDS: Final = frozenset({"boolean", "integer", "number", "string", "array", "object", "null"})
_PLAIN: Final = ("enum", "minimum", "maximum", "maxLength", "pattern", "default")


def proposed(tool: Listed) -> dict[str, Any]:
    """Return the proposed facts of a tool, as plain data of a manifest."""
    data: dict[str, Any] = {"effect": "write", "idempotent": False}
    properties, required = _properties(tool)
    args = {name: _checked(type_of(schema, tool.input_schema)) for name, schema in properties.items()}
    data["args"] = {name: spec for name, spec in args.items() if name in required or "default" in spec}
    if tool.output_schema is not None:
        data["returns"] = _checked(type_of(tool.output_schema, tool.output_schema))
    return data


def remarks(tool: Listed) -> Iterator[str]:
    """Yield what the operator has to know of a tool, line by line: none of it decides anything."""
    if tool.description:
        yield f"the server says: {printable(tool.description)}"
    hints = [f"{name}: {str(tool.hints[name]).lower()}" for name in HINTS if type(tool.hints.get(name)) is bool]
    if hints:
        yield f"hints of the server, which decide nothing: {', '.join(hints)}"
    properties, _ = _properties(tool)
    if KEY in (tool.input_schema.get("properties") or {}):
        yield f"it gets the key of the call as the argument `{KEY}`"
    left = [name for name in properties if name not in proposed(tool)["args"]]
    if left:
        yield f"left out, because it is optional and has no default: {', '.join(map(printable, left))}"


def _properties(tool: Listed) -> tuple[dict[str, Any], Sequence[Any]]:
    """Return the schemas of the arguments of a tool but for the key, and the names of those that are required."""
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    known = dict(properties) if isinstance(properties, Mapping) else {}
    known.pop(KEY, None)
    return known, required if isinstance(required, list) else []


def type_of(schema: Any, root: Any, depth: int = 0) -> dict[str, Any]:
    """Return a schema as a type of the language; what the language does not have is left out, so it forbids less."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    if isinstance(schema.get("$ref"), str):
        return type_of(_resolved(schema["$ref"], root), root, depth + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _with_default(_united([type_of(one, root, depth + 1) for one in schema[word]]), schema)
    words = schema.get("type")
    known = [words] if isinstance(words, str) else list(words) if isinstance(words, list) else []
    data: dict[str, Any] = {}
    if known and all(isinstance(word, str) and word in _WORDS for word in known):
        data["type"] = known[0] if len(known) == 1 else known
    data |= {name: schema[name] for name in _PLAIN if name in schema}
    if "const" in schema:
        data["enum"] = [schema["const"]]
    if isinstance(schema.get("items"), Mapping):
        data["items"] = type_of(schema["items"], root, depth + 1)
    if isinstance(schema.get("properties"), Mapping):
        data["properties"] = {name: type_of(one, root, depth + 1) for name, one in schema["properties"].items()}
        if isinstance(schema.get("required"), list):
            data["required"] = [name for name in schema["required"] if name in data["properties"]]
    more = schema.get("additionalProperties")
    if isinstance(more, bool | Mapping):
        data["additionalProperties"] = more if isinstance(more, bool) else type_of(more, root, depth + 1)
    return data


def _resolved(reference: str, root: Any) -> Any:
    """Return the part of a schema that a reference within it names, or None."""
    found = root
    for name in reference.removeprefix("#/").split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if reference.startswith("#/") else None


def _united(types: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a type of every value of some types: exact for one of them or null."""
    rest = [one for one in types if one != {"type": "null"}]
    if len(rest) == 1 and isinstance(rest[0].get("type"), str):
        others = {name: value for name, value in rest[0].items() if name not in ("type", "enum")}
        words = [rest[0]["type"]] + ["null"] * (len(rest) < len(types))
        values = {"enum": [*rest[0]["enum"], None]} if "enum" in rest[0] else {}
        return {"type": words, **others, **values}
    words = [one.get("type") for one in types]
    return {"type": list(dict.fromkeys(words))} if all(isinstance(word, str) for word in words) else {}


def _with_default(data: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "default": schema["default"]} if "default" in schema else data


def _checked(data: dict[str, Any]) -> dict[str, Any]:
    """Return a type if the language accepts it, else one of any value, with its default."""
    for attempt in (data, {name: value for name, value in data.items() if name == "type"}):
        try:
            ToolSpec.model_validate({"returns": attempt})
        except ValueError:
            continue
        return attempt
    return {}
