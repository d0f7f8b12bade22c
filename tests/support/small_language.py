"""Expressions and types of small programs, read and evaluated from the language's text alone; shares no code with `vm`.

An object is a tuple of (field, value) pairs and a list is `Items`, so that every value can be hashed. Of texts and
lists without bound there is one for each way in which `TEXT_QUESTIONS` and `LIST_QUESTIONS` can come out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, Final

Tree = tuple[Any, ...]
Values = tuple[Any, ...]
Reader = Callable[[Values], Any]

_NAMES: Final = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*"
REFERENCE: Final = re.compile(rf"\$({_NAMES})")
OPAQUE: Final = "any"
"""The one value of an output whose type is open: nothing asks for it."""

_TOKEN: Final = re.compile(
    rf"\s*(?:\$(?P<ref>{_NAMES})|(?P<number>\d+(?:e\d+)?)|'(?P<text>[^'\\]*)'"
    r"|(?P<sign>==|!=|<=|>=|[<>+\-*()\[\],])|(?P<word>[a-z_]+))"
)
TEXT_QUESTIONS: Final = (
    "$x == ''", "$x != 'a'", "$x in ['a', 'ab']", "$x contains 'b'", "$x starts_with 'a'", "not ($x ends_with 'b')",
    "len($x) == 0", "len($x) > 1", "'abx' contains $x", "lower($x) == 'a'", "upper(trim($x)) starts_with 'A'",
    "matches($x, '^a?b')", "$x + 'b' == 'ab'", "'a' + $x starts_with 'ab'", "$x + 'b' contains 'bb'",
)  # fmt: skip
LIST_QUESTIONS: Final = ("len($x) > 0", "len($x) == 1", "len($x) < 2")
MEMBER_QUESTIONS: Final = (
    "'a' in $x", "$x contains 'b'", "'a' not in $x", "join($x, ', ') contains 'a'", "$x + ['b'] contains 'a'",
)  # fmt: skip
"""What may be asked of lists of texts, beside their length."""

ITEM_QUESTIONS: Final = ("defined($x[0])", "not defined($x[1])")
TEXT_ITEM_QUESTIONS: Final = (
    "$x[0] == 'a'",
    "len($x) > 1 and $x[1] != 'b'",
    "defined($x[0]) and $x[0] + 'b' == 'ab'",
    "$x contains 'a' and $x[0] != 'a'",
)
ROW_QUESTIONS: Final = (
    "$x[0].fine",
    "len($x) > 1 and $x[1].fine",
    "defined($x[0].fine)",
    "len($x) == 0 or not $x[0].fine",
)
"""What may be asked of lists by an index: of any, of lists of texts, and of lists of objects."""

_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class _Gone:
    def __repr__(self) -> str:
        return "undefined"


GONE: Final = _Gone()
"""What an undefined variable holds."""


class Items(tuple[Any, ...]):
    """A list."""

    __slots__ = ()


class Unreadable(Exception):  # noqa: N818 - it is no error of ours
    """An expression has no value; `reference` is what was undefined, if that is why."""

    def __init__(self, reference: str | None) -> None:
        self.reference = reference


class NotSmallError(Exception):
    """The program has too many values or states to enumerate, or something that is not modelled here."""


def domain(spec: dict[str, Any] | None) -> tuple[Any, ...]:
    """Return every value of a type."""
    if not spec or spec == {"type": "string"}:
        return (OPAQUE,)
    kind = spec.get("type")
    if isinstance(kind, list):
        inner = [value for word in kind if word != "null" for value in domain({**spec, "type": word})]
        return (*inner, None) if "null" in kind else tuple(inner)
    if "const" in spec:
        return (spec["const"],)
    if "enum" in spec:
        members = (value for value in spec["enum"] if kind != "string" or isinstance(value, str))
        return tuple(value for value in members if not isinstance(value, str) or _fits(value, spec))
    if kind == "string" and ("maxLength" in spec or "pattern" in spec or "minLength" in spec):
        texts = _texts(spec.get("maxLength", 3), spec.get("pattern", ""))
        return tuple(text for text in texts if len(text) >= spec.get("minLength", 0))
    if kind == "array":
        counts = range(spec.get("minItems", 0), spec.get("maxItems", 2) + 1)
        return tuple(one for one in _lists(domain(spec["items"])) if len(one) in counts)
    if kind == "boolean":
        return (False, True)
    low, high = spec.get("minimum"), spec.get("maximum")
    low = spec["exclusiveMinimum"] + 1 if "exclusiveMinimum" in spec else low
    high = spec["exclusiveMaximum"] - 1 if "exclusiveMaximum" in spec else high
    if kind == "integer" and low is not None and high is not None:
        return tuple(range(low, high + 1))
    if kind == "object":
        return tuple(_objects(spec))
    raise NotSmallError(f"no small type: {spec}")


def _fits(text: str, spec: dict[str, Any]) -> bool:
    return len(text) <= spec.get("maxLength", len(text)) and bool(re.search(spec.get("pattern", ""), text))


@lru_cache
def _texts(most: int, pattern: str) -> tuple[str, ...]:
    """Return the texts of a type: all of one character of those that are asked for, and a sample of longer ones."""
    fitting = [
        text for size in range(min(most, 3) + 1) for text in map("".join, product("abcxA", repeat=size))
        if re.search(pattern, text)
    ]  # fmt: skip
    short = [text for text in fitting if len(text) < 2 and text != "A"]
    return tuple(dict.fromkeys([*short, *_told_apart(fitting, TEXT_QUESTIONS)]))


def _lists(items: tuple[Any, ...]) -> tuple[Items, ...]:
    """Return the lists of such items; `OPAQUE` items are texts of which any may be asked for."""
    pool = ("a", "b", "x") if items == (OPAQUE,) else items
    questions = (*LIST_QUESTIONS, *ITEM_QUESTIONS)
    if all(isinstance(item, str) for item in pool):
        questions += MEMBER_QUESTIONS + TEXT_ITEM_QUESTIONS
    if all(isinstance(item, tuple) for item in pool):
        questions += ROW_QUESTIONS
    return tuple(_told_apart([Items(one) for size in range(3) for one in product(pool, repeat=size)], questions))


def _told_apart(values: list[Any], questions: tuple[str, ...]) -> list[Any]:
    """Return one value for each way in which the questions come out."""
    readers = [compiled(parsed(text), lambda name: (0, names_of(name)[1:])) for text in questions]
    return list({tuple(_answer(read, value) for read in readers): value for value in reversed(values)}.values())


def _answer(read: Reader, value: Any) -> Any:
    try:
        return read((value,))
    except Unreadable:
        return GONE


def _objects(spec: dict[str, Any]) -> Iterator[tuple[tuple[str, Any], ...]]:
    choices = []
    for name, inner in spec["properties"].items():
        held: list[tuple[tuple[str, Any], ...]] = [((name, value),) for value in domain(inner)]
        choices.append(held if name in spec.get("required", ()) else [*held, ()])
    for fields in product(*choices):
        yield tuple(pair for field in fields for pair in field)


def frozen(value: Any) -> Any:
    """Return a plain value as one that can be hashed."""
    if isinstance(value, list):
        return Items(frozen(inner) for inner in value)
    return tuple((name, frozen(inner)) for name, inner in value.items()) if isinstance(value, dict) else value


def thawed(value: Any) -> Any:
    """Return such a value as plain data."""
    if isinstance(value, Items):
        return [thawed(inner) for inner in value]
    return {name: thawed(inner) for name, inner in value} if isinstance(value, tuple) else value


# -- reading -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def parsed(text: str) -> Tree:
    """Return the tree of an expression."""
    parser = _Parser(text)
    tree = parser.either()
    assert parser.position == len(parser.tokens), f"read to token {parser.position} of {text}"
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.position, at, text = 0, 0, text.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            assert found is not None, f"{text[at:]} in {text}"
            assert found.lastgroup is not None
            self.tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def take(self, *wanted: str) -> str | None:
        kind, text = self.peek()
        if kind in ("sign", "word") and text in wanted:
            self.position += 1
            return text
        return None

    def either(self) -> Tree:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else ("or", tuple(parts))

    def both(self) -> Tree:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else ("and", tuple(parts))

    def negation(self) -> Tree:
        return ("not", self.negation()) if self.take("not") else self.comparison()

    def comparison(self) -> Tree:
        left = self.sum()
        sign = self.take("==", "!=", "<", "<=", ">", ">=", "in", "contains", "starts_with", "ends_with")
        if sign is None and self.peek() == ("word", "not"):
            self.position += 1
            word = self.take("in", "contains")
            assert word, "only `not in` and `not contains` may follow a value"
            sign = f"not {word}"
        return left if sign is None else ("compare", sign, left, self.sum())

    def sum(self) -> Tree:
        left = self.product()
        while sign := self.take("+", "-"):
            left = ("arithmetic", sign, left, self.product())
        return left

    def product(self) -> Tree:
        left = self.atom()
        while self.take("*"):
            left = ("arithmetic", "*", left, self.atom())
        return left

    def atom(self) -> Tree:
        kind, text = self.peek()
        self.position += 1
        if kind == "ref":
            return ("reference", text)
        if kind == "number":
            return ("constant", int(text.partition("e")[0]) * 10 ** int(text.partition("e")[2] or 0))
        if kind == "text" or text in _CONSTANTS:
            return ("constant", text if kind == "text" else _CONSTANTS[text])
        if text == "-":
            return ("arithmetic", "-", ("constant", 0), self.atom())
        return self.enclosed(text)

    def enclosed(self, text: str) -> Tree:
        if text == "[":
            if self.take("]"):
                return ("constant", Items())
            items = [self.atom()]
            while self.take(","):
                items.append(self.atom())
            assert self.take("]")
            if all(item[0] == "constant" for item in items):
                return ("constant", Items(item[1] for item in items))
            return ("list", tuple(items))
        if text == "defined":
            assert self.take("(")
            inner = self.atom()
            assert self.take(")")
            return ("defined", inner[1])
        if text in _FUNCTIONS:
            assert self.take("(")
            operand, literal = self.either(), ""
            if self.take(","):
                literal = self.peek()[1]
                self.position += 1
            assert self.take(")")
            return ("call", text, operand, literal)
        assert text == "(", f"{text} is no value"
        inner = self.either()
        assert self.take(")")
        return inner


def references(tree: Tree) -> Iterator[str]:
    """Yield every reference of a tree, those too that `defined` asks about."""
    if tree[0] in ("reference", "defined"):
        yield tree[1]
    for part in tree[1:] if tree[0] != "call" else (tree[2],):
        if isinstance(part, tuple) and tree[0] != "constant":
            for inner in part if tree[0] in ("and", "or", "list") else (part,):
                yield from references(inner)


# -- evaluating --------------------------------------------------------------------------------------------------------

Where = Callable[[str], tuple[int, tuple[str, ...]]]
"""Where a reference is kept: the position among the values, and the fields below."""


def compiled(tree: Tree, where: Where) -> Reader:
    """Return a function that evaluates a tree on the values of variables."""
    kind = tree[0]
    if kind == "constant":
        held = tree[1]
        return lambda values: held
    if kind == "reference":
        return reference(tree[1], where)
    if kind == "defined":
        read = reference(tree[1], where)
        return lambda values: _is_defined(read, values)
    if kind == "call":
        operand, literal, function = compiled(tree[2], where), tree[3], _FUNCTIONS[tree[1]]
        return lambda values: function(operand(values), literal)
    if kind == "not":
        inner = compiled(tree[1], where)
        return lambda values: not _boolean(inner(values))
    if kind == "list":
        items = [compiled(part, where) for part in tree[1]]
        return lambda values: Items(item(values) for item in items)
    if kind in ("and", "or"):
        parts = [compiled(part, where) for part in tree[1]]
        return _chain(parts, stops=kind == "or")
    left, right = compiled(tree[2], where), compiled(tree[3], where)
    operate = _OPERATORS[tree[1]]
    return lambda values: operate(left(values), right(values))


def reference(text: str, where: Where) -> Reader:
    """Return a function that reads a reference."""
    slot, fields = where(text)

    def read(values: Values) -> Any:
        value = values[slot]
        for field in fields:
            value = _inside(value, field)
        if value is GONE:
            raise Unreadable(text)
        return value

    return read


def templates(value: Any) -> list[str]:
    """Return the references in the texts of a list or an object, at any depth."""
    if isinstance(value, str):
        return REFERENCE.findall(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for one in inner for name in templates(one)]


def filled(value: Any, where: Where) -> Reader:
    """Return a function that fills in the texts of a list or an object; nothing in it is computed."""
    if isinstance(value, dict):
        fields = {name: filled(inner, where) for name, inner in value.items()}
        return lambda values: tuple((name, read(values)) for name, read in fields.items())
    if isinstance(value, list):
        items = [filled(inner, where) for inner in value]
        return lambda values: Items(read(values) for read in items)
    if not isinstance(value, str) or not REFERENCE.search(value):
        return lambda values: value
    if REFERENCE.fullmatch(value):
        return reference(value[1:], where)
    pieces = REFERENCE.split(value)
    readers = [reference(name, where) for name in pieces[1::2]]
    return lambda values: "".join(
        text + said for text, said in zip(pieces[::2], [*(_written(read(values)) for read in readers), ""], strict=True)
    )


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        raise NotSmallError("a list or an object in a text")
    return value if isinstance(value, str) else {True: "true", False: "false", None: "null"}.get(value, str(value))


def names_of(text: str) -> list[str]:
    """Return the names of a reference; an index keeps its brackets."""
    return re.findall(r"\w+|\[\d+\]", text)


def _inside(value: Any, field: str) -> Any:
    if field.startswith("["):
        number = int(field[1:-1])
        return value[number] if isinstance(value, Items) and number < len(value) else GONE
    return dict(value).get(field, GONE) if isinstance(value, tuple) and not isinstance(value, Items) else GONE


def _is_defined(read: Reader, values: Values) -> bool:
    try:
        read(values)
    except Unreadable:
        return False
    return True


def _chain(parts: list[Reader], *, stops: bool) -> Reader:
    def value(values: Values) -> bool:
        return stops if any(_boolean(part(values)) is stops for part in parts) else not stops

    return value


def _boolean(value: Any) -> bool:
    if value is not True and value is not False:
        raise Unreadable(None)
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise Unreadable(None)
    return value


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if type(left) is not type(right):
        raise Unreadable(None)
    return bool(left == right)


def _among(left: Any, right: Any) -> bool:
    if not isinstance(right, Items):
        raise Unreadable(None)
    return any(_equal(left, item) for item in right)


def _length(value: Any, _: str) -> int:
    if not isinstance(value, str | Items):
        raise Unreadable(None)
    return len(value)


def _joined(value: Any, between: str) -> str:
    if not isinstance(value, Items):
        raise Unreadable(None)
    return between.join(map(_text, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable(None)
    return value


def _contains(left: Any, right: Any) -> bool:
    return _among(right, left) if isinstance(left, Items) else _text(right) in _text(left)


def _plus(left: Any, right: Any) -> Any:
    """Add or join two values of one kind; programs of language 1 join nothing, and none is drawn that would."""
    if isinstance(left, str):
        return left + _text(right)
    if isinstance(left, Items) and isinstance(right, Items):
        return Items((*left, *right))
    return _counted(_number(left) + _number(right))


def _counted(value: int) -> int:
    if abs(value) >= 10**1_000:  # it has too many digits
        raise Unreadable(None)
    return value


_FUNCTIONS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "len": _length,
    "lower": lambda value, _: _text(value).lower(),
    "upper": lambda value, _: _text(value).upper(),
    "trim": lambda value, _: _text(value).strip(),
    "join": _joined,
    "matches": lambda value, pattern: re.search(pattern, _text(value)) is not None,
}
"""The functions, for texts of ASCII letters and patterns that mean the same in RE2 and in Python."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": lambda left, right: _number(left) < _number(right),
    "<=": lambda left, right: _number(left) <= _number(right),
    ">": lambda left, right: _number(left) > _number(right),
    ">=": lambda left, right: _number(left) >= _number(right),
    "in": _among,
    "not in": lambda left, right: not _among(left, right),
    "contains": _contains,
    "not contains": lambda left, right: not _contains(left, right),
    "starts_with": lambda left, right: _text(left).startswith(_text(right)),
    "ends_with": lambda left, right: _text(left).endswith(_text(right)),
    "+": _plus,
    "-": lambda left, right: _counted(_number(left) - _number(right)),
    "*": lambda left, right: _counted(_number(left) * _number(right)),
}
