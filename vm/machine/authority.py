"""Decides who may continue a run: the machine's present policies must allow what the run has done so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.vm.arguments import made, require
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import opened
from stepward.vm.language.policy import Policy, plain
from stepward.vm.machine.apply import apply
from stepward.vm.machine.calls import Visit, forbidden, prepare
from stepward.vm.machine.events import Call, Event, make_event
from stepward.vm.machine.forks import seen_at
from stepward.vm.machine.history import History, fold
from stepward.vm.machine.monitors import Part
from stepward.vm.machine.ordering import come_before, slots_before
from stepward.vm.machine.plan import CallPlan, Plan, StepPlan, Terms, policy_digest
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import FRESH, Reader, State, before, visits_of
from stepward.vm.unseen import unseen

MAX_NAME = 200
"""Maximal length of the name of a person."""

NAME_RULE: Final = f"1 to {MAX_NAME} printable characters, without a space at the start or the end"

_NAMED: Final = "say who starts it, with `by=` in Python and `--by NAME` on the command line"


class Breach(NamedTuple):
    """A rule that a run has broken: the number of the record that shows it, the rule's name, and the reason."""

    seq: int
    rule: str
    why: str


class Envelope(NamedTuple):
    """Who asked for a run through a gateway, and under what gate.

    `caller` is the name of the caller that the gateway has recognised, `gate` the version of the gate that let the
    program through. `settles_own`: the caller may settle calls of the run itself; else another person has to.
    """

    caller: str
    gate: str
    settles_own: bool = False


class Start(NamedTuple):
    """A start: the part of the program, the call if it is one, and its arguments."""

    part: Part
    call: CallPlan | None
    args: Any


def is_name(by: object) -> bool:
    """Return whether a value can be the name of a person: `ann ` would be read as `ann`, and be another one."""
    if not (isinstance(by, str) and 0 < len(by) <= MAX_NAME and by.isprintable()):
        return False
    return by == by.strip() and unseen(by) is None


def missing_terms(plan: Plan, present: Terms) -> Terms | None:
    """Return the part of the present terms that a run is not under yet; None if it is under all of them.

    A policy that the run is under already stays with its waivers of that time: a waiver does not end within a run. A
    run that continues another is under a policy in the state in which that has left it.
    """
    covered = {policy_digest(policy) for terms in plan.terms for policy in terms.policies}
    missing = tuple(policy for policy in present.policies if policy_digest(policy) not in covered)
    left = {policy_digest(plain(one)) for terms in plan.terms for one in terms.policies if one.continues is not None}
    if left:
        missing = tuple(policy for policy in missing if policy_digest(plain(policy)) not in left)
    names = tuple(f"{policy.policy}:" for policy in missing)
    return Terms(missing, frozenset(name for name in present.waived if name.startswith(names))) if missing else None


def governed(found: History, terms: Terms) -> tuple[History, Event]:
    """Return a run under further terms, and the event for them; raises RunRefused if its past breaks a rule."""
    old = found.plan
    plan = Plan(old.program, old.policies, sorted(old.terms[0].waived), (*old.terms[1:], terms))
    broken = breach(plan, found.events)
    if broken is not None:
        raise RunRefused(
            f"run `{found.run}` breaks rule `{broken.rule}` of this machine's policies in record {broken.seq}: "
            f"{broken.why}"
        )
    body = {"policies": tuple(map(policy_digest, terms.policies)), "waived": tuple(sorted(terms.waived))}
    return found._replace(plan=plan, state=fold(plan, found.events)), make_event("governed", body)


def breach(plan: Plan, events: Sequence[Event]) -> Breach | None:
    """Return the first start or delivery among events that a rule of the plan forbids, or None."""
    state = before(plan)
    for number, event in enumerate(events):
        found = _objection(plan, state, event) if number else None
        if found is not None:
            return Breach(number, *found)
        state = apply(plan, state, event)
    return None


def _objection(plan: Plan, state: State, event: Event) -> tuple[str, str] | None:
    state = seen_at(plan, state, event)
    memories = state.monitors
    for start in _starts(plan, state, event):
        step, sub = plan.steps[state.at], start.part[1]
        slots = state.slots if sub is None else slots_before(state, step, sub)
        reader = Reader(plan, slots, UNDEFINED if start.args is None else start.args)
        earlier = None if sub is None else come_before(state, step, sub)
        found = plan.watch.objection(memories, start.part, reader, earlier)
        if found is None and start.call is not None and not start.call.is_model:
            found = forbidden(plan, start.call, reader)
        if found is not None:
            return found
        memories = plan.watch.performed(memories, start.part)
    if event.kind == "resumed" or (event.kind == "reconciled" and event.note.get("verdict") == "done"):
        call = _call(plan.steps[state.at], event)
        if call is not None:
            return two_people(plan, state, call, str(event.note.get("by", "")))
    return None


def two_people(plan: Plan, state: State, call: CallPlan, by: str) -> tuple[str, str] | None:
    """Return the rule that forbids the person `by` to settle a call from outside, and why; None if there is none.

    A caller of a gateway never settles a call of its own run, unless the operator has allowed it.
    """
    policy = plan.four_eyes.get(call.tool)
    if state.caller and by in ("", state.caller):
        who = "it can't settle its own calls" if by else "whoever settles its calls has to say who it is"
        return "own_run", f"caller `{state.caller}` asked for the run: {who}"
    if policy is None:
        return None
    asks = _asks(policy, call.tool)
    if not by:
        why = f"{asks}; say who you are"
    elif not state.by:
        why = f"{asks}, and that is not known"
    elif by == state.by:
        why = f"{asks}, and that was `{by}`"
    else:
        return None
    return "four_eyes", why


def require_starter(plan: Plan, who: Mapping[str, Any]) -> None:
    """Raise RunRefused if two people have to settle a call of a program, and `who` does not name who starts the run.

    Nobody could settle such a call, and the run could only be cancelled.
    """
    if "by" in who or not plan.four_eyes:
        return
    called = {call.tool for step in plan.steps for call in step.calls if not call.is_model}
    for tool in sorted(called.intersection(plan.four_eyes)):
        raise RunRefused(f"{_asks(plan.four_eyes[tool], tool)}, and nobody is named", _NAMED)


def _asks(policy: Policy, tool: str) -> str:
    return f"policy `{policy.policy}` asks that another settles a call of `{tool}` than who started the run"


def _starts(plan: Plan, state: State, event: Event) -> Iterator[Start]:
    """Yield what starts with an event: the starts that `decide` checks."""
    step = plan.steps[state.at]
    if not step.calls:
        is_each = step.position in plan.bodies
        is_begun = (
            event.kind in ("branched", "assigned", "closed", "waiting")
            or (event.kind == "opened" and (is_each or step.is_fork))
            or (event.kind == "blocked" and not (step.is_computed or is_each))
            or (event.kind == "ended" and "step" in event.body)
        )
        if is_begun:
            yield Start((step.position, None), None, None)
        return
    call = _call(step, event)
    if call is None:
        return
    if step.is_parallel and state.calls is None:
        yield Start((step.position, None), None, None)
    call_state = FRESH if state.calls is None else state.calls[call.sub]
    if event.kind in ("intent", "attempt") and event.note["performance"] > call_state.performance:
        part = (step.position, call.sub if step.is_parallel else None)
        yield Start(part, call, _arguments(plan, state, call, event))


def _call(step: StepPlan, event: Event) -> CallPlan | None:
    return next((call for call in step.calls if call.id == event.body.get("step")), None)


def _arguments(plan: Plan, state: State, call: CallPlan, event: Event) -> Any:
    """Return the arguments of a call from its record, or else computed from the program."""
    if "args" in event.body and not call.is_model:
        return opened(event.body["args"])
    step = plan.steps[state.at]
    call_state = FRESH if state.calls is None else state.calls[call.sub]
    visit = visits_of(state, step) + (state.calls is None)
    ready = prepare(Visit(plan, state, step, visit), call, call_state, asks=False)
    return ready.args if isinstance(ready, Call) else None


def require_name(by: str | None, refusal: type[StepwardError]) -> dict[str, str]:
    """Return the note that names the person `by`, empty for None; raises `refusal` if `by` can't be a name."""
    if by is None:
        return {}
    if not is_name(by):
        raise refusal(f"`by` names somebody in {NAME_RULE}")
    return {"by": by}


def envelope_note(envelope: Envelope | None, refusal: type[StepwardError]) -> dict[str, Any]:
    """Return the note with an envelope, empty for None; raises `refusal` if its parts can't be names."""
    if envelope is None:
        return {}
    require(made(Envelope), envelope=envelope)
    if not (is_name(envelope.caller) and is_name(envelope.gate)):
        raise refusal(f"an envelope names its caller and gate in {NAME_RULE}")
    return {"envelope": envelope._asdict()}
