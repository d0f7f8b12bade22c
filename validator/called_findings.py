"""Findings in called programs: in the words of the program in which they stand, once for all calls of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepward.validator.findings import Finding
from stepward.vm.expressions.inner_names import legible
from stepward.vm.language.layout import Layout
from stepward.vm.language.program import Program
from stepward.vm.language.steps import InvokeStep
from stepward.vm.reading.source import Correction, Path, Place

_OF_PATHS = ("SW4", "SW5", "SW9")
"""The codes whose messages name steps of several calls."""


def in_called_programs(findings: Iterable[Finding], program: Program) -> list[Finding]:
    """Return findings; those in a called program name its steps as it does, and are there once.

    In a layout, steps of called programs have the ids of calls before their own. A help has to be right where it is
    followed. A finding about a path keeps these ids, because the path may go through one call only.
    """
    if not program.programs:
        return list(findings)
    found: dict[object, Finding] = {}
    homes = _prefixes(program.layout)
    for finding in findings:
        one = _legible(finding)
        for prefix in _around(homes, one.place.path):
            if not one.code.startswith(_OF_PATHS):
                one = replace(one, message=_without(one.message, prefix), help=_without(one.help, prefix))
            one = replace(one, place=_written(one.place, prefix))
            labels = (replace(label, place=_written(label.place, prefix)) for label in one.related)
            one = replace(one, related=tuple(labels), correction=_correction(one.correction, prefix))
        file = _file_of(program, one.place.path)
        if file is not None:  # an edit belongs into that file: its own check makes it
            one = replace(one, message=f"in `{file}`: {one.message}", correction=None)
        found.setdefault((one.code, one.place, one.message), one)
    return list(found.values())


def _legible(finding: Finding) -> Finding:
    """Return a finding that may quote texts of called programs, with their names as people read them."""
    labels = tuple(replace(label, text=legible(label.text)) for label in finding.related)
    return replace(finding, message=legible(finding.message), help=legible(finding.help), related=labels)


def _prefixes(layout: Layout) -> dict[Path, list[str]]:
    """Return what stands before the names of each called program, by its path."""
    found: dict[Path, list[str]] = {}
    for number in layout.bodies:
        step = layout.steps[number]
        if isinstance(step, InvokeStep):
            found.setdefault(step.home, []).append(f"{step.id}/")
    return found


def _around(homes: dict[Path, list[str]], path: Path) -> list[str]:
    """Return what stands before the names of the program in which a path is, the longest first."""
    inner = max((home for home in homes if path[: len(home)] == home), key=len, default=None)
    return [] if inner is None else sorted(homes[inner], key=len, reverse=True)


def _without(text: str, prefix: str) -> str:
    return text.replace(f"`{prefix}", "`").replace(f"${prefix}", "$").replace(f" {prefix}", " ")


def _written(place: Place, prefix: str) -> Place:
    """Return a place with the names that the document has there."""
    if place.path[:1] != ("programs",):
        return place
    path = (part.removeprefix(prefix) if isinstance(part, str) else part for part in place.path)
    return Place(tuple(path), key=place.key)


def _correction(correction: Correction | None, prefix: str) -> Correction | None:
    """Return a correction with the names that the document has; None for one of a part of a text, or with references.

    The texts of a called program have other names in a layout, so that no offset in them is right.
    """
    if correction is None or correction.place.within is not None or "$" in correction.text:
        return None
    also = _correction(correction.also, prefix)
    if correction.also is not None and also is None:
        return None
    place, text = _written(correction.place, prefix), correction.text.removeprefix(prefix)
    return correction._replace(place=place, text=text, also=also)


def _file_of(program: Program, path: Path) -> str | None:
    """Return the file of the called program in which a path is, None for one that stands in the document."""
    data, file = program.programs, None
    while data and len(path) > 2 and path[0] == "programs" and path[1] in data:
        called = data[str(path[1])]
        file = called.file or file
        data, path = called.programs, path[2:]
    return file
