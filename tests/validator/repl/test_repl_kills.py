"""Sessions whose processes are killed within turns: another one goes on, and nothing is doubled, lost or stuck.

`STEPWARD_TURN_KILLS=300` tries that many sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paths import SUPPORT
from sizes import asked_for

CHILD = SUPPORT / "turn_child.py"
TRIALS = asked_for("STEPWARD_TURN_KILLS", 6, 300)

pytestmark = [
    pytest.mark.usefixtures("warm"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes to be killed are forked"),
]


def campaign(folder: Path, **spec: Any) -> dict[str, Any]:
    command = [sys.executable, str(CHILD), json.dumps({"folder": str(folder), "seed": 1, **spec})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_session_that_is_killed_goes_on(tmp_path: Path) -> None:
    said = campaign(tmp_path, trials=TRIALS)
    assert not said["wrong"], "\n".join(said["wrong"])
    assert said["kills"] >= TRIALS


def test_a_session_that_forgets_what_a_failed_turn_did_is_found(tmp_path: Path) -> None:
    """The canary: after a restart the retry of a failed turn sends once more."""
    assert any("the effects are" in one for one in campaign(tmp_path, trials=2, without="memory")["wrong"])
