"""What commands that start runs ask for before they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.validator.cli.machine import MachineError

if TYPE_CHECKING:
    from stepward.vm.machine.plan import Plan


def require_starter(plan: Plan, by: str | None) -> None:
    """Raise MachineError if a policy asks that two people settle a call of a program, and nobody starts the run.

    Without a starter nobody could settle the call, and the run could only be cancelled.
    """
    if by:
        return
    called = {call.tool for step in plan.steps for call in step.calls if not call.is_model}
    for tool, policy in plan.four_eyes.items():
        if tool in called:
            why = f"policy `{policy.policy}` asks that another settles a call of `{tool}` than who started the run"
            raise MachineError(f"{why}, and nobody is named", "say who starts it: add `--by NAME`")
