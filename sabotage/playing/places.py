"""Places in a run: a step, its visit, and the items and branches in which it is performed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepward.vm.machine.keys import FrameName

Place = tuple[str, int, FrameName]
"""A step, its visit, and its frame; outside of all bodies the frame is empty."""


def frame_of(body: Mapping[str, Any]) -> FrameName:
    """Return the frame that the body of a record names."""
    found = body.get("frame", ())
    return tuple(
        (str(step), int(visit), int(round_), one if isinstance(one, str) else int(one))
        for step, visit, round_, one in found
    )


def place_of(body: Mapping[str, Any]) -> Place:
    """Return the place that the body of a record names; it has a step."""
    return body["step"], body["visit"], frame_of(body)
