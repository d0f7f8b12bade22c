"""What commands that start runs ask for before they do."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from stepward.validator.cli.machine import MachineError

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.plan import Plan


def require_starter(plan: Plan, by: str | None) -> None:
    """Raise MachineError if a policy asks that two people settle a call of a program, and nobody starts the run.

    Without a starter nobody could settle the call, and the run could only be cancelled.
    """
    if by:
        return
    called = {call.tool for step in plan.steps for call in step.calls if not call.is_model}
    for policy in (policy for terms in plan.terms for policy in terms.policies if not _is_waived(policy, plan)):
        for tool in sorted(called.intersection(policy.four_eyes or ())):
            why = f"policy `{policy.policy}` asks that another settles a call of `{tool}` than who started the run"
            raise MachineError(f"{why}, and nobody is named", "say who starts it: add `--by NAME`")


def _is_waived(policy: Policy, plan: Plan) -> bool:
    """Return whether a policy waives its `four_eyes` for a program today, by the date in UTC."""
    today = datetime.datetime.now(datetime.UTC).date()
    waivers = (waiver for waiver in policy.waivers if waiver.rule == "four_eyes")
    return any(waiver.program == plan.program.name and not waiver.is_expired(today) for waiver in waivers)
