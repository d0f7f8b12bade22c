"""SW701 and SW901: what the check says about itself. The command finds both, not the program."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import Rule


class UnusedSuppression(Rule):
    """An ignore comment, or an entry of `per-file-ignores`, that silences nothing."""

    code = "SW701"
    name = "unused-suppression"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing: what a comment silences is known only when every finding is there."""
        return iter(())


class UnconfirmedWitness(Rule):
    """A witness that the machine did not replay: a bug of Stepward's, said loudly."""

    code = "SW901"
    name = "unconfirmed-witness"

    def check(self, context: Context) -> Iterator[Finding]:  # noqa: ARG002
        """Yield nothing yet: witnesses come with the engine."""
        return iter(())
