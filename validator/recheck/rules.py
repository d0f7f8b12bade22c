"""Rules as monitors of a run, and where they are broken.

Written from the language's page (specs/language.md, "Guardrails"). Certificates write the memory of a watcher as a list
of numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

from stepward.validator.recheck.assigned_names import assigned_by
from stepward.validator.recheck.blocks import TEXT, UNDEFINED, Block, allows, of_value
from stepward.validator.recheck.branches import unseen
from stepward.validator.recheck.budgets import Budget
from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.earlier_runs import levels_of, read_before
from stepward.validator.recheck.evaluation import Environment, references, truths, two_may_hold
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.failures import most_attempts
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import State
from stepward.validator.recheck.names import ABSENT, Names, inside
from stepward.validator.recheck.orders import earlier, is_ordered
from stepward.validator.recheck.owners import resolved
from stepward.validator.recheck.parts import Match, by_step
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.selectors import branch_of, guards, matches
from stepward.validator.recheck.steps import Part, Steps
from stepward.validator.recheck.tracked import plain
from stepward.validator.recheck.types import has_default
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression
from stepward.vm.expressions.template import embedded
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Requires,
)
from stepward.vm.language.steps import BaseStep, Call, ConditionStep, LlmCall, ParallelStep, Stage, ToolCall
from stepward.vm.language.types import TypeSpec

Memory = tuple[int, ...]
NEVER, STALE, FRESH = 0, 1, 2


class Breach(NamedTuple):
    """A violation at a step: its kind, and the least cost in `max_steps` from there."""

    kind: str
    cost: int = 0


class Watcher:
    """Monitors a run for one property. `parts` are the parts whose start or success it observes.

    `ends_matter`: the end of a run may break the rule. `sees_everything`: any step may break it.
    """

    ends_matter = False
    sees_everything = False
    renewing: frozenset[int] = frozenset()
    """The stages at which a rule of a body begins anew, because each item is a frame of its own."""
    closing: frozenset[int] = frozenset()
    """The same, for a rule that the end of an item may break."""
    condition: Expression | None = None
    """The condition that, together with the path, decides whether a hit breaks the rule."""

    def __init__(self, reading: Reading, hits: Iterable[Match] = ()) -> None:
        self.reading = reading
        self.hits = by_step(hits)
        self.parts: frozenset[Part] = frozenset((hit.step, hit.sub) for found in self.hits.values() for hit in found)

    @property
    def watched_steps(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return self.hits.keys()

    past: Memory = ()
    """The memory before the run."""

    def start(self) -> Memory:
        """Return the memory before the run."""
        return self.past

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:  # noqa: ARG002
        """Yield the violations on arrival at a step."""
        return iter(())

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        """Yield the violations when a step is performed with this exit."""
        return iter(())

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:  # noqa: ARG002
        """Return the memory after this exit of a step."""
        return memory

    def ended(self, memory: Memory, transition: Transition) -> bool:  # noqa: ARG002
        """Return whether this end of the run is a violation."""
        return False

    def closes(self, transition: Transition) -> bool:
        """Return whether a transition ends an item, a branch or a call, which may break the rule."""
        return transition.to in self.closing and transition.closes is not None

    def started(self, step: int, exit_: Exit) -> list[Match]:
        """Return the matched parts of a step that started."""
        return [hit for hit in self.hits.get(step, ()) if hit.sub in exit_.started]

    def cost(self, step: int) -> int:
        """Return the cost of a start of a step: itself and its sub-steps."""
        return 0 if step in self.reading.in_branches else 1 + len(self.reading.steps[step].sub_steps)


def at_ends(hits: Iterable[Match], reading: Reading) -> Iterator[Match]:
    """Yield hits; a step with bodies succeeds at its stage behind the last of them, not where it starts."""
    for hit in hits:
        body, fork = reading.layout.bodies.get(hit.step), reading.layout.forks.get(hit.step)
        if fork is not None and hit.sub is None:
            yield hit._replace(step=fork.join)
        else:
            yield hit if body is None else hit._replace(step=body.next)


class RequiresWatcher(Watcher):
    """`protects: P, requires: G`: remembers of every G whether it never succeeded, is stale, or is fresh."""

    def __init__(self, rule: Requires, reading: Reading) -> None:
        super().__init__(reading, matches(rule.protects, reading))
        self.requirement = rule.requires
        self.guards = guards(rule.requires)
        self.guard_matches = [by_step(at_ends(matches(guard, reading), reading)) for guard in self.guards]
        self.parts |= {(hit.step, hit.sub) for found in self.guard_matches for hits in found.values() for hit in hits}
        self.past = levels_of(rule, len(self.guards))
        earlier = read_before(rule, len(self.guards))
        self.reads = [
            self._reads(guard) | before if rule.fresh else frozenset()
            for guard, before in zip(self.guards, earlier, strict=True)
        ]

    @cached_property
    def watched_steps(self) -> Collection[int]:
        read = frozenset().union(*self.reads)
        touched = [number for number, names in enumerate(self.reading.touched) if names & read] if read else ()
        return {*self.hits, *(step for found in self.guard_matches for step in found), *touched}

    def _reads(self, guard: AnyGuard) -> frozenset[Names]:
        """Return the variables that the condition of a G with a branch reads, in any of its cases."""
        if not isinstance(guard, BranchSelector) or guard.step not in self.reading.position:
            return frozenset()
        trees = self.reading.expressions(self.reading.position[guard.step])
        read = references(tree for tree in trees if tree is not None)
        return frozenset(self.reading.origins.root(names) for names in read)

    def _holds(self, requirement: AnyRequirement, memory: Memory, least: int) -> bool:
        if isinstance(requirement, AllOf):
            return all(self._holds(part, memory, least) for part in requirement.all_of)
        if isinstance(requirement, AnyOf):
            return any(self._holds(part, memory, least) for part in requirement.any_of)
        return memory[self.guards.index(requirement)] >= least

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        for known in dict.fromkeys(self._within(hit, memory, exit_) for hit in self.started(step, exit_)):
            if not self._holds(self.requirement, known, FRESH):
                yield Breach("stale" if self._holds(self.requirement, known, STALE) else "bypassed", self.cost(step))

    def _within(self, hit: Match, memory: Memory, exit_: Exit) -> Memory:
        """Return the memory at the start of a part: siblings that it depends on come before it."""
        step = self.reading.steps[hit.step]
        if hit.sub is None or not is_ordered(step):
            return memory
        before = earlier(step, hit.sub)
        assigned = frozenset(name for one in before for name in assigned_by(step.sub_steps[one]))
        levels = []
        for number, level in enumerate(memory):
            succeeded = any(one.sub in before & exit_.succeeded for one in self.guard_matches[number].get(hit.step, ()))
            is_stale = level == FRESH and bool(self.reads[number] & assigned)
            levels.append(FRESH if succeeded else STALE if is_stale else level)
        return tuple(levels)

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        return tuple(self._after(number, step, before, exit_) for number, before in enumerate(memory))

    def _after(self, number: int, step: int, before: int, exit_: Exit) -> int:
        for hit in self.guard_matches[number].get(step, ()):
            if self._satisfies(self.guards[number], hit, exit_):
                return FRESH
        is_stale = before == FRESH and self.reads[number] & self.reading.changed(step, exit_.transition.kind)
        return STALE if is_stale else before

    @staticmethod
    def _satisfies(guard: AnyGuard, hit: Match, exit_: Exit) -> bool:
        if isinstance(guard, BranchSelector):
            assert isinstance(hit.part, ConditionStep)
            return exit_.transition.kind == "branch" and exit_.transition.branch == branch_of(hit.part, guard.branch)
        return hit.sub in exit_.succeeded


class NeverWatcher(Watcher):
    """`never: P`, with or without `when`. An allow-list demands its condition, and forbids calls without an entry."""

    def __init__(self, reading: Reading, hits: Iterable[Match], when: str | None, *, demands: bool = False) -> None:
        super().__init__(reading, hits)
        self.condition = None if when is None else parse(when, reading.program.language)
        self.demands = demands

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        for hit in self.started(step, exit_):
            if self._is_broken(steps, hit, state):
                yield Breach("forbidden" if hit.sub is None else f"forbidden {hit.part.id}", self.cost(step))

    def _is_broken(self, steps: Steps, hit: Match, state: State) -> bool:
        """Return whether a hit may break the rule. No result is assumed to have too many digits: the machine starts no
        step that it can't judge."""
        if self.condition is None or steps.is_blind:
            return True
        names = references([self.condition])
        are_same, made_of = partial(self._is_one_value, hit), partial(self._made_of, hit)
        forms = [plain(self.condition, are_same, made_of)]
        read = self._read(hit, names)
        if not any(steps.is_given_earlier(one, hit.step, hit.part) or self._is_unseen(hit, one) for one in read):
            # An answer may be older than a value that only this start tells: both have to allow it.
            forms.append(steps.answered(forms[0], hit.step, state))
        allowed = {True} if self.demands else {False}
        splits = self._splits(steps, hit, names, state)
        return any(
            set.intersection(*(truths(one, split, may_overflow=False) for one in forms)) - allowed for split in splits
        )

    def _splits(self, steps: Steps, hit: Match, names: list[Names], state: State) -> Iterator[Environment]:
        """Yield what the references of the condition may be where a part starts."""
        slot = steps.followed.slot
        read = [slot[one] for one in (handed(hit.part, name) for name in names) if one in slot]
        for known in (None,) if state is None else resolved(steps, hit.step, state, read):
            yield from steps.fitting(names, {name: self._blocks(steps, hit, name, known) for name in names})

    def _is_one_value(self, hit: Match, left: Names, right: Names) -> bool:
        left, right = (handed(hit.part, names) for names in (left, right))
        if any(self._is_inside(hit, names) or self._is_unseen(hit, names) for names in (left, right)):
            return False
        return self.reading.definite.is_one_value(left, right, hit.step)

    def _made_of(self, hit: Match, names: Names) -> list[Expression]:
        names = handed(hit.part, names)
        trees = self.reading.definite.made_of(names, hit.step)
        read = [names, *references(trees)]
        return [] if any(self._is_inside(hit, one) or self._is_unseen(hit, one) for one in read) else trees

    @staticmethod
    def _read(hit: Match, names: Iterable[Names]) -> list[Names]:
        """Return the references that a condition reads at the start of a part, and those that its arguments pass."""
        passed = read_by(hit.part) if isinstance(hit.part, Call) else ()
        return [*(name for name in names if name[0] != "args"), *passed]

    def _is_inside(self, hit: Match, names: Names) -> bool:
        """Return whether a sub-step starts after siblings that may assign a reference."""
        step = self.reading.steps[hit.step]
        if hit.sub is None or not is_ordered(step):
            return False
        root = self.reading.origins.root(names)
        return any(root in assigned_by(step.sub_steps[one]) for one in earlier(step, hit.sub))

    def _is_unseen(self, hit: Match, names: Names) -> bool:
        """Return whether a reference reads the outcome of a branch that runs at the same time as the part."""
        is_of_branch = names[0] in unseen(self.reading.layout, hit.step)
        return is_of_branch and len(self.reading.origins.root(names)) > 1

    def _blocks(self, steps: Steps, hit: Match, names: Names, state: State) -> tuple[Block, ...]:
        if self._is_unseen(hit, names):
            return (UNDEFINED,)
        if names[0] != "args":
            blocks = self._started_with(steps, hit, names, state)
            is_handed = isinstance(hit.part, Call) and names in read_by(hit.part)
            return (
                tuple(block for block in blocks if block != UNDEFINED) if is_handed else blocks
            )  # the call starts, so its arguments are defined
        part = hit.part
        if not isinstance(part, ToolCall) or len(names) < 2:
            return (UNDEFINED,)
        value, fields = part.args.get(names[1], ABSENT), names[2:]
        if value is ABSENT:
            spec = (self.reading.tool(part.tool).args or {}).get(names[1])
            if spec is None or not has_default(spec):
                return (UNDEFINED,)
            value = spec.default
        return self._argument(steps, hit, value, fields, state)

    def _started_with(self, steps: Steps, hit: Match, names: Names, state: State) -> tuple[Block, ...]:
        """Return what a reference may be where a part starts. What siblings have given suits those that have started
        with it: it is there, and of the types of the arguments."""
        blocks = steps.blocks_at(names, hit.step, hit.part, state)
        if not steps.is_given_earlier(names, hit.step, hit.part):
            return blocks
        parts = self.reading.steps[hit.step].sub_steps
        calls = [hit.part, *(parts[one] for one in earlier(self.reading.steps[hit.step], hit.sub))]
        is_read = any(isinstance(call, Call) and names in read_by(call) for call in calls)
        specs = [spec for call in calls if isinstance(call, ToolCall) for spec in self._taken_as(call, names)]
        return tuple(
            block
            for block in blocks
            if (not is_read if block == UNDEFINED else all(allows(spec, block) for spec in specs))
        )

    def _taken_as(self, call: ToolCall, names: Names) -> Iterator[TypeSpec]:
        """Yield the types of the arguments of a call that are just a reference."""
        for name, spec in (self.reading.tool(call.tool).args or {}).items():
            if handed(call, ("args", name)) == names:
                yield spec

    def _argument(self, steps: Steps, hit: Match, value: Any, fields: Names, state: State) -> tuple[Block, ...]:
        for field in fields:
            inner = inside(value, field)
            if inner is ABSENT:
                break
            value, fields = inner, fields[1:]
        references = list(embedded(value))
        if references and references[0].whole and not references[0].path:
            # The step starts, so its arguments are defined; a field of one may be absent.
            blocks = self._started_with(steps, hit, (*references[0].reference.names, *fields), state)
            return blocks if fields else tuple(block for block in blocks if block != UNDEFINED)
        if fields:
            return (UNDEFINED,)
        if isinstance(value, str) and "$" in value:
            return (TEXT,)
        return (of_value(value),)


def handed(part: BaseStep, names: Names) -> Names:
    """Return the reference that a call passes as an argument, for that argument or a field of it."""
    if not isinstance(part, ToolCall) or names[0] != "args" or len(names) < 2:
        return names
    references = list(embedded(part.args.get(names[1])))
    if not references or references[0].path or not references[0].whole or references[0].reference.names[0] == "args":
        return names
    return (*references[0].reference.names, *names[2:])


class AtMostOnceWatcher(Watcher):
    """`at_most_once: P`: remembers whether P was performed."""

    def __init__(self, rule: AtMostOnce, reading: Reading) -> None:
        super().__init__(reading, matches(rule.at_most_once, reading))
        self.past = (int(rule.already),)

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        hits = self.started(step, exit_)
        if len(hits) + memory[0] > 1:
            yield Breach("repeated", self.cost(step))
        elif any(self._is_performed_again(hit) for hit in hits):
            # The second attempt, and the second round if only the whole step is retried.
            repeats_call = any(
                most_attempts(hit.part, self.reading.tool) > 1 for hit in hits if isinstance(hit.part, Call)
            )
            yield Breach("retried", self.cost(step) + (1 if repeats_call else 2))

    def _is_performed_again(self, hit: Match) -> bool:
        """Return whether retries perform P again. Attempts of an idempotent tool share one key, and are one
        performance."""
        if isinstance(hit.part, ToolCall) and self.reading.tool(hit.part.tool).idempotent:
            return False
        if not isinstance(hit.part, LlmCall | ToolCall):
            return False
        if most_attempts(hit.part, self.reading.tool) > 1:
            return True
        whole = self.reading.steps[hit.step]
        if not isinstance(whole, ParallelStep) or hit.part.on_error == "skip":
            return False
        return whole.on_error == "retry" and whole.max_retries > 1

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        return (1,) if self.started(step, exit_) else memory


class ExclusiveWatcher(Watcher):
    """`exclusive: [P, Q]`: remembers which of the two were performed. After both, the violation is already reported."""

    def __init__(self, rule: Exclusive, reading: Reading) -> None:
        sides = [matches(side, reading) for side in rule.exclusive]
        super().__init__(reading, (hit for side in sides for hit in side))
        self.sides = [frozenset((hit.step, hit.sub) for hit in side) for side in sides]
        self.past = (sum(1 << bit for bit, was in enumerate(rule.already) if was),)

    def _performed(self, step: int, memory: Memory, exit_: Exit) -> int:
        performed = memory[0]
        for bit, side in enumerate(self.sides):
            performed |= any((step, sub) in side for sub in exit_.started) << bit
        return performed

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        if memory[0] != 3 and self._performed(step, memory, exit_) == 3:
            yield Breach("both", self.cost(step))

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        return (self._performed(step, memory, exit_),)


class FollowedByWatcher(Watcher):
    """`followed_by: {first: P, then: Q}`: remembers whether Q is owed. A part that is both P and Q counts as Q."""

    def __init__(self, rule: FollowedBy, reading: Reading) -> None:
        then_parts = matches(rule.followed_by.then, reading)
        super().__init__(reading, then_parts)
        self.ends = rule.ends
        self.past = (int(rule.already),)
        self.ends_matter, self.sees_everything = True, rule.ends == "any"
        first_parts = [hit for hit in matches(rule.followed_by.first, reading) if (hit.step, hit.sub) not in self.parts]
        self.first = frozenset((hit.step, hit.sub) for hit in at_ends(first_parts, reading))
        self.parts |= self.first

    @cached_property
    def watched_steps(self) -> Collection[int]:
        return {*self.hits, *(step for step, _ in self.first)}

    @cached_property
    def may_run_out(self) -> bool:
        """Whether the budget of steps, of steps without progress, or of time may be used up before Q starts."""
        program = self.reading.program
        if program.max_stalled_steps is not None or program.timeout_seconds is not None:
            return True
        most = None if program.max_steps is None else Budget(self.reading).most()
        return program.max_steps is not None and (most is None or most > program.max_steps)

    def _may_not_ask(self, step: int) -> bool:
        """Whether a budget of tokens or money may prevent the start of a step: it may where a model is called."""
        program, calls = self.reading.program, self.reading.steps[step].calls
        is_limited = program.max_tokens is not None or program.max_cost is not None
        return is_limited and any(isinstance(call, LlmCall) for _, call in calls)

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:  # noqa: ARG002
        """Report a missing Q: a run may be cancelled before any step, and run out of budget before Q."""
        if isinstance(self.reading.steps[step], Stage):  # between two items nothing starts: what comes next does
            return
        may_run_out = self.may_run_out or self._may_not_ask(step)
        if self.ends == "any" and memory[0] and (step not in self.hits or may_run_out):
            yield Breach("missing")

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        owed = 0 if self.started(step, exit_) else memory[0]
        return (1 if any(self._is_owed(step, sub, exit_) for sub in exit_.succeeded) else owed,)

    def _is_owed(self, step: int, sub: int | None, exit_: Exit) -> bool:
        """Return whether a part is a P, and no Q that depends on it has started."""
        if (step, sub) not in self.first:
            return False
        whole = self.reading.steps[step]
        return not any(hit.sub is not None and sub in earlier(whole, hit.sub) for hit in self.started(step, exit_))

    def ended(self, memory: Memory, transition: Transition) -> bool:
        status = transition.status or transition.closes
        assert status is not None, "a run ends with a status, and so does an item"
        return bool(memory[0]) and (self.ends != "success" or status == "SUCCESS")


class DecisionWatcher(Watcher):
    """A condition takes a branch whenever it can be evaluated (`coverage`), or no two of its cases hold at once."""

    def __init__(self, reading: Reading, step: int, *, exclusive: bool) -> None:
        super().__init__(reading)
        self.step = step
        self.exclusive = exclusive
        part = reading.steps[step]
        assert isinstance(part, ConditionStep)
        self.part = part

    @property
    def watched_steps(self) -> Collection[int]:
        return (self.step,)

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:  # noqa: ARG002
        if step != self.step or not exit_.started:
            return
        if self.exclusive and (steps.is_blind or self._overlap(steps, state)):
            yield Breach("overlap", 1)
        if not self.exclusive and exit_.transition.kind == "uncovered":
            yield Breach("uncovered", 1)

    def _overlap(self, steps: Steps, state: State) -> bool:
        trees = steps.trees(self.step, state)
        names = references(trees)
        environment = steps.environment(names, self.step, state)
        return any(two_may_hold([truths(tree, split) for tree in trees]) for split in steps.fitting(names, environment))
