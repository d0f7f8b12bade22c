"""Whether a state of a condition can certainly be had: by inputs, and by what steps on a path to it return.

A path is certain when every move on it is one that some run makes, whatever came before: no condition decides, nothing
may be undefined, no visit is used up, and no guardrail may stop it. Every value must come from an input or from the
output of a call that is made on the path, and be of its type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.assignment import assigned_names
from stepward.validator.analysis.product import NOT_TOLD, Fates
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.simplest import simplest
from stepward.validator.engine.values.states import State, references_of
from stepward.validator.findings import Move
from stepward.vm.language.names import Source
from stepward.vm.language.steps import AnyStep, Failing, LlmCall
from stepward.vm.language.transitions import Transition
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.values import freeze

_ANY: Final = "any"
"""A name that has a value, or none, and nobody knows which."""

_NONE: Final = "none"
_INPUT: Final = "input"

Giver = Any
"""What gave a name its value: one of the words above, or the step and the id of the call."""


def path_to(analyses: Analyses, number: int, state: State, stopped: Collection[str | None]) -> tuple[Move, ...] | None:
    """Return a path on which a run gets to a condition step in a state; None where that is not certain.

    At the steps that are `stopped` a guardrail may end the run.
    """
    found = analyses.ways.certainly_met(_Givers(analyses, number, state, stopped))
    return found[0].path if found else None


def is_admitted(analyses: Analyses, number: int, state: State) -> bool:
    """Return whether every value is one that some source of it may give: no `pattern` refuses it."""
    givers = _Givers(analyses, number, state, ())
    return all(givers.is_admitted(root) for root in givers.values)


class _Givers:
    """Watches who gives the variables of a condition their values."""

    asks_ends = False
    watched = None

    def __init__(self, analyses: Analyses, number: int, state: State, stopped: Collection[str | None]) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.number = number
        self.names = analyses.facts.meaning.names
        self.roots = [name for name in state if not self._fields(name)]
        undefined = {self._root(name) for name in self._asked(number)} - set(self.roots)
        self.roots += sorted(undefined)
        self.values = {root: self._whole(root, state) for root in self.roots if root in state}
        self.stopped = stopped

    def _asked(self, number: int) -> Iterable[Names]:
        trees = [clause.tree for clause in self.facts.meaning.clauses_of[number] if clause.tree is not None]
        return references_of(trees)

    def _fields(self, name: Names) -> tuple[str, ...]:
        meant = self.names.meaning(name)
        return meant.fields if meant is not None else ()

    def _root(self, name: Names) -> Names:
        return name[: len(name) - len(self._fields(name))]

    def _whole(self, name: Names, state: State) -> Any:
        """Return a value with the fields that the state names."""
        if not isinstance(state[name], dict):
            return state[name]
        depth = len(name)
        fields = [inner for inner in state if inner[:depth] == name and len(inner) == depth + 1]
        return {inner[depth]: self._whole(inner, state) for inner in fields}

    # -- the monitor -----------------------------------------------------------------------------------------------

    def start(self) -> tuple[Giver, ...]:
        """Return who gives before the run: the inputs."""
        return tuple(_INPUT if self._source(root, _INPUT) else _NONE for root in self.roots)

    def enter(self, step: int, state: Any) -> str | None:
        """Return that the condition is reached with givers that can give these values."""
        return "reached" if step == self.number and self._fits(state) else None

    def culprits(self, step: int, state: Any) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        """Return that control being there is enough."""
        return ((),)

    def leave(self, step: int, state: Any, way: Transition, fates: Fates = NOT_TOLD) -> Iterable[Any]:  # noqa: ARG002
        """Return who gives after a step was left."""
        part = self.facts.flow.steps[step]
        if part.id in self.stopped or not self.analyses.starts_for_certain(step):
            return ()  # a guardrail may stop the run here, or an argument may be refused
        assigned = assigned_names(part)
        if not assigned & set(self.roots):
            return (state,)
        return (
            tuple(
                self._giver(step, part, root, way) if root in assigned else giver
                for root, giver in zip(self.roots, state, strict=True)
            ),
        )

    def end(self, step: int, state: Any, way: Transition) -> str | None:  # noqa: ARG002
        """Return nothing: how runs end is not asked."""
        return None

    def _giver(self, step: int, part: AnyStep, root: Names, way: Transition) -> Giver:
        if not isinstance(part, Failing) or way.kind == "fallback" or root[1:] == ("error",):
            return _ANY
        calls = part.sub_steps
        if way.kind != "success":
            return _ANY if calls else _NONE
        owners = [call for call in (part, *calls) if root in ((call.id, "output"), (call.output_key,))]
        if len(owners) != 1 or any(call.on_error == "skip" for call in calls):
            return _ANY
        return step, owners[0].id

    # -- values ----------------------------------------------------------------------------------------------------

    def _fits(self, givers: tuple[Giver, ...]) -> bool:
        calls = [giver for giver in givers if isinstance(giver, tuple)]
        if len(set(calls)) < len(calls):
            return False  # two names of one output: their values are not free of one another
        for root, giver in zip(self.roots, givers, strict=True):
            if root not in self.values:
                if giver != _NONE:
                    return False
            elif giver in (_ANY, _NONE) or not self._gives(root, giver):
                return False
        steps = [giver[0] for giver in calls]
        return all(self._id(step) not in (call for _, call in calls) or steps.count(step) == 1 for step in steps)

    def _id(self, step: int) -> str:
        return self.facts.flow.steps[step].id

    def _gives(self, root: Names, giver: Giver) -> bool:
        source = self._source(root, giver)
        if source is None:
            return False
        spec, value = self.facts.meaning.typing.effective(source), self.values[root]
        if isinstance(giver, tuple) and self._is_reply(source) and isinstance(value, str) and value != value.strip():
            return False  # a model's reply is stripped
        return _is_of(value, spec)

    def is_admitted(self, root: Names) -> bool:
        """Return whether some source gives a variable this value."""
        meant, typing = self.names.meaning(root), self.facts.meaning.typing
        sources = meant.sources if meant is not None else ()
        return any(source.kind == "set" or _is_of(self.values[root], typing.effective(source)) for source in sources)

    def _is_reply(self, source: Source) -> bool:
        return isinstance(self.facts.call_of(source), LlmCall)

    def _source(self, root: Names, giver: Giver) -> Source | None:
        meant = self.names.meaning(root)
        for source in meant.sources if meant is not None else ():
            if giver == _INPUT and source.kind == "input":
                return source
            if source.kind == "output" and isinstance(giver, tuple) and self.facts.call_of(source).id == giver[1]:
                return source
        return None


def _is_of(value: Any, spec: TypeSpec | None) -> bool:
    return fits(completed(value, spec), spec)


def completed(value: Any, spec: TypeSpec | None) -> Any:
    """Return a value with what its type demands and nobody asked for: the fields of objects, the items of arrays."""
    if isinstance(value, list | tuple):
        return _items(tuple(value), spec.items if spec is not None else None)
    if not isinstance(value, dict):
        return freeze(value)
    known = (spec.properties if spec is not None else None) or {}
    whole = {name: completed(inner, known.get(name)) for name, inner in value.items()}
    for name in spec.required if spec is not None else ():
        if name not in whole:
            whole.update((name, found) for found in simplest(known.get(name))[:1])
    return freeze(whole)


_ITEMLESS: Final = object()


def _items(values: tuple[Any, ...], spec: TypeSpec | None) -> Any:
    """Return the items of an array, each completed; one that is not of the item type gives way to the simplest."""
    last: Any = _ITEMLESS
    made: Any = None
    found = []
    for value in values:
        if value is not last:  # most arrays that are made up repeat one item
            last, made = value, completed(value, spec)
            if not fits(made, spec):
                made = next(iter(simplest(spec)), made)
        found.append(made)
    return freeze(found)
