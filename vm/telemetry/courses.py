"""What a run has begun and not ended, as its spans need to know it: spans, visits of steps, and branches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stepward.vm.journal.records import Record

Attributes = dict[str, str | int | float | bool]


class Open:
    """A span that has not ended; `record` is the number of the record that it began with."""

    __slots__ = ("attributes", "link", "name", "parent_id", "span_id", "start")

    def __init__(
        self,
        span_id: int,
        parent_id: int | None,
        name: str,
        start: int,
        attributes: Attributes,
        link: int | None = None,
    ) -> None:
        self.span_id = span_id
        self.parent_id = parent_id
        self.name = name
        self.start = start
        self.attributes = attributes
        self.link = link


class Visit:
    """The visit of the present step. `span` is None while the run waits.

    `phases` are those of its calls by id, `subs` the open spans of sub-steps, `intents` the records of calls that have
    started, `held` the records that a call waits since, `earlier` the ids of spans of this visit that have ended.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.span: Open | None = None
        self.phases: dict[str, str] = {}
        self.subs: dict[str, Open] = {}
        self.intents: dict[str, Record] = {}
        self.held: dict[str, int] = {}
        self.earlier: dict[str, int] = {}


class Course:
    """Where a branch is: its visit of the present step, the visits around it, and when it arrived there."""

    def __init__(self, around: list[Visit], arrived: int) -> None:
        self.visit: Visit | None = None
        self.around = around
        self.arrived = arrived


Frame = tuple[tuple[Any, ...], ...]


def branch_of(frame: Frame, beside: Collection[str]) -> Frame:
    """Return the frame of the innermost branch that a frame is in, or is itself; empty outside of branches.

    The items of the for_each steps `beside` run at once, as branches do.
    """
    depths = (at for at, member in enumerate(frame, start=1) if isinstance(member[3], str) or member[0] in beside)
    return frame[: max(depths, default=0)]


def frame_of(record: Record) -> Frame:
    """Return the frame of a record."""
    return tuple(tuple(member) for member in record.body.get("frame", ()))
