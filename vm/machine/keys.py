"""Identifies performances to the outside: idempotency keys, and the tokens that resume a run."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from stepward.vm.journal.canonical import canonical, quoted
from stepward.vm.journal.records import KEY_TAG, TOKEN_TAG

FrameName = tuple[tuple[str, int, int, int | str], ...]
"""The name of a frame: for each body from the outside in, the step id, visit, round, and the item or the branch."""


@lru_cache(maxsize=256)  # all records of a frame have it
def frame_text(frame: FrameName) -> str:
    """Return the canonical text of the name of a frame."""
    return canonical(frame)


def shown(frame: FrameName, step: str) -> str:
    """Return a step in a frame as people read it: `each[3]/pay`. The steps of a called program follow its call."""
    text, prefix = "", ""
    for (name, _, _, item), inner in zip(frame, (*(one[0] for one in frame), step)[1:], strict=True):
        text += name.removeprefix(prefix)
        is_call = inner.startswith(f"{name}/")
        text += "/" if is_call else f"[{item}]/"
        prefix = f"{name}/" if is_call else prefix
    return text + step.removeprefix(prefix)


@lru_cache(maxsize=64)  # the intent needs the key, and then the tool
def idempotency_key(program: str, run: str, step: str, visit: int, performance: int, frame: FrameName = ()) -> str:
    """Return the key of a performance: stable after a crash, different for each run, step, visit, frame and program."""
    # Canonical JSON, written by hand because every intent needs one. `program` is a digest, and needs no quoting.
    name = f'"program":"{program}","run":{quoted(run)},"step":{quoted(step)},"visit":{visit}'
    within = f'"frame":{frame_text(frame)},' if frame else ""
    return sha256(KEY_TAG + f'{{{within}"performance":{performance},{name}}}'.encode()).hexdigest()


TOKEN_BYTES: Final = 24
"""A multiple of three, so that Base64 needs no padding."""


class Token(NamedTuple):
    """A resume token: its run, and its secret."""

    run: str
    secret: str

    @classmethod
    def new(cls, run: str, random: Callable[[int], bytes]) -> Token:
        """Return a new token; its secret comes from `random`, which returns a number of unguessable bytes."""
        return cls(run, urlsafe_b64encode(random(TOKEN_BYTES)).decode())

    @classmethod
    def read(cls, text: object) -> Token | None:
        """Return the token in a text, or None if it is not a token: a web hook may deliver anything."""
        if not isinstance(text, str):
            return None
        run, separator, secret = text.rpartition(".")
        return cls(run, secret) if separator and run and secret else None

    def text(self) -> str:
        """Return the text of the token for whoever resumes the run."""
        return f"{self.run}.{self.secret}"

    def digest(self, program: str, step: str, visit: int, frame: FrameName = ()) -> str:
        """Return the digest of the token for the journal, bound to run, program, step, visit and frame."""
        name: dict[str, Any] = {"program": program, "run": self.run, "secret": self.secret, "step": step}
        name |= {"visit": visit} | ({"frame": frame} if frame else {})
        return sha256(TOKEN_TAG + canonical(name).encode()).hexdigest()


def stored_token(  # noqa: PLR0917 - a secret, and the parts of a name
    secret: bytes | None, run: str, digest: str, program: str, step: str, visit: int, frame: FrameName = ()
) -> str:
    """Return the resume token with a secret of the vault; empty if it does not have the digest."""
    try:
        token = Token(run, (secret or b"").decode())
    except UnicodeDecodeError:
        return ""
    return token.text() if token.digest(program, step, visit, frame) == digest else ""


def token_reference(step: str, visit: int, performance: int, frame: FrameName = ()) -> str:
    """Return the reference of a performance's resume token in the vault."""
    return f"token:{step}:{visit}:{performance}{f':{canonical(frame)}' if frame else ''}"
