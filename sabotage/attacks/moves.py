"""Continuation by another version: a run that moves must not get what it would not have got without the move."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.verify import verify
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ANY_NAME, ModelReply
from stepward.vm.machine.refusals import DeliveryRefused, RunRefused
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import Suspend
from stepward.vm.values import freeze, to_json

STARTER: Final = "ann"
MOST_STOPS: Final = 30
SECRET: Final = "4711471147"
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read", "args": {}, "returns": {"type": "integer"}},
    "ask": {"effect": "none", "suspends": True, "args": {}, "returns": {"type": "boolean"}},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {}, "card": {"type": "string"}}},
    "mail": {"effect": "write", "args": {}},
}
CHECKED: Final = {"step": "agreed", "branch": "then"}
RULES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "once", "at_most_once": {"tool": "pay"}},
    {"name": "checked", "protects": {"tool": "pay"}, "requires": CHECKED},
    {"name": "checked at all", "protects": {"tool": "mail"}, "requires": CHECKED, "fresh": False},
    {"name": "known", "protects": {"tool": "mail"}, "requires": {"step": "get"}},
    {"name": "one of both", "exclusive": [{"tool": "pay"}, {"tool": "mail"}]},
    {"name": "told", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "mail"}}, "ends": "any"},
    {"name": "told in the end", "followed_by": {"first": {"step": "ask"}, "then": {"tool": "mail"}}, "ends": "success"},
    {"name": "few", "never": {"tool": "pay"}, "when": "$n > 3"},
)


def _program(chance: Random) -> Program:
    """Return a program that asks and waits in rounds, pays, and tells somebody."""
    ask: dict[str, Any] = {"id": "ask", "type": "tool", "tool": "ask", "output_key": "yes", "next_step": "agreed"}
    if chance.random() < 0.4:
        ask["max_visits"] = chance.randint(1, 4)
    pay = {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$n", "card": "$card"}, "next_step": "count"}
    steps = [
        {"id": "get", "type": "tool", "tool": "get", "next_step": "zero"},
        {"id": "zero", "type": "set", "set": {"n": 0}, "next_step": "ask"},
        ask,
        {"id": "agreed", "type": "condition", "condition": "$yes", "then": "pay", "otherwise": "count"},
        pay,
        {"id": "count", "type": "set", "set": {"n": "$n + 1"}, "next_step": "think"},
        {"id": "think", "type": "llm", "prompt": "$n?", "next_step": "rest"},
        {"id": "rest", "type": "wait", "seconds": 5, "next_step": "again"},
        {
            "id": "again",
            "type": "condition",
            "condition": f"$n < {chance.randint(1, 5)}",
            "then": "ask",
            "otherwise": "mail",
        },
        {"id": "mail", "type": "tool", "tool": "mail", "next_step": "done"},
        {"id": "done", "type": "end", "output": ["$n", "$get.output"]},
    ]
    data: dict[str, Any] = {
        "name": "moves",
        "language": 2,
        "inputs": {"card": {"type": "string", "sensitive": True}},
        "tools": TOOLS,
        "guardrails": chance.sample(RULES, chance.randint(0, 2)),
        "max_steps": 90,  # the rest of a version may begin with a step of its own
        "steps": steps,
    }
    if chance.random() < 0.3:
        data["max_tokens"] = chance.randint(1, 9)
    return Program.from_dict({name: value for name, value in data.items() if value})


def _policies(chance: Random) -> tuple[Policy, ...]:
    policy: dict[str, Any] = {"policy": "p", "guardrails": chance.sample(RULES, chance.randint(0, 2))}
    if chance.random() < 0.3:
        policy["four_eyes"] = ["ask"]
    if chance.random() < 0.2:
        policy["allow"] = ["get", "ask", "pay", {"tool": "mail", "when": "$n < 3"}]
    return (Policy.from_dict({name: value for name, value in policy.items() if value}),)


class _World(EveryTool):
    """Tools and a model that note their calls."""

    names = ANY_NAME

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.parameters = {"model": "the world"}

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Note a call."""
        del context
        self.calls.append((name, dict(args)))
        return Suspend() if name == "ask" else 7

    async def complete(self, request: Any) -> ModelReply:
        """Note a prompt; each reply costs two tokens."""
        self.calls.append(request.prompt)
        return ModelReply("well", 2)


class _Course(NamedTuple):
    """What a run came to: its calls, the deliveries that were refused, and how it ended."""

    calls: list[Any]
    refused: int
    status: str
    reason: str
    broken: list[str]
    output: Any


class MovedRun(Attack):
    """A run moves to a version that is the same program, at some of the places where it waits, and moves again. Beside
    it runs one that does not move. Rules, visits, tokens and people have to count on as if nothing had moved."""

    family = Family.REPLAY
    surface = "move to another version"
    action = "a version that is the same, at each place where a run waits"
    invariant = Invariant.BOUNDS
    defence = "a run that moves leaves what it has spent, done and owes to the run that goes on"
    weight = 8
    draws = True
    programs = 2

    def play(self, case: Case) -> Outcome:
        """Compare the course of each run that moves with that of one that does not."""
        seed = case.seed()
        for number in case.each("program", range(self.programs)):
            self._play(case, f"moves {seed} {number}")
        return Outcome.ABSORBED

    def _play(self, case: Case, seed: str) -> None:
        program, policies = _program(Random(seed)), _policies(Random(seed))
        case.log(f"run this program: {to_json(freeze(program.to_dict()))}")
        case.log(f"under this policy: {to_json(freeze(policies[0].to_data()))}")
        plain = self._course(case, program, policies, seed, moves=0.0)
        moved = self._course(case, program, policies, seed, moves=0.7)
        for name, one, other in zip(_Course._fields, plain, moved, strict=True):
            message = f"{name}: {other} of the run that moved, and {one} of the other one"
            case.hold(one == other, self.invariant, message)

    def _course(
        self, case: Case, program: Program, policies: tuple[Policy, ...], seed: str, *, moves: float
    ) -> _Course:
        world, clock, store = _World(), ManualClock(), MemoryJournal()
        machine = case.machine(world, world, store, policies, checker=lambda *_: (), clock=clock)
        answers, moving = Random(f"answers {seed}"), Random(f"moves {seed}")
        refused = 0
        run = case.do(machine.run(program, {"card": SECRET}, run_id="r", by=STARTER))
        for _ in range(MOST_STOPS):
            case.count()
            if run.is_over:
                break
            if moving.random() < moves:
                with suppress(RunRefused):  # nothing is left of a budget, for example
                    case.do(machine.migrate(run.id, program))
                    case.log(f"move run `{run.id}` where it waits at `{run.step}`")
            if not run.suspensions:
                clock.time += 6_000_000
                run = _last(case, machine, case.do(machine.recover(run.id))[0])
                continue
            by, yes = answers.choice((STARTER, "bob", "bob")), answers.random() < 0.5
            try:
                run = _last(case, machine, case.do(machine.resume(run.suspensions[0].token, yes, by=by)))
            except DeliveryRefused:
                refused += 1
        for row in store.rows():
            faults = verify(store, row.run, replay=replayer(store, row.run)).faults
            case.hold(not faults, Invariant.REPLAY, f"an honest run `{row.run}` is told of {faults[:1]}")
        broken = sorted({rule for rule, _ in run.broken})
        return _Course(world.calls, refused, run.status, run.reason, broken, run.output if run.is_over else None)


def _last(case: Case, machine: ExecutionVM, run: Run) -> Run:
    """Return the run that goes on with one that has moved."""
    while run.has_moved:
        first, _, number = run.id.partition("~")
        run = case.do(machine.get(f"{first}~{int(number or 0) + 1}"))
    return run
