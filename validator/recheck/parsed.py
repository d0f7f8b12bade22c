"""A program under its policies, parsed: steps, expressions, guardrails, tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, Protocol

from stepward.validator.recheck.flow import Control
from stepward.validator.recheck.names import Lookup
from stepward.validator.recheck.parts import Match
from stepward.validator.recheck.refusals import Unreadable
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.building import expression, is_computed
from stepward.vm.expressions.syntax import Constant, Expression
from stepward.vm.language.guardrails import AnyRule
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyPart, AnyStep, ForEachStep, InvokeStep, SetStep, ToolCall, parts

_EFFECTS: Final = ("none", "read", "write")
_UNKNOWN: Final = ToolSpec.model_construct(effect="write", idempotent=False)
"""A tool that nothing declares: the worst case is assumed."""


class Watch(Protocol):
    """A limit of time; the clock of a check is one."""

    def check(self) -> None:
        """Raise an exception when the time is over. It is called now and then."""
        ...

    def left(self) -> float:
        """Return the remaining seconds."""
        ...


class Unlimited:
    """A limit that is never reached."""

    def check(self) -> None:
        """Do nothing."""

    def left(self) -> float:
        """Return more seconds than any check takes."""
        return 1e6


class Parsed:
    """One program and the policies that apply to it; `watch` may end the work on it.

    Raises Unreadable for two different policies of one name: a claim names its policy.
    """

    def __init__(self, program: Program, policies: Sequence[Policy] = (), watch: Watch | None = None) -> None:
        self.program = program
        self.layout = program.layout
        self.steps: tuple[AnyStep, ...] = program.layout.steps
        self.policies = tuple(policy for policy in policies if _applies(policy, program))
        known: dict[str, Policy] = {}
        for policy in self.policies:
            if known.setdefault(policy.policy, policy).to_data() != policy.to_data():
                raise Unreadable(f"two policies have the name `{policy.policy}`")
        watch = watch or Unlimited()
        self.check, self.left = watch.check, watch.left
        self._trees: dict[int, tuple[Expression | None, ...]] = {}
        self._tools: dict[str, ToolSpec] = {}

    # -- control and data ------------------------------------------------------------------------------------------

    @cached_property
    def control(self) -> Control:
        """The control flow; raises Unreadable where it is not well defined."""
        return Control(self.layout)

    @cached_property
    def position(self) -> dict[str, int]:
        """The position of each step of the program's own list by id; the first for a repeated id."""
        return self.control.position

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The ids that more than one step of the program's own list has."""
        counted = Counter(step.id for step in self.steps)
        return frozenset(name for name, count in counted.items() if count > 1)

    @cached_property
    def lookup(self) -> Lookup:
        """The resolution of references."""
        return Lookup(self.program)

    # -- parts -----------------------------------------------------------------------------------------------------

    def part(self, number: int, sub: int | None) -> AnyPart:
        """Return a step, or a sub-step of it."""
        step = self.steps[number]
        return step if sub is None else step.sub_steps[sub]

    @cached_property
    def parts(self) -> tuple[Match, ...]:
        """Every step, and every sub-step after its step."""
        return tuple(
            Match(number, sub, part)
            for number, step in enumerate(self.steps)
            for sub, part in parts(step)
            if part.type != "stage"
        )

    @cached_property
    def calls(self) -> tuple[Match, ...]:
        """Every call of a model or a tool."""
        return tuple(Match(number, sub, call) for number, step in enumerate(self.steps) for sub, call in step.calls)

    @cached_property
    def tool_calls(self) -> tuple[Match, ...]:
        """Every call of a tool."""
        return tuple(hit for hit in self.calls if isinstance(hit.part, ToolCall))

    def expressions(self, number: int) -> tuple[Expression | None, ...]:
        """Return the conditions of a step, or what its `set` computes, in order; None for text that does not parse."""
        if number not in self._trees:
            step, language = self.steps[number], self.program.language
            values = [one.text for one in step.expressions]
            if isinstance(step, SetStep | ForEachStep):
                values = [value for value in step.assigns.values() if is_computed(value, language)]
            self._trees[number] = tuple(_parsed(value, language) for value in values)
        return self._trees[number]

    def put_by_set(self, number: int) -> dict[str, Expression | None]:
        """Return the expressions that a `set` or `carry` assigns, by name; a plain value is a constant.

        None for text that does not parse.
        """
        trees = iter(self.expressions(number))
        return {
            name: next(trees) if is_computed(value, self.program.language) else Constant(0, 0, value)
            for name, value in self.steps[number].assigns.items()
        }

    def rules(self) -> list[tuple[AnyRule, str | None]]:
        """Return the guardrails of the program, then those of the policies, each with the name of its policy."""
        rules: list[tuple[AnyRule, str | None]] = [(rule, None) for rule in self.program.guardrails]
        return rules + [(rule, policy.policy) for policy in self.policies for rule in policy.guardrails]

    @cached_property
    def body_rules(self) -> list[tuple[AnyRule, int | None]]:
        """The guardrails of bodies, each with the position of the step that has the body."""
        steps = ((owner, self.steps[owner]) for owner in self.layout.bodies)
        return [(rule, owner) for owner, step in steps if isinstance(step, ForEachStep) for rule in step.guardrails]

    @cached_property
    def bounds(self) -> dict[int, int]:
        """The `max_visits` of bounded steps, by position."""
        limits = ((number, step.max_visits) for number, step in enumerate(self.steps))
        return {number: most for number, most in limits if most is not None}

    # -- tools -----------------------------------------------------------------------------------------------------

    def tool(self, name: str) -> ToolSpec:
        """Return the facts about a tool: the worse of what program and policies declare, or else the worst case."""
        if name not in self._tools:
            manifest = self.program.tools
            if manifest is not None and name not in manifest:
                return _UNKNOWN  # policies fill a missing manifest, not one with gaps
            declared = None if manifest is None else manifest[name]
            known = [policy.tools[name] for policy in self.policies if policy.tools and name in policy.tools]
            calls = [step for step in self.steps if isinstance(step, InvokeStep)]
            known += [step.tools[name] for step in calls if name in step.tools]
            declarations = [*([declared] if declared is not None else []), *known]
            self._tools[name] = _worst(declarations) if declarations else _UNKNOWN
        return self._tools[name]

    def must_not_repeat(self, name: str) -> bool:
        """Return whether a tool writes and is not idempotent."""
        spec = self.tool(name)
        return spec.effect == "write" and not spec.idempotent


def _worst(declarations: Sequence[ToolSpec]) -> ToolSpec:
    """Return the worst of several declarations of a tool; types are taken from the first that has them."""

    def values_of(name: str) -> list[Any]:
        return [
            getattr(one, name)
            for one in declarations
            if name in one.model_fields_set and getattr(one, name) is not None
        ]

    effects, idempotent, suspends = values_of("effect"), values_of("idempotent"), values_of("suspends")
    return ToolSpec.model_construct(
        effect=max(effects, key=_EFFECTS.index) if effects else "write",
        idempotent=bool(idempotent) and all(idempotent),
        suspends=any(suspends),
        args=next(iter(values_of("args")), None),
        returns=next(iter(values_of("returns")), None),
        errors=tuple(name for errors in values_of("errors") for name in errors),
    )


def _applies(policy: Policy, program: Program) -> bool:
    """Return whether a policy applies to a program, by its name or by the path of its file."""
    if policy.applies_to is None:
        return True
    path = program.source_name.replace("\\", "/")
    names = [(program.name, pattern) for pattern in policy.applies_to]
    names += [(path, one) for pattern in policy.applies_to for one in (pattern, f"*/{pattern}")]
    return any(fnmatchcase(name, pattern) for name, pattern in names)


def _parsed(value: object, language: int) -> Expression | None:
    try:
        return expression(value, language)
    except ExpressionError:
        return None
