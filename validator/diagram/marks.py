"""The marks of a check on a diagram: findings at their steps, parts that no run reaches, and the path of a witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stepward.validator.analysis.product import how
from stepward.validator.context import Context
from stepward.validator.findings import COVERAGE, Finding, Move, Property, Verdict
from stepward.vm.language.flow import Flow
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.transitions import Transition

TransitionIndex = tuple[int, int]
"""A transition: the position of its step, and its index among the transitions out of the step."""


class Walk(NamedTuple):
    """A path to draw: its title, its numbers at each step, and the transitions that it takes."""

    title: str
    numbers: dict[str, tuple[int, ...]]
    transitions: frozenset[TransitionIndex]


class Marks(NamedTuple):
    """Marks on a diagram; no run reaches `dead_steps`, and none takes `dead_transitions`."""

    findings: tuple[Finding, ...] = ()
    dead_steps: frozenset[int] = frozenset()
    dead_transitions: frozenset[TransitionIndex] = frozenset()
    walk: Walk | None = None


def marks_of(context: Context, findings: Sequence[Finding], properties: Sequence[Property], walk: Walk | None) -> Marks:
    """Return the marks of a check: `findings` are those to show, `properties` have all verdicts."""
    dead_steps: tuple[int, ...] = ()
    dead_transitions: frozenset[TransitionIndex] = frozenset()
    if context.facts.has_control_flow and context.facts.conditions:
        dead_steps = context.proofs.dead.infeasible
        dead_transitions = frozenset(_dead_transitions(context, properties))
    return Marks(tuple(findings), frozenset(dead_steps), dead_transitions, walk)


def _dead_transitions(context: Context, properties: Sequence[Property]) -> Iterator[TransitionIndex]:
    """Yield the transitions out of conditions that are proved never to be taken."""
    covered = {prop.step for prop in properties if prop.name == COVERAGE and prop.verdict is Verdict.PROVED}
    for number, step in context.facts.conditions:
        for index, transition in enumerate(context.facts.flow.transitions[number]):
            is_covered = transition.kind == "uncovered" and step.id in covered
            if is_covered or (
                transition.kind in ("branch", "uncovered") and _is_dead(context, number, step, transition)
            ):
                yield number, index


def _is_dead(context: Context, number: int, step: ConditionStep, transition: Transition) -> bool:
    if context.proofs.dead.is_dead(number, transition):
        return True
    if isinstance(transition.branch, int):
        return context.verdicts.decided.never_taken(number, transition.branch - 1) is not None
    found = context.verdicts.decided.constant(number) if step.condition is not None else None
    return found is not None and transition.branch == ("otherwise" if found[0] else "then")


# -- paths -------------------------------------------------------------------------------------------------------------


def walk_of(flow: Flow, moves: Sequence[Move], title: str) -> Walk:
    """Return a path to draw; its numbers are those of `stepward check`."""
    numbers: dict[str, list[int]] = {}
    transitions: set[TransitionIndex] = set()
    for index, move in enumerate(moves):
        numbers.setdefault(move.step, []).append(index + 1)
        following = moves[index + 1].step if index + 1 < len(moves) else None
        transitions.update(_transitions_of(flow, move, following))
    return Walk(title, {step: tuple(found) for step, found in numbers.items()}, frozenset(transitions))


def _transitions_of(flow: Flow, move: Move, following: str | None) -> Iterator[TransitionIndex]:
    """Yield the transition of a move; none if the path stops inside the step."""
    number = flow.position[move.step]
    to = None if following is None else flow.position[following]
    for index, transition in enumerate(flow.transitions[number]):
        if how(transition) == move.how and (transition.to == to if to is not None else transition.to < 0):
            yield number, index
            return


def first_path(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding whose path is drawn by default: one with a witness if possible, then one of a guardrail."""
    found = [finding for finding in findings if finding.evidence is not None and finding.evidence.path]
    return min(found, key=lambda finding: (_has_no_witness(finding), not finding.code.startswith("SW4")), default=None)


def _has_no_witness(finding: Finding) -> bool:
    return finding.evidence is None or finding.evidence.witness is None
