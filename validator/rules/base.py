"""What a rule is: a code, a name, a severity, a page of documentation, and a check."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from stepward.validator.findings import Evidence, Finding, Label, PolicyTag, Severity
from stepward.vm.reading.source import Correction, Place

if TYPE_CHECKING:
    from stepward.validator.context import Context

HEADINGS = ("What it does", "Why it is bad", "Example", "Use instead")
"""The headings of a rule's docstring, in this order."""


class Rule(ABC):
    """The base of all rules; a rule's docstring is its documentation."""

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    asks_engine: ClassVar[bool] = False
    """Whether the rule is checked after those that need no proof."""

    @abstractmethod
    def check(self, context: Context) -> Iterator[Finding]:
        """Yield what is wrong with the program, in any order."""

    def finding(
        self,
        message: str,
        help: str,
        place: Place,
        *,
        step: str | None = None,
        related: Iterable[Label] = (),
        evidence: Evidence | None = None,
        policy: PolicyTag | None = None,
        correction: Correction | None = None,
    ) -> Finding:
        """Return a finding of this rule; one at a stage of a for_each step is at that step."""
        if step is not None and " " in step:  # no step of a program has such an id
            stage, step = step, step.partition(" ")[0]
            message, help = (text.replace(f"`{stage}`", f"`{step}`") for text in (message, help))
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=message,
            help=help,
            place=place,
            step=step,
            related=tuple(related),
            evidence=evidence,
            policy=policy,
            correction=correction,
        )

    @classmethod
    def documentation(cls) -> str:
        """Return the rule's page: a first line, then a section for each of HEADINGS."""
        assert cls.__doc__ is not None, "a rule has documentation"
        return inspect.cleandoc(cls.__doc__)


class EngineRule(Rule):
    """A rule that asks the engine, and so may use up the time of the check."""

    asks_engine = True


class ReportedElsewhere(Rule):
    """A rule whose findings are made elsewhere: by the reader, by the gate, or at the end of the check."""

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002 - as rules are called
        """Yield nothing."""
        return iter(())
