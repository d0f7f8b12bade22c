"""Every exit of a step, with its effect on the references that a certificate follows.

Written from the language's page (specs/language.md, "Steps", "Failure", "Parallel"). A state gives each followed
reference one block; where the state is not known, every value that the types allow is possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import product
from typing import assert_never

from stepward.validator.recheck.arguments import starts
from stepward.validator.recheck.assigned_names import assigned_by, listed_by, written_by
from stepward.validator.recheck.between import between, closed, forked, may_be_refused, started
from stepward.validator.recheck.blocks import (
    FAILS,
    GIVEN,
    OPEN,
    TEXT,
    UNDEFINED,
    Block,
    allows,
    common,
    is_exact,
    meet,
)
from stepward.validator.recheck.definite import FAILING, NONE_HOLDS, Definite, branch_taken, outcomes
from stepward.validator.recheck.describing import of_built, written
from stepward.validator.recheck.evaluation import Environment, references, splits, values
from stepward.validator.recheck.exits import ALONE, NOTHING, Exit, Outcome
from stepward.validator.recheck.failures import attempts, early_errors, late_errors, leaving, representatives
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import UNCHANGED, Changes, DescribeField, Followed, State, Test
from stepward.validator.recheck.items import item_of, may_have, split_by_length, surely_has
from stepward.validator.recheck.joining import MAX_EXITS, joined_exits
from stepward.validator.recheck.names import Names, Source
from stepward.validator.recheck.orders import earlier, is_ordered
from stepward.validator.recheck.origins import Origins, field_type
from stepward.validator.recheck.plain_exits import ended, waited
from stepward.validator.recheck.questions import Questions
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import TooLarge, Unreadable
from stepward.validator.recheck.single_reference import reads_once
from stepward.validator.recheck.value_sizes import sets_too_large
from stepward.vm.expressions.building import is_computed
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Expression,
    Reference,
)
from stepward.vm.language.steps import (
    AnyCall,
    AnyStep,
    BaseStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    FailingPart,
    ForEachStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
    ToolStep,
    WaitStep,
)

Part = tuple[int, int | None]
"""A step by its position, or a sub-step of it."""


@dataclass(eq=False)
class Steps:
    """The steps of one program, seen through the references of a certificate.

    Only sub-steps in `parts` are tracked as started or succeeded, and costs of sub-steps only with `has_costs`. With
    `is_blind`, values are ignored: every exit is possible. With `is_lazy`, a value from outside is chosen when it is
    first read. The answers to `questions` follow the blocks of a state.
    """

    reading: Reading
    followed: Followed
    parts: frozenset[Part] = frozenset()
    _: KW_ONLY
    has_costs: bool = False
    is_blind: bool = False
    is_lazy: bool = False
    questions: Questions | None = None
    _reads: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _exits: dict[tuple[int, State], tuple[Exit, ...]] = field(default_factory=dict)

    @cached_property
    def origins(self) -> Origins:
        """The possible values of references by the types of their sources."""
        return self.reading.origins

    @cached_property
    def definite(self) -> Definite:
        """The references that certainly have a value at the start of each step."""
        return self.reading.definite

    def may_get_to(self, step: int) -> bool:
        """Return whether a run may reach a step."""
        return self.is_blind or self.definite.may_get_to(step)

    def blocks(self, names: Names, step: int, state: State) -> tuple[Block, ...]:
        """Return the possible blocks of a reference at the start of a step in a state."""
        slot = self.followed.slot.get(names)
        if slot is None or state is None:
            return self.definite.blocks(names, step)
        if state[slot] in (OPEN, GIVEN):
            known = self._known(slot, step, state)
            cut = [self.followed.blocks[slot][number] for number in self.choices(slot, step, state)]
            return tuple(dict.fromkeys(common(block, one) for block in cut for one in known if meet(block, one)))
        block = self.followed.blocks[slot][state[slot]]
        if block.kind == "undefined" or is_exact(block):
            return (block,)
        return tuple(common(block, one) for one in self.definite.blocks(names, step) if meet(block, one)) or (block,)

    def choices(self, slot: int, step: int, state: tuple[int, ...]) -> list[int]:
        """Return the numbers of the possible blocks of a followed reference whose value a state leaves open."""
        name, blocks = self.followed.names[slot], self.followed.blocks[slot]
        numbers = {number for block in self._known(slot, step, state) for number in self.followed.meeting(slot, block)}
        possible = [number for number in sorted(numbers) if self.origins.may_give(name, blocks[number])]
        owner = self.followed.slot.get(name[:-1]) if name != self.origins.root(name) else None
        if owner is None or state[owner] in (OPEN, GIVEN):
            return possible
        owner_block, undefined = self.followed.blocks[owner][state[owner]], self.followed.undefined[slot]
        if not may_have(owner_block, name[-1]):
            return [undefined]
        return [number for number in possible if number != undefined] if surely_has(owner_block, name[-1]) else possible

    def _known(self, slot: int, step: int, state: tuple[int, ...]) -> tuple[Block, ...]:
        """Return what the types say of a followed reference whose value a state leaves open."""
        name = self.followed.names[slot]
        if state[slot] == OPEN:
            return self.definite.blocks(name, step)
        origin = self.origins.of(name)  # its variable got a value from outside
        return (UNDEFINED, *origin.blocks) if origin.may_be_absent else origin.blocks

    def environment(self, names: Iterable[Names], step: int, state: State) -> Environment:
        """Return the possible blocks of references at the start of a step in a state."""
        return {name: self.blocks(name, step, state) for name in names}

    def fitting(self, names: Sequence[Names], environment: Environment) -> Iterator[Environment]:
        """Return environments as `splits` does, without those in which a field contradicts its owner."""
        fields = [name for name in names if name[:-1] in environment and self.origins.root(name) != name]
        candidates = splits(names, split_by_length(fields, environment))
        return (one for one in candidates if all(self.origins.fits(name, one[name[:-1]], one[name]) for name in fields))

    def exits(self, number: int, state: State) -> tuple[Exit, ...]:
        """Return every exit of a step in a state, including those for exhausted `max_visits`."""
        slots = (*self.read_slots(number), *(slot for slot, _ in self.questions_at(number)))
        key = (number, None if state is None else tuple(state[slot] for slot in slots))
        if key not in self._exits:
            exits = self._all(number, self.reading.steps[number], state)
            self._exits[key] = tuple(
                dict.fromkeys(
                    after
                    for one in exits
                    for after in ((one,) if one.transition.closes is None else closed(self, number, state, one))
                )
            )
        return self._exits[key]

    def read_slots(self, number: int) -> tuple[int, ...]:
        """Return the slots of the references that decide the exit of a step."""
        if number not in self._reads:
            self._reads[number] = tuple(sorted(self._slots_read(number)))
        return self._reads[number]

    def _slots_read(self, number: int) -> Iterator[int]:
        names = self.reading.names_read(number)
        below = names if isinstance(self.reading.steps[number], SetStep | ForEachStep | EndStep | Stage) else ()
        slots = {self.followed.slot[name] for name in names if name in self.followed.slot}
        yield from slots.union(*(self.followed.under(name) for name in below))

    def questions_at(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the questions that a step asks, each with the location of its answer in a state."""
        if self.questions is not None:
            yield from ((len(self.followed.names) + one, one) for one in self.questions.of_step.get(number, ()))

    def answered(self, tree: Expression, number: int, state: State) -> Expression:
        """Return an expression of a step with a constant in place of each question whose answer the state knows."""
        if self.questions is None or state is None:
            return tree
        known = {question: state[slot] for slot, question in self.questions_at(number) if state[slot] != OPEN}
        return self.questions.answered(tree, known)

    def trees(self, number: int, state: State) -> list[Expression]:
        """Return the expressions of a step in a state; raises Unreadable where one does not parse."""
        trees = self.reading.plain_expressions(number)
        if trees is None:
            raise Unreadable(f"an expression of `{self.reading.steps[number].id}` can't be read")
        return [self.answered(tree, number, state) for tree in trees]

    def _all(self, number: int, step: AnyStep, state: State) -> Iterator[Exit]:
        match step:
            case _ if number in self.reading.layout.forked:
                yield from forked(self, number, state)
            case ConditionStep():
                yield from self._condition(number, step, state)
            case SetStep():
                yield from self._set(number, step, state)
            case WaitStep():
                yield from waited(self, number, step, state)
            case EndStep():
                yield from ended(self, number, step, state, may_be_refused=may_be_refused(self, number))
            case ParallelStep():
                yield from joined_exits(self, number, step, state)
            case LlmStep() | ToolStep() | ComputeStep():
                yield from self._call(number, step, state)
            case ForEachStep():
                yield from started(self, number, step, state)
            case Stage():
                yield from between(self, number)
            case _:
                assert_never(step)
        for transition in self.transitions(number):
            if transition.kind == "visits":  # it starts nothing, and costs nothing
                yield from (Exit(transition, changes, NOTHING, NOTHING, 0) for changes in self._passed(step))

    def transitions(self, number: int) -> tuple[Transition, ...]:
        """Return the transitions of a step."""
        return self.reading.control.transitions[number]

    def _passed(self, step: AnyStep) -> Iterator[Changes]:
        members = (step, *step.sub_steps)
        return self.together([self.left_without(one, "Visits") for one in members if isinstance(one, Failing)])

    # -- assigning -------------------------------------------------------------------------------------------------

    def together(self, choices: Sequence[Iterable[Changes]]) -> Iterator[Changes]:
        """Yield every combination of changes that are applied one after the other."""
        listed = [tuple(dict.fromkeys(options)) for options in choices]
        size = 1
        for options in listed:
            size *= max(1, len(options))
        if size > MAX_EXITS:
            raise TooLarge("a step has too many exits to be checked")
        for chosen in product(*listed):
            yield tuple(sorted({slot: block for changes in chosen for slot, block in changes}.items()))

    def undefined(self, root: Names) -> Iterator[Changes]:
        """Yield the change that makes a root undefined."""
        yield tuple((slot, self.followed.undefined[slot]) for slot in self.followed.under(root))

    def given(self, root: Names, source: Source) -> Iterator[Changes]:
        """Yield the changes by which a root gets a value from outside."""
        return self.valued([root], self.typed(source))

    def _later(self, roots: Sequence[Names], source: Source) -> Changes:
        """Return the change that delays the choice of a value from outside; an empty change if it can't be delayed.

        It can be delayed if exactly one followed variable holds the value, and nothing else assigns that variable.
        """
        followed = [root for root in roots if self.followed.under(root)]
        if len(followed) != 1:
            return ()
        resolution = self.reading.lookup.resolve(followed[0])
        if resolution is None or resolution.sources != (source,):
            return ()
        return tuple((slot, GIVEN) for slot in self.followed.under(followed[0]))

    def valued(self, roots: Sequence[Names], describe: DescribeField) -> Iterator[Changes]:
        """Yield the changes of roots that all get the same value."""
        combinations: list[tuple[dict[Names, Block], Changes]] = [({}, ())]
        for root in roots:
            for slot in self.followed.under(root):
                fields = self.followed.names[slot][len(root) :]
                combinations = [
                    ({**chosen, fields: self.followed.blocks[slot][block]}, (*changes, (slot, block)))
                    for chosen, changes in combinations
                    for block in self._possible(slot, fields, chosen, describe)
                ]
                if len(combinations) > MAX_EXITS:
                    raise TooLarge("a step gives too many values to be looked at")
        return (changes for _, changes in combinations)

    def _possible(self, slot: int, fields: Names, chosen: dict[Names, Block], describe: DescribeField) -> Iterable[int]:
        """Return the blocks that are consistent with those chosen for the same value, and for its owner."""
        owner = chosen.get(fields[:-1]) if fields else None
        if owner is not None and not may_have(owner, fields[-1]):
            return (self.followed.undefined[slot],)
        may_match, may_be_absent = describe(fields, owner is not None)
        item_block = None if owner is None else item_of(owner, fields[-1])
        if owner is not None and owner.kind == "array":
            may_be_absent = may_be_absent and not surely_has(owner, fields[-1])
        if fields in chosen:
            blocks = self.followed.blocks[slot]
            return [
                one
                for one in self.followed.meeting(slot, chosen[fields])
                if blocks[one] == UNDEFINED or may_match(blocks[one])
            ]
        numbers = [
            number
            for number, block in enumerate(self.followed.blocks[slot])
            if block != UNDEFINED and may_match(block) and (item_block is None or meet(block, item_block))
        ]
        return [*numbers, *([self.followed.undefined[slot]] if may_be_absent else [])]

    def typed(self, source: Source) -> DescribeField:
        """Describe a value of the type of a source."""

        def describe(fields: Names, is_inside: bool) -> tuple[Test, bool]:
            if self.origins.is_copied_item(source):
                return self.origins.described_item(source, fields)
            whole = self.origins.spec(source)
            spec, may_be_absent = field_type(whole, fields)
            if is_inside:
                owner, _ = field_type(whole, fields[:-1])
                may_be_absent = owner is None or fields[-1] not in owner.required
            return lambda block: allows(spec, block), may_be_absent

        return describe

    def success(self, part: FailingPart) -> Iterator[Changes]:
        """Yield the changes of a part that succeeded: it has an output, and no error."""
        if not self.followed.follows_any(assigned_by(part)):
            return iter(UNCHANGED)
        source = Source("output", part.id, *self.reading.lookup.calls[part.id])
        roots = [root for root in written_by(part) if root[0] not in part.assigns or len(root) > 1]
        outputs: Iterable[Changes] = [self._later(roots, source)] if self.is_lazy else [()]
        if not all(outputs):
            outputs = self.valued(roots, self.typed(source))
        return self.together([outputs, *self._without_error(part)])

    def _fallback(self, part: AnyCall | ComputeStep) -> Iterator[Changes]:
        if not self.followed.follows_any(assigned_by(part)):
            return iter(UNCHANGED)
        outputs = self.valued(written_by(part), written(part.fallback))
        return self.together([outputs, *self._without_error(part)])

    def _without_error(self, part: FailingPart) -> list[Iterator[Changes]]:
        return [self.undefined((part.id, "error")), self.undefined((part.id, "error_name"))]

    def left_without(self, part: FailingPart, name: str) -> Iterator[Changes]:
        """Yield the changes of a part that failed: it has an error of a name, and no output."""
        if not self.followed.follows_any(assigned_by(part)):
            return iter(UNCHANGED)
        error = self.valued([(part.id, "error")], lambda *_: (lambda block: meet(block, TEXT), False))
        named = self.valued([(part.id, "error_name")], written(name))
        cleared = [self.undefined(root) for root in (*written_by(part), *listed_by(part))]
        return self.together([*cleared, error, named])

    # -- conditions, assignments, ends -------------------------------------------------------------------------------

    def outcomes(self, number: int, state: State) -> set[int]:
        """Return the possible outcomes of a condition step in a state."""
        trees = self.reading.plain_expressions(number)
        if trees is None:  # unknown meaning: every outcome is possible
            return {*range(len(self.reading.expressions(number))), NONE_HOLDS, FAILING}
        trees = self.trees(number, state)
        names = references(trees)
        environment = self.environment(names, number, state)
        if reads_once(trees):
            return self.definite.outcomes(number, trees, environment)
        may_overflow = self.origins.may_overflow
        return {one for split in self.fitting(names, environment) for one in outcomes(trees, split, may_overflow)}

    def _condition(self, number: int, step: ConditionStep, state: State) -> Iterator[Exit]:
        branches = set() if self.is_blind else {branch_taken(step, outcome) for outcome in self.outcomes(number, state)}
        for transition in self.transitions(number):
            if (transition.kind, transition.branch) in branches or (self.is_blind and transition.kind != "visits"):
                yield Exit(transition, (), ALONE, ALONE if transition.kind == "branch" else NOTHING, 1)

    def _set(self, number: int, step: SetStep, state: State) -> Iterator[Exit]:
        if self.is_blind:
            for transition in self.transitions(number):
                if transition.kind != "visits":
                    yield Exit(transition, (), ALONE, ALONE if transition.kind == "success" else NOTHING, 1)
            return
        trees = self.trees(number, state)
        names = references(trees)
        environment = self.environment(names, number, state)
        fails, changes = sets_too_large(self, number), dict[Changes, None]()
        for split in self.fitting(names, environment):
            results = [values(tree, split, may_overflow=self.origins.may_overflow(tree)) for tree in trees]
            fails = fails or any(FAILS in found for found in results)
            if all(found != {FAILS} for found in results):
                changes.update(dict.fromkeys(self.assigned(number, step, state, results)))
        for transition in self.transitions(number):
            if transition.kind == "success":
                yield from (Exit(transition, change, ALONE, ALONE, 1) for change in changes)
            elif transition.kind == "failed" and fails:
                yield Exit(transition, (), ALONE, NOTHING, 1)

    def assigned(
        self, number: int, step: SetStep | ForEachStep, state: State, results: list[set[Block]]
    ) -> Iterator[Changes]:
        """Yield the changes of a `set` in order, given the results of its texts."""
        choices: list[Iterable[Changes]] = []
        texts = iter(zip(self.trees(number, state), results, strict=True))
        for name, value in step.assigns.items():
            if not is_computed(value, self.reading.program.language):
                choices.append(self.valued([(name,)], written(value)))
                continue
            tree, result = next(texts)
            if isinstance(tree, Built):
                described = of_built(tree, result - {FAILS}, lambda names: self.environment(names, number, state))
                choices.append(self.valued([(name,)], described))
                continue
            choices.append(self.valued([(name,)], self._result(result - {FAILS}, tree, number, state)))
        return self.together(choices)

    def _result(self, results: set[Block], tree: Expression, step: int, state: State) -> DescribeField:
        def describe(fields: Names, _: bool) -> tuple[Test, bool]:
            if not fields:
                return lambda block: any(meet(block, one) for one in results), False
            if not isinstance(tree, Reference):  # a list that is joined has any items
                return lambda _: isinstance(tree, Arithmetic), True
            copied = self.blocks((*tree.names, *fields), step, state)
            return lambda block: any(meet(block, one) for one in copied), UNDEFINED in copied

        return describe

    def falls_back(self, part: AnyCall | ComputeStep) -> bool:
        """Return whether a time-out may end in the fallback: a write that can't be repeated stays in doubt."""
        if part.on_timeout != "fallback":
            return False
        return not (isinstance(part, ToolCall) and self.reading.must_not_repeat(part.tool))

    def starts(self, number: int, part: AnyCall | ComputeStep, state: State) -> tuple[bool, bool]:
        """Return whether a call may start in a state, and whether it may fail before its start."""
        if self.is_blind:
            return True, True
        return starts(self.reading, part, lambda names: self.blocks_at(names, number, part, state))

    def blocks_at(self, names: Names, number: int, part: BaseStep, state: State) -> tuple[Block, ...]:
        """Return the possible blocks of a reference at the start of a step or sub-step.

        What siblings that come before assign is not in the state of the step: it may be anything of its type.
        """
        assigned = self._given_earlier(names, number, part)
        return self.blocks(names, number, state) if assigned is None else self.followed.cut(names, assigned)

    def is_given_earlier(self, names: Names, number: int, part: BaseStep) -> bool:
        """Return whether a sibling that comes before a sub-step assigns a reference."""
        return self._given_earlier(names, number, part) is not None

    def _given_earlier(self, names: Names, number: int, part: BaseStep) -> tuple[Block, ...] | None:
        step = self.reading.steps[number]
        if not is_ordered(step) or part is step:
            return None
        index = next(sub for sub, one in enumerate(step.sub_steps) if one.id == part.id)
        before = [step.sub_steps[one] for one in sorted(earlier(step, index))]
        root = self.origins.root(names)
        if any(root in ((one.id, "error"), (one.id, "error_name")) for one in before):
            return (UNDEFINED,)
        sources = [
            Source("output", one.id, *self.reading.lookup.calls[one.id]) for one in before if root in written_by(one)
        ]
        if not sources:
            return None
        origin = self.origins.by_sources(names, tuple(sources))
        return (UNDEFINED, *origin.blocks) if origin.may_be_absent else origin.blocks

    def call_outcomes(self, number: int, part: AnyCall | ComputeStep, state: State) -> Iterator[Outcome]:
        """Yield the possible outcomes of a call."""
        may_start, may_fail = self.starts(number, part, state)
        if may_start:
            yield from (Outcome("success", change, True, 1) for change in self.success(part))
            if self.falls_back(part):
                yield from (Outcome("fallback", change, True, 1) for change in self._fallback(part))
        for name, cost in self._errors(number, part, is_late=True) if may_start else ():
            yield from (Outcome("failed", change, True, cost, name) for change in self.left_without(part, name))
        for name, _ in self._errors(number, part, is_late=False) if may_fail else ():
            yield from (Outcome("failed", change, False, 1, name) for change in self.left_without(part, name))

    def _errors(self, number: int, part: AnyCall | ComputeStep, *, is_late: bool) -> Iterator[tuple[str, int]]:
        """Yield the errors of a call that a certificate tells apart, each with the attempts that end in it."""
        tool, step = self.reading.tool, self.reading.steps[number]
        names = late_errors(part, tool) if is_late else early_errors(part)
        if not any(self.followed.under((one.id, "error_name")) for one in (part, step)):
            names = representatives(self.transitions(number), names, lambda name: attempts(part, name, tool))
        yield from ((name, attempts(part, name, tool)) for name in names)

    def _call(self, number: int, step: LlmStep | ToolStep | ComputeStep, state: State) -> Iterator[Exit]:
        transitions = self.transitions(number)
        for kind, changes, is_started, cost, error in self.call_outcomes(number, step, state):
            started, succeeded = ALONE if is_started else NOTHING, ALONE if kind == "success" else NOTHING
            matching = [one for one in transitions if one.kind == kind]
            failing = leaving(transitions, error) if kind == "failed" else None
            for transition in matching if failing is None else (failing,):
                yield Exit(transition, changes, started, succeeded, cost)
