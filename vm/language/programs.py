"""Called programs: what a program lists under `programs`, and its steps with those of the programs that they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import Field

from stepward.vm.language.guardrails import Guardrail
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.node import ExactNumber, LatestEdition, Node
from stepward.vm.language.prefixes import Prefix
from stepward.vm.language.record import Record
from stepward.vm.language.steps import AnyStep, Count, ForEachStep, InvokeStep, ParallelStep, Step, VariableName
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap

if TYPE_CHECKING:
    pass


class CalledProgram(Node):
    """A program that other programs call. It has the fields of a program; budgets are those of the run.

    `file` is where its content was read from; a document that a machine stores has the content, too.
    """

    file: str | None = None
    name: str = ""
    description: str = ""
    version: str = ""
    language: LatestEdition = 2
    inputs: dict[VariableName, TypeSpec] = Field(default_factory=dict)
    tools: dict[str, ToolSpec] | None = None
    programs: dict[VariableName, CalledProgram] | None = None
    guardrails: Annotated[tuple[Guardrail, ...], Field(strict=False)] = ()
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1)]
    max_steps: Count | None = None
    max_stalled_steps: Count | None = None
    max_tokens: Count | None = None
    max_cost: Annotated[ExactNumber, Field(gt=0)] | None = None
    timeout_seconds: Annotated[ExactNumber, Field(gt=0)] | None = None

    kind: ClassVar[str] = "called program"


_R = TypeVar("_R", bound=Record)
Programs = Mapping[str, CalledProgram]


class Scope(NamedTuple):
    """The programs that a list of steps can call, each with its path in the document and the scope of its own steps."""

    known: Mapping[str, tuple[CalledProgram, Path, Scope]]

    def of(self, program: CalledProgram, path: Path) -> Scope:
        """Return the scope of the steps of a program: its own programs, and those around it."""
        return opened(program.programs or {}, path, self) if program.programs else self


def opened(programs: Programs, path: Path, around: Scope | None = None) -> Scope:
    """Return the scope of a document, or of a program, that lists programs."""
    known = dict(around.known) if around is not None else {}
    scope = Scope(known)
    for name, program in programs.items():
        known[name] = (program, (*path, "programs", name), scope)
    return scope


def expanded(steps: tuple[AnyStep, ...], programs: Programs | None) -> tuple[AnyStep, ...]:
    """Return the steps of a program, which lists programs, in which every call has the steps of what it calls.

    The calls are known and have no cycles: see `refused_calls`.
    """
    return _all(steps, opened(programs, ())) if programs else steps


def _all(steps: Sequence[AnyStep], scope: Scope) -> tuple[AnyStep, ...]:
    return tuple(_expanded(step, scope) for step in steps)


def _expanded(step: AnyStep, scope: Scope) -> AnyStep:
    """Return a step with the steps of what it calls; one without calls is returned as it is."""
    if isinstance(step, InvokeStep):
        found = scope.known.get(step.program)
        if found is None:
            return step
        program, path, around = found
        inner = Prefix(f"{step.id}/", program.language)
        return step.replace(
            steps=_all(tuple(map(inner.step, program.steps)), around.of(program, path)),
            guardrails=tuple(map(inner.rule, program.guardrails)),
            declared=FrozenMap(program.inputs),
            home=path,
            names=tuple(filter(None, dict.fromkeys((program.name, step.program)))),
            file=program.file or "",
            tools=FrozenMap(program.tools or {}),
        )
    if isinstance(step, ForEachStep) and step.steps is not None:
        return _changed(step, "steps", _all(step.steps, scope))
    if isinstance(step, ParallelStep) and step.branches:
        branches = {
            name: _changed(branch, "steps", _all(branch.steps, scope)) for name, branch in step.branches.items()
        }
        return _changed(step, "branches", FrozenMap(branches))
    return step


def _changed(record: _R, field: str, value: Any) -> _R:
    return record if getattr(record, field) == value else record.replace(**{field: value})


def every_step(steps: Sequence[AnyStep]) -> Iterator[AnyStep]:
    """Yield the steps of a list and of the bodies in it, but not those of called programs."""
    for step in steps:
        yield step
        if isinstance(step, ForEachStep):
            yield from every_step(step.steps or ())
        if isinstance(step, ParallelStep):
            for branch in step.branches.values():
                yield from every_step(branch.steps)
