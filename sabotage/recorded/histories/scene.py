"""Scenes of histories: of several runs and of several stops. Tables say what is in each, and scenes deal them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from stepward.sabotage.recorded.histories import (
    budgets,
    chains,
    holding,
    leaving,
    memories,
    secrecy,
    sizing,
    stops,
    together,
)
from stepward.sabotage.recorded.histories.kit import Story
from stepward.sabotage.recorded.notes import Notes

PARTS: Final[Sequence[tuple[int, Callable[[Story, int], None]]]] = (
    (len(chains.CHAINS), chains.chain),
    (len(chains.TURNS), chains.session),
    (len(chains.BUDGETS), chains.budget),
    (len(stops.STOPS), stops.stop),
    (len(stops.ITEMS), stops.items),
    (len(stops.TIMES), stops.times),
    (len(stops.BREAKS), stops.breaks),
    (len(stops.PEOPLE), stops.people),
    (len(stops.WAIVERS), stops.waivers),
    (2, stops.caches),
    (stops.SIZE_STORIES, stops.sizes),
    (budgets.STORIES, budgets.budgets),
    (memories.STORIES, memories.memories),
    (together.STORIES, together.together),
    (holding.STORIES, holding.holding),
    (secrecy.STORIES, secrecy.secrecy),
    (leaving.STORIES, leaving.receipts),
    (leaving.FORGERY_STORIES, leaving.forgeries),
    (sizing.STORIES, sizing.sizes),
)
"""The parts of the scenes: how many stories each has, and what plays one, by its number."""

STORIES: Final = tuple((part, number) for part, (count, _) in enumerate(PARTS) for number in range(count))


def scene(seed: str, options: Mapping[str, Any]) -> Notes:
    """Play the story of a seed, by the number at its end, and return what came."""
    part, number = STORIES[int(seed.rpartition(" ")[2]) % len(STORIES)]
    with ExitStack() as stack:
        story = Story(seed, stack, options)
        PARTS[part][1](story, number)
        return story.notes
