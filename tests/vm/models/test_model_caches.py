"""Where replies are kept: a SQLite file, shared and bounded, and a server that speaks the Redis protocol."""

from __future__ import annotations

import os
import shutil
import socket
import socketserver
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepward.vm import CacheFault, RedisCache, SQLiteCache, SQLiteJournal
from stepward.vm.models.opening import open_cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "replies.db"


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_file_keeps_entries_for_later_processes(file: Path) -> None:
    cache = SQLiteCache(file)
    assert not file.exists()  # it is made when it is first used
    assert cache.get("a") is None
    cache.put("a", b"1")
    cache.put("a", b"\x002")
    assert (cache.get("a"), SQLiteCache(file).get("a"), cache.get("b")) == (b"\x002", b"\x002", None)
    assert file.stat().st_mode & 0o077 == 0
    cache.close()
    assert cache.get("a") == b"\x002"


def test_a_full_file_drops_its_oldest_entries(file: Path) -> None:
    most = 400_000
    cache = SQLiteCache(file, most_bytes=most)
    for number in range(300):
        cache.put(str(number), bytes(5_000))
        if number == 40:
            cache.put("0", bytes(5_000))  # it is kept again, and so among the newer ones
        if number == 60:
            assert [cache.get(key) is None for key in ("0", "1")] == [False, False]
    kept = [number for number in range(300) if cache.get(str(number)) is not None]
    assert kept == list(range(kept[0], 300))
    assert 30 < len(kept) < 80
    assert file.stat().st_size < most * 1.5


def test_an_entry_that_has_no_room_is_not_kept(file: Path) -> None:
    cache = SQLiteCache(file, most_bytes=80_000)
    cache.put("small", b"1")
    cache.put("large", bytes(20_000))
    assert (cache.get("small"), cache.get("large")) == (b"1", None)


def test_threads_share_one_cache(file: Path) -> None:
    cache = SQLiteCache(file)

    def use(number: int) -> None:
        for turn in range(20):
            cache.put(f"{number} {turn}", str(number).encode())
            assert cache.get(f"{number} {turn}") == str(number).encode()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(SQLiteCache(file).get(f"{number} 19") for number in range(4))


def test_processes_share_one_file_also_after_a_fork(file: Path) -> None:
    cache = SQLiteCache(file)
    cache.put("parent", b"1")
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if cache.get("parent") == b"1":
                    cache.put(f"child {number}", b"2")
                    status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert [cache.get(f"child {number}") for number in range(3)] == [b"2"] * 3


def _halved(file: Path) -> None:
    cache = SQLiteCache(file)
    cache.put("a", b"1")
    cache.close()
    os.truncate(file, 3_000)


def _executed(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


FOREIGN: dict[str, Any] = {
    "text": lambda file: file.write_text("name: first\n" * 500),
    "half of a cache": _halved,
    "a journal": lambda file: SQLiteJournal(file).close(),
    "a folder": lambda file: file.mkdir(),
    "another database": lambda file: _executed(file, "CREATE TABLE replies (x)"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_file_that_is_no_cache_is_refused_and_stays_as_it_is(file: Path, what: str) -> None:
    FOREIGN[what](file)
    before = None if file.is_dir() else file.read_bytes()
    for use in (lambda cache: cache.get("a"), lambda cache: cache.put("a", b"1")):
        with pytest.raises(CacheFault) as found:
            use(SQLiteCache(file))
        assert str(file) in str(found.value)
    assert file.is_dir() or file.read_bytes() == before


def test_a_file_with_damaged_pages_is_reported_with_what_to_do(file: Path) -> None:
    cache = SQLiteCache(file)
    for number in range(50):
        cache.put(str(number), bytes(1_000))
    cache.close()
    with file.open("r+b") as opened:
        opened.seek(4_096)
        opened.write(b"\xff" * 40_000)
    with pytest.raises(CacheFault, match="delete it"):
        SQLiteCache(file).get("7")


def test_a_locked_file_is_given_up_soon(file: Path) -> None:
    cache = SQLiteCache(file)
    cache.put("a", b"1")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert cache.get("a") == b"1"
        with pytest.raises(CacheFault, match="another process"):
            cache.put("b", b"2")
        other.execute("ROLLBACK")
    cache.put("b", b"2")
    assert cache.get("b") == b"2"


def test_a_row_that_holds_no_bytes_is_none(file: Path) -> None:
    cache = SQLiteCache(file)
    cache.put("a", b"1")
    cache.close()
    _executed(file, "UPDATE replies SET entry = 7")
    assert SQLiteCache(file).get("a") is None


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CacheFault, match="can't be made"):
        SQLiteCache(tmp_path / "no" / "replies.db").put("a", b"1")


# -- the server --------------------------------------------------------------------------------------------------------


class _Redis(socketserver.StreamRequestHandler):
    """The few commands of the Redis protocol that a cache and its client need; all others are errors."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = [self._word() for _ in range(int(line[1:]))]
            self.wfile.write(self._answer(words[0].upper(), words[1:]))

    def _word(self) -> bytes:
        length = int(self.rfile.readline()[1:])
        return self.rfile.read(length + 2)[:-2]

    def _answer(self, command: bytes, words: list[bytes]) -> bytes:
        table: dict[bytes, bytes] = self.server.table  # type: ignore[attr-defined]
        match command, words:
            case b"SET", [key, value, b"EX", seconds]:
                assert int(seconds) > 0
                table[key] = value
                return b"+OK\r\n"
            case b"GET", [key]:
                value = table.get(key)
                return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
        return b"-ERR unknown command\r\n"


@contextmanager
def small_server() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Redis) as server:
        server.daemon_threads = True
        server.table = {}  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0?protocol=2"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def real_server() -> Iterator[str]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(10)


@pytest.mark.parametrize("serving", [small_server, real_server])
def test_a_server_keeps_entries(serving: Any) -> None:
    with serving() as url:
        cache = open_cache(url)
        assert isinstance(cache, RedisCache)
        assert cache.get("a") is None
        cache.put("a", b"1\r\n\x00")
        assert (cache.get("a"), open_cache(url).get("a"), cache.get("b")) == (b"1\r\n\x00", b"1\r\n\x00", None)
        cache.close()


def test_a_server_that_is_away_is_reported_without_its_password() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # nobody listens
        cache = open_cache(f"redis://:hunter2@127.0.0.1:{probe.getsockname()[1]}/0")
        for use in (lambda: cache.get("a"), lambda: cache.put("a", b"1")):
            with pytest.raises(CacheFault, match="does not answer") as found:
                use()
            assert "hunter2" not in str(found.value)


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(CacheFault, match="redis://host"):
        open_cache("redis://host:port/0")


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(CacheFault, match=r"stepward\[redis\]"):
        open_cache("redis://127.0.0.1:1/0")
