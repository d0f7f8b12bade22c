"""The full report: for each finding its message, the source with marks, the path that leads there, and the help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepward.validator.findings import Finding, Label, Move
from stepward.validator.report.excerpt import ExcerptRow, Mark, excerpt
from stepward.validator.report.text import counted, file_of, position, safe, summary, values_of

if TYPE_CHECKING:
    from stepward.validator.result import RunResult

_Lines = Mapping[str, Sequence[str]]
"""The lines of each file."""

MAX_ALIKE: Final = 1_000
"""Findings of one code in one file that are shown; the others are counted."""

_NEAR: Final = 12
"""Lines around a finding within which a label is shown in the same excerpt."""

_LINE, _MAX_LINES = 100, 2
"""Characters of a line of values, and the number of such lines."""

_MAX_MOVES: Final = 24
"""Steps of a path that are shown; a longer path is cut in the middle."""


def render(result: RunResult, *, color: bool = False) -> str:
    """Return every finding with its source, and the summary."""
    paint = _Paint(color)
    lines = {file: text.split("\n") for file, text in result.sources.items()}
    shown, left_out = _shown(result.findings)
    values = values_of(shown)
    blocks = ["\n".join(_block(finding, lines, paint, values[number])) + "\n" for number, finding in enumerate(shown)]
    for (file, code), count in left_out.items():
        more = f"{counted(count, 'more finding')} of {code} in {safe(file)}"
        blocks.append(f"{paint('bold', 'note')}: {more}; `--output-format concise` lists all\n")
    return "\n".join([*blocks, paint("bold", summary(result)) + "\n"])


def _shown(findings: Sequence[Finding]) -> tuple[list[Finding], Counter[tuple[str, str]]]:
    """Return the findings to show in full, and the number of the others by file and code."""
    counts: Counter[tuple[str, str]] = Counter()
    shown: list[Finding] = []
    for finding in findings:
        kind = (finding.file, finding.code)
        counts[kind] += 1
        if counts[kind] <= MAX_ALIKE:
            shown.append(finding)
    return shown, Counter({kind: count - MAX_ALIKE for kind, count in counts.items() if count > MAX_ALIKE})


@dataclass(frozen=True, slots=True)
class _Paint:
    """Colors text, or does not."""

    is_on: bool

    def __call__(self, kind: str, text: str) -> str:
        if not self.is_on or not text:
            return text
        import click

        styles = {
            "error": {"fg": "bright_red", "bold": True},
            "warning": {"fg": "yellow", "bold": True},
            "frame": {"fg": "bright_blue", "bold": True},
            "bold": {"bold": True},
        }
        return click.style(text, **styles[kind])  # type: ignore[arg-type]


def _block(finding: Finding, lines: _Lines, paint: _Paint, values: list[str]) -> Iterator[str]:
    severity = str(finding.severity)
    yield paint(severity, f"{severity}[{finding.code}]") + paint("bold", f" {finding.name}: {safe(finding.message)}")
    near = [label for label in finding.related if _is_near(label, finding)]
    marks = [Mark(finding.span, is_primary=True)] if finding.span else []
    marks.extend(Mark(label.span, label.text) for label in near if label.span)
    rows = list(excerpt(lines.get(finding.file, ()), marks))
    margin = " " * _gutter(rows)
    yield from _located(finding.file + position(finding.place, finding.span), rows, severity, paint)
    tail = [*_path(finding), *_with(values), *_help(finding)]
    if rows and tail:
        yield margin + paint("frame", " |")
    yield from (f"{margin} {paint('frame', '=')} {line}" if line[0] != " " else margin + line for line in tail)
    for label in finding.related:
        if label not in near:
            yield from _note(label, finding, lines, paint)


def _gutter(rows: list[ExcerptRow]) -> int:
    return max((len(row.number) for row in rows if row.kind == "source"), default=1)


def _located(where: str, rows: list[ExcerptRow], severity: str, paint: _Paint) -> Iterator[str]:
    """Yield a line with the location, and the excerpt, if there is one."""
    gutter = _gutter(rows)
    margin = " " * gutter
    yield f"{margin}{paint('frame', '-->')} {safe(where)}"
    if rows:
        yield margin + paint("frame", " |")
        yield from (_painted(row, gutter, severity, paint) for row in rows)


def _is_near(label: Label, finding: Finding) -> bool:
    if label.document is not None or label.span is None or finding.span is None:
        return False
    return abs(label.span.line - finding.span.line) <= _NEAR


def _painted(row: ExcerptRow, gutter: int, severity: str, paint: _Paint) -> str:
    if row.kind == "gap":
        return paint("frame", row.number)
    frame = paint("frame", f"{row.number:>{gutter}} |")
    kind = {"primary": severity, "secondary": "frame"}.get(row.kind)
    text = paint(kind, row.text) if kind else row.text
    return f"{frame} {text}".rstrip()


def _path(finding: Finding) -> Iterator[str]:
    if finding.evidence is None or not finding.evidence.path:
        return
    yield "path, step by step:"
    moves = list(enumerate(finding.evidence.path, start=1))
    digits, longest = len(str(len(moves))), max(len(safe(move.step)) for _, move in moves)
    if len(moves) > _MAX_MOVES:
        half = _MAX_MOVES // 2
        yield from (_move(*entry, digits, longest) for entry in moves[:half])
        yield f"     {'':>{digits}}  … {len(moves) - 2 * half} more …"
        moves = moves[-half:]
    yield from (_move(*entry, digits, longest) for entry in moves)


def _move(number: int, move: Move, digits: int, longest: int) -> str:
    return f"     {number:>{digits}}. {safe(move.step):<{min(longest, 40)}}  {safe(move.words)}".rstrip()


def _with(values: list[str]) -> Iterator[str]:
    """Yield the values of a witness on at most two lines."""
    lines: list[str] = []
    for number, value in enumerate(map(safe, values)):
        if lines and len(lines[-1]) + len(value) + 2 <= _LINE:
            lines[-1] += f", {value}"
        elif len(lines) < _MAX_LINES:
            lines = [*(f"{line}," for line in lines), f"     {value}" if lines else f"with {value}"]
        else:
            lines[-1] += f", and {len(values) - number} more"
            break
    yield from lines


def _help(finding: Finding) -> Iterator[str]:
    if finding.policy is not None:
        # A waiver is for a program, but SW407 on a policy's rule is about the policy itself.
        waiver = "; only a waiver in the policy can suppress it"
        if finding.policy.continues:
            waiver = "; no waiver counts in a continuation"
        waiver = "" if finding.code == "SW407" else waiver
        yield f"policy: {safe(str(finding.policy))}{waiver}"
    if finding.help:
        yield f"help: {safe(finding.help)}"


def _note(label: Label, finding: Finding, lines: _Lines, paint: _Paint) -> Iterator[str]:
    """Yield a label that is far away, or in another file, with a location and an excerpt of its own."""
    yield paint("bold", "note") + f": {safe(label.text)}"
    file = file_of(label, finding)
    source = label.document.text.split("\n") if label.document else lines.get(file, ())
    rows = list(excerpt(source, [Mark(label.span)] if label.span else []))
    yield from _located(file + position(label.place, label.span), rows, "frame", paint)
