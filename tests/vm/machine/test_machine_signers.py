"""Fast: whatever appends to a run with a signed head needs its key: else the signature would be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pytest

from journals import KEY, STRANGER
from machines import Bench, assign, end, program, tool
from stepward.vm import DeliveryRefused, ExecutionVM, InDoubt, MemoryJournal
from stepward.vm.journal.signing import SigningKey
from stepward.vm.journal.store import Journal, JournalError
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.tools import Suspend
from stepward.vm.machine.turns import TurnRequest

SECRET: Final = {"inputs": {"pin": {"type": "string", "sensitive": True}}}
WAITS: Final = program(tool("ask", "ask"), end(), **SECRET)
MOVED: Final = program(tool("ask", "ask"), assign("note", a=1), end(), **SECRET)
DOUBTS: Final = program(tool("pay", "write"), end())
SPENT: Final = program(assign("a", a=1), assign("b", b=1), end(), max_steps=1)
REST: Final = program(assign("b", b=1), end())
ENDS: Final = program(assign("a", a=1), end(), **SECRET)
NO_TURN: Final = TurnRequest("(+ 1 1)")
TOOLS: Final = {"ask": Suspend("may I?"), "pay": InDoubt("who knows")}


class World:
    """A store with one run, and machines at it."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.clock = ManualClock()

    def machine(self, key: SigningKey | None) -> ExecutionVM:
        """Return another machine, when nobody has a lease any more."""
        bench = Bench(TOOLS, journal=self.journal, key=key)
        self.clock.time += 1_000_000_000
        return ExecutionVM(bench.tools, None, self.journal, checker=lambda *_: (), clock=self.clock, key=key)

    @property
    def token(self) -> str:
        return Bench(journal=self.journal).vm.get_sync("run").suspensions[0].token


def starts(what: Any, **inputs: Any) -> Callable[[ExecutionVM], Any]:
    return lambda vm: vm.run_sync(what, inputs, run_id="run")


def queues(vm: ExecutionVM) -> None:
    vm.queue_sync(REST, run_id="run")


def takes_a_turn(vm: ExecutionVM) -> None:
    vm._wait(vm.take_turn("run.1", REST, {}, NO_TURN, None))


def takes_the_next_turn(_: World, vm: ExecutionVM) -> None:
    (first,) = vm._wait(vm.turns("run"))
    vm._wait(vm.take_turn("run.2", REST, {}, NO_TURN, first))


def goes_on_as_a_worker(world: World, vm: ExecutionVM) -> None:
    async def go_on() -> None:
        (lease,) = await vm.claim(1)
        await vm.go_on(lease)

    asyncio.run(go_on())


def prunes(world: World, vm: ExecutionVM) -> None:
    """Prune; a run that stays for a fault is an error here, as it is of the command."""
    for one in vm.prune_sync(world.clock.time / 1e6):
        if one.is_fault:
            raise JournalError(str(one.why))


class Operation(NamedTuple):
    """An operation that appends to a run: how the run is made, and what is done about it."""

    make: Callable[[ExecutionVM], Any]
    act: Callable[[World, ExecutionVM], Any]
    run: str = "run"


ASKED: Final = starts(WAITS, pin="1234")
OPERATIONS: Final = {
    "resume": Operation(ASKED, lambda world, vm: vm.resume_sync(world.token, "yes")),
    "a refused answer": Operation(ASKED, lambda _, vm: vm.resume_sync("run.wrong", "yes")),
    "reconcile": Operation(starts(DOUBTS), lambda _, vm: vm.reconcile_sync("run", "pay", "done")),
    "abandon": Operation(starts(DOUBTS), lambda _, vm: vm.reconcile_sync("run", "pay", "abandon")),
    "cancel": Operation(ASKED, lambda _, vm: vm.cancel_sync("run")),
    "erase": Operation(starts(ENDS, pin="1234"), lambda _, vm: vm.erase_sync("run")),
    "erase what waits": Operation(ASKED, lambda _, vm: vm.erase_sync("run")),
    "recover": Operation(queues, lambda _, vm: vm.recover_sync("run")),
    "recover all": Operation(queues, lambda _, vm: vm.recover_sync()),
    "work": Operation(queues, goes_on_as_a_worker),
    "continue": Operation(starts(SPENT), lambda _, vm: vm.continue_run_sync("run", REST, grant={"steps": 5})),
    "a turn": Operation(takes_a_turn, takes_the_next_turn, "run.1"),
    "migrate": Operation(ASKED, lambda _, vm: vm.migrate_sync("run", MOVED)),
    "prune": Operation(starts(ENDS, pin="1234"), prunes),
}
MACHINES: Final = {"its key": KEY, "another key": STRANGER, "no key": None}


def stored(journal: Journal) -> Any:
    """Return all that a store has of runs."""
    runs = list(journal.names())
    return [(journal.read(run), journal.head(run), journal.vault.get(run), journal.row(run).status) for run in runs]


@pytest.mark.parametrize("signer", [KEY, None], ids=["signed", "not signed"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_only_a_machine_with_the_key_of_a_run_appends_to_it(name: str, signer: SigningKey | None) -> None:
    make, act, run = OPERATIONS[name]
    for who, key in MACHINES.items():
        world = World(MemoryJournal())
        make(world.machine(signer))
        before = stored(world.journal)
        if key is not signer:
            why = "is signed, and this machine has no key: give" if key is None else "is not signed by the key"
            with pytest.raises(JournalError, match=why):
                act(world, world.machine(key))
            assert stored(world.journal) == before, f"{name} with {who}"
        with suppress(DeliveryRefused):  # a wrong answer is recorded, and refused
            act(world, world.machine(signer))
        assert stored(world.journal) != before, f"{name} by whom the run is of"
        assert verify(world.journal, run, keys=[] if signer is None else [signer.public]).is_intact


def test_a_machine_without_a_key_reads_a_signed_run() -> None:
    world = World(MemoryJournal())
    ASKED(world.machine(KEY))
    assert world.machine(None).get_sync("run").status == "SUSPENDED"
    assert world.machine(None).run_sync(WAITS, {"pin": "1234"}, run_id="run").status == "SUSPENDED"
