"""The page about the journal: its example is computed again, and a verifier written from it alone agrees with ours."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain as chain_of
from itertools import count, islice
from os import urandom
from pathlib import Path
from typing import Final

import pytest

from journals import (
    KEY,
    POLICY,
    PROGRAM,
    STRANGER,
    Damage,
    Written,
    chained,
    content,
    cuts,
    flips,
    head_flips,
    head_of,
    rewrites,
    structural,
    written,
)
from paths import ROOT, SUPPORT
from sizes import size
from stepward.vm.journal import records
from stepward.vm.journal.canonical import canonical, read_canonical
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import document_digest, extend_trace, head_message, write_record
from stepward.vm.journal.sealing import commitment, seal, unsealer
from stepward.vm.journal.signing import SigningKey, VerifyKey
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Append, Entry
from stepward.vm.journal.verify import verify
from stepward.vm.language.program import Program
from stepward.vm.machine.events import Kind

PAGE: Final = (ROOT / "specs/journal.md").read_text(encoding="utf-8")
BLOCKS: Final = dict(re.findall(r"^```text (.+?)\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL))
SCRIPT: Final = SUPPORT / "standalone_verifier.py"

# -- the worked example ---------------------------------------------------------------------------------------------


def block(name: str) -> bytes:
    """Return a block of the page as the bytes that it stands for."""
    text = BLOCKS[name]
    return bytes.fromhex(text) if re.fullmatch("[0-9a-f]+", text) else text.encode()


def tagged(tag: str, *parts: bytes) -> bytes:
    return sha256(f"stepward.{tag}.1\n".encode() + b"".join(parts)).digest()


def example() -> list[Entry]:
    return [Entry(seq, block(f"record {seq}"), block(f"digest {seq}")) for seq in range(4)]


def test_every_byte_of_the_example_follows_from_the_page() -> None:
    """With hashlib and the words of the page only."""
    assert tagged("document", block("document")) == block("document digest")
    assert tagged("sensitive-value", block("vault value")) == block("commitment")
    assert block("vault value")[16:] == b'"DE02 1203 0000 0000 2020 51"'
    prev = bytes(32)
    bodies = []
    for seq in range(4):
        record = json.loads(block(f"record {seq}"))
        assert (record["seq"], record["prev"], record["v"]) == (seq, prev.hex(), 1)
        prev = tagged("record", block(f"record {seq}"))
        assert prev == block(f"digest {seq}")
        bodies.append(canonical(record["body"]).encode())
    hidden = re.sub(rb'"#v[0-9a-f]{16}:[0-9a-f]{64}"', b'"#v"', bodies[0])
    first = tagged("trace", bytes(32), b"started\n", hidden)
    assert first == block("trace 0")
    assert tagged("trace", first, b"attempt\n", bodies[2]) == block("trace 2")
    assert sha256(block("public key")).hexdigest()[:16] == BLOCKS["key id"]


def test_the_code_says_what_the_example_says() -> None:
    entries = example()
    for entry in entries:
        data = read_canonical(entry.record)
        text, note = canonical(data["body"]), canonical(data["note"])
        again = write_record(entry.seq, bytes.fromhex(data["prev"]), data["kind"], text, note, data["at"])
        assert again == entry
    assert document_digest(block("document")) == BLOCKS["document digest"]
    assert commitment(block("vault value")) == BLOCKS["commitment"]
    hidden = re.sub('"#v[^"]+"', '"#v"', canonical(json.loads(entries[0].record)["body"]))
    assert extend_trace(bytes(32), "started", hidden) == block("trace 0")
    key = SigningKey.from_seed(bytes(range(32)))
    last = entries[-1].digest
    assert key.id == BLOCKS["key id"]
    assert head_message("run-1", 3, last) == block("head message")
    assert key.sign_head("run-1", 3, last) == block("head signature")
    assert Receipt.give("run-1", 3, last, "SUCCESS", block("trace 2"), key).to_json() == BLOCKS["receipt"]
    sealed = unsealer({"0123456789abcdef": block("vault value")}, ())("0123456789abcdef", BLOCKS["commitment"])
    assert sealed.value == "DE02 1203 0000 0000 2020 51"
    intent = json.loads(entries[1].record)
    name = {"performance": 1, "program": BLOCKS["document digest"], "run": "run-1", "step": "send", "visit": 1}
    assert intent["note"]["key"] == tagged("idempotency-key", canonical(name).encode()).hex()


def test_the_example_is_a_run_of_its_program() -> None:
    from stepward.vm.machine.history import load, stored_plan

    journal = kept_in_memory()
    run = load(journal, "run-1", lambda *names: stored_plan(journal, *names))
    assert run is not None
    assert (run.state.status, run.state.trace) == ("SUCCESS", block("trace 2"))
    assert Program.from_dict(json.loads(block("document"))).name == "pay"


def kept_in_memory() -> MemoryJournal:
    journal = MemoryJournal()
    journal.put_document(BLOCKS["document digest"], block("document"))
    append = Append("run-1", -1, example(), "SUCCESS", 0.0, True, block("head signature"))
    journal.create(append, BLOCKS["document digest"], "test", 1.0)
    return journal


def test_the_example_verifies() -> None:
    receipt = Receipt.from_json(BLOCKS["receipt"])
    verdict = verify(kept_in_memory(), "run-1", keys=[KEY.public], receipts=[receipt])
    assert verdict.is_intact, verdict.faults
    assert (verdict.records, verdict.signed_by, verdict.receipts) == (4, BLOCKS["key id"], 1)


def test_the_page_names_every_tag_and_every_kind() -> None:
    tags = {value.decode()[:-1] for name, value in vars(records).items() if name.endswith("_TAG")}
    assert set(re.findall(r"`(stepward\.[a-z-]+\.1)`", PAGE)) == tags
    section = PAGE.split("## Record kinds")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", section, re.MULTILINE) == list(Kind.__args__)


# -- a verifier that was written from the page ----------------------------------------------------------------------


def test_the_verifier_shares_nothing_with_ours() -> None:
    source = SCRIPT.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 150
    modules = [node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    modules += [
        name.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for name in node.names
    ]
    assert {str(module).split(".")[0] for module in modules} - {"cryptography"} <= sys.stdlib_module_names


class File:
    """A journal in a SQLite file, written row by row, so that anything can be wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.db"
        self.runs: list[str] = []
        journal = SQLiteJournal(self.path)
        for text in (PROGRAM, POLICY):
            journal.put_document(document_digest(text), text)
        journal.close()

    def put(self, damages: Iterable[tuple[str, Damage]]) -> File:
        """Add damaged runs by their names."""
        connection = sqlite3.connect(self.path)
        for run, damage in damages:
            self.runs.append(run)
            rows = [(run, *entry) for entry in damage.entries]
            connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
            if damage.head is not None:
                connection.execute(
                    "INSERT INTO runs (run, program, status, seq, digest, signature, started, updated, holder, fence,"
                    " expires) VALUES (?, '', '', ?, ?, ?, 0, 0, '', 1, 0)",
                    (run, *damage.head[1:]),
                )
        connection.commit()
        connection.close()
        return self

    def edit(self, *statements: str) -> File:
        """Change the file behind the back of the store; a name with `vault.` is a table of the vault."""
        connection = sqlite3.connect(self.path)
        connection.execute("ATTACH ? AS vault", (f"{self.path}.vault",))
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return self

    def assert_agreement(self, key: VerifyKey | None = None, receipts: Sequence[Receipt] = ()) -> dict[str, int | None]:
        """Verify every run twice, hold the verdicts against each other, and return where the first faults are."""
        theirs = self._theirs(key, receipts)
        first: dict[str, int | None] = {}
        journal = SQLiteJournal(self.path)
        for run in self.runs:
            mine = [receipt for receipt in receipts if receipt.run == run]
            ours = verify(journal, run, keys=[key] if key else [], receipts=mine).faults
            what = f"{run}: we say {list(map(str, ours))}, they say {theirs[run]}"
            assert bool(ours) == bool(theirs[run]), what
            if ours:
                seq = first[run] = ours[0].seq
                assert seq is None or any(low <= seq <= high for low, high, _ in theirs[run]), what
        journal.close()
        return first

    def _theirs(self, key: VerifyKey | None, receipts: Sequence[Receipt]) -> dict[str, list[tuple[int, int, str]]]:
        options = []
        if key:
            pem = self.path.with_suffix(".pem")
            pem.write_bytes(key.pem())
            options += ["--key", str(pem)]
        for number, receipt in enumerate(receipts):
            file = self.path.with_suffix(f".{number}.json")
            file.write_text(receipt.to_json(), encoding="utf-8")
            options += ["--receipt", str(file)]
        # Isolated: nothing of this folder or its environment can be imported by accident.
        command = [sys.executable, "-I", str(SCRIPT), *options, str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {line["run"]: line["faults"] for line in map(json.loads, done.stdout.splitlines())}


OTHER: Final = written("other", 10)
Maker = Callable[[Written, str], Iterator[Damage]]


def each(make: Maker, step: int = 1) -> Iterator[tuple[str, Damage]]:
    """Yield every damage once, or every third one, each in a run of its own name."""
    for number in count(0, step):
        name = f"run-{number}"
        damage = next(islice(make(written(name), name), number, None), None)
        if damage is None:
            return
        yield name, damage


DAMAGES: Final[dict[str, Maker]] = {
    "structural": lambda run, name: structural(run, OTHER, name),
    "head": lambda run, _: head_flips(run),
    "first": lambda run, _: flips(run, 0, stride=8),
    "middle": lambda run, _: flips(run, 4, stride=8),
    "last": lambda run, _: flips(run, 7, stride=8),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGES)
def test_both_verifiers_agree_on_every_damage(kind: str, tmp_path: Path) -> None:
    # By day one in nine of the flipped bits, and one in four of the other damages.
    step = size(4 if kind == "structural" else 9, 1)
    # In a table the name of a head's run is that of its row.
    damages = {name: damage for name, damage in each(DAMAGES[kind], step) if not damage.head or damage.head.run == name}
    file = File(tmp_path).put(damages.items())
    assert file.assert_agreement(KEY.public) == {name: damage.seq for name, damage in damages.items()}
    keyless = {name: damage.keyless for name, damage in damages.items() if damage.keyless is not None}
    assert file.assert_agreement() == keyless


def good(name: str) -> Damage:
    """Return a run that is as it was written."""
    return Damage("none", *written(name), 0, None)


def test_both_verifiers_agree_on_what_is_good(tmp_path: Path) -> None:
    file = File(tmp_path).put((f"rün-{number}", good(f"rün-{number}")) for number in range(20))
    receipts = [
        Receipt.give("rün-3", seq, written("rün-3").entries[seq].digest, "RUNNING", bytes(32), KEY) for seq in (0, 4, 7)
    ]
    assert file.assert_agreement(KEY.public, receipts) == {}
    assert file.assert_agreement() == {}
    assert file.assert_agreement(STRANGER.public) == {f"rün-{number}": 7 for number in range(20)}


def test_both_verifiers_agree_on_receipts(tmp_path: Path) -> None:
    damages = dict(each(lambda run, name: chain_of(cuts(run), rewrites(run, OTHER, name))))
    gone = Damage("all of it", [], None, 0, None)
    file = File(tmp_path).put([*damages.items(), ("gone", gone)])
    receipts = [Receipt.give("gone", 0, bytes(32), "RUNNING", bytes(32))]
    for number, name in enumerate(damages):
        seq, key = (0, 3, 7)[number % 3], (KEY, None, STRANGER)[number // 3 % 3]
        receipts.append(Receipt.give(name, seq, written(name).entries[seq].digest, "RUNNING", bytes(32), key))
    # A receipt for the last record shows every one of these damages.
    assert {"gone", *list(damages)[2::3]} <= set(file.assert_agreement(None, receipts))
    assert set(file.assert_agreement(KEY.public, receipts)) == set(file.runs)


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("SELECT 1", None),
        ("DELETE FROM documents", 0),
        ("UPDATE documents SET text = text || x'20'", 0),
        ("DELETE FROM vault.secrets", 2),
        ("DELETE FROM vault.secrets WHERE reference = 'token:a:1:1'", None),
        ("UPDATE vault.secrets SET value = x'00'", 2),
        ("INSERT INTO vault.secrets VALUES ('run-1', '{erased}', x'00')", 7),
        ("UPDATE records SET run = 'run-2' WHERE seq = 3", 3),
        ("UPDATE records SET record = replace(record, 's', 't') WHERE seq = 4", 4),
        ("UPDATE runs SET signature = NULL", 7),
    ],
)
def test_both_verifiers_agree_on_edited_files(statement: str, seq: int | None, tmp_path: Path) -> None:
    (there, secret), (erased, _) = seal("Ada", urandom), seal(12, urandom)
    whole = content("run-1")
    whole[2] = ("assigned", {"values": {"a": there, "b": [erased]}}, {})
    whole[7] = ("erased", {"references": [erased.reference]}, {})
    entries = chained(whole)
    file = File(tmp_path).put([("run-1", Damage("none", entries, head_of("run-1", entries), 0, None))])
    journal = SQLiteJournal(file.path)
    journal.vault.put("run-1", {there.reference: secret, "token:a:1:1": b"secret"})
    journal.close()
    file.edit(statement.replace("{erased}", erased.reference))
    assert file.assert_agreement(KEY.public) == ({} if seq is None else {"run-1": seq})
