"""Fast: what records, documents and the vault hold has to be what the page about the journal says."""

from __future__ import annotations

from decimal import Decimal
from os import urandom

import pytest

from journals import KEY, POLICY, PROGRAM, Shelf, chained, content, flipped, head_of, shelf, written
from stepward.vm.journal.records import NO_DIGEST, digest_of, document_digest, write_record
from stepward.vm.journal.sealing import commitment, seal
from stepward.vm.journal.store import Entry
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import verify
from stepward.vm.values import FrozenMap

RUN = "run-1"
GOOD = written(RUN)
KEYS = [KEY.public]

# -- what records say -----------------------------------------------------------------------------------------------


def rewritten(seq: int, body: str, note: str = "{}", kind: str = "passed") -> list[Entry]:
    """Put another record in a place and chain everything behind it anew, so that only the content is wrong."""
    prev = GOOD.entries[seq - 1].digest if seq else NO_DIGEST
    entry = write_record(seq, prev, kind, body, note, 0)
    return [*GOOD.entries[:seq], entry, *chained(content(RUN)[seq + 1 :], seq + 1, entry.digest)]


def first_fault(entries: list[Entry]) -> Fault:
    return verify(shelf(RUN, entries, head_of(RUN, entries)), RUN, keys=KEYS).faults[0]


@pytest.mark.parametrize(
    "body",
    [
        '{"b":1,"a":2}',
        '{"a": 1}',
        '{"a":1,"a":1}',
        '{"\uffff":1,"\U00010000":1}',
        '{"a":"\\u0041"}',
        '{"a":"\\ud800"}',
        '{"a":1.0}',
        '{"a":1e2}',
        '{"a":-0}',
        '{"a":NaN}',
        '{"a":9007199254740992}',
        '{"a":' + "9" * 5000 + "}",
        '{"a":"#q"}',
        '{"a":"#"}',
        '{"a":"#n"}',
        '{"a":"#n12"}',
        '{"a":"#n1.50"}',
        '{"a":"#n 1.5"}',
        '{"a":"#n1e3"}',
        '{"a":"#nNaN"}',
        '{"a":' * 2000 + "1" + "}" * 2000,
        "[" * 9999,
        "[]",
        '"x"',
    ],
)
def test_a_record_that_was_never_written_so_is_a_fault_whoever_signed_it(body: str) -> None:
    assert first_fault(rewritten(3, body)).seq == 3


def test_tags_are_those_of_bodies_and_a_note_is_plain() -> None:
    entries = rewritten(3, '{"a":"##x"}', '{"error":"#q","key":"#v"}')
    assert verify(shelf(RUN, entries, head_of(RUN, entries)), RUN).is_intact


def test_a_record_of_a_later_version_is_not_read_as_one_of_this() -> None:
    later = GOOD.entries[3].record.replace(b'"v":1}', b'"v":10}')
    entries = [*GOOD.entries[:3], Entry(3, later, digest_of(later)), *GOOD.entries[4:]]
    assert str(first_fault(entries)) == "record 3 has version 10; this is a reader of versions 1 to 9"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":1}', b'"v":true}'),
        (b'"v":1}', b'"v":1,"w":1}'),
        (b'"seq":3', b'"seq":4'),
        (b'"seq":3', b'"seq":"3"'),
        (b'"at":17', b'"at":"",":":17'),
        (b'"kind":"passed"', b'"kind":null'),
        (b'"note":{"ms":1}', b'"note":[]'),
        (b'"prev":"', b'"prev":"00'),
    ],
)
def test_a_record_of_another_layout_is_none(old: bytes, new: bytes) -> None:
    good = GOOD.entries[3].record
    assert old in good.replace(b'"ms":2', b'"ms":1')
    bad = good.replace(b'"ms":2', b'"ms":1').replace(old, new)
    entries = [*GOOD.entries[:3], Entry(3, bad, digest_of(bad)), *GOOD.entries[4:]]
    assert first_fault(entries).seq == 3


@pytest.mark.parametrize(
    ("kind", "note", "what"),
    [
        ("passed", '{"run":"run-1"}', "record 0 is not the beginning of a run"),
        ("started", '{"run":"run-2"}', "record 0 is the beginning of another run, not of `run-1`"),
        ("started", "{}", "record 0 is the beginning of another run, not of `run-1`"),
    ],
)
def test_the_first_record_says_whose_beginning_it_is(kind: str, note: str, what: str) -> None:
    assert str(first_fault(rewritten(0, "{}", note, kind))) == what


def test_a_first_record_has_nothing_before_it() -> None:
    kind, body, note = content(RUN)[0]
    entries = chained([(kind, body, note), *content(RUN)[1:]], 0, b"\1" * 32)
    assert str(first_fault(entries)) == "record 0 is not the beginning of a run"


# -- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "what"), [(PROGRAM, "program"), (POLICY, "policy")])
def test_a_document_that_is_missing_or_changed_is_a_fault(text: bytes, what: str) -> None:
    digest = document_digest(text)
    store = shelf(RUN, *GOOD)
    for bit in range(len(text) * 8):
        store.documents[digest] = flipped(text, bit)
        (fault,) = verify(store, RUN).faults
        assert (fault.seq, str(fault)) == (0, f"the {what} `{digest}`, which record 0 names, was changed")
    for odd in ("text", 7):
        store.documents[digest] = odd
        assert str(verify(store, RUN).faults[0]).endswith("was changed")
    del store.documents[digest]
    (fault,) = verify(store, RUN).faults
    assert str(fault) == f"the {what} `{digest}`, which record 0 names, is missing"


@pytest.mark.parametrize("body", ["{}", '{"policies":{},"program":""}', '{"policies":[]}'])
def test_the_first_record_names_its_documents(body: str) -> None:
    fault = first_fault(rewritten(0, body, '{"run":"run-1"}', "started"))
    assert (fault.seq, str(fault)) == (0, "record 0 does not name its program and its policies")


@pytest.mark.parametrize(("digest", "shown"), [("7", "7"), ('["x"]', "['x']"), ("{}", "{}")])
def test_a_digest_that_is_no_text_names_no_document(digest: str, shown: str) -> None:
    body = f'{{"policies":[{digest}],"program":"{document_digest(PROGRAM)}"}}'
    fault = first_fault(rewritten(0, body, '{"run":"run-1"}', "started"))
    assert str(fault) == f"the policy `{shown}`, which record 0 names, is missing"


# -- sensitive values -----------------------------------------------------------------------------------------------


def sensitive() -> tuple[Shelf, list[str]]:
    """Return a store with three sensitive values in a run; the last record erases the second of them."""
    sealed, secrets = zip(
        *(seal(value, urandom) for value in ("Ada", Decimal("1.50"), FrozenMap(iban="#é😀"))), strict=True
    )
    whole = content(RUN)
    whole[2] = ("assigned", {"values": {"a": sealed[0], "b": (sealed[1],)}}, {})
    whole[4] = ("attempt", {"output": {"deep": [sealed[2]]}}, {})
    references = [value.reference for value in sealed]
    entries = chained([*whole, ("erased", {"references": [references[1]]}, {})])
    store = shelf(RUN, entries, head_of(RUN, entries))
    store.vault.put(RUN, {references[0]: secrets[0], references[2]: secrets[2], "token:wait:1:1": b"no value"})
    return store, references


def test_a_value_is_in_the_vault_or_erased() -> None:
    store, _ = sensitive()
    assert verify(store, RUN, keys=KEYS).is_intact


def test_every_bit_of_the_vault_counts() -> None:
    store, (_, _, third) = sensitive()
    secret = store.vault.get(RUN)[third]
    for bit in range(len(secret) * 8):
        store.vault.put(RUN, {third: flipped(secret, bit)})
        (fault,) = verify(store, RUN).faults
        assert fault.seq == 4
    assert str(fault).startswith(f"the sensitive value `{third}` in the vault is not the one that was put there, ")


def test_a_value_that_is_neither_there_nor_erased_is_a_fault() -> None:
    store, (first, _, third) = sensitive()
    store.vault.erase(RUN)
    assert [(fault.seq, str(fault).split(",")[0]) for fault in verify(store, RUN).faults] == [
        (2, f"the sensitive value `{first}` is neither in the vault nor erased"),
        (4, f"the sensitive value `{third}` is neither in the vault nor erased"),
    ]


def test_values_that_changed_places_are_a_fault() -> None:
    store, (first, _, third) = sensitive()
    secrets = store.vault.get(RUN)
    store.vault.put(RUN, {first: secrets[third], third: secrets[first]})
    assert [fault.seq for fault in verify(store, RUN).faults] == [2, 4]


def test_what_was_erased_is_not_there_any_more() -> None:
    store, (_, second, _) = sensitive()
    store.vault.put(RUN, {second: b"anything"})
    (fault,) = verify(store, RUN).faults
    assert (fault.seq, fault.help) == (8, "erase the run again")


def test_what_was_erased_is_looked_for_though_no_record_names_it() -> None:
    entries = rewritten(7, '{"references":["ab"]}', kind="erased")
    store = shelf(RUN, entries, head_of(RUN, entries))
    assert verify(store, RUN).is_intact
    store.vault.put(RUN, {"ab": b"put there before a crash"})
    assert [fault.seq for fault in verify(store, RUN).faults] == [7]


def test_a_run_without_sensitive_values_needs_no_vault() -> None:
    store = shelf(RUN, *GOOD)
    del store.vault
    assert verify(store, RUN).is_intact


def test_a_value_that_is_no_canonical_text_is_a_fault() -> None:
    secret = bytes(16) + b'{"b":1, "a":1}'
    entries = rewritten(3, f'{{"a":"#v{"0" * 16}:{commitment(secret)}"}}')
    store = shelf(RUN, entries, head_of(RUN, entries))
    store.vault.put(RUN, {"0" * 16: secret})
    (fault,) = verify(store, RUN).faults
    assert (fault.seq, str(fault)) == (
        3,
        f"the sensitive value `{'0' * 16}` can't be read: this JSON is not written the canonical way",
    )


@pytest.mark.parametrize("body", ["{}", '{"references":"x"}', '{"references":[1]}'])
def test_an_erasure_that_names_nothing_is_a_fault(body: str) -> None:
    fault = first_fault(rewritten(7, body, kind="erased"))
    assert (fault.seq, str(fault)) == (7, "record 7 does not name what was erased")
