"""Differential: where the engine says that no branch is taken, the machine must find none."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from condition_lists import (
    FEW,
    MANY,
    few_atom,
    lists,
    many_atom,
    program,
)
from machines import unchecked
from paths import BAD
from stepward.validator import ProgramValidator
from stepward.validator.engine.values.simplest import simplest
from stepward.validator.engine.witnesses.admitted_values import completed
from stepward.validator.engine.witnesses.replay import replay
from stepward.vm import Meaning, MemoryJournal, ModelReply, Program
from stepward.vm.values import freeze


class Outside:
    """Tools and a model that give what a finding's state says, and the simplest value of their type otherwise."""

    def __init__(self, checked: Program, state: dict[str, Any]) -> None:
        self.meaning = Meaning(checked)
        self.roots: dict[str, Any] = {}
        for reference, value in state.items():
            name, *fields = reference.removeprefix("$").split(".")
            if fields:
                self.roots.setdefault(name, {})[fields[0]] = value
            else:
                self.roots[name] = value

    def value(self, source: Any, names: list[str]) -> Any:
        spec = self.meaning.typing.effective(source)
        known = [self.roots[name] for name in names if name in self.roots]
        return completed(freeze(known[0]), spec) if known else simplest(spec)[0]

    @property
    def inputs(self) -> dict[str, Any]:
        given = self.meaning.program.inputs or {}
        return {name: self.value(self.meaning.names.variables[name][0], [name]) for name in given}

    def has(self, name: str) -> bool:
        return True

    def answer(self, step: str) -> Any:
        names = [name for name, sources in self.meaning.names.variables.items() if sources[0].name == step]
        return self.value(self.meaning.names.outputs[step], names)

    async def call(self, name: str, args: Any, context: Any) -> Any:
        return self.answer(context.step)

    async def complete(self, request: Any) -> ModelReply:
        return ModelReply(self.answer(request.step))


def assert_the_machine_agrees(checked: Program) -> int:
    """Run what each SW302 says on the machine: the run ends `uncovered` there. Return how many there were."""
    found = [one for one in ProgramValidator(checked).validate().findings if one.code == "SW302"]
    for finding in found:
        assert finding.evidence is not None
        outside = Outside(checked, dict(finding.evidence.state))
        run = unchecked(outside, outside, MemoryJournal()).run_sync(checked, outside.inputs)
        assert (run.status, run.reason, run.step) == ("FAILED", "uncovered", finding.step), (finding, run)
    return len(found)


def test_the_machine_finds_no_branch_where_a_finding_says_so() -> None:
    agreed = 0
    for conditions in itertools.chain(lists(9, 40, few_atom), lists(10, 40, many_atom)):
        inputs = FEW if "$n" in str(conditions) or "$e" in str(conditions) else MANY
        if not any(f"${name}" in str(conditions) for name in (MANY if inputs is FEW else FEW)):
            agreed += assert_the_machine_agrees(program(inputs, conditions))
    assert agreed >= 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", sorted((BAD / "SW302").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_machine_finds_no_branch_in_the_bad_programs(path: Path) -> None:
    """What comes before the condition may have a say there, so that the witness is asked, and not the state alone."""
    (found,) = [one for one in ProgramValidator(Program.load(path)).validate().findings if one.code == "SW302"]
    assert found.evidence is not None
    assert found.evidence.witness is not None
    assert replay(found.evidence.witness).confirmed
