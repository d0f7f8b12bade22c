"""Scenes of values: exact numbers, odd texts, depths and sizes, as records, journals and traces write and read them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from dataclasses import MISSING, fields
from decimal import Decimal
from typing import Any, Final, get_args

from stepward.sabotage.recorded.shared.probe import Probe
from stepward.vm.journal.canonical import (
    LARGEST,
    Sealed,
    Secret,
    canonical,
    has_gone,
    is_sealed,
    opened,
    portable,
    read_canonical,
    restored,
)
from stepward.vm.journal.encryption import TAG
from stepward.vm.journal.records import (
    BODY_FIELDS,
    digest_of,
    document_digest,
    extend_trace,
    read_record,
    record_in,
    version_of,
    write_record,
)
from stepward.vm.journal.sealing import commitment, seal, unsealer
from stepward.vm.journal.store import Entry
from stepward.vm.trace import AnyRecord, record_of
from stepward.vm.values import (
    MAX_DEPTH,
    MAX_DIGITS,
    ByteBudget,
    FrozenMap,
    TooLarge,
    arithmetic,
    as_text,
    exact,
    freeze,
    to_json,
)

EDGE: Final = 10**MAX_DIGITS
INTEGERS: Final = (
    0,
    1,
    -1,
    7,
    10,
    100,
    LARGEST,
    -LARGEST,
    LARGEST + 1,
    -LARGEST - 1,
    10**20,
    EDGE - 1,
    EDGE,
    1 - EDGE,
    -EDGE,
)
FRACTIONS: Final = (
    *(
        "0.5",
        "-0.5",
        "1.0",
        "-0.0",
        "100",
        "1E2",
        "1E+30",
        "1.50",
        "0.1",
        "1E-5",
        "1E-999",
        "1E-1000",
        "1E-1001",
        "1E999",
    ),
    *(
        "1E1000",
        "-1E999",
        "NaN",
        "Infinity",
        "-Infinity",
        "sNaN",
        f"0.{'3' * 999}",
        f"0.{'3' * 1000}",
        f"1.{'3' * 999}",
    ),
    *(f"1.{'0' * 1200}", f"12.{'3' * 998}0", f"12.{'3' * 999}", "0E-2000", "0E+2000", "9007199254740992.5"),
)
FLOATS: Final = (0.1, -0.0, 1e300, 1e22, 5e-324, float("nan"), float("inf"), -float("inf"), 1.5, 2.0**53)
TEXTS: Final = (
    *(
        "",
        "x",
        "#",
        "#n1",
        "##",
        "#v1:2",
        "é",
        "\U0001f600",
        "\uffff",
        "\ud800",
        '\x00\n"\\/',
        "\u2028",
        "a" * 30,
        "#q",
    ),
)
KEYS: Final = ("a", "b", "", "#", "é", "\uffff", "\U0001f600", "\ud83d\ude00", "\x7f")
SCALARS: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    *INTEGERS[:12],
    *FLOATS[:5],
    *TEXTS[:9],
    *map(Decimal, FRACTIONS[:11]),
)


class _Odd(str):
    """A text with a text of its own."""

    def __str__(self) -> str:
        return "other"


class _Number(int):
    """A number with a text of its own."""


class _View(Mapping[str, Any]):
    """An object that is no dict."""

    def __getitem__(self, name: str) -> Any:
        return {"b": 1, "a": [2]}[name]

    def __iter__(self) -> Any:
        return iter(("b", "a"))

    def __len__(self) -> int:
        return 2


def drawn(probe: Probe, depth: int = 0) -> Any:
    """Return a value, mostly one of the language."""
    if depth > 3 or probe.some(0.5):
        return probe.draw(*SCALARS)
    count = probe.draw(0, 1, 2, 3)
    if probe.some(0.5):
        return {probe.draw(*KEYS[:7]): drawn(probe, depth + 1) for _ in range(count)}
    items = [drawn(probe, depth + 1) for _ in range(count)]
    return items if probe.some(0.7) else tuple(items)


def nested(depth: int) -> Any:
    """Return a list in lists."""
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


# -- numbers and values ------------------------------------------------------------------------------------------------


def numbers(probe: Probe) -> None:
    """Make numbers exact, and compute with them."""
    among: list[Any] = [*INTEGERS, *FLOATS, *map(Decimal, FRACTIONS), True, _Number(5)]
    for _ in range(14):
        one = probe.chance.choice(among)
        probe.ask("exact", lambda one=one: _type_and_text(exact(one)))
    sound = [*INTEGERS[:12], EDGE // 2, *map(Decimal, FRACTIONS[:12])]
    for _ in range(14):
        left, right, operator = probe.chance.choice(sound), probe.chance.choice(sound), probe.draw("+", "-", "*", "*")
        probe.ask("arithmetic", lambda one=(operator, left, right): _type_and_text(arithmetic(*one)))
    for left, right in ((EDGE - 1, 1), (1 - EDGE, 1), (Decimal("1E-500"), Decimal("1E-501")), (10**500, 10**500)):
        probe.ask("edge", lambda left=left, right=right: [_type_and_text(arithmetic(one, left, right)) for one in "-*"])
        probe.ask("edge", lambda left=left, right=right: _type_and_text(arithmetic("+", left, right)))


def _type_and_text(number: Any) -> Any:
    return type(number).__name__, str(Decimal(number))


def values(probe: Probe) -> None:
    """Freeze values, with and without a room, and write them as text."""
    for _ in range(8):
        value = drawn(probe)
        frozen = probe.ask("freeze", freeze, value)
        if frozen is None:
            continue
        for indent in (0, probe.draw(1, 2, 4)):
            probe.ask("json", to_json, frozen, indent)
        probe.ask("text", as_text, frozen)
        size = len(canonical(portable(frozen)))
        for room in (size, size - 1, size // 2, probe.draw(0, 1, 2, 3, 5)):
            probe.quietly("room", lambda room=room, value=value: freeze(value, 0, ByteBudget(room)))
    odd = (
        *(b"x", {1: 2}, {None: 1}, {1, 2}, object, nested(MAX_DEPTH), nested(MAX_DEPTH + 1), "\ud800", {"\ud800": 1}),
        *(float("nan"), EDGE, _Odd("x"), {_Odd("x"): 1}, _Number(5), _View(), [_View()], range(2), iter(()), 1j),
    )
    for value in probe.chance.sample(odd, 6):
        found = probe.quietly("odd", lambda value=value: freeze(value, probe.draw(0, 0, 1)))
        probe.note(probe.quietly("text", lambda found=found: as_text(found)))
    _rooms(probe)
    _frozen(probe)


def _rooms(probe: Probe) -> None:
    """Freeze values in rooms of exactly their size."""
    for value in (
        "abc",
        [],
        [1],
        [1, 2, 3],
        {},
        {"ab": 1},
        {"ab": "c", "d": []},
        ("x", "yz"),
        None,
        12345,
        [["x"]],
        {"a": {"b": 1}},
    ):
        least = next(room for room in range(60) if _fits(value, room))
        probe.note("least", value, least)


def _fits(value: Any, room: int) -> bool:
    """Return whether a value fits into a room."""
    try:
        freeze(value, 0, ByteBudget(room))
    except TooLarge:
        return False
    return True


def _frozen(probe: Probe) -> None:
    """Try to change a frozen object."""
    frozen = freeze({"a": [1], "b": {"c": Decimal("0.5")}})
    for name in ("clear", "popitem", "update"):
        probe.ask(name, getattr(frozen, name))
    probe.ask("set", frozen.__setitem__, "a", 1)
    probe.ask("delete", frozen.__delitem__, "a")
    probe.ask("pop", frozen.pop, "a")
    probe.ask("default", frozen.setdefault, "z", 1)
    probe.ask("join", frozen.__ior__, {"z": 1})
    same = (copy.copy(frozen) is frozen, copy.deepcopy(frozen) is frozen, pickle.loads(pickle.dumps(frozen)) == frozen)
    probe.note(
        frozen, same, type(pickle.loads(pickle.dumps(frozen))).__name__, hash(frozen) == hash(freeze(dict(frozen)))
    )
    probe.ask(
        "text", as_text, probe.draw(True, False, None, Decimal("1E-7"), 10**30, "x", {"b": 1, "a": (1, 2)}, (), {})
    )


# -- canonical JSON ----------------------------------------------------------------------------------------------------

RAW: Final = (
    b'{"a":1}', b'{"b":1,"a":2}', b'{"a":1,"a":2}', b" 1", b"1 ", b"1.0", b"1e3", b"-0", b"9007199254740991",
    b"9007199254740992", b"-9007199254740991", b"-9007199254740992", b"9" * 30, b"1" + b"0" * 5000,
    b"NaN", b"Infinity", b'"\xff"',
    b"", b"[", b"[1,2]", b"[1, 2]", b'"\\u00e9"', '"é"'.encode(), b'"\\/"', b'"\\u001f"',
    b'"\\ud800"', b"true", b"null", b"01",
    b'{"\\uffff":1}', '{"\uffff":1,"\U0001f600":2}'.encode(), '{"\U0001f600":2,"\uffff":1}'.encode(), b"[" * 100_000,
    b'["#n1.5","##","#v0:1"]', b"1x", b"9000000000000000", b"90000000000000000", b"10000000000000000",
)  # fmt: skip
TAGGED: Final[tuple[Any, ...]] = (
    "#n1", "#n1.5", "#n9007199254740992", "#n9007199254740991", "#n-9007199254740992", "#n1.50", "#nx", "#n", "#nNaN",
    "#n1E5", "#n0.10", "#n-0", "##", "##x", "#", "#q", "#va:b", "#va", "#v", "#v:", 1.5, 2**53,
    -(2**53), LARGEST, -LARGEST,
    ["#n1.5"], {"#n1.5": "#va:b"}, {"a": {"b": ["##"]}}, True, None, (1,), b"x", f"#n{'9' * 1000}", f"#n{'9' * 1001}",
)  # fmt: skip


def texts(probe: Probe) -> None:
    """Write values the canonical way, read them, and read texts that are not canonical."""
    for _ in range(8):
        value = drawn(probe)
        if probe.some(0.3):
            value = {"of": value, "at": probe.draw(_sealed(probe), _sealed(probe)._replace(value=None, is_gone=True))}
        plain = probe.ask(
            "portable", lambda value=value: portable(freeze(value) if not is_sealed(_deep(value)) else value)
        )
        text = probe.ask("canonical", canonical, plain)
        if text is not None:
            again = probe.ask("read", read_canonical, text.encode("utf-8", "surrogatepass"))
            probe.ask("restored", restored, again, _unseal)
    for raw in probe.chance.sample(RAW, 10):
        probe.note(raw[:40])
        probe.quietly("read", lambda raw=raw: read_canonical(raw))
    for data in probe.chance.sample(TAGGED, 10):
        found = probe.ask("restored", lambda data=data: restored(data, _unseal))
        probe.note(str(data)[:60], type(found).__name__)
    for call in (
        lambda: restored(nested(5_000), _unseal),
        lambda: canonical({"a": object()}),
        lambda: canonical("\ud800"),
    ):
        probe.quietly("deep", call)


def _deep(value: Any) -> Any:
    """Return a value with tuples in place of lists, as what is sealed has."""
    if isinstance(value, dict):
        return {key: _deep(item) for key, item in value.items()}
    return tuple(map(_deep, value)) if isinstance(value, list | tuple) and not isinstance(value, Sealed) else value


def _unseal(reference: str, committed: str) -> Sealed:
    return Sealed(reference, committed, f"opened {reference}")


def _sealed(probe: Probe) -> Sealed:
    return seal(freeze(probe.draw("secret", 7, Decimal("1.5"), None, {"a": [1]}, "#x")), probe.chance.randbytes)[0]


def sealed(probe: Probe) -> None:
    """Seal values, open them, lose, change and erase them."""
    sizes: list[int] = []

    def random(size: int) -> bytes:
        sizes.append(size)
        return probe.chance.randbytes(size)

    secrets: dict[str, bytes] = {}
    values = []
    for value in (freeze(probe.draw("secret", 7, 2**60, Decimal("1.5"), None, {"a": [1]}, "#x")), "other"):
        one, secret = seal(value, random)
        secrets[one.reference] = secret
        values.append(one)
        probe.note(one, secret, commitment(secret), sizes)
    probe.quietly(
        "twice", lambda: seal(probe.draw(values[0], (values[0],), Secret(1), FrozenMap({"a": values[0]})), random)
    )
    first, other = values[0].reference, values[1].reference
    for _ in range(5):
        changed = dict(secrets)
        how = probe.draw("sound", "gone", "other", "encrypted", "tag", "nested", "cut")
        text = {"other": secrets[other], "encrypted": TAG + bytes(9), "cut": secrets[first][:-1]}
        raw = {"tag": b'"#q"', "nested": f'"#v{other}:{values[1].commitment}"'.encode(), "sound": None}.get(how)
        if how == "gone":
            del changed[first]
        elif how in text:
            changed[first] = text[how]
        elif raw is not None:
            changed[first] = secrets[first][:16] + raw
        erased = probe.draw((), [first], {other: 5})
        unseal = unsealer(changed, erased)
        for committed in (values[0].commitment, commitment(changed.get(first, b"")), "00"):
            probe.ask(how, unseal, first, committed)
    _opened(probe, values)


def _opened(probe: Probe, values: list[Sealed]) -> None:
    erased = values[0]._replace(value=None, is_gone=True)
    for one in (1, "x", values[0], erased, Secret("x"), (), FrozenMap({})):
        for around in (one, (1, one), FrozenMap({"a": one}), FrozenMap({"a": (one, "x")}), (("x", 2), one)):
            probe.note(is_sealed(around), has_gone(around))
            probe.ask("opened", opened, around)
    probe.ask("portable", portable, Secret(1))
    probe.ask("portable", portable, FrozenMap({"a": erased, "b": (values[1],)}))


# -- records -----------------------------------------------------------------------------------------------------------

RECORD_KINDS: Final = (
    *(
        "started",
        "governed",
        "moved",
        "intent",
        "attempt",
        "doubt",
        "reconciled",
        "resumed",
        "joined",
        "opened",
        "item",
    ),
    *(
        "closed",
        "waiting",
        "waited",
        "expired",
        "branched",
        "assigned",
        "passed",
        "blocked",
        "rejected",
        "ended",
        "cancel",
    ),
    *("refused", "erased"),
)
NOTES: Final = ("by", "cached", "due", "envelope", "time", "tokens", "took")


def records(probe: Probe) -> None:
    """Write records, read them, and read those of which something was changed."""
    for kind in probe.chance.sample(RECORD_KINDS, 5):
        note = {name: 1 for name in NOTES if probe.some(0.25)}
        flags = {name: probe.some(0.3) for name in ("is_in_body", "continues", "turn")}
        body = [field for field, is_there in zip(BODY_FIELDS, flags.values(), strict=True) if is_there]
        version = version_of(kind, body, note)
        probe.note(kind, note, flags, version)
        seq, prev = probe.draw(0, 1, 7), probe.chance.randbytes(32)
        entry = write_record(seq, prev, kind, '{"step":"a"}', canonical(note), probe.draw(0, -1, 10**15), version)
        plain = write_record(seq, prev, kind, "{}", "{}", 5)
        probe.note(entry, plain, digest_of(entry.record), document_digest(entry.record))
        probe.note(extend_trace(prev, kind, "{}").hex(), extend_trace(bytes(32), "", "é").hex())
        probe.ask("read", read_record, entry)
        for _ in range(4):
            probe.ask("read", read_record, _rewritten(probe, entry))
    odd: tuple[Any, ...] = (None, [], "x", {}, 5, {"body": {}})
    for data in probe.chance.sample(odd, 2):
        probe.ask("read", record_in, Entry(0, b"", b""), data)


def _rewritten(probe: Probe, entry: Entry) -> Entry:
    """Return an entry of which a field was changed."""
    data = json.loads(entry.record)
    name = probe.chance.choice(sorted(data))
    match probe.draw(0, 1, 2, 3, 4, 5, 6):
        case 0:
            del data[name]
        case 1:
            data["x"] = 1
        case 2:
            data["v"] = probe.draw(0, 1, 9, 10, True, "1", 1.0)
        case 3:
            return entry._replace(seq=entry.seq + probe.draw(-1, 1))
        case 4:
            return entry._replace(record=probe.draw(b"", b"[]", b"{", entry.record[:-1], b"\xff", b"[" * 100_000))
        case 5:
            data["seq"] = probe.draw(True, -1, "1", data["seq"])
        case _:
            data[name] = probe.draw(None, True, 1, "x", {}, [], 2.5)
    return entry._replace(record=json.dumps(data).encode())


def traces(probe: Probe) -> None:
    """Make records of a trace of the parts of a record."""
    for kind in probe.chance.sample(RECORD_KINDS, 8):
        merged = {**_BODY, **{name: value for name, value in _SOME.items() if probe.some(0.5)}}
        body = {name: value for name, value in merged.items() if name not in _NOTED}
        if kind in ("opened", "rejected", "joined", "expired", "blocked", "attempt") and probe.some(0.8):
            body["kind"] = probe.draw("success", "failed", "skipped")
        note = {name: value for name, value in merged.items() if name in _NOTED}
        if kind == "rejected":
            body.setdefault("kind", "failed")
        probe.ask(kind, _record_of, probe.draw(0, 5), probe.draw(0, 1_700_000_000_000_000, -1, 1), kind, body, note)
        needed = [one.name for one in fields(_CLASSES[kind]) if one.default is MISSING and one.name in _BODY]
        probe.ask("needed", _record_of, 1, 1, kind, {name: _BODY[name] for name in needed}, {})
    probe.ask("none", _record_of, 0, 0, probe.draw("", "other"), {}, {})
    probe.ask("little", _record_of, 0, 0, probe.draw(*RECORD_KINDS), {}, {})


_CLASSES: Final[Mapping[str, Any]] = {one.kind: one for one in get_args(AnyRecord)}


def _record_of(*parts: Any) -> Any:
    record = record_of(*parts)
    return type(record).__mro__[:-1], record.kind, record


_NOTED: Final = frozenset(
    {"took", "due", "started", "time", "cost", "tokens", "model", "by", "key", "cached", "envelope"}
)
_BODY: Final[Mapping[str, Any]] = {
    "program": "d", "inputs": FrozenMap({"a": 1}), "policies": ("p",), "waived": (), "step": "a",
    "visit": 2, "tool": "t",
    "args": FrozenMap({"x": 1}), "attempt": 1, "performance": 3, "key": "k", "error": "it failed", "verdict": "done",
    "branch": 2, "started": 10**15, "due": 10**15 + 1, "time": 10**15 + 2,
    "values": FrozenMap({"v": 1}), "rule": "allow",
    "outcome": "failed", "ends": "SUCCESS", "reason": "end", "what": "token", "why": "late", "references": ("r",),
}  # fmt: skip
_SOME: Final[Mapping[str, Any]] = {
    "frame": (("e", 1, 1, 0),), "next": "b", "closes": "success", "by": "ann", "envelope": FrozenMap({"caller": "c"}),
    "granted": FrozenMap({"steps": 1}), "output": (1, "x"), "error_name": "timeout", "request": "why", "unknown": True,
    "took": 1_500_000, "tokens": 7, "cost": "0.5", "model": "m", "cached": True, "items": (1, 2),
    "carry": FrozenMap({}),
    "in_doubt": ("w",), "other": 1,
}  # fmt: skip
