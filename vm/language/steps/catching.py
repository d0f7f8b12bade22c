"""Errors by name on a step: where each of them leads, and how often a call is tried again after it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import ExactNumber
from stepward.vm.language.record import Record
from stepward.vm.language.transitions import ANY

UNEXPECTED: Final = "Unexpected"
TIMEOUT: Final = "Timeout"
BAD_OUTPUT: Final = "BadOutput"
VISITS: Final = "Visits"

UNDEFINED_NAME: Final = "Undefined"
BAD_VALUE: Final = "BadValue"

BAD_ARGUMENTS: Final = "BadArguments"

UNSTARTED: Final = (UNDEFINED_NAME, BAD_VALUE, BAD_ARGUMENTS, "Refused")
"""The names of what fails before it starts: it is not tried again, because it would fail again."""

DEPENDENCY: Final = "Dependency"
"""The name of a sub-step that does not start, because one that it depends on has no output."""

TOO_MANY_ITEMS: Final = "TooManyItems"
"""The name of a for_each step that does not start, because its list is longer than `max_items`."""

DECLARED: Final = "Declared"
UNCOVERED: Final = "Uncovered"
"""The names of a body that fails as the program declares, or at a condition no branch of which applies."""

DEADLINE: Final = "Deadline"
"""The name of a call that suspended its run, and got no answer within `deadline_seconds`."""

RESERVED: Final = frozenset(
    [
        *(ANY, UNEXPECTED, TIMEOUT, DEADLINE, BAD_OUTPUT, VISITS, DEPENDENCY, TOO_MANY_ITEMS, DECLARED, UNCOVERED),
        *UNSTARTED,
    ]
)
"""The names that no tool may declare."""

LONGEST_DELAY: Final = 86_400
"""The longest delay before an attempt, in seconds: a day."""

MOST_ATTEMPTS: Final = 1_000
"""The most attempts that a `retry` may ask for."""


def check_name(text: str) -> str:
    """Return `text` if it can be the name of an error; raises PydanticCustomError if not."""
    if not text.isidentifier():
        raise PydanticCustomError("variable_name", "`{text}` is not a name", {"text": text})
    return text


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PydanticCustomError("error_names", f"it names `{twice}` twice", {"help": "name each error once"})
    if ANY in names and len(names) > 1:
        help = "write `errors: [any]` alone, or leave `any` out"
        raise PydanticCustomError("error_names", "`any` stands for all errors, so it stands alone", {"help": help})
    return names


ErrorName = Annotated[str, Field(max_length=200), AfterValidator(check_name)]
Errors = Annotated[tuple[ErrorName, ...], Field(strict=False, min_length=1), AfterValidator(_distinct)]
_Seconds = Annotated[ExactNumber, Field(ge=0, le=LONGEST_DELAY)]


class Catch(Record):
    """One entry of `catch`: the step to go to after some errors."""

    errors: Errors
    then: str

    def takes(self, name: str) -> bool:
        """Return whether the entry is about an error of this name."""
        return name in self.errors or ANY in self.errors


class Retry(Record):
    """One entry of `retry`: how often a call is tried after some errors, and the delay before each attempt."""

    errors: Errors
    max_attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = 3
    delay_seconds: _Seconds = 1
    backoff: Annotated[ExactNumber, Field(ge=1, le=LONGEST_DELAY)] = 2
    max_delay_seconds: _Seconds = LONGEST_DELAY

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        early = [name for name in fields["errors"] if name in (*UNSTARTED, DEPENDENCY, VISITS)]
        if early:
            help = f"remove it; route it with `catch: [{{errors: [{early[0]}], then: ID}}]`"
            why = f"`retry` can't name `{early[0]}`: what fails before it starts is not tried again"
            raise PydanticCustomError("error_names", why, {"help": help})
        return super()._of(fields)

    def takes(self, name: str) -> bool:
        """Return whether the entry is about an error of this name."""
        return name in self.errors or (ANY in self.errors and name not in (*UNSTARTED, DEPENDENCY))

    def delay(self, failed: int) -> int:
        """Return the microseconds to wait after `failed` attempts: `delay_seconds`, times `backoff` for each but the
        first, and `max_delay_seconds` at most."""
        # Floats, because their products are the same on every machine, whatever the context of decimals.
        wait, factor, most = float(self.delay_seconds), float(self.backoff), float(self.max_delay_seconds)
        for _ in range(failed - 1):
            if wait >= most or factor == 1:
                break
            wait *= factor
        return int(min(wait, most) * 1_000_000)
