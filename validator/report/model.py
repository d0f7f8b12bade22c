"""The answer to a model that wrote a program: what is wrong, where, the smallest change, and a corrected fragment.

An answer is short, because it goes into the context of a model: it has at most MAX_CHARACTERS for any number of
findings. Findings with the same code, message and help are one entry, with all their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from stepward.validator.edits import apply_edits
from stepward.validator.findings import Edit, Finding, Fix, Severity
from stepward.validator.report.text import (
    advice,
    counted,
    cut,
    error_lines,
    not_rechecked,
    position,
    safe,
    story,
    values_of,
)
from stepward.vm.reading.files import LISP

if TYPE_CHECKING:
    from stepward.validator.result import RunResult

MAX_CHARACTERS: Final = 1_600
"""The longest answer."""

_MAX_TAIL: Final = 200
_MAX_LINE: Final = 240
_MAX_PLACES: Final = 6
_MAX_FRAGMENT_LINES: Final = 3
_MAX_FRAGMENT_LINE: Final = 150

_WITHOUT_EXAMPLE: Final = frozenset({"SW001", "SW002"})
"""Rules about so many mistakes that the example on their page is seldom about the one that was made."""

_CODE_BLOCK: Final = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Group:
    """Findings with the same code, message and help, in the order of the text."""

    findings: tuple[Finding, ...]
    values: Sequence[str]

    @property
    def first(self) -> Finding:
        return self.findings[0]


def render(result: RunResult) -> str:
    """Return the answer: the verdict, then as many findings as have room, then the codes and places of the others."""
    if result.error is not None:
        return "".join(f"{_line(line)}\n" for line in ["not checked", *error_lines(result.error)])
    groups = _groups(result)
    text, shown = _verdict(result), 0
    fragments = _Fragments(result)
    for number, group in enumerate(groups, 1):
        entry = _entry(number, group, fragments.of(group))
        room = MAX_CHARACTERS - (0 if number == len(groups) else _MAX_TAIL)
        if len(text) + len(entry) > room:
            break
        text += entry
        shown = number
    return text + _others(groups[shown:])


def _groups(result: RunResult) -> list[_Group]:
    """Return the findings in groups; those that fail the check come first."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in sorted(result.findings, key=lambda finding: finding not in result.failing):
        groups.setdefault((finding.code, finding.message, finding.help), []).append(finding)
    firsts = values_of([findings[0] for findings in groups.values()])
    return [_Group(tuple(findings), values) for findings, values in zip(groups.values(), firsts, strict=True)]


def _verdict(result: RunResult) -> str:
    if not result.programs and not result.findings:
        return "not checked: there is no program\n"
    errors, warnings = result.count(Severity.ERROR), result.count(Severity.WARNING)
    parts = [counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    if result.is_failed:
        return f"refused: {' and '.join(parts)}; correct the program and send all of it again\n"
    unseen = not_rechecked(result)
    return f"accepted: {' and '.join(parts) or 'no findings'}{f' ({unseen})' if unseen else ''}\n"


def _entry(number: int, group: _Group, fragment: Sequence[str]) -> str:
    """Return the lines about one group."""
    finding = group.first
    lines = [
        f"{number}. {finding.code} ({finding.severity}) at {_places(group.findings)}",
        f"wrong: {finding.message}",
        *story(finding, group.values),
        *_change(finding),
    ]
    return "\n" + "".join(f"{line}\n" for line in [*map(_line, lines), *fragment])


def _change(finding: Finding) -> list[str]:
    if finding.fix is not None:
        return [f"change: {finding.fix.title}"]
    return [line.replace("help: ", "change: ", 1) for line in advice(finding)]


def _places(findings: Sequence[Finding]) -> str:
    where = dict.fromkeys(_place(finding) for finding in findings)
    more = len(where) - _MAX_PLACES
    return ", ".join([*list(where)[:_MAX_PLACES], *([f"{counted(more, 'other place')}"] if more > 0 else [])])


def _place(finding: Finding) -> str:
    step = f" (step `{cut(finding.step, 40)}`)" if finding.step else ""
    return f"{finding.file}{position(finding.place, finding.span)}{step}"


class _Fragments:
    """The corrected lines of an answer, each of which is shown once."""

    def __init__(self, result: RunResult) -> None:
        self._sources = result.sources
        self._fixes: dict[str, list[Fix]] = {}
        for finding in result.findings:
            if finding.fix is not None:
                self._fixes.setdefault(finding.file, []).append(finding.fix)
        self._shown: set[object] = set()

    def of(self, group: _Group) -> list[str]:
        """Return the lines that show how to correct a group: those of its fixes, or else of the rule's example."""
        code = group.first.code
        lines = [line for finding in group.findings for line in self._corrected(finding)]
        title = "write:"
        if not lines and all(finding.fix is None for finding in group.findings):
            title = "a corrected example of this code has:"
            is_lisp = group.first.file.endswith(LISP)  # the examples are in YAML
            lines = [] if is_lisp or code in _WITHOUT_EXAMPLE or code in self._shown else example_of(code)
        self._shown.add(code)
        shown = [_line(line, _MAX_FRAGMENT_LINE) for line in lines[:_MAX_FRAGMENT_LINES]]
        return [title, *shown] if shown else []

    def _corrected(self, finding: Finding) -> Iterator[str]:
        """Yield the lines that the fix of a finding changes, as they are after all fixes of these lines."""
        text = self._sources.get(finding.file, "")
        if not text or finding.fix is None:
            return
        lines = text.splitlines(keepends=True)
        for edit in finding.fix.edits:
            first, last = edit.span.line, edit.span.end_line
            if (finding.file, first) in self._shown:
                continue
            self._shown.add((finding.file, first))
            edits = dict.fromkeys(edit for fix in self._fixes[finding.file] for edit in fix.edits)
            inside = [
                _moved(edit, first - 1) for edit in edits if first <= edit.span.line and edit.span.end_line <= last
            ]
            before = "".join(lines[first - 1 : last])
            after = apply_edits(before, inside).splitlines()
            yield from (_around(was, line) for was, line in zip_longest(before.splitlines(), after) if line)


def _moved(edit: Edit, lines: int) -> Edit:
    """Return an edit of the text that begins some lines further down."""
    span = edit.span
    return replace(edit, span=span._replace(line=span.line - lines, end_line=span.end_line - lines))


def _around(before: str | None, after: str) -> str:
    """Return the part of a long line around its first difference: a whole program may stand on one line."""
    if len(after) <= _MAX_FRAGMENT_LINE:
        return after
    pairs = enumerate(zip(before or "", after, strict=False))
    first = next((at for at, (was, now) in pairs if was != now), 0)
    left = max(0, first - _MAX_FRAGMENT_LINE // 2)
    return f"…{after[left:]}" if left else after


def example_of(code: str) -> list[str]:
    """Return the lines which the corrected example on the page of a rule does not share with the wrong one."""
    from stepward.validator.rules.registry import RULE_BY_CODE

    wrong, _, right = RULE_BY_CODE[code].documentation().partition("\n## Use instead\n")
    wrongs, rights = _CODE_BLOCK.findall(wrong), _CODE_BLOCK.findall(right)
    if not wrongs or not rights:
        return []
    old = set(wrongs[-1].splitlines())
    return [line for line in rights[-1].splitlines() if line not in old]


def _others(groups: Sequence[_Group]) -> str:
    """Return the line that names the findings without an entry."""
    if not groups:
        return ""
    count = sum(len(group.findings) for group in groups)
    named = dict.fromkeys(f"{group.first.code} at {_short_place(group.first)}" for group in groups)
    words = _line(f"and {count:,} more: {', '.join(named)}", _MAX_TAIL - 3)
    return f"\n{words}\n"


def _short_place(finding: Finding) -> str:
    return position(finding.place, finding.span).lstrip(":") or cut(finding.file, 40)


def _line(text: str, longest: int = _MAX_LINE) -> str:
    return safe(cut(text, longest))
