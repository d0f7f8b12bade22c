"""Runs of a journal as courses, without sensitive values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.dynamics.course import AGAIN, SETTLED, Call, Course, Move, Work
from stepward.vm.journal.canonical import ErasedError, canonical, portable
from stepward.vm.journal.chain import read_together
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.decide import decide
from stepward.vm.machine.events import UNFINISHED, Calls
from stepward.vm.machine.history import applied, checked_records, unfold
from stepward.vm.machine.replay import cached_plans
from stepward.vm.machine.state import before

if TYPE_CHECKING:
    from stepward.vm.journal.records import Record
    from stepward.vm.journal.store import Journal, Row
    from stepward.vm.machine.history import History
    from stepward.vm.machine.plan import Plan
    from stepward.vm.machine.state import State

_SEALED: Final = re.compile(r'"#v[^"]*"')
"""A sensitive value in a record: random, so one is taken for equal to any other."""

_NOTHING: Final = Work()


def courses_of(journal: Journal, rows: Sequence[Row], family_by: str | None) -> Iterator[Course]:
    """Yield the course of each run in a list that has ended; raises JournalError for one that is damaged.

    `family_by` names the input whose value is the task family of a run. One without this input is in no family.
    """
    plans = cached_plans(journal)
    for row in rows:
        if row.status not in UNFINISHED:
            _, entries = read_together(journal, row.run)
            records = checked_records(row.run, entries)
            yield course_of(row, unfold(journal, row.run, records, entries[-1], plans), family_by)


def course_of(row: Row, found: History, family_by: str | None = None) -> Course:
    """Return the course of a run that was read; raises JournalError for a record without what it must have."""
    gathered = _Gathered()
    state = before(found.plan)
    try:
        for record, event in zip(found.records, found.events, strict=True):
            gathered.add(record, found.plan, state)
            state = applied(found.plan, state, event, record.seq)
        first = found.records[0].body
        inputs = first["inputs"]
        family = _family(inputs[family_by]) if family_by in inputs else ""
        version = str(first["program"])
    except (KeyError, TypeError, AttributeError):
        raise JournalError(f"a record of run `{row.run}` lacks what it must have; see `stepward verify`") from None
    return Course(
        row.run,
        row.program,
        family,
        version,
        found.records[0].at,
        row.status,
        tuple(gathered.moves),
        tuple(gathered.attempts),
        tuple(gathered.calls),
        gathered.violations,
        gathered.work,
    )


class _Gathered:
    """What the records of a run say, gathered one by one."""

    def __init__(self) -> None:
        self.moves: list[Move] = []
        self.attempts: list[Move] = []
        self.calls: list[Call] = []
        self.violations = 0
        self.work: dict[str, Work] = {}
        self._at = ""
        self._intended: set[tuple[str, int]] = set()

    def add(self, record: Record, plan: Plan, state: State) -> None:
        body, step = record.body, record.body.get("step", "")
        if record.kind == "intent" and body["tool"] and record.note["attempt"] == 1:
            self._intended.add((step, body["visit"]))
            self.calls.append(Call(body["tool"], _text(body["args"])))
        if record.kind == "attempt":
            self._attempt(record, step)
            if record.note["attempt"] == 1 and (step, body["visit"]) not in self._intended:
                self.calls += _decided(plan, state, step)
        if record.kind == "rejected" or (record.kind == "attempt" and "rule" in body):
            self.violations += 1
        if "next" in body:
            self.moves.append(Move(step, body["next"]))
            self._at = body["next"]
        elif "ends" in body:
            self.moves.append(Move(step or self._at, f"{body['ends']} ({body['reason']})"))

    def _attempt(self, record: Record, step: str) -> None:
        note = record.note
        kind = record.body["kind"]
        if kind not in ("suspended", "doubt"):
            self.attempts.append(Move(step, AGAIN if kind == "again" else SETTLED))
        try:
            cost = Decimal(note.get("cost", "0"))
        except InvalidOperation:
            cost = Decimal(0)
        spent = Work(1, note.get("tokens", 0), cost, note.get("took", 0))
        self.work[step] = self.work.get(step, _NOTHING).plus(spent)


def _decided(plan: Plan, state: State, step: str) -> Iterator[Call]:
    """Yield the call of a tool that the machine decides on here: its arguments are in no record.

    Nothing if they can't be computed any more, because a value was erased.
    """
    try:
        action = decide(plan, state)
    except (ErasedError, KeyError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError):
        return
    tools = {call.id: call.tool for one in plan.steps for call in one.calls if not call.is_model}
    for call in action.calls if isinstance(action, Calls) else ():
        if call.step == step and step in tools:
            yield Call(tools[step], _text(portable(call.args)))


def _text(arguments: Any) -> str:
    return _SEALED.sub('"#v"', canonical(arguments))


def _family(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return "[sensitive]" if text.startswith("#v") else text
