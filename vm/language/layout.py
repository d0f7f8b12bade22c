"""The layout of a program: all its steps in one list, those of bodies among them, with the stages between items.

A step with a body is followed by its body and then by its stages. A program without bodies has the list that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepward.vm.language.steps import AnyStep, ForEachStep, Stage
from stepward.vm.language.transitions import SUCCESS, Exit
from stepward.vm.reading.source import Path


class Body(NamedTuple):
    """The body of a step, by positions in the layout.

    `first` is its first step, `next` the stage between items, and `failed` the stage after a failed item, None if the
    items go on after one; `end` is the position behind all of them.
    """

    owner: int
    first: int
    next: int
    failed: int | None
    end: int


class Layout:
    """All steps of a program by position.

    `bodies` are by the position of the step that has them, `owners` by the position of a step in one: its direct
    owner. Stages are beside their owner, not in its body.
    """

    def __init__(self, written: Sequence[AnyStep]) -> None:
        self.written = written
        self.bodies: dict[int, Body] = {}
        self.owners: dict[int, int] = {}
        self._paths: list[Path] = []
        self._after: dict[int, int | None] = {}
        if not any(isinstance(step, ForEachStep) for step in written):
            self.steps: tuple[AnyStep, ...] = tuple(written)
            return
        found: list[AnyStep] = []
        self._add(found, written, ("steps",), None)
        self.steps = tuple(found)

    def _add(self, found: list[AnyStep], written: Sequence[AnyStep], path: Path, owner: int | None) -> None:
        """Add the steps of one list, and those of the bodies in it."""
        before: int | None = None
        for number, step in enumerate(written):
            here = len(found)
            if before is not None:
                self._after[before] = here
            before = here
            self._place(found, step, path if path[-1] == "do" else (*path, number), owner)
            if isinstance(step, ForEachStep):
                self._add_body(found, step, here, owner)
        if before is not None:
            self._after[before] = None

    def _place(self, found: list[AnyStep], step: AnyStep, path: Path, owner: int | None) -> None:
        if owner is not None:
            self.owners[len(found)] = owner
        found.append(step)
        self._paths.append(path)

    def _add_body(self, found: list[AnyStep], step: ForEachStep, here: int, owner: int | None) -> None:
        path = self._paths[here]
        self._add(found, step.body, (*path, "do" if step.do is not None else "steps"), here)
        ends_at, failed = len(found), None
        self._place(found, Stage.of(step.id, "next", (Exit("item"), SUCCESS)), path, owner)
        if step.on_item_error == "fail":
            failed = len(found)
            leaving = step.failures(can_fall_back=False)
            leaving += (Exit("again"),) if step.on_error == "retry" else ()
            self._place(found, Stage.of(step.id, "failed", leaving), path, owner)
        self.bodies[here] = Body(here, here + 1, ends_at, failed, len(found))

    def path(self, step: int, sub: int | None = None) -> Path:
        """Return the path, in the document, of the step at a position, or of one of its sub-steps.

        The path of a stage is that of its owner.
        """
        path = self._paths[step] if self._paths else ("steps", step)
        return path if sub is None else (*path, "parallel_steps", sub)

    def step_at(self, path: Path) -> str | None:
        """Return the id of the innermost step that is written at a path or around it, or None."""
        if not self._paths:
            return self.steps[path[1]].id if path[0] == "steps" and isinstance(path[1], int) else None
        within = [number for number, here in enumerate(self._paths) if path[: len(here)] == here]
        found = max(within, key=lambda number: (len(self._paths[number]), -number), default=None)
        return None if found is None else self.steps[found].id

    def after(self, step: int) -> int | None:
        """Return the position of the next step in the list in which a step is written, or None for the last one."""
        if self._after:
            return self._after.get(step)
        return step + 1 if step + 1 < len(self.steps) else None

    def owner(self, step: int) -> int | None:
        """Return the position of the step in whose body a step is, or None."""
        return self.owners.get(step)

    def owners_of(self, step: int) -> tuple[int, ...]:
        """Return the positions of all steps in whose bodies a step is, outermost first."""
        found: list[int] = []
        owner = self.owner(step)
        while owner is not None:
            found.insert(0, owner)
            owner = self.owner(owner)
        return tuple(found)

    def body_of(self, stage: int) -> Body:
        """Return the body to which a stage belongs."""
        return next(body for body in self.bodies.values() if stage in (body.next, body.failed))

    def inside(self, owner: int) -> range:
        """Return the positions of the steps in the body of a step, those of bodies within it included."""
        body = self.bodies[owner]
        return range(body.first, body.next)
