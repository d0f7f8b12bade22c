"""Scenes of stores: what journals answer, what their files hold, and what a check and a copy of them say."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.recorded.shared.probe import Parts
from stepward.sabotage.recorded.stores import chains, copies, files, kits, requests, tables, verdict_tables

SCENES: Final = Parts(
    (
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
    ),
    tables=(*tables.TABLES, *verdict_tables.TABLES),
    scenes=400,
)
