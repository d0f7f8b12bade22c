"""Prepares values: fills in references, checks them against types, and marks sensitive parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepward.vm.expressions.evaluator import as_object, evaluate
from stepward.vm.expressions.syntax import Built, Expression, Reference
from stepward.vm.expressions.template import fill, parts
from stepward.vm.journal.canonical import Sealed, Secret, is_sealed, opened
from stepward.vm.language.types import TypeSpec, is_sensitive, refusal
from stepward.vm.machine.state import Reader
from stepward.vm.values import FrozenMap, as_text

REDACTED: Final = "[sensitive]"


def filled(value: Any, reader: Reader) -> Any:
    """Return `value` with its references replaced; a text that holds a sensitive value becomes a Secret.

    Raises UndefinedReferenceError if a reference is undefined.
    """
    if not reader.plan.has_sensitive:
        return fill(value, reader)
    if isinstance(value, str):
        return _text(value, reader)
    if isinstance(value, dict):
        return FrozenMap((key, filled(item, reader)) for key, item in value.items())
    return tuple(filled(item, reader) for item in value) if isinstance(value, tuple) else value


def _text(text: str, reader: Reader) -> Any:
    pieces = parts(text)
    if len(pieces) == 1 and isinstance(pieces[0], Reference):
        return reader.raw(pieces[0].names)
    values = [piece if isinstance(piece, str) else reader.raw(piece.names) for piece in pieces]
    joined = "".join(as_text(opened(value)) for value in values)
    return Secret(joined) if any(map(is_sealed, values)) else joined


def computed(tree: Expression, reader: Reader) -> Any:
    """Return the value of an expression of a `set`; what it computes from sensitive values becomes a Secret.

    The parts of a list or an object keep what they are: only those that are made of sensitive values become Secrets.
    Raises EvaluationError if there is no value.
    """
    match tree:
        case Reference(names=names):
            return reader.raw(names)
        case Built(names=names, parts=inner, is_list=is_list, base=base):
            if base is not None:
                return _changed(tree, base, reader)
            found = tuple(computed(one, reader) for one in inner)
            return found if is_list else FrozenMap(zip(names, found, strict=True))
    own = Reader(reader.plan, reader.slots)
    value = evaluate(tree, own)
    return Secret(value) if own.touched else value


def _changed(tree: Built, base: Reference, reader: Reader) -> Any:
    """Return a copy of an object with other values in some fields; one that is sensitive as a whole stays so."""
    whole = reader.raw(base.names)
    is_secret = type(whole) in (Sealed, Secret)
    before = as_object(base, opened(whole) if is_secret else whole)
    changes = {name: computed(part, reader) for name, part in zip(tree.names, tree.parts, strict=True)}
    return Secret(FrozenMap({**before, **opened(changes)})) if is_secret else FrozenMap({**before, **changes})


def refused(value: Any, spec: TypeSpec | None, name: str) -> str | None:
    """Return why an opened value is not of its type, without showing sensitive values; None if it is."""
    why = None if spec is None else refusal(value, spec)
    if spec is None or why is None:
        return None
    return f"{name} is not of its type" if is_sensitive(spec) else f"{name}: {why}"


def marked(value: Any, spec: TypeSpec | None) -> Any:
    """Return a value with the parts that its type marks as sensitive wrapped in Secret, beside those that are sensitive
    already.
    """
    if spec is None or not is_sensitive(spec) or isinstance(value, Sealed | Secret):
        return value
    if spec.sensitive:
        return Secret(opened(value))
    if isinstance(value, dict):
        return FrozenMap((key, marked(item, part_of(spec, key))) for key, item in value.items())
    return tuple(marked(item, spec.items) for item in value) if isinstance(value, tuple) else value


def part_of(spec: TypeSpec | None, key: str) -> TypeSpec | None:
    """Return the type of a field of an object, or None if there is none."""
    if spec is None:
        return None
    known = (spec.properties or {}).get(key)
    if known is not None:
        return known
    return spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None


def completed(values: Mapping[str, Any], specs: Mapping[str, TypeSpec | None]) -> tuple[dict[str, Any], str | None]:
    """Return inputs or arguments with defaults and with sensitive parts marked, and why they are refused, if so."""
    result: dict[str, Any] = {}
    unknown = [name for name in values if name not in specs]
    if unknown:
        return result, f"`{unknown[0]}` is not declared"
    for name, spec in specs.items():
        if name in values:
            value = values[name]
        elif spec is not None and spec.has_default:
            value = spec.default
        else:
            return result, f"`{name}` is missing"
        is_secret = is_sealed(value)
        why = refused(opened(value) if is_secret else value, spec, f"`{name}`")
        if why is not None and is_secret:
            why = f"`{name}` is not of its type"
        if why is not None:
            return result, why
        result[name] = marked(value, spec)
    return result, None
