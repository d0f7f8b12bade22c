"""One part of a proof, as a certificate writes it; `proof_data` makes these parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["cut", "table", "states", "budget", "cases", "formula"]


class TooMuch(Exception):  # noqa: N818 - no error: the proof stands, and can't be written down
    """A proof is too large for a certificate."""


@dataclass(frozen=True, slots=True)
class ProofPart:
    """One part of a proof. `write` returns its content in a certificate, without the kind, and may raise TooMuch.

    `outline` returns the content for a checker that searches the states of a table itself; None where that is
    everything.
    """

    kind: Kind
    write: Callable[[], Mapping[str, Any]]
    outline: Callable[[], Mapping[str, Any]] | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the part as plain data."""
        return {"kind": self.kind, **self.write()}

    def to_outline(self) -> dict[str, Any]:
        """Return the part as plain data; for a table the classes without the states."""
        return {"kind": self.kind, **(self.outline or self.write)()}
