"""A wrapper around a store that changes nothing. Subclasses override what shall behave differently."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stepward.vm.journal.store import Vault
from stepward.vm.journal.through import ThroughJournal


class ThroughStore(ThroughJournal):
    """Passes every call on to `inner`; those that change the store or its vault, by `write`."""

    @property
    def vault(self) -> Vault:
        """The vault of sensitive values."""
        return _ThroughVault(self)

    def close(self) -> None:
        """Do nothing: the creator of the inner store closes it."""


class _ThroughVault:
    def __init__(self, store: ThroughStore) -> None:
        self._store = store

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        """Store values."""
        self._store.write(self._store.inner.vault.put, run, secrets)

    def get(self, run: str) -> dict[str, bytes]:
        """Return every value of a run."""
        return self._store.inner.vault.get(run)

    def erase(self, run: str) -> int:
        """Destroy every value of a run."""
        return self._store.write(self._store.inner.vault.erase, run)

    def erase_all(self, runs: Collection[str]) -> int:
        """Destroy every value of several runs."""
        return self._store.write(self._store.inner.vault.erase_all, runs)
