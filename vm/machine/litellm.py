"""Models by way of LiteLLM, which knows a hundred providers: an extra, imported when a LiteLLMModel is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.machine.models import ModelReply, ModelRequest

REPLY: Final = "reply"
"""The field that holds a reply which is no object: providers take schemas of objects only."""


class ModelRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A model can't be asked: LiteLLM is not installed. `pip install 'stepward[litellm]'` installs it."""


class LiteLLMModel:
    """A model that LiteLLM knows, by the name that it has there: `openai/gpt-4o-mini`, `ollama/llama3`.

    `options` go to every call as they are: `temperature`, `api_base`, `api_key`. Sent are the texts of the step, what
    replies it accepts and these options; nothing of the machine. Retries are the machine's: it counts and charges each.
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
        """Return the model's reply, with its tokens, its exact cost and the model that gave it."""
        schema = _wanted(request)
        is_wrapped = schema is not None and schema.get("type") != "object"
        shape: dict[str, Any] = {}
        if schema is not None and self._takes_schemas():
            root = _wrapped(schema) if is_wrapped else schema
            shape["response_format"] = {"type": "json_schema", "json_schema": {"name": REPLY, "schema": root}}
        advice = "" if shape else _in_words(request, schema)
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
        except Exception:  # it raises what it likes for a name that it does not know
            return False

    def _cost(self, response: Any) -> int | Decimal:
        """Return what the call cost, as LiteLLM writes it; 0 for a model whose price it does not know."""
        try:
            cost = Decimal(str(self._litellm.completion_cost(completion_response=response)))
        except InvalidOperation:
            return 0
        except Exception:  # it has no common class for "the price is not known"
            return 0
        return cost if cost.is_finite() else 0


def _messages(request: ModelRequest, advice: str) -> list[dict[str, str]]:
    system = "\n\n".join(text for text in (request.system, advice) if text)
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": request.prompt}]


def _wanted(request: ModelRequest) -> dict[str, Any] | None:
    """Return the JSON Schema of the reply, or None where any text will do."""
    if request.allowed is not None:
        return {"type": "string", "enum": list(request.allowed)}
    if request.schema is None or "string" in _words(request.schema):
        return None
    schema: dict[str, Any] = _plain(request.schema)
    return schema


def _words(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _plain(value: Any) -> Any:
    """Return a schema as JSON: bounds as doubles, which is near enough for a hint, and without our own `sensitive`."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if key != "sensitive" or not isinstance(item, bool)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {REPLY: schema}, "required": [REPLY], "additionalProperties": False}


def _unwrapped(content: Any) -> Any:
    """Return the reply out of its object; what is none goes to the machine as it came, and is judged there."""
    try:
        return json.loads(content, parse_float=Decimal)[REPLY]
    except (ValueError, TypeError, KeyError, RecursionError):
        return content


def _in_words(request: ModelRequest, schema: Mapping[str, Any] | None) -> str:
    """Say what replies are accepted, for a model that takes no schema."""
    if request.allowed is not None:
        choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in request.allowed)
        return f"Reply with exactly one of these texts, without quotes and without another word: {choices}"
    return (
        ""
        if schema is None
        else f"Reply with JSON alone, of this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"
    )
