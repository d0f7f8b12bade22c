"""Views of a run's values: those that a model, a tool or a trace may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from stepward.vm.journal.canonical import SEALED, Sealed, is_sealed, opened
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.slots import UNDEFINED, get
from stepward.vm.machine.state import State
from stepward.vm.values import FrozenMap

View = Literal["model", "tool", "trace"]

ERASED: Final = "[erased]"


def view(plan: Plan, state: State, kind: View) -> Mapping[str, Any]:
    """Return the values of a state by name, without the dollar sign.

    `model`: the values that a prompt may read, without those that are or hold sensitive ones. `tool`: every value,
    opened; raises ErasedError if one was erased. `trace`: every value, with `[sensitive]` or `[erased]` in place of
    sensitive ones.
    """
    values = {name: get(state.slots, slot) for slot, name in plan.names_of_slots.items()}
    defined = {name: value for name, value in sorted(values.items()) if value is not UNDEFINED}
    if kind == "model":
        return FrozenMap((name, value) for name, value in defined.items() if not is_sealed(value))
    if kind == "tool":
        return FrozenMap((name, opened(value)) for name, value in defined.items())
    return FrozenMap((name, traced(value)) for name, value in defined.items())


def traced(value: Any) -> Any:
    """Return a value of a state for the `trace` view."""
    if isinstance(value, Sealed):
        return ERASED if value.is_gone else REDACTED
    if isinstance(value, dict):
        return FrozenMap((key, traced(item)) for key, item in value.items())
    return tuple(traced(item) for item in value) if isinstance(value, tuple) else value


def shown(data: Any) -> Any:
    """Return the data of a record for a trace: references become `[sensitive]`, and tagged texts are decoded."""
    if isinstance(data, str):
        if data.startswith(SEALED):
            return REDACTED
        return data[1:] if data.startswith("##") else data[2:] if data.startswith("#n") else data
    if isinstance(data, dict):
        return {key: shown(item) for key, item in data.items()}
    return [shown(item) for item in data] if isinstance(data, list) else data
