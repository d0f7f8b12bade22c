"""Replay: runs a witness on the real machine, and observes the result.

The machine gets a journal in memory, a clock without waiting, and the script of the witness as its tools and its model.
The violation is confirmed iff the journal has the rejection by exactly that rule at exactly that step or, for
`followed_by`, the run ends there with the obligation open; for SW202, iff the step that reads the reference is blocked
while it is undefined; for SW302 and SW305, iff the condition takes no branch, or takes one while a later one holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final, TypeVar

from stepward.validator.engine.witnesses.claimed_calls import called_with, in_one_call, with_claimed
from stepward.validator.engine.witnesses.observed import (
    Asked,
    ObservedRun,
    Unstarted,
    calls_of,
    history_of,
    moves_of,
    records_of,
    started_ahead,
)
from stepward.validator.engine.witnesses.played_runs import Played, PlayedRuns, outside_loops
from stepward.validator.engine.witnesses.witness import CallAnswer, Claim, Witness
from stepward.validator.findings import Move
from stepward.vm.errors import DocumentError, ExpressionError, StepwardError
from stepward.vm.expressions.parser import parse
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.guardrails import AnyRule, AtMostOnce, Exclusive, Never, Requires, StepSelector, has_past
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.selectors import Match, matches
from stepward.vm.language.steps import InvokeStep, ToolCall
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.language.within import applying
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.history import History
from stepward.vm.machine.models import ANY_NAME, ModelReply, ModelRequest
from stepward.vm.machine.plan import Computed, Plan
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Limits
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, ToolError

T = TypeVar("T")

ERROR: Final = "it fails in this witness"
"""The error of a call that fails in a witness."""

STARTER: Final = "somebody"
"""Who starts the run of a witness, where a policy asks for a name."""

MAX_MACHINES: Final = 8
"""The most machines that are cached, each with its plan of the program."""

MAX_RULE_SETS: Final = 24
"""The most sets of rules for one witness."""


class WitnessNotReplayed(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """The machine refuses to start the run of a witness because of its inputs or its program."""


class _Clock(ManualClock):
    """A clock without waiting. Only the script makes a call late."""

    is_late = False

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:  # noqa: ARG002
        """Return the awaited result; raises TimeoutError when the script says that it took too long."""
        self.is_late = False
        result = await awaited
        if self.is_late:
            raise TimeoutError
        return result


class _Script:
    """The tools and the model of a witness; `missing` is the first call for which the witness has no answer.

    What it says of a `compute` step is supposed: to the proofs its value is any one of its type.
    """

    def __init__(self) -> None:
        self.clock = _Clock()
        self.answers: dict[tuple[str, int, int | None], CallAnswer] = {}
        self.missing: Asked | None = None
        self.visit_numbers: dict[str, dict[tuple[tuple[Any, ...], int], int]] = {}

    def play(self, script: tuple[CallAnswer, ...]) -> None:
        """Start over with another script."""
        self.answers = {(answer.step, answer.visit, answer.attempt): answer for answer in script}
        self.missing = None
        self.visit_numbers = {}

    def supposed(self, step: str, visit: int, frame: tuple[Any, ...]) -> Computed | None:
        """Return what a `compute` step is supposed to come to; None where the witness leaves it to the machine."""
        answer = self.answers.get((step, self._visit(step, visit, frame), None))
        if answer is None:
            return None
        return Computed(answer.value) if answer.does == "returns" else Computed(None, answer.error or UNEXPECTED, ERROR)

    def has(self, name: str) -> bool:  # noqa: ARG002
        """Return true: calls are answered by step, independent of the tool."""
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:  # noqa: ARG002
        """Return the output of a tool, or raise."""
        visit = self._visit(context.step, context.visit, context.frame)
        return self._answer(context.step, visit, context.attempt)

    names = ANY_NAME

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the model, or raise."""
        visit = self._visit(request.step, request.visit, request.frame)
        return ModelReply(self._answer(request.step, visit, request.attempt))

    def _visit(self, step: str, visit: int, frame: tuple[Any, ...]) -> int:
        """Return the number of the visit; in a body, counted over all its items, as the path counts them."""
        if not frame:
            return visit
        numbers = self.visit_numbers.setdefault(step, {})
        return numbers.setdefault((frame, visit), len(numbers) + 1)

    def _answer(self, step: str, visit: int, attempt: int) -> Any:
        answer = self.answers.get((step, visit, attempt)) or self.answers.get((step, visit, None))
        if answer is None:
            self.missing = self.missing or (step, visit, attempt)
            raise RuntimeError("the witness does not say")
        if answer.does == "fails":
            raise ToolError(answer.error, ERROR) if answer.error else RuntimeError(ERROR)
        if answer.does == "returns no value":
            return object()
        if answer.does == "misses its deadline":
            return Suspend()
        if answer.does == "in doubt":
            raise InDoubt("nobody knows in this witness")
        self.clock.is_late = answer.does == "times out"
        return answer.value


class _Machine(ExecutionVM):
    """A machine that supposes what a script says of `compute` steps."""

    def __init__(self, script: _Script, rule_set: _RuleSet, max_steps: int) -> None:
        super().__init__(
            script,
            script,
            MemoryJournal(),
            rule_set.policies,
            checker=None,
            clock=script.clock,
            limits=Limits(steps=max_steps),
            retry_delay=lambda _: 0.0,
        )
        self._script = script
        self.played = PlayedRuns()
        self._plans[id(rule_set.program)] = rule_set.program, rule_set.plan, None

    def _plan(self, program: Program) -> Plan:
        plan = super()._plan(program)
        plan.supposed = self._script.supposed
        plan.one_by_one = True  # the order of the path
        return plan


@dataclass(frozen=True)
class Replayed:
    """The result of a replay.

    `why` describes the violation, or what happened instead. `set_aside` are the rules that had to be left out because
    one of them stops this run before the claimed violation. `moves` is the path of the run, `unstarted` the steps that
    did not start, `missing` the first call for which the witness has no answer.
    """

    confirmed: bool
    why: str
    moves: tuple[Move, ...]
    run: Run
    journal: MemoryJournal
    set_aside: tuple[str, ...] = ()
    unstarted: tuple[Unstarted, ...] = ()
    missing: Asked | None = None

    @property
    def is_barred(self) -> bool:
        """Whether a rule prevented the start of something."""
        return any(one.rule for one in self.unstarted)

    def history(self) -> History:
        """Return the history of the run from its journal."""
        return history_of(self.journal, self.run)


@dataclass(frozen=True)
class _RuleSet:
    """The rules for a run of a witness: a program and its policies, and the names of the rules set aside."""

    program: Program
    policies: tuple[Policy, ...]
    set_aside: tuple[str, ...] = ()
    meaning: Meaning | None = None  # that of the program under these policies, where it is known

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.program, applying(self.program, self.policies), meaning=self.meaning)


def replay(witness: Witness) -> Replayed:
    """Run a witness on the machine; raises Refused where the machine does not start it."""
    return Replayer(witness.program, witness.policies).replay(witness)


class Replayer:
    """Replays witnesses of one program under its policies; `steps` counts the records of all runs so far.

    `meaning` is that of the program under the policies, where it is known; whether they have waivers does not matter.
    """

    def __init__(self, program: Program, policies: tuple[Policy, ...], meaning: Meaning | None = None) -> None:
        self.program = program
        self.policies = policies
        self.steps = 0
        self._script = _Script()
        self._visit_numbers: Mapping[str, Mapping[tuple[tuple[Any, ...], int], int]] = {}
        self._known = meaning
        self._whole = _readable(program, policies, meaning)
        self._alone: dict[tuple[str | None, str | None], tuple[_RuleSet, list[AnyRule]]] = {}
        self._restricted: dict[Claim, list[_RuleSet]] = {}
        self._machines: dict[tuple[int, int], tuple[_RuleSet, _Machine]] = {}
        self._runs = 0
        self._moves: tuple[Move, ...] = ()  # those of the last run
        self._each = frozenset(program.layout.steps[number].id for number in program.layout.bodies)
        self._ahead, self._calls = started_ahead(program.layout), calls_of(program.layout)
        self._owners = {part.id: step.id for step in program.layout.steps for part in step.sub_steps}

    def replay(self, witness: Witness) -> Replayed:
        """Run a witness under all rules; while another rule stops the run too early, run it again under fewer rules.

        First all other rules are set aside, then the claimed rule is restricted to the claimed step: the machine stops
        a run at the first violation, but a finding can be about a later one. If no run confirms the violation, the
        result is the run under the claimed rule alone, because the stops of other rules show nothing about it.
        """
        # If another rule stops the run, a missing Q does not break this one.
        number = 0 if self._is_named_once(witness.claim) and witness.claim.code != "SW405" else 1
        first = replayed = self._replayed(witness, number)
        # A restricted rule that stops nothing shows nothing about the next one, which may be for another pair of steps.
        while (
            not replayed.confirmed
            and (replayed.is_barred or number > 1)
            and number + 1 < len(self._rule_sets(witness.claim))
        ):
            number += 1
            replayed = self._replayed(witness, number)
            first = replayed if number == 1 else first
        self._moves = replayed.moves
        return replayed if replayed.confirmed else first

    def with_errors(self, path: tuple[Move, ...]) -> tuple[Move, ...]:
        """Return a path whose failures have the names of the errors in the last run, as far as that takes the path."""
        moves = list(path)
        for number, (move, took) in enumerate(zip(path, self._moves, strict=False)):
            if took != move:
                break
            moves[number] = replace(move, error=took.error if move.error else "")
        return tuple(moves)

    def frames(self) -> Mapping[str, list[tuple[Any, ...]]]:
        """Return the frames in which the last run made each call, in the order of its visits."""
        return {step: [frame for frame, _ in places] for step, places in self._visit_numbers.items()}

    def _is_named_once(self, claim: Claim) -> bool:
        """Whether a rejection that names the rule is unambiguous: two policies may use one name."""
        own_rules = (*self.program.guardrails, *(rule for rule, _ in self._meaning.body_rules))
        homes: list[tuple[str | None, tuple[AnyRule, ...]]] = [(None, own_rules)]
        homes += [(policy.policy, policy.guardrails) for policy in self.policies]
        owners = {home for home, rules in homes if any(rule.name == claim.rule for rule in rules)}
        return claim.rule in (None, "allow") or owners == {claim.policy}

    def _rule_sets(self, claim: Claim) -> list[_RuleSet]:
        key = (claim.rule, claim.policy)
        if key not in self._alone:
            self._alone[key] = _alone(self._whole, claim)
        alone, claimed = self._alone[key]
        if claim not in self._restricted:
            self._restricted[claim] = list(islice(_narrow(alone, claimed, claim, self._meaning), MAX_RULE_SETS))
        return [self._whole, alone, *self._restricted[claim]]

    @cached_property
    def _meaning(self) -> Meaning:
        return self._known or Meaning(self.program, self.policies)

    # -- one run -------------------------------------------------------------------------------------------------------

    def _replayed(self, witness: Witness, number: int) -> Replayed:
        rule_set = self._whole if number == 0 else self._rule_sets(witness.claim)[number]
        try:
            machine = self._machine(rule_set, witness.max_steps)
            played = machine.played.get(witness, lambda: self._play(machine, rule_set, witness))
        except DocumentError as error:
            raise WitnessNotReplayed(error.problems[0].message) from None
        except StepwardError as error:
            raise WitnessNotReplayed(str(error)) from None
        self._visit_numbers = played.visit_numbers
        self.steps += len(played.records)  # a search ends where it would without runs that are kept
        journal = machine.journal
        assert isinstance(journal, MemoryJournal)
        parts = frozenset(part for part, owner in self._owners.items() if owner == witness.claim.step)
        own_parts, around = parts | {witness.claim.step}, self._around(witness.claim.step)
        observed = ObservedRun(witness.claim, own_parts, played.run, played.records, journal, played.missing, around)
        violation = observed.violation()
        return Replayed(
            violation is not None,
            violation or observed.instead(),
            played.moves,
            played.run,
            journal,
            rule_set.set_aside,
            tuple(observed.unstarted()),
            played.missing,
        )

    def _play(self, machine: _Machine, rule_set: _RuleSet, witness: Witness) -> Played:
        self._script.play(witness.script)
        self._runs += 1
        name = f"witness-{self._runs}"
        by = STARTER if any(policy.four_eyes for policy in rule_set.policies) else None
        run = outside_loops(lambda: machine.run_sync(rule_set.program, witness.inputs, run_id=name, by=by))
        assert isinstance(machine.journal, MemoryJournal)
        records = tuple(records_of(machine.journal, name))
        moves = tuple(moves_of(records, self._owners, self._each, self._ahead, self._calls))
        return Played(run, records, moves, self._script.missing, self._script.visit_numbers)

    def _around(self, name: str) -> frozenset[str]:
        """Return the steps around a step whose branches or items run at once."""
        layout = self.program.layout
        numbers = [number for number, step in enumerate(layout.steps) if step.id == name]
        owners = (owner for number in numbers for owner in (*layout.owners_of(number), number))
        return frozenset(
            layout.steps[layout.fork_at(owner).owner if owner in layout.forked else owner].id
            for owner in owners
            if owner in layout.sibling_bodies
        )

    def _machine(self, rule_set: _RuleSet, max_steps: int) -> _Machine:
        key = (id(rule_set), max_steps)
        if key not in self._machines:
            if len(self._machines) >= MAX_MACHINES:
                del self._machines[next(iter(self._machines))]
            self._machines[key] = rule_set, _Machine(self._script, rule_set, max_steps)
        return self._machines[key][1]


# -- rules set aside ---------------------------------------------------------------------------------------------------


def _readable(program: Program, policies: tuple[Policy, ...], meaning: Meaning | None) -> _RuleSet:
    """Return program and policies without the rules that do not parse: the machine refuses a program with one."""
    unread = [rule for rule in program.guardrails if isinstance(rule, Never) and not _is_read(rule.when)]
    if not unread:
        return _RuleSet(program, policies, meaning=meaning)
    readable_rules = tuple(rule for rule in program.guardrails if rule not in unread)
    return _RuleSet(
        program.model_copy(update={"guardrails": readable_rules}), policies, tuple(rule.name for rule in unread)
    )


def _is_read(when: str | None) -> bool:
    try:
        return when is None or parse(when) is not None
    except ExpressionError:
        return False


def _alone(whole: _RuleSet, claim: Claim) -> tuple[_RuleSet, list[AnyRule]]:
    """Return program and policies with only the claimed rule, and that rule."""
    program, policies = whole.program, whole.policies
    others = list(whole.set_aside)
    claimed: list[AnyRule] = []

    def only_claimed(rules: tuple[AnyRule, ...], policy: str | None) -> tuple[AnyRule, ...]:
        kept_rules = tuple(rule for rule in rules if policy == claim.policy and rule.name == claim.rule)
        others.extend(rule.name for rule in rules if rule not in kept_rules)
        claimed.extend(kept_rules)
        return kept_rules

    bare = program.model_copy(update={"guardrails": only_claimed(program.guardrails, None)})
    if program.layout.bodies:
        bare = bare.model_copy(update={"steps": tuple(with_claimed(step, claim, others) for step in program.steps)})
    if program.programs:
        called = {name: called_with(one, claim, others) for name, one in program.programs.items()}
        bare = bare.model_copy(update={"programs": called})
    changed: list[Policy] = []
    for policy in policies:
        update: dict[str, Any] = {"guardrails": only_claimed(policy.guardrails, policy.policy)}
        if policy.allow is not None and (policy.policy != claim.policy or claim.rule != "allow"):
            update["allow"] = None
            others.append("allow")
        if policy.performed:  # whether a call repeats an earlier one is no question of the claim
            update["performed"] = ()
            others.append("performed")
        changed.append(policy.model_copy(update=update))
    if claim.policy is None:  # a rule of a called program may be claimed in one call, and stop the run in another
        calls = [step for step in program.layout.steps if isinstance(step, InvokeStep)]
        within = [rule for step in calls for rule in step.guardrails]
        claimed.extend(rule for rule in within if rule.name == claim.rule and isinstance(rule, Never | Requires))
    return _RuleSet(bare, tuple(changed), tuple(others)), claimed


def _narrow(alone: _RuleSet, claimed: list[AnyRule], claim: Claim, meaning: Meaning) -> Iterator[_RuleSet]:
    """Yield sets of rules in which the claimed rule is restricted to the claimed call, and to the claimed step."""
    only = in_one_call(alone.program, claim.rule or "")
    if only is not None:
        yield _RuleSet(only, alone.policies, (*alone.set_aside, f"{claim.rule} in other calls"))
    set_aside = (*alone.set_aside, f"{claim.rule} at other steps")
    for rule in claimed:
        for narrow in _narrowed(rule, claim, meaning):
            # A rule that begins where an earlier run left it stands in its policy: a program can't have one.
            is_here = has_past(narrow)
            policies = tuple(
                policy.model_copy(update={"guardrails": (narrow,) if is_here and policy.policy == claim.policy else ()})
                for policy in alone.policies
            )
            program = alone.program if is_here else alone.program.model_copy(update={"guardrails": (narrow,)})
            yield _RuleSet(program, policies, set_aside)
    if claim.rule != "allow":
        return
    others = tuple(policy.model_copy(update={"allow": None}) for policy in alone.policies)
    for policy in alone.policies:
        for rule in _forbidden_here(policy, claim, meaning):
            yield _RuleSet(alone.program.model_copy(update={"guardrails": (rule,)}), others, set_aside)


def _narrowed(rule: AnyRule, claim: Claim, meaning: Meaning) -> Iterator[AnyRule]:
    """Yield rules that restrict a rule to the claimed step."""
    step = meaning.flow.position.get(claim.step)
    if isinstance(rule, Requires | Never):
        field = "protects" if isinstance(rule, Requires) else "never"
        for hit in matches(getattr(rule, field), meaning):
            if hit.step == step:
                yield rule.model_copy(update={field: StepSelector(step=hit.part.id)})
    elif isinstance(rule, AtMostOnce):
        hits = matches(rule.at_most_once, meaning)
        for hit in hits:
            if hit.step == step:
                yield rule.model_copy(update={"at_most_once": StepSelector(step=hit.part.id)})
                yield from (_both(rule, other, hit) for other in hits if other != hit)
    elif isinstance(rule, Exclusive):
        sides = [matches(side, meaning) for side in rule.exclusive]
        for side, (left, right) in enumerate((sides, sides[::-1])):
            for hit in left:
                if hit.step == step:
                    yield from (_both(rule, other, hit) for other in right)
                    if rule.already[1 - side]:
                        pair = [StepSelector(step=hit.part.id), rule.exclusive[1 - side]]
                        yield rule.model_copy(update={"exclusive": tuple(pair if side == 0 else pair[::-1])})


def _both(rule: AnyRule, first: Match, second: Match) -> AnyRule:
    return Exclusive(name=rule.name, exclusive=(StepSelector(step=first.part.id), StepSelector(step=second.part.id)))


def _forbidden_here(policy: Policy, claim: Claim, meaning: Meaning) -> Iterator[AnyRule]:
    """Yield the allow-list as rules about the calls of the claimed step alone."""
    step = meaning.flow.position.get(claim.step)
    conditions = {entry.tool: entry.when for entry in policy.allow or ()}
    for site in meaning.calls:
        if site.step == step and isinstance(site.call, ToolCall):
            when = conditions.get(site.call.tool)
            if site.call.tool not in conditions or when is not None:
                forbidden = None if when is None else f"not ({when})"
                yield Never(name="allow", never=StepSelector(step=site.call.id), when=forbidden)
