"""Replays the breaches of canaries in a process of its own; a helper that is run as a script, no tests stand here.

    python tests/support/canary_child.py FOLDER

The folder has a script for each canary, by its name. Prints for each what a replay on the broken machine comes to, and
what one on the whole machine comes to.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pytest

from canaries import canaries
from stepward.sabotage.campaigns.script import Script


def main() -> None:
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)  # as in conftest.py
    for canary in canaries():
        path = Path(sys.argv[1]) / f"{canary.name}.json"
        if not path.exists():
            continue
        script = Script.load(path)
        with pytest.MonkeyPatch.context() as patch:
            canary.patch(patch)
            broken = script.replay()[0]
        try:
            whole = str(script.replay()[0])
        except Exception as error:  # the decisions of a broken machine may be none of a whole one
            whole = type(error).__name__
        print(json.dumps([canary.name, str(broken), whole]))


if __name__ == "__main__":
    main()
