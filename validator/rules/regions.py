"""Regions of steps that no run gets to: a finding stands at the first step of each, and speaks of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepward.vm.language.flow import Flow
from stepward.vm.language.guardrails import Requires, guards, protected

if TYPE_CHECKING:
    from stepward.validator.analysis.graph import StepGraph
    from stepward.validator.context import Context


def regions_among(dead: Sequence[int], graph: StepGraph) -> Iterator[tuple[int, list[int]]]:
    """Yield the first step of each region of some steps, and the others that it leads to, in the order of the list.

    No other of the steps leads to a first one, but for those of a loop, which has one. Each step is in one region: that
    of the first, in the order of the list, that leads to it. `dead` is in that order.
    """
    among, successors = set(dead), graph.flow.successors
    component_of = {number: name for name, loop in enumerate(graph.components(dead)) for number in loop}
    entered = {
        component_of[target]
        for number in dead
        for target in successors[number]
        if target in among and component_of[target] != component_of[number]
    }
    seen: set[int] = set()
    for first in dead:
        if first in seen or component_of[first] in entered:
            continue
        seen.add(first)
        pending, behind = [first], []
        while pending:
            for target in successors[pending.pop()]:
                if target in among and target not in seen:
                    seen.add(target)
                    pending.append(target)
                    behind.append(target)
        yield first, sorted(behind)


def behind_words(behind: Sequence[int], flow: Flow) -> str:
    """Return what follows the name of the first step of a region, to speak of the others."""
    if len(behind) == 1:
        return f", nor to `{flow.steps[behind[0]].id}` behind it"
    return f", nor to the {len(behind)} steps behind it" if behind else ""


def or_pass_by(number: int, context: Context) -> str:
    """Return the offer to remove a condition that always goes one way, where nothing that stays needs it."""
    offer = ", or remove it with the branch that is never taken, and go where it always goes"
    return offer if number and can_be_removed((number,), context) else ""


def can_be_removed(steps: Sequence[int], context: Context) -> bool:
    """Return whether nothing that stays needs these steps.

    That is: no guardrail of the program speaks of them, no other step reads what they give, and each arm that they name
    is one by other steps too, or says itself where the run goes.
    """
    gone, flow = set(steps), context.facts.flow
    for rule in context.facts.program.guardrails:
        selectors = [*protected(rule), *(guards(rule.requires) if isinstance(rule, Requires) else ())]
        if any(hit.step in gone for selector in selectors for hit in context.facts.hits(selector)):
            return False
    for reading in context.analyses.assignment.readings:
        if reading.step not in gone and reading.meant and any(source.step in gone for source in reading.meant.sources):
            return False
    return not any(
        flow.is_arm_without_successor(target) and not _named_by_others(target, gone, flow)
        for number in steps
        for target in flow.successors[number]
        if target not in gone
    )


def _named_by_others(target: int, gone: set[int], flow: Flow) -> bool:
    return any(
        way.to == target and way.kind in ("branch", "failed")
        for number, ways in enumerate(flow.transitions)
        if number not in gone
        for way in ways
    )
