"""Canaries of keys: those of runs, and those that sign; a helper, no tests stand here."""

from __future__ import annotations

from typing import Final

import pytest

from canaries import Canary
from canaries_replays import MAILS, _program
from rewriting import rewrite
from stepward.vm.journal import encryption, rotation, verify
from stepward.vm.journal.encryption import EncryptedVault
from stepward.vm.journal.run_keys import FileKeys


def binds_to_the_run(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, encryption, "_bound", ("{key_name(run)} {reference}", "{key_name(run)}"))


def keeps_the_key(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, EncryptedVault, "erase_all", ("self._keys.destroy(key_name(run))", "pass"))


def makes_a_key_again(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, EncryptedVault, "put", ("self._keys.destroy(key_name(run))", "pass"))


def lets_others_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileKeys, "_refuse_others", lambda self: self._folder.stat())


def looks_at_no_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verify, "_locked", lambda journal, chain: None)


def signs_what_was_changed(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, rotation, "_sign_one", ("verdict.faults or head is None", "head is None"))


HIDES: Final = _program(
    {"id": "end", "type": "end"},
    inputs={"card": {"type": "string", "sensitive": True}},
)

CANARIES: Final = (
    Canary("binds-to-the-run", "a value is encrypted for its name", "encrypted-values", MAILS, binds_to_the_run),
    Canary("keeps-the-key", "an erasure destroys the key", "encrypted-values", MAILS, keeps_the_key),
    Canary("makes-a-key-again", "an erased run gets no key", "encrypted-values", MAILS, makes_a_key_again),
    Canary("lets-others-in", "others may not use the folder of keys", "encrypted-values", MAILS, lets_others_in),
    Canary("looks-at-no-lock", "a verifier without keys says so", "locked-vault", HIDES, looks_at_no_lock),
    Canary(
        "signs-what-was-changed",
        "a run is verified before it is signed anew",
        "signed-anew",
        MAILS,
        signs_what_was_changed,
    ),
)
