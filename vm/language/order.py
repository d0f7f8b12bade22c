"""The order between the sub-steps of a parallel step, as `depends_on` states it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.language.steps import AnyStep, ParallelStep
from stepward.vm.reading.source import Path, Place

if TYPE_CHECKING:
    from stepward.vm.language.flow import Flow
    from stepward.vm.language.program import Program


class Order(NamedTuple):
    """The order of the sub-steps of one step, by their positions.

    `needs` are those that each depends on, `before` those that it depends on directly or indirectly, `after` those that
    depend on it. A sub-step on a circle is before itself. `line` has all positions, each behind those before it, as far
    as there are no circles.
    """

    needs: tuple[frozenset[int], ...]
    before: tuple[frozenset[int], ...]
    after: tuple[frozenset[int], ...]
    line: tuple[int, ...]

    @property
    def on_circles(self) -> frozenset[int]:
        """The sub-steps that depend on themselves, directly or indirectly."""
        return frozenset(sub for sub, before in enumerate(self.before) if sub in before)


def order_of(step: AnyStep) -> Order | None:
    """Return the order of the sub-steps of a step, or None if no sub-step has `depends_on`.

    Names that are no sub-step of the step are ignored here: such a program is refused (SW109).
    """
    parts = step.sub_steps
    if not any(part.depends_on for part in parts):
        return None
    position = {part.id: sub for sub, part in reversed(list(enumerate(parts)))}
    needs = tuple(frozenset(position[name] for name in part.depends_on if name in position) for part in parts)
    before = tuple(_reached(sub, needs) for sub in range(len(parts)))
    after: list[set[int]] = [set() for _ in parts]
    for sub, earlier in enumerate(before):
        for one in earlier:
            after[one].add(sub)
    return Order(needs, before, tuple(map(frozenset, after)), _line(before))


def _line(before: tuple[frozenset[int], ...]) -> tuple[int, ...]:
    """Return all positions in the order of the list, but each right behind those before it that are not yet there."""
    line: dict[int, None] = {}
    for sub, earlier in enumerate(before):
        line |= dict.fromkeys(sorted(earlier, key=lambda one: (len(before[one]), one)))
        line[sub] = None
    return tuple(line)


def _reached(sub: int, needs: tuple[frozenset[int], ...]) -> frozenset[int]:
    found: set[int] = set()
    pending = list(needs[sub])
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending.extend(needs[one])
    return frozenset(found)


class Misorder(NamedTuple):
    """An entry of a `depends_on` that can't be satisfied, by the positions of step and sub-step.

    `message` says why, and `path` is that of the entry. `way` are the ids along a circle, empty if `name` is no
    sub-step of the step.
    """

    step: int
    sub: int
    name: str
    message: str
    path: Path
    way: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where the entry is."""
        return Place(self.path)


def misorders(program: Program) -> Iterator[Misorder]:
    """Yield the entries of a `depends_on` that name no sibling, and one entry of each circle."""
    yield from _of_branches(program)
    for number, step in enumerate(program.layout.steps):
        order = order_of(step) if step.sub_steps else None
        ids = [part.id for part in step.sub_steps] if order is not None else []
        for sub, part in enumerate(step.sub_steps if order is not None else ()):
            path = (*program.layout.path(number, sub), "depends_on")
            for entry, name in enumerate(part.depends_on):
                if name not in ids:
                    yield Misorder(number, sub, name, f"`{name}` is no sub-step of `{step.id}`", (*path, entry))
            assert order is not None
            circle = {one for one in order.before[sub] if sub in order.before[one]}
            if circle and sub == min(circle):
                way = tuple(ids[one] for one in _circle(sub, order))
                text = " → ".join(f"`{one}`" for one in way)
                where = (*path, part.depends_on.index(way[1]))
                yield Misorder(number, sub, way[1], f"`{part.id}` waits for itself: {text}", where, way)


def _of_branches(program: Program) -> Iterator[Misorder]:
    layout = program.layout
    for number in layout.forks:
        step = layout.steps[number]
        assert isinstance(step, ParallelStep)
        names = list(step.branches)
        for name, branch in step.branches.items():
            path = (*layout.path(number), "branches", name, "depends_on")
            for entry, other in enumerate(branch.depends_on):
                if other not in names:
                    yield Misorder(
                        number, names.index(name), other, f"`{other}` is no branch of `{step.id}`", (*path, entry)
                    )
        needs = tuple(
            frozenset(names.index(one) for one in branch.depends_on if one in names)
            for branch in step.branches.values()
        )
        before = tuple(_reached(sub, needs) for sub in range(len(names)))
        order = Order(needs, before, (), ())
        for sub in order.on_circles:
            circle = {one for one in before[sub] if sub in before[one]}
            if sub == min(circle):
                way = tuple(names[one] for one in _circle(sub, order))
                text = " → ".join(f"`{one}`" for one in way)
                named = step.branches[names[sub]].depends_on
                where = (*layout.path(number), "branches", names[sub], "depends_on", named.index(way[1]))
                yield Misorder(number, sub, way[1], f"`{names[sub]}` waits for itself: {text}", where, way)


def endless_branches(flow: Flow) -> list[tuple[int, ...]]:
    """Return the loops in branches, and in items that run at once, that no `max_visits` bounds, each as the positions
    of its steps.

    Such a branch or item may never end, and its siblings go on beside it.
    """
    layout = flow.layout
    inside = {number for owner in layout.sibling_bodies for number in layout.inside(owner)}
    free = {number for number in inside if flow.steps[number].max_visits is None}
    ahead = {
        number: [one.to for one in flow.transitions[number] if one.to in free and one.kind not in ("item", "again")]
        for number in free
    }
    return [tuple(sorted(loop)) for loop in loops_in(ahead)]


def loops_in(ahead: Mapping[int, Sequence[int]]) -> list[set[int]]:
    """Return the sets of nodes that lead to each other; `ahead` are the nodes that follow each one."""
    reached: dict[int, set[int]] = {}
    for node in ahead:
        found: set[int] = set()
        pending = list(ahead[node])
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending.extend(ahead[one])
        reached[node] = found
    looping = [node for node in sorted(ahead) if node in reached[node]]
    loops: list[set[int]] = []
    for node in looping:
        if not any(node in loop for loop in loops):
            loops.append({one for one in looping if one in reached[node] and node in reached[one]})
    return loops


class SiblingRead(NamedTuple):
    """A reference in a branch to a value of a sibling that does not come before it, and where it stands.

    `step` is the position of the step that reads it.
    """

    step: int
    branch: str
    names: tuple[str, ...]
    path: Path


def sibling_reads(
    program: Program, references: Callable[[int], Iterable[tuple[Path, tuple[str, ...]]]]
) -> Iterator[SiblingRead]:
    """Yield what branches read of siblings although they run at once; `references` are those of a step."""
    layout = program.layout
    for fork in layout.forks.values():
        ids = [layout.steps[branch].id for branch in fork.branches]
        for number, branch in enumerate(fork.branches):
            known = {ids[one] for one in fork.before[number]}
            for step in layout.inside(branch):
                for path, names in references(step):
                    is_value = len(names) > 1 and names[1] in ("output", "error", "error_name")
                    if is_value and names[0] in ids and not (names[0] in known and names[1] == "output"):
                        yield SiblingRead(step, ids[number], names, path)


def _circle(sub: int, order: Order) -> list[int]:
    """Return a way from a sub-step on a circle along what it needs, back to itself."""
    ways = {one: [sub, one] for one in sorted(order.needs[sub])}
    pending = list(ways)
    while sub not in ways:
        one = pending.pop(0)
        for further in sorted(order.needs[one] - ways.keys()):
            ways[further] = [*ways[one], further]
            pending.append(further)
    return ways[sub]
