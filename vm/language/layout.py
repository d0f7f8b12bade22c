"""The layout of a program: all its steps in one list, those of bodies among them, with the stages between items.

A step with a body is followed by its body and then by its stages. A program without bodies has the list that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from stepward.vm.language.steps import AnyStep, BranchStep, ForEachStep, InvokeStep, ParallelStep, Stage
from stepward.vm.language.transitions import SUCCESS, Exit
from stepward.vm.reading.source import Path


class Body(NamedTuple):
    """The body of a step, by positions in the layout.

    `first` is its first step, `next` the stage between items, and `failed` the stage after a failed item, None if the
    items go on after one; `end` is the position behind all of them. Where items run at once, those that were under way
    follow behind `failed`: the order is one in which those that succeed come first.
    """

    owner: int
    first: int
    next: int
    failed: int | None
    end: int


class Fork(NamedTuple):
    """The branches of a parallel step, by positions in the layout.

    `branches` are the starts of its branches, each behind those that it depends on, and otherwise in the order of the
    program; `needs` are those that each depends on, directly, and `before` also indirectly, as indices of `branches`.
    `written` are these indices in the order of the program. `join` is the stage behind all branches.
    """

    owner: int
    branches: tuple[int, ...]
    needs: tuple[frozenset[int], ...]
    before: tuple[frozenset[int], ...]
    written: tuple[int, ...]
    join: int


class Layout:
    """All steps of a program by position.

    `forks` are by the position of the parallel step that has branches, `bodies` by that of the step that has them, and
    `owners` by the position of a step in one: its direct owner. Stages are beside their owner, not in its body.
    """

    def __init__(
        self, written: Sequence[AnyStep], whole: Sequence[AnyStep] | None = None, programs: object = None
    ) -> None:
        self.written, self.programs = written, programs
        self.whole: tuple[AnyStep, ...] = tuple(written if whole is None else whole)
        """The steps in which every call has those of the program that it calls."""
        self.bodies: dict[int, Body] = {}
        self.forks: dict[int, Fork] = {}
        self.forked: set[int] = set()
        """The steps that have branches, the starts of these, and the stages that join them."""
        self.beside: set[int] = set()
        """The for_each steps whose items run at once."""
        self.owners: dict[int, int] = {}
        self._paths: list[Path] = []
        self._after: dict[int, int | None] = {}
        if not any(map(_has_body, written)):
            self.steps: tuple[AnyStep, ...] = tuple(written)
            return
        found: list[AnyStep] = []
        self._add(found, self.whole, ("steps",), None)
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
            elif isinstance(step, ParallelStep) and step.branches:
                self._add_branches(found, step, here, owner)
        if before is not None:
            self._after[before] = None

    def _place(self, found: list[AnyStep], step: AnyStep, path: Path, owner: int | None) -> None:
        if owner is not None:
            self.owners[len(found)] = owner
        found.append(step)
        self._paths.append(path)

    def _add_branches(self, found: list[AnyStep], step: ParallelStep, here: int, owner: int | None) -> None:
        """Add the branches of a parallel step, one after another, and the stage behind them."""
        path, starts = self._paths[here], []
        names = list(step.branches)
        needs = {name: [one for one in branch.depends_on if one in names] for name, branch in step.branches.items()}
        line = in_order(needs)
        for name in line:
            starts.append(len(found))
            if len(starts) > 1:
                self._after[starts[-2]] = starts[-1]
            branch = BranchStep.of(step.id, name, step.branches[name])
            self._place(found, branch, (*path, "branches", name), owner)
            self._add_body(found, branch, starts[-1], owner)
        join = len(found)
        self._after[starts[-1]] = join
        self._place(found, Stage.of(step.id, "joined", (SUCCESS, *step.failures(can_fall_back=False))), path, owner)
        index = {name: number for number, name in enumerate(line)}
        direct = tuple(frozenset(index[one] for one in needs[name]) for name in line)
        before: list[frozenset[int]] = []
        for number, own in enumerate(direct):
            known = (before[one] for one in own if one < number)  # on a circle, which is refused, none is
            before.append(own.union(*known))
        written = tuple(index[name] for name in names)
        self.forked |= {here, *starts, join}
        self.forks[here] = Fork(here, tuple(starts), direct, tuple(before), written, join)

    def _add_body(self, found: list[AnyStep], step: ForEachStep, here: int, owner: int | None) -> None:
        path = self._paths[here]
        around = step.home if isinstance(step, InvokeStep) else path
        self._add(found, step.body, (*around, "do" if step.do is not None else "steps"), here)
        ends_at, failed = len(found), None
        leaving_next = (SUCCESS,) if step.is_once else (Exit("item"), SUCCESS)
        self._place(found, Stage.of(step.id, "next", leaving_next), path, owner)
        if step.on_item_error == "fail":
            failed = len(found)
            leaving = step.failures(can_fall_back=False)
            leaving += (Exit("item"),) if step.is_beside else ()  # one that was under way
            leaving += (Exit("again"),) if step.on_error == "retry" else ()
            self._place(found, Stage.of(step.id, "failed", leaving), path, owner)
        self.bodies[here] = Body(here, here + 1, ends_at, failed, len(found))
        if step.is_beside:
            self.beside.add(here)

    @property
    def has_siblings(self) -> bool:
        """Whether branches or items run at once."""
        return bool(self.forks or self.beside)

    @cached_property
    def sibling_bodies(self) -> frozenset[int]:
        """The owners of bodies that may run at the same time as others: branches, and for_each steps whose items do."""
        return frozenset(self.beside.union(*(fork.branches for fork in self.forks.values())))

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
        return self._of_stages[stage]

    @cached_property
    def _of_stages(self) -> dict[int, Body]:
        stages = ((stage, body) for body in self.bodies.values() for stage in (body.next, body.failed))
        return {stage: body for stage, body in stages if stage is not None}

    def fork_of(self, join: int) -> Fork | None:
        """Return the fork whose branches a stage joins, None for another stage."""
        return self._of_joins.get(join)

    @cached_property
    def _of_joins(self) -> dict[int, Fork]:
        return {fork.join: fork for fork in self.forks.values()}

    def owners_of_branch(self, name: str) -> list[int]:
        """Return the positions of the steps that have a branch of this name: one, in a program with unique ids."""
        return [
            fork.owner for fork in self.forks.values() if any(self.steps[start].id == name for start in fork.branches)
        ]

    def fork_at(self, branch: int) -> Fork:
        """Return the fork to which the start of a branch belongs."""
        return next(fork for fork in self.forks.values() if branch in fork.branches)

    def stage_of_failure(self, owner: int) -> int | None:
        """Return the stage from which a failure of a body goes on; of a branch it is that of the step that has it.

        None where the next item follows.
        """
        return self.fork_at(owner).join if owner in self.forked else self.bodies[owner].failed

    def rules_path(self, owner: int) -> Path:
        """Return the path of the guardrails of a body: those of a called program stand in the program."""
        step = self.steps[owner]
        return (*(step.home if isinstance(step, InvokeStep) else self.path(owner)), "guardrails")

    def inside(self, owner: int) -> range:
        """Return the positions of the steps in the body of a step, those of bodies within it included."""
        body = self.bodies[owner]
        return range(body.first, body.next)


def _has_body(step: AnyStep) -> bool:
    return isinstance(step, ForEachStep) or (isinstance(step, ParallelStep) and bool(step.branches))


def in_order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names, each behind those that it needs, and otherwise in their own order; those on a circle come last."""
    found: list[str] = []
    left = list(needs)
    while left:
        due = next((name for name in left if all(one in found for one in needs[name])), left[0])
        left.remove(due)
        found.append(due)
    return found
