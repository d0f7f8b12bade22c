"""The types of what parallel steps give: an object with the outputs of their sub-steps or branches, by name."""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.language.flow import Gives
from stepward.vm.language.layout import Layout
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import AnyPart, ParallelStep
from stepward.vm.language.types import TypeSpec


class Together:
    """The types of the outputs of the parallel steps of one program.

    `gives` says whether a branch that succeeds has an output.
    """

    def __init__(self, layout: Layout, gives: Callable[[int], Gives]) -> None:
        self._layout, self._gives = layout, gives
        self._known: dict[str, TypeSpec] = {}

    def of(self, step: ParallelStep, output: Callable[[AnyPart], TypeSpec | None]) -> TypeSpec:
        """Return the type of the output of a parallel step; `output` returns that of a sub-step.

        A sub-step that is skipped may be absent, and so may a branch that ends without an output. Nothing declares what
        a branch gives: its uses say of what type it is, as they do of its own output.
        """
        if step.id not in self._known:
            if step.branches:
                fork = next(one for one in self._layout.forks.values() if self._layout.steps[one.owner] is step)
                presence = {self._layout.steps[number].id: self._gives(number) for number in fork.branches}
                parts = {name: TypeSpec() for name, how in presence.items() if how != "never"}
                always = [name for name, how in presence.items() if how == "always"]
            else:
                parts = {part.id: output(part) or TypeSpec() for part in step.parallel_steps}
                always = [part.id for part in step.parallel_steps if part.on_error != "skip"]
            self._known[step.id] = TypeSpec(
                type=("object",),
                properties={own_name(name): spec for name, spec in parts.items()},
                required=tuple(map(own_name, always)),
                additionalProperties=False,
            )
        return self._known[step.id]
