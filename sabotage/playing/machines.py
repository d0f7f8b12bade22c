"""A machine as one process has it: the product's own, whose calls of store and world pass points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from stepward.sabotage.playing.oracle import Oracle
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.world import ProcessModel, ProcessTools, World
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Append, Entry, Journal, Lease
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import Clock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import Model
from stepward.vm.machine.plan import Names, Plan
from stepward.vm.machine.tools import Tools

T = TypeVar("T")


class WatchedStore(ThroughStore):
    """A store as a trial's machines see it: after every write the oracle looks at what the store has now."""

    def __init__(self, inner: Journal, oracle: Oracle) -> None:
        super().__init__(inner)
        self.oracle = oracle

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run, and have the oracle look."""
        lease = self.inner.create(append, program, holder, ttl)
        self.oracle.case.count(len(append.entries))
        self.oracle.look()
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, and have the oracle look."""
        self.oracle.case.count(len(append.entries))
        self.inner.append(append, fence)
        self.oracle.look(durable=append.durable)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run: what was written before is durable then, too."""
        lease = self.inner.acquire(run, holder, now, ttl)
        if lease is not None and run == self.oracle.run.id:
            self.oracle.look(durable=True)
        return lease


class Machine(ExecutionVM):
    """The product's machine with nothing of it changed: only what it asks of its surroundings passes points.

    `around` puts something around the tools that an attack has in its hands, `model` is asked in place of the world's.
    `options` are those of `ExecutionVM`.
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
        said = {"policy": world.target.policies, "key": case.key, "random": case.random, "checker": None}
        options = {**said, **options}
        tools: Tools = ProcessTools(world, points)
        tools = tools if around is None else around(tools)
        super().__init__(tools, model or ProcessModel(world, points), store, clock=clock, **options)

    def _plan(self, program: Program) -> Plan:
        """Take the plan that was made before: a campaign starts very many machines for one program."""
        target = self._target
        is_the_same = program is target.program and self.policies == target.policies
        return target.plan if is_the_same else super()._plan(program)

    def _stored_plan(
        self, program: str, policies: Names, waived: Names, later: tuple[tuple[Names, Names], ...], patterns: str | None
    ) -> Plan:
        """Likewise, where the store has the very documents that the plan was made of."""
        plan = self._target.plan
        made_of = (plan.digest, plan.policy_digests, plan.waived, plan.patterns)
        if not later and (program, policies, frozenset(waived), patterns) == made_of:
            kept = [self.journal.document(digest) for digest in (program, *policies)]
            if kept == [plan.document, *plan.policy_documents.values()]:
                return plan
        return super()._stored_plan(program, policies, waived, later, patterns)

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        name = getattr(function, "__name__", "call")
        if name not in WRITES:
            return function(*args)
        await self.points.pass_by(f"before {described(name, args)}")
        result = function(*args)
        await self.points.pass_by(f"after {described(name, args)}")
        return result


WRITES = frozenset({"create", "append", "acquire", "renew", "release", "put", "put_document", "erase"})
"""What changes the store."""


def described(name: str, args: tuple[Any, ...]) -> str:
    """Return what a call of the store does, in words that a script can show."""
    if name in ("create", "append"):
        kinds = ", ".join(kind_of(entry) for entry in args[0].entries)
        return f"the append of {kinds}"
    return {"put": "the vault takes values", "erase": "the vault is erased"}.get(name, name)


def kind_of(entry: Entry) -> str:
    """Return the kind of a record, without reading all of it: no field behind its body has one of that name."""
    _, found, rest = entry.record.rpartition(b'"kind":"')
    return rest.partition(b'"')[0].decode("utf-8", "replace") if found else "?"
