"""What is evaluated: nodes, made from forms, with every name resolved to a slot.

A node is evaluated by a generator, which yields the generators of its parts; `Context.run` keeps them on a stack of its
own. A leaf needs no other evaluation, and gives its value at once. A frame is the list of the values of one function's
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.values import Items, List, Map, Set, Steps, Store, kind, wrapped
from stepward.vm.reading.source import Span

Frame = list[Any]


@dataclass(frozen=True, slots=True)
class Again:
    """What `recur` gives: the values with which the nearest loop or function goes on."""

    values: list[Any]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A node that needs no other evaluation."""

    leaf: ClassVar[bool] = True

    def get(self, ctx: Context, frame: Frame) -> Any:
        """Return the value."""
        raise NotImplementedError

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        """Evaluate it like any other node."""
        return self.get(ctx, frame)
        yield


@dataclass(frozen=True, slots=True)
class Branching:
    """A node that evaluates other nodes."""

    leaf: ClassVar[bool] = False

    def get(self, ctx: Context, frame: Frame) -> Any:
        """Only leaves give a value at once."""
        raise NotImplementedError

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        """Evaluate the node."""
        raise NotImplementedError


Node = Leaf | Branching


# -- leaves ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant(Leaf):
    """A value of the text."""

    value: Any

    def get(self, ctx: Context, frame: Frame) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Local(Leaf):
    """A name of the function."""

    slot: int

    def get(self, ctx: Context, frame: Frame) -> Any:
        return frame[self.slot]


@dataclass(frozen=True, slots=True)
class Global(Leaf):
    """A name that `def` gives a value; before that it may be a function of the language."""

    name: str
    span: Span

    def get(self, ctx: Context, frame: Frame) -> Any:
        if self.name in ctx.globals:
            return ctx.globals[self.name]
        if self.name in ctx.functions:
            return ctx.functions[self.name]
        raise Fault("unbound_var", f"`{self.name}` has no value yet", "move its `def` before its first use", self.span)


@dataclass(frozen=True, slots=True)
class Datum(Leaf):
    """A part of the data that the program was given: `data/orders`."""

    name: str
    span: Span

    def get(self, ctx: Context, frame: Frame) -> Any:
        if self.name not in ctx.data:
            known = ", ".join(f"`data/{name}`" for name in sorted(ctx.data)[:8]) or "none"
            raise Fault("unbound_var", f"there is no `data/{self.name}`", f"the data are: {known}", self.span)
        return ctx.data[self.name]


@dataclass(frozen=True, slots=True)
class NthOf(Leaf):
    """The item that a pattern takes from a vector: `[a b]`; nil where there is none."""

    slot: int
    index: int

    def get(self, ctx: Context, frame: Frame) -> Any:
        items = frame[self.slot]
        return items.at(self.index) if self.index < len(items) else None


@dataclass(frozen=True, slots=True)
class RestOf(Leaf):
    """The items behind those that a pattern names: `[a & more]`; nil where there are none."""

    slot: int
    start: int

    def get(self, ctx: Context, frame: Frame) -> Any:
        items = frame[self.slot]
        if len(items) <= self.start:
            return None
        return List(items.store, items.start + self.start, items.stop)


@dataclass(frozen=True, slots=True)
class Sequential(Leaf):
    """A value as the items that a vector pattern takes apart."""

    slot: int
    span: Span

    def get(self, ctx: Context, frame: Frame) -> Any:
        value = frame[self.slot]
        if isinstance(value, Items):
            return value
        if value is None or isinstance(value, str):
            return ctx.list(ctx.items(value, "a vector pattern"))
        what = kind(value)
        hint = "take a map apart with `{:keys [a]}`; name a whole value with a name alone"
        raise Fault(
            "type_error", f"a vector pattern needs a vector, a list, a text or nil, not {what}", hint, self.span
        )


@dataclass(frozen=True, slots=True)
class Associative(Leaf):
    """A value as what a map pattern takes apart; a list of keys and values, as rest arguments are, is a map."""

    slot: int

    def get(self, ctx: Context, frame: Frame) -> Any:
        value = frame[self.slot]
        if not isinstance(value, List):
            return value
        items = list(value)
        if len(items) == 1 and isinstance(items[0], Map):
            return items[0]
        if len(items) % 2:
            raise Fault("type_error", "a map pattern needs keys with values, and one key has none", "add the value")
        return ctx.map(zip(items[::2], items[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class HasKey(Leaf):
    """Whether a map pattern finds a key: its default is only for a key that is not there."""

    slot: int
    key: Any

    def get(self, ctx: Context, frame: Frame) -> Any:
        return ctx.lookup(frame[self.slot], self.key, None) is not None or ctx.has(frame[self.slot], self.key)


@dataclass(frozen=True, slots=True)
class KeyOf(Leaf):
    """What a map pattern takes: the value of a key, nil without one."""

    slot: int
    key: Any

    def get(self, ctx: Context, frame: Frame) -> Any:
        return ctx.lookup(frame[self.slot], self.key, None)


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorOf(Branching):
    """`[a b]`."""

    items: tuple[Node, ...]

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        store = Store(ctx.meter)
        for node in self.items:
            store.add(node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame)))
        return store.vector()


@dataclass(frozen=True, slots=True)
class MapOf(Branching):
    """`{:a b}`, keys and values in turn."""

    items: tuple[Node, ...]
    span: Span

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        result = Map(ctx.meter)
        for key_node, node in zip(self.items[::2], self.items[1::2], strict=True):
            key = key_node.get(ctx, frame) if key_node.leaf else (yield key_node.steps(ctx, frame))
            if wrapped(key) in result.entries:
                raise Fault("invalid_form", f"the map has the key `{ctx.shown(key)}` twice", "leave one out", self.span)
            result.put(key, node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame)))
        return result


@dataclass(frozen=True, slots=True)
class SetOf(Branching):
    """`#{a b}`."""

    items: tuple[Node, ...]
    span: Span

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        result = Set(ctx.meter)
        for node in self.items:
            value = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
            if value in result:
                raise Fault("invalid_form", f"the set has `{ctx.shown(value)}` twice", "leave one out", self.span)
            result.put(value)
        return result


# -- control -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class If(Branching):
    """`if`, `when` and their like."""

    test: Node
    then: Node
    otherwise: Node

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        test = self.test.get(ctx, frame) if self.test.leaf else (yield self.test.steps(ctx, frame))
        node = self.otherwise if test is None or test is False else self.then
        return node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))


@dataclass(frozen=True, slots=True)
class Cond(Branching):
    """`cond`: the first test that holds decides; without one the value of `otherwise`."""

    clauses: tuple[tuple[Node, Node], ...]
    otherwise: Node

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        chosen = self.otherwise
        for test_node, node in self.clauses:
            test = test_node.get(ctx, frame) if test_node.leaf else (yield test_node.steps(ctx, frame))
            if test is not None and test is not False:
                chosen = node
                break
        return chosen.get(ctx, frame) if chosen.leaf else (yield chosen.steps(ctx, frame))


@dataclass(frozen=True, slots=True)
class Case(Branching):
    """`case`: the constant that the value equals decides; `table` has the nodes by constant."""

    subject: Node
    table: Mapping[Any, Node]
    otherwise: Node | None
    span: Span

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        value = self.subject.get(ctx, frame) if self.subject.leaf else (yield self.subject.steps(ctx, frame))
        node = self.table.get(wrapped(value), self.otherwise)
        if node is None:
            raise Fault(
                "no_match",
                f"no clause of the form is for `{ctx.shown(value)}`",
                "add a last form without a constant",
                self.span,
            )
        return node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))


@dataclass(frozen=True, slots=True)
class NoMatch(Leaf):
    """The end of `condp` without a default."""

    span: Span

    def get(self, ctx: Context, frame: Frame) -> Any:
        raise Fault("no_match", "no clause of the form matches", "add a last form without a test", self.span)


@dataclass(frozen=True, slots=True)
class Either(Branching):
    """`and` and `or`: `stops_at` is the truth that decides."""

    parts: tuple[Node, ...]
    stops_at: bool

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        value: Any = not self.stops_at or None
        for node in self.parts:
            value = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
            if (value is not None and value is not False) is self.stops_at:
                return value
        return value


@dataclass(frozen=True, slots=True)
class Do(Branching):
    """Several forms, of which the last gives the value."""

    parts: tuple[Node, ...]

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        value: Any = None
        for node in self.parts:
            value = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
        return value


@dataclass(frozen=True, slots=True)
class Keep(Branching):
    """Gives a name its value, which is also the value of the node."""

    slot: int
    value: Node

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        node = self.value
        value = frame[self.slot] = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
        return value


@dataclass(frozen=True, slots=True)
class IsNil(Branching):
    """Whether a value is nil."""

    value: Node

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        node = self.value
        return (node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))) is None


@dataclass(frozen=True, slots=True)
class Loop(Branching):
    """`loop`: `first` gives the slots values and `recur` new ones; each time `after` takes them apart for the body."""

    slots: tuple[int, ...]
    first: Node
    after: Node
    body: Node

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        yield self.first.steps(ctx, frame)
        while True:
            if not self.after.leaf:
                yield self.after.steps(ctx, frame)
            value = self.body.get(ctx, frame) if self.body.leaf else (yield self.body.steps(ctx, frame))
            if type(value) is not Again:
                return value
            for slot, one in zip(self.slots, value.values, strict=True):
                frame[slot] = one


@dataclass(frozen=True, slots=True)
class Recur(Branching):
    """`recur`."""

    values: tuple[Node, ...]

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        values = []
        for node in self.values:
            values.append(node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame)))
        return Again(values)


@dataclass(frozen=True, slots=True)
class Level:
    """One binding of `for`: its collection, the pattern for each item, and the modifiers behind it."""

    source: Node
    slot: int
    pattern: Node
    modifiers: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class For(Branching):
    """`for` and `doseq`; the second gives nil."""

    levels: tuple[Level, ...]
    body: Node
    collects: bool

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        out = Store(ctx.meter)
        yield from self._level(ctx, frame, 0, out)
        return out.list() if self.collects else None

    def _level(self, ctx: Context, frame: Frame, number: int, out: Store) -> Steps:
        if number == len(self.levels):
            value = self.body.get(ctx, frame) if self.body.leaf else (yield self.body.steps(ctx, frame))
            if self.collects:
                out.add(value)
            return
        level = self.levels[number]
        node = level.source
        source = ctx.source(node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame)), "for")
        while (item := (yield from source.pull())) is not ctx.END:
            frame[level.slot] = item
            if not level.pattern.leaf:
                yield level.pattern.steps(ctx, frame)
            verdict = yield from self._modified(ctx, frame, level)
            if verdict == ":while":
                return
            if not verdict:
                yield from self._level(ctx, frame, number + 1, out)

    def _modified(self, ctx: Context, frame: Frame, level: Level) -> Steps:
        """Return the word of the modifier that leaves the item out, empty if none does."""
        for word, node in level.modifiers:
            value = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
            if word != ":let" and (value is None or value is False):
                return word
        return ""


NOTHING: Final = Constant(None)
