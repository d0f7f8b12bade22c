"""The cache of replies: which reply answers which question, and what an entry looks like.

A cache is a table of bytes by keys. It is not trusted: whoever reads an entry judges the reply in it as one of a model.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import NotCanonicalError, canonical, portable, restored

KEY_TAG: Final = b"stepward.reply-key.1\n"
VERSION: Final = 1


class CacheFault(StepwardError):  # noqa: N818 - it is no error of a run
    """A cache can't be used, or an entry of it can't be read. A run goes on and asks its model."""


class ReplyCache(Protocol):
    """A cache of replies: a table of bytes by keys, for several threads and processes."""

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key, or None if there is none; raises CacheFault."""
        ...

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry, in place of an earlier one of its key; raises CacheFault. Old entries may be dropped."""
        ...


class CachedReply(NamedTuple):
    """A reply from a cache: its value, frozen, and the name of the model that gave it."""

    value: Any
    model: str


def reply_key(
    parameters: Any,
    prompt: str,
    system: str | None,
    allowed: tuple[str, ...] | None,
    schema: Any,
    settings: Any = None,
) -> str:
    """Return the key of a question: a digest of everything that decides the reply.

    `parameters` are what the model says of itself, frozen. `schema` is the type of the reply as plain data, or None.
    `settings` are what the step says of the model and of the call, frozen, or None.
    """
    request = {
        "allowed": None if allowed is None else list(allowed),
        "parameters": portable(parameters),
        "prompt": prompt,
        "schema": portable(schema),
        "system": system,
        **({"settings": portable(settings)} if settings else {}),
    }
    return sha256(KEY_TAG + canonical(request).encode()).hexdigest()


def write_entry(key: str, reply: CachedReply) -> bytes:
    """Return the entry of a reply: canonical JSON with exact numbers, which also names its key."""
    return canonical({"key": key, "model": reply.model, "reply": portable(reply.value), "v": VERSION}).encode()


def read_entry(key: str, entry: bytes) -> CachedReply:
    """Return the reply in an entry; raises CacheFault if the entry is damaged, or of another key."""
    try:
        data = json.loads(entry)
        owner, model, version = data["key"], data["model"], data["v"]
        value = restored(data["reply"], _no_secret)
    except (ValueError, TypeError, KeyError, RecursionError, NotCanonicalError):
        raise CacheFault("an entry is damaged") from None
    if type(model) is not str or version != VERSION:
        raise CacheFault("an entry is damaged, or of another version")
    if owner != key:
        raise CacheFault("an entry is of another question")
    return CachedReply(value, model)


def _no_secret(*_: str) -> NoReturn:
    raise NotCanonicalError("no sensitive value is ever cached")
