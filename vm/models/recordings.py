"""The file of recorded replies: JSON lines, one for each request, under a line that says of which model they are.

A request is named by its place in a run and by digests of what was asked. The texts of prompts are in the file only if
somebody wants to read them there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from stepward.vm.journal.canonical import LARGEST, NotCanonicalError, canonical, portable, restored
from stepward.vm.language.types import same
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.models.refusals import ModelRefused
from stepward.vm.values import ValueRefused, exact, freeze
from stepward.vm.writing import put

VERSION: Final = 1
MARK: Final = "stepward_replies"
"""The field of the first line, with the version of the format."""

MOST_BYTES: Final = 64 << 20
"""Bytes of a file that are read."""

PARTS: Final = ("prompt", "system", "allowed", "schema", "settings")
"""What is asked: each has its own digest, so that a message can say which of them differs."""

_PLACE: Final = ("step", "visit", "attempt")
_PAID: Final = ("tokens", "cost", "model")
_FIELDS: Final = frozenset({*_PLACE, *PARTS, *_PAID, "content"})
_OPTIONAL: Final = frozenset({"texts", "settings"})
"""Fields of a reply that a line has only where there is something to say."""


class Key(NamedTuple):
    """What names a request: its place in the run, and the digests of PARTS; None stands for a part that it lacks."""

    step: str
    visit: int
    attempt: int
    prompt: str
    system: str | None
    allowed: str | None
    schema: str | None
    settings: str | None = None

    @property
    def place(self) -> tuple[str, int, int]:
        """The step, the visit and the attempt."""
        return self[:3]

    def differences(self, other: Key) -> list[str]:
        """Return which of PARTS differ."""
        return [part for part in PARTS if getattr(self, part) != getattr(other, part)]


def key_of(request: ModelRequest) -> Key:
    """Return the key of a request."""
    parts = {**{part: getattr(request, part) for part in PARTS}, "settings": request.settings or None}
    return Key(*(getattr(request, name) for name in _PLACE), *(_digest(parts[part]) for part in PARTS))


def _digest(value: Any) -> Any:
    if value is None:
        return None
    return hashlib.sha256(canonical(portable(freeze(value))).encode()).hexdigest()[:32]


class Recording:
    """The replies in a file, as they were when it was last read; `parameters` are those of the model, or None."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.parameters: Mapping[str, Any] | None = None
        self.replies: dict[Key, ModelReply] = {}
        self._lines: list[str] = []
        self._seen: tuple[int, ...] | None = None
        self.read()

    def read(self) -> None:
        """Read the file again if it has changed; raises ModelRefused if it is damaged or can't be read."""
        try:
            with self.file.open("rb") as opened:
                seen = _version_of(os.fstat(opened.fileno()))
                if seen == self._seen:
                    return
                content = opened.read(MOST_BYTES + 1)
        except FileNotFoundError:
            self.parameters, self.replies, self._lines, self._seen = None, {}, [], None
            return
        except OSError as error:
            raise ModelRefused(f"the replies in `{self.file}` can't be read: {_why(error)}") from None
        if len(content) > MOST_BYTES:
            raise ModelRefused(f"the replies in `{self.file}` have more than the {MOST_BYTES:,} bytes allowed")
        try:
            self._lines = [line for line in content.decode().split("\n") if line.strip()]
        except UnicodeDecodeError:
            raise ModelRefused(f"`{self.file}` is no file of recorded replies: it is not UTF-8") from None
        self.parameters, self.replies = _parsed(self.file, self._lines)
        self._seen = seen

    def require(self, parameters: Mapping[str, Any]) -> None:
        """Raise ModelRefused if the replies are those of a model with other parameters."""
        if self.parameters is None:
            return
        own: Mapping[str, Any] = freeze(parameters)
        names = sorted(name for name in {*own, *self.parameters} if not same(own.get(name), self.parameters.get(name)))
        if names:
            differing = ", ".join(f"`{name}`" for name in names)
            advice = "record into another file, or delete this one"
            raise ModelRefused(f"the replies in `{self.file}` are of another model ({differing} differ): {advice}")

    def add(self, parameters: Mapping[str, Any], key: Key, reply: ModelReply, texts: Mapping[str, Any]) -> None:
        """Write one more reply, unless somebody else has; raises ModelRefused if the file can't be written.

        Others may write the same file: their replies are read first, and stay.
        """
        try:
            with _alone(self.file.parent):
                self.read()
                self.require(parameters)
                if key in self.replies:
                    return
                lines = self._lines or [canonical({MARK: VERSION, "model": portable(freeze(parameters))})]
                lines = [*lines, _line(key, reply, texts)]
                put(self.file, "".join(f"{line}\n" for line in lines).encode())
                self.read()
        except OSError as error:
            raise ModelRefused(f"the replies in `{self.file}` can't be written: {_why(error)}") from None


def _version_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other writers of recordings in a folder out: the file itself is replaced, and so can't be locked."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _line(key: Key, reply: ModelReply, texts: Mapping[str, Any]) -> str:
    cost = None if reply.cost is None else portable(exact(reply.cost))
    fields = {"content": portable(freeze(reply.content)), "tokens": reply.tokens, "cost": cost, "model": reply.model}
    named = {name: value for name, value in key._asdict().items() if name != "settings" or value is not None}
    return canonical({**named, **fields, **({"texts": dict(texts)} if texts else {})})


def can_be_kept(reply: ModelReply) -> bool:
    """Return whether a reply has the types that a file can hold; the machine refuses any other."""
    try:
        freeze([reply.content, reply.cost])
    except ValueRefused:
        return False
    is_paid = _is_count(reply.tokens) and (reply.cost is None or _is_number(reply.cost))
    return is_paid and isinstance(reply.model, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and value >= 0


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _parsed(file: Path, lines: list[str]) -> tuple[Mapping[str, Any] | None, dict[Key, ModelReply]]:
    if not lines:
        raise ModelRefused(f"`{file}` holds no replies: delete it to record new ones")
    head = _object(file, 1, lines[0])
    if not isinstance(head.get("model"), Mapping) or MARK not in head:
        raise ModelRefused(f"`{file}` is no file of recorded replies")
    if head[MARK] is True or head[MARK] != VERSION:
        raise ModelRefused(f"`{file}` has version `{head[MARK]}`; this version of Stepward reads {VERSION}")
    replies: dict[Key, ModelReply] = {}
    for number, line in enumerate(lines[1:], 2):
        key, reply = _entry(file, number, _object(file, number, line))
        if key in replies:
            _damaged(file, number, "it answers a request that another line answers, too")
        replies[key] = reply
    return head["model"], replies


def _object(file: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        value: Any = restored(json.loads(line), _unsealed)
    except (ValueError, RecursionError, NotCanonicalError):
        _damaged(file, number, "it is not JSON as it was written")
    if not isinstance(value, Mapping):
        _damaged(file, number, "it is no JSON object")
    return value


def _unsealed(*_: str) -> NoReturn:
    raise NotCanonicalError("a recorded reply has no sealed values")


def _entry(file: Path, number: int, data: Mapping[str, Any]) -> tuple[Key, ModelReply]:
    if set(data) - _OPTIONAL != _FIELDS - _OPTIONAL:
        _damaged(file, number, "its fields are not those of a reply")
    named: dict[str, Any] = {name: data.get(name) for name in Key._fields}
    key = Key(**named)
    reply = ModelReply(data["content"], data["tokens"], data["cost"], data["model"])
    texts = (key.step, key.prompt, reply.model, *(part for part in key[4:] if part is not None))
    has_types = all(map(_is_count, (key.visit, key.attempt, reply.tokens))) and all(isinstance(t, str) for t in texts)
    is_cost = reply.cost is None or _is_number(reply.cost)
    if not has_types or not is_cost:
        _damaged(file, number, "a field has the wrong type")
    return key, reply


def _damaged(file: Path, number: int, why: str) -> NoReturn:
    raise ModelRefused(f"line {number} of `{file}` is damaged: {why}; delete the line, and record its reply again")


def _why(error: OSError) -> str:
    return (error.strerror or "it is no file").lower()
