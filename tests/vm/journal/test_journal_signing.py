"""Fast: keys and what is refused as one, receipts, and sensitive values under seal."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from os import urandom
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given

from journals import KEY, STRANGER, flipped
from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import NotCanonicalError, Sealed
from stepward.vm.journal.receipts import Receipt, ReceiptRefused
from stepward.vm.journal.records import head_message
from stepward.vm.journal.sealing import commitment, seal, unsealer
from stepward.vm.journal.signing import KeyRefused, SigningKey, VerifyKey
from stepward.vm.journal.store import JournalError
from stepward.vm.values import freeze
from strategies import json_values

# -- keys -----------------------------------------------------------------------------------------------------------


def test_a_key_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    key = SigningKey.make()
    path = tmp_path / "journal.key"
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = SigningKey.load(path)
    assert (again.id, again.public) == (key.id, key.public)
    assert again.sign_head("run", 3, bytes(32)) == key.sign_head("run", 3, bytes(32))
    public = tmp_path / "journal.pub"
    public.write_bytes(key.public.pem())
    assert VerifyKey.load(public) == key.public
    assert SigningKey.make().public != key.public


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.key"
    KEY.save(path)
    with pytest.raises(KeyRefused, match="exists already, and a key is never written over"):
        STRANGER.save(path)
    assert SigningKey.load(path).id == KEY.id
    with pytest.raises(KeyRefused, match="can't be written: no such file or directory"):
        KEY.save(tmp_path / "nowhere" / "journal.key")


def test_the_first_key_of_rfc_8032_signs_as_it_should() -> None:
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    raw = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    key = SigningKey.from_seed(seed)
    assert key.id == sha256(raw).hexdigest()[:16]
    assert key.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_seed_has_32_bytes(length: int) -> None:
    with pytest.raises(KeyRefused, match=f"the seed of an Ed25519 key has 32 bytes, not {length}"):
        SigningKey.from_seed(bytes(length))


def test_a_signature_is_for_one_message_of_one_key() -> None:
    signature = KEY.sign_head("run", 3, bytes(32))
    assert KEY.public.has_signed(head_message("run", 3, bytes(32)), signature)
    assert not STRANGER.public.has_signed(head_message("run", 3, bytes(32)), signature)
    for message in (head_message("run", 4, bytes(32)), head_message("ruN", 3, bytes(32)), head_message("run", 3, b"x")):
        assert not KEY.public.has_signed(message, signature)
    for bad in (b"", signature[:-1], signature + b"\0", bytes(64), b"\xff" * 64):
        assert not KEY.public.has_signed(head_message("run", 3, bytes(32)), bad)


def test_a_key_does_not_show_itself() -> None:
    assert repr(KEY) == f"SigningKey({KEY.id})"
    assert repr(KEY.public) == f"VerifyKey({KEY.id})"
    assert KEY.public not in (KEY.id, None, STRANGER.public)
    assert {KEY.public: 1}[SigningKey.from_seed(bytes(range(32))).public] == 1


def pem(key: Any, password: bytes | None = None) -> bytes:
    how = BestAvailableEncryption(password) if password else NoEncryption()
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    return data


def public_pem(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data


ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHERS = {
    "RSA": rsa.generate_private_key(65537, 2048),
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "Ed448": ed448.Ed448PrivateKey.generate(),
    "X25519": x25519.X25519PrivateKey.generate(),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_keys_of_other_types_are_refused(kind: str) -> None:
    what = "the key in `k` is not of type Ed25519, and Stepward signs with no other"
    with pytest.raises(KeyRefused, match=what):
        SigningKey.from_pem(pem(OTHERS[kind]), "k")
    with pytest.raises(KeyRefused, match=what):
        VerifyKey.from_pem(public_pem(OTHERS[kind]), "k")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "`k` holds no private key in PEM; `openssl genpkey -algorithm ed25519` makes one"),
        (bytes(32), "`k` holds no private key in PEM"),
        (pem(ED25519)[:60], "`k` holds no private key in PEM"),
        (pem(ED25519, b"password"), "the key in `k` is encrypted; Stepward reads it only without a password"),
        (public_pem(ED25519), "`k` is a public key; signing needs the private one"),
    ],
)
def test_what_is_no_private_key_is_refused(content: bytes, what: str) -> None:
    with pytest.raises(KeyRefused) as refused:
        SigningKey.from_pem(content, "k")
    assert str(refused.value).startswith(what)
    assert isinstance(refused.value, StepwardError)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"-----BEGIN PUBLIC KEY-----", "`k` holds no public key in PEM"),
        (pem(ED25519), "`k` is a private key; checking needs only the public one, so leave this where it is"),
        (pem(ED25519, b"password"), "`k` is a private key"),
    ],
)
def test_what_is_no_public_key_is_refused(content: bytes, what: str) -> None:
    with pytest.raises(KeyRefused) as refused:
        VerifyKey.from_pem(content, "k")
    assert str(refused.value).startswith(what)


def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    for load in (SigningKey.load, VerifyKey.load):
        with pytest.raises(KeyRefused, match="can't be read: no such file or directory"):
            load(tmp_path / "nowhere")


# -- receipts -------------------------------------------------------------------------------------------------------

RECEIPT = Receipt.give("run-1", 7, bytes(range(32)), "SUCCESS", b"\7" * 32, KEY)
BARE = Receipt.give("rün", 0, bytes(range(32)), "RUNNING", b"\7" * 32)


@pytest.mark.parametrize("receipt", [RECEIPT, BARE])
def test_a_receipt_is_the_same_after_it_was_written(receipt: Receipt) -> None:
    text = receipt.to_json()
    assert Receipt.from_json(text) == receipt
    assert Receipt.from_json(json.dumps(json.loads(text), indent=2) + "\n") == receipt
    assert Receipt.from_json(text).to_json() == text


def test_a_receipt_is_signed_by_the_key_that_it_names() -> None:
    assert RECEIPT.signer([STRANGER.public, KEY.public]) == KEY.public
    assert RECEIPT.signer([STRANGER.public]) is None
    assert BARE.signer([KEY.public]) is None
    unsigned = replace(RECEIPT, key=STRANGER.id, signature=None)
    misnamed = replace(unsigned, signature=KEY.sign(unsigned.message()))
    assert misnamed.signer([STRANGER.public, KEY.public]) is None


def test_the_signature_covers_every_field() -> None:
    data = json.loads(RECEIPT.to_json())
    changes: dict[str, Any] = {
        "run": "run-2",
        "seq": 8,
        "digest": "0" * 64,
        "status": "FAILED",
        "trace": "0" * 64,
        "key": STRANGER.id,
        "signature": flipped(KEY.sign(RECEIPT.message()), 9).hex(),
    }
    assert {*changes, "v"} == set(data)
    for name, value in changes.items():
        forged = Receipt.from_json(json.dumps(data | {name: value}))
        assert forged.signer([KEY.public, STRANGER.public]) is None, name


def test_a_signature_of_a_head_is_none_of_a_receipt() -> None:
    data = json.loads(RECEIPT.to_json())
    data["signature"] = KEY.sign_head("run-1", 7, bytes(range(32))).hex()
    assert Receipt.from_json(json.dumps(data)).signer([KEY.public]) is None
    assert not KEY.public.has_signed(head_message("run-1", 7, bytes(range(32))), RECEIPT.signature or b"")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"v": 2}, "the receipt is not of version 1"),
        ({"v": True}, "the receipt is not of version 1"),
        ({"extra": 1}, "the receipt has an unknown field `extra`"),
        ({"run": 7}, "`run` of the receipt can't be what it says"),
        ({"run": "\ud800"}, "`run` of the receipt can't be what it says"),
        ({"seq": -1}, "`seq` of the receipt"),
        ({"seq": True}, "`seq` of the receipt"),
        ({"seq": 2**53}, "`seq` of the receipt"),
        ({"seq": 1.0}, "`seq` of the receipt"),
        ({"digest": "0" * 63}, "`digest` of the receipt"),
        ({"digest": "A" * 64}, "`digest` of the receipt"),
        ({"trace": None}, "`trace` of the receipt"),
        ({"status": []}, "`status` of the receipt"),
        ({"key": None}, "a receipt has a key and a signature or neither"),
        ({"signature": None}, "a receipt has a key and a signature or neither"),
        ({"signature": "0" * 127 + "\n"}, "`signature` of the receipt"),
        ({"key": 16}, "`key` of the receipt"),
    ],
)
def test_what_is_no_receipt_is_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ReceiptRefused) as refused:
        Receipt.from_json(json.dumps(json.loads(RECEIPT.to_json()) | change))
    assert str(refused.value).startswith(what)


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "{}", "[" * 99_999, RECEIPT.to_json()[:-1] + ',"v":1}', RECEIPT.to_json() + "x"]
)
def test_what_is_no_object_is_no_receipt(text: str) -> None:
    with pytest.raises(ReceiptRefused, match="hand it over as it was given"):
        Receipt.from_json(text)


@pytest.mark.parametrize("name", ["digest", "key", "run", "seq", "signature", "status", "trace"])
def test_a_receipt_has_every_field(name: str) -> None:
    data = json.loads(RECEIPT.to_json())
    del data[name]
    with pytest.raises(ReceiptRefused, match=f"the receipt lacks `{name}`"):
        Receipt.from_json(json.dumps(data))


# -- sensitive values -----------------------------------------------------------------------------------------------


@given(json_values().map(freeze))
def test_what_was_sealed_is_unsealed(value: Any) -> None:
    sealed, secret = seal(value, urandom)
    again = unsealer({sealed.reference: secret}, ())(sealed.reference, sealed.commitment)
    assert again == sealed
    assert repr(again.value) == repr(value) or again.value == value


def test_the_same_value_is_never_sealed_the_same_way() -> None:
    sealed = [seal("x", urandom)[0] for _ in range(100)]
    assert len({one.reference for one in sealed}) == len({one.commitment for one in sealed}) == 100
    assert all(len(one.reference) == 16 and len(one.commitment) == 64 for one in sealed)


def test_a_commitment_is_made_over_salt_and_canonical_text() -> None:
    sealed, secret = seal(freeze({"b": Decimal("0.5"), "a": "#"}), urandom)
    assert secret[16:] == b'{"a":"##","b":"#n0.5"}'
    assert sealed.commitment == sha256(b"stepward.sensitive-value.1\n" + secret).hexdigest() == commitment(secret)


def test_what_is_sealed_is_not_sealed_again() -> None:
    with pytest.raises(AssertionError, match="a value is sealed once"):
        seal((1, seal("x", urandom)[0]), urandom)


def test_an_erased_value_is_gone_even_where_the_vault_still_has_it() -> None:
    sealed, secret = seal("x", urandom)
    assert unsealer({sealed.reference: secret}, {sealed.reference})(*sealed[:2]) == Sealed(*sealed[:2], None, True)


def test_a_value_that_is_not_the_one_is_refused() -> None:
    sealed, secret = seal("x", urandom)
    for other in (flipped(secret, 0), secret + b" ", seal("x", urandom)[1], b""):
        with pytest.raises(JournalError, match="in the vault is not the one that was put there"):
            unsealer({sealed.reference: other}, ())(*sealed[:2])
    with pytest.raises(JournalError, match="is neither in the vault nor erased"):
        unsealer({}, ())(*sealed[:2])
    nested = bytes(16) + b'"#vab:cd"'
    with pytest.raises(JournalError, match="another one stands inside the sensitive value `r`"):
        unsealer({"r": nested}, ())("r", commitment(nested))
    later = bytes(16) + b'"#zAda Lovelace"'
    with pytest.raises(NotCanonicalError, match="begins with a tag") as caught:
        unsealer({"r": later}, ())("r", commitment(later))
    assert "Ada" not in str(caught.value)
    with pytest.raises(NotCanonicalError):
        unsealer({"r": bytes(16) + b"1.0"}, ())("r", commitment(bytes(16) + b"1.0"))
