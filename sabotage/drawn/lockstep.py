"""The machine and the reference interpreter in lockstep: one program, one world, and everything that both say of it.

At each place where a run stands still they are held against one another, and the same is then done to both. Whoever
delivers is another process, and has what the journal says alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn.fate import PEOPLE, Manner, World, given
from stepward.sabotage.drawn.values import respelled
from stepward.sabotage.oracle import odd_of
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
from stepward.sabotage.reference.plain import Unworded, same, written
from stepward.vm import (
    DeliveryRefused,
    ExecutionVM,
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
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import misfits, replayer
from stepward.vm.machine.state import Limits

SECRETS: Final = (  # texts and numbers that inputs and outputs have, sensitive now and then
    "refund",
    "e" * 12,
    "4711471147",
    "9422942294",
    "9422942294",
)
DAYS: Final = {"2026-01-01": 1_767_225_600_000_000, "2026-01-02": 1_767_312_000_000_000}
"""Days on which machines run programs, and the microsecond at which each begins."""

LATE: Final = 22 * 3_600_000_000
"""Microseconds after midnight: late in a day, and before its end for all that a run does."""

SHARE_OF_SENSITIVE: Final = 0.5
SHARE_OF_PLAIN: Final = 0.1
"""How many of the runs are erased in the end that have sensitive values, or none."""

VERDICTS: Final = ("done", "done", "not_done", "not_done", "abandon")
MOST_TURNS: Final = 200
USUAL: Final = Manner()


class Case(NamedTuple):
    """A program, its policies, and a world for it.

    `later` are policies of machines that go on with the run, but for the first: new ones, or new versions of those that
    have the same names. `secrets` are what outputs, errors and requests repeat; those of `unique` stand nowhere but in
    sensitive values. `inputs` are drawn unless they are given. `day` is one of DAYS.
    """

    program: Program
    seed: str
    policies: Sequence[Policy] = ()
    later: Sequence[Policy] = ()
    manner: Manner = USUAL
    limits: Limits = Limits()
    secrets: tuple[str, ...] = SECRETS
    unique: tuple[str, ...] = ()
    inputs: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    day: str = "2026-01-01"

    def held(self, *, is_later: bool) -> list[Policy]:
        """Return the policies of a machine: of two that have one name, that of the later machine."""
        names = {policy.policy for policy in self.later} if is_later else set()
        kept = [policy for policy in self.policies if policy.policy not in names]
        return [*kept, *(self.later if is_later else ())]

    def waived(self, policies: Sequence[Policy]) -> list[str]:
        """Return the rules that policies waive on the day, as `policy:rule`."""
        return [
            f"{policy.policy}:{waiver.rule}"
            for policy in policies
            for waiver in policy.waivers
            if waiver.program == self.program.name and waiver.expiry >= self.day
        ]


Processes = dict[bool, ExecutionVM]
"""The machines that go on living: the one with the later policies, and the one without."""


class Machine:
    """The machine's side: tools and a model that say what the world says, and note what they were asked."""

    def __init__(self, world: World, case: Case, journal: Journal, run: str, kept: Processes) -> None:
        self.world = world
        self.case = case
        self.run = run
        self.clock = ManualClock(DAYS[case.day] + world.chance("hour").choice((0, LATE)))
        self.journal = journal
        self._spelling = world.chance("spelling")
        self._kept = kept
        self._keeps = world.chance("processes").random() < 0.5
        self.asked: list[Asked] = []
        self.cost = Decimal(0)
        self._keys: dict[tuple[str, int, int], str] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def vm(self, *, is_later: bool = False) -> ExecutionVM:
        """Return a machine, often of a new process; `is_later` says whether it has the later policies too."""
        old = self._kept.get(is_later)
        vm = self._kept[is_later] = ExecutionVM(
            self,
            self,
            self.journal,
            self.case.held(is_later=is_later),
            checker=None,
            clock=self.clock,
            limits=self.case.limits,
            random=Random(f"{len(self.asked)} {self.clock.time}").randbytes,
            **self.case.options,
        )
        if old is not None and self._keeps:  # it is the old process, which has what that has kept
            vm._plans, vm._stored, vm._known, vm._equipped = old._plans, old._stored, old._known, old._equipped
        return vm

    def respelled(self, value: Any) -> Any:
        """Return a value as it comes from outside: spelled in some way, which must not matter."""
        return respelled(value, self._spelling)

    def has(self, name: str) -> bool:
        """Return whether there is a tool: there is every one."""
        del name
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        """Say what the world says."""
        step, visit, attempt, performance = context.step, context.visit, context.attempt, context.performance
        self.asked.append(Asked(step, visit, attempt, performance, name, args))
        self._note_key((step, visit, performance), context.idempotency_key)
        said = await self._said(step, visit, attempt)
        if isinstance(said, Waits):
            return Suspend({"for": self.world.words(step, visit, attempt)})
        return self.respelled(said.value) if isinstance(said, Returned) else None

    def _note_key(self, performance: tuple[str, int, int], key: str) -> None:
        _equal("key", key, self._keys.setdefault(performance, key), str(performance))
        others = [one for one, held in self._keys.items() if held == key and one != performance]
        _equal("performances under one key", others, [])

    async def complete(self, request: Any) -> ModelReply:
        """Say what the world says."""
        step, visit, attempt = request.step, request.visit, request.attempt
        self.asked.append(Asked(step, visit, attempt, 0, "", {}, request.prompt, request.system))
        call = self.world.calls[step].call
        allowed, returns = getattr(call, "allowed_outputs", None), getattr(call, "returns", None)
        _equal("allowed", request.allowed, allowed)
        _equal("schema", request.schema, None if returns is None else returns.to_data())
        said = await self._said(step, visit, attempt)
        if not isinstance(said, Replied):
            return ModelReply("late")
        cost = Decimal(self.world.cost(step, visit, attempt))
        self.cost += cost
        return ModelReply(self.respelled(said.content), said.tokens, cost)

    async def _said(self, step: str, visit: int, attempt: int) -> Answer:
        if self.world.cancels(step, len(self.asked)):
            await self.vm().cancel(self.run)
        said = self.world.answer(step, visit, attempt)
        if isinstance(said, Raised):
            raise ValueError(f"{said.why} {self.world.words(step, visit, attempt)}")
        if isinstance(said, Lost):
            raise InDoubt(self.world.words(step, visit, attempt))
        if isinstance(said, TimedOut):
            self.clock.time += 10_000_000  # microseconds: later than any time-out, and no day later
        return said

    def stored_plan(self, *names: Any) -> Plan:
        """Return the plan that the store has; it is read once for all looks at the run."""
        if names not in self._plans:
            self._plans[names] = stored_plan(self.journal, *names)
        return self._plans[names]

    def history(self) -> History:
        """Return the run as its journal has it."""
        found = load(self.journal, self.run, self.stored_plan)
        assert found is not None
        return found


def _moves(found: History) -> list[Moved]:
    """Return the steps and sub-steps that a journal says were left; what was tried again is left out."""
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
    """How a run went: its ending, what is worth having met, and how many records it has."""

    ending: tuple[str, str]
    met: frozenset[str]
    records: int = 0


class Parted(AssertionError):  # noqa: N818 - it says what they did
    """The machine and the reference say different things: `about` says of what."""

    def __init__(self, about: str, what: str) -> None:
        super().__init__(f"{about}: {what}")
        self.about = about


def lockstep(case: Case) -> Told:
    """Run a program on both; raises Parted where they part."""
    return asyncio.run(played(case))


async def played(case: Case, journal: Journal | None = None, name: str = "run", kept: Processes | None = None) -> Told:
    """Do as `lockstep` does, in an event loop that runs, on a journal that may have other runs.

    `kept` are the processes that have played the case before.
    """
    plan = Plan(case.program, [one for one in case.policies if one.applies(case.program.name, "")])
    world = World(plan, case.seed, case.manner, case.secrets, case.limits.output_bytes)
    inputs = given(plan, world) if case.inputs is None else case.inputs
    machine = Machine(world, case, MemoryJournal() if journal is None else journal, name, {} if kept is None else kept)
    limits = case.limits
    waived = case.waived(case.policies)
    reference = Reference(
        case.program, case.policies, waived, max_output_bytes=limits.output_bytes, max_steps=limits.steps
    )
    by = world.starter()
    try:
        run = await machine.vm().run(case.program, machine.respelled(inputs), run_id=name, by=by or None)
    except RunRefused:
        run = None
    try:
        reference.start(inputs, by)
    except ValueError:
        if run is not None:
            raise Parted("inputs", f"the reference refuses what the machine takes: {inputs}") from None
        return Told(("", "refused"), frozenset())
    if run is None:
        raise Parted("inputs", f"the machine refuses what the reference takes: {inputs}")
    pair = _Pair(case, machine, reference)
    for turn in range(MOST_TURNS):
        pair.answer()
        pair.compare(run)
        if reference.is_over:
            again = await machine.vm().run(case.program, machine.respelled(inputs), run_id=name)
            _equal("the run when it is asked for again", again.snapshot(), run.snapshot())
            found = machine.history()
            if world.chance("erased").random() < (SHARE_OF_SENSITIVE if plan.has_sensitive else SHARE_OF_PLAIN):
                await pair.erase(run)
            pair.compare_records(run)
            met = frozenset(pair.met | {move.how for move in reference.log})
            return Told((reference.status, reference.reason), met, len(found.records))
        run = await pair.settle(run, turn)
    raise AssertionError("that run does not end")


class _Pair:
    """A run on the machine and the same run on the reference. `met` is what happened that is worth having met."""

    def __init__(self, case: Case, machine: Machine, reference: Reference) -> None:
        self.case, self.machine, self.reference, self.world = case, machine, reference, machine.world
        self.answered: list[Asked] = []
        self.met: set[str] = set()

    def answer(self) -> None:
        """Answer whatever the reference asks, until it waits for somebody or is over."""
        while self.reference.asked:
            for asked in self.reference.asked:
                self.answered.append(asked)
                if self.world.cancels(asked.step, len(self.answered)):
                    self.reference.cancel()
                    self.met.add("cancelled at work")
                said = self.world.answer(asked.step, asked.visit, asked.attempt)
                self.met.add(type(said).__name__)
                self.reference.answer(asked.step, said)

    # -- from outside --------------------------------------------------------------------------------------------------

    async def settle(self, run: Run, turn: int) -> Run:
        """Do to both what somebody does to a run that stands still; who it is may be refused."""
        chance, reference = self.world.chance("turn", turn), self.reference
        if chance.random() < 0.04:
            self.met.add("cancelled")
            reference.cancel()
            return await self.machine.vm().cancel(self.machine.run)
        step = chance.choice([*reference.waiting, *reference.doubtful])
        payload = self.world.value(step, chance) if chance.random() < 0.8 else chance.choice((None, 5, "zz", {}))
        by = chance.choice(PEOPLE)
        vm = self.machine.vm(is_later=bool(self.case.later) and chance.random() < 0.6)
        if step in reference.waiting:
            token = next(one.token for one in run.suspensions if one.step == step)
            delivered = vm.resume(token, self.machine.respelled(payload), by=by or None)
            due = self._resumed(step, payload, by, vm.policies)
            self.met |= {due, f"resumed {due == 'taken'}"}
        else:
            verdict: Any = chance.choice(VERDICTS)
            said = self.machine.respelled(payload)
            delivered = vm.reconcile(self.machine.run, step, verdict, said, by=by or None)
            due = self._reconciled(step, verdict, payload, by, vm.policies)
            self.met |= {due, f"{verdict} {due == 'taken'}"}
        try:
            run, came = await delivered, "taken"
        except (DeliveryRefused, RunRefused) as error:
            came = "not taken" if isinstance(error, DeliveryRefused) else "stopped"
        _equal(f"delivery by `{by}` to `{step}`", came, due, repr(payload))
        return run

    def _resumed(self, step: str, payload: Any, by: str, policies: Sequence[Policy]) -> str:
        """Return what becomes of a payload, and deliver it to the reference if it is taken."""
        reference, waived = self.reference, self.case.waived(policies)
        if not reference.takes(step, payload):
            return "not taken"
        if not reference.keeps(policies, waived):
            return "stopped"
        if not reference.may_settle(step, by, policies, waived):
            return "not taken"
        reference.come_under(policies, waived)
        assert reference.resume(step, payload, by)
        return "taken"

    def _reconciled(self, step: str, verdict: Any, payload: Any, by: str, policies: Sequence[Policy]) -> str:
        """Likewise, what becomes of a word about a write in doubt."""
        reference, waived = self.reference, self.case.waived(policies)
        if verdict != "abandon":
            if not reference.keeps(policies, waived):
                return "stopped"
            if verdict == "done":
                may_settle = reference.may_settle(step, by, policies, waived)
                if not may_settle or not reference.takes(step, payload):
                    return "not taken"
            reference.come_under(policies, waived)
        assert reference.reconcile(step, verdict, payload, by)
        return "taken"

    async def erase(self, run: Run) -> None:
        """Erase a run that is over, twice: its values are gone, and all else is as it was."""
        machine = self.machine
        for number in range(2):
            erased = await machine.vm().erase(run.id, by=self.world.starter() or None)
            found = machine.history()
            told = [record.kind for record in found.records].count("erased")
            _equal("erasures on record", told, 1 if found.plan.has_sensitive else 0, f"after {number + 1}")
            _equal("values that were erased", sorted(machine.journal.vault.get(run.id)), [])
            _equal("ending", (erased.status, erased.reason), (run.status, run.reason), "after its erasure")
            _equal("state when read again", erased.trace_hash, run.trace_hash, "after its erasure")
            shown = erased.view("trace").items()  # what an error quoted stays redacted
            left = [name for name, value in shown if value == REDACTED and not name.endswith(".error")]
            _equal("values that were erased", left, [])

    # -- held against one another --------------------------------------------------------------------------------------

    def compare(self, run: Run) -> None:
        """Hold everything that both say against one another; raises Parted."""
        reference, machine = self.reference, self.machine
        _equal("ending", (run.status, run.reason), (reference.status, reference.reason), run.error)
        _equal("charges", (run.steps, run.tokens, run.cost), (reference.steps, reference.tokens, machine.cost))
        _equal("held", [one.step for one in run.suspensions], list(reference.waiting))
        _equal("doubts", [one.step for one in run.doubts], list(reference.doubtful))
        self._compare_values(run)
        self._compare_calls()
        _equal("broken", sorted(name for name, _ in run.broken), sorted(reference.broken()))
        found = machine.history()
        _compare_moves(_moves(found), reference.log, found.plan)
        _equal("dialect of patterns", found.records[0].body.get("patterns"), "re2" if self._has_patterns() else None)
        if found.last.seq == run.seq:  # what was refused since is a record, too
            again = Run(machine.run, found.plan, found.state, found.last)
            _equal("state when read again", again.snapshot(), run.snapshot())
        _equal("misfits of an honest journal", [fault.what for fault in misfits(found)], [])
        self._look_for_secrets(run)

    def compare_records(self, run: Run) -> None:
        """Hold the journal against its page, the verification, and what a replay has of it."""
        journal = self.machine.journal
        faults = verify(journal, run.id, replay=replayer(journal, run.id, (), self.machine.stored_plan)).faults
        _equal("misfits of an honest journal", [fault.what for fault in faults], [])
        _equal("records", odd_of(journal, run), None)

    def _has_patterns(self) -> bool:
        said = (self.case.program.to_dict(), *(policy.to_data() for policy in self.case.policies))
        return any(_has_pattern(one) for one in said)

    def _compare_values(self, run: Run) -> None:
        reference = self.reference
        known = dict(run.view("tool"))
        told = {
            **reference.values,
            **{f"{step}.output": value for step, value in reference.outputs.items()},
            **{f"{step}.error": Unworded() for step in reference.errors},
        }
        _equal("names", sorted(known), sorted(told))
        for name, value in known.items():
            if not alike(value, told[name]):
                raise Parted("values", f"`{name}` is {value!r}, and {told[name]!r} to the reference")
        _equal("sensitive", sorted(known.keys() - run.view("model").keys()), sorted(reference.hidden))
        if not alike(run.output, reference.output):
            raise Parted("values", f"the output is {run.output!r}, and {reference.output!r} to the reference")

    def _compare_calls(self) -> None:
        asked, answered = self.machine.asked, self.answered
        _equal("asked", len(asked), len(answered), str(asked[-1:]) + str(answered[-1:]))
        for ours, theirs in zip(sorted(asked, key=_order), sorted(answered, key=_order), strict=True):
            _equal("asked", _order(ours), _order(theirs))
            if ours.tool:
                said = (theirs.tool, theirs.performance)
                _equal("performance", (ours.tool, ours.performance), said, str(_order(ours)))
            pairs = ((dict(ours.args), theirs.args), (ours.prompt, theirs.prompt), (ours.system, theirs.system))
            for one, other in pairs:
                if not alike(one, other):
                    raise Parted("arguments", f"{_order(ours)} is asked {one!r}, and {other!r} by the reference")

    def _look_for_secrets(self, run: Run) -> None:
        """Look for what stands in sensitive values alone, in all that is neither the vault nor given to tools."""
        if not self.case.unique:
            return
        places = [entry.record.decode() for entry in self.machine.journal.read(self.machine.run)]
        places += [run.error, *(f"{one.prompt} {one.system}" for one in self.machine.asked if not one.tool)]
        places += [written(dict(run.view(kind))) for kind in ("trace", "model")]
        places += [repr(one.request) for one in run.suspensions]
        for text in (*self.case.unique, *sorted(self.world.said)):
            forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
            for place in places:
                if any(form in place for form in forms):
                    raise Parted("secrets", f"`{text}` stands in `{place[:200]}`")


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
            _equal("sub-step", last.get((move.step, move.visit)), move)


def _order(asked: Asked) -> tuple[str, int, int]:
    return asked.step, asked.visit, asked.attempt


def _has_pattern(data: Any) -> bool:
    if isinstance(data, Mapping):
        return "pattern" in data or any(map(_has_pattern, data.values()))
    return isinstance(data, list | tuple) and any(map(_has_pattern, data))


def _equal(what: str, ours: Any, theirs: Any, more: str = "") -> None:
    if ours != theirs:
        raise Parted(what, f"{ours} to the machine, {theirs} to the reference {more}")


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
