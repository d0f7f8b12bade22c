"""A shard: one attack and a number of cases from one seed. Its result depends on nothing else."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Stateful
from stepward.sabotage.campaigns.in_memory import in_memory
from stepward.sabotage.campaigns.seldom import seldom
from stepward.sabotage.campaigns.steady import steady
from stepward.sabotage.invariants import Breach, Invariant, NotApplicable, Outcome
from stepward.sabotage.playing.case import Case, Weakness
from stepward.sabotage.playing.choices import Choices, Drawn, ScriptMisfit
from stepward.sabotage.target import Target
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.journal.store import Journal

if TYPE_CHECKING:
    from hypothesis import Phase, settings

SHARD_CASES: Final = 50
"""The number of cases of a shard: enough for Hypothesis to explore, few enough to stop between two shards."""

MOVES: Final = 20
"""The largest number of moves of a state machine in one case."""

STORE_CASES: Final = 100
"""The number of cases that share a store, which bounds memory and disk."""


class Shard(NamedTuple):
    """A unit of work: the name of an attack, the number of the shard, and the number of cases.

    `specimen` names the attacked program; it is empty for the user's program.
    """

    attack: str
    number: int
    cases: int
    seed: int
    specimen: str = ""

    @property
    def own_seed(self) -> int:
        """The seed of this shard."""
        text = f"{self.seed}:{self.attack}:{self.specimen}:{self.number}"
        return int.from_bytes(sha256(text.encode()).digest()[:8])


class Found(NamedTuple):
    """A breach: the invariant, how it broke, and the smallest case that Hypothesis found."""

    invariant: str
    what: str
    choices: dict[str, Any]
    story: tuple[str, ...]


class ShardResult(NamedTuple):
    """The result of a shard. `seconds` is CPU time. `is_lost`: it was given up, because who played it died."""

    shard: Shard
    outcomes: dict[str, int]
    events: int
    seconds: float
    found: Found | None
    is_lost: bool = False


class NoCases(StepwardError):  # noqa: N818 - it is what happened, not a fault
    """Hypothesis found no input for a program: one of its types has no value that was found."""


class _Enough(BaseException):
    """A breach was found that is reported as it is; Hypothesis takes no part in a `BaseException`."""


class CaseRunner:
    """Creates cases on one event loop, with a store that is replaced after some cases.

    `postgres` names the database that replaces the store in memory.
    """

    def __init__(
        self, target: Target, attack: Attack, weakness: Weakness | None = None, postgres: str | None = None
    ) -> None:
        self.target = target
        self.attack = attack
        self._weakness = weakness
        self._postgres = postgres
        self._stack = ExitStack()
        self._store: Journal | None = None
        self._cases = 0
        self._runner = asyncio.Runner()
        self.shift = 0
        """Where the seeds of its cases begin: the first case of each search is the simplest one, which is number 0."""
        self.part = 0

    def case(self, choices: Choices) -> Case:
        """Return a new case with these choices."""
        self._cases += 1
        if self._store is None or self._cases % STORE_CASES == 0:
            self._store = self._new_store()
        case = Case(self.target, choices, self._store, f"case-{self._cases}", self._runner, self._weakness)
        case.shift, case.part = self.shift, self.part
        return case

    def _new_store(self) -> Journal:
        self._stack.close()
        if self.attack.store == "memory":
            return MemoryJournal() if self._postgres is None else self._on_server(self._postgres)
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="stepward-", ignore_cleanup_errors=True))
        store = SQLiteJournal(os.path.join(folder, "runs.db"))
        self._stack.callback(store.close)
        return store

    def _on_server(self, conninfo: str) -> Journal:
        from stepward.sabotage.stores.servers import lent_schema

        return self._stack.enter_context(lent_schema(conninfo))

    def close(self) -> None:
        """Close the loop and the store."""
        self._stack.close()
        self._runner.close()


@contextmanager
def runner(
    target: Target, attack: Attack, weakness: Weakness | None = None, postgres: str | None = None
) -> Iterator[CaseRunner]:
    """Lend a `CaseRunner`, and close it afterwards."""
    case_runner = CaseRunner(target, attack, weakness, postgres)
    try:
        yield case_runner
    finally:
        case_runner.close()


def play(attack: Attack, case: Case) -> Outcome:
    """Play one case. Raises Breach with case and story, also for an undocumented error of the machine."""
    try:
        return attack.play(case)
    except NotApplicable:
        return Outcome.NOT_APPLICABLE
    except Exception as error:
        raise as_breach(error, case) from error.__cause__


def as_breach(error: Exception, case: Case) -> Exception:
    """Return the error of a case as a breach with decisions and story, or unchanged if the machine did not cause it."""
    if isinstance(error, ScriptMisfit) or type(error).__module__.startswith("hypothesis"):
        return error
    breach = error
    if not isinstance(error, Breach):
        breach = Breach(Invariant.REFUSAL, f"{type(error).__name__} was raised: {error}")
        breach.__cause__ = error
    assert isinstance(breach, Breach)
    breach.choices, breach.story = dict(case.choices.decisions), tuple(case.story)
    return breach


class _Tally:
    """Counts the outcomes of the cases of a shard.

    A replay that shrinks a case counts only as events. A case in which the attack never began counts no events.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.events = 0
        self.found: Breach | None = None

    def end(self, case: Case, outcome: Outcome) -> None:
        if outcome is not Outcome.NOT_APPLICABLE:
            self.events += case.events
        if self.found is None:
            self.outcomes[outcome] += 1

    def broke(self, case: Case, error: Exception) -> None:
        self.events += case.events
        what = as_breach(error, case)
        if isinstance(what, Breach):
            self.found = what


def run_shard(
    target: Target,
    attack: Attack,
    shard: Shard,
    database: Any = None,
    weakness: Weakness | None = None,
    postgres: str | None = None,
) -> ShardResult:
    """Play the cases of a shard and return the result.

    `database` is a Hypothesis database of earlier breaches, which are tried first. `weakness` is the defect of the
    machines in a self-test. `postgres` is as in `CaseRunner`.
    """
    from hypothesis import HealthCheck, settings
    from hypothesis.errors import Unsatisfiable

    how = settings(
        max_examples=shard.cases,
        deadline=None,
        database=database,
        phases=_phases(attack, database),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        stateful_step_count=MOVES,
    )
    tally = _Tally()
    began = time.process_time()
    search = _search_moves if isinstance(attack, Stateful) else _search
    with in_memory(), seldom(), runner(target, attack, weakness, postgres) as made_by, steady():
        made_by.shift, made_by.part = shard.own_seed, shard.number
        try:
            search(attack, made_by, shard.own_seed, how, tally)
        except (Breach, _Enough):
            assert tally.found is not None, "a breach is noted before it is raised"
        except Unsatisfiable:
            words = f"no case of `{attack.name}` could be made: some type of the program seems to allow no value"
            raise NoCases(words) from None
        except Exception:
            if tally.found is None:
                raise
    if tally.found is not None:
        tally.outcomes[Outcome.BREACHED] += 1
    breach = tally.found
    what = None if breach is None else Found(breach.invariant.key, breach.what, breach.choices, breach.story)
    return ShardResult(shard, dict(tally.outcomes), tally.events, time.process_time() - began, what)


def _phases(attack: Attack, database: Any) -> list[Phase]:
    """Return what Hypothesis does: it replays earlier breaches, plays new cases, and shrinks what can be smaller."""
    from hypothesis import Phase

    phases = [] if database is None else [Phase.reuse]
    return [*phases, Phase.generate, *([Phase.shrink] if not attack.draws else [])]


def _search(attack: Attack, made_by: CaseRunner, own_seed: int, how: settings, tally: _Tally) -> None:
    from hypothesis import Phase, given, seed
    from hypothesis import strategies as st

    # Nothing makes the case smaller, and nobody keeps it: Hypothesis would play it again, twice, to show it.
    is_enough = how.database is None and Phase.shrink not in how.phases

    # In this order: `seed` removes the database, `settings` restores it.
    @how
    @seed(own_seed)
    @given(st.data())
    def cases(data: Any) -> None:
        case = made_by.case(Drawn(data))
        try:
            outcome = play(attack, case)
        except Exception as error:
            tally.broke(case, error)
            if tally.found is not None and is_enough:
                raise _Enough from error
            raise
        tally.end(case, outcome)

    cases()


def _search_moves(attack: Attack, made_by: CaseRunner, own_seed: int, how: settings, tally: _Tally) -> None:
    from contextlib import redirect_stdout
    from io import StringIO

    from hypothesis import seed
    from hypothesis.stateful import run_state_machine_as_test

    assert isinstance(attack, Stateful)
    machine = attack.state_machine(lambda: made_by.case(Drawn()), tally.end, tally.broke)
    with redirect_stdout(StringIO()):  # it prints the steps of a breach, which our story has already
        run_state_machine_as_test(seed(own_seed)(machine), settings=how)
