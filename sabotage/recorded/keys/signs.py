"""Scenes of keys that sign, of receipts, and of what is kept of pruned runs: as texts, in files, and changed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from stepward.sabotage.recorded.stages.desk import Desk
from stepward.vm.journal.canonical import LARGEST, canonical
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.pruning import Pruned, kept_of, verify_pruned
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import head_message
from stepward.vm.journal.signing import SigningKey, VerifyKey, signer_of
from stepward.vm.journal.store import Append, Entry, Head

KEYS: Final = tuple(SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
STATUSES: Final = ("RUNNING", "SUSPENDED", "IN_DOUBT", "SUCCESS", "FAILED")
DIGESTS: Final = tuple(bytes([number]) * 32 for number in range(4))
ODD: Final[tuple[Any, ...]] = (None, True, -1, 0, 1, 2.5, "", "x", "0" * 64, "A" * 64, "0" * 63, [], {}, [""], "\ud800")


@cache
def _elliptic() -> tuple[bytes, bytes, bytes]:
    """Return a private key of another type, its public half, and a private key with a password."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.derive_private_key(5, ec.SECP256R1())
    plain = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    locked = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"x"))
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return plain, public, locked


def signing(desk: Desk) -> None:
    """Make keys of seeds, save and load them, read them from texts, sign, and check signatures."""
    for size in desk.chance.sample((0, 1, 31, 32, 33, 64), 2):
        desk.ask("seed", lambda size=size: SigningKey.from_seed(bytes(size)).id)
    key, path = desk.draw(*KEYS), desk.path("signing.key")
    for name in (path, path, desk.path("none/x"), desk.folder):
        desk.ask("save", key.save, name)
    desk.note(oct(os.stat(path).st_mode), os.stat(path).st_size)
    public = desk.path("public.key")
    with open(public, "wb") as file:
        file.write(key.public.pem())
    for name in (path, public, desk.path("none"), desk.folder):
        desk.ask("load", SigningKey.load, name)
        desk.ask("load", VerifyKey.load, name)
    with open(path, "rb") as file:
        private = file.read()
    texts = (
        private,
        key.public.pem(),
        *_elliptic(),
        b"",
        b"no key",
        private[:60],
        private.replace(b"PRIVATE", b"OTHER"),
    )
    for text in desk.chance.sample(texts, 5):
        for read in (SigningKey.from_pem, VerifyKey.from_pem):
            desk.ask("read", lambda text=text, read=read: read(text, *desk.draw((), ("a name",))))
    desk.note(key.public.pem(), repr(key), repr(key.public), len(SigningKey.make().sign(b"")))
    loaded = VerifyKey.load(public)
    desk.note(
        loaded == key.public, loaded == "x", loaded == KEYS[0].public, {loaded, key.public}, SigningKey.load(path).id
    )
    _check(desk, key)


def _check(desk: Desk, key: SigningKey) -> None:
    message, other = b"message", desk.draw(*KEYS)
    signature = key.sign(message)
    for changed in (signature, signature[:-1], b"", signature[::-1], other.sign(message)):
        desk.ask("signed", key.public.has_signed, message, changed)
        desk.ask("signed", key.public.has_signed, message + b"x", changed)
    seq, digest = desk.draw(0, 5), desk.draw(*DIGESTS)
    made = other.sign_head("r", seq, digest)
    head = Head(
        "r", seq + desk.draw(0, 0, 0, 1), desk.draw(digest, digest, DIGESTS[0]), desk.draw(made, made, None, b"x")
    )
    publics = [one.public for one in KEYS[: desk.draw(0, 1, 2, 3)]]
    desk.note(head_message("r", seq, digest), made)
    for run, said in (("r", head), ("s", head), ("r", None)):
        desk.ask("signer", signer_of, run, said, publics)


# -- receipts ----------------------------------------------------------------------------------------------------------


def _receipt(desk: Desk) -> Receipt:
    run, key = desk.draw("r", "é", ""), desk.draw(None, *KEYS)
    seq, digest, trace = desk.draw(0, 1, 2, 3, 4, LARGEST), desk.draw(*DIGESTS), desk.draw(*DIGESTS)
    return Receipt.give(run, seq, digest, desk.draw(*STATUSES), trace, key)


def receipts(desk: Desk) -> None:
    """Give receipts, write and read them, and read changed ones."""
    for _ in range(4):
        receipt = _receipt(desk)
        text = receipt.to_json()
        desk.note(receipt, text, receipt.message())
        desk.ask("read", Receipt.from_json, text)
        found = [one.public for one in KEYS[desk.draw(0, 1) : desk.draw(1, 2, 3)]]
        desk.ask("signer", receipt.signer, found)
        desk.ask("signer", replace(receipt, seq=receipt.seq + 1).signer, found)
        desk.ask("signer", replace(receipt, key=KEYS[0].id).signer, [key.public for key in KEYS])
        for _ in range(4):
            desk.ask("read", Receipt.from_json, _changed(desk, text))


def _changed(desk: Desk, text: str) -> str:
    """Return a JSON text with a change of a field, or of the text."""
    data = json.loads(text)
    name = desk.chance.choice(sorted(data))
    match desk.draw(0, 1, 2, 3, 4, 5, 6, 7):
        case 0:
            del data[name]
        case 1:
            data[desk.draw("x", "y" * 50)] = 1
        case 2:
            return desk.draw(
                "", "[]", "null", "1", text[:-1], text + " x", "{}", '{"v":1}', "[" * 10**5, text[:-1] + ',"v":1}'
            )
        case 3:
            return json.dumps(dict(reversed(data.items())), indent=2)
        case 4:
            data["v"] = desk.draw(0, 2, True, "1", 1.0, None)
        case 5:
            data["seq"] = desk.draw(-1, LARGEST, LARGEST + 1, True, 1.0, "1", None)
        case _:
            data[name] = desk.draw(*ODD)
    return json.dumps(data)


# -- what is kept ------------------------------------------------------------------------------------------------------


def kept(desk: Desk) -> None:
    """Keep something of runs, write and read it, read changed texts, and hold it against receipts."""
    for _ in range(3):
        digests = DIGESTS[: desk.draw(1, 2, 4)]
        made = Pruned(
            "r", "p", "d", desk.draw(*STATUSES), desk.draw(*DIGESTS[:2]), digests, 5, 6, desk.draw(None, "ann")
        )
        made = made.signed(desk.draw(None, *KEYS))
        text = made.to_bytes()
        desk.note(made, made.head, text, made.message())
        desk.ask("read", Pruned.from_bytes, text)
        publics = [one.public for one in KEYS[: desk.draw(0, 1, 2)]]
        desk.ask("signer", made.signer, publics)
        given = [_of(desk, made) for _ in range(desk.draw(0, 1, 3))]
        for one in given:
            desk.ask("misfit", made.misfit, one)
        desk.ask("verify", verify_pruned, desk.draw("r", "r", "s"), text, publics, given)
        for _ in range(4):
            changed = _rewritten(desk, text)
            desk.ask("read", Pruned.from_bytes, changed)
            found = desk.quietly("verify", partial(verify_pruned, "r", changed, publics, given))
            desk.note(found and (found.faults, found.records, found.signed_by, found.receipts))
        _keep(desk, made)


def _of(desk: Desk, made: Pruned) -> Receipt:
    """Return a receipt of a pruned run, mostly a right one."""
    seq = desk.chance.randrange(len(made.digests) + 1)
    digest = (*made.digests, DIGESTS[3])[seq]
    status, trace = desk.draw((made.status, made.trace), (made.status, DIGESTS[3]), (desk.draw(*STATUSES), made.trace))
    return Receipt.give("r", seq, desk.draw(digest, digest, digest, DIGESTS[2]), status, trace)


def _rewritten(desk: Desk, text: bytes) -> bytes:
    if desk.some(0.2):
        return desk.draw(b"", b"[]", b"{}", text[:-1], text + b" ", b"\xff", text.replace(b":", b": ", 1))
    data = json.loads(text)
    name = desk.chance.choice(sorted(data))
    if desk.some(0.2):
        del data[name]
    else:
        data[name] = desk.draw(*ODD[:5], *ODD[6:-1], [7], ["00"])
    try:
        return canonical(data).encode()
    except ValueError:
        return json.dumps(data).encode()


def _keep(desk: Desk, made: Pruned) -> None:
    """Prune a run of a store, and read what is kept of it."""
    store = MemoryJournal()
    entries = [Entry(seq, b"", digest) for seq, digest in enumerate(made.digests)]
    store.create(Append("r", -1, entries, made.status, 0.0, False), "p", "ann", 1.0)
    desk.ask("kept", partial(kept_of, store, "r"))
    store.prune(made.head, desk.draw(made.to_bytes(), b"x"))
    desk.ask("kept", partial(kept_of, store, "r"))
