"""Receipts: copies of the head of a run, given to somebody at some time.

A store that is rewritten or truncated can be made consistent again. A receipt is stored elsewhere, and proves later
that the run once had this record at this number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import LARGEST, canonical
from stepward.vm.journal.records import RECEIPT_TAG
from stepward.vm.journal.signing import SigningKey, VerifyKey, signer_among

VERSION: Final = 1
_FIELDS: Final = ("digest", "key", "run", "seq", "signature", "status", "trace", "v")
_HEX: Final = {"digest": 64, "trace": 64, "key": 16, "signature": 128}


class ReceiptRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A text is not a receipt, or has a version that this reader does not know."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The head of a run: its last record's number and digest, its status and its trace hash (32 bytes each).

    `key` is the id of the key that made `signature`; both are None on an unsigned receipt. The signature covers every
    other field under a tag of its own, so that no field of a receipt can be changed, and the signature of a head is
    not one of a receipt.
    """

    run: str
    seq: int
    digest: bytes
    status: str
    trace: bytes
    key: str | None = None
    signature: bytes | None = None

    @classmethod
    def give(
        cls, run: str, seq: int, digest: bytes, status: str, trace: bytes, key: SigningKey | None = None
    ) -> Receipt:
        """Make a receipt, signed if a key is given."""
        if key is None:
            return cls(run, seq, digest, status, trace)
        unsigned = cls(run, seq, digest, status, trace, key.id)
        return replace(unsigned, signature=key.sign(unsigned.message()))

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read a receipt, with any spaces and order of fields; raises ReceiptRefused for anything else."""
        try:
            data = json.loads(text, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError):
            raise ReceiptRefused(
                "a receipt is one JSON object, and this is none; hand it over as it was given"
            ) from None
        if not isinstance(data, dict) or "v" not in data:
            raise ReceiptRefused("a receipt is a JSON object with a version `v`; hand it over as it was given")
        if type(data["v"]) is not int or data["v"] != VERSION:
            raise ReceiptRefused(f"the receipt is not of version {VERSION}; use the version of Stepward that gave it")
        _check_fields(data)
        signature = data["signature"]
        return cls(
            data["run"],
            data["seq"],
            bytes.fromhex(data["digest"]),
            data["status"],
            bytes.fromhex(data["trace"]),
            data["key"],
            None if signature is None else bytes.fromhex(signature),
        )

    def to_json(self) -> str:
        """Return the receipt as one line of canonical JSON."""
        return canonical(self._fields() | {"signature": self.signature.hex() if self.signature else None})

    def message(self) -> bytes:
        """Return the signed bytes: all fields but the signature."""
        return RECEIPT_TAG + canonical(self._fields()).encode()

    def signer(self, keys: Iterable[VerifyKey]) -> VerifyKey | None:
        """Return the one of `keys` that signed this receipt, or None."""
        return signer_among((one for one in keys if one.id == self.key), self.message(), self.signature)

    def _fields(self) -> dict[str, Any]:
        return {
            "digest": self.digest.hex(),
            "key": self.key,
            "run": self.run,
            "seq": self.seq,
            "status": self.status,
            "trace": self.trace.hex(),
            "v": VERSION,
        }


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a field comes twice")
    return data


def _check_fields(data: dict[str, Any]) -> None:
    missing = [name for name in _FIELDS if name not in data]
    unknown = [name for name in data if name not in _FIELDS]
    if missing or unknown:
        which = f"lacks `{missing[0]}`" if missing else f"has an unknown field `{unknown[0][:40]}`"
        raise ReceiptRefused(f"the receipt {which}; hand it over as it was given")
    if (data["key"] is None) != (data["signature"] is None):
        raise ReceiptRefused("a receipt has a key and a signature or neither; hand it over as it was given")
    signed = data["signature"] is not None
    wrong = [name for name in ("run", "status") if not _is_text(data[name])]
    wrong += [name for name in ("digest", "trace") if not _is_hex(data[name], _HEX[name])]
    wrong += [name for name in ("key", "signature") if signed and not _is_hex(data[name], _HEX[name])]
    if type(data["seq"]) is not int or not 0 <= data["seq"] <= LARGEST:
        wrong.append("seq")
    if wrong:
        raise ReceiptRefused(f"`{wrong[0]}` of the receipt can't be what it says; hand it over as it was given")


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and re.fullmatch("[0-9a-f]+", value) is not None
