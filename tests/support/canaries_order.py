"""Canaries of the order between sub-steps; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ
from stepward.vm.machine import apply, calls, monitors, ordering


def starts_too_early(patch: pytest.MonkeyPatch) -> None:
    """A sub-step starts beside those that it depends on."""
    for module in (calls, apply, ordering):
        patch.setattr(module, "is_due", lambda *_: True)


def ignores_a_failed_dependency(patch: pytest.MonkeyPatch) -> None:
    """A sub-step starts although what it depends on has failed."""
    settled = ("success", "fallback", "failed", "skipped")

    def is_due(step: Any, sub: int, known: Any) -> bool:
        return step.order is None or all(known[one].phase in settled for one in step.order.needs[sub])

    for module in (calls, apply, ordering):
        patch.setattr(module, "is_due", is_due)
    patch.setattr(calls, "lacking", lambda *_: None)
    patch.setattr(ordering, "lacking", lambda *_: None)


def knows_no_order(patch: pytest.MonkeyPatch) -> None:
    """What comes before a sub-step within its step counts for no guardrail."""
    patch.setattr(monitors.Monitor, "within", lambda self, memory, before: memory)


CANARIES = [
    Canary(
        "starts-too-early",
        "a sub-step starts when all that it depends on have an output",
        "drawn-order",
        READ,
        starts_too_early,
    ),
    Canary(
        "ignores-a-failed-dependency",
        "a sub-step does not start if one that it depends on has failed",
        "drawn-order",
        READ,
        ignores_a_failed_dependency,
    ),
    Canary(
        "knows-no-order",
        "a sub-step comes after those that it depends on for guardrails",
        "drawn-order",
        READ,
        knows_no_order,
    ),
]
