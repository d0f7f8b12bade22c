"""The order between the sub-steps of a parallel step, read from `depends_on` (specs/language.md, "Parallel")."""

from __future__ import annotations

from collections.abc import Sequence

from stepward.vm.language.steps import AnyCall, AnyStep


def is_ordered(step: AnyStep) -> bool:
    """Return whether some sub-step of a step depends on another."""
    return any(_needed(part) for part in step.sub_steps)


def needs(step: AnyStep, sub: int) -> frozenset[int]:
    """Return the sub-steps that have to have an output before a sub-step starts."""
    return frozenset(number for number, part in enumerate(step.sub_steps) if part.id in _needed(step.sub_steps[sub]))


def earlier(step: AnyStep, sub: int | None) -> frozenset[int]:
    """Return the sub-steps that a sub-step depends on, also indirectly: all have an output when it starts."""
    needed: set[int] = set()
    pending = [] if sub is None else [sub]
    while pending:
        new = needs(step, pending.pop()) - needed
        needed |= new
        pending.extend(new)
    return frozenset(needed)


def in_order(step: AnyStep) -> list[int]:
    """Return the sub-steps, each behind those that it depends on."""
    line: list[int] = []
    for sub in range(len(step.sub_steps)):
        ahead = sorted(earlier(step, sub), key=lambda one: (len(earlier(step, one)), one))
        line += [one for one in (*ahead, sub) if one not in line]
    return line


def _needed(part: AnyCall) -> Sequence[str]:
    return getattr(part, "depends_on", ())
