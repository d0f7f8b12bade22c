"""Seals sensitive values: records hold a reference and a salted commitment, the vault holds the value and its salt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, Final, NoReturn

from stepward.vm.journal.canonical import (
    NotCanonicalError,
    Sealed,
    canonical,
    is_sealed,
    portable,
    read_canonical,
    restored,
)
from stepward.vm.journal.encryption import is_encrypted
from stepward.vm.journal.records import VALUE_TAG
from stepward.vm.journal.store import JournalError

REFERENCE_BYTES: Final = 8
SALT_BYTES: Final = 16
"""Without a salt, a reader of the journal could try all short texts and small numbers against a commitment."""


def seal(value: Any, random: Callable[[int], bytes]) -> tuple[Sealed, bytes]:
    """Seal a frozen value that has no sealed parts; return it sealed, and the secret for the vault.

    `random` returns a number of bytes that nobody can guess.
    """
    assert not is_sealed(value), "a value is sealed once; open it before it is sealed with others"
    drawn = random(REFERENCE_BYTES + SALT_BYTES)
    secret = drawn[REFERENCE_BYTES:] + canonical(portable(value)).encode()
    return Sealed(drawn[:REFERENCE_BYTES].hex(), commitment(secret), value), secret


def commitment(secret: bytes) -> str:
    """Return the commitment of a secret in the vault for a record: it binds to the value, and reveals nothing."""
    return sha256(VALUE_TAG + secret).hexdigest()


def unsealer(secrets: Mapping[str, bytes], erased: Collection[str]) -> Callable[[str, str], Sealed]:
    """Return the function that finds sensitive values by reference and commitment, for `restored`.

    `secrets` are those of the run in the vault, `erased` the references that its records name as erased: those count as
    gone even if the vault still has them. The function raises JournalError for a value that is neither there nor
    erased, or does not match its commitment, and NotCanonicalError for one of a later version.
    """

    def unseal(reference: str, committed: str) -> Sealed:
        if reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
        secret = secrets.get(reference)
        if secret is None:
            raise JournalError(f"the sensitive value `{reference}` is neither in the vault nor erased")
        if is_encrypted(secret):
            raise JournalError(f"the sensitive value `{reference}` is encrypted: open the journal with its key store")
        if commitment(secret) != committed:
            raise JournalError(f"the sensitive value `{reference}` in the vault is not the one that was put there")
        return Sealed(reference, committed, _read(reference, secret[SALT_BYTES:]))

    return unseal


def _read(reference: str, text: bytes) -> Any:
    """Return the value in a secret; no message about it quotes the value."""
    data = read_canonical(text)
    try:
        return restored(data, _refuse_nested)
    except NotCanonicalError:
        raise NotCanonicalError("a text in it begins with a tag, and this version does not know what it says") from None
    except _NestedError:
        raise JournalError(f"another one stands inside the sensitive value `{reference}`") from None


class _NestedError(Exception):
    """There is a reference to a sensitive value inside one."""


def _refuse_nested(*_: str) -> NoReturn:
    raise _NestedError
