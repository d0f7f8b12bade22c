"""What identifies a performance to the outside: idempotency keys, and the tokens that resume a run."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from stepward.vm.journal.canonical import canonical
from stepward.vm.journal.records import KEY_TAG, TOKEN_TAG


def idempotency_key(program: str, run: str, step: str, visit: int, performance: int) -> str:
    """Return the key of a performance: the same after a crash, another for another run, step, visit or program."""
    # Canonical JSON, written out, for every intent has one. `program` is a digest, and needs no quoting.
    name = f'"program":"{program}","run":{canonical(run)},"step":{canonical(step)},"visit":{visit}'
    return sha256(KEY_TAG + f'{{"performance":{performance},{name}}}'.encode()).hexdigest()


TOKEN_BYTES: Final = 24
"""A multiple of three, so that Base64 needs no padding."""


class Token(NamedTuple):
    """A resume token: the run that it is for, and its secret."""

    run: str
    secret: str

    @classmethod
    def new(cls, run: str, random: Callable[[int], bytes]) -> Token:
        """Return a token that nobody can guess, if nobody can guess what `random` gives for a number of bytes."""
        return cls(run, urlsafe_b64encode(random(TOKEN_BYTES)).decode())

    @classmethod
    def read(cls, text: object) -> Token | None:
        """Return the token in a text, or None when it is none: what a web hook delivers need not be a text."""
        if not isinstance(text, str):
            return None
        run, separator, secret = text.rpartition(".")
        return cls(run, secret) if separator and run and secret else None

    def text(self) -> str:
        """Return the token as it is handed out."""
        return f"{self.run}.{self.secret}"

    def digest(self, program: str, step: str, visit: int) -> str:
        """Return what the journal keeps of the token: it binds run, program, step and visit."""
        name = {"program": program, "run": self.run, "secret": self.secret, "step": step, "visit": visit}
        return sha256(TOKEN_TAG + canonical(name).encode()).hexdigest()


def kept_token(secret: bytes | None, run: str, digest: str, program: str, step: str, visit: int) -> str:
    """Return the resume token whose secret the vault keeps; empty where it is not the one with that digest."""
    try:
        token = Token(run, (secret or b"").decode())
    except UnicodeDecodeError:
        return ""
    return token.text() if token.digest(program, step, visit) == digest else ""


def token_reference(step: str, visit: int, performance: int) -> str:
    """Return the name under which the vault keeps the resume token of a performance."""
    return f"token:{step}:{visit}:{performance}"
