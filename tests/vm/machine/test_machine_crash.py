"""Processes that die: killed with SIGKILL at every append and around every effect, and recovered by two at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paths import SUPPORT
from sizes import MANY, size

CHILD = SUPPORT / "crash_child.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kill points are forked processes"),
]


def campaign(folder: Path, **spec: Any) -> dict[str, Any]:
    """Run the trials of a program in an interpreter of their own, and return what they say."""
    command = [sys.executable, str(CHILD), json.dumps({"folder": str(folder), **spec})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def some(faults: list[str]) -> str:
    return "\n".join([f"{len(faults)} faults", *faults[:20]])


NIGHTS = [(program, [share, 2], [1, 12]) for program in ("every", "refund") for share in (0, 1)]
DAYS = [("every", [1, 4], [1, 3]), ("refund", [0, 2], [0, 3])]
"""Programs, the share of their points, and at how many points a recovery is killed: elsewhere, and behind an effect."""


@pytest.mark.parametrize(("program", "share", "depth"), NIGHTS if MANY else DAYS)
def test_no_kill_doubles_or_loses_a_write(tmp_path: Path, program: str, share: list[int], depth: list[int]) -> None:
    """Each point of the run; behind each effect the recovery is killed at many points too, elsewhere at its first.

    By day a share of the points, for `every` odd ones: runs in threads are killed at the even ones, see below.
    """
    said = campaign(tmp_path, program=program, share=share, depth=depth)
    assert not said["faults"], some(said["faults"])
    # The reference run tells where the points are: a kill that misses its point would prove nothing.
    assert said["killed"] >= said["trials"]


@pytest.mark.parametrize("share", range(size(1, 2)))
def test_no_kill_doubles_or_loses_a_write_of_an_item(tmp_path: Path, share: int) -> None:
    """The same in bodies, with a call that waits to be tried again. Both nightly shares kill over 500 times."""
    said = campaign(tmp_path, program="lines", share=[share, size(10, 2)], depth=[1, size(2, 14)])
    assert not said["faults"], some(said["faults"])
    assert said["killed"] >= said["trials"]


def test_no_kill_doubles_or_loses_a_write_of_a_called_program(tmp_path: Path) -> None:
    """The same in calls, and calls within them. The nightly share kills over 300 times."""
    said = campaign(tmp_path, program="calls", share=[0, size(12, 1)], depth=[1, size(2, 8)])
    assert not said["faults"], some(said["faults"])
    assert said["killed"] >= said["trials"]


def test_the_points_are_where_they_should_be(tmp_path: Path) -> None:
    """Every append has its two points, every effect its three: a campaign that misses the payment is no campaign."""
    points = campaign(tmp_path, program="every", share=[-1, 1])["points"]
    for tool, performances in {"pay": 1, "mail": 2, "ship": 4}.items():
        for where in ("before", "behind", "after"):
            assert points.count(f"{where} {tool}") == performances
    appends = [point for point in points if "append" in point]
    assert len(appends) >= 2 * 9
    assert [point.split()[0] for point in appends] == ["before", "after"] * (len(appends) // 2)


def test_no_kill_doubles_or_loses_a_write_with_threads(tmp_path: Path) -> None:
    """The same under an event loop, with tools and journal in threads: sub-steps really overlap. By day at half the
    points."""
    said = campaign(tmp_path, program="every", mode="threads", share=[0, size(2, 1)])
    assert not said["faults"], some(said["faults"])
    assert said["killed"] >= said["trials"] * 0.9


def test_whoever_cancels_or_erases_may_be_killed(tmp_path: Path) -> None:
    said = campaign(tmp_path, program="refund", endings=True)
    assert not said["faults"], some(said["faults"])
    assert said["killed"] >= size(20, 60)


def test_a_machine_without_intents_is_caught(tmp_path: Path) -> None:
    """The canary: a journal that says of an intent that it is written before it is."""
    said = campaign(tmp_path, program="every", without="intents", sought=["doubled: ('pay'", 3])
    doubled = [fault for fault in said["faults"] if "doubled: ('pay'" in fault]
    assert len(doubled) >= 3, some(said["faults"])


def test_a_reconciled_run_has_the_trace_hash_of_one_that_was_not_killed(tmp_path: Path) -> None:
    said = campaign(tmp_path, program="every", only="behind pay")
    assert said["trials"] == 1
    assert not said["faults"], some(said["faults"])
