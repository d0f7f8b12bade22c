"""The model of a program: one workflow, loaded, checked for shape, and frozen."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, PrivateAttr

from stepward.vm.arguments import PATH, TEXT, require
from stepward.vm.language.budgets import MODEL_BUDGETS, ModelBudget
from stepward.vm.language.guardrails import Guardrail
from stepward.vm.language.layout import Layout
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.node import Edition, ExactNumber, Node
from stepward.vm.language.programs import CalledProgram, expanded
from stepward.vm.language.steps import AnyStep, Count, Step, VariableName
from stepward.vm.language.steps.wait import LONGEST_WAIT
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.document import Document
from stepward.vm.values import to_json

UNNAMED: Final = "unnamed"
"""The name of a program that says none."""


class Program(Node):
    """A workflow program. Load one with `load`, `from_yaml`, `from_json` or `from_dict`.

    Loading checks only the shape of a program; `stepward.validator` checks its behaviour.
    """

    name: str = UNNAMED
    description: str = ""
    version: str = ""
    language: Edition = 1
    inputs: dict[VariableName, TypeSpec] | None = None
    tools: dict[str, ToolSpec] | None = None
    programs: dict[VariableName, CalledProgram] | None = None
    guardrails: Annotated[tuple[Guardrail, ...], Field(strict=False)] = ()
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1)]
    max_steps: Count | None = None
    max_stalled_steps: Count | None = None
    max_tokens: Count | None = None
    max_cost: Annotated[ExactNumber, Field(gt=0)] | None = None
    timeout_seconds: Annotated[ExactNumber, Field(gt=0, le=LONGEST_WAIT)] | None = None

    kind: ClassVar[str] = "program"
    _document: Document | None = PrivateAttr(None)
    _layout: Layout | None = PrivateAttr(None)

    def __eq__(self, other: object) -> bool:
        """Return whether two programs have equal fields, wherever they were read from."""
        return isinstance(other, Program) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    @property
    def document(self) -> Document | None:
        """The document that the program was read from; None when it was built in code."""
        return self._document

    @property
    def layout(self) -> Layout:
        """All its steps by position, those of bodies and of called programs and the stages between items included."""
        # This is asked for everywhere, and pydantic's own way to a private attribute takes ten times as long.
        private = self.__pydantic_private__
        found: Layout | None = None if private is None else private["_layout"]
        # A changed copy has the layout of the original.
        if found is None or found.written is not self.steps or found.programs is not self.programs:
            found = self._layout = Layout(self.steps, expanded(self.steps, self.programs), self.programs)
        return found

    @property
    def whole_steps(self) -> tuple[AnyStep, ...]:
        """The program's own list, in which every call has the steps of the program that it calls."""
        return self.layout.whole

    @property
    def source_name(self) -> str:
        """The name of the file that the program was read from, or the program's own."""
        return self._document.name if self._document else f"<{self.name}>"

    @property
    def model_budgets(self) -> tuple[tuple[ModelBudget, Any], ...]:
        """The budgets that the program sets for its calls of models, each with its limit."""
        limits = ((budget, getattr(self, budget.field)) for budget in MODEL_BUDGETS)
        return tuple((budget, limit) for budget, limit in limits if limit is not None)

    def get_step(self, step_id: str) -> AnyStep | None:
        """Return the first step with an id in the program's own list, or None."""
        return next((step for step in self.steps if step.id == step_id), None)

    @classmethod
    def load(cls, path: str | FilePath) -> Program:
        """Return the program in a file: YAML, JSON, or Lisp (`.clj`, `.ptc`).

        Raises ProgramError if it holds none, OSError if there is no file.

        A file with several YAML documents holds several programs: read them with `load_all`.
        """
        return _only(cls.load_all(path), str(path))

    @classmethod
    def load_all(cls, path: str | FilePath) -> list[Program]:
        """Return the programs in a file, in order; raises the errors of `load`."""
        from stepward.vm.reading.files import read_file

        require(PATH, path=path)
        return [cls.from_document(document) for document in read_file(path)]

    @classmethod
    def from_yaml(cls, text: str, name: str = "<yaml>") -> Program:
        """Return the program in a YAML text; `name` stands for it in messages. Raises ProgramError if it holds none."""
        from stepward.vm.reading.yaml_format import read_yaml

        require(TEXT, text=text, name=name)
        return _only([cls.from_document(document) for document in read_yaml(name, text)], name)

    @classmethod
    def from_json(cls, text: str, name: str = "<json>") -> Program:
        """Return the program in a JSON text; `name` stands for it in messages. Raises ProgramError if it holds none."""
        from stepward.vm.reading.json_format import read_json

        require(TEXT, text=text, name=name)
        return cls.from_document(read_json(name, text))

    @classmethod
    def from_lisp(cls, text: str, name: str = "<lisp>") -> Program:
        """Return the program that a Lisp text compiles to; `name` stands for it in messages, and names the program.

        Raises ProgramError for a text that is no program, or can't be compiled.
        """
        from stepward.vm.lisp.compiling.document import read_lisp

        require(TEXT, text=text, name=name)
        return cls.from_document(read_lisp(name, text))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Program:
        """Return the program that plain data describes; raises ProgramError if it is not one. `data` is copied."""
        from stepward.vm.language.loading import build_program

        return build_program(data, None)

    @classmethod
    def from_document(cls, document: Document) -> Program:
        """Return the program in a document; raises ProgramError with every problem of its shape."""
        from stepward.vm.language.loading import build_program

        return build_program(document.data, document)

    def to_dict(self) -> dict[str, Any]:
        """Return the program as plain data that loads to an equal program, without fields that were not given."""
        return self.to_data()

    def to_json(self) -> str:
        """Return the program as JSON text that loads to an equal program."""
        return to_json(self.to_dict(), indent=2) + "\n"

    def to_yaml(self) -> str:
        """Return the program as YAML text that loads to an equal program."""
        from stepward.vm.reading.yaml_writer import to_yaml

        return to_yaml(self.to_dict())


def _only(programs: list[Program], name: str) -> Program:
    from stepward.vm.errors import Problem, ProgramError

    if len(programs) == 1:
        return programs[0]
    if not programs:
        raise ProgramError(name, (Problem("SW001", "there is no program here", "write one, or name another file"),))
    help = "split it, or read it with `Program.load_all`"
    raise ProgramError(name, (Problem("SW001", f"there are {len(programs)} programs here, not one", help),))
