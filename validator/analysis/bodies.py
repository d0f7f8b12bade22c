"""Bodies in the step graph: which names a for_each step and its stages define and undefine, and what may happen there.

A for_each step is a loop in the graph: its start leads to the stage `next`, from which each item leads into the body,
and the end of the body leads back. Each item is fresh, so that the loop is never unrolled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.vm.expressions.template import texts
from stepward.vm.language.items import origins
from stepward.vm.language.scopes import local_names
from stepward.vm.language.steps import (
    AnyStep,
    BranchStep,
    EndStep,
    Failing,
    ForEachStep,
    InvokeStep,
    ParallelStep,
    Stage,
    parts,
)
from stepward.vm.language.types import fits

if TYPE_CHECKING:
    from stepward.vm.language.layout import Body
    from stepward.vm.language.meaning import Meaning

Names = tuple[str, ...]


class Bodies:
    """The bodies of a program, as analyses see them."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.layout = meaning.flow.layout
        self._locals: dict[int, frozenset[Names]] = {}
        self.of_stages: dict[int, Body] = {}
        for body in self.layout.bodies.values():
            self.of_stages[body.next] = body
            if body.failed is not None:
                self.of_stages[body.failed] = body

    def step_of(self, stage: int) -> ForEachStep:
        """Return the for_each step to which a stage belongs."""
        return self.each(self.of_stages[stage].owner)

    def each(self, number: int) -> ForEachStep:
        """Return the for_each step at a position."""
        step = self.layout.steps[number]
        assert isinstance(step, ForEachStep)
        return step

    def locals(self, owner: int) -> frozenset[Names]:
        """Return the names that belong to a body: they are undefined when an item starts, and outside."""
        if owner not in self._locals:
            names: set[Names] = {(name,) for name in local_names(self.layout, owner)}
            for number in self.layout.inside(owner):
                names |= values_of(self.layout.steps[number])
            self._locals[owner] = frozenset(names)
        return self._locals[owner]

    def may_be_refused(self, number: int) -> bool:
        """Return whether the caller of a program may not take the output of an `end` step of it: it takes only some.

        A value without references that is of the type is taken.
        """
        owner, end = self.layout.owner(number), self.layout.steps[number]
        step = None if owner is None else self.layout.steps[owner]
        if not isinstance(step, InvokeStep):
            return False
        spec = self.meaning.typing.effective(self.meaning.names.outputs[step.id])
        is_taken = isinstance(end, EndStep) and not any(texts(end.output)) and fits(end.output, spec)
        return spec is not None and not is_taken

    @staticmethod
    def item_names(step: ForEachStep) -> frozenset[Names]:
        """Return the names that each item defines."""
        if step.is_once:
            return frozenset()
        return frozenset({(step.item_name,)} | ({(step.index_as,)} if step.index_as is not None else set()))

    def joined(self, stage: int) -> ParallelStep | None:
        """Return the parallel step whose branches a stage joins, None for another stage."""
        fork = self.layout.fork_of(stage)
        step = None if fork is None else self.layout.steps[fork.owner]
        return step if isinstance(step, ParallelStep) else None

    def branches(self, number: int) -> tuple[str, ...]:
        """Return the branches that decide how a step goes on: at a stage all that it joins, at a branch those on which
        it depends."""
        step, fork = self.layout.steps[number], self.layout.fork_of(number)
        if fork is not None:
            return tuple(self.layout.steps[one].id for one in fork.branches)
        if not isinstance(step, BranchStep):
            return ()
        fork = self.layout.fork_at(number)
        needs = fork.needs[fork.branches.index(number)]
        return tuple(self.layout.steps[fork.branches[one]].id for one in sorted(needs))

    def may_lose(self, owner: int) -> frozenset[Names]:
        """Return the carried variables that a call in the body assigns: one that fails leaves them undefined."""
        inside = self.layout.inside(owner)
        variables = self.meaning.names.variables
        return frozenset(
            (name,)
            for name in self.each(owner).carry
            if any(one.kind == "output" and one.step in inside for one in variables.get(name, ()))
        )

    def reverts(self, number: int, ending_status: str | None) -> int | None:
        """Return the owner of the body whose carried variables fall back when a step ends it without success."""
        owner = self.layout.owner(number)
        if owner is None or ending_status in (None, "SUCCESS") or self.layout.bodies[owner].failed is not None:
            return None
        return owner

    def list_fits(self, number: int) -> bool:
        """Return whether the items of a for_each step are certainly a list of at most `max_items`, if defined."""
        from stepward.vm.expressions.template import lone_reference

        step, most = self.each(number), self.meaning.most_items(number)
        if isinstance(step.items, tuple):
            return most is not None and len(step.items) <= most
        names = lone_reference(step.items)
        resolution = None if names is None else self.meaning.names.meaning(names)
        if resolution is None or most is None:
            return False
        specs = [self.meaning.typing.spec(location) for location in origins(self.meaning.typing, resolution)]
        return all(
            spec is not None and spec.kinds == {"array"} and spec.max_items is not None and spec.max_items <= most
            for spec in specs
        )


def values_of(step: AnyStep) -> set[Names]:
    """Return the outputs and errors of a step and its sub-steps."""
    names: set[Names] = set()
    for _, part in parts(step) if not isinstance(step, Stage) else ():
        if isinstance(part, Failing):
            names |= {(part.id, "output"), (part.id, "error")}
    has_list = isinstance(step, ForEachStep) and not step.is_once
    return names | ({(step.id, "errors")} if has_list else set())


def own_names(step: ForEachStep) -> set[Names]:
    """Return the names that a for_each step binds when it ends, without its carried variables."""
    bound = {(step.output_key,)} if step.output_key is not None else set()
    return values_of(step) | bound
