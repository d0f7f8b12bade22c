"""The answer to a model that wrote a program: what is wrong, where, the smallest change, and a corrected fragment.

An answer is short, because it goes into the context of a model: it has at most MAX_CHARACTERS for any number of
findings. Findings with the same code and message are told once, with all their places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepward.validator.edits import apply_edits
from stepward.validator.findings import Finding, Fix, Severity
from stepward.validator.report.text import advice, counted, error_lines, position, safe, story, values_of

if TYPE_CHECKING:
    from stepward.validator.result import RunResult

MAX_CHARACTERS: Final = 1_600
"""The longest answer."""

_MAX_TAIL: Final = 200
_MAX_LINE: Final = 240
_MAX_PLACES: Final = 6
_MAX_FRAGMENT_LINES: Final = 3
_MAX_FRAGMENT_LINE: Final = 150

_CODE_BLOCK: Final = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Group:
    """Findings with the same code and message, in the order of the text."""

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
    explained: set[str] = set()
    for number, group in enumerate(groups, 1):
        entry = _entry(number, group, result, with_example=group.first.code not in explained)
        room = MAX_CHARACTERS - (0 if number == len(groups) else _MAX_TAIL)
        if len(text) + len(entry) > room:
            break
        text += entry
        shown = number
        explained.add(group.first.code)
    return text + _others(groups[shown:])


def _groups(result: RunResult) -> list[_Group]:
    """Return the findings in groups; those that fail the check come first."""
    told: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(result.findings, key=lambda finding: finding not in result.failing):
        told.setdefault((finding.code, finding.message), []).append(finding)
    firsts = values_of([findings[0] for findings in told.values()])
    return [_Group(tuple(findings), values) for findings, values in zip(told.values(), firsts, strict=True)]


def _verdict(result: RunResult) -> str:
    if not result.programs and not result.findings:
        return "not checked: there is no program\n"
    errors, warnings = result.count(Severity.ERROR), result.count(Severity.WARNING)
    parts = [counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    if result.is_failed:
        return f"refused: {' and '.join(parts)}; correct the program and send all of it again\n"
    return f"accepted: {' and '.join(parts) or 'no findings'}\n"


def _entry(number: int, group: _Group, result: RunResult, *, with_example: bool) -> str:
    """Return the lines about one group."""
    finding = group.first
    lines = [
        f"{number}. {finding.code} ({finding.severity}) at {_places(group.findings)}",
        f"wrong: {finding.message}",
        *story(finding, group.values),
        *_change(finding),
    ]
    fragment = _corrected(result.sources.get(finding.file, ""), finding.fix) if finding.fix is not None else []
    title = "write:"
    if not fragment and with_example:
        fragment, title = example_of(finding.code), "a corrected example of this code has:"
    cut = [_line(line, _MAX_FRAGMENT_LINE) for line in fragment[:_MAX_FRAGMENT_LINES]]
    return "\n" + "".join(f"{line}\n" for line in [*map(_line, lines), *([title, *cut] if cut else [])])


def _change(finding: Finding) -> list[str]:
    if finding.fix is not None:
        return [f"change: {finding.fix.title}"]
    return [line.replace("help: ", "change: ", 1) for line in advice(finding)]


def _places(findings: Sequence[Finding]) -> str:
    where = dict.fromkeys(_place(finding) for finding in findings)
    more = len(where) - _MAX_PLACES
    return ", ".join([*list(where)[:_MAX_PLACES], *([f"{counted(more, 'other place')}"] if more > 0 else [])])


def _place(finding: Finding) -> str:
    step = f" (step `{_cut(finding.step, 40)}`)" if finding.step else ""
    return f"{finding.file}{position(finding.place, finding.span)}{step}"


def _corrected(text: str, fix: Fix) -> list[str]:
    """Return the lines of a text that a fix changes, as they are after it."""
    if not text:
        return []
    before, after = text.splitlines(), apply_edits(text, fix.edits).splitlines()
    shorter = min(len(before), len(after))
    same = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - same
    end = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    changed = after[same : len(after) - end]
    return [_around(was, line) for was, line in zip([*before[same:], ""], changed, strict=False)]


def _around(before: str, after: str) -> str:
    """Return the part of a long line around its first difference: a whole program may stand on one line."""
    if len(after) <= _MAX_FRAGMENT_LINE:
        return after
    shorter = min(len(before), len(after))
    first = next((at for at in range(shorter) if before[at] != after[at]), 0)
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
    return position(finding.place, finding.span).lstrip(":") or _cut(finding.file, 40)


def _line(text: str, longest: int = _MAX_LINE) -> str:
    return safe(_cut(text, longest))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
