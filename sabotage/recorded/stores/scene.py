"""Scenes of stores: what journals answer, what their files hold, and what a check and a copy of them say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.probe import Probe
from stepward.sabotage.recorded.stores import chains, copies, files, kits, requests, tables, verdict_tables
from stepward.sabotage.recorded.tabling import show_tables

PARTS: Final[tuple[tuple[int, Callable[[Probe], None]], ...]] = (
    (44, requests.requests),
    (14, files.older),
    (8, files.other),
    (3, files.pages),
    (9, files.odd),
    (5, files.rows),
    (9, files.layouts),
    (36, chains.chains),
    (8, chains.many),
    (30, copies.copies),
    (9, copies.rotations),
    (14, kits.kits),
    (9, kits.servers),
)
"""The parts of the scenes, and how often each comes."""
SCENES: Final = 400
"""The scenes among which the cases of the tables are dealt out."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed, and return what came. The options are those of machines, of which there are none."""
    del options
    with ExitStack() as stack:
        probe = Probe(seed, stack)
        (part,) = Random(f"part {seed}").choices([part for _, part in PARTS], [weight for weight, _ in PARTS])
        probe.play(part)
        show_tables(probe.notes, (*tables.TABLES, *verdict_tables.TABLES), seed, SCENES)
        return probe.notes
