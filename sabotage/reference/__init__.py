"""The naive reference interpreter: it predicts runs from the specification of the language alone.

It shares only the parsed program with the machine. "Failure 4" in a docstring is sentence 4 of the section "Failure" of
specs/language.md; "Failure, Choices" is in the choices of that section.
"""

from stepward.sabotage.reference.answers import (
    Answer,
    Lost,
    Moved,
    PendingCall,
    Raised,
    Replied,
    Returned,
    TimedOut,
    Waits,
)
from stepward.sabotage.reference.course import Reference

__all__ = [
    "Answer",
    "Lost",
    "Moved",
    "PendingCall",
    "Raised",
    "Reference",
    "Replied",
    "Returned",
    "TimedOut",
    "Waits",
]
