"""The result of verifying a run: its faults, each with the location of the damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stepward.vm.journal.store import Head

RESTORE: Final = "bring the journal back from a copy that verifies, and let nobody go on with this run until then"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a run; `seq` is the number of the record concerned, None for the whole run.

    `what` is a whole sentence that names the record; `help` says what to do.
    """

    run: str
    seq: int | None
    what: str
    help: str = RESTORE

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a run of `records` records; the first fault is where the damage begins.

    `signed_by` is the id of the given key that signed the head, or None; `receipts` counts those that match the chain.
    `continues` is the run that this one says that it continues, or None. `is_pruned`: the records were removed, and
    what is kept of them was verified.
    """

    run: str
    records: int
    head: Head | None
    signed_by: str | None
    receipts: int
    faults: tuple[Fault, ...]
    continues: str | None = None
    is_pruned: bool = False

    @property
    def is_intact(self) -> bool:
        """Whether no fault was found."""
        return not self.faults
