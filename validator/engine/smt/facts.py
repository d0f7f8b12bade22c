"""Consistency of answers about one value: the facts without which a solver would find impossible states.

Every fact is true of all texts and all arrays; a missing fact can only make a verdict unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Final

import z3

from stepward.validator.engine.smt.payloads import Array, Term, Text
from stepward.validator.engine.smt.terms import Terms
from stepward.validator.engine.values.domains import Domain
from stepward.validator.engine.values.languages import cut_by_automata
from stepward.validator.engine.values.texts import Atom, excluded, implied, least_length
from stepward.vm.expressions.operators import kind
from stepward.vm.expressions.syntax import Expression
from stepward.vm.patterns.languages import lengths_of

MAX_CLASSES: Final = 256
"""The most combinations of answers that are written out for a text with a pattern."""


class Facts:
    """Adds the facts about the texts and arrays of some terms, after every condition has been translated."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def note(self) -> None:
        """Add to `terms` what holds in every state."""
        slots = list(self.terms.slots.values())
        free = [slot.text for slot in slots if slot.text is not None and slot.text.members is None]
        free += self.terms.functions.texts
        free = [*reversed(self.terms.sums.texts), *free]  # what is asked of a joined text is asked of its halves
        for _ in range(2):  # the second round shares the questions that the first round added
            self._share(free)
        for text in free:
            self._text_rules(text)
        self._same_rules(free)
        for slot in slots:
            if slot.array is not None:
                self._array_rules(slot.array)

    def _share(self, free: list[Text]) -> None:
        """Give texts that may be equal the same questions, and every literal its `is` question."""
        linked = {name for pair in self.terms.same for name in pair}
        atoms = {atom: None for text in free if text.names in linked for atom in text.atoms}
        has_length = any(text.length is not None for text in free if text.names in linked)
        for text in free:
            if text.names in linked:
                for atom in atoms:
                    self.terms.atom(text, atom)
                if has_length:
                    self.terms.text_length(text)
            if text.atoms and text.max_length is not None:
                longest = sum(len(atom.literal) + 1 for atom in text.atoms) + 1
                if longest > text.max_length:
                    self.terms.text_length(text)
            if text.length is not None:
                for atom in list(text.atoms):
                    self.terms.atom(text, Atom("is", atom.literal))
                self.terms.atom(text, Atom("is", ""))

    def _text_rules(self, text: Text) -> None:
        atoms = list(text.atoms.items())
        for (left, left_holds), (right, right_holds) in combinations(atoms, 2):
            if implied(left, right):
                self.terms.state(z3.Implies(left_holds, right_holds))
            elif excluded(left, right):
                self.terms.state(z3.Not(z3.And(left_holds, right_holds)))
            if implied(right, left):
                self.terms.state(z3.Implies(right_holds, left_holds))
        if text.forms:
            self._form_rules(text)
        if text.length is not None:
            self._length_rules(text, atoms)

    def _length_rules(self, text: Text, atoms: list[tuple[Atom, Any]]) -> None:
        self.terms.state(text.length >= 0)
        if text.max_length is not None:
            self.terms.state(text.length <= text.max_length)
        for atom, holds in atoms:
            size = len(atom.literal)
            if atom.question == "is":
                self.terms.state(z3.Implies(holds, text.length == size))
                if not size:
                    self.terms.state(z3.Implies(text.length == 0, holds))
            else:
                self.terms.state(z3.Implies(holds, text.length >= size))
                whole = self.terms.atom(text, Atom("is", atom.literal))
                self.terms.state(self.terms.either(z3.Not(z3.And(holds, text.length == size)), whole))
        for (left, left_holds), (right, right_holds) in combinations(atoms, 2):
            if "is" not in (left.question, right.question):
                self.terms.state(z3.Implies(z3.And(left_holds, right_holds), text.length >= least_length(left, right)))

    def _form_rules(self, text: Text) -> None:
        """A text with patterns has the answers and the length of some text that matches one."""
        texts = [*text.known]
        for form in text.forms:
            classes = cut_by_automata(text.atoms, (), *form, MAX_CLASSES)
            if classes is None:
                return
            texts += classes
        if not texts:  # no text at all: an impossible fact would also rule out the paths that do not come here
            return
        rows = {tuple([atom.of(one) for atom in text.atoms]) for one in texts}
        if len(rows) <= MAX_CLASSES and text.atoms:
            answers = [self.terms.both(*map(_iff, text.atoms.values(), row)) for row in sorted(rows)]
            self.terms.state(self.terms.either(*answers))
        if text.length is not None:
            spans = [*(lengths_of(form.pattern) for form in text.forms), *((len(one),) * 2 for one in text.known)]
            within = [self.terms.both(text.length >= low, high is None or text.length <= high) for low, high in spans]
            self.terms.state(self.terms.either(*within))

    def _same_rules(self, free: list[Text]) -> None:
        by_name = {text.names: text for text in free}
        for (left_name, right_name), equal in self.terms.same.items():
            first, second = by_name[left_name], by_name[right_name]
            for atom in dict.fromkeys((*first.atoms, *second.atoms)):  # no set: its order would depend on hashes
                a, b = self.terms.atom(first, atom), self.terms.atom(second, atom)
                self.terms.state(self.terms.either(z3.Not(equal), _iff(a, b)))
                if atom.question == "is":
                    self.terms.state(self.terms.either(self.terms.no(self.terms.both(a, b)), equal))
            if first.length is not None and second.length is not None:
                self.terms.state(z3.Implies(equal, first.length == second.length))
        for a, b, c in combinations(sorted({name for pair in self.terms.same for name in pair}), 3):
            sides = [self.terms.same.get(pair) for pair in ((a, b), (b, c), (a, c))]
            if all(side is not None for side in sides):
                for number, side in enumerate(sides):
                    others = sides[:number] + sides[number + 1 :]
                    self.terms.state(z3.Implies(z3.And(others), side))

    def _array_rules(self, array: Array) -> None:
        conditions = [one for one in array.holds.values() if one is not False]
        if len(conditions) > 1:
            self.terms.state(z3.Sum([z3.If(one, 1, 0) for one in conditions]) <= array.length)
        members = _members_of(array.items)
        if members is not None and array.holds:
            holds = [self.terms.holds(array, kind(member), member).holds for member in members]
            self.terms.state(self.terms.either(array.length == 0, *holds))
        for tree, found_it, _ in array.lookups:
            self._lookup_rules(array, tree, found_it)

    def _lookup_rules(self, array: Array, tree: Expression, is_found: Any) -> None:
        """An item that equals a literal is found iff the literal is."""
        value = self.terms.value(tree)
        for (word, literal), holds in list(array.holds.items()):
            guard, payload = value.kinds.get(word, (False, None))
            if guard is False or isinstance(payload, tuple):
                continue
            equal = self.terms.both(guard, self.terms.equal((word, payload), (word, literal)).holds)
            self.terms.state(self.terms.either(self.terms.no(equal), _iff(is_found, holds)))


def _iff(a: Term, b: Term) -> Term:
    if isinstance(a, bool):
        a, b = b, a
    if isinstance(b, bool):
        return a if b else Terms.no(a)
    return a == b


def _members_of(items: Domain | None) -> Iterable[Any] | None:
    """Return the possible values of items, where they are few; None otherwise."""
    if items is None or items.any_text or items.array or items.is_object:
        return None
    if not all(one.low == one.high is not None for one in items.ranges) or len(items.texts) + len(items.ranges) > 32:
        return None
    numbers = [one.low for one in items.ranges]
    return [*([None] if items.null else []), *sorted(items.booleans), *numbers, *items.texts]
