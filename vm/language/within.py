"""Which policies a program comes under. One that is made for a program that it calls must not be evaded by the call."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from stepward.vm.arguments import made, require, require_each
from stepward.vm.errors import Problem, ProgramError
from stepward.vm.language.policy import Policy, require_distinct
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.source import Place

if TYPE_CHECKING:
    from stepward.vm.language.program import Program


def applying(program: Program, policies: Collection[Policy], path: str | None = None) -> list[Policy]:
    """Return the policies that a program comes under, by its name or the path of its file.

    Raises ProgramError (SW110) for a policy that applies to a program that it calls, by name or file, and not to the
    program itself: what it says of each performance alone is not supported yet. Raises TypeError for other things.
    """
    require_program(program)
    require_each(made(Policy), policies=policies)
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


def waived(program: Program, policies: Sequence[Policy], today: datetime.date | None) -> list[str]:
    """Return the rules that policies waive for a program today: `policy:rule`, sorted.

    Raises PolicyError if two of the policies have the same name.
    """
    require_distinct(policies)
    return sorted(
        f"{policy.policy}:{waiver.rule}"
        for policy in policies
        for waiver in policy.waivers
        if today is not None and waiver.program == program.name and not waiver.is_expired(today)
    )


def require_program(program: object) -> None:
    """Raise TypeError for something else than a program."""
    from stepward.vm.language.program import Program

    words = "a Program, such as `Program.load(path)` or `Program.from_dict(data)`"
    require(made(Program, words=words), program=program)
