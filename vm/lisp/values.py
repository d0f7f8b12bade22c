"""The values of the Lisp: those of the language, and keywords, vectors, lists, sets, functions.

Everything is immutable and counted: a value tells the meter how many bytes it takes, and gives them back when nothing
refers to it any more. Numbers are those of `stepward.vm.values`; nil is None; a character is a text of one code point.
A value is nested at most MAX_DEPTH levels, so that no function that walks it can exhaust Python's stack.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.limits import Meter
from stepward.vm.values import MAX_DEPTH, Number

Steps = Generator[Any, Any, Any]
"""An evaluation: it yields the generators of its parts, and returns its value."""

_SMALL: Final = 1 << 60
_LONG_TEXT: Final = 256
"""From this length on a text is counted by itself; a shorter one is counted with each collection that holds it."""


class Keyword:
    """A keyword such as `:total`."""

    __slots__ = ("_hash", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._hash = hash((":", name))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Keyword) and other.name == self.name)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f":{self.name}"


class MeteredValue:
    """A value that takes memory of the evaluation until nothing refers to it."""

    __slots__ = ("meter", "size")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.size = 0

    def hold(self, size: int) -> None:
        """Take `size` bytes more."""
        self.size += size
        self.meter.hold(size, self)

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return "a function"

    def __del__(self) -> None:
        self.meter.live -= self.size


class Text(str):
    """A long text, counted by itself."""

    __slots__ = ("meter", "size")
    meter: Meter
    size: int

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return f"a text of {len(self)} characters"

    def __del__(self) -> None:
        self.meter.live -= self.size


def text(meter: Meter, value: str) -> str:
    """Return a text that is counted if it is long."""
    if len(value) < _LONG_TEXT or isinstance(value, Text):
        return value
    long = Text(value)
    long.meter, long.size = meter, 0
    size = weigh(str(value))
    long.size = size
    meter.hold(size, long)
    return long


def weigh(value: Any) -> int:
    """Return the bytes of a value that does not count itself."""
    # About what CPython takes, but not what it says: that differs between its versions.
    kind = type(value)
    if kind is int:
        return 32 if -_SMALL < value < _SMALL else 32 + value.bit_length() // 7
    if kind is str:
        return 50 + len(value) * (1 if value.isascii() else 4)
    return 160 if kind is Decimal else 0


class Store(MeteredValue):
    """The cells that vectors and lists share; only the one that ends where the cells end may add to them."""

    __slots__ = ("cells", "depth")

    def __init__(self, meter: Meter, cells: Iterable[Any] = ()) -> None:
        super().__init__(meter)
        self.cells: list[Any] = []
        self.depth = 0
        self.hold(120)
        for cell in cells:
            self.add(cell)

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return f"a vector or list of {len(self.cells)} items"

    def add(self, value: Any) -> None:
        """Add a cell at the end."""
        depth = getattr(value, "depth", 0)
        if depth >= self.depth:
            self.depth = depth + 1
            if depth >= MAX_DEPTH:
                raise too_deep()
        self.cells.append(value)
        size = 9 + weigh(value)
        self.size += size
        self.meter.hold(size, self)

    def vector(self) -> Vector:
        """Return all cells as a vector."""
        return Vector(self, 0, len(self.cells))

    def list(self) -> List:
        """Return all cells as a list."""
        return List(self, 0, len(self.cells))


def too_deep() -> Fault:
    """Return the fault of a value with too many levels."""
    return Fault(
        "depth_exceeded",
        f"a value is nested deeper than {MAX_DEPTH} levels",
        "keep nested data flat: a vector of items instead of items in items",
        limit=MAX_DEPTH,
    )


class Items(MeteredValue):
    """A vector or a list: some of the cells of a store."""

    __slots__ = ("_hash", "start", "stop", "store")

    def __init__(self, store: Store, start: int, stop: int) -> None:
        super().__init__(store.meter)
        self.store, self.start, self.stop = store, start, stop
        self._hash: int | None = None
        self.size = 100
        self.meter.hold(100, self)

    @property
    def depth(self) -> int:
        """The levels of nesting, itself included."""
        return self.store.depth or 1

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return f"a {'vector' if isinstance(self, Vector) else 'list'} of {len(self)} items"

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Any]:
        return islice(self.store.cells, self.start, self.stop)

    def at(self, index: int) -> Any:
        """Return the item at an index that exists."""
        return self.store.cells[self.start + index]

    def part(self, start: int, stop: int) -> Any:
        """Return the items from `start` to before `stop`, which share the cells."""
        return type(self)(self.store, self.start + start, self.start + stop)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Items) or len(self) != len(other):
            return False
        self.meter.step(len(self))
        return all(map(equal, self, other))

    def __hash__(self) -> int:
        if self._hash is None:
            self.meter.step(len(self))
            self._hash = hash(tuple(map(wrapped, self)))
        return self._hash


class Vector(Items):
    """A vector, such as `[1 2 3]`."""

    __slots__ = ()

    def with_last(self, value: Any) -> Vector:
        """Return a vector with one more item at the end."""
        store = self.store
        if self.stop != len(store.cells):
            self.meter.step(len(self) // 64)
            store = Store(self.meter, self)
        start = self.start if store is self.store else 0
        store.add(value)
        return Vector(store, start, len(store.cells))


class List(Items):
    """A list or another sequence: what `map`, `filter`, `rest` and `list` give."""

    __slots__ = ()


class Map(MeteredValue):
    """A map. Its entries keep the order in which they were added; keys are `wrapped`."""

    __slots__ = ("_hash", "depth", "entries")

    def __init__(self, meter: Meter, entries: dict[Any, Any] | None = None, size: int = 0, depth: int = 1) -> None:
        super().__init__(meter)
        self.entries = {} if entries is None else entries
        self.depth = depth
        self._hash: int | None = None
        self.hold(size or 120)

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return f"a map of {len(self)} entries"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Any]:
        return map(unwrapped, self.entries)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the keys with their values."""
        return ((unwrapped(key), value) for key, value in self.entries.items())

    def _copy(self) -> Map:
        self.meter.step(len(self) // 256)
        self.meter.expect(self.size, self.in_words())
        return Map(self.meter, dict(self.entries), self.size, self.depth)

    def with_entries(self, pairs: Iterable[tuple[Any, Any]]) -> Map:
        """Return a map with more entries; a later pair replaces an earlier one."""
        copy = self._copy()
        for key, value in pairs:
            copy.put(key, value)
        return copy

    def put(self, key: Any, value: Any) -> None:
        """Add an entry to a map that nobody else has yet."""
        depth = max(getattr(value, "depth", 0), getattr(key, "depth", 0))
        if depth >= self.depth:
            self.depth = depth + 1
            if depth >= MAX_DEPTH:
                raise too_deep()
        key = wrapped(key)
        size = weigh(value) + (0 if key in self.entries else 100 + weigh(key))
        self.entries[key] = value
        self.hold(size)

    def without(self, keys: Iterable[Any]) -> Map:
        """Return a map without some keys."""
        copy = self._copy()
        for key in keys:
            copy.entries.pop(wrapped(key), None)
        return copy

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Map) or len(self) != len(other):
            return False
        self.meter.step(len(self))
        missing = object()
        return all(equal(value, other.entries.get(key, missing)) for key, value in self.entries.items())

    def __hash__(self) -> int:
        if self._hash is None:
            self.meter.step(len(self))
            self._hash = hash(frozenset((key, wrapped(value)) for key, value in self.entries.items()))
        return self._hash


class Set(MeteredValue):
    """A set. Its members keep the order in which they were added; they are `wrapped`."""

    __slots__ = ("_hash", "depth", "members")

    def __init__(self, meter: Meter, members: Iterable[Any] = ()) -> None:
        super().__init__(meter)
        self.members: dict[Any, None] = {}
        self.depth = 1
        self._hash: int | None = None
        self.hold(120)
        for member in members:
            self.put(member)

    def in_words(self) -> str:
        """Return what the value is and how large."""
        return f"a set of {len(self)} members"

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Any]:
        return map(unwrapped, self.members)

    def __contains__(self, value: object) -> bool:
        return wrapped(value) in self.members

    def put(self, value: Any) -> None:
        """Add a member to a set that nobody else has yet."""
        depth = getattr(value, "depth", 0)
        if depth >= self.depth:
            self.depth = depth + 1
            if depth >= MAX_DEPTH:
                raise too_deep()
        value = wrapped(value)
        if value not in self.members:
            self.members[value] = None
            self.hold(80 + weigh(value))

    def with_members(self, values: Iterable[Any]) -> Set:
        """Return a set with more members."""
        self.meter.step(len(self) // 256)
        copy = Set(self.meter)
        copy.members, copy.depth = dict(self.members), self.depth
        copy.hold(self.size - copy.size)
        for value in values:
            copy.put(value)
        return copy

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Set):
            return False
        self.meter.step(len(self))
        return self.members.keys() == other.members.keys()

    def __hash__(self) -> int:
        if self._hash is None:
            self.meter.step(len(self))
            self._hash = hash(frozenset(self.members))
        return self._hash


class Regex:
    """A regular expression; two with the same text are not equal."""

    __slots__ = ("compiled", "source")

    def __init__(self, source: str, compiled: Any) -> None:
        self.source = source
        self.compiled = compiled


class Var:
    """What `def` gives: the name that was defined."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Reduced:
    """What `reduced` gives: the value with which `reduce` stops."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Truth:
    """Stands for a boolean among keys: in Python `True` and 1 are one key."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


_TRUE: Final = _Truth(True)
_FALSE: Final = _Truth(False)


def wrapped(value: Any) -> Any:
    """Return a value as a key of a Python dict."""
    return value if type(value) is not bool else (_TRUE if value else _FALSE)


def unwrapped(key: Any) -> Any:
    """Return the value that a key stands for."""
    return key.value if type(key) is _Truth else key


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; numbers are by value, a vector equals a list with the same items."""
    if left is right:
        return True
    if type(left) is bool or type(right) is bool:
        return False
    return bool(left == right)


def is_number(value: Any) -> bool:
    """Return whether a value is a number; a boolean is none."""
    return type(value) is int or isinstance(value, Decimal)


def number(value: Any, function: str) -> Number:
    """Return a value that has to be a number; raises a Fault if it is none."""
    if type(value) is int or isinstance(value, Decimal):
        return value
    hint = "give a default for what may be missing: `(or x 0)`, `(get m k 0)`, `(fnil f 0)`" if value is None else ""
    raise Fault("type_error", f"`{function}` needs a number, not {kind(value)}", hint, function=function)


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "a boolean"),
    (int, "a number"),
    (Decimal, "a number"),
    (str, "a text"),
    (Keyword, "a keyword"),
    (Vector, "a vector"),
    (List, "a list"),
    (Map, "a map"),
    (Set, "a set"),
    (Regex, "a regular expression"),
    (Var, "the name of a definition"),
    (Reduced, "a reduced value"),
)


def kind(value: Any) -> str:
    """Return what a value is, in words."""
    if value is None:
        return "nil"
    for kind_of, words in _KINDS:
        if isinstance(value, kind_of):
            return words
    return "an endless sequence" if hasattr(value, "next") else "a function"
