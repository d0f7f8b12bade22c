"""Runs that are killed at random moments, in six modes: nothing is doubled, lost or stuck.

`STEPWARD_KILLS=1000` kills that many processes whose runs are under way; without it there are few, which shows that the
campaign works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from paths import SUPPORT
from sizes import MANY

CHILD = SUPPORT / "kill_child.py"
KILLS = int(os.environ.get("STEPWARD_KILLS", "24"))
MODES = {"sync", "async", "thread", "parallel", "retry", "suspend"}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes to be killed are forked")]


def campaign(folder: Path, **spec: Any) -> dict[str, Any]:
    """Run a campaign in an interpreter of its own, and return what it says of each mode."""
    seed = int(os.environ.get("STEPWARD_KILLS_SEED", time.time_ns() % 1_000_000 if MANY else 1))
    command = [sys.executable, str(CHILD), json.dumps({"folder": str(folder), "seed": seed, **spec})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"seed {seed}: {done.stdout}")  # what a failure, or `pytest -s`, shows
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_no_random_kill_doubles_loses_or_holds_up_anything(tmp_path: Path) -> None:
    said = campaign(tmp_path, kills=KILLS)
    assert said.keys() == MODES
    faults = [fault for mode in said.values() for fault in mode["faults"]]
    assert not faults, "\n".join(faults)
    assert sum(mode["under_way"] for mode in said.values()) >= KILLS
    for name, mode in said.items():
        assert mode["under_way"] >= KILLS // len(MODES), name
        assert mode["trials"] > 0, name


def test_a_machine_without_intents_is_caught_by_chance_too(tmp_path: Path) -> None:
    """The canary: of thirty kills of a machine whose intents are written late, some double a payment."""
    said = campaign(tmp_path, kills=30, modes=["sync"], without="intents", sought=["doubled: ('pay'", 1])
    assert [fault for fault in said["sync"]["faults"] if "doubled: ('pay'" in fault], said
