"""The known sensitive values of a run (taint): where they come back, outputs are sealed and texts redacted.

Tools repeat their arguments, so everything that comes from outside is searched for the sensitive values of the run.
These depend only on its records, so that every machine that continues the run seals the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, Secret, opened
from stepward.vm.language.steps import InvokeStep
from stepward.vm.language.types import TypeSpec, is_sensitive
from stepward.vm.machine.data import REDACTED, part_of
from stepward.vm.machine.events import Event
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.redaction import Searched, Spellings, redacted
from stepward.vm.values import FrozenMap, as_text

FROM_OUTSIDE: Final = ("attempt", "resumed", "reconciled")
"""The kinds of records that bring an output from outside."""

DELIVERIES: Final = ("resumed", "reconciled")

_LEAVING: Final = frozenset({"next", "closes", "ends"})


class Scope:
    """What the run knows, or what one of its branches, or of its items at once, has found out by itself.

    `now` are the values of the sub-steps of its present parallel step, and `by_call` by sub-step.
    """

    def __init__(self) -> None:
        self.before: dict[str, Spellings | None] = {}
        self.now: dict[str, Spellings | None] = {}
        self.by_call: dict[str, list[str]] = {}
        self.searched = Searched()

    def note(self, leaves: Iterable[tuple[str, bool]]) -> None:
        """Know values from now on."""
        for text, is_searched in leaves:
            if self.before.get(text) is None:
                self.before[text] = spellings = Spellings.of(text) if is_searched else None
                if spellings is not None:
                    self.searched.add(spellings)

    def bring(self, step: str, leaves: Iterable[tuple[str, bool]]) -> None:
        """Keep the values of an output until its step is left."""
        for text, is_searched in leaves:
            self.now[text] = self.now.get(text) or (Spellings.of(text) if is_searched else None)
            self.by_call.setdefault(step, []).append(text)

    def leave(self) -> None:
        """Know the values of the sub-steps of a step that is left."""
        self.note((text, spellings is not None) for text, spellings in self.now.items())
        self.now, self.by_call = {}, {}


class Known:
    """The sensitive values of a run so far: from inputs, outputs, and the numbers that `set` computes.

    A value that was sealed because it repeats a known one is not added: the words around the repeated one would be
    found in many other texts. Values of sub-steps are known once their parallel step is left, and those of branches and
    items at once, outside of these, once they have come together, because their order depends on timing.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._scopes: dict[FrameName, Scope] = {(): Scope()}

    @cached_property
    def _beside(self) -> frozenset[str]:
        """The ids of the steps whose branches or items run at once."""
        return frozenset(self._plan.steps[one].id for one in (*self._plan.forks, *self._plan.program.layout.beside))

    @cached_property
    def _earlier(self) -> dict[tuple[str, str], list[str]]:
        """The names of the branches before each one, by its step and its name."""
        steps, found = self._plan.steps, {}
        for at, fork in self._plan.forks.items():
            ids = [steps[one].id for one in fork.branches]
            for name, before in zip(ids, fork.before, strict=True):
                found[steps[at].id, name] = [ids[one] for one in sorted(before)]
        return found

    def _places(self, event: Event) -> list[FrameName]:
        """Return the branches and items at once around an event, from the outside in; the run itself is the first."""
        frame = tuple(map(tuple, event.body.get("frame", ()))) if self._beside else ()
        return [(), *(frame[: end + 1] for end, one in enumerate(frame) if one[0] in self._beside)]

    def _own(self, event: Event) -> Scope:
        return self._scopes.setdefault(self._places(event)[-1], Scope())

    def _within(self, event: Event) -> list[FrameName]:
        """Return the branches and items at once that are open within the frame of an event."""
        frame = tuple(map(tuple, event.body.get("frame", ())))
        return [one for one in self._scopes if len(one) > len(frame) and one[: len(frame)] == frame]

    def _seen(self, event: Event) -> list[Scope]:
        """Return what counts for a record: what is known around it, in what came before it, and in what it joins.

        A delivery comes when nothing goes on beside it, so that all counts.
        """
        if len(self._scopes) == 1 or event.kind in DELIVERIES:
            return list(self._scopes.values())
        found = self._within(event) if event.kind == "joined" else []
        for place in self._places(event):
            found.append(place)
            step, name = (place[-1][0], place[-1][-1]) if place else ("", "")
            found += [(*place[:-1], (*place[-1][:-1], one)) for one in self._earlier.get((step, str(name)), ())]
        return [self._scopes[one] for one in found if one in self._scopes]

    @cached_property
    def _calls(self) -> dict[str, CallPlan]:
        return {call.id: call for step in self._plan.steps for call in step.calls}

    @cached_property
    def _computing(self) -> dict[str, TypeSpec | None]:
        """The types of the values of `compute` steps."""
        return {step.id: step.returns for step in self._plan.steps if step.is_computed}

    @cached_property
    def _sensitive_inputs(self) -> dict[str, dict[str, TypeSpec]]:
        """The types of inputs of called programs that mark something, by the step that calls and by the variable."""
        calls = [step.step for step in self._plan.steps if isinstance(step.step, InvokeStep)]
        return {
            call.id: {call.inside(name): spec for name, spec in call.declared.items() if is_sensitive(spec)}
            for call in calls
        }

    def learn(self, event: Event) -> None:
        """Add the sensitive values of the next record of the run."""
        body, own = event.body, self._own(event)
        if event.kind == "started":
            types = self._plan.input_types
            for name, value in body["inputs"].items():
                own.note(sensitive_leaves(value, types.get(name)))
        elif event.kind == "assigned":
            own.note((text, True) for text in _sealed_numbers(tuple(body["values"].values())))
            if body["step"] in self._computing:
                (value,) = body["values"].values()
                own.note(sensitive_leaves(value, self._computing[body["step"]]))
        elif event.kind == "opened":
            carry = body.get("carry", {})
            own.note((text, True) for text in _sealed_numbers(tuple(carry.values())))
            for name, spec in self._sensitive_inputs.get(body["step"], {}).items():
                own.note(sensitive_leaves(carry[name], spec))
        elif event.kind == "joined":
            for place in self._within(event):
                ended = self._scopes.pop(place)
                ended.leave()
                own.note((text, spellings is not None) for text, spellings in ended.before.items())
        elif brings_output(event):
            own.bring(body["step"], sensitive_leaves(body["output"], self._calls[body["step"]].returns))
        if own.now and body.keys() & _LEAVING:
            own.leave()

    def _siblings(self, event: Event) -> dict[str, Spellings | None]:
        """Return the values of siblings that count for a record: for an attempt, of those that the call depends on."""
        if event.kind != "attempt":
            return {text: one for scope in self._seen(event) for text, one in scope.now.items()}
        own = self._own(event)
        before = self._calls[event.body["step"]].before if own.by_call else ()
        return {text: own.now[text] for name in sorted(before) for text in own.by_call.get(name, ())}

    def veiled(self, event: Event) -> Any:
        """Return the output of an event; its parts that repeat a sensitive value become Secrets."""
        output, call = event.body["output"], self._calls[event.body["step"]]
        if call.allowed is not None:
            return output
        for scope in self._seen(event):
            output = veiled(output, call.returns, scope.searched) if scope.searched else output
        siblings = self._searched_for(event)
        return veiled(output, call.returns, siblings) if siblings else output

    def _searched_for(self, event: Event) -> Searched:
        found = Searched()
        for spellings in self._siblings(event).values():
            if spellings is not None:
                found.add(spellings)
        return found

    def redacted(self, text: str, event: Event) -> str:
        """Return a text of a record without the sensitive values that count for it."""
        before = [one for scope in self._seen(event) for one in scope.before]
        return redacted(text, [*before, *self._siblings(event)])

    def are_in(self, text: str) -> bool:
        """Return whether a text repeats a sensitive value of the run, in any spelling."""
        known = [one for scope in self._scopes.values() for one in (*scope.before, *scope.now)]
        return bool(known) and redacted(text, known) != text

    def redacted_value(self, value: Any, event: Event) -> Any:
        """Return the request of a suspended tool without the sensitive values, in its texts, numbers and keys."""
        if isinstance(value, str):
            return self.redacted(value, event)
        if isinstance(value, dict):
            items = ((key, self.redacted_value(item, event)) for key, item in value.items())
            return FrozenMap((self.redacted(key, event), item) for key, item in items)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            searched = [*(scope.searched for scope in self._seen(event)), self._searched_for(event)]
            return REDACTED if any(one.repeats(value) for one in searched) else value
        if isinstance(value, tuple):
            return tuple(self.redacted_value(item, event) for item in value)
        return value


def brings_output(event: Event) -> bool:
    """Return whether an event brings an output from outside; a `fallback` comes from the program."""
    body = event.body
    return event.kind in FROM_OUTSIDE and body.get("kind") == "success" and "output" in body


def sensitive_leaves(value: Any, spec: TypeSpec | None, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the texts of the scalars that a type marks as sensitive, and whether to search outputs for them.

    Members of an `enum` are not searched for: the program lists them, so they reveal little and occur everywhere.
    """
    if isinstance(value, Sealed) and value.is_gone:
        return
    if isinstance(value, Sealed | Secret):
        value = value.value
    inside = inside or (spec is not None and spec.sensitive)
    if spec is None and not inside:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from sensitive_leaves(item, part_of(spec, key), inside=inside)
    elif isinstance(value, tuple):
        for item in value:
            yield from sensitive_leaves(item, spec and spec.items, inside=inside)
    elif inside and value is not None and not isinstance(value, bool):
        yield as_text(value), spec is None or spec.enum is None


def _sealed_numbers(value: Any, *, inside: bool = False) -> Iterator[str]:
    """Yield the texts of the sensitive numbers in a value."""
    if isinstance(value, Sealed | Secret):
        if not (isinstance(value, Sealed) and value.is_gone):
            yield from _sealed_numbers(value.value, inside=True)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _sealed_numbers(item, inside=inside)
    elif isinstance(value, tuple):
        for item in value:
            yield from _sealed_numbers(item, inside=inside)
    elif inside and isinstance(value, int | Decimal) and not isinstance(value, bool):
        yield as_text(value)


def veiled(value: Any, spec: TypeSpec | None, secrets: Searched) -> Any:
    """Return an output whose smallest parts that repeat one of `secrets` are Secrets: texts and numbers, and an object
    with such a key as a whole.

    Booleans, members of an `enum` and the names of declared fields stay unchanged.
    """
    if isinstance(value, Sealed | Secret) or value is None or isinstance(value, bool):
        return value
    if spec is not None and spec.enum is not None:
        return value
    if isinstance(value, dict):
        if _repeats_in_keys(value, spec, secrets):
            return Secret(opened(value))
        return FrozenMap((key, veiled(item, part_of(spec, key), secrets)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(veiled(item, spec and spec.items, secrets) for item in value)
    return Secret(value) if secrets.repeats(value) else value


def _repeats_in_keys(value: Mapping[str, Any], spec: TypeSpec | None, secrets: Searched) -> bool:
    declared = (spec.properties if spec is not None else None) or {}
    return any(key not in declared and secrets.repeats(key) for key in value)
