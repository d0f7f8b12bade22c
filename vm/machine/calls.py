"""Steps that call models and tools: which call comes next, and which event an answer becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, assert_never

from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.journal.canonical import LARGEST, ErasedError, is_sealed
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import Failing, LlmCall, ToolCall
from stepward.vm.language.steps.catching import BAD_OUTPUT, BAD_VALUE, DEPENDENCY, UNDEFINED_NAME, Retry
from stepward.vm.machine.data import completed, filled
from stepward.vm.machine.effects import repeated
from stepward.vm.machine.events import IDLE, Action, Call, Calls, Event, Kind, Result, make_event, unsealed
from stepward.vm.machine.forks import leaves, unpaid_attempts, within
from stepward.vm.machine.keys import FrameName, shown
from stepward.vm.machine.ordering import come_before, is_due, lacks, slots_before
from stepward.vm.machine.plan import CallPlan, Plan, StepPlan, successor_fields
from stepward.vm.machine.sizes import oversize, recorded_size, refusal
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import FRESH, OPEN, READY, SETTLED, CallState, Reader, State, visits_of
from stepward.vm.values import FrozenMap, as_text

NOTHING: Final[frozenset[int]] = frozenset()


class Visit(NamedTuple):
    """One visit of a step: the run, the step, and the number of the visit."""

    plan: Plan
    state: State
    step: StepPlan
    number: int


def place_of(state: State, step: str, visit: int) -> dict[str, Any]:
    """Return the fields of a record that say where it happened: the step, its visit, and the frame in a body."""
    if state.frames:
        return {"step": step, "visit": visit, "frame": state.frames[-1].name}
    return {"step": step, "visit": visit}


def item_started(step: StepPlan, visit: int, frame: FrameName) -> Event:
    """Return the event with which an item of a step starts, or a branch."""
    return make_event("item", {"frame": frame, "step": step.id, "visit": visit})


def assignment(plan: Plan, state: State, step: StepPlan, visit: int, values: Mapping[str, Any]) -> Event:
    """Return the event of what a step assigns."""
    body = {**place_of(state, step.id, visit), "values": values, **step.exit_fields}
    return unsealed("assigned", body) if plan.has_sensitive else make_event("assigned", body)


def out_of_steps(plan: Plan, state: State, cost: int) -> bool:
    """Return whether the budget of steps is too small for `cost` more."""
    spent = state.steps + cost
    return spent > state.limits.steps or (plan.max_steps is not None and spent > plan.max_steps)


def is_unpaid(plan: Plan, state: State, frame: FrameName) -> bool:
    """Return whether the budget of steps is too small by now for a call that a branch has made without an intent.

    Such a call is paid for when it has come back. Its siblings may have used up the budget meanwhile, or may need the
    rest for what is tried again.
    """
    if not out_of_steps(plan, state, state.steps + plan.most_cost):  # what is tried again has cost a step before
        return False
    local = within(plan, state, frame)
    return local.calls is None and out_of_steps(plan, local, plan.steps[local.at].cost + unpaid_attempts(state))


def used_up(plan: Plan, state: State) -> str | None:
    """Return the reason of the first budget that calls of models have used up, or None."""
    return next((one.reason for one, limit in plan.model_budgets if getattr(state, one.spent) >= limit), None)


def ended(plan: Plan, state: State, status: str, reason: str, error: str = "") -> Event:
    """Return the event that ends a run for a reason outside the program; it names effects that may have happened."""
    error_field = {"error": error} if error else {}
    return make_event("ended", {"ends": status, "reason": reason, **error_field, **_in_doubt_field(plan, state)})


def with_doubts(plan: Plan, state: State, last: Event) -> Event:
    """Return the last event of a run, with the writes of all branches that may have happened."""
    body = {name: value for name, value in last.body.items() if name != "in_doubt"} | _in_doubt_field(plan, state)
    return make_event(last.kind, body, last.note)  # type: ignore[arg-type]


def _in_doubt_field(plan: Plan, state: State) -> dict[str, Any]:
    """Return the field of the last record that names writes of the present steps that may have happened, if any."""
    in_doubt = [
        shown(leaf.frame, call.id)
        for leaf in leaves(plan, state)
        for call, call_state in zip(plan.steps[leaf.at].calls, leaf.calls or (), strict=False)
        if call.writes and (call_state.phase in (OPEN, "doubt") or call_state.is_unknown)
    ]
    return {"in_doubt": in_doubt} if in_doubt else {}


def guardrail_rejection(plan: Plan, state: State, visit: int, objection: tuple[str, str, str]) -> Event:
    """Return the rejection of a start that a guardrail forbids: the run ends FAILED.

    `objection` is the step, the rule, and why.
    """
    step, rule, why = objection
    error = f"guardrail `{rule}` forbids `{step}` to start: {why}"
    ends = {"ends": "FAILED", "reason": "guardrail", **_in_doubt_field(plan, state)}
    return make_event(
        "rejected", {"error": error, "kind": "failed", "rule": rule, **place_of(state, step, visit), **ends}
    )


# -- entering ----------------------------------------------------------------------------------------------------------


def enter_calls(plan: Plan, state: State, step: StepPlan, visit: int) -> Action:
    """Return the first attempts of an llm, tool or parallel step, or why one of them does not start."""
    if not step.is_parallel and not (call := step.calls[0]).is_model and step.part not in plan.watch.guarded:
        if call.first is not None:
            is_first = visit == 1 and not state.frames
            return call.first if is_first else Calls((call.first.calls[0]._replace(visit=visit, frame=state.frame),))
        ready = prepare(Visit(plan, state, step, visit), call, FRESH)
        return ready if isinstance(ready, Event) else Calls((ready,))
    return _wave(plan, state, step, (FRESH,) * len(step.calls), visit)


def go_on(
    plan: Plan, state: State, step: StepPlan, call_states: tuple[CallState, ...], under_way: frozenset[int]
) -> Action:
    """Return the next action in a step that has begun."""
    visit = visits_of(state, step)
    if state.is_cancelled:
        return ended(plan, state, "CANCELLED", "cancelled")
    for call, call_state in zip(step.calls, call_states, strict=True):
        if call_state.phase == OPEN and not call.is_idempotent and call.sub not in under_way:
            return make_event("doubt", {**place_of(state, call.id, visit), "error": "the machine stopped while it ran"})
    if all(call_state.phase in SETTLED for call_state in call_states):
        assert step.is_parallel, "a step with one call is left when that is settled"
        return _joined(plan, state, step, call_states, visit)
    for call, call_state in zip(step.calls if step.order is not None else (), call_states, strict=False):
        if call_state.phase == READY and call.sub not in under_way and lacks(step, call.sub, call_states):
            why = f"`{call.id}` can't start: {_why_lacking(step, call.sub)}"
            return unstarted(Visit(plan, state, step, visit), call, "blocked", why, DEPENDENCY)
    return _wave(plan, state, step, call_states, visit, under_way)


def _why_lacking(step: StepPlan, sub: int) -> str:
    """Return why a sub-step can't start: which of several has come to nothing first depends on timing."""
    assert step.order is not None
    *others, last = (f"`{step.calls[one].id}`" for one in sorted(step.order.needs[sub]))
    if not others:
        return f"it depends on {last}, which has no output"
    return f"it depends on {', '.join(others)} and {last}, and one of them has no output"


def _starting(
    plan: Plan, step: StepPlan, call_states: tuple[CallState, ...], under_way: frozenset[int]
) -> list[tuple[CallPlan, CallState]]:
    """Return the calls of which an attempt may be made now.

    Without `depends_on` they are a wave. With it, a call may be made as soon as there is room beside those under way.
    """
    starting = [
        (call, call_state)
        for call, call_state in zip(step.calls, call_states, strict=True)
        if call_state.phase in (READY, OPEN) and call.sub not in under_way and is_due(step, call.sub, call_states)
    ]
    if step.order is None:
        return _in_one_wave(plan, step, starting)
    started = [one for one in starting if one[1].phase == OPEN]
    new = [one for one in starting if one[1].phase == READY]
    room = len(new) if step.concurrency is None else max(step.concurrency - len(under_way) - len(started), 0)
    return started + new[:room]


def _in_one_wave(
    plan: Plan, step: StepPlan, starting: list[tuple[CallPlan, CallState]]
) -> list[tuple[CallPlan, CallState]]:
    if (plan.model_budgets or step.is_in_branch) and step.concurrency is not None:
        # The budget is checked before each call, as far as timing allows; and so are the rules that siblings share.
        starting = starting[: step.concurrency]
    return starting


def _wave(
    plan: Plan,
    state: State,
    step: StepPlan,
    call_states: tuple[CallState, ...],
    visit: int,
    under_way: frozenset[int] = NOTHING,
) -> Action:
    """Return all attempts that can be made now: with waves, budgets and rules do not depend on timing."""
    starting = _starting(plan, step, call_states, under_way)
    if not starting:
        return IDLE
    ready: list[Call] = []
    for call, call_state in starting:
        attempt = prepare(Visit(plan, state, step, visit), call, call_state)
        if isinstance(attempt, Event):
            return attempt
        ready.append(attempt)
    if state.calls is not None and out_of_steps(plan, state, _unpaid(state, step, ready)):
        return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
    objection = _objection(plan, state, step, ready)
    if objection is not None:
        return guardrail_rejection(plan, state, visit, objection)
    asks_model = bool(plan.model_budgets) and any(call.is_model for call, _ in starting)
    reason = used_up(plan, state) if asks_model else None
    if reason is not None:
        return ended(plan, state, "BUDGET_EXCEEDED", reason)
    return Calls(tuple(ready))


def _unpaid(state: State, step: StepPlan, ready: list[Call]) -> int:
    """Return how many attempts of a step the budget has yet to pay for; its first ones are paid with the step.

    With `depends_on`, those count that wait beside what starts now, for their delays or for room: else whether the run
    ends would depend on who waits in this process. (`is_once_sized` says that the machine was an older one.)
    """
    if step.order is None or state.is_once_sized:
        return sum([call.attempt > 1 and not call.is_started for call in ready])
    return unpaid_attempts(state)


def _objection(plan: Plan, state: State, step: StepPlan, ready: list[Call]) -> tuple[str, str, str] | None:
    """Return the first objection of a guardrail to new performances, in order, each as if those before had started."""
    memories, guarded = state.monitors, plan.watch.guarded
    if step.is_parallel and state.calls is None:
        memories = plan.watch.performed(memories, step.part)  # its sub-steps start when it has
    for attempt in ready:
        part = (step.position, attempt.sub if step.is_parallel else None)
        if part not in guarded or attempt.is_started or not _is_new_performance(state, attempt):
            continue
        reader = Reader(plan, slots_before(state, step, attempt.sub), _arguments(attempt))
        found = plan.watch.objection(memories, part, reader, come_before(state, step, attempt.sub))
        if found is not None:
            return attempt.step, *found
        memories = plan.watch.performed(memories, part)
    return None


def objection_to(plan: Plan, state: State, step: StepPlan, attempt: Call) -> str | None:
    """Return the objection of a guardrail to the start of one call of a step that has begun, in words, or None."""
    found = _objection(plan, state, step, [attempt])
    return None if found is None else f"guardrail `{found[1]}` forbids `{found[0]}` to start: {found[2]}"


def _is_new_performance(state: State, attempt: Call) -> bool:
    """Return whether an attempt is a new performance, not another attempt under the same key."""
    call_state = FRESH if state.calls is None else state.calls[attempt.sub]
    return attempt.performance > call_state.performance


def _arguments(attempt: Call) -> Any:
    return UNDEFINED if attempt.args is None else attempt.args


def prepare(at: Visit, call: CallPlan, call_state: CallState, *, asks: bool = True) -> Call | Event:
    """Return the next attempt of a call, or the event of its failure before it starts.

    Without `asks`, allow-lists are ignored.
    """
    plan, state, step, visit = at
    slots = slots_before(state, step, call.sub)
    reader = Reader(plan, slots)
    attempt, performance = call_state.attempt + 1, call_state.performance + 1
    is_started = call_state.phase == OPEN
    if is_started:
        attempt = call_state.attempt
    if call_state.performance and (is_started or call.keeps_key or call_state.repeats):
        performance = call_state.performance
    try:
        match call.call:
            case LlmCall() as asks_model:
                numbers = Numbers(attempt, performance, is_started=is_started)
                prompted = _prompted(at, call, asks_model, reader, numbers)
                return prompted._replace(due=call_state.due) if isinstance(prompted, Call) else prompted
            case ToolCall() as calls_tool:
                args = filled(calls_tool.args, reader)
            case _:
                assert_never(call.call)
    except (EvaluationError, ErasedError) as error:
        return unstarted(at, call, "blocked", f"`{call.id}` can't start: {error}", name_of(error))
    if call.arg_types is not None:
        args, why = completed(args, call.arg_types)
        if why is not None:
            return unstarted(at, call, "blocked", f"`{call.id}` can't start: argument {why}", "BadArguments")
        args = FrozenMap(args)
    objection = forbidden(plan, call, Reader(plan, slots, args)) if asks else None
    if objection is not None:
        rule, why = objection
        return unstarted(at, call, "rejected", why, "Refused", rule)
    is_retry, due = attempt > 1, call_state.due
    frame = state.frame
    return Call(call.sub, call.id, visit, attempt, performance, args, "", None, is_retry, is_started, due, frame)


class Numbers(NamedTuple):
    """The numbers of an attempt, and whether its start is recorded."""

    attempt: int
    performance: int
    is_started: bool


def _prompted(at: Visit, call: CallPlan, step: LlmCall, reader: Reader, numbers: Numbers) -> Call | Event:
    attempt, performance, is_started = numbers
    prompt = filled(step.prompt, reader)
    system = None if step.system is None else filled(step.system, reader)
    if is_sealed(prompt) or is_sealed(system):
        why = f"a sensitive value would reach the prompt of `{call.id}`"
        return unstarted(at, call, "rejected", why, "Refused", "sensitive-to-model")
    # The program decides whether there is a system text: a reference to null becomes the text `null`.
    prompt, system = as_text(prompt), None if step.system is None else as_text(system)
    found = Call(call.sub, call.id, at.number, attempt, performance, None, prompt, system, attempt > 1, is_started)
    return found._replace(frame=at.state.frame)


def forbidden(plan: Plan, call: CallPlan, reader: Reader) -> tuple[str, str] | None:
    """Return the rule and the reason if a policy does not allow a call, else None.

    `allow` is that of the allow-list, `performed` that no write of the runs before is repeated.
    """
    for policy in plan.allowing:
        assert policy.allow is not None
        entries = [entry for entry in policy.allow if entry.tool == call.tool]
        if not entries:
            return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}`"
        if not any(_admits(entry.when, reader, plan.program.language) for entry in entries):
            return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}` with these arguments"
    why = repeated(plan.performing, call.tool, reader.args) if plan.performing and call.writes else None
    return None if why is None else ("performed", why)


def _admits(when: str | None, reader: Reader, language: int) -> bool:
    if when is None:
        return True
    try:
        return evaluate_condition(parse(when, language), reader)
    except (EvaluationError, ErasedError):
        return False


def unstarted(at: Visit, call: CallPlan, kind: Kind, error: str, name: str, rule: str = "") -> Event:
    """Return the event of a call that fails before it starts: no retries, no effect. `name` is that of the error."""
    outcome = "skipped" if call.on_error == "skip" else "failed"
    body: dict[str, Any] = {"error": error, "kind": outcome, **place_of(at.state, call.id, at.number)}
    body |= named(at.plan, name)
    if rule:
        body["rule"] = rule
    if not at.step.is_parallel:
        body |= after(at.plan, at.step, outcome, name)
    return make_event(kind, body)


def name_of(error: Exception) -> str:
    """Return the name of the error of a step whose values can't be computed."""
    return UNDEFINED_NAME if isinstance(error, UndefinedReferenceError) else BAD_VALUE


def named(plan: Plan, name: str) -> dict[str, str]:
    """Return the field of a record with the name of an error; none for a program of language 1."""
    return {"error_name": name} if plan.names_errors else {}


def after(plan: Plan, step: StepPlan, kind: str, name: str) -> dict[str, Any]:
    """Return the fields for what follows an outcome of a step; `name` is that of the error."""
    transition = step.leaving(kind, name)
    assert transition is not None, "a step has a transition for each of its outcomes"
    return successor_fields(plan.steps, transition)


# -- joining -----------------------------------------------------------------------------------------------------------


def _joined(plan: Plan, state: State, step: StepPlan, call_states: tuple[CallState, ...], visit: int) -> Event:
    assert isinstance(step.step, Failing)
    body = place_of(state, step.id, visit)
    failed = [
        (call, call_state)
        for call, call_state in zip(step.calls, call_states, strict=True)
        if call_state.phase == "failed"
    ]
    is_again = bool(failed) and step.step.on_error == "retry" and state.round < step.step.max_retries
    if is_again and out_of_steps(plan, state, 1 + len(failed)):
        return ended(plan, state, "BUDGET_EXCEEDED", "max_steps")
    too_large = None if is_again else _too_large_together(plan, state, step, call_states)
    if too_large is not None and not state.is_once_sized:
        return ended(plan, state, "FAILED", "error", f"`{step.id}` can't end: {too_large}")
    if not failed and too_large is None:
        return make_event(
            "joined", body | {"kind": "success", **successor_fields(plan.steps, step.transitions["success"])}
        )
    if not failed:
        if "failed" not in step.transitions:
            return ended(plan, state, "FAILED", "error")
        body |= {"error": too_large, "kind": "failed", **named(plan, BAD_OUTPUT)}
        return make_event("joined", body | after(plan, step, "failed", BAD_OUTPUT))
    # What did not start because of a failure does not explain it.
    own = [one for one in failed if not lacks(step, one[0].sub, call_states)] or failed
    name = own[0][1].name  # the first in the order of the program, not in time
    body |= {"error": "; ".join(f"`{call.id}`: {found.error}" for call, found in own[:3]), **named(plan, name)}
    if is_again:
        return make_event("joined", body | {"kind": "again"})
    outcome = "skipped" if step.step.on_error == "skip" else "failed"
    return make_event("joined", body | {"kind": outcome, **after(plan, step, outcome, name)})


def _too_large_together(plan: Plan, state: State, step: StepPlan, call_states: tuple[CallState, ...]) -> str | None:
    """Return why what sub-steps leave together is too large, or None.

    Checked where they join, not when each output arrives: which sub-step exceeds the limit must not depend on timing.
    """
    limit = state.limits.state_bytes
    if state.is_once_sized:
        size = sum(recorded_size(call_state.value) for call_state in call_states)
        return refusal(state, step, size, size, limit)
    return oversize(plan, state, step, FrozenMap(outputs_of(step, call_states)), limit)


def outputs_of(step: StepPlan, call_states: tuple[CallState, ...]) -> dict[str, Any]:
    """Return the outputs of the sub-steps that have one, by their names."""
    pairs = zip(step.calls, call_states, strict=True)
    return {own_name(call.id): one.value for call, one in pairs if one.phase in ("success", "fallback")}


# -- what an answer means ----------------------------------------------------------------------------------------------


def judge(plan: Plan, state: State, attempt: Call, result: Result, note: dict[str, Any]) -> Event:
    """Return the event of an attempt that was made: its outcome, and the successor if that settles the step."""
    step = plan.steps[state.at]
    call = step.calls[attempt.sub]
    if result.answer == "output":
        body = {"kind": "success", **step.exit_fields, "output": result.value, "step": call.id, "visit": attempt.visit}
        if attempt.frame:
            body["frame"] = attempt.frame
        return unsealed("attempt", body, note) if plan.has_sensitive else make_event("attempt", body, note)
    body = place_of(state, call.id, attempt.visit)
    base = 0 if state.calls is None else state.calls[attempt.sub].base
    tried = attempt.attempt - base
    kind = outcome_of(call, tried, result)
    body["kind"] = kind
    if kind == "suspended":
        body["request"] = result.value
        if call.deadline is not None:
            note = note | {"due": min(int(note["started"] + note["took"]) + call.deadline, LARGEST)}
    elif kind == "fallback":
        body["output"] = call.call.fallback
    else:
        body["error"] = result.error
        body |= named(plan, result.name) if kind != "doubt" else {}
    if kind == "again":
        if is_unknown_after(call, result):
            body["unknown"] = True
        entry = call.retry_of(result.name)
        if entry is not None:
            note = note | {"due": due_after(entry, tried, int(note["started"] + note["took"]))}
    if result.rule:
        body["rule"] = result.rule
    if kind in SETTLED and not step.is_parallel:
        body |= after(plan, step, kind, result.name)
    return unsealed("attempt", body, note) if plan.has_sensitive else make_event("attempt", body, note)


def due_after(entry: Retry, tried: int, failed: int) -> int:
    """Return the earliest time of the next attempt; `failed` is when the last one did; both in microseconds."""
    return min(failed + entry.delay(tried), LARGEST)


def outcome_of(call: CallPlan, tried: int, result: Result) -> str:
    """Return what an attempt comes to; `tried` is how many attempts there were in this round."""
    if result.answer == "output":
        return "success"
    if result.answer == "suspended":
        return "suspended"
    is_unknown = is_unknown_after(call, result)
    if is_unknown and not call.is_idempotent:
        return "doubt"
    if tried < call.tries(result.name, is_unknown=is_unknown):
        return "again"
    if result.answer == "timeout" and call.has_fallback:
        return "fallback"
    if is_unknown:
        return "doubt"
    return "skipped" if call.on_error == "skip" else "failed"


def is_unknown_after(call: CallPlan, result: Result) -> bool:
    """Return whether an answer leaves open whether the effect happened."""
    return call.writes and result.answer in ("timeout", "doubt")
