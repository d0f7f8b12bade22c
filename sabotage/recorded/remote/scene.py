"""Scenes of MCP servers: what they list and what is pinned, calls and what becomes of their answers, and refusals."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.recorded.remote import connections, link_tables, listings, tables
from stepward.sabotage.recorded.shared.context import Acts, constants

MODULES: Final = tuple(
    f"remote.{name}" for name in ("link", "pins", "proposal", "results", "servers", "streams", "tools", "web")
)


SCENES: Final = Acts(
    (*listings.ACTS, *connections.ACTS, constants(MODULES, 4)),
    number=3,
    tables=(*tables.TABLES, *link_tables.TABLES),
    scenes=300,
)
