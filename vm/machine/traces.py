"""The trace hash, item by item: what a run means, without times, costs and ids."""

from __future__ import annotations

import re
from typing import Final

from stepward.vm.journal.canonical import SEALED
from stepward.vm.journal.records import extend_trace
from stepward.vm.machine.events import Event

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"(:?)')
"""A text in canonical JSON, and the colon behind it where it is a key."""

_ONCE_CUT: Final = re.compile(f'"{SEALED}[0-9a-f]+:[0-9a-f]+"')
_FROM_OUTSIDE: Final = {"reconciled": "attempt", "resumed": "attempt"}
"""What a call gave has one meaning, whoever brought it."""


def traced(trace: bytes, event: Event) -> bytes:
    """Return the trace hash after an event: of a sensitive value it knows only that there is one."""
    text = event.text if SEALED not in event.text else _TEXT.sub(_unnamed, event.text)
    return extend_trace(trace, _FROM_OUTSIDE.get(event.kind, event.kind), text)


def _unnamed(found: re.Match[str]) -> str:
    is_sealed = found[0].startswith(f'"{SEALED}') and not found[1]
    return f'"{SEALED}"' if is_sealed else found[0]


def as_once_traced(event: Event) -> Event:
    """Return an event with the text from which its trace was made once: what looked like a sensitive value was cut.

    Receipts of that time say such traces.
    """
    return event._replace(text=_ONCE_CUT.sub(f'"{SEALED}"', event.text))
