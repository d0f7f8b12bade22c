"""Skipped transitions: every field of every record is edited, the journal is rehashed and then replayed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple, get_args

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.audits import Shown
from stepward.sabotage.attacks.tampering import is_carried
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data, Forger, chained, raw_store_of
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Head
from stepward.vm.journal.verify import verify
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.events import Kind
from stepward.vm.machine.replay import replayer

KINDS: Final = (*get_args(Kind), "other")
RESULTS: Final = ("success", "failed", "skipped", "again", "doubt", "suspended", "fallback")


class Edit(NamedTuple):
    """A change of one value in a record: its path of keys and the new value; `is_removed` takes it out."""

    path: tuple[str, ...]
    value: Any
    is_removed: bool = False

    @property
    def name(self) -> str:
        """The name of the path in FREE."""
        return ".".join(self.path[:2])

    def applied_to(self, record: Data) -> Data:
        """Return the record with the change."""
        changed = copy.deepcopy(record)
        inner = changed
        for key in self.path[:-1]:
            inner = inner[key]
        if self.is_removed:
            del inner[self.path[-1]]
        else:
            inner[self.path[-1]] = self.value
        return changed


def edits_of(record: Data, steps: tuple[str, ...]) -> Iterator[Edit]:
    """Yield changes of each value in a record."""
    for kind in KINDS:
        if kind != record["kind"]:
            yield Edit(("kind",), kind)
    for part in ("body", "note"):
        yield Edit((part, "more"), 1)
        for name, value in record[part].items():
            yield Edit((part, name), None, is_removed=True)
            for other in _others(value, steps):
                yield Edit((part, name), other)
            if isinstance(value, dict):
                yield Edit((part, name, "more"), 1)
                for key in value:
                    yield Edit((part, name, key), None, is_removed=True)
                    yield from (Edit((part, name, key), other) for other in _others(value[key], steps))


def _others(value: Any, steps: tuple[str, ...]) -> Iterator[Any]:
    """Yield values other than one."""
    if isinstance(value, bool):
        yield from (not value, None)
    elif isinstance(value, int):
        yield from (value + 1, value - 1, str(value), True)
    elif isinstance(value, str):
        texts = (*steps, *RESULTS) if value in (*steps, *RESULTS) else (value + "x", "", value[:-1])
        yield from (text for text in texts if text != value)
        yield 7
    elif isinstance(value, list):
        yield [*value, "more"]
        yield "x"
        if value:
            yield value[:-1]
    elif value is None:
        yield "x"
    else:
        yield "x"


class FieldsEdited(Attack):
    """Every field of every record is changed, removed or extended, and everything after it is rehashed. There is no key
    and no receipt, so only the program can reveal the change."""

    family = Family.TRANSITIONS
    surface = "fields of a journal that is rehashed"
    action = "each field changed, removed or added"
    invariant = Invariant.HISTORY
    defence = "a replay compares every field of every record with what the machine would write"
    weight = 8
    enumerates = "each field of each record of the generated run, changed in a few different ways"

    def play(self, case: Case) -> Outcome:
        """Check that each change is found, except changes of data from outside, which can't be detected."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=True)
        run = trial.start()
        if not run.is_over and is_carried(case):
            run = trial.carry_on(run)
        forger = Forger(trial)
        honest = forger.snapshot()
        store = Shown(trial.store.inner, honest)
        records = forger.records()
        steps = tuple(dict.fromkeys((*(step.id for step in case.target.plan.steps), *case.target.calls)))
        changes = [
            (seq, edit)
            for seq, record in enumerate(records)
            for edit in edits_of(record, steps)
            if not _is_free(record, edit)
        ]
        random = Random(int(case.pick("changes by the seed", st.integers(0, 1 << 32))))
        changes = random.sample(changes, min(CHANGES, len(changes)))
        replays = replayer(store, trial.run)
        for seq, edit in case.each("the change is number", changes):
            record = records[seq]
            changed = [*records[:seq], edit.applied_to(record), *records[seq + 1 :]]
            try:
                entries = chained(changed[seq:], seq, honest.entries[seq - 1].digest if seq else bytes(32))
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
            last = entries[-1]
            assert honest.head is not None, "the run is there"
            head = honest.head._replace(seq=last.seq, digest=last.digest, signature=None)
            store.snapshot = honest._replace(entries=[*honest.entries[:seq], *entries], head=head)
            case.count()
            found = verify(store, trial.run, replay=replays)
            if found.is_intact:
                self._passed(case, seq, record, edit)
        return Outcome.DETECTED

    def _passed(self, case: Case, seq: int, record: Data, edit: Edit) -> None:
        """Raise Breach for a change that was not found."""
        case.log(f"edit record {seq}, {json.dumps(record)[:300]}: {edit}")
        case.hold(False, self.invariant, f"`{edit.name}` of `{record['kind']}` was changed, and nobody finds it")


CHANGES: Final = 60
"""The number of changes of one case."""

ALIKE: Final = ("again", "doubt", "failed", "skipped", "success", "fallback")
"""The kinds of outcome that an attempt may have instead, if it has the same fields."""

OUTSIDE: Final = ("cancel", "refused", "erased")
"""The kinds of records that may come at any time, so that a last record may be replaced by one of them."""

HELD: Final = ("key", "limits", "run", "attempt", "performance", "tokens", "verdict")
"""The fields of a note that a replay checks. All others are informative."""

FREE: Final = frozenset(
    {
        "started body.patterns",  # a run of an earlier version lacks them
        "started body.inputs",  # other valid inputs give another valid run
        "attempt body.output",
        "attempt body.error",
        "attempt body.request",
        "attempt body.rule",
        "attempt note.tokens",
        "joined body.error",
        "rejected body.error",
        "passed body.error",
        "blocked body.error",
        "doubt body.error",
        "ended body.error",
        "resumed body.output",
        "reconciled body.output",
    }
)
"""The paths of data from outside: other values give another valid run."""


def _is_free(record: Data, edit: Edit) -> bool:
    """Whether a change can't be detected: the value comes from outside, or has no meaning."""
    part, name = edit.path[0], edit.path[-1] if len(edit.path) > 1 else ""
    where = f"{record['kind']} {edit.name}"
    if record["kind"] in OUTSIDE or edit.value is True or where in FREE:
        return True
    if where == "attempt body.kind":  # another answer of the world with the same fields
        return edit.value in ALIKE and record["body"]["kind"] in ALIKE
    if where == "attempt body.unknown":  # only the world knew whether a failed effect may have happened
        return edit.is_removed
    if where == "intent body.args":  # a sealed value has another reference
        return "#v" in json.dumps(record["body"]["args"])
    if part == "kind":
        return edit.value in OUTSIDE or (record["kind"] == "attempt" and edit.value == "doubt")
    if part == "body":
        return name == "more" and edit.name != "body.more"  # a field of a value from outside
    return name == "more" or (part == "note" and edit.path[1] not in HELD)


SIDES: Final = ("left", "right")
_PAY: Final[Data] = {"type": "tool", "tool": "pay", "args": {"sum": "$x"}}
_SET: Final[Data] = {"type": "set", "set": {"y": "$x + 1"}}
_TOOLS: Final[Data] = {"pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}}}


def _body(name: str, value: str) -> list[Data]:
    """Return a body that computes something, and gives it."""
    return [{"id": f"set_{name}", **_SET}, {"id": f"end_{name}", "type": "end", "output": {"is": value, "text": "a"}}]


@cache
def _decided() -> Program:
    """Return a program whose run has each kind of record that the machine decides on."""
    items: Data = {"type": "for_each", "items": "$list", "as": "one", "index_as": "at"}
    ends = [{"id": "tell", "type": "end", "output": {"at": "$at", "is": "$one + $t"}}]
    summed: Data = {"id": "sum", "type": "set", "set": {"t": "$t + $one"}}
    listed: list[Data] = [{"id": "tell_2", "type": "end", "output": ["$one", "$at"]}]
    steps: list[Data] = [
        {"id": "first", "type": "set", "set": {"x": "$n * 2", "t": 0, "word": "'a'"}},
        {"id": "small", "type": "condition", "condition": "$x < 100", "then": "each", "otherwise": "last"},
        {"id": "each", **items, "carry": {"t": "$t"}, "steps": [summed, *ends]},
        {"id": "once", **items, "max_concurrency": 2, "steps": listed},
        {"id": "both", "type": "parallel", "branches": {one: {"steps": _body(one, "$y")} for one in SIDES}},
        {"id": "subs", "type": "parallel", "parallel_steps": [{"id": "pay_1", **_PAY}, {"id": "pay_2", **_PAY}]},
        {"id": "go", "type": "call", "program": "part", "args": {"x": "$x"}},
        {"id": "rest", "type": "wait", "seconds": 9},
        {"id": "last", "type": "end", "output": {"sum": "$x", "of": "$go.output", "list": "$each.output"}},
    ]
    for step, following in pairwise(steps):
        if step["type"] != "condition":
            step["next_step"] = following["id"]
    inputs = {"n": {"type": "number"}, "list": {"type": "array", "items": {"type": "number"}, "maxItems": 3}}
    part = {"inputs": {"x": {"type": "number"}}, "steps": _body("part", "$y * 2")}
    data = {"name": "decided", "language": 2, "inputs": inputs, "tools": _TOOLS, "programs": {"part": part}}
    return Program.from_dict({**data, "steps": steps})


class DecisionsRewritten(Attack):
    """A run has each kind of record that the machine decides on, with outputs of bodies, calls and the end. Each field
    of each kind is changed once, and everything after it is rehashed."""

    family = Family.TRANSITIONS
    surface = "decisions in a journal that is rehashed"
    action = "each field of each kind of decision changed, in a run that has them all"
    invariant = Invariant.HISTORY
    defence = "a replay decides again, and compares every field with what the machine would write"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Run the program, and change one field after the other."""
        chance = Random(f"decisions {case.seed()}")
        clock, store = ManualClock(), MemoryJournal()
        machine = case.machine({"pay": lambda sum: sum}, None, store, clock=clock)
        case.do(machine.run(_decided(), {"n": 3, "list": [1, 2]}, run_id="run"))
        clock.time += 10_000_000
        (run,) = case.do(machine.recover("run"))
        case.hold(run.status == "SUCCESS", Invariant.KEPT, f"the run is {run.status}: {run.error}")
        entries, row = store.read("run"), store.row("run")
        assert row is not None, "the run is there"
        records = [json.loads(entry.record) for entry in entries]
        replays = replayer(store, "run")
        names = tuple(step["id"] for step in _decided().to_dict()["steps"])
        edits: dict[tuple[str, ...], list[tuple[int, Edit]]] = {}
        for seq, record in enumerate(records):
            for edit in edits_of(record, names):
                if not _is_free(record, edit) and edit.path != ("kind",):
                    what = "gone" if edit.is_removed else "changed"
                    edits.setdefault((what, record["kind"], *edit.path), []).append((seq, edit))
        for path in case.each("the field", tuple(edits)):
            seq, edit = chance.choice(edits[path])
            changed = chained([*records[:seq], edit.applied_to(records[seq]), *records[seq + 1 :]])
            last = changed[-1]
            raw_store_of(store).put("run", changed, Head("run", last.seq, last.digest, None), row.status)
            case.count()
            if verify(store, "run", replay=replays).is_intact:
                case.log(f"edit record {seq}, {json.dumps(records[seq])[:300]}: {edit}")
                case.hold(False, self.invariant, f"`{edit.name}` of `{path[1]}` is {path[0]}, and nobody finds it")
        return Outcome.DETECTED
