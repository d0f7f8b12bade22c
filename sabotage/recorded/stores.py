"""Scenes of stores: what journals answer, what their files hold, and what a check and a copy of them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded import (
    store_chains,
    store_copies,
    store_files,
    store_kits,
    store_requests,
    store_tables,
    verdict_tables,
)
from stepward.sabotage.recorded.desk import Desk
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.tabling import show_tables

PARTS: Final[tuple[tuple[int, Callable[[Desk], None]], ...]] = (
    (44, store_requests.requests),
    (14, store_files.older),
    (8, store_files.other),
    (3, store_files.pages),
    (9, store_files.odd),
    (5, store_files.rows),
    (9, store_files.layouts),
    (36, store_chains.chains),
    (8, store_chains.many),
    (30, store_copies.copies),
    (9, store_copies.rotations),
    (14, store_kits.kits),
    (9, store_kits.servers),
)
"""The parts of the scenes, and how often each comes."""
SCENES: Final = 400
"""The scenes among which the cases of the tables are dealt out."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed, and return what came. The options are those of machines, of which there are none."""
    del options
    with ExitStack() as stack:
        desk = Desk(seed, stack)
        (part,) = Random(f"part {seed}").choices([part for _, part in PARTS], [weight for weight, _ in PARTS])
        desk.play(part)
        show_tables(desk.notes, (*store_tables.TABLES, *verdict_tables.TABLES), seed, SCENES)
        return desk.notes
