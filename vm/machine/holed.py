"""The texts of the records that most runs and calls have, kept with holes for what differs from one to the next.

They are made by `event`, which writes all other records, so that nothing is said of the format here. What fills a hole
is canonical as well, and the fields of these records stay in one order: so the whole is canonical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import canonical, portable, quoted
from stepward.vm.machine.events import NOTHING, Event, Kind, event, made, unsealed
from stepward.vm.machine.keys import FrameName, frame_text

_HOLE: Final = " "
"""No id and no word of a record has white space."""


def text_of(value: Any) -> str:
    """Return the canonical text of a frozen value that has no sensitive part."""
    if value is None:
        return "null"
    data = portable(value)
    return quoted(data) if type(data) is str else canonical(data)


class Holed:
    """A record of a step, but for its frame in a body, its visit, and the value of the field `name`.

    With `is_sealed` its events have no text, because sensitive values are still to be sealed.
    """

    __slots__ = ("_body", "_is_behind", "_is_sealed", "_kind", "_name", "_text")

    def __init__(
        self, kind: Kind, body: Mapping[str, Any], name: str, *, is_framed: bool, is_sealed: bool = False
    ) -> None:
        holes = dict.fromkeys((name, "visit", *(["frame"] if is_framed else [])), _HOLE)
        self._kind, self._body, self._name, self._is_sealed = kind, {**body, **holes}, name, is_sealed
        text = event(kind, self._body).text
        self._text = text.replace("%", "%%").replace(f'"{_HOLE}"', "%s")
        self._is_behind = name > "frame"

    def event(self, value: Any, visit: int, frame: FrameName, note: Mapping[str, Any] = NOTHING) -> Event:
        """Return the record with a value."""
        body = self._body.copy()
        body[self._name] = value
        body["visit"] = visit
        if frame:
            body["frame"] = frame
        if self._is_sealed:
            return unsealed(self._kind, body, note)
        return made(self._kind, body, note, self.filled(text_of(value), visit, frame))

    def filled(self, written: str, visit: int, frame: FrameName) -> str:
        """Return the text with a value that `text_of` has written."""
        if not frame:
            return self._text % (written, visit)
        within = frame_text(frame)
        return self._text % ((within, written, visit) if self._is_behind else (written, within, visit))


class Start:
    """The first record of a run of a plan, but for what is of one run: its inputs, and what it says beside these."""

    __slots__ = ("_around", "_fields")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        before, _, behind = event("started", {"inputs": _HOLE, **fields}).text.partition(f'"{_HOLE}"')
        self._around = before, behind

    def event(self, inputs: Any, more: Mapping[str, Any], note: Mapping[str, Any], *, is_sealed: bool) -> Event:
        """Return the record; with `is_sealed` it has no text, because its sensitive values are still to be sealed."""
        body = {"inputs": inputs, **self._fields, **more}
        if is_sealed:
            return unsealed("started", body, note)
        if more:
            return event("started", body, note)
        return made("started", body, note, (text_of(inputs) if inputs else "{}").join(self._around))


class Texts(NamedTuple):
    """The texts of the records of a call: of its start under the policies of the plan, and of its success."""

    intent: Holed
    success: Holed

    @classmethod
    def of(
        cls,
        step: str,
        tool: str,
        left: Mapping[str, Any],
        policies: Sequence[str],
        *,
        is_framed: bool,
        is_sealed: bool,
    ) -> Texts:
        """Return the texts of a call; `left` are the fields by which its success leaves the step."""
        start, success = {"policies": policies, "step": step, "tool": tool}, {"kind": "success", "step": step, **left}
        intent = Holed("intent", start, "args", is_framed=is_framed)
        return cls(intent, Holed("attempt", success, "output", is_framed=is_framed, is_sealed=is_sealed))
