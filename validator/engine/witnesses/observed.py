"""Reads from the journal of a run whether it shows the violation that a witness claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN, USED_UP
from stepward.validator.engine.witnesses.witness import Claim
from stepward.validator.findings import Move
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.fields import names_in
from stepward.vm.expressions.syntax import Expression
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.layout import Layout
from stepward.vm.language.steps import InvokeStep
from stepward.vm.machine.apply import apply
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import Event
from stepward.vm.machine.forks import seen_at
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.keys import shown
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Reader, State, before

Asked = tuple[str, int, int]
"""A step or sub-step, its visit, and the attempt."""


class Record(NamedTuple):
    """One event in the journal."""

    kind: str
    body: Mapping[str, Any]
    note: Mapping[str, Any]


class Unstarted(NamedTuple):
    """A step that did not start: because of a rule or, where `rule` is empty, of its reads; `why` is not redacted."""

    step: str
    rule: str
    why: str


def records_of(journal: MemoryJournal, run: str) -> Iterator[Record]:
    """Yield the records of a run."""
    from stepward.vm.journal.records import read_record

    for entry in journal.read(run):
        record = read_record(entry)
        yield Record(record.kind, record.body, record.note)


def history_of(journal: MemoryJournal, run: Run) -> History:
    """Return the history of a run from its journal."""
    history = load(journal, run.id, lambda *documents: stored_plan(journal, *documents))
    assert history is not None, "the run was made"
    return history


Frame = tuple[tuple[Any, ...], ...]

_HOW: Final = {"success": "succeeds", "fallback": "times out, fallback", "skipped": "fails, skipped", "failed": "fails"}


def is_between(kind: str, body: Mapping[str, Any], each: Collection[str], calls: Collection[str] = ()) -> bool:
    """Return whether a record starts a for_each step, or leaves one of its stages; `each` are the for_each steps.

    A call, of `calls`, has one item, and no stage before it.
    """
    if kind == "item" and body["step"] in calls:
        return False
    return kind in ("opened", "item") or (kind == "joined" and body["step"] in each)


def calls_of(layout: Layout) -> frozenset[str]:
    """Return the ids of the calls of programs."""
    return frozenset(step.id for step in layout.steps if isinstance(step, InvokeStep))


def leaves(body: Mapping[str, Any]) -> bool:
    """Return whether a record with this body leaves a step."""
    return "step" in body and not body.keys().isdisjoint(("next", "closes", "ends"))


class StartedAhead:
    """The items that a replay has started before their turn: each counts as started with the first record in it.

    `steps` are the for_each steps whose items run at once and that stop after one has failed. An item may follow one
    that has failed only if it was under way by then.
    """

    def __init__(self, steps: Collection[str]) -> None:
        self.steps = steps
        self._waiting: list[Frame] = []
        self._failed: set[Frame] = set()

    def starting(self, kind: str, body: Mapping[str, Any]) -> list[Move]:
        """Return the starts of items that count now, before a record."""
        frame = tuple(map(tuple, body.get("frame", ())))
        if self.holds(kind, body):
            self._waiting.append(frame)
            return self._due(frame[:-1])
        moves = self._due(frame)
        is_failure = body.get("closes") not in (None, "SUCCESS")
        self._failed |= {_round_of(frame)} if is_failure and frame[-1][0] in self.steps else set()
        return moves

    def holds(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Return whether a record is the start of such an item, which does not count yet."""
        return kind == "item" and body["step"] in self.steps

    def _due(self, frame: Frame) -> list[Move]:
        starting = [one for one in self._waiting if frame[: len(one)] == one]
        self._waiting = [one for one in self._waiting if one not in starting]
        after = {one: ["failed"] if _round_of(one) in self._failed else [] for one in starting}
        return [Move(f"{one[-1][0]} {stage}", ON_TO_ITEM) for one in starting for stage in (*after[one], "next")]


def started_ahead(layout: Layout) -> frozenset[str]:
    """Return the ids of the steps of `StartedAhead`."""
    return frozenset(layout.steps[one].id for one in layout.beside if layout.bodies[one].failed is not None)


def _round_of(frame: Frame) -> Frame:
    """Return what the items of one attempt of a step have in common."""
    return (*frame[:-1], frame[-1][:3])


def moves_of(
    records: tuple[Record, ...],
    owners: Mapping[str, str],
    each: Collection[str] = (),
    ahead: Collection[str] = (),
    calls: Collection[str] = (),
) -> Iterator[Move]:
    """Yield the steps of a run with their outcomes, in the words of a finding's path; `each` are for_each steps, of
    which `calls` are calls, and `ahead` those of `StartedAhead`."""
    started = StartedAhead(ahead)
    forks = {record.body["step"] for record in records if record.kind == "opened" and "items" not in record.body}
    for record in records:
        body = record.body
        yield from started.starting(record.kind, body)
        if started.holds(record.kind, body):
            continue
        if is_between(record.kind, body, each, calls):
            yield _between(record)
        elif leaves(body):
            error = str(body.get("error_name", "")) if record.kind != "passed" else ""
            is_join = record.kind == "joined" and body["step"] in forks
            step = f"{body['step']} joined" if is_join else owners.get(body["step"], body["step"])
            yield Move(step, _how(record), error, closes=record.kind == "closed")


def _between(record: Record) -> Move:
    """Return the move at the start of a step with bodies or of a branch, or at a stage of a for_each step."""
    step, kind = record.body["step"], str(record.body.get("kind"))
    if record.kind == "opened":
        return Move(step, "succeeds", opens=True)
    if record.kind == "item" and isinstance(branch := record.body["frame"][-1][3], str):
        return Move(branch, "succeeds", opens=True)
    if record.kind == "item":
        return Move(f"{step} next", ON_TO_ITEM)
    if kind == "again":
        return Move(f"{step} failed", TRIES_AGAIN)
    return Move(f"{step} {'next' if kind == 'success' else 'failed'}", _HOW[kind])


def _how(record: Record) -> str:
    body = record.body
    if record.kind == "branched":
        branch = body["branch"]
        return "takes no branch" if branch is None else f"case {branch}" if type(branch) is int else f"takes {branch}"
    if record.kind == "rejected" and body.get("reason") == "guardrail":
        return "starts"
    if record.kind in ("assigned", "waited"):
        return _HOW["success"]
    plain = {"passed": USED_UP, "ended": "ends the run", "closed": "ends the run"}
    return plain.get(record.kind) or _HOW.get(str(body.get("kind")), str(body.get("kind")))


@dataclass(frozen=True)
class ObservedRun:
    """A finished run, searched for the violation that the witness claims.

    `around` are the steps whose branches or items run at once around the claimed step: while they do, a run is at them.
    """

    claim: Claim
    parts: frozenset[str]
    run: Run
    records: tuple[Record, ...]
    journal: MemoryJournal
    missing: Asked | None
    around: frozenset[str] = frozenset()

    def violation(self) -> str | None:
        """Return the words for the violation, or None."""
        if self.claim.code == "SW202":
            return self._undefined()
        if self.claim.code == "SW302":
            return self._uncovered()
        if self.claim.code == "SW305":
            return self._overlapping()
        if self.claim.code == "SW405" and (words := self._left_owing()) is not None:
            return words
        if self.missing is not None:
            return None
        if self.claim.code == "SW405":
            return self._owed()
        return self._rejected()

    def unstarted(self) -> Iterator[Unstarted]:
        """Yield the steps that did not start, with the reason."""
        for number, record in enumerate(self.records):
            if record.kind in ("blocked", "rejected"):
                yield Unstarted(record.body["step"], record.body.get("rule", ""), self._why(number))

    def _why(self, number: int) -> str:
        """Return why something did not start, in the machine's words before redaction.

        Redaction of a value as short as `a` would leave no word of a message intact.
        """
        error = str(self.records[number].body["error"])
        if REDACTED not in error:
            return error
        found = self._history
        happened = decide(found.plan, seen_at(found.plan, self._state(number), found.events[number]))
        assert isinstance(happened, Event), "what did not start was not called"
        return str(happened.body["error"])

    def _rejected(self) -> str | None:
        for number, record in enumerate(self.records):
            body = record.body
            if record.kind != "rejected" or body.get("rule") != self.claim.rule or body["step"] not in self.parts:
                continue
            reason = self._why(number)
            if body.get("reason") == "guardrail":
                if self.claim.code not in ("SW401", "SW402") or reason.endswith("is stale") == (
                    self.claim.code == "SW402"
                ):
                    return str(body["error"])
            elif self.claim.rule == "allow" and reason.startswith(f"policy `{self.claim.policy}` "):
                return str(body["error"])
        return None

    def _uncovered(self) -> str | None:
        """Return in words that the condition takes no branch: it ends the run so, or an item, a branch or a call.

        What runs beside it, and comes later, needs no answers.
        """
        for record in self.records:
            body = record.body
            if self._is_missing(record):
                return None
            if record.kind == "branched" and body["step"] == self.claim.step and body["branch"] is None:
                if "closes" not in body:
                    return f"the run ends {self.run.status} (uncovered) at `{self.claim.step}`"
                return f"`{self.claim.step}` takes no branch, which ends its body {body['closes']}"
        return None

    def _overlapping(self) -> str | None:
        """Return in words that two cases held when the condition was evaluated: the one that it took, and a later
        one."""
        for number, record in enumerate(self.records):
            if self._is_missing(record):
                return None
            if record.kind != "branched" or record.body["step"] != self.claim.step:
                continue
            holding = [case for case, holds in enumerate(self._cases(number), start=1) if holds]
            if len(holding) > 1 and record.body["branch"] == holding[0]:
                return f"cases {holding[0]} and {holding[1]} of `{self.claim.step}` both hold"
        return None

    def _cases(self, number: int) -> list[bool | None]:
        """Return the values of the cases before a record; None for one that fails."""
        reader, clauses = self._reader(number), self._clauses()
        values: list[bool | None] = []
        for tree in clauses:
            try:
                values.append(evaluate_condition(tree, reader))
            except EvaluationError:
                values.append(None)
        return values

    def _owed(self) -> str | None:
        rule_words = dict(self.run.broken).get(self.claim.rule or "")
        if rule_words is None or self.run.step not in (self.claim.step, *self.around):
            return None
        reason = f" ({self.run.reason})" if self.run.reason else ""
        return f"the run ends {self.run.status}{reason} at `{self.claim.step}`: {rule_words}"

    def _left_owing(self) -> str | None:
        """Return in words that an item, a branch or a call ended at the step while its body owed what the rule asks."""
        for number, record in enumerate(self.records):
            if record.kind == "attempt" and self._is_missing(record):
                return None
            if "closes" not in record.body or record.body["step"] not in (self.claim.step, *self.parts):
                continue
            before, after = (len(self._state(position).broken) for position in (number, number + 1))
            for name, rule_words in self._state(number + 1).broken[before:after]:
                if name == self.claim.rule:
                    step, frame = record.body["step"], record.body["frame"]
                    return f"`{shown(frame[:-1], frame[-1][0])}[{frame[-1][3]}]` ends at `{step}`: {rule_words}"
        return None

    def _undefined(self) -> str | None:
        """Return in words that the claimed step was blocked while the reference was undefined, before the script
        ended."""
        reference = self.claim.reference or ""
        for number, record in enumerate(self.records):
            body = record.body
            if self._is_missing(record):
                return None
            if record.kind == "blocked" and body["step"] == self.claim.step:
                reason, error = self._why(number), str(body["error"])
                if f"`{reference}` is undefined" in reason or (
                    "is undefined" in reason and self._is_undefined(number, reference)
                ):
                    return error if reference in reason else f"{error}; `{reference}` is undefined, too"
        return None

    def _is_missing(self, record: Record) -> bool:
        if self.missing is None or record.kind != "attempt":
            return False
        return (record.body["step"], record.body["visit"], record.note.get("attempt")) == self.missing

    def _is_undefined(self, number: int, reference: str) -> bool:
        """Return whether a reference is undefined before a record: the machine names only the first of several."""
        try:
            self._reader(number).raw(names_in(reference))
        except UndefinedReferenceError:
            return True
        return False

    def _reader(self, number: int) -> Reader:
        """Return the values before a record, in the branch that it is of."""
        found = self._history
        return Reader(found.plan, seen_at(found.plan, self._state(number), found.events[number]).slots)

    def _state(self, number: int) -> State:
        """Return the state before a record."""
        history = self._history
        state = before(history.plan)
        for happened in history.events[:number]:
            state = apply(history.plan, state, happened)
        return state

    def _clauses(self) -> list[Expression]:
        step = next(step for step in self._history.plan.steps if step.id == self.claim.step)
        return [clause.tree for clause in step.clauses if clause.tree is not None]

    @cached_property
    def _history(self) -> History:
        return history_of(self.journal, self.run)

    def instead(self) -> str:
        """Return in words what happened instead of the violation."""
        if self.missing is not None:
            step, visit, attempt = self.missing
            return f"the witness has no answer for attempt {attempt} of `{step}` at visit {visit}"
        reason = f" ({self.run.reason})" if self.run.reason else ""
        error = f": {self.run.error}" if self.run.error and self.run.is_over else ""
        return f"the run {'ends' if self.run.is_over else 'is'} {self.run.status}{reason} at `{self.run.step}`{error}"
