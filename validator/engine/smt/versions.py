"""Versions: the values of roots along the paths of a system, as terms of Z3 that paths share.

Each assignment makes a version. It is lazy: a field becomes a term when something reads it. Where paths merge, a
version is an if-then-else over the edges into the node. A question about a merged text or array is asked once for each
of its parts, so that the formula stays linear.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.items import note_item
from stepward.validator.engine.smt.payloads import Array, Slot, Term, Text, Truth, Value
from stepward.validator.engine.smt.terms import Terms
from stepward.validator.engine.values.domains import ANYTHING, Domain, Domains, Names
from stepward.validator.engine.values.states import UNDEFINED, within
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.operators import Question, kind
from stepward.vm.expressions.syntax import Expression, Reference

MAX_PUSHED: Final = 200_000
"""The most answers about parts of merged texts and arrays."""

Fields = tuple[str, ...]

NO_VALUE: Final = Value(True, {})

_ANY: Final = ANYTHING | Domain(undefined=True)


@dataclass(eq=False, slots=True)
class Version:
    """A value of a root. `known` are the fields that were read; () is the value itself."""

    known: dict[Fields, Value] = field(default_factory=dict, init=False)


@dataclass(eq=False, slots=True)
class Leaf(Version):
    """Any value of a domain, read field by field. `keys` are the names of its slots."""

    key: Names
    domain: Callable[[Fields], Domain]
    keys: list[Names] = field(default_factory=list, init=False)


@dataclass(eq=False, slots=True)
class Made(Version):
    """The value of an expression; it has no fields."""

    value: Value


@dataclass(eq=False, slots=True)
class Composed(Version):
    """A built value: each of its parts is a field of another version, and its other fields are those of `base`."""

    value: Value
    parts: dict[str, tuple[Version, Fields]]
    base: tuple[Version, Fields] | None = None

    def at(self, fields: Fields) -> tuple[Version, Fields] | None:
        """Return the version of a field, and the fields below it; None where the value has no such field."""
        if fields[0] not in self.parts:
            return None if self.base is None else (self.base[0], (*self.base[1], *fields))
        version, inside = self.parts[fields[0]]
        return version, (*inside, *fields[1:])


@dataclass(eq=False, slots=True)
class Written(Version):
    """A literal value."""

    literal: Any


@dataclass(eq=False, slots=True)
class Part(Version):
    """A field of another version."""

    base: Version
    fields: Fields


@dataclass(eq=False, slots=True)
class Merge(Version):
    """One of several versions: the first whose condition holds, or the last."""

    parts: tuple[tuple[Term, Version], ...]


@dataclass(eq=False, slots=True)
class Merged:
    """A text or an array that is one of several: the first whose condition holds, or the last."""

    parts: tuple[tuple[Term, Any], ...]
    known: dict[Hashable, Term] = field(default_factory=dict, init=False)


Environment = dict[Names, Version]
"""The version of each root; not modified after it is shared."""


class Versions(Terms):
    """Terms whose references are read in `environment`; a root outside of it may have any value."""

    def __init__(self, domains: Domains, clock: Clock) -> None:
        super().__init__(domains, clock)
        self.environment: Environment = {}
        self._pushed = 0

    def leaf(self, root: Names, domain: Callable[[Fields], Domain]) -> Leaf:
        """Return a new version of a root for any value of a domain."""
        self._count += 1
        return Leaf((f"{root[0]}@{self._count}", *root[1:]), domain)

    # -- reading ---------------------------------------------------------------------------------------------------

    def version(self, names: Names) -> tuple[Version, Fields]:
        """Return the version of a reference's root, and the fields below it."""
        root = self.domains.root(names)
        version = self.environment.get(root)
        if version is None:
            version = self.leaf(root, lambda _: _ANY)
        return version, names[len(root) :]

    def read(self, names: Names) -> Value:
        """Return the value of a reference in the environment, or of a slot."""
        if names in self.slots:
            return self.slots[names].value()
        return self.component(*self.version(names))

    def component(self, version: Version, fields: Fields) -> Value:
        """Return the value of a version's field."""
        pending = [(version, fields)]
        while pending:
            current, at = pending[-1]
            if at in current.known:
                pending.pop()
                continue
            missing = [(part, where) for part, where in _parts(current, at) if where not in part.known]
            if missing:
                pending += missing
            else:
                current.known[at] = self._component(current, at)
        return version.known[fields]

    def _component(self, version: Version, fields: Fields) -> Value:
        match version:
            case Leaf():
                return self._slotted(version, fields)
            case Made() if fields and "array" in version.value.kinds and index_of(fields[0]) is not None:
                return self._slotted(self.leaf(("joined",), lambda _: _ANY), fields)  # an item of any of its parts
            case Made():
                return NO_VALUE if fields else version.value
            case Composed():
                if not fields:
                    return version.value
                at = version.at(fields)
                return NO_VALUE if at is None else at[0].known[at[1]]
            case Written():
                return _written(version.literal, fields)
            case Part():
                return version.base.known[*version.fields, *fields]
            case Merge():
                return self._merged([(when, part.known[fields]) for when, part in version.parts])
        raise AssertionError(version)

    def _slotted(self, leaf: Leaf, fields: Fields) -> Value:
        has_holder: Term = True
        for size in range(len(fields) + 1):
            key = (*leaf.key, *fields[:size])
            if key not in self.slots:
                self._make(leaf, fields[:size], has_holder)
            if size < len(fields):
                has_holder = self._has(self.slots[key], fields[size])
        return self.slots[(*leaf.key, *fields)].value()

    def _make(self, leaf: Leaf, fields: Fields, has_holder: Term) -> None:
        key, domain = (*leaf.key, *fields), leaf.domain(fields)
        number = index_of(fields[-1]) if fields else None
        slot = self.slots[key] = self.made(
            key, domain if number is None else replace(domain, undefined=False), has_holder
        )
        leaf.keys.append(key)
        array = self.slots[key[:-1]].array if number is not None else None
        if array is not None:
            note_item(self, array, slot)

    def _has(self, owner: Slot, name: str) -> Term:
        """Return when a slot has a field, or an item at an index."""
        number = index_of(name)
        if number is None:
            return owner.guards.get("object", False)
        return owner.array is not None and self.both(owner.guards["array"], owner.array.length > number)

    # -- merging ---------------------------------------------------------------------------------------------------

    def chosen(self, parts: list[tuple[Term, Term]]) -> Term:
        """Return the first truth whose condition holds, or the last."""
        result = parts[-1][1]
        if all(_is_same(term, result) for _, term in parts):
            return result
        for when, term in reversed(parts[:-1]):
            if isinstance(term, bool):
                result = self.either(when, result) if term else self.both(self.no(when), result)
            elif isinstance(result, bool):
                result = self.either(self.no(when), term) if result else self.both(when, term)
            else:
                result = z3.If(when, term, result)
        return self.called("is", result)

    def called(self, name: str, term: Term) -> Term:
        """Return a variable that equals the term, so that terms stay shallow."""
        if isinstance(term, bool) or z3.is_const(term):
            return term
        variable = self.boolean(name) if z3.is_bool(term) else self.number(name)
        self.facts.append(variable == term)
        return variable

    def _merged(self, parts: list[tuple[Term, Value]]) -> Value:
        first = parts[0][1]
        if all(value is first for _, value in parts):
            return first
        fails = self.chosen([(when, value.fails) for when, value in parts])
        kinds: dict[str, tuple[Term, Any]] = {}
        for word in dict.fromkeys(word for _, value in parts for word in value.kinds):
            has = self.chosen([(when, value.kinds.get(word, (False, None))[0]) for when, value in parts])
            options = [(when, value.kinds[word][1]) for when, value in parts if word in value.kinds]
            kinds[word] = has, self._payload(word, options)
        return Value(fails, kinds)

    def _payload(self, word: str, options: list[tuple[Term, Any]]) -> Any:
        payload = options[0][1]
        if word in ("null", "object") or all(_is_same(other, payload) for _, other in options):
            return payload
        if word == "boolean":
            return self.chosen(options)
        if word == "number":
            result = self.real(options[-1][1])
            for when, number in reversed(options[:-1]):
                result = z3.If(when, self.real(number), result)
            return self.called("number", result)
        return Merged(tuple(options))

    def pushed(self, merged: Merged, key: Hashable, ask: Callable[[Any], Term]) -> Term:
        """Return the answer to a question about a merged value, from the answers of its parts.

        `key` identifies the question, so that an answer is written only once.
        """
        pending = [merged]
        while pending:
            current = pending[-1]
            missing = [part for _, part in current.parts if isinstance(part, Merged) and key not in part.known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if key not in current.known:
                self._pushed += len(current.parts)
                self.bounded(self._pushed, MAX_PUSHED)
                answers = [part.known[key] if isinstance(part, Merged) else ask(part) for _, part in current.parts]
                current.known[key] = self._picked([when for when, _ in current.parts], answers)
        return merged.known[key]

    def _picked(self, conditions: list[Term], answers: list[Any]) -> Any:
        if all(isinstance(answer, bool) or z3.is_bool(answer) for answer in answers):
            return self.chosen(list(zip(conditions, answers, strict=True)))
        return self._payload("number", list(zip(conditions, answers, strict=True)))

    # -- questions -------------------------------------------------------------------------------------------------

    def answer_of(self, question: Question, holder: Any, compared: Any) -> Term:
        """Return the answer to a question about a text, with a literal or another text."""
        if holder is compared:
            return True
        if isinstance(compared, Merged):
            return self.pushed(compared, (question, "of", holder), lambda one: self.answer_of(question, holder, one))
        if isinstance(holder, Merged):
            return self.pushed(holder, (question, compared), lambda one: self.answer_of(question, one, compared))
        return super().answer_of(question, holder, compared)

    def found_in(self, text: Any, pattern: str) -> Term:
        """Return whether a pattern is found in a text."""
        if isinstance(text, Merged):
            return self.pushed(text, ("matches", pattern), lambda one: self.found_in(one, pattern))
        return super().found_in(text, pattern)

    def length_of(self, payload: Any) -> Any:
        """Return the length of a text or an array."""
        return (
            self.pushed(payload, "len", self.length_of) if isinstance(payload, Merged) else super().length_of(payload)
        )

    def member(self, item_tree: Expression, item: tuple[str, Any], array: tuple[str, Any]) -> Truth:
        """Return when an array contains an item of a known kind, and when the search for it fails."""
        is_joined = isinstance(array[1], Array) and (array[1].halves is not None or array[1].parts is not None)
        if array[0] != "array" or isinstance(array[1], tuple) or is_joined:
            return super().member(item_tree, item, array)
        key = (item[0], item[1]) if _is_literal(item[1]) else object()
        if isinstance(array[1], Merged):
            return self._both_pushed(array[1], key, lambda one: self.member(item_tree, item, ("array", one)))
        word, payload = item
        if isinstance(payload, Merged) and word == "string":
            return self._both_pushed(payload, object(), lambda one: self.member(item_tree, (word, one), array))
        choices = self._choices(word, payload)
        if choices is None:
            return self._guessed(array[1], payload)
        answers = [(when, self.holds(array[1], word, literal)) for when, literal in choices]
        return Truth(
            self.either(*(self.both(when, one.holds) for when, one in answers)),
            self.either(*(self.both(when, one.fails) for when, one in answers)),
        )

    def _both_pushed(self, merged: Merged, key: Hashable, ask: Callable[[Any], Truth]) -> Truth:
        return Truth(
            self.pushed(merged, ("holds", key), lambda one: ask(one).holds),
            self.pushed(merged, ("fails", key), lambda one: ask(one).fails),
        )

    @staticmethod
    def _choices(word: str, payload: Any) -> list[tuple[Term, Any]] | None:
        """Return the possible values of an item with their conditions; None where they are too many."""
        if word in ("array", "object"):
            return None
        if _is_literal(payload):
            return [(True, payload)]
        if word == "boolean":
            return [(payload, True), (z3.Not(payload), False)]
        if isinstance(payload, Text) and payload.members is not None:
            return [(payload.number == number, member) for number, member in enumerate(payload.members)]
        return None

    def _guessed(self, array: Array, payload: Any) -> Truth:
        """Return free answers for an item that is not a literal: any answer, except that an empty array contains
        nothing."""
        is_found, failed = self.boolean("in"), self.boolean("in_fails")
        self.state(z3.Implies(z3.Or(is_found, failed), array.length >= 1))
        self.state(z3.Not(z3.And(is_found, failed)))
        if isinstance(payload, Text):
            array.lookups.append((Reference(0, 0, payload.names), is_found, failed))
        return Truth(is_found, failed)


def _parts(version: Version, fields: Fields) -> list[tuple[Version, Fields]]:
    if isinstance(version, Merge):
        return [(part, fields) for _, part in version.parts]
    if isinstance(version, Composed):
        at = version.at(fields) if fields else None
        return [] if at is None else [at]
    return [(version.base, (*version.fields, *fields))] if isinstance(version, Part) else []


def _written(literal: Any, fields: Fields) -> Value:
    value = within(literal, fields)
    return NO_VALUE if value is UNDEFINED else Value(False, {kind(value): (True, value)})


def _is_literal(payload: Any) -> bool:
    return payload is None or isinstance(payload, bool | int | Decimal | str)


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two payloads or terms are identical, without asking Z3."""
    return left is right or (type(left) is type(right) and _is_literal(left) and left == right)
