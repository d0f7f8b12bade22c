"""Notes without the words of other libraries, which differ between their versions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes
from stepward.vm.errors import Problem

_SIGNS: Final = ("not readable as ", "is no pattern: ", "can be used: ", "why: ")
_FOREIGN: Final = re.compile(
    r"(not readable as (?:YAML|JSON)|is no pattern"
    r"|(?:can be used|why)(?=: (?:missing|invalid|no argument|bad|unexpected|trailing)))"
    r": .*?(?=, (?:help|hint|details): |$)",
    re.DOTALL,
)


class PlainNotes(Notes):
    """Notes in which the readers of YAML, JSON and patterns have no words of their own."""

    def add(self, *values: Any) -> None:
        """Add a note."""
        super().add(*values)
        if any(sign in self.texts[-1] for sign in _SIGNS):
            self.texts[-1] = _FOREIGN.sub(r"\1", self.texts[-1])


def steady(problem: Problem) -> Problem:
    """Return a problem without a place that differs between versions of Python."""
    return replace(problem, span=None) if "not readable as JSON" in problem.message else problem
