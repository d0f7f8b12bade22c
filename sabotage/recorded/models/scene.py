"""Scenes of models and tools: what is sent, what becomes of each answer, and how machines are made with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from stepward.sabotage.recorded.models import calls, equipment, providers, replies, tables, taint_tables
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.context import Act, SceneContext, play, show_module
from stepward.sabotage.recorded.tabling import show_tables

MODULES: Final = (
    *(f"machine.{name}" for name in ("models", "ask", "caching", "breakers", "timeouts", "equipment", "declared")),
    *("machine.tools", "machine.sizes"),
    *(
        f"models.{name}"
        for name in ("cache", "cache_redis", "cache_sqlite", "chat", "exchange", "key", "litellm", "named")
    ),
    *(f"models.{name}" for name in ("openai", "opening", "prices", "recorded", "recordings")),
)


def show_constants(context: SceneContext) -> None:
    """Show the constants of modules."""
    for name in context.chance.sample(MODULES, 8):
        show_module(context.notes, name)


ACTS: Final[tuple[Act, ...]] = (*calls.ACTS, *equipment.ACTS, *providers.ACTS, *replies.ACTS, show_constants)
OF_A_SCENE: Final = 5
"""The acts of one scene."""
SCENES: Final = 300
"""The scenes among which the cases of the tables are dealt out."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed on machines with these options, and return what came."""
    with ExitStack() as stack:
        context = SceneContext(seed, stack, options)
        play(context, ACTS, OF_A_SCENE)
        show_tables(context.notes, (*tables.TABLES, *taint_tables.TABLES), seed, SCENES)
        return context.notes
