"""Scenes of keys and of what they sign and encrypt: texts, numbers and records, at their own interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from stepward.sabotage.recorded.keys import files, signs, values
from stepward.sabotage.recorded.notes import Notes
from stepward.sabotage.recorded.shared.probe import Probe

PARTS: Final[tuple[tuple[int, Callable[[Probe], None]], ...]] = (
    (8, files.files),
    (4, files.programs),
    (7, files.described),
    (10, files.vaults),
    (3, files.journals),
    (6, signs.signing),
    (10, signs.receipts),
    (10, signs.kept),
    (9, values.numbers),
    (8, values.values),
    (12, values.texts),
    (8, values.sealed),
    (8, values.records),
    (6, values.traces),
)
"""The parts of the scenes, and how often each comes."""


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the scene of a seed, and return what came. The options are those of machines, of which there are none."""
    del options
    with ExitStack() as stack:
        probe = Probe(seed, stack)
        (part,) = Random(f"part {seed}").choices([part for _, part in PARTS], [weight for weight, _ in PARTS])
        probe.play(part)
        return probe.notes
