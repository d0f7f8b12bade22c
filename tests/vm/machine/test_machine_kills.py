"""Runs that are killed at random moments, in nine modes: nothing is doubled, lost or stuck.

By night 1,000 processes are killed whose runs are under way, or as many as `STEPWARD_KILLS` says. By day there are few,
which shows that the campaign works.
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
from sizes import MANY, asked_for

CHILD = SUPPORT / "kill_child.py"
KILLS = asked_for("STEPWARD_KILLS", 18, 1_000)
MODES = ("sync", "async", "thread", "parallel", "retry", "suspend", "items", "calls", "together")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes to be killed are forked"),
]


def campaign(folder: Path, **spec: Any) -> dict[str, Any]:
    """Run a campaign in an interpreter of its own, and return what it says of each mode."""
    seed = int(os.environ.get("STEPWARD_KILLS_SEED", time.time_ns() % 1_000_000 if MANY else 1))
    command = [sys.executable, str(CHILD), json.dumps({"folder": str(folder), "seed": seed, **spec})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"seed {seed}: {done.stdout}")  # what a failure, or `pytest -s`, shows
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", MODES)
def test_no_random_kill_doubles_loses_or_holds_up_anything(tmp_path: Path, mode: str) -> None:
    share = -(-KILLS // len(MODES))
    said = campaign(tmp_path, kills=share, modes=[mode])
    assert said.keys() == {mode}
    assert said[mode]["faults"] == []
    assert said[mode]["under_way"] >= share
    assert said[mode]["trials"] > 0


def test_a_machine_without_intents_is_caught_by_chance_too(tmp_path: Path) -> None:
    """The canary: of thirty kills of a machine whose intents are written late, some double a payment."""
    said = campaign(tmp_path, kills=30, modes=["sync"], without="intents", sought=["doubled: ('pay'", 1])
    assert [fault for fault in said["sync"]["faults"] if "doubled: ('pay'" in fault], said
