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
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.data import REDACTED, part_of
from stepward.vm.machine.events import Event
from stepward.vm.machine.plan import CallPlan, Plan, is_sensitive
from stepward.vm.machine.redaction import Searched, Spellings, redacted
from stepward.vm.values import FrozenMap, as_text

FROM_OUTSIDE: Final = ("attempt", "resumed", "reconciled")
"""The kinds of records that bring an output from outside."""

_LEAVING: Final = frozenset({"next", "closes", "ends"})


class Known:
    """The sensitive values of a run so far: from inputs, outputs, and the numbers that `set` computes.

    A value that was sealed because it repeats a known one is not added: the words around the repeated one would be
    found in many other texts. Values of sub-steps are known once their parallel step is left, because their order
    depends on timing.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._before: dict[str, Spellings | None] = {}
        self._now: dict[str, Spellings | None] = {}
        self._by_call: dict[str, list[str]] = {}
        self._searched = Searched()

    @cached_property
    def _calls(self) -> dict[str, CallPlan]:
        return {call.id: call for step in self._plan.steps for call in step.calls}

    @cached_property
    def _computing(self) -> dict[str, TypeSpec | None]:
        """The types of the values of `compute` steps."""
        return {step.id: step.returns for step in self._plan.steps if step.is_computed}

    @cached_property
    def _taken(self) -> dict[str, dict[str, TypeSpec]]:
        """The types of inputs of called programs that mark something, by the step that calls and by the variable."""
        calls = [step.step for step in self._plan.steps if isinstance(step.step, InvokeStep)]
        return {
            call.id: {call.inside(name): spec for name, spec in call.declared.items() if is_sensitive(spec)}
            for call in calls
        }

    def learn(self, happened: Event) -> None:
        """Add the sensitive values of the next record of the run."""
        body = happened.body
        if happened.kind == "started":
            types = self._plan.input_types
            for name, value in body["inputs"].items():
                self._note(sensitive_leaves(value, types.get(name)))
        elif happened.kind == "assigned":
            self._note((text, True) for text in _sealed_numbers(tuple(body["values"].values())))
            if body["step"] in self._computing:
                (value,) = body["values"].values()
                self._note(sensitive_leaves(value, self._computing[body["step"]]))
        elif happened.kind == "opened":
            given = body.get("carry", {})
            self._note((text, True) for text in _sealed_numbers(tuple(given.values())))
            for name, spec in self._taken.get(body["step"], {}).items():
                self._note(sensitive_leaves(given[name], spec))
        elif brings_output(happened):
            for text, is_searched in sensitive_leaves(body["output"], self._calls[body["step"]].returns):
                self._now[text] = self._now.get(text) or (Spellings.of(text) if is_searched else None)
                self._by_call.setdefault(body["step"], []).append(text)
        if self._now and body.keys() & _LEAVING:
            self._note(((text, spellings is not None) for text, spellings in self._now.items()))
            self._now, self._by_call = {}, {}

    def _siblings(self, happened: Event) -> list[str]:
        """Return the values of siblings that count for a record: for an attempt, of those that the call depends on."""
        if happened.kind != "attempt":
            return list(self._now)
        before = self._calls[happened.body["step"]].before if self._by_call else ()
        return [text for name in sorted(before) for text in self._by_call.get(name, ())]

    def _note(self, leaves: Iterable[tuple[str, bool]]) -> None:
        for text, is_searched in leaves:
            if self._before.get(text) is None:
                self._before[text] = spellings = Spellings.of(text) if is_searched else None
                if spellings is not None:
                    self._searched.add(spellings)

    def veiled(self, happened: Event) -> Any:
        """Return the output of an event; its parts that repeat a sensitive value become Secrets."""
        output, call = happened.body["output"], self._calls[happened.body["step"]]
        if call.allowed is not None:
            return output
        if self._searched:
            output = veiled(output, call.returns, self._searched)
        siblings = self._searched_for(self._siblings(happened))
        return veiled(output, call.returns, siblings) if siblings else output

    def _searched_for(self, texts: Iterable[str]) -> Searched:
        found = Searched()
        for text in texts:
            spellings = self._now[text]
            if spellings is not None:
                found.add(spellings)
        return found

    def redacted(self, text: str, happened: Event) -> str:
        """Return a text of a record without the sensitive values; for an attempt, only those of the siblings that the
        call depends on are known."""
        return redacted(text, [*self._before, *self._siblings(happened)])

    def are_in(self, text: str) -> bool:
        """Return whether a text repeats a sensitive value, in any spelling."""
        return bool(self._before or self._now) and redacted(text, [*self._before, *self._now]) != text

    def redacted_value(self, value: Any, happened: Event) -> Any:
        """Return the request of a suspended tool without the sensitive values, in its texts, numbers and keys."""
        if isinstance(value, str):
            return self.redacted(value, happened)
        if isinstance(value, dict):
            items = ((key, self.redacted_value(item, happened)) for key, item in value.items())
            return FrozenMap((self.redacted(key, happened), item) for key, item in items)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            is_known = self._searched.repeats(value) or self._searched_for(self._siblings(happened)).repeats(value)
            return REDACTED if is_known else value
        if isinstance(value, tuple):
            return tuple(self.redacted_value(item, happened) for item in value)
        return value


def brings_output(happened: Event) -> bool:
    """Return whether an event brings an output from outside; a `fallback` comes from the program."""
    body = happened.body
    return happened.kind in FROM_OUTSIDE and body.get("kind") == "success" and "output" in body


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
