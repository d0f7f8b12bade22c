"""Functions with annotations of every kind, and the types that they say."""

# ruff: noqa: ARG001, ARG002, ARG005, UP007, UP045
# No `from __future__ import annotations`: most annotations here are objects, and some are texts.

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, NewType, NotRequired, Optional, TypedDict, Union

from stepward.sabotage.recorded.notes import Notes
from stepward.vm.language.annotations import signature_of, type_of
from stepward.vm.machine.tools import Suspend

Amount = NewType("Amount", Decimal)


class _Order(TypedDict):
    total: Decimal
    tags: NotRequired[list[str]]


class _Loose(TypedDict, total=False):
    note: str | None


class _Called:
    def __call__(self, a: int, context: Any = None) -> str:
        return str(a)

    def method(self, a: bool) -> "Suspend | int":
        return int(a)


def _many(a: int, b: float = 1.5, *rest: int, c: "str" = "x", d: int | None = None) -> list[int]:
    return [a, *rest]


def _any(a: str, **more: int) -> None:
    return None


def _unsaid(a, b=3, c=None, d=()):  # type: ignore[no-untyped-def]
    return Suspend(None) if a else None


def _wrong(a: "Nowhere", b: int) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
    return b


async def _later(a: Amount) -> Suspend | _Order:
    return Suspend(None)


def _awaited(a: _Loose, context: object) -> Awaitable[int]:
    raise NotImplementedError


def _coroutine(a: int = None) -> Coroutine[Any, Any, str]:  # type: ignore[assignment]  # noqa: RUF013
    raise NotImplementedError


@functools.wraps(_many)
def _wrapped(*args: Any, **more: Any) -> Any:
    return _many(*args, **more)


FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *(_many, _any, _unsaid, _wrong, _later, _awaited, _coroutine, _wrapped, _Called(), _Called().method, len, print),
    *(functools.partial(_many, 1), lambda a, b=True: a, _Called, dict),
)
HINTS: Final[tuple[Any, ...]] = (
    *(
        int,
        float,
        str,
        bool,
        Decimal,
        None,
        type(None),
        Any,
        object,
        list,
        dict,
        tuple,
        set,
        bytes,
        Amount,
        _Order,
        _Loose,
    ),
    *(
        list[int],
        list[Any],
        tuple[int, ...],
        tuple[int, int],
        tuple[int, str],
        tuple[str],
        Sequence[str],
        Iterable[float],
    ),
    *(
        dict[str, int],
        Mapping[str, Any],
        dict[str, list[bool]],
        Optional[int],
        Union[int, str],
        int | None,
        str | float,
    ),
    *(
        Literal["a", "b"],
        Literal[1, True],
        Literal["a"] | None,
        Literal[b"x"],
        Annotated[int, "x"],
        Annotated[Amount, 1],
    ),
    *(
        list[int] | None,
        list[int] | list[str],
        list[int] | dict[str, int] | None,
        _Order | None,
        int | Any,
        int | object,
    ),
    *(
        Suspend | int,
        Suspend,
        Optional[Suspend],
        Annotated[Suspend | str, 1],
        AsyncIterator[int],
        Literal["a"] | int,
        [1],
    ),
    *(
        Literal["a"] | Literal["b", None],
        int | int,
        int | bool | None,
        list[list[int]],
        dict[str, _Order],
        bool | list[int],
    ),
)


def show_signatures(notes: Notes, number: int) -> None:
    """Note what an annotation and a function say, by the number of a scene."""
    hint = HINTS[number % len(HINTS)]
    notes.add("hint", type_of(hint), type_of(hint, Suspend))
    function = FUNCTIONS[number % len(FUNCTIONS)]
    notes.add("signature", signature_of(function, ("context",), Suspend), signature_of(function, (), Suspend))
