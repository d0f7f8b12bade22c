"""The rules of bodies and of called programs, for a replay in which only the claimed one stands.

A rule of a called program holds in each call, and one call may stop the run before another. So the claimed call, and
each one around it, gets a copy of the program that it calls. All others lose the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepward.validator.engine.witnesses.witness import Claim
from stepward.vm.language.guardrails import AnyRule
from stepward.vm.language.program import Program
from stepward.vm.language.programs import CalledProgram
from stepward.vm.language.steps import AnyStep, Branch, ForEachStep, InvokeStep, ParallelStep
from stepward.vm.values import FrozenMap


def in_one_call(program: Program, rule: str) -> Program | None:
    """Return a program with a rule of a called program, as `first/second/name`, in that call alone.

    None if that changes nothing: the rule is not one of a called program, or a body that is no call stands between.
    """
    *calls, name = rule.split("/")
    if not calls or not program.programs:
        return None
    programs = dict(program.programs)
    steps = _in_calls(program.steps, programs, calls, name)
    if steps is None:
        return None
    copies = set(programs) - set(program.programs)
    others = {one: programs[one] if one in copies else _without(programs[one], name) for one in programs}
    return program.model_copy(update={"steps": steps, "programs": others})


def _in_calls(
    steps: Iterable[AnyStep], programs: dict[str, CalledProgram], calls: list[str], name: str
) -> tuple[AnyStep, ...] | None:
    """Return steps of which a call has a copy of its program; None where none of them is the first of the calls."""
    changed_steps, is_there = [], False
    for step in steps:
        changed = step
        if isinstance(step, InvokeStep):
            if step.id == calls[0] and step.program in programs:
                changed = _with_copy(step, programs, calls[1:], name)
        elif isinstance(step, ForEachStep) and step.steps is not None:
            inner = _in_calls(step.steps, programs, calls, name)
            changed = step if inner is None else step.replace(steps=inner)
        elif isinstance(step, ParallelStep) and step.branches:
            known = {one: _in_calls(branch.steps, programs, calls, name) for one, branch in step.branches.items()}
            branches = {
                one: branch if (within := known[one]) is None else branch.replace(steps=within)
                for one, branch in step.branches.items()
            }
            changed = step.replace(branches=FrozenMap(branches)) if any(known.values()) else step
        is_there = is_there or changed is not step
        changed_steps.append(changed)
    return tuple(changed_steps) if is_there else None


def _with_copy(step: InvokeStep, programs: dict[str, CalledProgram], inner: list[str], name: str) -> AnyStep:
    """Return a call of a copy, in which the rule stands, or in which a further call has a copy."""
    program = programs[step.program]
    copy = f"{step.program}_"
    while copy in programs:
        copy += "_"
    if inner:
        steps = _in_calls(program.steps, programs, inner, name)
        if steps is None:
            return step
        program = _without(program.model_copy(update={"steps": steps}), name)
    programs[copy] = program
    return step.replace(program=copy)


def _without(program: CalledProgram, name: str) -> CalledProgram:
    return program.model_copy(update={"guardrails": tuple(one for one in program.guardrails if one.name != name)})


# -- all rules but the claimed one -------------------------------------------------------------------------------------


def with_claimed(step: AnyStep, claim: Claim, others: list[str]) -> AnyStep:
    """Return a step in whose bodies no rule stands but the claimed one; `others` gets the names of those set aside."""
    if isinstance(step, ParallelStep) and step.branches:
        return step.replace(
            branches=FrozenMap((name, _branch_with(one, claim, others)) for name, one in step.branches.items())
        )
    if not isinstance(step, ForEachStep) or isinstance(step, InvokeStep):
        return step
    claimed = tuple(rule for rule in step.guardrails if claim.policy is None and rule.name == claim.rule)
    others.extend(rule.name for rule in step.guardrails if rule not in claimed)
    changed = step.replace(guardrails=claimed) if step.guardrails else step
    if changed.steps is None:
        return changed
    return changed.replace(steps=tuple(with_claimed(one, claim, others) for one in changed.steps))


def _is_claimed(rule: AnyRule, claim: Claim) -> bool:
    """Return whether a rule may be the claimed one: within a call, the claim names the call before it."""
    return claim.policy is None and (claim.rule or "").rpartition("/")[2] == rule.name


def called_with(program: CalledProgram, claim: Claim, others: list[str]) -> CalledProgram:
    """Return a called program in which no rule stands but one that may be claimed."""
    claimed = tuple(rule for rule in program.guardrails if _is_claimed(rule, claim))
    others.extend(rule.name for rule in program.guardrails if rule not in claimed)
    update: dict[str, Any] = {"steps": tuple(with_claimed(one, claim, others) for one in program.steps)}
    update |= {"guardrails": claimed} if program.guardrails else {}
    if program.programs:
        update["programs"] = {name: called_with(one, claim, others) for name, one in program.programs.items()}
    return program.model_copy(update=update)


def _branch_with(branch: Branch, claim: Claim, others: list[str]) -> Branch:
    claimed = tuple(rule for rule in branch.guardrails if claim.policy is None and rule.name == claim.rule)
    others.extend(rule.name for rule in branch.guardrails if rule not in claimed)
    changed = branch.replace(guardrails=claimed) if branch.guardrails else branch
    return changed.replace(steps=tuple(with_claimed(one, claim, others) for one in changed.steps))
