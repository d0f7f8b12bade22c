"""Hypothesis strategies that several test files draw from: texts, values, conditions, and states for them.

Helpers only; no tests stand here.
"""

from __future__ import annotations

import string
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from stepward.vm.expressions import operators

NAMES = ("a", "b", "s", "t", "items", "ok", "maybe", "o.field", "o.deep.er", "step.output", "gone", "größe")
"""Names that generated conditions refer to; `gone` is never defined, `maybe` often null."""

TEXTS = ("", "x", "yes", "no", "xyz", "ja\n", "$a", "it's", 'say "hi"', "back\\slash", "é😀")
NUMBERS = ("0", "1", "2", "1.0", "0.1", "0.2", "0.3", "10", "1e2", "5E-1", "00", "3.50")
KEYWORDS = tuple(sorted(operators.KEYWORDS))
SIGNS = (*operators.SIGNS, *"()[],")
BETWEEN = {
    kind: [word for word, row in operators.OPERATORS.items() if row.takes == kinds]
    for kind, kinds in (("number", operators.NUMBER), ("text", operators.STRING))
}
"""Operators between two values of a kind."""

# -- texts and values -----------------------------------------------------------------------------------------------

text_characters = st.one_of(
    st.sampled_from("abc XYZ019_-.,:;#&*!|>'\"%@`{}[]?~/\\\n\t$=<é😀ü\u2028\x85\ufeff\xa0\x7f\x1b"),
    st.characters(codec="utf-8", exclude_characters="\x00"),
)
texts = st.one_of(
    st.text(text_characters, max_size=25),
    st.sampled_from(
        [
            "yes",
            "no",
            "on",
            "null",
            "~",
            "true",
            "1",
            "1.5",
            "0o17",
            "0x1F",
            "1e3",
            ".inf",
            "1_000",
            "2024-01-01",
            "<<",
            "=",
        ]
    ),
)

exact_numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6),
    st.sampled_from([Decimal("0.1"), Decimal("-2.5"), 10**999, -(10**999)]),
)


def json_values(scalars: st.SearchStrategy[Any] | None = None, leaves: int = 12) -> st.SearchStrategy[Any]:
    """Return plain nested data: what a JSON or YAML text can hold."""
    leaf = scalars if scalars is not None else st.one_of(st.none(), st.booleans(), exact_numbers, texts)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
        max_leaves=leaves,
    )


# -- conditions, as lists of tokens ---------------------------------------------------------------------------------

Tokens = list[str]


def quoted(text: str, quote: str = "'") -> str:
    """Write a text as the condition language does, with the escapes that it has."""
    escapes = {"\\": "\\\\", quote: "\\" + quote, "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return quote + "".join(escapes.get(sign, sign) for sign in text) + quote


_text_literals = st.builds(quoted, st.sampled_from(TEXTS), st.sampled_from("'\"")) | st.sampled_from(
    [r"'\u0041'", r"'\ud83d\ude00'", "'a\nb'"]
)
_literals = {
    "number": st.one_of(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS).map(lambda number: "-" + number)),
    "text": _text_literals,
    "boolean": st.sampled_from(["true", "false"]),
    "null": st.just("null"),
}
_references = {
    "number": ("a", "b", "o.field", "maybe", "größe"),
    "text": ("s", "t", "step.output"),
    "boolean": ("ok", "o.deep.er"),
    "array": ("items",),
}
PATTERNS = ("^x", "[a-z]+$", "(?i)YES", "^$", "ja\\s")
"""Patterns of `matches`; of the grammar's texts any is a separator of `join`."""


@st.composite
def condition_tokens(draw: st.DrawFn, depth: int = 4) -> Tokens:
    """Draw the tokens of a condition that the grammar accepts and that mostly has a value."""
    return draw(_boolean(depth))


@st.composite
def _boolean(draw: st.DrawFn, depth: int) -> Tokens:
    shape = draw(st.sampled_from(["compare"] * 4 + ["logic"] * 4 + ["not", "not", "group", "defined", "leaf"]))
    if depth <= 0 and shape in ("logic", "not", "group"):
        shape = "compare"
    if shape == "logic":
        operands = draw(st.lists(_boolean(depth - 2), min_size=2, max_size=3))
        words = draw(st.lists(st.sampled_from(["and", "or"]), min_size=len(operands), max_size=len(operands)))
        return [token for word, operand in zip(words, operands, strict=True) for token in (word, *operand)][1:]
    if shape == "not":
        return ["not", *draw(_boolean(depth - 1))]
    if shape == "group":
        return ["(", *draw(_boolean(depth - 1)), ")"]
    if shape == "defined":
        return ["defined", "(", "$" + draw(st.sampled_from(NAMES)), ")"]
    if shape == "leaf" and draw(st.integers(0, 2)) == 0:
        pattern = quoted(draw(st.sampled_from(PATTERNS)))
        return ["matches", "(", *draw(_operand("text", depth)), ",", pattern, ")"]
    if shape == "leaf":
        return [draw(st.sampled_from(["true", "false", "$ok", "$gone", "$o.deep.er"]))]
    return draw(_comparison(depth))


@st.composite
def _comparison(draw: st.DrawFn, depth: int) -> Tokens:
    kind = draw(st.sampled_from(["equal", "order", "member", "contains", "ends"]))
    if kind == "equal":
        word = draw(st.sampled_from(["number", "number", "text", "boolean"]))
        left, right = draw(_operand(word, depth)), draw(_operand(word, depth))
        return [*left, draw(st.sampled_from(["==", "!="])), *right]
    if kind == "order":
        operator = draw(st.sampled_from(BETWEEN["number"]))
        return [*draw(_operand("number", depth)), operator, *draw(_operand("number", depth))]
    negated = ["not"] if draw(st.booleans()) else []
    if kind == "member":
        word = draw(st.sampled_from(["number", "text", "boolean"]))
        return [*draw(_operand(word, depth)), *negated, "in", *draw(_array(word))]
    if kind == "contains":
        if draw(st.booleans()):
            return [*draw(_operand("text", depth)), *negated, "contains", *draw(_operand("text", depth))]
        return [*draw(_array("number")), *negated, "contains", *draw(_operand("number", depth))]
    operator = draw(st.sampled_from(BETWEEN["text"]))
    return [*draw(_operand("text", depth)), operator, *draw(_operand("text", depth))]


@st.composite
def _operand(draw: st.DrawFn, word: str, depth: int) -> Tokens:
    shape = draw(
        st.sampled_from(["literal"] * 3 + ["reference"] * 4 + ["odd"] + ["sum", "product", "minus", "len", "group"])
        | st.sampled_from(["change", "join", "literal", "reference", "reference"])
    )
    if shape == "odd":  # an operand of another type: an evaluation that fails
        return [
            draw(st.one_of(_literals["null"], _literals["text"], st.sampled_from(NAMES).map(lambda name: "$" + name)))
        ]
    if shape == "group" and depth > 0:
        return ["(", *draw(_operand(word, depth - 1)), ")"]
    if word == "text" and depth > 0:
        if shape == "change":
            changes = [name for name, row in operators.FUNCTIONS.items() if row.is_idempotent]
            return [draw(st.sampled_from(changes)), "(", *draw(_operand("text", depth - 1)), ")"]
        if shape == "join":
            return ["join", "(", *draw(_array("text")), ",", draw(_text_literals), ")"]
    if word == "number" and depth > 0:
        if shape in ("sum", "product"):
            signs = st.sampled_from(["+", "-"]) if shape == "sum" else st.just("*")
            first, *rest = draw(st.lists(_operand("number", depth - 2), min_size=2, max_size=3))
            return [*first, *(token for operand in rest for token in (draw(signs), *operand))]
        if shape == "minus":
            return ["-", *draw(_operand("number", depth - 1))]
        if shape == "len":
            inner = draw(_operand("text", depth - 1)) if draw(st.booleans()) else draw(_array("text"))
            return ["len", "(", *inner, ")"]
    if shape == "reference":
        return ["$" + draw(st.sampled_from(_references[word]))]
    return [draw(_literals[word])]


@st.composite
def _array(draw: st.DrawFn, word: str) -> Tokens:
    if draw(st.integers(0, 3)) == 0:
        return ["$items"]
    items = draw(st.lists(_literals[word], max_size=3))
    if draw(st.integers(0, 2)) == 0:
        items.append("$" + draw(st.sampled_from(_references[word])))
    inner = [token for item in items for token in (",", item)][1:]
    if items and draw(st.integers(0, 5)) == 0:
        inner.append(",")
    return ["[", *inner, "]"]


_gaps = st.sampled_from([" ", " ", " ", "  ", "\n", "\t", " \r\n "])


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw the text of a condition, with whatever spaces the grammar allows."""
    tokens = draw(condition_tokens())
    pieces = [tokens[0]]
    for before, token in pairwise(tokens):
        runs_on = (before[-1].isalnum() or before[-1] == "_") and (token[0].isalnum() or token[0] in "_.")
        joined = before[-1] + token[0] in ("==", "<=", ">=", "!=")
        pieces.append(draw(_gaps) if runs_on or joined or draw(st.booleans()) else "")
        pieces.append(token)
    return "".join(pieces)


@st.composite
def mutated_conditions(draw: st.DrawFn) -> str:
    """Draw a condition with one to three characters or tokens deleted, inserted or swapped."""
    if draw(st.booleans()):
        tokens = _mutated(
            draw, draw(condition_tokens()), st.sampled_from((*KEYWORDS, *SIGNS, "$a", "'x'", "1", "x", "$"))
        )
        return draw(st.sampled_from([" ", ""])).join(tokens)
    letters = st.sampled_from(string.printable + "é²١😀\xa0\ud800")
    return "".join(_mutated(draw, list(draw(conditions())), letters))


def _mutated(draw: st.DrawFn, parts: list[str], fresh: st.SearchStrategy[str]) -> list[str]:
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(parts) - 1, 0)))
        action = draw(st.sampled_from(["delete", "insert", "swap", "double"]))
        if action == "insert" or not parts:
            parts.insert(at, draw(fresh))
        elif action == "delete":
            del parts[at]
        elif action == "double":
            parts.insert(at, parts[at])
        else:
            other = draw(st.integers(0, len(parts) - 1))
            parts[at], parts[other] = parts[other], parts[at]
    return parts


# -- states ---------------------------------------------------------------------------------------------------------

_small_numbers = st.sampled_from([0, 1, 2, -1, 10, 100, Decimal("0.1"), Decimal("0.3"), Decimal("0.5"), Decimal("3.5")])
_small_texts = st.sampled_from(TEXTS)
_anything = st.one_of(
    st.none(),
    st.booleans(),
    _small_numbers,
    _small_texts,
    st.just(()),
    st.just((1, "x")),
    st.builds(dict, field=_small_numbers),
)
_expected = {
    "a": _small_numbers,
    "b": _small_numbers,
    "größe": _small_numbers,
    "maybe": st.one_of(st.none(), _small_numbers),
    "s": _small_texts,
    "t": _small_texts,
    "ok": st.booleans(),
    "items": st.one_of(
        st.lists(_small_numbers, max_size=3).map(tuple),
        st.lists(_small_texts, max_size=3).map(tuple),
        st.just((None, 1)),
    ),
}


@st.composite
def states(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a state: nested objects by name; some names are missing, some have a value of another type."""
    state: dict[str, Any] = {}
    for name, values in _expected.items():
        choice = draw(st.integers(0, 11))
        if choice:
            state[name] = draw(_anything if choice == 1 else values)
    if draw(st.integers(0, 4)):
        state["o"] = {"field": draw(_small_numbers), "deep": {"er": draw(st.booleans())}}
    if draw(st.integers(0, 4)):
        state["step"] = {"output": draw(_small_texts)}
    return state
