"""Writes the recordings again: `python -m stepward.sabotage.recorded`, with the names of kinds, or for all of them."""

from __future__ import annotations

import sys

from stepward.sabotage.recorded.recordings import SCENES, record, recordings

if __name__ == "__main__":
    for kind in sys.argv[1:] or SCENES:
        record(kind, [one.seed for one in recordings(kind)])
