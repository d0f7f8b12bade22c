"""What readers and loaders say of a text or of data: the document, the program or policy, or each problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.plain import steady
from stepward.vm.errors import DocumentError, Problem
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.reading.document import Document
from stepward.vm.reading.source import Place

Made = TypeVar("Made", Program, Policy)


def read(notes: Notes, reader: Callable[[], list[Document]]) -> list[Document]:
    """Note what a reader makes of a text, and return its documents."""
    try:
        found = reader()
    except Exception as error:
        _refused(notes, error)
        return []
    for document in found:
        notes.add("document", document.name, document.format, document.data, document.file)
        _problems(notes, document.problems)
        notes.add("places", sorted(map(str, document.locate(_places(document.data)).items())))
    return found


def load_program(notes: Notes, source: Document | dict[str, Any]) -> Program | None:
    """Note what becomes of a document or of data as a program, and return the program."""
    load: Callable[[Any], Program] = Program.from_document if isinstance(source, Document) else Program.from_dict
    return _load(notes, source, load)


def load_policy(notes: Notes, source: Document | dict[str, Any], *, is_recorded: bool = False) -> Policy | None:
    """Note what becomes of a document or of data as a policy, and return the policy."""

    def load(source: Any) -> Policy:
        document = source if isinstance(source, Document) else None
        return Policy._build(source if document is None else document.data, document, is_recorded=is_recorded)

    return _load(notes, source, load)


def _load(notes: Notes, source: Any, load: Callable[[Any], Made]) -> Made | None:
    document = source if isinstance(source, Document) else None
    try:
        found = load(source)
    except Exception as error:
        _refused(notes, error, document)
        return None
    notes.add("made", found.to_data())
    return found


def _refused(notes: Notes, error: Exception, document: Document | None = None) -> None:
    if not isinstance(error, DocumentError):
        notes.add_error(error)
    else:
        notes.add(type(error).__name__, error.name)
        _problems(notes, error.problems)
        if document is not None:
            places = [problem.place for problem in error.problems]
            notes.add("spans", list(document.locate(places).items()))


def _problems(notes: Notes, problems: Iterable[Problem]) -> None:
    for problem in problems:
        notes.add(steady(problem), problem.place.text())


def _places(data: Any, path: tuple[str | int, ...] = ()) -> list[Place]:
    """Return the places of all values and keys, and of some part of each text."""
    found = [Place(path), Place(path, key=True)]
    if isinstance(data, dict):
        for key, item in data.items():
            found += _places(item, (*path, key))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            found += _places(item, (*path, number))
    elif isinstance(data, str):
        middle = len(data) // 2
        found += [Place(path, within=(middle, min(middle + 2, len(data)))), Place(path, within=(0, len(data)))]
    return found
