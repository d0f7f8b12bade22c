"""Skipped transitions: the journal has forged steps or outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

from stepward.sabotage.attack import Need
from stepward.sabotage.attacks.rewriting import (
    FROM_OUTSIDE,
    Forged,
    call_of,
    changed,
    rewriting,
    with_body,
    with_note,
    without_target,
)
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.invariants import Invariant
from stepward.sabotage.needs import INTENT
from stepward.sabotage.playing.answers import CallAnswer, wrong_answers
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.places import Place, frame_of, place_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.sabotage.stores.plain_records import branch_of
from stepward.vm.journal.canonical import portable
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.types import same
from stepward.vm.machine.keys import FrameName, idempotency_key
from stepward.vm.machine.plan import CallPlan, successor_fields
from stepward.vm.values import freeze

ANSWERED = ("attempt", "resumed", "reconciled")
"""The kinds of records that have the output of a call."""


def picked(case: Case, records: list[Data], fits: Callable[[Data], bool]) -> int:
    """Pick one of the records that fit, after the first record. Raises NotApplicable if there is none."""
    found = case.needs([seq for seq, record in enumerate(records) if seq and fits(record)])
    return found[pick_index(case, "record", len(found))]


@rewriting(
    surface="`next` of a record",
    action="another step of the program written there",
    defence="only the program decides the next step: a record with another next step is damage",
)
def cursor_edited(trial: Trial, records: list[Data]) -> Forged:
    """The next step in a record is replaced by another step of the program."""
    case = trial.case
    seq = picked(case, records, lambda record: "next" in record["body"])
    others = case.needs(
        [step.id for step in trial.target.plan.steps if step.id != records[seq]["body"]["next"]],
    )
    other = others[pick_index(case, "step", len(others))]
    case.log(f"write into record {seq} that control goes to `{other}`")
    return changed(records, seq, with_body(records[seq], next=other))


@rewriting(
    surface="records that leave a step",
    action="one removed, and the rest renumbered and rehashed",
    defence="a record must be about the current step of the run",
)
def step_forgotten(trial: Trial, records: list[Data]) -> Forged:
    """The record with which a step was left is removed."""
    case = trial.case
    beside = trial.target.siblings.beside
    seq = picked(case, records, lambda one: "next" in one["body"] and _behind(records, one, beside) is not None)
    case.log(f"drop record {seq}, with which `{records[seq]['body']['step']}` was left")
    end = _behind(records, records[seq], beside)
    assert end is not None, "it was picked for that"
    return Forged(changed(records, seq).records, end)


def _behind(records: list[Data], left: Data, beside: Collection[str]) -> int | None:
    """Return the number of the next record that can't come before one, None without one: others are of siblings."""
    branch = branch_of(left["body"].get("frame", ()), beside)
    for record in records[left["seq"] + 1 :]:
        frame = frame_of(record["body"])
        is_sibling = frame[: len(branch)] != branch and branch[: len(frame)] != frame
        if record["kind"] not in FROM_OUTSIDE and not is_sibling:
            return int(record["seq"])
    return None


def _is_decided(records: list[Data], seq: int) -> bool:
    return seq < len(records) and records[seq]["kind"] not in FROM_OUTSIDE


STARTS: Final[dict[str, Callable[[Data, Data], None]]] = {
    "an input less": lambda body, _: body["inputs"].pop(max(body["inputs"])),
    "an input more": lambda body, _: body["inputs"].update({"no_such_input": 1}),
    "a field more": lambda body, _: body.update(more=1),
    "no waivers": lambda body, _: body.pop("waived"),
    "a waiver of nothing": lambda body, _: body.update(waived=[*body["waived"], "no_such_policy:rule"]),
    "another dialect": lambda body, _: body.update(patterns="re3"),
    "a limit less": lambda _, note: note.update(limits=note["limits"][:-1]),
    "a limit more": lambda _, note: note.update(limits=[*note["limits"], 1]),
    "a limit that is true": lambda _, note: note.update(limits=[*note["limits"][:-1], True]),
}
"""What is written into the first record: each changes its body or its note."""


@rewriting(
    surface="first record",
    action="inputs, waivers, limits and fields that no start has",
    defence="the first record has every input, with its default, and only what a start has",
    invariant=Invariant.DATA,
)
def start_edited(trial: Trial, records: list[Data]) -> Forged:
    """The first record gets an input more or less, a field, waivers, limits or a dialect that no start has."""
    case = trial.case
    kinds = [kind for kind in STARTS if kind != "an input less" or records[0]["body"]["inputs"]]
    kind = kinds[pick_index(case, "the first record has", len(kinds))]
    body, note = deepcopy(records[0]["body"]), deepcopy(records[0]["note"])
    STARTS[kind](body, note)
    case.log(f"write into the first record: {kind}")
    return changed(records, 0, records[0] | {"body": body, "note": note})


@rewriting(
    surface="order of records",
    action="two neighbours swapped, and the journal renumbered and rehashed",
    defence="a record must be about the current step of the run, and an outcome must follow its intent",
    may_be_honest=True,
)
def events_reordered(trial: Trial, records: list[Data]) -> Forged:
    """Two consecutive records are swapped; sub-steps of one parallel step may come in any order."""
    case = trial.case
    seq = picked(
        case,
        records,
        lambda record: _is_decided(records, record["seq"]) and _is_decided(records, record["seq"] + 1),
    )
    case.log(f"swap records {seq} and {seq + 1}")
    return Forged([*records[:seq], records[seq + 1], records[seq], *records[seq + 2 :]], seq + 2)


_ENDINGS = (
    ("SUCCESS", "declared"),
    ("FAILED", "error"),
    ("CANCELLED", "cancelled"),
    ("BUDGET_EXCEEDED", "max_steps"),
    ("STALLED", "no-progress"),
)


@rewriting(
    surface="end of the journal",
    action="an ending inserted that did not happen",
    defence="a run ends only where the program ends it, or because somebody cancelled it",
    invariant=Invariant.ENDINGS,
    may_be_honest=True,
)
def early_ending(trial: Trial, records: list[Data]) -> Forged:
    """The run ends too early: a record of an ending is inserted after some record, and the rest is cut."""
    case = trial.case
    seq = 1 + pick_index(case, "records kept, but one", len(records) - 1)
    status, reason = _ENDINGS[pick_index(case, "ending", len(_ENDINGS))]
    case.log(f"end the run {status} ({reason}) behind record {seq - 1}")
    ending = records[0] | {"kind": "ended", "body": {"ends": status, "reason": reason}, "note": {}}
    return Forged([*records[:seq], ending], seq + 1)


@rewriting(
    surface="branch in a record",
    action="another branch of the same condition",
    defence="a replay evaluates every condition again before a machine continues the run",
    needs=(
        Need(
            "there is no condition",
            lambda target: any(isinstance(step.step, ConditionStep) for step in target.plan.steps),
        ),
    ),
)
def branch_not_taken(trial: Trial, records: list[Data]) -> Forged:
    """The branch of a condition is replaced by another one, with or without its next step."""
    case = trial.case
    from hypothesis import strategies as st

    seq = picked(case, records, lambda record: record["kind"] == "branched")
    plan, record = trial.target.plan, records[seq]
    step = next(step for step in plan.steps if step.id == record["body"]["step"])
    targets: dict[Any, Any] = {**step.branches}
    if "uncovered" in step.transitions:
        targets[None] = step.transitions["uncovered"]
    others = case.needs([branch for branch in targets if branch != record["body"]["branch"]])
    branch = others[pick_index(case, "branch", len(others))]
    case.log(f"write into record {seq} that `{step.id}` took the branch {branch}")
    flipped = with_body(record, branch=branch)
    if case.pick("with its way", st.booleans()):
        flipped = with_body(without_target(flipped), **successor_fields(plan.steps, targets[branch]))
    return changed(records, seq, flipped)


@rewriting(
    surface="intents in the journal",
    action="one removed, and its outcome left",
    invariant=Invariant.INTENT,
    defence="an outcome without an intent before it is damage",
    needs=(INTENT,),
)
def outcome_without_intent(trial: Trial, records: list[Data]) -> Forged:
    """The intent of an effect is removed, and its outcome remains."""
    case = trial.case
    seq = picked(case, records, lambda record: record["kind"] == "intent" and _outcome(records, record) is not None)
    case.log(f"drop record {seq}, the intent of `{records[seq]['body']['step']}`")
    end = _outcome(records, records[seq])
    assert end is not None, "it was picked for that"
    return Forged([*records[:seq], *records[seq + 1 :]], end)


def _outcome(records: list[Data], intent: Data) -> int | None:
    """Return the number of the record with the outcome of an attempt, or None if there is none."""
    name = _attempt_of(intent)
    return next(
        (record["seq"] for record in records if record["kind"] == "attempt" and _attempt_of(record) == name), None
    )


def _attempt_of(record: Data) -> tuple[Place, int]:
    return place_of(record["body"]), record["note"]["attempt"]


@rewriting(
    surface="output in a record",
    action="a value outside its type or its allowed set",
    invariant=Invariant.DATA,
    defence="a replay checks the type of every output before a machine continues the run",
    needs=(
        Need(
            "every value is an allowed output of every call",
            lambda target: any(wrong_answers(target, call) is not None for call in target.calls.values()),
        ),
    ),
)
def output_outside_its_type(trial: Trial, records: list[Data]) -> Forged:
    """The output of a call is replaced by a value of another type or a reply that is not allowed."""
    case = trial.case
    seq = picked(case, records, lambda record: succeeded(record) and _wrong(trial, record) is not None)
    among = _wrong(trial, records[seq])
    assert among is not None, "it was picked for that"
    value = case.pick("output", among)["value"]
    case.log(f"write another output into record {seq}: {value!r}")
    return changed(records, seq, with_body(records[seq], output=portable(freeze(value))))


def succeeded(record: Data) -> bool:
    """Whether a record has the output of a call."""
    return record["kind"] in ANSWERED and record["body"].get("kind") == "success"


def _wrong(trial: Trial, record: Data) -> Any:
    call = call_of(trial, record)
    return None if call is None else wrong_answers(trial.target, call)


def _fallback_rewritten_trial(case: Case) -> Trial:
    """Return a trial in which every call with a fallback is late."""
    trial = Trial(case, faults=False)
    trial.world.decides.append(lambda asking: CallAnswer("late") if _falls_back(asking.call) else None)
    return trial


@rewriting(
    surface="fallback in a record",
    action="replaced by another value than the one in the program",
    invariant=Invariant.DATA,
    defence="a replay compares every fallback with the program before a machine continues the run",
    needs=(Need("no call has a fallback", lambda target: any(map(_falls_back, target.calls.values()))),),
    trial=_fallback_rewritten_trial,
)
def fallback_rewritten(trial: Trial, records: list[Data]) -> Forged:
    """A call was late, and the run continued with the fallback of the program, which is replaced by another value."""
    case = trial.case
    seq = picked(case, records, lambda record: record["body"].get("kind") == "fallback")
    call = case.needs(call_of(trial, records[seq]))
    due = freeze(call.call.fallback)
    others = trial.target.values(call.returns).filter(lambda value: not same(freeze(value), due))
    value = case.pick("value", others)
    case.log(f"write another fallback into record {seq}: {value!r}")
    return changed(records, seq, with_body(records[seq], output=portable(freeze(value))))


def _falls_back(call: CallPlan) -> bool:
    return call.has_fallback and call.timeout is not None


@rewriting(
    surface="attempts of a call",
    action="one more than the program allows",
    invariant=Invariant.BOUNDS,
    defence="an attempt is repeated only as often as the program says",
)
def attempts_beyond_retries(trial: Trial, records: list[Data]) -> Forged:
    """Failed attempts are inserted before a successful one: more than the program allows."""
    case = trial.case
    seq = picked(case, records, lambda record: _is_first(record) and call_of(trial, record) is not None)
    call = call_of(trial, records[seq])
    assert call is not None, "it was picked for that"
    intent = next((record for record in records if _is_intent_of(record, records[seq])), None)
    tries = max(call.attempts, call.call.max_retries if call.writes else 1)
    body = records[seq]["body"]
    place = {name: body[name] for name in ("step", "visit", "frame") if name in body}
    again = records[seq] | {"body": {"error": "it failed", "kind": "again", **place}}
    case.log(f"write {tries} failed attempts of `{call.id}` before record {seq}")
    forged: list[Data] = []
    for number in range(1, tries + 2):
        attempt = again if number <= tries else records[seq]
        parts = [attempt] if intent is None else [intent, attempt]
        forged += [_numbered(trial, call, part, number) for part in parts]
    start = seq if intent is None else intent["seq"]
    between = [record for record in records[start:seq] if record is not intent]
    return Forged([*records[:start], *between, *forged, *records[seq + 1 :]], seq + len(forged) - (intent is not None))


def _is_first(record: Data) -> bool:
    return record["kind"] == "attempt" and succeeded(record) and record["note"]["attempt"] == 1


def _is_intent_of(record: Data, attempt: Data) -> bool:
    return record["kind"] == "intent" and _attempt_of(record) == _attempt_of(attempt)


def _numbered(trial: Trial, call: CallPlan, record: Data, attempt: int) -> Data:
    """Return a record of an attempt, renumbered to another attempt of the same visit."""
    performance = 1 if call.keeps_key else attempt
    numbered = with_note(record, attempt=attempt, performance=performance)
    return with_key(trial, numbered) if "key" in record["note"] else numbered


def with_key(trial: Trial, intent: Data) -> Data:
    """Return an intent with the key of its performance, which anybody can compute."""
    body, note = intent["body"], intent["note"]
    digest = trial.target.plan.digest
    key = idempotency_key(digest, trial.run, body["step"], body["visit"], note["performance"], frame_of(body))
    return with_note(intent, key=key)


@rewriting(
    surface="iterations of a loop",
    action="written again until a step has one visit too many",
    invariant=Invariant.BOUNDS,
    defence="visits are counted, and a step is skipped after it has used them up",
    needs=(Need("no step has `max_visits`", lambda target: any(step.max_visits for step in target.plan.steps)),),
)
def visits_beyond_the_limit(trial: Trial, records: list[Data]) -> Forged:
    """The records of a loop are repeated until they pass the limit of visits of a step."""
    case = trial.case
    limits = {step.id: step.max_visits for step in trial.target.plan.steps if step.max_visits}
    seq = picked(case, records, lambda record: _next_visit(records, record, limits) is not None)
    name, visit, frame = place_of(records[seq]["body"])
    until = _next_visit(records, records[seq], limits)
    assert until is not None, "it was picked for that"
    round_ = records[seq:until]
    visits = {step: len({visit for name, visit in _visits(round_, frame) if name == step}) for step in _steps(round_)}
    again = partial(_later, trial, visits=visits, depth=len(frame))
    case.log(f"write the way from record {seq} to {until - 1} again, until `{name}` is visited once too often")
    forged = records[:until]
    for number in range(1, limits[name] - visit + 1):
        forged = [*forged, *(again(record, number) for record in round_)]
    last = again(records[seq], limits[name] - visit + 1)
    return Forged([*forged, last], len(forged) + 1)


def _steps(records: list[Data]) -> set[str]:
    return {record["body"]["step"] for record in records if "step" in record["body"]}


def _visits(records: list[Data], frame: FrameName) -> Iterator[tuple[str, int]]:
    """Yield the steps in a frame with their visits. A record that an item starts names the frame of the item."""
    for record in records:
        body = record["body"]
        if "step" in body and frame_of(body)[: -1 if record["kind"] == "item" else None] == frame:
            yield body["step"], body["visit"]


def _next_visit(records: list[Data], record: Data, limits: dict[str, int]) -> int | None:
    """Return the index of the next visit, if `record` begins a visit of a step with a limit."""
    if record["kind"] == "item" or record["body"].get("step") not in limits:
        return None
    step, visit, frame = place_of(record["body"])
    if any(_is_visit(other, (step, visit, frame)) for other in records[: record["seq"]]):
        return None
    return next((other["seq"] for other in records if _is_visit(other, (step, visit + 1, frame))), None)


def _is_visit(record: Data, place: Place) -> bool:
    return (
        record["kind"] not in ("passed", "item", "waited")
        and "step" in record["body"]
        and place_of(record["body"]) == place
    )


def _later(trial: Trial, record: Data, rounds: int, visits: dict[str, int], depth: int) -> Data:
    """Return a record as some rounds later; `visits` counts the visits of each step in a round.

    The loop is within `depth` bodies. What is in a body of the loop keeps its visit, and its frame has the later one.
    """
    body = record["body"]
    if "step" not in body:
        return record
    frame = [list(member) for member in body.get("frame", ())]
    if len(frame) > depth:
        frame[depth][1] += rounds * visits[frame[depth][0]]
    is_here = len(frame) == depth or (record["kind"] == "item" and len(frame) == depth + 1)
    changes = {"visit": body["visit"] + (rounds * visits[body["step"]] if is_here else 0)}
    later = with_body(record, **changes, **({"frame": frame} if frame else {}))
    return with_key(trial, later) if "key" in record["note"] else later
