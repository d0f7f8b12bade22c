"""The steps of a program under construction: their ids, where each leads, and the text that each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from stepward.vm.lisp.compiling.texts import Texts
from stepward.vm.lisp.forms import Form
from stepward.vm.reading.source import Path, Span

_UNFIT: Final = re.compile(r"\W+", re.ASCII)


class Way(NamedTuple):
    """A way out of a step that leads nowhere yet: the field that will name the next step."""

    step: dict[str, Any]
    field: str


class Bench:
    """Steps in the order in which they are made. `ways` lead to the next one."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.steps: list[dict[str, Any]] = []
        self.stretches: dict[Path, tuple[int, int]] = {}
        self.ways: list[Way] = [Way({}, "start")]
        self._taken = {"args"}
        self.known: dict[Any, Any] = {}
        """What was computed on every way to here, so that it need not be computed again."""

    @property
    def is_over(self) -> bool:
        """Whether no run gets here."""
        return not self.ways

    def name(self, wanted: str) -> str:
        """Return a name that nothing else has: of a step, or of a variable."""
        name = _UNFIT.sub("_", wanted).strip("_") or "value"
        name = f"v_{name}" if name[0].isdigit() else name
        number, found = 1, name
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def add(self, id: str, kind: str, form: Form, fields: Mapping[str, Any], spans: Mapping[Path, Span]) -> None:
        """Add a step. All open ways lead to it; `spans` are those of its fields, by their path below it."""
        step = {"id": id, "type": kind, **fields}
        for way in self.ways:
            way.step[way.field] = id
        number = len(self.steps)
        self.steps.append(step)
        self.stretches["steps", number] = self.texts.offsets(form.span)
        for path, span in spans.items():
            self.stretches["steps", number, *path] = self.texts.offsets(span)
        ends = {"end": [], "condition": [Way(step, "then"), Way(step, "otherwise")]}
        self.ways = ends.get(kind, [Way(step, "next_step")])

    @contextmanager
    def branch(self, ways: list[Way]) -> Iterator[None]:
        """Steps that are made inside continue from these ways; what they compute is not known outside."""
        known = self.known
        self.ways, self.known = ways, dict(known)
        try:
            yield
        finally:
            self.known = known
