"""Why a certificate is not accepted."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - a verdict
    """A certificate is not accepted; the message says why."""


class TooLarge(Refused):
    """The check stops at a limit of this checker; the message says at which."""


class Unreadable(Refused):
    """The program has no unique meaning, so nothing can be checked; the message says why."""
