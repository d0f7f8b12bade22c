"""Tables of types and patterns: each limit below, at and above its bound, and each construct with texts that just match
and just do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from stepward.vm.errors import StepwardError
from stepward.vm.language.types import TypeSpec, implies, key_of, refusal, same
from stepward.vm.machine.data import completed
from stepward.vm.patterns import acceptance, languages
from stepward.vm.patterns import syntax as patterns
from stepward.vm.patterns.matching import matches
from stepward.vm.values import freeze

_A: Final[dict[str, Any]] = {"a": {"type": "number"}}
_HALF: Final = Decimal("0.5")
_LISTED: Final[tuple[list[Any], ...]] = (
    *([None], [True], [0], [1, "1"], ["", "a"], [False, 0], [[1], []], [{}], [_HALF], ["a", "ab", "b"]),
)
TYPES: Final[tuple[dict[str, Any], ...]] = (
    {},
    *({"type": word} for word in ("null", "boolean", "integer", "number", "string", "array", "object")),
    *({"type": [word, "null"]} for word in ("boolean", "integer", "number", "string", "array", "object")),
    *({"type": ["integer", "string"]}, {"type": ["number", "boolean"]}, {"type": ["array", "object"]}),
    *({"type": "number", word: 1} for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    *({"type": "integer", word: 0} for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    *({"type": "integer", word: _HALF} for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    *({"type": "number", "minimum": 1, "maximum": 1}, {"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
    *(
        {"type": "number", "exclusiveMinimum": 1, "maximum": 1},
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
    *({"type": "number", "minimum": 0, "exclusiveMinimum": 0}, {"type": "number", "maximum": 1, "exclusiveMaximum": 2}),
    *({"type": ["number", "null"], "minimum": 1}, {"type": ["integer", "string"], "maximum": 0, "minLength": 1}),
    *({"type": "string", word: size} for word in ("minLength", "maxLength") for size in (0, 1, 2)),
    *({"type": "string", "minLength": 1, "maxLength": 1}, {"type": "string", "minLength": 2, "maxLength": 1}),
    *({"type": "string", "pattern": one} for one in ("^a", "^a$", "", "^[ab]+$")),
    *({"type": "string", "pattern": "^a", "maxLength": 1}, {"type": "string", "pattern": "^ab", "maxLength": 1}),
    *({"type": "array", word: size} for word in ("minItems", "maxItems") for size in (0, 1, 2)),
    *({"type": "array", "minItems": 1, "maxItems": 1}, {"type": "array", "minItems": 2, "maxItems": 1}),
    *(
        {"type": "array", "items": one}
        for one in ({}, {"type": "number"}, {"type": ["string", "null"]}, {"enum": ["a", 1]})
    ),
    *({"type": "array", "items": {"type": "integer"}, "minItems": 1}, {"type": "array", "items": {"type": "array"}}),
    *({"type": "object", "properties": _A}, {"type": "object", "properties": _A, "required": ["a"]}),
    *({"type": "object", "additionalProperties": one} for one in (True, False, {"type": "number"}, {"type": "null"})),
    *({"type": "object", "properties": _A, "additionalProperties": one} for one in (True, False, {"type": "object"})),
    *(
        {"type": "object", "required": ["a"]},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
    ),
    *({"enum": one} for one in _LISTED),
    *({"const": one} for one in (None, True, False, 0, 1, "", "a", [1], {"a": 1}, Decimal("1.0"))),
    *({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": [1]}, {"type": "integer", "enum": [1, _HALF]}),
    *({"type": "integer", "minimum": 1, "enum": [0, 1]}, {"type": ["string", "null"], "enum": ["a", None]}),
    *(
        {"type": "integer", "const": 1, "enum": [1]},
        {"type": []},
        {"type": ["string", "string"]},
        {"enum": []},
        {"type": "x"},
    ),
    *({"type": "number", "default": one} for one in (None, 0, "a", False, Decimal("1.0"))),
    *({"type": "integer", "minimum": 1, "default": 0}, {"type": ["number", "null"], "default": None}, {"default": 0}),
    *({"type": "boolean", "default": False}, {"type": "string", "default": ""}, {"type": "array", "default": []}),
    *({"type": "string", "sensitive": True}, {"type": "string", "minimum": 1}, {"type": "number", "minLength": 1}),
    *(
        {"minLength": -1},
        {"type": "string", "maxLength": True},
        {"required": ["a", "a"]},
        {"type": "string", "pattern": "("},
    ),
)
_MORE: Final[tuple[Any, ...]] = (
    *(
        "aa",
        "abc",
        "\U0001f600\U0001f600",
        "ba",
        "c",
        [1, 2, 3],
        [None, "a"],
        ["a", 1],
        [[], [1]],
        {"a": "x"},
        {"a": {}},
    ),
    *({"a": 1, "b": 2}, {"a": 1, "b": {}}, {"b": 1}, {"a": 0, "b": None}, {"a": None, "b": 1}, Decimal("1.5"), -2),
    *(Decimal("0.99"), Decimal("1.01"), Decimal("-0.01"), {"c": None}, {"c": 1}),
)
MORE: Final = tuple(map(freeze, _MORE))
PATTERNS: Final = (
    *(
        "",
        "a",
        "^a",
        "a$",
        "^a$",
        "^$",
        "a*",
        "^a*$",
        "a+",
        "^a+$",
        "^a?$",
        "^a{2}$",
        "^a{1,2}$",
        "^a{2,}$",
        "^a{0}$",
        "^a{0,1}$",
    ),
    *(
        "^.$",
        "^[ab]$",
        "^[^a]$",
        "^[a-c]$",
        "^\\d$",
        "^\\D$",
        "^\\w$",
        "^\\W$",
        "^\\s$",
        "^\\S$",
        "\\ba",
        "a\\b",
        "\\Ba",
        "^\\b$",
    ),
    *(
        "^(a|b)$",
        "^a|b$",
        "^(ab)*$",
        "^(?:ab)+$",
        "(?i)^AB$",
        "(?i:a)b",
        "(?s)^.$",
        "(?m)^b$",
        "(?U)^a+",
        "\\Aa\\z",
        "\\z",
        "^a\\.b$",
    ),
    *(
        "^[[:alpha:]]$",
        "^[[:^digit:]]$",
        "^\\pL$",
        "^\\PL$",
        "^\\p{Lu}$",
        "^\\x61$",
        "^\\x{e9}$",
        "^\\n$",
        "^\\t$",
        "\\Q.\\E",
        "^é$",
    ),
    *(
        "^[-a]$",
        "^[a-]$",
        "^[]]$",
        "^[^]]$",
        "^[\\d_]$",
        "^[\\]]$",
        "a||b",
        "(|a)b",
        "^(a*)*$",
        "^(a|ab)(c|bcd)?$",
        "^a.?b$",
        "x*$",
    ),
    *(
        "(?i)k",
        "(?i)ſ",
        "^[a-zA-Z0-9_]+$",
        "^[0-9]{4}-[0-9]{2}$",
        "(a",
        "a)",
        "[b-a]",
        "a{2,1}",
        "a**",
        "\\1",
        "(?=a)",
        "(?!a)",
    ),
    *(
        "\\Z",
        "[",
        "a{1001}",
        "a{1000}",
        "*",
        "a{,2}",
        "(?P<n>a)",
        "(?<n>a)",
        "(?P<1>a)",
        "(?x)a b",
        "\\8",
        "\\e",
        "\\C",
        "a\\",
    ),
)
TEXTS: Final = (
    *(
        "",
        "a",
        "b",
        "c",
        "A",
        "aa",
        "aaa",
        "ab",
        "ba",
        "abab",
        "aba",
        "AB",
        "abc",
        "abcd",
        "abbcd",
        "a b",
        "ab ",
        " ",
        "\n",
        "a\n",
    ),
    *(
        "\nb",
        "a\nb\nc",
        "0",
        "9",
        "_",
        "-",
        ".",
        "a.b",
        "axb",
        "]",
        "é",
        "É",
        "\U0001f600",
        "\t",
        "\xa0",
        "k",
        "K",
        "\u212a",
        "s",
    ),
    *("ſ", "٣", "2027-06", "2027-6", "d", "acb", "a{,2}", "\\", "ac", "abc\n", "x", "xb", "\r", "\u2028", "^", "$"),
)
WITHIN: Final = (
    "",
    "^a",
    "a$",
    "^a$",
    "^a*$",
    "^a+$",
    "^[ab]$",
    "^(a|ab)$",
    "^a{2}$",
    "a",
    "^$",
    "(?i)^a$",
    "^.$",
    "^[^a]$",
    None,
)


def rows(values: tuple[Any, ...]) -> Iterator[tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]]:
    """Yield the rows of the tables; `values` are those of every kind."""

    def fitted(number: int) -> Iterator[Any]:
        spec = _spec(number)
        if not isinstance(spec, TypeSpec):
            yield spec
            return
        yield TYPES[number], spec.to_data(), spec.kinds, spec.member_kinds, spec.lower_bound, spec.upper_bound
        yield [spec.admits(word) for word in ("null", "boolean", "integer", "number", "string", "array", "object")]
        for value in (*values, *MORE):
            yield refusal(value, spec), refusal(value, spec, "x"), spec.lists(value)
        for inputs in ({}, {"a": None}, {"a": 0}, {"a": "", "b": 1}, {"a": False}):
            yield _tried(completed, freeze(inputs), {"a": spec, "b": TypeSpec()})

    def alike(number: int) -> Iterator[Any]:
        one = values[number]
        for other in values:
            yield same(one, other), _tried(lambda left, right: key_of(left) == key_of(right), one, other)

    yield from (("fits", fitted, (number,)) for number in range(len(TYPES)))
    yield from (("implies", _implied, (number,)) for number in range(len(TYPES)))
    yield from (("same", alike, (number,)) for number in range(len(values)))
    yield from (("pattern", _matched, (pattern,)) for pattern in PATTERNS)
    yield from (("within", _within, (pattern,)) for pattern in WITHIN)


def _tried(ask: Callable[..., Any], *args: Any) -> Any:
    try:
        return ask(*args)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [(one["type"], one["loc"], one.get("ctx", {}).get("help")) for one in found]
    except StepwardError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return type(error).__name__


@cache
def _spec(number: int) -> Any:
    return _tried(lambda: TypeSpec.model_validate(TYPES[number]))


def _implied(number: int) -> Iterator[Any]:
    one = _spec(number)
    for other in range(len(TYPES)):
        wide = _spec(other)
        if isinstance(one, TypeSpec) and isinstance(wide, TypeSpec):
            yield _tried(implies, one, wide)


def _matched(pattern: str) -> Iterator[Any]:
    try:
        acceptance.require_accepted(pattern)
        tree = patterns.parse(pattern)
    except patterns.PatternError as error:
        yield "refused", error.help
        return
    size = acceptance.written_out(tree)
    yield tree, size, [acceptance.has_no_text(pattern, longest) for longest in (None, 0, 1, 2)]
    yield [matches(pattern, text) for text in TEXTS]
    if size <= 50:
        yield [languages.shortest(pattern, longest, 4) for longest in (None, 0, 1, 2)], languages.lengths_of(pattern)
        yield [languages.is_empty(pattern, longest) for longest in (None, 0, 1)]


def _within(pattern: str | None) -> Iterator[Any]:
    for other in WITHIN:
        for longest in (None, 1):
            yield _tried(languages.is_within, pattern, longest, other, None)
        yield _tried(languages.is_within, pattern, None, other, 1)
