"""Moves: all outcomes of one step, with the states in which each is possible and with its assignments.

This is the language's meaning of a step (specs/language.md, "Failure", "Parallel", "Data") as guarded assignments.
Where the abstraction can't distinguish whether something happens (such as a refused argument), both are moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.analysis.reachability import reached
from stepward.validator.engine.systems.between import between, forked, inside, started, unset
from stepward.validator.engine.systems.deciding import all_defined, conjunction, outcomes
from stepward.validator.engine.systems.ends import Ends
from stepward.validator.engine.systems.joint import (
    FAILED,
    FALLS_BACK,
    GIVES,
    SUCCEEDS,
    UNSTARTED,
    CallResult,
    Guards,
    fails,
    first_failure,
    joint,
)
from stepward.validator.engine.systems.reading import conditions_of, unread
from stepward.validator.engine.systems.starts import Starts
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import (
    FAILS,
    NONE_HOLDS,
    AnyValue,
    Assign,
    Computed,
    Decision,
    Guard,
    Literal,
    Undefined,
    Value,
)
from stepward.validator.engine.systems.waiting import waited
from stepward.validator.engine.values.domains import Domains, Names, primed, real
from stepward.validator.engine.values.overflow import Overflow
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.operands import is_condition
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference
from stepward.vm.language.names import Source
from stepward.vm.language.steps import (
    AnyStep,
    Call,
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
    parts,
)
from stepward.vm.language.steps.catching import VISITS
from stepward.vm.language.transitions import END, Ending, Transition
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

MAX_SPLITS: Final = 3
"""The most Boolean expressions of one `set` that are split by their value."""

_ALWAYS: Final = ((),)


class _Part(NamedTuple):
    """A call with the alternatives of guards under which it starts, and under which it is refused."""

    sub: int | None
    call: Call
    starts: tuple[Guards, ...]
    refused: tuple[Guards, ...]
    falls_back: bool


class Moves:
    """The moves of a program's steps, each made on first use."""

    def __init__(self, analyses: Analyses, domains: Domains) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.flow = analyses.facts.flow
        self.domains = domains
        self.overflow = Overflow(analyses, domains)
        self.starting = Starts(analyses, domains)
        self.ends = Ends(analyses.facts, domains, self.starting)
        self._known: dict[int, tuple[StepMove, ...]] = {}
        self._onward: dict[int, tuple[StepMove, ...]] = {}
        self._parts: dict[tuple[int, int | None], _Part] = {}
        self._decisions: dict[int, Decision | None] = {}
        self._roots: dict[Decision, frozenset[Names]] = {}

    def of(self, number: int) -> tuple[StepMove, ...]:
        """Return every move of a step."""
        if number not in self._known:
            self._known[number] = tuple(self._made(number, self.flow.transitions[number]))
        return self._known[number]

    def onward(self, number: int) -> tuple[StepMove, ...]:
        """Return the moves of a step after which the run goes on. Most failures end it, and are not made for that."""
        if number not in self._onward:
            onward = [one for one in self.flow.transitions[number] if one.to >= 0]
            self._onward[number] = tuple(one for one in self._made(number, onward) if one.transition.to >= 0)
        return self._onward[number]

    def _made(self, number: int, transitions: Collection[Transition]) -> Iterator[StepMove]:
        moves = self._all(number, self.flow.steps[number], transitions)
        if number in self.facts.in_branches:  # a sibling on the path need not have been performed
            moves = (one._replace(cost=0) for one in moves)
        return moves if self.flow.layout.owner(number) is None else (inside(self, number, one) for one in moves)

    def starts(self, number: int, sub: int | None) -> tuple[Guards, ...]:
        """Return the choices of guards under which a step or sub-step starts when control reaches it."""
        step = self.flow.steps[number]
        order = self.facts.meaning.orders.get(number)
        subs = [sub] if order is None or sub is None else [sub, *sorted(order.before[sub])]
        choices: list[tuple[Guards, ...]] = []
        for part_index in subs:
            part = step if part_index is None else step.sub_steps[part_index]
            choices.append(self._part(number, part_index, part).starts if isinstance(part, Call) else _ALWAYS)
        return tuple(tuple(guard for guards in chosen for guard in guards) for chosen in product(*choices))

    def writers(self, root: Names) -> list[int]:
        """Return the steps that assign a variable, an output or an error."""
        names = self.facts.meaning.names
        if len(root) == 2:
            sources = [names.outputs[root[0]]] if root[0] in names.outputs else []
        else:
            sources = names.variables.get(root[0], [])
        steps = dict.fromkeys(one.step for one in sources if one.step is not None)
        return list(dict.fromkeys(also for step in steps for also in (step, *self._writers_around(step))))

    def _writers_around(self, step: int) -> Iterator[int]:
        """Yield the stages at which the variables of a step change again, and the steps that end an item with a
        failure."""
        layout = self.flow.layout
        if step in layout.forks:
            yield layout.forks[step].join
        for owner in (*layout.owners_of(step), *([step] if step in layout.bodies else [])):
            body = layout.bodies[owner]
            yield body.next
            if body.failed is not None:
                yield body.failed
            if owner == step:
                yield from self.ends.of(owner)
            if body.failed is None and self.facts.bodies.each(owner).carry:
                yield from (
                    number
                    for number in layout.inside(owner)
                    if any(one.ending is not None and one.to == body.next for one in self.flow.transitions[number])
                )

    def feeds(self, root: Names) -> set[Names]:
        """Return the variables that a variable may be copied from, or computed from."""
        # Other outputs and errors come from outside: nothing feeds them.
        roots = self.ends.feeds(root[0]) if root[1:] == ("output",) else set()
        for source in self.facts.meaning.names.variables.get(root[0], ()) if len(root) == 1 else ():
            if source.kind == "output":
                roots.add((source.name, "output"))
            elif source.kind in ("item", "index"):
                continue
            elif source.step is not None:
                tree = self.trees(source.step).get(root[0])
                roots.update(self.domains.root(names) for names in references_of([tree] if tree is not None else []))
        roots.discard(root)
        return roots

    def closed(self, roots: Iterable[Names]) -> frozenset[Names]:
        """Return variables with all variables that their values may come from."""
        return frozenset(reached(roots, self.feeds))

    def roots_of(self, decision: Decision) -> frozenset[Names]:
        """Return the variables that a decision reads."""
        known = self._roots.get(decision)
        if known is None:
            known = frozenset(real(self.domains.root(names)) for names in references_of(decision.trees))
            self._roots[decision] = known
        return known

    def inputs(self, roots: Iterable[Names]) -> tuple[tuple[Names, Source], ...]:
        """Return the inputs among some variables, each with its source."""
        pairs = ((root, self.facts.meaning.names.meaning(root)) for root in sorted(roots))
        return tuple(
            (root, source) for root, known in pairs if known for source in known.sources[:1] if source.kind == "input"
        )

    @cached_property
    def deciding(self) -> frozenset[int]:
        """The steps whose outcome depends on the state, and not only on events outside."""
        conditions = (number for number, _ in self.facts.conditions)
        layout = self.flow.layout
        joins = [number for fork in layout.forks.values() for number in (*fork.branches, fork.join)]
        return self.analyses.uncertain_starts.union(conditions, joins)

    def _all(self, number: int, step: AnyStep, transitions: Collection[Transition]) -> Iterator[StepMove]:
        match step:
            case _ if number in self.flow.layout.forked:
                yield from forked(self, number)
            case ConditionStep():
                yield from self._condition(number, step, transitions)
            case SetStep():
                yield from self._set(number, step, transitions)
            case WaitStep():
                yield from waited(step, self.doubtful.get((number, None), {}), transitions)
            case EndStep():
                yield from self._end(number, transitions)
            case ParallelStep():
                yield from self._parallel(number, step, transitions)
            case LlmStep() | ToolStep() | ComputeStep():
                yield from self._call(number, step, transitions)
            case ForEachStep():
                yield from started(self, number, step, transitions)
            case Stage():
                yield from between(self, number, transitions)
            case _:
                assert_never(step)
        for exit_ in transitions:
            if exit_.kind == "visits":
                yield StepMove(exit_, (), tuple(self.unset(step)), tuple((sub, UNSTARTED) for sub, _ in parts(step)), 0)

    def decision(self, number: int) -> Decision | None:
        """Return the decision of a condition step; None where an expression does not parse."""
        if number not in self._decisions:
            trees = [clause.tree for clause in self.facts.meaning.clauses_of.get(number, ())]
            known = tuple(tree for tree in trees if tree is not None)
            self._decisions[number] = Decision(known) if known and len(known) == len(trees) else None
        return self._decisions[number]

    def evaluated(self, number: int, path: Path) -> Decision | None:
        """Return the decision that evaluates an expression: all of a condition, or one value of a `set`."""
        if isinstance(self.flow.steps[number], ConditionStep):
            return self.decision(number)
        clauses = self.facts.meaning.clauses_of.get(number, ())
        tree = next((clause.tree for clause in clauses if clause.path == path), None)
        return Decision((tree,)) if tree is not None and is_condition(tree) else None

    def _condition(self, number: int, step: ConditionStep, transitions: Iterable[Transition]) -> Iterator[StepMove]:
        decision = self.decision(number)
        for transition in transitions:
            if transition.kind == "visits":
                continue
            for outcome in outcomes(step, transition):
                guards = (Guard(decision, outcome),) if decision is not None else ()
                yield StepMove(transition, guards, (), (), 1)

    # -- assignments -----------------------------------------------------------------------------------------------

    def _set(self, number: int, step: SetStep, transitions: Iterable[Transition]) -> Iterator[StepMove]:
        trees = self.trees(number)
        split = [name for name, tree in trees.items() if tree is not None and is_condition(tree)][:MAX_SPLITS]
        decided = {name: Decision((tree,)) for name in split if (tree := trees[name]) is not None}
        undecided = [tree for name, tree in trees.items() if name not in decided and tree is not None]
        readable = self._readable(number, undecided)
        is_unsure = number in self.analyses.misread or number in self.facts.large_values.steps
        may_fail = is_unsure or any(tree is None or self.overflow.may_happen(tree) for tree in trees.values())
        for transition in transitions:
            if transition.kind == "failed":
                yield from (
                    StepMove(transition, guards, (), (), 1)
                    for guards in self._set_fails(decided, readable, always=may_fail)
                )
            elif transition.kind == "success":
                for values in product((0, NONE_HOLDS), repeat=len(decided)):
                    guards = tuple(Guard(one, value) for one, value in zip(decided.values(), values, strict=True))
                    known = {name: Literal(value == 0) for name, value in zip(decided, values, strict=True)}
                    if readable is not None:
                        guards += (Guard(readable, 0),)
                    yield StepMove(transition, guards, tuple(self.assigned(step, trees, known)), (), 1)

    @staticmethod
    def _set_fails(decided: dict[str, Decision], readable: Decision | None, *, always: bool) -> Iterator[Guards]:
        if always:
            yield ()
            return
        for decision in decided.values():
            yield (Guard(decision, FAILS),)
        if readable is not None:
            yield from ((guard,) for guard in unread(readable))

    def trees(self, number: int) -> dict[str, Expression | None]:
        """Return the expressions that a step assigns, by name; None for one that does not parse."""
        return {one.name: one.tree for one in self.facts.meaning.clauses_of.get(number, ()) if one.name}

    def _readable(self, number: int, trees: list[Expression]) -> Decision | None:
        """Return the decision whether the reads of expressions succeed (defined, and not null where needed); None if
        certain."""
        conditions = conditions_of(trees, self.doubtful.get((number, None), {}), self.analyses.narrowed.get(number, ()))
        return Decision((conjunction(conditions),)) if conditions else None

    def assigned(
        self, step: SetStep | ForEachStep, trees: dict[str, Expression | None], known: dict[str, Literal]
    ) -> Iterator[Assign]:
        """Yield the assignments of a `set` in order; a name that is still read gets its new value under a primed name
        first."""
        values: dict[str, Any] = {}
        for name, value in step.assigns.items():
            tree = trees.get(name)
            if name in known:
                values[name] = known[name]
            elif name not in trees:
                values[name] = Literal(value)
            elif tree is None:
                values[name] = AnyValue(self.facts.meaning.names.variables[name][0])
            else:
                values[name] = Literal(tree.value) if isinstance(tree, Constant) else Computed(tree)
        read = {
            self.domains.root(names)
            for value in values.values()
            if isinstance(value, Computed)
            for names in references_of([value.tree])
        }
        waiting = [name for name in values if (name,) in read and (len(values) > 1 or _is_built(values[name]))]
        for name, value in values.items():
            yield Assign(primed((name,)) if name in waiting else (name,), value)
        for name in waiting:
            yield Assign((name,), Computed(Reference(0, 0, primed((name,)))))
            yield Assign(primed((name,)), Undefined())

    # -- calls -----------------------------------------------------------------------------------------------------

    def _part(self, number: int, sub: int | None, call: Call) -> _Part:
        key = (number, sub)
        if key not in self._parts:
            starts, refused = self.starting.of(number, sub, call)
            self._parts[key] = _Part(sub, call, starts, refused, self.facts.falls_back(call))
        return self._parts[key]

    @property
    def doubtful(self) -> dict[tuple[int, int | None], dict[Names, bool | None]]:
        """The references of each step or sub-step that may be undefined; None for those that never exist."""
        return self.starting.doubtful

    def _call(self, number: int, step: Call, transitions: Collection[Transition]) -> Iterator[StepMove]:
        part = self._part(number, None, step)
        for transition in transitions:
            if transition.kind in ("success", "fallback"):
                if transition.kind == "fallback" and not part.falls_back:
                    continue
                result = SUCCEEDS if transition.kind == "success" else FALLS_BACK
                yield from (self.left(step, transition, guards, result) for guards in part.starts)
        if any(one.kind in ("failed", "skipped") for one in transitions):
            for failed, guards in self._failures(number, part):
                transition_taken = self.flow.failure(number, failed.name)
                if transition_taken in transitions:
                    yield self.left(step, transition_taken, guards, failed.result, failed.name)

    def _failures(self, number: int, part: _Part) -> Iterator[tuple[CallResult, Guards]]:
        """Yield how a call can fail: one of each group of errors that the program does not tell apart."""
        failing = self.facts.failing
        for name in failing.groups(number, part.call, failing.started(part.call)):
            yield from ((CallResult(FAILED, name), guards) for guards in part.starts)
        for name in failing.groups(number, part.call, failing.unstarted(part.call)):
            yield from ((CallResult(UNSTARTED, name), guards) for guards in part.refused)

    def left(self, step: Call, transition: Transition, guards: Guards, result: CallOutcome, name: str = "") -> StepMove:
        """Return the move of a call with a given outcome; `name` is that of its error."""
        retries = self._retries(step, result, name)
        errors = ((None, name),) if name and self.facts.failing.has_names else ()
        assigns = tuple(self.left_with(step, result, name))
        return StepMove(transition, guards, assigns, ((None, result),), 1 + retries, errors)

    def _retries(self, call: Call, result: CallOutcome, name: str) -> int:
        """Return the least attempts after the first of a call that fails."""
        return self.facts.failing.tries(call, name) - 1 if result == FAILED else 0

    def left_with(self, step: Failing, result: CallOutcome, name: str = "") -> Iterator[Assign]:
        """Yield the assignments of a step or sub-step with a given outcome; `name` is that of its error."""
        yield from self._outputs(step, result)
        yield from self._error(step, has_one=result in (FAILED, UNSTARTED))
        if step.id in self.facts.failing.read:
            yield Assign((step.id, "error_name"), Literal(name) if name else Undefined())

    def _outputs(self, call: Failing, result: CallOutcome) -> Iterator[Assign]:
        root = (call.id, "output")
        if result == SUCCEEDS:
            yield Assign(root, AnyValue(self.facts.meaning.names.outputs[call.id]))
        elif result == FALLS_BACK:
            assert isinstance(call, Call)
            yield Assign(root, Literal(call.fallback))
        else:
            yield Assign(root, Undefined())
        if call.output_key is not None:
            yield Assign((call.output_key,), Computed(Reference(0, 0, root)) if result in GIVES else Undefined())

    def _error(self, step: Failing, *, has_one: bool) -> Iterator[Assign]:
        outputs = self.facts.meaning.names.outputs
        yield Assign((step.id, "error"), AnyValue(outputs[step.id]._replace(kind="error")) if has_one else Undefined())

    def unset(self, step: AnyStep) -> Iterator[Assign]:
        """Yield the assignments of a step that is not started again."""
        if isinstance(step, Failing):
            for part in (*step.sub_steps, step):
                yield from self.left_with(part, FAILED, VISITS)
        if isinstance(step, ForEachStep):
            yield from unset(step)

    # -- parallel steps --------------------------------------------------------------------------------------------

    def _parallel(self, number: int, step: ParallelStep, transitions: Iterable[Transition]) -> Iterator[StepMove]:
        parts = [self._part(number, sub, part) for sub, part in enumerate(step.parallel_steps)]
        choices = [list(self._results(number, part)) for part in parts]
        combinations = joint(choices, self.facts.meaning.orders.get(number))
        for transition in transitions:
            if transition.kind not in ("success", "failed", "skipped"):
                continue
            if combinations is None:
                yield self._blurred(step, transition)
                continue
            for chosen in combinations:
                results = [(part, failed) for part, (failed, _) in zip(parts, chosen, strict=True)]
                first = first_failure((part.call, failed) for part, failed in results)
                transition_taken = self.flow.failure(number, first) if first is not None else None
                if transition == transition_taken or (transition_taken is None and transition.kind == "success"):
                    guards = tuple(guard for _, guards in chosen for guard in guards)
                    yield self._joined(step, transition, results, guards, first or "")

    def _results(self, number: int, part: _Part) -> Iterator[tuple[CallResult, Guards]]:
        for guards in part.starts:
            yield CallResult(SUCCEEDS, ""), guards
            if part.falls_back:
                yield CallResult(FALLS_BACK, ""), guards
        yield from self._failures(number, part)

    def _joined(
        self,
        step: ParallelStep,
        transition: Transition,
        results: list[tuple[_Part, CallResult]],
        guards: Guards,
        name: str,
    ) -> StepMove:
        """Return the move of a parallel step with the results of its calls; `name` is that of its error."""
        assigns: list[Assign] = []
        for part, (result, error) in results:
            assigns.extend(self.left_with(part.call, result, error))
        whole = SUCCEEDS if transition.kind == "success" else FAILED
        assigns.extend(self.left_with(step, whole, name))
        retries = sum(self._retries(part.call, result, error) for part, (result, error) in results)
        if whole == FAILED and step.on_error == "retry":
            # Each round costs one, and repeats the calls that failed, with their own retries, but not those skipped.
            # In the rounds before, they may have failed with other errors.
            failed = [part.call for part, one in results if one.result == FAILED and fails(part.call, one)]
            each = sum(map(self.facts.failing.least_tries, failed))
            retries += (step.max_retries - 1) * (1 + each)
        outcomes_by_part = ((None, whole), *((part.sub, one.result) for part, one in results))
        errors = ((None, name), *((part.sub, one.name) for part, one in results)) if name else ()
        cost = 1 + len(results) + retries
        return StepMove(transition, guards, tuple(assigns), outcomes_by_part, cost, errors)

    def _blurred(self, step: ParallelStep, transition: Transition) -> StepMove:
        """Return one move for all outcomes of many sub-steps: each output may be defined or not."""
        assigns: list[Assign] = []
        outputs = self.facts.meaning.names.outputs
        for part in step.parallel_steps:
            source = outputs[part.id]
            roots = [(part.id, "output"), *([(part.output_key,)] if part.output_key is not None else [])]
            assigns.extend(Assign(root, AnyValue(source, maybe=True)) for root in roots)
            for kind in ("error", "error_name") if part.id in self.facts.failing.read else ("error",):
                assigns.append(Assign((part.id, kind), AnyValue(source._replace(kind=kind), maybe=True)))
        assigns.extend(self.left_with(step, SUCCEEDS if transition.kind == "success" else FAILED))
        if transition.kind != "success" and step.id in self.facts.failing.read:
            assigns[-1] = Assign((step.id, "error_name"), AnyValue(outputs[step.id]._replace(kind="error_name")))
        return StepMove(transition, (), tuple(assigns), (), 1 + len(step.parallel_steps))

    def _end(self, number: int, transitions: Iterable[Transition]) -> Iterator[StepMove]:
        doubtful = self.doubtful.get((number, None), {})
        readable = all_defined(list(doubtful)) if None not in doubtful.values() else Decision((Constant(0, 0, False),))
        fails = next((one for one in transitions if one.kind == "failed"), _END_FAILS)
        checks = self.ends.type_conditions(number)
        guards = tuple(Guard(one, 0) for one in (readable, Decision((conjunction(checks),)) if checks else None) if one)
        for transition in transitions:
            if transition.kind != "failed" and not self.ends.is_refused(number):
                yield StepMove(transition, guards, (), (), 1)
        if self.facts.bodies.may_be_refused(number) or number in self.facts.large_values.steps:
            yield StepMove(fails, (), (), (), 1)  # the output may not be what the caller takes
        elif readable is not None:
            yield StepMove(fails, (Guard(readable, NONE_HOLDS),), (), (), 1)


def _is_built(value: Value) -> bool:
    return isinstance(value, Computed) and isinstance(value.tree, Built)


_END_FAILS: Final = Transition("failed", END, Ending("FAILED", "error"))
