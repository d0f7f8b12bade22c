"""The notes of a scene: texts that equal machines make equal, on every computer."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from stepward.sabotage.invariants import Breach
from stepward.vm.errors import StepwardError
from stepward.vm.machine.run import Run

_PLAIN: Final = frozenset((int, bool, float, Decimal, type(None)))
"""The classes of most values; to ask first for these is quick."""


class Notes:
    """What came of a scene, in order."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *values: Any) -> None:
        """Add a note."""
        self.texts.append(" ".join(map(text_of, values)))

    def add_error(self, error: Exception) -> None:
        """Add a note of an error. Only errors of our own have words of our own; raises Breach for a breach."""
        if isinstance(error, Breach):
            raise error
        own = isinstance(error, StepwardError) or type(error).__module__.startswith("stepward.")
        self.add(f"{type(error).__name__}: {error}" if own else type(error).__name__)

    def marks(self) -> str:
        """Return two hexadecimal digits for each note."""
        return "".join(sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:2] for text in self.texts)

    def digest(self) -> str:
        """Return the digest of all notes: 16 hexadecimal digits."""
        whole = "\n".join(self.texts).encode("utf-8", "backslashreplace")
        return sha256(whole).hexdigest()[:16]


def text_of(value: Any) -> str:
    """Return the text of a value: that of a mapping or a set does not depend on an order."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text_of(key)}: {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(text_of, value))) + "}"
    return _told_rest(value)


def _told_rest(value: Any) -> str:
    if isinstance(value, Run):
        return _run(value)
    if is_dataclass(value) and not isinstance(value, type):
        return text_of({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, enum.Enum):
        return text_of(value.value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if type(value) is object:
        return "an object"  # others have their address in their text
    return value if isinstance(value, str) else repr(value)


def _run(run: Run) -> str:
    values = run.id, run.program, run.status, run.reason, run.error, run.step, run.due, run.held_by, run.broken
    spent = run.steps, run.tokens, run.cost, run.has_moved, run.is_over
    return text_of((values, spent, run.suspensions, run.doubts, run.seq, run.head, run.trace_hash))
