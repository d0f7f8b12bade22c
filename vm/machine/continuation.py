"""Prepares the continuation of a run: what it may read, under which policies it runs, and what it may spend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import chain as joined
from typing import Any, Final, NamedTuple

from stepward.vm.arguments import MAPPING, TEXT, require, require_each
from stepward.vm.language.past import asked_steps
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.steps import InvokeStep, ToolCall
from stepward.vm.machine.binding import parts_of, require_bound
from stepward.vm.machine.continuing import (
    BUDGETS,
    ENDINGS,
    FRACTIONS,
    Start,
    allowed_budgets,
    base_policies,
    bounded,
    derived_policies,
)
from stepward.vm.machine.data import completed
from stepward.vm.machine.handing import plain_values, uncovered, unread, values_read
from stepward.vm.machine.history import History
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.refusals import RunRefused, input_refused
from stepward.vm.machine.turns import is_turn
from stepward.vm.values import ValueRefused, exact

MAX_CONTINUATIONS: Final = 3
"""How often the runs of a chain may be continued, unless the operator says otherwise."""


class ContinuationRequest(NamedTuple):
    """A continuation that somebody asks for: its program, what it reads, what the operator allows and accepts."""

    program: Program
    reads: Mapping[str, str]
    head: str | None
    granted: Mapping[str, Any]
    after_failure: bool
    max_continuations: int
    accept: Collection[str] = ()


def named_reads(reads: Mapping[str, str] | Collection[str]) -> dict[str, str]:
    """Return the references that a continuation reads, by the names of its inputs."""
    if not isinstance(reads, Mapping):
        require_each(TEXT, reads=reads)
    found = dict(reads) if isinstance(reads, Mapping) else {name: name for name in reads}
    for name, reference in found.items():
        if not isinstance(name, str) or not isinstance(reference, str):
            raise RunRefused("`reads` has names of inputs, each with a variable or an output of the run before")
    return {name: reference.removeprefix("$") for name, reference in found.items()}


def checked_grant(grant: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the operator adds to budgets; raises RunRefused for what is no budget, or no number above 0."""
    require(MAPPING, grant=grant)
    found: dict[str, Any] = {}
    for name, amount in grant.items():
        if name not in BUDGETS:
            raise RunRefused(f"`{name}` is no budget: a run may be granted {', '.join(f'`{one}`' for one in BUDGETS)}")
        try:
            number = exact(amount) if isinstance(amount, int | float | Decimal) else 0
        except ValueRefused:
            number = 0
        is_whole = name in FRACTIONS or isinstance(number, int)
        if isinstance(amount, bool) or not is_whole or number <= 0:
            raise RunRefused(f"{'a' if name in FRACTIONS else 'a whole'} number above 0 can be granted of `{name}`")
        found[name] = number
    return found


def require_continuable(chain: Sequence[History], request: ContinuationRequest) -> None:
    """Raise RunRefused if the last run of a chain must not be continued in this way."""
    last = chain[-1]
    state, run = last.state, last.run
    if not state.is_over:
        raise RunRefused(f"run `{run}` has not ended: it is {state.status}")
    if is_turn(last):
        raise RunRefused(f"run `{run}` is a turn of a session: take the next turn")
    if state.status == "FAILED" and not request.after_failure:
        raise RunRefused(f"run `{run}` has ended FAILED: it is continued only if that is asked for")
    if state.status not in (*ENDINGS, "FAILED"):
        raise RunRefused(f"run `{run}` has ended {state.status}: only {' and '.join(ENDINGS)} can be continued")
    if state.moved:
        raise RunRefused(f"run `{run}` was to move to another version, and has ended before that: start a new run")
    count = sum(not one.state.moved for one in chain[:-1])
    if count >= request.max_continuations:
        raise RunRefused(
            f"run `{chain[0].run}` was continued {count} times, and `max_continuations` is {request.max_continuations}"
        )
    if request.head is not None and request.head != last.last.digest.hex():
        raise RunRefused(f"run `{run}` has another head than the one that was named: look at it again")
    if state.is_erased and last.plan.has_sensitive:
        raise RunRefused(f"the sensitive values of run `{run}` were erased")
    if request.program.language != last.plan.program.language:
        raise RunRefused(
            f"the program has to say `language: {last.plan.program.language}`, as that of run `{run}` does"
        )


def prepared(
    chain: Sequence[History], request: ContinuationRequest, present: Sequence[Policy]
) -> tuple[Plan, Mapping[str, Any], Mapping[str, Any]]:
    """Return the plan of a continuation, its inputs, and what its first record says of the run before.

    `present` are the machine's policies that apply. Raises RunRefused for values that can't be read, a budget that is
    used up, a program that would change what tools are, and one that a rule about a step would not bind; ProgramError
    for a program that can't run.
    """
    last = chain[-1]
    program = bounded(request.program, allowed_budgets(chain, request.granted))
    _require_tools_unchanged(program, last)
    _require_same_steps(program, chain)
    require_bound(chain, program, request.reads, request.accept)
    inputs = set(program.inputs) if program.inputs is not None else set(Plan(program).inputs)
    policies = derived_policies(chain, base_policies(chain, present), Start(inputs, request.reads))
    blind = unread(chain, policies, request.reads)
    if blind is not None:
        raise RunRefused(blind)
    plan = Plan(program, policies)
    return plan, *handed_over(chain, plan, request.reads, request.granted)


def handed_over(
    chain: Sequence[History], plan: Plan, reads: Mapping[str, str], granted: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the inputs of a continuation, and what its first record says; raises RunRefused as `prepared`."""
    last = chain[-1]
    read = values_read(last, reads)
    inputs, why = completed(plain_values(read), plan.input_types)
    if why is not None:
        raise input_refused(why, plan.input_types)
    for name, value in read.items():
        if uncovered(value, inputs[name]):
            raise RunRefused(f"input `{name}` is sensitive in run `{last.run}`: its type has to say `sensitive: true`")
    continues = {
        "run": last.run,
        "head": last.last.digest.hex(),
        "reads": dict(sorted(reads.items())),
        "number": len(chain),
        **({"granted": dict(granted)} if granted else {}),
    }
    return inputs, continues


def _require_tools_unchanged(program: Program, last: History) -> None:
    """Raise RunRefused if a program says of a tool that it takes or returns something else than was known before."""
    known = last.plan.meaning.manifest
    called = (step.tools for step in program.layout.steps if isinstance(step, InvokeStep))
    for name, spec in joined((program.tools or {}).items(), *(tools.items() for tools in called)):
        for what in ("args", "returns"):
            before = getattr(known.get(name), what, None)
            if before is not None and getattr(spec, what) not in (None, before):
                raise RunRefused(
                    f"`tools` says something else about the `{what}` of `{name}` than run `{last.run}` does"
                )


def _require_same_steps(program: Program, chain: Sequence[History]) -> None:
    """Raise RunRefused if a program has another step under an id that a rule of an earlier program asks for.

    Such a step would satisfy the rule, whatever it does.
    """
    own = parts_of(program)
    for history in chain:
        before = parts_of(history.plan.program)
        for rule in history.plan.program.guardrails:
            for name in asked_steps(rule):
                if name in own and not _is_same_call(own[name], before.get(name)):
                    raise RunRefused(
                        f"the program has a step `{name}`, for which guardrail `{rule.name}` of run `{history.run}` "
                        f"asks: give it another id, or make it the same call"
                    )


def _is_same_call(one: Any, other: Any) -> bool:
    """Return whether two parts call the same tool with the same arguments."""
    if not isinstance(one, ToolCall) or not isinstance(other, ToolCall):
        return False
    return (one.tool, one.args) == (other.tool, other.args)
