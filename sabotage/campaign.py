"""A campaign plays every attack on one program, in shards whose results do not depend on worker or order."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.campaigns.script import Script
from stepward.sabotage.campaigns.settings import require_count, require_names
from stepward.sabotage.campaigns.shard import SHARD_CASES, Found, Shard, ShardResult, run_shard
from stepward.sabotage.campaigns.specimen_programs import SPECIMENS, specimen_target
from stepward.sabotage.invariants import Outcome
from stepward.sabotage.registry import ATTACK_BY_NAME, ATTACKS
from stepward.sabotage.target import Route, Target
from stepward.vm.arguments import COUNT, FUNCTION, NUMBER, PATH, TEXT, made, require, require_each
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

DEFAULT_EXAMPLES: Final = 100
"""The default number of cases of each attack. An attack that enumerates gets fewer (see `Attack.weight`)."""


FIRST_CASES: Final = 10
"""Plain cases that the first shard of an attack may cost. Few, so that a short campaign reaches all attacks."""

LEAST_CASES: Final = 2
"""The least number of cases of an attack on each specimen: the simplest case, and a random one."""

LIGHT: Final = 10
"""The largest weight of an attack that always gets the least number of cases."""

PAID: Final = 0.4
"""What other shards cost before a table is played, for each plain case that the table costs."""

LEFT_OUT: Final = "only this program is attacked, and not what an attack makes itself"
"""Why an attack that draws does not run in a campaign without drawn programs."""


class ProgramSource(StrEnum):
    """What an attack runs on: the user's program, a built-in program, or what it makes itself."""

    PROGRAM = "program"
    BUILT_IN = "built_in"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Orders:
    """The settings of a campaign.

    `examples` is the number of cases of each attack; `seconds` is the wall time after which no shard starts; `families`
    selects families (empty: all); `workers` is the number of processes; `database` is a folder of cases that breached
    earlier. `postgres` is a libpq connection string: attacks on a store in memory then use a store in that database.
    With `specimens`, each attack also runs on our small programs, with half as many cases, or with all of them where
    the attack does not apply to the user's program; if the cases do not suffice, `seed` selects the specimens that come
    first. An attack that draws its own programs plays these cases on them instead; without `drawn`, it does not run.
    With `stops`, no shard starts after a breach. `dask` is the address of a Dask scheduler, whose cluster plays the
    shards; `workers` and `database` count for nothing then.
    """

    seed: int = 0
    examples: int = DEFAULT_EXAMPLES
    seconds: float | None = None
    families: tuple[Family, ...] = ()
    attacks: tuple[str, ...] = ()
    workers: int = 1
    database: str | None = None
    postgres: str | None = None
    specimens: bool = False
    stops: bool = False
    dask: str | None = None
    drawn: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for settings with which a campaign would attack nothing."""
        require_names("families", "family", self.families, map(str, Family))
        require_names("attacks", "attack", self.attacks, ATTACK_BY_NAME)
        require_count("examples", self.examples)
        require_count("workers", self.workers)
        require(COUNT, seed=self.seed)
        require(NUMBER.or_none(), seconds=self.seconds)
        require(PATH.or_none(), database=self.database)
        require(TEXT.or_none(), postgres=self.postgres, dask=self.dask)

    def chosen(self) -> tuple[type[Attack], ...]:
        """Return the attacks of the campaign."""
        return tuple(
            attack
            for attack in ATTACKS
            if (not self.families or attack.family in self.families)
            and (not self.attacks or attack.name in self.attacks)
        )

    def misses(self, attack: type[Attack], target: Target) -> str | None:
        """Return why an attack does not run on a program, or None if it does."""
        return LEFT_OUT if attack.draws and not self.drawn else attack().misses(target)

    def shards(self, attack: type[Attack], *, has_hold: bool = True) -> Iterator[Shard]:
        """Yield the shards of one attack. `has_hold` says whether the attack applies to the program.

        Attacks begin with different specimens, so that a short campaign has played them all. One that draws its own
        programs has no use for them, and plays the cases of both. One that plays in parts has a shard for each.
        """
        if attack.parts > 1:
            yield from (Shard(attack.name, part, 1, self.seed) for part in range(attack.parts if has_hold else 0))
            return
        cases = (self.examples // 2 if has_hold else self.examples) // attack.weight if self.specimens else 0
        if has_hold:
            yield from self._shards(attack, self.examples // attack.weight + (cases if attack.draws else 0), [""])
        if self.specimens and not attack.draws:
            names = [name for name in SPECIMENS if attack().misses(specimen_target(name)) is None]
            start = (self.seed + ATTACKS.index(attack)) % len(names) if names else 0
            least = min(LEAST_CASES * len(names), self.examples) if attack.weight <= LIGHT else 0
            yield from self._shards(attack, max(cases, least), [*names[start:], *names[:start]])

    def _shards(self, attack: type[Attack], examples: int, programs: Sequence[str]) -> Iterator[Shard]:
        """Yield shards for a number of cases. Every program gets one shard before any gets a second.

        An attack that draws programs has small shards, the later ones twice as large as the first, so that it has one
        in each turn.
        """
        left = max(1, examples)
        first = max(1, min(FIRST_CASES // attack.weight, left // max(1, len(programs))))
        later = 2 * first if attack.draws else SHARD_CASES
        number = 0
        while left > 0 and programs:
            cases = min(left, later if number >= len(programs) else first)
            yield Shard(attack.name, number // len(programs), cases, self.seed, programs[number % len(programs)])
            left -= cases
            number += 1


@dataclass(slots=True)
class Row:
    """One row of the matrix: the number of cases of an attack for each outcome, and the first breach.

    `misses` says why the attack does not apply to the program. `on_program` counts the outcomes of cases on the program
    itself, not on a specimen or on what the attack makes itself. `unconfirmed` is a breach that a fresh process could
    not repeat. `lost` counts shards that were given up, because each worker that played one died.
    """

    attack: type[Attack]
    misses: str | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    on_program: Counter[str] = field(default_factory=Counter)
    events: int = 0
    seconds: float = 0.0
    breach: Script | None = None
    unconfirmed: Script | None = None
    lost: int = 0

    @property
    def cases(self) -> int:
        """The number of cases that were played."""
        return sum(self.outcomes.values())

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of any case, or `not_run` if no case began."""
        worst = (Outcome.BREACHED, Outcome.UNCONFIRMED, Outcome.DETECTED, Outcome.BLOCKED, Outcome.ABSORBED)
        return next((outcome for outcome in worst if self.outcomes[outcome]), Outcome.NOT_RUN)

    @property
    def ran(self) -> bool:
        """Whether at least one case of the attack began."""
        return self.outcome is not Outcome.NOT_RUN

    @property
    def ran_on_program(self) -> bool:
        """Whether at least one case began on the program itself."""
        return any(count for outcome, count in self.on_program.items() if outcome != Outcome.NOT_APPLICABLE)

    @property
    def ran_on(self) -> ProgramSource | None:
        """What the attack ran on: the program itself if a case began on it. None if the attack did not run."""
        if not self.ran:
            return None
        if self.ran_on_program:
            return ProgramSource.PROGRAM
        return ProgramSource.OWN if self.attack.draws else ProgramSource.BUILT_IN

    @property
    def is_left_out(self) -> bool:
        """Whether the campaign was told to leave the attack out, because it does not attack the program."""
        return self.misses == LEFT_OUT

    @property
    def why_not(self) -> str | None:
        """The reason why the attack did not run, or None if it ran."""
        if self.ran:
            return None
        if self.misses is not None:
            return self.misses
        if not self.cases:
            died = "the workers that played it died"
            return died if self.lost else "the time limit was reached before it started"
        return "no run came to what it attacks"


class Matrix(NamedTuple):
    """The result of a campaign. `seconds` is wall time; `left` is the number of shards that did not start in time."""

    program: str
    seed: int
    examples: int
    rows: tuple[Row, ...]
    seconds: float
    left: int

    @property
    def lost(self) -> int:
        """The number of shards that were given up, because each worker that played one died."""
        return sum(row.lost for row in self.rows)

    @property
    def breaches(self) -> tuple[Script, ...]:
        """The smallest case of every attack that broke something."""
        return tuple(row.breach for row in self.rows if row.breach is not None)

    @property
    def unconfirmed(self) -> tuple[Script, ...]:
        """The breaches that a fresh process could not repeat."""
        return tuple(row.unconfirmed for row in self.rows if row.unconfirmed is not None)

    @property
    def ran(self) -> int:
        """The number of attacks that ran."""
        return sum(row.ran for row in self.rows)

    def ran_on(self, source: ProgramSource) -> int:
        """Return the number of attacks that ran on programs of a source. Each attack counts once."""
        return sum(row.ran_on is source for row in self.rows)

    @property
    def ran_all(self) -> bool:
        """Whether every attack ran, but for those that the campaign was told to leave out."""
        return all(row.ran or row.is_left_out for row in self.rows)

    @property
    def events(self) -> int:
        """The number of events that reached the machine or its store, over the attacks that ran."""
        return sum(row.events for row in self.rows if row.ran)

    @property
    def ok(self) -> bool:
        """Whether there is no breach, confirmed or not."""
        return not self.breaches and not self.unconfirmed


Confirm = Callable[[Script, str | None], bool]
"""Says whether a breach can be repeated: takes the script and the PostgreSQL connection string, if any."""

Progress = Callable[[Shard, int, int], None]
"""Called after each shard with the shard, the number of finished shards and the number of all shards."""


def attack_program(
    program: Program,
    policies: Sequence[Policy] = (),
    orders: Orders = Orders(),
    *,
    routes: Sequence[Route] = (),
    progress: Progress | None = None,
    confirm: Confirm | None = None,
) -> Matrix:
    """Attack the machine that runs a program and return the matrix.

    Every attack plays its first shard before any plays a second. A breach counts once `confirm` has repeated it; by
    default a fresh process does. Raises ProgramError for a program that a machine can't run. Unless the time runs out,
    equal seeds, examples and programs give equal matrices (apart from seconds) for any number of workers.
    """
    from stepward.sabotage.campaigns.confirming import is_repeated

    require(made(Orders), orders=orders)
    require_each(made(Route), routes=routes)
    require(FUNCTION.or_none(), progress=progress, confirm=confirm)
    target = Target(program, policies, routes)
    began = time.monotonic()
    rows = {attack.name: Row(attack, orders.misses(attack, target)) for attack in orders.chosen()}
    shards = _in_turns(list(orders.shards(row.attack, has_hold=row.misses is None)) for row in rows.values())
    until = None if orders.seconds is None else began + orders.seconds
    finished = 0
    firsts: dict[str, tuple[Shard, Found]] = {}
    for result in _shard_results(target, orders, shards, until):
        finished += 1
        _enter(rows[result.shard.attack], result, firsts)
        if progress is not None:
            progress(result.shard, finished, len(shards))
        if orders.stops and firsts:
            break
    for name, (shard, found) in firsts.items():
        script = _script(_target(target, shard), orders, name, found)
        _judge(rows[name], script, is_confirmed=(confirm or is_repeated)(script, orders.postgres))
    seconds = time.monotonic() - began
    return Matrix(program.name, orders.seed, orders.examples, tuple(rows.values()), seconds, len(shards) - finished)


def _in_turns(by_attack: Iterable[list[Shard]]) -> list[Shard]:
    """Return shards in the order of play: every attack visits every program before any attack repeats one.

    Attacks that draw programs have a shard in each turn. In a turn the cheap attacks come first, with the tables among
    them: these find much, and a short campaign should still reach many attacks. The first part of a table comes then,
    and the other parts at the end of the first turn.
    """
    turns: dict[tuple[int, int, int], list[Shard]] = {}
    for shards in by_attack:
        visits: Counter[int] = Counter()
        for shard in shards:
            attack = ATTACK_BY_NAME[shard.attack]
            turn = (0, shard.number, 0) if attack.draws else (shard.number, visits[shard.number], 0)
            if attack.parts > 1:
                turn = (0, 0, shard.number)
            visits[shard.number] += 1
            turns.setdefault(turn, []).append(shard)
    return [shard for turn in sorted(turns) for shard in _woven(turns[turn])]


def _woven(shards: Sequence[Shard]) -> Iterator[Shard]:
    """Yield the shards of a turn, the cheap ones first, and each table after others that cost a part of what it costs.

    So a table of many seconds keeps few attacks waiting, and a cheap one comes early.
    """
    by_weight = sorted(shards, key=lambda shard: ATTACK_BY_NAME[shard.attack].weight)
    tables = deque(shard for shard in by_weight if _is_table(ATTACK_BY_NAME[shard.attack]))
    others = [shard for shard in by_weight if not _is_table(ATTACK_BY_NAME[shard.attack])]
    paid = 0
    for shard in others:
        yield shard
        paid += shard.cases * ATTACK_BY_NAME[shard.attack].weight
        if tables and paid >= PAID * ATTACK_BY_NAME[tables[0].attack].weight:
            yield tables.popleft()
            paid = 0
    yield from tables


def _is_table(attack: type[Attack]) -> bool:
    """Return whether one case of an attack is a table of its own, which it plays from end to end."""
    return attack.draws and attack.weight > LIGHT


def _target(target: Target, shard: Shard) -> Target:
    """Return the target of a shard: the user's program or a specimen."""
    return specimen_target(shard.specimen) if shard.specimen else target


def _enter(row: Row, result: ShardResult, firsts: dict[str, tuple[Shard, Found]]) -> None:
    row.lost += result.is_lost
    row.outcomes.update(result.outcomes)
    if not result.shard.specimen and not row.attack.draws:
        row.on_program.update(result.outcomes)
    row.events += result.events
    row.seconds += result.seconds
    shard, name = result.shard, result.shard.attack
    if result.found is not None and (name not in firsts or _rank(shard) < _rank(firsts[name][0])):
        firsts[name] = (shard, result.found)


def _rank(shard: Shard) -> tuple[bool, int, str]:
    """Return the sort key of a breach: the program itself comes before specimens, then the earlier shard."""
    return bool(shard.specimen), shard.number, shard.specimen


def _judge(row: Row, script: Script, *, is_confirmed: bool) -> None:
    if is_confirmed:
        row.breach = script
    else:
        row.unconfirmed = script
        row.outcomes[Outcome.UNCONFIRMED] = row.outcomes.pop(Outcome.BREACHED)


def _script(target: Target, orders: Orders, attack: str, found: Found) -> Script:
    return Script(
        attack=attack,
        **target.to_data(),
        choices=found.choices,
        invariant=found.invariant,
        what=found.what,
        story=found.story,
        seed=orders.seed,
    )


# -- workers -----------------------------------------------------------------------------------------------------------


def _shard_results(
    target: Target, orders: Orders, shards: Sequence[Shard], until: float | None
) -> Iterator[ShardResult]:
    if orders.dask is not None:
        from stepward.sabotage.campaigns.cluster import on_cluster, version_there

        # Cases that breached earlier are in a folder of this machine.
        there = replace(orders, dask=None, database=None)
        yield from on_cluster(orders.dask, target.to_data(), there, shards, until, version_there())
        return
    if orders.workers > 1 and len(shards) > 1:
        yield from _in_processes(target, orders, shards, until)
        return
    waiting = list(shards)
    while waiting and (until is None or time.monotonic() < until):
        result = _played(target, waiting.pop(0), orders)
        _hurry(waiting, result)
        yield result


def _hurry(waiting: list[Shard], result: ShardResult) -> None:
    """Put the next program of an attack first if it came to nothing on the last one: there it may have hold."""
    if result.outcomes.keys() == {Outcome.NOT_APPLICABLE}:
        name = result.shard.attack
        following = next((shard for shard in waiting if shard.attack == name and not shard.number), None)
        if following is not None and following.specimen != result.shard.specimen:
            waiting.remove(following)
            waiting.insert(0, following)


def _played(target: Target, shard: Shard, orders: Orders) -> ShardResult:
    target = _target(target, shard)
    database = None
    if orders.database is not None:
        from hypothesis.database import DirectoryBasedExampleDatabase

        database = DirectoryBasedExampleDatabase(os.path.join(orders.database, target.plan.digest[:16], shard.attack))
    return run_shard(target, ATTACK_BY_NAME[shard.attack](), shard, database, postgres=orders.postgres)


def _in_processes(
    target: Target, orders: Orders, shards: Sequence[Shard], until: float | None
) -> Iterator[ShardResult]:
    from multiprocessing import get_context

    data = target.to_data()
    waiting = list(shards)
    running: set[Future[ShardResult]] = set()
    # A fork would copy the threads and event loops of the caller.
    with ProcessPoolExecutor(orders.workers, mp_context=get_context("spawn")) as pool:
        while waiting or running:
            while waiting and len(running) < 2 * orders.workers:
                if until is not None and time.monotonic() >= until:
                    waiting.clear()
                    break
                running.add(pool.submit(play_in_worker, data, waiting.pop(0), orders))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                _hurry(waiting, future.result())
                yield future.result()


def play_in_worker(data: Mapping[str, Any], shard: Shard, orders: Orders) -> ShardResult:
    """Play a shard in another process, which gets the target as data."""
    return _played(Target.of(**data), shard, orders)
