"""Sensitive values are encrypted, each run's by a key that is kept elsewhere; without the key nobody reads them."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from databases import Place
from stepward.validator.cli import main
from stepward.vm import ExecutionVM, Program
from stepward.vm.journal.conformance import CHECKS, Check
from stepward.vm.journal.encryption import EncryptedVault
from stepward.vm.journal.memory import MemoryVault
from stepward.vm.journal.run_keys import CommandKeys, FileKeys, KeyStoreRefused, RunKeys, key_name, key_store
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import JournalError, LeaseLost
from stepward.vm.journal.verify import verify

SECRET = "DE89370400440532013000"
PROGRAM = """
inputs: {iban: {type: string, sensitive: true}}
steps:
  - {id: keep, type: set, set: {own: $iban}}
  - {id: done, type: end, output: ok}
"""
STORE = """
import base64, os, sys
folder, verb, name = sys.argv[1:]
path = os.path.join(folder, name)
if verb == "make" and not os.path.exists(path):
    open(path, "wb").write(base64.b64encode(os.urandom(32)))
if verb == "destroy" and os.path.exists(path):
    os.remove(path)
if os.path.exists(path):
    print(open(path).read())
"""


def commanded(folder: Path, text: str = STORE) -> CommandKeys:
    """Return keys that a program in a folder stores."""
    folder.mkdir(exist_ok=True)
    file = folder / "store.py"
    file.write_text(text)
    return CommandKeys([sys.executable, str(file), str(folder)])


KINDS: dict[str, Callable[[Path], RunKeys]] = {
    "files": lambda folder: FileKeys(folder / "keys"),
    "files and a master key": lambda folder: FileKeys(folder / "keys", bytes(range(32))),
    "a program": lambda folder: commanded(folder / "program"),
}


@pytest.fixture(params=KINDS)
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> RunKeys:
    return KINDS[request.param](tmp_path)


def ran(journal: SQLiteJournal, run: str = "ann") -> None:
    machine = ExecutionVM(journal=journal, checker=None)
    machine.run_sync(Program.from_yaml(PROGRAM), {"iban": SECRET}, run_id=run)


# -- key stores --------------------------------------------------------------------------------------------------------


def test_a_run_has_one_key_until_it_is_destroyed(keys: RunKeys) -> None:
    name, other = key_name("a/../b"), key_name("other")
    assert keys.find(name) is None
    key = keys.make(name)
    assert len(key) == 32
    assert keys.make(name) == keys.find(name) == key
    assert keys.make(other) != key
    keys.destroy(name)
    keys.destroy(name)
    assert keys.find(name) is None
    assert keys.find(other) is not None
    assert keys.make(name) != key


def test_who_makes_a_key_at_the_same_time_gets_the_same(tmp_path: Path) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append(FileKeys(tmp_path / "keys").make("name"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert os.listdir(tmp_path / "keys") == ["name"]


def test_a_key_file_is_for_its_owner_and_is_no_other_run_s(tmp_path: Path) -> None:
    keys = FileKeys(tmp_path / "keys", bytes(32))
    key = keys.make("one")
    content = (tmp_path / "keys/one").read_bytes()
    assert key not in content
    assert (tmp_path / "keys/one").stat().st_mode & 0o777 == 0o600
    (tmp_path / "keys/two").write_bytes(content)
    for refused in (lambda: keys.find("two"), lambda: FileKeys(tmp_path / "keys", bytes([1] * 32)).find("one")):
        with pytest.raises(JournalError, match="the master key does not open"):
            refused()
    with pytest.raises(JournalError, match="is no key: it is damaged, or encrypted by a master key"):
        FileKeys(tmp_path / "keys").find("one")
    (tmp_path / "keys").chmod(0o755)
    with pytest.raises(JournalError, match="others may use the folder"):
        keys.find("one")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('x')", "printed no key: it is 32 bytes in base64, on one line"),
        ("import sys; sys.exit('locked\\nmore')", "can't find a key: locked$"),
        ("import sys; sys.exit(3)", "can't find a key: it ended with status 3"),
        ("import time; time.sleep(9)", "did not answer within 0.5 seconds"),
    ],
)
def test_what_a_program_of_keys_does_wrong_is_said(text: str, said: str, tmp_path: Path) -> None:
    keys = commanded(tmp_path, text)
    keys._patience = 0.5 if "sleep" in text else 30
    with pytest.raises(JournalError, match=said):
        keys.find("name")


def test_descriptions_of_key_stores(tmp_path: Path) -> None:
    master = {"STEPWARD_MASTER_KEY": b64encode(bytes(32)).decode()}
    assert key_store("", {}) is None
    assert isinstance(key_store("command:vault 'my keys'", {}), CommandKeys)
    made = key_store(f"file:{tmp_path}/keys", master)
    assert made is not None
    made.make("one")
    assert FileKeys(tmp_path / "keys", bytes(32)).find("one") is not None
    for described, environment in [("keys", {}), ("file:", {}), ("command:", {}), ("command:'", {})]:
        with pytest.raises(KeyStoreRefused, match="is no key store"):
            key_store(described, environment)
    with pytest.raises(KeyStoreRefused, match="`STEPWARD_MASTER_KEY` is no key"):
        key_store("file:keys", {"STEPWARD_MASTER_KEY": "abc"})
    with pytest.raises(KeyStoreRefused, match="the master key has 3 bytes, not 32"):
        FileKeys(tmp_path, b"abc")


# -- vaults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one", [one for one in CHECKS if "vault" in one.name or "erase" in one.name], ids=lambda one: one.name
)
def test_an_encrypted_store_keeps_the_contract(one: Check, tmp_path: Path) -> None:
    one.run(lambda: SQLiteJournal(tmp_path / "journal.db", keys=FileKeys(tmp_path / "keys")))


def test_a_value_is_bound_to_its_run_and_reference(tmp_path: Path) -> None:
    inner = MemoryVault()
    vault = EncryptedVault(inner, FileKeys(tmp_path))
    vault.put("run", {"a": b"1", "b": b"2"})
    vault.put("other", {"a": b"3"})
    stored = inner.get("run")
    inner.put("run", {"a": stored["b"]})
    with pytest.raises(JournalError, match="the sensitive value `a` of run `run` is not what the key encrypted"):
        vault.get("run")
    inner.put("other", {"a": stored["a"]})
    with pytest.raises(JournalError, match="is not what the key encrypted"):
        vault.get("other")


def test_values_from_before_are_read_and_new_ones_are_encrypted(tmp_path: Path) -> None:
    inner = MemoryVault()
    inner.put("run", {"a": b"old"})
    vault = EncryptedVault(inner, FileKeys(tmp_path / "keys"))
    assert vault.get("run") == {"a": b"old"}
    vault.put("run", {"b": b"new"})
    assert vault.get("run") == {"a": b"old", "b": b"new"}
    assert b"new" not in inner.get("run")["b"]


def test_an_erased_run_gets_no_key_again(tmp_path: Path) -> None:
    keys = FileKeys(tmp_path / "keys")
    vault = EncryptedVault(MemoryVault(), keys)
    vault.put("run", {"a": b"1"})
    assert vault.erase("run") == 1
    with pytest.raises(LeaseLost):
        vault.put("run", {"b": b"2"})
    assert keys.find(key_name("run")) is None
    assert vault.get("run") == {}


# -- runs --------------------------------------------------------------------------------------------------------------


def test_no_file_holds_a_value_and_a_backup_can_not_be_read_after_an_erasure(tmp_path: Path, keys: RunKeys) -> None:
    store = tmp_path / "store"
    store.mkdir()
    journal = SQLiteJournal(store / "runs.db", keys=keys)
    ran(journal)
    assert not [file for file in store.iterdir() if SECRET.encode() in file.read_bytes()]
    assert verify(journal, "ann").is_intact
    shutil.copytree(store, tmp_path / "backup")
    with_keys = SQLiteJournal(tmp_path / "backup/runs.db", keys=keys)
    assert any(SECRET.encode() in value for value in with_keys.vault.get("ann").values())
    ExecutionVM(journal=journal, checker=None).erase_sync("ann")
    assert verify(journal, "ann").is_intact
    with pytest.raises(JournalError, match="can't be read: the key store has no key of it"):
        with_keys.vault.get("ann")
    (fault,) = verify(with_keys, "ann").faults
    assert "the key store has no key of it" in fault.what
    (fault,) = verify(SQLiteJournal(tmp_path / "backup/runs.db"), "ann").faults
    assert fault.what == "the sensitive values of run `ann` are encrypted"


def test_the_write_ahead_log_of_a_database_can_not_be_read_after_an_erasure(postgres: Place, tmp_path: Path) -> None:
    import psycopg

    from stepward.vm.journal.postgres import PostgresJournal

    plain, secret = os.urandom(32).hex().encode(), os.urandom(32).hex().encode()
    PostgresJournal(postgres.conninfo, schema=postgres.schema).vault.put("plain", {"a": plain})
    keys = FileKeys(tmp_path / "keys")
    vault = PostgresJournal(postgres.conninfo, schema=postgres.schema, keys=keys).vault
    vault.put("run", {"a": secret})
    with psycopg.connect(postgres.conninfo, autocommit=True) as admin:
        admin.execute("CHECKPOINT")
        (folder,) = admin.execute("SELECT current_setting('data_directory')").fetchone() or ("",)
    if not os.access(folder, os.R_OK | os.X_OK):
        pytest.skip("the files of the server can't be looked at")
    logged = b"".join(file.read_bytes() for file in sorted(Path(folder, "pg_wal").iterdir()) if file.is_file())
    assert plain in logged
    assert secret not in logged
    key = keys.find(key_name("run"))
    assert vault.erase("run") == 1
    assert keys.find(key_name("run")) is None
    assert key is not None
    assert key not in logged


def test_commands_use_the_key_store_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_own_folder: None
) -> None:
    Path("p.yaml").write_text(PROGRAM)
    Path("inputs.yaml").write_text(f"iban: {SECRET}")

    def said(*words: str, **environment: Any) -> str:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            result = CliRunner().invoke(main, words, catch_exceptions=False)
        return f"{result.exit_code} {result.output}"

    store = {"STEPWARD_KEYS": f"file:{tmp_path}/keys"}
    run = ("run", "p.yaml", "--inputs", "inputs.yaml", "--journal", "runs.db", "--run-id", "ann")
    assert said(*run, **store).startswith("0 ")
    assert said("verify", "runs.db", **store).startswith("0 ")
    without = said("verify", "runs.db")
    assert without.startswith("1 ")
    assert "name their key store in `STEPWARD_KEYS`" in without
    wrong = said("verify", "runs.db", STEPWARD_KEYS="keys")
    assert "`keys` is no key store" in wrong
    assert "write `file:FOLDER` or `command:PROGRAM`" in wrong
    assert said("runs", "erase", "ann", "--yes", "--journal", "runs.db", **store).startswith("0 ")
    assert os.listdir(tmp_path / "keys") == []
    assert said("verify", "runs.db").startswith("0 ")
