"""Skipped transitions: every field of every record is edited, the whole is hashed anew, and somebody replays it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple, get_args

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.audits import Shown
from stepward.sabotage.attacks.tampering import is_carried
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data, Forger, chained
from stepward.vm.journal.verify import verify
from stepward.vm.machine.events import Kind
from stepward.vm.machine.replay import replayer

KINDS: Final = (*get_args(Kind), "other")
RESULTS: Final = ("success", "failed", "skipped", "again", "doubt", "suspended", "fallback")


class Edit(NamedTuple):
    """A change of one place in a record: the keys that lead to it, and what stands there then; `gone` where nothing."""

    place: tuple[str, ...]
    value: Any
    gone: bool = False

    @property
    def name(self) -> str:
        """How FREE calls the place."""
        return ".".join(self.place[:2])

    def made(self, record: Data) -> Data:
        """Return the record with the change."""
        changed = copy.deepcopy(record)
        inner = changed
        for key in self.place[:-1]:
            inner = inner[key]
        if self.gone:
            del inner[self.place[-1]]
        else:
            inner[self.place[-1]] = self.value
        return changed


def edits_of(record: Data, steps: tuple[str, ...]) -> Iterator[Edit]:
    """Yield changes of each place in a record."""
    for kind in KINDS:
        if kind != record["kind"]:
            yield Edit(("kind",), kind)
    for part in ("body", "note"):
        yield Edit((part, "more"), 1)
        for name, value in record[part].items():
            yield Edit((part, name), None, gone=True)
            for other in _others(value, steps):
                yield Edit((part, name), other)
            if isinstance(value, dict):
                yield Edit((part, name, "more"), 1)
                for key in value:
                    yield Edit((part, name, key), None, gone=True)
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
    """Every field of every record is changed into others, left out, or added to, all that follows is hashed anew, and
    nobody has a key or a receipt: only what the program says can tell."""

    name = "fields-edited"
    family = Family.TRANSITIONS
    surface = "fields of a journal that is hashed anew"
    action = "changed, left out and added, each of them"
    invariant = Invariant.HISTORY
    defence = "a replay holds every field of every record against what the machine would have written"
    severity = "critical"
    weight = 8
    enumerates = "each field of each record of the run that was drawn, in each of a few ways"

    def play(self, case: Case) -> Outcome:
        """See that each change is found but those of what comes from outside, of which nobody can tell."""
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
        for number in case.each("the change is number", len(changes)):
            seq, edit = changes[number]
            record = records[seq]
            changed = [*records[:seq], edit.made(record), *records[seq + 1 :]]
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
        """Raise Breach for a change that nobody found."""
        case.log(f"edit record {seq}, {json.dumps(record)[:300]}: {edit}")
        case.hold(False, self.invariant, f"`{edit.name}` of `{record['kind']}` was changed, and nobody finds it")


CHANGES: Final = 60
"""Changes of one case."""

ALIKE: Final = ("again", "doubt", "failed", "skipped", "success", "fallback")
"""What an attempt may have come to instead: other fields than before would tell."""

OUTSIDE: Final = ("cancel", "refused", "erased")
"""Kinds of records that come when they come: of a last record nobody can tell whether it was one of these."""

HELD: Final = ("key", "limits", "run", "attempt", "performance", "tokens", "verdict")
"""What of a note has a meaning that a replay holds; all else says how it went."""

FREE: Final = frozenset(
    {
        "started body.patterns",  # without them it is a run of an earlier version
        "started body.inputs",  # other inputs of their types are another run
        "attempt body.output",
        "attempt body.error",
        "attempt body.request",
        "attempt body.rule",
        "attempt note.tokens",
        "joined body.error",
        "rejected body.error",
        "blocked body.error",
        "doubt body.error",
        "ended body.error",
        "resumed body.output",
        "reconciled body.output",
    }
)
"""What comes from outside: with other words or values the run is another one, which might have been."""


def _is_free(record: Data, edit: Edit) -> bool:
    """Whether nobody can tell that a place was changed: it comes from outside, or has no meaning."""
    part, name = edit.place[0], edit.place[-1] if len(edit.place) > 1 else ""
    where = f"{record['kind']} {edit.name}"
    if record["kind"] in OUTSIDE or edit.value is True or where in FREE:
        return True
    if where == "attempt body.kind":  # another answer of the world, which leaves the same fields
        return edit.value in ALIKE and record["body"]["kind"] in ALIKE
    if where == "attempt body.unknown":  # whether an effect that failed may have happened, the world knew
        return edit.gone
    if where == "intent body.args":  # a value that is sealed has another reference
        return "#v" in json.dumps(record["body"]["args"])
    if part == "kind":
        return edit.value in OUTSIDE or (record["kind"] == "attempt" and edit.value == "doubt")
    if part == "body":
        return name == "more" and edit.name != "body.more"  # a field of a value from outside
    return name == "more" or (part == "note" and edit.place[1] not in HELD)


ATTACKS: Final[tuple[type[Attack], ...]] = (FieldsEdited,)
