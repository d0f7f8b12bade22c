"""One evaluation: its meter, its data and definitions, the stack of what is evaluated, and how functions are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import GeneratorType
from typing import Any, Final

from stepward.vm.lisp.callables import Function, Native
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.limits import Limits, Meter
from stepward.vm.lisp.printing import Writer
from stepward.vm.lisp.streams import Endless, refused
from stepward.vm.lisp.values import Items, Keyword, List, Map, Set, Steps, Store, Vector, kind, text, wrapped

ONE_MORE: Final = "start with `loop` and `recur`, or `reduce`: they need no depth"


class _End:
    """Stands for the end of a source."""


class Source:
    """Gives the items of a collection, which may have no end, one by one."""

    __slots__ = ("_ctx", "_endless", "_items")

    def __init__(self, ctx: Context, collection: Any, function: str) -> None:
        self._ctx = ctx
        self._endless = collection if isinstance(collection, Endless) else None
        self._items = iter(()) if self._endless is not None else iter(ctx.items(collection, function))

    def pull(self) -> Steps:
        """Return the next item, or `Context.END`."""
        self._ctx.meter.step()
        if self._endless is None:
            return next(self._items, Context.END)
        item, self._endless = yield from self._endless.next(self._ctx)
        return item


class Context:
    """One evaluation. `functions` are those of the language, `globals` the definitions, `data` what was given.

    Entries of maps whose keys begin with `hides` are not written into texts.
    """

    END: Final = _End()

    def __init__(self, limits: Limits, functions: Mapping[str, Native] | None = None, hides: str = "") -> None:
        self.limits = limits
        self.hides = hides
        self.meter = Meter(limits)
        self.data: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}
        self.functions: Mapping[str, Native] = functions or {}
        self.printed: list[str] = []
        self._printed_characters = 0
        self._keywords: dict[str, Keyword] = {}

    # -- the stack -----------------------------------------------------------------------------------------------------

    def run(self, first: Steps) -> Any:
        """Evaluate what a generator yields, on a stack of its own, and return its value."""
        stack = [first]
        value: Any = None
        fault: Fault | None = None
        step, deepest = self.meter.step, self.limits.depth
        while stack:
            try:
                if fault is None:
                    nested = stack[-1].send(value)
                else:
                    thrown, fault = fault, None
                    nested = stack[-1].throw(thrown)
            except StopIteration as stop:
                stack.pop()
                value = stop.value
                continue
            except Fault as raised:
                stack.pop()
                if raised.span is not None or not stack:
                    raise
                fault = raised
                continue
            stack.append(nested)
            value = None
            try:
                step()
                if len(stack) > deepest:
                    raise Fault(
                        "depth_exceeded",
                        f"evaluations are nested deeper than {deepest} levels: a function calls itself too often",
                        ONE_MORE,
                        limit=deepest,
                    )
            except Fault as raised:
                stack.pop()
                fault = raised
        return value

    def begin(self, function: Any, args: list[Any]) -> Any:
        """Call a function: return its value, or a generator that has to be evaluated for it."""
        if isinstance(function, Function):
            return function.begin(self, args)
        kind_of = type(function)
        if kind_of is Keyword:
            self._between(f"the keyword `{function!r}`", len(args), 1, 2)
            return self.lookup(args[0], function, args[1] if len(args) == 2 else None)
        if kind_of is Map:
            self._between("a map", len(args), 1, 2)
            return self.lookup(function, args[0], args[1] if len(args) == 2 else None)
        if kind_of is Set:
            self._between("a set", len(args), 1, 1)
            return self.lookup(function, args[0], None)
        if kind_of is Vector:
            self._between("a vector", len(args), 1, 1)
            return self.functions["nth"].run(self, function, args[0])
        raise Fault(
            "not_callable",
            f"{kind(function)} is no function" + ("" if function is None else f": `{self.shown(function)}`"),
            "write a function, a keyword, a map or a set behind the parenthesis; values alone stand in `[ ]`",
        )

    def apply(self, function: Any, *args: Any) -> Steps:
        """Call a function, within a generator: `value = yield from ctx.apply(f, x)`."""
        outcome = self.begin(function, list(args))
        if type(outcome) is GeneratorType:
            outcome = yield outcome
        return outcome

    def _between(self, what: str, count: int, least: int, most: int) -> None:
        if not least <= count <= most:
            expected = f"{least}" if least == most else f"{least} or {most}"
            raise Fault(
                "arity_error", f"{what} takes {expected} argument{'s' if most > 1 else ''}, not {count}", given=count
            )

    # -- reading values ------------------------------------------------------------------------------------------------

    def items(self, collection: Any, function: str) -> Iterable[Any]:
        """Return the items of a collection that has an end; the entries of a map are vectors, nil has none."""
        if isinstance(collection, Items | Set):
            return collection
        if collection is None:
            return ()
        if isinstance(collection, str):
            return collection
        if isinstance(collection, Map):
            return (self.vector(entry) for entry in collection.items())
        if isinstance(collection, Endless):
            raise refused(function)
        raise type_fault(function, "a collection, a text or nil", kind(collection))

    def source(self, collection: Any, function: str) -> Source:
        """Return what gives the items of a collection one by one; it may have no end."""
        return Source(self, collection, function)

    def sized(self, collection: Any, function: str) -> Items:
        """Return the items of a collection as a vector or list."""
        if isinstance(collection, Items):
            return collection
        return self.list(self.items(collection, function))

    def other_key(self, holder: Map, key: Any) -> Any:
        """Return the key of a map that a key stands for: itself, or the text or keyword of the same name."""
        if wrapped(key) in holder.entries:
            return key
        if isinstance(key, Keyword) and key.name in holder.entries:
            return key.name
        if isinstance(key, str) and Keyword(key) in holder.entries:
            return Keyword(key)
        return key

    def lookup(self, holder: Any, key: Any, default: Any) -> Any:
        """Return what `get` gives for a key, `default` if nothing is there."""
        if type(holder) is Map:
            entries = holder.entries
            known = wrapped(key)
            if known in entries:
                return entries[known]
            return entries.get(wrapped(self.other_key(holder, key)), default)
        if isinstance(holder, Set):
            return key if key in holder else default
        if isinstance(holder, Vector | str) and type(key) is int and 0 <= key < len(holder):
            return holder[key] if isinstance(holder, str) else holder.at(key)
        return default

    def has(self, holder: Any, key: Any) -> bool:
        """Return whether something is at a key, nil included."""
        missing = object()
        return self.lookup(holder, key, missing) is not missing

    # -- making values -------------------------------------------------------------------------------------------------

    def vector(self, items: Iterable[Any]) -> Vector:
        """Return a new vector."""
        return Store(self.meter, items).vector()

    def list(self, items: Iterable[Any]) -> List:
        """Return a new list."""
        if isinstance(items, Items):
            return List(items.store, items.start, items.stop)
        return Store(self.meter, items).list()

    def store(self) -> Store:
        """Return new cells, for a collection that grows item by item."""
        return Store(self.meter)

    def map(self, pairs: Iterable[tuple[Any, Any]]) -> Map:
        """Return a new map; a later pair replaces an earlier one."""
        result = Map(self.meter)
        for key, value in pairs:
            result.put(key, value)
        return result

    def set(self, members: Iterable[Any]) -> Set:
        """Return a new set."""
        return Set(self.meter, members)

    def text(self, value: str) -> str:
        """Return a text as a value."""
        return text(self.meter, value)

    def keyword(self, name: str) -> Keyword:
        """Return the keyword of a name; its memory is never given back."""
        if name not in self._keywords:
            self.meter.expect(300 + len(name), "the keywords that the program makes")
            self.meter.live += 300 + len(name)
            self._keywords[name] = Keyword(name)
        return self._keywords[name]

    def native(self, name: str, run: Any, least: int = 0, most: int | None = None) -> Native:
        """Return a function that another function makes."""
        return Native(self.meter, name, run, least, most)

    # -- writing values ------------------------------------------------------------------------------------------------

    def written(self, values: Iterable[Any], *, readable: bool, separator: str = "") -> str:
        """Return values as one text: as `pr-str` writes them, or as `str` does."""
        writer = Writer(self.meter, hides=self.hides)
        for number, value in enumerate(values):
            if number and separator:
                writer.add(separator)
            writer.write(value, readable=readable)
        return self.text(writer.text())

    def shown(self, value: Any) -> str:
        """Return the beginning of a value as text, for a message."""
        return Writer(self.meter, most=80).shortened(value)

    def print(self, line: str) -> None:
        """Add a line to what the program printed; what is over the limit is counted and cut."""
        room = self.limits.printed - self._printed_characters
        self._printed_characters += len(line) + 1
        if room > 0:
            self.printed.append(line if len(line) <= room else line[:room] + "…")

    @property
    def unprinted(self) -> int:
        """The characters that were over the limit of what may be printed."""
        return max(self._printed_characters - self.limits.printed, 0)
