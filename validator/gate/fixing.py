"""`--fix` and `--diff`: edits are made and checked again; an edit that does not remove its finding is dropped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Final

from stepward.validator.edits import apply_edits
from stepward.validator.files import absolute, why_not
from stepward.validator.findings import Edit, Finding, Severity
from stepward.vm.writing import put

if TYPE_CHECKING:
    from stepward.validator.result import RunResult

MAX_ROUNDS: Final = 50
"""Times that a file is edited and checked again: a fix may reveal another, and edits that touch are made in turn."""

CHOICES: Final = frozenset({"SW102", "SW106"})
"""Codes whose fix chooses one of several meanings; other fixes keep the meaning."""

_MARK: Final = b"\xef\xbb\xbf"

Check = Callable[[str, str], Sequence[Finding]]
"""Returns the findings, with their fixes, of a file (by its name in reports) with another text."""


@dataclass(frozen=True)
class FixedFile:
    """The text of a file before and after its fixes, and how many findings they remove."""

    file: str
    before: str
    after: str
    count: int


def fixed_files(result: RunResult, check: Check) -> list[FixedFile]:
    """Return the files of a run that its fixes change; nothing is written.

    Only reported findings are fixed, not those that are silenced, hidden or deselected.
    """
    fixed = []
    for file in sorted({finding.file for finding in result.findings if finding.fix is not None}):
        findings = [finding for finding in result.findings if finding.file == file]
        before = result.sources[file]
        after, count = _fixed(file, before, findings, check)
        if count:
            fixed.append(FixedFile(file, before, after, count))
    return fixed


def _fixed(file: str, text: str, findings: Sequence[Finding], check: Check) -> tuple[str, int]:
    """Return the text with all fixes made that remove their findings, and the number of these fixes."""
    count = 0
    refused: set[tuple[str, ...]] = set()
    for _ in range(MAX_ROUNDS):
        chosen = list(_compatible(finding for finding in findings if finding.fingerprint() not in refused))
        if not chosen:
            break
        edits = {edit for finding in chosen if finding.fix for edit in finding.fix.edits}
        edited = apply_edits(text, list(edits))
        new_findings = check(file, edited)
        failed = _failed(chosen, findings, new_findings)
        if failed:
            refused.update(finding.fingerprint() for finding in failed)
            continue
        text, findings, count = edited, new_findings, count + len(chosen)
    return text, count


def _compatible(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings whose fixes can be made together: their edits are equal or do not touch."""
    chosen: set[Edit] = set()
    for finding in findings:
        if finding.fix is None:
            continue
        edits = set(finding.fix.edits)
        if edits <= chosen or not any(_touch(one, other) for one in edits for other in chosen):
            chosen |= edits
            yield finding


def _touch(left: Edit, right: Edit) -> bool:
    return left.span[:2] <= right.span[2:] and right.span[:2] <= left.span[2:]


def _failed(chosen: Sequence[Finding], before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Return the findings whose fixes failed: they are still there, or the text can't be read any more.

    A fix that chooses one of several meanings must not cause a new error: if there is one, the last such fix failed.
    """
    if any(finding.code == "SW001" for finding in after):
        return list(chosen)
    was, is_now = (Counter(finding.fingerprint() for finding in findings) for findings in (before, after))
    failed = [finding for finding in chosen if is_now[finding.fingerprint()] >= was[finding.fingerprint()]]
    choices = [finding for finding in chosen if finding.code in CHOICES]
    if failed or not choices:
        return failed
    errors = (finding.fingerprint() for finding in after if finding.severity is Severity.ERROR)
    return choices[-1:] if any(fingerprint not in was for fingerprint in errors) else []


# -- files -------------------------------------------------------------------------------------------------------------


def write_fixed(fixed: FixedFile) -> str | None:
    """Replace the text of a file by the fixed one, in one step; return why that is not possible, or None.

    A byte order mark, line ends, permissions and links stay. A file that has changed since the check is not written.
    """
    path = FilePath(os.path.realpath(absolute(fixed.file)))
    try:
        content = path.read_bytes()
        if content.removeprefix(_MARK) != fixed.before.encode():
            return "it has changed meanwhile"
        if not os.access(path, os.W_OK):
            return "permission denied"
        mark, status = content[: len(content) - len(content.removeprefix(_MARK))], path.stat()
        owner = (status.st_uid, status.st_gid)
        put(path, mark + fixed.after.encode(), mode=status.st_mode & 0o7777, owner=owner)
    except OSError as error:
        return why_not(error)
    return None


def unified_diff(fixed: FixedFile) -> str:
    """Return the change of a file as a unified diff that `git apply` and `patch -p1` accept."""
    from difflib import unified_diff as diff

    name = fixed.file.lstrip("/")
    before, after = (text.split("\n") for text in (fixed.before, fixed.after))
    lines = []
    for line in diff(_ended(before), _ended(after), f"a/{name}", f"b/{name}"):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _ended(lines: list[str]) -> list[str]:
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
