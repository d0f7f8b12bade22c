"""A shard: one attack, some number of cases from one seed. What comes of it hangs on nothing else."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack
from stepward.sabotage.choices import Choices, Drawn, ScriptMisfit
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.stage import Stage
from stepward.sabotage.target import Target
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal

SHARD_CASES: Final = 50
"""Cases of a shard: enough for Hypothesis to get going, few enough to stop between two."""

STORE_CASES: Final = 100
"""Cases that share a store before it is thrown away, so that memory and disk stay flat."""


class Shard(NamedTuple):
    """What to do: an attack by its name, the number of the shard, and how many cases it has."""

    attack: str
    number: int
    cases: int
    seed: int

    @property
    def own_seed(self) -> int:
        """The seed of this shard alone."""
        text = f"{self.seed}:{self.attack}:{self.number}"
        return int.from_bytes(sha256(text.encode()).digest()[:8])


class Found(NamedTuple):
    """A breach: which invariant, how, and the smallest case in which Hypothesis found it."""

    invariant: str
    what: str
    choices: dict[str, Any]
    story: tuple[str, ...]


class Harvest(NamedTuple):
    """What came of a shard. `seconds` are of CPU."""

    shard: Shard
    outcomes: dict[str, int]
    events: int
    seconds: float
    found: Found | None


class Theatre:
    """Makes stages: one event loop, and a store that is thrown away after some cases."""

    def __init__(self, target: Target, attack: Attack) -> None:
        self.target = target
        self.attack = attack
        self._stack = ExitStack()
        self._store: Journal | None = None
        self._cases = 0
        self._runner = asyncio.Runner()

    def stage(self, choices: Choices) -> Stage:
        """Return the stage of one case."""
        self._cases += 1
        if self._store is None or self._cases % STORE_CASES == 0:
            self._store = self._new_store()
        return Stage(self.target, choices, self._store, f"case-{self._cases}", self._runner)

    def _new_store(self) -> Journal:
        self._stack.close()
        if self.attack.store == "memory":
            return MemoryJournal()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
        store = SQLiteJournal(os.path.join(folder, "runs.db"))
        self._stack.callback(store.close)
        return store

    def close(self) -> None:
        """Let go of the loop and the store."""
        self._stack.close()
        self._runner.close()


@contextmanager
def theatre(target: Target, attack: Attack) -> Iterator[Theatre]:
    """Return what makes stages, for as long as it is needed."""
    made = Theatre(target, attack)
    try:
        yield made
    finally:
        made.close()


def play(attack: Attack, stage: Stage) -> Outcome:
    """Play one case; raises Breach, also for an error that the machine does not document, with case and story."""
    try:
        return attack.play(stage)
    except Breach as breach:
        raise _told(breach, stage) from breach.__cause__
    except ScriptMisfit:
        raise
    except Exception as error:
        if type(error).__module__.startswith("hypothesis"):
            raise
        raise _told(Breach(Invariant.REFUSAL, f"{type(error).__name__} was raised: {error}"), stage) from error


def _told(breach: Breach, stage: Stage) -> Breach:
    breach.choices, breach.story = dict(stage.choices.made), tuple(stage.story)
    return breach


def harvest(target: Target, attack: Attack, shard: Shard, database: Any = None) -> Harvest:
    """Play the cases of a shard, and return what came of them.

    `database` is a Hypothesis database of cases that breached before; they are tried first.
    """
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    outcomes: Counter[str] = Counter()
    events = 0
    found: Breach | None = None
    phases = [Phase.generate, Phase.shrink] if database is None else [Phase.reuse, Phase.generate, Phase.shrink]
    began = time.process_time()
    with theatre(target, attack) as stages:

        @seed(shard.own_seed)
        @settings(
            max_examples=shard.cases,
            deadline=None,
            database=database,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(st.data())
        def cases(data: Any) -> None:
            nonlocal events, found
            stage = stages.stage(Drawn(data))
            try:
                outcome = play(attack, stage)
                if found is None:
                    outcomes[outcome] += 1
            except Breach as breach:
                found = breach
                raise
            finally:
                events += stage.events

        try:
            cases()
        except Breach as breach:
            outcomes[Outcome.BREACHED] += 1
            found = breach
    what = None if found is None else Found(found.invariant.key, found.what, found.choices, found.story)
    return Harvest(shard, dict(outcomes), events, time.process_time() - began, what)
