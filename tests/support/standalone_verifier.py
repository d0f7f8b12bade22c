"""Verify a journal in a SQLite file, written from specs/journal.md alone: nothing of Stepward is imported here.

Prints a line of JSON for each run, a fault being [first, last, what]: the damage is at one of these records.
"""

import argparse
import json
import re
import sqlite3
from hashlib import sha256
from pathlib import Path

FIELDS = {"at": int, "body": dict, "kind": str, "note": dict, "prev": str, "seq": int, "v": int}
LARGEST = 2**53 - 1


def digest(tag, data):
    return sha256(b"stepward." + tag.encode() + b".1\n" + data).digest() if isinstance(data, bytes) else b""


def canonical(data):
    if isinstance(data, dict):
        keys = sorted(data, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(data[key])}" for key in keys) + "}"
    if isinstance(data, list):
        return "[" + ",".join(map(canonical, data)) + "]"
    if isinstance(data, float) or (isinstance(data, int) and abs(data) > LARGEST):
        raise ValueError("a number is not exact")
    return json.dumps(data, ensure_ascii=False)


def references(value):
    """Yield reference and commitment of each sensitive value in a value, or raise ValueError for a wrong tag."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references(item)
    elif isinstance(value, str) and value.startswith("#v"):
        yield value[2:].partition(":")[::2]
    elif isinstance(value, str) and value.startswith("#") and not value.startswith("##"):
        number = re.fullmatch(r"#n-?((?:0|[1-9][0-9]*)(\.[0-9]*[1-9])?)", value)
        if not number or len(number[1].replace(".", "")) > 1000 or (not number[2] and int(number[1]) <= LARGEST):
            raise ValueError("a tag is wrong")


def read_record(raw, seq):
    record = json.loads(raw.decode())
    if canonical(record).encode() != raw or {name: type(item) for name, item in record.items()} != FIELDS:
        raise ValueError("it is not canonical, or no record")
    if record["v"] not in (1, 2, 3, 4, 5, 6, 7, 8, 9) or record["seq"] != seq:
        raise ValueError("it has another version or number")
    return record, list(references(record["body"]))


def check_chain(run, entries, head):
    """Return the records that can be read with their sensitive values, all digests, and the faults."""
    found, digests, faults, prev = {}, {}, [], bytes(32).hex()
    last = max(entries, default=-1)
    for seq in range(last + 1):
        raw, beside = entries.get(seq, (b"", None))
        digests[seq] = digest("record", raw)
        known, prev = prev, None
        try:
            if beside != digests[seq]:
                raise ValueError("it is missing, or does not have the digest beside it")
            record, _ = found[seq] = read_record(raw, seq)
        except (ValueError, AttributeError, RecursionError) as error:
            faults.append([seq, seq, str(error)])
            continue
        prev = digests[seq].hex()
        if seq == 0 and (record["kind"], record["note"].get("run"), record["prev"]) != ("started", run, known):
            faults.append([0, 0, "it is not the beginning of this run"])
        elif known not in (None, record["prev"]):
            faults.append([seq - 1, seq, "the link between the two is broken"])
    if head is None or (head[0], head[1]) not in [(last, digests.get(last)), (last, entries.get(last, "??")[1])]:
        faults.append([0 if head and head[0] <= last else last, last + 1, "the head is not the last record"])
    return found, digests, faults


def check_contents(connection, found, vault):
    """Yield the faults of the documents and sensitive values that records name."""
    body = found[0][0]["body"] if 0 in found else {}
    for name in [body["program"], *body["policies"]] if body else []:
        text = connection.execute("SELECT text FROM documents WHERE digest = ?", (name,)).fetchone()
        if text is None or digest("document", text[0]).hex() != name:
            yield [0, 0, "a document is not there as it was"]
    erased = {
        name for record, _ in found.values() if record["kind"] == "erased" for name in record["body"]["references"]
    }
    if erased & set(vault):
        yield [0, max(found), "a value was erased, and is still there"]
    for seq, (_, values) in found.items():
        for name, commitment in values:
            if name not in erased and digest("sensitive-value", vault.get(name, b"")).hex() != commitment:
                yield [seq, seq, "a sensitive value is not in the vault as it was"]


def signer(keys, tag, message, signature):
    for name, key in keys.items():
        try:
            key.verify(bytes.fromhex(signature), b"stepward." + tag.encode() + b".1\n" + canonical(message).encode())
            return name
        except (InvalidSignature, ValueError):
            pass
    return None


def check_evidence(run, digests, head, receipts, keys):
    """Yield the faults of signatures and receipts."""
    seq, beside, signature = head or (-1, b"", None)
    if keys and not signer(keys, "head", {"digest": beside.hex(), "run": run, "seq": seq}, (signature or b"").hex()):
        yield [0, len(digests), "the head is not signed"]
    for receipt in receipts:
        covered = {name: value for name, value in receipt.items() if name != "signature"}
        if keys and signer(keys, "receipt", covered, receipt["signature"] or "") != (receipt["key"] or ""):
            yield [receipt["seq"], receipt["seq"], "the receipt is not signed"]
        elif digests.get(receipt["seq"], b"").hex() != receipt["digest"]:
            yield [0, receipt["seq"], "the receipt is not on the chain"]


def main(path, keys, receipts):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    vault = sqlite3.connect(f"file:{path}.vault?mode=ro", uri=True) if Path(f"{path}.vault").exists() else None
    secrets = vault.execute("SELECT run, reference, value FROM secrets").fetchall() if vault else []
    heads = {run: rest for run, *rest in connection.execute("SELECT run, seq, digest, signature FROM runs")}
    entries = {run: {} for run in [*heads, *(receipt["run"] for receipt in receipts)]}
    for run, seq, record, beside in connection.execute("SELECT run, seq, record, digest FROM records"):
        entries.setdefault(run, {})[seq] = (record, beside)
    for run, kept in entries.items():
        found, digests, faults = check_chain(run, kept, heads.get(run))
        faults += check_evidence(run, digests, heads.get(run), [item for item in receipts if item["run"] == run], keys)
        faults += check_contents(connection, found, {name: value for owner, name, value in secrets if owner == run})
        print(json.dumps({"run": run, "faults": faults}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("journal")
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--receipt", action="append", default=[])
    given = parser.parse_args()
    if given.key:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    public = [load_pem_public_key(Path(name).read_bytes()) for name in given.key]
    named = {sha256(key.public_bytes_raw()).hexdigest()[:16]: key for key in public}
    main(given.journal, named, [json.loads(Path(name).read_text("utf-8")) for name in given.receipt])
