"""A program with the policies that apply to it: facts about tools, names, control flow and types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepward.vm.expressions.building import is_computed
from stepward.vm.expressions.operands import resolved
from stepward.vm.expressions.operators import ANY
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.paths import Paths
from stepward.vm.expressions.syntax import all_references
from stepward.vm.expressions.template import embedded
from stepward.vm.language.clauses import CallSite, Clause
from stepward.vm.language.flow import Flow
from stepward.vm.language.guardrails import AnyRule, Never
from stepward.vm.language.inference import infer
from stepward.vm.language.manifest import UNKNOWN_TOOL, ToolSpec
from stepward.vm.language.name_types import Typing
from stepward.vm.language.names import Names, assigned_path
from stepward.vm.language.order import Order, order_of
from stepward.vm.language.program import Program
from stepward.vm.language.steps import ForEachStep, InvokeStep
from stepward.vm.language.types import key_of
from stepward.vm.language.views import View
from stepward.vm.language.within import applying
from stepward.vm.reading.source import Path

if TYPE_CHECKING:
    from stepward.vm.expressions.syntax import Expression
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.sums import AssignedKinds

_EFFECTS = ("none", "read", "write")


class Meaning:
    """A program and the policies that apply to it, with what follows from the two, computed on first use."""

    def __init__(self, program: Program, policies: Sequence[Policy] = ()) -> None:
        self.program = program
        self.policies = tuple(applying(program, policies))
        self.flow = Flow(program)
        self._views: dict[tuple[str, ...], View | None] = {}
        self._enum_keys: dict[int, tuple[tuple[object, ...], frozenset[Any]]] = {}

    @cached_property
    def names(self) -> Names:
        """The sources of every variable."""
        return Names.of(self.program)

    @cached_property
    def manifest(self) -> dict[str, ToolSpec]:
        """The facts about each tool: those of the program, or of a policy or a called program that is stricter."""
        known = facts_of(self.policies)
        for step in self.flow.steps:
            for name, spec in step.tools.items() if isinstance(step, InvokeStep) else ():
                known[name] = _stricter(known[name], spec) if name in known else spec
        if self.program.tools is None:
            return known
        return {
            name: _stricter(spec, known[name]) if name in known else spec for name, spec in self.program.tools.items()
        }

    @cached_property
    def performed(self) -> frozenset[str]:
        """The tools of which the runs before this one have made calls that must not be repeated."""
        return frozenset(one.tool for policy in self.policies for one in policy.performed)

    def tool(self, name: str) -> ToolSpec:
        """Return the facts about a tool; the worst is assumed of one that nobody declares."""
        return self.manifest.get(name, UNKNOWN_TOOL)

    @cached_property
    def rules(self) -> tuple[tuple[AnyRule, Policy | None], ...]:
        """The guardrails of the program, then those of the policies, each with its policy."""
        own: list[tuple[AnyRule, Policy | None]] = [(rule, None) for rule in self.program.guardrails]
        return (*own, *((rule, policy) for policy in self.policies for rule in policy.guardrails))

    @cached_property
    def calls(self) -> tuple[CallSite, ...]:
        """Every call to a model or a tool, in the order of the list."""
        return tuple(
            CallSite(number, sub, call, self.flow.layout.path(number, sub))
            for number, step in enumerate(self.flow.steps)
            for sub, call in step.calls
        )

    @cached_property
    def orders(self) -> dict[int, Order]:
        """The order of the sub-steps of each step that has some with `depends_on`, by its position."""
        found = ((number, order_of(step)) for number, step in enumerate(self.flow.steps) if step.sub_steps)
        return {number: order for number, order in found if order is not None}

    @cached_property
    def _written(self) -> tuple[Clause, ...]:
        """The expressions as they are written: what a `+` of language 2 joins is not known yet."""
        language, layout = self.program.language, self.flow.layout
        texts = (
            Clause.of(number, (*layout.path(number), *path), text, language, is_condition=is_condition, name=name)
            for number, step in enumerate(self.flow.steps)
            for path, text, is_condition, name in step.expressions
        )
        if language == 1:
            return tuple(texts)
        objects: list[Clause] = []
        for number, step in enumerate(self.flow.steps):
            for name, value in step.assigns.items():
                path = assigned_path(layout, number, name)
                if isinstance(value, Paths):
                    objects += Clause.of_fields(number, path, value, language, name)
                elif not isinstance(value, str) and is_computed(value, language):
                    objects.append(Clause.of_built(number, path, value, name))
        return tuple(sorted((*texts, *objects), key=lambda one: one.step)) if objects else tuple(texts)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """Every expression of the program's steps: conditions, cases, and the texts of `set`."""
        if self.program.language == 1:
            return self._written
        return tuple(
            clause._replace(tree=resolved(clause.tree, self._kinds.of))
            if clause.tree and "+" in clause.text
            else clause
            for clause in self._written
        )

    @cached_property
    def clauses_of(self) -> dict[int, list[Clause]]:
        """The expressions of each step that has any, by its position."""
        return _by_step(self.clauses)

    def condition(self, text: str) -> Expression:
        """Return the tree of a condition of a guardrail or policy, as this program reads it; raises ExpressionError."""
        if self.program.language == 1 or "+" not in text:
            return parse(text)
        # `$args` are the arguments of a call there, whatever variable has that name.
        return resolved(
            parse(text, self.program.language), lambda read: ANY if read.names[0] == "args" else self._kinds.of(read)
        )

    @cached_property
    def _kinds(self) -> AssignedKinds:
        from stepward.vm.language.sums import AssignedKinds

        return AssignedKinds(self.typing, self.names, _by_step(self._written))

    @cached_property
    def typing(self) -> Typing:
        """The type of every name, declared or inferred."""
        typing = Typing(self.program, self.names, _by_step(self._written), self.tool, self.flow.gives)
        return infer(typing, self._written)

    @cached_property
    def body_rules(self) -> tuple[tuple[AnyRule, int], ...]:
        """The guardrails of bodies, each with the position of the step that has the body."""
        steps = self.flow.steps
        return tuple(
            (rule, owner)
            for owner in self.flow.layout.bodies
            if isinstance(step := steps[owner], ForEachStep)
            for rule in step.guardrails
        )

    def read_at(self, number: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yield the references of a step, sub-steps included, each with the path of the value that holds it."""
        step, path = self.flow.steps[number], self.flow.layout.path(number)
        for clause in self.clauses_of.get(number, ()):
            if clause.tree is not None:
                yield from ((clause.path, reference.names) for reference in all_references(clause.tree))
        for template in step.templates:
            yield from (((*path, *template.path), one.reference.names) for one in embedded(template.value))

    def most_items(self, number: int) -> int | None:
        """Return how many items a for_each step takes at most: `max_items`, or what its list can have; None if neither
        says it."""
        step = self.flow.steps[number]
        assert isinstance(step, ForEachStep)
        return step.max_items if step.max_items is not None else self.typing.lists.most(step)

    def view(self, names: tuple[str, ...]) -> View | None:
        """Return what is known of the values of a reference, or None if nothing ever defines it."""
        if names not in self._views:
            resolution = self.names.meaning(names)
            self._views[names] = None if resolution is None else self.typing.fresh_view(resolution)
        return self._views[names]

    def lists(self, enum: tuple[object, ...], value: object) -> bool:
        """Return whether a value is a member of the `enum` of a view; the keys of its members are cached."""
        known = self._enum_keys.get(id(enum))
        if known is None:
            # The entry holds the enum: while the enum lives, no other one gets its id.
            known = self._enum_keys[id(enum)] = enum, frozenset(map(key_of, enum))
        return key_of(value) in known[1]

    @cached_property
    def whens(self) -> tuple[tuple[Never, str], ...]:
        """The `never … when` rules, those of bodies too, and their conditions."""
        rules = (rule for rule, _ in (*self.rules, *self.body_rules))
        return tuple((rule, rule.when) for rule in rules if isinstance(rule, Never) and rule.when is not None)


def _by_step(clauses: Iterable[Clause]) -> dict[int, list[Clause]]:
    result: dict[int, list[Clause]] = {}
    for clause in clauses:
        result.setdefault(clause.step, []).append(clause)
    return result


def facts_of(policies: Iterable[Policy]) -> dict[str, ToolSpec]:
    """Return the facts about tools that policies state; where several state a field, the worse value."""
    known: dict[str, ToolSpec] = {}
    for policy in policies:
        for name, spec in (policy.tools or {}).items():
            known[name] = _stricter(known[name], spec) if name in known else spec
    return known


def _stricter(claim: ToolSpec, fact: ToolSpec) -> ToolSpec:
    """Return the union of two sets of facts about a tool; where both state a field, the worse value."""
    fields = {name: getattr(fact, name) for name in fact.model_fields_set if getattr(fact, name) is not None}
    for name in claim.model_fields_set:
        declared = getattr(claim, name)
        if declared is None:
            continue
        if name not in fields or name in ("args", "returns"):
            fields[name] = declared
        elif name == "errors":
            fields[name] = tuple(dict.fromkeys((*declared, *fields[name])))
        elif name == "effect":
            fields[name] = max(declared, fields[name], key=_EFFECTS.index)
        else:
            fields[name] = (declared and fields[name]) if name == "idempotent" else (declared or fields[name])
    return ToolSpec(**fields)
