"""The target of attacks: a program under its policies, with facts and strategies that attacks use."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from stepward.sabotage.playing.strategies import Constants, others_than, values_of
from stepward.sabotage.stores.plain_status import Siblings, siblings_of
from stepward.vm.language.policy import Policy, require_distinct
from stepward.vm.language.program import Program
from stepward.vm.language.types import TypeSpec
from stepward.vm.language.within import applying
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.plan import CallPlan, Plan

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

Data = Mapping[str, Any]


def is_told_first(call: CallPlan) -> bool:
    """Return whether a machine writes the intent of a call, and so reads a cancellation, before the call starts."""
    return call.is_durable or call.is_model


class Route(NamedTuple):
    """A known run: its inputs, and its answers by step, visit and attempt (0 stands for every attempt).

    An answer has the form that witnesses use (specs/witness.md): `does`, and `value` if something is returned.
    """

    inputs: Mapping[str, Any]
    answers: Mapping[tuple[str, int, int], Mapping[str, Any]]

    @classmethod
    def of(cls, inputs: Mapping[str, Any], script: Sequence[Mapping[str, Any]]) -> Route:
        """Return the route that a witness describes."""
        answers = {(entry["step"], entry["visit"], entry.get("attempt") or 0): entry for entry in script}
        return cls(dict(inputs), answers)

    @property
    def script(self) -> tuple[Mapping[str, Any], ...]:
        """The answers as a witness lists them."""
        return tuple(self.answers.values())

    def answer(self, step: str, visit: int, attempt: int) -> Mapping[str, Any] | None:
        """Return the answer of the route to an attempt, or None."""
        return self.answers.get((step, visit, attempt)) or self.answers.get((step, visit, 0))


class Target:
    """A program under the policies that apply to it.

    Raises ProgramError for a program that a machine can't run, and PolicyError for two policies of one name.

    `routes` are known runs to try beside the random ones: witnesses of the checker, and routes to each effect.
    """

    def __init__(self, program: Program, policies: Sequence[Policy] = (), routes: Sequence[Route] = ()) -> None:
        self.program = program
        self.policies = tuple(applying(program, policies))
        self.routes = tuple(routes)
        self.plan = Plan(program, self.policies, self._waived())
        self._made: dict[tuple[str, ...], Any] = {}

    @classmethod
    def of(cls, program: Data, policies: Iterable[Data], routes: Iterable[tuple[Data, Sequence[Data]]]) -> Target:
        """Return a target from plain data. Raises ProgramError or PolicyError if it is not valid."""
        known = [Route.of(inputs, script) for inputs, script in routes]
        return cls(Program.from_dict(dict(program)), [Policy.from_dict(dict(one)) for one in policies], known)

    def to_data(self) -> dict[str, Any]:
        """Return the target as plain data: the arguments of `of`. There the program has no path, and all policies
        apply."""
        policies = tuple(policy.model_copy(update={"applies_to": None}).to_data() for policy in self.policies)
        routes = tuple((route.inputs, route.script) for route in self.routes)
        return {"program": self.program.to_dict(), "policies": policies, "routes": routes}

    def _waived(self) -> list[str]:
        """Return the rules that are waived on the first day of a trial's clock."""
        require_distinct(self.policies)
        today = datetime.datetime.fromtimestamp(ManualClock().time / 1e6, datetime.UTC).date()
        name = self.program.name
        return sorted(
            f"{policy.policy}:{waiver.rule}"
            for policy in self.policies
            for waiver in policy.waivers
            if waiver.program == name and not waiver.is_expired(today)
        )

    @cached_property
    def constants(self) -> Constants:
        """The constants in the conditions of program and policies."""
        return Constants(self.plan.meaning)

    @cached_property
    def calls(self) -> dict[str, CallPlan]:
        """Every llm and tool step and sub-step, by id."""
        return {call.id: call for step in self.plan.steps for call in step.calls}

    @cached_property
    def siblings(self) -> Siblings:
        """The calls of the step of each call."""
        return siblings_of(self.program.to_dict())

    @cached_property
    def inputs(self) -> SearchStrategy[dict[str, Any]]:
        """A strategy for inputs that the program accepts."""
        from hypothesis import strategies as st

        types = self.plan.input_types
        always = {name: self.values(spec) for name, spec in types.items() if spec is None or not spec.has_default}
        maybe = {name: self.values(spec) for name, spec in types.items() if name not in always}
        return st.fixed_dictionaries(always, optional=maybe)

    def values(self, spec: TypeSpec | None) -> SearchStrategy[Any]:
        """Return a strategy for values of a type."""
        return values_of(spec, self.constants)

    def others(self, spec: TypeSpec) -> SearchStrategy[Any]:
        """Return a strategy for values that are not of a type."""
        return others_than(spec, self.constants)

    def output(self, call: CallPlan) -> SearchStrategy[Any]:
        """Return a strategy for outputs or replies that a call accepts."""
        from hypothesis import strategies as st

        return self.once(
            ("output", call.id),
            lambda: st.sampled_from(call.allowed) if call.allowed is not None else self.values(call.returns),
        )

    def once(self, name: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return the cached object of a name, made on first use, because strategies are expensive to build."""
        if name not in self._made:
            self._made[name] = make()
        return cast(T, self._made[name])

    @cached_property
    def writes(self) -> tuple[CallPlan, ...]:
        """The calls that write."""
        return tuple(call for call in self.calls.values() if call.writes)

    @cached_property
    def waits(self) -> tuple[CallPlan, ...]:
        """The calls that may suspend a run."""
        return tuple(call for call in self.calls.values() if call.may_suspend)

    @cached_property
    def models(self) -> tuple[CallPlan, ...]:
        """The calls that ask a model."""
        return tuple(call for call in self.calls.values() if call.is_model)
