"""Moves: all outcomes of one step, with the states in which each is possible and with its assignments.

This is the language's meaning of a step (specs/language.md, "Failure", "Parallel", "Data") as guarded assignments.
Where the abstraction can't distinguish whether something happens (such as a refused argument), both are moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.analysis.reached import reached
from stepward.validator.engine.systems.joint import FAILED, FALLS_BACK, GIVES, SUCCEEDS, UNSTARTED, Guards, joint
from stepward.validator.engine.systems.system import (
    FAILS,
    NONE_HOLDS,
    Assign,
    Computed,
    Decision,
    Given,
    Guard,
    Literal,
    Undefined,
)
from stepward.validator.engine.values.domains import Domains, Names, primed, real
from stepward.validator.engine.values.overflow import Overflow
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.operands import is_condition
from stepward.vm.expressions.operators import Comparison
from stepward.vm.expressions.syntax import Compare, Constant, Defined, Expression, Logic, Reference
from stepward.vm.expressions.template import embedded
from stepward.vm.language.names import Source
from stepward.vm.language.steps import (
    AnyStep,
    Call,
    ConditionStep,
    EndStep,
    Failing,
    LlmStep,
    ParallelStep,
    SetStep,
    ToolCall,
    ToolStep,
    parts,
)
from stepward.vm.language.transitions import END, Ending, Transition
from stepward.vm.language.types import TypeSpec
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

MAX_SPLITS: Final = 3
"""The most Boolean expressions of one `set` that are split by their value."""

_ALWAYS: Final = ((),)
_NEVER: Final[tuple[tuple[Guard, ...], ...]] = ()


class Leaving(NamedTuple):
    """One move of a step: its transition, its guards, its assignments, and its cost in `max_steps`."""

    transition: Transition
    guards: Guards
    assigns: tuple[Assign, ...]
    call_outcomes: tuple[tuple[int | None, CallOutcome], ...]
    cost: int


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
        self._known: dict[int, tuple[Leaving, ...]] = {}
        self._parts: dict[tuple[int, int | None], _Part] = {}
        self._decisions: dict[int, Decision | None] = {}
        self._roots: dict[Decision, frozenset[Names]] = {}

    def of(self, number: int) -> tuple[Leaving, ...]:
        """Return every move of a step."""
        if number not in self._known:
            self._known[number] = tuple(self._all(number, self.flow.steps[number]))
        return self._known[number]

    def starts(self, number: int, sub: int | None) -> tuple[Guards, ...]:
        """Return the choices of guards under which a step or sub-step starts when control reaches it."""
        step = self.flow.steps[number]
        order = self.facts.meaning.orders.get(number)
        subs = [sub] if order is None or sub is None else [sub, *sorted(order.before[sub])]
        choices: list[tuple[Guards, ...]] = []
        for one in subs:
            part = step if one is None else step.sub_steps[one]
            choices.append(self._part(number, one, part).starts if isinstance(part, Call) else _ALWAYS)
        return tuple(tuple(guard for guards in chosen for guard in guards) for chosen in product(*choices))

    def writers(self, root: Names) -> list[int]:
        """Return the steps that assign a variable, an output or an error."""
        names = self.facts.meaning.names
        if len(root) == 2:
            sources = [names.outputs[root[0]]] if root[0] in names.outputs else []
        else:
            sources = names.variables.get(root[0], [])
        return list(dict.fromkeys([one.step for one in sources if one.step is not None]))

    def feeds(self, root: Names) -> set[Names]:
        """Return the variables that a variable may be copied from, or computed from."""
        found: set[Names] = set()
        # Outputs and errors come from outside: nothing feeds them.
        for source in self.facts.meaning.names.variables.get(root[0], ()) if len(root) == 1 else ():
            if source.kind == "output":
                found.add((source.name, "output"))
            elif source.step is not None:
                tree = self._tree(source.step, root[0])
                found.update(self.domains.root(names) for names in references_of([tree] if tree is not None else []))
        found.discard(root)
        return found

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
        found = ((root, self.facts.meaning.names.meaning(root)) for root in sorted(roots))
        return tuple(
            (root, source) for root, meant in found if meant for source in meant.sources[:1] if source.kind == "input"
        )

    @cached_property
    def deciding(self) -> frozenset[int]:
        """The steps whose outcome depends on the state, and not only on events outside."""
        conditions = (number for number, _ in self.facts.conditions)
        return self.analyses.uncertain_starts.union(conditions)

    def _all(self, number: int, step: AnyStep) -> Iterator[Leaving]:
        transitions = self.flow.transitions[number]
        match step:
            case ConditionStep():
                yield from self._condition(number, step, transitions)
            case SetStep():
                yield from self._set(number, step, transitions)
            case EndStep():
                yield from self._end(number, transitions)
            case ParallelStep():
                yield from self._parallel(number, step, transitions)
            case LlmStep() | ToolStep():
                yield from self._call(number, step, transitions)
            case _:
                assert_never(step)
        for one in transitions:
            if one.kind == "visits":
                yield Leaving(one, (), tuple(self._unset(step)), tuple((sub, UNSTARTED) for sub, _ in parts(step)), 0)

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

    def _condition(self, number: int, step: ConditionStep, transitions: Iterable[Transition]) -> Iterator[Leaving]:
        decision = self.decision(number)
        for transition in transitions:
            if transition.kind == "visits":
                continue
            for outcome in outcomes(step, transition):
                guards = (Guard(decision, outcome),) if decision is not None else ()
                yield Leaving(transition, guards, (), (), 1)

    # -- assignments -----------------------------------------------------------------------------------------------

    def _set(self, number: int, step: SetStep, transitions: Iterable[Transition]) -> Iterator[Leaving]:
        trees = {name: self._tree(number, name) for name, value in step.set.items() if isinstance(value, str)}
        split = [name for name, tree in trees.items() if tree is not None and is_condition(tree)][:MAX_SPLITS]
        decided = {name: Decision((tree,)) for name in split if (tree := trees[name]) is not None}
        other = [tree for name, tree in trees.items() if name not in decided and tree is not None]
        readable = self._readable(number, other)
        may_fail = number in self.analyses.misread or any(
            tree is None or self.overflow.may_happen(tree) for tree in trees.values()
        )
        for transition in transitions:
            if transition.kind == "failed":
                yield from (
                    Leaving(transition, guards, (), (), 1)
                    for guards in self._set_fails(decided, readable, always=may_fail)
                )
            elif transition.kind == "success":
                for values in product((0, NONE_HOLDS), repeat=len(decided)):
                    guards = tuple(Guard(one, value) for one, value in zip(decided.values(), values, strict=True))
                    known = {name: Literal(value == 0) for name, value in zip(decided, values, strict=True)}
                    if readable is not None:
                        guards += (Guard(readable, 0),)
                    yield Leaving(transition, guards, tuple(self._assigned(step, trees, known)), (), 1)

    @staticmethod
    def _set_fails(decided: dict[str, Decision], readable: Decision | None, *, always: bool) -> Iterator[Guards]:
        if always:
            yield ()
            return
        for decision in decided.values():
            yield (Guard(decision, FAILS),)
        if readable is not None:
            yield (Guard(readable, NONE_HOLDS),)

    def _tree(self, number: int, name: str) -> Expression | None:
        clauses = self.facts.meaning.clauses_of.get(number, ())
        return next((clause.tree for clause in clauses if clause.path == ("steps", number, "set", name)), None)

    def _readable(self, number: int, trees: list[Expression]) -> Decision | None:
        """Return the decision whether the reads of expressions succeed (defined, and not null where needed); None if
        certain."""
        doubtful = self._doubtful.get((number, None), {})
        names = references_of(trees)
        wanted: list[Expression] = [Defined(0, 0, Reference(0, 0, name)) for name in names if name in doubtful]
        not_null = self.analyses.narrowed.get(number, ())
        wanted += [
            Compare(0, 0, "!=", Reference(0, 0, name), Constant(0, 0, None)) for name in names if name in not_null
        ]
        return Decision((_and(wanted),)) if wanted else None

    def _assigned(
        self, step: SetStep, trees: dict[str, Expression | None], known: dict[str, Literal]
    ) -> Iterator[Assign]:
        """Yield the assignments of a `set` in order; a name that is still read gets its new value under a primed name
        first."""
        values: dict[str, Any] = {}
        for name, value in step.set.items():
            tree = trees.get(name)
            if name in known:
                values[name] = known[name]
            elif not isinstance(value, str):
                values[name] = Literal(value)
            elif tree is None:
                values[name] = Given(self.facts.meaning.names.variables[name][0])
            else:
                values[name] = Literal(tree.value) if isinstance(tree, Constant) else Computed(tree)
        read = {
            self.domains.root(names)
            for value in values.values()
            if isinstance(value, Computed)
            for names in references_of([value.tree])
        }
        waiting = [name for name in values if (name,) in read and len(values) > 1]
        for name, value in values.items():
            yield Assign(primed((name,)) if name in waiting else (name,), value)
        for name in waiting:
            yield Assign((name,), Computed(Reference(0, 0, primed((name,)))))
            yield Assign(primed((name,)), Undefined())

    # -- calls -----------------------------------------------------------------------------------------------------

    def _part(self, number: int, sub: int | None, call: Call) -> _Part:
        key = (number, sub)
        if key not in self._parts:
            starts, refused = self._start(number, sub, call)
            self._parts[key] = _Part(sub, call, starts, refused, self.facts.falls_back(call))
        return self._parts[key]

    def _start(self, number: int, sub: int | None, call: Call) -> tuple[tuple[Guards, ...], tuple[Guards, ...]]:
        doubtful = self._doubtful.get((number, sub), {})
        if None in doubtful.values():
            return _NEVER, _ALWAYS
        earlier = self.analyses.assignment.earlier(number, sub)
        assigned = earlier.given | earlier.gone
        wanted: list[Expression] = [
            Defined(0, 0, Reference(0, 0, name)) for name in doubtful if self.domains.root(name) not in assigned
        ]
        # What siblings assign before is not in the state at the start of the step: it may be anything of its type.
        is_sure = len(wanted) == len(doubtful)
        if isinstance(call, ToolCall):
            is_sure = self.analyses.names_fit(call)
            for name, spec in (self.facts.meaning.tool(call.tool).args or {}).items():
                if name not in call.args or self.facts.fits(call.args[name], spec):
                    continue
                asked = self._type_question(call.args[name], spec, assigned)
                is_sure &= asked is not None
                wanted.extend(asked or ())
        if not wanted:
            return _ALWAYS, _NEVER if is_sure else _ALWAYS
        start, *refused = ((Guard(Decision((_and(wanted),)), outcome),) for outcome in (0, NONE_HOLDS, FAILS))
        return (start,), (tuple(refused) if is_sure else _ALWAYS)

    def _type_question(self, value: Any, spec: TypeSpec, assigned: frozenset[Names]) -> list[Expression] | None:
        """Return the conditions under which an argument is of its type; None where conditions can't express it."""
        found = list(embedded(value))
        if not found or not found[0].whole or found[0].path:
            return None
        reference = found[0].reference
        if self.domains.root(reference.names) in assigned:
            return None
        domain = self.domains.of(reference.names)
        plain = Reference(0, 0, reference.names)
        if spec.enum is not None:
            fits = {type(member) for member in spec.enum} <= {str} and domain.kinds == {"string"}
            return [Compare(0, 0, "in", plain, Constant(0, 0, tuple(spec.enum)))] if fits else None
        is_refused = "null" in domain.kinds and "null" not in spec.kinds
        there: list[Expression] = [Compare(0, 0, "!=", plain, Constant(0, 0, None))] if is_refused else []
        kinds = domain.kinds - {"null"} if is_refused else domain.kinds
        if kinds <= spec.kinds and kinds <= {"boolean", "null"}:
            return there
        is_free = spec.pattern is None and spec.max_length is None and not spec.min_length
        if kinds == spec.kinds == {"string"} and is_free:
            return there
        wants_number = spec.kinds and spec.kinds <= {"number", "integer"}
        is_whole = all(one.integral or (one.low == one.high and isinstance(one.low, int)) for one in domain.ranges)
        if kinds != {"number"} or not wants_number or ("number" not in spec.kinds and not is_whole):
            return None
        bounds: list[tuple[Comparison, Any]] = [
            (">=", spec.minimum),
            ("<=", spec.maximum),
            (">", spec.exclusive_minimum),
            ("<", spec.exclusive_maximum),
        ]
        within = [Compare(0, 0, word, plain, Constant(0, 0, end)) for word, end in bounds if end is not None]
        return [*there, *within]

    @cached_property
    def _doubtful(self) -> dict[tuple[int, int | None], dict[Names, bool | None]]:
        """The references of each step or sub-step that may be undefined; None for those that never exist."""
        result: dict[tuple[int, int | None], dict[Names, bool | None]] = {}
        for reading, _ in self.analyses.assignment.doubtful:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = True
        for reading in self.analyses.assignment.never_defined:
            result.setdefault((reading.step, reading.sub), {})[reading.reference.names] = None
        return result

    def _call(self, number: int, step: Call, transitions: Iterable[Transition]) -> Iterator[Leaving]:
        part = self._part(number, None, step)
        for transition in transitions:
            if transition.kind in ("success", "fallback"):
                if transition.kind == "fallback" and not part.falls_back:
                    continue
                result = SUCCEEDS if transition.kind == "success" else FALLS_BACK
                yield from (self.left(step, transition, guards, result) for guards in part.starts)
            elif transition.kind in ("failed", "skipped"):
                yield from (self.left(step, transition, guards, FAILED) for guards in part.starts)
                yield from (self.left(step, transition, guards, UNSTARTED) for guards in part.refused)

    def left(self, step: Call, transition: Transition, guards: Guards, result: CallOutcome) -> Leaving:
        """Return the move of a call with a given outcome."""
        retries = step.max_retries - 1 if result == FAILED and step.on_error == "retry" else 0
        return Leaving(transition, guards, tuple(self._left_with(step, result)), ((None, result),), 1 + retries)

    def _left_with(self, step: Failing, result: CallOutcome) -> Iterator[Assign]:
        """Yield the assignments of a step or sub-step with a given outcome."""
        yield from self._outputs(step, result)
        yield from self._error(step, has_one=result in (FAILED, UNSTARTED))

    def _outputs(self, call: Failing, result: CallOutcome) -> Iterator[Assign]:
        root = (call.id, "output")
        if result == SUCCEEDS:
            yield Assign(root, Given(self.facts.meaning.names.outputs[call.id]))
        elif result == FALLS_BACK:
            assert isinstance(call, Call)
            yield Assign(root, Literal(call.fallback))
        else:
            yield Assign(root, Undefined())
        if call.output_key is not None:
            yield Assign((call.output_key,), Computed(Reference(0, 0, root)) if result in GIVES else Undefined())

    def _error(self, step: Failing, *, has_one: bool) -> Iterator[Assign]:
        source = self.facts.meaning.names.outputs[step.id]._replace(kind="error")
        yield Assign((step.id, "error"), Given(source) if has_one else Undefined())

    def _unset(self, step: AnyStep) -> Iterator[Assign]:
        """Yield the assignments of a step that is not started again."""
        if isinstance(step, Failing):
            for part in (*step.sub_steps, step):
                yield from self._left_with(part, FAILED)

    # -- parallel steps --------------------------------------------------------------------------------------------

    def _parallel(self, number: int, step: ParallelStep, transitions: Iterable[Transition]) -> Iterator[Leaving]:
        parts = [self._part(number, sub, part) for sub, part in enumerate(step.parallel_steps)]
        choices = [list(self._results(part)) for part in parts]
        combinations = joint(choices, self.facts.meaning.orders.get(number))
        for transition in transitions:
            if transition.kind not in ("success", "failed", "skipped"):
                continue
            if combinations is None:
                yield self._blurred(step, transition)
                continue
            for chosen in combinations:
                fails = any(
                    result in (FAILED, UNSTARTED) and part.call.on_error != "skip"
                    for part, (result, _) in zip(parts, chosen, strict=True)
                )
                if fails is (transition.kind != "success"):
                    yield self._joined(
                        step,
                        transition,
                        [(part, result) for part, (result, _) in zip(parts, chosen, strict=True)],
                        tuple(guard for _, guards in chosen for guard in guards),
                    )

    @staticmethod
    def _results(part: _Part) -> Iterator[tuple[CallOutcome, Guards]]:
        for guards in part.starts:
            yield SUCCEEDS, guards
            if part.falls_back:
                yield FALLS_BACK, guards
            yield FAILED, guards
        yield from ((UNSTARTED, guards) for guards in part.refused)

    def _joined(
        self, step: ParallelStep, transition: Transition, results: list[tuple[_Part, CallOutcome]], guards: Guards
    ) -> Leaving:
        assigns: list[Assign] = []
        for part, result in results:
            assigns.extend(self._left_with(part.call, result))
        whole = SUCCEEDS if transition.kind == "success" else FAILED
        assigns.extend(self._left_with(step, whole))
        failed = [part.call for part, result in results if result == FAILED and part.call.on_error != "skip"]
        retries = sum(call.max_retries - 1 for call in failed if call.on_error == "retry")
        if whole == FAILED and step.on_error == "retry":
            # Each round costs one, and repeats the calls that failed, with their own retries, but not those skipped.
            retries += (step.max_retries - 1) * (1 + len(failed) + retries)
        outcomes_by_part = ((None, whole), *((part.sub, result) for part, result in results))
        return Leaving(transition, guards, tuple(assigns), outcomes_by_part, 1 + len(results) + retries)

    def _blurred(self, step: ParallelStep, transition: Transition) -> Leaving:
        """Return one move for all outcomes of many sub-steps: each output may be defined or not."""
        assigns: list[Assign] = []
        outputs = self.facts.meaning.names.outputs
        for part in step.parallel_steps:
            source = outputs[part.id]
            roots = [(part.id, "output"), *([(part.output_key,)] if part.output_key is not None else [])]
            assigns.extend(Assign(root, Given(source, maybe=True)) for root in roots)
            assigns.append(Assign((part.id, "error"), Given(source._replace(kind="error"), maybe=True)))
        assigns.extend(self._left_with(step, SUCCEEDS if transition.kind == "success" else FAILED))
        return Leaving(transition, (), tuple(assigns), (), 1 + len(step.parallel_steps))

    def _end(self, number: int, transitions: Iterable[Transition]) -> Iterator[Leaving]:
        doubtful = self._doubtful.get((number, None), {})
        wanted = _all_defined(list(doubtful)) if None not in doubtful.values() else Decision((Constant(0, 0, False),))
        for transition in transitions:
            yield Leaving(transition, () if wanted is None else (Guard(wanted, 0),), (), (), 1)
        if wanted is not None:
            yield Leaving(_END_FAILS, (Guard(wanted, NONE_HOLDS),), (), (), 1)


_END_FAILS: Final = Transition("failed", END, Ending("FAILED", "error"))


def outcomes(step: ConditionStep, transition: Transition) -> tuple[int, ...]:
    """Return the outcomes of a condition step's decision that lead to a transition."""
    if transition.kind == "failed":
        return (FAILS,)
    if transition.kind == "uncovered":
        lacks_then = step.condition is not None and step.then is None
        return (*((0,) if lacks_then else ()), *((NONE_HOLDS,) if step.otherwise is None else ()))
    if transition.branch == "then":
        return (0,)
    return (transition.branch - 1,) if isinstance(transition.branch, int) else (NONE_HOLDS,)


def _all_defined(names: list[Names]) -> Decision | None:
    return Decision((_and([Defined(0, 0, Reference(0, 0, name)) for name in names]),)) if names else None


def _and(trees: list[Expression]) -> Expression:
    return trees[0] if len(trees) == 1 else Logic(0, 0, "and", tuple(trees))
