"""Functions of texts as terms: exact for literals and members of an `enum`; of any other text a free text or answer.

The same function of the same text is one term, so that equal calls have equal values. Free terms have more values than
there are: what is unsatisfiable stays proved, and a model is a candidate like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, assert_never
from weakref import proxy

from stepward.validator.engine.smt.payloads import Array, Term, Text, Value
from stepward.vm.expressions import letters
from stepward.vm.expressions.operators import FunctionName
from stepward.vm.patterns.matching import matches

_CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "lower": letters.lower,
    "upper": letters.upper,
    "trim": letters.trim,
}


class Writer(Protocol):
    """What is needed of the terms of one question."""

    def both(self, *parts: Term) -> Term:
        """Return the conjunction."""

    def either(self, *parts: Term) -> Term:
        """Return the disjunction."""

    def no(self, part: Term) -> Term:
        """Return the negation."""

    def boolean(self, name: str) -> Any:
        """Return a fresh Boolean."""

    def symbol(self, name: str) -> str:
        """Return a name that no other variable has."""

    def found_in(self, text: Any, pattern: str) -> Term:
        """Return whether a pattern is found in a text, which may be merged of several."""


class Functions:
    """The values of functions in one question's terms."""

    def __init__(self, terms: Writer) -> None:
        self.terms: Writer = proxy(terms)  # the terms refer to us: no reference cycle, which would hold Z3's memory
        self.texts: list[Text] = []
        """The free texts that are values of functions."""
        self._known: dict[tuple[str, str | None, int], tuple[Any, Any]] = {}

    def of(self, function: FunctionName, value: Value, literal: str | None) -> Value:
        """Return the value of a function other than `len`."""
        kind_taken = "array" if function == "join" else "string"
        guard, payload = value.kinds.get(kind_taken, (False, None))
        others = [one for kind, (one, _) in value.kinds.items() if kind != kind_taken]
        fails = self.terms.either(value.fails, *others)
        if guard is False:
            return Value(True, {})
        match function:
            case "lower" | "upper" | "trim":
                return Value(fails, {"string": (self.terms.no(fails), self._changed(function, payload))})
            case "matches":
                is_found = self.terms.found_in(payload, literal or "")
                return Value(fails, {"boolean": (self.terms.no(fails), is_found)})
            case "join":
                text, is_no_text = self._joined(payload, literal or "")
                fails = self.terms.either(fails, self.terms.both(guard, is_no_text))
                return Value(fails, {"string": (self.terms.no(fails), text)})
            case "len":
                raise AssertionError("the length of a value is no free term")
            case _:
                assert_never(function)

    def found_in(self, text: Any, pattern: str) -> Term:
        """Return whether a pattern is found in a text that is not merged."""
        if isinstance(text, str):
            return matches(pattern, text)
        if text.members is not None:
            fitting = [number for number, member in enumerate(text.members) if matches(pattern, member)]
            if len(fitting) == len(text.members):
                return True
            return self.terms.either(*(text.number == number for number in fitting))
        return self._once("matches", pattern, text, lambda: self.terms.boolean("matches"))

    def _changed(self, function: str, payload: Any) -> Any:
        if isinstance(payload, str):
            return _CHANGES[function](payload)
        if isinstance(payload, Text) and payload.members is not None:
            members = tuple(map(_CHANGES[function], payload.members))
            return self._once(function, None, payload, lambda: Text(payload.names, members, payload.number))
        return self._once(function, None, payload, lambda: self.any_text(function))

    def _joined(self, payload: Any, separator: str) -> tuple[Any, Term]:
        """Return the text of a `join`, and when it fails because an item is no text."""
        if isinstance(payload, tuple):
            is_right = all(isinstance(item, str) for item in payload)
            return (separator.join(payload), False) if is_right else ("", True)
        items = payload.items if isinstance(payload, Array) else None
        are_texts = items is not None and items.kinds <= {"string"}
        text = self._once("join", separator, payload, lambda: self.any_text("join"))
        is_no_text = False if are_texts else self._once("odd", None, payload, lambda: self.terms.boolean("join_fails"))
        return text, is_no_text

    def any_text(self, name: str) -> Text:
        """Return a new text of which nothing is known; `name` is that of its variable."""
        text = Text((self.terms.symbol(f"={name}"),), None)
        self.texts.append(text)
        return text

    def _once(self, function: str, literal: str | None, payload: Any, make: Callable[[], Any]) -> Any:
        """Return what was made for a function of a payload before, or make it; the payload is kept with it."""
        key = (function, literal, id(payload))
        if key not in self._known:
            self._known[key] = payload, make()
        return self._known[key][1]
