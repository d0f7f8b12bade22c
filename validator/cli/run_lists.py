"""The options that choose runs of a journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click

from stepward.validator.cli.ranges import Whole

STATUSES: Final = (
    "RUNNING", "SUSPENDED", "IN_DOUBT", "SUCCESS", "FAILED", "BUDGET_EXCEEDED", "STALLED", "CANCELLED",
)  # fmt: skip


def filters(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the runs of the list."""
    status = click.Choice(STATUSES)
    since = "List only runs that started at this time or later: `2026-07-01`, `36h`, `7d`."
    for option in (
        click.option("--limit", type=Whole(min=0), metavar="N", help="List only the newest N."),
        click.option("--since", metavar="TIME", help=since),
        click.option("--program", metavar="NAME", help="List only the runs of this program."),
        click.option(
            "--status", "statuses", multiple=True, type=status, help="List only runs with this status (repeatable)."
        ),
    ):
        function = option(function)
    return function


def since(text: str, now: float, option: str = "--since") -> float:
    """Return a time in seconds since the epoch; the text is a date or time, in UTC, or how long ago."""
    import datetime

    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if ago:
        return now - int(ago[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[ago[2]]
    try:
        moment = datetime.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{option}: `{text}` is no time; write `2026-07-01`, `2026-07-01T12:00`, `36h`"
        ) from None
