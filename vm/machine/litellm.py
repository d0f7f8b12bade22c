"""Models of a hundred providers through LiteLLM: an extra, imported when a LiteLLMModel is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.machine.models import ModelReply, ModelRequest

REPLY: Final = "reply"
"""The field for a reply that is not an object, because providers accept only schemas of objects."""


class ModelRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A model can't be asked: LiteLLM is not installed. `pip install 'stepward[litellm]'` installs it."""


class LiteLLMModel:
    """A model by its name in LiteLLM: `openai/gpt-4o-mini`, `ollama/llama3`.

    `options` are passed to every call: `temperature`, `api_base`, `api_key`. Only the texts of the step, the accepted
    replies and these options are sent. LiteLLM does not retry: the machine does, and counts and charges each attempt.
    """

    def __init__(self, model: str, **options: Any) -> None:
        try:
            import litellm
        except ImportError as error:
            advice = "install Stepward with its extra: `pip install 'stepward[litellm]'`"
            raise ModelRefused(f"the model `{model}` needs LiteLLM ({error}); {advice}") from error
        self.model = model
        self.options = options
        self._litellm: Any = litellm

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply, with its tokens, its exact cost and the name of the model."""
        schema = _reply_schema(request)
        is_wrapped = schema is not None and schema.get("type") != "object"
        shape: dict[str, Any] = {}
        if schema is not None and self._takes_schemas():
            root = _wrapped(schema) if is_wrapped else schema
            shape["response_format"] = {"type": "json_schema", "json_schema": {"name": REPLY, "schema": root}}
        advice = "" if shape else _instructions(request, schema)
        response = await self._litellm.acompletion(
            model=self.model, messages=_messages(request, advice), **{"max_retries": 0, **self.options}, **shape
        )
        content = response.choices[0].message.content
        return ModelReply(
            _unwrapped(content) if shape and is_wrapped else content,
            int(getattr(getattr(response, "usage", None), "total_tokens", 0) or 0),
            self._cost(response),
            str(getattr(response, "model", None) or self.model),
        )

    def _takes_schemas(self) -> bool:
        try:
            return bool(self._litellm.supports_response_schema(model=self.model))
        except Exception:  # it may raise anything for an unknown name
            return False

    def _cost(self, response: Any) -> int | Decimal:
        """Return the cost of the call by LiteLLM; 0 for a model whose price it does not know."""
        try:
            cost = Decimal(str(self._litellm.completion_cost(completion_response=response)))
        except Exception:  # it has no common class for "the price is not known"
            return 0
        return cost if cost.is_finite() else 0


def _messages(request: ModelRequest, advice: str) -> list[dict[str, str]]:
    system = "\n\n".join(text for text in (request.system, advice) if text)
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": request.prompt}]


def _reply_schema(request: ModelRequest) -> dict[str, Any] | None:
    """Return the JSON Schema of the reply, or None if any text is accepted."""
    if request.allowed is not None:
        return {"type": "string", "enum": list(request.allowed)}
    if request.schema is None or "string" in _kinds_of(request.schema):
        return None
    schema: dict[str, Any] = _plain(request.schema)
    return schema


def _kinds_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _plain(value: Any) -> Any:
    """Return a schema without our own `sensitive`."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if key != "sensitive" or not isinstance(item, bool)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {REPLY: schema}, "required": [REPLY], "additionalProperties": False}


def _unwrapped(content: Any) -> Any:
    """Return the reply in its object; any other content is returned unchanged, for the machine to check."""
    try:
        return json.loads(content, parse_float=Decimal)[REPLY]
    except (ValueError, TypeError, KeyError, RecursionError):
        return content


def _instructions(request: ModelRequest, schema: Mapping[str, Any] | None) -> str:
    """Return the accepted replies in words, for a model that does not accept a schema."""
    if request.allowed is not None:
        choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in request.allowed)
        return f"Reply with exactly one of these texts, without quotes and without another word: {choices}"
    return (
        ""
        if schema is None
        else f"Reply with JSON alone, of this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"
    )
