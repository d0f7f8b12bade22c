"""Regions of steps that no run reaches. A finding is reported at the first step of a region, and counts the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepward.validator.analysis.graph import StepGraph
from stepward.validator.analysis.reachability import reached
from stepward.vm.language.flow import Flow
from stepward.vm.language.guardrails import Requires, guards, protected
from stepward.vm.language.steps import ComputeStep, ConditionStep, Stage
from stepward.vm.reading.document import PathTree

if TYPE_CHECKING:
    from stepward.validator.context import Context


def regions_among(dead: Sequence[int], graph: StepGraph) -> Iterator[tuple[int, list[int]]]:
    """Yield each region of dead steps: its first step, and the dead steps that this one leads to.

    No dead step leads to a first step, except from the same loop. A dead step that several first steps lead to is in
    the region of the earliest. `dead` and the results are in the order of the program. Stages of a for_each step are
    no steps: they only lead from one to the next.
    """
    steps, layout = graph.flow.steps, graph.flow.layout
    of_next = {body.next: owner for owner, body in layout.bodies.items()}
    dead = [one for one in dead if not isinstance(steps[one], Stage) or of_next.get(one) in dead]
    among, successors = set(dead), graph.flow.successors
    component_of = {number: name for name, loop in enumerate(graph.components(dead)) for number in loop}
    entered = {
        component_of[target]
        for number in dead
        for target in successors[number]
        if target in among and component_of[target] != component_of[number]
    }
    left = set(dead)

    def left_after(number: int) -> set[int]:
        return left.intersection(successors[number])

    for first in dead:
        if first not in left or component_of[first] in entered:
            continue
        region = reached([first], left_after)
        left -= region.keys()
        yield first, [one for one in sorted(region.keys() - {first}) if not isinstance(steps[one], Stage)]


def behind_words(behind: Sequence[int], flow: Flow) -> str:
    """Return the words that follow the name of a region's first step, and count the steps after it."""
    if len(behind) == 1:
        return f", nor to `{flow.steps[behind[0]].id}` after it"
    return f", nor to the {len(behind)} steps after it" if behind else ""


def removal_suggestion(number: int, context: Context) -> str:
    """Return the suggestion to remove a constant condition; empty where other parts of the program need it."""
    suggestion = ", or remove it with the branch that is never taken, and go directly to the other branch"
    document = context.facts.program.document
    if document is not None and document.format == "lisp":
        return ", or leave out the form that is never evaluated"
    return suggestion if number and can_be_removed((number,), context) else ""


def is_last_clause(context: Context, number: int) -> bool:
    """Return whether nothing is written for the case that no clause of a `case` or `cond` in Lisp is for.

    What follows then stands at the whole form, as does what is computed of further clauses. Clauses for all values are
    no mistake.
    """
    program, flow = context.facts.program, context.facts.flow
    step = flow.steps[number]
    target = step.otherwise if isinstance(step, ConditionStep) else None
    if program.document is None or program.document.format != "lisp" or target not in flow.position:
        return False
    position = flow.position[target]
    if isinstance(flow.steps[position], ComputeStep):
        return False
    paths = flow.layout.path(number), flow.layout.path(position)
    extents = program.document.locator(PathTree.of(paths))
    test, after = (extents.get(path) for path in paths)
    is_around = test is not None and after is not None and after.start < test.start and test.end < after.end
    return is_around and program.document.text.startswith(("(case", "(cond"), after.start if after else 0)


def is_asked_again(context: Context, number: int) -> bool:
    """Return whether a condition asks for a part of a test in Lisp that has a name: it may be known at one place."""
    document = context.facts.program.document
    if document is None or document.format != "lisp":
        return False
    from stepward.vm.lisp.compiling.branching import AGAIN

    return re.fullmatch(rf"{AGAIN}(_\d+)?", context.facts.flow.steps[number].id) is not None


def can_be_removed(steps: Sequence[int], context: Context) -> bool:
    """Return whether the rest of the program does not need these steps.

    No guardrail of the program may select them, no other step may read their outputs, and each arm that they name must
    be named by another step, too, or have a successor of its own.
    """
    removed, flow = set(steps), context.facts.flow
    for rule in context.facts.program.guardrails:
        selectors = [*protected(rule), *(guards(rule.requires) if isinstance(rule, Requires) else ())]
        if any(hit.step in removed for selector in selectors for hit in context.facts.hits(selector)):
            return False
    for reading in context.analyses.assignment.readings:
        if (
            reading.step not in removed
            and reading.resolution
            and any(source.step in removed for source in reading.resolution.sources)
        ):
            return False
    return not any(
        flow.is_arm_without_successor(target) and not _named_by_others(target, removed, flow)
        for number in steps
        for target in flow.successors[number]
        if target not in removed
    )


def _named_by_others(target: int, removed: set[int], flow: Flow) -> bool:
    return any(
        transition.to == target and transition.kind in ("branch", "failed")
        for number, transitions in enumerate(flow.transitions)
        if number not in removed
        for transition in transitions
    )
