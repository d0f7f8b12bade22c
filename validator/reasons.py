"""Why a verdict is unknown: the reason, and what a user can do about it, in one value."""

from __future__ import annotations

from typing import NamedTuple


class UnknownReason(NamedTuple):
    """Why something is not decided or not done, as a part of the message, and what a user can do about it: the help.

    `may_be_broken`: only a proof is missing. A violation that is found is one.
    """

    reason: str
    help: str
    may_be_broken: bool = False
