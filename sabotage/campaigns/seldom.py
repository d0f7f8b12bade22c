"""The collector of memory looks seldom: cases are short, and most of what they make goes without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

OBJECTS: Final = 20_000
"""Objects more than before, at which the collector looks at the youngest ones."""


@contextmanager
def seldom() -> Iterator[None]:
    """Let the collector look seldom, also where it was off: a campaign lasts, and would keep what has cycles."""
    before, was_on = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(OBJECTS, 10, 10)
    gc.enable()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not was_on:
            gc.disable()
