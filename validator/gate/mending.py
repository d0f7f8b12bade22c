"""Makes fixes (edits of a text) from mends (changes of data at a place); quotes, comments and layout do not change.

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
from stepward.vm.reading.document import Document, Extent, Wanted
from stepward.vm.reading.quoting import offsets_in_text, width
from stepward.vm.reading.source import LineIndex, Mend, Path

MAX_READ: Final = 20_000_000
"""Characters that are read again, at most, to verify one fix after the other."""

_WORD: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_OPENED: Final = re.compile(r"[ \t]*(?:-[ \t]+)*")


def with_fixes(
    findings: Sequence[Finding], documents: Sequence[Document], number: int, read: Callable[[str], Sequence[Document]]
) -> list[Finding]:
    """Return the findings on one document of a file, with fixes where they have mends.

    `documents` are all of the file, `number` is the index of this one; `read` reads a text in the format of the file.
    """
    mends = list(dict.fromkeys(finding.mend for finding in findings if finding.mend is not None))
    fixes = _FixMaker(documents, number, read, _extents(documents[number], mends)).fixes(mends)
    return [replace(finding, fix=fixes.get(finding.mend)) if finding.mend else finding for finding in findings]


def _extents(document: Document, mends: Sequence[Mend]) -> Mapping[Path, Extent]:
    """Return the extents of all values that mends change or are added to, in one pass over the text."""
    mends = [part for mend in mends for part in _parts(mend)]
    paths = [mend.place.path for mend in mends]
    for mend in mends:
        if mend.field:
            paths.extend((*mend.place.path, key) for key in _value(document.data, mend.place.path))
    return document.locator(Wanted.of(paths))


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

    def fixes(self, mends: Sequence[Mend]) -> dict[Mend, Fix]:
        """Return the fixes of mends, without those for which no edit is right.

        Mends at different places are tried together first: mostly all are right, so that the text is read only once.
        """
        found = self._all_at_once(mends)
        left = MAX_READ
        for mend in mends:
            wanted = _changed(self.document.data, mend)
            for changes in self._candidates(mend) if mend not in found and wanted is not None else ():
                left -= len(self.document.text)
                if left >= 0 and self._is_right(apply_changes(self.document.text, changes), wanted):
                    found[mend] = changes
                    break
        lines = LineIndex(self.document.text)
        return {
            mend: Fix(self._title(mend), tuple(Edit(lines.span(start, end), new) for start, end, new in changes))
            for mend, changes in found.items()
        }

    def _all_at_once(self, mends: Sequence[Mend]) -> dict[Mend, list[Change]]:
        """Return the changes of all mends at different places if they are right together, else nothing."""
        chosen: dict[Mend, list[Change]] = {}
        wanted = self.document.data
        done: set[Path] = set()
        for mend in mends:
            path = mend.place.path
            # An alias is left out: its anchor would change a second value unnoticed.
            is_alias = not (mend.field or mend.place.key) and self.extents.get(path, Extent(0, 0)).style is None
            changes = next(self._candidates(mend), None)
            if (
                mend.also
                or is_alias
                or changes is None
                or any(path[:length] in done for length in range(len(path) + 1))
            ):
                continue
            changed = _changed(wanted, mend)
            if changed is not None:
                chosen[mend], wanted = changes, changed
                done.add((*path, mend.field) if mend.field else path)
        everything = sorted(change for changes in chosen.values() for change in changes)
        if any(one[1] > two[0] for one, two in pairwise(everything)):
            return {}
        return chosen if self._is_right(apply_changes(self.document.text, everything), wanted) else {}

    def _is_right(self, text: str, wanted: Any) -> bool:
        try:
            again = self.read(text)
        except StepwardError:
            return False
        data = [document.data for document in self.documents]
        data[self.number] = wanted
        return [document.data for document in again] == data

    def _title(self, mend: Mend) -> str:
        if mend.field:
            return " and ".join(f"add `{part.field}: {part.text or 'true'}`" for part in _parts(mend))
        old = _value(self.document.data, mend.place.path[: -1 if mend.place.key else None])
        if mend.place.key:
            return f"rename `{mend.place.path[-1]}` to `{mend.text}`"
        if mend.place.within is not None:
            return f"write `{mend.text}` in place of `{old[slice(*mend.place.within)]}`"
        return f"write `{mend.text}`"

    def _candidates(self, mend: Mend) -> Iterator[list[Change]]:
        """Yield lists of changes that may make a mend, the smallest first."""
        path = mend.place.path
        if mend.also:
            for one, two in product(self._candidates(mend._replace(also=None)), list(self._candidates(mend.also))):
                yield sorted([*one, *two])
            return
        if mend.field:
            yield from self._additions(mend)
            return
        extent = self.extents.get(path)
        if extent is None:
            return
        if mend.place.key:
            assert extent.key is not None, "only what has a key is renamed"
            start, end = extent.key
            for written in _written(mend.text, self.document.text[start:end]):
                yield [(start, end, written)]
            return
        value = _value(self.document.data, path)
        if extent.style is not None:
            start, end = mend.place.within or (0, len(value))
            inner = [(start + one, start + two, new) for one, two, new in _differences(value[start:end], mend.text)]
            located = self._located(path, inner, extent)
            if located is not None:
                yield located
        if extent.style != "block":
            whole = mend.text
            if mend.place.within is not None:
                start, end = mend.place.within
                whole = value[:start] + mend.text + value[end:]
            for written in _written(whole, self.document.text[extent.start : extent.end]):
                yield [(extent.start, extent.end, written)]

    def _located(self, path: Path, changes: list[Change], extent: Extent) -> list[Change] | None:
        """Return changes of a text value as changes of the document that contains it."""
        assert extent.style is not None, "it is a text value"
        text, value = self.document.text, _value(self.document.data, path)
        offsets = offsets_in_text(text, extent.start, extent.end, extent.style, value)
        if offsets is None:
            return None
        found = []
        for start, end, new in changes:
            last = offsets[end - 1] + width(text, offsets[end - 1], extent.style) if end > start else offsets[start]
            found.append((offsets[start], last, _escaped(new, text[extent.start], extent.style)))
        return found

    # -- a new field ---------------------------------------------------------------------------------------------------

    def _additions(self, mend: Mend) -> Iterator[list[Change]]:
        path, text = mend.place.path, self.document.text
        owner = _value(self.document.data, path)
        whole = self.extents[path]
        found = [extent for key in owner if (extent := self.extents.get((*path, key))) is not None]
        children = sorted((child for child in found if child.key is not None), key=lambda child: child.end)
        if not children:
            return
        if text[whole.start] == "{":
            yield from _into_braces(text, children[-1], mend)
        else:
            yield from _into_lines(text, children, mend)


def _into_braces(text: str, last: Extent, mend: Mend) -> Iterator[list[Change]]:
    """Yield the changes that add a field at the end of a flow mapping, on a line of its own if the last one has one."""
    assert last.key is not None
    key = text[slice(*last.key)]
    start = text.rfind("\n", 0, last.key[0]) + 1
    indent = text[start : last.key[0]]
    gap = f",{_line_end(text)}{indent}" if start and not indent.strip() else ", "
    for name in _written(mend.field, key):
        for value in _written_field(mend, key):
            yield [(last.end, last.end, f"{gap}{name}: {value}")]


def _into_lines(text: str, children: Sequence[Extent], mend: Mend) -> Iterator[list[Change]]:
    """Yield the changes that add a field to a block mapping, after the last of its fields that is one line."""
    for child in reversed(children):
        assert child.key is not None
        start = text.rfind("\n", 0, child.key[0]) + 1
        opening = text[start : child.key[0]]
        end = text.find("\n", child.end)
        end = len(text) if end < 0 else end - (text[end - 1] == "\r")
        if "\n" in text[child.key[0] : child.end] or child.style == "block" or not _OPENED.fullmatch(opening):
            continue
        for value in _written_field(mend, ""):
            yield [(end, end, f"{_line_end(text)}{' ' * len(opening)}{mend.field}: {value}")]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# -- values and how they are written -----------------------------------------------------------------------------------


def _value(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _parts(mend: Mend) -> list[Mend]:
    """Return a mend, and the one that goes with it."""
    return [mend, *_parts(mend.also)] if mend.also else [mend]


def _changed(data: Any, mend: Mend) -> Any:
    """Return the data with a mend made, or None where it can't change the value."""
    path = mend.place.path
    if mend.also:
        return _changed(_changed(data, mend._replace(also=None)), mend.also)
    if mend.field:
        return _with(data, path, lambda owner: {**owner, mend.field: mend.text or True})
    if mend.place.key:
        name = path[-1]
        return _with(data, path[:-1], lambda owner: {mend.text if key == name else key: owner[key] for key in owner})
    old = _value(data, path)
    if not isinstance(old, str):
        return None
    start, end = mend.place.within or (0, len(old))
    return _with(data, path, lambda _: old[:start] + mend.text + old[end:])


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


def _written_field(mend: Mend, like: str) -> Iterator[str]:
    """Yield notations of the value of a new field."""
    yield from _written(mend.text, like) if mend.text else ("true", "True")


def _written(value: str, like: str) -> Iterator[str]:
    """Yield notations of a text value or a key: in the quotes of `like`, plain, in double quotes."""
    quoted = json.dumps(value, ensure_ascii=False)
    if like[:1] == "'" and "'" not in value and "\\" not in value:
        yield f"'{value}'"
    if like[:1] not in ('"', "'"):
        yield value
    yield quoted
