"""Copies of a store: runs of each history are copied, read from the copy, and go on there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.vm.errors import StepwardError
from stepward.vm.journal.copying import copy_runs
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.verify import verify
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.stored_due import stored_due
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext

SECRET: Final = "4929 1234 5678 9010"
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "pay": {"effect": "write", "idempotent": True, "args": {"card": {"type": "string"}}},
    "ask": {"effect": "none", "suspends": True},
    "ship": {"effect": "write"},
}
POLICY: Final = Policy.from_dict({"policy": "first", "guardrails": [{"name": "few", "at_most_once": {"tool": "pay"}}]})
LATER: Final = Policy.from_dict({"policy": "later", "guardrails": [{"name": "one", "at_most_once": {"tool": "ship"}}]})

ASK: Final = {"type": "tool", "tool": "ask"}
PAY: Final = {"type": "tool", "tool": "pay", "args": {"card": "$card"}}


def _program(name: str, *steps: Mapping[str, Any], **more: Any) -> Program:
    inputs = {"card": {"type": "string", "sensitive": True}}
    written = [dict(step) for step in (*steps, {"id": f"{name}_end", "type": "end"})]
    return Program.from_dict({"name": name, "language": 2, "inputs": inputs, "tools": TOOLS, "steps": written, **more})


FIRST: Final = ({"id": "pay", **PAY}, {"id": "ask", **ASK})
SHIP: Final = {"id": "ship", "type": "tool", "tool": "ship"}
SET: Final = {"id": "set", "type": "set", "set": {"x": 1}}

PLAIN: Final = _program("plain", *FIRST, SHIP)
VERSION: Final = _program("plain", *FIRST, SET, SHIP)
SHORT: Final = _program("short", *FIRST, SET, SHIP, max_steps=2)
REST: Final = _program("rest", {"id": "ask_on", **ASK}, SET)
ITEMS: Final = _program(
    "items",
    {
        "id": "each",
        "type": "for_each",
        "items": [1, 2],
        "as": "one",
        "max_concurrency": 2,
        "steps": [{"id": "ask", **ASK}, {"id": "in_end", "type": "end", "output": "$one"}],
    },
)
CALLED: Final = _program(
    "caller",
    {"id": "go", "type": "call", "program": "part", "args": {"card": "$card"}},
    programs={
        "part": {
            "inputs": {"card": {"type": "string", "sensitive": True}},
            "tools": TOOLS,
            "steps": [dict(step) for step in FIRST],
        }
    },
)


class _World(EveryTool):
    """Tools that pay, ask somebody, or are silent about a shipment."""

    is_silent = False

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Answer a call."""
        del args, context
        if name == "ship" and self.is_silent:
            raise InDoubt("nobody knows")
        return Suspend({"card": SECRET}) if name == "ask" else name


class _Stage:
    """A store with runs of one history, and a machine on it. `policies` are those of the machine."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.store, self.world, self.clock = MemoryJournal(), _World(), ManualClock()

    def machine(self, *policies: Policy, store: MemoryJournal | None = None) -> ExecutionVM:
        """Return a machine, by default on the store, under these policies."""
        where = self.store if store is None else store
        return self.case.machine(self.world, None, where, policies, checker=lambda *_: (), clock=self.clock)

    def started(self, program: Program, *policies: Policy) -> Run:
        """Start a run, which waits for an answer."""
        return self.case.do(self.machine(*policies).run(program, {"card": SECRET}, run_id="r"))

    def answered(self, run: Run, *policies: Policy) -> Run:
        """Answer what a run waits for."""
        return self.case.do(self.machine(*policies).resume(run.suspensions[0].token, "yes", by="ann"))


def _waits(stage: _Stage) -> None:
    stage.started(PLAIN)


def _ends(stage: _Stage) -> None:
    stage.answered(stage.started(PLAIN, POLICY), POLICY)


def _later_policies(stage: _Stage) -> None:
    stage.answered(stage.started(PLAIN, POLICY), POLICY, LATER)


def _later_policies_in_doubt(stage: _Stage) -> None:
    stage.world.is_silent = True
    stage.answered(stage.started(PLAIN), LATER)


def _later_policies_at_items(stage: _Stage) -> None:
    stage.answered(stage.started(ITEMS), LATER)


def _moved(stage: _Stage) -> None:
    run = stage.started(PLAIN, POLICY)
    stage.case.do(stage.machine(POLICY, LATER).migrate(run.id, VERSION))


def _moved_and_answered(stage: _Stage) -> None:
    run = stage.started(PLAIN)
    stage.case.do(stage.machine(LATER).migrate(run.id, VERSION))
    stage.answered(run, LATER)


def _continued(stage: _Stage) -> None:
    run = stage.answered(stage.started(SHORT, POLICY), POLICY)
    grant = {"steps": 9}
    stage.case.do(stage.machine(POLICY, LATER).continue_run(run.id, REST, ["card"], grant=grant))


def _called(stage: _Stage) -> None:
    stage.started(CALLED, POLICY)


def _erased(stage: _Stage) -> None:
    run = stage.answered(stage.started(PLAIN))
    stage.case.do(stage.machine().erase(run.id, by="ann"))


def _refused(stage: _Stage) -> None:
    run = stage.started(ITEMS)
    stage.case.do(stage.machine().cancel(run.id, by="ann"))


HISTORIES: Final[Mapping[str, Callable[[_Stage], None]]] = {
    "waits": _waits,
    "ends": _ends,
    "under later policies": _later_policies,
    "in doubt, under later policies": _later_policies_in_doubt,
    "waits at items, under later policies": _later_policies_at_items,
    "moves": _moved,
    "moves, and is answered under later policies": _moved_and_answered,
    "is continued under later policies": _continued,
    "waits in a call": _called,
    "is erased": _erased,
    "is cancelled": _refused,
}
"""What has happened to a run before its store is copied."""


class StoreCopied(Attack):
    """A store is copied when a run has waited, moved, been continued, or come under other policies. The first store is
    lost: whoever has the copy verifies each run, reads it, and goes on with it."""

    family = Family.CRASH
    surface = "copy of a store"
    action = "runs of each history copied, read, and driven to their end in the copy"
    invariant = Invariant.KEPT
    defence = "a copy has every record, document and sensitive value of each run, and a run goes on there as before"
    enumerates = "the histories"
    weight = 20
    draws = True

    def play(self, case: Case) -> Outcome:
        """Copy the store after each history, and compare."""
        for history in case.each("the run", tuple(HISTORIES)):
            stage = _Stage(case)
            HISTORIES[history](stage)
            case.act(f"copy a store where a run {history}")
            copy = MemoryJournal()
            reasons = {one.run: one.why for one in copy_runs(stage.store, copy, stored_due(stage.store))}
            runs = [row.run for row in stage.store.rows()]
            case.hold(reasons == dict.fromkeys(runs), self.invariant, f"of the runs {runs} is told {reasons}")
            for run in runs:
                self._compare(stage, copy, run)
            for run in runs:
                self._go_on(stage, copy, run)
        return Outcome.ABSORBED

    def _compare(self, stage: _Stage, copy: MemoryJournal, run: str) -> None:
        case, store = stage.case, stage.store
        is_same = (store.read(run), store.vault.get(run)) == (copy.read(run), copy.vault.get(run))
        case.hold(is_same, self.invariant, f"the copy has other records or values of `{run}`")
        faults = verify(copy, run, replay=replayer(copy, run)).faults
        case.hold(not faults, self.invariant, f"in the copy `{run}` is told of {[fault.what for fault in faults[:1]]}")
        found = [case.do(stage.machine(store=one).get(run)) for one in (store, copy)]
        is_same = found[0].snapshot() == found[1].snapshot() and found[0].trace_hash == found[1].trace_hash
        case.hold(is_same, self.invariant, f"the copy says otherwise of `{run}`")

    def _go_on(self, stage: _Stage, copy: MemoryJournal, run: str) -> None:
        """Answer what a run waits for, or settle what is in doubt, until it is over."""
        case, machine = stage.case, stage.machine(POLICY, LATER, store=copy)
        stage.world.is_silent = False
        try:
            found = case.do(machine.get(run))
            while not found.is_over:
                case.act(f"go on with `{run}` in the copy")
                if found.suspensions:
                    found = case.do(machine.resume(found.suspensions[0].token, "yes", by="bob"))
                else:
                    found = case.do(machine.reconcile(run, found.doubts[0].place, "abandon", None, by="bob"))
        except StepwardError as error:
            case.hold(False, self.invariant, f"in the copy nobody can go on with `{run}`: {error}")
