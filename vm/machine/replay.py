"""Replays runs: folds the records again, and compares each with what the machine would have written.

An unbroken chain shows that the records were not changed later; a replay shows that a machine wrote them. Even a
journal that was rewritten and re-hashed as a whole can't hold a transition that the program does not have, an unchecked
guardrail, an effect without its intent, or an output of a wrong type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import LARGEST, ErasedError, has_gone, opened
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import Record
from stepward.vm.journal.store import Entry, Journal
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import Replay
from stepward.vm.language.failures import started_names
from stepward.vm.language.policy import Policy
from stepward.vm.language.steps import LlmCall
from stepward.vm.language.steps.catching import BAD_OUTPUT, TIMEOUT
from stepward.vm.language.types import same
from stepward.vm.machine.apply import apply
from stepward.vm.machine.authority import two_people
from stepward.vm.machine.branches import branch_started
from stepward.vm.machine.calls import Visit, due_after, objection_to, place_of, prepare
from stepward.vm.machine.chains import Load, chain_before, link_misfit, link_of, reader, turn_link_misfit
from stepward.vm.machine.data import completed, refused
from stepward.vm.machine.deadlines import overdue
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Action, Call, Calls, Event
from stepward.vm.machine.forks import may_start, seen_at
from stepward.vm.machine.history import History, Plans, applied, load, stored_plan, unfold
from stepward.vm.machine.keys import idempotency_key
from stepward.vm.machine.memory import UnderWay
from stepward.vm.machine.moving import FIELDS as MOVE_FIELDS
from stepward.vm.machine.moving import move_misfit
from stepward.vm.machine.ordering import open_calls
from stepward.vm.machine.plan import CallPlan, Plan, successor_fields
from stepward.vm.machine.run import Run
from stepward.vm.machine.sized_once import SizedOnce
from stepward.vm.machine.state import FRESH, OPEN, SETTLED, CallState, Limits, State, before, visits_of
from stepward.vm.machine.timeouts import ending_misfit, start_misfit
from stepward.vm.machine.traces import as_once_traced
from stepward.vm.machine.turns import is_turn, stray
from stepward.vm.machine.waits import dated

FROM_OUTSIDE: Final = ("cancel", "refused", "erased")
"""The events that the machine does not decide."""

START_FIELDS: Final = frozenset({"inputs", "policies", "program", "waived"})
"""The fields of the first record, without the optional dialect of patterns."""

MAX_PLANS: Final = 64
"""Maximal number of cached plans of a machine, or in a check of many runs."""

DELIVERIES: Final = ("resumed", "reconciled")

FIELDS: Final = {
    "governed": frozenset({"policies", "waived"}),
    "intent": frozenset({"args", "policies", "step", "tool", "visit"}),
    "doubt": frozenset({"error", "step", "visit"}),
}
"""The fields of records that always have the same ones."""

VERDICTS: Final = ("done", "not_done", "abandon")

VALUE_FIELDS: Final = {"success": "output", "fallback": "output", "suspended": "request"}
"""The field of an attempt's value, by its kind; attempts of other kinds have an `error`."""
FORGED: Final = (
    "the records were not written by the machine for this program: find out who had access to the store and the keys"
)
MISREPORTED: Final = "the receipt was edited after it was created: find out who had access to it"


class Replayed(NamedTuple):
    """The result of a replay: the run, the faults, and the number of records that were compared."""

    run: Run
    faults: tuple[Fault, ...]
    steps: int


def replay(journal: Journal, run: str) -> Replayed | None:
    """Replay a run; None if there is none. Raises JournalError if it can't be read."""
    plans: Plans = lambda *documents: stored_plan(journal, *documents)  # noqa: E731
    found = load(journal, run, plans)
    if found is None:
        return None
    played = Run(run, found.plan, found.state, found.last, history=lambda: found)
    return Replayed(played, tuple(misfits(found) or chain_faults(journal, found, plans)), len(found.events))


def replayer(journal: Journal, run: str, receipts: Sequence[Receipt] = (), plans: Plans | None = None) -> Replay:
    """Return the check of a run that `verify` calls if the run's chain is unbroken.

    The status and trace of `receipts` are compared with the run at that time. `plans` makes the plans: `cached_plans`
    shares them among many runs.
    """

    def check(entries: Sequence[Entry], records: Sequence[Record]) -> Sequence[Fault]:
        try:
            known = plans or cached_plans(journal)
            found = unfold(journal, run, tuple(records), entries[-1], known)
            faults = misfits(found) or chain_faults(journal, found, known)
        except StepwardError as error:
            return [Fault(run, None, str(error), FORGED)]
        on_chain = [
            receipt
            for receipt in receipts
            if receipt.run == run and receipt.seq < len(entries) and receipt.digest == entries[receipt.seq].digest
        ]
        return faults or (misreports(found, on_chain) if on_chain else [])

    return check


def cached_plans(journal: Journal) -> Plans:
    """Return a cached `stored_plan` of a store, so that many runs of few programs share their plans."""

    @lru_cache(maxsize=MAX_PLANS)
    def plan(*documents: Any) -> Plan:
        return stored_plan(journal, *documents)

    return plan


def chain_faults(journal: Journal, found: History, plans: Plans) -> list[Fault]:
    """Return the faults of the runs that a run continues, and of the way in which each continues the one before.

    Raises JournalError if one of them can't be read.
    """
    read = reader(journal, plans)
    why = stray(found)
    if why is not None:
        return [Fault(found.run, 0, f"record 0: {why}", FORGED)]
    if is_turn(found):
        return _turn_faults(journal, found, read)
    chain = [*chain_before(found, read), found]
    for number, history in enumerate(chain):
        why = link_misfit(history, chain[:number], journal)
        wrong = [] if why is None else [Fault(history.run, 0, f"record 0: {why}", FORGED)]
        wrong = wrong or (misfits(history) if history is not found else [])
        why = None if wrong else move_misfit(chain[:number], history, journal)
        wrong = wrong if why is None else [Fault(history.run, None, why, FORGED)]
        if wrong and history is not found:
            what = f"run `{history.run}`, which it continues, is not in order: {wrong[0].what}"
            return [Fault(found.run, 0, what, wrong[0].help)]
        if wrong:
            return wrong
    return []


def _turn_faults(journal: Journal, found: History, read: Load) -> list[Fault]:
    """Return the faults of the turn before a turn, and of the way in which the turn continues it.

    Those before that one are not read: a session may have many turns, and each is checked against the one before.
    """
    link = link_of(found)
    before_it = None if link is None else read(link.run)
    if link is not None and before_it is None:
        why: str | None = f"the turn before it, run `{link.run}`, is not in this store"
    else:
        why = turn_link_misfit(found, link, before_it, journal)
    if why is not None:
        return [Fault(found.run, 0, f"record 0: {why}", FORGED)]
    wrong = [] if before_it is None else misfits(before_it)
    if not wrong:
        return []
    return [Fault(found.run, 0, f"the turn before it is not in order: {wrong[0].what}", wrong[0].help)]


def misreports(found: History, receipts: Sequence[Receipt]) -> list[Fault]:
    """Return a fault for each receipt that contradicts the records of a run, which are in order."""
    faults: list[Fault] = []
    numbers = {receipt.seq for receipt in receipts}
    once = _states(found.plan, map(as_once_traced, found.events), numbers)
    states = _states(found.plan, found.events, numbers)
    for receipt in sorted(receipts, key=lambda receipt: receipt.seq):
        state, traces = states[receipt.seq], (states[receipt.seq].trace, once[receipt.seq].trace)
        for name, says, are_so in (
            ("status", receipt.status, (state.status,)),
            ("trace hash", receipt.trace.hex(), tuple(trace.hex() for trace in traces)),
        ):
            if says not in are_so:
                what = f"the receipt for record {receipt.seq} says the {name} `{says}`, and it was `{are_so[0]}`"
                faults.append(Fault(found.run, receipt.seq, what, MISREPORTED))
    return faults


def _states(plan: Plan, events: Iterable[Event], numbers: Collection[int]) -> dict[int, State]:
    """Return the states after some of the events, by number."""
    state, states = before(plan), {}
    for number, event in enumerate(events):
        state = apply(plan, state, event)
        if number in numbers:
            states[number] = state
    return states


def misfits(found: History) -> list[Fault]:
    """Return a fault for the first record that the machine would not have written, if there is one.

    Raises JournalError for records that do not fit together.
    """
    plan, run, state, once = found.plan, found.run, before(found.plan), SizedOnce(found)
    for number, event in enumerate(found.events):
        after = applied(plan, state, event, number)
        try:
            if number:
                why = _misfit(plan, run, state, event) and _misfit(plan, run, once.before(number), event)
            else:
                why = _start_misfit(plan, event) or start_misfit(plan, event.note, found.records[0].at)
        except ErasedError:  # it can't be checked, as in `_misfit`
            why = None
        except (KeyError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
            why = f"it is no `{event.kind}` of this program"
        state = after
        if why is not None:
            return [Fault(found.run, number, f"record {number}: {why}", FORGED)]
    return []


def _start_misfit(plan: Plan, event: Event) -> str | None:
    """Return why no machine would write this first record, or None: its fields, inputs and waivers are checked."""
    body, limits = event.body, event.note["limits"]
    if not START_FIELDS <= body.keys() <= START_FIELDS | {"patterns", "continues", "turn"}:
        return "its fields are not those of a start"
    if len(limits) != len(Limits._fields) or any(type(limit) is not int for limit in limits):
        return "its limits are none"
    why = _waiver_misfit(plan, plan.policies, body["waived"])
    if why is not None or has_gone(body["inputs"]):
        return why
    inputs, why = completed(opened(body["inputs"]), plan.input_types)
    return "an input is missing" if why is None and inputs.keys() != body["inputs"].keys() else why


def _waiver_misfit(plan: Plan, policies: Iterable[Policy], waived: Iterable[str]) -> str | None:
    """Return which rule is waived that no policy waives, or None; a replay ignores the dates of waivers."""
    name = plan.program.name
    known = {f"{one.policy}:{waiver.rule}" for one in policies for waiver in one.waivers if waiver.program == name}
    return next((f"no policy waives `{rule}`" for rule in waived if rule not in known), None)


def _misfit(plan: Plan, run: str, state: State, event: Event) -> str | None:
    """Return why the machine would not have written this record here, or None."""
    kind, whole = event.kind, state
    state = seen_at(plan, state, event)
    within = {"frame"} if state.frames and kind != "governed" else set()
    if kind in FIELDS and event.body.keys() != FIELDS[kind] | within:
        return f"its fields are not those of `{kind}`"
    if kind == "moved":
        is_whole = MOVE_FIELDS - {"granted"} <= event.body.keys() <= MOVE_FIELDS
        return None if is_whole else "its fields are not those of `moved`"
    if kind == "governed":
        return _waiver_misfit(plan, plan.terms[state.governed + 1].policies, event.body["waived"])
    if kind in FROM_OUTSIDE:
        return None
    if kind == "ended" and event.note:
        return ending_misfit(plan, whole, event)
    if whole.fork is not None and "ends" in event.body and kind not in DELIVERIES:  # it concerns all branches
        return None if _is_decided(plan, whole, event) else _undecided(event)
    if kind in ("waited", "expired"):
        due = overdue(plan, state._replace(is_cancelled=False), event.note["time"])
        is_so = due is not None and _matches(due, event) and event.note == due.note
        return None if is_so else _undecided(event)
    if kind in DELIVERIES:
        return _delivery_misfit(plan, state, event) or _output_misfit(plan, state, event)
    step = plan.steps[state.at]
    if step.order is not None and state.calls is not None and kind not in ("intent", "attempt", "doubt"):
        return None if _is_decided(plan, state, event) else _undecided(event)
    # Cancelling a run whose process died in a call ends the run: that event is decided, and no outcome of the call.
    if kind in ("intent", "attempt", "doubt") or (kind != "ended" and _is_open(state)):
        return _call_misfit(plan, run, state, event)
    return None if _is_decided(plan, state, event) else _undecided(event)


def _undecided(event: Event) -> str:
    return f"the machine would not have written `{event.kind}` of `{event.body.get('step', '')}` here"


def _is_decided(plan: Plan, state: State, event: Event) -> bool:
    """Return whether the machine decides an event in a state, or whether that can't be computed any more."""
    if event.kind == "item" and state.fork is not None:
        decided: list[Action] = [branch_started(plan, state, number) for number in may_start(plan, state.fork)]
        return any(type(action) is Event and _matches(action, event) for action in decided)
    under_way = [_nobody]
    if plan.steps[state.at].order is not None and event.kind != "ended":
        under_way.append(open_calls)  # those that go on beside it
    decided = [decide(plan, state, subs(state)) for subs in under_way]
    if state.is_cancelled:  # the event may have been decided before the request to cancel
        before = state._replace(is_cancelled=False)
        decided += [decide(plan, before, subs(before)) for subs in under_way]
    if any(type(action) is Event and _matches(action, event) for action in decided):
        return True
    return has_gone(event.body) or _was_erased(state)


def _nobody(state: State) -> UnderWay:  # noqa: ARG001
    return frozenset()


def _is_open(state: State) -> bool:
    return state.calls is not None and any(call_state.phase == OPEN for call_state in state.calls)


def _delivery_misfit(plan: Plan, state: State, event: Event) -> str | None:
    step, body = plan.steps[state.at], event.body
    call = next((call for call in step.calls if call.id == body.get("step")), None)
    verdict = event.note["verdict"] if event.kind == "reconciled" else "done"
    found = {name: value for name, value in body.items() if name != "output"}
    if step.is_stage:
        return "no call waits between items"
    due = place_of(state, str(body.get("step")), visits_of(state, step))
    if verdict == "done":
        due |= (
            {"kind": "success"}
            if step.is_parallel
            else {"kind": "success", **successor_fields(plan.steps, step.transitions["success"])}
        )
    elif verdict == "abandon":
        due |= {"ends": "CANCELLED", "reason": "abandoned"}
    if found != due or ("output" in body) != (verdict == "done") or verdict not in VERDICTS:
        return f"it does not say what a delivery of `{verdict}` says"
    if call is None or verdict != "done":
        return None
    objection = two_people(plan, state, call, str(event.note.get("by", "")))
    return None if objection is None else objection[1]


def _was_erased(state: State) -> bool:
    """Return whether values that a step may read were erased, so that its events can't be computed again."""
    if any(has_gone(call.value) for call in state.calls or ()):
        return True
    return any(has_gone(value) for chunk in state.slots for value in chunk)


def _matches(decided: Event, event: Event) -> bool:
    if decided.kind != event.kind or decided.body.keys() != event.body.keys():
        return False
    if decided.kind == "waiting" and dated(decided, event.note["started"]).note != event.note:  # type: ignore[union-attr]
        return False
    if decided.text and decided.text == event.text:
        return True
    return all(name == "error" or _same(value, event.body[name]) for name, value in decided.body.items())


def _same(decided: Any, event: Any) -> bool:
    return has_gone(event) or same(opened(decided), opened(event))


def _call_misfit(plan: Plan, run: str, state: State, event: Event) -> str | None:
    step = plan.steps[state.at]
    call = next((call for call in step.calls if call.id == event.body.get("step")), None)
    if call is None:
        return f"`{event.body.get('step')}` is called where `{step.id}` is to be performed"
    prepared = None
    if state.calls is None:
        action = decide(plan, state)
        if state.is_cancelled and type(action) is Event:
            action = decide(plan, state._replace(is_cancelled=False))
        prepared = (
            next((prepared for prepared in action.calls if prepared.step == call.id), None)
            if type(action) is Calls
            else None
        )
        if prepared is None and not _was_erased(state):
            return f"the machine would not have called `{call.id}` here"
    if event.kind == "intent":
        return _intent_misfit(plan, run, state, call, prepared or _prepared(plan, state, call), event)
    call_state = FRESH if state.calls is None else state.calls[call.sub]
    if event.kind != "attempt":
        is_left = call_state.phase == OPEN and event.kind != "doubt"
        return f"`{call.id}` has started, and nothing says what became of it" if is_left else None
    due: CallState | Call | Event = call_state if call_state.phase == OPEN else prepared or _prepared(plan, state, call)
    note = event.note
    if not isinstance(due, Event) and (note["attempt"], note["performance"]) != (due.attempt, due.performance):
        return f"the attempt of `{call.id}` is another one than the one that was due"
    why = _cache_misfit(call, event)
    if why is not None:
        return why
    return _outcome_misfit(plan, state, call, call_state, event) or _output_misfit(plan, state, event)


def _cache_misfit(call: CallPlan, event: Event) -> str | None:
    """Return why a reply can't come from a cache, or None: its program says `cache`, and it costs nothing."""
    note = event.note
    if "cached" not in note:
        return None
    is_free = note["cached"] is True and note.get("tokens") == 0 and note.get("cost") == "0"
    is_first = (event.body["visit"], note["attempt"]) == (1, 1)
    if is_free and is_first and isinstance(call.call, LlmCall) and call.call.cache:
        return None
    return f"the reply to `{call.id}` can't come from a cache in this way"


def _prepared(plan: Plan, state: State, call: CallPlan) -> Call | Event:
    """Return the next attempt of a call, or the event of its failure before it starts."""
    step = plan.steps[state.at]
    visit = visits_of(state, step) + (state.calls is None)
    call_state = FRESH if state.calls is None else state.calls[call.sub]
    return prepare(Visit(plan, state, step, visit), call, call_state)


def _outcome_misfit(plan: Plan, state: State, call: CallPlan, call_state: CallState, event: Event) -> str | None:
    """Return why an attempt can't have this outcome, or None: the program must allow each outcome.

    Whether a failed attempt may still have had its effect (`unknown`) can't be checked.
    """
    kind, step = event.body["kind"], plan.steps[state.at]
    name = event.body.get("error_name", "")
    tries = max(call.tries(name, is_unknown=is_unknown) for is_unknown in ((True, False) if call.writes else (False,)))
    allowed = {
        "success": True,
        "failed": call.on_error != "skip",
        "skipped": call.on_error == "skip",
        "fallback": call.has_fallback and same(call.call.fallback, event.body.get("output")),
        "again": event.note["attempt"] - call_state.base < tries,
        "doubt": call.writes,
        "suspended": call.may_suspend,
    }
    if not allowed.get(kind):
        return f"an attempt of `{call.id}` can't come to `{kind}`"
    due = {"kind", *place_of(state, call.id, 0), VALUE_FIELDS.get(kind, "error")}
    if plan.names_errors and kind in ("failed", "skipped", "again"):
        due.add("error_name")
    if kind in SETTLED and not step.is_parallel:
        transition = step.leaving(kind, name)
        due |= set() if transition is None else successor_fields(plan.steps, transition).keys()
    may = {"rule"} if call.is_model and "error" in due else {"unknown"} if kind == "again" and call.writes else set()
    if not due <= event.body.keys() <= due | may or event.body.get("unknown", True) is not True:
        return f"its fields are not those of an attempt that came to `{kind}`"
    return _name_misfit(call, kind, name) or _due_misfit(call, call_state, event) if plan.names_errors else None


def _name_misfit(call: CallPlan, kind: str, name: str) -> str | None:
    """Return why an attempt that failed can't have an error of this name, or None."""
    known = set(started_names(call.call, call.tool_facts))
    if kind == "again":  # a write may be tried again, or the last attempt may use the fallback
        known |= {BAD_OUTPUT} if call.timeout is None else {BAD_OUTPUT, TIMEOUT}
    is_named = kind in ("failed", "skipped", "again")
    return f"`{call.id}` can't fail with `{name}`" if is_named and name not in known else None


def _due_misfit(call: CallPlan, call_state: CallState, event: Event) -> str | None:
    """Return why the next attempt is due, or a deadline passes, at another time than it says, or None."""
    note, kind, due = event.note, event.body["kind"], None
    if kind == "suspended" and call.deadline is not None:
        due = min(note["started"] + note["took"] + call.deadline, LARGEST)
    elif kind == "again" and (entry := call.retry_of(event.body["error_name"])) is not None:
        due = due_after(entry, note["attempt"] - call_state.base, note["started"] + note["took"])
    return None if note.get("due") == due else f"what follows the attempt of `{call.id}` is due at another time"


def _intent_misfit(plan: Plan, run: str, state: State, call: CallPlan, ready: Call | Event, event: Event) -> str | None:
    policies = plan.digests_under(state.governed)
    if event.body["tool"] != call.tool or tuple(event.body["policies"]) != policies:
        return f"the intent of `{call.id}` names another tool or policy"
    if isinstance(ready, Event):
        return None if _was_erased(state) else f"`{call.id}` can't start"
    note = event.note
    key = idempotency_key(plan.digest, run, call.id, ready.visit, ready.performance, state.frame)
    if (note["attempt"], note["performance"], note["key"]) != (ready.attempt, ready.performance, key):
        return f"the intent of `{call.id}` is of another attempt or performance, or has another key"
    if not call.is_model and not _same(ready.args, event.body["args"]):
        return f"`{call.id}` has other arguments than the program says"
    if call.is_model and event.body["args"]:
        return f"the call of the model in `{call.id}` has arguments"
    return _member_misfit(plan, state, call, ready)


def _member_misfit(plan: Plan, state: State, call: CallPlan, ready: Call) -> str | None:
    """Return why a sub-step of a step with `depends_on` must not start now, or None."""
    step = plan.steps[state.at]
    if step.order is None or state.calls is None:
        return None
    if step.concurrency is not None and len(open_calls(state)) >= step.concurrency:
        return f"`{call.id}` starts beside more than the program allows at once"
    return objection_to(plan, state, step, ready)


def _output_misfit(plan: Plan, state: State, event: Event) -> str | None:
    body = event.body
    if body.get("kind") != "success" or has_gone(body.get("output")):
        return None
    call = next((call for call in plan.steps[state.at].calls if call.id == body.get("step")), None)
    if call is None:
        return f"`{body.get('step')}` is not what the run waits for"
    value = opened(body["output"])
    if call.allowed is not None and value not in call.allowed:
        return f"the reply of `{call.id}` is none of its `allowed_outputs`"
    return refused(value, call.returns, f"the output of `{call.id}`")
