"""Witnesses of what a question leaves out: the run goes its own way there, and values are made that types demand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from called_programs import called_program
from paths import ROOT
from sizes import size
from small_programs import small_program

sys.path.insert(0, str(ROOT / "benchmarks"))

from twins import TWINS, Twins

from stepward.validator import ProgramValidator
from stepward.validator.context import Context
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.witnesses import replay, synthesis, walk
from stepward.validator.findings import Finding, Report
from stepward.vm import Policy, Program
from stepward.vm.machine import plan


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of records of each run that was made to confirm a witness."""
    found: list[int] = []
    real = replay.Replayer._replayed

    def replayed(self: Any, witness: Any, number: int) -> Any:
        before = self.steps
        seen = real(self, witness, number)
        found.append(self.steps - before)
        return seen

    monkeypatch.setattr(replay.Replayer, "_replayed", replayed)
    return found


def checked(data: dict[str, Any] | str, *policies: dict[str, Any]) -> Report:
    program = Program.from_yaml(data) if isinstance(data, str) else Program.from_dict(data)
    return ProgramValidator(program, policies=[Policy.from_dict(policy) for policy in policies]).validate()


def the_violation(report: Report) -> Finding:
    (found,) = [finding for finding in report.findings if "SW401" <= finding.code <= "SW406"]
    assert found.evidence is not None
    assert found.evidence.witness is not None, found.message
    assert replay.replay(found.evidence.witness).confirmed
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins.name)
@pytest.mark.parametrize("size", [60, 300])
def test_conditions_that_a_rule_does_not_hang_on_cost_no_runs(twins: Twins, size: int, runs: list[int]) -> None:
    report = checked(twins.program(size, breaks=True))
    found = the_violation(report)
    assert found.code == "SW401"
    assert len(runs) == 2, "one to confirm the witness, and the one of this test"
    assert [one.verdict.value for one in report.properties if one.rule == "approved-first"] == ["violated"]


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: twins.name)
def test_the_other_twin_keeps_the_rule(twins: Twins) -> None:
    report = checked(twins.program(60, breaks=False))
    assert [one.verdict.value for one in report.properties if one.rule == "approved-first"] == ["proved"]
    assert not [finding for finding in report.findings if finding.code.startswith("SW4")]


def test_the_machine_takes_the_meaning_of_a_program_from_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_again(*_: Any) -> Any:
        raise AssertionError("the meaning is known")

    monkeypatch.setattr(plan, "meaning_under", made_again)
    report = checked(TWINS[0].program(60, breaks=True))
    assert [one.evidence.witness is not None for one in report.properties if one.rule == "approved-first"] == [True]
    with pytest.raises(AssertionError, match="the meaning is known"):
        plan.Plan(Program.from_dict(TWINS[0].program(60, breaks=True)))


def moves_of(program: Program) -> Iterator[tuple[tuple[StepMove, ...], tuple[StepMove, ...]]]:
    """Yield all moves of each step, and those after which a run goes on, each made for itself."""
    moves, others = Context(program).proofs.engine.moves, Context(program).proofs.engine.moves
    for number in range(len(program.layout.steps)):
        yield moves.of(number), others.onward(number)


def shown(moves: tuple[StepMove, ...]) -> list[object]:
    """Return moves without their decisions and expressions, of which each is an object of its own."""
    return [one._replace(guards=(), assigns=tuple(each.root for each in one.assigns)) for one in moves]


def test_the_moves_after_which_a_run_goes_on_are_those_of_all_moves() -> None:
    made = [Program.from_dict(small_program(seed)) for seed in range(size(18, 60))]
    made += [Program.from_dict(called_program(seed)) for seed in range(size(10, 20))]
    pairs = [pair for program in made for pair in moves_of(program)]
    assert all(shown(onward) == shown(tuple(one for one in all_ if one.transition.to >= 0)) for all_, onward in pairs)
    assert sum(len(onward) < len(all_) for all_, onward in pairs) > size(40, 100)


def test_without_a_walk_the_branches_beside_are_guessed(monkeypatch: pytest.MonkeyPatch, runs: list[int]) -> None:
    def lost(*_: Any) -> Any:
        raise walk.Unsure("nobody knows")

    monkeypatch.setattr(walk.Walker, "walk", lost)
    checked(TWINS[0].program(60, breaks=True))
    assert len(runs) > 10


LOOP = """
name: loop
inputs: {}
tools:
  ask:
    effect: read
    returns: {type: object, properties: {state: {enum: [open, shut]}, n: {type: integer}}, required: [state]}
  rate: {effect: read, returns: {type: integer}}
  pay: {effect: write}
  approve: {effect: none}
guardrails: [{name: first, protects: {tool: pay}, requires: {tool: approve}}]
max_steps: 200
steps:
  - {id: ask, type: tool, tool: ask, output_key: said, next_step: rate}
  - {id: rate, type: tool, tool: rate, output_key: rate, next_step: enough}
  - {id: enough, type: condition, condition: "CONDITION", then: pay_it, otherwise: ask}
  - {id: pay_it, type: tool, tool: pay, is_terminal: true}
"""


@pytest.mark.parametrize(
    "condition",
    [
        "$said.state == 'shut'",
        "$rate > 7",
        "$said.state == 'shut' and $rate == 12",
        "not ($said.state == 'open' or $rate < 4)",
        "defined($said.n) and $said.n + $rate > 3",
    ],
)
def test_what_calls_return_is_varied_where_a_loop_would_never_end(condition: str) -> None:
    found = the_violation(checked(LOOP.replace("CONDITION", condition)))
    assert found.evidence is not None
    assert len(found.evidence.path) == 4, "one round is enough"


NESTED = "{type: object, properties: {z: {enum: [1]}}, required: [z]}"
ITEMS = """
name: items
inputs: {}
tools:
  load:
    effect: read
    returns: {type: object, properties: {lines: {type: array, items: ITEM}}, required: [lines]}
  ship: {effect: write}
  refund: {effect: write}
guardrails:
  - {name: x, exclusive: [{tool: ship}, {tool: refund}]}
steps:
  - {id: order, type: tool, tool: load, error_step: broken}
  - {id: nonempty, type: condition, condition: "CONDITION", then: ship_it, otherwise: broken}
  - {id: ship_it, type: tool, tool: ship, error_step: back, is_terminal: true}
  - {id: back, type: tool, tool: refund, is_terminal: true}
  - {id: broken, type: end, outcome: failure}
"""


@pytest.mark.parametrize(
    ("item", "condition", "lines"),
    [
        ("{type: object, properties: {qty: {type: integer, minimum: 1}}, required: [qty]}", "> 0", [{"qty": 1}]),
        ("{type: object, properties: {qty: {type: integer}}, required: [qty]}", "> 0", [{"qty": 0}]),
        ("{type: object, properties: {qty: {type: integer}}}", "> 0", [{}]),
        ("{type: object, properties: {k: {enum: [b, c]}}, required: [k]}", "== 3", [{"k": "b"}] * 3),
        ("{type: object, required: [a, b]}", ">= 2", [{"a": "", "b": ""}] * 2),
        (f"{{type: object, properties: {{o: {NESTED}}}, required: [o]}}", "> 0", [{"o": {"z": 1}}]),
        ("{type: array, items: {type: object, required: [a]}}", "> 0", [[]]),
        ("{type: [object, 'null'], required: [a]}", "> 1", None),
        ("{type: string}", "> 1", None),
        ("{type: number, minimum: 3}", "> 1", [3, 3]),
    ],
)
def test_a_list_has_items_of_their_type(item: str, condition: str, lines: list[Any] | None) -> None:
    text = ITEMS.replace("ITEM", item).replace("CONDITION", f"len($order.output.lines) {condition}")
    found = the_violation(checked(text))
    assert found.evidence is not None
    assert found.evidence.witness is not None
    (value,) = [answer.value for answer in found.evidence.witness.script if answer.step == "order"]
    if lines is not None:
        assert _plain(value["lines"]) == lines


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


ALLOW = {"policy": "p", "allow": [{"tool": "pay", "when": "$args.n < 5"}, {"tool": "other"}]}


@pytest.mark.parametrize(
    ("parts", "violating"),
    [
        (["pay $n", "pay 4.99"], {"x0"}),
        (["pay 4.99", "pay $n"], {"x1"}),
        (["pay $n", "pay $n"], {"x0", "x1"}),
        (["other 1", "pay $n", "other 2"], {"x1"}),
        (["pay 1", "pay 2"], set()),
    ],
)
def test_an_argument_that_is_not_allowed_is_shown_beside_siblings_that_start(
    parts: list[str], violating: set[str]
) -> None:
    calls = []
    for number, (tool, value) in enumerate(part.split() for part in parts):
        calls.append(f"{{id: x{number}, type: tool, tool: {tool}, args: {{n: {value}}}}}")
    text = f"inputs: {{n: {{type: number}}}}\nsteps: [{{id: a, type: parallel, parallel_steps: [{', '.join(calls)}]}}]"
    report = checked(text, ALLOW)
    found = [finding for finding in report.findings if finding.code.startswith("SW4")]
    assert {finding.code for finding in found} <= {"SW403"}
    assert len(found) == len(violating)
    assert all(finding.evidence is not None and finding.evidence.witness is not None for finding in found)


WORDS = """
name: words
inputs: {flag: {type: boolean}}
tools:
  get: {effect: read, returns: RETURNS}
  put: {effect: read, args: {x: TAKEN}}
  pay: {effect: write}
  approve: {effect: none}
guardrails: [{name: first, protects: {tool: pay}, requires: {tool: approve}}]
steps:
  - {id: get, type: tool, tool: get, output_key: got, next_step: which}
  - {id: which, type: condition, condition: "CONDITION", then: put, otherwise: no}
  - {id: put, type: tool, tool: put, args: {x: GIVEN}, next_step: pay_it}
  - {id: pay_it, type: tool, tool: pay, is_terminal: true}
  - {id: no, type: end}
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("{type: string, pattern: '^[^a-z]*[^\\d]{900}$'}", "$flag", "$got", "{type: string}"),
            "no value was found for the type of `get`",
        ),
        (
            ("{type: integer}", "$got > 5000", "REF-$got", "{type: string, pattern: '^REF-[0-9]{3}$'}"),
            "the run that was tried ends FAILED (error) at `put`",
        ),
    ],
)
def test_the_reason_why_a_path_has_no_run_is_reported(words: tuple[str, ...], why: str) -> None:
    text = WORDS
    for name, word in zip(("RETURNS", "CONDITION", "GIVEN", "TAKEN"), words, strict=True):
        text = text.replace(name, word)
    report = checked(text)
    (found,) = [finding for finding in report.findings if finding.code == "SW408"]
    assert f"no run was found that takes the path below: {why}" in found.message
    assert "candidate" not in found.message


HOURS = {"type": "number", "minimum": 0, "maximum": 200}


def paid_by_the_hour(**rules: dict[str, Any]) -> dict[str, Any]:
    """Return a program that pays hours at a rate up to a limit that a tool says; its rules are those of each item."""
    item = {"type": "object", "properties": {"hours": HOURS, "rate": HOURS}, "required": ["hours", "rate"]}
    sheet = {
        "type": "object",
        "properties": {"signed": {"type": "boolean"}, "cap": HOURS},
        "required": ["signed", "cap"],
    }
    body = [
        {"id": "load", "type": "tool", "tool": "sheet", "output_key": "s", "next_step": "signed"},
        {"id": "signed", "type": "condition", "condition": "$s.signed", "then": "sum", "otherwise": "no"},
        {"id": "sum", "type": "set", "set": {"n": "$x.hours * $x.rate"}, "next_step": "fits"},
        {"id": "fits", "type": "condition", "condition": "$n > 0 and $n <= $s.cap", "then": "pay", "otherwise": "no"},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"n": "$n"}, "next_step": "paid"},
        {"id": "paid", "type": "end"},
        {"id": "no", "type": "tool", "tool": "tell", "is_terminal": True},
    ]
    guardrails = [{"name": name, **rule} for name, rule in rules.items()]
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 9, "steps": body}
    return {
        "name": "t",
        "language": 2,
        "inputs": {"l": {"type": "array", "maxItems": 9, "items": item}},
        "tools": {
            "sheet": {"effect": "read", "returns": sheet},
            "pay": {"effect": "write", "idempotent": True, "args": {"n": {"type": "number"}}},
            "tell": {"effect": "write", "idempotent": True},
        },
        "steps": [{**each, "guardrails": guardrails, "next_step": "end"}, {"id": "end", "type": "end"}],
    }


TOLD = {"followed_by": {"first": {"tool": "pay"}, "then": {"tool": "tell"}}, "ends": "success"}


def test_numbers_that_are_multiplied_change_together(runs: list[int]) -> None:
    """One after another they take two thousand runs."""
    assert the_violation(checked(paid_by_the_hour(told=TOLD))).code == "SW405"
    assert len(runs) < 50


def test_a_path_that_knows_its_values_has_a_run_where_others_have_used_up_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthesis, "MAX_RECORDS", 0)
    monkeypatch.setattr(synthesis, "RECORDS_PER_STEP", 0)
    never = {"never": {"tool": "pay"}, "when": "$args.n > 5"}
    found = checked(paid_by_the_hour(first=never, second={**never, "when": "$s.cap > 7"})).findings
    shown = [one for one in found if one.code == "SW403"]
    assert [one.evidence is not None and one.evidence.witness is not None for one in shown] == [True, True], found
