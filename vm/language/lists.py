"""The types of what for_each steps assign: the number of an item, the errors of items, and the list of their outputs.

The machine starts a step only if its list is as short as the step takes, and gives an output for each item.
"""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.failures import names_of_items
from stepward.vm.language.items import Types, origins
from stepward.vm.language.layout import Layout
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.names import Source
from stepward.vm.language.stated import INDEX, LIST, errors_of
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.types import TypeSpec


class ListTypes:
    """The types that the for_each steps of one program give to what they assign."""

    def __init__(self, layout: Layout, tool: Callable[[str], ToolSpec], types: Types) -> None:
        self._layout, self._tool, self._types = layout, tool, types
        self._most: dict[str, int | None] = {}
        self._known: dict[tuple[str, str], TypeSpec] = {}

    def of(self, source: Source) -> TypeSpec:
        """Return the type of the number of an item, or of the errors of items."""
        assert source.step is not None
        owner = self._layout.body_of(source.step).owner if source.kind == "index" else source.step
        step = self._layout.steps[owner]
        assert isinstance(step, ForEachStep)
        return self._of(step, source.kind)

    def output(self, step: ForEachStep) -> TypeSpec:
        """Return the type of the list of outputs: it has one for each item."""
        return self._of(step, "output")

    def _of(self, step: ForEachStep, what: str) -> TypeSpec:
        if (step.id, what) not in self._known:
            self._known[step.id, what] = self._made(step, what)
        return self._known[step.id, what]

    def _made(self, step: ForEachStep, what: str) -> TypeSpec:
        most = self.most(step)
        longest = {} if most is None else {"max_items": most}
        if what == "output":
            least = self._least(step)
            return LIST.model_copy(update=longest | ({"min_items": least} if least else {}))
        index = INDEX.model_copy(update={"maximum": most - 1}) if most else INDEX
        if what == "index":
            return index
        # Each item fails once at most.
        return errors_of(index, names_of_items(step, self._tool)).model_copy(update=longest)

    def most(self, step: ForEachStep) -> int | None:
        """Return how many items a step goes through at most that does not fail before them; None if nothing says it."""
        if step.id not in self._most:
            known = [one for one in (step.max_items, self._longest(step)) if one is not None]
            self._most[step.id] = min(known, default=None)
        return self._most[step.id]

    def _least(self, step: ForEachStep) -> int:
        """Return how many items a step goes through at least if it does not fail."""
        least = [0 if spec is None else spec.min_items or 0 for spec in self._specs(step)]
        found = len(step.items) if isinstance(step.items, tuple) else min(least, default=0)
        most = self.most(step)
        return found if most is None else min(found, most)

    def _longest(self, step: ForEachStep) -> int | None:
        """Return how many items the list of a step has at most: those that are written, or what its type says."""
        if isinstance(step.items, tuple):
            return len(step.items)
        specs = self._specs(step)
        most = [spec.max_items for spec in specs if spec is not None and spec.max_items is not None]
        return max(most) if most and len(most) == len(specs) else None

    def _specs(self, step: ForEachStep) -> list[TypeSpec | None]:
        """Return the types that the list of a step may have, None for one of which nothing is known."""
        names = lone_reference(step.items)
        resolution = None if names is None else self._types.names.meaning(names)
        locations = [] if resolution is None else origins(self._types, resolution)
        return [self._declared(location) for location in locations]

    def _declared(self, location: tuple[Source, tuple[str, ...]]) -> TypeSpec | None:
        """Return the type that is declared at a location; None for what a for_each step gives, perhaps to itself."""
        source, _ = location
        step = self._layout.steps[source.step] if source.kind == "output" and source.step is not None else None
        is_given = source.kind in ("errors", "index") or (isinstance(step, ForEachStep) and not step.is_once)
        return None if is_given else self._types.spec(location)
