"""Scenes of keys and of what they sign and encrypt: texts, numbers and records, at their own interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded import key_files, key_signs, key_values
from stepward.sabotage.recorded.desk import Desk
from stepward.sabotage.recorded.notes import Notes

PARTS: Final[tuple[tuple[int, Callable[[Desk], None]], ...]] = (
    (8, key_files.files),
    (4, key_files.programs),
    (7, key_files.described),
    (10, key_files.vaults),
    (3, key_files.journals),
    (6, key_signs.signing),
    (10, key_signs.receipts),
    (10, key_signs.kept),
    (9, key_values.numbers),
    (8, key_values.values),
    (12, key_values.texts),
    (8, key_values.sealed),
    (8, key_values.records),
    (6, key_values.traces),
)
"""The parts of the scenes, and how often each comes."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed, and return what came. The options are those of machines, of which there are none."""
    del options
    with ExitStack() as stack:
        desk = Desk(seed, stack)
        (part,) = Random(f"part {seed}").choices([part for _, part in PARTS], [weight for weight, _ in PARTS])
        desk.play(part)
        return desk.notes
