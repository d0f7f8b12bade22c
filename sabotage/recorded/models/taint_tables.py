"""Tables of sensitive values: their spellings in texts, and values of each type in views, sizes and checks."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.shared.context import thing
from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.vm.journal.canonical import Sealed, has_gone, is_sealed, opened
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine import keys, sizes, views, waits
from stepward.vm.machine.authority import Envelope, envelope_note, is_name, require_name, two_people
from stepward.vm.machine.data import completed, marked, part_of, refused
from stepward.vm.machine.deadlines import as_seconds
from stepward.vm.machine.events import RUNNING, Event, make_event
from stepward.vm.machine.known import brings_output, sensitive_leaves, veiled
from stepward.vm.machine.redaction import Searched, Spellings, quotes, redacted
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.values import FrozenMap, as_text, freeze

# -- spellings ---------------------------------------------------------------------------------------------------------

_SECRETS: Final = (
    *("", "abc", "abcde", "abcdef", "Abcdefg", "12345", "123456", "-12345", "-123456", "-12.50", "1234567.89"),
    *("4111 1111", "a'b\"c\\d", "\u00e4\u00f6\u00fc\u00df\u00e9f", "ada@example.com", "......", "12:34:56", "%41bc+de"),
    *("\u0130stanbul", "line\nend", "0.000001", "aaaaaaaa", "a/b|c_d-e"),
)
_FORMS: Final[dict[str, Callable[[str], str]]] = {
    "whole": str,
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "repr": repr,
    "json": json.dumps,
    "json utf": partial(json.dumps, ensure_ascii=False),
    "url": lambda one: urllib.parse.quote(one, safe=""),
    "url plus": urllib.parse.quote_plus,
    "hex": lambda one: one.encode().hex(),
    "HEX": lambda one: one.encode().hex().upper(),
    "base64 0": lambda one: base64.b64encode(one.encode()).decode(),
    "base64 1": lambda one: base64.b64encode(b"x" + one.encode() + b"y").decode(),
    "base64 2": lambda one: base64.b64encode(b"xx" + one.encode() + b"yy").decode(),
    "base64 url": lambda one: base64.urlsafe_b64encode(one.encode()).decode(),
    "fours": lambda one: "-".join(one[at : at + 4] for at in range(0, len(one), 4)),
    "twos": lambda one: " ".join(one[at : at + 2] for at in range(0, len(one), 2)),
    "thousands": lambda one: ",".join(one[at : at + 3] for at in range(0, len(one), 3)),
    "joined": lambda one: "".join(sign for sign in one if sign.isalnum()),
    "first half": lambda one: one[: (len(one) + 1) // 2],
    "last half": lambda one: one[len(one) // 2 :],
    "first six": lambda one: one[:6],
    "last six": lambda one: one[-6:],
    "masked end": lambda one: one[: max((len(one) + 1) // 2, 6)] + "****",
    "masked start": lambda one: "**" + one[-max((len(one) + 1) // 2, 6) :],
    "masked once": lambda one: one[: max((len(one) + 1) // 2, 6)] + "*",
    "masked x": lambda one: "xx" + one[-max((len(one) + 1) // 2, 6) :],
    "masked dots": lambda one: one[: max((len(one) + 1) // 2, 6)] + "\u2022\u2022",
    "cut 3": lambda one: one[:3] + "\u2026",
    "cut 4": lambda one: one[:4] + "\u2026",
    "cut 5": lambda one: one[:5] + "...",
    "cut last": lambda one: one[:-1] + "...",
    "cut whole": lambda one: one + "...",
    "cut twice": lambda one: f"{one[:4]}... and {one[:5]}\u2026 {one[:6]}",
    "without first": lambda one: one[1:],
    "without last": lambda one: one[:-1],
    "twice": lambda one: f"{one}{one}",
    "backwards": lambda one: one[::-1],
}


@cache
def _known(at: int) -> tuple[Searched, Searched]:
    """Return the index of one secret, and that of it among many others."""
    few, many = Searched(), Searched()
    for searched, fillers in ((few, 0), (many, 40)):
        for secret in (*(f"filler-{number}-{number}" for number in range(fillers)), _SECRETS[at]):
            spellings = Spellings.of(secret)
            if spellings is not None:
                searched.add(spellings)
    return few, many


def _show_spelling(at: int, form: str) -> Any:
    secret = _SECRETS[at]
    written, found = _FORMS[form](secret), []
    few, many = _known(at)
    for text in (written, f"say {written}!", f"{written}{written}"):
        found += [redacted(text, [secret]), quotes(text, [secret]), few.repeats(text), many.repeats(text)]
    return found


_TOGETHER: Final = ("abcdef", "abcdefghi", "bcdefg", "", "ghi", "abc")


def _show_several(one: str, other: str, text: str) -> Any:
    secrets = [one, other]
    return redacted(text, secrets), redacted(text, secrets[::-1]), quotes(text, secrets), redacted(text, [])


_NUMBERS: Final = (
    *(0, 5, 12345, -12345, 123456, -123456, 1234567, Decimal("1234.56"), Decimal("-1234.56"), Decimal("123456.0")),
    *(Decimal("0.5"), Decimal("12345.6"), Decimal("0.12345"), 10**20, Decimal("1E+6"), Decimal("0.000001")),
)


def _show_numbers(one: Any, other: Any) -> Any:
    searched = Searched()
    spellings = Spellings.of(as_text(one))
    if spellings is not None:
        searched.add(spellings)
    text = as_text(other)
    return bool(searched), searched.repeats(other), searched.repeats(text), redacted(f"it is {text}", [as_text(one)])


# -- values of types ---------------------------------------------------------------------------------------------------

_SPECS: Final[tuple[Any, ...]] = (
    *(None, {}, {"type": "string"}, {"type": "string", "sensitive": True}, {"sensitive": True}),
    *({"type": "string", "enum": ["secret-1", "b"]}, {"type": "string", "enum": ["secret-1"], "sensitive": True}),
    {"type": "object", "properties": {"a": {"type": "string", "sensitive": True}, "b": {}}},
    {"type": "object", "properties": {"secret-1": {}, "a": {}}},
    {"type": "object", "additionalProperties": {"sensitive": True}},
    {"type": "array", "items": {"sensitive": True}},
    {"type": "array", "items": {"type": "object", "properties": {"a": {"sensitive": True}}}},
    {"type": "array", "items": {"type": "array", "items": {"sensitive": True}}},
    {"type": "array", "items": {"type": "object", "additionalProperties": {"sensitive": True}}},
    {"type": "object", "properties": {"a": {"sensitive": True}}, "additionalProperties": False},
    {"type": "object", "properties": {"b": {}}, "additionalProperties": {"sensitive": True}},
    {"type": "object", "properties": {"b": {}}, "additionalProperties": {"properties": {"b": {"sensitive": True}}}},
    {
        "type": "object",
        "properties": {"a": {"sensitive": True}},
        "additionalProperties": {"items": {"sensitive": True}},
    },
    {"type": ["integer", "null"], "sensitive": True},
    *({"type": "string", "default": ""}, {"type": "integer", "default": 0}, {"type": "boolean", "default": False}),
    *({"type": ["string", "null"], "default": None}, {"type": "string", "default": "d", "sensitive": True}),
)
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 5, -5, 123456, Decimal("1234.56"), "", "x", "secret-1", "a secret-1 b", [], ["secret-1"]),
    *({}, {"a": "secret-1"}, {"b": "secret-1"}, {"secret-1": 1}, {"a": {"b": ["x", 123456]}}, [["x"], [None]]),
    *([{"a": "y"}, {"a": None}, {"c": "z"}], {"a": None, "b": False}, {"a": ["secret-1", "x"], "d": "SECRET-1"}),
)


def _spec(at: int) -> TypeSpec | None:
    return None if _SPECS[at] is None else TypeSpec.model_validate(_SPECS[at])


def _sealed_in(value: Any, *, is_gone: bool) -> Any:
    """Return a value whose texts are sealed, or erased."""
    if isinstance(value, dict):
        return FrozenMap((key, _sealed_in(item, is_gone=is_gone)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(_sealed_in(item, is_gone=is_gone) for item in value)
    return Sealed("ab" * 8, "c" * 64, None if is_gone else value, is_gone) if isinstance(value, str) else value


@cache
def _searched() -> Searched:
    found = Searched()
    for text in ("secret-1", "123456", "1234.56"):
        spellings = Spellings.of(text)
        if spellings is not None:
            found.add(spellings)
    return found


def _show_value(spec_at: int, value_at: int) -> Any:
    spec, value = _spec(spec_at), freeze(_VALUES[value_at])
    marked_value = marked(value, spec)
    found = [
        marked_value,
        is_sealed(marked_value),
        opened(marked_value),
        marked(marked_value, spec),
        veiled(value, spec, _searched()),
    ]
    found += [veiled(marked_value, spec, _searched()), refused(value, spec, "it"), sizes.recorded_size(value)]
    found += [sizes.recorded_size(marked_value), views.traced(marked_value), views.shown(_VALUES[value_at])]
    found += [list(sensitive_leaves(value, spec)), list(sensitive_leaves(marked_value, spec, inside=True))]
    for is_gone in (False, True):
        sealed = _sealed_in(value, is_gone=is_gone)
        found += [views.traced(sealed), has_gone(sealed), is_sealed(sealed), outcome(partial(opened, sealed))]
        found += [list(sensitive_leaves(sealed, spec)), marked(sealed, spec), veiled(sealed, spec, _searched())]
        found.append(sizes.recorded_size(sealed))
    if spec is not None:
        found += [part_of(spec, key) for key in ("a", "b", "z")]
        specs = {"x": spec, "y": TypeSpec(), "z": None}
        for values in (
            {"x": value},
            {"x": value, "y": 1, "z": None},
            {"y": 0, "z": 0},
            {"x": marked_value, "y": 1, "z": 1},
        ):
            found.append(outcome(lambda values=values: completed(values, specs)))  # type: ignore[misc]
        found.append(completed({"x": value, "y": 1, "z": 1, "w": 1, "v": 2}, specs))
    return found


def _values() -> Iterator[tuple[Any, ...]]:
    yield from product(range(len(_SPECS)), range(len(_VALUES)))


def _show_texts(text: str) -> Any:
    nested = {"a": text, "b": [text, {"c": text}]}
    return views.shown(text), views.shown(nested)


# -- keys, tokens, names -----------------------------------------------------------------------------------------------

_FRAMES: Final[tuple[Any, ...]] = (
    *((), (("each", 1, 1, 0),), (("each", 1, 1, 1),), (("each", 1, 2, 0),), (("each", 2, 1, 0),)),
    *((("fork", 1, 1, "left"),), (("each", 1, 1, 0), ("in", 1, 1, 3)), (("call", 1, 1, 0),)),
    *((("call", 1, 1, 0), ("call/each", 1, 1, 2)), (("call", 1, 1, 0), ("call/in", 1, 1, 0))),
)


def _show_name(step: str, visit: int, performance: int, frame: Any) -> Any:
    token = keys.Token("r.1", "secret")
    digest = token.digest("p", step, visit, frame)
    stored = [
        keys.stored_token(secret, "r.1", digest, "p", step, visit, frame)
        for secret in (b"secret", b"", None, b"\xff", b"other")
    ]
    key = keys.idempotency_key("p", "r", step, visit, performance, frame)
    shown = outcome(lambda: keys.shown(frame, step))
    return key, keys.token_reference(step, visit, performance, frame), digest, stored, shown


def _names() -> Iterator[tuple[Any, ...]]:
    steps = ("a", "", "call/in/x", "call/x", 'q"')
    yield from product(steps, (1, 2), (1, 2), _FRAMES)


def _show_token(text: Any) -> Any:
    found = keys.Token.read(text)
    return found, found and found.text()


def _show_person(name: Any) -> Any:
    envelopes = (Envelope(name, "g"), Envelope("c", name), Envelope("c", "g", True))
    notes = [outcome(lambda one=one: envelope_note(one, RunRefused)) for one in (None, *envelopes)]  # type: ignore[misc]
    return is_name(name), outcome(lambda: require_name(name, RunRefused)), notes


def _show_people(caller: str, starter: str, by: str, has_rule: Any) -> Any:
    plan: Any = thing(four_eyes={"pay": thing(policy="p")} if has_rule else {})
    state: Any = thing(caller=caller, by=starter)
    return [two_people(plan, state, thing(tool=tool), by) for tool in ("pay", "mail")]


def _show_wait(kind: str, note: Any) -> Any:
    event = make_event("waiting" if kind == "waiting" else "waited", {"step": "s", "visit": 1}, note)
    return [waits.dated(event, now) for now in (0, 1, 2**53 - 2)], waits.dated(RUNNING, 3)  # type: ignore[arg-type]


def _show_brought(kind: str, body: Any) -> Any:
    return brings_output(Event(kind, body, {}, ""))


def _brought() -> Iterator[tuple[Any, ...]]:
    bodies: tuple[Any, ...] = (
        {},
        {"kind": "success"},
        {"kind": "success", "output": None},
        {"kind": "fallback", "output": 1},
    )
    kinds = ("attempt", "resumed", "reconciled", "assigned", "expired")
    yield from product(kinds, (*bodies, {"kind": "failed", "output": 1}))


# -- sizes -------------------------------------------------------------------------------------------------------------


def _show_size(size: int, counted: int, before: int, most: Any) -> Any:
    limits = thing(output_bytes=10, state_bytes=20)
    state: Any = thing(limits=limits, size=before, slots=((("v", 4),),), is_once_sized=False)
    found = outcome(lambda: sizes.refusal(state, thing(visits=0), size, counted, most))
    events = [Event("attempt", {}, {}, "x" * length) for length in (0, 1, 2, 3, 5)]
    return found, [sizes.may_be_oversize(state, one) for one in events]


def _show_left(value: Any, is_once_sized: Any, more: int) -> Any:
    event = make_event("attempt", {"output": value, "step": "s" * more}, {})
    return sizes.left_size(thing(is_once_sized=is_once_sized), event, "output")


TABLES: Final = (
    Table("spellings", lambda: product(range(len(_SECRETS)), _FORMS), _show_spelling),
    Table(
        "several",
        lambda: product(_TOGETHER, _TOGETHER, ("abcdefghi", "xabcdefgx", "ABCDEFGHI", "abcdef abcde... ghi")),
        _show_several,
    ),
    Table("numbers", lambda: product(_NUMBERS, _NUMBERS), _show_numbers),
    Table("values", _values, _show_value),
    Table("texts", lambda: product(("", "#", "##x", "#n1.5", "#s", "#v1:ab:cd", "x#", "#q", "#nx")), _show_texts),
    Table("names", _names, _show_name),
    Table("tokens", lambda: product((None, 7, b"r.s", "", ".", "r.", ".s", "r.s", "a.b.s", "r..s", "rs")), _show_token),
    Table("persons", lambda: product(("", "a", "x" * 200, "x" * 201, "a\n", " ", "\u00e9", 7, None)), _show_person),
    Table("people", lambda: product(("", "ann"), ("", "ann", "bob"), ("", "ann", "bob"), (False, True)), _show_people),
    Table(
        "waits",
        lambda: product(("waiting", "waited"), ({"for": 0}, {"for": 1}, {"for": 9}, {"due": 5}, {"due": 0})),
        _show_wait,
    ),
    Table("brought", _brought, _show_brought),
    Table("seconds", lambda: product((0, 1, 10, 999_999, 10**6, 1_500_000, 10**7, 10_000_001, 10**8)), as_seconds),
    Table("sizes", lambda: product((0, 9, 10, 11), (0, 10, 11), (0, 10, 13, 14, 15), (None, 0, 9, 11)), _show_size),
    Table("left", lambda: product((None, 0, "", "x", "\u00e9" * 3), (False, True), (0, 480, 490, 600)), _show_left),
)
