"""A vault whose values are encrypted, each run's by a key of its own that is kept elsewhere.

Erasing a run destroys its key. Then nobody can read what backups, snapshots and write-ahead logs still hold of its
values.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from stepward.vm.journal.run_keys import NONCE_BYTES, key_name
from stepward.vm.journal.store import JournalError, LeaseLost

if TYPE_CHECKING:
    from stepward.vm.journal.run_keys import RunKeys
    from stepward.vm.journal.store import Vault

TAG: Final = b"\x00swAESG1"
"""The first bytes of an encrypted value; one that is not encrypted begins with random ones."""


def is_encrypted(stored: bytes) -> bool:
    """Return whether a value of a vault is encrypted."""
    return stored.startswith(TAG)


class ValuesLost(JournalError):  # noqa: N818
    """Sensitive values are there, and the key store has no key that opens them."""


class EncryptedVault:
    """Encrypts the values of another vault by AES-256-GCM, bound to their run and reference.

    Values that were stored before the vault was encrypted are returned as they are.
    """

    def __init__(self, vault: Vault, keys: RunKeys) -> None:
        self._vault = vault
        self._keys = keys

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        if not secrets:
            return
        key = self._keys.make(key_name(run))
        try:
            self._vault.put(run, {name: _encrypted(key, run, name, value) for name, value in secrets.items()})
        except LeaseLost:  # the run was erased, perhaps after its key was looked for
            self._keys.destroy(key_name(run))
            raise

    def get(self, run: str) -> dict[str, bytes]:
        stored = self._vault.get(run)
        if not any(map(is_encrypted, stored.values())):
            return stored
        key = self._keys.find(key_name(run))
        if key is None:
            stored = self._vault.get(run)  # an erasure may have come between
            if not any(map(is_encrypted, stored.values())):
                return stored
            raise ValuesLost(f"the sensitive values of run `{run}` can't be read: the key store has no key of it")
        return {name: _decrypted(key, run, name, value) for name, value in stored.items()}

    def erase(self, run: str) -> int:
        """Destroy every value of a run and its key, and return the number of values.

        The key goes last: a run whose erasure failed half-way can still be read, and erased again.
        """
        return self.erase_all([run])

    def erase_all(self, runs: Collection[str]) -> int:
        count = self._vault.erase_all(runs)
        for run in runs:
            self._keys.destroy(key_name(run))
        return count


def _bound(run: str, reference: str) -> bytes:
    """Return what a value is bound to: a value of another run or reference is refused."""
    return f"{key_name(run)} {reference}".encode()


def _encrypted(key: bytes, run: str, reference: str, value: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return TAG + nonce + AESGCM(key).encrypt(nonce, value, _bound(run, reference))


def _decrypted(key: bytes, run: str, reference: str, stored: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not is_encrypted(stored):
        return stored
    nonce, text = stored[len(TAG) : len(TAG) + NONCE_BYTES], stored[len(TAG) + NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, text, _bound(run, reference))
    except (InvalidTag, ValueError):
        raise ValuesLost(f"the sensitive value `{reference}` of run `{run}` is not what the key encrypted") from None
