"""Table: a call that the machine may refuse has not started, so a `followed_by` that asks for it is not proved.

Each reason for which a call is refused, by the places of the call; and each way of a sensitive value into a prompt.
Beside each stands a neighbour that is never refused: there the rule is proved, and the second checker agrees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from machines import unchecked
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.analysis.public_values import PublicValues
from stepward.vm import MemoryJournal, ModelReply, Program, ToolContext
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ANY_NAME, ModelRequest
from stepward.vm.trace import Blocked, Rejected

Data = dict[str, Any]

SECRET: Data = {"type": "string", "sensitive": True}
TEXT: Data = {"type": "string"}
FORM: Data = {"type": "object", "properties": {"s": SECRET, "t": TEXT}, "required": ["s", "t"]}
INPUTS: Data = {
    "s": SECRET,
    "t": TEXT,
    "n": {"type": "integer", "minimum": 0, "maximum": 9},
    "form": FORM,
    "maybe": {"type": "object", "properties": {"t": TEXT}},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": SECRET},
    "open": {"type": "array", "minItems": 1, "maxItems": 2, "items": TEXT},
}
GIVEN: Data = {
    **{"s": "the secret", "t": "a text", "n": 9, "maybe": {}, "list": ["the secret"], "open": ["a text"]},
    "form": {"s": "the secret", "t": "a text"},
}
TOOLS: Data = {
    "pay": {"effect": "write", "idempotent": True},
    "echo": {"effect": "read", "args": {"x": TEXT}, "returns": TEXT},
    "holds": {"effect": "read", "args": {"x": TEXT}, "returns": {"type": "boolean"}},
    "tell": {"effect": "read", "args": {"a": {"type": "integer", "maximum": 5}}},
    "tell_all": {"effect": "read", "args": {"a": {"type": "integer", "maximum": 9}}},
}


def ask(prompt: str, **more: Any) -> Data:
    return {"type": "llm", "prompt": prompt, **more}


def tell(tool: str, **args: Any) -> Data:
    return {"type": "tool", "tool": tool, "args": args}


class Case(NamedTuple):
    """A call that may be refused, one that is not, and the steps before them."""

    refused: Data
    kept: Data
    before: tuple[Data, ...] = ()


REASONS: dict[str, Case] = {
    "a sensitive value in the prompt": Case(ask("hi $s"), ask("hi $t")),
    "a sensitive value in the system text": Case(ask("hi", system="$s"), ask("hi", system="$t")),
    "an undefined reference": Case(ask("hi $maybe.t"), ask("hi $t")),
    "an argument of a wrong type": Case(tell("tell", a="$n"), tell("tell_all", a="$n")),
    "an argument that is missing": Case(tell("tell"), tell("tell", a=1)),
    "an argument that is not declared": Case(tell("tell", a=1, b=1), tell("tell", a=1)),
}


def first(*steps: Data) -> tuple[Data, ...]:
    return steps


def put(value: Any, name: str = "v", id: str = "put") -> Data:
    return {"id": id, "type": "set", "set": {name: value}}


def call(tool: str, x: str) -> Data:
    return {"id": "c", "type": "tool", "tool": tool, "args": {"x": x}, "error_step": "no"}


def each(items: Any, output: Any) -> Data:
    body = [{"id": "e", "type": "end", "output": output}]
    step: Data = {"id": "each", "type": "for_each", "items": items, "as": "x", "max_items": 2, "steps": body}
    return step | {"output_key": "ys", "error_step": "no"}


def carried(items: Any) -> Data:
    body = [put("$x"), {"id": "e", "type": "end", "output": 1}]
    return {**each(items, 1), "steps": body, "carry": {"v": "'a'"}}


WAYS: dict[str, Case] = {
    "a field": Case(ask("$form.s"), ask("$form.t")),
    "a whole": Case(ask("$form"), ask("$t")),
    "a list": Case(ask("$list"), ask("$open")),
    "a copy": Case(ask("$v"), ask("$w"), first(put("$s"), put("$t", "w", "other"))),
    "a copy of a copy": Case(ask("$u"), ask("$t"), first(put("$s"), put("$v", "u", "again"))),
    "a joined text": Case(ask("$v"), ask("$w"), first(put("$s + '!'"), put("$t + '!'", "w", "other"))),
    "an answer": Case(ask("$v"), ask("$w"), first(put("$s == 'x'"), put("$t == 'x'", "w", "other"))),
    "a built field": Case(ask("$v.a"), ask("$w.a"), first(put({"a": "$s"}), put({"a": "$t"}, "w", "other"))),
    "an assigned field": Case(
        ask("$v.a"), ask("$w.a"), first(put({"b": 1}), put("$s", "v.a", "in"), put({"a": "$t"}, "w", "other"))
    ),
    "the output of a tool": Case(ask("$c.output"), ask("$t"), first(call("echo", "$s"))),
    "a boolean of a tool": Case(ask("$s"), ask("$c.output"), first(call("holds", "$s"))),
    "outputs of items": Case(ask("$ys"), ask("$t"), first(each("$list", "$x"))),
    "a carried value": Case(ask("$v"), ask("$t"), first(carried("$list"))),
}


def at_top(one: Data) -> list[Data]:
    return [{"id": "q", **one, "error_step": "no"}]


def beside(one: Data) -> list[Data]:
    return [{"id": "both", "type": "parallel", "parallel_steps": [{"id": "q", **one}], "error_step": "no"}]


def in_item(one: Data) -> list[Data]:
    step: Data = {"id": "all", "type": "for_each", "items": [1], "max_items": 1, "as": "i", "error_step": "no"}
    return [{**step, "steps": [{"id": "q", **one}]}]


PLACES = {"a step": at_top, "a sub-step": beside, "an item": in_item}


def program(before: tuple[Data, ...], after: list[Data]) -> Data:
    pay: Data = {"id": "p", "type": "tool", "tool": "pay", "error_step": "no"}
    rule = {"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"step": "q"}}}
    steps = [*before, pay, *after, {"id": "no", "type": "end", "outcome": "failure"}]
    data: Data = {"name": "p", "language": 2, "inputs": INPUTS, "tools": TOOLS, "guardrails": [rule], "steps": steps}
    return data


def verdict(data: Data) -> tuple[Verdict, bool]:
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in report.findings if one.code in ("SW901", "SW902")]
    (found,) = [one for one in report.properties if one.rule == "r"]
    return found.verdict, bool(found.rechecked)


class World:
    """Tools that repeat their argument, or say yes; and a model that says anything."""

    names = ANY_NAME

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        return args["x"] if name == "echo" else True

    async def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply("said")


def refusals(data: Data) -> list[str]:
    """Return the steps that the machine does not start in a run without the rule."""
    run = unchecked(World(), World(), MemoryJournal(), clock=ManualClock()).run_sync(
        Program.from_dict({**data, "guardrails": []}), GIVEN, run_id="run"
    )
    return [one.step for one in run.trace if isinstance(one, Blocked | Rejected)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reason", REASONS)
def test_a_call_that_may_be_refused_may_not_have_started(reason: str, place: str) -> None:
    case, put_at = REASONS[reason], PLACES[place]
    refused, kept = program(case.before, put_at(case.refused)), program(case.before, put_at(case.kept))
    assert (refusals(refused), refusals(kept)) == (["q"], [])
    assert verdict(refused)[0] is not Verdict.PROVED
    assert verdict(kept) == (Verdict.PROVED, True)


@pytest.mark.parametrize("way", WAYS)
def test_a_sensitive_value_is_followed_into_a_prompt(way: str) -> None:
    case = WAYS[way]
    refused, kept = program(case.before, at_top(case.refused)), program(case.before, at_top(case.kept))
    assert (refusals(refused), refusals(kept)) == (["q"], [])
    assert verdict(refused)[0] is not Verdict.PROVED
    assert verdict(kept) == (Verdict.PROVED, True)


@pytest.mark.parametrize("way", WAYS)
def test_the_second_checker_knows_it_by_itself(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = WAYS[way]
    monkeypatch.setattr(PublicValues, "are_all_in", lambda *_: True)
    report = ProgramValidator(Program.from_dict(program(case.before, at_top(case.refused)))).validate()
    assert "SW902" in {one.code for one in report.findings}


def shown(data: Data) -> tuple[str, str, str, list[str], bool]:
    """Return a finding about the rule, the errors on its path, and whether a run confirms it."""
    report = ProgramValidator(Program.from_dict(data), recheck=False).validate()
    (found,) = [one for one in report.findings if one.code in ("SW405", "SW408")]
    assert found.evidence is not None
    errors = [move.error for move in found.evidence.path if move.error and move.step != "all failed"]
    return found.code, found.message, found.help, errors, found.evidence.witness is not None


REFUSES = "the machine refuses the prompt of `q` where it holds a sensitive value"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reason", REASONS)
def test_the_finding_says_why_the_step_never_started(reason: str, place: str) -> None:
    code, message, help, errors, is_confirmed = shown(program((), PLACES[place](REASONS[reason].refused)))
    is_refused = reason.startswith("a sensitive value")
    error = "Refused" if is_refused else "Undefined" if "undefined" in reason else "BadArguments"
    assert (code, errors, is_confirmed) == ("SW405", [error], True)
    assert (REFUSES in message) is help.startswith("remove the sensitive value from the prompt of `q`") is is_refused


@pytest.mark.parametrize("way", WAYS)
def test_the_finding_says_so_for_each_form(way: str) -> None:
    code, message, _, errors, is_confirmed = shown(program(WAYS[way].before, at_top(WAYS[way].refused)))
    assert REFUSES in message
    if way == "the output of a tool":  # no run is tried in which a tool repeats what it was given
        assert (code, is_confirmed) == ("SW408", False)
    else:
        assert (code, errors, is_confirmed) == ("SW405", ["Refused"], True)


@pytest.mark.parametrize("prompt", ["$s", "$t"])
def test_what_follows_a_refusal_may_happen(prompt: str) -> None:
    call = {"id": "q", **ask(prompt), "catch": [{"errors": ["Refused"], "then": "undo"}]}
    data = program((), [call, {"id": "end", "type": "end"}, {"id": "undo", "type": "end"}])
    data["guardrails"] = [{"name": "r", "never": {"step": "undo"}}]
    assert (verdict(data)[0] is Verdict.PROVED) is (prompt == "$t")
