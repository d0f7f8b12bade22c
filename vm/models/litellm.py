"""Models of a hundred providers through LiteLLM: an extra, imported when a LiteLLMModel is made."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from stepward.vm.arguments import TEXT, made, require
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.models.chat import chat_of, plain, settings_of
from stepward.vm.models.prices import PriceTable, Usage
from stepward.vm.models.refusals import ModelRefused

SECRET_WORDS: Final = frozenset({"key", "secret", "token", "password", "credential", "credentials", "headers"})
"""Words in the name of an option that may be a secret."""


class LiteLLMModel:
    """A model by its name in LiteLLM: `openai/gpt-4o-mini`, `ollama/llama3`.

    `options` are passed to every call: `temperature`, `api_base`, `api_key`. Only the texts of the step, the accepted
    replies and these options are sent. LiteLLM does not retry: the machine does, and counts and charges each attempt.

    The cost is that of `prices`, or what LiteLLM knows without them. Raises ModelRefused if LiteLLM is not installed,
    or the table has no price for the model.
    """

    def __init__(self, model: str, *, prices: PriceTable | None = None, **options: Any) -> None:
        require(TEXT, model=model)
        require(made(PriceTable).or_none(), prices=prices)
        self._price = None if prices is None else prices.price(model)
        try:
            import litellm
        except ImportError as error:
            advice = "install Stepward with its extra: `pip install 'stepward[litellm]'`"
            raise ModelRefused(f"the model `{model}` needs LiteLLM ({error}); {advice}") from error
        self.model = model
        self.options = options
        self._litellm: Any = litellm

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The name and the options, without those whose names say that they may be secret."""
        options = {name: value for name, value in self.options.items() if not SECRET_WORDS & set(name.split("_"))}
        return {"model": self.model, **plain(options)}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply, with its tokens, its exact cost and the name of the model."""
        chat = chat_of(request, "schema" if self._takes_schemas() else "prompt")
        settings = {"max_retries": 0, **self.options, **settings_of(request)}
        response = await self._litellm.acompletion(model=self.model, messages=chat.messages, **settings, **chat.options)
        return ModelReply(
            chat.read(response.choices[0].message.content),
            _count(getattr(response, "usage", None), "total_tokens"),
            self._cost(response),
            str(getattr(response, "model", None) or self.model),
        )

    def _takes_schemas(self) -> bool:
        try:
            return bool(self._litellm.supports_response_schema(model=self.model))
        except Exception:  # it may raise anything for an unknown name
            return False

    def _cost(self, response: Any) -> int | Decimal | None:
        """Return the cost of the call, or None where nobody knows it."""
        if self._price is not None:
            usage = getattr(response, "usage", None)
            counts = Usage(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
            return self._price.cost(counts) if any(counts) else None
        try:
            cost = Decimal(str(self._litellm.completion_cost(completion_response=response)))
        except Exception:  # it has no common class for "the price is not known"
            return None
        return cost if cost.is_finite() else None


def _count(usage: Any, name: str) -> int:
    return int(getattr(usage, name, 0) or 0)
