"""What the second checker counts: visits of steps, items of lists, and rounds of steps that are tried again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

from stepward.validator.recheck.branches import items_at_once
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.reading import Reading
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.layout import Body
from stepward.vm.language.steps import ForEachStep

MAX_COUNTED_ITEMS: Final = 3
"""The most items that are counted; of a longer list, it is noted whether an item has come."""

MAX_COUNTED_ROUNDS: Final = 4
"""The largest `max_retries` of a step with a body whose rounds are counted."""

Visits = tuple[int, ...]

What = Literal["visits", "items", "failed", "rounds", "known"]
"""What is counted: visits of a step; items of a round; whether one of those that run at once has failed; rounds that
have failed; the items that the list has at least, by earlier rounds."""


def _is_route(exit_: Exit) -> bool:
    """Return whether an exit leads to another step, and ends neither the run nor a body."""
    return exit_.transition.status is None and exit_.transition.closes is None


class Counts:
    """The counts of one program, as a list of numbers. In a body they begin anew with each item."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.bounds = reading, reading.bounds
        layout = reading.layout
        self.body_at = {stage: body for body in layout.bodies.values() for stage in (body.next, body.failed)}
        bodies = list(layout.bodies.values())
        at_once = [layout.bodies[owner] for owner in sorted(items_at_once(layout))]
        lists = [body for body in bodies if not self._is_call(body)]
        self.most_items = {body.next: self._most_items(body) for body in lists}
        self.least_items = {body.next: self._least_items(body) for body in lists}
        self.most_rounds = {body.failed: most for body in bodies if (most := self._most_rounds(body)) is not None}
        counted: list[tuple[What, Iterable[int | None]]] = [
            ("visits", self.bounds),
            ("items", self.most_items),
            ("failed", [body.failed for body in at_once if body.failed is not None]),
            ("rounds", [stage for stage, most in self.most_rounds.items() if most <= MAX_COUNTED_ROUNDS]),
            ("known", [body.failed for body in lists if body.failed in self.most_rounds]),
        ]
        names = [(what, step) for what, steps in counted for step in steps]
        self.index = {name: number for number, name in enumerate(names)}

    def _step(self, body: Body) -> ForEachStep:
        step = self.reading.steps[body.owner]
        assert isinstance(step, ForEachStep), "others have no bodies"
        return step

    def _most_items(self, body: Body) -> int | None:
        """Return how many items a list has at most, if they are few; None if more may come than are counted."""
        step = self._step(body)
        sizes = (step.max_items, len(step.items) if isinstance(step.items, tuple) else None)
        most = min((size for size in sizes if size is not None), default=None)
        return most if most is not None and most <= MAX_COUNTED_ITEMS else None

    def _least_items(self, body: Body) -> int:
        """Return how many items a list has at least: as many as are written, or as its type or a condition says."""
        step = self._step(body)
        if isinstance(step.items, tuple):
            return len(step.items)
        names = lone_reference(step.items)
        blocks = self.reading.origins.of(names).blocks if names is not None else ()
        least = [0 if block.low is None else block.low + 1 for block in blocks if block.kind == "array"]
        asked = 0 if names is None else self.reading.asked_lengths.least(body.owner, names, self._counted(body))
        return max(int(min(least, default=0)), asked)

    def _most_rounds(self, body: Body) -> int | None:
        step = self._step(body)
        return step.max_retries if body.failed is not None and step.on_error == "retry" else None

    def _is_call(self, body: Body) -> bool:
        return self._step(body).is_once

    def __len__(self) -> int:
        return len(self.index)

    def sees(self, step: int) -> bool:
        """Return whether a count changes at a step, or decides how it is left."""
        return ("visits", step) in self.index or (step in self.body_at and len(self) > 0)

    def allowed(self, step: int, visits: Visits, exits: Collection[Exit]) -> Iterator[Exit]:
        """Yield the exits that the counts allow."""
        if step in self.bounds:
            count, bound = visits[self.index["visits", step]], self.bounds[step]
            beyond = [one for one in exits if one.transition.kind == "visits"]
            goes_on = count == bound and any(map(_is_route, beyond))  # only the first visit too many goes on
            yield from (one for one in exits if count < bound and one not in beyond)
            yield from (one for one in beyond if count >= bound and _is_route(one) is goes_on)
            return
        body = self.body_at.get(step)
        yield from (one for one in exits if body is None or self._fits(body, step, visits, one.transition.kind))

    def _fits(self, body: Body, stage: int, visits: Visits, kind: str) -> bool:
        """Return whether a stage can be left so."""
        items = self._of(visits, "items", body.next) or 0
        if stage == body.failed:
            rounds, most = self._of(visits, "rounds", stage), self.most_rounds.get(stage, 1)
            is_last = rounds is None or rounds + 1 == most
            return kind == "item" or rounds is None or (kind == "again") is not is_last
        if kind == "item":
            most_items = self.most_items[stage]
            return most_items is None or items < most_items
        least = max(self._of(visits, "known", body.failed) or 0, self.least_items.get(body.next, 0))
        return not self._of(visits, "failed", body.failed) and min(least, self._counted(body)) <= items

    def _counted(self, body: Body) -> int:
        """Return up to how many items are counted."""
        most = self.most_items.get(body.next)
        return 1 if most is None else most

    def _of(self, visits: Visits, what: What, step: int | None) -> int | None:
        index = None if step is None else self.index.get((what, step))
        return None if index is None else visits[index]

    def after(self, step: int, visits: Visits, kind: str) -> Visits:
        """Return the counts after a step was left."""
        if step in self.bounds:
            return self._with(visits, {("visits", step): visits[self.index["visits", step]] + 1})
        body = self.body_at.get(step)
        return visits if body is None else self._between(body, step, visits, kind)

    def _between(self, body: Body, stage: int, visits: Visits, kind: str) -> Visits:
        """Return the counts behind a stage."""
        inside = self.reading.layout.inside(body.owner)
        changes: dict[tuple[What, int | None], int] = {name: 0 for name in self.index if name[1] in inside}
        items = self._of(visits, "items", body.next) or 0
        known = self._of(visits, "known", body.failed) or 0
        if kind == "item" and stage == body.next:
            changes["items", stage] = min(items + 1, self._counted(body))
        elif kind == "item":
            changes["failed", stage] = 1
        else:
            changes |= dict.fromkeys((("items", body.next), ("failed", body.failed)), 0)
            rounds = self._of(visits, "rounds", stage) or 0
            changes["rounds", body.failed] = rounds + 1 if kind == "again" else 0
            changes["known", body.failed] = max(known, items) if kind == "again" else 0
        return self._with(visits, changes)

    def _with(self, visits: Visits, changes: dict[tuple[What, int | None], int]) -> Visits:
        counts = list(visits)
        for name, count in changes.items():
            if name in self.index:
                counts[self.index[name]] = count
        return tuple(counts)
