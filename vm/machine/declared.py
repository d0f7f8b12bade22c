"""The decorator that declares facts about a tool beside its function, for `stepward manifest`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, get_args

from stepward.vm.arguments import made, require
from stepward.vm.language.manifest import Effect

F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = "__stepward_tool__"


class ToolFacts(NamedTuple):
    """What the decorator `tool` declares of a function; the meanings are those of a manifest."""

    effect: Effect = "write"
    idempotent: bool = False
    suspends: bool = False
    echoes: bool = True


def tool(
    *, effect: Effect = "write", idempotent: bool = False, suspends: bool = False, echoes: bool = True
) -> Callable[[F], F]:
    """Declare facts about a tool beside its function: `@tool(effect="write", idempotent=True)`.

    The function stays as it is. `stepward manifest MODULE` writes a manifest of these facts and of its annotations. The
    machine does not read them: it goes by the manifest. Raises ValueError for another effect.
    """

    if effect not in get_args(Effect):
        raise ValueError(f"`effect` must be `read`, `write` or `none`, not {effect!r}")
    require(made(bool, words="True or False"), idempotent=idempotent, suspends=suspends, echoes=echoes)

    def declare(function: F) -> F:
        setattr(function, _NAME, ToolFacts(effect, idempotent, suspends, echoes))
        return function

    return declare


def facts_of(function: object) -> ToolFacts | None:
    """Return what the decorator `tool` declares of a function, or None if it does not have it."""
    found = getattr(function, _NAME, None)
    return found if isinstance(found, ToolFacts) else None
