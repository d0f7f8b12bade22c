"""Makes fixes (edits of a text) from corrections (changes of data); quotes, comments and layout do not change.

No edit is trusted: the edited text is read again, and has to give exactly the changed data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise, product
from typing import Any, Final

from stepward.validator.edits import Change, apply_changes
from stepward.validator.findings import Edit, Finding, Fix
from stepward.vm.errors import StepwardError
from stepward.vm.reading.document import Document, Extent, PathTree
from stepward.vm.reading.quoting import offsets_in_text, width
from stepward.vm.reading.source import Correction, LineIndex, Path

MAX_READ: Final = 20_000_000
"""Characters that are read again, at most, to verify one fix after the other."""

_WORD: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_OPENED: Final = re.compile(r"[ \t]*(?:-[ \t]+)*")


def with_fixes(
    findings: Sequence[Finding], documents: Sequence[Document], number: int, read: Callable[[str], Sequence[Document]]
) -> list[Finding]:
    """Return the findings on one document of a file, with fixes where they have corrections.

    `documents` are all of the file, `number` is the index of this one; `read` reads a text in the format of the file.
    """
    if documents[number].format == "lisp":
        return list(findings)  # a correction changes the program, and the text is what it was compiled from
    corrections = list(dict.fromkeys(finding.correction for finding in findings if finding.correction is not None))
    fixes = _FixMaker(documents, number, read, _extents(documents[number], corrections)).fixes(corrections)
    return [
        replace(finding, fix=fixes.get(finding.correction)) if finding.correction else finding for finding in findings
    ]


def _extents(document: Document, corrections: Sequence[Correction]) -> Mapping[Path, Extent]:
    """Return the extents of all values that corrections change or are added to, in one pass over the text."""
    corrections = [part for correction in corrections for part in _parts(correction)]
    paths = [correction.place.path for correction in corrections]
    for correction in corrections:
        if correction.field:
            paths.extend((*correction.place.path, key) for key in _value(document.data, correction.place.path))
    return document.locator(PathTree.of(paths))


@dataclass(frozen=True)
class _FixMaker:
    """Finds edits of one document of a file."""

    documents: Sequence[Document]
    number: int
    read: Callable[[str], Sequence[Document]]
    extents: Mapping[Path, Extent]

    @property
    def document(self) -> Document:
        return self.documents[self.number]

    def fixes(self, corrections: Sequence[Correction]) -> dict[Correction, Fix]:
        """Return the fixes of corrections; a correction without a right edit has none.

        Corrections at different places are tried together first: mostly all are right, and the text is read only once.
        """
        changes_of = self._all_at_once(corrections)
        left = MAX_READ
        for correction in corrections:
            expected = _changed(self.document.data, correction)
            for changes in (
                self._candidates(correction) if correction not in changes_of and expected is not None else ()
            ):
                left -= len(self.document.text)
                if left >= 0 and self._is_right(apply_changes(self.document.text, changes), expected):
                    changes_of[correction] = changes
                    break
        lines = LineIndex(self.document.text)
        return {
            correction: Fix(
                self._title(correction), tuple(Edit(lines.span(start, end), new) for start, end, new in changes)
            )
            for correction, changes in changes_of.items()
        }

    def _all_at_once(self, corrections: Sequence[Correction]) -> dict[Correction, list[Change]]:
        """Return the changes of all corrections at different places if they are right together, else nothing."""
        chosen: dict[Correction, list[Change]] = {}
        expected = self.document.data
        done: set[Path] = set()
        for correction in corrections:
            path = correction.place.path
            # An alias is left out: its anchor would change a second value unnoticed.
            is_alias = (
                not (correction.field or correction.place.key) and self.extents.get(path, Extent(0, 0)).style is None
            )
            changes = next(self._candidates(correction), None)
            if (
                correction.also
                or is_alias
                or changes is None
                or any(path[:length] in done for length in range(len(path) + 1))
            ):
                continue
            changed = _changed(expected, correction)
            if changed is not None:
                chosen[correction], expected = changes, changed
                done.add((*path, correction.field) if correction.field else path)
        everything = sorted(change for changes in chosen.values() for change in changes)
        if any(one[1] > two[0] for one, two in pairwise(everything)):
            return {}
        return chosen if self._is_right(apply_changes(self.document.text, everything), expected) else {}

    def _is_right(self, text: str, expected: Any) -> bool:
        try:
            documents = self.read(text)
        except StepwardError:
            return False
        data = [document.data for document in self.documents]
        data[self.number] = expected
        return [document.data for document in documents] == data

    def _title(self, correction: Correction) -> str:
        if correction.field:
            return " and ".join(f"add `{part.field}: {part.text or 'true'}`" for part in _parts(correction))
        old = _value(self.document.data, correction.place.path[: -1 if correction.place.key else None])
        if correction.place.key:
            return f"rename `{correction.place.path[-1]}` to `{correction.text}`"
        if correction.place.within is not None:
            return f"write `{correction.text}` in place of `{old[slice(*correction.place.within)]}`"
        return f"write `{correction.text}`"

    def _candidates(self, correction: Correction) -> Iterator[list[Change]]:
        """Yield lists of changes that may make a correction, the smallest first."""
        path = correction.place.path
        if correction.also:
            for first, second in product(
                self._candidates(correction._replace(also=None)), list(self._candidates(correction.also))
            ):
                yield sorted([*first, *second])
            return
        if correction.field:
            yield from self._additions(correction)
            return
        extent = self.extents.get(path)
        if extent is None:
            return
        if correction.place.key:
            assert extent.key is not None, "only what has a key is renamed"
            start, end = extent.key
            for written in _written(correction.text, self.document.text[start:end]):
                yield [(start, end, written)]
            return
        value = _value(self.document.data, path)
        if extent.style is not None:
            start, end = correction.place.within or (0, len(value))
            inner = [
                (start + first, start + second, new)
                for first, second, new in _differences(value[start:end], correction.text)
            ]
            located = self._located(path, inner, extent)
            if located is not None:
                yield located
        if extent.style != "block":
            whole = correction.text
            if correction.place.within is not None:
                start, end = correction.place.within
                whole = value[:start] + correction.text + value[end:]
            for written in _written(whole, self.document.text[extent.start : extent.end]):
                yield [(extent.start, extent.end, written)]

    def _located(self, path: Path, changes: list[Change], extent: Extent) -> list[Change] | None:
        """Return changes of a text value as changes of the document that contains it."""
        assert extent.style is not None, "it is a text value"
        text, value = self.document.text, _value(self.document.data, path)
        offsets = offsets_in_text(text, extent.start, extent.end, extent.style, value)
        if offsets is None:
            return None
        located = []
        for start, end, new in changes:
            last = offsets[end - 1] + width(text, offsets[end - 1], extent.style) if end > start else offsets[start]
            located.append((offsets[start], last, _escaped(new, text[extent.start], extent.style)))
        return located

    # -- a new field ---------------------------------------------------------------------------------------------------

    def _additions(self, correction: Correction) -> Iterator[list[Change]]:
        path, text = correction.place.path, self.document.text
        owner = _value(self.document.data, path)
        whole = self.extents[path]
        extents = [extent for key in owner if (extent := self.extents.get((*path, key))) is not None]
        children = sorted((child for child in extents if child.key is not None), key=lambda child: child.end)
        if not children:
            return
        if text[whole.start] == "{":
            yield from _into_braces(text, children[-1], correction)
        else:
            yield from _into_lines(text, children, correction)


def _into_braces(text: str, last: Extent, correction: Correction) -> Iterator[list[Change]]:
    """Yield the changes that add a field at the end of a flow mapping, on a line of its own if the last one has one."""
    assert last.key is not None
    key = text[slice(*last.key)]
    start = text.rfind("\n", 0, last.key[0]) + 1
    indent = text[start : last.key[0]]
    gap = f",{_line_end(text)}{indent}" if start and not indent.strip() else ", "
    for name in _written(correction.field, key):
        for value in _written_field(correction, key):
            yield [(last.end, last.end, f"{gap}{name}: {value}")]


def _into_lines(text: str, children: Sequence[Extent], correction: Correction) -> Iterator[list[Change]]:
    """Yield the changes that add a field to a block mapping, after the last of its fields that is one line."""
    for child in reversed(children):
        assert child.key is not None
        start = text.rfind("\n", 0, child.key[0]) + 1
        opening = text[start : child.key[0]]
        end = text.find("\n", child.end)
        end = len(text) if end < 0 else end - (text[end - 1] == "\r")
        if "\n" in text[child.key[0] : child.end] or child.style == "block" or not _OPENED.fullmatch(opening):
            continue
        for value in _written_field(correction, ""):
            yield [(end, end, f"{_line_end(text)}{' ' * len(opening)}{correction.field}: {value}")]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# -- values and how they are written -----------------------------------------------------------------------------------


def _value(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _parts(correction: Correction) -> list[Correction]:
    """Return a correction, and the one that goes with it."""
    return [correction, *_parts(correction.also)] if correction.also else [correction]


def _changed(data: Any, correction: Correction) -> Any:
    """Return the data with a correction made, or None where it can't change the value."""
    path = correction.place.path
    if correction.also:
        return _changed(_changed(data, correction._replace(also=None)), correction.also)
    if correction.field:
        value = int(correction.text) if correction.is_number else correction.text or True
        return _with(data, path, lambda owner: {**owner, correction.field: value})
    if correction.place.key:
        name = path[-1]
        return _with(
            data, path[:-1], lambda owner: {correction.text if key == name else key: owner[key] for key in owner}
        )
    old = _value(data, path)
    if not isinstance(old, str):
        return None
    start, end = correction.place.within or (0, len(old))
    return _with(data, path, lambda _: old[:start] + correction.text + old[end:])


def _with(data: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return data in which one value is replaced; values that are not on its path are shared."""
    if not path:
        return change(data)
    first, *rest = path
    if isinstance(data, dict):
        return {key: _with(item, tuple(rest), change) if key == first else item for key, item in data.items()}
    changed = [_with(item, tuple(rest), change) if number == first else item for number, item in enumerate(data)]
    return tuple(changed) if isinstance(data, tuple) else changed


def _differences(old: str, new: str) -> list[Change]:
    """Return the parts of a text that have to change, word by word, so that the rest is not touched."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    starts = [0]
    for word in before:
        starts.append(starts[-1] + len(word))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [(starts[i], starts[j], "".join(after[k:m])) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


def _escaped(text: str, opening: str, style: str | None) -> str:
    """Return how a part of a text value is written; `opening` is the quote that the value starts with."""
    if style == "single":
        return text.replace("'", "''")
    if style == "double":
        return text.replace("\\", "\\\\").replace(opening, "\\" + opening)
    return text


def _written_field(correction: Correction, like: str) -> Iterator[str]:
    """Yield notations of the value of a new field."""
    if correction.is_number:
        yield correction.text
    else:
        yield from _written(correction.text, like) if correction.text else ("true", "True")


def _written(value: str, like: str) -> Iterator[str]:
    """Yield notations of a text value or a key: in the quotes of `like`, plain, in double quotes."""
    quoted = json.dumps(value, ensure_ascii=False)
    if like[:1] == "'" and "'" not in value and "\\" not in value:
        yield f"'{value}'"
    if like[:1] not in ('"', "'"):
        yield value
    yield quoted
