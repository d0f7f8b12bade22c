"""The machine of one process: the product's own, with points before and after its calls of store and world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from stepward.sabotage.playing.oracle import Oracle
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.world import ProcessModel, ProcessTools, World
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Append, Entry, Journal, Lease, Row
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import Clock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import Model
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.tools import Tools

T = TypeVar("T")

EVERY: Final = 1_000_000
"""More runs than a store of trials has."""


class WatchedStore(ThroughStore):
    """The store that a trial's machines use. After every write the oracle reads the store."""

    def __init__(self, inner: Journal, oracle: Oracle) -> None:
        super().__init__(inner)
        self.oracle = oracle
        self.shows_others = True
        """Whether the list of runs shows those of other trials, too."""

    def rows(self, statuses: Iterable[str] | None = None, **filters: Any) -> list[Row]:
        """Return the list of runs."""
        rows = super().rows(statuses, **filters)
        return rows if self.shows_others else [row for row in rows if row.run == self.oracle.run.id]

    def claim(self, holder: str, now: float, ttl: float, limit: int, *filters: Any) -> list[Lease]:
        """Lease runs that are due."""
        if self.shows_others:
            return super().claim(holder, now, ttl, limit, *filters)
        own: list[Lease] = []
        for lease in super().claim(holder, now, ttl, EVERY, *filters):
            if lease.run == self.oracle.run.id:
                own.append(lease)
            else:
                self.release(lease)
        return own

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run, then call the oracle."""
        lease = self.inner.create(append, program, holder, ttl)
        self.oracle.case.count(len(append.entries))
        self.oracle.look()
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, then call the oracle."""
        self.oracle.case.count(len(append.entries))
        self.inner.append(append, fence)
        self.oracle.look(durable=append.durable)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run, which also makes all earlier writes durable."""
        lease = self.inner.acquire(run, holder, now, ttl)
        if lease is not None and run == self.oracle.run.id:
            self.oracle.look(durable=True)
        return lease


class Machine(ExecutionVM):
    """The product's machine, unchanged, with points around its calls to the environment.

    `around` wraps the tools, for attacks that control them. `model` replaces the model of the world. `options` are
    those of `ExecutionVM`.
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        points: Points,
        store: Journal,
        around: Callable[[Tools], Tools] | None = None,
        model: Model | None = None,
        **options: Any,
    ) -> None:
        self.points = points
        case = world.case
        self._target = world.target
        defaults = {"policy": world.target.policies, "key": case.key, "random": case.random, "checker": None}
        options = {**defaults, **options}
        tools: Tools = ProcessTools(world, points)
        tools = tools if around is None else around(tools)
        super().__init__(tools, model or ProcessModel(world, points), store, clock=clock, **options)

    def _plan(self, program: Program) -> Plan:
        """Return the cached plan, because a campaign starts very many machines for one program."""
        target = self._target
        is_the_same = program is target.program and self.policies == target.policies
        return target.plan if is_the_same else super()._plan(program)

    def _stored_plan(self, *documents: Any) -> Plan:
        """Return the cached plan if the store has exactly its documents."""
        program, policies, waived, later, patterns = documents
        plan = self._target.plan
        made_of = (plan.digest, plan.policy_digests, plan.waived, plan.patterns)
        if not later and (program, policies, frozenset(waived), patterns) == made_of:
            stored = [self.journal.document(digest) for digest in (program, *policies)]
            if stored == [plan.document, *plan.policy_documents.values()]:
                return plan
        return super()._stored_plan(*documents)

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        name = getattr(function, "__name__", "call")
        if name not in WRITES:
            return function(*args)
        await self.points.pass_by(f"before {described(name, args)}")
        result = function(*args)
        await self.points.pass_by(f"after {described(name, args)}")
        return result


WRITES = frozenset({"create", "append", "acquire", "renew", "release", "put", "put_document", "erase"})
"""The methods that change the store."""


def described(name: str, args: tuple[Any, ...]) -> str:
    """Describe a call of the store in words for a script."""
    if name in ("create", "append"):
        kinds = ", ".join(kind_of(entry) for entry in args[0].entries)
        return f"the append of {kinds}"
    return {"put": "the vault takes values", "erase": "the vault is erased"}.get(name, name)


def kind_of(entry: Entry) -> str:
    """Return the kind of a record without parsing all of it. No field after the body has that name."""
    _, found, rest = entry.record.rpartition(b'"kind":"')
    return rest.partition(b'"')[0].decode("utf-8", "replace") if found else "?"
