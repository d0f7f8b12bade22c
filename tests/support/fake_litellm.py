"""A fake of LiteLLM."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any


class Fake(ModuleType):
    """Stands for the module `litellm`: keeps what it is asked, and says what it is told to say."""

    def __init__(self) -> None:
        super().__init__("litellm")
        self.sent: list[dict[str, Any]] = []
        self.says: Any = "yes"
        self.usage: Any = SimpleNamespace(total_tokens=17)
        self.costs: Callable[[], Any] = lambda: 1.35e-05
        self.takes_schemas: Any = True

    async def acompletion(self, **sent: Any) -> Any:
        self.sent.append(sent)
        message = SimpleNamespace(content=self.says)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=self.usage, model="openai/small-2026")

    def completion_cost(self, completion_response: Any) -> Any:
        return self.costs()

    def supports_response_schema(self, model: str) -> bool:
        if isinstance(self.takes_schemas, Exception):
            raise self.takes_schemas
        return bool(self.takes_schemas)
