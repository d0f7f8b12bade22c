"""The errors that Stepward raises, and the problem that one of them carries."""

from __future__ import annotations

from dataclasses import dataclass

from stepward.vm.reading.source import Correction, Place, Span


class StepwardError(Exception):
    """The base of every error that Stepward raises on purpose; catching it catches them all."""


class NoCheckerWarning(UserWarning):
    """A machine was made without a `checker` argument: it runs programs that `stepward check` refuses."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a document, in the words of the finding that it becomes.

    `code` is a finding code (`SW002`); `place` is the location in the document, and `span` that in the text if the
    reader knew it at once; `step` is the id of the step concerned, if any; `correction` is a safe fix,
    if one is known.
    """

    code: str
    message: str
    help: str = ""
    place: Place = Place()
    span: Span | None = None
    step: str | None = None
    related: tuple[tuple[Place, str], ...] = ()
    correction: Correction | None = None


class DocumentError(StepwardError):
    """A program or policy can't be read; `problems` lists everything that is wrong with it.

    Each problem has a message, a help, and a location in the document.
    """

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        assert problems, "an error without a problem has nothing to say"
        self.name = name
        self.problems = problems
        super().__init__("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        lines = []
        for problem in self.problems:
            where = f"{problem.span.line}:{problem.span.column}" if problem.span else problem.place.text()
            lines.append(f"{self.name}:{where}: {problem.code} {problem.message}")
        return lines


class ProgramError(DocumentError):
    """A document is not a program: it can't be read, or its fields are not those of a program."""


class PolicyError(DocumentError):
    """A document is not a policy: it can't be read, or its fields are not those of a policy."""


class ExpressionError(StepwardError):
    """A text is not an expression of the language.

    `start` and `end` count code points of `text`; `rewrite`, if not empty, is the whole expression, written so that it
    parses.
    """

    def __init__(self, text: str, message: str, start: int, end: int, help: str = "", rewrite: str = "") -> None:
        self.text = text
        self.message = message
        self.start = start
        self.end = end
        self.help = help
        self.rewrite = rewrite
        super().__init__(f"{message} (position {start + 1} of `{text}`)")


class EvaluationError(StepwardError):
    """An expression has no value in this state: a reference is undefined, or a value is of the wrong type.

    A step that reads the expression fails before it starts; a condition or a `set` that reads it ends the run.
    """


class UndefinedReferenceError(EvaluationError):
    """A reference is undefined where it is read; test it with `defined(...)` first, or assign it on every path."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"`${name}` is undefined")
