"""The outputs of bodies that are performed once: a branch or a call has the output of the `end` that it reaches.

An `end` assigns it as a `set` assigns a variable, and any other step that ends the body with success leaves it
undefined. Nothing reads it before the stage behind the body. A step with branches gives an object that is built of what
these gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.engine.systems.starts import Starts
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import (
    NONE_HOLDS,
    AnyValue,
    Assign,
    Computed,
    Decision,
    Guard,
    Literal,
    Undefined,
    Value,
)
from stepward.validator.engine.values.domains import Domains, Names, primed
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.building import built
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import Built, Constant, Defined, Expression, Reference
from stepward.vm.expressions.template import embedded
from stepward.vm.language.flow import Gives
from stepward.vm.language.guardrails import Never
from stepward.vm.language.policy import Allowed
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.steps import EndStep, ParallelStep
from stepward.vm.language.transitions import Transition
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.language.views import static_kinds

if TYPE_CHECKING:
    from stepward.validator.analysis.facts import ProgramFacts

MAX_UNSURE: Final = 3
"""The most branches without a certain output for which the objects of all choices are told apart."""


class Ends:
    """The ends of the bodies of one program that are performed once."""

    def __init__(self, facts: ProgramFacts, domains: Domains, starts: Starts) -> None:
        self.facts, self.domains, self._starts = facts, domains, starts
        self.layout = facts.flow.layout
        self._trees: dict[int, Expression] = {}

    def of(self, owner: int) -> Iterator[int]:
        """Yield the steps that may end the body of a step with success; none if it has a body for each item."""
        if self.facts.bodies.each(owner).is_once:
            yield from (
                number
                for number in self.layout.inside(owner)
                if self.layout.owner(number) == owner and any(map(_is_success, self.facts.flow.transitions[number]))
            )

    def feeds(self, name: str) -> set[Names]:
        """Return the variables that the output of a step with bodies is made of; none for any other step."""
        source = self.facts.meaning.names.outputs.get(name)
        if source is not None and source.sub is None and source.step in self.layout.forks:
            fork = self.layout.forks[source.step]
            return {(branch, "output") for branch, _ in self._joined_at(fork.join)}
        if source is None or source.sub is not None or source.step not in self.layout.bodies:
            return set()
        steps = [number for number in self.of(source.step) if isinstance(self.facts.flow.steps[number], EndStep)]
        values = [self._value(number, source.step) for number in steps]
        trees = [value.tree for value in values if isinstance(value, Computed)]
        return {self.domains.root(names) for names in references_of(trees)}

    def given(self, number: int, move: StepMove) -> Iterator[Assign]:
        """Yield the assignments of the output of a body that a move ends with success."""
        owner = self.layout.owner(number)
        if owner is None or not _is_success(move.transition):
            return
        step = self.facts.bodies.each(owner)
        if not step.is_once:
            return
        root, is_end = (step.id, "output"), isinstance(self.facts.flow.steps[number], EndStep)
        yield from _assigned(root, self._value(number, owner) if is_end else Undefined())
        if step.output_key is not None:
            yield Assign((step.output_key,), Computed(Reference(0, 0, root)) if is_end else Undefined())

    def together(self, join: int) -> Iterator[tuple[tuple[Guard, ...], Value]]:
        """Yield the possible outputs of a step with branches at the stage that joins them, each with its guards.

        There is one object for each choice of branches that ended without an output. If there are too many choices, or
        nothing reads the object, the output is any value of its type.
        """
        outputs = self._joined_at(join)
        fork = self.layout.fork_of(join)
        assert fork is not None
        unsure = [name for name, how in outputs if how == "sometimes"]
        if len(unsure) > MAX_UNSURE or (unsure and not self._is_read(fork.owner)):
            yield (), AnyValue(self.facts.meaning.names.outputs[self.layout.steps[fork.owner].id])
            return
        decisions = {name: Decision((Defined(0, 0, Reference(0, 0, (name, "output"))),)) for name in unsure}
        for present in product((0, NONE_HOLDS), repeat=len(unsure)):
            present_outputs = dict(zip(unsure, present, strict=True))
            defined = [name for name, how in outputs if how == "always" or present_outputs.get(name) == 0]
            parts = tuple(Reference(0, 0, (name, "output")) for name in defined)
            guards = tuple(Guard(decisions[name], outcome) for name, outcome in present_outputs.items())
            yield guards, Computed(Built(0, 0, tuple(map(own_name, defined)), parts, is_list=False))

    def _joined_at(self, join: int) -> list[tuple[str, Gives]]:
        """Return the branches before a stage, and whether they have an output where all have succeeded."""
        fork = self.layout.fork_of(join)
        assert fork is not None
        branches = [(self.layout.steps[one].id, self.facts.flow.gives(one)) for one in fork.branches]
        return [(name, how) for name, how in branches if how != "never"]

    def _is_read(self, owner: int) -> bool:
        """Return whether the program may read what a step with branches gives: a step does, or some rule reads."""
        step = self.layout.steps[owner]
        assert isinstance(step, ParallelStep)
        return self._is_read_by_rules or not self._read.isdisjoint(((step.id, "output"), (step.output_key or "",)))

    @cached_property
    def _read(self) -> frozenset[Names]:
        """The variables and outputs that some step reads."""
        steps = range(len(self.layout.steps))
        return frozenset(self.domains.root(names) for one in steps for _, names in self.facts.meaning.read_at(one))

    @cached_property
    def _is_read_by_rules(self) -> bool:
        meaning = self.facts.meaning
        rules = [rule for rule, _ in (*meaning.rules, *meaning.body_rules)]
        entries = [entry for policy in meaning.policies for entry in policy.allow or ()]
        return any(isinstance(one, Never | Allowed) and one.when is not None for one in (*rules, *entries))

    def _value(self, number: int, owner: int) -> Value:
        """Return what an `end` gives; any value of the type that a caller takes, if it may give another one."""
        if self.type_conditions(number) is None:
            return AnyValue(self.facts.meaning.names.outputs[self.facts.bodies.each(owner).id])
        tree = self._tree(number)
        return Literal(tree.value) if isinstance(tree, Constant) else Computed(tree)

    def type_conditions(self, number: int) -> list[Expression] | None:
        """Return the conditions under which a caller takes what an `end` gives; None where conditions can't tell."""
        accepted, output = self._taken(number), self._end(number).output
        return (
            []
            if accepted is None or self._fits(output, accepted)
            else self._starts.type_question(output, accepted, frozenset())
        )

    def is_refused(self, number: int) -> bool:
        """Return whether an `end` gives only what the caller of its program does not take: then the call fails."""
        accepted = self._taken(number)
        return accepted is not None and self._is_never(self._tree(number), accepted)

    def _is_never(self, tree: Expression, spec: TypeSpec) -> bool:
        """Return whether no value of an expression is of a type."""
        if isinstance(tree, Constant):
            return not fits(tree.value, spec)
        kinds = self.domains.of(tree.names).kinds if isinstance(tree, Reference) else result_kinds(tree)
        if static_kinds(spec.kinds).isdisjoint(kinds):
            return True
        if not isinstance(tree, Built):
            return False
        if tree.is_list:
            return spec.items is not None and any(self._is_never(part, spec.items) for part in tree.parts)
        known, parts = spec.properties or {}, zip(tree.names, tree.parts, strict=True)
        is_incomplete = not set(spec.required) <= set(tree.names)
        return is_incomplete or any(self._is_never(part, known[name]) for name, part in parts if name in known)

    def _taken(self, number: int) -> TypeSpec | None:
        """Return the type of the outputs that the caller of a program takes from an `end`; None if it takes any."""
        owner, meaning = self.layout.owner(number), self.facts.meaning
        if owner is None or not self.facts.bodies.may_be_refused(number):
            return None
        return meaning.typing.effective(meaning.names.outputs[self.facts.bodies.each(owner).id])

    def _end(self, number: int) -> EndStep:
        end = self.facts.flow.steps[number]
        assert isinstance(end, EndStep)
        return end

    def _tree(self, number: int) -> Expression:
        if number not in self._trees:
            self._trees[number] = built(self._end(number).output)
        return self._trees[number]

    def _fits(self, value: Any, spec: TypeSpec) -> bool:
        """Return whether a value with references is certainly of a type, if these are defined."""
        if not any(one.path for one in embedded(value)):
            return self.facts.fits(value, spec)
        if isinstance(value, dict) and "object" in spec.kinds and spec.enum is None:
            known = spec.properties or {}
            is_closed = spec.additional_properties not in (None, True)
            has_all = set(spec.required) <= set(value) and not (is_closed and set(value) - set(known))
            return has_all and all(self._fits(one, known[name]) for name, one in value.items() if name in known)
        if isinstance(value, tuple) and "array" in spec.kinds and spec.enum is None:
            is_long = (spec.min_items or 0) <= len(value) <= (len(value) if spec.max_items is None else spec.max_items)
            return is_long and (spec.items is None or all(self._fits(one, spec.items) for one in value))
        return False


def _is_success(transition: Transition) -> bool:
    return transition.ending is not None and transition.ending.status == "SUCCESS"


def _assigned(root: Names, value: Value) -> Iterator[Assign]:
    """Yield the assignments of an output; one that is built of its own value before gets it under a primed name."""
    is_built = isinstance(value, Computed) and isinstance(value.tree, Built)
    read = references_of([value.tree]) if isinstance(value, Computed) and is_built else ()
    if any(names[: len(root)] == root for names in read):
        yield Assign(primed(root), value)
        yield Assign(root, Computed(Reference(0, 0, primed(root))))
        yield Assign(primed(root), Undefined())
    else:
        yield Assign(root, value)
