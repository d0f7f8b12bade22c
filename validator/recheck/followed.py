"""The references that a certificate follows, with their blocks, and states that give each of them one block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepward.validator.recheck.cells import UNDEFINED, Cell, meet
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import below

State = tuple[int, ...] | None
"""For each followed reference the number of its block, OPEN or GIVEN; None where nothing is known."""

Changes = tuple[tuple[int, int], ...]
"""New blocks of followed references, as pairs of slot and block number."""


class Followed:
    """The references that a certificate follows, with the partition of each."""

    def __init__(self, names: Sequence[Names], cells: Sequence[tuple[Cell, ...]]) -> None:
        self.names = tuple(names)
        self.cells = tuple(cells)
        self.slot = {name: number for number, name in enumerate(self.names)}
        self.gone = [cut.index(UNDEFINED) for cut in self.cells]
        self._met: dict[tuple[int, Cell], tuple[int, ...]] = {}
        self._split: dict[int, tuple[dict[tuple[str, Any], int], list[int]]] = {}

    def under(self, root: Names) -> list[int]:
        """Return the slots of the followed references below a root, owners first."""
        return sorted(
            (self.slot[name] for name in self.names if below(name, root)), key=lambda slot: len(self.names[slot])
        )

    def meeting(self, slot: int, cell: Cell) -> tuple[int, ...]:
        """Return the numbers of the blocks of a reference that may share a value with a block."""
        key = (slot, cell)
        if key not in self._met:
            singles, others = self._sorted(slot)
            if cell.single:
                same = singles.get((cell.kind, cell.value))
                found = [one for one in others if meet(self.cells[slot][one], cell)]
                self._met[key] = tuple(found if same is None else sorted([*found, same]))
            else:
                self._met[key] = tuple(number for number, one in enumerate(self.cells[slot]) if meet(one, cell))
        return self._met[key]

    def _sorted(self, slot: int) -> tuple[dict[tuple[str, Any], int], list[int]]:
        """Return the single-valued blocks of a slot by value, and the other blocks. A long enum has many of the
        former."""
        if slot not in self._split:
            cells = self.cells[slot]
            singles = {(cell.kind, cell.value): number for number, cell in enumerate(cells) if cell.single}
            self._split[slot] = singles, [number for number, cell in enumerate(cells) if not cell.single]
        return self._split[slot]
