"""Where the time of one check goes: reading, building, control flow, names and types, each rule, the report.

The analyses that rules share are made when a rule first asks for them. Here each is timed on its own, and what a rule
takes is what it takes beyond them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import process_time
from typing import Any
from unittest.mock import patch

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.assignment import Assignment
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.graph import StepGraph
from stepward.validator.context import Context
from stepward.validator.rules import registry
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program
from stepward.vm.language.flow import Flow
from stepward.vm.language.meaning import Meaning
from stepward.vm.reading.json_format import read_json

ANALYSES = {
    Flow: "flow",
    StepGraph: "flow",
    Meaning: "names and types",
    ProgramFacts: "shared analyses",
    Analyses: "shared analyses",
    Context: "shared analyses",
    Assignment: "assignment",
}


class Stopwatch:
    """Gives every moment to the innermost stage that is running."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stretch; the stage around it stands still meanwhile."""
        self._charge()
        self._running.append(name)
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        now = process_time()
        if self._running:
            self.seconds[self._running[-1]] = self.seconds.get(self._running[-1], 0.0) + now - self._since
        self._since = now

    def wrap(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work` as a stage."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return work(*args, **kwargs)

        return timed


def stages(text: str) -> dict[str, float]:
    """Return the CPU seconds of each stage of one check of a JSON text, in the order in which the stages end."""
    watch = Stopwatch()
    with _timed_analyses(watch), _timed_rules(watch):
        with watch.stage("reading"):
            document = read_json("<benchmark>", text)
        with watch.stage("models"):
            program = Program.from_document(document)
        with watch.stage("report"):
            report = ProgramValidator(program).validate()
    assert report.program == program.name
    return watch.seconds


@contextmanager
def _timed_analyses(watch: Stopwatch) -> Iterator[None]:
    found = [
        (prop, prop.func, stage)
        for owner, stage in ANALYSES.items()
        for prop in vars(owner).values()
        if isinstance(prop, cached_property)
    ]
    for prop, func, stage in found:
        prop.func = watch.wrap(stage, func)
    try:
        yield
    finally:
        for prop, func, _ in found:
            prop.func = func


@contextmanager
def _timed_rules(watch: Stopwatch) -> Iterator[None]:
    def timed(rule: Any) -> Any:
        class Timed(rule):  # type: ignore[misc]
            def check(self, context: Context) -> list[Any]:
                with watch.stage(f"{rule.code} {rule.name}"):
                    return list(super().check(context))

        return Timed

    with patch.object(registry, "RULES", tuple(timed(rule) for rule in registry.RULES)):
        yield
