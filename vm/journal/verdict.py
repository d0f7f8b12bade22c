"""What verification says of a run: its faults, each with the place where the damage is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepward.vm.journal.store import Head

RESTORE: Final = "bring the journal back from a copy that verifies, and let nobody go on with this run until then"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a run, `seq` being the record concerned; None where it is the whole run.

    `what` is a sentence of its own and names the record; `help` says what to do about it.
    """

    run: str
    seq: int | None
    what: str
    help: str = RESTORE

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found in a run of `records` records; the first fault is where the damage begins.

    `signed_by` is the id of the key that signed the head, None where no key was given or none of them did; `receipts`
    counts those that lie on the chain.
    """

    run: str
    records: int
    head: Head | None
    signed_by: str | None
    receipts: int
    faults: tuple[Fault, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong with the run, as far as it could be checked."""
        return not self.faults
