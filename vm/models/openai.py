"""Models behind any HTTP server that speaks the chat completions of OpenAI: an extra, imported when one is made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn, get_args

from stepward.vm.arguments import TEXT, made, require
from stepward.vm.machine.models import ModelFailed, ModelReply, ModelRequest
from stepward.vm.models.chat import Structured, chat_of, plain, settings_of
from stepward.vm.models.exchange import server_at
from stepward.vm.models.key import KeySource, read_key
from stepward.vm.models.prices import PriceTable, Usage
from stepward.vm.models.refusals import ModelRefused

OURS: Final = frozenset({"model", "messages", "response_format", "stream", "stream_options", "n"})
"""Fields of the body that are set here, or whose answer is not read here."""

SECRETS: Final = frozenset({"api_key", "authorization", "password", "secret", "token", "headers", "extra_headers"})
"""Names that are no fields of a body: their values must not be sent there, and not be told as parameters."""

LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""The names of the most tokens of a reply: that of `body` is used for a step, too, else the last."""

MOST_QUOTED: Final = 200
"""Characters of a model's words in an error."""


class OpenAIModel:
    """A model behind an OpenAI-compatible server: `OpenAIModel("small", "https://models.example.com/v1")`.

    `key` says where the key is: `env:NAME`, `file:PATH`, or a function that returns it. Without it no key is sent.
    `structured` is how a restricted reply is asked for: `schema` where the server accepts a JSON Schema, `object` where
    it only knows JSON mode, `prompt` where it knows neither. `prices` gives the cost of a call; without it the cost is
    unknown. `timeout` bounds one request, and `patience` how long a busy server may make us wait; both in seconds.
    `body` are more fields of each request: `temperature=0`, `max_tokens=500`, `seed=7`, or what your server knows. What
    a step says takes precedence.

    Only the texts of the step, the accepted replies and these fields are sent. Raises ModelRefused if the extra
    `openai` is not installed, for options that can't be used, and for a key or a price that is not there.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        key: KeySource | None = None,
        structured: Structured = "schema",
        prices: PriceTable | None = None,
        timeout: float = 120.0,
        patience: float = 30.0,
        **body: Any,
    ) -> None:
        require(TEXT, model=model)
        require(made(PriceTable).or_none(), prices=prices)
        if structured not in get_args(Structured):
            raise ModelRefused(f"`structured` must be `schema`, `object` or `prompt`, not `{structured}`")
        if not model:
            raise ModelRefused("a model must have a name")
        limits = _seconds("timeout", timeout, least=0.001), _seconds("patience", patience, least=0)
        self.model = model
        self.structured: Structured = structured
        self._body = _checked_body(body)
        self._base_url = base_url
        self._key = key
        self._price = None if prices is None else prices.price(model)
        read_key(key)  # a key that is not there is told now, and not at the first call
        self._server = server_at(base_url, *limits)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r}, {self._base_url!r})"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What decides a reply besides the request; the key is not in it."""
        return {"model": self.model, "base_url": self._base_url, "structured": self.structured, **self._body}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply, with its tokens, its cost and the name of the model.

        Raises ModelFailed for a server that can't be reached, a refusal, a reply that is cut off, and any other answer
        without a reply; ModelRefused if the key is gone.
        """
        chat = chat_of(request, self.structured)
        settings = settings_of(request, next((name for name in LIMITS if name in self._body), LIMITS[-1]))
        body = {"model": self.model, "messages": chat.messages, **self._body, **settings, **chat.options}
        answer = await self._server.ask(json.dumps(body, allow_nan=False).encode(), read_key(self._key))
        spent = self._spent(answer)
        return spent._replace(content=chat.read(_text_of(answer, spent)))

    def _spent(self, answer: Mapping[str, Any]) -> ModelReply:
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        read_tokens, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        total = _count(usage.get("total_tokens"))
        cost = None
        if self._price is not None and read_tokens is not None and written is not None:
            cost = self._price.cost(Usage(read_tokens, written, _count(cached) or 0))
        name = answer.get("model")
        tokens = total if total is not None else (read_tokens or 0) + (written or 0)
        return ModelReply(None, tokens, cost, name if isinstance(name, str) and name else self.model)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text_of(answer: Mapping[str, Any], spent: ModelReply) -> str:
    """Return the text of the first choice; raises ModelFailed, with what was spent, if there is no whole one."""

    def refuse(why: str) -> NoReturn:
        raise ModelFailed(why, spent)

    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        refuse("the answer of the server has no choice with a message")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        refuse(f"the model refuses to answer: {refusal[:MOST_QUOTED]}")
    match choice.get("finish_reason"):
        case "length":
            refuse("the reply is cut off at the limit of tokens: raise `max_tokens`, or ask for less")
        case "content_filter":
            refuse("the reply was withheld by a filter of the provider")
        case _:
            pass
    text = message.get("content")
    if not isinstance(text, str):
        refuse("the reply of the model has no text")
    return text


def _checked_body(body: Mapping[str, Any]) -> dict[str, Any]:
    reserved = sorted(OURS & set(body))
    if reserved:
        raise ModelRefused(f"`{reserved[0]}` can't be set: the adapter sets it, or can't read what comes of it")
    secret = sorted(SECRETS & set(body))
    if secret:
        raise ModelRefused(f"`{secret[0]}` is no field of a request: name the source of the key with `key`")
    data: dict[str, Any] = plain(body)
    try:
        json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ModelRefused("the fields of the body must be plain JSON data") from None
    return data


def _seconds(name: str, value: object, *, least: float) -> float:
    seconds = plain(value)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not least <= seconds or math.isinf(seconds):
        raise ModelRefused(f"`{name}` must be a number of seconds, at least {least:g}")
    return float(seconds)
