"""Scenes of keys that sign, of receipts, and of what is kept of pruned runs: as texts, in files, and changed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
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


def signing(probe: Probe) -> None:
    """Make keys of seeds, save and load them, read them from texts, sign, and check signatures."""
    for size in probe.chance.sample((0, 1, 31, 32, 33, 64), 2):
        probe.ask("seed", lambda size=size: SigningKey.from_seed(bytes(size)).id)
    key, path = probe.draw(*KEYS), probe.path("signing.key")
    for name in (path, path, probe.path("none/x"), probe.folder):
        probe.ask("save", key.save, name)
    probe.note(oct(os.stat(path).st_mode), os.stat(path).st_size)
    public = probe.path("public.key")
    with open(public, "wb") as file:
        file.write(key.public.pem())
    for name in (path, public, probe.path("none"), probe.folder):
        probe.ask("load", SigningKey.load, name)
        probe.ask("load", VerifyKey.load, name)
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
    for text in probe.chance.sample(texts, 5):
        for read in (SigningKey.from_pem, VerifyKey.from_pem):
            probe.ask("read", lambda text=text, read=read: read(text, *probe.draw((), ("a name",))))
    probe.note(key.public.pem(), repr(key), repr(key.public), len(SigningKey.make().sign(b"")))
    loaded = VerifyKey.load(public)
    probe.note(
        loaded == key.public, loaded == "x", loaded == KEYS[0].public, {loaded, key.public}, SigningKey.load(path).id
    )
    _check(probe, key)


def _check(probe: Probe, key: SigningKey) -> None:
    message, other = b"message", probe.draw(*KEYS)
    signature = key.sign(message)
    for changed in (signature, signature[:-1], b"", signature[::-1], other.sign(message)):
        probe.ask("signed", key.public.has_signed, message, changed)
        probe.ask("signed", key.public.has_signed, message + b"x", changed)
    seq, digest = probe.draw(0, 5), probe.draw(*DIGESTS)
    signature_made = other.sign_head("r", seq, digest)
    head = Head(
        "r",
        seq + probe.draw(0, 0, 0, 1),
        probe.draw(digest, digest, DIGESTS[0]),
        probe.draw(signature_made, signature_made, None, b"x"),
    )
    publics = [one.public for one in KEYS[: probe.draw(0, 1, 2, 3)]]
    probe.note(head_message("r", seq, digest), signature_made)
    for run, signed_head in (("r", head), ("s", head), ("r", None)):
        probe.ask("signer", signer_of, run, signed_head, publics)


# -- receipts ----------------------------------------------------------------------------------------------------------


def _receipt(probe: Probe) -> Receipt:
    run, key = probe.draw("r", "é", ""), probe.draw(None, *KEYS)
    seq, digest, trace = probe.draw(0, 1, 2, 3, 4, LARGEST), probe.draw(*DIGESTS), probe.draw(*DIGESTS)
    return Receipt.give(run, seq, digest, probe.draw(*STATUSES), trace, key)


def receipts(probe: Probe) -> None:
    """Give receipts, write and read them, and read changed ones."""
    for _ in range(4):
        receipt = _receipt(probe)
        text = receipt.to_json()
        probe.note(receipt, text, receipt.message())
        probe.ask("read", Receipt.from_json, text)
        found = [one.public for one in KEYS[probe.draw(0, 1) : probe.draw(1, 2, 3)]]
        probe.ask("signer", receipt.signer, found)
        probe.ask("signer", replace(receipt, seq=receipt.seq + 1).signer, found)
        probe.ask("signer", replace(receipt, key=KEYS[0].id).signer, [key.public for key in KEYS])
        for _ in range(4):
            probe.ask("read", Receipt.from_json, _changed(probe, text))


def _changed(probe: Probe, text: str) -> str:
    """Return a JSON text with a change of a field, or of the text."""
    data = json.loads(text)
    name = probe.chance.choice(sorted(data))
    match probe.draw(0, 1, 2, 3, 4, 5, 6, 7):
        case 0:
            del data[name]
        case 1:
            data[probe.draw("x", "y" * 50)] = 1
        case 2:
            return probe.draw(
                "", "[]", "null", "1", text[:-1], text + " x", "{}", '{"v":1}', "[" * 10**5, text[:-1] + ',"v":1}'
            )
        case 3:
            return json.dumps(dict(reversed(data.items())), indent=2)
        case 4:
            data["v"] = probe.draw(0, 2, True, "1", 1.0, None)
        case 5:
            data["seq"] = probe.draw(-1, LARGEST, LARGEST + 1, True, 1.0, "1", None)
        case _:
            data[name] = probe.draw(*ODD)
    return json.dumps(data)


# -- what is kept ------------------------------------------------------------------------------------------------------


def kept(probe: Probe) -> None:
    """Keep something of runs, write and read it, read changed texts, and hold it against receipts."""
    for _ in range(3):
        digests = DIGESTS[: probe.draw(1, 2, 4)]
        pruned = Pruned(
            "r", "p", "d", probe.draw(*STATUSES), probe.draw(*DIGESTS[:2]), digests, 5, 6, probe.draw(None, "ann")
        )
        pruned = pruned.signed(probe.draw(None, *KEYS))
        text = pruned.to_bytes()
        probe.note(pruned, pruned.head, text, pruned.message())
        probe.ask("read", Pruned.from_bytes, text)
        publics = [one.public for one in KEYS[: probe.draw(0, 1, 2)]]
        probe.ask("signer", pruned.signer, publics)
        receipts = [_of(probe, pruned) for _ in range(probe.draw(0, 1, 3))]
        for one in receipts:
            probe.ask("misfit", pruned.misfit, one)
        probe.ask("verify", verify_pruned, probe.draw("r", "r", "s"), text, publics, receipts)
        for _ in range(4):
            changed = _rewritten(probe, text)
            probe.ask("read", Pruned.from_bytes, changed)
            found = probe.quietly("verify", partial(verify_pruned, "r", changed, publics, receipts))
            probe.note(found and (found.faults, found.records, found.signed_by, found.receipts))
        _keep(probe, pruned)


def _of(probe: Probe, pruned: Pruned) -> Receipt:
    """Return a receipt of a pruned run, mostly a right one."""
    seq = probe.chance.randrange(len(pruned.digests) + 1)
    digest = (*pruned.digests, DIGESTS[3])[seq]
    status, trace = probe.draw(
        (pruned.status, pruned.trace), (pruned.status, DIGESTS[3]), (probe.draw(*STATUSES), pruned.trace)
    )
    return Receipt.give("r", seq, probe.draw(digest, digest, digest, DIGESTS[2]), status, trace)


def _rewritten(probe: Probe, text: bytes) -> bytes:
    if probe.some(0.2):
        return probe.draw(b"", b"[]", b"{}", text[:-1], text + b" ", b"\xff", text.replace(b":", b": ", 1))
    data = json.loads(text)
    name = probe.chance.choice(sorted(data))
    if probe.some(0.2):
        del data[name]
    else:
        data[name] = probe.draw(*ODD[:5], *ODD[6:-1], [7], ["00"])
    try:
        return canonical(data).encode()
    except ValueError:
        return json.dumps(data).encode()


def _keep(probe: Probe, pruned: Pruned) -> None:
    """Prune a run of a store, and read what is kept of it."""
    store = MemoryJournal()
    entries = [Entry(seq, b"", digest) for seq, digest in enumerate(pruned.digests)]
    store.create(Append("r", -1, entries, pruned.status, 0.0, False), "p", "ann", 1.0)
    probe.ask("kept", partial(kept_of, store, "r"))
    store.prune(pruned.head, probe.draw(pruned.to_bytes(), b"x"))
    probe.ask("kept", partial(kept_of, store, "r"))
