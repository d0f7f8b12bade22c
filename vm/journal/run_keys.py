"""Keys of runs, which encrypt their sensitive values: in files, or with a program of the deployment.

A key is 32 random bytes. What destroys it destroys the values of its run everywhere: in the vault, in its backups, in
the logs of a database. So keys are kept apart from the journal, and are not backed up with it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from stepward.vm.arguments import BYTES, NUMBER, PATH, TEXT, require, require_each
from stepward.vm.journal.store import JournalError
from stepward.vm.writing import create

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
PATIENCE_SECONDS: Final = 30.0
MOST_SHOWN: Final = 200
"""Characters of what a program says that a message shows."""

OTHERS: Final = 0o077
"""The bits of a folder's mode by which others than its owner may use it."""


class KeyStoreRefused(JournalError):  # noqa: N818 - as KeyRefused
    """A description of a key store is none; `help` says what to do."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


class RunKeys(Protocol):
    """Stores the keys of runs. `name` stands for a run: it is the SHA-256 of its id, in hexadecimal digits.

    Each method raises JournalError if it fails. Several threads and processes may share one store.
    """

    def make(self, name: str) -> bytes:
        """Return the key of a run; one that has none gets one, which survives a loss of power once this returns."""
        ...

    def find(self, name: str) -> bytes | None:
        """Return the key of a run, or None if it has none."""
        ...

    def destroy(self, name: str) -> None:
        """Destroy the key of a run, if it has one; on return the store does not hold it any more."""
        ...


def key_name(run: str) -> str:
    """Return the name under which the key of a run is kept: ids of runs may hold any characters."""
    return sha256(run.encode()).hexdigest()


class FileKeys:
    """A file for each key, in a folder that only its owner may use.

    With `master`, 32 bytes, each file holds its key encrypted by AES-256-GCM, so that the folder alone is worth
    nothing. A destroyed key is written over before its file goes; old blocks, snapshots and backups of the file system
    may hold it longer.
    """

    def __init__(self, folder: str | os.PathLike[str], master: bytes | None = None) -> None:
        require(PATH, folder=folder)
        require(BYTES.or_none(), master=master)
        if master is not None and len(master) != KEY_BYTES:
            raise KeyStoreRefused(f"the master key has {len(master)} bytes, not {KEY_BYTES}", "make one of 32 bytes")
        self._folder = Path(folder)
        self._master = master

    def make(self, name: str) -> bytes:
        found = self.find(name)
        if found is not None:
            return found
        key = os.urandom(KEY_BYTES)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_others()
            self._write(name, self._wrapped(name, key))
        except FileExistsError:  # another one was faster
            return self.make(name)
        except OSError as error:
            raise JournalError(f"a key can't be written to `{self._folder}`: {error.strerror}") from None
        return key

    def find(self, name: str) -> bytes | None:
        try:
            self._refuse_others()
            content = (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"a key can't be read from `{self._folder}`: {error.strerror}") from None
        return self._unwrapped(name, content)

    def destroy(self, name: str) -> None:
        path = self._folder / name
        try:
            with open(path, "r+b", buffering=0) as file:
                file.write(bytes(os.fstat(file.fileno()).st_size))
                os.fsync(file.fileno())
            path.unlink()
            _keep_names(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalError(f"a key can't be destroyed in `{self._folder}`: {error.strerror}") from None

    def _refuse_others(self) -> None:
        if self._folder.stat().st_mode & OTHERS:
            raise JournalError(f"others may use the folder of keys `{self._folder}`: take their rights by `chmod 700`")

    def _write(self, name: str, content: bytes) -> None:
        """Write a file that is whole as soon as it is there; raises FileExistsError if it is there."""
        own = self._folder / f"{name}.{os.urandom(8).hex()}"
        create(own, content, mode=0o600)
        try:
            os.link(own, self._folder / name)
        finally:
            own.unlink()
        _keep_names(self._folder)

    def _wrapped(self, name: str, key: bytes) -> bytes:
        if self._master is None:
            return key
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self._master).encrypt(nonce, key, name.encode())

    def _unwrapped(self, name: str, content: bytes) -> bytes:
        if self._master is None:
            if len(content) != KEY_BYTES:
                raise JournalError(f"`{self._folder / name}` is no key: it is damaged, or encrypted by a master key")
            return content
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self._master).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise JournalError(f"the master key does not open `{self._folder / name}`") from None


def _keep_names(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class CommandKeys:
    """A program that stores the keys: it is called with `make`, `find` or `destroy` and the name of a run.

    `make` and `find` print the key in base64, on one line; `find` prints nothing for a run without a key. Any exit
    status but 0 is a failure, and the first line of its standard error says why.
    """

    def __init__(self, command: Sequence[str], patience: float = PATIENCE_SECONDS) -> None:
        require_each(TEXT, command=command)
        require(NUMBER, patience=patience)
        self._command = tuple(command)
        self._patience = patience

    def make(self, name: str) -> bytes:
        key = self._key(self._output_of("make", name))
        if key is None:
            raise JournalError(f"`{self._command[0]}` made no key")
        return key

    def find(self, name: str) -> bytes | None:
        return self._key(self._output_of("find", name))

    def destroy(self, name: str) -> None:
        self._output_of("destroy", name)

    def _output_of(self, verb: str, name: str) -> str:
        program = self._command[0]
        try:
            completed = subprocess.run(
                [*self._command, verb, name], capture_output=True, text=True, timeout=self._patience, check=False
            )
        except subprocess.TimeoutExpired:
            raise JournalError(f"`{program}` did not answer within {self._patience:g} seconds") from None
        except (OSError, UnicodeDecodeError) as error:
            raise JournalError(f"`{program}`, which stores the keys, can't be called: {error}") from None
        if completed.returncode:
            why = (completed.stderr.strip().splitlines() or [f"it ended with status {completed.returncode}"])[0]
            raise JournalError(f"`{program}` can't {verb} a key: {why[:MOST_SHOWN]}")
        return completed.stdout.strip()

    def _key(self, text: str) -> bytes | None:
        if not text:
            return None
        if (key := _in_base64(text)) is not None:
            return key
        raise JournalError(f"`{self._command[0]}` printed no key: it is 32 bytes in base64, on one line")


def key_store(described: str, environment: Mapping[str, str]) -> RunKeys | None:
    """Return the key store of a description: `file:FOLDER`, `command:PROGRAM ARGUMENTS`, or None for an empty text.

    Where the environment has `STEPWARD_MASTER_KEY`, 32 bytes in base64, it encrypts the keys in files. Raises
    KeyStoreRefused for another description.
    """
    kind, _, rest = described.partition(":")
    if not described:
        return None
    if kind == "file" and rest:
        return FileKeys(rest, _master(environment))
    if kind == "command":
        with suppress(ValueError):
            words = shlex.split(rest)
            if words:
                return CommandKeys(words)
    raise KeyStoreRefused(f"`{described}` is no key store", "write `file:FOLDER` or `command:PROGRAM`")


def _master(environment: Mapping[str, str]) -> bytes | None:
    text = environment.get("STEPWARD_MASTER_KEY", "")
    if not text:
        return None
    if (key := _in_base64(text)) is not None:
        return key
    example = b64encode(bytes(KEY_BYTES)).decode()
    raise KeyStoreRefused(
        "`STEPWARD_MASTER_KEY` is no key",
        f"`openssl rand -base64 32` makes one; it has {len(example)} characters",
    )


def _in_base64(text: str) -> bytes | None:
    """Return the key that a text is in base64, or None."""
    with suppress(Base64Error, ValueError):
        key = b64decode(text, validate=True)
        return key if len(key) == KEY_BYTES else None
    return None
