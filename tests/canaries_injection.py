"""Canaries of the family "injection"; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from stepward.vm.machine import ask
from stepward.vm.machine.events import Result

CLOSED = {
    "name": "closed_question",
    "inputs": {},
    "steps": [{"id": "ask", "type": "llm", "prompt": "yes or no?", "allowed_outputs": ["yes", "no"]}],
}


def takes_any_reply(patch: pytest.MonkeyPatch) -> None:
    def accepted(plan: Any, reply: Any) -> Result:
        return Result("output", reply.content if isinstance(reply.content, str) else "yes")

    patch.setattr(ask, "_accepted", accepted)


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="no-allowed-outputs",
        defence="a reply is held against `allowed_outputs`",
        attack="reply-outside-the-set",
        program=CLOSED,
        patch=takes_any_reply,
        smallest={"inputs": {}, "wrong reply: ask, visit 1, attempt 1": {"does": "wrong", "value": "YES"}},
    ),
)
