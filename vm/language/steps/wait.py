"""The wait step: lets time pass."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import lone_reference, parts
from stepward.vm.language.instants import instant
from stepward.vm.language.node import EMPTY, number_of
from stepward.vm.language.steps.base import Routed, Template
from stepward.vm.language.transitions import FAILURE, SUCCESS

LONGEST_WAIT: Final = 315_360_000
"""The longest time that a wait may last from its start, in seconds: ten years of 365 days."""

LATEST: Final = 7_258_118_400_000_000
"""The time that a wait may last until at most, in microseconds since 1970: the start of the year 2200."""

_WHEN: Final = 'write the time as RFC 3339 has it, in quotes: `until: "2027-01-31T09:00:00Z"`'


def microseconds(value: object) -> int | None:
    """Return a number of seconds in whole microseconds, rounded up, or None for a value that is no time to wait."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= LONGEST_WAIT:
        return None
    if isinstance(value, int):
        return value * 1_000_000
    whole = int(value)
    numerator, denominator = (value - whole).as_integer_ratio()
    return whole * 1_000_000 - (-numerator * 1_000_000 // denominator)


def moment(value: object) -> int | None:
    """Return the time of a text of RFC 3339 in microseconds since 1970, or None for a value to which no wait lasts.

    A time up to 1970 counts as the first microsecond after it.
    """
    read = instant(value) if isinstance(value, str) else None
    return None if read is None or read > LATEST else max(read, 1)


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        if lone_reference(value) is None:
            help = "write a number, or a reference to one: `seconds: 86400`, `seconds: $delay`"
            raise PydanticCustomError("waiting", "`seconds` is no number", {"help": help})
        return value
    number = number_of(value)
    if microseconds(number) is None:
        help = f"write a number from 0 to {LONGEST_WAIT}, which are ten years"
        raise PydanticCustomError("waiting", "`seconds` is out of range", {"help": help})
    return number


def _until(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("waiting", "`until` is no text", {"help": _WHEN})
    if not any(isinstance(part, Reference) for part in parts(value)) and moment(value) is None:
        why = "`until` is no time of RFC 3339" if instant(value) is None else "`until` is after the year 2199"
        raise PydanticCustomError("waiting", why, {"help": _WHEN})
    return value


_Seconds = Annotated[
    Any, BeforeValidator(_seconds), Field(json_schema_extra={"type": ["number", "string"], "minimum": 0})
]
_Until = Annotated[Any, BeforeValidator(_until), Field(json_schema_extra={"type": "string"})]


class WaitStep(Routed):
    """Lets time pass: a number of seconds, or until a time. The run is suspended meanwhile."""

    type: Literal["wait"]
    seconds: _Seconds | None = None
    until: _Until | None = None

    has_output = False
    sub_steps = ()
    calls = ()
    assigns = EMPTY
    expressions = ()
    targets = ()
    exits = (SUCCESS, FAILURE)

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if (fields.get("seconds") is None) == (fields.get("until") is None):
            help = "write how long it waits, `seconds: 86400`, or until when, `until: $time`"
            raise PydanticCustomError("waiting", "a wait step has either `seconds` or `until`", {"help": help})
        return super()._of(fields)

    @property
    def field(self) -> str:
        """The field that says how long it waits."""
        return "until" if self.until is not None else "seconds"

    @property
    def stated_time(self) -> Any:
        """What that field says: a number or a text."""
        return self.until if self.until is not None else self.seconds

    @property
    def is_constant(self) -> bool:
        """Whether it says how long without reading a value, so that it can't fail."""
        return not isinstance(self.stated_time, str) or not any(
            isinstance(one, Reference) for one in parts(self.stated_time)
        )

    @property
    def templates(self) -> Iterable[Template]:
        """How long it waits."""
        return (Template(None, (self.field,), self.stated_time),)
