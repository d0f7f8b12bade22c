"""The functions of `check --tools`: what they owe to the manifests of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepward.validator.findings import Finding, Report, located
from stepward.validator.rules.functions import FunctionMismatch, KeyNotTaken
from stepward.vm.errors import DocumentError
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.tools import FunctionTools
from stepward.vm.reading.document import Document


class ToolModule:
    """The functions of a module; `name` is what messages call it."""

    def __init__(self, module: object, name: str) -> None:
        self.name = name
        self._tools = FunctionTools(module)

    def compared(self, report: Report, source: Program | Document, policies: Sequence[Policy]) -> Report:
        """Return the report on a program with the findings on its functions; unchanged if it is no program."""
        try:
            program = source if isinstance(source, Program) else Program.from_document(source)
        except DocumentError:
            return report
        meaning, document = Meaning(program, policies), program.document
        findings = [*FunctionMismatch().of(meaning, self._tools, self.name), *KeyNotTaken().of(meaning, self._tools)]
        together = (*report.findings, *located(findings, document, report.file))
        return replace(report, findings=tuple(sorted(together, key=Finding.sort_key)))
