"""Canaries of the rule-based state machine; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.vm.machine import execution
from stepward.vm.machine.driver import Driver

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


SIBLINGS = {
    "name": "siblings",
    "inputs": {},
    "tools": {
        "know": {"effect": "read", "returns": {"type": "string", "sensitive": True}},
        "put": {"effect": "write", "idempotent": True},
    },
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [
                {"id": "knows", "type": "tool", "tool": "know"},
                {"id": "knows_too", "type": "tool", "tool": "know"},
                {"id": "puts", "type": "tool", "tool": "put"},
            ],
        }
    ],
}


def forgets_what_siblings_sealed(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "_append", ("for name in secrets:", "for name in list(self.secrets):"))


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="forgets-what-siblings-sealed",
        defence="what a sibling seals while the vault is written is kept for the next time",
        attack="sibling-comes-late",
        program=SIBLINGS,
        patch=forgets_what_siblings_sealed,
    ),
    Canary(
        name="any-inputs-for-an-id",
        defence="a run that exists is returned only for the inputs that it was started with",
        attack="actors-in-any-order",
        program=ONE_WRITE,
        patch=returns_any_run_of_the_id,
    ),
)
