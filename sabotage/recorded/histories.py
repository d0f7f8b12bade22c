"""Scenes of histories: of several runs and of several stops. Tables say what is in each, and scenes deal them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from stepward.sabotage.recorded import history_chains, history_stops
from stepward.sabotage.recorded.history_kit import Story
from stepward.sabotage.recorded.notes import Notes

PARTS: Final[Sequence[tuple[int, Callable[[Story, int], None]]]] = (
    (len(history_chains.CHAINS), history_chains.chain),
    (len(history_chains.TURNS), history_chains.session),
    (len(history_chains.BUDGETS), history_chains.budget),
    (len(history_stops.STOPS), history_stops.stop),
    (len(history_stops.ITEMS), history_stops.items),
    (len(history_stops.TIMES), history_stops.times),
    (len(history_stops.BREAKS), history_stops.breaks),
    (len(history_stops.PEOPLE), history_stops.people),
    (len(history_stops.WAIVERS), history_stops.waivers),
    (2, history_stops.caches),
    (history_stops.SIZE_STORIES, history_stops.sizes),
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
