"""Ed25519 keys: the private half signs heads and receipts, and the public half checks the signatures.

A chain alone shows a change only to somebody who knows its head. With a signed head, the public key is enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.arguments import BYTES, PATH, TEXT, require
from stepward.vm.errors import StepwardError
from stepward.vm.journal.records import head_message
from stepward.vm.journal.store import Head
from stepward.vm.writing import create

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SEED_BYTES: Final = 32
_MAKE_ONE: Final = "`openssl genpkey -algorithm ed25519` makes one"


class KeyRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A key can't be read from a file or bytes, or can't be saved."""


class VerifyKey:
    """The public half of a key: it checks signatures of the private half, and can be given to anybody."""

    __slots__ = ("_key", "id")

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id: str = _key_id(key)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> VerifyKey:
        """Read a public key from a PEM file; raises KeyRefused for anything else."""
        return cls.from_pem(_content(path), os.fspath(path))

    @classmethod
    def from_pem(cls, pem: bytes, name: str = "the text") -> VerifyKey:
        """Read a public key in PEM; raises KeyRefused, with `name` in its message, for anything else."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        require(BYTES, pem=pem)
        require(TEXT, name=name)
        if b"PRIVATE KEY-----" in pem:
            raise KeyRefused(
                f"`{name}` is a private key; checking needs only the public one, so leave this where it is"
            )
        key = _read(partial(load_pem_public_key, pem), name, "public")
        if not isinstance(key, Ed25519PublicKey):
            raise KeyRefused(_other_type(name))
        return cls(key)

    def pem(self) -> bytes:
        """Return the key in PEM, for everybody who verifies."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether the private half made `signature` over exactly this message."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VerifyKey) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"VerifyKey({self.id})"


class SigningKey:
    """A private key. Hide it from everybody who can write the journal: else its signatures prove nothing."""

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = VerifyKey(key.public_key())

    @classmethod
    def make(cls) -> SigningKey:
        """Make a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Return the key with a seed of 32 secret bytes; raises KeyRefused for another number of bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        require(BYTES, seed=seed)
        if len(seed) != SEED_BYTES:
            raise KeyRefused(f"the seed of an Ed25519 key has {SEED_BYTES} bytes, not {len(seed)}")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read a private key from an unencrypted PEM file; raises KeyRefused for anything else."""
        return cls.from_pem(_content(path), os.fspath(path))

    @classmethod
    def from_pem(cls, pem: bytes, name: str = "the text") -> SigningKey:
        """Read an unencrypted private key in PEM; raises KeyRefused, with `name` in its message, for anything else."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        require(BYTES, pem=pem)
        require(TEXT, name=name)
        if b"PUBLIC KEY-----" in pem:
            raise KeyRefused(f"`{name}` is a public key; signing needs the private one")
        key = _read(partial(load_pem_private_key, pem, password=None), name, "private")
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyRefused(_other_type(name))
        return cls(key)

    @property
    def id(self) -> str:
        """The id of the key, the same as that of its public half."""
        return self.public.id

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key as PEM into a new file that only its owner can read.

        Raises KeyRefused if the file exists, because an overwritten key would be lost, or can't be written.
        """
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        require(PATH, path=path)
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            create(path, pem, mode=0o600)
        except FileExistsError:
            raise KeyRefused(f"`{os.fspath(path)}` exists already, and a key is never written over") from None
        except OSError as error:
            raise KeyRefused(f"`{os.fspath(path)}` can't be written: {_reason(error)}") from None

    def sign(self, message: bytes) -> bytes:
        """Return the signature (64 bytes) over a message, which has to start with a domain tag."""
        return self._key.sign(message)

    def sign_head(self, run: str, seq: int, digest: bytes) -> bytes:
        """Return the signature over the head of a run: its last record's number and digest."""
        return self._key.sign(head_message(run, seq, digest))

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"


def signer_of(run: str, head: Head | None, keys: Iterable[VerifyKey]) -> VerifyKey | None:
    """Return the one of `keys` that signed the head of a run, or None."""
    return None if head is None else signer_among(keys, head_message(run, head.seq, head.digest), head.signature)


def signer_among(keys: Iterable[VerifyKey], message: bytes, signature: bytes | None) -> VerifyKey | None:
    """Return the one of `keys` that signed a message, or None."""
    return None if signature is None else next((key for key in keys if key.has_signed(message, signature)), None)


def _key_id(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes_raw()).hexdigest()[:16]


def _content(path: str | os.PathLike[str]) -> bytes:
    require(PATH, path=path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KeyRefused(f"`{os.fspath(path)}` can't be read: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    return (error.strerror or "the system does not say why").lower()


def _read(load: Callable[[], Any], name: str, half: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except TypeError:
        # The library raises this if it needs a password.
        raise KeyRefused(f"the key in `{name}` is encrypted; Stepward reads it only without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyRefused(f"`{name}` holds no {half} key in PEM; {_MAKE_ONE}") from None


def _other_type(name: str) -> str:
    return f"the key in `{name}` is not of type Ed25519, and Stepward signs with no other; {_MAKE_ONE}"
