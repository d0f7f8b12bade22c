"""One case of an attack: its decisions, its store, and its trials, each of which is one run in that store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepward.sabotage.invariants import Breach, Invariant, NotApplicable
from stepward.sabotage.playing.choices import Choices
from stepward.sabotage.target import Target
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Journal
from stepward.vm.machine.execution import ExecutionVM

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

SEEDS = 1 << 24
"""The number of seeds of what is drawn."""

KEY_SEED = bytes(range(32))
"""The seed of the signing key of the machines under attack. It is used for nothing else."""


class Weakness(NamedTuple):
    """A defect to give to machines, for self-tests: a weak store around theirs, and other options."""

    store: Callable[[Journal], Journal] | None = None
    options: Mapping[str, Any] = MappingProxyType({})


class Case:
    """One case under play.

    `store` holds its runs; `prefix` makes their ids unique in the store. `random` gives the machines the same bytes in
    every replay of the case. `events` counts what reached the machine or its store. `story` is a log for the person who
    reads a breach. `error` is an error of the world that the machine must not handle. `weakness` is the defect of the
    machines in a self-test. `shift` is where seeds begin, and `part` the number of the shard: what an attack goes
    through may be played in parts. `runner` has the event loop of the machines.
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
        self.shift = 0
        self.part = 0

    def pick(self, name: str, among: SearchStrategy[Any]) -> Any:
        """Return the decision of that name, drawn from `among`."""
        return self.choices.pick(name, among)

    def seed(self) -> int:
        """Return the seed of what the attack draws. Searches of several shards begin with different ones."""
        from hypothesis import strategies as st

        shift = self.shift
        return int(self.pick("drawn from", st.integers(0, SEEDS - 1).map(lambda number: (number + shift) % SEEDS)))

    def each(self, name: str, among: Sequence[T], parts: int = 1) -> Iterator[T]:
        """Yield each of several things, or, of so many parts, those of the part of this shard.

        A breach is reported with the number of its thing, and the story since then.
        """
        logged, generated = len(self.story), self._generator.getstate()
        size = -(-len(among) // parts)
        first = self.part % parts * size
        for number in self.choices.each(name, len(among), range(first, min(first + size, len(among)))):
            del self.story[logged:]
            self._generator.setstate(generated)
            yield among[number]

    def run_id(self) -> str:
        """Return a new run id."""
        self._trials += 1
        return f"{self._prefix}-{self._trials}"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the machine to its end. Raises Killed, and errors of the world."""
        try:
            return self.runner.run(work)
        finally:
            error, self.error = self.error, None
            if error is not None:
                raise error

    def machine(
        self,
        tools: Any = None,
        model: Any = None,
        journal: Any = None,
        policies: Any = (),
        *,
        checker: Any = None,
        **options: Any,
    ) -> ExecutionVM:
        """Return a machine with the weakness of the case, for an attack without trials."""
        options = {"random": self.random, **options, **self.weakness.options}
        return ExecutionVM(tools, model, journal, policies, checker=checker, **options)

    def count(self, events: int = 1) -> None:
        """Count events that reached the machine or its store."""
        self.events += events

    def log(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(what)

    def act(self, what: str, events: int = 1) -> None:
        """Log what the attacker does, and count the events that it is to the machine or its store."""
        self.log(what)
        self.count(events)

    def needs(self, found: T | None) -> T:
        """Return what the attack needs. Raises NotApplicable if it is None, False or empty."""
        if not found:
            raise NotApplicable
        return found

    def hold(self, is_met: bool, invariant: Invariant, what: str) -> None:
        """Raise Breach unless a requirement `is_met`; `what` says what happened instead."""
        if not is_met:
            raise Breach(invariant, what)


def named(trial: str, what: str) -> str:
    """Return the name of a decision of a trial. Trials of one name share their decisions."""
    return f"{trial}: {what}" if trial else what
