"""Hash corruption: invalid or changed journal files and invalid keys are opened."""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import KEY_SEED, Case
from stepward.sabotage.stores.forging import stranger
from stepward.vm.errors import StepwardError
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.signing import KeyRefused, SigningKey, VerifyKey, signer_of
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry, Head, JournalError

OURS: Final = {"runs.db": (0x5374704A, 4, "wal"), "runs.db.vault": (0x53745661, 1, "delete")}
"""The files of a store, with their application ids, versions and journal modes."""


def _do(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _emptied(path: str) -> None:
    for name in (path, f"{path}-wal", f"{path}-shm"):
        if os.path.exists(name):
            os.truncate(name, 0) if name == path else os.unlink(name)


def _of_another_kind(path: str) -> None:
    _emptied(path)
    _do(path, "CREATE TABLE cats (name TEXT)")


def _no_database(path: str) -> None:
    _emptied(path)
    Path(path).write_bytes(b"no database " * 400)


def _a_folder(path: str) -> None:
    _emptied(path)
    os.unlink(path)
    os.mkdir(path)


DEEDS: Final[dict[str, str | Callable[[str], None]]] = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "a view": "CREATE VIEW v AS SELECT * FROM {table}",
    "a table more": "CREATE TABLE more (x)",
    "an index more": "CREATE INDEX more ON {table} (run)",
    "a column more": "ALTER TABLE {table} ADD COLUMN more",
    "a table less": "DROP TABLE {table}",
    "an older version": "PRAGMA user_version = 0",
    "a newer version": "PRAGMA user_version = 9",
    "another owner": "PRAGMA application_id = 7",
    "no owner": "PRAGMA application_id = 0",
    "no database": _no_database,
    "one of something else": _of_another_kind,
    "a folder": _a_folder,
    "nothing in it": _emptied,
}
"""The changes of a file; `{table}` is one of its tables."""


class FileOfAnotherKind(Attack):
    """The file of the journal or the vault is changed: it has triggers, tables or views, another version or owner, or
    is empty or not a database. Then the store is opened again."""

    family = Family.HASHES
    surface = "schema and header of the store's files"
    action = "changed, and the store opened again"
    invariant = Invariant.TAMPERING
    defence = "a file is opened only as the kind of file that it was created as, and only its owner can read it"
    weight = 40
    draws = True
    enumerates = "the possible contents of the journal file and the vault file"

    def play(self, case: Case) -> Outcome:
        """Check that opening is refused with a clear error, and leaves the file unchanged."""
        for name, what in case.each("the file and what became of it", list(itertools.product(OURS, DEEDS))):
            with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
                self._played(case, os.path.join(folder, "runs.db"), name, what)
        self._missing(case)
        return Outcome.DETECTED

    def _played(self, case: Case, path: str, name: str, what: str) -> None:
        case.act(f"the file of the {'vault' if name.endswith('vault') else 'journal'} has {what}")
        with closing(SQLiteJournal(path)) as store:
            _filled(store)
            self._hold_file(case, store, path)
            self._hold_settings(case, store)
        self._hold_closed(case, store)
        file = path if name == "runs.db" else f"{path}.vault"
        _spoil(file, what, "records" if name == "runs.db" else "secrets")
        before = None if os.path.isdir(file) else Path(file).read_bytes()
        try:
            with closing(SQLiteJournal(path, create=False)) as store:
                found: Any = store.vault.get("a run") if name != "runs.db" else store.read("a run")
        except JournalError as error:
            is_said = "`" in str(error)
            case.hold(is_said, Invariant.REFUSAL, f"it is refused, and not in words: {error}")
        else:
            # Only an empty vault is created again, since it may never have held a value.
            is_new = name != "runs.db" and what == "nothing in it" and not found
            case.hold(is_new, self.invariant, f"a file that has {what} was opened, and {found} was read")
            return
        after = None if os.path.isdir(file) else Path(file).read_bytes()
        case.hold(after == before, self.invariant, "a file that was refused is not as it was")

    def _hold_file(self, case: Case, store: SQLiteJournal, path: str) -> None:
        for name, (owner, version, mode) in OURS.items():
            file = path if name == "runs.db" else f"{path}.vault"
            allowed = stat.S_IMODE(os.stat(file).st_mode)
            case.hold(allowed == 0o600, Invariant.SECRECY, f"the file `{name}` may be read by others: {allowed:o}")
            with closing(sqlite3.connect(file)) as connection:
                marks = [
                    connection.execute(f"PRAGMA {one}").fetchone()[0] for one in ("application_id", "user_version")
                ]
                found = connection.execute("PRAGMA journal_mode").fetchone()[0]
            case.hold(marks == [owner, version], self.invariant, f"the file `{name}` is marked {marks}")
            case.hold(found == mode, Invariant.KEPT, f"the file `{name}` is written in the mode `{found}`")
        del store

    def _hold_settings(self, case: Case, store: SQLiteJournal) -> None:
        """Check that a durable write is synced, also after one that is not durable."""
        levels = []
        for durable in (True, False, True):
            store._file._synchronize(store._file._layout.synchronous)
            with store._file.writing(durable=durable) as connection:
                levels.append(connection.execute("PRAGMA synchronous").fetchone()[0])
        case.hold(levels == [2, 1, 2], Invariant.KEPT, f"durable writes of the journal are made at the levels {levels}")
        with store._values._file().writing(durable=True) as connection:
            found = [connection.execute(f"PRAGMA {one}").fetchone()[0] for one in ("synchronous", "secure_delete")]
        case.hold(found == [3, 1], Invariant.ERASURE, f"writes of the vault are made at the levels {found}")

    def _hold_closed(self, case: Case, store: SQLiteJournal) -> None:
        try:
            store.read("a run")
        except JournalError as error:
            case.hold("closed" in str(error), Invariant.REFUSAL, f"a closed journal says: {error}")
            return
        raise Breach(Invariant.REFUSAL, "a closed journal was read")

    def _missing(self, case: Case) -> None:
        """Check that a missing store is not created unless requested."""
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            for path in (os.path.join(folder, "no.db"), "", ":memory:", os.path.join(folder, "no", "such.db")):
                try:
                    SQLiteJournal(path, create="such" in path).close()
                except JournalError:
                    continue
                raise Breach(Invariant.REFUSAL, f"`{path}` was opened")
            case.hold(not os.listdir(folder), self.invariant, "a store that nobody asked for was made")


def _spoil(file: str, what: str, table: str) -> None:
    deed = DEEDS[what]
    if isinstance(deed, str):
        _do(file, deed.format(table=table))
    else:
        deed(file)


def _filled(store: SQLiteJournal) -> None:
    entry = Entry(0, b"first", digest_of(b"first"))
    store.create(Append("a run", -1, [entry], "RUNNING", 1.0, True), "program", "ann", 1.0)
    store.vault.put("a run", {"x": b"a value"})


class KeysOfAnotherKind(Attack):
    """Files that are not a key, the wrong half of a pair, of another type or encrypted are given as keys. A key is
    saved over a file. Signatures are verified with keys that did not make them."""

    family = Family.HASHES
    surface = "files of keys"
    action = "of another type, or the wrong half of the pair"
    invariant = Invariant.TAMPERING
    defence = (
        "a key must have the correct type, only its owner can read the private half, and a signature is valid "
        "only for its own key"
    )
    severity = "high"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Check that each is refused with a clear error, and that a saved key loads unchanged."""
        ours, other = SigningKey.from_seed(KEY_SEED), stranger()
        with tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "key.pem")
            ours.save(path)
            allowed = stat.S_IMODE(os.stat(path).st_mode)
            case.hold(allowed == 0o600, Invariant.SECRECY, f"a key may be read by others: {allowed:o}")
            before = Path(path).read_bytes()
            _refused(case, "a key is saved over another one", lambda: other.save(path))
            case.hold(Path(path).read_bytes() == before, Invariant.KEPT, "a key was written over")
            loaded = SigningKey.load(path)
            case.hold(loaded.id == ours.id == ours.public.id, self.invariant, "a key has another id when it is read")
            public = os.path.join(folder, "public.pem")
            Path(public).write_bytes(ours.public.pem())
            case.hold(VerifyKey.load(public) == ours.public, self.invariant, "a public key is read as another one")
            _refused(case, "a private key is given to check with", lambda: VerifyKey.load(path))
            _refused(case, "a public key is given to sign with", lambda: SigningKey.load(public))
            for name in ("no.pem", ""):
                _refused(case, "no file is given", lambda name=name: SigningKey.load(os.path.join(folder, name)))  # type: ignore[misc]
                _refused(case, "no file is given", lambda name=name: VerifyKey.load(os.path.join(folder, name)))  # type: ignore[misc]
        for pem in _others():
            _refused(case, "another key is given to sign with", lambda pem=pem: SigningKey.from_pem(pem))  # type: ignore[misc]
            _refused(case, "another key is given to check with", lambda pem=pem: VerifyKey.from_pem(pem))  # type: ignore[misc]
        for size in (0, 31, 33):
            _refused(case, "a seed has another size", lambda size=size: SigningKey.from_seed(bytes(size)))  # type: ignore[misc]
        self._signed(case, ours, other)
        return Outcome.BLOCKED

    def _signed(self, case: Case, ours: SigningKey, other: SigningKey) -> None:
        digest = digest_of(b"last")
        head = Head("a run", 3, digest, ours.sign_head("a run", 3, digest))
        keys = [other.public, ours.public]
        case.hold(signer_of("a run", head, keys) == ours.public, self.invariant, "who has signed is not known")
        signature = head.signature or b""
        wrong = (
            ("b run", head, keys),
            ("a run", head._replace(seq=4), keys),
            ("a run", head._replace(digest=digest_of(b"other")), keys),
            ("a run", head._replace(signature=None), keys),
            ("a run", head._replace(signature=signature[:63]), keys),
            ("a run", head._replace(signature=ours.sign(digest)), keys),
            ("a run", head, keys[:1]),
            ("a run", None, keys),
        )
        for run, shown, known in wrong:
            found = signer_of(run, shown, known)
            case.hold(found is None, self.invariant, f"{shown} of `{run}` is called signed by {found}")


def _others() -> list[bytes]:
    """Return invalid keys: of another type, encrypted, and empty."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    form = (Encoding.PEM, PrivateFormat.PKCS8)
    other = X25519PrivateKey.from_private_bytes(KEY_SEED)
    ours = Ed25519PrivateKey.from_private_bytes(KEY_SEED)
    return [
        b"",
        b"a key",
        other.private_bytes(*form, NoEncryption()),
        other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        ours.private_bytes(*form, BestAvailableEncryption(b"secret")),
    ]


def _refused(case: Case, what: str, call: Callable[[], Any]) -> None:
    case.count()
    try:
        call()
    except KeyRefused:
        return
    except StepwardError as error:
        raise Breach(Invariant.REFUSAL, f"{what}, and it is refused as {error!r}") from None
    raise Breach(Invariant.TAMPERING, f"{what}, and it is taken")
