"""What a run knows to be sensitive, and where that comes back: in outputs it is sealed, in words it is redacted.

Tools repeat what they were given. Whatever comes in from outside is held against the sensitive values that the run has
by then. They hang on its records alone, so that every machine that goes on with it seals the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, Secret, opened
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.data import REDACTED, part_of
from stepward.vm.machine.events import Event
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.redaction import Sought, Spelled, redacted
from stepward.vm.values import FrozenMap, as_text

BROUGHT: Final = ("attempt", "resumed", "reconciled")
"""The records that bring an output from outside."""

_LEAVING: Final = frozenset({"next", "ends"})


class Known:
    """The sensitive values of a run: those that inputs, outputs and the numbers that `set` computes had up to now.

    A value that was recognised in an output is not one of them: what it repeats is known already, and of the words
    around that half would be found elsewhere. Values that siblings bring are known once their parallel step is left,
    for which of them came first is a matter of timing.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._before: dict[str, Spelled | None] = {}
        self._now: dict[str, Spelled | None] = {}
        self._sought = Sought()

    @cached_property
    def _calls(self) -> dict[str, CallPlan]:
        return {call.id: call for step in self._plan.steps for call in step.calls}

    def learn(self, happened: Event) -> None:
        """Take in the sensitive values of the next record of the run."""
        body = happened.body
        if happened.kind == "started":
            types = self._plan.input_types
            for name, value in body["inputs"].items():
                self._note(sensitive_leaves(value, types.get(name)))
        elif happened.kind == "assigned":
            self._note((text, True) for text in _sealed_numbers(tuple(body["values"].values())))
        elif is_brought(happened):
            for text, is_sought in sensitive_leaves(body["output"], self._calls[body["step"]].returns):
                self._now[text] = self._now.get(text) or (Spelled.of(text) if is_sought else None)
        if self._now and body.keys() & _LEAVING:
            self._note(((text, spelled is not None) for text, spelled in self._now.items()))
            self._now = {}

    def _note(self, leaves: Iterable[tuple[str, bool]]) -> None:
        for text, is_sought in leaves:
            if self._before.get(text) is None:
                self._before[text] = spelled = Spelled.of(text) if is_sought else None
                if spelled is not None:
                    self._sought.add(spelled)

    def veiled(self, happened: Event) -> Any:
        """Return the output that an event brings with the parts that repeat a sensitive value as Secrets."""
        output, call = happened.body["output"], self._calls[happened.body["step"]]
        if call.allowed is not None:
            return output
        if self._sought:
            output = veiled(output, call.returns, self._sought)
        if happened.kind != "attempt" and self._now:
            siblings = Sought()
            for spelled in self._now.values():
                if spelled is not None:
                    siblings.add(spelled)
            output = veiled(output, call.returns, siblings)
        return output

    def redacted(self, text: str, *, is_attempt: bool) -> str:
        """Return a text without the sensitive values; of an attempt the siblings' are not known."""
        return redacted(text, self._before if is_attempt else [*self._before, *self._now])

    def redacted_value(self, value: Any, *, is_attempt: bool) -> Any:
        """Return what a tool asks of whoever resumes: texts, numbers and keys may quote what the tool was given."""
        if isinstance(value, str):
            return self.redacted(value, is_attempt=is_attempt)
        if isinstance(value, dict):
            items = ((key, self.redacted_value(item, is_attempt=is_attempt)) for key, item in value.items())
            return FrozenMap((self.redacted(key, is_attempt=is_attempt), item) for key, item in items)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return REDACTED if self._sought.repeats(value) else value
        if isinstance(value, tuple):
            return tuple(self.redacted_value(item, is_attempt=is_attempt) for item in value)
        return value


def is_brought(happened: Event) -> bool:
    """Return whether an event brings an output from outside; a `fallback` is the program's own."""
    body = happened.body
    return happened.kind in BROUGHT and body.get("kind") == "success" and "output" in body


def sensitive_leaves(value: Any, spec: TypeSpec | None, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the texts of the scalars that a type calls sensitive, and whether they are sought in outputs.

    The members of an `enum` are not: the program lists them, so that they tell nothing, and stand everywhere.
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


def veiled(value: Any, spec: TypeSpec | None, secrets: Sought) -> Any:
    """Return an output with the smallest parts that repeat one of `secrets` as Secrets: texts, numbers, and an object
    whole where a key does.

    Booleans, members of an `enum` and the names of declared fields stay as they are.
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


def _repeats_in_keys(value: Mapping[str, Any], spec: TypeSpec | None, secrets: Sought) -> bool:
    declared = (spec.properties if spec is not None else None) or {}
    return any(key not in declared and secrets.repeats(key) for key in value)
