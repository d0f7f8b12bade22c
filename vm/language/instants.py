"""Times as texts of RFC 3339: what a `wait` step waits for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_FORM: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def instant(text: str) -> int | None:
    """Return the time of a text of RFC 3339 in microseconds since 1970, or None if it is none.

    A part of a microsecond counts as a whole one, so that nothing happens before its time. A leap second is not a time:
    no clock of a machine shows it.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    day, time, fraction, _, sign, hours, minutes = found.groups()
    if sign is not None and (int(hours) > 23 or int(minutes) > 59):
        return None
    try:
        read = datetime.fromisoformat(f"{day}T{time}+00:00")
    except ValueError:
        return None
    digits = (fraction or ".0")[1:]
    micros = int(digits[:6].ljust(6, "0")) + any(digit != "0" for digit in digits[6:])
    offset = 0 if sign is None else (int(hours) * 60 + int(minutes)) * (1 if sign == "+" else -1)
    return (read - _START) // _MICROSECOND + micros - offset * 60_000_000
