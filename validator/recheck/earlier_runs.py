"""What runs before a continuation left of its rules, read from the field `already`."""

from __future__ import annotations

from typing import Final

from stepward.validator.recheck.names import Names
from stepward.validator.recheck.refusals import Refused
from stepward.vm.language.guardrails import Requires

_LEVELS: Final = ("never", "stale", "fresh")
"""The words for what is remembered of a single requirement: its number is the position."""


def levels_of(rule: Requires, count: int) -> tuple[int, ...]:
    """Return the memory of each requirement at the start; raises Refused if there are not `count` of them."""
    if rule.already and len(rule.already) != count:
        raise Refused(f"`already` of `{rule.name}` does not say something of each requirement")
    return tuple(_LEVELS.index(one.level) for one in rule.already) or (0,) * count


def read_before(rule: Requires, count: int) -> list[frozenset[Names]]:
    """Return the variables that the conditions of each requirement read in earlier runs."""
    names_read = [frozenset(tuple(name.split(".")) for name in one.reads) for one in rule.already]
    return names_read or [frozenset()] * count
