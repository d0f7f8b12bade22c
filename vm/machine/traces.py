"""The trace hash: a digest of the events of a run, without times, costs and ids."""

from __future__ import annotations

import re
from typing import Final

from stepward.vm.journal.canonical import SEALED
from stepward.vm.journal.records import extend_trace
from stepward.vm.machine.events import Event

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"(:?)')
"""A text in canonical JSON, with the colon after it if it is a key."""

_ONCE_CUT: Final = re.compile(f'"{SEALED}[0-9a-f]+:[0-9a-f]+"')
_FROM_OUTSIDE: Final = {"reconciled": "attempt", "resumed": "attempt"}
"""The output of a call has one meaning, whether the call or a delivery brought it."""


def traced(trace: bytes, event: Event) -> bytes:
    """Return the trace hash after an event; sensitive values enter it only as a marker."""
    kind, _, _, text = event
    if SEALED in text:
        text = _TEXT.sub(_unnamed, text)
    return extend_trace(trace, _FROM_OUTSIDE.get(kind, kind), text)


def _unnamed(found: re.Match[str]) -> str:
    is_sealed = found[0].startswith(f'"{SEALED}') and not found[1]
    return f'"{SEALED}"' if is_sealed else found[0]


def as_once_traced(event: Event) -> Event:
    """Return an event with the text that entered the trace hash in earlier versions.

    They cut every text that looked like a sensitive value, and receipts of that time have such trace hashes.
    """
    return event._replace(text=_ONCE_CUT.sub(f'"{SEALED}"', event.text))
