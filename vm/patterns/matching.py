"""Holding a text against a pattern: RE2, in time that grows with the length of the text and no faster.

Runs that were recorded before patterns were RE2's keep those of Python's `re`, which `PythonPattern` marks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

RE2: Final = "re2"
"""The dialect of patterns, as the journal of a run names it that has any; without a name it is Python's `re`."""

MAX_MEMORY: Final = 4 << 20
"""Bytes that RE2 may take for one pattern."""

MAX_KEPT: Final = 64
"""Compiled patterns that are kept."""


class PythonPattern(str):
    """A pattern of a run that was recorded when patterns were those of Python's `re`."""

    __slots__ = ()


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text. The pattern is one that was accepted."""
    if isinstance(pattern, PythonPattern):
        import re

        return re.search(pattern, text) is not None
    return compiled(pattern).search(text) is not None


@lru_cache(MAX_KEPT)
def compiled(pattern: str) -> Any:
    """Return the pattern as RE2 has it; raises `re2.error`."""
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern, options)
