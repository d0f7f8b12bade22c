"""Matches texts against patterns with RE2, in time linear in the length of the text.

Runs that were recorded before the change to RE2 still use Python's `re`; `PythonPattern` marks their patterns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

RE2: Final = "re2"
"""The dialect of patterns, as the journal of a run names it; in a journal without this name it is Python's `re`."""

MAX_MEMORY: Final = 4 << 20
"""Maximal bytes of memory of RE2 for one pattern."""

MAX_CACHED: Final = 64
"""Maximal number of cached compiled patterns."""


class PythonPattern(str):
    """A pattern of Python's `re`, of a run that was recorded before the change to RE2."""

    __slots__ = ()


def matches(pattern: str, text: str) -> bool:
    """Return whether an accepted pattern is found in a text."""
    if isinstance(pattern, PythonPattern):
        import re

        return re.search(pattern, text) is not None
    return compiled(pattern).search(text) is not None


@lru_cache(MAX_CACHED)
def compiled(pattern: str) -> Any:
    """Return a pattern compiled by RE2; raises `re2.error`."""
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    return re2.compile(pattern, options)
