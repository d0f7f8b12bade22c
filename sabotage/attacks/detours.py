"""Skipped transitions: an unchecked program bypasses the steps that guard others."""

from __future__ import annotations

import copy
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.rewriting import Forged, changed, rewriting, without_target
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import lists_in, unbound
from stepward.sabotage.stores.forging import Data
from stepward.sabotage.target import Target
from stepward.vm.errors import ProgramError
from stepward.vm.journal.canonical import portable
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.calls import Visit, prepare
from stepward.vm.machine.events import Call
from stepward.vm.machine.history import fold
from stepward.vm.machine.keys import idempotency_key
from stepward.vm.machine.plan import successor_fields
from stepward.vm.machine.state import FRESH, visits_of
from stepward.vm.values import freeze

MAX_STEPS: Final = 60
"""The limit of steps of such a program, which may loop for ever."""

NEXT: Final = ("next_step", "then", "otherwise", "error_step")
"""The fields that name a successor."""


class Retarget(NamedTuple):
    """A change of a program: the field of the step at index `step` of a list now leads to `to`.

    The field `entry` moves the step `to` to the top of its list, which is where a run or a body begins. `within` is the
    step whose body the list is, empty for the steps of the program.
    """

    field: str
    step: int
    to: str
    within: str = ""


def retargets(target: Target) -> list[Retarget]:
    """Return every change that makes a transition lead to a step that a rule selects."""
    guarded = {target.plan.steps[position].id for position, _ in target.plan.watch.guarded}
    if not is_ruled(target):
        last = target.writes[-1]
        guarded = {step.id for step in target.plan.steps if last in step.calls}
    entries: list[Retarget] = []
    found: list[Retarget] = []
    for within, steps in lists_in(target.program.to_dict()).items():
        entries += [Retarget("entry", 0, step["id"], within) for step in steps[1:] if step["id"] in guarded]
        found += [
            Retarget(field, number, step["id"], within)
            for step in steps
            if step["id"] in guarded
            for number, other in enumerate(steps)
            for field in NEXT
            if (field in other or (field == "next_step" and other["type"] not in ("condition", "end")))
            and other.get(field) != step["id"]
        ]
    return [*entries, *found]


def is_ruled(target: Target) -> bool:
    """Whether guardrails are in force."""
    return bool(target.plan.meaning.rules)


def derived(target: Target) -> dict[str, Any]:
    """Return a policy for a program without one: its last write happens once, and after its first step."""
    last, first = target.writes[-1].id, target.plan.steps[0].id
    rules: list[dict[str, Any]] = [{"name": "derived-once", "at_most_once": {"step": last}}]
    if first != last and target.plan.steps[0].calls:
        rules.append({"name": "derived-order", "protects": {"step": last}, "requires": {"step": first}})
    return {"policy": "derived", "guardrails": rules}


def detour(target: Target, change: Retarget) -> Target | None:
    """Return the changed target, under its rules or a derived one, or None if the program is not valid."""
    return target.once(("detour", *map(str, change)), lambda: _detour(target, change))


def _detour(target: Target, change: Retarget) -> Target | None:
    data = copy.deepcopy(target.program.to_dict())
    steps = lists_in(data)[change.within]
    if change.field == "entry":
        steps.sort(key=lambda step: step["id"] != change.to)
    else:
        steps[change.step][change.field] = change.to
        if change.field == "next_step":
            steps[change.step].pop("is_terminal", None)
            steps[change.step].pop("outcome", None)
    data["max_steps"] = min(data.get("max_steps") or MAX_STEPS, MAX_STEPS)
    policies = [*unbound(target), *([] if is_ruled(target) else [Policy.from_dict(derived(target))])]
    try:
        return Target(Program.from_dict(data), policies, target.routes)
    except ProgramError:
        return None


RULE = Need("there is no guardrail, and no tool writes", lambda target: is_ruled(target) or target.writes)


class GuardBypassed(Attack):
    """A transition of the program or its first step is changed, and the program is not checked. Steps are reached
    without their guards, a second time, or together with steps that they exclude.
    """

    family = Family.TRANSITIONS
    surface = "transitions of a program that was not checked"
    action = "one of them changed to another step"
    invariant = Invariant.GUARDRAIL
    defence = "each guardrail has a monitor in the machine, which is checked before a step starts"
    weight = 2
    needs = (RULE,)

    def play(self, case: Case) -> Outcome:
        """Run the changed program, and compare it with the oracle, which knows the rules too."""
        run = case.needs(detoured(case)).finish()
        return Outcome.BLOCKED if run.reason == "guardrail" else Outcome.ABSORBED


def detoured(case: Case) -> Trial | None:
    """Choose a change of the program, and return a trial of the changed program, or None if it is not valid."""
    among = retargets(case.target)
    change = among[pick_index(case, "way", len(among))] if among else None
    target = detour(case.target, change) if change is not None else None
    if change is None or target is None:
        return None
    ids = [step["id"] for step in lists_in(case.target.program.to_dict())[change.within]]
    begins = f"the body of `{change.within}`" if change.within else "the program"
    where = f"{begins} begins" if change.field == "entry" else f"`{change.field}` of `{ids[change.step]}` leads"
    case.log(f"change the program: {where} {'with' if change.field == 'entry' else 'to'} `{change.to}`")
    return Trial(case, faults=False, target=target)


def _rejection_removed_trial(case: Case) -> Trial:
    """Return a trial of a changed program, or of the program itself if the change is not valid."""
    return detoured(case) or Trial(case, faults=False)


@rewriting(
    surface="record of a rejection",
    action="replaced by the records of a run without it",
    invariant=Invariant.GUARDRAIL,
    defence="a replay checks the guardrails again before a machine continues the run",
    needs=(RULE,),
    trial=_rejection_removed_trial,
)
def rejection_removed(trial: Trial, records: list[Data]) -> Forged:
    """A changed program reaches a step that a guardrail or policy forbids. The record of the rejection is replaced by
    an intent and an outcome, as if the step had been allowed.
    """
    seq = trial.case.needs(
        next((number for number, record in enumerate(records) if record["kind"] == "rejected"), None)
    )
    passed = trial.case.needs(_allowed(trial, records, seq))
    trial.case.log(f"write in place of record {seq}, a rejection by `{records[seq]['body']['rule']}`, that it passed")
    return changed(records, seq, *passed)


def _allowed(trial: Trial, records: list[Data], seq: int) -> list[Data] | None:
    """Return the records that a rejected step would have written if allowed, or None if it is not a plain call."""
    found = trial.history()
    plan, rejected = found.plan, records[seq]
    state = fold(plan, found.events[:seq])
    step = plan.steps[state.at]
    name = rejected["body"]["step"]
    if step.is_parallel or not step.calls or state.calls is not None or step.id != name:
        return None
    call, visit = step.calls[0], visits_of(state, step) + 1
    ready = prepare(Visit(plan, state, step, visit), call, FRESH)
    output = trial.case.pick(trial.named("output of what was rejected"), trial.target.output(call))
    fields = successor_fields(plan.steps, step.transitions["success"])
    place = {"step": name, "visit": visit} | ({"frame": state.frame} if state.frames else {})
    body = {"kind": "success", "output": output, **place, **fields}
    note = {"attempt": 1, "performance": 1, "started": rejected["at"], "took": 0}
    if call.is_model:
        note |= {"tokens": 0, "cost": "0", "model": ""}
    outcome = without_target(rejected) | {"kind": "attempt", "body": portable(freeze(body)), "note": note}
    if not call.has_intent:
        return [outcome]
    args = portable(ready.args) if isinstance(ready, Call) else {}
    policies = list(plan.policy_documents)
    forged = {"args": args, "policies": policies, "tool": call.tool, **portable(freeze(place))}
    key = idempotency_key(plan.digest, trial.run, name, visit, 1, state.frame)
    intent = rejected | {"kind": "intent", "body": forged, "note": {"attempt": 1, "performance": 1, "key": key}}
    return [intent, outcome]
