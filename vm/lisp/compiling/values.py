"""What a form stands for while it is compiled: a reference, a form without evaluation, or one to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stepward.vm.lisp.forms import Form

Type = Mapping[str, Any]
"""A type of the language, as plain data."""

ANY: Final[Type] = {"type": ["null", "boolean", "number", "string", "array", "object"]}
"""The type of a value of which nothing is known: it is stated, so that no use narrows it."""

NUMBER: Final[Type] = {"type": "number"}
BOOLEAN: Final[Type] = {"type": "boolean"}
_NUMBERS: Final = ("number", "integer")


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that the program holds: `text` refers to it, `argument` is its name among the data of an expression.

    `type` is None for what comes from outside: its type is that of the manifest, or follows from its uses. `of` is the
    form that a `compute` step has evaluated to it.
    """

    text: str
    argument: str
    type: Type | None = None
    of: Pure | None = None

    @property
    def is_number(self) -> bool:
        """Whether its type says that it is a number."""
        return self.type is not None and self.type.get("type") in _NUMBERS


@dataclass(frozen=True, slots=True)
class Inline:
    """A form that is its own value wherever it stands: a literal or a function. `env` are the names around it."""

    form: Form
    env: Env


@dataclass(frozen=True, slots=True)
class Pure:
    """A form without effects that is still to be computed."""

    form: Form
    env: Env


Value = Reference | Inline | Pure
Env = Mapping[str, Value]
