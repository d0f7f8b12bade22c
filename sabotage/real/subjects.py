"""The attacked tools and their inputs: values of the types in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.playing.strategies import Constants, values_of
from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import parts
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import SearchStrategy

Args = Mapping[str, Any]

MAX_TRIES: Final = 4
"""The number of values that are drawn for each wanted one, since duplicates are dropped."""


class Subject(NamedTuple):
    """A tool of a program: its declaration, the type of its output, and its inputs, the smallest first."""

    name: str
    spec: ToolSpec
    returns: TypeSpec | None
    inputs: tuple[Args, ...]


def subjects(plan: Plan, seed: int, examples: int) -> tuple[Subject, ...]:
    """Return the tools that the steps of a program call, each with at most `examples` inputs.

    Equal seeds give equal inputs. Raises hypothesis.errors.Unsatisfiable if no value of a type is found.
    """
    found: dict[str, CallPlan] = {}
    for step in plan.steps:
        for call in step.calls:
            if not call.is_model:
                found.setdefault(call.tool, call)
    constants = Constants(plan.meaning)
    return tuple(_subject(plan.meaning, call, constants, seed, examples) for call in found.values())


def _subject(meaning: Meaning, call: CallPlan, constants: Constants, seed: int, examples: int) -> Subject:
    spec = meaning.tool(call.tool)
    sites = [site.call for site in meaning.calls if getattr(site.call, "tool", None) == call.tool]
    arguments = {name: value for site in sites for name, value in getattr(site, "args", {}).items()}
    makers = {name: _like(meaning, value, constants) for name, value in arguments.items()}
    makers.update({name: values_of(kind, constants) for name, kind in (spec.args or {}).items()})
    returns = call.returns if spec.returns is None else spec.returns
    return Subject(call.tool, spec, returns, _drawn(makers, seed, examples))


def _like(meaning: Meaning, value: Any, constants: Constants) -> SearchStrategy[Any]:
    """Return a strategy for undeclared arguments, after the values that a step passes."""
    from hypothesis import strategies as st

    if isinstance(value, Mapping):
        return st.fixed_dictionaries({name: _like(meaning, item, constants) for name, item in value.items()})
    if isinstance(value, list | tuple):
        return st.tuples(*(_like(meaning, item, constants) for item in value)).map(list)
    pieces = parts(value) if isinstance(value, str) else ()
    if not any(isinstance(piece, Reference) for piece in pieces):
        return st.just(value)
    if len(pieces) > 1:
        return values_of(TypeSpec(type=("string",)), constants)
    assert isinstance(pieces[0], Reference)
    view = meaning.view(pieces[0].names)
    if view is None or not view.is_known or not view.kinds:
        return values_of(None, constants)
    return values_of(TypeSpec(type=tuple(sorted(view.kinds)), enum=view.enum or None), constants)  # type: ignore[arg-type]


def _drawn(makers: Mapping[str, SearchStrategy[Any]], seed: int, examples: int) -> tuple[Args, ...]:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    if not makers:
        return ({},)
    found: dict[str, Args] = {}

    @settings(
        max_examples=MAX_TRIES * examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seeded(seed)
    @given(st.fixed_dictionaries(dict(makers)))
    def draw(args: Args) -> None:
        if len(found) < examples:
            found.setdefault(to_json(freeze(args)), args)

    draw()
    return tuple(args for _, args in sorted(found.items(), key=lambda entry: (len(entry[0]), entry[0])))


def holds_parts(inputs: Iterable[Args]) -> tuple[Args, ...]:
    """Return the inputs with a list or an object among the arguments, which a tool could change."""
    return tuple(args for args in inputs if any(isinstance(value, list | dict) for value in args.values()))
