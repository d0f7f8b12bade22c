"""Differential: the reference interpreter of the sabotage oracle, by table, against every example of the language's
page, and what the lockstep has found.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from machines import TOOLS, Bench, ask, assign, both, check, end, program, tool, unchecked
from page_examples import BLOCKS, documents, lines_of, read_value, split_example
from paths import ROOT
from stepward.sabotage.drawn.wide import wide_program
from stepward.sabotage.reference import Lost, Raised, Reference, Replied, Returned, TimedOut, Waits
from stepward.sabotage.reference.expressions import CannotEvaluate, Undefined, value_of
from stepward.sabotage.reference.facts import STEP_TYPES
from stepward.sabotage.reference.inference import Types
from stepward.sabotage.reference.plain import same, to_value
from stepward.sabotage.reference.templates import filled
from stepward.sabotage.reference.types import is_of
from stepward.vm import InDoubt, MemoryJournal, Policy, Program, Suspend
from stepward.vm.expressions.parser import parse
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.steps import STEP_MODELS
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.clock import ManualClock
from stepward.vm.reading.yaml_format import read_yaml

REFERENCE = ROOT / "sabotage" / "reference"
FORBIDDEN = (
    "stepward.vm.machine",
    "stepward.vm.journal",
    "stepward.vm.values",
    "stepward.vm.expressions.evaluator",
    "stepward.vm.expressions.template",
    "stepward.vm.language.flow",
    "stepward.vm.language.guardrails",
    "stepward.vm.language.inference",
    "stepward.vm.language.meaning",
    "stepward.vm.language.name_types",
    "stepward.vm.language.names",
    "stepward.vm.language.selectors",
    "stepward.vm.language.typecheck",
)


def test_it_knows_every_step_type() -> None:
    assert STEP_MODELS.keys() == STEP_TYPES, (
        "STEP_TYPES in sabotage/reference/facts.py, and sequence.py says what it does"
    )


# -- it shares nothing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.py")), ids=lambda path: path.stem)
def test_it_shares_nothing_with_the_machine_but_the_parsed_program(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):  # nor by a method of the program's own models
            assert node.attr not in ("has_default", "admits", "applies", "get_step", "writes_once"), node.lineno
    ours = {name for name in names if name.startswith("stepward.vm")}
    assert not {name for name in ours if name.startswith(FORBIDDEN)}
    allowed = {"stepward.vm.language.types.TypeSpec", "stepward.vm.expressions.parser.parse"}
    allowed |= {f"stepward.vm.lisp.{name}" for name in ("Limits", "evaluate")}  # there is one evaluator of it
    allowed |= {f"stepward.vm.expressions.letters.{name}" for name in ("WHITE_SPACE", "lower", "upper")}
    allowed |= {f"stepward.vm.expressions.operators.{name}" for name in ("Comparison", "FunctionName")}
    assert ours <= allowed | {"stepward.vm.Program", "stepward.vm.Policy", "stepward.vm.expressions.syntax"}


# -- every example of the page -----------------------------------------------------------------------------------------


def read_from(lookup: Callable[[tuple[str, ...]], Any]) -> Callable[[tuple[str, ...]], Any]:
    def read(names: tuple[str, ...]) -> Any:
        try:
            return lookup(names)
        except Exception as error:
            raise Undefined(str(error)) from None

    return read


CONDITIONS = [line for block in BLOCKS if block.tag == "condition" for line in block.text.splitlines() if line]


@pytest.mark.parametrize(
    "line", [line for line in CONDITIONS if " => write " not in line and "syntax error" not in line]
)
def test_conditions_of_the_page(line: str) -> None:
    text, expected, lookup = split_example(line)
    if expected == "error":
        with pytest.raises(CannotEvaluate):
            value_of(parse(text, 2), read_from(lookup))
    else:
        assert same(value_of(parse(text, 2), read_from(lookup)), read_value(expected)[0])


@lines_of("interpolation")
def test_interpolations_of_the_page(line: str) -> None:
    text, expected, lookup = split_example(line)
    if expected == "error":
        with pytest.raises(Undefined):
            filled(text, read_from(lookup))
    else:
        assert same(filled(text, read_from(lookup)), read_value(expected)[0])


@lines_of("type")
def test_types_of_the_page(line: str) -> None:
    written, word, values = (
        (line.partition(f" {word} ")[0], word, line.partition(f" {word} ")[2])
        for word in ("accepts", "refuses")
        if f" {word} " in line
    ).__next__()
    (document,) = read_yaml("type", written)
    spec = TypeSpec.model_validate(document.data)
    for value in read_value(f"[{values}]")[0]:
        assert is_of(to_value(value), spec) is (word == "accepts"), value


def inferred(made: Program) -> dict[str, TypeSpec | None]:
    from stepward.sabotage.reference.facts import tool as facts_of

    types = Types(made, lambda name: facts_of(name, made, []))
    return {**types.inputs, **{f"{part}.output": types.output(part) for part in types._outputs}}


def test_what_the_page_infers() -> None:
    import json
    import re

    found = [
        (block, name, expected)
        for block in BLOCKS
        for name, expected in re.findall(r"^# infers \$(\S+): (.*)$", block.text, re.MULTILINE)
    ]
    assert len(found) > 8
    for block, name, expected in found:
        types = inferred(Program.from_document(documents(block)[0]))
        holder = next(one for one in types if f"{name}.".startswith(f"{one}."))
        spec = types[holder]
        for field in name.removeprefix(holder).split(".")[1:]:
            assert spec is not None
            spec = (spec.properties or {})[field]
        assert (json.loads(json.dumps(spec.to_data())) if spec is not None and spec.model_fields_set else None) == (
            None if expected == "nothing" else json.loads(expected)
        ), name


def test_types_are_inferred_as_the_machine_enforces_them() -> None:
    compared = 0
    for seed in range(250):
        made = Program.from_dict(wide_program(str(seed))[0])
        meaning = Meaning(made)
        if meaning.typing.conflicts:
            continue
        for name, spec in inferred(made).items():
            if name.endswith(".output"):
                theirs = meaning.typing.effective(meaning.names.outputs[name.removesuffix(".output")])
            else:
                meant = meaning.names.meaning((name,))
                assert meant is not None
                theirs = meaning.typing.effective(meant.sources[0])
            if spec is not None and spec.model_fields_set and "parallel" not in str(made.get_step(name.split(".")[0])):
                assert theirs is not None, name
                compared += 1
                assert set(spec.type or ()) == set(theirs.type or ()), (seed, name)
                assert set(spec.required) == set(theirs.required), (seed, name)
    assert compared > 500


@pytest.mark.parametrize("declared", [{}, {"returns": {"type": "boolean"}}])
def test_a_sub_step_is_judged_by_what_it_declares_and_not_by_a_field_of_its_parallel_step(declared: Any) -> None:
    steps = [both("p", tool("a", "look"), ask("b")), check("c", "$p.output.a == true", "e", "e"), end("e")]
    made = program(*steps, tools={"look": {"effect": "read", **declared}})
    known = inferred(made)["a.output"]
    theirs = Meaning(made).typing.effective(Meaning(made).names.outputs["a"])
    assert (known and known.type) == (theirs and theirs.type) == (("boolean",) if declared else None)


# -- subtle sentences, by table ----------------------------------------------------------------------------------------


def told(made: Program, said: dict[str, Any] | None = None, policies: Any = (), **inputs: Any) -> Reference:
    """Run a program on the reference; each answer of a step in turn, the last one again and again."""
    reference = Reference(made, policies)
    reference.start(inputs)
    go_on(reference, said or {})
    return reference


def go_on(reference: Reference, said: dict[str, Any]) -> None:
    given: Counter[str] = Counter()
    while reference.asked:
        asked = reference.asked[0]
        answers = said.get(asked.step, [Returned("done") if asked.tool else Replied("x")])
        answers = answers if type(answers) is list else [answers]
        reference.answer(asked.step, answers[min(given[asked.step], len(answers) - 1)])
        given[asked.step] += 1


def path(reference: Reference) -> str:
    """Return the steps and how each was left, and where it ended."""
    moves = " ".join(f"{move.step}:{move.how}" for move in reference.log)
    return f"{moves} {reference.status}/{reference.reason} {reference.steps}"


LATE = {"timeout_seconds": 1}
FALLS = {**LATE, "on_timeout": "fallback", "fallback": 7}
NUMBER = {"type": "number"}
LOOP = check("back", "true", "a")
TABLE: list[tuple[str, list[dict[str, Any]], dict[str, Any], dict[str, Any], str]] = [
    (
        "an arm ends the run, where the list goes on",
        [check("c", "true", "s", "t"), assign("s", x=1), assign("t", x=2)],
        {},
        {},
        "c:then s:set SUCCESS/declared 2",
    ),
    ("no branch covers", [check("c", "false", "s"), end("s")], {}, {}, "c:uncovered FAILED/uncovered 1"),
    (
        "visit n + 1 goes to the error step once, and costs nothing",
        [tool("a", max_visits=1, error_step="e", next_step="back"), LOOP, assign("e", x=1, _step={"next_step": "a"})],
        {},
        {},
        "a:success back:then a:visits e:set a:visits STALLED/visits 3",
    ),
    (
        "money that the replies have used up ends the run before the next call of a model",
        [ask("a"), tool("b"), ask("c", next_step="a")],
        {"max_cost": Decimal("0.3")},
        {name: Replied("x", 0, Decimal("0.1")) for name in "ac"},
        "a:success b:success c:success a:success b:success BUDGET_EXCEEDED/cost 5",
    ),
    (
        "every attempt after the first costs one",
        [tool("a", on_error="retry")],
        {"max_steps": 2},
        {"a": Raised()},
        " BUDGET_EXCEEDED/max_steps 2",
    ),
    (
        "used up at once, the budget comes first",
        [assign("s", x=1), assign("t", x=1), end()],
        {"max_steps": 2, "max_stalled_steps": 1},
        {},
        "s:set t:set BUDGET_EXCEEDED/max_steps 2",
    ),
    (
        "the fallback is for a last attempt that timed out",
        [tool("a", on_error="retry", max_retries=2, **FALLS)],
        {},
        {"a": [TimedOut(), Raised()]},
        "a:failed FAILED/error 2",
    ),
    (
        "what fell back did not succeed",
        [tool("a", **FALLS), tool("b", "write")],
        {"guardrails": [{"name": "r", "protects": {"tool": "write"}, "requires": {"tool": "read"}}]},
        {"a": TimedOut()},
        "a:fallback b:blocked FAILED/guardrail 1",
    ),
    (
        "a write that is lost is in doubt, whatever `on_error` says",
        [tool("a", "write", on_error="skip")],
        {},
        {"a": Lost()},
        " IN_DOUBT/ 1",
    ),
    (
        "an idempotent one is repeated, and has failed when it raises then",
        [tool("a", "again")],
        {},
        {"a": [Lost(), Raised()]},
        "a:failed FAILED/error 2",
    ),
    (
        "an idempotent one is in doubt after `max_retries` attempts",
        [tool("a", "again", max_retries=2)],
        {},
        {"a": Lost()},
        " IN_DOUBT/ 2",
    ),
    ("who may not suspend gave an ill-typed output", [tool("a")], {}, {"a": Waits()}, "a:failed FAILED/error 1"),
    (
        "an undefined argument fails the step without retries",
        [tool("a", args={"x": "$b.output"}, on_error="retry"), tool("b")],
        {},
        {},
        "a:failed FAILED/error 1",
    ),
    (
        "siblings that succeeded are not run again",
        [both("p", tool("a"), tool("b"), on_error="retry")],
        {},
        {"b": [Raised(), Returned(1)]},
        "a:success b:success p:joined SUCCESS/declared 5",
    ),
    (
        "a parallel step starts when the budget reaches for all of it",
        [both("p", tool("a"), tool("b"))],
        {"max_steps": 2},
        {},
        " BUDGET_EXCEEDED/max_steps 0",
    ),
    (
        "siblings are not before one another",
        [both("p", tool("a"), tool("b", "write"))],
        {"guardrails": [{"name": "r", "protects": {"tool": "write"}, "requires": {"tool": "read"}}]},
        {},
        "b:blocked FAILED/guardrail 0",
    ),
    (
        "a branch goes stale when its variable is assigned the same value",
        [assign("s", v=1), check("c", "$v == 1", "t", "t"), assign("t", v="$v", _step={"next_step": "a"}), tool("a")],
        {"guardrails": [{"name": "r", "protects": {"step": "a"}, "requires": {"step": "c", "branch": "then"}}]},
        {},
        "s:set c:then t:set a:blocked FAILED/guardrail 3",
    ),
    (
        "a retry of what is not idempotent is another performance",
        [tool("a", "write", on_error="retry")],
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "write"}}]},
        {"a": Raised()},
        "a:blocked FAILED/guardrail 1",
    ),
    (
        "a retry of what is idempotent is the same",
        [tool("a", "again", on_error="retry")],
        {"guardrails": [{"name": "r", "at_most_once": {"tool": "again"}}]},
        {"a": [Raised(), Returned(1)]},
        "a:success SUCCESS/declared 2",
    ),
    (
        "`when` that can't be evaluated breaks the rule",
        [tool("a", args={"n": 1})],
        {"guardrails": [{"name": "r", "never": {"tool": "read"}, "when": "$args.m > 5"}]},
        {},
        "a:blocked FAILED/guardrail 0",
    ),
    (
        "a sensitive value follows `set` and reaches no prompt",
        [assign("s", v="$h"), ask("l", "is $v", on_error="retry")],
        {"inputs": {"h": {"type": "string", "sensitive": True, "default": "x"}}},
        {},
        "s:set l:blocked FAILED/error 2",
    ),
    (
        "a number of over 1,000 digits fails what computes it",
        [assign("s", v="9e999 * 10"), end()],
        {},
        {},
        "s:error FAILED/error 1",
    ),
]


@pytest.mark.parametrize(
    ("steps", "more", "said", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_subtle_sentences(steps: Any, more: Any, said: Any, expected: str) -> None:
    assert path(told(program(*steps, **more), said)).strip() == expected.strip()


def test_not_done_is_the_same_performance_and_done_brings_the_output() -> None:
    reference = told(program(tool("a", "write", output_key="v")), {"a": Lost()})
    assert (reference.status, reference.doubtful, reference.asked) == ("IN_DOUBT", ("a",), ())
    assert reference.reconcile("a", "not_done")
    assert [(asked.attempt, asked.performance) for asked in reference.asked] == [(2, 1)]
    go_on(reference, {"a": Lost()})
    assert reference.reconcile("a", "done", 2.50)
    assert (reference.status, reference.steps, str(reference.values["v"])) == ("SUCCESS", 2, "2.5")
    other = told(program(tool("a", "write")), {"a": Lost()})
    assert other.reconcile("a", "abandon")
    assert (other.status, other.reason) == ("CANCELLED", "abandoned")


def test_a_payload_of_another_type_leaves_the_run_suspended() -> None:
    tools = {**TOOLS, "ask": {"effect": "none", "suspends": True, "returns": NUMBER}}
    made = program(both("p", tool("a", "ask"), tool("b", on_error="skip")), end(output="$p.output"), tools=tools)
    reference = told(made, {"a": Waits(), "b": Raised()})
    assert (reference.status, reference.waiting) == ("SUSPENDED", ("a",))
    assert not reference.resume("a", "text")
    assert not reference.resume("a", float("nan"))
    assert reference.status == "SUSPENDED"
    assert reference.resume("a", 1.0)
    assert (reference.output, set(reference.errors)) == ({"a": 1}, {"b"})
    again = told(made, {"a": Waits()})
    again.cancel()
    assert (again.status, again.reason) == ("CANCELLED", "cancelled")


def test_data_is_never_read_as_a_reference() -> None:
    made = program(
        tool("a", args={"x": "$s", "y": ["is $s, $$s and $5"], "$s": 1}), end(output={"n": "$n", "t": "$n, $o"}),
        inputs={"s": {}, "n": {}, "o": {}},
    )  # fmt: skip
    reference = Reference(made)
    reference.start({"s": "$n $$", "n": 1e21, "o": {"b": 1.50, "a": [None, True]}})
    assert reference.asked[0].args == {"x": "$n $$", "y": ("is $n $$, $s and $5",), "$s": 1}
    reference.answer("a", Returned(object()))
    assert reference.status == "FAILED"
    reference = told(made, s="", n=0.1, o={"b": 1.50, "a": [None, True]})
    assert reference.output["t"] == '0.1, {"a": [null, true], "b": 1.5}'


@pytest.mark.parametrize(
    ("more", "is_broken"),
    [({}, True), ({"ends": "any"}, True), ({"ends": "success"}, False)],
)
def test_followed_by_judges_how_the_run_ended(more: dict[str, Any], is_broken: bool) -> None:
    rule = {"name": "r", "followed_by": {"first": {"tool": "write"}, "then": {"tool": "again"}}, **more}
    steps = [tool("a", "write"), tool("b", "again", args={"x": "$z"}, on_error="skip"), end(outcome="failure")]
    assert bool(told(program(*steps, guardrails=[rule])).broken()) is is_broken
    assert told(program(tool("a", "write"), tool("b", "again"), guardrails=[rule])).broken() == ()
    suspended = told(program(tool("a", "write"), tool("b", "ask"), guardrails=[rule]), {"b": Waits()})
    assert suspended.broken() == ()
    suspended.cancel()
    assert bool(suspended.broken()) is (more == {"ends": "any"})


def test_policies_allow_and_waivers_lift() -> None:
    policy = Policy.from_dict(
        {
            "policy": "desk",
            "allow": [{"tool": "write", "when": "$args.n < 5"}],
            "guardrails": [{"name": "once", "at_most_once": {"tool": "write"}}],
        }
    )
    made = program(
        tool("a", "write", args={"n": 9}, on_error="skip"),
        tool("b", "write", args={"n": 1}),
        tool("c", "write", args={"n": 1}),
    )
    assert path(told(made, policies=[policy])) == "a:blocked b:success c:blocked FAILED/guardrail 2"
    for waived in (["desk:once"], ["desk:SW404"]):
        reference = Reference(made, [policy], waived)
        reference.start({})
        go_on(reference, {})
        assert path(reference) == "a:blocked b:success c:success SUCCESS/declared 3"


@pytest.mark.parametrize("given", [{}, {"x": "1"}, {"x": True}, {"x": 1, "y": 2}, {"x": float("inf")}, {"x": 10**1000}])
def test_inputs_that_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Reference(program(end(), inputs={"x": NUMBER})).start(given)


# -- what the lockstep has found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "answer"), [("write", InDoubt("?")), ("ask", Suspend())])
def test_a_run_that_is_cancelled_while_its_call_comes_to_a_stand_is_cancelled(kind: str, answer: Any) -> None:
    journal, clock = MemoryJournal(), ManualClock()

    async def stand() -> Any:
        await unchecked(journal=journal, clock=clock).cancel("run")
        if isinstance(answer, Exception):
            raise answer
        return answer

    run = unchecked({kind: stand}, journal=journal, clock=clock).run_sync(program(tool("a", kind)), run_id="run")
    assert (run.status, run.reason) == ("CANCELLED", "cancelled")


def test_no_use_opens_a_type_that_is_closed() -> None:
    closed = {"type": "object", "properties": {"a": NUMBER}, "additionalProperties": False}
    made = program(
        tool("t"), end(), check("c", "$t.output.b == 1", "end"), tools={"read": {"effect": "read", "returns": closed}}
    )
    assert Bench({"t": {"a": 1, "b": None}}).run(made).status == "FAILED"
    assert told(made, {"t": Returned({"a": 1, "b": None})}).status == "FAILED"


def test_a_system_text_that_is_a_reference_to_null_is_a_text() -> None:
    made = program(ask("l", "$x", system="$x"), inputs={"x": {}})
    bench = Bench(model={"l": "yes"})
    bench.run(made, x=None)
    assert [(asked.prompt, asked.system) for asked in bench.model.asked] == [("null", "null")]
    reference = Reference(made)
    reference.start({"x": None})
    assert [(asked.prompt, asked.system) for asked in reference.asked] == [("null", "null")]
