"""Transfers: images and preimages of assignments on sets of finite classes.

A set of states is the bits of an integer (classes.py). Every transfer is a relation that contains each pair of states
which the assignment connects and, where classes do not distinguish values, some more pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from stepward.validator.engine.systems.system import AnyValue, Assign, Computed, Literal, Undefined
from stepward.validator.engine.values.classes import Outcome, Slot, Space
from stepward.validator.engine.values.domains import Domain, Names, of_kinds
from stepward.validator.engine.values.states import UNDEFINED, holds, is_required, within
from stepward.vm.expressions.facts import certain_reads
from stepward.vm.expressions.inside import bases, leaf
from stepward.vm.expressions.operands import is_condition, result_kinds
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference
from stepward.vm.language.names import Source
from stepward.vm.values import FrozenMap


class Transfer:
    """One assignment to some references.

    Each of `pairs` has the states in which it assigns, and the states to which that may lead: the references take any
    combination of classes in them. States in no pair have no successor.
    """

    def __init__(self, space: Space, slots: Iterable[Slot], *pairs: tuple[int, int]) -> None:
        self.space = space
        self.slots = tuple(slots)
        self.pairs = pairs

    def image(self, mask: int) -> int:
        """Return the states to which the assignment leads from those of a set."""
        return self._moved(mask, self.pairs)

    def preimage(self, mask: int) -> int:
        """Return every state from which the assignment may lead into a set."""
        return self._moved(mask, ((last, first) for first, last in self.pairs))

    def _moved(self, mask: int, pairs: Iterable[tuple[int, int]]) -> int:
        result = 0
        for first, last in pairs:
            moved = mask & first
            for slot in self.slots if moved else ():
                moved = self.space.smear(slot, moved)
            result |= moved & last
        return result


def _copy(space: Space, slot: Slot, origin: Slot) -> Transfer:
    """Return the transfer by which a reference takes the class of another one with the same classes."""
    assert len(slot.values) == len(origin.values), "copied references are cut alike"
    masks = [1 << number for number in range(len(slot.values))]
    return Transfer(space, [slot], *((space.expand(origin, mask), space.expand(slot, mask)) for mask in masks))


def _answer(space: Space, slot: Slot, outcome: Outcome) -> Transfer:
    """Return the transfer that assigns the result of a condition to a reference: true where it holds, else false."""
    is_false = space.all & ~outcome.holds & ~outcome.fails
    true, false = space.where(slot, lambda value: value is True), space.where(slot, lambda value: value is False)
    return Transfer(space, [slot], (outcome.holds, true), (is_false, false))


def _is_undefined(value: Any) -> bool:
    return value is UNDEFINED


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


class Transfers:
    """Makes the transfers of one space; `blurs` says that one of them may lead to more states than the assignment."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.domains = space.domains
        self.blurs = False
        self.below: dict[Names, list[Slot]] = {}
        for name, slot in space.slots.items():
            self.below.setdefault(self.domains.root(name), []).append(slot)
        self._known: dict[Assign, tuple[Transfer, ...]] = {}

    def of(self, assign: Assign) -> tuple[Transfer, ...]:
        """Return the transfers of an assignment, to be applied in order."""
        transfers = self._known.get(assign)
        if transfers is None:
            transfers = self._known[assign] = tuple(self._made(assign.root, assign.value))
        return transfers

    def _made(self, root: Names, value: Any) -> Iterable[Transfer]:
        slots = self.below.get(root, [])
        if not slots:
            return
        match value:
            case Undefined():
                yield self._any(slots, self.undefined(slots))
            case AnyValue(source=source, maybe=maybe):
                allowed = self.from_source(slots, source)
                yield self._any(slots, allowed | (self.undefined(slots) if maybe else 0))
            case Literal(value=constant):
                yield self._any(slots, self._constant(slots, constant))
            case Computed(tree=Reference(names=names)):
                yield from self._copies(slots, names)
            case Computed(tree=Built() as tree):
                yield from self._built(slots, tree)
            case Computed(tree=tree):
                yield self._computed(slots, tree)

    def _any(self, slots: Iterable[Slot], allowed: int) -> Transfer:
        """Return the transfer by which references take any allowed combination of classes."""
        return Transfer(self.space, slots, (self.space.all, allowed))

    def _fields(self, slot: Slot) -> tuple[str, ...]:
        return slot.names[len(self.domains.root(slot.names)) :]

    def undefined(self, slots: Iterable[Slot]) -> int:
        """Return the states in which none of the references is defined."""
        mask = self.space.all
        for slot in slots:
            mask &= self.space.where(slot, _is_undefined)
        return mask

    def from_source(self, slots: Iterable[Slot], source: Source) -> int:
        """Return the states in which references below one root have values of an input, an output or an error."""
        return self._given(slots, {slot.names: self.domains.given(source, self._fields(slot)) for slot in slots})

    def _given(self, slots: Iterable[Slot], domains: Mapping[Names, Domain]) -> int:
        """Return the states in which references have values of these domains, and objects have their required
        fields."""
        space = self.space
        mask = space.possible
        for slot in slots:
            domain = domains[slot.names]
            missing, owner = space.where(slot, _is_undefined), self.domains.parent(slot.names)
            mask &= space.expand(slot, slot.partition.classes_of(domain)) | missing
            if is_required(slot.names, domain):
                holder = (
                    space.all if owner is None else space.where(space.slots[owner], partial(holds, name=slot.names[-1]))
                )
                mask &= ~(missing & holder)
        return mask

    def _constant(self, slots: Iterable[Slot], constant: Any) -> int:
        mask = self.space.all
        for slot in slots:
            mask &= self._states_of(slot, within(constant, self._fields(slot)))
        return mask

    def _states_of(self, slot: Slot, value: Any) -> int:
        """Return the states in which a reference has the class of a value; any class for a value that has none."""
        number = slot.partition.class_of(value)
        if number is not None:
            return self.space.expand(slot, 1 << number)
        # A fallback that its type does not allow may have no class; for a declared type that is SW203.
        self.blurs |= value is not UNDEFINED
        return self.space.where(slot, lambda known: value is not UNDEFINED and known is not UNDEFINED)

    def _copies(self, slots: Iterable[Slot], names: Names) -> Iterable[Transfer]:
        yielded = False
        for slot in slots:
            origin = self.space.slots.get((*names, *self._fields(slot)))
            if origin is None:
                self.blurs = True
                yield self._any([slot], self.space.possible)
                continue
            if not yielded:
                yield self._any([], self.space.all & ~self.undefined([self.space.slots[names]]))
                yielded = True
            yield _copy(self.space, slot, origin)

    def _built(self, slots: Iterable[Slot], tree: Built) -> Iterable[Transfer]:
        """Yield the transfers of a built value: what it is built from is defined, and each field has its part.

        What fields are put into is an object.
        """
        read = [self.space.slots[names] for names in sorted(certain_reads(tree)) if names in self.space.slots]
        mask = self.space.all
        for slot in read:
            mask &= ~self.undefined([slot])
        for names in (base.names for base in bases(tree)):
            mask &= self.space.where(self.space.slots[names], _is_object) if names in self.space.slots else mask
        yield self._any([], mask)
        for slot in slots:
            part = leaf(tree, self._fields(slot))
            is_whole = not part.fields or part.tree is None
            yield self._part(slot, part.tree) if is_whole else self._any([slot], self.space.possible)

    def _part(self, slot: Slot, tree: Expression | None) -> Transfer:
        """Return the transfer by which a reference takes one part of a built value; None is no value."""
        match tree:
            case None:
                return self._any([slot], self.undefined([slot]))
            case Constant(value=value):
                return self._any([slot], self._states_of(slot, value))
            case Reference(names=names) if names in self.space.slots:
                return _copy(self.space, slot, self.space.slots[names])
            case Reference():
                self.blurs = True
                return self._any([slot], self.space.possible)
            case Built(is_list=False):
                return self._any([slot], self._states_of(slot, FrozenMap()))
        if is_condition(tree):
            return _answer(self.space, slot, self.space.outcome(tree))
        self.blurs = True
        values = of_kinds(result_kinds(tree))
        if isinstance(tree, Built):
            values = replace(values, least=len(tree.parts), most=len(tree.parts))
        return self._any([slot], self.space.expand(slot, slot.partition.classes_of(values)))

    def _computed(self, slots: list[Slot], tree: Expression) -> Transfer:
        if is_condition(tree) and len(slots) == 1:
            return _answer(self.space, slots[0], self.space.outcome(tree))
        self.blurs = True
        values = of_kinds(result_kinds(tree))
        whole = [slot for slot in slots if not self._fields(slot)]  # an item of a joined array may be anything
        return self._any(slots, self._given(whole, dict.fromkeys((slot.names for slot in whole), values)))
