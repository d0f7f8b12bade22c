"""What a run holds: its values, which parts of them are sealed, and whether they are those of the reference."""

from __future__ import annotations

from typing import Any

from stepward.sabotage.reference.plain import Unworded, same
from stepward.vm.journal.canonical import Sealed
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.history import History
from stepward.vm.machine.slots import get


def held_by(found: History) -> dict[str, Any]:
    """Return the values of a run by name, with the sensitive ones sealed."""
    return {name: get(found.state.slots, slot) for slot, name in found.plan.names_of_slots.items()}


def sealed_in(value: Any) -> set[tuple[str, ...]]:
    """Return the paths of the sealed parts of a value; `()` is the whole."""
    if isinstance(value, Sealed):
        return {()}
    if isinstance(value, dict):
        return {(name, *path) for name, item in value.items() for path in sealed_in(item)}
    items = enumerate(value) if isinstance(value, tuple) else ()
    return {(f"[{at}]", *path) for at, item in items for path in sealed_in(item)}


def tells(machine: str, reference: Unworded) -> bool:
    """Return whether the text of an error says what it has to, and nothing that it may not.

    Of a text without its sensitive parts nobody knows that.
    """
    is_told = all(text in machine for text in reference.says)
    return REDACTED in machine or (is_told and not any(text in machine for text in reference.hides))


def alike(machine: Any, reference: Any) -> bool:
    """Return whether two values are equal, ignoring the texts of errors."""
    if isinstance(reference, Unworded):
        return isinstance(machine, str) and tells(machine, reference)
    if isinstance(reference, dict):
        return (
            isinstance(machine, dict)
            and machine.keys() == reference.keys()
            and all(alike(machine[key], item) for key, item in reference.items())
        )
    if isinstance(reference, tuple):
        return isinstance(machine, tuple) and len(machine) == len(reference) and all(map(alike, machine, reference))
    return same(machine, reference)
