"""Waits, and the time of a run, as the oracle judges them: none ends before its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.places import place_of
from stepward.sabotage.reference import Reference


def let_pass(reference: Reference, records: Sequence[Mapping[str, Any]]) -> None:
    """Let the time of a wait pass, whose end is the last record. Raises Breach if it was not over."""
    last = records[-1]
    place = place_of(last["body"])
    begun = [record for record in records if record["kind"] == "waiting" and place_of(record["body"]) == place]
    if not begun or last["note"]["time"] < begun[-1]["note"]["due"]:
        raise Breach(Invariant.GRAPH, f"the wait `{place[0]}` ends before its time")
    for resting in reference.resting:  # one that is over at once does not rest
        if (resting.step, resting.visit, resting.frame) == place:
            reference.let_pass(resting)


def run_out(reference: Reference, records: Sequence[Mapping[str, Any]]) -> None:
    """End the reference, because the last record says that the time of its run is over. Raises Breach if it was not."""
    lasts, began = reference.program.timeout_seconds, records[0]["at"]
    if lasts is None or records[-1]["note"]["time"] < began + lasts * 1_000_000:
        raise Breach(Invariant.BOUNDS, "the run ends before its time is over")
    reference.run_out()
