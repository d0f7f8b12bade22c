"""What the page shows of each program: its diagram, its text, its findings with their runs, and its proofs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element

from stepward.validator.analysis.bypasses import parting_step
from stepward.validator.context import Context
from stepward.validator.diagram.drawing import draw
from stepward.validator.diagram.marks import Marks, first_path, marks_of, walk_of
from stepward.validator.diagram.rendering import NotDrawnError
from stepward.validator.review.moments import Moment, moments_of
from stepward.validator.review.picture import drawn

if TYPE_CHECKING:
    from stepward.validator.engine.witnesses.replay import Replayer
    from stepward.validator.engine.witnesses.witness import Claim, Witness
    from stepward.validator.failures import Failures
    from stepward.validator.findings import Finding, Move, Property
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program


class FindingView(NamedTuple):
    """A finding, the run of the machine that shows it, and the step at which this run leaves the safe path."""

    finding: Finding
    moments: tuple[Moment, ...] = ()
    parts_at: str = ""


class ProgramView(NamedTuple):
    """A program on the page. `lines` has the first and the last line of each step in `text`, from 1."""

    program: Program
    file: str
    text: str
    lines: dict[str, tuple[int, int]]
    picture: Element | None
    findings: tuple[FindingView, ...]
    properties: tuple[Property, ...]


def view_of(
    program: Program,
    policies: Sequence[Policy],
    file: str,
    findings: Sequence[Finding],
    properties: Sequence[Property],
    failures: Failures,
) -> ProgramView:
    """Return what the page shows of a program; what can't be drawn or replayed is recorded in `failures`."""
    context, replays = Context(program, policies), _Replays()
    views = tuple(_finding_view(one, context, replays, failures) for one in findings)
    what = f"the diagram of `{program.name}`"
    picture = failures.attempt(what, lambda: _picture(context, findings, properties, failures), lambda _: None)
    document = program.document
    text = document.text if document is not None else ""
    return ProgramView(program, file, text, _lines(program), picture, views, tuple(properties))


def _picture(
    context: Context, findings: Sequence[Finding], properties: Sequence[Property], failures: Failures
) -> Element | None:
    first = first_path(findings)
    walk = None
    if first is not None and first.evidence is not None:
        walk = walk_of(context.facts.flow, first.evidence.path, first.code)
    marks: Marks = marks_of(context, findings, properties, walk)
    try:
        return drawn(draw(context.facts, marks)._replace(notes=()))
    except NotDrawnError as error:  # the page has the other programs
        failures.note(f"the diagram of `{context.facts.program.name}`", error)
        return None


class _Replays:
    """The replays of witnesses; those of one program share a replayer, which plans the program once."""

    def __init__(self) -> None:
        self._replayers: dict[tuple[int, ...], Replayer] = {}

    def of(self, witness: Witness) -> tuple[Moment, ...]:
        from stepward.validator.engine.witnesses.replay import Replayer

        key = id(witness.program), *map(id, witness.policies)
        if key not in self._replayers:
            self._replayers[key] = Replayer(witness.program, witness.policies)
        return tuple(moments_of(self._replayers[key].replay(witness).history(), witness.program))


def _finding_view(finding: Finding, context: Context, replays: _Replays, failures: Failures) -> FindingView:
    evidence = finding.evidence
    if evidence is None or evidence.witness is None:
        return FindingView(finding)
    witness = evidence.witness
    moments = failures.attempt(f"the replay of {finding.code}", lambda: replays.of(witness), lambda _: ())
    return FindingView(finding, moments, _parting(context, witness.claim, evidence.path))


def _parting(context: Context, claim: Claim, path: Sequence[Move]) -> str:
    return parting_step(context.analyses, claim.rule, claim.policy, path)


def _lines(program: Program) -> dict[str, tuple[int, int]]:
    """Return the lines of each step and sub-step."""
    from stepward.vm.language.steps import parts
    from stepward.vm.reading.source import Place

    document = program.document
    if document is None:
        return {}
    layout = program.layout
    places = {
        part.id: Place(layout.path(number, sub))
        for number, step in enumerate(layout.steps)
        for sub, part in parts(step)
    }
    spans = document.locate(places.values())
    return {id: (spans[place].line, spans[place].end_line) for id, place in places.items()}
