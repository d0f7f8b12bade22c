"""Waits, deadlines and the time of a run, as the oracle judges them: none is over before its time."""

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
    waits = [record for record in records if record["kind"] == "waiting" and place_of(record["body"]) == place]
    if not waits or last["note"]["time"] < waits[-1]["note"]["due"]:
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


def expire(reference: Reference, records: Sequence[Mapping[str, Any]]) -> None:
    """Let the deadline of a call pass, as the last record says. Raises Breach if it had not passed."""
    last = records[-1]
    place = place_of(last["body"])
    suspensions = [one for one in records if one["body"].get("kind") == "suspended" and place_of(one["body"]) == place]
    due = suspensions[-1]["note"].get("due") if suspensions else None
    if due is None or last["note"]["time"] < due:
        raise Breach(Invariant.GRAPH, f"the deadline of `{place[0]}` passes before its time")
    if (place[0], place[2]) not in reference.deadlines:
        raise Breach(Invariant.ENDINGS, f"the deadline of `{place[0]}` passes, and it waits for nothing")
    reference.pass_deadlines([(place[0], place[2])])
