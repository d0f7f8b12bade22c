"""Scenes of models and tools: what is sent, what becomes of each answer, and how machines are made with them."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.recorded.models import calls, equipment, providers, replies, tables, taint_tables
from stepward.sabotage.recorded.shared.context import Acts, constants

MODULES: Final = (
    *(f"machine.{name}" for name in ("models", "ask", "caching", "breakers", "timeouts", "equipment", "declared")),
    *("machine.tools", "machine.sizes"),
    *(
        f"models.{name}"
        for name in ("cache", "cache_redis", "cache_sqlite", "chat", "exchange", "key", "litellm", "named")
    ),
    *(f"models.{name}" for name in ("openai", "opening", "prices", "recorded", "recordings")),
)


SCENES: Final = Acts(
    (*calls.ACTS, *equipment.ACTS, *providers.ACTS, *replies.ACTS, constants(MODULES, 8)),
    number=5,
    tables=(*tables.TABLES, *taint_tables.TABLES),
    scenes=300,
)
