"""Canaries of the rule-based state machine; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from stepward.vm.machine import execution

ONE_WRITE = {
    "name": "one_write",
    "inputs": {"amount": {"type": "integer"}},
    "tools": {"pay": {"effect": "write", "idempotent": False, "args": {"amount": {"type": "integer"}}}},
    "steps": [{"id": "pay", "type": "tool", "tool": "pay", "args": {"amount": "$amount"}}],
}


def returns_any_run_of_the_id(patch: pytest.MonkeyPatch) -> None:
    def same(left: Any, right: Any) -> bool:
        return True

    patch.setattr(execution, "same", same)


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="any-inputs-for-an-id",
        defence="a run that exists is returned only for the inputs that it was started with",
        attack="actors-in-any-order",
        program=ONE_WRITE,
        patch=returns_any_run_of_the_id,
    ),
)
