"""Places in a run: a step, its visit, and the items of for_each steps that it is performed for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepward.vm.machine.keys import FrameName

Place = tuple[str, int, FrameName]
"""A step, its visit, and its frame; outside of all bodies the frame is empty."""


def frame_of(body: Mapping[str, Any]) -> FrameName:
    """Return the frame that the body of a record names."""
    return tuple((str(step), int(visit), int(round_), int(item)) for step, visit, round_, item in body.get("frame", ()))


def place_of(body: Mapping[str, Any]) -> Place:
    """Return the place that the body of a record names; it has a step."""
    return body["step"], body["visit"], frame_of(body)
