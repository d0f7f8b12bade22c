"""From a model of the solver to a state of the program: exact decimals, with texts and arrays as in the model."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

import z3

from stepward.validator.engine.smt.payloads import Array, Slot, Text
from stepward.validator.engine.smt.terms import Terms
from stepward.validator.engine.values.classes import kind_of_class
from stepward.validator.engine.values.domains import Domain, Names
from stepward.validator.engine.values.languages import formed_text
from stepward.validator.engine.values.numbers import number_of
from stepward.validator.engine.values.states import UNDEFINED, State, value_of
from stepward.validator.engine.values.texts import Atom, TextRequirements, text_of
from stepward.vm.values import FrozenMap

MAX_LENGTH: Final = 100_000
"""The most code points of a text, and items of an array, in a witness."""

TOO_LONG: Final = f"it takes a text or an array longer than {MAX_LENGTH:,}, and no witness has one"


def state_of(model: Any, terms: Terms) -> State | None:
    """Return the state of a model; None where none was found, which proves nothing."""
    return None if is_long(model, terms) else _Builder(model, terms).state()


def choices(model: Any, terms: Terms) -> Any:
    """Return the model's answers about texts and arrays as a term, so that another model can be requested."""
    answers = []
    for slot in terms.slots.values():
        atoms = list(slot.text.atoms.values()) if slot.text is not None else []
        atoms += [one for one in slot.array.holds.values() if one is not False] if slot.array is not None else []
        answers += [atom if z3.is_true(model.eval(atom, True)) else z3.Not(atom) for atom in atoms]
        for length in (slot.text and slot.text.length, slot.array and slot.array.length):
            if length is not None:
                answers.append(length == model.eval(length, True))
    answers += [equal if z3.is_true(model.eval(equal, True)) else z3.Not(equal) for equal in terms.same.values()]
    return z3.And(answers) if answers else None


def is_long(model: Any, terms: Terms) -> bool:
    """Return whether a text or an array of a model is too long for a witness."""
    return any(model.eval(length, True).as_long() > MAX_LENGTH for length in _lengths(terms))


def short(terms: Terms) -> Any:
    """Return the term that every text and array is short enough for a witness."""
    return z3.And([length <= MAX_LENGTH for length in _lengths(terms)])


def _lengths(terms: Terms) -> list[Any]:
    lengths = [one.length for slot in terms.slots.values() for one in (slot.text, slot.array) if one is not None]
    return [length for length in lengths if length is not None]


class _Builder:
    def __init__(self, model: Any, terms: Terms) -> None:
        self.model = model
        self.terms = terms
        self.values: dict[Names, Any] = {}
        self.texts: dict[Names, Text] = {}
        self.arrays: dict[Names, Array] = {}

    def state(self) -> State | None:
        for names, slot in self.terms.slots.items():
            if not self.scalar(names, slot):
                return None
        if not all(self.text(group) for group in self.groups()):
            return None
        for names, array in sorted(self.arrays.items(), key=lambda entry: -len(entry[0])):  # items before their arrays
            items = self.items(array)
            if items is None:
                return None
            self.values[names] = items
        return self.values

    def is_true(self, term: Any) -> bool:
        return term if isinstance(term, bool) else z3.is_true(self.model.eval(term, True))

    def whole(self, term: Any) -> int:
        return int(self.model.eval(term, True).as_long())

    def scalar(self, names: Names, slot: Slot) -> bool:
        """Store a scalar value; remember texts and arrays for later."""
        kind = next((kind for kind in slot.kinds if self.is_true(slot.guards[kind])), "undefined")
        if kind == "null":
            self.values[names] = None
        elif kind == "boolean":
            self.values[names] = self.is_true(slot.boolean)
        elif kind == "number":
            value = self.model.eval(slot.number, True)
            if not z3.is_rational_value(value):
                return False
            number = number_of(Fraction(value.numerator_as_long(), value.denominator_as_long()))
            if number is None:
                return False
            self.values[names] = number
        elif kind == "string":
            assert slot.text is not None
            if slot.text.members is not None:
                self.values[names] = slot.text.members[self.whole(slot.text.number)]
            else:
                self.texts[names] = slot.text
        elif kind == "array":
            assert slot.array is not None
            self.arrays[names] = slot.array
        elif kind == "object":
            self.values[names] = FrozenMap()
        return True

    # -- texts -----------------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[list[Text]]:
        """Yield groups of equal texts; texts that are parts of others come first."""
        leader: dict[Names, Names] = {name: name for name in self.texts}
        for (left, right), equal in self.terms.same.items():
            if left in leader and right in leader and self.is_true(equal):
                old, new = leader[right], leader[left]
                leader = {name: new if first == old else first for name, first in leader.items()}
        groups: dict[Names, list[Text]] = {}
        for name, text in self.texts.items():
            groups.setdefault(leader[name], []).append(text)
        holders = {holder.names for _, holder, _, answer in self.terms.pairs if self.is_true(answer)}
        yield from sorted(groups.values(), key=lambda group: any(text.names in holders for text in group))

    def text(self, group: list[Text]) -> bool:
        names = {text.names for text in group}
        answers: dict[Atom, bool] = {}
        length = None
        for text in group:
            answers.update((atom, self.is_true(term)) for atom, term in text.atoms.items())
            length = self.whole(text.length) if text.length is not None else length
        for question, holder, other, term in self.terms.pairs:
            known = self.values.get(other.names)
            if holder.names in names and isinstance(known, str):  # a value that is no text has no answer
                answers[Atom(question, known)] = self.is_true(term)
        avoid = [
            self.values[other]
            for pair in self.terms.same
            for one, other in (pair, pair[::-1])
            if one in names and other not in names and isinstance(self.values.get(other), str)
        ]
        required, formed = TextRequirements(answers, length), [text for text in group if text.forms]
        if formed:
            value = formed_text(required, [(text.forms, text.known) for text in formed], avoid)
        else:
            value = text_of(required, avoid)
        if value is None:
            return False
        self.values.update(dict.fromkeys(names, value))
        return True

    # -- arrays ----------------------------------------------------------------------------------------------------

    def items(self, array: Array) -> tuple[Any, ...] | None:
        fixed = {slot.names[-1]: self.values[slot.names] for slot in array.indexed if slot.names in self.values}
        length = self.whole(array.length)
        required = [literal for (_, literal), term in array.holds.items() if self.is_true(term)]
        refused = [key for key, term in array.holds.items() if not self.is_true(term)]
        other_kinds = [kind for (kind, _), term in array.fails.items() if self.is_true(term)]
        for tree, term, failed in array.lookups:
            value = value_of(tree, self.values)
            if self.is_true(term):
                required.append(value)
            elif self.is_true(failed):
                other_kinds.append(kind_of_class(value))
            else:
                refused.append((kind_of_class(value), value))
        required = list({(kind_of_class(value), value): value for value in required}.values())
        known = {
            (kind_of_class(value), value) for value in fixed.values() if kind_of_class(value) not in ("array", "object")
        }
        required = [value for value in required if (kind_of_class(value), value) not in known]
        filler = required[0] if required else self.filler(array.items, refused, other_kinds)
        if len(required) > length - len(fixed) or (filler is UNDEFINED and length > len(fixed)):
            return None
        rest = iter(required)
        return tuple(fixed[f"[{at}]"] if f"[{at}]" in fixed else next(rest, filler) for at in range(length))

    def filler(self, items: Domain | None, refused: list[tuple[str, Any]], other_kinds: list[str]) -> Any:
        """Return an item that equals none of the searched ones; of another kind where the search has to fail."""
        options: list[Any] = [True, False, None, *range(len(refused) + 1), *("x" * n for n in range(len(refused) + 1))]
        texts = items.examples if items is not None else ()
        numbers = [bound for one in items.ranges for bound in (one.low, one.high)] if items is not None else []
        for value in (*options, *texts, *(number for number in numbers if number is not None), (), FrozenMap()):
            if (items is None or items.allows(value)) and (kind_of_class(value), value) not in refused:
                compares = {
                    kind
                    for kind, _ in refused
                    if kind == kind_of_class(value) or "null" in (kind, kind_of_class(value))
                }
                if all(
                    kind not in (*compares, kind_of_class(value)) and kind_of_class(value) != "null"
                    for kind in other_kinds
                ):
                    return value
        return UNDEFINED
