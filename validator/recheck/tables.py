"""Checks tables: for every pair of step and what a watcher remembers, the states that a run may be in there.

A table is accepted for what it says when the states at the entry are in it and every way out of a state in it leads
back into it, by this checker's own reading of the language. What can be broken in no state of it can't be broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.cells import OPEN, UNDEFINED, Cell, Refused, meet, read
from stepward.validator.recheck.fields import Fields
from stepward.validator.recheck.origins import Names
from stepward.validator.recheck.rules import DecisionWatcher, Memory, Watcher
from stepward.validator.recheck.steps import Changes, Exit, Followed, State, Steps
from stepward.vm.language.flow import END
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Source
from stepward.vm.language.steps import EndStep

MAX_STATES: Final = 5_000_000
"""States of one table that are looked at."""

MAX_SPLITS: Final = 100_000
"""States that one which leaves something open may stand for at a step."""

MAX_PAIRS: Final = 1_000_000
"""Pairs that are visited where a certificate lists none."""

Places = set[tuple[int, str]]
"""Steps, and the kinds of violation that a table does not rule out there."""


class Pair(NamedTuple):
    """A step, what the watcher remembers, and how often each step with `max_visits` was come to, if that is counted."""

    step: int
    memory: Memory
    visits: tuple[int, ...] | None


class Row(NamedTuple):
    """The states at a pair, each with the least that it has cost to get there; None for any state.

    `left_open` are the choices of references of which some state says nothing.
    """

    states: dict[tuple[int, ...], int] | None
    left_open: frozenset[frozenset[int]] = frozenset()

    def holds(self, state: State, cost: int) -> bool:
        """Return whether a state is one of the row's, at that cost."""
        if self.states is None:
            return True
        if state is None:
            return False
        for slots in self.left_open:
            wider = tuple(OPEN if slot in slots else cell for slot, cell in enumerate(state)) if slots else state
            if self.states.get(wider, cost + 1) <= cost:
                return True
        return False


class Walk:
    """Goes from states to states, and notes what can be broken on the way."""

    def __init__(self, meaning: Meaning, watcher: Watcher, most: int | None = None) -> None:
        self.meaning = meaning
        self.flow = meaning.flow
        if self.flow.has_missing_target or self.flow.ambiguous_arms:
            raise Refused("the program does not say where control goes")
        self.watcher = watcher
        self.most = most
        self.broken: Places = set()
        self.bounds = {
            number: step.max_visits
            for number, step in enumerate(self.flow.steps)
            if not isinstance(step, EndStep) and step.max_visits is not None
        }
        self.slot = {step: number for number, step in enumerate(self.bounds)}

    def steps(self, followed: Followed) -> Steps:
        """Return the steps of the program as seen by followed references."""
        return Steps(self.meaning, followed, self.watcher.parts, has_costs=self.most is not None)

    def first(self, *, counts: bool) -> Pair:
        """Return the pair at the entry."""
        return Pair(0, self.watcher.start(), (0,) * len(self.bounds) if counts else None)

    def targets(self, steps: Steps, pair: Pair, state: State, cost: int) -> Iterator[tuple[Pair, Changes, int]]:
        """Yield where a state leads to, what changes, and the cost there; note what is broken."""
        step, memory, _ = pair
        if not steps.definite.may_get_to(step):
            return
        self._note(step, cost, self.watcher.entered(steps, step, state, memory))
        seen: set[frozenset[int | None]] = set()
        for way in self._ways(steps, pair, state):
            if way.started not in seen or way.way.kind == "uncovered":
                seen.add(way.started)
                self._note(step, cost, self.watcher.left(steps, step, state, memory, way))
            after = cost + way.cost
            if self.most is not None and after > self.most:
                continue
            remembered = self.watcher.after(step, memory, way)
            if way.way.to == END:
                if self.watcher.ended(remembered, way.way):
                    self.broken.add((step, "missing"))
            else:
                yield Pair(way.way.to, remembered, self._counted(pair)), way.changes, after

    def _note(self, step: int, cost: int, found: Iterable[Any]) -> None:
        self.broken.update((step, one.kind) for one in found if self.most is None or cost + one.cost <= self.most)

    def _counted(self, pair: Pair) -> tuple[int, ...] | None:
        if pair.visits is None or pair.step not in self.slot:
            return pair.visits
        slot = self.slot[pair.step]
        return (*pair.visits[:slot], pair.visits[slot] + 1, *pair.visits[slot + 1 :])

    def _ways(self, steps: Steps, pair: Pair, state: State) -> Iterator[Exit]:
        """Yield the ways out that the visits so far leave open."""
        exits = steps.exits(pair.step, state)
        if pair.visits is None or pair.step not in self.slot:
            yield from exits
            return
        count, bound = pair.visits[self.slot[pair.step]], self.bounds[pair.step]
        has_route = any(way.way.kind == "visits" and way.way.to != END for way in exits)
        goes_on = has_route and count == bound
        for way in exits:
            if way.way.kind != "visits":
                if count < bound:
                    yield way
            elif count >= bound and (way.way.to != END) is goes_on:
                yield way


def explored(meaning: Meaning, watcher: Watcher) -> Places:
    """Return what can be broken if every condition can go either way."""
    walk = Walk(meaning, watcher)
    steps = walk.steps(Followed((), ()))
    pairs = {walk.first(counts=False): None}
    pending = list(pairs)
    while pending:
        for target, _, _ in walk.targets(steps, pending.pop(), None, 0):
            if target not in pairs:
                pairs[target] = None
                pending.append(target)
                if len(pairs) > MAX_PAIRS:
                    raise Refused("program and rule have too many states together to be looked at")
    return walk.broken


def told_apart(steps: Steps, step: int, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield a state with a cell for all that is open in it and that a step reads."""
    followed = steps.followed
    order = sorted(steps.read_slots(step), key=lambda slot: len(followed.names[slot]))
    found = [state]
    for slot in [slot for slot in order if state[slot] == OPEN]:
        cells = steps.definite.cells(followed.names[slot], step)
        numbers = sorted({number for cell in cells for number in followed.meeting(slot, cell)})
        wider = [(*one[:slot], number, *one[slot + 1 :]) for one in found for number in numbers]
        found = [one for one in wider if _fits(steps, followed, dict(enumerate(one)), slot)]
        if len(found) > MAX_SPLITS:
            raise Refused("a state leaves too much open to be looked at")
    yield from found


class TableCheck:
    """One table of a certificate: its data, and what it does not rule out."""

    def __init__(self, meaning: Meaning, watcher: Watcher, part: Fields) -> None:
        self.part = part
        self.meaning = meaning
        self.kind = part.text("kind")
        most = meaning.program.max_steps
        if self.kind == "budget" and most is None:
            raise Refused("the program has no `max_steps`, so that nothing runs out")
        self.walk = Walk(meaning, watcher, most if self.kind == "budget" else None)
        names, listed, cut = _references(part, meaning)
        self.listed = listed
        self.followed = Followed(names, cut)
        self.steps = self.walk.steps(self.followed)
        self.blind = self.walk.steps(Followed((), ()))
        self.counts = part.flag("counts_visits")
        self.states = 0
        self.rows = dict(self._row(row) for row in part.objects("rows"))
        part.close()

    def broken(self) -> Places:
        """Return what the table does not rule out; raises Refused where it is not closed."""
        self._is_entered()
        for pair, row in self.rows.items():
            if row.states is None:
                for target, _, _ in self.walk.targets(self.blind, pair, None, 0):
                    self._lands(pair, target, None, 0)
                continue
            for written, cost in row.states.items():
                for state in told_apart(self.steps, pair.step, written):
                    for target, changes, after in self.walk.targets(self.steps, pair, state, cost):
                        moved = list(state)
                        for slot, cell in changes:
                            moved[slot] = cell
                        self._lands(pair, target, tuple(moved), after)
        return self.walk.broken

    def _is_entered(self) -> None:
        first = self.walk.first(counts=self.counts)
        roots = dict.fromkeys(self.steps.origins.root(name) for name in self.followed.names)
        choices = []
        for root in roots:
            if self.steps.origins.is_input(root):
                choices.append(self.steps.given(root, Source("input", root[0], ("inputs", root[0]))))
            else:
                choices.append(self.steps.undefined(root))
        for changes in self.steps.together(choices):
            self._lands(None, first, tuple(cell for _, cell in changes), 0)

    def _lands(self, source: Pair | None, target: Pair, state: State, cost: int) -> None:
        row = self.rows.get(target)
        if row is not None and row.holds(state, cost):
            return
        where = "the entry" if source is None else f"`{self._id(source)}`"
        at = f"`{self._id(target)}` remembering {list(target.memory)}"
        if row is None:
            raise Refused(f"{where} leads to {at}, of which the certificate knows nothing")
        how = "in any state" if state is None else self._shown(state)
        raise Refused(f"{where} leads to {at} {how}, which is not in the certificate")

    def _id(self, pair: Pair) -> str:
        return self.meaning.flow.steps[pair.step].id

    def _shown(self, state: tuple[int, ...]) -> str:
        known = zip(self.followed.names, self.followed.cells, state, strict=True)
        parts = [f"`${'.'.join(name)}` {_said(cells[number])}" for name, cells, number in known if number != OPEN]
        return f"with {' and '.join(parts)}" if parts else "there"

    # -- reading -----------------------------------------------------------------------------------------------------

    def _row(self, row: Fields) -> tuple[Pair, Row]:
        step = self.meaning.flow.position.get(row.text("step"))
        if step is None:
            raise Refused(f"the program has no step `{row.text('step')}`")
        memory = tuple(row.numbers("memory"))
        if len(memory) != len(self.walk.watcher.start()):
            raise Refused(f"what is remembered at `{row.text('step')}` is not what the rule remembers")
        visits = tuple(row.numbers("visits")) if self.counts else None
        if visits is not None and len(visits) != len(self.walk.bounds):
            raise Refused("not every step with `max_visits` is counted")
        states: dict[tuple[int, ...], int] = {}
        if row.data.get("costs") is not None and self.kind == "budget":
            for cost, held in row.costs("costs"):
                for state in self._decoded(held):
                    states[state] = min(cost, states.get(state, cost))
        elif row.is_any("states"):
            row.close()
            return Pair(step, memory, visits), Row(None)
        else:
            states = dict.fromkeys(self._decoded(row.any("states")), 0)
        row.close()
        left_open = {frozenset(slot for slot, cell in enumerate(state) if cell == OPEN) for state in states}
        return Pair(step, memory, visits), Row(states, frozenset(left_open))

    def _decoded(self, held: Any) -> Iterator[tuple[int, ...]]:
        """Yield states, which are written as numbers: the cell of the first reference counts once, and so on."""
        if not isinstance(held, list):
            raise Refused("the states of a row are no list")
        sizes = [len(cells) for cells in self.listed]
        for entry in held:
            first, last = entry if isinstance(entry, list) and len(entry) == 2 else (entry, entry)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < prod(sizes):
                raise Refused(f"{entry} is no state, and no stretch of states")
            self.states += last - first + 1
            if self.states > MAX_STATES:
                raise Refused(f"over {MAX_STATES:,} states are too many to be looked at")
            for number in range(first, last + 1):
                state = []
                for size, cells in zip(sizes, self.listed, strict=True):
                    number, position = divmod(number, size)  # noqa: PLW2901 - what is left of it
                    state.append(cells[position])
                yield tuple(state)


def _references(part: Fields, meaning: Meaning) -> tuple[list[Names], list[list[int]], list[tuple[Cell, ...]]]:
    """Return the references of a part, the cells that it lists of each, and all cells that there are, by number."""
    names: list[Names] = []
    listed: list[list[int]] = []
    cut: list[tuple[Cell, ...]] = []
    for entry in part.objects("references"):
        name = tuple(entry.text("name").removeprefix("$").split("."))
        if name in names or meaning.names.meaning(name) is None:
            raise Refused(f"`{entry.text('name')}` is listed twice, or nothing gives it a value")
        given, every = read(entry.any("classes"))
        entry.close()
        names.append(name)
        cut.append(every)
        listed.append(given)
    return names, listed, cut


def _said(cell: Cell) -> str:
    if cell.single:
        from stepward.vm.values import to_json

        return f"being {to_json(cell.value)}"
    if cell.kind == "number" and (cell.low, cell.high) != (None, None):
        low = "" if cell.low is None else f" above {cell.low}"
        return f"being a number{low}" + ("" if cell.high is None else f" below {cell.high}")
    return {"undefined": "undefined", "string": "being another text"}.get(cell.kind, f"being of kind {cell.kind}")


# -- all values of the types -------------------------------------------------------------------------------------------


def among_all_values(meaning: Meaning, watcher: Watcher, part: Fields) -> Places:
    """Return what a condition can break in some state that the types of what it reads admit, whatever led there."""
    if not isinstance(watcher, DecisionWatcher):
        raise Refused("a proof over all values speaks of a condition step")
    names, listed, cut = _references(part, meaning)
    part.close()
    walk = Walk(meaning, watcher)
    followed = Followed(names, cut)
    steps, pair = walk.steps(followed), Pair(watcher.step, (), None)
    for count, state in enumerate(_all_states(steps, followed)):
        if count > MAX_STATES or any(cell not in known for cell, known in zip(state, listed, strict=True)):
            raise Refused("the certificate does not list every class of values that is possible")
        for _ in walk.targets(steps, pair, state, 0):
            pass
    return {(step, kind) for step, kind in walk.broken if kind in ("uncovered", "overlap")}


def _all_states(steps: Steps, followed: Followed) -> Iterator[tuple[int, ...]]:
    """Yield every state that the types admit; a field is there only where what holds it is an object."""
    order = sorted(range(len(followed.names)), key=lambda slot: len(followed.names[slot]))
    choices: list[list[int]] = []
    for slot in order:
        name, cells = followed.names[slot], followed.cells[slot]
        origin = steps.origins.of(name)
        found = [number for number, cell in enumerate(cells) if any(meet(cell, one) for one in origin.cells)]
        choices.append([*found, followed.gone[slot]])
    for chosen in product(*choices):
        state = dict(zip(order, chosen, strict=True))
        if all(_fits(steps, followed, state, slot) for slot in order):
            yield tuple(state[slot] for slot in range(len(order)))


def _fits(steps: Steps, followed: Followed, state: Mapping[int, int], slot: int) -> bool:
    name = followed.names[slot]
    cell = followed.cells[slot][state[slot]]
    root = steps.origins.root(name)
    owner = followed.slot.get(name[:-1]) if len(name) > len(root) else None
    if owner is not None and state[owner] == OPEN:
        return True
    if owner is not None and followed.cells[owner][state[owner]].kind != "object":
        return cell == UNDEFINED
    if cell != UNDEFINED:
        return True
    if name == root:
        return not steps.origins.is_input(root)
    if owner is None:
        return steps.origins.of(name).may_lack or not steps.origins.is_input(root)
    return steps.origins.of(name).may_lack
