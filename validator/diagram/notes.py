"""The notes beside a diagram: the guardrails, the findings, and the title of the path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepward.validator.diagram.picture import Note
from stepward.validator.diagram.words import rule_words, wrapped
from stepward.validator.report.text import counted
from stepward.vm.language.guardrails import protected
from stepward.vm.language.selectors import matches
from stepward.vm.language.steps import BranchStep, InvokeStep

if TYPE_CHECKING:
    from stepward.validator.diagram.marks import Marks
    from stepward.vm.language.meaning import Meaning
    from stepward.vm.language.steps import AnyStep

COLUMNS: Final = 96
BRIEF_COLUMNS: Final = 190
MAX_RULES: Final = 24
MAX_FINDINGS: Final = 10


def notes_of(meaning: Meaning, marks: Marks, *, is_brief: bool = False) -> Iterator[Note]:
    """Yield the notes of a diagram; where it is brief, the guardrails have their names alone."""
    if rules := dict(_rules(meaning)):
        if is_brief:
            words = f"{counted(len(rules), 'guardrail')}: {', '.join(rules)}"
            yield Note(("", *wrapped(words, BRIEF_COLUMNS, by_clause=False)))
        else:
            entries = ["\n".join(_entry(name, demand)) for name, demand in rules.items()]
            yield Note(("guardrails", *_at_most(entries, MAX_RULES, "guardrail")))
    if marks.findings:
        entries = [
            "\n".join(_entry(f"{one.severity} {one.code}" + (f" at {one.step}" if one.step else ""), one.message))
            for one in sorted(marks.findings, key=lambda one: one.severity != "error")
        ]
        heading = counted(len(entries), "finding")
        yield Note((heading, *_at_most(entries, MAX_FINDINGS, "finding")))
    if marks.walk is not None:
        yield Note(
            ("numbered path", *(f"  {line}" for line in wrapped(marks.walk.title, COLUMNS - 6, by_clause=False)))
        )


def _rules(meaning: Meaning) -> Iterator[tuple[str, str]]:
    """Yield the names and demands of the guardrails of the program and its bodies, and of policies that protect one of
    its steps."""
    for rule, policy in meaning.rules:
        if policy is None or any(matches(selector, meaning) for selector in protected(rule)):
            name = rule.name if policy is None else f"{rule.name} (policy {policy.policy})"
            yield name, rule_words(rule)
    for rule, owner in meaning.body_rules:
        yield rule.name + _where(meaning.flow.steps[owner]), rule_words(rule)


def _where(step: AnyStep) -> str:
    """Return in which body a guardrail counts; the name of a rule of a called program begins with the call."""
    if isinstance(step, InvokeStep):
        return ""
    return f" (branch {step.id})" if isinstance(step, BranchStep) else f" (each item of {step.id})"


def _entry(name: str, words: str) -> Iterator[str]:
    """Yield the lines of one entry: those after its first are indented."""
    first, *rest = wrapped(f"{name}: {words}", COLUMNS - 6, most=4, by_clause=False)
    yield f"  {first}"
    yield from (f"      {line}" for line in rest)


def _at_most(entries: list[str], most: int, word: str) -> Iterator[str]:
    for entry in entries[:most]:
        yield from entry.split("\n")
    if len(entries) > most:
        yield f"  … and {counted(len(entries) - most, word)} more"
