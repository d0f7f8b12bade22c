"""Property: records are canonical JSON that anybody can compute again, and hold every value exactly."""

from __future__ import annotations

import json
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from stepward.vm.journal import records
from stepward.vm.journal.canonical import (
    LARGEST,
    ErasedError,
    NotCanonicalError,
    Sealed,
    Secret,
    canonical,
    is_sealed,
    opened,
    portable,
    read_canonical,
    restored,
)
from stepward.vm.journal.records import (
    NO_DIGEST,
    Record,
    digest_of,
    document_digest,
    extend_trace,
    head_message,
    read_record,
    write_record,
)
from stepward.vm.journal.store import Entry, JournalError
from stepward.vm.values import FrozenMap, freeze
from strategies import exact_numbers, json_values, texts

# Either side of where the order of UTF-16 and that of code points part, and every character that JSON escapes.
edges = st.text(st.sampled_from('a#\x00\x1f\x7f"\\/\n\b\u2028\ud7ff\ue000\ufeff\uffff\U00010000\U0010ffff'), max_size=4)
words = st.one_of(edges, st.text(st.characters(codec="utf-8"), max_size=6))
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-LARGEST, LARGEST), words),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=5)),
    max_leaves=20,
)
sealed = st.builds(
    Sealed,
    st.binary(min_size=8, max_size=8).map(bytes.hex),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.none(),
    st.just(False),
)
tagged_looking = st.one_of(texts, edges).flatmap(lambda text: st.sampled_from([text, "#" + text, "#n1", "#v:", "##"]))
scalars = st.one_of(st.none(), st.booleans(), exact_numbers, tagged_looking)
values = json_values(scalars).map(freeze)


def unseal(reference: str, commitment: str) -> Sealed:
    return Sealed(reference, commitment, None)


def never(reference: str, commitment: str) -> Sealed:
    raise AssertionError("nothing is sealed here")


# -- canonical JSON -------------------------------------------------------------------------------------------------


@given(plain)
@example({"\U00010000": 1, "\uffff": 2, "\ue000": 3, "a": {"\U0010ffff": 1, "\ufeff": 2}})
@example({"a": "\U0001f600", "\uffff": ["\U00010000"]})
@example([LARGEST, -LARGEST, 0])
def test_the_text_is_that_of_rfc_8785(data: Any) -> None:
    assert canonical(data).encode() == rfc8785.dumps(data)


@given(plain)
def test_what_is_canonical_is_read_back(data: Any) -> None:
    assert repr(read_canonical(canonical(data).encode())) == repr(json.loads(canonical(data)))
    assert canonical(read_canonical(canonical(data).encode())) == canonical(data)


@given(plain, st.integers(0, 7), st.data())
def test_other_bytes_are_read_as_other_data_or_not_at_all(data: Any, bit: int, choice: st.DataObject) -> None:
    raw = bytearray(canonical(data).encode())
    place = choice.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= 1 << bit
    try:
        other = read_canonical(bytes(raw))
    except NotCanonicalError:
        return
    assert canonical(other).encode() == bytes(raw)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" 1", b"1 ", b"1.0", b"1e2", b"-0", b"01", b"NaN", b"Infinity", b"9007199254740992", b"9" * 5000),
        *(b'"\\u0041"', b'"\\/"', b'"\\u000A"', b'"\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b"\xef\xbb\xbf1"),
        b'{"b":1,"a":1}',
        b'{"a":1,"a":1}',
        b"[1, 2]",
        b"'x'",
        b"[" * 100_000,
        b'"\x7f',
        b'"\x01"',
        "1".encode("utf-16"),
    ],
)
def test_what_is_not_canonical_is_refused(raw: bytes) -> None:
    with pytest.raises(NotCanonicalError):
        read_canonical(raw)


@pytest.mark.parametrize("around", ["{}", "[{}]", '{{"a":{}}}', '{{"a":"x","b":[1,{{"c":{},"d":0}}]}}'])
@pytest.mark.parametrize("beyond", [1, 2, 9 * 10**14, 10**15, 10**16, 10**17, 10**300])
def test_an_integer_beyond_the_largest_is_refused_wherever_it_stands(around: str, beyond: int) -> None:
    for sign in (1, -1):
        read_canonical(around.format(sign * LARGEST).encode())
        with pytest.raises(NotCanonicalError):
            read_canonical(around.format(sign * (LARGEST + beyond)).encode())


def test_half_a_surrogate_pair_is_no_canonical_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        canonical("\ud800")


# -- tagged strings -------------------------------------------------------------------------------------------------


@given(values)
@example(freeze(Decimal("-0.000001")))
@example(freeze({"#n1": ["#", "##", "#n1", "#v", ""]}))
@example(freeze([LARGEST, LARGEST + 1, -LARGEST - 1, 10**999, True, 1]))
def test_every_value_is_restored_exactly(value: Any) -> None:
    text = canonical(portable(value))
    back = restored(read_canonical(text.encode()), never)
    # `repr` tells true from 1, and an integer from a decimal.
    assert repr(back) == repr(ordered(value))
    assert canonical(portable(back)) == text


def ordered(value: Any) -> Any:
    """Return a value with its keys in the order in which records have them."""
    if isinstance(value, dict):
        return FrozenMap((key, ordered(value[key])) for key in sorted(value, key=lambda key: key.encode("utf-16-be")))
    return tuple(map(ordered, value)) if isinstance(value, tuple) else value


@given(st.lists(st.one_of(sealed, values), max_size=4).map(tuple))
def test_sensitive_values_are_restored_as_what_stands_for_them(value: Any) -> None:
    assert restored(read_canonical(canonical(portable(value)).encode()), unseal) == value


@given(values, values)
def test_two_values_have_one_text_only_when_they_are_equal(one: Any, other: Any) -> None:
    same = canonical(portable(one)) == canonical(portable(other))
    assert same == (repr(ordered(one)) == repr(ordered(other)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "12"),
        (Decimal("0.1"), '"#n0.1"'),
        (9007199254740991, "9007199254740991"),
        (9007199254740992, '"#n9007199254740992"'),
        (-(10**30), '"#n-1000000000000000000000000000000"'),
        ("#1", '"##1"'),
        ("1#", '"1#"'),
        (Sealed("ab", "cd", "secret"), '"#vab:cd"'),
        (freeze({"#k": "#v"}), '{"#k":"##v"}'),
    ],
)
def test_what_a_value_looks_like(value: Any, text: str) -> None:
    assert canonical(portable(value)) == text


@pytest.mark.parametrize(
    "data",
    [
        *(
            "#",
            "#x",
            "#N1",
            "#n",
            "#n1",
            "#n-0",
            "#n0",
            "#n1.50",
            "#n.5",
            "#n1.",
            "#n1e-1",
            "#n1_0.5",
            "#n 0.5",
            "#n٠.٥",
        ),
        *("#nNaN", "#nInfinity", "#nsNaN", "#n+0.5", "#n0x1", "#n" + "9" * 1001, "#n1e-99999999", "#n9007199254740991"),
        *(1.5, LARGEST + 1, -LARGEST - 1, {"a": [0.0]}),
    ],
)
def test_data_that_is_written_another_way_is_refused(data: Any) -> None:
    with pytest.raises(NotCanonicalError):
        restored(data, never)


def test_data_that_is_nested_too_deep_is_refused() -> None:
    data: Any = 1
    for _ in range(100_000):
        data = [data]
    with pytest.raises(NotCanonicalError, match="nested too deep"):
        restored(data, never)


def test_what_is_sealed_can_be_opened_until_it_is_erased() -> None:
    there, gone = Sealed("a", "b", 12), Sealed("c", "d", None, is_gone=True)
    assert opened(freeze({"x": 1}) | {"y": (there,)}) == {"x": 1, "y": (12,)}
    assert opened((Secret("x"),)) == ("x",)
    assert is_sealed((1, FrozenMap(x=there)))
    assert is_sealed(Secret("x"))
    assert not is_sealed((1, FrozenMap(x=2)))
    with pytest.raises(ErasedError, match="the sensitive value `c` was erased"):
        opened((1, gone))


# -- records --------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, LARGEST), st.binary(min_size=32, max_size=32), st.dictionaries(words, plain), st.integers(0, 2**50)
)
def test_a_record_is_canonical_and_read_as_it_was_written(seq: int, prev: bytes, body: dict[str, Any], at: int) -> None:
    entry = write_record(seq, prev, "passed", canonical(body), canonical({"n": 1}), at)
    data = json.loads(entry.record)
    assert rfc8785.dumps(data) == entry.record
    assert read_canonical(entry.record) == data
    assert read_record(entry) == Record(seq, "passed", body, {"n": 1}, at, prev.hex())
    assert entry.digest == digest_of(entry.record) == sha256(b"stepward.record.1\n" + entry.record).digest()


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b"1",
        b'"at"',
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"at":1,"body":{},"kind":"x","note":{},"prev":"","seq":3}',
        b'{"at":1,"body":{},"kind":"x","note":{},"prev":"","seq":3,"v":1,"w":1}',
        b'{"at":true,"body":{},"kind":"x","note":{},"prev":"","seq":3,"v":1}',
        b'{"at":1,"body":[],"kind":"x","note":{},"prev":"","seq":3,"v":1}',
        b'{"at":1,"body":{},"kind":"x","note":{},"prev":7,"seq":3,"v":1}',
        b'{"at":1,"body":{},"kind":"x","note":{},"prev":"","seq":3,"v":true}',
        b'{"at":1,"body":{},"kind":"x","note":{},"prev":"","seq":3,"v":"1"}',
    ],
)
def test_bytes_that_are_no_record_are_refused(record: bytes) -> None:
    with pytest.raises(JournalError, match="entry 3 is no record"):
        read_record(Entry(3, record, NO_DIGEST))


def test_a_record_of_another_number_or_version_is_refused() -> None:
    entry = write_record(4, NO_DIGEST, "passed", "{}", "{}", 0)
    with pytest.raises(JournalError, match="entry 3 holds record 4"):
        read_record(entry._replace(seq=3))
    later = entry.record.replace(b'"v":1}', b'"v":10}')
    with pytest.raises(JournalError, match="record 4 has version 10; this is a reader of versions 1 to 9"):
        read_record(Entry(4, later, NO_DIGEST))


def test_no_digest_speaks_of_two_things() -> None:
    tags = [value for name, value in vars(records).items() if name.endswith("_TAG")]
    assert len(tags) == len(set(tags)) == 9
    assert all(tag.startswith(b"stepward.") and tag.endswith(b".1\n") and tag.count(b"\n") == 1 for tag in tags)
    assert document_digest(b"x") != digest_of(b"x").hex()


def test_the_head_and_the_trace_are_made_over_what_the_page_says() -> None:
    assert (
        head_message("rün", 3, NO_DIGEST)
        == ('stepward.head.1\n{"digest":"' + "0" * 64 + '","run":"rün","seq":3}').encode()
    )
    assert extend_trace(NO_DIGEST, "passed", "{}") == sha256(b"stepward.trace.1\n" + bytes(32) + b"passed\n{}").digest()
