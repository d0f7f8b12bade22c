"""Search, exhaustive: whatever is done to a small journal, verification says so, and says where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from journals import (
    KEY,
    POLICY,
    PROGRAM,
    STRANGER,
    Damage,
    Shelf,
    chained,
    content,
    cuts,
    flipped,
    flips,
    forged_heads,
    head_flips,
    head_of,
    moves,
    rewrites,
    shelf,
    written,
)
from sizes import size
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.records import NO_DIGEST, Record, document_digest
from stepward.vm.journal.store import Entry, Head
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import verify, verify_all

RUN = "run-1"
GOOD = written(RUN)
OTHER = written("run-2", 10)
LAST = GOOD.head.seq
KEYS = [KEY.public]


def receipt(seq: int, key: Any = None) -> Receipt:
    return Receipt.give(RUN, seq, GOOD.entries[seq].digest, "RUNNING", bytes(32), key)


def faults(damage: Damage, **how: Any) -> tuple[Fault, ...]:
    return verify(shelf(RUN, damage.entries, damage.head), RUN, **how).faults


def assert_found(damage: Damage) -> Fault:
    with_key = faults(damage, keys=KEYS)
    assert with_key, f"{damage.name}: nobody noticed"
    assert with_key[0].seq == damage.seq, f"{damage.name}: {with_key}"
    without = faults(damage)
    if damage.keyless is None:
        assert not without, f"{damage.name}: found without a key, so the table of damages is wrong: {without}"
    else:
        assert without, f"{damage.name}: nobody noticed without a key"
        assert without[0].seq == damage.keyless, f"{damage.name}: {without}"
    return with_key[0]


def test_what_was_written_is_intact() -> None:
    verdict = verify(
        shelf(RUN, *GOOD), RUN, keys=[STRANGER.public, *KEYS], receipts=[receipt(s, KEY) for s in range(8)]
    )
    assert verdict.is_intact, verdict.faults
    assert (verdict.records, verdict.signed_by, verdict.receipts) == (8, KEY.id, 8)
    assert verify(shelf(RUN, *GOOD), RUN).signed_by is None


def test_a_bit_of_every_byte_counts() -> None:
    for seq in range(8):
        for damage in flips(GOOD, seq, stride=8):
            what = f"record {seq}" if "record" in damage.name else f"the stored digest of record {seq}"
            assert str(assert_found(damage)).startswith(f"{what} was changed")


@pytest.mark.slow
@pytest.mark.parametrize("seq", range(8))
def test_the_bits_of_every_record_and_digest_count(seq: int) -> None:
    for damage in flips(GOOD, seq, stride=size(33, 1)):
        assert_found(damage)


def test_every_bit_of_the_stored_head_counts() -> None:
    for damage in head_flips(GOOD):
        assert_found(damage)


def test_no_record_can_be_dropped_repeated_swapped_or_inserted() -> None:
    for damage in moves(GOOD, OTHER):
        assert_found(damage)


def test_a_cut_tail_shows_by_the_head_or_by_its_signature() -> None:
    for damage in cuts(GOOD):
        assert_found(damage)


def test_rewriting_shows_by_what_was_not_rewritten_or_by_the_signature() -> None:
    for damage in rewrites(GOOD, OTHER, RUN):
        assert_found(damage)


def test_a_broken_link_names_both_of_its_records_once() -> None:
    changed = chained([("passed", {"x": 1}, {})], 3, GOOD.entries[2].digest)
    for entry, what in [
        (changed[0], "record 3 is not the one that record 4 was written after"),
        (OTHER.entries[3], "record 3 was not written after the record 2 that is here"),
    ]:
        entries = [*GOOD.entries[:3], entry, *GOOD.entries[4:]]
        found = verify(shelf(RUN, entries, GOOD.head), RUN, keys=KEYS).faults
        assert [(fault.seq, str(fault)) for fault in found] == [(3, what)]


def test_every_forged_head_shows() -> None:
    for damage in forged_heads(GOOD, OTHER, RUN):
        assert_found(damage)


def test_a_head_without_signature_is_told_from_one_with_another() -> None:
    for signature, what in [(None, "has no signature"), (b"x", "is signed by none of the given keys")]:
        (fault,) = verify(shelf(RUN, GOOD.entries, GOOD.head._replace(signature=signature)), RUN, keys=KEYS).faults
        assert (fault.seq, str(fault)) == (7, f"the stored head {what}")
    assert str(verify(shelf(RUN, GOOD.entries, None), RUN, keys=KEYS).faults[1]) == "the stored head has no signature"


def test_records_behind_the_stored_head_show() -> None:
    (fault,) = verify(shelf(RUN, GOOD.entries, head_of(RUN, GOOD.entries[:5])), RUN, keys=KEYS).faults
    assert (fault.seq, str(fault)) == (5, "record 5 is after the stored head")


def test_of_two_receipts_for_one_record_one_is_of_a_fork() -> None:
    fork = Receipt.give(RUN, 4, bytes(32), "RUNNING", bytes(32), KEY)
    verdict = verify(shelf(RUN, *GOOD), RUN, keys=KEYS, receipts=[receipt(4, KEY), fork])
    assert [str(fault) for fault in verdict.faults] == [
        "record 4 is not the one that a receipt was given for: one of the records 0 to 4 was rewritten"
    ]
    assert verdict.receipts == 1


# -- receipts -------------------------------------------------------------------------------------------------------


def test_a_receipt_shows_a_cut_tail_whose_head_was_rewritten() -> None:
    for length in range(1, 8):
        entries = GOOD.entries[:length]
        for head in (head_of(RUN, entries, None), head_of(RUN, entries)):
            # The second is what a thief of the key can do, and what the owner can.
            store = shelf(RUN, entries, head)
            assert verify(store, RUN).is_intact
            (fault,) = verify(store, RUN, receipts=[receipt(LAST, KEY)]).faults
            assert fault.seq == length
            assert (
                str(fault) == f"there was a record 7, according to a receipt, but the run ends with record {length - 1}"
            )


def test_a_receipt_shows_a_run_that_is_gone() -> None:
    store = shelf(RUN, [], None)
    assert [str(fault) for fault in verify(store, RUN).faults] == ["there is no run `run-1`"]
    (verdict,) = verify_all(store, receipts=[receipt(3)])
    assert [str(fault) for fault in verdict.faults] == [
        "there is no run `run-1`",
        "there was a record 3, according to a receipt, but the store has no records of the run",
    ]


def test_receipts_narrow_down_where_a_run_was_written_anew() -> None:
    for start in range(8):
        whole = content(RUN)
        kind, body, note = whole[start]
        prev = GOOD.entries[start - 1].digest if start else NO_DIGEST
        entries = [*GOOD.entries[:start], *chained([(kind, body | {"x": 1}, note), *whole[start + 1 :]], start, prev)]
        store = shelf(RUN, entries, head_of(RUN, entries))
        assert verify(store, RUN, keys=KEYS).is_intact, "a fork by the owner of the key is signed as well as any"
        found = verify(store, RUN, keys=KEYS, receipts=[receipt(seq, KEY) for seq in range(8)]).faults
        assert [fault.seq for fault in found] == list(range(start, 8))
        assert str(found[0]).endswith(f": record {start} was rewritten")
        last = verify(store, RUN, receipts=[receipt(LAST)]).faults[0]
        assert str(last).endswith("one of the records 0 to 7 was rewritten")


def test_a_receipt_tells_which_side_of_a_graft_is_the_wrong_one() -> None:
    for start in range(1, 8):
        entries = [*GOOD.entries[:start], *OTHER.entries[start:8]]
        store = shelf(RUN, entries, head_of(RUN, entries, None))
        assert verify(store, RUN).faults[0].seq == start - 1
        found = verify(store, RUN, receipts=[receipt(start - 1)]).faults
        assert [str(fault) for fault in found] == [
            f"record {start} was not written after the record {start - 1} that is here"
        ]


def test_a_receipt_vouches_for_its_own_record_and_those_before_it() -> None:
    for seq in range(1, 7):
        altered = chained([("passed", {"x": 1}, {})], seq, GOOD.entries[seq - 1].digest)
        entries = [*GOOD.entries[:seq], *altered, *GOOD.entries[seq + 1 :]]
        for head in (GOOD.head, GOOD.head._replace(signature=None)):
            for known in set(range(8)) - {seq}:
                found = verify(shelf(RUN, entries, head), RUN, receipts=[receipt(known)]).faults
                assert [fault.seq for fault in found] == [seq]


def test_a_receipt_of_a_missing_record_says_so() -> None:
    entries = [*GOOD.entries[:3], *GOOD.entries[4:]]
    found = verify(shelf(RUN, entries, GOOD.head), RUN, receipts=[receipt(3)]).faults
    assert [str(fault) for fault in found] == [
        "record 3 is missing",
        "record 3, for which there is a receipt, is missing",
    ]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (receipt(4), "has no signature"),
        (receipt(4, STRANGER), "is signed by none of the given keys"),
        (Receipt(RUN, 4, b"x" * 32, "RUNNING", bytes(32), KEY.id, bytes(64)), "is signed by none of the given keys"),
    ],
)
def test_with_keys_a_receipt_has_to_be_signed(given: Receipt, what: str) -> None:
    (fault,) = verify(shelf(RUN, *GOOD), RUN, keys=KEYS, receipts=[given]).faults
    assert (fault.seq, str(fault)) == (4, f"the receipt for record 4 {what}")


def test_a_receipt_of_another_run_proves_nothing_here() -> None:
    other = Receipt.give("run-2", 4, OTHER.entries[4].digest, "RUNNING", bytes(32))
    verdict = verify(shelf(RUN, *GOOD), RUN, receipts=[other])
    assert [(fault.seq, str(fault)) for fault in verdict.faults] == [
        (None, "the receipt for record 4 is for the run `run-2`, not for `run-1`")
    ]
    assert verdict.receipts == 0


# -- stores that are not what they should be ------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"record": "text"}, {"digest": None}, {"digest": 7}, {"record": 1.5}])
def test_an_entry_of_other_types_is_a_fault_and_no_crash(change: dict[str, Any]) -> None:
    entries = [*GOOD.entries[:3], GOOD.entries[3]._replace(**change), *GOOD.entries[4:]]
    found = verify(shelf(RUN, entries, GOOD.head), RUN, keys=KEYS).faults
    assert {fault.seq for fault in found} == {3}
    assert str(found[0]) == "entry `3` is not kept as an entry is"


@pytest.mark.parametrize("change", [{"seq": "7"}, {"digest": "text"}, {"digest": None}, {"signature": "text"}])
def test_a_head_of_other_types_is_a_fault_and_no_crash(change: dict[str, Any]) -> None:
    found = verify(shelf(RUN, GOOD.entries, GOOD.head._replace(**change)), RUN, keys=KEYS).faults
    assert {fault.seq for fault in found} == {7}


@pytest.mark.parametrize(("seq", "where"), [("3", None), (-1, -1), (2**70, 3)])
def test_a_number_that_is_none_is_a_fault_and_no_crash(seq: Any, where: int | None) -> None:
    entries = [*GOOD.entries[:3], GOOD.entries[3]._replace(seq=seq), *GOOD.entries[4:]]
    assert verify(shelf(RUN, entries, GOOD.head), RUN).faults[0].seq == where


def test_entries_that_a_store_returns_out_of_order_are_a_fault() -> None:
    entries = GOOD.entries
    for shuffled in ([entries[1], entries[0], *entries[2:]], [*entries[:4], entries[2], *entries[4:]]):
        assert verify(shelf(RUN, shuffled, GOOD.head), RUN).faults
    verdict = verify(shelf(RUN, [*entries[:4], OTHER.entries[3], *entries[4:]], GOOD.head), RUN)
    assert [(fault.seq, str(fault)) for fault in verdict.faults] == [(3, "record 3 is there twice")]
    assert verdict.records == 8
    verdict = verify(shelf(RUN, [entries[0]._replace(seq=-1), *entries], GOOD.head), RUN)
    assert [(fault.seq, str(fault)) for fault in verdict.faults] == [(-1, "record -1 is out of its place")]
    assert verdict.records == 8


def test_a_gap_is_told_from_its_first_record_to_its_last() -> None:
    (fault,) = verify(shelf(RUN, [*GOOD.entries[:3], *GOOD.entries[6:]], GOOD.head), RUN).faults
    assert (fault.seq, str(fault)) == (3, "records 3 to 5 are missing")
    (fault,) = verify(shelf(RUN, GOOD.entries[:6], GOOD.head), RUN).faults
    assert (fault.seq, str(fault)) == (6, "records 6 to 7 are missing: the stored head names a later one")


@pytest.mark.parametrize(
    ("heads", "entries", "records", "seqs"),
    [
        ([head_of(RUN, GOOD.entries[:4]), GOOD.head], GOOD.entries, 4, []),
        ([head_of(RUN, GOOD.entries[:4]), head_of(RUN, GOOD.entries[:4])], GOOD.entries, 8, [4]),
        ([GOOD.head, head_of(RUN, GOOD.entries[:4])], GOOD.entries, 8, []),
        ([GOOD.head, None], GOOD.entries, 8, []),
        ([None, GOOD.head], GOOD.entries, 8, [7]),
        ([head_of(RUN, GOOD.entries[:4]), GOOD.head], [*GOOD.entries, Entry("x", b"", b"")], 4, [None]),  # type: ignore[arg-type]
    ],
)
def test_a_run_that_goes_on_while_it_is_read_is_no_fault(
    heads: list[Head | None], entries: list[Entry], records: int, seqs: list[int | None]
) -> None:
    class Growing(Shelf):
        def head(self, run: str) -> Head | None:
            return to_come.pop(0)

    to_come = list(heads)
    verdict = verify(Growing({RUN: entries}), RUN)
    assert ([fault.seq for fault in verdict.faults], verdict.records) == (seqs, records)


def test_all_runs_of_a_store_are_verified_and_those_that_receipts_speak_of() -> None:
    store = shelf(RUN, *GOOD)
    store.entries["run-2"], store.heads["run-2"] = OTHER.entries[:-1], OTHER.head
    gone = Receipt.give("run-3", 0, bytes(32), "RUNNING", bytes(32))
    verdicts = list(verify_all(store, receipts=[gone, receipt(3)]))
    assert [(verdict.run, verdict.is_intact, verdict.receipts) for verdict in verdicts] == [
        ("run-1", True, 1),
        ("run-2", False, 0),
        ("run-3", False, 0),
    ]


@pytest.mark.parametrize("text", [PROGRAM, None, PROGRAM + b"\n"])
def test_a_document_that_runs_share_is_read_once_and_its_damage_is_a_fault_of_each(text: bytes | None) -> None:
    class Counting(Shelf):
        def document(self, digest: str) -> Any:
            asked.append(digest)
            return super().document(digest)

    asked: list[str] = []
    runs = {f"run-{number}": written(f"run-{number}") for number in range(5)}
    store = Counting({run: one.entries for run, one in runs.items()}, {run: one.head for run, one in runs.items()})
    store.documents[document_digest(PROGRAM)] = text
    found = [[fault.seq for fault in verdict.faults] for verdict in verify_all(store)]
    assert found == [[] if text == PROGRAM else [0]] * 5
    assert len(asked) == len(set(asked))
    asked.clear()
    list(verify_all(store))
    assert asked, "another verification reads it again"


def test_the_replay_is_asked_only_of_an_unbroken_chain() -> None:
    asked: list[int] = []

    def replay(entries: Sequence[Entry], records: Sequence[Record]) -> list[Fault]:
        assert [record.seq for record in records] == [entry.seq for entry in entries]
        asked.append(len(entries))
        return [Fault(RUN, 5, "the branch is not the one that its condition takes", "look at it")]

    assert [fault.seq for fault in verify(shelf(RUN, *GOOD), RUN, replay=replay).faults] == [5]
    assert verify(shelf(RUN, GOOD.entries[:-1], GOOD.head), RUN, replay=replay).faults[0].seq == 7
    assert not verify(shelf(RUN, [], None), RUN, replay=replay).is_intact
    assert asked == [8]


def test_faults_behind_the_first_are_told_as_well() -> None:
    damaged = list(GOOD.entries)
    damaged[2] = damaged[2]._replace(record=flipped(damaged[2].record, 400))
    damaged[5] = damaged[5]._replace(digest=flipped(damaged[5].digest, 0))
    store = shelf(RUN, damaged[:7], GOOD.head)
    store.documents.clear()
    assert [(fault.seq, str(fault)) for fault in verify(store, RUN).faults] == [
        (2, "record 2 was changed: its stored digest does not match"),
        (5, "the stored digest of record 5 was changed; the record itself was not"),
        (7, "record 7 is missing: the stored head names a later one"),
        (0, f"the program `{document_digest(PROGRAM)}`, which record 0 names, is missing"),
        (0, f"the policy `{document_digest(POLICY)}`, which record 0 names, is missing"),
    ]
