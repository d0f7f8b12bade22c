"""Tables of verdicts: each kind of damage in each place, with keys and receipts; copies and new keys, twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple

from stepward.sabotage.recorded.stores.chains import DOCUMENTS, KEYS, DamagedStore
from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.sabotage.stores.forging import chained
from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.pruning import Pruned, kept_of, verify_pruned
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import NO_DIGEST, write_record
from stepward.vm.journal.rotation import sign_anew
from stepward.vm.journal.sealing import seal
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Append, Entry, Head, Journal, Row
from stepward.vm.journal.verify import verify, verify_all

# -- runs --------------------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A sound run, its secrets, the status with which it is in its store, and its key."""

    run: str
    entries: list[Entry]
    secrets: dict[str, bytes]
    status: str = "SUCCESS"
    key: SigningKey | None = KEYS[0]
    is_pruned: bool = False

    def head(self) -> Head:
        """Return the head."""
        last = self.entries[-1]
        signature = None if self.key is None else self.key.sign_head(self.run, last.seq, last.digest)
        return Head(self.run, last.seq, last.digest, signature)

    def receipt(self, seq: int = -1, key: SigningKey | None = None, status: str = "SUCCESS") -> Receipt:
        """Return a receipt for a record."""
        entry = self.entries[seq]
        return Receipt.give(self.run, entry.seq, entry.digest, status, NO_DIGEST, key or self.key)

    def pruned(self) -> Pruned:
        """Return what is kept of it."""
        digests = tuple(one.digest for one in self.entries)
        unsigned = Pruned(self.run, "p", DOCUMENTS[0][0], self.status, NO_DIGEST, digests, 7_000_000, 9_000_000)
        return unsigned.signed(self.key)

    def store(self, journal: Journal) -> Journal:
        """Put it into a store."""
        for digest, text in DOCUMENTS:
            journal.put_document(digest, text)
        append = Append(self.run, -1, self.entries, self.status, 5.0, False, self.head().signature, 3.0)
        journal.create(append, "p", "ann", 0.0)
        if self.secrets:
            journal.vault.put(self.run, self.secrets)
        if self.is_pruned:
            journal.prune(self.head(), self.pruned().to_bytes())
            journal.vault.erase(self.run)
        return journal


def sample(run: str, kinds: str, **more: Any) -> Sample:
    """Return a sound run of an attempt for each letter: one with a secret for `s`, an erasure for `e`."""
    found = Sample(run, [], {}, **more)
    bodies: list[tuple[str, Any]] = [("started", {"program": DOCUMENTS[0][0], "policies": [DOCUMENTS[1][0]]})]
    for number, letter in enumerate(kinds):
        if letter == "s":
            sealed, secret = seal(f"secret {number}", lambda count, number=number: bytes([number]) * count)  # type: ignore[misc]
            found.secrets[sealed.reference] = secret
            bodies.append(("attempt", {"step": "s", "output": sealed}))
        elif letter == "e":
            bodies.append(("erased", {"references": sorted(found.secrets)}))
            found.secrets.clear()
        else:
            bodies.append(("attempt", {"step": letter, "output": number}))
    for seq, (kind, body) in enumerate(bodies):
        prev, note = found.entries[-1].digest if seq else NO_DIGEST, {} if seq else {"run": run}
        text, note_text = canonical(portable(body)), canonical(note)
        found.entries.append(write_record(seq, prev, kind, text, note_text, 10**6 * (seq + 5)))
    return found


# -- damage ------------------------------------------------------------------------------------------------------------

Change = Callable[[DamagedStore, Sample, int], None]


def _with(change: Callable[[list[Entry], int], None]) -> Change:
    def changed(damaged: DamagedStore, example: Sample, at: int) -> None:
        change(damaged.entries[example.run], at)

    return changed


def _replaced(entries: list[Entry], at: int, **parts: Any) -> None:
    entries[at] = entries[at]._replace(**parts)


def _rewritten(entries: list[Entry], at: int, rest: int) -> None:
    """Write a record anew, and chain the next `rest` ones again."""
    data = [json.loads(entry.record) for entry in entries[at:]]
    data[0]["at"] += 1
    before = entries[at - 1].digest if at else NO_DIGEST
    entries[at : at + 1 + rest] = chained(data[: 1 + rest], at, before)


def _swapped(entries: list[Entry], at: int) -> None:
    other = at - 1 if at else at + 1
    entries[at], entries[other] = entries[other], entries[at]


def _dropped(entries: list[Entry], at: int) -> None:
    del entries[at]


def _cut(entries: list[Entry], at: int) -> None:
    del entries[at + 1 :]


IN_PLACES: Final[dict[str, Change]] = {
    "none": lambda damaged, example, at: None,  # noqa: ARG005
    "dropped": _with(_dropped),
    "twice": _with(lambda entries, at: entries.insert(at, entries[at])),
    "swapped": _with(_swapped),
    "cut": _with(_cut),
    "byte": _with(lambda entries, at: _replaced(entries, at, record=entries[at].record.replace(b'"at":', b'"at":1'))),
    "no record": _with(lambda entries, at: _replaced(entries, at, record=b"")),
    "digest": _with(lambda entries, at: _replaced(entries, at, digest=bytes(32))),
    "number": _with(lambda entries, at: _replaced(entries, at, seq=at + 1)),
    "no number": _with(lambda entries, at: _replaced(entries, at, seq=None)),
    "one anew": _with(lambda entries, at: _rewritten(entries, at, 0)),
    "two anew": _with(lambda entries, at: _rewritten(entries, at, 1)),
    "all anew": _with(lambda entries, at: _rewritten(entries, at, 9)),
}


def _headed(**parts: Any) -> Change:
    def changed(damaged: DamagedStore, example: Sample, _: int) -> None:
        damaged.heads[example.run] = [example.head()._replace(**parts)]

    return changed


def _no_head(damaged: DamagedStore, example: Sample, _: int) -> None:
    damaged.heads[example.run] = [None]


def _nothing(damaged: DamagedStore, example: Sample, _: int) -> None:
    damaged.heads[example.run], damaged.entries[example.run] = [None], []


def _other_head(damaged: DamagedStore, example: Sample, _: int) -> None:
    damaged.heads[example.run] = [example._replace(key=KEYS[1]).head()]


def _document(at: int, text: Any) -> Change:
    def changed(damaged: DamagedStore, _made: Sample, _: int) -> None:
        damaged.texts[DOCUMENTS[at][0]] = text

    return changed


def _lost(values: Any) -> Change:
    def changed(damaged: DamagedStore, example: Sample, _: int) -> None:
        known = dict(example.secrets)
        for name in sorted(known)[:1]:
            known |= {"changed": {name: b"x"}, "more": {"00": b"1"}}.get(values, {})
            if values == "less":
                del known[name]
        damaged.lost = None if values is None else known

    return changed


def _rowed(line: Row | None) -> Change:
    def changed(damaged: DamagedStore, example: Sample, _: int) -> None:
        damaged.lines[example.run] = line

    return changed


ONCE: Final[dict[str, Change]] = {
    "head before": _headed(seq=1),
    "head behind": _headed(seq=9),
    "head digest": _headed(digest=bytes(32)),
    "head run": _headed(run="another"),
    "no signature": _headed(signature=None),
    "bad signature": _headed(signature=bytes(64)),
    "empty signature": _headed(signature=b""),
    "other head": _other_head,
    "no head": _no_head,
    "nothing": _nothing,
    "no program": _document(0, None),
    "no policy": _document(1, None),
    "program": _document(0, b"other"),
    "policy": _document(1, b"other"),
    "locked": _lost(None),
    "less": _lost("less"),
    "changed": _lost("changed"),
    "more": _lost("more"),
    "row": _rowed(Row.read(("r", 5, "s", 0, 0.0, 0.0, 0.0))),
    "no row": _rowed(None),
}


def _receipts(example: Sample) -> list[list[Receipt]]:
    last, first, middle = example.receipt(), example.receipt(0), example.receipt(len(example.entries) // 2)
    wrong = replace(last, digest=bytes(32))
    late = Receipt.give(example.run, 9, bytes(32), "SUCCESS", NO_DIGEST, example.key)
    other = Receipt.give("another", 0, last.digest, "SUCCESS", NO_DIGEST, example.key)
    plain = replace(last, key=None, signature=None)
    singles = [[one] for one in (last, first, middle, wrong, late, other, plain, example.receipt(-1, KEYS[1]))]
    return [[], *singles, [first, last], [last, first], [middle, wrong], [wrong, late, other]]


_KEYS: Final = ((), KEYS[:1], KEYS[1:2], (KEYS[1], KEYS[0]))


def _show_verdict(name: str, at: int, keys: int, kinds: str) -> Any:
    example = sample("r", kinds)
    damaged = DamagedStore(example.store(MemoryJournal()))
    damaged.entries["r"], damaged.heads["r"] = list(example.entries), [example.head()]
    change = IN_PLACES.get(name) or ONCE[name]
    change(damaged, example, len(example.entries) // 2 if at == 1 else at)
    found: list[Any] = []
    keys_given = [key.public for key in _KEYS[keys]]
    for receipts in _receipts(example) if kinds == "asb" else _receipts(example)[:2]:
        verdict = outcome(lambda receipts=receipts: verify(damaged, "r", keys=keys_given, receipts=receipts))  # type: ignore[misc]
        found += [verdict, getattr(verdict, "is_intact", None)]
    return found


def _verdicts() -> Iterator[tuple[Any, ...]]:
    yield from product(IN_PLACES, (0, 1, -1), range(2), ("asb",))
    yield from product(ONCE, (0,), range(4), ("asb",))
    yield from product(ONCE, (0,), (1,), ("", "sse", "ss", "e"))
    yield from product(IN_PLACES, (0, -1), (1,), ("a",))


def _show_stores(order: Any, keys: int, known: int) -> Any:
    """Verify a store with several runs, some pruned, with receipts of them and of one that is gone."""
    journal = MemoryJournal()
    runs = [sample(f"r{at}", kinds, is_pruned=is_pruned) for at, (kinds, is_pruned) in enumerate(order)]
    for one in runs:
        one.store(journal)
    receipts = [one.receipt() for one in runs] + [Receipt.give("gone", 0, bytes(32), "SUCCESS", NO_DIGEST, KEYS[0])]
    keys_given = [key.public for key in _KEYS[keys]]
    return list(verify_all(journal, keys=keys_given, receipts=receipts[:known] + receipts[-1:] * (known > 1)))


def _stores() -> Iterator[tuple[Any, ...]]:
    runs = (("a", False), ("s", True), ("", False))
    yield from product(product(runs, repeat=3), (0, 1, 2), (0, 1, 3))


# -- pruned runs -------------------------------------------------------------------------------------------------------


def _show_misfit(seq: int, status: str, ended: str, trace: int, digest: Any) -> Any:
    example = sample("r", "ab", status=ended)
    pruned = example.pruned()
    right = example.entries[seq].digest if seq < len(example.entries) else bytes(32)
    receipt = Receipt("r", seq, digest or right, status, bytes([trace]) * 32)
    return pruned.misfit(receipt), verify_pruned("r", pruned.to_bytes(), [], [receipt, receipt])


def _misfits() -> Iterator[tuple[Any, ...]]:
    statuses = ("SUCCESS", "RUNNING", "SUSPENDED", "IN_DOUBT", "FAILED", "CANCELLED")
    yield from product(range(4), statuses, ("SUCCESS", "FAILED"), (0, 1), (None, b"\x01" * 32))


_ODD: Final[tuple[Any, ...]] = (None, 0, 1, -1, True, 2**53, "", "x", "ab" * 32, "ab" * 64, "AB" * 32, [], ["ab" * 32])


def _show_kept(field: str, value: Any, keys: int) -> Any:
    data = json.loads(sample("r", "ab").pruned().to_bytes())
    data[field] = value
    text = canonical(data).encode() if field != "text" else value
    journal = MemoryJournal()
    sample("r", "ab", is_pruned=True).store(journal)
    journal.prune(sample("r", "ab").head(), text)
    keys_given = [key.public for key in _KEYS[keys]]
    return (
        verify_pruned("r", text, keys_given, []),
        outcome(lambda: kept_of(journal, "r")),
        verify(journal, "r", keys=keys_given),
    )


def _kept() -> Iterator[tuple[Any, ...]]:
    fields = ("at", "by", "digests", "ended", "key", "name", "program", "run", "signature", "status", "trace", "v", "z")
    yield from product(fields, _ODD, (0, 1))
    yield from product(("text",), (b"", b"{}", b"[]", b"null", b"x"), (0, 1))


def _show_receipt(field: str, value: Any, is_signed: Any) -> Any:
    example = sample("r", "a", key=KEYS[0] if is_signed else None).receipt()
    data = json.loads(example.to_json())
    if field == "without":
        del data[value]
    else:
        data[field] = value
    found = outcome(lambda: Receipt.from_json(json.dumps(data)))
    return found, outcome(lambda: (found.to_json(), found.signer([key.public for key in KEYS])))


def _of_receipts() -> Iterator[tuple[Any, ...]]:
    fields = ("digest", "key", "run", "seq", "signature", "status", "trace", "v")
    yield from product((*fields, "z"), _ODD, (False, True))
    yield from product(("without",), fields, (False, True))


# -- copies ------------------------------------------------------------------------------------------------------------

_COPIED: Final[dict[str, Sample]] = {
    "one": sample("r", ""),
    "some": sample("r", "ab", status="RUNNING"),
    "plain": sample("r", "a", key=None),
    "secret": sample("r", "asb"),
    "erased": sample("r", "ase"),
    "pruned": sample("r", "ab", is_pruned=True),
    "pruned plain": sample("r", "as", is_pruned=True, key=None),
}
_THERE: Final = ("none", "first", "all", "other", "more", "signed", "pruned", "pruned other", "erased", "values")


def _have(target: MemoryJournal, example: Sample, what: str) -> None:
    match what:
        case "first":
            append = Append("r", -1, example.entries[:1], "RUNNING", 1.0, True)
            target.create(append, "p", "x", 0.0)
        case "all":
            example._replace(is_pruned=False).store(target)
        case "other":
            sample("r", "zz").store(target)
        case "more":
            example._replace(
                is_pruned=False, entries=[*example.entries, Entry(len(example.entries), b"x", bytes(32))]
            ).store(target)
        case "signed":
            example._replace(is_pruned=False, key=KEYS[1]).store(target)
        case "pruned":
            example._replace(is_pruned=True).store(target)
        case "pruned other":
            sample("r", "zz", is_pruned=True).store(target)
        case "erased":
            target.vault.erase("r")
        case "values":
            target.vault.put("r", {"00": b"old"})


def _shown(store: MemoryJournal) -> Any:
    known = [(store.head(run), store.read(run), store.row(run), store.kept(run)) for run in ("q", "r", "s")]
    order = list(store.names()), list(store.pruned()), [store.due(time) for time in (0.0, 6.9, 7.0, 99.0)]
    return known, order, [store.vault.get(run) for run in ("q", "r", "s")], len(store._documents)


def _show_copies(kind: str, there: str) -> Any:
    """Copy three times; before the third, the run goes on, or is pruned if it had ended."""
    example, source, target, found = _COPIED[kind], MemoryJournal(), MemoryJournal(), []
    sample("q", "s").store(source)
    example.store(source)
    sample("s", "a").store(source)
    _have(target, example, there)
    for number in range(3):
        found += [outcome(lambda: list(copy_runs(source, target, lambda *_: 7.0))), _shown(target)]
        if number == 1 and example.status == "RUNNING":
            longer = sample("r", "abc")
            source.append(Append("r", 2, longer.entries[3:], "SUCCESS", 8.0, True, longer.head().signature), None)
        elif number == 1 and not example.is_pruned:
            source.prune(example.head(), example.pruned().to_bytes())
            source.vault.erase("r")
    return found


def _show_damaged(name: str, at: int, there: str) -> Any:
    """Copy a store whose second run is damaged."""
    example, source, target = sample("r", "asb"), MemoryJournal(), MemoryJournal()
    for one in (sample("q", "a"), example, sample("s", "")):
        one.store(source)
    damaged = DamagedStore(source)
    damaged.entries["r"], damaged.heads["r"] = list(example.entries), [example.head()]
    (IN_PLACES.get(name) or ONCE[name])(damaged, example, at)
    damaged.frozen = lambda: _Still(damaged)  # type: ignore[method-assign]
    _have(target, example, there)
    return [outcome(lambda: list(copy_runs(damaged, target, lambda *_: None))) for _ in range(2)], _shown(target)


class _Still:
    def __init__(self, store: Journal) -> None:
        self.store = store

    def __enter__(self) -> Journal:
        return self.store

    def __exit__(self, *_: object) -> None:
        pass


def _damages() -> Iterator[tuple[Any, ...]]:
    yield from product(IN_PLACES, (0, 1, -1), ("none", "first"))
    yield from product(ONCE, (0,), ("none", "first", "all"))


def _show_rotation(kinds: Sequence[str], keys: int, changes: str) -> Any:
    """Sign a store anew twice, with a new key and with another."""
    store, found = MemoryJournal(), []
    for at, kind in enumerate(kinds):
        example = sample(f"r{at}", "a", key={"n": None, "0": KEYS[0], "1": KEYS[1]}[kind[0]], is_pruned="p" in kind)
        example.store(store)
    damaged = DamagedStore(store)
    if changes:
        ONCE[changes](damaged, sample("r0", "a"), 0)
    keys_given = [key.public for key in _KEYS[keys]]
    for key in (KEYS[2], KEYS[2], KEYS[1]):
        found.append(outcome(lambda key=key: list(sign_anew(damaged, key, keys_given))))  # type: ignore[misc]
        found.append([(store.head(f"r{at}"), store.kept(f"r{at}")) for at in range(len(kinds))])
    return found


def _rotations() -> Iterator[tuple[Any, ...]]:
    kinds = ("n", "0", "1", "np", "0p", "1p")
    yield from product(product(kinds, repeat=2), range(4), ("",))
    yield from product((("0", "0"),), (0, 1), ONCE)


TABLES: Final = (
    Table("verdicts", _verdicts, _show_verdict),
    Table("stores", _stores, _show_stores),
    Table("misfits", _misfits, _show_misfit),
    Table("kept", _kept, _show_kept),
    Table("receipts", _of_receipts, _show_receipt),
    Table("copies", lambda: product(_COPIED, _THERE), _show_copies),
    Table("damaged", _damages, _show_damaged),
    Table("rotations", _rotations, _show_rotation),
)
