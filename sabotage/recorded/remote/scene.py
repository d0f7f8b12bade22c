"""Scenes of MCP servers: what they list and what is pinned, calls and what becomes of their answers, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.remote import connections, link_tables, listings, tables
from stepward.sabotage.recorded.shared.context import Act, SceneContext, play, show_module
from stepward.sabotage.recorded.tabling import show_tables

MODULES: Final = tuple(
    f"remote.{name}" for name in ("link", "pins", "proposal", "results", "servers", "streams", "tools", "web")
)


def show_constants(context: SceneContext) -> None:
    """Show the constants of modules."""
    for name in context.chance.sample(MODULES, 4):
        show_module(context.notes, name)


ACTS: Final[tuple[Act, ...]] = (
    *listings.ACTS,
    *connections.ACTS,
    show_constants,
)
OF_A_SCENE: Final = 3
"""The acts of one scene."""
SCENES: Final = 300
"""The scenes among which the cases of the tables are dealt out."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed on machines with these options, and return what came."""
    with ExitStack() as stack:
        context = SceneContext(seed, stack, options)
        play(context, ACTS, OF_A_SCENE)
        show_tables(context.notes, (*tables.TABLES, *link_tables.TABLES), seed, SCENES)
        return context.notes
