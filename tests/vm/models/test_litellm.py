"""Fast: what is sent to LiteLLM, and what comes back; LiteLLM itself is a module of ours here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from fake_litellm import Fake
from machines import unchecked
from stepward.vm import LiteLLMModel, ModelRefused, ModelReply, ModelRequest, PriceTable, Program, StepwardError
from stepward.vm.machine.clock import ManualClock


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    module = Fake()
    monkeypatch.setitem(sys.modules, "litellm", module)
    return module


def ask(
    prompt: str = "go?",
    system: str | None = None,
    allowed: tuple[str, ...] | None = None,
    schema: dict[str, Any] | None = None,
    **options: Any,
) -> ModelReply:
    request = ModelRequest(prompt, system, allowed, schema, "secret-step", 7, 8)
    return asyncio.run(LiteLLMModel("openai/small", **options).complete(request))


USER = {"role": "user", "content": "go?"}


def shaped(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


def wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    return shaped(
        {"type": "object", "properties": {"reply": schema}, "required": ["reply"], "additionalProperties": False}
    )


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_a_prompt_alone_is_all_that_is_sent(fake: Fake) -> None:
    assert ask() == ModelReply("yes", 17, Decimal("0.0000135"), "openai/small-2026")
    assert fake.sent == [{"model": "openai/small", "messages": [USER], "max_retries": 0}]


def test_the_system_text_goes_before_the_prompt_and_options_go_along(fake: Fake) -> None:
    ask(system="be brief", temperature=0, api_base="http://localhost:1", max_retries=2)
    (sent,) = fake.sent
    assert sent == {
        "model": "openai/small",
        "messages": [{"role": "system", "content": "be brief"}, USER],
        "temperature": 0,
        "api_base": "http://localhost:1",
        "max_retries": 2,
    }


def test_a_closed_set_is_a_schema_where_the_model_takes_one(fake: Fake) -> None:
    fake.says = '{"reply": "no"}'
    assert ask(allowed=("yes", "no")).content == "no"
    (sent,) = fake.sent
    assert sent["messages"] == [USER]
    assert sent["response_format"] == wrapped({"type": "string", "enum": ["yes", "no"]})


@pytest.mark.parametrize("takes", [False, RuntimeError("which model?")])
def test_a_closed_set_is_said_in_words_where_it_does_not(fake: Fake, takes: Any) -> None:
    fake.takes_schemas = takes
    assert ask(system="be brief", allowed=("yes", 'say "no"')).content == "yes"
    (sent,) = fake.sent
    assert sent.keys() == {"model", "messages", "max_retries"}
    assert sent["messages"][0]["content"] == (
        "be brief\n\nReply with exactly one of these texts, without quotes and without another word: "
        '"yes", "say \\"no\\""'
    )


SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number", "minimum": 0.01}, "sensitive": {"type": "string"}},
    "required": ("total",),
    "sensitive": True,
}
SENT_SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number", "minimum": 0.01}, "sensitive": {"type": "string"}},
    "required": ["total"],
}


def test_a_schema_of_an_object_is_sent_as_it_is(fake: Fake) -> None:
    fake.says = '{"total": 1.10}'
    assert ask(schema=SCHEMA).content == '{"total": 1.10}', "the machine reads it, exactly"
    assert fake.sent[0]["response_format"] == shaped(SENT_SCHEMA)


def test_another_schema_is_put_into_an_object_and_taken_out_again(fake: Fake) -> None:
    fake.says = '{"reply": [1.10]}'
    assert ask(schema={"type": "array", "items": {"type": "number"}}).content == [Decimal("1.10")]
    assert fake.sent[0]["response_format"] == wrapped({"type": "array", "items": {"type": "number"}})


def test_a_schema_is_said_in_words_where_the_model_takes_none(fake: Fake) -> None:
    fake.takes_schemas, fake.says = False, "[1]"
    assert ask(schema={"type": "array"}).content == "[1]"
    assert fake.sent[0]["messages"][0] == {
        "role": "system",
        "content": "Write your reply as JSON between <reply> and </reply>, and write each of these marks once."
        ' The JSON fits this JSON Schema: {"type": "array"}',
    }


@pytest.mark.parametrize("kind", ["string", ("string", "null")])
def test_where_text_will_do_no_schema_is_sent(fake: Fake, kind: Any) -> None:
    ask(schema={"type": kind})
    assert fake.sent == [{"model": "openai/small", "messages": [USER], "max_retries": 0}]


def test_nothing_of_the_machine_is_sent(fake: Fake) -> None:
    fake.says = '{"reply": "yes"}'
    program = Program.from_yaml(
        """
name: named-program
inputs: {text: {type: string}, mail: {type: string, sensitive: true}}
steps:
  - {id: judged-step, type: llm, prompt: "is this spam? $text", allowed_outputs: [yes, no], is_terminal: true}
"""
    )
    machine = unchecked(model=LiteLLMModel("openai/small"), clock=ManualClock())
    run = machine.run_sync(program, {"text": "buy!", "mail": "ann@example.com"}, run_id="named-run")
    assert (run.status, run.tokens, run.cost) == ("SUCCESS", 17, Decimal("0.0000135"))
    assert fake.sent == [
        {
            "model": "openai/small",
            "messages": [{"role": "user", "content": "is this spam? buy!"}],
            "max_retries": 0,
            "response_format": wrapped({"type": "string", "enum": ["yes", "no"]}),
        }
    ]


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says", ["no such object", "[]", '{"other": 1}', "{", None, "[" * 100_000])
def test_a_reply_that_is_not_wrapped_goes_to_the_machine_as_it_came(fake: Fake, says: Any) -> None:
    fake.says = says
    assert ask(allowed=("yes", "no")).content == says


def raises(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("costs", "cost"),
    [
        (lambda: 0.1 + 0.2, Decimal("0.30000000000000004")),
        (lambda: 1e-07, Decimal("0.0000001")),
        (lambda: 0, 0),
        (lambda: None, None),
        (lambda: float("nan"), None),
        (lambda: raises(ValueError("not mapped yet")), None),
    ],
)
def test_the_cost_is_what_litellm_writes_or_unknown(fake: Fake, costs: Any, cost: Any) -> None:
    fake.costs = costs
    assert ask().cost == cost


def test_a_table_of_prices_comes_before_what_litellm_knows(fake: Fake) -> None:
    prices = PriceTable({"openai/small": {"input": 2, "output": 10}})
    fake.usage = SimpleNamespace(total_tokens=17, prompt_tokens=10, completion_tokens=7)
    assert ask(prices=prices).cost == Decimal("0.00009")
    fake.usage = SimpleNamespace(total_tokens=17)
    assert ask(prices=prices).cost is None
    with pytest.raises(ModelRefused, match="has no price for model `openai/small`"):
        LiteLLMModel("openai/small", prices=PriceTable({}))


def test_its_parameters_have_no_secrets(fake: Fake) -> None:
    options = {"temperature": Decimal("0.5"), "max_tokens": 9, "api_key": "hush", "extra_headers": {"x": "hush"}}
    assert LiteLLMModel("m", **options).parameters == {"model": "m", "temperature": 0.5, "max_tokens": 9}


@pytest.mark.parametrize("usage", [None, SimpleNamespace(), SimpleNamespace(total_tokens=None)])
def test_a_reply_without_a_count_of_tokens_counts_none(fake: Fake, usage: Any) -> None:
    fake.usage = usage
    assert ask().tokens == 0


def test_a_rejected_reply_is_charged_and_asked_again(fake: Fake) -> None:
    fake.takes_schemas, fake.says = False, "perhaps"
    program = Program.from_yaml(
        """
name: p
inputs: {}
steps:
  - {id: judge, type: llm, prompt: "yes?", allowed_outputs: [yes, no], on_error: retry, max_retries: 2}
"""
    )
    run = unchecked(model=LiteLLMModel("m"), clock=ManualClock()).run_sync(program)
    assert (run.status, run.tokens, run.cost) == ("FAILED", 34, Decimal("0.000027"))
    assert len(fake.sent) == 2


# -- without LiteLLM ---------------------------------------------------------------------------------------------------


def test_without_litellm_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ModelRefused, match=r"pip install 'stepward\[litellm\]'"):
        LiteLLMModel("openai/small")
    assert issubclass(ModelRefused, StepwardError)


def test_what_is_not_used_is_not_imported() -> None:
    code = "import sys; from stepward.vm import ExecutionVM, LiteLLMModel; assert 'litellm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
