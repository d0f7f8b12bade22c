"""Which references certainly have a value at the start of a step, on every path: forward data flow.

Where a certificate does not follow a reference, this prevents that it counts as undefined everywhere. The same pass
computes the facts of `tracked`: which sources can't have given a value, and which variables are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from heapq import heappop, heappush
from itertools import chain
from typing import Any, assert_never

from stepward.validator.recheck.assigned_names import (
    assigned_by,
    body_names,
    given_back,
    listed_by,
    whole_names,
    written_by,
)
from stepward.validator.recheck.blocks import FAILS, UNDEFINED, Block
from stepward.validator.recheck.built import changed_paths
from stepward.validator.recheck.evaluation import (
    references,
    truths,
    values,
)
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.joined import always_ends_with_output
from stepward.validator.recheck.name_sets import NameSets
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import Origin, Origins, below, prefixes
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.tracked import Tracked, plain
from stepward.vm.expressions.syntax import Expression
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import (
    AnyPart,
    AnyStep,
    BranchStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    ForEachStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolStep,
    WaitStep,
)


def read_by(part: AnyPart) -> list[Names]:
    """Return the references in the arguments of a call, or in the output of an `end`."""
    values = [one.value for one in part.templates if one.sub is None]
    return list(dict.fromkeys(one.reference.names for value in values for one in embedded(value)))


def joined_at(reading: Parsed, stage: int) -> ParallelStep | None:
    """Return the parallel step whose branches a stage joins, None for another stage."""
    fork = reading.layout.fork_of(stage)
    step = None if fork is None else reading.steps[fork.owner]
    return step if isinstance(step, ParallelStep) else None


def decided_by(reading: Parsed, number: int) -> tuple[Names, ...]:
    """Return the errors of branches that decide how a step goes on: behind branches, and at the start of one."""
    step = reading.steps[number]
    if isinstance(step, BranchStep):
        return tuple((name, "error") for name in step.needs)
    whole = joined_at(reading, number) if isinstance(step, Stage) else None
    return () if whole is None else tuple((name, "error") for name in whole.branches)


def ended_by(reading: Parsed, number: int) -> ForEachStep | None:
    """Return the branch or the call whose body a step may end with success, None if it ends none."""
    owner = reading.layout.owner(number)
    step = None if owner is None else reading.steps[owner]
    is_end = any(one.closes == "SUCCESS" for one in reading.control.transitions[number])
    return step if is_end and isinstance(step, ForEachStep) and step.is_once else None


def overwritten(reading: Parsed, number: int) -> frozenset[Names]:
    """Return the names that a step assigns, or makes undefined, by whatever transition it is left."""
    step = reading.steps[number]
    whole = joined_at(reading, number) if isinstance(step, Stage) else None
    if whole is not None:
        return assigned_by(whole)
    if isinstance(step, ParallelStep) and step.branches:
        return frozenset()  # it has its output behind its branches
    if isinstance(step, ForEachStep):
        return frozenset((name,) for name in step.carry)
    if isinstance(step, SetStep):
        paths = paths_of_set(reading, number)
        return assigned_by(step).difference(path[:1] for path in paths).union(paths)  # the other fields are kept
    return body_names(reading, owner_of(reading, number)) if isinstance(step, Stage) else assigned_by(step)


def paths_of_set(reading: Parsed, number: int) -> tuple[Names, ...]:
    """Return the fields of variables that a `set` changes."""
    trees = reading.put_by_set(number).values() if isinstance(reading.steps[number], SetStep) else ()
    return tuple(path for tree in trees for path in changed_paths(tree))


def touched(reading: Parsed, number: int) -> frozenset[Names]:
    """Return the names that a step may assign, or make undefined; those of a body change between its items."""
    step = reading.steps[number]
    ended = ended_by(reading, number)
    outputs = whole_names(ended) if ended is not None else frozenset()  # its arguments stay what they are
    if not isinstance(step, Stage):
        return outputs | assigned_by(step)
    whole = joined_at(reading, number)
    if whole is not None:
        return outputs | assigned_by(whole)
    return outputs | assigned_by(reading.steps[owner_of(reading, number)]) | changed_between(reading, number)


def changed_between(reading: Parsed, stage: int) -> frozenset[Names]:
    """Return the names that may change between two items: what steps of the body assign, and the item."""
    owner = owner_of(reading, stage)
    inside = (reading.steps[one] for one in reading.layout.inside(owner))
    return body_names(reading, owner).union(*(assigned_by(one) for one in inside if not isinstance(one, Stage)))


def owner_of(reading: Parsed, stage: int) -> int:
    """Return the position of the step to which a stage belongs."""
    return reading.layout.body_of(stage).owner


_Environment = Mapping[Names, Sequence[Block]]

_Takes = Callable[[Transition], "set[Names] | None"]
"""Takes a transition, returns the names that are certainly defined where a step takes it; None where it can't."""


class Definite:
    """The references that are certainly defined at the start of each step."""

    def __init__(self, reading: Parsed, origins: Origins) -> None:
        self.reading = reading
        self.origins = origins
        self.transitions = reading.control.transitions
        self._assigned = [overwritten(reading, number) for number in range(len(reading.steps))]
        self._tracked = Tracked(reading, origins, self._assigned, partial(touched, reading))
        self._name_sets = NameSets(self._tracked.count)
        self._outcomes: dict[int, tuple[Expression, _Environment, set[int]]] = {}
        """The outcomes of each condition that were found last, and for what."""

    def may_get_to(self, step: int) -> bool:
        """Return whether a run may reach a step: values may exist for which its conditions lead there."""
        return step in self._at

    def is_sure(self, names: Names, step: int) -> bool:
        """Return whether a reference certainly has a value at the start of a step."""
        return self._is_sure(names, self._at.get(step, 0))

    def blocks(self, names: Names, step: int) -> tuple[Block, ...]:
        """Return the possible blocks of a reference at the start of a step."""
        return self._blocks(names, self._at.get(step, 0))

    def is_one_value(self, left: Names, right: Names, step: int) -> bool:
        """Return whether two references have the same value at the start of a step, wherever both have one."""
        return self._tracked.is_one_value(left, right, self._at.get(step, 0))

    def made_of(self, names: Names, step: int) -> list[Expression]:
        """Return expressions that have the value of a reference at the start of a step, wherever both have one."""
        return self._tracked.made_of(names, self._at.get(step, 0))

    def _origin(self, names: Names, known: int) -> Origin:
        """Return the origin of a reference, restricted to the sources that may have given its current value."""
        sources = self._tracked.sources(names[0], known)
        return self.origins.of(names) if sources is None else self.origins.by_sources(names, sources)

    def _blocks(self, names: Names, sure: int) -> tuple[Block, ...]:
        origin = self._origin(names, sure)
        if self._is_sure(names, sure):
            return origin.blocks or (UNDEFINED,)
        return (UNDEFINED, *origin.blocks)

    def _is_sure(self, names: Names, sure: int) -> bool:
        if self._name_sets.has(sure, names):
            return True
        root = self.origins.root(names)
        is_there = self._name_sets.has(sure, root) or self.origins.is_always_there(root)
        return is_there and not self._origin(names, sure).may_be_absent

    @cached_property
    def _at(self) -> dict[int, int]:
        """The sets by step. Steps are visited in reverse postorder, so that most are visited once."""
        order = _order(self.reading.control.following)
        inputs = self._name_sets.set_of((name,) for name in self.reading.program.inputs or ())
        facts = {0: inputs | self._tracked.at_entry}
        pending, waits = [(order[0], 0)], {0}
        while pending:
            _, step = heappop(pending)
            waits.discard(step)
            takes = self._taken(step, facts[step])
            for transition in self.transitions[step]:
                if transition.to < 0:
                    continue
                after = self._after(step, transition, facts[step], takes)
                if after is None:
                    continue
                known = facts.get(transition.to)
                joined = after if known is None else known & after
                if joined != known:
                    facts[transition.to] = joined
                    if transition.to not in waits:
                        waits.add(transition.to)
                        heappush(pending, (order[transition.to], transition.to))
        return facts

    def _after(self, number: int, transition: Transition, before: int, takes: _Takes) -> int | None:
        """Return the certain facts after a transition; None where the transition is impossible."""
        step = self.reading.steps[number]
        known = before
        if transition.kind != "visits":
            survived = takes(transition)
            if survived is None:
                return None
            known |= self._name_sets.set_of(survived)
        known = self._tracked.after(number, transition, known)
        known = self._tracked.forgotten(self._earlier(number, transition), known)
        undefined, defined = self._assigned[number], _given(step, transition)
        if isinstance(step, ForEachStep):
            undefined |= whole_names(step)
            defined = iter([(name,) for name in step.carry] if transition.kind == "success" else [(step.id, "error")])
        elif isinstance(step, ParallelStep) and step.branches:
            undefined, defined = assigned_by(step), iter([(step.id, "error")] if transition.kind == "visits" else [])
        elif isinstance(step, Stage) and (whole := joined_at(self.reading, number)) is not None:
            undefined, defined = assigned_by(whole), self._joined(number, whole, transition)
        elif isinstance(step, Stage):
            undefined, defined = self._between(number, transition)
        elif transition.closes not in (None, "SUCCESS"):
            undefined |= self._may_be_cleared(number)
        elif isinstance(step, SetStep):
            defined = chain(defined, paths_of_set(self.reading, number))
        return known & ~self._name_sets.below(undefined) | self._name_sets.set_of(defined)

    def _joined(self, number: int, step: ParallelStep, transition: Transition) -> Iterator[Names]:
        """Yield the names that certainly have a value behind branches."""
        if transition.kind != "success":
            yield from ((step.id, "error"), (step.id, "error_name"))
            return
        yield from written_by(step)
        fork = next(fork for fork in self.reading.layout.forks.values() if fork.join == number)
        for branch in fork.branches:
            if always_ends_with_output(self.reading, branch):
                yield self.reading.steps[branch].id, "output"

    def _between(self, number: int, transition: Transition) -> tuple[frozenset[Names], Iterator[Names]]:
        """Return the names that a stage makes undefined, and those that certainly have a value after it."""
        owner = owner_of(self.reading, number)
        step = self.reading.steps[owner]
        assert isinstance(step, ForEachStep)
        undefined, carried = self._assigned[number], frozenset((name,) for name in step.carry)
        if transition.kind == "item":
            index = [(step.index_as,)] if step.index_as is not None else []
            return undefined, iter([(step.item_name,), *index])
        if transition.kind == "again":
            earlier = frozenset((name,) for name in given_back(self.reading, owner))
            return undefined | earlier, iter(earlier)
        undefined |= whole_names(step)
        if step.is_once and transition.kind == "success":
            has_output = always_ends_with_output(self.reading, owner)
            return undefined, iter([names for names in written_by(step) if names not in carried] if has_output else [])
        if transition.kind == "success":
            outputs = [names for names in written_by(step) if names not in carried]
            return undefined, iter([*outputs, *listed_by(step)])
        return undefined | carried, iter([(step.id, "error"), *listed_by(step)])

    def _earlier(self, number: int, transition: Transition) -> tuple[str, ...]:
        """Return the variables that change at a transition which does not name the source of the new value.

        Carried variables get earlier values again, and behind a body its step has its output.
        """
        is_failed = transition.closes not in (None, "SUCCESS")
        owner = self.reading.layout.owner(number) if is_failed else None
        if transition.kind == "again":
            owner = owner_of(self.reading, number)
        return (*self._bound(number, transition), *(given_back(self.reading, owner) if owner is not None else ()))

    def _bound(self, number: int, transition: Transition) -> Iterator[str]:
        """Yield the variable that a step with a body binds where a stage ends it."""
        stage = self.reading.steps[number]
        if not isinstance(stage, Stage) or stage.role == "joined" or transition.kind in ("item", "again"):
            return
        step = self.reading.steps[owner_of(self.reading, number)]
        if isinstance(step, ForEachStep) and step.output_key is not None:
            yield step.output_key

    def _may_be_cleared(self, number: int) -> frozenset[Names]:
        """Return the carried variables that calls assign: they may be undefined behind an item that is skipped."""
        owner = self.reading.layout.owner(number)
        step = self.reading.steps[owner] if owner is not None else None
        if owner is None or not isinstance(step, ForEachStep) or step.on_item_error != "skip":
            return frozenset()
        variables = self.reading.lookup.variables
        return frozenset((name,) for name in step.carry if any(one.kind == "output" for one in variables[name]))

    def _taken(self, number: int, before: int) -> _Takes:
        """Return what gives the names that must have been defined for a step to take a transition.

        What does not depend on the transition is evaluated once.
        """
        match step := self.reading.steps[number]:
            case ConditionStep():
                return self._decided(number, step, before)
            case SetStep():
                required = self._required(number, before)
                return lambda transition: required if transition.kind == "success" else set()
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                needed = self._handed_over(step)
                return lambda transition: needed if transition.kind in ("success", "fallback") else set()
            case ForEachStep():
                needed = {one for names in read_by(step) for one in self._fields(names)}
                return lambda transition: needed if transition.kind == "success" else set()
            case WaitStep() | EndStep() | Stage():
                return lambda _: set()
            case _:
                assert_never(step)

    def _fields(self, names: Names) -> Iterator[Names]:
        """Yield a reference and its owners, from the root of its value on."""
        return (one for one in prefixes(names) if below(one, self.origins.root(names)))

    def _handed_over(self, step: LlmStep | ToolStep | ParallelStep | ComputeStep) -> set[Names]:
        """Return the names that must be defined for the calls of a step to start, except calls that may be skipped."""
        return {
            one
            for part in (step, *(part for part in step.sub_steps if part.on_error != "skip"))
            for names in read_by(part)
            for one in self._fields(names)
        }

    def _plain(self, number: int, before: int) -> tuple[list[Expression], _Environment, list[Names]] | None:
        """Return the expressions of a step, the blocks of their references, and the references that may be undefined.

        None where an expression does not parse.
        """
        trees = self.reading.expressions(number)
        if None in trees:
            return None
        known = [
            plain(
                tree,
                lambda left, right: self._tracked.is_one_value(left, right, before),
                lambda names: self._tracked.made_of(names, before),
            )
            for tree in trees
            if tree
        ]
        environment = {name: self._blocks(name, before) for name in references(known)}
        doubtful = [name for name, blocks in environment.items() if UNDEFINED in blocks and len(blocks) > 1]
        return known, environment, doubtful

    def _decided(self, number: int, step: ConditionStep, before: int) -> _Takes:
        """Return what gives the names that must have been defined for a condition to take a branch."""
        expressions = self._plain(number, before)
        if expressions is None:
            return lambda _: set()
        trees, environment, doubtful = expressions

        def branches(environment: _Environment) -> set[tuple[str, str | int | None]]:
            return {branch_taken(step, one) for one in self.outcomes(number, trees, environment)}

        possible = branches(environment)
        without = {name: branches({**environment, name: (UNDEFINED,)}) for name in doubtful}

        def takes(transition: Transition) -> set[Names] | None:
            branch = (transition.kind, transition.branch)
            if branch not in possible:
                return None
            return {one for name in doubtful if branch not in without[name] for one in self._fields(name)}

        return takes

    def outcomes(self, number: int, trees: list[Expression], environment: _Environment) -> set[int]:
        """Return the possible outcomes of the expressions of a condition."""
        known = self._outcomes.get(number)
        if known is None or known[0] is not trees[0] or known[1] != environment or len(trees) > 1:
            known = trees[0], environment, outcomes(trees, environment, self.origins.may_overflow)
            self._outcomes[number] = known
        return known[2]

    def _required(self, number: int, before: int) -> set[Names] | None:
        """Return the names that must have been defined for a `set` to succeed; None where it can't."""
        expressions = self._plain(number, before)
        if expressions is None:
            return set()
        trees, environment, doubtful = expressions

        def may_succeed(environment: _Environment) -> bool:
            return all(values(tree, environment) != {FAILS} for tree in trees)

        if not may_succeed(environment):
            return None
        sure = [name for name in doubtful if not may_succeed({**environment, name: (UNDEFINED,)})]
        return {one for name in sure for one in self._fields(name)}


def _order(following: list[tuple[int, ...]]) -> dict[int, int]:
    """Return the position of each step in a reverse postorder of the control flow from the first step."""
    postorder: list[int] = []
    visited, path = {0}, [(0, iter(following[0]))]
    while path:
        step, targets = path[-1]
        target = next((one for one in targets if one not in visited), None)
        if target is None:
            postorder.append(step)
            path.pop()
        else:
            visited.add(target)
            path.append((target, iter(following[target])))
    return {step: len(postorder) - number for number, step in enumerate(postorder)}


def _given(step: AnyStep, transition: Transition) -> Iterator[Names]:
    """Yield the names that certainly have a value after this transition."""
    if not isinstance(step, Failing):
        yield from written_by(step)
        return
    calls = step.sub_steps if transition.kind == "success" else ()
    for part in calls:
        if part.on_error != "skip":
            others = {name for other in calls if other is not part for name in written_by(other)}
            yield from (name for name in written_by(part) if name not in others)
    if transition.kind in ("success", "fallback"):
        yield from written_by(step)
    else:
        yield (step.id, "error")
        yield (step.id, "error_name")


NONE_HOLDS = -1
FAILING = -2


def outcomes(trees: list[Expression], environment: Any, may_overflow: Callable[[Expression], bool]) -> set[int]:
    """Return the positions of the expressions that may be the first to hold; NONE_HOLDS and FAILING may be among
    them."""
    possible: set[int] = set()
    for position, tree in enumerate(trees):
        truth_values = truths(tree, environment, may_overflow=may_overflow(tree))
        possible |= ({position} if True in truth_values else set()) | ({FAILING} if None in truth_values else set())
        if False not in truth_values:
            return possible
    return possible | {NONE_HOLDS}


def branch_taken(step: ConditionStep, outcome: int) -> tuple[str, str | int | None]:
    """Return the kind of transition, and the branch, that a condition takes by an outcome."""
    if outcome == FAILING:
        return "failed", None
    if outcome == NONE_HOLDS:
        return ("uncovered", None) if step.otherwise is None else ("branch", "otherwise")
    if step.cases is not None:
        return "branch", outcome + 1
    return ("uncovered", None) if step.then is None else ("branch", "then")
