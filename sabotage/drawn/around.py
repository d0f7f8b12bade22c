"""Comparison of what surrounds a run: the list of runs, leases, tokens, and the notes of records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from stepward.sabotage.drawn.machine import Machine, Parted, equal, place_on_record
from stepward.sabotage.reference import Lost, Raised, Reference, Replied, Returned, TimedOut, Waits
from stepward.sabotage.stores.plain_verifier import canonical
from stepward.vm import Run
from stepward.vm.values import as_text

NAMED: Final = ("started", "resumed", "reconciled", "cancel", "refused", "erased")
"""The kinds of record whose notes may name a person."""

SETTLES: Final = ("started", "resumed", "reconciled", "cancel", "refused")


def compare_held(machine: Machine, run: Run) -> None:
    """Compare a run that stands still with its row in the list of runs, and with what its tools were given."""
    row = machine.journal.row(run.id)
    if row is None:
        raise Parted("row", f"the list of runs has no run `{run.id}`")
    head = machine.journal.head(run.id)
    expected = (machine.case.program.name, run.status, None if head is None else head.seq)
    equal("row", (row.program, row.status, row.seq), expected)
    if not run.is_over:  # a process that died has not given it back
        least = machine.clock.time / 1e6 if machine.died else 0.0
        equal("lease of a run that waits", row.expires <= least, True, str(row))
    entries = machine.journal.read(run.id)
    first, last = json.loads(entries[0].record)["at"], json.loads(entries[-1].record)["at"]
    is_then = first <= row.started * 1e6 + 1 and last <= row.updated * 1e6 + 1 <= machine.clock.time + 2
    equal("times in the list of runs", is_then, True, f"{row}, first record {first}, last {last}")
    latest = {(called.asked.step, called.asked.frame): called for called in machine.calls.values()}
    for suspension in run.suspensions:
        called = latest[suspension.step, suspension.frame]
        equal("token", suspension.token, called.token)
        equal("run of a token", suspension.token.rpartition(".")[0], run.id)
        if not machine.world.plan.has_sensitive:
            words = machine.world.words(*called.asked.place)
            equal("request", dict(suspension.request), {"for": words})
    stored = machine.journal.vault.get(run.id).items()
    salts = [secret[:16] for name, secret in stored if not name.startswith("token:")]
    equal("salts of sealed values", len(set(salts)), len(salts))
    for doubt in run.doubts:
        equal("tool in doubt", doubt.tool, machine.world.calls[doubt.step].tool)
        if not any(place[0] == doubt.step for place in machine.world.lost):
            equal("key in doubt", doubt.key, latest[doubt.step, doubt.frame].key)


async def compare_idle(machine: Machine, run: Run) -> None:
    """Check that a run that stands still is as a new process reads it, and that nobody recovers it."""
    again = await machine.vm().get(run.id)
    outcomes = [(one.status, one.reason, one.step, one.suspensions, one.doubts) for one in (again, run)]
    equal("run as a new process reads it", outcomes[0], outcomes[1])
    listed = [row.run for row in await machine.vm().runs([run.status], program=machine.case.program.name)]
    equal("runs of its status", run.id in listed, True, run.status)


def compare_notes(machine: Machine, reference: Reference, people: Sequence[tuple[str, str]]) -> None:
    """Compare the notes of the records of an ended run with what its tools, models and people did."""
    records = [json.loads(entry.record) for entry in machine.journal.read(machine.run)]
    is_cancelled = any(record["kind"] == "cancel" for record in records)
    _compare_people(records, people, may_repeat=machine.died > 0)
    _compare_terms(machine, reference, records)
    _compare_attempts(machine, records)
    if _may_state_delays(machine):
        _compare_due_times(machine, records)
    elif not is_cancelled:
        _compare_delays(machine)
    in_doubt: list[str] = next((record["body"]["in_doubt"] for record in records if "in_doubt" in record["body"]), [])
    equal("writes in doubt at the end", sorted(in_doubt), sorted(reference.in_doubt))


def _compare_people(records: Sequence[dict[str, Any]], people: Sequence[tuple[str, str]], *, may_repeat: bool) -> None:
    """Compare who did what, by the records. After a death a refusal may be on record twice."""
    people_found = [(record["kind"], record["note"].get("by", "")) for record in records if record["kind"] in SETTLES]
    inside = Counter(people_found) - Counter(people)  # a cancellation from within a call names nobody
    if may_repeat:
        inside -= Counter({one: count for one, count in inside.items() if one[0] == "refused" and one in people})
    equal("people", sorted((inside - Counter({("cancel", ""): 1})).elements()), [])
    equal("people", sorted((Counter(people) - Counter(people_found)).elements()), [])


def _compare_terms(machine: Machine, reference: Reference, records: Sequence[dict[str, Any]]) -> None:
    """Compare the policies and waived rules on record, at the start and whenever others came."""
    bodies = [record["body"] for record in records if record["kind"] in ("started", "governed")]
    found = [(_names(machine, body["policies"]), body["waived"]) for body in bodies]
    due = [([policy.policy for policy in terms.policies], sorted(terms.waived)) for terms in reference.terms]
    equal("policies and waivers on record", found, due)
    policies: list[str] = []
    for record in records:
        if record["kind"] in ("started", "governed"):
            policies = list(dict.fromkeys([*policies, *record["body"]["policies"]]))
        elif record["kind"] == "intent":
            equal("policies of an intent", record["body"]["policies"], policies)


def _names(machine: Machine, digests: Sequence[str]) -> list[str]:
    documents = [machine.journal.document(digest) for digest in digests]
    return ["" if text is None else json.loads(text)["policy"] for text in documents]


def _compare_attempts(machine: Machine, records: Sequence[dict[str, Any]]) -> None:
    """Compare the attempts and intents on record with the calls."""
    found: set[tuple[Any, ...]] = set()
    intents: set[tuple[Any, ...]] = set()
    for record in records:
        body, note = record["body"], record["note"]
        if record["kind"] not in ("attempt", "intent"):
            continue
        place = place_on_record(record)
        called = machine.calls.get(place)
        if record["kind"] == "intent":
            intents.add(place)
            _compare_intent(machine, called, record)
            continue
        if called is None or place in found:
            raise Parted("attempts on record", f"{place} is recorded, and was not made so")
        found.add(place)
        is_model = not called.asked.tool
        if not is_model:
            equal("performance on record", note["performance"], called.asked.performance, str(place))
            equal("intent", place in intents, machine.world.calls[place[0]].has_intent, str(place))
        due = (
            (called.tokens, as_text(called.cost), called.model)
            if is_model and _is_heard(called.answer)
            else (0, "0", "")
        )
        equal(
            "cost on record",
            tuple(note.get(name) for name in ("tokens", "cost", "model")),
            due if is_model else (None,) * 3,
        )
        _compare_times(record, called.began, called.ended)
        _compare_outcome(machine, body, called.answer, is_model=is_model)
    missing = machine.calls.keys() - found - machine.world.lost
    equal("attempts without a record", sorted(missing), [])


def _is_heard(answer: Any) -> bool:
    return isinstance(answer, Replied)


def _compare_intent(machine: Machine, called: Any, record: dict[str, Any]) -> None:
    body, note = record["body"], record["note"]
    call = machine.world.calls[body["step"]]
    equal("tool of an intent", body["tool"], call.tool)
    equal("token of an intent", "token" in note, call.may_suspend)
    if called is None or not call.may_suspend or not called.token:
        return
    run, _, secret = called.token.rpartition(".")
    name = {
        "program": machine.world.plan.digest,
        "run": run,
        "secret": secret,
        "step": body["step"],
        "visit": body["visit"],
    } | ({"frame": body["frame"]} if "frame" in body else {})
    due = sha256(b"stepward.resume-token.1\n" + canonical(name).encode()).hexdigest()
    equal("digest of a token", note["token"], due)


def _compare_times(record: dict[str, Any], began: int, ended: int) -> None:
    note = record["note"]
    is_so = note["started"] <= began and note["started"] + note["took"] >= ended and record["at"] >= ended
    equal("times on record", is_so, True, f"{note}, written {record['at']}, and it took from {began} to {ended}")


def _compare_outcome(machine: Machine, body: dict[str, Any], answer: Any, *, is_model: bool) -> None:
    """Compare the rule of a rejected reply, and the mark of a write that may have happened."""
    call = machine.world.calls[body["step"]]
    is_odd = body["kind"] != "success"
    rule = None
    if is_model and is_odd and isinstance(answer, Replied):
        rule = "returns" if call.allowed is None else "allowed_outputs"
    if not machine.case.manner.at_limit:  # a reply that is too large breaks no rule of the program
        equal("rule of a reply", body.get("rule"), rule, str(answer))
    may_be = not is_model and call.writes and isinstance(answer, Lost | TimedOut | Returned | Waits)
    equal("unknown", body.get("unknown"), True if body["kind"] == "again" and may_be else None, str(answer))
    equal(
        "an error that happened",
        isinstance(answer, Raised) and body["kind"] in ("success", "suspended", "doubt"),
        False,
    )


def _may_state_delays(machine: Machine) -> bool:
    return any(call.call.retry is not None for call in machine.world.calls.values())


def _compare_due_times(machine: Machine, records: Sequence[dict[str, Any]]) -> None:
    """Compare the times at which attempts are due with the entries of `retry`, and their starts with those times.

    The clock never goes back, so a start is late enough also after a death.
    """
    attempts: dict[tuple[Any, ...], int] = {}
    before: dict[tuple[Any, ...], int] = {}
    for record in records:
        body, note = record["body"], record["note"]
        if record["kind"] == "joined" and body["kind"] == "again":
            attempts.clear()  # each round of a parallel step counts anew
        if record["kind"] not in ("attempt", "expired"):
            continue
        is_attempt = record["kind"] == "attempt"
        place = body["step"], body["visit"], str(body.get("frame"))
        attempts[place] = attempts.get(place, 0) + is_attempt
        if is_attempt and place in before:
            equal("start that is due", note["started"] >= before.pop(place), True, str(place))
        entry = _entry(machine, body)
        due = None if entry is None else int(_delay(entry, attempts[place]) * 1_000_000)
        if body["kind"] == "suspended":
            continue  # `compare_waits` compares deadlines
        ended = note["started"] + note["took"] if is_attempt else note["time"]
        equal("due", note.get("due"), None if due is None else ended + due, str(place))
        if due is not None:
            before[place] = note["due"]


def _entry(machine: Machine, body: dict[str, Any]) -> Any:
    """Return the entry of `retry` after which an attempt is made again, or None."""
    call, name = machine.world.calls[body["step"]], body.get("error_name")
    if body["kind"] != "again" or (call.writes and not call.keeps_key):
        return None
    return next((one for one in call.call.retry or () if name in one.errors or "any" in one.errors), None)


def _delay(entry: Any, failed: int) -> Fraction:
    """Return the seconds before the next attempt ("Errors by name" 3)."""
    wait = Fraction(entry.delay_seconds) * Fraction(entry.backoff) ** (failed - 1)
    return min(wait, Fraction(entry.max_delay_seconds))


def _compare_delays(machine: Machine) -> None:
    """Compare the pauses before attempts: they double from one second up to 30."""
    if machine.world.deaths:
        return
    due = sorted(min(2.0 ** (place[2] - 2), 30.0) for place in machine.calls if place[2] > 1)
    equal("pauses before attempts", sorted(machine.clock.slept), due)
