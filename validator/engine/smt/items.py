"""Items of arrays that are read by their index: an array contains what such an item equals."""

from __future__ import annotations

from typing import Any, Protocol

from stepward.validator.engine.smt.payloads import Array, Slot, Term, Truth


class Writer(Protocol):
    """Writes terms."""

    def both(self, *parts: Term) -> Term:
        """Return the conjunction."""

    def either(self, *parts: Term) -> Term:
        """Return the disjunction."""

    @staticmethod
    def no(part: Term) -> Term:
        """Return the negation."""

    def state(self, condition: Term) -> None:
        """Add a fact that holds in every state."""

    def equal(self, left: tuple[str, Any], right: tuple[str, Any]) -> Truth:
        """Return when two values of known kinds are equal."""


def note_item(terms: Writer, array: Array, slot: Slot) -> None:
    """Note that a slot is an item of an array, and state the facts that follow for literals that were searched in the
    array."""
    array.indexed.append(slot)
    for key in array.holds:
        link(terms, array, key, slot)


def link(terms: Writer, array: Array, key: tuple[str, Any], slot: Slot) -> None:
    """State that an array contains a literal if one of its items equals it; `key` is the literal with its kind."""
    kind, literal = key
    if array.fails[key] is not False or kind not in slot.kinds:
        return  # a search that fails at an item before this one finds nothing
    guard, payload = slot.value().kinds[kind]
    is_it = terms.both(guard, terms.equal((kind, payload), (kind, literal)).holds)
    terms.state(terms.either(terms.no(is_it), array.holds[key]))
