"""Tables of the language: each operator, function, limit of a type and construct of a pattern with values at its edges.

Nothing is drawn here. Each table has rows, which are dealt out among the scenes, and each row is one note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from stepward.sabotage.invariants import Breach
from stepward.sabotage.recorded.language import reading_tables
from stepward.sabotage.recorded.language.examples import SCENES
from stepward.sabotage.recorded.notes import Notes, text_of
from stepward.sabotage.recorded.texts import place_tables, type_tables
from stepward.vm.errors import StepwardError, UndefinedReferenceError
from stepward.vm.expressions import building, fields, inside, letters, template
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.facts import certain_reads, facts
from stepward.vm.expressions.parser import parse
from stepward.vm.language.instants import instant
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Waiver
from stepward.vm.language.program import Program
from stepward.vm.language.similar import near_name, only_near
from stepward.vm.language.typecheck import check_expression
from stepward.vm.reading.scalars import resolve
from stepward.vm.values import arithmetic, as_text, exact, freeze, to_json

Row = tuple[str, Callable[..., Iterable[Any]], tuple[Any, ...]]
"""A row of a table: its name, what gives its cells, and for what."""

_GIVEN: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 3, Decimal("0.5"), Decimal("-0.5"), Decimal("1.0"), Decimal("2.50"), 10**15),
    *(
        10**18,
        Decimal("0.1"),
        Decimal("1E+2"),
        "",
        "a",
        "A",
        "ab",
        "b",
        "1",
        "é",
        "\U0001f600",
        " a\t",
        "ß",
        "null",
    ),
    *(
        [],
        [1],
        [1, 2],
        [2, 1],
        ["a"],
        ["a", "b"],
        [None],
        [[1]],
        [True],
        [""],
        {},
        {"a": 1},
        {"a": None},
        {"b": {}},
    ),
    *([0], [Decimal("1.0")], ["ab"], [False], 9007199254740993),
)
VALUES: Final = tuple(map(freeze, _GIVEN))
OPERATORS: Final = (
    *("==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "starts_with", "ends_with"),
    *("+", "-", "*", "and", "or"),
)
CALLS: Final = (
    *("len($a)", "lower($a)", "upper($a)", "trim($a)", "not $a", "-$a", "defined($a)", "defined($gone)", "- -$a"),
    *("join($a, ',')", "join($a, '')", "matches($a, '^a')", "matches($a, '')", "matches($a, 'b$')", "[$a]", "[$a, 1]"),
    *("$a and $gone", "$a or $gone", "not not $a", "$a + $a", "$a - $a", "$a == $a", "$a in [$a]", "$a + 1", "1 - $a"),
    *(
        "len($a) > 0 and $a == 'a'",
        "$a == null",
        "$a != null",
        "null == $a",
        "$a in []",
        "$a in [1, 2]",
        "$a in [null]",
    ),
    *(
        "$gone",
        "$a * 0",
        "2 * $a + 1",
        "2 + $a * 2",
        "$a - 1 - 1",
        "(1 - $a) * 2",
        "1 - $a * 2",
        "$a + 'x'",
        "'x' + $a",
    ),
)
ASSIGNED: Final[tuple[dict[str, Any], ...]] = (
    {"a": 1, "b": 2, "c": 3},
    {"a": True, "b": False, "c": True},
    {"a": False, "b": True, "c": False},
    {"a": "ab", "b": "a", "c": "ab"},
    {"a": 1, "b": [1], "c": True},
    {"a": [1], "b": 1, "c": False},
)
ATOMS: Final = (
    *("$a", "defined($a)", "$a == null", "$a != null", "$a == 1", "$a != 'a'", "len($a) > 0", "len($a) == 0", "$a > 0"),
    *("len($a) >= 2", "$a in ['a']", "$a in [null]", "$a not in [null, 1]", "0 < len($a)", "$a[0] == 1", "$a.b == $c"),
    *("null == $a", "null != $a.b", "len($a) != 0", "1 <= len($a)", "len($a) < 1", "$b == $a", "2 > len($a)"),
    *("$a starts_with 'a'", "matches($a, 'x')", "defined($a.b)", "$a contains 'x'", "len($a) > -1", "len($a) != 2"),
)
INPUTS: Final[dict[str, Any]] = {
    **{
        "any": {},
        "n": {"type": "number"},
        "i": {"type": "integer", "minimum": 0, "maximum": 2},
        "b": {"type": "boolean"},
    },
    **{
        "t": {"type": "string"},
        "e": {"enum": ["a", "B", "3"]},
        "m": {"type": ["number", "null"]},
        "l": {"type": "array"},
    },
    **{"ln": {"type": "array", "items": {"type": "number"}}, "lt": {"type": "array", "items": {"enum": ["a"]}}},
    **{"o": {"type": "object"}, "mix": {"type": ["string", "array"]}, "s": {"type": "string", "maxLength": 1}},
    **{
        "c": {"const": 0},
        "u": {"enum": ["A", None, 1]},
        "lo": {"type": "array", "items": {"type": ["string", "null"]}},
    },
}
LITERALS: Final = (
    "0",
    "3",
    "-1",
    "1.5",
    "''",
    "'a'",
    "'A'",
    "' a'",
    "'3'",
    "true",
    "null",
    "[]",
    "[1]",
    "['a', 1]",
    "[null]",
)
TEMPLATES: Final[tuple[Any, ...]] = (
    *(
        "$a",
        "x$a",
        "$a.",
        "$a$a",
        "$$a",
        "$a.b",
        "$a[0]",
        "$",
        "$ a",
        "{$a}",
        "$a b",
        "$a.b.c",
        "$$",
        "a$",
        "$a-$b",
        "${a}",
    ),
    *(
        ["$a"],
        {"k": "$a"},
        {"k": "x $a"},
        [["$a"], 1],
        {},
        [],
        0,
        None,
        False,
        "",
        {"$a": 1},
        "$a\n",
        "\\$a",
        "$a['b']",
    ),
)
SCALARS: Final = (
    *(
        "",
        "~",
        "null",
        "Null",
        "NULL",
        "nULL",
        "true",
        "True",
        "TRUE",
        "tRUE",
        "yes",
        "no",
        "on",
        "off",
        "false",
        "FALSE",
    ),
    *(
        "0",
        "-0",
        "+0",
        "1",
        "01",
        "-1",
        "+1",
        "1_000",
        "0o17",
        "0o8",
        "0x1F",
        "0xG",
        "-0x1",
        "0b1",
        "1.",
        ".5",
        "-.5",
        "1.0",
    ),
    *(
        "+.5",
        ".",
        "1e3",
        "1E-3",
        "1e",
        "e1",
        "1.5e+2",
        ".inf",
        "-.inf",
        "+.INF",
        ".Inf",
        ".nan",
        "-.nan",
        ".NaN",
        "inf",
    ),
    *(
        "1:30",
        "2027-06-30",
        "1.2.3",
        "--1",
        "0.10",
        "1e400",
        "00",
        "0.0",
        "-0.0",
        "9007199254740993",
        "x",
        "٣",
        "0x",
        "0o",
    ),
)
INSTANTS: Final = tuple(
    f"{day}T{time}{zone}"
    for day in (
        "2027-06-30",
        "2028-02-29",
        "2027-02-29",
        "1969-12-31",
        "1970-01-01",
        "0001-01-01",
        "9999-12-31",
        "2027-6-3",
    )
    for time in ("00:00:00", "23:59:59", "24:00:00", "23:59:60", "10:00:00.5", "10:00:00.0000001", "10:00:00.1234569")
    for zone in ("Z", "z", "+00:00", "-00:00", "+02:30", "-02:30", "+23:59", "+24:00", "+00:60", "", "+0200", "-14:00")
)
DAYS: Final = (
    *("2027-06-30", "2027-02-29", "2028-02-29", "2027-12-31", "2028-01-01", "20270630", "2027-6-30", "2027-W26-3", ""),
    *("2027-06-31", "2027-00-10", "2027-13-01", "0001-01-01", "9999-12-31", " 2027-06-30", "2027-06-30T00:00:00Z"),
)
NAMES: Final = (
    "aprove",
    "approve",
    "orders_count",
    "count-orders",
    "Count_Orders",
    "keep_old",
    "retire_old",
    "a",
    "",
    "ab",
    "abc",
)
DIGITS: Final = tuple(
    Decimal(f"{sign}{digits}")
    for sign in ("", "-")
    for digits in (
        "0",
        "1",
        "0.10",
        "1E+3",
        "1E+98",
        "1E+99",
        "1E+100",
        "1E+999",
        "1E+1000",
        "1E-99",
        "1E-1000",
        "1.5E-1000",
    )
)


def show_tables(notes: Notes, seed: str) -> None:
    """Note the rows that are dealt to a scene, by the number at the end of its seed."""
    for name, cells, row in _rows()[int(seed.rpartition(" ")[2]) % SCENES :: SCENES]:
        notes.add("table", name, row, "\n".join(map(text_of, cells(*row))))


def tried(ask: Callable[..., Any], *args: Any) -> Any:
    """Return what comes of a question: a value, or an error in words."""
    try:
        return ask(*args)
    except Breach:
        raise
    except ValidationError as error:
        return [(one["type"], one["loc"]) for one in error.errors(include_url=False)]
    except StepwardError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return type(error).__name__


@cache
def _rows() -> list[Row]:
    return list(_operator_rows())


def _operator_rows() -> Iterator[Row]:
    for word in OPERATORS:
        yield from (("operator", _operated, (word, number)) for number in range(len(VALUES)))
        yield from (("precedence", _followed, (word, language)) for language in (1, 2))
        yield from (("types", _checked, (word, name)) for name in INPUTS)
    yield from (("call", _called, (text,)) for text in CALLS)
    yield from (("facts", _known, (atom,)) for atom in ATOMS)
    yield from (("template", _filled, (number,)) for number in range(len(TEMPLATES)))
    yield from (("letters", _cases, (start,)) for start in (*range(0, 0x3000, 0x400), *range(0xA400, 0x1F000, 0x400)))
    yield from (
        ("scalars", lambda part: [tried(resolve, one) for one in SCALARS[part::8]], (part,)) for part in range(8)
    )
    yield from (("instants", lambda part: [instant(one) for one in INSTANTS[part::24]], (part,)) for part in range(24))
    yield from (("days", _days, (text,)) for text in DAYS)
    yield from (("names", _names, (name,)) for name in NAMES)
    yield from (("digits", _digits, (number,)) for number in range(len(DIGITS)))
    yield from (("texts", _texts, (number,)) for number in range(len(VALUES)))
    yield from type_tables.rows(VALUES)
    yield from place_tables.rows()
    yield from reading_tables.rows()


def _lookup(values: dict[str, Any]) -> Callable[[tuple[str, ...]], Any]:
    def lookup(names: tuple[str, ...]) -> Any:
        found = values.get(names[0], values)
        for name in names[1:]:
            found = fields.part(found, name, values)
        if found is values:
            raise UndefinedReferenceError(".".join(names))
        return found

    return lookup


def _operated(word: str, number: int) -> Iterator[Any]:
    tree = parse(f"$a {word} $b", 2)
    for value in VALUES:
        yield tried(evaluate, tree, _lookup({"a": VALUES[number], "b": value}))


def _called(text: str) -> Iterator[Any]:
    tree = tried(parse, text, 2)
    yield tree
    if not isinstance(tree, str):
        yield from (tried(evaluate, tree, _lookup({"a": value})) for value in VALUES)


def _followed(word: str, language: int) -> Iterator[Any]:
    for other in OPERATORS:
        texts = [f"$a {word} $b {other} $c", f"($a {word} $b) {other} $c", f"$a {word} ($b {other} $c)"]
        for text in texts if language == 2 else texts[:1]:
            tree = tried(parse, text, language)
            yield tree
            if not isinstance(tree, str):
                yield [tried(evaluate, tree, _lookup(values)) for values in ASSIGNED]
    for text in (f"not $a {word} $b", f"$a {word} not $b", f"-$a {word} -$b", f"not ($a {word} $b)", f"$a{word}$b"):
        yield tried(parse, text, language)


def _known(atom: str) -> Iterator[Any]:
    others = ("$x == 1", "defined($y)", "$a != null", "len($z) > 1")
    texts = [atom, f"not ({atom})", f"not not ({atom})"]
    for other in others:
        for sign in ("and", "or"):
            texts += [f"{atom} {sign} {other}", f"{other} {sign} {atom}", f"not ({atom} {sign} {other})"]
    for text in texts:
        tree = tried(parse, text, 2)
        if isinstance(tree, str):
            yield tree
        else:
            yield text, facts(tree, True), facts(tree, False), certain_reads(tree)
            yield list(inside.leaves(tree, ("a",))), inside.keeps(tree, ("a",))


@cache
def _meaning() -> Meaning:
    steps = [{"id": "end", "type": "end", "output": 1}]
    return Meaning(Program.from_dict({"name": "asks", "language": 2, "inputs": INPUTS, "steps": steps}))


def _checked(word: str, name: str) -> Iterator[Any]:
    meaning = _meaning()
    texts = [f"${name} {word} {other}" for other in (*(f"${one}" for one in INPUTS), *LITERALS)]
    texts += [f"{literal} {word} ${name}" for literal in LITERALS]
    if word == "==":
        texts += [call.replace("$a", f"${name}") for call in CALLS if "$gone" not in call]
    for text in texts:
        tree = tried(parse, text, 2)
        yield tree if isinstance(tree, str) else tried(_problems, text, tree, meaning)


def _problems(text: str, tree: Any, meaning: Meaning) -> Any:
    return [check_expression(text, tree, meaning, is_condition=which) for which in (True, False)]


def _filled(number: int) -> Iterator[Any]:
    data = TEMPLATES[number]
    yield list(template.embedded(data))
    yield list(template.texts(data))
    yield template.lone_reference(data)
    yield [tried(building.is_computed, freeze(data), language) for language in (1, 2)]
    yield tried(lambda: building.expression(freeze(data), 2))
    for value in (*VALUES, freeze({"b": 0}), freeze({"b": {"c": None}}), freeze([None, 1])):
        yield tried(template.fill, data, _lookup({"a": value, "b": 1}))


def _cases(start: int) -> Iterator[Any]:
    text = "".join(map(chr, range(start, start + 0x400)))
    if 0xD800 <= start <= 0xDFFF:
        return
    yield letters.lower(text)
    yield letters.upper(text)
    yield [number for number, sign in enumerate(text) if not letters.trim(sign)]


def _days(text: str) -> Iterator[Any]:
    waiver = tried(Waiver.model_validate, {"program": "p", "rule": "r", "reason": "why", "expiry": text})
    if not isinstance(waiver, Waiver):
        yield waiver
        return
    for by in (-366, -31, -1, 0, 1, 31):
        yield tried(lambda by: waiver.is_expired(date.fromisoformat(text) + timedelta(days=by)), by)


def _names(name: str) -> Iterator[Any]:
    for other in NAMES:
        yield near_name(name, [other]), only_near(name, [other]), near_name(name, [other, "zebra", name])
    yield near_name(name, NAMES), only_near(name, NAMES), near_name(name, []), only_near(name, [])


def _digits(number: int) -> Iterator[Any]:
    digits = DIGITS[number]
    yield tried(exact, digits)
    for other in DIGITS:
        yield [tried(arithmetic, sign, digits, other) for sign in "+-*"]


def _texts(number: int) -> Iterator[Any]:
    value = VALUES[number]
    yield tried(as_text, value), tried(to_json, value), tried(to_json, value, 2)
    yield [fields.part(value, name, "absent") for name in ("a", "b", "[0]", "[1]", "[2]", "")]
