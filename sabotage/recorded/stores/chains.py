"""Scenes of verification: runs that are sound or changed in some places, with keys, receipts, documents and values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.sabotage.stores.forging import chained
from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.journal.chain import Anchor, check_chain, read_together
from stepward.vm.journal.encryption import TAG, ValuesLost
from stepward.vm.journal.memory import MemoryJournal, MemoryVault
from stepward.vm.journal.pruning import Pruned
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import NO_DIGEST, Record, document_digest, version_of, write_record
from stepward.vm.journal.sealing import commitment, seal
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Append, Entry, Head, Journal, Row, Vault
from stepward.vm.journal.through import ThroughJournal
from stepward.vm.journal.verdict import Fault, Verdict
from stepward.vm.journal.verify import verify, verify_all

KEYS: Final = tuple(SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
DOCUMENTS: Final = tuple((document_digest(text), text) for text in (b"program", b"policy", b"second"))
KINDS: Final = ("attempt", "governed", "opened", "waiting", "expired", "intent")


class DamagedStore(ThroughJournal):
    """A store that says something else of its runs than it has, as a damaged one may."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner)
        self.entries: dict[str, list[Any]] = {}
        self.heads: dict[str, list[Any]] = {}
        """What is told of a head: the last one again and again."""
        self.lines: dict[str, Row | None] = {}
        self.texts: dict[str, Any] = {}
        self.reads = 0
        """How often a document was read."""
        self.lost: Any = False
        """The values that the vault tells of each run; None if it can't open them."""

    @property
    def vault(self) -> Vault:
        """The vault, as it is told."""
        return super().vault if self.lost is False else _Lost(self.lost)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries as they are told."""
        return list(self.entries[run][start:]) if run in self.entries else super().read(run, start)

    def head(self, run: str) -> Head | None:
        """Return the head as it is told now."""
        if run not in self.heads:
            return super().head(run)
        heads = self.heads[run]
        head: Head | None = heads.pop(0) if len(heads) > 1 else heads[0]
        return head

    def row(self, run: str) -> Row | None:
        """Return the row as it is told."""
        return self.lines[run] if run in self.lines else super().row(run)

    def document(self, digest: str) -> bytes | None:
        """Return a document as it is told."""
        self.reads += 1
        return self.texts[digest] if digest in self.texts else super().document(digest)


class _Lost(MemoryVault):
    """A vault without its keys, or with other values."""

    def __init__(self, values: dict[str, bytes] | None) -> None:
        super().__init__()
        self._values = values

    def get(self, run: str) -> dict[str, bytes]:
        if self._values is None:
            raise ValuesLost(f"the values of run `{run}` can't be read")
        return dict(self._values)


# -- sound runs --------------------------------------------------------------------------------------------------------


class SampleRun:
    """A sound run: its entries, and its secrets by reference; `erased` are those that a record says are erased."""

    def __init__(self, probe: Probe, run: str, count: int) -> None:
        self.run = run
        self.entries: list[Entry] = []
        self.secrets: dict[str, bytes] = {}
        self.erased: list[str] = []
        self.key = probe.draw(None, *KEYS[:2])
        for seq in range(count):
            kind, body, note = self._record(probe, seq)
            self.add(kind, body, note, 10**6 * (seq + 5))

    def add(self, kind: str, body: Any, note: Any, at: int) -> None:
        """Add a record."""
        prev = self.entries[-1].digest if self.entries else NO_DIGEST
        version = version_of(kind, body, note)
        record = write_record(
            len(self.entries), prev, kind, canonical(portable(body)), canonical(portable(note)), at, version
        )
        self.entries.append(record)

    def _record(self, probe: Probe, seq: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
        body: dict[str, Any]
        note: dict[str, Any]
        if seq == 0:
            body = {"program": DOCUMENTS[0][0], "policies": [DOCUMENTS[1][0]], "inputs": {}}
            if probe.some(0.2):
                body["continues"] = probe.draw({"run": "before"}, {"run": 5}, "before", {})
            if probe.some(0.1):
                body["turn"] = {"said": "x"}
            note = {"run": self.run, **probe.draw({}, {"by": "ann"}, {"due": 5})}
            return "started", body | probe.draw({}, {"inputs": {"card": self._sealed(probe)}}), note
        if self.secrets and probe.some(0.2):
            self.erased = sorted(self.secrets)
            return "erased", {"references": self.erased}, {}
        kind = probe.draw(*KINDS, "moved")
        body = {
            "step": probe.draw("a", "#x", "é\U0001f600"),
            "output": probe.draw(1, 2**60, None, ["x"], {"b": 1, "a": 2}),
        }
        if kind in ("governed", "moved"):
            body |= {"policies": [DOCUMENTS[2][0]], **({"program": DOCUMENTS[0][0]} if kind == "moved" else {})}
        if probe.some(0.3):
            body["output"] = {"of": [self._sealed(probe)]}
        if probe.some(0.1):
            body["frame"] = [["each", 1, 1, 0]]
        return kind, body, probe.draw({}, {"due": 7}, {"tokens": 3}, {"time": 9})

    def _sealed(self, probe: Probe) -> Any:
        sealed, secret = seal(probe.draw("secret", 7, None, "#1"), probe.chance.randbytes)
        if probe.some(0.05):
            secret = secret[:16] + probe.draw(b'"#q"', b"x", b'"#v1:2"')
            sealed = sealed._replace(commitment=commitment(secret))
        self.secrets[sealed.reference] = secret
        return sealed

    def signature(self) -> bytes | None:
        """Return the signature of its head."""
        last = self.entries[-1]
        return None if self.key is None else self.key.sign_head(self.run, last.seq, last.digest)

    def head(self) -> Head:
        """Return its head."""
        last = self.entries[-1]
        return Head(self.run, last.seq, last.digest, self.signature())

    def store(self, journal: Journal, status: str = "SUCCESS") -> None:
        """Put it into a store."""
        for digest, text in DOCUMENTS:
            journal.put_document(digest, text)
        append = Append(self.run, -1, self.entries, status, 5.0, False, self.signature(), 3.0)
        journal.create(append, "p", "ann", 0.0)
        secrets = {name: secret for name, secret in self.secrets.items() if name not in self.erased}
        if secrets:
            journal.vault.put(self.run, secrets)
        elif self.erased:
            journal.vault.erase(self.run)

    def receipt(self, probe: Probe) -> Receipt:
        """Return a receipt of one of its records, mostly a right one."""
        entry, run, key = probe.chance.choice(self.entries), self.run, self.key
        seq, digest = entry.seq, entry.digest
        match probe.draw(0, 1, 2, 3, 4, 5, 6, 7, 8, 9):
            case 0:
                seq += probe.draw(1, 2, -1)
            case 1:
                digest = bytes(32)
            case 2:
                run = "another"
            case 3:
                key = probe.draw(KEYS[2], None)
        return Receipt.give(run, seq, digest, probe.draw("SUCCESS", "RUNNING"), NO_DIGEST, key)


def chains(probe: Probe) -> None:
    """Verify runs that are sound, and changed in one or two places."""
    for number in range(3):
        sample = SampleRun(probe, f"r{number}", probe.draw(1, 2, 3, 5, 6, 8))
        journal = MemoryJournal()
        sample.store(journal)
        damaged = DamagedStore(journal)
        damaged.entries[sample.run], damaged.heads[sample.run] = list(sample.entries), [sample.head()]
        for entry in sample.entries:
            probe.note(entry)
        receipts = [sample.receipt(probe) for _ in range(probe.draw(0, 1, 2, 3))]
        keys = [key.public for key in KEYS[: probe.draw(0, 0, 0, 1, 2)]]
        for _ in range(probe.draw(0, 1, 1, 1, 2)):
            change = probe.chance.choice(_CHANGES)
            probe.note(change.__name__)
            change(probe, damaged, sample)
        probe.note("together", read_together(damaged, sample.run))
        replay = probe.draw(None, _replayed)
        _show(probe, partial(verify, damaged, sample.run, keys=keys, receipts=receipts, replay=replay))
        _check(probe, damaged, sample, receipts)


def _replayed(entries: Sequence[Entry], records: Sequence[Record]) -> list[Fault]:
    return [Fault("r", record.seq, f"replayed {record.kind} of {len(entries)}") for record in records[:1]]


def _show(probe: Probe, work: Callable[[], Verdict]) -> None:
    found = probe.quietly("verify", work)
    if found is not None:
        probe.note(found, found.is_intact, [str(fault) for fault in found.faults])


def _check(probe: Probe, damaged: DamagedStore, sample: SampleRun, receipts: Sequence[Receipt]) -> None:
    """Check the chain alone."""
    head = damaged.head(sample.run)
    anchors = [Anchor(one.seq, one.digest) for one in receipts]
    readable = head is None or (type(head.seq) is int and type(head.digest) is bytes)
    chain = probe.quietly(
        "chain",
        lambda: check_chain(
            sample.run, damaged.read(sample.run), head if readable else None, anchors, is_head_forged=probe.some(0.5)
        ),
    )
    if chain is not None:
        probe.note(chain.faults, chain.last, chain.digests, sorted(chain.records), chain.sealed)


def many(probe: Probe) -> None:
    """Verify all runs of a store, of which some were pruned, with receipts of some, and of some that are gone."""
    journal, receipts = MemoryJournal(), []
    for number in range(probe.draw(1, 2, 3)):
        sample = SampleRun(probe, f"r{number}", probe.draw(1, 3))
        sample.store(journal)
        receipts += [sample.receipt(probe) for _ in range(probe.draw(0, 1, 2))]
        if probe.some(0.4):
            prune(probe, journal, sample)
    if probe.some(0.5):
        receipts.append(Receipt.give("gone", 0, bytes(32), "SUCCESS", bytes(32), probe.draw(None, KEYS[0])))
    keys = [key.public for key in KEYS[: probe.draw(0, 1, 2)]]
    damaged = DamagedStore(journal)
    if probe.some(0.3):
        damaged.texts[DOCUMENTS[probe.draw(0, 1, 2)][0]] = probe.draw(None, b"other", "text")
    replay = probe.draw(None, lambda run, own: lambda entries, _: [Fault(run, None, f"{len(own)} {len(entries)}")])
    for verdict in verify_all(damaged, keys=keys, receipts=receipts, replay=replay):
        probe.note(verdict, damaged.reads)


def prune(probe: Probe, journal: Journal, sample: SampleRun) -> Pruned:
    """Prune a run of a store, mostly in the right way."""
    status, by = probe.draw("SUCCESS", "FAILED"), probe.draw(None, "ann")
    digests = tuple(entry.digest for entry in sample.entries)
    pruned = Pruned(sample.run, "p", DOCUMENTS[0][0], status, NO_DIGEST, digests, 7_000_000, 9_000_000, by)
    pruned = pruned.signed(sample.key)
    text = pruned.to_bytes()
    if probe.some(0.2):
        text = probe.draw(text[:-1], text.replace(b'"r', b'"q'), b"", text.replace(b"p", b"q", 1))
    probe.ask("prune", journal.prune, sample.head(), text)
    return pruned


# -- changes -----------------------------------------------------------------------------------------------------------


def _record(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Change a byte of a record, perhaps with its digest."""
    entries = damaged.entries[sample.run]
    if not entries:
        return
    at = probe.chance.randrange(len(entries))
    old = entries[at]
    if not isinstance(old.record, bytes):
        return
    change = probe.draw((b'"at":', b'"at":1'), (b'"v":', b'"v": '), (b'"v":1', b'"v":10'), (b'"seq":', b'"seq":1'))
    change = probe.draw(
        change, change, (b"}", b""), (b'"kind"', b'"kine"'), (b"{", b"["), (b'"note":{', b'"note":{"#":"#q",')
    )
    record = old.record.replace(*change, 1)
    digest = sha256(b"stepward.record.1\n" + record).digest() if probe.some(0.5) else old.digest
    entries[at] = Entry(old.seq, record, digest)


def _body(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Write a record anew with other content; all that follow, or none, are chained again."""
    at = probe.chance.randrange(len(sample.entries))
    entries = damaged.entries[sample.run] = list(sample.entries)
    before = entries[at - 1].digest if at else NO_DIGEST
    kind, body, note, at_time = _other(probe, sample)
    prev = probe.draw(before, before, bytes(32), b"\x01" * 32)
    entries[at] = write_record(at, prev, kind, body, note, at_time, probe.draw(1, 2, 9, 10))
    if probe.some(0.4):
        rest = [json.loads(entry.record) for entry in entries[at + 1 :]]
        entries[at + 1 :] = chained(rest, at + 1, entries[at].digest)
    elif at == len(entries) - 1 and probe.some(0.6):
        damaged.heads[sample.run] = [Head(sample.run, at, entries[at].digest, None)]


def _other(probe: Probe, sample: SampleRun) -> tuple[str, str, str, int]:
    named = probe.chance.choice(sorted(sample.secrets) or ["none"])
    texts = ("{}", '{"references":5}', f'{{"references":["{named}"]}}', '{"x":"#q1"}', '{"x":"#n01"}', '{"x":1.5}')
    bodies = (
        *texts,
        f'{{"x":"#v{named}:00"}}',
        '{"x":9007199254740993}',
        '{"program":5,"policies":[]}',
        '{"b":1,"a":2}',
    )
    started = canonical({"program": DOCUMENTS[0][0], "policies": probe.draw([5], ["none"], [])})
    notes = ("{}", canonical({"run": sample.run}), '{"run":"other"}')
    return probe.draw("started", "erased", "attempt"), probe.draw(*bodies, started), probe.draw(*notes), 5


def _links(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Write some records anew, each with its own digest; those that follow name the ones of before."""
    entries = damaged.entries[sample.run] = list(sample.entries)
    for at in sorted(probe.chance.sample(range(len(entries)), min(len(entries), probe.draw(1, 2, 2, 3)))):
        kind, note = ("attempt", "{}") if at else ("started", canonical({"run": sample.run}))
        before = (sample.entries[at - 1].digest, entries[at - 1].digest) if at else (NO_DIGEST, NO_DIGEST)
        entries[at] = write_record(at, probe.draw(*before), kind, probe.draw(*_LINKED), note, 5)
    last = entries[-1]
    if probe.some(0.5):
        damaged.heads[sample.run] = [Head(sample.run, last.seq, last.digest, None)]


_LINKED: Final = (
    '{"policies":[],"program":""}', '{"policies":[],"program":""}', '{"policies":[],"program":5}',
    '{"policies":{},"program":""}', '{"references":[]}', '{"references":[5]}',
)  # fmt: skip


def _another(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Put another run in its place."""
    other = SampleRun(probe, probe.draw("other", sample.run), probe.draw(1, 3))
    damaged.entries[sample.run] = other.entries
    damaged.heads[sample.run] = [probe.draw(other.head(), other.head()._replace(run=sample.run))]


def _order(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Remove, repeat or exchange entries."""
    entries = damaged.entries[sample.run]
    at = probe.chance.randrange(len(entries)) if entries else 0
    match probe.draw(0, 1, 2, 3, 4):
        case 0:
            del entries[at : at + probe.draw(1, 1, 2)]
        case 1:
            entries[at:at] = entries[at : at + 1]
        case 2:
            entries.reverse()
        case 3:
            entries[at : at + 2] = entries[at : at + 2][::-1]
        case _:
            del entries[at:]


def _types(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Give a column of an entry a wrong type or value."""
    entries = damaged.entries[sample.run]
    if entries:
        at = probe.chance.randrange(len(entries))
        name, value = probe.draw(
            ("seq", "1"), ("seq", None), ("seq", -1), ("seq", True), ("record", "text"), ("digest", None),
            ("digest", b""), ("digest", bytes(32)), ("seq", 99), ("record", b"\xff"), ("record", b"[]"),
            ("record", b"{}"),
        )  # fmt: skip
        entries[at] = entries[at]._replace(**{name: value})


def _head(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Change the stored head."""
    head: Any = sample.head()
    early = sample.entries[probe.chance.randrange(len(sample.entries))]
    damaged.heads[sample.run] = [
        probe.draw(
            None, head._replace(seq="1"), head._replace(digest="x"), head._replace(signature="s"),
            head._replace(run="q"),
            head._replace(seq=head.seq + 1), head._replace(seq=head.seq + 3, digest=bytes(32)), head._replace(seq=-1),
            head._replace(seq=-2, digest=bytes(32)),
            head._replace(digest=bytes(32)), head._replace(signature=KEYS[2].sign(b"x")), head._replace(signature=None),
            head._replace(seq=early.seq, digest=early.digest), head._replace(seq=early.seq),
            head._replace(signature=KEYS[2].sign_head(sample.run, head.seq, head.digest)),
        )
    ]  # fmt: skip


def _grow(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Let the run grow while it is read."""
    early = sample.entries[probe.chance.randrange(len(sample.entries))]
    first = Head(sample.run, early.seq, early.digest, None)
    damaged.heads[sample.run] = [first, probe.draw(sample.head(), first, None), first]


def _line(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Damage the line in the list of runs."""
    damaged.lines[sample.run] = probe.draw(None, Row.read((sample.run, "p", 5, 1, 0.0, 0.0, 0.0)))


def _document(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Lose or change a document."""
    del sample
    damaged.texts[DOCUMENTS[probe.draw(0, 1)][0]] = probe.draw(None, b"other", "text")


def _values(probe: Probe, damaged: DamagedStore, sample: SampleRun) -> None:
    """Lose or change values of the vault."""
    inner = damaged.inner
    assert isinstance(inner, MemoryJournal)
    damaged.lost = probe.draw(*[False] * 7, None)
    vault: dict[str, Any] = dict(sample.secrets)
    for name in sorted(vault):
        match probe.draw(0, 1, 2, 3, 4):
            case 0:
                del vault[name]
            case 1:
                vault[name] = probe.draw(b"", bytes(40), vault[name] + b" ", "text")
            case 2:
                vault[name] = TAG + bytes(40)
    inner.vault._secrets[sample.run] = vault


_CHANGES: Final = (
    _links, _links, _links, _another, _record, _record, _body, _body, _body, _order, _order, _types, _types, _head,
    _head, _head, _grow, _line, _document, _values, _values, _values, _values,
)  # fmt: skip
