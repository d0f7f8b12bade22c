"""What a turn came to, for the model or the person who wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stepward.validator.repl.values import without_hidden
from stepward.vm.lisp import Limits, LispError, evaluate
from stepward.vm.values import FrozenMap

MAX_SHOWN: Final = 8_000
"""Characters of a value that are shown."""

MAX_PARTS: Final = 5_000
"""Parts of a value that are looked at to show it."""

CUT: Final = "… (cut; look at a part of it: `(take 10 *1)`, `(keys *1)`)"
"""Stands behind a value that is too long to show."""

MAX_MESSAGE: Final = 1_000
"""Characters of the message of an error."""


@dataclass(frozen=True)
class TurnError:
    """Why a turn failed: a `reason` that a program can read, what is wrong, the parts of it, and what to do.

    The reasons are those of the language (`parse_error`, `type_error` and so on), and `gate` (a proof fails, and
    nothing was run), `tool_error`, `signature`, `failed` (the turn said so), `limit`, `refused` (by the machine),
    `waits` (a call waits for a person, or nobody knows whether it happened) and `closed` (the session is over).
    """

    reason: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""

    def as_value(self) -> dict[str, Any]:
        """Return the error as a model gets it."""
        return {"reason": self.reason, "message": self.message, "details": dict(self.details), "hint": self.hint}


@dataclass(frozen=True)
class TurnAnswer:
    """What a turn came to.

    `value` is what may be shown of its value, as data, and `shown` the same as Lisp text, cut at MAX_SHOWN: a model
    gets no value that is cut as data. `printed`
    are the lines of `println`, and `cut` the characters of them that were left out. `defined` are the names that have a
    value now. `is_last` says that the turn has returned: the session has its result. `run` is the id of its run, empty
    if nothing was run.
    """

    number: int
    run: str = ""
    value: Any = None
    shown: str = ""
    printed: tuple[str, ...] = ()
    cut: int = 0
    defined: tuple[str, ...] = ()
    is_last: bool = False
    error: TurnError | None = None
    told: str = ""
    """The whole answer of the gate, if it has refused the turn."""

    def as_value(self) -> dict[str, Any]:
        """Return the answer as a model gets it."""
        data: dict[str, Any] = {"turn": self.number, **({"run": self.run} if self.run else {})}
        if self.error is None:
            data |= {} if self.shown.endswith(CUT) else {"value": plain(self.value)}
            data |= {"shown": self.shown, "returned": self.is_last}
            data |= {"defined": list(self.defined)} if self.defined else {}
        else:
            data |= {"error": plain(self.error.as_value())}
        if self.printed:
            data["printed"] = "\n".join(self.printed)
        return data | ({"printed_cut": self.cut} if self.cut else {})


def error_of(error: LispError) -> TurnError:
    """Return the error of an expression or of a compilation as that of a turn."""
    value = error.as_value()
    return TurnError(error.reason, value["message"], value["details"], value["hint"])


def lisp_text(value: Any) -> str:
    """Return data as Lisp text, cut at MAX_SHOWN."""
    room = [MAX_PARTS]
    found = evaluate("data/value", {"value": _beginning(value, room)}, Limits(steps=1_000_000, memory=64_000_000))
    text = found.shown if found.shown is not None else ""
    if len(text) > MAX_SHOWN or room[0] < 0 or found.shown is None:
        return f"{text[:MAX_SHOWN]}{CUT}"
    return text


def _beginning(value: Any, room: list[int]) -> Any:
    """Return a value with at most so many parts; `room` is below 0 if some were left out."""
    room[0] -= 1
    if isinstance(value, Mapping):
        return {key: _beginning(value[key], room) for key in sorted(value) if room[0] > 0 or _is_left_out(room)}
    if isinstance(value, tuple | list):
        return [_beginning(item, room) for item in value[: max(room[0], 0) + 1] if room[0] > 0 or _is_left_out(room)]
    return value


def _is_left_out(room: list[int]) -> bool:
    room[0] = -1
    return False


def shortened(text: str, most: int, help: str = "") -> str:
    """Return a text with at most so many characters, and a word on what was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters{f'; {help}' if help else ''})"


def plain(value: Any) -> Any:
    """Return a value of a run as plain data."""
    if isinstance(value, Mapping | FrozenMap):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def visible(value: Any) -> Any:
    """Return what may be shown of the value of a run: no sensitive part, no entry whose key begins with `_`."""
    from stepward.vm.machine.views import traced

    return without_hidden(traced(value))
