"""Random expressions, patterns and words, from the signs of their grammars: most are valid."""

from __future__ import annotations

from random import Random
from typing import Any, Final

NAMES: Final = ("$x", "$o.a", "$l", "$l[0]", "$t", "$o.b[1].c", '$o["a b"]', "$b", "$step.output", "$step.output.total")
LITERALS: Final = ("0", "1", "2.50", "-1", "1e3", "'a'", '"ab"', "''", "true", "false", "null", "[]", "[1, 2]", "['a']")
COMPARED: Final = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "starts_with")
FOREIGN: Final = (
    *("$x = 1", "$x && $b", "x == 1", "$x is null", "$t.lower() == 'a'", "!$b", "${x} > 1", "{{x}} > 1", "$x === 1"),
    *("$l.length > 0", "len $l > 1", "$x between 1 and 2", "$t like 'a%'", "$t matches '^a'", "$x <> 1", "1 < $x < 3"),
    *(
        "$t in (1, 2)",
        "“a” == $t",
        "$t.startswith('a')",
        "$x == None",
        "$l[-1] == 1",
        "$l[x]",
        "'$x' == 1",
        "$x ? 1 : 2",
    ),
    *("defined(x)", "defined('a')", "not $x == 1", "len('a') + 1 > 0", "$x == 1_000", ".5 < $x", "if $x: 1", "$x == a"),
    *("$x and or $b", "(($x)", "$x)", "[1, 2", "'a", "$", "$1x", "$x # y", "$x; $b", "$t isnull", "matches($t, '[')"),
)
MATCHED: Final = ('"^a"', "'b$'", "'[0-9]+'")
MOST_DEPTH: Final = 3


def drawn_expression(chance: Random) -> str:
    """Return an expression: most are valid, some are written as in other languages."""
    if chance.random() < 0.15:
        return chance.choice(FOREIGN)
    return _truth(chance, 0) if chance.random() < 0.6 else _value(chance, 0)


def _truth(chance: Random, depth: int) -> str:
    if depth < MOST_DEPTH and chance.random() < 0.45:
        left, right = _truth(chance, depth + 1), _truth(chance, depth + 1)
        return chance.choice((f"{left} and {right}", f"{left} or {right}", f"not {left}", f"({left})", f"not ({left})"))
    left, right = _value(chance, depth + 1), _value(chance, depth + 1)
    return chance.choice(
        (
            *(f"{left} {chance.choice(COMPARED)} {right}",) * 6,
            *(f"defined({chance.choice(NAMES)})", "$b", f"{left} ends_with 'b'"),
            f"matches({left}, {chance.choice(MATCHED)})",
        )
    )


def _value(chance: Random, depth: int) -> str:
    if depth >= MOST_DEPTH or chance.random() < 0.6:
        return chance.choice(NAMES if chance.random() < 0.6 else LITERALS)
    left, right = _value(chance, depth + 1), _value(chance, depth + 1)
    sign = chance.choice("+-*")
    function = chance.choice(("len", "lower", "upper", "trim", "number"))
    return chance.choice(
        (f"{left} {sign} {right}", f"({left} {sign} {right})", f"-{left}", f"{function}({left})", f"join({left}, ', ')")
    )


INPUTS: Final[dict[str, tuple[dict[str, object], ...]]] = {
    "x": ({"type": "number"}, {"type": "integer", "minimum": 0, "maximum": 2}, {"type": ["number", "null"]}, {}),
    "o": (
        {"type": "object", "properties": {"a": {"type": "string"}, "a b": {"type": "boolean"}}, "required": ["a"]},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "object"}}}},
    ),
    "l": (
        {"type": "array", "items": {"type": "number"}},
        {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1},
    ),
    "t": (
        {"type": "string", "enum": ["a", "ab"]},
        {"type": "string"},
        {"type": "string", "pattern": "^a"},
        {"const": "a"},
    ),
    "b": ({"type": "boolean"}, {"type": "boolean", "default": True}, {"type": ["boolean", "string"]}),
}


def drawn_conditions(chance: Random) -> dict[str, Any]:
    """Return a program of random expressions, with inputs of random types or of none."""
    inputs = {name: chance.choice(types) for name, types in INPUTS.items() if chance.random() < 0.8}
    fields = {"inputs": {**{name: {} for name in INPUTS}, **inputs}} if chance.random() < 0.7 else {}
    returns = chance.choice(({"type": "object", "properties": {"total": {"type": "number"}}}, {"type": "string"}, None))
    spec = {"effect": "read", **({} if returns is None else {"returns": returns})}
    steps: list[dict[str, Any]] = [{"id": "step", "type": "tool", "tool": "get"}]
    for number in range(3):
        following = f"s{number + 1}"
        if chance.random() < 0.5:
            assigned = {name: _value(chance, 0) for name in chance.sample(("v", "w", "x"), 2)}
            steps.append({"id": f"s{number}", "type": "set", "set": assigned, "next_step": following})
        else:
            cases = [{"when": _truth(chance, 1), "then": following} for _ in range(2)]
            steps.append({"id": f"s{number}", "type": "condition", "cases": cases, "otherwise": following})
    steps.append({"id": "s3", "type": "end", "output": {"v": "$v", "w": "so $w"} if chance.random() < 0.5 else "$x"})
    return {
        "name": "asks",
        "language": chance.choice((1, 2, 2, 2, 2)),
        **fields,
        "tools": {"get": spec},
        "steps": steps,
    }


PIECES: Final = (
    *(
        "a",
        "b",
        "é",
        ".",
        "\\d",
        "\\w",
        "\\s",
        "\\D",
        "\\S",
        "[a-c]",
        "[^a]",
        "[[:alpha:]]",
        "\\pL",
        "\\x41",
        "\\.",
        "\\n",
    ),
    *(
        "(?i:a)",
        "(?:ab)",
        "(b)",
        "(?P<n>a)",
        "^",
        "$",
        "\\A",
        "\\z",
        "\\b",
        "[0-9]",
        "[\\d-]",
        "x|",
        "\\Qa.b\\E",
        "-",
        "@",
    ),
)
REPEATS: Final = ("*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0}", "{,2}", "**", "{1001}")
ODD_PATTERNS: Final = (
    *(
        "\\p{Greek",
        "\\p{Greek}",
        "\\P{^L}",
        "\\pZ",
        "\\p",
        "\\x{41}",
        "\\x{",
        "\\x4",
        "[[:alpha:",
        "(?P<n",
        "(?P<1>a)",
        "(?z)a",
    ),
    *(
        "a{3,2}",
        "\\8",
        "(?i",
        "(?:a",
        "[a",
        "[\\",
        "a{1000}b{1000}",
        "(?i)k",
        "[[:^digit:]]",
        "[^\\W]",
        "\\Qab",
        "(?-i:a)",
        "(?i-s:.)",
    ),
    *(
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)",
        "(?(1)a)",
        "(?#a)",
        "(?P=n)",
        "\\1",
        "\\Z",
        "(",
        ")",
        "[",
        "[z-a]",
    ),
    *("a{2", "*a", "[[:x:]]", "\\p{Foo}", "(?x) a", "(?s).", "(?m)^a$", "(?U)a*", "\\C", "a||b", "[]a]", "[^]a]", "\\"),
)


def drawn_pattern(chance: Random) -> str:
    """Return a pattern."""
    if chance.random() < 0.15:
        return chance.choice(ODD_PATTERNS)
    parts = []
    for _ in range(chance.randint(1, 4)):
        piece = chance.choice(PIECES)
        parts.append(piece + chance.choice(REPEATS) if chance.random() < 0.3 else piece)
    inner = "".join(parts)
    return chance.choice((inner, f"^{inner}$", f"^({inner}|{chance.choice(PIECES)})", f"{inner}|{chance.choice('ab')}"))


BOUNDS: Final = (-1, 0, 0.5, 1, 1.5, 2, 3)


def drawn_limits(chance: Random) -> dict[str, object]:
    """Return a type with limits close together; some leave no value."""
    if chance.random() < 0.6:
        bounds = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        kind: object = chance.choice(("integer", "integer", "number", ["integer", "null"]))
        return {"type": kind, **{word: chance.choice(BOUNDS) for word in bounds if chance.random() < 0.5}}
    kind = chance.choice(("string", "array"))
    words = ("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")
    found = {"type": kind, **{word: chance.randint(0, 3) for word in words if chance.random() < 0.7}}
    if kind == "string" and chance.random() < 0.6:
        found["pattern"] = drawn_pattern(chance)
    if chance.random() < 0.2:
        found["enum"] = chance.choice((["a"], ["ab", "abcd"], [[1], [1, 2, 3, 4]], ["", None]))
    return found


WORDS: Final = (
    *(
        "a",
        "total",
        "a.b",
        "a b",
        "[0]",
        "[12]",
        "[01]",
        "x[1]",
        "Straße",
        "İIıi",
        "ΣΑΣ",
        " é\u2003",
        "ǆǅ",
        "9a",
        "o.a[0]",
    ),
    *(
        "2027-06-30T10:00:00Z",
        "2027-06-30T10:00:00+02:00",
        "2027-06-30T10:00:00.5Z",
        "2027-02-30T10:00:00Z",
        "2027-06-30",
    ),
    *(
        "2027-06-30T24:00:00Z",
        "1969-12-31T23:59:59.999999Z",
        "a\u3164b",
        'o["a"]',
        "o['a b'].c",
        "",
        "$x",
        "é.ü",
        "a..b",
    ),
    *("2027-06-30t10:00:00z", "2027-06-30T10:00:60Z", "2027-06-30T10:00:00.1234567Z", "0001-01-01T00:00:00+14:00"),
)


def drawn_words(chance: Random) -> str:
    """Return a text that may be a name, a path or an instant."""
    return chance.choice(WORDS)
