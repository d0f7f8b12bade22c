"""Ignore comments, `# stepward: ignore[SW401] reason`, and findings on comments that silence nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from stepward.validator.failures import CODE as INTERNAL
from stepward.validator.findings import Finding
from stepward.validator.gate.settings import near_code
from stepward.vm.reading.document import Format
from stepward.vm.reading.source import LineIndex, Place, Span

UNUSED: Final = "SW701"
IDLE: Final = frozenset({UNUSED, "SW702", "SW703", "SW704"})
"""The findings on what is meant to silence or to allow something, and has no effect. No baseline hides them."""

_HINT: Final = re.compile(r"[#;]\s*stepward:\s*ignore")
_AFTER: Final = r"\s*stepward:\s*ignore\b\s*(?:\[(?P<codes>[^\]\n]*)\])?(?P<reason>[^\n]*)"
_COMMENT: Final = re.compile("#" + _AFTER)
_IN_LISP: Final = re.compile(";" + _AFTER)
_CODE: Final = re.compile(r"[^\s,]+")
_LISP: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\\.|(?P<comment>;[^\n]*)', re.DOTALL)
_HOW: Final = "write `# stepward: ignore[CODE] reason`"


@dataclass(frozen=True, slots=True)
class Comment:
    """One ignore comment: its codes, its reason, and the line whose findings it silences (`target`)."""

    span: Span
    target: int
    codes: tuple[tuple[str, Span], ...]
    reason: str


@dataclass
class Silenced:
    """The findings of a file after silencing: the remaining ones, the silenced ones with the reasons of their comments,
    and complaints about comments."""

    remaining: list[Finding] = field(default_factory=list)
    silenced: list[tuple[Finding, str]] = field(default_factory=list)
    complaints: list[Finding] = field(default_factory=list)


def read_comments(text: str, format: Format) -> tuple[Comment, ...]:
    """Return the ignore comments of a text, in order; one inside a text value does not count."""
    if not _HINT.search(text) or format == "json":
        return ()
    lines = LineIndex(text)
    readers = {"python": lambda: _python_comments(text, lines), "lisp": lambda: _lisp_comments(text)}
    starts = list(readers.get(format, lambda: _yaml_comments(text))())
    alone = {lines.position(start)[0] for start, is_alone in starts if is_alone}
    pattern = _IN_LISP if format == "lisp" else _COMMENT
    return tuple(comment for start, _ in starts if (comment := _comment(pattern, text, start, lines, alone)))


def _comment(pattern: re.Pattern[str], text: str, start: int, lines: LineIndex, alone: set[int]) -> Comment | None:
    match = pattern.search(text, start, _end_of_line(text, start))
    if match is None:
        return None
    target = lines.position(start)[0]
    while target in alone:
        target += 1
    codes = () if match["codes"] is None else tuple(_CODE.finditer(text, *match.span("codes")))
    return Comment(
        lines.span(match.start(), match.start() + len(match.group().rstrip())),
        target,
        tuple((code.group(), lines.span(*code.span())) for code in codes),
        match["reason"].strip(" \t\r:-–—"),
    )


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _python_comments(text: str, lines: LineIndex) -> Iterator[tuple[int, bool]]:
    """Yield the offset of each comment, and whether it stands alone on its line."""
    import tokenize

    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                yield lines.offset(line, column + 1), not token.line[:column].strip()
    except (tokenize.TokenError, SyntaxError):
        return  # the text after the error is not read, so nothing there is silenced


def _lisp_comments(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the place behind the semicolons of each comment of a Lisp text."""
    for match in _LISP.finditer(text):
        if match["comment"]:
            before = text.rfind("\n", 0, match.start()) + 1
            yield match.start(), not text[before : match.start()].strip()


def _yaml_comments(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the comments of a YAML text: between its tokens are only white space and comments."""
    import yaml

    end = 0
    try:
        for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            yield from _comments_between(text, end, token.start_mark.index)
            if (
                isinstance(token, yaml.ScalarToken)
                and text[token.start_mark.index : token.start_mark.index + 1] in "|>"
            ):
                yield from _comments_between(text, *_header(text, token.start_mark.index))
            end = max(end, token.end_mark.index)
    except yaml.YAMLError:
        return  # as above
    yield from _comments_between(text, end, len(text))


def _header(text: str, start: int) -> tuple[int, int]:
    """Return the rest of the line on which a block scalar starts: it may have a comment, inside the token."""
    return start + 1, _end_of_line(text, start)


def _comments_between(text: str, start: int, end: int) -> Iterator[tuple[int, bool]]:
    position = text.find("#", start, end)
    while position >= 0:
        before = text[text.rfind("\n", 0, position) + 1 : position]
        yield position, not before.strip()
        position = text.find("#", _end_of_line(text, position), end)


# -- silencing ---------------------------------------------------------------------------------------------------------


def silence(
    findings: Iterable[Finding], comments: Iterable[Comment], file: str, is_fixed: Callable[[Finding], bool]
) -> Silenced:
    """Split the findings of a file by what its comments silence, and complain about each idle comment.

    A finding for which `is_fixed` is true is never silenced.
    """
    all_findings = list(findings)
    result = Silenced()
    by_line: dict[tuple[int, str], list[Finding]] = {}
    for finding in all_findings:
        by_line.setdefault(_key(finding), []).append(finding)
    reasons: dict[tuple[int, str], str] = {}
    for comment in comments:
        for code, span in _usable(comment, file, result.complaints):
            on_line = by_line.get((comment.target, code), [])
            if on_line and not all(map(is_fixed, on_line)):
                reasons.setdefault((comment.target, code), comment.reason)
                continue
            message, help = _why_idle(code, on_line)
            result.complaints.append(complaint(message, help, file, span))
    for finding in all_findings:
        if _key(finding) in reasons and not is_fixed(finding):
            result.silenced.append((finding, reasons[_key(finding)]))
        else:
            result.remaining.append(finding)
    return result


def _key(finding: Finding) -> tuple[int, str]:
    return (finding.span.line if finding.span else 0, finding.code)


def _usable(comment: Comment, file: str, complaints: list[Finding]) -> Iterator[tuple[str, Span]]:
    """Yield the codes that a comment may silence; the problems of the others are added to the complaints."""
    from stepward.validator.rules.registry import RULE_BY_CODE

    if not comment.codes:
        complaints.append(
            complaint("an ignore comment names no code, so it suppresses nothing", _HOW, file, comment.span)
        )
        return
    if not re.search(r"\w", comment.reason):
        help = f"give the reason after the bracket: {_HOW}"
        message = "an ignore comment without a reason suppresses nothing"
        complaints.append(complaint(message, help, file, comment.span))
        return
    for code, span in comment.codes:
        if code not in RULE_BY_CODE:
            complaints.append(complaint(f"`{code}` is not a code", near_code(code), file, span))
        elif code == UNUSED:
            help = f"remove the comment, or leave the code out with `--ignore {UNUSED}`"
            complaints.append(complaint(f"`{UNUSED}` can't be silenced by a comment", help, file, span))
        else:
            yield code, span


def _why_idle(code: str, fixed: list[Finding]) -> tuple[str, str]:
    if code == INTERNAL and fixed:
        return f"`{code}` is an internal error and can't be silenced", "remove the comment"
    policy = next((finding.policy for finding in fixed if finding.policy), None)
    if policy is not None:
        help = "fix the finding; only a waiver in the policy can suppress it"
        return f"`{code}` comes from the policy `{policy}` here and can't be silenced", help
    if fixed:
        help = "fix the finding; until then the policies can't be judged"
        return f"`{code}` can't be silenced where a policy is in force", help
    return f"the ignore comment for `{code}` suppresses nothing", "remove it"


def complaint(message: str, help: str, file: str, span: Span | None) -> Finding:
    """Return a finding on a comment or an entry that is meant to silence findings and does not."""
    from stepward.validator.rules.registry import RULE_BY_CODE

    return replace(RULE_BY_CODE[UNUSED]().finding(message, help, Place()), file=file, span=span)
