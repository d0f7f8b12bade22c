"""The machine and the reference interpreter in lockstep: one program, one world, and everything that both say of it.

The world's answers hang on a seed and on what is asked (step, visit, attempt), so that both can be asked apart. At each
place where a run stands still they are held against one another, and the same is then done to both.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from machines import unchecked
from replays import sample
from spellings import SPELLINGS
from stepward.sabotage.reference import (
    Answer,
    Asked,
    Lost,
    Moved,
    Raised,
    Reference,
    Replied,
    Returned,
    TimedOut,
    Waits,
)
from stepward.sabotage.reference.plain import Unworded, same
from stepward.vm import (
    DeliveryRefused,
    InDoubt,
    MemoryJournal,
    ModelReply,
    Policy,
    Program,
    Run,
    RunRefused,
    Suspend,
    ToolContext,
)
from stepward.vm.language.types import fits
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.values import freeze

KINDS = ("good", "raise", "late", "lost", "odd", "wait")
WEIGHTS = [
    (8, 1, 1, 1, 1, 4),
    (30, 1, 1, 0, 0, 9),
    (3, 2, 2, 2, 2, 2),
    (4, 4, 0, 0, 1, 3),
    (4, 0, 4, 1, 0, 1),
    (6, 0, 0, 3, 2, 1),
]
ODD: list[Any] = [
    None,
    5,
    -1.5,
    True,
    "zz",
    " yes ",
    [],
    [1, "a"],
    {},
    {"a": 1},
    float("nan"),
    object(),
    "\ud800",
    "[1]",
]
SECRETS = (  # texts and numbers that inputs and outputs have, sensitive now and then
    "refund",
    "e" * 12,
    "4711471147",
    "9422942294",
    "9422942294",
)
TODAY = "2026-01-01"
"""The day on the clock of the machine."""

VERDICTS = ("done", "done", "not_done", "not_done", "abandon")


class World:
    """What a seed answers, and what it does to a run that waits for somebody."""

    def __init__(self, plan: Plan, seed: str) -> None:
        self.seed = seed
        self.calls: dict[str, CallPlan] = {call.id: call for step in plan.steps for call in step.calls}
        self.top = {step.id for step in plan.program.steps}
        self.weights = self.chance("weights").choice(WEIGHTS)
        self.cancelled_at = self.chance("cancel").choice([0] * 9 + [1, 2, 3])
        """The number of the call during which somebody cancels the run; 0 for never."""

    def chance(self, *names: Any) -> random.Random:
        return random.Random(" ".join(map(str, (self.seed, *names))))

    def cancels(self, step: str, number: int) -> bool:
        """Return whether somebody cancels the run during a call: at a write, which the machine commits at once.

        Not at a sub-step: which of its siblings have started by then is a matter of timing.
        """
        return number == self.cancelled_at and self.calls[step].writes and step in self.top

    def value(self, step: str, chance: random.Random) -> Any:
        call = self.calls[step]
        if call.allowed:
            return chance.choice(call.allowed)
        value = self.echo(step, sample(call.returns, chance))
        return value if not call.is_model or isinstance(value, str) or chance.random() < 0.3 else json.dumps(value)

    def echo(self, step: str, value: Any) -> Any:
        """Return an output that may repeat a sensitive value, in some spelling, in some part of it."""
        chance = self.chance("echo", step, repr(value))
        if chance.random() < 0.7:
            return value
        secret = chance.choice(SECRETS)
        said = chance.choice(list(SPELLINGS.values()))(secret)
        found = _with(value, said, chance)
        return found if fits(freeze(found), self.calls[step].returns) else value

    def answer(self, step: str, visit: int, attempt: int, performance: int) -> Answer:
        call, chance = self.calls[step], self.chance(step, visit, attempt)
        kind = chance.choices(KINDS, self.weights)[0]
        if (kind == "late" and call.timeout is None) or (
            kind == "wait" and not call.may_suspend and chance.random() < 0.9
        ):
            kind = "good"
        if kind == "raise":
            return Raised(why=chance.choice("ab"))
        if kind in ("late", "lost"):
            return TimedOut() if kind == "late" else Lost()
        if kind == "wait" and not call.is_model:
            return Waits()
        value = chance.choice(ODD) if kind == "odd" else self.value(step, chance)
        return Replied(value, chance.randint(0, 4)) if call.is_model else Returned(value)


def _with(value: Any, said: str, chance: random.Random) -> Any:
    if isinstance(value, str):
        return chance.choice([said, {"a": said}, {said: 1, "b": 2}, ["x", [said]]]) if chance.random() < 0.5 else said
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        return value | ({name: _with(value[name], said, chance)} if chance.random() < 0.8 else {said: 5})
    if isinstance(value, list):
        return [*value, said]
    return int(said) if said.isascii() and said.isdigit() and isinstance(value, int) else value


class Machine:
    """The machine's side: tools and a model that say what the world says, and note what they were asked."""

    def __init__(self, world: World, policies: Sequence[Policy] = ()) -> None:
        self.world = world
        self.clock = ManualClock()
        self.journal = MemoryJournal()
        self.asked: list[Asked] = []
        self.vm = unchecked(self, self, self.journal, policies, clock=self.clock)

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        step, visit, attempt, performance = context.step, context.visit, context.attempt, context.performance
        self.asked.append(Asked(step, visit, attempt, performance, name, args))
        said = await self.said(step, visit, attempt, performance)
        if isinstance(said, Waits):
            return Suspend({"for": step})
        return said.value if isinstance(said, Returned) else None

    async def complete(self, request: Any) -> ModelReply:
        step, visit, attempt = request.step, request.visit, request.attempt
        self.asked.append(Asked(step, visit, attempt, 0, "", {}, request.prompt, request.system))
        said = await self.said(step, visit, attempt, 0)
        return ModelReply(said.content, said.tokens) if isinstance(said, Replied) else ModelReply("late")

    async def said(self, step: str, visit: int, attempt: int, performance: int) -> Answer:
        if self.world.cancels(step, len(self.asked)):
            await unchecked(journal=self.journal, clock=self.clock).cancel("run")
        said = self.world.answer(step, visit, attempt, performance)
        if isinstance(said, Raised):
            raise ValueError(said.why)
        if isinstance(said, Lost):
            raise InDoubt("lost")
        if isinstance(said, TimedOut):
            self.clock.time += 10**12
        return said

    def moves(self, run: Run) -> list[Moved]:
        """Return the steps and sub-steps that the journal says were left; what was tried again is left out."""
        found = load(self.journal, "run", lambda *names: stored_plan(self.journal, *names))
        assert found is not None
        return [move for record in found.records if (move := _move(record.kind, record.body)) is not None]


def _move(kind: str, body: Mapping[str, Any]) -> Moved | None:
    how = str(body.get("kind", ""))
    if kind in ("attempt", "resumed", "reconciled"):
        if how not in ("success", "fallback", "failed", "skipped"):
            return None
    elif kind == "joined":
        if how == "again":
            return None
        how = "joined" if how == "success" else how
    elif kind == "branched":
        how = "uncovered" if body["branch"] is None else str(body["branch"])
    elif kind == "ended":
        if "step" not in body:
            return None
        how = "end"
    elif kind in ("assigned", "passed", "rejected"):
        how = {"assigned": "set", "passed": "visits", "rejected": "blocked"}[kind]
    elif kind != "blocked":
        return None
    return Moved(body["step"], body["visit"], how, body.get("next"))


class Told(NamedTuple):
    """How a run went: its ending, and how often each thing happened that is worth having met."""

    ending: tuple[str, str]
    met: frozenset[str]


class Parted(AssertionError):  # noqa: N818 - it says what they did
    """The machine and the reference say different things."""


def lockstep(
    program: Program, seed: str, inputs: Mapping[str, Any] | None = None, policies: Sequence[Policy] = ()
) -> Told:
    """Run a program on both; raises Parted where they part."""
    return asyncio.run(_lockstep(program, seed, inputs, policies))


async def _lockstep(program: Program, seed: str, inputs: Mapping[str, Any] | None, policies: Sequence[Policy]) -> Told:
    plan = Plan(program, list(policies))
    world = World(plan, seed)
    if inputs is None:
        inputs = {
            name: sample(spec, world.chance("input", name))
            if world.chance("odd", name).random() < 0.97
            else world.chance("o", name).choice(ODD)
            for name, spec in plan.input_types.items()
            if spec is None or not spec.has_default or world.chance("given", name).random() < 0.5
        }
    waived = [
        f"{policy.policy}:{waiver.rule}"
        for policy in policies
        for waiver in policy.waivers
        if waiver.program == program.name and waiver.expiry >= TODAY
    ]
    machine, reference = Machine(world, policies), Reference(program, policies, waived)
    try:
        run = await machine.vm.run(program, inputs, run_id="run")
    except RunRefused:
        run = None
    try:
        reference.start(inputs)
    except ValueError:
        if run is not None:
            raise Parted(f"the reference refuses inputs that the machine takes: {inputs}") from None
        return Told(("", "refused"), frozenset())
    if run is None:
        raise Parted(f"the machine refuses inputs that the reference takes: {inputs}")
    met: set[str] = set()
    answered: list[Asked] = []
    for turn in range(200):
        _answer(reference, world, answered, met)
        _compare(machine, run, reference, answered, plan)
        if reference.is_over:
            return Told((reference.status, reference.reason), frozenset(met | {move.how for move in reference.log}))
        run = await _settle(machine, run, reference, world, turn, met)
    raise AssertionError("that run does not end")


def _answer(reference: Reference, world: World, answered: list[Asked], met: set[str]) -> None:
    """Answer whatever the reference asks, until it waits for somebody or is over."""
    while reference.asked:
        for asked in reference.asked:
            answered.append(asked)
            if world.cancels(asked.step, len(answered)):
                reference.cancel()
                met.add("cancelled at work")
            said = world.answer(asked.step, asked.visit, asked.attempt, asked.performance)
            met.add(type(said).__name__)
            reference.answer(asked.step, said)


async def _settle(machine: Machine, run: Run, reference: Reference, world: World, turn: int, met: set[str]) -> Run:
    """Do to both what somebody does to a run that stands still."""
    chance = world.chance("turn", turn)
    if chance.random() < 0.04:
        met.add("cancelled")
        reference.cancel()
        return await machine.vm.cancel("run")
    held = [*reference.waiting, *reference.doubtful]
    step = chance.choice(held)
    payload = world.value(step, chance) if chance.random() < 0.8 else chance.choice(ODD)
    if step in reference.waiting:
        token = next(one.token for one in run.suspensions if one.step == step)
        is_taken, delivered = reference.resume(step, payload), machine.vm.resume(token, payload)
        met.add(f"resumed {is_taken}")
    else:
        verdict: Any = chance.choice(VERDICTS)
        is_taken = reference.reconcile(step, verdict, payload)
        delivered = machine.vm.reconcile("run", step, verdict, payload)
        met.add(f"{verdict} {is_taken}")
    try:
        run = await delivered
    except DeliveryRefused:
        if is_taken:
            raise Parted(f"the machine refuses what the reference takes for `{step}`: {payload!r}") from None
        return run
    if not is_taken:
        raise Parted(f"the machine takes what the reference refuses for `{step}`: {payload!r}")
    return run


def _compare(machine: Machine, run: Run, reference: Reference, answered: list[Asked], plan: Plan) -> None:
    """Hold everything that both say against one another."""
    _equal("ending", (run.status, run.reason), (reference.status, reference.reason), run.error)
    _equal("charges", (run.steps, run.tokens), (reference.steps, reference.tokens))
    _equal("held", [one.step for one in run.suspensions], list(reference.waiting))
    _equal("doubts", [one.step for one in run.doubts], list(reference.doubtful))
    known = dict(run.view("tool"))
    told = {
        **reference.values,
        **{f"{step}.output": value for step, value in reference.outputs.items()},
        **{f"{step}.error": Unworded() for step in reference.errors},
    }
    _equal("names", sorted(known), sorted(told))
    for name, value in known.items():
        if not alike(value, told[name]):
            raise Parted(f"`{name}` is {value!r}, and {told[name]!r} to the reference")
    _equal("sensitive", sorted(known.keys() - run.view("model").keys()), sorted(reference.hidden))
    if not alike(run.output, reference.output):
        raise Parted(f"the output is {run.output!r}, and {reference.output!r} to the reference")
    _equal("asked", len(machine.asked), len(answered), str(machine.asked[-1:]) + str(answered[-1:]))
    order = lambda asked: (asked.step, asked.visit, asked.attempt)  # noqa: E731
    for ours, theirs in zip(sorted(machine.asked, key=order), sorted(answered, key=order), strict=True):
        _equal("asked", order(ours), order(theirs))
        if ours.tool:
            _equal("performance", (ours.tool, ours.performance), (theirs.tool, theirs.performance), str(order(ours)))
        for one, other in ((dict(ours.args), theirs.args), (ours.prompt, theirs.prompt), (ours.system, theirs.system)):
            if not alike(one, other):
                raise Parted(f"{order(ours)} is asked {one!r}, and {other!r} by the reference")
    _equal("broken", sorted(name for name, _ in run.broken), sorted(reference.broken()))
    _compare_moves(machine.moves(run), reference.log, plan)


def _compare_moves(moves: list[Moved], log: list[Moved], plan: Plan) -> None:
    steps = {step.id: step for step in plan.program.steps}
    kinds = {name: step.type for name, step in steps.items()}
    top = [
        move._replace(how="error") if kinds[move.step] in ("set", "condition", "end") and move.how == "failed" else move
        for move in moves
        if move.step in kinds
    ]
    _equal("moves", top, [move for move in log if move.step in kinds])
    # Of a sub-step, how it ended is what its last record of the visit says; those of a step that never joined are not
    # in the log.
    last = {(move.step, move.visit): move for move in moves if move.step not in kinds}
    for move in log:
        if move.step not in kinds:
            _equal("sub-step", last[move.step, move.visit], move)


def _equal(what: str, ours: Any, theirs: Any, more: str = "") -> None:
    if ours != theirs:
        raise Parted(f"{what}: {ours} to the machine, {theirs} to the reference {more}")


def alike(machine: Any, reference: Any) -> bool:
    """Return whether two values are one, where the words of errors are anything."""
    if isinstance(reference, Unworded):
        return isinstance(machine, str)
    if isinstance(reference, dict):
        return (
            isinstance(machine, dict)
            and machine.keys() == reference.keys()
            and all(alike(machine[key], item) for key, item in reference.items())
        )
    if isinstance(reference, tuple):
        return isinstance(machine, tuple) and len(machine) == len(reference) and all(map(alike, machine, reference))
    return same(machine, reference)
