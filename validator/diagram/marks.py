"""What a check adds to a diagram: findings on their steps, what no run reaches, and the path of a witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stepward.validator.analysis.product import how
from stepward.validator.context import Context
from stepward.validator.findings import COVERAGE, Finding, Move, Property, Verdict
from stepward.vm.language.flow import Flow
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.transitions import Transition

Way = tuple[int, int]
"""A way out of a step: the step's position, and the position of the transition among its ways."""


class Walk(NamedTuple):
    """A path to be drawn: what it shows, the numbers at which it comes to each step, and the ways that it takes."""

    title: str
    numbers: dict[str, tuple[int, ...]]
    ways: frozenset[Way]


class Marks(NamedTuple):
    """What is drawn on top of a program; no run gets to `dead_steps`, none takes `dead_ways`."""

    findings: tuple[Finding, ...] = ()
    dead_steps: frozenset[int] = frozenset()
    dead_ways: frozenset[Way] = frozenset()
    walk: Walk | None = None


def marks_of(context: Context, findings: Sequence[Finding], properties: Sequence[Property], walk: Walk | None) -> Marks:
    """Return the marks that a check gives: `findings` are those to show, `properties` all that was asked."""
    dead_steps: tuple[int, ...] = ()
    dead_ways: frozenset[Way] = frozenset()
    if context.facts.has_control_flow and context.facts.conditions:
        dead_steps = context.proofs.dead.infeasible
        dead_ways = frozenset(_dead_ways(context, properties))
    return Marks(tuple(findings), frozenset(dead_steps), dead_ways, walk)


def _dead_ways(context: Context, properties: Sequence[Property]) -> Iterator[Way]:
    """Yield the ways out of conditions that are proved never to be taken."""
    covered = {prop.step for prop in properties if prop.name == COVERAGE and prop.verdict is Verdict.PROVED}
    for number, step in context.facts.conditions:
        for index, way in enumerate(context.facts.flow.transitions[number]):
            is_covered = way.kind == "uncovered" and step.id in covered
            if is_covered or (way.kind in ("branch", "uncovered") and _is_dead(context, number, step, way)):
                yield number, index


def _is_dead(context: Context, number: int, step: ConditionStep, way: Transition) -> bool:
    if context.proofs.dead.is_dead(number, way):
        return True
    if isinstance(way.branch, int):
        return context.verdicts.decided.never_taken(number, way.branch - 1) is not None
    found = context.verdicts.decided.constant(number) if step.condition is not None else None
    return found is not None and way.branch == ("otherwise" if found[0] else "then")


# -- paths -------------------------------------------------------------------------------------------------------------


def walk_of(flow: Flow, moves: Sequence[Move], title: str) -> Walk:
    """Return a path as it is drawn; its numbers are those of `stepward check`."""
    numbers: dict[str, list[int]] = {}
    ways: set[Way] = set()
    for place, move in enumerate(moves):
        numbers.setdefault(move.step, []).append(place + 1)
        following = moves[place + 1].step if place + 1 < len(moves) else None
        ways.update(_taken(flow, move, following))
    return Walk(title, {step: tuple(found) for step, found in numbers.items()}, frozenset(ways))


def _taken(flow: Flow, move: Move, following: str | None) -> Iterator[Way]:
    """Yield the way that a move takes: none where the path stops inside the step."""
    number = flow.position[move.step]
    to = None if following is None else flow.position[following]
    for index, way in enumerate(flow.transitions[number]):
        if how(way) == move.how and (way.to == to if to is not None else way.to < 0):
            yield number, index
            return


def first_path(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding whose path is drawn when none is named: a broken guardrail first, a witness before none."""
    found = [finding for finding in findings if finding.evidence is not None and finding.evidence.path]
    return min(found, key=lambda finding: (_has_no_witness(finding), not finding.code.startswith("SW4")), default=None)


def _has_no_witness(finding: Finding) -> bool:
    return finding.evidence is None or finding.evidence.witness is None
