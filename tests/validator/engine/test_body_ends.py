"""What a branch or a call gives, read behind it: verdicts agree with every run of the machine, and none is left open.

`STEPWARD_MANY=1` tries every program.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from body_ends import CONDITIONS, OUTPUTS, PLACES, SHAPES, body_program, is_broken
from sizes import MANY
from stepward.validator import Verdict
from stepward.validator.engine.systems.ends import Ends
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import Assign, Literal
from stepward.validator.findings import Property
from stepward.validator.recheck.reading import Reading
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program, ProgramError
from stepward.vm.language.steps import EndStep
from stepward.vm.machine.plan import Plan

BY_DAY = 40
CASES = list(product(SHAPES, OUTPUTS, CONDITIONS, PLACES))
CHUNKS = 40 if MANY else 1


def verdict_of(data: dict[str, Any]) -> Property:
    found = ProgramValidator(Program.from_dict(data)).validate().properties
    return next(one for one in found if one.rule == "r")


def wrong_of(data: dict[str, Any]) -> str:
    """Return what is wrong with the verdict on a program; nothing where the machine does not take the program."""
    try:
        Plan(Program.from_dict(data))
    except ProgramError:
        return ""
    found = verdict_of(data)
    if found.evidence.reason == "the rule is vacuous":
        return ""
    due = Verdict.VIOLATED if is_broken(data) else Verdict.PROVED
    if found.verdict is not due:
        return f"{found.verdict.name}, not {due.name}: {found.evidence.reason}"
    return "" if due is Verdict.VIOLATED or found.rechecked else "not rechecked"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_a_body_gives_agrees_with_every_run(chunk: int) -> None:
    order = Random("ends").sample(CASES, len(CASES))
    chosen = order[chunk::CHUNKS] if MANY else order[:BY_DAY]
    wrong = {one: said for one in chosen if (said := wrong_of(body_program(one[0], OUTPUTS[one[1]], *one[2:])))}
    assert not wrong


RIGHT = [
    ("branch", "truths", "$m.output"),
    ("call", "truths", "$m.output"),
    ("branch", "texts", "$m.output == 'yes'"),
    ("call", "numbers", "$m.output > 0"),
    ("branch that a sibling reads", "objects", "$m.output.ok"),
    ("call in a branch", "a reference", "$m.output"),
    ("call in a for_each", "built objects", "$m.output.b == 1"),
    ("branch in a loop", "nested objects", "$m.output != 1 and $m.output.a != 1 and $m.output.a.ok"),
    ("call with a variable", "nothing", "defined($m.output)"),
    *((shape, "built lists", "len($m.output) == 1") for shape in SHAPES),  # the caller takes a text, too
]


@pytest.mark.parametrize(("shape", "outputs", "condition"), RIGHT)
def test_the_path_taken_inside_is_known(shape: str, outputs: str, condition: str) -> None:
    kept = verdict_of(body_program(shape, OUTPUTS[outputs], condition, "first"))
    assert (kept.verdict, kept.rechecked) == (Verdict.PROVED, True)


@pytest.mark.parametrize("shape", ["branch", "call"])
def test_a_wrong_output_of_the_engine_is_refused(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = body_program(shape, OUTPUTS["truths"], "$m.output", "second")
    assert verdict_of(data).verdict is Verdict.VIOLATED
    monkeypatch.setattr(Ends, "_value", lambda *_: Literal(False))
    found = verdict_of(data)
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


def test_an_output_of_a_visit_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way without an `end` leaves no output, even where an earlier visit has left one."""
    data = body_program("call in a loop", OUTPUTS["nothing"], "not defined($m.output)", "neither")
    assert verdict_of(data).verdict is Verdict.VIOLATED
    real = Ends.given

    def of_ends_alone(self: Ends, number: int, leaving: StepMove) -> Iterator[Assign]:
        return real(self, number, leaving) if isinstance(self.facts.flow.steps[number], EndStep) else iter(())

    monkeypatch.setattr(Ends, "given", of_ends_alone)
    found = verdict_of(data)
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


@pytest.mark.parametrize("kind", ["call", "for_each"])
def test_a_variable_has_the_value_that_a_body_binds_last(kind: str) -> None:
    """The second checker does not take it for one of the values that the variable had before."""
    data = body_program("call with a variable", (2, 3), "$m.output == 1", "first")
    data["steps"][0]["set"] = {"r": 1}
    data["steps"].insert(1, {"id": "copied", "type": "set", "set": {"w": "$r"}})
    if kind == "for_each":
        item = {"id": "i", "type": "tool", "tool": "ask"}
        data["steps"][2] = {"id": "m", "type": "for_each", "items": [1], "as": "x", "do": item, "output_key": "r"}
    reading = Reading(Program.from_dict(data))
    asked = reading.position["q"]
    assert {block.kind for block in reading.definite.blocks(("r",), asked)} != {"undefined"}
    assert any(not block.single for block in reading.definite.blocks(("r",), asked))
    assert not reading.definite.is_one_value(("r",), ("w",), asked)


def taken_or_not(output: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a program that pays where the output of a call is not taken."""
    called = [{"id": "give", "type": "end", "output": output}]
    steps = [
        {"id": "call", "type": "call", "program": "p", "returns": spec, "error_step": "pay", "next_step": "done"},
        {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
        {"id": "done", "type": "end"},
    ]
    return {
        "name": "t",
        "language": 2,
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "programs": {"p": {"steps": called}},
        "guardrails": [{"name": "r", "protects": {"tool": "pay"}, "requires": {"step": "done"}}],
        "steps": steps,
    }


@pytest.mark.parametrize(
    ("output", "spec", "due"),
    [
        (True, {"type": "boolean"}, Verdict.PROVED),
        ({"ok": True, "of": [1, 2]}, {"type": "object", "required": ["ok"]}, Verdict.PROVED),
        ("$$", {"enum": ["$"]}, Verdict.UNKNOWN),
        ("$$", {"enum": ["$$"]}, Verdict.VIOLATED),
        (None, {"type": "boolean"}, Verdict.VIOLATED),
        (1, {"type": "boolean"}, Verdict.VIOLATED),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}, Verdict.VIOLATED),
    ],
)
def test_a_caller_takes_a_value_of_its_type(output: Any, spec: dict[str, Any], due: Verdict) -> None:
    found = verdict_of(taken_or_not(output, spec))
    assert found.verdict is due
    assert found.rechecked is (due is Verdict.PROVED)
    assert (found.evidence.witness is not None) is (due is Verdict.VIOLATED)
