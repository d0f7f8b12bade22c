"""The steps of a program under construction: their ids, where each leads, and the text that each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from stepward.vm.lisp.compiling.texts import Texts
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Form
from stepward.vm.reading.source import Path, Span

MAX_STEPS: Final = 10_000
"""The most steps of a compiled program."""

_UNFIT: Final = re.compile(r"\W+", re.ASCII)


Known = Mapping[Any, tuple[Any, ...]]
"""What was computed: the values of each text with its arguments."""


class OpenExit(NamedTuple):
    """A way out of a step that leads nowhere yet: the field that will name the next step.

    `known` is what was computed on every path to here.
    """

    step: dict[str, Any]
    field: str
    known: Known


class Bench:
    """Steps in the order in which they are made. `ways` lead to the next one.

    `around` are the places of the calls of functions that are compiled, from the outside in. What stands behind the
    first `own` characters of the text is of earlier turns: its steps stand where the turn calls it.
    """

    def __init__(self, texts: Texts, around: Sequence[Span], own: int) -> None:
        self.texts = texts
        self._around = around
        self._own = own
        self.steps: list[dict[str, Any]] = []
        self.stretches: dict[Path, tuple[int, int]] = {}
        self.ways: list[OpenExit] = [OpenExit({}, "start", {})]
        self._taken = {"args"}
        self._numbers: dict[str, int] = {}
        """The last number that a name got, so that the next one is found at once."""
        self._count = 0
        self.depth = 0
        """How many bodies of loops the steps are in."""
        self._prefix: Path = ()

    @property
    def is_over(self) -> bool:
        """Whether no run gets here."""
        return not self.ways

    @property
    def known(self) -> Known:
        """What was computed on every way to here, so that it need not be computed again."""
        if self.is_over:
            return {}
        first, *others = (way.known for way in self.ways)
        others = [one for one in others if one is not first]
        if not others:
            return first
        common = (
            (key, tuple(one for one in found if all(one in other.get(key, ()) for other in others)))
            for key, found in first.items()
        )
        return {key: found for key, found in common if found}

    def learn(self, key: Any, value: Any) -> None:
        """Keep what was computed here, for the steps behind it."""
        known = self.known
        found = {**known, key: (*known.get(key, ()), value)}
        self.ways = [way._replace(known=found) for way in self.ways]

    def name(self, hint: str) -> str:
        """Return a name that nothing else has: of a step, or of a variable."""
        name = _UNFIT.sub("_", hint).strip("_") or "value"
        name = f"v_{name}" if name[0].isdigit() else name
        number, found = self._numbers.get(name, 1), name
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._numbers[name] = number
        self._taken.add(found)
        return found

    def add(self, id: str, kind: str, form: Form, fields: Mapping[str, Any], spans: Mapping[Path, Span]) -> None:
        """Add a step. All open ways lead to it; `spans` are those of its fields, by their path below it."""
        self._count += 1
        if self._count > MAX_STEPS:
            hint = "call a function with tools less often: its steps are made anew for each call"
            raise Fault("refused", f"the program has more than {MAX_STEPS:,} steps", hint, form.span)
        step, known = {"id": id, "type": kind, **fields}, self.known
        for way in self.ways:
            way.step[way.field] = id
        number = len(self.steps)
        self.steps.append(step)
        place = (*self._prefix, "steps", number)
        self.stretches[place] = self._stretch(form.span)
        for path, span in spans.items():
            self.stretches[*place, *path] = self._stretch(span)
        fields_out = {"end": (), "condition": ("then", "otherwise")}.get(kind, ("next_step",))
        self.ways = [OpenExit(step, one, known) for one in fields_out]

    def _stretch(self, span: Span) -> tuple[int, int]:
        """Return where a form stands for the author of the text."""
        return self.texts.offsets(self._around[0] if self._around and self.is_earlier(span) else span)

    def is_earlier(self, span: Span) -> bool:
        """Return whether a form is of an earlier turn."""
        return self.texts.offsets(span)[0] >= self._own

    @contextmanager
    def body(self) -> Iterator[list[dict[str, Any]]]:
        """Steps that are made inside are the body of the step that comes next."""
        outside = self.steps, self.ways, self._prefix
        self._prefix = (*self._prefix, "steps", len(self.steps))
        self.steps, self.ways = [], [OpenExit({}, "start", self.known)]
        self.depth += 1
        try:
            yield self.steps
        finally:
            self.depth -= 1
            self.steps, self.ways, self._prefix = outside
