"""Replay: a run folded again from its records, each held against what the machine would have done.

A chain that is unbroken says that nobody changed the records since; this says that they are those of a machine. A
journal rewritten and re-hashed whole can still not hold a transition that the program does not have, a guardrail that
was not asked, an effect without its intent, or an output of another type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import ErasedError, Sealed, is_sealed, opened
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import Record
from stepward.vm.journal.store import Entry, Journal
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import Replay
from stepward.vm.language.policy import Policy
from stepward.vm.language.types import same
from stepward.vm.machine.apply import apply
from stepward.vm.machine.authority import two_people
from stepward.vm.machine.calls import Visit, prepare, way_out
from stepward.vm.machine.data import completed, refused
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Call, Calls, Event
from stepward.vm.machine.history import History, Plans, applied, load, stored_plan, unfolded
from stepward.vm.machine.keys import idempotency_key
from stepward.vm.machine.plan import CallPlan, Plan, StepPlan
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import FRESH, OPEN, SETTLED, CallState, Limits, State, before, visits_of
from stepward.vm.machine.traces import as_once_traced

FROM_OUTSIDE: Final = ("cancel", "refused", "erased")
"""What nobody decides: it comes when it comes."""

START_FIELDS: Final = frozenset({"inputs", "policies", "program", "waived"})
"""What the first record says, beside the dialect of patterns where there are any."""

MAX_PLANS: Final = 64
"""Plans that a check of many runs keeps."""

HELD: Final = ("resumed", "reconciled")

FIELDS: Final = {
    "governed": frozenset({"policies", "waived"}),
    "intent": frozenset({"args", "policies", "step", "tool", "visit"}),
    "doubt": frozenset({"error", "step", "visit"}),
}
"""What the bodies of records say that are always alike."""

VERDICTS: Final = ("done", "not_done", "abandon")

SAID: Final = {"success": "output", "fallback": "output", "suspended": "request"}
"""Where an attempt of a kind says what came; of other kinds it is an error."""
FORGED: Final = "the records were not written by the machine for this program: find out who had the store and the keys"
MISREPORTED: Final = "the receipt was edited since it was given: find out who had it"


class Replayed(NamedTuple):
    """A run that was folded again: as it is, what does not fit, and how many records were held against the program."""

    run: Run
    faults: tuple[Fault, ...]
    steps: int


def replay(journal: Journal, run: str) -> Replayed | None:
    """Fold a run again; None when there is none. Raises JournalError when it can't even be read."""
    found = load(journal, run, lambda *documents: stored_plan(journal, *documents))
    if found is None:
        return None
    return Replayed(Run(run, found.plan, found.state, found.last), tuple(misfits(found)), len(found.events))


def replayer(journal: Journal, run: str, receipts: Sequence[Receipt] = (), plans: Plans | None = None) -> Replay:
    """Return the check that `verify` asks once a run's chain is unbroken.

    What `receipts` say of status and trace is held against the run as it was then. `plans` makes plans in place of
    `stored_plan`: `kept_plans` for many runs.
    """

    def check(entries: Sequence[Entry], records: Sequence[Record]) -> Sequence[Fault]:
        try:
            found = unfolded(journal, run, tuple(records), entries[-1], plans or kept_plans(journal))
            faults = misfits(found)
        except StepwardError as error:
            return [Fault(run, None, str(error), FORGED)]
        on_chain = [
            receipt
            for receipt in receipts
            if receipt.run == run and receipt.seq < len(entries) and receipt.digest == entries[receipt.seq].digest
        ]
        return faults or (misreports(found, on_chain) if on_chain else [])

    return check


def kept_plans(journal: Journal) -> Plans:
    """Return what makes the plans of a store and keeps them, so that many runs of few programs share them."""

    @lru_cache(maxsize=MAX_PLANS)
    def plan(*documents: Any) -> Plan:
        return stored_plan(journal, *documents)

    return plan


def misreports(found: History, receipts: Sequence[Receipt]) -> list[Fault]:
    """Return what receipts say otherwise of a run than its records, which are in order, and on which they lie."""
    faults: list[Fault] = []
    wanted = {receipt.seq for receipt in receipts}
    once = _states(found.plan, map(as_once_traced, found.events), wanted)
    states = _states(found.plan, found.events, wanted)
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


def _states(plan: Plan, events: Iterable[Event], wanted: Collection[int]) -> dict[int, State]:
    """Return the states after some of the events, by number."""
    state, states = before(plan), {}
    for number, happened in enumerate(events):
        state = apply(plan, state, happened)
        if number in wanted:
            states[number] = state
    return states


def misfits(found: History) -> list[Fault]:
    """Return the first record that the machine would not have written, if there is one.

    Raises JournalError for records that do not fit together.
    """
    plan, state = found.plan, before(found.plan)
    for number, happened in enumerate(found.events):
        after = applied(plan, state, happened, number)
        try:
            why = _misfit(plan, found.run, state, happened) if number else _start_misfit(plan, happened)
        except ErasedError:  # the journal's word stands, as in `_misfit`
            why = None
        except (KeyError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
            why = f"it is no `{happened.kind}` of this program"
        state = after
        if why is not None:
            return [Fault(found.run, number, f"record {number}: {why}", FORGED)]
    return []


def _start_misfit(plan: Plan, happened: Event) -> str | None:
    """Return why no machine starts a run like this: it takes inputs of their types, and waives what a policy waives."""
    body, limits = happened.body, happened.note["limits"]
    if not START_FIELDS <= body.keys() <= START_FIELDS | {"patterns"}:
        return "its fields are not those of a start"
    if len(limits) != len(Limits._fields) or any(type(limit) is not int for limit in limits):
        return "its limits are none"
    why = _waiver_misfit(plan, plan.policies, body["waived"])
    if why is not None or _has_gone(body["inputs"]):
        return why
    inputs, why = completed(opened(body["inputs"]), plan.input_types)
    return "an input is missing" if why is None and inputs.keys() != body["inputs"].keys() else why


def _waiver_misfit(plan: Plan, policies: Iterable[Policy], waived: Iterable[str]) -> str | None:
    """Return which rule is waived that no policy waives; on which day, a replay does not ask."""
    name = plan.program.name
    known = {f"{one.policy}:{waiver.rule}" for one in policies for waiver in one.waivers if waiver.program == name}
    return next((f"no policy waives `{rule}`" for rule in waived if rule not in known), None)


def _misfit(plan: Plan, run: str, state: State, happened: Event) -> str | None:
    """Return why the machine would not have written this record here, or None."""
    kind = happened.kind
    if kind in FIELDS and happened.body.keys() != FIELDS[kind]:
        return f"its fields are not those of `{kind}`"
    if kind == "governed":
        return _waiver_misfit(plan, plan.terms[state.governed + 1].policies, happened.body["waived"])
    if kind in FROM_OUTSIDE:
        return None
    if kind in HELD:
        return _delivery_misfit(plan, state, happened) or _output_misfit(plan, state, happened)
    # Whoever cancels a run whose process died in a call ends it there: that is decided, and no outcome of the call.
    if kind in ("intent", "attempt", "doubt") or (kind != "ended" and _is_open(state)):
        return _call_misfit(plan, run, state, happened)
    decided = [decide(plan, state)]
    if state.is_cancelled:  # it was decided before somebody asked to cancel
        decided.append(decide(plan, state._replace(is_cancelled=False)))
    if any(type(action) is Event and _agree(action, happened) for action in decided):
        return None
    if _has_gone(happened.body) or _was_erased(state):
        return None
    return f"the machine would not have written `{kind}` of `{happened.body.get('step', '')}` here"


def _is_open(state: State) -> bool:
    return state.calls is not None and any(held.phase == OPEN for held in state.calls)


def _delivery_misfit(plan: Plan, state: State, happened: Event) -> str | None:
    step, body = plan.steps[state.at], happened.body
    call = next((call for call in step.calls if call.id == body.get("step")), None)
    verdict = happened.note["verdict"] if happened.kind == "reconciled" else "done"
    said = {name: value for name, value in body.items() if name != "output"}
    due: dict[str, Any] = {"step": body.get("step"), "visit": visits_of(plan, state, step.position)}
    if verdict == "done":
        due |= {"kind": "success"} if step.is_parallel else {"kind": "success", **way_out(plan, step.ways["success"])}
    elif verdict == "abandon":
        due |= {"ends": "CANCELLED", "reason": "abandoned"}
    if said != due or ("output" in body) != (verdict == "done") or verdict not in VERDICTS:
        return f"it does not say what a delivery of `{verdict}` says"
    if call is None or verdict != "done":
        return None
    objection = two_people(plan, state, call, str(happened.note.get("by", "")))
    return None if objection is None else objection[1]


def _was_erased(state: State) -> bool:
    """Whether values that a step may read were erased: it can't be computed again, so the journal's word stands."""
    return any(_has_gone(value) for chunk in state.slots for value in chunk)


def _agree(decided: Event, happened: Event) -> bool:
    if decided.kind != happened.kind or decided.body.keys() != happened.body.keys():
        return False
    if decided.text and decided.text == happened.text:
        return True
    return all(name == "error" or _same(value, happened.body[name]) for name, value in decided.body.items())


def _same(decided: Any, happened: Any) -> bool:
    if _has_gone(happened):
        return True
    return same(
        opened(decided) if is_sealed(decided) else decided, opened(happened) if is_sealed(happened) else happened
    )


def _has_gone(value: Any) -> bool:
    if isinstance(value, Sealed):
        return value.is_gone
    if isinstance(value, dict):
        return any(map(_has_gone, value.values()))
    return isinstance(value, tuple) and any(map(_has_gone, value))


def _call_misfit(plan: Plan, run: str, state: State, happened: Event) -> str | None:
    step = plan.steps[state.at]
    call = next((call for call in step.calls if call.id == happened.body.get("step")), None)
    if call is None:
        return f"`{happened.body.get('step')}` is called where `{step.id}` is to be performed"
    made = None
    if state.calls is None:
        action = decide(plan, state)
        if state.is_cancelled and type(action) is Event:
            action = decide(plan, state._replace(is_cancelled=False))
        made = next((made for made in action.calls if made.step == call.id), None) if type(action) is Calls else None
        if made is None and not _was_erased(state):
            return f"the machine would not have called `{call.id}` here"
    if happened.kind == "intent":
        return _intent_misfit(plan, run, state, call, made or _prepared(plan, state, call), happened)
    held = FRESH if state.calls is None else state.calls[call.sub]
    if happened.kind != "attempt":
        is_left = held.phase == OPEN and happened.kind != "doubt"
        return f"`{call.id}` has started, and nothing says what became of it" if is_left else None
    due: CallState | Call | Event = held if held.phase == OPEN else made or _prepared(plan, state, call)
    note = happened.note
    if not isinstance(due, Event) and (note["attempt"], note["performance"]) != (due.attempt, due.performance):
        return f"the attempt of `{call.id}` is another one than the one that was due"
    return _outcome_misfit(plan, step, call, held, happened) or _output_misfit(plan, state, happened)


def _prepared(plan: Plan, state: State, call: CallPlan) -> Call | Event:
    """Return the attempt of a call that is due, or the event that says why it can't start."""
    step = plan.steps[state.at]
    visit = visits_of(plan, state, step.position) + (state.calls is None)
    held = FRESH if state.calls is None else state.calls[call.sub]
    return prepare(Visit(plan, state, step, visit), call, held)


def _outcome_misfit(plan: Plan, step: StepPlan, call: CallPlan, held: CallState, happened: Event) -> str | None:
    """Return why an attempt can't have come to this: each outcome has something in the program that admits it.

    Whether one that failed may have happened all the same (`unknown`), only the world knew.
    """
    kind = happened.body["kind"]
    tries = max(call.attempts, call.call.max_retries if call.writes else 1)
    admitted = {
        "success": True,
        "failed": call.on_error != "skip",
        "skipped": call.on_error == "skip",
        "fallback": call.has_fallback and same(call.call.fallback, happened.body.get("output")),
        "again": happened.note["attempt"] - held.base < tries,
        "doubt": call.writes,
        "suspended": call.may_suspend,
    }
    if not admitted.get(kind):
        return f"an attempt of `{call.id}` can't come to `{kind}`"
    due = {"kind", "step", "visit", SAID.get(kind, "error")}
    due |= way_out(plan, step.ways[kind]).keys() if kind in SETTLED and not step.is_parallel else set()
    may = {"rule"} if call.is_model and "error" in due else {"unknown"} if kind == "again" and call.writes else set()
    if not due <= happened.body.keys() <= due | may or happened.body.get("unknown", True) is not True:
        return f"its fields are not those of an attempt that came to `{kind}`"
    return None


def _intent_misfit(
    plan: Plan, run: str, state: State, call: CallPlan, ready: Call | Event, happened: Event
) -> str | None:
    policies = plan.digests_under(state.governed)
    if happened.body["tool"] != call.tool or tuple(happened.body["policies"]) != policies:
        return f"the intent of `{call.id}` names another tool or policy"
    if isinstance(ready, Event):
        return None if _was_erased(state) else f"`{call.id}` can't start"
    note = happened.note
    key = idempotency_key(plan.digest, run, call.id, ready.visit, ready.performance)
    if (note["attempt"], note["performance"], note["key"]) != (ready.attempt, ready.performance, key):
        return f"the intent of `{call.id}` is of another attempt or performance, or has another key"
    return (
        None if _same(ready.args, happened.body["args"]) else f"`{call.id}` has other arguments than the program says"
    )


def _output_misfit(plan: Plan, state: State, happened: Event) -> str | None:
    body = happened.body
    if body.get("kind") != "success" or _has_gone(body.get("output")):
        return None
    call = next((call for call in plan.steps[state.at].calls if call.id == body.get("step")), None)
    if call is None:
        return f"`{body.get('step')}` is not what the run waits for"
    value = opened(body["output"])
    if call.allowed is not None and value not in call.allowed:
        return f"the reply of `{call.id}` is none of its `allowed_outputs`"
    return refused(value, call.returns, f"the output of `{call.id}`")
