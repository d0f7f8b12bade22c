"""The base of attacks on the course of a run, which rewrite and rehash an unsigned journal.

There is no key or receipt here, so only the meaning of the records can reveal the attack. Each attack therefore writes
something that the program does not allow; a forgery that it allows looks like another valid run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Unpack

from stepward.sabotage.attack import Attack, AttackFacts, Family, attack_of
from stepward.sabotage.attacks.tampering import must_not_go_on
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data, Forger, chained, plant
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.machine.history import fold
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import snapshot

FROM_OUTSIDE = ("cancel", "refused", "erased")
"""Kinds of records that the program does not decide."""


class Forged(NamedTuple):
    """The forged records. After the first `end` of them come only original ones."""

    records: list[Data]
    end: int


class Rewriting(Attack):
    """An attack on the events in the records of a run.

    `forge` returns the forged records. `may_be_honest` says that the forgery may equal an honest run, which can't be
    detected.
    """

    family = Family.TRANSITIONS
    invariant = Invariant.GRAPH
    weight = 2
    may_be_honest: ClassVar[bool] = False
    forge: Forge

    def play(self, case: Case) -> Outcome:
        """Play a run to its end without a key, forge its journal, verify it, and let a machine continue it."""
        from hypothesis import strategies as st

        trial = self.trial(case)
        unsigned = trial.machine(key=None)
        run = trial.carry_on(trial.start(unsigned), unsigned)
        forger = Forger(trial)
        forged = self.forge(trial, forger.records())
        is_cut = forged.end == len(forged.records) or not case.pick("what follows is kept", st.booleans())
        records = forged.records[: forged.end] if is_cut else forged.records
        if is_cut:
            case.log("cut off what follows")
        case.log("hash the whole journal anew")
        return self._read(case, trial, run, records)

    def trial(self, case: Case) -> Trial:
        """Return the trial to play."""
        return Trial(case, faults=False)

    def _read(self, case: Case, trial: Trial, run: Run, records: list[Data]) -> Outcome:
        """Verify the forged run, and recover it in a world in which nothing has happened yet."""
        twin = Trial(case, trial.name, faults=False, store=MemoryJournal(), target=trial.target)
        twin.run = trial.run
        twin.oracle.rest()
        plant(twin.store.inner, twin.run, chained(records), Forger(trial).snapshot())
        case.count(len(records))
        if not twin.faults(trusts_key=False):
            is_the_same = self.may_be_honest and _bytes(twin, len(records)) == _bytes(trial, len(records))
            case.hold(is_the_same, self.invariant, "a verification finds nothing in the forged journal")
            return Outcome.ABSORBED
        must_not_go_on(case, twin, twin.machine(key=None), run)
        return Outcome.DETECTED


class Facts(AttackFacts, total=False):
    """The description of a rewriting attack."""

    may_be_honest: bool
    trial: Callable[[Case], Trial]


Forge = Callable[[Trial, list[Data]], Forged]


def rewriting(**facts: Unpack[Facts]) -> Callable[[Forge], type[Rewriting]]:
    """Turn a function that forges records into an attack.

    The attack has the name of the function, with hyphens, and its docstring.
    """
    return lambda forge: attack_of(Rewriting, forge, forge=forge, **facts)


def _bytes(trial: Trial, count: int) -> bytes:
    """Return the state of a run after some of its records."""
    found = trial.history()
    return snapshot(found.plan, fold(found.plan, found.events[:count]))


def call_of(trial: Trial, record: Data) -> CallPlan | None:
    """Return the call of a record, or None."""
    return trial.target.calls.get(record["body"].get("step", ""))


def changed(records: list[Data], seq: int, *instead: Data) -> Forged:
    """Return records with one of them replaced by others."""
    return Forged([*records[:seq], *instead, *records[seq + 1 :]], seq + len(instead))


def with_body(record: Data, **fields: object) -> Data:
    """Return a record with fields of its body replaced."""
    return record | {"body": record["body"] | fields}


def with_note(record: Data, **fields: object) -> Data:
    """Return a record with fields of its note replaced."""
    return record | {"note": record["note"] | fields}


def without_target(record: Data) -> Data:
    """Return a record without the successor fields of its body."""
    body = {name: value for name, value in record["body"].items() if name not in ("next", "ends", "closes", "reason")}
    return record | {"body": body}
