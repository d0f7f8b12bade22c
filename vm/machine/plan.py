"""Plans: programs ready to run, with a slot for every name, parsed texts, and the transitions of every step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, assert_never

from stepward.vm.expressions.syntax import all_references
from stepward.vm.expressions.template import embedded, fill
from stepward.vm.journal.canonical import canonical, portable, restored
from stepward.vm.journal.records import document_digest
from stepward.vm.language.automata import automaton_of
from stepward.vm.language.clauses import Clause
from stepward.vm.language.failures import retry_of
from stepward.vm.language.guardrails import AnyRule
from stepward.vm.language.layout import Body
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Source
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.scopes import local_names
from stepward.vm.language.steps import (
    AnyStep,
    BranchStep,
    ComputeStep,
    EndStep,
    Failing,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    Stage,
    ToolCall,
    WaitStep,
    parts,
)
from stepward.vm.language.steps.catching import Retry
from stepward.vm.language.steps.wait import microseconds
from stepward.vm.language.transitions import Transition
from stepward.vm.language.types import TypeSpec, is_sensitive, patterns_of
from stepward.vm.machine.events import Call, Calls
from stepward.vm.machine.monitors import Watch
from stepward.vm.machine.runnable import require_runnable
from stepward.vm.machine.slots import UNDEFINED, empty, put
from stepward.vm.patterns.matching import RE2, PythonPattern

Names = tuple[str, ...]
NOWHERE: Final = -1

OF_STEPS: Final = ("output", "error", "error_name")
"""The values that a step which may fail binds under its id."""


class Computed(NamedTuple):
    """What a `compute` step came to: a frozen value, or the name of an error, and the error in words."""

    value: Any
    name: str = ""
    error: str = ""


Supposed = Callable[[str, int, tuple[Any, ...]], Computed | None]
"""What a `compute` step is supposed to come to, by its id, its visit and the frame; None where it is to be computed."""


class Terms(NamedTuple):
    """Policies that a run came under together, and their rules that were waived then (`policy:rule`)."""

    policies: tuple[Policy, ...]
    waived: frozenset[str] = frozenset()

    def waives(self, policy: Policy, *names: str) -> bool:
        """Return whether a rule of a policy is waived; `names` are the names of the rule."""
        return any(f"{policy.policy}:{name}" in self.waived for name in names)


class CallPlan:
    """A call to a model or a tool, as a step or as a sub-step of a parallel one."""

    def __init__(self, call: LlmCall | ToolCall, sub: int, plan: Plan) -> None:
        self.id, self.sub, self.call = call.id, sub, call
        self.output, self.error = plan.slot((call.id, "output")), plan.slot((call.id, "error"))
        self.error_name = plan.slot((call.id, "error_name")) if plan.names_errors else NOWHERE
        self.variable = NOWHERE if call.output_key is None else plan.slot((call.output_key,))
        self.on_error = call.on_error
        self.attempts = call.max_retries if call.on_error == "retry" else 1
        self.timeout = None if call.timeout_seconds is None else float(call.timeout_seconds)
        match call:
            case LlmCall():
                self.is_model, self.tool, self.allowed = True, "", call.allowed_outputs
                self.deadline: int | None = None
                spec, is_known = ToolSpec(effect="read"), True
            case ToolCall():
                self.is_model, self.tool, self.allowed = False, call.tool, None
                self.deadline = microseconds(call.deadline_seconds)
                spec, is_known = plan.meaning.tool(call.tool), call.tool in plan.meaning.manifest
            case _:
                assert_never(call)
        self.arg_types: Mapping[str, TypeSpec] | None = spec.args
        self.writes = spec.effect == "write"
        self.is_idempotent = spec.idempotent or not self.writes
        self.keeps_key = spec.idempotent
        self.may_suspend = spec.suspends or not is_known
        self.programs: tuple[str, ...] = (plan.program.name,)
        """The names of the programs that it is a call of: that of the run, and of those that are called around it."""
        self.before: frozenset[str] = frozenset()
        """The ids of the sub-steps that it depends on, directly or indirectly."""
        self.has_intent = self.is_durable = self.writes or (self.may_suspend and is_known)  # on the disk at once
        self.is_counted = False
        """Whether its starts have intents only because a rule counts them."""
        self.returns = plan.meaning.typing.effective(plan.meaning.names.outputs[call.id])
        self.has_cost_limit = plan.program.max_cost is not None
        self.errors = spec.errors or ()
        self.tool_facts = plan.meaning.tool
        self.first: Calls | None = None
        is_free = not any(terms.policies for terms in plan.terms)
        if isinstance(call, ToolCall) and self.arg_types is None and is_free and not any(embedded(call.args)):
            self.first = Calls((Call(sub, call.id, 1, 1, 1, fill(call.args, _absent)),))

    def retry_of(self, name: str) -> Retry | None:
        """Return the entry of `retry` that holds for an error of this name, or None."""
        return None if self.call.retry is None else retry_of(self.call, name, self.tool_facts)

    def tries(self, name: str, *, is_unknown: bool) -> int:
        """Return how many attempts there are in all if the present one failed in this way."""
        entry = self.retry_of(name)
        if entry is not None:
            return entry.max_attempts
        return self.call.max_retries if is_unknown else self.attempts

    @property
    def has_fallback(self) -> bool:
        """Whether a time-out may end in the fallback value of the program."""
        return self.call.on_timeout == "fallback"


class StepPlan:
    """A step of the program's list. `is_parallel`: its calls are sub-steps. `subs` are the positions of calls by id.

    `is_computed`: it is a `compute` step; `computes` is the name of its value in records, `returns` its type.
    `left` are the fields of a record by which its success leaves the step, unless it has sub-steps.
    """

    def __init__(self, position: int, step: AnyStep, plan: Plan) -> None:
        self.position, self.id, self.step = position, step.id, step
        self.is_parallel = isinstance(step, ParallelStep)
        self.is_fork, self.is_stage = isinstance(step, ParallelStep) and bool(step.branches), isinstance(step, Stage)
        self.visits = NOWHERE if self.is_stage else plan.slot((step.id, "#visits"))
        self.max_visits = step.max_visits
        self.transitions: dict[str, Transition] = {}
        self.branches: dict[str | int, Transition] = {}
        self.failures: list[Transition] = []
        self.stalls: Transition | None = None
        for transition in plan.meaning.flow.transitions[position]:
            if transition.branch is not None:
                self.branches[transition.branch] = transition
            else:
                self.transitions.setdefault(transition.kind, transition)
                if transition.kind == "failed":
                    self.failures.append(transition)
                self.stalls = transition if transition.kind == "visits" else self.stalls
        self.concurrency = step.max_concurrency if isinstance(step, ParallelStep) else None
        self.part: tuple[int, None] = (position, None)
        self.succeeds = self.transitions.get("success", Transition("success", NOWHERE))
        steps = plan.program.layout.steps
        self.exit_fields = {} if self.is_parallel else successor_fields(steps, self.succeeds)
        self.clauses: list[Clause] = plan.meaning.clauses_of.get(position, [])
        self.output = self.error = self.error_name = self.variable = NOWHERE
        if isinstance(step, Failing):
            self.error_name = plan.slot((step.id, "error_name")) if plan.names_errors else NOWHERE
            self.output, self.error = plan.slot((step.id, "output")), plan.slot((step.id, "error"))
            self.variable = NOWHERE if step.output_key is None else plan.slot((step.output_key,))
        self.calls = tuple(CallPlan(call, sub or 0, plan) for sub, call in step.calls)
        self.subs = {call.id: number for number, call in enumerate(self.calls)}
        self.is_computed, self.computes, self.returns = isinstance(step, ComputeStep), "", None
        if isinstance(step, ComputeStep):
            self.computes = f"{step.id}.output" if step.output_key is None else step.output_key
            self.returns = plan.meaning.typing.effective(plan.meaning.names.outputs[step.id])
        layout = plan.meaning.flow.layout
        owners = layout.owners_of(position)
        outer = [layout.steps[owner] for owner in owners]
        called = outer[-1] if outer and isinstance(step, EndStep) else None
        if isinstance(called, InvokeStep):  # the caller relies on it
            self.returns = plan.meaning.typing.effective(plan.meaning.names.outputs[called.id])
        self.order = plan.meaning.orders.get(position)
        if self.order is not None:
            for call, before in zip(self.calls, self.order.before, strict=True):
                # Who may start next follows from the records, so that every start has one.
                call.has_intent = True
                call.before = frozenset(self.calls[one].id for one in before)
        self.is_in_branch = not layout.sibling_bodies.isdisjoint(owners)
        for call in self.calls:
            call.programs += tuple(name for owner in outer if isinstance(owner, InvokeStep) for name in owner.names)
        for call in self.calls if self.is_in_branch else ():
            call.has_intent |= self.is_parallel or call.is_model
        self.assigned = frozenset(plan.slot((name,)) for name in step.assigns)
        self.cost = 1 + len(step.sub_steps)
        # The arguments of a call come before the rules are asked, and so do the items of a for_each step, and the value
        # of a `compute` step.
        self.is_asked_first = self.is_parallel or not (self.calls or isinstance(step, ForEachStep | ComputeStep))

    def count_starts(self) -> None:
        """Let every start of its calls have an intent: rules that siblings share count it when it happens."""
        for call in self.calls:
            call.is_counted = not call.has_intent
            call.has_intent = True

    def leaving(self, kind: str, name: str) -> Transition | None:
        """Return the transition of an outcome, None if there is none; `name` is that of the error."""
        if kind == "failed" and len(self.failures) > 1:
            return next((one for one in self.failures if one.takes(name)), None)
        return self.transitions.get(kind)


class BodyPlan:
    """The body of a for_each step or of a branch, by slots and positions; `most_beside` items run at once.

    `carried` are the slots of the variables that items carry on, and `start_values` what these start with: a value, and
    the tree of an expression if it is computed, by the names that a called program has for them; `inside` has those
    here.
    `counts` are the slots of the visits of its steps, `locals` all others that are undefined when an item starts, and
    `blank` the changes by which both are so. `is_once`: it is performed once, and its output is that of the step.
    `result` is the slot of the output of `do`, NOWHERE for a list of steps.
    """

    def __init__(self, plan: Plan, body: Body, step: ForEachStep) -> None:
        layout = plan.program.layout
        self.owner, self.first, self.next = body.owner, body.first, body.next
        self.failed = NOWHERE if body.failed is None else body.failed
        max_items = plan.meaning.most_items(body.owner)
        assert max_items is not None, "a program without a bound on items has no plan"
        self.max_items = max_items
        self.stops = step.on_item_error == "fail"
        self.attempts = step.max_retries if step.on_error == "retry" else 1
        self.is_branch = isinstance(step, BranchStep)
        self.is_once = step.is_once
        self.most_beside = step.max_concurrency
        self.is_beside = step.is_beside
        self.item = NOWHERE if self.is_once else plan.slot((step.item_name,))
        self.index = NOWHERE if step.index_as is None else plan.slot((step.index_as,))
        self.errors = NOWHERE if self.is_once else plan.slot((step.id, "errors"))
        carry = step.carry
        trees = {clause.name: clause.tree for clause in plan.meaning.clauses_of.get(body.owner, ())}
        start = len(step.inside("")) if isinstance(step, InvokeStep) else 0
        self.start_values = tuple((name[start:], value, trees.get(name)) for name, value in sorted(carry.items()))
        self.inside = {name[start:]: name for name in carry}
        self.carried = {name: plan.slot((name,)) for name in carry}
        names: set[Names] = {(name,) for name in local_names(layout, body.owner)}
        counts: list[int] = []
        for number in layout.inside(body.owner):
            inner = layout.steps[number]
            if not isinstance(inner, Stage):
                counts.append(plan.slot((inner.id, "#visits")))
            names |= {(part.id, kind) for _, part in parts(inner) if part.has_output for kind in OF_STEPS}
            is_each = isinstance(inner, ForEachStep) and not inner.is_once
            names |= {(inner.id, "errors")} if is_each else set()
        self.locals = tuple(sorted(map(plan.slot, names)))
        self.counts = tuple(counts)
        self.blank: list[tuple[int, Any]] = [(slot, UNDEFINED) for slot in self.locals]
        self.blank += [(slot, (0, 0)) for slot in counts]
        self.result = NOWHERE if step.do is None else plan.slot((step.do.id, "output"))


class Plan:
    """A program under its policies, ready to run. Equal programs and policies give equal plans.

    `policies` are those that apply; `waived` are their rules that this run may break: `policy:rule`. `later` are the
    terms that the run came under when a machine continued it: their rules hold in addition. The facts about tools stay
    those of the start of the run, because its records are read with them. `meaning` is that of the program under these
    policies, where it is known. `has_sensitive`: a value can be sensitive; `waits`: a run can wait for a time;
    `lasts` is how long it may take, in microseconds, None without a limit.
    Raises ProgramError for a program without a clear meaning: SW005, SW101, SW106, SW109 and SW301.
    """

    supposed: Supposed | None = None
    """What `compute` steps are supposed to come to: only the replay of a witness says so."""
    one_by_one = False
    """Whether branches run one after another, and waits are over at once: only the replay of a witness asks for it."""

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy] = (),
        waived: Sequence[str] = (),
        later: Sequence[Terms] = (),
        meaning: Meaning | None = None,
    ) -> None:
        self.program = program
        self.policies, self.waived = tuple(policies), frozenset(waived)
        self.terms = (Terms(self.policies, self.waived), *later)
        self.names_errors = program.language == 2
        self.max_steps, self.max_stalled = program.max_steps, program.max_stalled_steps
        self.lasts = microseconds(program.timeout_seconds)
        self.model_budgets = program.model_budgets
        self.document = document_of(program)
        self.digest = document_digest(self.document)
        self.policy_documents = {document_digest(text): text for text in map(document_of, self.policies)}
        self.policy_digests = tuple(self.policy_documents)
        self.digests = (self.digest, *self.policy_digests)
        self.meaning = meaning or meaning_under(program, self.policies)
        self.patterns = self._dialect()
        self.has_sensitive = any(map(is_sensitive, self._types()))
        start = {"policies": self.policy_digests, "program": self.digest, "waived": tuple(sorted(self.waived))}
        self.start = start | ({} if self.patterns is None else {"patterns": self.patterns})
        """The fields of the first record of its runs that all of them have."""
        require_runnable(self.meaning)
        self._slots: dict[Names, int] = {}
        self._located: dict[Names, tuple[int, Names] | None] = {}
        self.inputs = self._inputs()
        self.input_types = {name: self.meaning.typing.effective(source) for name, source in self.inputs.items()}
        for name in (*self.inputs, *self.meaning.names.variables):
            self.slot((name,))
        layout, self.forks = program.layout, program.layout.forks
        branches = [(at, number, one) for at, fork in self.forks.items() for number, one in enumerate(fork.branches)]
        self.numbers = {(at, layout.steps[one].id): number for at, number, one in branches}
        self.steps = tuple(StepPlan(position, step, self) for position, step in enumerate(layout.steps))
        self.calls = {call.id: call for step in self.steps for call in step.calls}
        self.most_cost = max(step.cost for step in self.steps)
        has_deadline = any(call.deadline is not None for call in self.calls.values())
        self.waits = has_deadline or any(isinstance(step, WaitStep) for step in layout.steps)
        self.bodies = {
            owner: BodyPlan(self, body, step)
            for owner, body in layout.bodies.items()
            if isinstance(step := layout.steps[owner], ForEachStep)
        }
        self.slots = put(empty(len(self._slots)), [(step.visits, (0, 0)) for step in self.steps if not step.is_stage])
        self.watch = Watch(self._in_force(), self.meaning)
        """The monitors of the guardrails in force."""
        for counted in filter(self.is_counted, self.steps):
            counted.count_starts()

    def is_counted(self, step: StepPlan) -> bool:
        """Return whether a rule that siblings share is about the starts of a step in a branch."""
        return step.is_in_branch and step.part in self.watch.guarded

    def _inputs(self) -> dict[str, Source]:
        if self.program.inputs is not None:
            return {name: Source("input", name, ("inputs", name)) for name in self.program.inputs}
        found: dict[str, Source] = {}
        for names in self._references():
            resolution = self.meaning.names.meaning(names)
            if resolution is not None and resolution.sources[0].kind == "input":
                found[resolution.sources[0].name] = resolution.sources[0]
        return dict(sorted(found.items()))

    def _references(self) -> Iterator[Names]:
        for clause in self.meaning.clauses:
            if clause.tree is not None:
                yield from (reference.names for reference in all_references(clause.tree))
        for step in self.program.layout.steps:
            for template in step.templates:
                yield from (found.reference.names for found in embedded(template.value))

    def slot(self, names: Names) -> int:
        """Return the slot of `(variable,)`, or of `(step, what)`: `output`, another value of a step, or `#visits`."""
        return self._slots.setdefault(names, len(self._slots))

    def stored(self, name: str) -> int:
        """Return the slot of a variable that a record names; raises KeyError for one that the program does not have."""
        return self._slots[name,]

    def locate(self, names: Names) -> tuple[int, Names] | None:
        """Return the slot of a reference and the fields below, or None if nothing ever defines it."""
        if names not in self._located:
            located = self.meaning.names.locate(names)
            slot = None if located is None else self._slots.get(located[0])
            self._located[names] = None if slot is None or located is None else (slot, located[1])
        return self._located[names]

    def _in_force(self) -> Iterator[tuple[AnyRule, Meaning]]:
        """Yield the rules in force, each with its meaning: those of the program, then those of all terms of the run.

        The rules of terms apply to tools as the policies of those terms describe them.
        """
        for number, terms in enumerate(self.terms):
            meaning = meaning_under(self.program, (*self.policies, *terms.policies)) if number else self.meaning
            for rule, policy in meaning.rules[len(self.meaning.rules) if number else 0 :]:
                if policy is None or not _is_waived(rule, policy, terms):
                    yield rule, meaning

    @cached_property
    def _digests(self) -> list[tuple[str, ...]]:
        digests = [self.policy_digests]
        for terms in self.terms[1:]:
            own = [policy_digest(policy) for policy in terms.policies]
            digests.append(tuple(dict.fromkeys((*digests[-1], *own))))
        return digests

    def digests_under(self, governed: int) -> tuple[str, ...]:
        """Return the digests of all policies that a run is under after `governed` later terms."""
        return self._digests[governed] if governed else self.policy_digests

    @cached_property
    def allowing(self) -> tuple[Policy, ...]:
        """The policies whose allow-lists are in force."""
        return tuple(
            policy
            for terms in self.terms
            for policy in terms.policies
            if policy.allow is not None and not terms.waives(policy, "allow", "SW403")
        )

    @cached_property
    def performing(self) -> tuple[Policy, ...]:
        """The policies that name writes of the runs before this one."""
        return tuple(policy for terms in self.terms for policy in terms.policies if policy.performed)

    @cached_property
    def four_eyes(self) -> dict[str, Policy]:
        """The tools whose calls the person who started the run may not settle, each with a policy that forbids it."""
        return {
            tool: policy
            for terms in reversed(self.terms)
            for policy in reversed(terms.policies)
            for tool in policy.four_eyes or ()
            if not terms.waives(policy, "four_eyes")
        }

    def _dialect(self) -> str | None:
        """Return the dialect of the program's patterns for its journal, or None.

        It is None without patterns, and for runs that were recorded before journals named the dialect.
        """
        found = (pattern for spec in self._types() for pattern in patterns_of(spec))
        return RE2 if any(not isinstance(pattern, PythonPattern) for pattern in found) else None

    def _types(self) -> Iterator[TypeSpec]:
        """Yield every type that the program or a policy declares."""
        specs: list[TypeSpec | None] = [*(self.program.inputs or {}).values()]
        for tool in self.meaning.manifest.values():
            specs += [tool.returns, *(tool.args or {}).values()]
        specs += [site.call.returns for site in self.meaning.calls if isinstance(site.call, LlmCall)]
        steps = self.program.layout.steps
        specs += [step.returns for step in steps if isinstance(step, ComputeStep)]
        specs += [spec for step in steps if isinstance(step, InvokeStep) for spec in step.declared.values()]
        yield from (spec for spec in specs if spec is not None)

    @cached_property
    def suspends(self) -> bool:
        """Whether some tool of the program may suspend a run."""
        return any(call.may_suspend for call in self.calls.values())

    @cached_property
    def names_of_slots(self) -> dict[int, str]:
        """The references of the slots that hold values: `name` or `step.output`, without the dollar sign."""
        return {slot: ".".join(names) for names, slot in self._slots.items() if names[-1] != "#visits"}


def successor_fields(steps: Sequence[AnyStep | StepPlan], transition: Transition) -> dict[str, Any]:
    """Return the fields of a record for a transition: the next step, or how the run or the body ends."""
    if transition.ending is None:
        return {} if transition.to < 0 else {"next": steps[transition.to].id}
    word = "closes" if transition.to >= 0 else "ends"
    return {word: transition.ending.status, "reason": transition.ending.reason}


def meaning_under(program: Program, policies: Sequence[Policy]) -> Meaning:
    """Return the meaning of a program under policies, whether or not their `applies_to` names it.

    Whether they apply was decided when the run came under them: the stored program has no path.
    """
    return Meaning(program, [policy.model_copy(update={"applies_to": None}) for policy in policies])


def _is_waived(rule: AnyRule, policy: Policy, terms: Terms) -> bool:
    """Return whether terms waive a rule of a policy, by its name or by all codes of its findings."""
    codes = automaton_of(rule).codes
    return terms.waives(policy, rule.name) or all(terms.waives(policy, code) for code in codes)


def policy_digest(policy: Policy) -> str:
    """Return the digest under which a policy is stored."""
    return document_digest(document_of(policy))


def document_of(thing: Program | Policy) -> bytes:
    """Return the bytes of a program or policy as it is stored."""
    return canonical(portable(thing.to_data())).encode()


def read_document(text: bytes) -> Any:
    """Return the plain data of a stored program or policy."""
    return restored(json.loads(text), _absent)


def _absent(*found: Any) -> Any:
    raise AssertionError(f"neither a reference nor a sensitive value can be here: `{found}`")
