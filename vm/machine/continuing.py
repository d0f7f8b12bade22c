"""What a run leaves for the one that continues it: its rules as they stand, its writes, what is left of its budgets.

All of it follows from records, so that a verifier derives it again and compares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from decimal import Decimal
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import is_sealed
from stepward.vm.language.guardrails import AnyRule, plain_rule
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.past import continued
from stepward.vm.language.policy import Performed, Policy, plain
from stepward.vm.language.program import Program
from stepward.vm.language.steps import LlmCall
from stepward.vm.language.steps.wait import LONGEST_WAIT
from stepward.vm.machine.effects import digest_of_arguments
from stepward.vm.machine.events import MOVED
from stepward.vm.machine.history import History, fold
from stepward.vm.machine.monitors import Watch
from stepward.vm.machine.plan import meaning_under
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.state import Each, State
from stepward.vm.values import arithmetic, exact

ENDINGS: Final = ("BUDGET_EXCEEDED", "STALLED")
"""How a run ends that may be continued; after FAILED only somebody who asks for it may."""

BUDGETS: Final = {"steps": "max_steps", "tokens": "max_tokens", "cost": "max_cost", "time": "timeout_seconds"}
"""The budgets of a chain, each with the field of a program that bounds it. Time is in seconds."""

FRACTIONS: Final = ("cost", "time")
"""The budgets that need not be whole numbers."""

_FOR_MODELS: Final = ("tokens", "cost")
"""The budgets that only calls of models use up."""

_AFTER_THE_END: Final = ("refused", "erased", "cancel")
"""The records that others may append to a run that has stopped."""


class Continues(NamedTuple):
    """What the first record of a continuation says: the run that it continues, and the digest of that run's head.

    `reads` are its inputs, each with the variable or output of that run that it has; `number` counts continuations
    from 1. `granted` is what the operator has added to the budgets.
    """

    run: str
    head: str
    reads: Mapping[str, str]
    number: int
    granted: Mapping[str, Any]


def continues_of(body: Mapping[str, Any]) -> Continues | None:
    """Return what a first record says of the run before, or None; raises TypeError or KeyError if it is malformed."""
    data = body.get("continues")
    if data is None:
        return None
    found = Continues(data["run"], data["head"], data["reads"], data["number"], data.get("granted", {}))
    kinds = (str, str, int)
    is_fine = tuple(map(type, (found.run, found.head, found.number))) == kinds and found.number > 0
    reads, granted = found.reads, found.granted
    is_fine = is_fine and isinstance(reads, dict) and all(isinstance(one, str) for one in reads.values())
    is_fine = is_fine and isinstance(granted, dict) and granted.keys() <= BUDGETS.keys()
    if not is_fine or len(data) != 4 + ("granted" in data):
        raise TypeError("it is no continuation")
    return found


class Start(NamedTuple):
    """How a continuation starts: the names of its inputs, and what it reads into them."""

    inputs: Collection[str]
    reads: Mapping[str, str]

    @classmethod
    def of(cls, history: History) -> Start:
        """Return the start of a continuation that was recorded."""
        continues = continues_of(history.events[0].body)
        return cls(history.plan.inputs, {} if continues is None else continues.reads)

    def assigned(self) -> frozenset[str]:
        """Return the inputs that do not go on with the value that the run before had under their name."""
        return frozenset(name for name in self.inputs if self.reads.get(name) != name)


def id_after(chain: Sequence[str]) -> str:
    """Return the only id that the continuation of a chain can have: so a run is continued once, and found again."""
    return f"{chain[0]}~{len(chain)}"


# -- policies ----------------------------------------------------------------------------------------------------------


def base_policies(chain: Sequence[History], others: Iterable[Policy]) -> list[Policy]:
    """Return the policies for the continuation of a chain, as they are at its start, each with a name of its own.

    They are those of the last run, one with the rules and tools of its program, one for the effects, and `others`.
    """
    last = chain[-1]
    program = last.plan.program
    rules = tuple(map(plain_rule, program.guardrails))
    tools = last.plan.meaning.manifest if program.programs else program.tools  # those of called programs, too
    data: dict[str, Any] = {"policy": _program_name(last.run), "guardrails": rules, "tools": tools}
    effects_only = {name: value for name, value in data.items() if value}
    found: dict[str, Policy] = {}
    for policy in (
        Policy.model_construct({"policy"}, policy=_effects_name(chain)),
        *(plain(policy) for terms in last.plan.terms for policy in terms.policies),
        Policy.model_construct(set(effects_only), **effects_only),
        *map(plain, others),
    ):
        name, number = policy.policy, 1
        while name in found and found[name].to_data() != {**policy.to_data(), "policy": name}:
            number += 1
            name = f"{policy.policy} ({number})"
        found[name] = policy if name == policy.policy else policy.model_copy(update={"policy": name})
    return list(found.values())


def _program_name(run: str) -> str:
    return f"program of {run.replace(':', '-')}"


def _effects_name(chain: Sequence[History]) -> str:
    return f"effects of {chain[0].run.replace(':', '-')}"


def derived_policies(chain: Sequence[History], base: Sequence[Policy], start: Start) -> tuple[Policy, ...]:
    """Return the policies of a continuation: `base` in the state in which the runs of a chain have left them.

    `start` is that of the continuation. The rules of a program count from its run on.
    """
    policies, starts = list(base), [*(Start.of(one) for one in chain[1:]), start]
    first = {_program_name(history.run): number for number, history in enumerate(chain)}
    for number, (history, following) in enumerate(zip(chain, starts, strict=True)):
        assigned = following.assigned() | _left_behind(history)
        memories = iter(_memories(history, policies))
        meaning = meaning_under(history.plan.program, policies)
        for place, policy in enumerate(policies):
            rules = [(rule, next(memories)) for rule in policy.guardrails]
            if rules and first.get(policy.policy, 0) <= number:
                changed = tuple(continued(rule, memory, meaning, assigned) for rule, memory in rules)
                policies[place] = policy.model_copy(update={"guardrails": changed})
    effects = _effects_name(chain)
    performed = tuple(dict.fromkeys(write for history in _interrupted(chain) for write in _writes(history)))
    return tuple(
        policy.model_copy(
            update={"continues": chain[0].run}
            | ({"performed": performed} if policy.policy == effects and performed else {})
        )
        for policy in policies
    )


def _interrupted(chain: Sequence[History]) -> Sequence[History]:
    """Return the runs of a chain whose writes must not be made again: a run that moves goes on as it would have."""
    last = next((number for number in range(len(chain), 0, -1) if not chain[number - 1].state.moved), 0)
    return chain[:last]


def _memories(history: History, policies: Sequence[Policy]) -> tuple[Any, ...]:
    """Return what the rules of policies remember at the end of a run, waived ones too."""
    meaning = meaning_under(history.plan.program, policies)
    rules: list[tuple[AnyRule, Meaning]] = [(rule, meaning) for policy in policies for rule in policy.guardrails]
    watching = copy(history.plan)
    watching.__dict__["watch"] = Watch(rules, history.plan.meaning)
    return fold(watching, history.events).monitors


def _left_behind(history: History) -> frozenset[str]:
    """Return the names that become undefined because a run was interrupted in bodies: those of the open frames."""
    plan, names = history.plan, history.plan.names_of_slots
    return frozenset(
        names[slot]
        for each in open_bodies(history.state)
        for slot in (*plan.bodies[each.at].locals, *plan.bodies[each.at].carried.values())
        if slot in names
    )


def open_bodies(state: State) -> tuple[Each, ...]:
    """Return the for_each steps and the branches in which a run has ended, outer ones first."""
    inner = () if state.fork is None else (one.state for one in state.fork.branches if one.state is not None)
    found = [*(frame.each for frame in state.frames), *(() if state.each is None else (state.each,))]
    return (*found, *(each for one in inner for each in open_bodies(one)))


# -- effects -----------------------------------------------------------------------------------------------------------


def _writes(history: History) -> Iterator[Performed]:
    """Yield the writes that a run has started, whatever became of them."""
    calls = {call.id: call for step in history.plan.steps for call in step.calls}
    for event in history.events:
        if event.kind == "intent" and calls[event.body["step"]].writes:
            args = event.body["args"]
            hidden = tuple(sorted(name for name, value in args.items() if is_sealed(value)))
            yield Performed.model_construct(
                {"tool", "args", "without"},
                tool=event.body["tool"],
                args=digest_of_arguments(args, hidden),
                without=hidden,
            )


# -- budgets -----------------------------------------------------------------------------------------------------------


def allowed_budgets(chain: Sequence[History], granted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the continuation of a chain may spend at most: what is left, and what was granted on top."""
    last = chain[-1]
    program, state = last.plan.program, last.state
    left: dict[str, Any] = {"steps": min(program.max_steps or state.limits.steps, state.limits.steps) - state.steps}
    left |= {name: amount for name in _FOR_MODELS if (amount := _left_for_models(chain, name)) is not None}
    if state.ends_by:
        left["time"] = exact(Decimal(_time_left(last)) / 1_000_000)
    allowed = {name: arithmetic("+", amount, granted.get(name, 0)) for name, amount in left.items()}
    return allowed | ({"time": min(allowed["time"], LONGEST_WAIT)} if "time" in allowed else {})


def _left_for_models(chain: Sequence[History], name: str) -> Any:
    """Return what a chain has left of a budget for models, None for any amount.

    A run that asks no model spends nothing of it, whatever its program says, and so leaves what it was left.
    """
    left: Any = None
    for history in chain:
        budget, link = getattr(history.plan.program, BUDGETS[name]), continues_of(history.events[0].body)
        if left is not None and link is not None:
            left = arithmetic("+", left, link.granted.get(name, 0))
        limits = [one for one in (budget, left) if one is not None]
        left = arithmetic("-", min(limits), getattr(history.state, name)) if limits else None
    return left


def _time_left(last: History) -> int:
    """Return what a run has left of its time, in microseconds: the time after its end does not count.

    One that moves to another version has at least a microsecond left, so that the run behind it can always be created.
    """
    stops = (
        one for one in reversed(last.records) if one.kind not in _AFTER_THE_END and one.body.get("reason") != MOVED
    )
    left: int = last.state.ends_by - next(stops).at
    return max(left, 1) if last.state.moved else left


def bounded(program: Program, allowed: Mapping[str, Any]) -> Program:
    """Return a program with the smaller of its budgets and those that are allowed; raises RunRefused for none."""
    changed: dict[str, Any] = {}
    asks = any(isinstance(call, LlmCall) for step in program.layout.steps for _, call in step.calls)
    for name, limit in allowed.items():
        field = BUDGETS[name]
        own = getattr(program, field)
        if name in _FOR_MODELS and not asks:
            continue  # it spends none of it
        if limit <= 0:
            raise RunRefused(
                f"no {name} {'is' if name == 'time' else 'are'} left of `{field}`: the operator may grant more"
                if name != "cost"
                else f"nothing is left of `{field}`: the operator may grant more"
            )
        if own is None or own > limit:
            changed[field] = limit
    return program.model_copy(update=changed) if changed else program
