"""What is SQLite's own: the file and who may read it, several processes, disks that fail, values that are gone."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stepward.vm.journal import sqlite, sqlite_vault
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal, JournalError
from stepward.vm.journal.trials import TTL, behind, created, entries, first, following, fresh_name, picture

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteJournal]:
    store = SQLiteJournal(path)
    yield store
    store.close()


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a process that has the names of this file's helpers, and tells when it is ready by a line."""
    preamble = """
import sys
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.trials import *
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
"""
    command = [sys.executable, "-c", preamble + code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def start(processes: list[subprocess.Popen[str]]) -> None:
    """Wait until all are ready, and let them go at once."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip()


def messages(path: object, **options: bool) -> str:
    with pytest.raises(JournalError) as caught:
        SQLiteJournal(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_processes_that_make_one_file_at_once_share_it(path: Path) -> None:
    code = """
ready()
store = SQLiteJournal(sys.argv[1])
lease = store.create(first("one run", entries(2, sys.argv[2])), "p", sys.argv[2], TTL)
created(store)
store.vault.put(sys.argv[2], {"a": b"1"})
print("made" if lease else "there")
"""
    processes = [child(code, path, number) for number in range(8)]
    start(processes)
    results = [finish(process) for process in processes]
    assert sorted(results) == ["made"] + ["there"] * 7
    store = SQLiteJournal(path)
    assert store.read("one run") == entries(2, str(results.index("made")))
    assert len(store.rows()) == 9
    assert all(store.vault.get(str(number)) == {"a": b"1"} for number in range(8))


def test_processes_that_append_at_once_leave_one_chain(path: Path, store: SQLiteJournal) -> None:
    run, _ = created(store)
    code = """
store = SQLiteJournal(sys.argv[1])
ready()
won = 0
for _ in range(100):
    held = store.read(sys.argv[2])
    won += wins(lambda: store.append(behind(sys.argv[2], held, following(held, 2), durable=False), None))
print(won)
"""
    processes = [child(code, path, run) for _ in range(4)]
    start(processes)
    won = sum(int(finish(process)) for process in processes)
    assert won >= 100
    assert store.read(run) == entries(1 + 2 * won)


def test_what_is_appended_survives_a_kill(path: Path, store: SQLiteJournal) -> None:
    run, _ = created(store)
    code = """
store = SQLiteJournal(sys.argv[1])
store.append(behind(sys.argv[2], entries(1), following(entries(1), 5), durable=False), None)
ready()
"""
    process = child(code, path, run)
    start([process])
    process.kill()
    process.wait()
    process.communicate()
    assert store.read(run) == entries(6)


def test_a_fork_does_not_share_the_connection(store: SQLiteJournal) -> None:
    run, _ = created(store)
    store.vault.put(run, {"a": b"1"})
    before = picture(store, run)
    pid = os.fork()
    if pid == 0:
        refusals = 0
        for call in (lambda: store.read(run), lambda: created(store), store.close, lambda: store.vault.erase(run)):
            try:
                call()
            except JournalError as error:
                refusals += "was opened by another process; open it again after a fork" in str(error)
        os._exit(refusals)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    assert picture(store, run) == before


def statements(store: SQLiteJournal) -> list[str]:
    heard: list[str] = []
    store._file._connection.set_trace_callback(heard.append)
    return heard


def test_what_is_durable_waits_for_the_disk_and_the_rest_does_not(store: SQLiteJournal) -> None:
    run, fence = created(store)
    heard = statements(store)
    for size, durable in ((1, True), (2, False), (3, False), (4, True)):
        store.append(behind(run, entries(size), following(entries(size), 1), durable=durable), fence)
    relevant = [line for line in heard if line.startswith(("PRAGMA", "COMMIT"))]
    normal, full = "PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"
    assert relevant == ["COMMIT", normal, "COMMIT", "COMMIT", full, "COMMIT"]
    assert store._file._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._file._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_files_are_their_owners_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        store = SQLiteJournal(path)
        created(store)
        assert not Path(f"{path}.vault").exists(), "there is no vault before there is a value"
        store.vault.put("run", {"a": b"1"})
    finally:
        os.umask(before)
    names = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    expected = {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.vault"}
    assert names == dict.fromkeys(expected, 0o600)


def test_a_journal_is_found_by_any_name_of_its_file(
    path: Path, store: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = path.with_name("50% ?#\u00e9 & mode=ro")
    strange.symlink_to(path)
    monkeypatch.chdir(path.parent)
    other = SQLiteJournal(strange.name)
    monkeypatch.chdir("/")
    run, _ = created(store)
    other.vault.put(run, {"a": b"1"})
    assert other.read(run) == entries(1)
    assert store.vault.get(run) == {"a": b"1"}
    real = path.with_name("50% ?# & mode=memory")
    SQLiteJournal(real)
    assert real.exists()


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    for name in ("", ":memory:"):
        assert messages(name) == f"`{name}` is no file; for a journal that ends with its process, use MemoryJournal"
    assert messages(tmp_path) == f"the journal `{tmp_path}` is a folder; name a file"
    nowhere = tmp_path / "no/such/folder"
    assert messages(nowhere) == (
        f"the journal `{nowhere}` can't be made: no such file or directory; name a file in a folder that you may write"
    )
    text = tmp_path / "text"
    for content in ("no", "not a database\n" * 1000):
        text.write_text(content)
        assert messages(text) == f"the journal `{text}` can't be opened: it is no database; name another file"
        assert text.read_text() == content
    other = tmp_path / "other.db"
    for statement in ("CREATE TABLE runs (run)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"):
        other.unlink(missing_ok=True)
        with sqlite3.connect(other) as connection:
            connection.execute(statement)
        content = other.read_bytes()
        expected = f"the journal `{other}` is a database of another program; name another file"
        assert messages(other) == messages(other, create=False) == expected
        assert other.read_bytes() == content


def test_a_vault_is_no_journal_and_a_newer_layout_is_refused(path: Path, store: SQLiteJournal) -> None:
    store.vault.put("run", {"a": b"1"})
    assert messages(f"{path}.vault").endswith("is a database of another program; name another file")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    assert messages(path) == f"the journal `{path}` was written by a newer version; update Stepward"


def test_without_create_nothing_is_made(path: Path) -> None:
    assert messages(path, create=False) == f"there is no journal at `{path}`"
    assert list(path.parent.iterdir()) == []
    path.touch()
    assert messages(path, create=False) == f"the journal `{path}` is empty; name another file"
    assert path.read_bytes() == b""
    made = SQLiteJournal(path)
    run, _ = created(made)
    assert SQLiteJournal(path, create=False).read(run) == entries(1)


def refused(store: Journal, run: str, why: str) -> None:
    """Try to write; it must fail for `why`, and leave the run as it was."""
    before = picture(store, run)
    with pytest.raises(JournalError, match=why):
        store.append(behind(run, before[0], [following(before[0], 1)[0]._replace(record=bytes(1_000_000))]), None)
    with pytest.raises(JournalError, match=why):
        store.put_document(fresh_name(), bytes(1_000_000))
    assert picture(store, run) == before


def test_a_full_disk_stops_an_append_and_nothing_else(store: SQLiteJournal) -> None:
    run, _ = created(store)
    connection = store._file._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    refused(store, run, "can't be written: the disk is full; make room, and try again")
    connection.execute("PRAGMA max_page_count = 100000")
    store.append(behind(run, entries(1), following(entries(1), 1)), None)
    assert store.read(run) == entries(2)


def test_a_file_that_may_only_be_read_is_read(store: SQLiteJournal) -> None:
    run, _ = created(store)
    store._file._connection.execute("PRAGMA query_only = ON")
    refused(store, run, "can't be written: it may only be read; allow writing to the file and its folder")


def test_a_disk_that_fails_stops_an_append_and_nothing_else(path: Path, store: SQLiteJournal) -> None:
    """A limit on the size of files makes real writes fail half way."""
    run, _ = created(store)
    code = """
import resource
from stepward.vm.journal.store import JournalError
store, run = SQLiteJournal(sys.argv[1]), sys.argv[2]
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
for _ in range(3):
    try:
        store.append(behind(run, entries(1), [entry(1)._replace(record=bytes(1_000_000))]), None)
    except JournalError as error:
        print(error)
assert store.read(run) == entries(1)
store.append(behind(run, entries(1), following(entries(1), 1)), None)
assert store.read(run) == entries(2)
"""
    process = child(code, path, run)
    assert (
        finish(process).splitlines()
        == [f"the journal `{path}` can't be written: the disk failed; look after the disk, and open it again"] * 3
    )
    assert store.read(run) == entries(2)


def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call wait for the lock of another process for a tenth of a second."""
    for module in (sqlite, sqlite_vault):
        monkeypatch.setattr(module, "_LAYOUT", replace(module._LAYOUT, patience=0.1))


def test_a_file_that_somebody_holds_is_waited_for(
    path: Path, store: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = created(store)
    no_patience(monkeypatch)
    impatient = SQLiteJournal(path)
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        why = "can't be written: another process has held it for too long; stop that process, or try again"
        refused(impatient, run, why)
        assert impatient.read(run) == entries(1)
        holder.execute("ROLLBACK")
    impatient.append(behind(run, entries(1), following(entries(1), 1)), None)


def test_a_new_file_that_somebody_holds_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_patience(monkeypatch)
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert "can't be opened: another process has held it for too long" in messages(path)
        holder.execute("ROLLBACK")
    SQLiteJournal(path)


def test_a_damaged_file_is_told(path: Path) -> None:
    store = SQLiteJournal(path)
    run, _ = created(store)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(JournalError, match="can't be read: it is damaged; bring it back from a copy"):
        SQLiteJournal(path).read(run)


def test_an_interrupted_append_is_rolled_back(store: SQLiteJournal) -> None:
    run, _ = created(store)
    before = picture(store, run)

    class Interrupted(list[object]):
        def __iter__(self) -> Iterator[object]:
            yield following(entries(1), 1)[0]
            signal.raise_signal(signal.SIGINT)

    batch = Interrupted(following(entries(1), 2))
    with pytest.raises(KeyboardInterrupt):
        store.append(behind(run, entries(1), batch), None)  # type: ignore[arg-type]
    assert picture(store, run) == before
    store.append(behind(run, entries(1), following(entries(1), 2)), None)


def test_a_closed_journal_says_so(path: Path) -> None:
    store = SQLiteJournal(path)
    store.vault.put("run", {"a": b"1"})
    store.close()
    with pytest.raises(JournalError, match="was closed; open it again to go on"):
        store.rows()
    with pytest.raises(JournalError, match="was closed; open it again to go on"):
        store.vault.get("run")


def holding(folder: Path, value: bytes) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if value in file.read_bytes())


def test_an_erased_value_is_in_no_file(path: Path, store: SQLiteJournal) -> None:
    """Values of all sizes, so that pages split and are freed; another process has the vault open all the while."""
    code = """
store = SQLiteJournal(sys.argv[1])
store.vault.put("theirs", {"a": b"their value"})
ready()
print(store.vault.get("theirs"))
store.vault.put("theirs", {"b": b"another"})
sys.stdin.readline()
"""
    process = child(code, path)
    start([process])
    dice = random.Random(20)
    live: dict[str, bytes] = {}
    for number in range(120):
        run = f"run {number}"
        assert store.create(first(run), "p", "a", TTL)
        live[run] = f"<secret of {run}>".encode() + dice.randbytes(8).hex().encode()
        sizes = [1, dice.choice([1, 3, 20, 60]), dice.choice([1, 150, 3000])]
        store.vault.put(run, {f"value {i}": live[run] * size for i, size in enumerate(sizes)})
        if dice.random() < 0.6:
            erased = dice.choice(list(live))
            value = live.pop(erased)
            assert holding(path.parent, value) == ["journal.db.vault"]
            assert store.vault.erase(erased) == 3
            assert holding(path.parent, value) == []
            assert holding(path.parent, value[:20]) == []
    assert all(store.vault.get(run)["value 0"] == value for run, value in live.items())
    assert "{'a': b'their value'}" in process.communicate("go\n")[0]
    assert store.vault.get("theirs") == {"a": b"their value", "b": b"another"}


def test_a_value_that_was_replaced_goes_with_the_rest(path: Path, store: SQLiteJournal) -> None:
    store.vault.put("run", {"a": b"<the first value>" * 99})
    store.vault.put("run", {"a": b"<the second value>" * 5})
    assert store.vault.erase("run") == 1
    assert holding(path.parent, b"<the first") == holding(path.parent, b"<the second") == []


def test_an_erasure_that_was_stopped_is_finished_by_the_next(
    path: Path, store: SQLiteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_patience(monkeypatch)
    value = b"<the value>" * 2000
    store.vault.put("run", {"a": value})
    with sqlite3.connect(f"{path}.vault", isolation_level=None) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM secrets").fetchone()
        with pytest.raises(JournalError, match=r"the vault .* can't be written: another process has held it"):
            store.vault.erase("run")
        reader.execute("COMMIT")
    store.vault.erase("run")
    assert holding(path.parent, b"<the value>") == []


def test_an_erasure_that_was_killed_leaves_no_copy_after_the_next(path: Path, store: SQLiteJournal) -> None:
    store.vault.put("run", {"a": b"<the value>" * 2000})
    code = """
import os
file = SQLiteJournal(sys.argv[1])._values._file()
with file.writing(durable=True) as connection:
    connection.execute("DELETE FROM secrets")
    os._exit(0)
"""
    finish(child(code, path))
    assert holding(path.parent, b"<the value>") == ["journal.db.vault", "journal.db.vault-journal"]
    assert store.vault.erase("run") == 1
    assert holding(path.parent, b"<the value>") == []


def test_the_vault_is_set_to_forget(store: SQLiteJournal) -> None:
    store.vault.put("run", {"a": b"1"})
    connection = store._values._file()._connection
    settings = {"synchronous": 3, "journal_mode": "delete", "secure_delete": 1, "temp_store": 2}
    assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in settings} == settings


def test_a_vault_of_which_no_value_was_put_is_not_made(path: Path, store: SQLiteJournal) -> None:
    assert store.vault.get("run") == {}
    store.vault.put("run", {})
    assert not Path(f"{path}.vault").exists()


# -- a file that holds what no journal has ----------------------------------------------------------------------------


PLANTED = {
    "a trigger": "CREATE TRIGGER a AFTER INSERT ON records BEGIN DELETE FROM records WHERE seq > 0; END",
    "a view": "CREATE VIEW a AS SELECT * FROM runs",
    "a table": "CREATE TABLE a (x)",
    "an index": "CREATE INDEX a ON runs (status)",
    "another column": "ALTER TABLE runs ADD COLUMN a",
    "a missing table": "DROP TABLE documents",
    "an older layout": "PRAGMA user_version = 0",
    "a trigger that looks like SQLite's": (
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_a', 'records', 0, "
        "'CREATE TRIGGER sqlite_a AFTER INSERT ON records BEGIN DELETE FROM records; END')"
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_file_with_what_no_journal_has_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "journal.db"
    SQLiteJournal(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(PLANTED[name])
    why = "was written by an older version" if name == "an older layout" else r"can't be trusted: it(s table| holds)"
    with pytest.raises(JournalError, match=why):
        SQLiteJournal(path)


def test_a_vault_with_what_no_vault_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SQLiteJournal(path)
    journal.vault.put("r", {"a": b"x"})
    journal.close()
    with closing(sqlite3.connect(f"{path}.vault", isolation_level=None)) as connection:
        connection.execute(
            "CREATE TRIGGER a AFTER DELETE ON secrets BEGIN INSERT INTO secrets VALUES ('r', 'b', 1); END"
        )
    with pytest.raises(JournalError, match=r"the vault .* holds a trigger `a`, which no vault has"):
        SQLiteJournal(path).vault.get("r")


def test_what_sqlite_makes_by_itself_is_no_such_thing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SQLiteJournal(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ANALYZE")
    SQLiteJournal(path).close()
