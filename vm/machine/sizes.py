"""Holds what steps leave in the state of a run to the limits of size.

A step counts for the value that it left at its last visit, in bytes of canonical JSON, as its record has it: a call for
its output, a step that assigns for the object of its values, one with sub-steps or branches for the object of their
outputs, one with items for the list of these. A sensitive value counts for the reference in its place, which is all
that is left after an erasure.
"""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, Secret, canonical, opened, portable
from stepward.vm.journal.sealing import REFERENCE_BYTES
from stepward.vm.machine.events import Event
from stepward.vm.machine.plan import Plan, StepPlan
from stepward.vm.machine.slots import get
from stepward.vm.machine.state import State
from stepward.vm.values import MAX_DEPTH, FrozenMap

_ANY_REFERENCE: Final = Sealed("0" * 2 * REFERENCE_BYTES, "0" * 64, None)
"""In place of a value that is not sealed yet: all references have one length."""

MAX_CHARACTER: Final = 4
"""Maximal number of bytes of a character in UTF-8."""

MAX_NESTED: Final = 2 * MAX_DEPTH
"""The levels of lists and objects in what a step leaves. What comes from outside has half of them at most."""

_LONG: Final = 512
"""The characters of a record from which it is faster to write all of it but its value than to write its value."""


def recorded_size(value: Any) -> int:
    """Return the bytes of a value as its record has it, also if it is erased or not sealed yet."""
    return len("null") if value is None else _bytes(canonical(portable(_referred(value))))


def left_size(state: State, event: Event, name: str) -> int:
    """Return the bytes of the field `name` in the text of an event: for these a step counts that it has left."""
    text = event.text
    if state.is_once_sized:
        return len(text)
    if event.body[name] is None:
        return len("null")
    if len(text) < _LONG:
        return _bytes(canonical(portable(event.body[name])))
    return _bytes(text) - _bytes(canonical(portable({**event.body, name: None}))) + len("null")


def oversize(plan: Plan, state: State, step: StepPlan, value: Any, limit: int | None = None) -> str | None:
    """Return why a value of a step is too large, with the sizes, or None.

    `limit` overrides the limit of one output. A sensitive value has to fit itself, not only its reference.
    """
    plain = opened(value) if plan.has_sensitive else value
    if _is_too_deep(plain, MAX_NESTED):
        return f"the output is nested deeper than {MAX_NESTED} levels"
    size = _bytes(canonical(portable(plain)))
    counted = max(size, recorded_size(value)) if plan.has_sensitive and not state.is_once_sized else size
    return refusal(state, step, size, counted, limit)


def may_be_oversize(state: State, event: Event) -> bool:
    """Return whether a value that is in the text of an event may be too large or too deep; most are too short."""
    longest, limits = len(event.text) * MAX_CHARACTER, state.limits
    if event.text.count("[") + event.text.count("{") > MAX_NESTED:
        return True
    return not longest or longest > limits.output_bytes or longest > limits.state_bytes - state.size


def refusal(state: State, step: StepPlan, size: int, counted: int, limit: int | None = None) -> str | None:
    """Return why an output of `size` bytes, of which `counted` count for the state, is too large, or None."""
    limit = state.limits.output_bytes if limit is None else limit
    if size > limit:
        return f"the output has {size} bytes, more than the {limit} allowed"
    total = state.size + counted - get(state.slots, step.visits)[1]
    if total > state.limits.state_bytes:
        return f"the state would have {total} bytes, more than the {state.limits.state_bytes} allowed"
    return None


def _is_too_deep(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested deeper than so many levels."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else None
    return inner is not None and (levels == 0 or any(_is_too_deep(one, levels - 1) for one in inner))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _referred(value: Any) -> Any:
    if type(value) is Secret:
        return _ANY_REFERENCE
    if type(value) is Sealed:
        return value
    if isinstance(value, dict):
        return FrozenMap((key, _referred(item)) for key, item in value.items())
    return tuple(map(_referred, value)) if isinstance(value, tuple) else value
