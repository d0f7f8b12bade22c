"""Scenes of keys that encrypt the values of runs: in files, by a program, lost, damaged and of another master."""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.vm.journal.encryption import TAG, EncryptedVault, is_encrypted
from stepward.vm.journal.memory import MemoryVault
from stepward.vm.journal.run_keys import CommandKeys, FileKeys, RunKeys, key_name, key_store
from stepward.vm.journal.sealing import SALT_BYTES, seal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import JournalError

RUNS: Final = ("r", "s", "é")
NAMES: Final = ("a", "b")
MASTERS: Final = (None, bytes(range(32)), b"m" * 32)


class Labels:
    """Names for keys, which are random: the first that comes is `key 0`."""

    def __init__(self) -> None:
        self._known: list[bytes] = []

    def of(self, key: bytes | None) -> str:
        """Return the name of a key."""
        if key is None:
            return "no key"
        if key not in self._known:
            self._known.append(key)
        return f"key {self._known.index(key)} of {len(key)} bytes"


class KnownKeys:
    """Keys in memory, of a store that may fail. What it is asked is noted."""

    def __init__(self, probe: Probe) -> None:
        self._desk = probe
        self._keys: dict[str, bytes] = {}
        self.fails = ""

    def _ask(self, verb: str, name: str) -> None:
        self._desk.note(verb, name)
        if verb == self.fails:
            raise JournalError(f"the keys can't {verb}")

    def make(self, name: str) -> bytes:
        """Return the key of a run, which may be new."""
        self._ask("make", name)
        return self._keys.setdefault(name, self._desk.chance.randbytes(32))

    def find(self, name: str) -> bytes | None:
        """Return the key of a run."""
        self._ask("find", name)
        return self._keys.get(name)

    def destroy(self, name: str) -> None:
        """Destroy the key of a run."""
        self._ask("destroy", name)
        self._keys.pop(name, None)


class _Late(FileKeys):
    """Keys in files that another process makes at the same time: at first it finds none."""

    is_late = True

    def find(self, name: str) -> bytes | None:
        """Return a key, but not at first."""
        if self.is_late:
            self.is_late = False
            return None
        return super().find(name)


# -- files -------------------------------------------------------------------------------------------------------------


def files(probe: Probe) -> None:
    """Make, find and destroy keys in a folder, which others damage meanwhile, by two stores."""
    folder, labels = Path(probe.path("keys")), Labels()
    for master in (b"", bytes(31), bytes(33)) if probe.some(0.2) else ():
        probe.quietly("open", lambda master=master: FileKeys(folder, master))
    if probe.some(0.12):
        _harm(probe, folder, "a", "folder")
    stores = [
        probe.draw(FileKeys, FileKeys, _Late)(folder, probe.draw(*MASTERS[:2])),
        FileKeys(str(folder), probe.draw(*MASTERS)),
    ]
    for verb in probe.chance.choices(("make", "find", "destroy", "harm"), (5, 4, 2, 2), k=12):
        name, store = probe.draw(*NAMES), probe.chance.choice(stores[:1] * 3 + stores[1:])
        if verb == "harm":
            _harm(probe, folder, name)
        else:
            call: Callable[[str], bytes | None] = getattr(store, verb)
            probe.ask(f"{verb} {name}", partial(_labelled, labels, call, name))
        _list(probe, folder)


def _labelled(labels: Labels, call: Callable[[str], bytes | None], name: str) -> str:
    return labels.of(call(name))


def _list(probe: Probe, folder: Path) -> None:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    mode = oct(folder.stat().st_mode & 0o777) if folder.exists() else "no folder"
    probe.note(
        mode, [(file.name, file.stat().st_size * file.is_file(), oct(file.stat().st_mode & 0o777)) for file in found]
    )


def _harm(probe: Probe, folder: Path, name: str, how: str = "") -> None:
    """Change a file or the folder."""
    how = how or probe.draw("cut", "long", "mode", "swap", "gone", "folder", "back", "byte", "inner")
    file = folder / name
    probe.note("harm", how)
    if how == "mode" and folder.is_dir():
        folder.chmod(probe.draw(0o701, 0o710, 0o704, 0o700))
    elif how == "inner" and folder.is_dir() and not file.exists():
        file.mkdir(mode=0o700)
    elif how == "gone":
        shutil.rmtree(folder, ignore_errors=True)
    elif how == "back" and folder.is_dir():
        folder.chmod(0o700)
    elif how == "folder" and not folder.exists():
        folder.write_bytes(b"")
        folder.chmod(0o600)
    elif how == "swap" and folder.is_dir() and file.exists():
        shutil.copy(file, folder / f"{name}2")
        os.replace(folder / f"{name}2", folder / ("b" if name == "a" else "a"))
    elif file.is_file():
        content = file.read_bytes()
        changed = {"cut": content[:-1], "long": content + b"x", "byte": content[:-1] + bytes([content[-1] ^ 1])}
        file.write_bytes(changed.get(how, content))


# -- a program ---------------------------------------------------------------------------------------------------------

_SCRIPT: Final = """
case "$1 $2" in
    "make a"|"find a") echo KEY;;
    "find b"|"destroy a") ;;
    "make b") echo;;
    "make c") echo SHORT;;
    "find c") echo 'no key'; ;;
    "find d") echo "  KEY  ";;
    "make d") printf 'KEY\\nKEY\\n';;
    "destroy b") echo >&2; echo "LONG" >&2; exit 3;;
    "destroy c") exit 7;;
    "destroy d") exec sleep 9;;
    "find e") printf '\\377';;
    *) echo "other $*"; exit 1;;
esac
"""


def programs(probe: Probe) -> None:
    """Ask a program for keys, which answers in every way."""
    key = b64encode(probe.chance.randbytes(32)).decode()
    short = b64encode(bytes(probe.draw(31, 33))).decode()
    script = _SCRIPT.replace("KEY", key).replace("SHORT", short).replace("LONG", "why " * probe.draw(3, 49, 50, 51))
    path = Path(probe.path("keys.sh"))
    path.write_text(script)
    store = CommandKeys(["/bin/sh", str(path)])
    for verb, name in probe.chance.sample(
        [(verb, name) for verb in ("make", "find", "destroy") for name in "abcef"], 5
    ):
        probe.ask(verb, getattr(store, verb), name)
    if probe.some(0.3):
        probe.ask("late", CommandKeys(["/bin/sh", str(path)], 0.05).destroy, "d")
    probe.ask("none", CommandKeys([probe.path("none")]).find, "a")


_DESCRIBED: Final = (
    "", "file:", "file:FOLDER", "file", ":FOLDER", "command:", "command: ", "command:/bin/true", "command:'", "other:x",
    "command:/bin/false 'a b' c", "FILE:x", "file:a:b",
)  # fmt: skip


def described(probe: Probe) -> None:
    """Read descriptions of key stores, with and without a master key in the environment."""
    keys = (bytes(32), b"m" * 32, bytes(31), bytes(33), b"")
    for text in probe.chance.sample(_DESCRIBED, 6):
        environment: Mapping[str, str] = probe.draw(
            {},
            {"STEPWARD_MASTER_KEY": b64encode(probe.draw(*keys)).decode()},
            {"STEPWARD_MASTER_KEY": probe.draw("", "no key", "é", b64encode(keys[0]).decode() + "\n")},
        )
        shown = text.replace("FOLDER", probe.path("keys"))
        probe.ask("store", lambda shown=shown, environment=environment: _parts(key_store(shown, environment)))
        probe.note(text, environment)
    probe.note([key_name(run) for run in RUNS])


def _parts(store: RunKeys | None) -> Any:
    if isinstance(store, FileKeys):
        return str(store._folder), store._master
    return (store._command, store._patience) if isinstance(store, CommandKeys) else store


# -- a vault -----------------------------------------------------------------------------------------------------------


def vaults(probe: Probe) -> None:
    """Put values into a vault that encrypts them, read and erase them; others change them and lose keys."""
    inner, known = MemoryVault(), KnownKeys(probe)
    keys: RunKeys = known if probe.some(0.8) else FileKeys(probe.path("keys"), probe.draw(*MASTERS))
    vault = EncryptedVault(inner, keys)
    for verb in probe.chance.choices(
        ("put", "get", "erase", "erase_all", "harm", "plain", "lose"), (9, 7, 2, 2, 3, 2, 2), k=18
    ):
        run = probe.draw(*RUNS)
        known.fails = probe.draw(*[""] * 12, "make", "find", "destroy")
        match verb:
            case "put":
                secret = probe.draw(b"", b"secret", seal("value", probe.chance.randbytes)[1], TAG, TAG + b"x")
                probe.ask("put", vault.put, run, probe.draw({"x": secret}, {"x": secret, "y": b"2"}, {}, {"": b"3"}))
            case "get" | "erase":
                probe.ask(verb, getattr(vault, verb), run)
            case "erase_all":
                probe.ask("erase all", vault.erase_all, RUNS[: probe.draw(0, 1, 2)])
            case "harm":
                _change(probe, inner)
            case "plain":
                probe.ask("plain", inner.put, run, {probe.draw("x", "z"): probe.draw(b"plain", TAG[:-1], TAG)})
            case _:
                known.fails = ""
                probe.ask("lose", keys.destroy, key_name(run))
        stored = [inner.get(one) for one in RUNS]
        probe.note([[(name, is_encrypted(one), len(one)) for name, one in values.items()] for values in stored])


def journals(probe: Probe) -> None:
    """Open a journal in a file with keys, as it is at one moment, and without keys."""
    path, keys, run = probe.path("runs.db"), KnownKeys(probe), probe.draw(*RUNS)
    with closing(SQLiteJournal(path, keys=keys)) as store:
        probe.ask("put", store.vault.put, run, {"x": b"secret", "y": probe.draw(b"", b"2")})
        with store.frozen() as still:
            probe.ask("frozen", still.vault.get, run)
            probe.ask("erase", store.vault.erase, probe.draw(*RUNS))
            probe.ask("frozen", still.vault.get, run)
        probe.ask("get", store.vault.get, run)
    with closing(SQLiteJournal(path, create=False)) as plain:
        found = plain.vault.get(run)
        probe.note([(name, is_encrypted(value), len(value)) for name, value in sorted(found.items())])


def _change(probe: Probe, inner: MemoryVault) -> None:
    """Change stored bytes, or exchange those of two references or runs."""
    secrets = inner._secrets
    places = [(run, name) for run in secrets for name in secrets[run]]
    if len(places) < 2:
        return
    (run, name), (other, another) = probe.chance.sample(places, 2)
    old = secrets[run][name]
    changed = (
        old[:-1],
        old[: len(TAG) + SALT_BYTES],
        secrets[other][another],
        old[:-1] + bytes([(old or b"x")[-1] ^ 1]),
    )
    secrets[run][name] = probe.chance.choice(changed)
    probe.note("changed", run, name)
