"""Writes the recordings again: `python -m stepward.sabotage.recorded`, with the names of kinds, or for all of them."""

from __future__ import annotations

import argparse

from stepward.sabotage.recorded.recordings import SCENES, record, recordings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stepward.sabotage.recorded", description="record scenes again")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(SCENES)}; all unless given")
    kinds = parser.parse_args().kinds or list(SCENES)
    unknown = [kind for kind in kinds if kind not in SCENES]
    if unknown:
        parser.error(f"there are no scenes of kind `{unknown[0]}`: name one of {', '.join(SCENES)}")
    for kind in kinds:
        record(kind, [one.seed for one in recordings(kind)])
