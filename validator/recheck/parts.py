"""The steps and sub-steps of a program, by their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepward.vm.language.steps import AnyPart, AnyStep, parts


class Hit(NamedTuple):
    """A step, or a sub-step of it."""

    step: int
    sub: int | None
    part: AnyPart


def all_parts(steps: Iterable[AnyStep]) -> Iterator[Hit]:
    """Yield every step, and every sub-step after its step."""
    for number, step in enumerate(steps):
        yield from (Hit(number, sub, part) for sub, part in parts(step))


def by_step(hits: Iterable[Hit]) -> dict[int, list[Hit]]:
    """Group hits by the positions of their steps."""
    found: dict[int, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.step, []).append(hit)
    return found
