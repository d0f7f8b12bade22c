"""Shared by the text formats: text that is safe to print, its width, and the summary of a run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.files import absolute, shown_name
from stepward.validator.findings import Finding, Label, Severity, Verdict
from stepward.vm.reading.source import Place, Span
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.validator.result import AdvisedError, RunResult

TAB_WIDTH: Final = 4

MAX_MOVES: Final = 8
"""Steps of a path in a format without fields for them."""

MAX_VALUES: Final = 8
"""Values of a witness in such a format."""

MAX_VALUE: Final = 80
"""Characters of such a value with its name, and of a step in such a path."""

# Control characters could repaint the terminal; bidirectional ones can show another text than the checked one. XML, and
# so SVG, can have neither surrogates nor the last two.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def safe(text: str) -> str:
    """Return a text in which each unprintable character, or one that XML can't have, is replaced by a visible one."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def width(character: str, column: int) -> int:
    """Return how many columns of a terminal a character takes; it starts at `column`, counted from 0."""
    if character == "\t":
        return TAB_WIDTH - column % TAB_WIDTH
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf") and not _UNSAFE.match(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(width(character, 0) for character in text)


def position(place: Place, span: Span | None) -> str:
    """Return the words after the name of a file: line and column, or the path in a program without text."""
    if span is not None:
        return f":{span.line}:{span.column}"
    return f":{place.text()}" if place.path else ""


def file_of(label: Label, finding: Finding) -> str:
    """Return the name of the file that a label of a finding points into."""
    return finding.file if label.document is None else shown_name(absolute(label.document.name))


def values_of(findings: Sequence[Finding]) -> list[list[str]]:
    """Return for each finding the values of its witness; the code for it is imported only if there is one."""
    if not any(finding.evidence is not None and finding.evidence.witness is not None for finding in findings):
        return [[] for _ in findings]
    from stepward.validator.report.values import Values

    values = Values()
    return [values.of(finding) for finding in findings]


def story(finding: Finding, values: Sequence[str]) -> list[str]:
    """Return the path of a finding and the values of its witness, a line each, for formats without fields for them.

    Of a long path the first and the last steps are shown, and of many values the first.
    """
    lines = []
    if finding.evidence is not None and finding.evidence.path:
        moves = [move.step if move.how == "succeeds" else f"{move.step} {move.words}" for move in finding.evidence.path]
        if len(moves) > MAX_MOVES:
            half = MAX_MOVES // 2
            moves = [*moves[:half], f"… {len(moves) - 2 * half} more …", *moves[-half:]]
        lines.append(f"path: {' → '.join(map(cut, moves))}")
    if values:
        shown = [cut(value) for value in values[:MAX_VALUES]]
        more = f", and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
        lines.append(f"with {', '.join(shown)}{more}")
    return lines


def cut(text: str, most: int = MAX_VALUE) -> str:
    """Return a text of `most` characters; a mark stands in place of what is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def advice(finding: Finding) -> list[str]:
    """Return the help and the policy of a finding as lines, for formats that have no fields for them."""
    lines = [f"help: {finding.help}"] if finding.help else []
    return [*lines, f"policy: {finding.policy}"] if finding.policy else lines


def error_lines(error: AdvisedError) -> list[str]:
    """Return the lines that say why nothing was decided, and what to do about it."""
    return [error.message, *([f"help: {error.help}"] if error.help else [])]


def json_text(data: Any) -> str:
    """Return plain data as the text of a JSON file."""
    # A lone surrogate has no UTF-8, but JSON has an escape for it.
    return to_json(data, indent=2).encode("utf-8", "backslashreplace").decode() + "\n"


def counted(count: int, word: str, plural: str = "") -> str:
    """Return a number with its word; the plural is `plural`, or the word with an s."""
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def not_rechecked(result: RunResult) -> str:
    """Return how many proofs the second checker has not seen, in words; empty if it has seen all."""
    unseen = sum(one.verdict is Verdict.PROVED and not one.rechecked for one in result.properties)
    return f"{counted(unseen, 'proof')} not rechecked" if unseen else ""


def summary(result: RunResult, *, lists_all: bool = False) -> str:
    """Return the line that ends a report in text; `lists_all` if the report itself lists what is left out."""
    if result.error is not None:
        return safe(f"nothing was decided: {result.error.message}")
    stale = len(result.stale)
    waived = sum(entry.kind == "waiver" for entry in result.suppressed)
    unseen = not_rechecked(result)
    counts = (
        (result.skipped, f"{counted(result.skipped, 'file')} skipped"),
        (len(result.excluded), f"{counted(len(result.excluded), 'named path')} excluded by the configuration"),
        (len(result.not_literal), f"{counted(len(result.not_literal), 'program')} in Python not checked"),
        (result.hidden, f"{counted(result.hidden, 'finding')} hidden by the baseline"),
        (bool(unseen), unseen),
        (waived, f"{counted(waived, 'finding')} waived by a policy"),
        (stale, f"{stale} stale baseline {'entry' if stale == 1 else 'entries'}"),
    )
    aside = [words for count, words in counts if count]
    if (result.skipped or result.excluded or waived or stale) and not lists_all:
        aside.append("see `--statistics`")
    return _outcome(result) + (f" ({'; '.join(aside)})" if aside else "")


def _outcome(result: RunResult) -> str:
    programs = counted(result.programs, "program")
    if not result.findings:
        return f"{programs}: no findings" if result.programs else "no programs"
    errors, warnings = result.count(Severity.ERROR), result.count(Severity.WARNING)
    parts = [counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    if not result.programs:
        return " and ".join(parts)
    found = " and ".join(parts)
    if result.programs_with_findings:
        return f"{found} in {result.programs_with_findings} of {programs}"
    files = {finding.file for finding in result.findings}
    where = f"`{safe(files.pop())}`" if len(files) == 1 else f"{len(files):,} files"
    return f"{found} in {where}, none in {'the program' if result.programs == 1 else f'the {programs}'}"
