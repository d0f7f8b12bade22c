"""Types of inputs, arguments, outputs and replies: JSON Schema's keywords with their meaning there, and `sensitive`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from math import ceil, floor
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import ExactNumber, Node, Value
from stepward.vm.patterns.matching import PythonPattern, matches
from stepward.vm.values import Number

TypeWord = Literal["boolean", "integer", "number", "string", "array", "object", "null"]

MAX_SHOWN: Final = 20
"""Maximal number of members of an `enum` that a refusal lists."""

KINDS: Final = frozenset({"boolean", "integer", "number", "string", "array", "object", "null"})


def _words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _require_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        help = "name a type, or remove `type`: without it, any kind of value is allowed"
        raise PydanticCustomError("empty_type", "a list of types names at least one", {"help": help})
    return words


def _single_word(words: tuple[str, ...] | None) -> Any:
    return words[0] if words and len(words) == 1 else words


def _pattern(text: str, info: ValidationInfo) -> str:
    """Return a pattern if it is accepted; the validation context may say that it is one of Python's `re`."""
    if info.context is not None and info.context["patterns"] is None:
        return PythonPattern(text)
    from stepward.vm.patterns.acceptance import require_accepted
    from stepward.vm.patterns.syntax import PatternError

    try:
        require_accepted(text)
    except PatternError as error:
        context = {"why": error.message, "help": error.help}
        raise PydanticCustomError("pattern", "the pattern is not one that can be used: {why}", context) from None
    return text


def patterns_of(spec: TypeSpec | None) -> Iterator[str]:
    """Yield the patterns of a type and of its parts."""
    if spec is None:
        return
    if spec.pattern is not None:
        yield spec.pattern
    rest = spec.additional_properties
    for part in (spec.items, *(spec.properties or {}).values(), rest if isinstance(rest, TypeSpec) else None):
        yield from patterns_of(part)


Size = Annotated[int, Field(ge=0)]


class Bound(NamedTuple):
    """A bound of numbers, and whether the number itself is left out."""

    number: Number
    is_open: bool


class TypeSpec(Node):
    """A declared type. Without `type` it allows every kind of value."""

    type: Annotated[
        tuple[TypeWord, ...] | None,
        BeforeValidator(_words, json_schema_input_type=TypeWord | list[TypeWord]),
        AfterValidator(lambda words: words if words is None else _require_words(words)),
        PlainSerializer(_single_word),
    ] = None
    enum: Annotated[tuple[Value, ...], Field(strict=False, min_length=1)] | None = None
    const: Value = None
    minimum: ExactNumber | None = None
    maximum: ExactNumber | None = None
    exclusive_minimum: ExactNumber | None = Field(None, alias="exclusiveMinimum")
    exclusive_maximum: ExactNumber | None = Field(None, alias="exclusiveMaximum")
    min_length: Size | None = Field(None, alias="minLength")
    max_length: Size | None = Field(None, alias="maxLength")
    pattern: Annotated[str, AfterValidator(_pattern), PlainSerializer(str)] | None = None
    items: TypeSpec | None = None
    min_items: Size | None = Field(None, alias="minItems")
    max_items: Size | None = Field(None, alias="maxItems")
    properties: dict[str, TypeSpec] | None = None
    required: Annotated[tuple[str, ...], Field(strict=False)] = ()
    additional_properties: (
        Annotated[
            Annotated[bool, Tag("boolean")] | Annotated[TypeSpec, Tag("type")],
            Discriminator(lambda value: "boolean" if isinstance(value, bool) else "type"),
        ]
        | None
    ) = Field(None, alias="additionalProperties")
    default: Value = None
    sensitive: bool = False

    @model_validator(mode="before")
    @classmethod
    def _with_one_member(cls, data: Any) -> Any:
        """Give a type with `const` its `enum` of one member: readers know of `enum` only."""
        if not isinstance(data, dict) or data.get("const") is None:
            return data
        if data.get("enum") is not None:
            help = "remove `const`, or `enum`"
            raise PydanticCustomError("two_lists", "`const` and `enum` both list the values", {"help": help})
        return {**data, "enum": [data["const"]]}

    @model_validator(mode="after")
    def _const_was_given(self) -> TypeSpec:
        """Let only `const` count as given."""
        if self.const is not None:
            self.model_fields_set.discard("enum")
        return self

    @model_validator(mode="after")
    def _is_of_some_value(self) -> TypeSpec:
        """Refuse a type without values: no run gets past it, so every rule would hold behind it."""
        for why, help in _contradictions(self):
            raise PydanticCustomError("no_value", "{why}", {"why": why, "help": help})
        return self

    @property
    def lower_bound(self) -> Bound | None:
        """The bound below which there are no numbers, None for none."""
        found = [Bound(self.minimum, False)] if self.minimum is not None else []
        found += [Bound(self.exclusive_minimum, True)] if self.exclusive_minimum is not None else []
        return max(found, default=None)

    @property
    def upper_bound(self) -> Bound | None:
        """The bound above which there are no numbers, None for none."""
        found = [Bound(self.maximum, False)] if self.maximum is not None else []
        found += [Bound(self.exclusive_maximum, True)] if self.exclusive_maximum is not None else []
        return min(found, key=lambda bound: (bound.number, not bound.is_open), default=None)

    @property
    def has_default(self) -> bool:
        """Whether a default is given (`null` counts only if the type allows it)."""
        return "default" in self.model_fields_set and (self.default is not None or self.admits("null"))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of value that the type allows; without `type`, those of the members of `enum`."""
        if self.type is not None:
            return frozenset(self.type)
        if self.enum is not None:
            return self.member_kinds
        return KINDS

    # The cached values depend only on `enum`, which no copy of a type changes.

    @cached_property
    def member_kinds(self) -> frozenset[str]:
        """The kinds of the members of `enum`."""
        return frozenset(word for word in KINDS if any(_is(member, word) for member in self.enum or ()))

    @cached_property
    def member_keys(self) -> frozenset[Any]:
        """The keys of the members of `enum`, so that a long one is not searched for each value."""
        return frozenset(map(key_of, self.enum or ()))

    def lists(self, value: Any) -> bool:
        """Return whether a value is a member of `enum`."""
        return key_of(value) in self.member_keys

    def members(self) -> tuple[Any, ...]:
        """Return the members of `enum` that are of the type."""
        return tuple(member for member in self.enum or () if next(_without_enum(member, self, ""), None) is None)

    def admits(self, word: str) -> bool:
        """Return whether a value of that kind can be of this type."""
        return word in self.kinds


_PYTHON: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "array": (list, tuple), "object": (dict,)}
_TYPE_ONLY: Final = {"type"}
_WORDS: Final[dict[type, str]] = {str: "string", int: "integer", bool: "boolean"}


def refusal(value: Any, spec: TypeSpec, path: str = "") -> str | None:
    """Return why `value` is not of the type, in words that name the part concerned, or None if it is.

    The meaning is that of JSON Schema (draft 2020-12): a keyword applies only to values of its kind, and `pattern`
    searches.
    """
    if spec.model_fields_set == _TYPE_ONLY and _WORDS.get(type(value)) in (spec.type or ()):
        return None  # most types say no more than the kind
    return next(_refusals(value, spec, path), None)


def fits(value: Any, spec: TypeSpec | None) -> bool:
    """Return whether a value is of a type; None allows every value."""
    return spec is None or refusal(value, spec) is None


def _refusals(value: Any, spec: TypeSpec, path: str) -> Iterator[str]:
    here = f"`{path}` " if path else ""
    if spec.enum is not None and not _is_of_kind(value, spec):
        yield from _without_enum(value, spec, path)  # more helpful than a list of the members
        return
    if spec.enum is not None and not spec.lists(value):
        shown = [_shown(member) for member in spec.enum[:MAX_SHOWN]] + ["…"] * (len(spec.enum) > MAX_SHOWN)
        yield f"{here}must be one of {', '.join(shown)}, not {_shown(value)}"
    yield from _without_enum(value, spec, path)


def _without_enum(value: Any, spec: TypeSpec, path: str) -> Iterator[str]:
    """Yield the refusals of a value by all keywords but `enum`."""
    here = f"`{path}` " if path else ""
    if not _is_of_kind(value, spec):
        assert spec.type is not None, "without one every kind is allowed"
        yield f"{here}must be {' or '.join(_article(word) for word in spec.type)}, not {_shown(value)}"
        return
    if _is(value, "number"):
        yield from _number_refusals(value, spec, here)
    elif isinstance(value, str):
        if spec.min_length is not None and len(value) < spec.min_length:
            yield f"{here}must have at least {spec.min_length} characters, not {len(value)}"
        if spec.max_length is not None and len(value) > spec.max_length:
            yield f"{here}must have at most {spec.max_length} characters, not {len(value)}"
        if spec.pattern is not None and not matches(spec.pattern, value):
            yield f"{here}must match the pattern `{spec.pattern}`"
    elif isinstance(value, dict):
        yield from _object_refusals(value, spec, path)
    elif isinstance(value, list | tuple):
        yield from _array_refusals(value, spec, path)


def _array_refusals(value: Sequence[Any], spec: TypeSpec, path: str) -> Iterator[str]:
    here = f"`{path}` " if path else ""
    if spec.min_items is not None and len(value) < spec.min_items:
        yield f"{here}must have at least {spec.min_items} items, not {len(value)}"
    if spec.max_items is not None and len(value) > spec.max_items:
        yield f"{here}must have at most {spec.max_items} items, not {len(value)}"
    if spec.items is not None:
        for number, item in enumerate(value):
            why = refusal(item, spec.items, f"{path}[{number}]")
            if why is not None:
                yield why


def _is_of_kind(value: Any, spec: TypeSpec) -> bool:
    return spec.type is None or any(_is(value, word) for word in spec.type)


def _number_refusals(value: Any, spec: TypeSpec, here: str) -> Iterator[str]:
    if spec.minimum is not None and value < spec.minimum:
        yield f"{here}must be at least {spec.minimum}, not {value}"
    if spec.maximum is not None and value > spec.maximum:
        yield f"{here}must be at most {spec.maximum}, not {value}"
    if spec.exclusive_minimum is not None and value <= spec.exclusive_minimum:
        yield f"{here}must be more than {spec.exclusive_minimum}, not {value}"
    if spec.exclusive_maximum is not None and value >= spec.exclusive_maximum:
        yield f"{here}must be less than {spec.exclusive_maximum}, not {value}"


def _object_refusals(value: dict[str, Any], spec: TypeSpec, path: str) -> Iterator[str]:
    known = spec.properties or {}
    prefix = f"{path}." if path else ""
    for name in spec.required:
        if name not in value:
            yield f"`{prefix}{name}` is missing"
    for name, item in value.items():
        if name in known:
            yield from _refusals(item, known[name], prefix + name)
        elif spec.additional_properties is False:
            yield f"`{prefix}{name}` is not a known field"
        elif isinstance(spec.additional_properties, TypeSpec):
            yield from _refusals(item, spec.additional_properties, prefix + name)


def _is(value: Any, word: str) -> bool:
    if word == "null":
        return value is None
    if word == "boolean":
        return isinstance(value, bool)
    if word in ("integer", "number"):
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        return is_number and (word == "number" or value == int(value))
    return isinstance(value, _PYTHON[word])


def _contradictions(spec: TypeSpec) -> Iterator[tuple[str, str]]:
    """Yield why a type has no values, or none of the kind that a keyword applies to, and what to change. The parts of
    the type were checked before."""
    yield from _no_number(spec)
    for low, high, what in (("min_length", "max_length", "text has"), ("min_items", "max_items", "array has")):
        least, most = getattr(spec, low), getattr(spec, high)
        if least is not None and most is not None and least > most:
            names = [TypeSpec.model_fields[name].alias for name in (low, high)]
            why = f"no {what} a length of at least {least} and at most {most}"
            yield why, f"raise `{names[1]}` to {least} or more, or lower `{names[0]}` to {most} or less"
    if spec.pattern is not None and not isinstance(spec.pattern, PythonPattern):
        from stepward.vm.patterns.acceptance import has_no_text

        if has_no_text(spec.pattern, spec.max_length):
            short = "" if spec.max_length is None else f" of at most {spec.max_length} characters"
            yield (
                f"the pattern `{spec.pattern}` matches no text{short}",
                "correct the pattern" if spec.max_length is None else "correct the pattern, or raise `maxLength`",
            )
        elif spec.min_length is not None:
            from stepward.vm.patterns.languages import lengths_of

            longest = lengths_of(spec.pattern)[1]
            if longest is not None and longest < spec.min_length:
                why = f"the pattern `{spec.pattern}` matches no text of at least {spec.min_length} characters"
                yield why, "correct the pattern, or lower `minLength`"
    if spec.enum is not None and not spec.members():
        first = next(_without_enum(spec.enum[0], spec, ""))
        why = f"no value of its `enum` is of this type: it {first}"
        yield why, f"change the values of `enum`, or {_beside_enum(spec)} beside it"
    missing = [name for name in spec.required if name not in (spec.properties or {})]
    if missing and spec.additional_properties is False:
        why = f"`{missing[0]}` is required, and `additionalProperties: false` refuses it"
        yield why, f"declare `{missing[0]}` in `properties`, or take it out of `required`"


def _no_number(spec: TypeSpec) -> Iterator[tuple[str, str]]:
    """Yield why there is no number within the bounds of a type."""
    low, high = spec.lower_bound, spec.upper_bound
    if low is None or high is None:
        return
    names = ("exclusiveMinimum" if low.is_open else "minimum", "exclusiveMaximum" if high.is_open else "maximum")
    words = f"{'more than' if low.is_open else 'at least'} {low.number} and "
    words += f"{'less than' if high.is_open else 'at most'} {high.number}"
    least = floor(low.number) + 1 if low.is_open else ceil(low.number)
    most = ceil(high.number) - 1 if high.is_open else floor(high.number)
    is_open = low.is_open or high.is_open
    if low.number > high.number or (low.number == high.number and is_open):
        above, below = ("more than {}", "less than {}") if is_open else ("{} or more", "{} or less")
        raised, lowered = above.format(low.number), below.format(high.number)
        yield f"no number is {words}", f"raise `{names[1]}` to {raised}, or lower `{names[0]}` to {lowered}"
    elif spec.type == ("integer",) and least > most:
        first, last = least + high.is_open, most - low.is_open
        yield (
            f"no whole number is {words}",
            f"raise `{names[1]}` to {first} or more, or lower `{names[0]}` to {last} or less",
        )


def _beside_enum(spec: TypeSpec) -> str:
    limits = spec.model_fields_set - {"enum", "const", "default", "sensitive"}
    fields = TypeSpec.model_fields.items()
    return " and ".join(f"`{field.alias or name}`" for name, field in fields if name in limits)


def implies(narrow: TypeSpec, wide: TypeSpec) -> bool:
    """Return whether every value of `narrow` is certainly one of `wide`; false if that is hard to decide."""
    if narrow == wide and repr(narrow) == repr(wide):  # in Python, `1` and `true` are equal
        return True
    if wide.items is not None and (narrow.items is None or not implies(narrow.items, wide.items)):
        return False
    if wide.additional_properties is not None or not set(wide.required) <= set(narrow.required):
        return False
    known = narrow.properties or {}
    if not all(name in known and implies(known[name], inner) for name, inner in (wide.properties or {}).items()):
        return False
    if narrow.enum is not None:
        return all(refusal(member, wide) is None for member in narrow.enum)
    if wide.enum is not None or not _within(narrow, wide) or not _texts_within(narrow, wide):
        return False
    if narrow.admits("array") and not _is_as_long(narrow.min_items, narrow.max_items, wide.min_items, wide.max_items):
        return False
    return all(word in wide.kinds or (word == "integer" and "number" in wide.kinds) for word in narrow.kinds)


def _within(narrow: TypeSpec, wide: TypeSpec) -> bool:
    low, high = narrow.lower_bound, narrow.upper_bound
    if wide.lower_bound is not None and (low is None or low < wide.lower_bound):
        return False
    return wide.upper_bound is None or (
        high is not None and (high.number, not high.is_open) <= (wide.upper_bound.number, not wide.upper_bound.is_open)
    )


def _is_as_long(low: int | None, high: int | None, least: int | None, most: int | None) -> bool:
    """Return whether every length from `low` to `high` is one from `least` to `most`; None is no bound."""
    return (low or 0) >= (least or 0) and (most is None or (high is not None and high <= most))


def key_of(value: Any) -> Any:
    """Return a hashable key: two values have equal keys if and only if they are the `same`."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, dict):
        return (dict, frozenset((name, key_of(item)) for name, item in value.items()))
    return (tuple, *map(key_of, value)) if isinstance(value, list | tuple) else value


def _texts_within(narrow: TypeSpec, wide: TypeSpec) -> bool:
    """Return whether every text of `narrow` is one of `wide`, by their patterns and lengths."""
    if (wide.pattern is None and wide.max_length is None and not wide.min_length) or not narrow.admits("string"):
        return True
    from stepward.vm.patterns.languages import is_within, lengths_of

    shortest = max(narrow.min_length or 0, 0 if narrow.pattern is None else lengths_of(narrow.pattern)[0])
    if shortest < (wide.min_length or 0):
        return False
    return is_within(narrow.pattern, narrow.max_length, wide.pattern, wide.max_length)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal in the language: `1` and `1.0` are, `1` and `true` are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _article(word: str) -> str:
    return "null" if word == "null" else f"an {word}" if word[0] in "aio" else f"a {word}"


def _shown(value: Any) -> str:
    from stepward.vm.values import to_json

    text = to_json(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


def is_sensitive(spec: TypeSpec) -> bool:
    """Return whether a value of the type, or a part of one, is sensitive."""
    if spec.sensitive:
        return True
    if spec.properties is None and spec.items is None and spec.additional_properties is None:
        return False
    inner = [*(spec.properties or {}).values()]
    inner += [part for part in (spec.items, spec.additional_properties) if isinstance(part, TypeSpec)]
    return any(is_sensitive(part) for part in inner)
