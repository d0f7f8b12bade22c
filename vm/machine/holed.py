"""The texts of the records that most calls have, kept with holes for what differs from visit to visit.

They are made by `event`, which writes all other records, so that nothing is said of the format here. What fills a hole
is canonical as well, and the fields of these records stay in one order: so the whole is canonical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.machine.events import Kind, event
from stepward.vm.machine.keys import FrameName

_HOLE: Final = " "
"""No id and no word of a record has white space."""


class Holed:
    """The text of a record of a call, but for its frame in a body, its visit, and the value of the field `name`."""

    __slots__ = ("_is_behind", "_text")

    def __init__(self, kind: Kind, body: Mapping[str, Any], name: str, *, is_framed: bool) -> None:
        holes = dict.fromkeys((name, "visit", *(["frame"] if is_framed else [])), _HOLE)
        text = event(kind, {**body, **holes}).text
        self._text = text.replace("%", "%%").replace(f'"{_HOLE}"', "%s")
        self._is_behind = name > "frame"

    def filled(self, value: Any, visit: int, frame: FrameName) -> str:
        """Return the text with a frozen value that has no sensitive part."""
        written = "null" if value is None else canonical(portable(value))
        if not frame:
            return self._text % (written, visit)
        within = canonical(frame)
        return self._text % ((within, written, visit) if self._is_behind else (written, within, visit))


class Texts(NamedTuple):
    """The texts of the records of a call: of its start under the policies of the plan, and of its success."""

    intent: Holed
    success: Holed

    @classmethod
    def of(cls, step: str, tool: str, left: Mapping[str, Any], policies: Sequence[str], *, is_framed: bool) -> Texts:
        """Return the texts of a call; `left` are the fields by which its success leaves the step."""
        start, success = {"policies": policies, "step": step, "tool": tool}, {"kind": "success", "step": step, **left}
        intent = Holed("intent", start, "args", is_framed=is_framed)
        return cls(intent, Holed("attempt", success, "output", is_framed=is_framed))
