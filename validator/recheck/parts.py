"""The steps and sub-steps of a program, by their positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepward.vm.language.steps import AnyPart


class Match(NamedTuple):
    """A step, or a sub-step of it."""

    step: int
    sub: int | None
    part: AnyPart


def by_step(hits: Iterable[Match]) -> dict[int, list[Match]]:
    """Group hits by the positions of their steps."""
    groups: dict[int, list[Match]] = {}
    for hit in hits:
        groups.setdefault(hit.step, []).append(hit)
    return groups
