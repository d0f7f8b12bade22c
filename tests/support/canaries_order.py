"""Canaries of the order between sub-steps; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewritten
from stepward.vm.machine import apply, authority, calls, monitors, ordering


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
    patch.setattr(calls, "lacks", lambda *_: False)
    patch.setattr(ordering, "lacks", lambda *_: False)


def knows_no_order(patch: pytest.MonkeyPatch) -> None:
    """What comes before a sub-step within its step counts for no guardrail."""
    patch.setattr(monitors.Monitor, "within", lambda self, memory, before: memory)


def lets_a_fallback_come_before(patch: pytest.MonkeyPatch) -> None:
    """A sibling that used its fallback counts as performed for guardrails, behind it in its step."""
    weak = rewritten(ordering.come_before, ('phase == "success"', "phase in GIVES"))
    for module in (authority, calls):
        patch.setattr(module, "come_before", weak)


CANARIES = [
    Canary(
        "lets-a-fallback-come-before",
        "a sibling that used its fallback has not succeeded",
        "drawn-order",
        READ,
        lets_a_fallback_come_before,
    ),
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
