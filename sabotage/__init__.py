"""Attacks on the machine, and the oracle that judges the outcome. Importing it imports no hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepward.sabotage.campaign import Matrix as Matrix
    from stepward.sabotage.campaign import Orders as Orders
    from stepward.sabotage.campaign import Row as Row
    from stepward.sabotage.campaign import attack_program as attack_program
    from stepward.sabotage.campaigns.script import Script as Script
    from stepward.sabotage.invariants import Outcome as Outcome

_HOMES = {
    "Matrix": "campaign",
    "Orders": "campaign",
    "Outcome": "invariants",
    "Row": "campaign",
    "Script": "campaigns.script",
    "attack_program": "campaign",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that each part of the house costs only that part."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, also those that were not imported yet."""
    return sorted({*globals(), *__all__})
