"""The runs that a machine has made for witnesses: many claims have one path, and its run is made once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from stepward.validator.engine.witnesses.observed import Asked, Record
from stepward.validator.engine.witnesses.witness import Witness
from stepward.validator.findings import Move
from stepward.vm.machine.run import Run

T = TypeVar("T")

MAX_PLAYED: Final = 64
"""The most runs that a machine keeps for other claims."""

MAX_RECORDS: Final = 500
"""A run with more records is not kept: few claims have one, and it takes memory."""


@dataclass(frozen=True)
class Played:
    """What a run has come to: its records, its path, and the first call for which the witness has no answer.

    `visit_numbers` numbers the visits of the calls of bodies, by frame.
    """

    run: Run
    records: tuple[Record, ...]
    moves: tuple[Move, ...]
    missing: Asked | None
    visit_numbers: Mapping[str, Mapping[tuple[tuple[Any, ...], int], int]]


class PlayedRuns:
    """The last runs of one machine, by their inputs and their answers; what a witness claims changes no run."""

    def __init__(self) -> None:
        self._stored: dict[str, Played] = {}

    def get(self, witness: Witness, play: Callable[[], Played]) -> Played:
        """Return the run of a witness, which is made unless it is kept."""
        # Texts tell `1` and `true` apart, as equality does not. All that a witness holds can be written (`freeze`).
        key = repr((witness.inputs, witness.script))
        played = self._stored.get(key) or play()
        if len(played.records) > MAX_RECORDS:
            return played
        if key not in self._stored and len(self._stored) >= MAX_PLAYED:
            del self._stored[next(iter(self._stored))]
        self._stored[key] = played
        return played


def outside_loops(function: Callable[[], T]) -> T:
    """Call a function that needs its own event loop: in a thread if a loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()
