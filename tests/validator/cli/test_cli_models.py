"""Fast: `--model`, `--model-options` and `--prices`: servers, recordings, and what is said of names that are none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_server import ChatServer, chat_server, data, said
from shops import GIVEN, ORDER, as_json, says, shop, stepward

pytestmark = pytest.mark.usefixtures("in_shop")

KEY = "sk-invented-0123456789"
PRICES = "version: 1\nmodels:\n  small: {input: 1, output: 2}\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("COMPANY_KEY", KEY)
    with chat_server() as running:
        running.answers = [said('{"reply": "yes"}')]
        Path("options.yaml").write_text(f"base_url: {running.url}\nkey: env:COMPANY_KEY\ntemperature: 0.5\n")
        Path("prices.yaml").write_text(PRICES)
        yield running


def test_a_server_is_asked_and_its_cost_is_that_of_the_table(server: ChatServer) -> None:
    result = shop("--model", "openai:small", "--model-options", "options.yaml", "--prices", "prices.yaml")
    assert result.exit_code == 0, result.output
    assert "17 tokens, cost 0.000024" in result.stdout
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.asked[0].body["temperature"] == 0.5
    assert KEY not in result.output


def test_a_server_that_refuses_fails_the_step_in_words(server: ChatServer) -> None:
    server.answers = [data({"error": {"message": f"bad key {KEY}"}}, 401)]
    result = shop("--model", "openai:small", "--model-options", "options.yaml")
    assert result.exit_code == 1
    assert "the server refuses the key (401)" in result.stdout
    assert KEY not in result.output


def test_replies_are_recorded_and_played_without_the_server(server: ChatServer) -> None:
    named = ["--model-options", "options.yaml", "--prices", "prices.yaml"]
    recorded = shop("--model", "record:replies.jsonl:openai:small", *named, "--output-format", "json")
    again = shop("--model", "record:replies.jsonl:openai:small", *named, "--output-format", "json")
    played = shop("--model", "recorded:replies.jsonl", "--output-format", "json")
    assert len(server.asked) == 1
    for result in (recorded, again, played):
        assert result.exit_code == 0, result.output
        assert (as_json(result)["run"]["tokens"], str(as_json(result)["run"]["cost"])) == (17, "0.000024")
    assert KEY not in Path("replies.jsonl").read_text()


def test_a_request_that_was_not_recorded_is_told(server: ChatServer) -> None:
    shop("--model", "record:replies.jsonl:openai:small", "--model-options", "options.yaml")
    arguments = ["run", "shop.yaml", "--input", "order=other", "--input", "amount=1", *GIVEN[:2]]
    result = stepward(*arguments, "--model", "recorded:replies.jsonl")
    assert result.exit_code == 1
    words = (
        "has no reply for step `judge` (visit 1, attempt 1): what is asked differs from what was recorded in `prompt`"
    )
    assert words in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["openai:"], ["`--model` names no model", "`openai:NAME`"]),
        (["recorded:"], ["`--model` names no model"]),
        (["openai:small"], ["the address of model `small` is not known", "write `base_url: https://"]),
        (
            ["openai:other", "--model-options", "options.yaml", "--prices", "prices.yaml"],
            ["no price for model `other`"],
        ),
        (["openai:small", "--model-options", "none.yaml"], ["the options in `none.yaml` can't be read: no such file"]),
        (["openai:small", "--model-options", "list.yaml"], ["`list.yaml` holds no options"]),
        (["openai:small", "--model-options", "number.yaml"], ["`number.yaml`"]),
        (
            ["openai:small", "--model-options", "named.yaml"],
            ["`named.yaml` sets `model`", "give it with `--model NAME`"],
        ),
        (["openai:small", "--model-options", "secret.yaml"], ["must be `env:NAME` or `file:PATH`"]),
        (["openai:small", "--model-options", "options.yaml", "--prices", "list.yaml"], ["is no table of prices"]),
        (["recorded:none.jsonl"], ["there are no replies at `none.jsonl`"]),
        (["recorded:list.yaml"], ["line 1 of `list.yaml` is damaged"]),
        (["recorded:list.yaml", "--prices", "prices.yaml"], ["`--prices` has no meaning for a model `recorded:FILE`"]),
        (
            ["script:list.yaml", "--model-options", "x.yaml"],
            ["`--model-options` has no meaning for a model `script:FILE`"],
        ),
        (["record:replies.jsonl"], ["`--model record:replies.jsonl` does not name a file and a model to record"]),
        (["record::openai:small"], ["does not name a file and a model to record"]),
        (["record:a.jsonl:recorded:b.jsonl"], ["does not name a file and a model to record"]),
        (["record:a.jsonl:small"], ["the model `small` needs LiteLLM"]),
    ],
)
def test_options_that_name_no_model_are_told(
    server: ChatServer, options: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    Path("list.yaml").write_text("- 1\n")
    Path("number.yaml").write_text("1: 2\nbase_url: http://127.0.0.1:1/v1\n")
    Path("named.yaml").write_text("model: other\nbase_url: http://127.0.0.1:1/v1\n")
    Path("secret.yaml").write_text(f"key: {KEY}\nbase_url: http://127.0.0.1:1/v1\n")
    result = stepward("run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[:2], "--model", *options)
    says(result, 2, "error: ", *words)
    assert KEY not in result.output
    assert not server.asked


@pytest.mark.parametrize("option", ["--model-options", "--prices"])
def test_options_of_a_model_without_one_are_told(option: str) -> None:
    result = stepward("run", "shop.yaml", *ORDER, "--input", "amount=1", *GIVEN[:2], option, "x.yaml")
    says(result, 2, f"error: `{option}` is given without `--model`", "give a model: `script:FILE`")


def test_the_command_for_an_answer_repeats_the_options_of_the_model(server: ChatServer) -> None:
    named = ["--model", "openai:small", "--model-options", "options.yaml", "--prices", "prices.yaml"]
    result = shop(*named, amount=60)
    assert result.exit_code == 4, result.output
    assert " ".join(named) in result.stdout


OWN = """
from stepward.vm import ModelReply


class Judge:
    def __init__(self, reply):
        self.reply = reply

    def complete(self, request):
        return ModelReply(self.reply, tokens=3)


judge = Judge("yes")
number = 5
"""


def test_an_adapter_of_the_user_is_an_object_or_is_made_with_the_options() -> None:
    Path("own.py").write_text(OWN)
    Path("made.yaml").write_text("reply: yes\n")
    for named in (["own.py:judge"], ["own.py:Judge", "--model-options", "made.yaml"]):
        result = shop("--model", *named)
        assert result.exit_code == 0, result.output
        assert "3 tokens" in result.stdout


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["own.py:Judge"], ["`own.py:Judge` can't be made: TypeError", "`--model-options FILE`"]),
        (["own.py:judg"], ["`own.py:judg`: there is no `judg`", "did you mean `judge`?"]),
        (["own.py:number"], ["`own.py:number` can't be made", "`--model-options FILE`"]),
        (["own.py:ModelReply", "--model-options", "content.yaml"], ["`own.py:ModelReply`: ", "complete"]),
        (["own.py:judge", "--model-options", "made.yaml"], ["`own.py:judge` is an adapter already", "name its class"]),
        (["own.py:judge", "--prices", "prices.yaml"], ["`--prices` has no meaning", "let the adapter say the cost"]),
        (["none.py:judge"], ["`none.py` is no file", "name a .py file"]),
    ],
)
def test_what_is_no_adapter_is_told_in_words(named: list[str], words: list[str]) -> None:
    Path("own.py").write_text(OWN)
    Path("made.yaml").write_text("reply: yes\n")
    Path("content.yaml").write_text("content: yes\n")
    says(shop("--model", *named), 2, *words)


ITEMS = """
language: 2
name: items
inputs: {}
steps:
  - id: each
    type: for_each
    items: [a, b, c]
    as: one
    steps: [{id: judge, type: llm, prompt: "$one?"}, {id: out, type: end, output: $judge.output}]
  - {id: done, type: end, output: $each.output}
"""


@pytest.mark.parametrize(
    ("script", "replies"),
    [("yes", "yes yes yes"), ("[first]", "first first first"), ("[first, second]", "first second second")],
)
def test_the_last_reply_of_a_script_is_given_again(script: str, replies: str) -> None:
    """As specs/command.md says: a list has the next reply for each item, and then its last one."""
    Path("items.yaml").write_text(ITEMS)
    Path("script.yaml").write_text(f"judge: {script}\n")
    result = stepward("run", "items.yaml", "--model", "script:script.yaml", "--output-format", "json")
    assert result.exit_code == 0, result.output
    assert as_json(result)["run"]["output"] == replies.split()
