"""Which policies a program comes under. One that is made for a program that it calls must not be evaded by the call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.language.policy import Policy
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.source import Place

if TYPE_CHECKING:
    from stepward.vm.language.program import Program


def applying(program: Program, policies: Iterable[Policy], path: str | None = None) -> list[Policy]:
    """Return the policies that a program comes under, by its name or the path of its file.

    Raises ProgramError (SW110) for a policy that applies to a program that it calls, by name or file, and not to the
    program itself: what it says of each performance alone is not supported yet.
    """
    where = program.source_name if path is None else path
    found = [policy for policy in policies if policy.applies(program.name, where)]
    calls = [] if not program.programs else [step for step in program.layout.steps if isinstance(step, InvokeStep)]
    for policy in policies if calls else ():
        one = next((one for one in calls for name in one.names if policy.applies(name, one.file)), None)
        if one is not None and policy not in found:
            message = f"policy `{policy.policy}` applies to the called program `{one.program}`, and not to this one"
            help = f"add `{program.name or where}` to `applies_to` of the policy"
            raise ProgramError(program.source_name, (Problem("SW110", message, help, Place(one.home, key=True)),))
    return found
