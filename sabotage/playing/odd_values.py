"""Dishonest values from outside, given by names that a script can store or derived from honest values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from stepward.sabotage.target import Target


class _LazyList(list[Any]):
    """A lazy list that fails when it is read."""

    def __iter__(self) -> NoReturn:
        raise RuntimeError("the cursor is closed")


class _LazyObject(Mapping[str, Any]):
    """A lazy object that fails when its fields are read."""

    def __getitem__(self, name: str) -> NoReturn:
        raise RuntimeError("the cursor is closed")

    def __iter__(self) -> Iterator[str]:
        return iter(("field",))

    def __len__(self) -> int:
        return 1


_Pretender: Final = type("_Pretender", (), {"__class__": property(lambda _: str)})
"""A class that claims to be a text and is not."""


class _Chameleon:
    """Equal to everything that it is compared with, as mocks and some arrays are."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        return True


class _ChameleonText(str):
    """A subclass of text that is equal to every other text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _: object) -> bool:
        return True

    def strip(self, _: str | None = None, /) -> str:
        return self


def nested(levels: int) -> list[Any]:
    """Return lists nested to a number of levels."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


NO_VALUES: Final[dict[str, Callable[[], Any]]] = {
    "not a number": lambda: float("nan"),
    "an infinity": lambda: Decimal("-Infinity"),
    "bytes": lambda: b"yes",
    "a set": lambda: {"yes"},
    "an object of a class": object,
    "a complex number": lambda: 1j,
    "half a surrogate pair": lambda: "\ud800",
    "a generator": lambda: (item for item in ("yes",)),
    "a key that is no text": lambda: {1: "yes"},
    "a list that can't be read": lambda: _LazyList(["yes"]),
    "an object that can't be read": _LazyObject,
    "an object in a list that can't be read": lambda: [_LazyObject()],
    "something that says it is a text": _Pretender,
    "something equal to everything": _Chameleon,
    "65 levels": lambda: nested(65),
    "a list that holds itself": _endless,
    "1,001 digits": lambda: 10**1000,
    "an exponent beyond all bounds": lambda: Decimal("1e999999"),
}
"""Objects that are not values of the language, by name."""

TEXTS: Final[dict[str, Callable[[], str]]] = {
    "half an object": lambda: '{"a": 1',
    "JSON that is none": lambda: "{'a': 1}",
    "NaN": lambda: "NaN",
    "infinity in a list": lambda: "[-Infinity]",
    "a huge exponent": lambda: "1e99999999999999999999",
    "a tiny exponent": lambda: "-1E-99999999999999999999",
    "5,000 digits": lambda: "9" * 5_000,
    "100,000 levels": lambda: "[" * 100_000,
    "objects 100,000 levels deep": lambda: '{"a":' * 100_000,
    "an object in a fence": lambda: "```json\n{}\n```",
    "half a surrogate pair in JSON": lambda: '"\\ud800"',
    "an object and more": lambda: '{"a": 1} {"a": 2}',
    "one key twice": lambda: '{"a": 1, "a": 2}',
    "null": lambda: "null",
    "nothing": lambda: "",
    "a byte order mark": lambda: "\ufeff{}",
    "a text of a class of its own": lambda: _ChameleonText("?"),
}
"""Replies of a model to a request for structured data, by name."""

_SPOILINGS: Final[dict[str, Callable[[Any], Any]]] = {
    "as JSON": lambda value: to_json(freeze(value)),
    "as JSON in JSON": lambda value: json.dumps(to_json(freeze(value))),
    "in a list": lambda value: [value],
    "in an object": lambda value: {"value": value},
    "with a field more": lambda value: {**value, "next_step": "x"} if isinstance(value, dict) else {"next_step": "x"},
    "without its fields": lambda value: {} if isinstance(value, dict) else None,
    "with texts for all fields": lambda value: dict.fromkeys(value, "x") if isinstance(value, dict) else "x",
    "with truth for all fields": lambda value: dict.fromkeys(value, True) if isinstance(value, dict) else True,
}


def strange(target: Target, spec: TypeSpec | None, *, is_reply: bool) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for descriptions of values that a call must refuse, and of near misses that it may accept."""
    from hypothesis import strategies as st

    kinds = []
    wrong = None if spec is None else target.others(spec)
    if wrong is not None and not wrong.is_empty:
        kinds.append(wrong.map(lambda value: {"value": value, "how": "as it is"}))
    kinds.append(st.sampled_from([{"specimen": name} for name in (*(TEXTS if is_reply else ()), *NO_VALUES)]))
    kinds.append(
        st.builds(
            lambda value, how: {"value": value, "how": how}, target.values(spec), st.sampled_from(sorted(_SPOILINGS))
        )
    )
    return st.one_of(kinds)


def value_of(description: Mapping[str, Any]) -> Any:
    """Return the value of a description from `strange`."""
    if "specimen" in description:
        return specimen(description["specimen"])
    return (
        description["value"]
        if description["how"] == "as it is"
        else _SPOILINGS[description["how"]](description["value"])
    )


def specimen(name: str) -> Any:
    """Return a new specimen of that name."""
    return (NO_VALUES.get(name) or TEXTS[name])()


def part_of(spec: TypeSpec | None, key: str) -> TypeSpec | None:
    """Return the type of a field of an object."""
    if spec is None:
        return None
    if key in (spec.properties or {}):
        return (spec.properties or {})[key]
    more = spec.additional_properties
    return more if isinstance(more, TypeSpec) else None


def soiled(value: Any, spec: TypeSpec | None, text: str, fields: Mapping[str, Any]) -> Any:
    """Return a value with `text` in place of its texts and `fields` added to its objects, as far as the type allows."""
    if isinstance(value, dict):
        spoilt = {key: soiled(item, part_of(spec, key), text, fields) for key, item in value.items()}
        return _first_that_fits(spec, {**spoilt, **fields}, spoilt, value)
    if isinstance(value, list):
        items = None if spec is None else spec.items
        return _first_that_fits(spec, [soiled(item, items, text, fields) for item in value], value)
    return _first_that_fits(spec, text, value) if isinstance(value, str) or spec is None else value


def _first_that_fits(spec: TypeSpec | None, *values: Any) -> Any:
    return next((value for value in values if spec is None or refusal(freeze(value), spec) is None), values[-1])
