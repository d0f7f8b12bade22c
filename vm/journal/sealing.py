"""Sensitive values: records hold a reference and a salted commitment, the vault holds the value and its salt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, canonical, is_sealed, portable, read_canonical, restored
from stepward.vm.journal.records import VALUE_TAG
from stepward.vm.journal.store import JournalError

REFERENCE_BYTES: Final = 8
SALT_BYTES: Final = 16
"""Without a salt, whoever reads the journal could try all short texts and small numbers against a commitment."""


def seal(value: Any, random: Callable[[int], bytes]) -> tuple[Sealed, bytes]:
    """Seal a frozen value that has no sealed parts: return what stands for it, and what the vault is to keep.

    `random` gives a number of bytes that nobody can guess.
    """
    assert not is_sealed(value), "a value is sealed once; open it before it is sealed with others"
    drawn = random(REFERENCE_BYTES + SALT_BYTES)
    secret = drawn[REFERENCE_BYTES:] + canonical(portable(value)).encode()
    return Sealed(drawn[:REFERENCE_BYTES].hex(), commitment(secret), value), secret


def commitment(secret: bytes) -> str:
    """Return what a record says of a value that the vault keeps: it binds to the value, and tells nothing of it."""
    return sha256(VALUE_TAG + secret).hexdigest()


def unsealer(secrets: Mapping[str, bytes], erased: Collection[str]) -> Callable[[str, str], Sealed]:
    """Return what finds sensitive values by reference and commitment, as `restored` wants it.

    `secrets` is what the vault has of the run, `erased` the references that its records call erased: those are gone,
    even where the vault still has them. The function raises JournalError for a value that is neither there nor
    erased, or is not the one that the record was written with, and NotCanonicalError for one of a later version.
    """

    def unseal(reference: str, committed: str) -> Sealed:
        if reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
        secret = secrets.get(reference)
        if secret is None:
            raise JournalError(f"the sensitive value `{reference}` is neither in the vault nor erased")
        if commitment(secret) != committed:
            raise JournalError(f"the sensitive value `{reference}` in the vault is not the one that was put there")
        return Sealed(reference, committed, restored(read_canonical(secret[SALT_BYTES:]), _refuse_nested))

    return unseal


def _refuse_nested(reference: str, _: str) -> Sealed:
    raise JournalError(f"the sensitive value `{reference}` stands inside another one")
