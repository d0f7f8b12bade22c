"""A search by this checker itself for the states that runs reach.

A certificate may list classes of values without the reachable states: they are searched here. Beside a formula, which
by itself says nothing about the program, values are partitioned at the constants of the program's expressions. A
violation found by such a search is not conclusive, because a block may contain values that do not occur.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, Final

from stepward.validator.recheck.blocks import ARRAY, GIVEN, OPEN, Block, cut, is_exact, list_of, of_value
from stepward.validator.recheck.built import MAX_LISTS, field_at, filled
from stepward.validator.recheck.definite import decided_by, read_by
from stepward.validator.recheck.ends import outputs_of, trees_of
from stepward.validator.recheck.evaluation import references, truths
from stepward.validator.recheck.followed import Followed
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import prefixes
from stepward.validator.recheck.owners import resolved_states
from stepward.validator.recheck.questions import FAILS
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused, TooLarge
from stepward.validator.recheck.rules import Watcher, handed
from stepward.validator.recheck.saved_values import SavedValues
from stepward.validator.recheck.steps import Steps
from stepward.validator.recheck.walking import Pair, Violations, Walk
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Reference,
    Template,
    children,
    walk,
)
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import ForEachStep, SetStep, ToolCall

MAX_STATES: Final = 4_000
"""States that are explored beside a formula."""

MAX_MOVES: Final = 8_000
"""Moves between states that are explored beside a formula."""

MAX_TRIES: Final = 2_000
"""Moves by single values in a search for a violation."""

MAX_POINTS: Final = 12
"""The most whole numbers of a type that each become a block."""

Written = tuple[int, ...]


def reached(
    walk_: Walk,
    followed: Followed,
    *,
    counts: bool,
    most: int,
    moves: int | None = None,
    until: Callable[[Violations], bool] | None = None,
) -> Violations:
    """Return the violations in the states that runs reach; raises TooLarge beyond `most` states or `moves` moves.

    It stops as soon as the violations satisfy `until`. With a budget, states are visited in the order of their cost, so
    that each is known at its least cost.
    """
    search = _Search(walk_, followed, counts=counts)
    start = walk_.first(counts=counts)
    visited: set[tuple[Pair, Written]] = set()
    queue: list[tuple[int, int, Pair, Written]] = [(0, 0, start, search.first())]
    count = 0
    while queue:
        if moves is not None and count > moves:
            raise TooLarge(f"it takes over {moves:,} moves")
        if until is not None and walk_.violations and until(walk_.violations):
            return walk_.violations
        cost, _, pair, state = heapq.heappop(queue) if walk_.most is not None else queue.pop()
        if (pair, state) in visited:
            continue
        visited.add((pair, state))
        if len(visited) > most:
            raise TooLarge(f"it has over {most:,} states")
        for target, state_after, after in search.successors(pair, state, cost):
            count += 1
            if (target, state_after) in visited:
                continue
            if walk_.most is None:
                queue.append((0, 0, target, state_after))
            else:
                heapq.heappush(queue, (after, count, target, state_after))
    return walk_.violations


class _Search:
    """From one state of a search to the next. What is not live is forgotten."""

    def __init__(self, walk_: Walk, followed: Followed, *, counts: bool) -> None:
        self.walk = walk_
        self.counts = counts
        self.followed = followed
        self.steps = walk_.steps(followed, is_search=True)
        self.answers = _answer_slots(self.steps)
        self.saved = SavedValues(walk_.reading, followed, len(followed.names) + len(self.answers))
        self.live = _live(walk_.reading, self.steps, walk_.watcher, self.saved)
        self.overwritten: dict[int, list[int]] = {}
        """The answers that each step may change, by the steps that may change some."""
        for slot, roots in self.answers.items():
            for number in {one for root in roots for one in walk_.reading.touchers.get(root, ())}:
                self.overwritten.setdefault(number, []).append(slot)

    def first(self) -> Written:
        """Return the state at the entry: only inputs have values."""
        origins = self.walk.reading.origins
        values = [
            GIVEN if origins.is_input(origins.root(name)) else self.followed.undefined[slot]
            for slot, name in enumerate(self.followed.names)
        ]
        others = (OPEN for _ in range(len(self.answers) + self.saved.size))
        return _forgotten((*values, *others), self.live.get(0, 0))

    def successors(self, pair: Pair, written: Written, cost: int) -> Iterator[tuple[Pair, Written, int]]:
        """Yield the states that may follow a state, each with its cost."""
        overwritten = self.overwritten.get(pair.step, ())
        onward = None if overwritten else self.walk.onward(self.steps, pair.step, counts=self.counts)
        for target_step in onward or ():
            yield pair._replace(step=target_step), _forgotten(written, self.live.get(target_step, 0)), cost
        if onward is not None:
            return
        for state in _answered_states(self.steps, pair.step, written, self.live):
            for target, changes, after in self.walk.targets(self.steps, pair, state, cost):
                moved = self.saved.moved(state, changes, pair.step, target.step) | dict.fromkeys(overwritten, OPEN)
                yield target, _forgotten(tuple(moved.values()), self.live.get(target.step, 0)), after


def _forgotten(state: Sequence[int], live: int) -> Written:
    """Return a state with OPEN for references that are not live."""
    return tuple([block if live >> slot & 1 else OPEN for slot, block in enumerate(state)])


def _answer_slots(steps: Steps) -> dict[int, frozenset[Names]]:
    """Return where a state holds the answers to questions, with the variables that each answer depends on."""
    questions = steps.questions.list if steps.questions is not None else ()
    return {slot: question.roots for slot, question in enumerate(questions, start=len(steps.followed.names))}


def _answered_states(steps: Steps, step: int, state: Written, live: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the state with every choice for what the step reads: blocks, and answers that are needed again later."""
    following = steps.reading.control.following[step]
    later = [
        pair for pair in steps.questions_at(step) if any(live.get(target, 0) >> pair[0] & 1 for target in following)
    ]
    states = list(resolved_states(steps, step, state))
    for slot, question in later:
        assert steps.questions is not None
        tree = steps.reading.plain(steps.questions.list[question].tree, step)
        states = [wider for one in states for wider in _answers(steps, step, one, slot, tree)]
    yield from states


def _answers(steps: Steps, step: int, state: tuple[int, ...], slot: int, tree: Expression) -> Iterator[tuple[int, ...]]:
    """Yield a state with each answer that a question may get in it; an answer that is known stays."""
    if state[slot] != OPEN:
        yield state
        return
    names = references([tree])
    splits = steps.fitting(names, steps.environment(names, step, state))  # `$a + $a == 'ab'` reads one value twice
    may_overflow = steps.origins.may_overflow(tree)
    known = {one for split in splits for one in truths(tree, split, may_overflow=may_overflow)}
    for answer in (one for one in (True, False, None) if one in known):  # the order of a set with None may vary
        yield (*state[:slot], FAILS if answer is None else int(answer), *state[slot + 1 :])


def _live(reading: Reading, steps: Steps, watcher: Watcher, saved: SavedValues) -> dict[int, int]:
    """Return the live references and answers of each step: those that may be read before they are assigned again. A set
    of them is an integer, with a bit for each slot."""
    control, reads = reading.control, _reads(reading, steps, watcher)
    for number, slots in saved.read.items():
        reads[number] = reads.get(number, 0) | slots
    overwritten = _overwritten(reading, steps)
    live: dict[int, int] = {}
    pending = sorted(reads)
    while pending:
        number = pending.pop()
        slots_live = 0
        for target in control.following[number]:
            slots_live |= live.get(target, 0)
        slots_live = slots_live & ~overwritten[number] | reads.get(number, 0)
        if slots_live != live.get(number, 0):
            live[number] = slots_live
            pending.extend(control.before[number])
    for number, slots_saved in saved.live.items():
        live[number] = live.get(number, 0) | slots_saved
    return live


def _reads(reading: Reading, steps: Steps, watcher: Watcher) -> dict[int, int]:
    """Return what each step reads that the search follows: references, and answers to questions."""
    followed = steps.followed
    owners = {one for name in followed.names for one in prefixes(name)}
    rule_names = references([watcher.condition]) if watcher.condition is not None else ()
    rule_slots = [followed.slot[name] for name in rule_names if name in followed.slot]
    asking = steps.questions.of_step if steps.questions is not None else {}
    reads: dict[int, int] = {}
    for number in {*(one for name in owners for one in reading.readers.get(name, ())), *watcher.hits, *asking}:
        slots_read = {*steps.read_slots(number), *(rule_slots if number in watcher.hits else ())}
        slots = {*_with_owners(followed, slots_read), *(slot for slot, _ in steps.questions_at(number))}
        if slots:
            reads[number] = sum(1 << slot for slot in slots)
    return reads


def _overwritten(reading: Reading, steps: Steps) -> defaultdict[int, int]:
    """Return the references that each step assigns, and the answers that it may change."""
    overwritten: defaultdict[int, int] = defaultdict(int)
    for slot, name in enumerate(steps.followed.names):
        for number in reading.assigners.get(reading.origins.root(name), ()):
            overwritten[number] |= 1 << slot
    for slot, roots in _answer_slots(steps).items():
        for number in {one for root in roots for one in reading.touchers.get(root, ())}:
            overwritten[number] |= 1 << slot
    return overwritten


def _with_owners(followed: Followed, slots: Iterable[int]) -> Iterator[int]:
    """Yield followed references with their owners and fields: knowledge about one limits the others."""
    for slot in slots:
        name = followed.names[slot]
        for related_name, related in followed.slot.items():
            if related_name[: len(name)] == name or name[: len(related_name)] == related_name:
                yield related


MAX_ALONE: Final = 8
"""The most names of a property of which each is followed alone."""


def is_ruled_out(reading: Reading, watcher: Watcher, known: Violations, *, is_wide: bool) -> bool:
    """Return whether a search of all states, where they are few, shows that none of the known violations can happen.

    Unless `is_wide`, only the references in the group of the property are followed.
    """
    with suppress(Refused):
        groups = Groups(reading, watcher, is_wide=is_wide)
        # Types alone may decide a rule, which branches fail, or one name; of all that is read there may be too many
        # states.
        selections: list[list[Names]] = [[], _errors_of_branches(reading), *groups.rule_groups[:MAX_ALONE]]
        return any(_never_broken(reading, watcher, known, groups, names) for names in (*selections, groups.names))
    return False


def _errors_of_branches(reading: Reading) -> list[Names]:
    """Return the errors of branches that decide how a step goes on."""
    return sorted({name for number in range(len(reading.steps)) for name in decided_by(reading, number)})


def _never_broken(reading: Reading, watcher: Watcher, known: Violations, groups: Groups, names: list[Names]) -> bool:
    """Return whether a search that follows some names shows that none of the known violations can happen."""
    with suppress(Refused):
        violations = reached(
            Walk(reading, watcher),
            Followed(names, [_blocks(reading, name, groups.constants(name)) for name in names]),
            counts=True,
            most=MAX_STATES,
            moves=MAX_MOVES,
            until=lambda broken: not known.isdisjoint(broken),
        )
        return known.isdisjoint(violations)
    return False


def refuted(reading: Reading, watcher: Watcher) -> Violations:
    """Return the violations that single values certainly cause, as far as the search went.

    The type of each value allows it, and every outcome on the path is computed from such values. So each block on the
    path stands for values that occur.
    """
    groups = Groups(reading, watcher, is_wide=True)
    walk_ = Walk(reading, watcher, reading.program.max_steps)
    blocks = []
    errors = [name for name in _errors_of_branches(reading) if name not in groups.names]
    for name in groups.names:
        values = [*groups.constants(name), *_SAMPLES]
        exact = (one for one in _blocks(reading, name, values) if one.single or one.kind in _EXACT)
        blocks.append((*exact, *_lengths(groups, name)))
    blocks += [_blocks(reading, name, ()) for name in errors]  # whether there is one is all that is asked
    with suppress(Refused):  # the violations found so far remain valid
        reached(
            walk_, Followed([*groups.names, *errors], blocks), counts=True, most=MAX_STATES, moves=MAX_TRIES, until=bool
        )
    return walk_.violations


def _lengths(groups: Groups, name: Names) -> Iterator[Block]:
    """Yield the lengths of a list of which items are followed; none where more than its length and its items counts."""
    indices = [index_of(one[-1]) for one in groups.names if one[:-1] == name]
    most = max((one for one in indices if one is not None), default=None)
    if most is not None and name not in groups.read_whole:
        yield from (ARRAY._replace(low=length - 1, high=length + 1) for length in range(most + 2))


_SAMPLES: Final = (0, 1, "", "x")
MAX_FIELDS: Final = 500
"""The most fields of built values that are followed."""

_EXACT: Final = frozenset({"undefined", "object"})


class Groups:
    """The references of a program in groups: references in one expression, or in one assignment, share a group.

    `names` are the references to follow, with their owners: the group of the property itself, or all where the property
    has none or with `is_wide`. `rule_groups` are those that the property reads itself, each with its owners.
    """

    def __init__(self, reading: Reading, watcher: Watcher, *, is_wide: bool) -> None:
        self.reading = reading
        self.read_whole: set[Names] = set()
        """The references of which conditions read more than a length, or whether they are defined."""
        self._groups: dict[Names, set[Names]] = {}
        self._constants: dict[Names, dict[Any, Any]] = {}
        for number, step in enumerate(reading.steps):
            trees = [tree for tree in reading.expressions(number) if tree is not None]
            if isinstance(step, SetStep | ForEachStep):
                self._assigned(number)
                self.read_whole.update(read_by(step))
                continue
            for name, tree in outputs_of(reading, number):
                self._given(name, tree)
            for tree in trees:
                self._join(references([tree]), _constants(tree))
                self.read_whole.update(_read_whole(tree))
        rule_names = [] if is_wide else list(_rule_references(watcher))
        if watcher.condition is not None:
            self._join(list(_rule_references(watcher)), _constants(watcher.condition))
            parts = [hit.part for matches in watcher.hits.values() for hit in matches]
            whole = list(_read_whole(watcher.condition))
            self.read_whole.update(whole, (handed(part, name) for part in parts for name in whole))
        self._follow_fields()
        known = self._groups.get(rule_names[0], set()) if rule_names else set(self._groups)
        if not rule_names:
            known |= {name for hit in reading.calls for name in read_by(hit.part)}
        self.names = list(dict.fromkeys(one for name in sorted(known) for one in self._owners_first(name)))
        self.rule_groups = [list(self._owners_first(name)) for name in sorted(set(_rule_references(watcher)))]

    def constants(self, name: Names) -> Iterable[Any]:
        """Return the constants in expressions of a reference's group."""
        return self._constants.get(name, {}).values()

    def _assigned(self, number: int) -> None:
        for name, tree in self.reading.put_by_set(number).items():
            if tree is not None:
                self._given((name,), tree)

    def _given(self, name: Names, tree: Expression) -> None:
        """Join a name with what it is assigned, and each field with the part of which it is built."""
        if not isinstance(tree, Constant) or not isinstance(tree.value, tuple | dict):
            self._join([name, *references([tree])], _constants(tree))
        if not isinstance(tree, Reference | Built):
            self.read_whole.update(_read_whole(tree))
        for field, part in zip(tree.names, tree.parts, strict=True) if isinstance(tree, Built) else ():
            self._given((*name, field), part)

    def _follow_fields(self) -> None:
        """Join each field of a value that is built or copied with the field of what was put in there, and so on."""
        pending = [name for name in self._groups if len(name) > 1]
        visited = set(pending)
        while pending and len(visited) < MAX_FIELDS:
            name = pending.pop()
            resolution = self.reading.lookup.resolve(name)
            trees = (
                [tree for source in resolution.sources for tree in trees_of(self.reading, source)] if resolution else []
            )
            for tree in trees:
                part = field_at(tree, resolution.fields).tree if resolution is not None else None
                if isinstance(part, Reference):
                    self._join([name, part.names], ())
                    if part.names not in visited:
                        visited.add(part.names)
                        pending.append(part.names)

    def _join(self, names: Sequence[Names], constants: Iterable[Any]) -> None:
        group: set[Names] = set()
        known = {(type(one).__name__, one): one for one in constants}
        for name in [inner for one in names for inner in self._owners_first(one)]:
            group |= self._groups.get(name, {name})
            known |= self._constants.get(name, {})
        for name in group:
            self._groups[name], self._constants[name] = group, known

    def _owners_first(self, name: Names) -> Iterator[Names]:
        """Yield a reference after its owners; nothing where nothing gives it a value."""
        resolution = self.reading.lookup.resolve(name)
        if resolution is not None:
            yield from (one for one in prefixes(name) if len(one) >= len(resolution.root))


def _rule_references(watcher: Watcher) -> Iterator[Names]:
    """Yield the references in the property itself, including those in arguments."""
    for name in references([watcher.condition]) if watcher.condition is not None else ():
        if name[0] != "args":
            yield name
            continue
        for hit in (one for found in watcher.hits.values() for one in found):
            passed = handed(hit.part, name)
            if passed != name:
                yield passed
            elif isinstance(hit.part, ToolCall) and len(name) > 1:
                yield from (one.reference.names for one in embedded(hit.part.args.get(name[1])))


def _read_whole(tree: Expression) -> Iterator[Names]:
    """Yield the references in an expression, except those that it only measures, or tests by `defined`."""
    match tree:
        case Reference(names=names):
            yield names
        case Defined() | FunctionCall(function="len", operand=Reference()):
            return
        case _:
            for child in children(tree):
                yield from _read_whole(child)


def _constants(tree: Expression) -> Iterable[Any]:
    for node in walk(tree):
        if isinstance(node, Constant):
            values = node.value if isinstance(node.value, tuple) else (node.value,)
            yield from (value for value in values if not isinstance(value, tuple | dict))


def _blocks(reading: Reading, name: Names, constants: Iterable[Any]) -> tuple[Block, ...]:
    """Return the partition of a reference: by constants, by what is built, and by the values of a small type."""
    origin = reading.origins.of(name)
    constants = list(constants)
    values = [*constants, *(block.value for block in origin.blocks if block.single)]
    for block in origin.blocks:
        low, high = block.low, block.high
        if block.kind == "number" and block.whole and low is not None and high is not None and high - low <= MAX_POINTS:
            values += range(int(low) + 1, int(high))
    kinds = {block.kind for block in origin.blocks}
    texts = [one for one in values if isinstance(one, str) and "string" in kinds]
    numbers = [one for one in values if isinstance(one, int | Decimal) and type(one) is not bool and "number" in kinds]
    lists = [block for block in origin.blocks if block.kind == "array" and is_exact(block)]
    built = list(_built(reading, name, constants))
    return cut(list(dict.fromkeys([*lists, *built, *map(of_value, [*numbers, *texts])])))


def _built(reading: Reading, name: Names, constants: Sequence[Any]) -> Iterator[Block]:
    """Yield the lists and texts that are built of single values: constants, and the values of small types."""
    resolution = reading.lookup.resolve(name)
    for source in resolution.sources if resolution is not None else ():
        for tree in trees_of(reading, source):
            part = field_at(tree, resolution.fields).tree if resolution is not None else None
            if isinstance(part, Template | Built | Arithmetic):
                yield from _combined(reading, part, constants)


def _combined(reading: Reading, part: Template | Built | Arithmetic, constants: Sequence[Any]) -> Iterator[Block]:
    """Yield the lists or texts of which each part has a single value; none for an object, or for numbers."""
    choices = [_singles(reading, one, constants) for one in children(part)]
    if isinstance(part, Arithmetic):  # what it joins are texts, if it is no sum
        choices = [[one for one in found if one.kind == "string"] if part.joins else [] for found in choices]
    for chosen in product(*choices) if prod(map(len, choices)) <= MAX_LISTS else ():
        if isinstance(part, Template | Arithmetic):
            yield from (one for one in filled([{item} for item in chosen]) if one.single)
        elif part.is_list:
            yield list_of(chosen)


def _singles(reading: Reading, part: Expression, constants: Sequence[Any]) -> list[Block]:
    """Return the single values of a part of a list or text that are told apart; none for what is computed."""
    match part:
        case Constant(value=value):
            return [of_value(value)]
        case Reference(names=names):
            allowed = [block for block in reading.origins.of(names).blocks if block.single]
            return list(dict.fromkeys([*map(of_value, constants), *allowed]))
        case Template() | Built() | Arithmetic():
            return list(dict.fromkeys(_combined(reading, part, constants)))
        case _:
            return []
