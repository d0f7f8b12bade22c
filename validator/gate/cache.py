"""The cache of results: a folder of small files, each named by the digest of all that it depends on.

An entry is never wrong, only absent: what is missing, damaged, unreadable or made by another user is computed again.
Every entry is sealed with a secret of its user, because the author of a program can put files beside it. Without the
seal, an entry in a pull request could claim that there is nothing to find.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Any, Final

from stepward.vm.writing import put

FOLDER: Final = ".stepward_cache"
PRIVATE: Final = 0o600
SECRET_VARIABLE: Final = "STEPWARD_CACHE_KEY"

MAX_ENTRIES: Final = 20_000
MAX_BYTES: Final = 64 << 20
"""Entries, and bytes of them, that a folder holds; the least recently used ones are removed first."""

MAX_ENTRY_BYTES: Final = 4 << 20
"""The largest result that is cached, in bytes; a larger one is computed again."""

_LAYOUT: Final = b"stepward cache 1"
_SECRET_BYTES: Final = 32
_DAY_SECONDS: Final = 86_400
_ENTRY: Final = re.compile(r"[0-9a-f]{64}")
_UNFINISHED: Final = re.compile(r"[0-9a-f]{64}\..+")
_TAG: Final = """\
Signature: 8a477f597d28d172789f06886806bc55
# Results of `stepward check`. The folder can be deleted at any time.
"""


class Cache:
    """Results by their keys. `close` writes each new result in one step, so that many runs may share a folder.

    `version` returns the digest of the code that computes the results: it is asked again before anything is written.
    """

    def __init__(self, folder: FilePath, secret: bytes, version: Callable[[], str | None], digest: str) -> None:
        self._folder = folder
        self._secret = secret
        self._version = version
        self._digest = digest
        self._new: dict[str, bytes] = {}

    @classmethod
    def open(cls, folder: FilePath, version: Callable[[], str | None]) -> Cache | None:
        """Return the cache in a folder, which need not exist yet; None when results can't be stored or trusted."""
        # A link could lead to a folder whose files would be taken for old entries, or that entries would be written to.
        if os.path.islink(folder):
            return None
        try:
            secret, digest = _secret(), version()
        except OSError:
            return None
        return None if secret is None or digest is None else cls(folder, secret, version, digest)

    def key(self, parts: Iterable[bytes]) -> str:
        """Return the key of a result that depends on these parts, in this order, and on the version."""
        digest = hashlib.sha256(_LAYOUT)
        for part in (self._digest.encode(), *parts):
            # Lengths keep two lists of parts from giving the same text.
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.hexdigest()

    def get(self, key: str) -> Any:
        """Return the JSON data that is stored under a key; None when there is none."""
        path = self._folder / key
        try:
            with path.open("rb") as file:
                content = file.read(MAX_ENTRY_BYTES + 1)
                age = time.time() - os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        seal, _, data = content.partition(b"\n")
        if seal != self._seal(key, data):
            return None
        if age > _DAY_SECONDS:
            with suppress(OSError):
                os.utime(path)  # it was used now, so others are removed before it
        return json.loads(data)

    def put(self, key: str, data: Any) -> None:
        """Store JSON data under a key, unless it is too large."""
        content = json.dumps(data, separators=(",", ":")).encode()
        if len(content) < MAX_ENTRY_BYTES - 2 * _SECRET_BYTES:
            self._new[key] = content

    def close(self) -> None:
        """Write the new results; a folder that can't be written to is ignored."""
        new, self._new = self._new, {}
        with suppress(OSError):
            # Where the code was changed during the run, its results belong to no version.
            if not new or self._version() != self._digest:
                return
            self._make_folder()
            for key, content in new.items():
                put(self._folder / key, self._seal(key, content) + b"\n" + content, mode=PRIVATE)
            self._drop_the_oldest()

    def _seal(self, key: str, content: bytes) -> bytes:
        seal = hashlib.blake2b(key.encode() + content, digest_size=_SECRET_BYTES, key=self._secret)
        return seal.hexdigest().encode()

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
            with suppress(FileExistsError), (self._folder / name).open("x", encoding="utf-8") as file:
                file.write(text)

    def _drop_the_oldest(self) -> None:
        entries, now = [], time.time()
        with os.scandir(self._folder) as files:
            for file in files:
                if _ENTRY.fullmatch(file.name):
                    status = file.stat(follow_symlinks=False)
                    entries.append((status.st_mtime_ns, status.st_size, file.path))
                elif (
                    _UNFINISHED.fullmatch(file.name) and now - file.stat(follow_symlinks=False).st_mtime > _DAY_SECONDS
                ):
                    _remove(file.path)  # a run was ended while it wrote the file
        count, size = len(entries), sum(entry[1] for entry in entries)
        for _, bytes_, path in sorted(entries):
            if count <= MAX_ENTRIES and size <= MAX_BYTES:
                break
            _remove(path)
            count, size = count - 1, size - bytes_


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# -- the secret --------------------------------------------------------------------------------------------------------


def _secret() -> bytes | None:
    """Return the secret for seals: from the environment, else the user's own, which is made when there is none."""
    secret_text = os.environ.get(SECRET_VARIABLE)
    if secret_text:
        return hashlib.sha256(secret_text.encode("utf-8", "surrogateescape")).digest()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        return None  # without a home the secret would be among the files that are checked
    path = FilePath(base, "stepward", "secret")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Of two runs that make a secret the later wins: the entries of the other are lost.
        put(path, os.urandom(_SECRET_BYTES), mode=PRIVATE)
    # A secret is refused if others can read it or have put it there. That includes a file that git has checked out:
    # its permissions let others read it unless its user asks for something else.
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        secret = file.read(_SECRET_BYTES + 1)
    is_ours = os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
    return secret if is_ours and len(secret) == _SECRET_BYTES else None
