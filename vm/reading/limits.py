"""How large a document may be; more is SW004, said before the memory is spent."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one file. A program of 100,000 steps takes about ten million."""

MAX_DEPTH: Final = 100
"""Levels of nesting. A program of the language needs ten, a structured argument some more."""

MAX_ALIASED_NODES: Final = 100_000
"""Nodes that YAML aliases stand for in all; a bomb of nine lines stands for a billion."""

MAX_NUMBER: Final = 4_000
"""Characters that write one number. A value has at most 1,000 digits; leading and trailing zeros may be more."""

MAX_VALUES: Final = 10_000_000
"""Values in the data of a program that is built in code; what holds itself has no end."""

MAX_STEPS: Final = 250_000
"""Steps of one program, sub-steps included."""
