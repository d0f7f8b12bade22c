"""The moves of for_each steps and of the stages between their items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.engine.systems.deciding import conjunction
from stepward.validator.engine.systems.ends import Ends
from stepward.validator.engine.systems.joint import FAILED, SUCCEEDS
from stepward.validator.engine.systems.reading import conditions_of
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import NONE_HOLDS, AnyValue, Assign, Decision, Guard, Literal, Undefined
from stepward.validator.engine.values.domains import Names, saved
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Constant, Defined, Expression, Logic, Reference
from stepward.vm.expressions.template import embedded
from stepward.vm.language.names import Source
from stepward.vm.language.steps import BranchStep, Failing, ForEachStep, ParallelStep, SetStep
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.facts import ProgramFacts

ALL: Final = "all"
LAST: Final = "last"

MAX_WRITTEN: Final = 16
"""The most items of a list that is written down for which an item is one of them with all of its fields."""


class Moves(Protocol):
    """The moves of a program's steps, as far as for_each steps need them."""

    facts: ProgramFacts
    ends: Ends

    @property
    def doubtful(self) -> dict[tuple[int, int | None], dict[Names, bool | None]]:
        """The references of each step or sub-step that may be undefined; None for those that never exist."""

    def trees(self, number: int) -> dict[str, Expression | None]:
        """Return the expressions that a step assigns, by name; None for one that does not parse."""

    def assigned(
        self, step: SetStep | ForEachStep, trees: dict[str, Expression | None], known: dict[str, Literal]
    ) -> Iterator[Assign]:
        """Yield the assignments of a step in order."""

    def left_with(self, step: Failing, result: CallOutcome, name: str = "") -> Iterator[Assign]:
        """Yield the assignments of a step or sub-step with a given outcome; `name` is that of its error."""


def inside(moves: Moves, number: int, move: StepMove) -> StepMove:
    """Return a move inside of a body; one that ends it may assign its output, or give back carried variables.

    These get their values from before the item, if it is skipped.
    """
    move = move._replace(assigns=(*move.assigns, *moves.ends.given(number, move)))
    ending = move.transition.ending
    owner = moves.facts.bodies.reverts(number, ending.status if ending is not None else None)
    if owner is None:
        return move
    return move._replace(assigns=(*move.assigns, *_given_back(moves, owner, LAST)))


def _given_back(moves: Moves, owner: int, when: str) -> Iterator[Assign]:
    """Yield the assignments that give carried variables back the values that they had when items began."""
    cleared = moves.facts.bodies.may_lose(owner) if when == LAST else ()
    for source in _carried(moves, owner):
        root = (source.name,)
        yield Assign(root, AnyValue(source, maybe=root in cleared, same=saved(root, owner, when)))


def _remembered(moves: Moves, owner: int, when: str) -> Iterator[Assign]:
    """Yield the assignments that keep the values of carried variables when items begin."""
    for source in _carried(moves, owner):
        root = (source.name,)
        yield Assign(saved(root, owner, when), AnyValue(source, maybe=True, same=root))


def _carried(moves: Moves, owner: int) -> Iterator[Source]:
    for name in moves.facts.bodies.each(owner).carry:
        sources = moves.facts.meaning.names.variables[name]
        yield next(source for source in sources if source.step == owner)


def started(moves: Moves, number: int, step: ForEachStep, transitions: Iterable[Transition]) -> Iterator[StepMove]:
    """Yield the moves of the start of a for_each step: to its items, or a failure before them."""
    trees = moves.trees(number)
    readable = _readable(moves, number, step, [tree for tree in trees.values() if tree is not None])
    for transition in transitions:
        if transition.kind == "success":
            guards = () if readable is None else (Guard(readable, 0),)
            carried = (*moves.assigned(step, trees, {}), *_remembered(moves, number, ALL))
            yield StepMove(transition, guards, carried, (), 1)
    for name in moves.facts.failing.at(number):
        yield StepMove(moves.facts.flow.failure(number, name), (), _failed(moves, step, name), (), 1)


def _readable(moves: Moves, number: int, step: ForEachStep, trees: list[Expression]) -> Decision | None:
    """Return the decision whether a for_each step can read what it reads; None if it certainly can.

    `trees` are the first values of what items carry on. A condition among them reads only as far as it has to.
    """
    doubtful = moves.doubtful.get((number, None), {})
    others = {one.reference.names for template in step.templates for one in embedded(template.value)}
    plain = [name for name in doubtful if name in others or name not in references_of(trees)]
    if any(doubtful[name] is None for name in plain):
        return Decision((Constant(0, 0, False),))
    conditions = [Defined(0, 0, Reference(0, 0, name)) for name in plain] + conditions_of(trees, doubtful, ())
    return Decision((conjunction(conditions),)) if conditions else None


def _failed(moves: Moves, step: ForEachStep, name: str) -> tuple[Assign, ...]:
    """Return the assignments of a for_each step that fails with an error of a name before its items."""
    return (*moves.left_with(step, FAILED, name), *unset(step))


def _listed(moves: Moves, step: ForEachStep, *, has_failed: bool) -> Iterator[Assign]:
    """Yield the assignment of the errors of items behind these: there are none if each has to succeed, and has."""
    source = moves.facts.meaning.names.listed.get(step.id)
    if source is not None:
        may_have_some = has_failed or step.on_item_error == "skip"
        yield Assign((step.id, "errors"), AnyValue(source) if may_have_some else Literal(()))


def unset(step: ForEachStep) -> Iterator[Assign]:
    """Yield the assignments of what only a for_each step has, where it fails before its items."""
    yield from (Assign((one,), Undefined()) for one in step.carry)
    if not step.is_once:
        yield Assign((step.id, "errors"), Undefined())


def _some_failed(moves: Moves, number: int) -> Decision | None:
    """Return the decision whether one of the branches before a step has failed; None if there are none."""
    names = [Defined(0, 0, Reference(0, 0, (one, "error"))) for one in moves.facts.bodies.branches(number)]
    if not names:
        return None
    return Decision((names[0] if len(names) == 1 else Logic(0, 0, "or", tuple(names)),))


def _branch_started(moves: Moves, number: int, step: BranchStep) -> Iterator[StepMove]:
    """Yield the moves of the start of a branch: into its body, or past it, if one that it depends on has failed."""
    failed = _some_failed(moves, number)
    for transition in moves.facts.flow.transitions[number]:
        if transition.kind == "success":
            guards = () if failed is None else (Guard(failed, NONE_HOLDS),)
            yield StepMove(transition, guards, (), (), 0)
        elif transition.kind == "skipped":
            assert failed is not None, "only a branch that depends on another is passed"
            for name in moves.facts.failing.at(number):
                yield StepMove(transition, (Guard(failed, 0),), tuple(moves.left_with(step, FAILED, name)), (), 0)


def _branches_joined(moves: Moves, number: int, step: ParallelStep) -> Iterator[StepMove]:
    """Yield the moves of the stage behind branches: the step fails if one of them has failed."""
    failed = _some_failed(moves, number)
    assert failed is not None, "a step has a branch"
    for transition in moves.facts.flow.transitions[number]:
        if transition.kind == "success":
            for guards, value in moves.ends.together(number):
                output = (step.id, "output")
                left = moves.left_with(step, SUCCEEDS)
                assigns = tuple(one._replace(value=value) if one.root == output else one for one in left)
                yield StepMove(transition, (Guard(failed, NONE_HOLDS), *guards), assigns, (), 0)
    for name in moves.facts.failing.at(number):
        failing = moves.facts.flow.failure(number, name)
        yield StepMove(failing, (Guard(failed, 0),), tuple(moves.left_with(step, FAILED, name)), (), 0)


def forked(moves: Moves, number: int) -> Iterator[StepMove]:
    """Yield the moves of a step with branches, of the start of one, or of the stage behind them."""
    step = moves.facts.flow.steps[number]
    whole = moves.facts.bodies.joined(number)
    if whole is not None:
        yield from _branches_joined(moves, number, whole)
    elif isinstance(step, BranchStep):
        yield from _branch_started(moves, number, step)
    else:
        transitions = moves.facts.flow.transitions[number]
        yield from (StepMove(one, (), (), (), 1) for one in transitions if one.kind == "success")


def _without_error(moves: Moves, step: ForEachStep) -> Iterator[Assign]:
    """Yield the assignments of a branch or a call that has succeeded; its output was assigned where its body ended."""
    roots = ((step.id, "output"), (step.output_key,))
    yield from (one for one in moves.left_with(step, SUCCEEDS) if one.root not in roots)


def written_items(step: ForEachStep) -> list[Any]:
    """Return the items of a list that is written down and reads nothing, if they are few; none of any other list."""
    trees = [built(one) for one in step.items] if isinstance(step.items, tuple) else []
    values = [tree.value for tree in trees if isinstance(tree, Constant)]
    return values if len(values) == len(trees) <= MAX_WRITTEN else []


def between(moves: Moves, number: int, transitions: Iterable[Transition]) -> Iterator[StepMove]:
    """Yield the moves of a stage: an item is fresh, and the names of the body are undefined."""
    bodies, names = moves.facts.bodies, moves.facts.meaning.names
    owner, step = bodies.of_stages[number].owner, bodies.step_of(number)
    cleared = tuple(Assign(root, Undefined()) for root in sorted(bodies.locals(owner)))
    for transition in transitions:
        assigns: tuple[Assign, ...] = ()
        if transition.kind == "item" and bodies.of_stages[number].next == number:
            sources = {one: source for (one,) in bodies.item_names(step) for source in names.variables[one]}
            assigns = tuple(Assign((one,), AnyValue(source)) for one, source in sources.items())
            assigns += tuple(_remembered(moves, owner, LAST))
            for value in written_items(step):
                item = Assign((step.item_name,), Literal(value))
                with_item = (one if one.root != item.root else item for one in assigns)
                yield StepMove(transition, (), (*cleared, *with_item), (), 0)
            if written_items(step):
                continue
        elif transition.kind == "again":
            assigns = tuple(_given_back(moves, owner, ALL))
        elif transition.kind == "success" and step.is_once:
            assigns = tuple(_without_error(moves, step))
        elif transition.kind == "success":
            assigns = (*moves.left_with(step, SUCCEEDS), *_listed(moves, step, has_failed=False))
        elif transition.kind != "item":  # behind a failed item, others that were under way may follow
            continue
        yield StepMove(transition, (), (*cleared, *assigns), (), int(transition.kind == "again"))
    for name in moves.facts.failing.at(number):
        left = (*_failed(moves, step, name), *_listed(moves, step, has_failed=True))
        yield StepMove(moves.facts.flow.failure(number, name), (), (*cleared, *left), (), 0)
