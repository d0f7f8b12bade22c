"""How much a random search tries; a helper, no tests stand here.

Every run of the tests tries a few cases of each search. `STEPWARD_MANY=1` tries many: the nightly run does.
"""

from __future__ import annotations

import os
from typing import Final

MANY: Final = bool(os.environ.get("STEPWARD_MANY"))


def size(few: int, many: int) -> int:
    """Return how many cases a search tries: `few`, or `many` if `STEPWARD_MANY` is set."""
    return many if MANY else few


def asked_for(name: str, few: int, many: int) -> int:
    """Return the number in the environment variable of that name; without one, as `size`."""
    return int(os.environ.get(name, size(few, many)))
