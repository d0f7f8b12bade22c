"""The base of steps, sub-steps and cases: validated by pydantic, but stored only with the fields that were given.

A program may have 100,000 steps, each with a dozen fields, most of them at their defaults. A pydantic model stores all
of them and the set of those that were given, which takes most of the time of making one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self, get_type_hints

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from stepward.vm.language.node import Node, plain

_BEGUN: Final[ContextVar[frozenset[str]]] = ContextVar("begun", default=frozenset())
"""The classes whose schema is being made."""

_ANNOTATIONS: Final[dict[type, dict[str, Any]]] = {}
"""The fields of each class that was asked for them: to evaluate the texts of annotations takes milliseconds."""


class Record:
    """A frozen part of a program. Its annotations are the fields, and its class attributes their defaults.

    Only validation makes records, so their values have the annotated types. `vars(record)` are the fields that were
    given.
    """

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field, base classes first."""
        if cls not in _ANNOTATIONS:
            _ANNOTATIONS[cls] = get_type_hints(cls, include_extras=True)
        return dict(_ANNOTATIONS[cls])

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        record = object.__new__(cls)
        vars(record).update(fields)  # `__setattr__` refuses
        return record

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; the changes are not validated."""
        return self._of({**vars(self), **changes})

    def to_data(self) -> dict[str, Any]:
        """Return the fields that were given, as plain data that loads to an equal record."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema that validates a mapping of fields and builds a record from it."""
        ref, started = f"{cls.__module__}.{cls.__qualname__}", _BEGUN.get()
        reference = core_schema.definition_reference_schema(ref)
        # A step in the body of a step of its own type, or of another type with a body: each would make all again.
        if ref in started or _is_made(reference, handler):
            return reference
        token = _BEGUN.set(started | {ref})
        try:
            return cls._schema(handler, ref)
        finally:
            _BEGUN.reset(token)

    @classmethod
    def _schema(cls, handler: GetCoreSchemaHandler, ref: str) -> CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(annotation), required=not hasattr(cls, name))
            for name, annotation in cls.fields().items()
        }
        config = core_schema.CoreConfig(strict=True)
        return core_schema.no_info_after_validator_function(
            cls._of,
            core_schema.typed_dict_schema(fields, cls=cls, config=config, extra_behavior="forbid"),
            ref=ref,
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_data),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema of the fields, with their defaults."""
        described = handler(schema)
        for name, field in handler.resolve_ref_schema(described)["properties"].items():
            if hasattr(cls, name):
                field["default"] = plain(getattr(cls, name))
        return described

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: a program is frozen."""
        raise TypeError(f"`{name}` can't be set: a program is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: a program is frozen."""
        raise TypeError(f"`{name}` can't be deleted: a program is frozen")

    def __eq__(self, other: object) -> bool:
        """Return whether two records have equal fields, given or by default."""
        if type(self) is not type(other):
            return False
        mine, theirs = vars(self), vars(other)
        return mine == theirs or all(getattr(self, name) == getattr(other, name) for name in {**mine, **theirs})

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in fields_of(type(self)))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


_KNOWN: Final[dict[type[Record], Mapping[str, Any]]] = {}


def fields_of(record: type[Record]) -> Mapping[str, Any]:
    """Return `record.fields()`, which reads every annotation anew: a class keeps its fields."""
    if record not in _KNOWN:
        _KNOWN[record] = MappingProxyType(record.fields())
    return _KNOWN[record]


def _is_made(reference: CoreSchema, handler: GetCoreSchemaHandler) -> bool:
    """Return whether the schema in which a reference would stand has what it refers to."""
    try:
        handler.resolve_ref_schema(reference)
    except LookupError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, Node | Record):
        return value.to_data()
    return [_plain(item) for item in value] if isinstance(value, tuple) else plain(value)
