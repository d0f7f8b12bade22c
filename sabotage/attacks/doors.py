"""Sensitive values that come back through each door: outputs, replies, payloads, verdicts, errors and requests."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ModelFailed, ModelReply, ModelRequest
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, ToolError

Step = dict[str, Any]

SECRET: Final = "ada.lovelace@example.org"
SAID: Final = f"mail sent to {SECRET}, as you said"

OUTPUTS: Final = ("an output", "a part of an output", "a reply", "a payload", "a verdict")
ERRORS: Final = ("an error", "a declared error", "an error of a model", "a doubt", "a request")
DOORS: Final = (*OUTPUTS, *ERRORS)
PLACES: Final = ("the program", "a sub-step", "a branch", "an item", "items at once", "a called program")

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "send": {"effect": "write", "args": {"to": {"type": "string"}}, "suspends": True, "errors": ["Bounced"]}
}
MAIL: Final = {"type": "string", "sensitive": True}


@cache
def _program(door: str, place: str) -> Program:
    """Return a program that tells the secret to a tool, or asks a model, and copies what comes back."""
    tool_step: Step = {"id": "tell", "type": "tool", "tool": "send", "args": {"to": "$mail"}, "output_key": "told"}
    model_step: Step = {"id": "tell", "type": "llm", "prompt": "say", "output_key": "told"}
    step = model_step if door in ("a reply", "an error of a model") else tool_step
    copied: Step = {"id": "copy", "type": "set", "set": {"kept": "$told"}}
    other: Step = {"id": "other", "type": "set", "set": {"x": 1}}
    data: dict[str, Any] = {"name": "doors", "language": 2, "inputs": {"mail": MAIL}, "tools": TOOLS}
    each: Step = {"id": "all", "type": "for_each", "items": [1], "as": "one", "steps": [step, copied]}
    match place:
        case "the program":
            steps = [step, copied]
        case "a sub-step":
            beside = {"id": "look", "type": "llm", "prompt": "look"}
            steps = [{"id": "all", "type": "parallel", "parallel_steps": [step, beside]}, copied]
        case "a branch":
            branches = {"one": {"steps": [step, copied]}, "two": {"steps": [other]}}
            steps = [{"id": "all", "type": "parallel", "branches": branches}]
        case "an item":
            steps = [each]
        case "items at once":
            steps = [{**each, "items": [1, 2], "max_concurrency": 2}]
        case _:
            data["programs"] = {"part": {"inputs": {"mail": MAIL}, "tools": TOOLS, "steps": [step, copied]}}
            steps = [{"id": "go", "type": "call", "program": "part", "args": {"mail": "$mail"}}]
    return Program.from_dict({**data, "steps": steps})


class _World(EveryTool):
    """A tool and a model that repeat the secret through one door."""

    def __init__(self, door: str) -> None:
        self.door = door

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Send a message."""
        del name, args, context
        match self.door:
            case "a part of an output":
                return {"to": [{"it": SAID}], "n": 1}
            case "a payload":
                return Suspend("sent?")
            case "a request":
                return Suspend({"to": [SAID]})
            case "a verdict":
                raise InDoubt("no answer")
            case "a doubt":
                raise InDoubt(SAID)
            case "an error":
                raise RuntimeError(SAID)
            case "a declared error":
                raise ToolError("Bounced", SAID)
        return SAID

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Say something."""
        if request.prompt == "look":
            return ModelReply("well", 1)
        if self.door == "an error of a model":
            raise ModelFailed(SAID, ModelReply(None, 1))
        return ModelReply(SAID, 1)


class SecretAtEachDoor(Attack):
    """A sensitive value comes back as an output, a reply, a payload, a verdict, an error, a doubt or a request, in each
    construct; then the run is erased."""

    family = Family.INJECTION
    surface = "everything that comes from outside"
    action = "a sensitive value repeated at each door, in each construct"
    invariant = Invariant.SECRECY
    defence = "what comes from outside is compared with the sensitive values of the run, whatever brings it"
    enumerates = "doors and constructs"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Repeat the value at each door, and search the journal for it."""
        for door, place in case.each("the value is repeated", tuple(product(DOORS, PLACES))):
            store, world = MemoryJournal(), _World(door)
            machine = case.machine(world, world, store, clock=ManualClock())
            case.act(f"repeat a sensitive value as {door} in {place}")
            run = case.do(machine.run(_program(door, place), {"mail": SECRET}, run_id="run"))
            run = self._delivered(case, machine, run, door)
            case.hold(
                (run.status == "SUCCESS") is (door in OUTPUTS),
                Invariant.KEPT,
                f"with {door} in {place} a run is {run.status}: {run.error}",
            )
            open_in = [entry.seq for entry in store.read("run") if SECRET.encode() in entry.record]
            case.hold(not open_in, self.invariant, f"records {open_in} have what came as {door} in {place}")
            shown = repr((run.trace, run.error, run.suspensions))
            case.hold(SECRET not in shown, self.invariant, f"a run shows what came as {door} in {place}")
            case.do(machine.erase("run"))
            case.hold(not store.vault.get("run"), Invariant.ERASURE, "the vault has values after the erasure")
        return Outcome.BLOCKED

    def _delivered(self, case: Case, machine: ExecutionVM, run: Run, door: str) -> Run:
        """Deliver the value to all that waits for it."""
        while door == "a payload" and run.suspensions:
            run = case.do(machine.resume(run.suspensions[0].token, SAID))
        while door == "a verdict" and run.doubts:
            run = case.do(machine.reconcile(run.id, run.doubts[0].place, "done", SAID))
        return run
