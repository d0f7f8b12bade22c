"""One part of a proof, as a certificate writes it; `grounds` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["cut", "table", "states", "budget", "cases", "formula"]


class TooMuch(Exception):  # noqa: N818 - no error: the proof stands, and can't be written down
    """A proof is too large to be written down."""


@dataclass(frozen=True, slots=True)
class Ground:
    """One part of a proof; `write` gives what a certificate holds of it, beside the kind, and may raise TooMuch.

    `outline` gives what of it a checker needs who looks for the states of a table itself; None where that is all.
    """

    kind: Kind
    write: Callable[[], Mapping[str, Any]]
    outline: Callable[[], Mapping[str, Any]] | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the part as plain data."""
        return {"kind": self.kind, **self.write()}

    def to_outline(self) -> dict[str, Any]:
        """Return the part as plain data, of a table the classes without the states."""
        return {"kind": self.kind, **(self.outline or self.write)()}
