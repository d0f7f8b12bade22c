"""What a planted mistake is: edits of the package, each of a text that stands once in its file."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """A mistake: its name, and the edits that make it, each a file, the text that it has, and the text that it gets."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
