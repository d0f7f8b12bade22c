"""What is to be kept: each rule as a small watcher of a run, and where it is broken.

Written from the language's page (specs/language.md, "Guardrails"). What a watcher remembers is written in certificates
as a list of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stepward.validator.recheck.budgets import Budget
from stepward.validator.recheck.cells import TEXT, UNDEFINED, Cell, Refused, of_value
from stepward.validator.recheck.definite import assigned_by
from stepward.validator.recheck.evaluation import references, splits, truths
from stepward.validator.recheck.origins import Names
from stepward.validator.recheck.steps import Exit, Part, State, Steps
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression
from stepward.vm.expressions.template import embedded
from stepward.vm.language.flow import Transition
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    AnyRule,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    guards,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.selectors import Hit, branch_names, by_step, matches
from stepward.vm.language.steps import Call, ConditionStep, Failing, LlmCall, ParallelStep, ToolCall

Memory = tuple[int, ...]
NEVER, STALE, FRESH = 0, 1, 2


class Breach(NamedTuple):
    """A way in which a rule can be broken at a step, and the least that it takes of `max_steps` from there."""

    kind: str
    cost: int = 0


class Watcher:
    """Watches a run for one property. `parts` are those whose start or success it looks at."""

    def __init__(self, meaning: Meaning, hits: Iterable[Hit] = ()) -> None:
        self.meaning = meaning
        self.flow = meaning.flow
        self.hits = by_step(hits)
        self.parts: frozenset[Part] = frozenset((hit.step, hit.sub) for found in self.hits.values() for hit in found)

    def start(self) -> Memory:
        """Return what is remembered before the run."""
        return ()

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:  # noqa: ARG002
        """Yield what is broken as soon as control is at a step."""
        return iter(())

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        """Yield what is broken when a step is performed so."""
        return iter(())

    def after(self, step: int, memory: Memory, way: Exit) -> Memory:  # noqa: ARG002
        """Return what is remembered after that."""
        return memory

    def ended(self, memory: Memory, way: Transition) -> bool:  # noqa: ARG002
        """Return whether it is broken that the run ends this way."""
        return False

    def started(self, step: int, way: Exit) -> list[Hit]:
        """Return the matched parts of a step that started."""
        return [hit for hit in self.hits.get(step, ()) if hit.sub in way.started]

    def cost(self, step: int) -> int:
        """Return what it takes to start a step: itself and its sub-steps."""
        part = self.flow.steps[step]
        return 1 + (len(part.parallel_steps) if isinstance(part, ParallelStep) else 0)


class RequiresWatcher(Watcher):
    """`protects: P, requires: G`: of every G whether it never came, went stale, or stands."""

    def __init__(self, rule: Requires, meaning: Meaning) -> None:
        super().__init__(meaning, matches(rule.protects, meaning))
        self.requirement = rule.requires
        self.guards = tuple(dict.fromkeys(guards(rule.requires)))
        self.coming = [by_step(matches(guard, meaning)) for guard in self.guards]
        self.parts |= {(hit.step, hit.sub) for found in self.coming for hits in found.values() for hit in hits}
        self.reads = [self._reads(guard) if rule.fresh else frozenset() for guard in self.guards]
        self.assigned = [assigned_by(step) for step in self.flow.steps]

    def _reads(self, guard: AnyGuard) -> frozenset[Names]:
        """Return the variables that the condition of a G with a branch reads, in any of its cases."""
        if not isinstance(guard, BranchSelector) or guard.step not in self.flow.position:
            return frozenset()
        clauses = self.meaning.clauses_of.get(self.flow.position[guard.step], ())
        found = set()
        for names in references(clause.tree for clause in clauses if clause.tree is not None):
            meant = self.meaning.names.meaning(names)
            found.add(names if meant is None else names[: len(names) - len(meant.fields)])
        return frozenset(found)

    def start(self) -> Memory:
        return (NEVER,) * len(self.guards)

    def _holds(self, requirement: AnyRequirement, memory: Memory, least: int) -> bool:
        if isinstance(requirement, AllOf):
            return all(self._holds(part, memory, least) for part in requirement.all_of)
        if isinstance(requirement, AnyOf):
            return any(self._holds(part, memory, least) for part in requirement.any_of)
        return memory[self.guards.index(requirement)] >= least

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        if self.started(step, way) and not self._holds(self.requirement, memory, FRESH):
            yield Breach("stale" if self._holds(self.requirement, memory, STALE) else "bypassed", self.cost(step))

    def after(self, step: int, memory: Memory, way: Exit) -> Memory:
        return tuple(self._after(number, step, before, way) for number, before in enumerate(memory))

    def _after(self, number: int, step: int, before: int, way: Exit) -> int:
        for hit in self.coming[number].get(step, ()):
            if self._came(self.guards[number], hit, way):
                return FRESH
        return STALE if before == FRESH and self.reads[number] & self.assigned[step] else before

    @staticmethod
    def _came(guard: AnyGuard, hit: Hit, way: Exit) -> bool:
        if isinstance(guard, BranchSelector):
            assert isinstance(hit.part, ConditionStep)
            return way.way.kind == "branch" and way.way.branch == branch_names(hit.part)[guard.branch]
        return hit.sub in way.succeeded


class NeverWatcher(Watcher):
    """`never: P`, with or without `when`; an allow-list demands its condition, and forbids where there is none."""

    def __init__(self, meaning: Meaning, hits: Iterable[Hit], when: str | None, *, demands: bool = False) -> None:
        super().__init__(meaning, hits)
        self.when: Expression | None = None if when is None else parse(when)
        self.demands = demands

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        for hit in self.started(step, way):
            if self._is_broken(steps, hit, state):
                yield Breach("forbidden" if hit.sub is None else f"forbidden {hit.part.id}", self.cost(step))

    def _is_broken(self, steps: Steps, hit: Hit, state: State) -> bool:
        if self.when is None:
            return True
        names = references([self.when])
        environment = {name: self._cells(steps, hit, name, state) for name in names}
        said = {one for split in splits(names, environment) for one in truths(self.when, split)}
        return bool(said - ({True} if self.demands else {False}))

    def _cells(self, steps: Steps, hit: Hit, names: Names, state: State) -> tuple[Cell, ...]:
        if names[0] != "args":
            return steps.cells(names, hit.step, state)
        part = hit.part
        if not isinstance(part, ToolCall) or len(names) < 2:
            return (UNDEFINED,)
        value, fields = part.args.get(names[1], _ABSENT), names[2:]
        if value is _ABSENT:
            spec = (self.meaning.tool(part.tool).args or {}).get(names[1])
            if spec is None or not spec.has_default:
                return (UNDEFINED,)
            value = spec.default
        return self._argument(steps, hit.step, value, fields, state)

    def _argument(self, steps: Steps, step: int, value: Any, fields: Names, state: State) -> tuple[Cell, ...]:
        for field in fields:
            if isinstance(value, str) or not isinstance(value, Mapping) or field not in value:
                break
            value, fields = value[field], fields[1:]
        found = list(embedded(value))
        if found and found[0].whole and not found[0].path:
            # The step starts, so that what it hands over is there; a field of it may be missing.
            cells = steps.cells((*found[0].reference.names, *fields), step, state)
            return cells if fields else tuple(cell for cell in cells if cell != UNDEFINED)
        if fields:
            return (UNDEFINED,)
        if isinstance(value, str) and "$" in value:
            return (TEXT,)
        return (of_value(value),)


_ABSENT = object()


class AtMostOnceWatcher(Watcher):
    """`at_most_once: P`: whether P was performed."""

    def start(self) -> Memory:
        return (0,)

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        hits = self.started(step, way)
        if len(hits) + memory[0] > 1:
            yield Breach("repeated", self.cost(step))
        elif any(self._is_performed_again(hit) for hit in hits):
            yield Breach("retried", self.cost(step) + 1)

    def _is_performed_again(self, hit: Hit) -> bool:
        """Attempts of an idempotent tool share one key, and are one performance."""
        if isinstance(hit.part, ToolCall) and self.meaning.tool(hit.part.tool).idempotent:
            return False
        if not isinstance(hit.part, Call) or (hit.sub is not None and hit.part.on_error == "skip"):
            return False
        whole = self.flow.steps[hit.step]
        tried = [part for part in (hit.part, whole) if isinstance(part, Failing)]
        return any(part.on_error == "retry" and part.max_retries > 1 for part in tried)

    def after(self, step: int, memory: Memory, way: Exit) -> Memory:
        return (1,) if self.started(step, way) else memory


class ExclusiveWatcher(Watcher):
    """`exclusive: [P, Q]`: which of the two were performed; what comes after both is broken already."""

    def __init__(self, rule: Exclusive, meaning: Meaning) -> None:
        sides = [matches(side, meaning) for side in rule.exclusive]
        super().__init__(meaning, (hit for side in sides for hit in side))
        self.sides = [frozenset((hit.step, hit.sub) for hit in side) for side in sides]

    def start(self) -> Memory:
        return (0,)

    def _performed(self, step: int, memory: Memory, way: Exit) -> int:
        found = memory[0]
        for bit, side in enumerate(self.sides):
            found |= any((step, sub) in side for sub in way.started) << bit
        return found

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        if memory[0] != 3 and self._performed(step, memory, way) == 3:
            yield Breach("both", self.cost(step))

    def after(self, step: int, memory: Memory, way: Exit) -> Memory:
        return (self._performed(step, memory, way),)


class FollowedByWatcher(Watcher):
    """`followed_by: {first: P, then: Q}`: whether Q is owed. What is both P and Q counts as Q."""

    def __init__(self, rule: FollowedBy, meaning: Meaning) -> None:
        then = matches(rule.followed_by.then, meaning)
        super().__init__(meaning, then)
        self.ends = rule.ends
        self.first = frozenset((hit.step, hit.sub) for hit in matches(rule.followed_by.first, meaning)) - self.parts
        self.parts |= self.first
        program = meaning.program
        most = None if program.max_steps is None else Budget(meaning).most()
        is_enough = program.max_steps is None or (most is not None and most <= program.max_steps)
        self.may_run_out = not is_enough or program.max_stalled_steps is not None
        self.asking = frozenset(site.step for site in meaning.calls if site.call.type == "llm")
        self.counts_tokens = program.max_tokens is not None

    def start(self) -> Memory:
        return (0,)

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:  # noqa: ARG002
        """A run may be cancelled before any step, and run out of budget before the one that is owed."""
        may_run_out = self.may_run_out or (self.counts_tokens and step in self.asking)
        if self.ends == "any" and memory[0] and (step not in self.hits or may_run_out):
            yield Breach("missing")

    def after(self, step: int, memory: Memory, way: Exit) -> Memory:
        owed = 0 if self.started(step, way) else memory[0]
        return (1 if any((step, sub) in self.first for sub in way.succeeded) else owed,)

    def ended(self, memory: Memory, way: Transition) -> bool:
        assert way.ending is not None, "a run ends in some way"
        return bool(memory[0]) and (self.ends != "success" or way.ending.status == "SUCCESS")


class DecisionWatcher(Watcher):
    """A condition takes a branch whenever it can be evaluated (`coverage`), or no two of its cases hold at once."""

    def __init__(self, meaning: Meaning, step: int, *, exclusive: bool) -> None:
        super().__init__(meaning)
        self.step = step
        self.exclusive = exclusive
        self.part = meaning.flow.steps[step]
        assert isinstance(self.part, ConditionStep)

    def left(self, steps: Steps, step: int, state: State, memory: Memory, way: Exit) -> Iterator[Breach]:  # noqa: ARG002
        if step != self.step or not way.started:
            return
        if self.exclusive and self._overlap(steps, state):
            yield Breach("overlap", 1)
        if not self.exclusive and way.way.kind == "uncovered":
            yield Breach("uncovered", 1)

    def _overlap(self, steps: Steps, state: State) -> bool:
        trees = steps.trees(self.step)
        names = references(trees)
        environment = steps.environment(names, self.step, state)
        return any(_two_hold([truths(tree, split) for tree in trees]) for split in splits(names, environment))


def _two_hold(said: list[set[bool | None]]) -> bool:
    """Return whether a case may be the first that holds while a later one holds as well."""
    for position, one in enumerate(said):
        if True in one and any(True in later for later in said[position + 1 :]):
            return True
        if False not in one:
            return False
    return False


class Property(NamedTuple):
    """What a certificate is about."""

    property: str
    rule: str
    policy: str | None
    step: str | None = None
    number: int | None = None


def watcher(claim: Property, meaning: Meaning) -> Watcher:
    """Return the watcher of a property; raises Refused where the program has none of that name."""
    if claim.property in ("coverage", "exclusive cases"):
        step = meaning.flow.position.get(claim.step or "")
        part = meaning.flow.steps[step] if step is not None else None
        if step is None or not isinstance(part, ConditionStep):
            raise Refused(f"the program has no condition `{claim.step}`")
        return DecisionWatcher(meaning, step, exclusive=claim.property == "exclusive cases")
    if claim.property == "allow":
        return _allowed(claim, meaning)
    own = [rule for rule, policy in meaning.rules if (policy.policy if policy else None) == claim.policy]
    if claim.number is not None and 0 < claim.number <= len(own):
        rule = own[claim.number - 1]
        if rule.name == claim.rule and _KINDS[type(rule)] == claim.property:
            return _watcher(rule, meaning)
    of = f" of policy `{claim.policy}`" if claim.policy else ""
    raise Refused(f"there is no guardrail `{claim.rule}`{of} of the kind `{claim.property}`")


_KINDS: dict[type[AnyRule], str] = {
    Requires: "requires",
    Never: "never",
    AtMostOnce: "at_most_once",
    FollowedBy: "followed_by",
    Exclusive: "exclusive",
}


def _watcher(rule: AnyRule, meaning: Meaning) -> Watcher:
    if isinstance(rule, Requires):
        return RequiresWatcher(rule, meaning)
    if isinstance(rule, Never):
        return NeverWatcher(meaning, matches(rule.never, meaning), rule.when)
    if isinstance(rule, AtMostOnce):
        return AtMostOnceWatcher(meaning, matches(rule.at_most_once, meaning))
    return ExclusiveWatcher(rule, meaning) if isinstance(rule, Exclusive) else FollowedByWatcher(rule, meaning)


def _allowed(claim: Property, meaning: Meaning) -> Watcher:
    policy = next((one for one in meaning.policies if one.policy == claim.policy), None)
    site = next((one for one in meaning.calls if one.call.id == claim.step and isinstance(one.call, ToolCall)), None)
    if policy is None or policy.allow is None or site is None or isinstance(site.call, LlmCall):
        raise Refused(f"there is no allow-list of policy `{claim.policy}`, or no call of a tool in `{claim.step}`")
    entry = next((one for one in policy.allow if one.tool == site.call.tool), None)
    hit = Hit(site.step, site.sub, site.call)
    if entry is not None and entry.when is None:
        return NeverWatcher(meaning, (), None)
    return NeverWatcher(meaning, [hit], entry.when if entry is not None else None, demands=entry is not None)
