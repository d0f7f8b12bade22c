"""The exits of for_each steps and of the stages between their items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from stepward.validator.recheck.arguments import may_fail_to_call
from stepward.validator.recheck.assigned_names import given_back
from stepward.validator.recheck.blocks import FAILS, UNDEFINED, Block, meet
from stepward.validator.recheck.definite import decided_by, joined_at, owner_of, read_by
from stepward.validator.recheck.describing import written
from stepward.validator.recheck.ends import given_by_body, given_by_branches
from stepward.validator.recheck.evaluation import Environment, references, values
from stepward.validator.recheck.exits import ALONE, NOTHING, Exit
from stepward.validator.recheck.failures import (
    errors_at,
    errors_before_items,
    errors_of_branches,
    leaving,
    representatives,
)
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import Changes, DescribeField, Followed, State, Test
from stepward.validator.recheck.joined import written_items
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.saved_values import BEFORE_ALL, BEFORE_ITEM
from stepward.validator.recheck.types import fits
from stepward.validator.recheck.value_sizes import assigns_too_large, ends_too_large
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Constant, Expression, Reference
from stepward.vm.expressions.template import embedded, lone_reference
from stepward.vm.language.steps import (
    BranchStep,
    EndStep,
    FailingPart,
    ForEachStep,
    InvokeStep,
    ParallelStep,
    SetStep,
    Stage,
)

MAX_WRITTEN: Final = 20
"""The most items of a list that is written down of which each is looked at by itself."""


class Steps(Protocol):
    """The steps of a program, as far as the exits of for_each steps need them."""

    reading: Reading
    followed: Followed
    is_blind: bool
    is_lazy: bool

    @property
    def origins(self) -> Origins:
        """The possible values of references by the types of their sources."""

    def transitions(self, number: int) -> tuple[Transition, ...]:
        """Return the transitions of a step."""

    def trees(self, number: int, state: State) -> list[Expression]:
        """Return the expressions of a step in a state."""

    def environment(self, names: Iterable[Names], step: int, state: State) -> Environment:
        """Return the possible blocks of references at the start of a step in a state."""

    def fitting(self, names: Sequence[Names], environment: Environment) -> Iterator[Environment]:
        """Return the environments in which no field contradicts its owner."""

    def assigned(
        self, number: int, step: SetStep | ForEachStep, state: State, results: list[set[Block]]
    ) -> Iterator[Changes]:
        """Yield the changes of what a step assigns."""

    def valued(self, roots: Sequence[Names], describe: DescribeField) -> Iterator[Changes]:
        """Yield the changes of roots that all get the same value."""

    def together(self, choices: Sequence[Iterable[Changes]]) -> Iterator[Changes]:
        """Yield every combination of changes that are applied one after the other."""

    def undefined(self, root: Names) -> Iterator[Changes]:
        """Yield the change that makes a root undefined."""

    def typed(self, source: Source) -> DescribeField:
        """Describe a value of the type of a source."""

    def given(self, root: Names, source: Source) -> Iterator[Changes]:
        """Yield the changes by which a root gets a value from outside."""

    def success(self, part: FailingPart) -> Iterator[Changes]:
        """Yield the changes of a part that succeeded."""

    def left_without(self, part: FailingPart, name: str) -> Iterator[Changes]:
        """Yield the changes of a part that failed with an error of a name."""


def closed(steps: Steps, number: int, state: State, exit_: Exit) -> Iterator[Exit]:
    """Yield an exit that may end a body, with all that changes there."""
    for inner_exit in given_by_body(steps, number, state, exit_):
        yield from _reverted(steps, number, inner_exit)


def _reverted(steps: Steps, number: int, exit_: Exit) -> Iterator[Exit]:
    """Yield an exit; where it ends an item that is skipped, carried variables get back their values from before it.

    In a table they may have any of their values.
    """
    owner = steps.reading.layout.owner(number)
    step = steps.reading.steps[owner] if owner is not None else None
    if not isinstance(step, ForEachStep) or step.on_item_error != "skip" or exit_.transition.closes == "SUCCESS":
        yield exit_
        return
    assert owner is not None
    for change in steps.together([[exit_.changes], *_given_back(steps, owner, BEFORE_ITEM)]):
        yield exit_._replace(changes=change)


def _given_back(steps: Steps, owner: int, number: int) -> Iterator[list[Changes]]:
    """Yield, for each carried variable that a body assigns, the changes that give it back an earlier value; any one in
    a table."""
    for name in given_back(steps.reading, owner):
        if steps.is_lazy:
            yield [tuple((slot, number) for slot in steps.followed.under((name,)))]
            continue
        changes = list(steps.valued([(name,)], _anything(steps, name)))
        may_be_undefined = any(one.kind == "output" for one in steps.reading.lookup.variables[name])
        yield [*changes, *(steps.undefined((name,)) if may_be_undefined else ())]


def _item(steps: Steps, step: ForEachStep, number: int) -> Iterator[Changes]:
    """Yield the changes by which an item gets its value: one of a list that is written down, else one of its type."""
    trees = written_items(step)
    values = [tree.value for tree in trees if isinstance(tree, Constant)]
    if trees and len(values) == len(trees) <= MAX_WRITTEN:
        return chain.from_iterable(steps.valued([(step.item_name,)], written(value)) for value in values)
    if trees:
        return steps.valued([(step.item_name,)], _anything(steps, step.item_name))
    return steps.given((step.item_name,), Source("item", step.item_name, number))


def _anything(steps: Steps, name: str) -> DescribeField:
    def describe(fields: Names, _: bool) -> tuple[Test, bool]:
        origin = steps.origins.of((name, *fields))
        return lambda block: any(meet(block, one) for one in origin.blocks), origin.may_be_absent

    return describe


def _may_have_failed(steps: Steps, number: int, state: State) -> tuple[bool, bool]:
    """Return whether one of the branches that decide a step may have failed, and whether it may be that none has."""
    names = decided_by(steps.reading, number)
    if steps.is_blind or not names:
        return bool(names), True
    blocks = steps.environment(names, number, state)
    return any(blocks[name] != (UNDEFINED,) for name in names), all(UNDEFINED in blocks[name] for name in names)


def _branch_started(steps: Steps, number: int, step: BranchStep, state: State) -> Iterator[Exit]:
    """Yield the exits of the start of a branch: into its body, or past it, if one that it depends on has failed."""
    may_fail, may_start = _may_have_failed(steps, number, state)
    for transition in steps.transitions(number):
        if transition.kind == "success" and may_start:
            yield Exit(transition, (), NOTHING, NOTHING, 0)
        elif transition.kind == "skipped" and may_fail:
            for change in steps.left_without(step, "Dependency"):
                yield Exit(transition, change, NOTHING, NOTHING, 0)


def _joined(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterator[Exit]:
    """Yield the exits of the stage behind branches: the step fails if one of them has failed."""
    may_fail, may_succeed = _may_have_failed(steps, number, state)
    for transition in steps.transitions(number):
        if transition.kind == "success" and may_succeed:
            choices = steps.success(step) if steps.is_blind else _succeeded(steps, number, step, state)
            yield from (Exit(transition, change, NOTHING, ALONE, 0) for change in choices)
    if may_fail:
        for name, failing in _failures(steps, number, step, errors_of_branches(step, steps.reading.tool)):
            for change in steps.left_without(step, name):
                yield Exit(failing, change, NOTHING, NOTHING, 0)


def _succeeded(steps: Steps, number: int, step: ParallelStep, state: State) -> Iterator[Changes]:
    """Yield the changes of a step with branches that succeeded: its output is made of theirs."""
    owner = next(fork.owner for fork in steps.reading.layout.forks.values() if fork.join == number)
    return steps.together([given_by_branches(steps, owner, step, state), *_without_error(steps, step)])


def forked(steps: Steps, number: int, state: State) -> Iterator[Exit]:
    """Yield the exits of a step with branches, of the start of one, or of the stage behind them."""
    step = steps.reading.steps[number]
    if isinstance(step, BranchStep):
        yield from _branch_started(steps, number, step, state)
    elif isinstance(step, Stage):
        whole = joined_at(steps.reading, number)
        assert whole is not None
        yield from _joined(steps, number, whole, state)
    else:
        yield Exit(steps.transitions(number)[0], (), ALONE, NOTHING, 1)


def _without_error(steps: Steps, step: ForEachStep | ParallelStep) -> list[Iterator[Changes]]:
    """Return the changes of a step with bodies that has succeeded, aside its output."""
    return [steps.undefined((step.id, "error")), steps.undefined((step.id, "error_name"))]


def may_be_refused(steps: Steps, number: int) -> bool:
    """Return whether the output of an `end` step may be too large for a body, or be none that a caller takes."""
    owner, end = steps.reading.layout.owner(number), steps.reading.steps[number]
    if isinstance(end, EndStep) and ends_too_large(steps, number, end):
        return True
    step = None if owner is None else steps.reading.steps[owner]
    resolution = steps.reading.lookup.resolve((step.id, "output")) if isinstance(step, InvokeStep) else None
    specs = [steps.origins.spec(source) for source in resolution.sources] if resolution is not None else []
    output = built(end.output) if isinstance(end, EndStep) else None
    if isinstance(output, Constant):
        return any(spec is not None and not fits(output.value, spec) for spec in specs)
    return any(spec is not None for spec in specs)


def started(steps: Steps, number: int, step: ForEachStep, state: State) -> Iterator[Exit]:
    """Yield the exits of the start of a for_each step: to its items, or a failure before them."""
    changes: dict[Changes, None] = {(): None}
    is_sure = _is_plain(steps, number)
    if not steps.is_blind:
        trees = steps.trees(number, state)
        names = references(trees)
        environment = steps.environment(names, number, state)
        changes, is_sure = {}, True
        for split in steps.fitting(names, environment):
            results = [values(tree, split, may_overflow=steps.origins.may_overflow(tree)) for tree in trees]
            is_sure = is_sure and not any(FAILS in result for result in results)
            if all(result != {FAILS} for result in results):
                changes.update(dict.fromkeys(steps.assigned(number, step, state, results)))
    is_sure = is_sure and not assigns_too_large(steps, number)
    for transition in steps.transitions(number):
        if transition.kind == "success" and _may_be_list(steps, number, step, state):
            yield from (Exit(transition, change, ALONE, NOTHING, 1) for change in changes)
    if not steps.is_blind and isinstance(step, InvokeStep):
        may_fail = may_fail_to_call(steps.reading, step, lambda name: steps.environment([name], number, state)[name])
        if not may_fail and not assigns_too_large(steps, number):
            return
    elif is_sure and _is_list(steps, number, step, state):
        return
    carried = [(one,) for one in step.carry]
    for name, failing in _failures(steps, number, step, errors_before_items(step)):
        for change in steps.together([steps.left_without(step, name), *map(steps.undefined, carried)]):
            yield Exit(failing, change, NOTHING, NOTHING, 1)


def _is_plain(steps: Steps, number: int) -> bool:
    """Return whether the first values of what items carry on are constants or inputs, which can't fail."""
    trees = steps.reading.plain_expressions(number)
    return trees is not None and all(
        isinstance(tree, Constant) or (isinstance(tree, Reference) and _is_given(steps, tree.names)) for tree in trees
    )


def _is_given(steps: Steps, names: Names) -> bool:
    """Return whether a reference reads an input that always has a value."""
    origins = steps.origins
    return not origins.of(names).may_be_absent and origins.is_always_there(origins.root(names))


def _may_be_list(steps: Steps, number: int, step: ForEachStep, state: State) -> bool:
    """Return whether the items may be a list: what they read has a value then, and a lone reference a list."""
    if steps.is_blind:
        return True
    names = lone_reference(step.items)
    if names is not None:
        return any(block.kind == "array" for block in steps.environment([names], number, state)[names])
    blocks = steps.environment(read_by(step), number, state).values()
    return not any(tuple(one) == (UNDEFINED,) for one in blocks)


def _is_list(steps: Steps, number: int, step: ForEachStep, state: State) -> bool:
    """Return whether the items are a list that is short enough: written down, or of a type that says it."""
    if isinstance(step.items, tuple):
        is_short = step.max_items is None or len(step.items) <= step.max_items
        return is_short and all(_is_there(steps, number, one.reference.names, state) for one in embedded(step.items))
    names = lone_reference(step.items)
    resolution = None if names is None else steps.reading.lookup.resolve(names)
    if names is None or resolution is None:
        return False
    if all(
        source.kind in ("input", "item") for source in resolution.sources
    ):  # they are there without a look at values
        origin = steps.origins.of(names)
        if not origin.may_be_absent and all(_is_short(block, step.max_items) for block in origin.blocks):
            return True
    blocks = [] if steps.is_blind else steps.environment([names], number, state)[names]
    return bool(blocks) and all(_is_short(block, step.max_items) for block in blocks)


def _is_there(steps: Steps, number: int, names: Names, state: State) -> bool:
    """Return whether a reference has a value at a step, whatever it is."""
    if _is_given(steps, names):
        return True
    return not steps.is_blind and UNDEFINED not in steps.environment([names], number, state)[names]


def _is_short(block: Block, most: int | None) -> bool:
    """Return whether all values of a block are lists of at most so many items. Without a number their type says it."""
    if block.kind != "array" or block.single or block.high is None:
        return False
    return most is None or block.high - 1 <= most


def _failures(
    steps: Steps, number: int, step: ForEachStep | ParallelStep, names: Sequence[str]
) -> Iterator[tuple[str, Transition]]:
    """Yield the errors of a for_each step that a certificate tells apart, each with the transition that it takes."""
    transitions = steps.transitions(number)
    if not steps.followed.under((step.id, "error_name")):
        names = representatives(transitions, names, lambda _: 0)
    for name in names:
        failing = leaving(transitions, name)
        if failing is not None:
            yield name, failing


def between(steps: Steps, number: int) -> Iterator[Exit]:
    """Yield the exits of a stage: an item is a fresh value, and the names of the body are undefined."""
    owner = owner_of(steps.reading, number)
    step = steps.reading.steps[owner]
    assert isinstance(step, ForEachStep)
    carried = [(name,) for name in step.carry]
    stage = steps.reading.steps[number]
    assert isinstance(stage, Stage)
    for transition in steps.transitions(number):
        choices: list[Iterable[Changes]] = [steps.undefined(root) for root in sorted(steps.reading.assigned[number])]
        succeeded = NOTHING
        if transition.kind in ("failed", "skipped"):
            continue
        if transition.kind == "item" and stage.role == "next":
            choices.append(_item(steps, step, number))
            if step.index_as is not None:
                choices.append(steps.given((step.index_as,), Source("index", step.index_as, number)))
        elif transition.kind == "success" and step.is_once:
            choices += _without_error(steps, step)
            succeeded = ALONE if isinstance(step, InvokeStep) else NOTHING
        elif transition.kind == "success":
            choices += [steps.success(step), _listed(steps, step, number, has_failed=False)]
            succeeded = ALONE
        elif transition.kind == "again":
            choices += _given_back(steps, owner, BEFORE_ALL)
        cost = int(transition.kind == "again")
        yield from (Exit(transition, change, NOTHING, succeeded, cost) for change in steps.together(choices))
    for name, failing in _failures(steps, number, step, errors_at(step, stage, steps.reading.tool)):
        changes = [steps.undefined(root) for root in (*sorted(steps.reading.assigned[number]), *carried)]
        listed = _listed(steps, step, number, has_failed=True)
        for change in steps.together([*changes, steps.left_without(step, name), listed]):
            yield Exit(failing, change, NOTHING, NOTHING, 0)


def _listed(steps: Steps, step: ForEachStep, stage: int, *, has_failed: bool) -> Iterator[Changes]:
    """Yield the changes of the errors of items behind these: there are none if each has to succeed, and has."""
    if step.is_once:
        return iter(((),))
    if not has_failed and step.on_item_error == "fail":
        return steps.valued([(step.id, "errors")], written(()))
    return steps.given((step.id, "errors"), Source("errors", step.id, owner_of(steps.reading, stage)))
