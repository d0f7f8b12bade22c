"""Hostile Lisp programs, in a child process: each ends within its limits with an error, and memory stays bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hostile_lisp import programs
from paths import ROOT
from sizes import size

MOST = 64 << 20
"""Bytes that the process may take over its start."""


@pytest.mark.parametrize(
    ("steps", "every"),
    [
        pytest.param(size(8_000, 300_000), 1, id="all", marks=pytest.mark.slow),
        pytest.param(size(100_000, 1_000_000), 23, id="long", marks=pytest.mark.slow),
    ],
)
def test_hostile_programs_end_with_an_error_within_bounded_memory(steps: int, every: int) -> None:
    if every == 1:
        assert len(programs()) >= 200
    child = [sys.executable, str(ROOT / "tests/support/hostile_lisp_child.py"), str(steps), str(every)]
    path = os.pathsep.join(str(ROOT / folder) for folder in (".typing", "tests/support"))
    done = subprocess.run(child, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["without"] == []
    assert said["grown"] < MOST, said
