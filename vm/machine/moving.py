"""Moves a run that waits to a new version of its program.

The record `moved` names the version. The step on which the run waits ends as it would have ended; then the run ends,
and another run continues it with the rest of the version. Its rules begin where they are then, those of the version
too, as if they had been there from the start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import ErasedError, is_sealed, opened
from stepward.vm.journal.store import Journal
from stepward.vm.language.guardrails import AnyRule, plain_rule
from stepward.vm.language.loading import build_program
from stepward.vm.language.node import plain as plain_data
from stepward.vm.language.past import asked_steps
from stepward.vm.language.policy import Policy, plain
from stepward.vm.language.program import Program
from stepward.vm.language.rest import NoRestError, Rest, RunSoFar, rest_of
from stepward.vm.language.steps import ForEachStep, ToolCall
from stepward.vm.machine.authority import breach
from stepward.vm.machine.binding import parts_of, require_moved_bound
from stepward.vm.machine.calls import ended, place_of
from stepward.vm.machine.continuing import (
    Start,
    allowed_budgets,
    base_policies,
    bounded,
    derived_policies,
)
from stepward.vm.machine.due import first_wait
from stepward.vm.machine.events import MOVED, Event, make_event
from stepward.vm.machine.handing import readable, stated_type, type_of, values_read
from stepward.vm.machine.history import History, applied, fold, stored_document
from stepward.vm.machine.plan import Plan, Terms, policy_digest, successor_fields
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.state import visits_of
from stepward.vm.machine.turns import is_turn
from stepward.vm.patterns.matching import RE2

FIELDS: Final = frozenset({"granted", "policies", "program", "step", "visit"})
"""The fields of a record `moved`; `granted` is left out where nothing was added to budgets."""


class Version(NamedTuple):
    """A version of a program that a run moves to: the program, its digest, and what the operator adds to budgets."""

    program: Program
    digest: str
    granted: Mapping[str, Any]

    def rules(self) -> Policy | None:
        """Return the guardrails of the version as a policy, None if it has none."""
        rules = tuple(map(plain_rule, self.program.guardrails))
        name = f"version {self.digest[:16]}"
        return Policy.model_construct({"policy", "guardrails"}, policy=name, guardrails=rules) if rules else None


class Rehearsal(NamedTuple):
    """What a run becomes once its step has ended: the plan of the new run, and what that reads.

    `narrow` is the same plan with the values that are known already as the only ones of their inputs.
    """

    plan: Plan
    reads: Mapping[str, str]
    narrow: Plan


def version_of(journal: Journal, digest: str, granted: Mapping[str, Any]) -> Version:
    """Return a version from its stored document; raises JournalError if that does not match its digest."""
    return Version(build_program(stored_document(journal, digest, "version"), None, RE2), digest, granted)


# -- whether a run may move --------------------------------------------------------------------------------------------


def require_movable(last: History, version: Version) -> None:
    """Raise RunRefused if a run does not wait where it could move to a version."""
    plan, run = last.plan, last.run
    _require_place(last)
    if version.program.programs:
        raise RunRefused("the version calls others, and moves to a version with `programs` are not supported yet")
    if version.program.language != plan.program.language:
        raise RunRefused(f"the version has to say `language: {plan.program.language}`, as run `{run}` does")
    step = plan.steps[last.state.at]
    own, before = parts_of(version.program), parts_of(plan.program)
    _require_same(step.step, own.get(step.id), f"on which run `{run}` waits")
    rules: list[AnyRule] = [rule for policy in plan.policies for rule in policy.guardrails]
    for rule in (*plan.program.guardrails, *rules):
        for name in asked_steps(rule):
            if name in own and name in before:
                _require_same(before[name], own[name], f"for which guardrail `{rule.name}` asks")
    _require_tools_unchanged(version.program, last)


def _require_place(last: History) -> None:
    """Raise RunRefused, with a help, if a run is not where it could move to any version."""
    why = _misplaced(last)
    if why:
        raise RunRefused(why, "no version changes that: move the run when it waits elsewhere, or let it end")


def _misplaced(last: History) -> str:
    """Return why a run is not where it could move, whatever the version is; empty if it is."""
    state, plan, run = last.state, last.plan, last.run
    if state.status != "SUSPENDED":
        return f"run `{run}` does not wait: it is {state.status}"
    if is_turn(last):
        return f"run `{run}` is a turn of a session: what it does follows from its text"
    if plan.program.programs:
        return f"the program of run `{run}` calls others, and moves to a version with `programs` are not supported yet"
    step = plan.steps[state.at]
    within = _within(last)
    if within:
        then = "it can move once that has ended, if it waits then on a step of its own list"
        return f"run `{run}` waits in {within}: {then}"
    if first_wait(state) != state.due:
        return f"`{step.id}`, on which run `{run}` waits, has a deadline: it can move at a step without one"
    if step.transitions["success"].to < 0:
        return f"run `{run}` ends with `{step.id}`, on which it waits: nothing is left to move"
    if state.is_cancelled:
        return f"run `{run}` is being cancelled"
    return ""


def _within(last: History) -> str:
    """Return the step of the program's own list within which a run waits, in words; empty on a step of its own."""
    state, plan = last.state, last.plan
    outer = state.frames[0].each if state.frames else state.fork or state.each
    step = plan.steps[outer.at if outer is not None else state.at]
    if outer is None and (step.calls or state.due) and not step.is_parallel:
        return ""
    on = f"`{plan.steps[state.at].id}` of " if state.frames else ""
    if isinstance(step.step, ForEachStep):
        return f"{on}the items of `{step.id}`"
    return f"the {'branches' if state.fork else 'calls'} of `{step.id}`"


def _require_same(before: Any, after: Any, which: str) -> None:
    """Raise RunRefused unless a version has a step of the same type, with the same tool."""
    if after is None:
        raise RunRefused(f"the version has no step `{before.id}`, {which}")
    if after.type != before.type:
        raise RunRefused(f"`{before.id}`, {which}, is of type `{before.type}`, and `{after.type}` in the version")
    if isinstance(before, ToolCall) and before.tool != after.tool:
        raise RunRefused(f"`{before.id}`, {which}, calls `{before.tool}`, and `{after.tool}` in the version")


def _require_tools_unchanged(program: Program, last: History) -> None:
    """Raise RunRefused if a version says of the tool that is awaited that it returns something else."""
    step = last.plan.steps[last.state.at].step
    if not isinstance(step, ToolCall):
        return  # it waits for a time
    before = last.plan.meaning.manifest.get(step.tool)
    after = (program.tools or {}).get(step.tool)
    if before is not None and after is not None and after.returns != before.returns:
        raise RunRefused(f"`tools` says something else about the `returns` of `{step.tool}` than run `{last.run}` does")


# -- what it becomes ---------------------------------------------------------------------------------------------------


def moved_event(last: History, version: Version, policies: Sequence[Policy], note: Mapping[str, Any]) -> Event:
    """Return the event by which a run moves; `policies` are those that were derived for the rest."""
    step = last.plan.steps[last.state.at]
    body = {
        **place_of(last.state, step.id, visits_of(last.state, step)),
        "program": version.digest,
        "policies": tuple(map(policy_digest, policies)),
    }
    if version.granted:
        body["granted"] = dict(version.granted)
    return make_event("moved", body, note)


def as_if_left(last: History, moved: Event) -> History:
    """Return a run that waits as it will be once its step has succeeded; the output of a call is not known: null."""
    plan, state = last.plan, last.state
    step = plan.steps[state.at]
    leaving = {
        **place_of(state, step.id, visits_of(state, step)),
        **successor_fields(plan.steps, step.transitions["success"]),
    }
    left = make_event("waited", leaving, {"time": state.due})
    if not state.due:
        left = make_event("resumed", {"kind": "success", "output": None, **leaving})
    events = list(last.events)
    for event in (moved, left):
        state = applied(plan, state, event, len(events))
        events.append(event)
    over = ended(plan, state, "CANCELLED", MOVED)
    state = applied(plan, state, over, len(events))
    return last._replace(events=(*events, over), state=state)


def rest_after(chain: Sequence[History], version: Version, unknown: Collection[str] = ()) -> Rest:
    """Return the rest of a version for the last run of a chain, which has left the step on which it waited.

    `unknown` are the references of values that are not known yet. Raises RunRefused if nothing could go on.
    """
    last = chain[-1]
    moves = [event for event in last.events if event.kind == "moved"]
    types = {name: _type_data(last, name, is_known=name not in unknown) for name in readable(last)}
    sources = {source: name for source, name in _handed_on(chain).items() if source not in types}
    types |= {source: types[name] for source, name in sources.items()}
    visits = dict[str, int]()
    for number in range(len(chain) - 1, -1, -1):
        history = chain[number]
        if number < len(chain) - 1 and history.state.reason != MOVED:
            break
        for step in history.plan.steps:
            if not step.is_stage:
                visits[step.id] = visits.get(step.id, 0) + visits_of(history.state, step)
    try:
        return rest_of(version.program, RunSoFar(moves[-1].body["step"], types, visits, sources))
    except NoRestError as error:
        raise RunRefused(f"run `{last.run}` can't go on with this version: {error}") from None


def _handed_on(chain: Sequence[History]) -> dict[str, str]:
    """Return the inputs of the last run of a chain that have outputs of runs which have moved, by their references."""
    found: dict[str, str] = {}
    for before, history in pairwise(chain):
        reads = Start.of(history).reads if before.state.moved else {}
        unchanged = {
            source: name for name, read in reads.items() for source, source_read in found.items() if source_read == read
        }
        found = unchanged | {read: name for name, read in reads.items() if "." in read}
    return found


def _type_data(last: History, name: str, *, is_known: bool) -> dict[str, Any]:
    """Return the type of a value as plain data; of one that is not known, what its program states."""
    spec = type_of(last, name) if is_known else stated_type(last, name)
    found: dict[str, Any] = {} if spec is None else plain_data(spec.to_data())
    return found


def rules_of(last: History, version: Version, known: Iterable[Policy]) -> list[Policy]:
    """Return policies, and one with the guardrails of a version that the program of the run does not have."""
    rules = version.rules()
    found = [one for one in known if rules is None or one.policy != rules.policy]
    own = [plain_rule(rule).to_data() for rule in last.plan.program.guardrails]
    fresh = () if rules is None else tuple(rule for rule in rules.guardrails if rule.to_data() not in own)
    return [*found, rules.model_copy(update={"guardrails": fresh})] if rules is not None and fresh else found


def rehearsed(
    chain: Sequence[History], version: Version, moved: Event, present: Iterable[Policy], *, narrows: bool = True
) -> Rehearsal:
    """Return what the last run of a chain becomes if it moves now; `present` are the policies besides its own.

    Without `narrows`, no value is read. Raises RunRefused if its past breaks a rule of the version, or the rest can't
    go on.
    """
    last = chain[-1]
    left = [*chain[:-1], as_if_left(last, moved)]
    others = rules_of(last, version, present)
    own = version.rules()
    if own is not None and others and others[-1].policy == own.policy:
        _require_unbroken(chain, others[-1])
    step = last.plan.steps[last.state.at].step
    awaited = {f"{step.id}.output", getattr(step, "output_key", None) or ""}
    rest = rest_after(left, version, awaited)
    require_moved_bound(chain, version.program, parts_of(rest.program))
    program = bounded(rest.program, allowed_budgets(left, version.granted))
    policies = derived_policies(left, base_policies(left, others), Start(program.inputs or (), rest.reads))
    plan = Plan(program, policies)
    if not narrows:
        return Rehearsal(plan, rest.reads, plan)
    values = values_read(left[-1], {name: source for name, source in rest.reads.items() if source not in awaited})
    return Rehearsal(plan, rest.reads, Plan(narrowed(program, values), policies))


def _require_unbroken(chain: Sequence[History], rules: Policy) -> None:
    """Raise RunRefused if the runs of a chain have broken a rule of a version that they were not under."""
    for number, history in enumerate(chain):
        (policy,) = derived_policies(chain[:number], [rules], Start.of(history)) if number else (rules,)
        plan = history.plan
        terms = (*plan.terms[1:], Terms((policy,)))
        broken = breach(Plan(plan.program, plan.policies, sorted(plan.terms[0].waived), terms), history.events)
        if broken is not None:
            raise RunRefused(
                f"run `{history.run}` has broken rule `{broken.rule}` in record {broken.seq}: {broken.why}"
            )


def narrowed(program: Program, values: Mapping[str, Any]) -> Program:
    """Return a program whose inputs have their values as the only ones, where a type can say so. Sealed ones stay."""
    data = plain_data(program.to_data())
    for name, value in values.items():
        spec = _only(value)
        if spec is not None and not data["inputs"][name].get("sensitive"):
            data["inputs"][name] = spec
    return build_program(data, None)


def _only(value: Any) -> dict[str, Any] | None:
    if is_sealed(value) or isinstance(value, bool) or value is None:
        return None
    found = opened(value)
    if isinstance(found, str):
        return {"type": "string", "enum": [found]} if len(found) <= 200 else None
    return None if isinstance(found, dict | tuple) else {"type": "number", "minimum": found, "maximum": found}


def departure(
    chain: Sequence[History], version: Version, present: Iterable[Policy]
) -> tuple[Program, Mapping[str, str], list[Policy]]:
    """Return the program of the run that goes on after the last run of a chain, what it reads, and its policies."""
    rest = rest_after(chain, version)
    program = bounded(rest.program, allowed_budgets(chain, version.granted))
    base = base_policies(chain, present)
    return program, rest.reads, list(derived_policies(chain, base, Start(program.inputs or (), rest.reads)))


# -- whether it moved as it had to -------------------------------------------------------------------------------------


def move_misfit(chain: Sequence[History], found: History, journal: Journal) -> str | None:
    """Return why the records `moved` of a run are not those that a machine would write, or None.

    `chain` are the runs before it.
    """
    for number, event in enumerate(found.events):
        if event.kind != "moved":
            continue
        then = _as_it_was(found, number)
        try:
            version = version_of(journal, event.body["program"], event.body.get("granted", {}))
            require_movable(then, version)
            known = recorded(journal, event)
            moved = moved_event(then, version, (), {})
            due = rehearsed([*chain, then], version, moved, known, narrows=False).plan.policies
        except ErasedError:
            continue  # the types of values can't be looked at any more
        except StepwardError as error:
            return f"record {number}: it can't move in this way: {error}"
        if tuple(map(policy_digest, due)) != tuple(event.body["policies"]):
            return f"record {number}: the policies that it moves under are not those in which its rules are"
    return None


def recorded(journal: Journal, moved: Event) -> list[Policy]:
    """Return the policies that a record `moved` names, without what the runs before left of their rules."""
    documents = (stored_document(journal, digest) for digest in moved.body["policies"])
    return [plain(Policy.from_record(data, RE2)) for data in documents]


def _as_it_was(found: History, number: int) -> History:
    """Return a run as it was before a record: without the policies under which it came later."""
    plan, events = found.plan, found.events[:number]
    count = sum(event.kind == "governed" for event in events)
    if count + 1 < len(plan.terms):
        plan = Plan(plan.program, plan.policies, sorted(plan.waived), plan.terms[1 : count + 1])
    return found._replace(plan=plan, events=events, state=fold(plan, events))


def last_move(last: History) -> Event | None:
    """Return the newest record `moved` of a run, or None."""
    return next((event for event in reversed(last.events) if event.kind == "moved"), None)
