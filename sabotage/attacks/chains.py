"""Chains of runs: some are continued and some move, and each has to know what all those before it have done."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.stores.forging import chained, raw_store_of
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Head
from stepward.vm.journal.verify import verify
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ANY_NAME, ModelReply, ModelRequest
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import Suspend
from stepward.vm.values import freeze, to_json

SECRET: Final = "ada.lovelace@example.org"
RUNS: Final = 3
"""The runs of a chain, apart from those that moves add."""

MOVES: Final = 2
"""How often a run moves at most while it waits."""

MOST_ADDED: Final = 3 * MOVES
"""The steps that moves may add: a payment, its message, and one that binds what is known by then."""

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "pay": {"effect": "write", "idempotent": True, "args": {"order": {"type": "string"}}},
    "tell": {"effect": "write", "idempotent": True, "args": {"to": {"type": "string"}, "order": {"type": "string"}}},
    "ask": {"effect": "none", "suspends": True},
}
INTERRUPTED: Final = "BUDGET_EXCEEDED"
GRANTS: Final = (None, {"steps": 1})
"""What is written in the place of what was granted."""


TOKENS: Final = RUNS + 1
"""What models may cost in the first run, and so in the chain. A reply costs one."""

MANY: Final = 2 * TOKENS + 4


class _World(EveryTool):
    """Tools and a model that note the orders that were paid, and what was asked."""

    names = ANY_NAME

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.asked = 0

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Pay, or ask somebody."""
        del context
        if name == "ask":
            return Suspend("go on?")
        if name == "pay":
            self.paid.append(args["order"])
        return 1

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Say something for one token."""
        del request
        self.asked += 1
        return ModelReply("well", 1)


class _Drawn:
    """What the runs of a chain do. `due` are the orders that they pay."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.due: list[str] = []
        self.number = 0

    def pays(self, most: int) -> list[dict[str, Any]]:
        """Return steps that pay new orders, and may tell somebody."""
        steps: list[dict[str, Any]] = []
        for _ in range(self.chance.randint(0, most)):
            self.number += 1
            steps.append(self.pay(f"O-{self.number}", f"pay_{self.number}"))
            if self.chance.random() < 0.3:
                args = {"to": "$mail", "order": f"O-{self.number}"}
                steps.append({"id": f"tell_{self.number}", "type": "tool", "tool": "tell", "args": args})
        return steps

    def pay(self, order: str, name: str) -> dict[str, Any]:
        """Return a step that pays an order."""
        return {"id": name, "type": "tool", "tool": "pay", "args": {"order": order}}

    def thoughts(self, most: int) -> list[dict[str, Any]]:
        """Return up to so many steps that ask a model."""
        self.number += 1
        return [
            {"id": f"think_{self.number}_{one}", "type": "llm", "prompt": "say"}
            for one in range(self.chance.randint(0, most))
        ]

    def sets(self, count: int) -> list[dict[str, Any]]:
        """Return steps that cost one step each, and do nothing."""
        self.number += 1
        return [{"id": f"set_{self.number}_{one}", "type": "set", "set": {"n": one}} for one in range(count)]


def _program(number: int, steps: list[dict[str, Any]], most: int | None) -> Program:
    """Return a program with an `end`, which spends at most so many steps; the first one has tokens, too."""
    budget = {} if most is None else {"max_steps": most}
    budget |= {} if number else {"max_tokens": TOKENS}
    mail = {"type": "string", "sensitive": True}
    ended = [*steps, {"id": "done", "type": "end"}]
    return Program.from_dict(
        {"name": f"part {number}", "language": 2, "inputs": {"mail": mail}, "tools": TOOLS, "steps": ended, **budget}
    )


class RunsOfAChain(Attack):
    """Runs pay, think, move to other versions, use up their steps, and are continued. The last one pays what some run
    before it has paid, or asks models without end. Then somebody takes out a grant, and a person is erased by the id of
    any run."""

    family = Family.REPLAY
    surface = "chain of runs"
    action = "a payment of any run before, more tokens than are left, a grant taken out, an erasure by any id"
    invariant = Invariant.ONCE
    defence = "a run knows the writes and the budgets of all runs before it, and a chain is erased as a whole"
    weight = 5
    draws = True
    chains = 2

    def play(self, case: Case) -> Outcome:
        """Draw chains, and hold what they did and what is left of them."""
        seed = case.seed()
        for number in case.each("chain", range(self.chains)):
            _Chain(case, Random(f"chain {seed} {number}")).play()
        return Outcome.ABSORBED


class _Chain:
    """A chain on a store. Each run that is interrupted has spent all its steps."""

    def __init__(self, case: Case, chance: Random) -> None:
        self.case, self.chance = case, chance
        self.drawn, self.world, self.store = _Drawn(chance), _World(), MemoryJournal()
        self.machine = case.machine(self.world, self.world, self.store, checker=lambda *_: (), clock=ManualClock())
        self.granted: list[str] = []
        """The runs for which somebody granted steps."""

    def play(self) -> None:
        """Play the runs of the chain, then attack it."""
        case = self.case
        for number in range(self.chance.randint(1, RUNS)):
            self._play_run(number)
        case.hold(len(self.world.paid) == len(set(self.world.paid)), Invariant.ONCE, f"paid are {self.world.paid}")
        case.hold(
            self.world.paid == self.drawn.due, Invariant.KEPT, f"paid are {self.world.paid}, not {self.drawn.due}"
        )
        if self.chance.random() < 0.5:
            self._repeat()
        else:
            self._think()
        for run in self._runs():
            faults = verify(self.store, run, replay=replayer(self.store, run)).faults
            case.hold(not faults, Invariant.REPLAY, f"an honest run `{run}` is told of {faults[:1]}")
        self._take_out_a_grant()
        self._erase()

    def _runs(self) -> list[str]:
        return sorted(row.run for row in self.store.rows())

    def _play_run(self, number: int) -> None:
        """Begin or continue the chain: pay, wait, perhaps move, and use up the steps."""
        drawn, chance = self.drawn, self.chance
        before = [*drawn.pays(2), *drawn.thoughts(1)]
        later, filling = drawn.pays(2), drawn.sets(MOST_ADDED + 3)
        spent = len(before) + 1 + len(later) + MOST_ADDED + chance.randint(1, 2)
        steps = [*before, {"id": f"ask_{number}", "type": "tool", "tool": "ask"}]
        program = _program(number, [*steps, *later, *filling], spent)
        run = self._begin(program, spent) if number else self._started(program)
        moves = 0
        while run.suspensions:
            if moves < MOVES and chance.random() < 0.5:
                moves += 1
                later = [*drawn.pays(1), *later]
                rest = _program(number, [*steps, *later, *filling], spent)
                self._move(run, rest)
            self.case.act(f"answer run `{run.id}`")
            run = self._last(self.case.do(self.machine.resume(run.suspensions[0].token)))
        drawn.due += [step["args"]["order"] for step in (*steps, *later) if step.get("tool") == "pay"]
        self.case.hold(run.status == INTERRUPTED, Invariant.BOUNDS, f"a run with too few steps is {run.status}")
        self.last = run

    def _started(self, program: Program) -> Run:
        self.case.log(f"run this program: {to_json(freeze(program.to_dict()))}")
        return self.case.do(self.machine.run(program, {"mail": SECRET}, run_id="r"))

    def _begin(self, program: Program, steps: int) -> Run:
        """Continue the last run, with so many steps."""
        self.case.log(f"continue `{self.last.id}` by this program: {to_json(freeze(program.to_dict()))}")
        run = self.case.do(self.machine.continue_run(self.last.id, program, ["mail"], grant={"steps": steps}))
        self.granted.append(run.id)
        return run

    def _move(self, run: Run, program: Program) -> None:
        self.case.log(f"move `{run.id}` to this version: {to_json(freeze(program.to_dict()))}")
        self.case.do(self.machine.migrate(run.id, program))

    def _last(self, run: Run) -> Run:
        """Return the run that goes on with one that has moved."""
        while run.has_moved:
            first, _, number = run.id.partition("~")
            run = self.case.do(self.machine.get(f"{first}~{int(number or 0) + 1}"))
        return run

    def _repeat(self) -> None:
        """Continue by a program that pays again what some run has paid."""
        if not self.world.paid:
            return
        order, before = self.chance.choice(self.world.paid), len(self.world.paid)
        program = _program(99, [self.drawn.pay(order, "again")], None)
        self.case.act(f"continue `{self.last.id}` by a program that pays `{order}` again")
        run = self.case.do(self.machine.continue_run(self.last.id, program, ["mail"], grant={"steps": 9}))
        self.granted.append(run.id)
        was_paid = len(self.world.paid) > before
        self.case.hold(not was_paid, Invariant.ONCE, f"`{order}` is paid twice in a chain of {len(self._runs())} runs")

    def _think(self) -> None:
        """Continue by a program that asks models until no token is left."""
        granted = self.chance.choice((0, 0, 2))
        steps = [{"id": f"more_{one}", "type": "llm", "prompt": "say"} for one in range(MANY)]
        grant = {"steps": MANY + 9, **({"tokens": granted} if granted else {})}
        self.case.act(f"continue `{self.last.id}` by a program that asks {MANY} models, with {granted} more tokens")
        run = self.case.do(self.machine.continue_run(self.last.id, _program(99, steps, None), ["mail"], grant=grant))
        self.granted.append(run.id)
        due = TOKENS + granted
        message = f"a chain of {len(self._runs())} runs has {due} tokens, and has spent {self.world.asked}"
        self.case.hold(self.world.asked == due, Invariant.BOUNDS, message)

    def _take_out_a_grant(self) -> None:
        """Let a run have its steps without a grant, with right digests: a verification has to notice."""
        for run in self.granted:
            entries = self.store.read(run)
            records = [json.loads(entry.record) for entry in entries]
            link = records[0]["body"]["continues"]
            for granted in GRANTS:
                fewer = {name: value for name, value in link.items() if name != "granted"}
                forged = fewer if granted is None else {**fewer, "granted": granted}
                if forged == link:
                    continue
                first = {**records[0], "body": {**records[0]["body"], "continues": forged}}
                self.case.act(f"write that run `{run}` was granted {granted}")
                self._put(run, chained([first, *records[1:]]))
                faults = verify(self.store, run, replay=replayer(self.store, run)).faults
                self.case.hold(bool(faults), Invariant.TAMPERING, f"nobody notices that `{run}` was granted {granted}")
            self._put(run, entries)

    def _put(self, run: str, entries: Any) -> None:
        last, status = entries[-1], next(row.status for row in self.store.rows() if row.run == run)
        raw_store_of(self.store).put(run, entries, Head(run, last.seq, last.digest, None), status)

    def _erase(self) -> None:
        run = self.chance.choice(self._runs())
        self.case.act(f"erase run `{run}` of {self._runs()}")
        try:
            self.case.do(self.machine.erase(run, by="ann"))
        except StepwardError as error:
            self.case.hold(False, Invariant.ERASURE, f"the runs of a chain are not erased: {error}")
        left = [one for one in self._runs() if self.store.vault.get(one)]
        self.case.hold(not left, Invariant.ERASURE, f"`{run}` is erased, and the values of {left} are still there")


AMOUNT: Final = {"type": "number"}
SMALL: Final[dict[str, Any]] = {"id": "small", "type": "condition", "condition": "$amount < 100", "then": "noted"}
RULES: Final[dict[str, dict[str, Any]]] = {"fresh": {}, "once for all": {"fresh": False}}
"""Kinds of rules: a check counts for one amount, or for all that follow."""

READS: Final[dict[str, tuple[Any, dict[str, Any], bool]]] = {
    "the same amount": (["amount"], AMOUNT, True),
    "the same amount by name": ({"amount": "amount"}, AMOUNT, True),
    "another variable": ({"amount": "other"}, AMOUNT, False),
    "a variable that was computed": ({"amount": "more"}, AMOUNT, False),
    "a value of its own": ([], {"default": 90_000}, False),
}
"""What a continuation takes for the amount, the type of that input, and whether the check counts for it."""


class CheckedForAnother(Attack):
    """A run checks an amount, and is interrupted before the payment. A program that continues it pays this amount, or
    another one under the same name."""

    family = Family.TRANSITIONS
    surface = "continuation"
    action = "another value under the name of one that was checked"
    invariant = Invariant.GUARDRAIL
    defence = "an input with another value than its variable had counts as assigned"
    enumerates = "kinds of rules, and what a continuation reads"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Continue under each rule, with each amount, and count payments."""
        for kind, reads in case.each("the rule, the amount", tuple(product(RULES, READS))):
            reads_of_run, type_of, is_checked = READS[reads]
            tools = {"pay": {"effect": "write", "args": {"sum": AMOUNT}}}
            rule = {"name": "small first", "protects": {"tool": "pay"}, "requires": {"step": "small", "branch": "then"}}
            rule |= RULES[kind]
            pay = {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": "$amount"}}
            noted = {"id": "noted", "type": "set", "set": {"more": "$amount + 90000"}, "next_step": "pay"}
            data: dict[str, Any] = {"language": 2, "tools": tools}
            inputs = {"amount": AMOUNT, "other": AMOUNT}
            first = {"name": "first", "inputs": inputs, "guardrails": [rule], "steps": [SMALL, noted, pay]}
            paid: list[float] = []
            desk = {"pay": lambda sum: paid.append(sum)}  # noqa: B023, PLW0108
            machine = case.machine(desk, None, MemoryJournal(), clock=ManualClock())
            short = Program.from_dict({**data, **first, "max_steps": 2})
            run = case.do(machine.run(short, {"amount": 10, "other": 90_000}, run_id="run"))
            case.hold(run.status == INTERRUPTED, Invariant.BOUNDS, f"a run with too few steps is {run.status}")
            rest = Program.from_dict({**data, "name": "rest", "inputs": {"amount": type_of}, "steps": [pay]})
            case.act(f"check an amount under a rule that is {kind}, and pay {reads} in a continuation")
            run = case.do(machine.continue_run("run", rest, reads_of_run, grant={"steps": 9}))
            message = f"after a check of 10, {paid} are paid in a continuation that reads {reads}: it is {run.status}"
            case.hold(bool(paid) is (is_checked or kind != "fresh"), self.invariant, message)
        return Outcome.BLOCKED
