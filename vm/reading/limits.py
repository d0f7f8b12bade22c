"""Limits on the size of documents; exceeding one is SW004, reported before the memory is spent."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one file. A program of 100,000 steps has about ten million."""

MAX_DEPTH: Final = 100
"""Levels of nesting. The language needs ten, a structured argument some more."""

MAX_ALIASED_NODES: Final = 100_000
"""Nodes to which all YAML aliases may expand; an alias bomb of nine lines expands to a billion."""

MAX_NUMBER: Final = 4_000
"""Characters of one number. A value has at most 1,000 digits; leading and trailing zeros may be more."""

MAX_VALUES: Final = 10_000_000
"""Values in the data of a program that is built in code; data that contains itself is endless."""

MAX_STEPS: Final = 250_000
"""Steps of one program, sub-steps included."""
