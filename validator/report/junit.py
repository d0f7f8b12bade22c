"""JUnit's XML: a suite for each file, in which findings are tests that fail, and proofs are tests that pass.

There is no standard; this module writes what all readers accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from stepward.validator.findings import Finding, Property, Verdict
from stepward.validator.report.text import advice, error_lines, position, safe, story, values_of

if TYPE_CHECKING:
    from stepward.validator.result import RunResult


def render(result: RunResult) -> str:
    """Return the run as XML text."""
    root = Element("testsuites", name="stepward")
    for file in sorted({*result.files, *(finding.file for finding in result.findings)}):
        _add_suite(root, file, result)
    if result.error is not None:
        suite = SubElement(root, "testsuite", name="stepward")
        error = SubElement(
            _add_case(suite, "the check"), "error", type="undecided", message=_text(result.error.message)
        )
        error.text = _text(*error_lines(result.error))
        _count(suite)
    _count(root)
    return _written(root)


def _written(root: Element) -> str:
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add_suite(root: Element, file: str, result: RunResult) -> None:
    suite = SubElement(root, "testsuite", name=_text(file))
    findings = [finding for finding in result.findings if finding.file == file]
    for finding, values in zip(findings, values_of(findings), strict=True):
        _add_finding(suite, finding, values, fails=finding in result.failing)
    for entry in result.properties:
        if entry.file == file and entry.verdict is Verdict.PROVED:
            _add_case(suite, _proof(entry))
    if not findings:
        _add_case(suite, "no findings")
    _count(suite)


def _proof(entry: Property) -> str:
    owner = f" of policy `{entry.policy}`" if entry.policy else ""
    return f"{entry.name} `{entry.rule}`{owner} is proved{'' if entry.rechecked else ', and not rechecked'}"


def _add_finding(suite: Element, finding: Finding, values: Sequence[str], *, fails: bool) -> None:
    at = f" at step {finding.step}" if finding.step else ""
    case = _add_case(suite, f"{finding.code} {finding.name}{at}")
    if finding.span:
        case.set("file", _text(finding.file))
        case.set("line", str(finding.span.line))
    where = finding.file + position(finding.place, finding.span)
    text = _text(finding.message, *story(finding, values), *advice(finding), where)
    if fails:
        failure = SubElement(case, "failure", type=finding.code, message=_text(finding.message))
        failure.text = text
    else:
        # A finding that does not fail the gate must not fail the pipeline either.
        SubElement(case, "system-out").text = f"{finding.severity}: {text}"


def _text(*lines: str) -> str:
    """Return lines as one text, without the characters that XML can't have."""
    return "\n".join(safe(line) for line in lines)


def _add_case(suite: Element, name: str) -> Element:
    """Add a test, with a name of its own: of two tests with the same name some readers show only the last."""
    name = _text(name)
    same = sum(1 for case in suite if case.get("name", "").partition(" (")[0] == name)
    name += f" ({same + 1})" * bool(same)
    return SubElement(suite, "testcase", name=name, classname=suite.get("name", ""))


def _count(holder: Element) -> None:
    """Set the numbers of tests, failures and errors of an element."""
    holder.set("tests", str(sum(1 for _ in holder.iter("testcase"))))
    holder.set("failures", str(sum(1 for _ in holder.iter("failure"))))
    holder.set("errors", str(sum(1 for _ in holder.iter("error"))))


# -- attacks -----------------------------------------------------------------------------------------------------------


class Mark(NamedTuple):
    """An outcome of a test that did not just pass: `type` names what failed, `story` are the lines that show it."""

    tag: Literal["skipped", "error", "failure"]
    message: str
    type: str | None = None
    story: Sequence[str] = ()


class Test(NamedTuple):
    """A test of a campaign, its seconds and its marks; without marks it passed."""

    name: str
    seconds: float
    marks: Sequence[Mark]


def suites(title: str, tests: Mapping[str, Sequence[Test]]) -> str:
    """Return the tests of a campaign, by suite, as XML text."""
    root = Element("testsuites", name=title)
    for name, among in tests.items():
        suite = SubElement(root, "testsuite", name=safe(name))
        for test in among:
            _add_test(suite, test)
        suite.set("tests", str(len(among)))
        for count, tag in (("failures", "failure"), ("skipped", "skipped"), ("errors", "error")):
            suite.set(count, str(sum(1 for _ in suite.iter(tag))))
        suite.set("time", f"{sum(test.seconds for test in among):.3f}")
    return _written(root)


def _add_test(suite: Element, test: Test) -> None:
    case = SubElement(suite, "testcase", name=test.name, classname=suite.get("name", ""))
    case.set("time", f"{test.seconds:.3f}")
    for mark in test.marks:
        about = {} if mark.type is None else {"type": mark.type}
        SubElement(case, mark.tag, about, message=safe(mark.message)).text = "\n".join(map(safe, mark.story))
