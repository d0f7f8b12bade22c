"""Fast: what OpenAIModel sends to a server on the loopback interface, and what it makes of each answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from decimal import Decimal
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, ChatServer, chat_server, data, said
from machines import unchecked
from stepward.vm import ModelFailed, ModelRefused, ModelReply, ModelRequest, OpenAIModel, PriceTable, Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.models import exchange

KEY = "sk-invented-0123456789"


shared = cache(exchange.certificates)


@pytest.fixture(autouse=True)
def shared_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the certificates of the machine takes longer than a test: all models here share them."""
    monkeypatch.setattr(exchange, "certificates", shared)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("COMPANY_KEY", KEY)
    with chat_server() as running:
        yield running


def request(
    prompt: str = "go?",
    system: str | None = None,
    allowed: tuple[str, ...] | None = None,
    schema: dict[str, Any] | None = None,
) -> ModelRequest:
    return ModelRequest(prompt, system, allowed, schema, "secret-step", 7, 8)


def ask(server: ChatServer, asked: ModelRequest | None = None, **options: Any) -> ModelReply:
    return asyncio.run(OpenAIModel("small", server.url, **options).complete(asked or request()))


def failure(server: ChatServer, **options: Any) -> ModelFailed:
    """Return the error of a call, after a look for the key in all that Python would print of it."""
    with pytest.raises(ModelFailed) as found:
        ask(server, key="env:COMPANY_KEY", **options)
    error = found.value
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error)
    assert "\n" not in str(error)
    assert not str(error).endswith(".")
    return error


USER = {"role": "user", "content": "go?"}


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_a_prompt_alone_is_all_that_is_sent(server: ChatServer) -> None:
    assert ask(server) == ModelReply("yes", 17, None, "small-2026")
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {"model": "small", "messages": [USER]}
    assert "authorization" not in asked.headers
    assert asked.headers["accept-encoding"] == "identity"


def test_the_system_text_the_key_and_the_fields_of_the_body_go_along(server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\n")
    for key in ("env:COMPANY_KEY", f"file:{file}", lambda: KEY):
        server.asked.clear()
        ask(
            server,
            request(system="be brief"),
            key=key,
            temperature=Decimal("0.5"),
            seed=7,
            max_tokens=9,
            extra={"a": [1]},
        )
        (asked,) = server.asked
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.body == {
            "model": "small",
            "messages": [{"role": "system", "content": "be brief"}, USER],
            "temperature": 0.5,
            "seed": 7,
            "max_tokens": 9,
            "extra": {"a": [1]},
        }


def wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"reply": schema}, "required": ["reply"], "additionalProperties": False}


TOTAL = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
NUMBERS = {"type": "array", "items": {"type": "number"}}
CHOICE = {"type": "string", "enum": ["yes", "no"]}


@pytest.mark.parametrize(
    ("asked", "sent", "says", "content"),
    [
        (request(schema=TOTAL), TOTAL, '{"total": 1.10}', '{"total": 1.10}'),
        (request(schema=NUMBERS), wrapped(NUMBERS), '{"reply": [1.10]}', [Decimal("1.10")]),
        (request(allowed=("yes", "no")), wrapped(CHOICE), '{"reply": "no"}', "no"),
        (request(allowed=("yes", "no")), wrapped(CHOICE), "perhaps", "perhaps"),
    ],
)
def test_a_schema_is_sent_as_it_is_or_in_an_object(
    server: ChatServer, asked: ModelRequest, sent: Any, says: str, content: Any
) -> None:
    server.answers = [said(says)]
    assert ask(server, asked).content == content
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": sent}}
    assert server.asked[0].body["response_format"] == form
    assert server.asked[0].body["messages"] == [USER]


def test_a_server_with_json_mode_alone_is_told_the_schema_in_words(server: ChatServer) -> None:
    server.answers = [said('{"reply": "no"}')]
    assert ask(server, request(allowed=("yes", "no")), structured="object").content == "no"
    body = server.asked[0].body
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["content"].startswith("Reply with one JSON object alone. It fits this JSON Schema: {")


@pytest.mark.parametrize(
    ("says", "content"),
    [
        ("I think\n<reply>\n[1.10]\n</reply> is right", "[1.10]"),
        ("[1.10]", "[1.10]"),
        ("<reply>[1]</reply> or <reply>[2]</reply>", "<reply>[1]</reply> or <reply>[2]</reply>"),
        ("</reply>[1]<reply>", "</reply>[1]<reply>"),
        ("<reply>[1]", "<reply>[1]"),
    ],
)
def test_a_reply_asked_for_in_words_is_read_between_its_marks(server: ChatServer, says: str, content: str) -> None:
    server.answers = [said(says)]
    assert ask(server, request(schema=NUMBERS), structured="prompt").content == content
    body = server.asked[0].body
    assert "response_format" not in body
    assert body["messages"][0]["content"].startswith("Write your reply as JSON between <reply> and </reply>")


def test_a_choice_asked_for_in_words_has_no_marks(server: ChatServer) -> None:
    server.answers = [said("no")]
    assert ask(server, request(allowed=("yes", "no")), structured="prompt").content == "no"
    assert server.asked[0].body["messages"][0]["content"] == (
        'Reply with exactly one of these texts, without quotes and without another word: "yes", "no"'
    )


# -- tokens and costs --------------------------------------------------------------------------------------------------

PRICES = PriceTable({"small": {"input": Decimal("0.15"), "output": Decimal("0.60"), "cached_input": Decimal("0.075")}})


@pytest.mark.parametrize(
    ("usage", "tokens", "cost"),
    [
        ((1_000, 100), 1_100, Decimal("0.00021")),
        ({"prompt_tokens": 3, "completion_tokens": 1}, 4, Decimal("0.00000105")),
        (
            {"prompt_tokens": 4, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 3}},
            4,
            Decimal("0.000000375"),
        ),
        (
            {"prompt_tokens": 4, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 9}},
            4,
            Decimal("3E-7"),
        ),
        (
            {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": "x"}},
            5,
            Decimal("0.0000012"),
        ),
        ({"total_tokens": 9}, 9, None),
        ({"prompt_tokens": True, "completion_tokens": -1, "total_tokens": "9"}, 0, None),
        (None, 0, None),
        ([], 0, None),
    ],
)
def test_tokens_and_the_exact_cost_come_from_the_usage(server: ChatServer, usage: Any, tokens: int, cost: Any) -> None:
    server.answers = [said("yes", usage=usage)]
    reply = ask(server, prices=PRICES)
    assert (reply.tokens, reply.cost) == (tokens, cost)


def test_the_name_of_the_model_is_that_of_the_answer_or_ours(server: ChatServer) -> None:
    server.answers = [said("yes", model=None), said("yes", model=3), said("yes", model="")]
    assert {ask(server).model for _ in range(3)} == {"small"}


# -- answers that are no reply -----------------------------------------------------------------------------------------

SPENT = ModelReply(None, 17, None, "small-2026")
CHARGED = [
    (said(None, refusal="I can't help"), "the model refuses to answer: I can't help"),
    (said("ye", finish="length"), "the reply is cut off at the limit of tokens: raise `max_tokens`, or ask for less"),
    (said("", finish="content_filter"), "the reply was withheld by a filter of the provider"),
    (said(None, finish="tool_calls"), "the reply of the model has no text"),
    (said([{"type": "text", "text": "yes"}]), "the reply of the model has no text"),
]


@pytest.mark.parametrize(("answer", "words"), CHARGED)
def test_a_reply_that_can_not_be_used_is_charged(server: ChatServer, answer: Answer, words: str) -> None:
    server.answers = [answer]
    error = failure(server)
    assert (str(error), error.spent) == (words, SPENT)


HTML = (("Content-Type", "text/html; charset=utf-8"),)
BROKEN = [
    (data({"choices": []}), "the answer of the server has no choice with a message"),
    (data({"choices": None}), "the answer of the server has no choice with a message"),
    (data({"choices": [3]}), "the answer of the server has no choice with a message"),
    (data({"choices": [{"message": "yes"}]}), "the answer of the server has no choice with a message"),
    (data([]), "the answer of the server is no JSON object"),
    (Answer(b"{"), "the answer of the server is no JSON object"),
    (Answer(b"\xff\xfe{}"), "the answer of the server is no JSON object"),
    (Answer(b"[" * 100_000), "the answer of the server is no JSON object"),
    (Answer(b'{"a": ' + b"9" * 10_000 + b"}"), "the answer of the server is no JSON object"),
    (
        Answer(b"<html>", headers=HTML),
        "the server answers with `text/html` and not with JSON; `base_url` often ends in `/v1`",
    ),
    (
        Answer(b"{}", headers=()),
        "the server answers with something without a type and not with JSON; `base_url` often ends in `/v1`",
    ),
    (data({"error": {"message": "overloaded"}}), "the server answers with an error: overloaded"),
    (data({"error": {"message": f"no model\nfor {KEY}"}}, 400), "the server refuses the request (400): no model for …"),
    (data({"error": "no such model"}, 404), "the server refuses the request (404): no such model"),
    (data({"error": {"message": "x" * 9_999}}, 500), f"the server refuses the request (500): {'x' * 300}…"),
    (Answer(b"<html>", 502, HTML), "the server refuses the request (502)"),
    (data({"error": {"message": f"bad key {KEY}"}}, 401), "the server refuses the key (401)"),
    (data({}, 403), "the server refuses the key (403)"),
    (data({}, 429), "the server refuses the request (429)"),
    (
        data({}, 302, Location="https://other.example.com/v1?key=hush"),
        "the server redirects to host `other.example.com` (302), and redirects are not followed: correct `base_url`",
    ),
    (
        data({}, 307, Location="/v2/chat"),
        "the server redirects (307), and redirects are not followed: correct `base_url`",
    ),
    (
        Answer(b"x", headers=(("Content-Type", "application/json"), ("Content-Encoding", "gzip"))),
        "the server packs its answer, though the request forbids it",
    ),
]


@pytest.mark.parametrize(("answer", "words"), BROKEN)
def test_an_answer_that_is_none_is_said_in_one_line(server: ChatServer, answer: Answer, words: str) -> None:
    server.answers = [answer]
    error = failure(server)
    assert str(error) == words
    assert len(server.asked) == 1, "nothing is asked again"


def test_an_answer_is_read_up_to_a_limit(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 1_000)
    server.answers = [said("x" * 1_000)]
    assert str(failure(server)) == "the answer of the server has more than the 1,000 bytes allowed"
    server.answers = [said("x" * 700)]
    assert len(ask(server).content) == 700


def test_an_answer_that_ends_too_early_is_told(server: ChatServer) -> None:
    server.answers = [said("yes")._replace(cut=True)]
    assert str(failure(server)).startswith("the answer of the server broke off: ")


def test_a_server_that_is_not_there_is_told(server: ChatServer) -> None:
    with chat_server() as gone:
        pass
    assert str(failure(gone)).startswith(f"`{gone.url}/chat/completions` can't be reached: ")


def test_a_server_that_says_nothing_is_left_after_the_time_out(server: ChatServer) -> None:
    done = threading.Event()
    server.before = lambda: done.wait(5)
    assert str(failure(server, timeout=0.05)) == "the server has not answered within 0.05 seconds"
    done.set()


# -- a busy server -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("when", ["0", "Thu, 01 Jan 2026 00:00:00 GMT"])
def test_a_busy_server_is_asked_again_when_it_says_so(server: ChatServer, status: int, when: str) -> None:
    server.answers = [data({}, status, Retry_After=when), data({}, status, Retry_After=when), said("yes")]
    assert ask(server).content == "yes"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("31", "the server is busy (429): it asks to come back in 31 seconds"),
        ("9" * 500, "the server is busy (429): it asks to come back in 999,999,999 seconds"),
        (formatdate(4_000_000_000, usegmt=True), "the server is busy (429): it asks to come back in "),
        ("soon", "the server refuses the request (429)"),
        ("-1", "the server refuses the request (429)"),
        ("٣", "the server refuses the request (429)"),
    ],
)
def test_a_wait_that_is_too_long_or_unreadable_is_left_to_the_machine(
    server: ChatServer, when: str, words: str
) -> None:
    server.answers = [data({}, 429, Retry_After=when.encode().decode("latin-1")), said("yes")]
    assert str(failure(server)).startswith(words)
    assert len(server.asked) == 1


def test_the_waits_of_one_call_are_bounded_in_number_and_together(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers = [data({}, 503, Retry_After="0")]
    assert str(failure(server)).endswith("come back in 0 seconds, after 5 requests")
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(exchange, "sleep", sleep)
    server.asked.clear()
    server.answers = [data({}, 503, Retry_After="4")]
    assert str(failure(server, patience=10)).endswith("come back in 4 seconds, after 3 requests")
    assert slept == [4, 4]


def test_the_time_out_of_a_step_ends_a_wait(server: ChatServer) -> None:
    server.answers = [data({}, 429, Retry_After="25"), said("yes")]
    program = Program.from_yaml(
        """
name: p
inputs: {}
steps:
  - {id: judge, type: llm, prompt: "yes?", timeout_seconds: 0.2, output_key: x}
"""
    )
    run = unchecked(model=OpenAIModel("small", server.url)).run_sync(program)
    assert (run.status, len(server.asked)) == ("FAILED", 1)
    assert "took longer than 0.2 seconds" in str(run.trace)


def test_the_machine_charges_what_failed_and_retries(server: ChatServer) -> None:
    server.answers = [said("ye", finish="length"), data({}, 500), said("yes")]
    program = Program.from_yaml(
        """
name: p
inputs: {}
steps:
  - {id: judge, type: llm, prompt: "yes?", output_key: x, on_error: retry, max_retries: 3, next_step: done}
  - {id: done, type: end, output: $x}
"""
    )
    run = unchecked(model=OpenAIModel("small", server.url, prices=PRICES), clock=ManualClock()).run_sync(program)
    assert (run.output, run.tokens, run.cost) == (
        "yes",
        34,
        2 * (10 * Decimal("0.15") + 7 * Decimal("0.6")) / 1_000_000,
    )


def test_calls_side_by_side_do_not_mix(server: ChatServer) -> None:
    model = OpenAIModel("small", server.url)

    async def both() -> list[ModelReply]:
        return list(await asyncio.gather(*(model.complete(request(f"go {number}")) for number in range(8))))

    assert len(asyncio.run(both())) == 8
    assert {one.body["messages"][0]["content"] for one in server.asked} == {f"go {number}" for number in range(8)}


# -- what is refused when a model is made ------------------------------------------------------------------------------


NO_ADDRESSES = (
    "", "models.example.com/v1", "ftp://x/v1", "http://", "http://[::1", "http://x:99999/v1", "http://x y/v1", None,
    "http://ä/", "http://[v1.x]/v1", f"http://x/{'a' * 70_000}",
)  # fmt: skip


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(ModelRefused, match="`base_url` must be the address of a server"):
        OpenAIModel("small", url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://ann:hush@x/v1", "`base_url` must have no user and no password"),
        ("https://x/v1?key=hush", "`base_url` must end with its path"),
    ],
)
def test_an_address_with_a_secret_is_refused_without_it(url: str, words: str) -> None:
    with pytest.raises(ModelRefused, match=words) as found:
        OpenAIModel("small", url)
    assert "hush" not in str(found.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"structured": "yaml"}, "`structured` must be `schema`, `object` or `prompt`, not `yaml`"),
        ({"timeout": 0}, "`timeout` must be a number of seconds, at least 0.001"),
        ({"timeout": "x"}, "`timeout` must be a number of seconds"),
        ({"timeout": float("nan")}, "`timeout` must be a number of seconds"),
        ({"patience": -1}, "`patience` must be a number of seconds, at least 0"),
        ({"patience": float("inf")}, "`patience` must be a number of seconds, at least 0"),
        ({"stream": True}, "`stream` can't be set"),
        ({"n": 2}, "`n` can't be set"),
        ({"api_key": KEY}, "`api_key` is no field of a request: name the source of the key with `key`"),
        ({"seed": {1}}, "the fields of the body must be plain JSON data"),
        ({"seed": float("nan")}, "the fields of the body must be plain JSON data"),
        ({"prices": PriceTable({})}, "the table of prices has no price for model `small`"),
        ({"key": KEY}, "must be `env:NAME` or `file:PATH`, and not the key itself"),
        ({"key": "env:"}, "must be `env:NAME` or `file:PATH`"),
        ({"key": 3}, "must be `env:NAME` or `file:PATH`"),
        ({"key": "env:NO_SUCH_KEY"}, "there is no variable `NO_SUCH_KEY` in the environment"),
        ({"key": "file:/no/such/key"}, "the key of the model in `/no/such/key` can't be read: no such file"),
        ({"key": "file:/"}, "the key of the model in `/` can't be read"),
        ({"key": lambda: f"{KEY} {KEY}"}, "the function of `key` holds no key of a model"),
        ({"key": lambda: f"{KEY}\r\nX: y"}, "the function of `key` holds no key of a model"),
        ({"key": lambda: ""}, "holds no key of a model"),
        ({"key": lambda: "ü" + KEY}, "holds no key of a model"),
    ],
)
def test_options_that_can_not_be_used_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelRefused) as found:
        OpenAIModel("small", "http://127.0.0.1:1/v1", **options)
    assert words in str(found.value)
    assert KEY not in "".join(traceback.format_exception(found.value))


def test_a_variable_or_a_file_without_a_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    for content in ("", f"{KEY} {KEY}", f"{KEY}\n{KEY}", "x" * 9_000):
        file.write_text(content)
        monkeypatch.setenv("BAD_KEY", content)
        for source, where in (("env:BAD_KEY", "the variable `BAD_KEY`"), (f"file:{file}", f"the file `{file}`")):
            with pytest.raises(ModelRefused) as found:
                OpenAIModel("small", "http://127.0.0.1:1/v1", key=source)
            assert str(found.value).startswith(f"{where} holds no key of a model: a key is one word of at most 8,192")
            assert KEY not in str(found.value)


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(ModelRefused, match="a model must have a name"):
        OpenAIModel("", "http://127.0.0.1:1/v1")


def test_the_key_is_in_no_object(server: ChatServer) -> None:
    model = OpenAIModel("small", server.url, key="env:COMPANY_KEY", seed=7)
    assert asyncio.run(model.complete(request())).content == "yes"
    assert KEY not in f"{model!r} {vars(model)} {model._server!r} {dict(model.parameters)}"
    assert model.parameters == {"model": "small", "base_url": server.url, "structured": "schema", "seed": 7}


def test_a_key_that_is_gone_is_told_at_the_call(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpenAIModel("small", server.url, key="env:COMPANY_KEY")
    monkeypatch.delenv("COMPANY_KEY")
    with pytest.raises(ModelRefused, match="there is no variable `COMPANY_KEY`"):
        asyncio.run(model.complete(request()))


def test_without_httpx2_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ModelRefused, match=r"pip install 'stepward\[openai\]'"):
        OpenAIModel("small", "http://127.0.0.1:1/v1")


def test_what_is_not_used_is_not_imported() -> None:
    code = "import sys; from stepward.vm import ExecutionVM, OpenAIModel; assert 'httpx2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
