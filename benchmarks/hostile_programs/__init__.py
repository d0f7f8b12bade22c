"""Small programs, each of which makes another part of a check blow up that is not bounded.

Each is a family: `make(n)` is the program of that size as data, `size` the size at which it is measured, `small` one
that takes little time whatever is done with it, and `blows_up` what grows.
"""

from __future__ import annotations

from typing import Final

from hostile_programs import graphs, names, values  # each registers its families
from hostile_programs.family import NAMED, Hostile

__all__ = ["HOSTILE", "NAMED", "Hostile", "graphs", "names", "values"]

HOSTILE: Final = tuple(NAMED.values())
"""All of them."""
