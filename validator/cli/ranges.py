"""The kinds of values of options that click has too wide: whole numbers, numbers, and names of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

MOST: Final = 1_000_000_000
"""The largest whole number of an option: every store and every clock can hold it."""


class Whole(click.IntRange):
    """A whole number, at most MOST unless it says otherwise."""

    def __init__(self, min: int = 0, max: int = MOST) -> None:
        super().__init__(min, max)


class Real(click.FloatRange):
    """A number; `nan` and `inf` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; `nan` is in every range of click."""
        number = super().convert(value, param, ctx)
        if not abs(number) <= MOST:
            self.fail(f"`{value}` is no number up to {MOST if self.max is None else self.max:,}", param, ctx)
        return number


class FileName(click.Path):
    """The name of a file or folder; an empty text is none, though Python reads it as the folder here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("an empty text names no file", param, ctx)
        return super().convert(value, param, ctx)


FILE: Final = FileName(path_type=Path)
