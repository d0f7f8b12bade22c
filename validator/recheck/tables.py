"""Checks tables: for every pair of step and monitor memory, the possible states of a run there.

A table with rows is an inductive invariant: the entry states are in it, and every exit of a state in it leads to a
state in it, by this checker's own reading of the language. For a table without rows this checker searches the states
itself, by the listed classes. A violation that happens in no state of the table can't happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.blocks import OPEN, Block, meet, read
from stepward.validator.recheck.fields import Fields
from stepward.validator.recheck.followed import Followed, State
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.owners import is_possible, resolved_states
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused, TooLarge
from stepward.validator.recheck.rules import DecisionWatcher, Watcher
from stepward.validator.recheck.search import reached
from stepward.validator.recheck.steps import Steps
from stepward.validator.recheck.walking import Pair, Violations, Walk, explored
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.fields import names_in, written

MAX_STATES: Final = 5_000_000
"""The most states of one table."""


class Row(NamedTuple):
    """The states at a pair, each with its least cost; None for any state.

    `left_open` are the sets of references that some state leaves open.
    """

    states: dict[tuple[int, ...], int] | None
    left_open: frozenset[frozenset[int]] = frozenset()

    def holds(self, state: State, cost: int) -> bool:
        """Return whether a state, at that cost, belongs to the row."""
        if self.states is None:
            return True
        if state is None:
            return False
        for slots in self.left_open:
            wider = tuple(OPEN if slot in slots else block for slot, block in enumerate(state)) if slots else state
            if self.states.get(wider, cost + 1) <= cost:
                return True
        return False


class TableCheck:
    """One table of a certificate, and the violations that it does not rule out."""

    def __init__(self, reading: Reading, watcher: Watcher, part: Fields) -> None:
        self.part = part
        self.reading = reading
        self.kind = part.text("kind")
        most = reading.program.max_steps
        if self.kind == "budget" and most is None:
            raise Refused("the program has no `max_steps`, so that nothing runs out")
        self.walk = Walk(reading, watcher, most if self.kind == "budget" else None)
        names, listed, cut = _references(part)
        self.listed = listed
        self.followed = Followed(names, cut)
        self.steps = self.walk.steps(self.followed)
        self.blind = self.walk.steps(Followed((), ()))
        self.counts = part.flag("counts_visits")
        self.states = 0
        self.has_rows = part.data.get("rows") is not None
        self.rows = dict(self._row(row) for row in part.objects("rows"))
        part.close()

    def violations(self) -> Violations:
        """Return the violations that the table does not rule out; raises Refused where the table is not inductive.

        Without rows the states are searched.
        """
        if not self.has_rows:
            if not self.followed.names and self.walk.most is None:
                return explored(self.reading, self.walk.watcher, counts=self.counts)
            return reached(self.walk, self.followed, counts=self.counts, most=MAX_STATES)
        self._is_entered()
        for pair, row in self.rows.items():
            if row.states is None:
                for target, _, _ in self.walk.targets(self.blind, pair, None, 0):
                    self._require_row(pair, target, None, 0)
                continue
            for listed, cost in row.states.items():
                for state in resolved_states(self.steps, pair.step, listed):
                    for target, changes, after in self.walk.targets(self.steps, pair, state, cost):
                        moved = list(state)
                        for slot, block in changes:
                            moved[slot] = block
                        self._require_row(pair, target, tuple(moved), after)
        return self.walk.violations

    def _is_entered(self) -> None:
        first = self.walk.first(counts=self.counts)
        roots = dict.fromkeys(self.steps.origins.root(name) for name in self.followed.names)
        choices = []
        for root in roots:
            if self.steps.origins.is_input(root):
                choices.append(self.steps.given(root, Source("input", root[0])))
            else:
                choices.append(self.steps.undefined(root))
        for changes in self.steps.together(choices):
            self._require_row(None, first, tuple(block for _, block in changes), 0)

    def _require_row(self, source: Pair | None, target: Pair, state: State, cost: int) -> None:
        row = self.rows.get(target)
        if row is not None and row.holds(state, cost):
            return
        where = "the entry" if source is None else f"`{self._id(source)}`"
        at = f"`{self._id(target)}` remembering {list(target.memory)}"
        if row is None:
            raise Refused(f"{where} leads to {at}, of which the certificate knows nothing")
        which = "in any state" if state is None else self._shown(state)
        raise Refused(f"{where} leads to {at} {which}, which is not in the certificate")

    def _id(self, pair: Pair) -> str:
        return self.reading.steps[pair.step].id

    def _shown(self, state: tuple[int, ...]) -> str:
        known = zip(self.followed.names, self.followed.blocks, state, strict=True)
        parts = [
            f"`${written(name)}` {_shown_block(blocks[number])}" for name, blocks, number in known if number != OPEN
        ]
        return f"with {' and '.join(parts)}" if parts else "there"

    # -- reading -----------------------------------------------------------------------------------------------------

    def _row(self, row: Fields) -> tuple[Pair, Row]:
        step = self.reading.position.get(row.text("step"))
        if step is None:
            raise Refused(f"the program has no step `{row.text('step')}`")
        memory = tuple(row.numbers("memory"))
        if len(memory) != len(self.walk.watcher.start()):
            raise Refused(f"what is remembered at `{row.text('step')}` is not what the rule remembers")
        visits = tuple(row.numbers("visits")) if self.counts else None
        if visits is not None and len(visits) != len(self.walk.counts):
            raise Refused("not every step with `max_visits`, with items or with a small `max_retries` is counted")
        states: dict[tuple[int, ...], int] = {}
        if row.data.get("costs") is not None and self.kind == "budget":
            for cost, coded in row.costs("costs"):
                for state in self._decoded(coded):
                    states[state] = min(cost, states.get(state, cost))
        elif row.any("states") == "any":
            row.close()
            return Pair(step, memory, visits), Row(None)
        else:
            states = dict.fromkeys(self._decoded(row.any("states")), 0)
        row.close()
        left_open = {frozenset(slot for slot, block in enumerate(state) if block == OPEN) for state in states}
        return Pair(step, memory, visits), Row(states, frozenset(left_open))

    def _decoded(self, coded: Any) -> Iterator[tuple[int, ...]]:
        """Yield states, which are written as numbers in a mixed radix: the block of the first reference is the lowest
        digit."""
        if not isinstance(coded, list):
            raise Refused("the states of a row are no list")
        sizes = [len(blocks) for blocks in self.listed]
        for entry in coded:
            first, last = entry if isinstance(entry, list) and len(entry) == 2 else (entry, entry)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < prod(sizes):
                raise Refused(f"{entry} is no state, and no stretch of states")
            self.states += last - first + 1
            if self.states > MAX_STATES:
                raise TooLarge(f"it has over {MAX_STATES:,} states")
            for number in range(first, last + 1):
                state = []
                for size, blocks in zip(sizes, self.listed, strict=True):
                    number, position = divmod(number, size)  # noqa: PLW2901 - the remaining digits
                    state.append(blocks[position])
                yield tuple(state)


def _references(part: Fields) -> tuple[list[Names], list[list[int]], list[tuple[Block, ...]]]:
    """Return the references of a part, their listed block numbers, and all blocks of each."""
    names: list[Names] = []
    listed: list[list[int]] = []
    cut: list[tuple[Block, ...]] = []
    for entry in part.objects("references"):
        name = _names(entry.text("name"))
        if name in names:
            raise Refused(f"`{entry.text('name')}` is listed twice")
        numbers, blocks = read(entry.any("classes"))
        entry.close()
        names.append(name)
        cut.append(blocks)
        listed.append(numbers)
    return names, listed, cut


def _shown_block(block: Block) -> str:
    if block.single:
        from stepward.vm.values import to_json

        return f"being {to_json(block.value)}"
    if block.kind == "number" and (block.low, block.high) != (None, None):
        low = "" if block.low is None else f" above {block.low}"
        return f"being a number{low}" + ("" if block.high is None else f" below {block.high}")
    return {"undefined": "undefined", "string": "being another text"}.get(block.kind, f"being of kind {block.kind}")


# -- all values of the types -------------------------------------------------------------------------------------------


def among_all_values(reading: Reading, watcher: Watcher, part: Fields) -> Violations:
    """Return the violations of a condition in any state that the types of its references allow, on any path."""
    if not isinstance(watcher, DecisionWatcher):
        raise Refused("a proof over all values speaks of a condition step")
    names, listed, cut = _references(part)
    part.close()
    walk = Walk(reading, watcher)
    followed = Followed(names, cut)
    steps, pair = walk.steps(followed), Pair(watcher.step, (), None)
    for count, state in enumerate(_all_states(steps, followed)):
        if count > MAX_STATES or any(block not in known for block, known in zip(state, listed, strict=True)):
            raise Refused("the certificate does not list every class of values that is possible")
        for _ in walk.targets(steps, pair, state, 0):
            pass
    return {(step, kind) for step, kind in walk.violations if kind in ("uncovered", "overlap")}


def _all_states(steps: Steps, followed: Followed) -> Iterator[tuple[int, ...]]:
    """Yield every state that the types allow; a field has a value only where its owner is an object."""
    order = sorted(range(len(followed.names)), key=lambda slot: len(followed.names[slot]))
    choices: list[list[int]] = []
    for slot in order:
        name, blocks = followed.names[slot], followed.blocks[slot]
        origin = steps.origins.of(name)
        possible = [
            number
            for number, block in enumerate(blocks)
            if any(meet(block, one) for one in origin.blocks) and steps.origins.may_give(name, block)
        ]
        choices.append([*possible, followed.undefined[slot]])
    for chosen in product(*choices):
        state = dict(zip(order, chosen, strict=True))
        if all(is_possible(steps, followed, state, slot) for slot in order):
            yield tuple(state[slot] for slot in range(len(order)))


def _names(text: str) -> Names:
    try:
        return names_in(text)
    except ExpressionError:
        raise Refused(f"`{text}` is no reference") from None
