"""The verdict on what a model has proposed: the gate's, after checks that only plans need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from stepward.validator.gateway.judging import Judged
from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.planner.brief import Brief
from stepward.validator.planner.prompts import NOTICE
from stepward.validator.planner.surface import program_text
from stepward.vm.errors import ProgramError
from stepward.vm.language.program import Program
from stepward.vm.language.steps import LlmCall
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.reading.yaml_writer import to_yaml
from stepward.vm.unseen import unseen

Gate = Callable[[str], Awaitable[Judged]]
"""Judges the text of a program under the policies of a brief."""

_HEAD: Final = ("name", "description", "version", "language", "inputs", "tools", "programs", "guardrails")

_OPERATORS: Final = {
    "system": "leave `system` out, and ask in `prompt`",
    "model": "leave `model` out: the operator says which model is asked",
}
"""The fields of `llm` steps that a model must not set, and what to do."""


@dataclass(frozen=True)
class GateVerdict:
    """The answer of the gate, in the form for models; `program` is the text of an accepted program, else empty."""

    answer: str
    program: str = ""


async def verdict_on(brief: Brief, reply: str, gate: Gate) -> GateVerdict:
    """Return the verdict on the reply of a model.

    An accepted program is not the text of the model: it is written anew, with the name of the brief, with the facts of
    its tools, and with a `system` text of ours. The gate judges what is written, too.
    """
    try:
        judged = await gate(program_text(reply))
        if judged.program is None:
            return GateVerdict(judged.answer)
        _require_inputs(judged.program, brief)
        _require_free(judged.program)
        text = completed(judged.program, brief)
        _require_legible(text)
        _require_continuing(text, brief)
        final = await gate(text)
        return GateVerdict(final.answer, "" if final.program is None else text)
    except (RunRefused, RequestRefused) as error:
        return GateVerdict(f"refused: {error}\n{f'change: {error.help}' if error.help else ''}\n")


def completed(program: Program, brief: Brief) -> str:
    """Return the text of a program with its name, the facts of the tools that it calls, and our `system` texts."""
    data = (program if brief.before is None else brief.before.within(program)).to_dict()
    called = {call.tool for step in program.layout.steps for _, call in step.calls if not isinstance(call, LlmCall)}
    data["name"] = brief.name
    data["tools"] = {tool: spec.to_data() for tool, spec in brief.manifest.items() if tool in called}
    return to_yaml(_ordered(_with_notices(data), _HEAD))


def _with_notices(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a program or a branch with our `system` text in all `llm` steps, also of what it calls."""
    found = dict(data)
    if "programs" in data:
        found["programs"] = {name: _with_notices(one) for name, one in found.pop("programs").items()}
    found["steps"] = [_completed_step(step) for step in found.pop("steps")]
    return found


def _completed_step(data: dict[str, Any]) -> dict[str, Any]:
    if data["type"] == "llm":
        data["system"] = NOTICE
    for name in ("parallel_steps", "steps"):
        if name in data:
            data[name] = [_completed_step(part) for part in data.pop(name)]
    if "branches" in data:
        data["branches"] = {name: _with_notices(branch) for name, branch in data.pop("branches").items()}
    if "do" in data:
        data["do"] = _completed_step(data.pop("do"))
    return _ordered(data, ("id", "type", "tool", "args", "prompt", "system"))


def _ordered(data: dict[str, Any], first: tuple[str, ...]) -> dict[str, Any]:
    """Return data with some fields first, as people write them; the others keep their order."""
    return {**{name: data[name] for name in first if name in data}, **data}


def _require_inputs(program: Program, brief: Brief) -> None:
    """Raise RequestRefused if the inputs of a program have other names or types than those of the brief."""
    if brief.inputs is None:
        return
    names = ", ".join(f"`{name}`" for name in brief.inputs) or "none"
    if program.inputs is None:
        raise RequestRefused("the program has no section `inputs`", f"add it, with those that it reads of {names}")
    for name, spec in program.inputs.items():
        if name not in brief.inputs:
            raise RequestRefused(f"the program has an input `{name}` that it can't get", f"the inputs are {names}")
        if spec != brief.inputs[name]:
            raise RequestRefused(f"the type of input `{name}` is another one", "copy it from `inputs`")


def _require_continuing(text: str, brief: Brief) -> None:
    """Raise RequestRefused if a program can't continue the run before."""
    if brief.before is None:
        return
    try:
        brief.before.plan(Program.from_yaml(text))
    except (RunRefused, ProgramError) as error:
        raise RequestRefused(str(error), "read the inputs that `run before` lists, and do only what is left") from None


def _require_free(program: Program) -> None:
    """Raise RequestRefused if an `llm` step has a field that is the operator's."""
    for call in _asking(program):
        for name, help in _OPERATORS.items():
            if getattr(call, name, None) is not None:
                raise RequestRefused(f"step `{call.id}` has a field `{name}`", help)


def _require_legible(text: str) -> None:
    """Raise RequestRefused if a program would not be shown as it is: a person may read it before it runs."""
    found = unseen(text)
    if found is not None:
        code = f"U+{ord(found):04X}"
        why = "which nobody sees, or which changes how a text is shown"
        raise RequestRefused(f"the program has the character {code}, {why}", "leave it out")


def _asking(program: Program) -> Iterator[Any]:
    return (call for step in program.layout.steps for _, call in step.calls if isinstance(call, LlmCall))
