"""The naive reference interpreter: what should have happened, told by the language's page alone.

It shares with the machine the parsed program and nothing else. "Failure 4" in a docstring is sentence 4 of the section
"Failure" of specs/language.md, "Failure, Choices" stands under that section's choices.
"""

from stepward.sabotage.reference.answers import (
    Answer,
    Asked,
    Lost,
    Moved,
    Raised,
    Replied,
    Returned,
    TimedOut,
    Waits,
)
from stepward.sabotage.reference.course import Reference

__all__ = [
    "Answer",
    "Asked",
    "Lost",
    "Moved",
    "Raised",
    "Reference",
    "Replied",
    "Returned",
    "TimedOut",
    "Waits",
]
