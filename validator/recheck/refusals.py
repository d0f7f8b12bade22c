"""Why a certificate is not accepted."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - a verdict
    """A certificate is not accepted; the message says why."""


class TooLarge(Refused):
    """A certificate is not looked at to its end: there is more than this checker looks at; the message says of what."""


class Unreadable(Refused):
    """The program has no one meaning, so that nothing can be checked of it; the message says why."""
