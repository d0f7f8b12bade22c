"""What is kept of a run that was pruned: the digests of its records, and how it ended.

It stands in the store in the place of the run. With a key it is signed, and then it proves as much of a receipt as the
run itself did: that the run once had this record, and how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import canonical, read_canonical
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import PRUNED_TAG
from stepward.vm.journal.signing import SigningKey, VerifyKey, signer_among
from stepward.vm.journal.store import Head, Journal
from stepward.vm.journal.verdict import Fault, Verdict

VERSION: Final = 1
_TEXTS: Final = ("name", "program", "run", "status")
_FIELDS: Final = {*_TEXTS, "at", "by", "digests", "ended", "key", "signature", "trace", "v"}
GOING: Final = ("RUNNING", "SUSPENDED", "IN_DOUBT")
"""The statuses of a run that has not ended."""

_DIGEST_BYTES: Final = 32
_HELP: Final = "bring it back from a copy that verifies"


class PrunedRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """Bytes are not what is kept of a run."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is kept of a run: its program (name and digest), its status and trace hash, and the digest of each record.

    `ended` and `at` are when it ended and was pruned, in microseconds since the epoch; `by` is who pruned it, if a name
    was given. `key` is the id of the key that made `signature`; both are None without a key.
    """

    run: str
    name: str
    program: str
    status: str
    trace: bytes
    digests: tuple[bytes, ...]
    ended: int
    at: int
    by: str | None = None
    key: str | None = None
    signature: bytes | None = None

    @property
    def head(self) -> Head:
        """The head that the run had."""
        return Head(self.run, len(self.digests) - 1, self.digests[-1], None)

    def signed(self, key: SigningKey | None) -> Pruned:
        """Return it with the signature of a key, or as it is without one."""
        if key is None:
            return self
        unsigned = replace(self, key=key.id, signature=None)
        return replace(unsigned, signature=key.sign(unsigned.message()))

    def message(self) -> bytes:
        """Return the signed bytes: all fields but the signature."""
        return PRUNED_TAG + canonical(self._fields()).encode()

    def to_bytes(self) -> bytes:
        """Return it as canonical JSON."""
        signature = None if self.signature is None else self.signature.hex()
        return canonical(self._fields() | {"signature": signature}).encode()

    @classmethod
    def from_bytes(cls, kept: bytes) -> Pruned:
        """Read what is kept of a run; raises PrunedRefused for anything else."""
        try:
            data = read_canonical(kept)
            if not isinstance(data, dict) or data.keys() != _FIELDS or data["v"] != VERSION:
                raise ValueError("it has other fields")
            if not all(isinstance(data[name], str) for name in _TEXTS):
                raise ValueError("a name is no text")
            if not all(type(data[name]) is int for name in ("at", "ended")) or not data["digests"]:
                raise ValueError("a time is no number")
            signature = None if data["signature"] is None else bytes.fromhex(data["signature"])
            return cls(
                data["run"],
                data["name"],
                data["program"],
                data["status"],
                _digest(data["trace"]),
                tuple(map(_digest, data["digests"])),
                data["ended"],
                data["at"],
                data["by"],
                data["key"],
                signature,
            )
        except (ValueError, TypeError, RecursionError, StepwardError, json.JSONDecodeError):
            raise PrunedRefused("what is kept of a pruned run can't be read") from None

    def signer(self, keys: Iterable[VerifyKey]) -> VerifyKey | None:
        """Return the one of `keys` that signed it, or None."""
        return signer_among((one for one in keys if one.id == self.key), self.message(), self.signature)

    def misfit(self, receipt: Receipt) -> str | None:
        """Return why a receipt does not fit the run, or None."""
        if receipt.seq >= len(self.digests):
            last = len(self.digests) - 1
            return (
                f"there was a record {receipt.seq}, according to a receipt, but the pruned run ended with record {last}"
            )
        if self.digests[receipt.seq] != receipt.digest:
            return f"record {receipt.seq} of the pruned run was not the one that a receipt was given for"
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
        if is_end and (receipt.status, receipt.trace) != (self.status, self.trace):
            return "a receipt says another end of the pruned run than is kept"
        return None

    def _fields(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "by": self.by,
            "digests": [digest.hex() for digest in self.digests],
            "ended": self.ended,
            "key": self.key,
            "name": self.name,
            "program": self.program,
            "run": self.run,
            "status": self.status,
            "trace": self.trace.hex(),
            "v": VERSION,
        }


def verify_pruned(run: str, kept: bytes, keys: Sequence[VerifyKey], receipts: Sequence[Receipt]) -> Verdict:
    """Check what is kept of a pruned run; `receipts` are those of the run whose own signatures were checked."""
    try:
        found = Pruned.from_bytes(kept)
    except PrunedRefused as error:
        return Verdict(run, 0, None, None, 0, (Fault(run, None, str(error), _HELP),), is_pruned=True)
    faults = []
    signer = found.signer(keys)
    if found.run != run:
        faults.append(Fault(run, None, f"what is kept is of another run, not of `{run}`", _HELP))
    if keys and signer is None:
        which = "has no signature" if found.signature is None else "is signed by none of the given keys"
        help = "pass the public key of the machine that pruned it; if this is that key, do not trust this run"
        faults.append(Fault(run, None, f"what is kept of the pruned run {which}", help))
    misfits = [(receipt.seq, why) for receipt in receipts if (why := found.misfit(receipt)) is not None]
    faults += [Fault(run, seq, why) for seq, why in sorted(misfits)]
    good = len(receipts) - len(misfits)
    return Verdict(
        run, len(found.digests), found.head, signer.id if signer else None, good, tuple(faults), is_pruned=True
    )


def kept_of(journal: Journal, run: str) -> Pruned | None:
    """Return what is kept of a run that was pruned, or None; raises PrunedRefused if it can't be read."""
    kept = journal.kept(run)
    return None if kept is None else Pruned.from_bytes(kept)


def _digest(text: object) -> bytes:
    digest = bytes.fromhex(text) if isinstance(text, str) else b""
    if len(digest) != _DIGEST_BYTES:
        raise ValueError("a digest is wrong")
    return digest
