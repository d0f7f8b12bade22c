"""One case of an attack: its decisions, its store, and the trials, each a run, that it plays on that store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.choices import Choices
from stepward.sabotage.target import Target
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Journal

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

KEY_SEED = bytes(range(32))
"""The seed of the key with which the machines under attack sign. It signs nothing else."""


class Weakness(NamedTuple):
    """What machines are given in place of what they should have: a store around theirs, and other options."""

    store: Callable[[Journal], Journal] | None = None
    options: Mapping[str, Any] = MappingProxyType({})


class Case:
    """Where one case is played.

    `store` is where its runs are kept; `prefix` makes their ids new in it. `random` gives its machines the same bytes
    whenever the case is played. `events` counts what reached the machine or its store; `story` tells what happened, for
    the person who reads a breach; `error` is what went wrong in the world, on its way past the machine. `weakness` is
    what its machines lack, in a self-test. `runner` has the event loop on which they run.
    """

    def __init__(
        self,
        target: Target,
        choices: Choices,
        store: Journal,
        prefix: str,
        runner: asyncio.Runner,
        weakness: Weakness | None = None,
    ) -> None:
        self.target = target
        self.choices = choices
        self.store = store
        self.key = SigningKey.from_seed(KEY_SEED)
        self.weakness = weakness or Weakness()
        self._generator = Random(0)
        self.random = self._generator.randbytes
        self.events = 0
        self.story: list[str] = []
        self.error: Exception | None = None
        self._prefix = prefix
        self._trials = 0
        self.runner = runner

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name."""
        return self.choices.pick(name, among)

    def each(self, name: str, count: int) -> Iterator[int]:
        """Yield every number below `count`; a breach is told with the number that it needs, and the story since."""
        told, generated = len(self.story), self._generator.getstate()
        for number in self.choices.each(name, count):
            del self.story[told:]
            self._generator.setstate(generated)
            yield number

    def run_id(self) -> str:
        """Return the id of a run that nobody has."""
        self._trials += 1
        return f"{self._prefix}-{self._trials}"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something of the machine's to its end. Raises what went wrong in the world, and Killed."""
        try:
            return self.runner.run(work)
        finally:
            error, self.error = self.error, None
            if error is not None:
                raise error

    def count(self, events: int = 1) -> None:
        """Count what reached the machine or its store."""
        self.events += events

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(what)

    def hold(self, kept: bool, invariant: Invariant, what: str) -> None:
        """Raise Breach unless something that must hold was `kept`; `what` says what happened instead."""
        if not kept:
            raise Breach(invariant, what)


def named(trial: str, what: str) -> str:
    """Return what a decision of a trial is called: trials of one name decide alike."""
    return f"{trial}: {what}" if trial else what
