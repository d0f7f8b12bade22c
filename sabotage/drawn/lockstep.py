"""The machine and the reference interpreter in lockstep: they run one program in one world and are compared.

At each stop of a run both are compared, and then get the same delivery. The delivering process is a new one, which
knows only the journal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.sabotage.drawn import around, showing
from stepward.sabotage.drawn.held import alike, held_by, sealed_in, tells
from stepward.sabotage.drawn.machine import DAYS, DrawnCase, Machine, Parted, Processes, equal
from stepward.sabotage.drawn.passing import catch_up, compare_waits, let_pass, may_pass
from stepward.sabotage.drawn.world import PEOPLE, DrawnWorld, inputs_of
from stepward.sabotage.playing.oracle import odd_of
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.playing.quiet import without_log_of_caches
from stepward.sabotage.reference import (
    Moved,
    PendingCall,
    Reference,
    facts,
)
from stepward.sabotage.reference.data import outermost
from stepward.sabotage.reference.plain import Unworded, written
from stepward.sabotage.stores.plain_records import branch_of
from stepward.vm import (
    DeliveryRefused,
    ExecutionVM,
    MemoryJournal,
    Policy,
    Run,
    RunRefused,
)
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.authority import Envelope
from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.history import History
from stepward.vm.machine.keys import shown
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.replay import misfits, replayer

TIMED: Final = ("guardrail", "max_steps")
"""The reasons for which a run ends while its branches go on: what these had done by then depends on timing."""

SHARE_OF_SENSITIVE: Final = 0.5
SHARE_OF_PLAIN: Final = 0.1
"""The shares of runs that are erased at their end: with sensitive values, and without."""

SHARE_OF_CANCELLED: Final = 0.08
SHARE_OF_TIME: Final = 0.5
"""The share of stops at which a run is cancelled."""

VERDICTS: Final = ("done", "done", "not_done", "not_done", "abandon")
MOST_TURNS: Final = 200


def _compare_facts(plan: Plan, policies: Sequence[Policy]) -> None:
    """Compare the machine's facts of tools with those of program and policies."""
    for call in (call for step in plan.steps for call in step.calls if not call.is_model):
        due = facts.tool(call.tool, plan.program, policies)
        known = "write" if call.writes else "read", call.keeps_key, call.may_suspend
        expected = "write" if due.effect == "write" else "read", due.idempotent, due.suspends
        equal(f"tool `{call.tool}`", known, expected, "effect, idempotent, suspends")
        equal(f"arguments of `{call.tool}`", call.arg_types, due.args)
        equal(f"errors of `{call.tool}`", set(call.errors), set(due.errors))


def _moves(found: History) -> list[Moved]:
    """Return the steps and sub-steps that were left according to a journal, without retries."""
    return [move for record in found.records if (move := _move(record.kind, record.body)) is not None]


def _move(kind: str, body: Mapping[str, Any]) -> Moved | None:
    how = str(body.get("kind", ""))
    if kind in ("attempt", "expired", "resumed", "reconciled"):
        if how not in ("success", "fallback", "failed", "skipped"):
            return None
    elif kind == "joined":
        if how == "again":
            return None
        how = "joined" if how == "success" else how
    elif kind == "branched":
        how = "uncovered" if body["branch"] is None else str(body["branch"])
    elif kind == "closed":
        how = "end"
    elif kind == "ended":
        if "step" not in body:
            return None
        how = "end"
    elif kind in ("assigned", "waited", "passed", "rejected"):
        how = {"assigned": "set", "waited": "waited", "passed": "visits", "rejected": "blocked"}[kind]
    elif kind != "blocked":
        return None
    return Moved(body["step"], body["visit"], how, body.get("next"), tuple(map(tuple, body.get("frame", ()))))


class RunSummary(NamedTuple):
    """The summary of a run: its ending, the events worth covering, and the number of records."""

    ending: tuple[str, str]
    met: frozenset[str]
    records: int = 0


def lockstep(case: DrawnCase) -> RunSummary:
    """Run a program on both. Raises Parted if they differ."""
    return asyncio.run(played(case))


async def played(
    case: DrawnCase, journal: Journal | None = None, name: str = "run", processes: Processes | None = None
) -> RunSummary:
    """Do the same as `lockstep`, in a running event loop, on a journal that may have other runs.

    `processes` are those that have played the case before.
    """
    with without_log_of_caches():
        return await _played(case, journal, name, processes)


async def _played(case: DrawnCase, journal: Journal | None, name: str, processes: Processes | None) -> RunSummary:
    plan = Plan(case.program, facts.policies_of(case.program, case.policies))
    _compare_facts(plan, facts.policies_of(case.program, case.policies))
    world = DrawnWorld(plan, case.seed, case.manner, case.secrets, case.limits.output_bytes)
    inputs = inputs_of(plan, world) if case.inputs is None else case.inputs
    run_id = world.run_id(name)
    machine = Machine(
        world, case, MemoryJournal() if journal is None else journal, run_id, {} if processes is None else processes
    )
    limits = case.limits
    waived = case.waived(case.policies, DAYS[case.day])
    reference = Reference(
        case.program,
        case.policies,
        waived,
        max_output_bytes=limits.output_bytes,
        max_state_bytes=limits.state_bytes,
        max_steps=limits.steps,
    )
    reference.now = DAYS[case.day]
    by, envelope = world.starter(), world.envelope()
    gate = None if envelope is None else Envelope(envelope[0], "gate", settles_own=envelope[1])
    given_inputs = machine.respelled(inputs)
    try:
        run = await outlived(
            machine,
            0,
            lambda vm: vm.run(case.program, given_inputs, run_id=run_id, by=by or None, envelope=gate),
            ("started",),
        )
    except RunRefused:
        run = None
    try:
        reference.start(inputs, by, "" if envelope is None or envelope[1] else envelope[0])
    except ValueError:
        if run is not None:
            raise Parted("inputs", f"the reference refuses what the machine takes: {inputs}") from None
        return RunSummary(("", "refused"), frozenset())
    if run is None:
        raise Parted("inputs", f"the machine refuses what the reference takes: {inputs}")
    pair = _Pair(case, machine, reference)
    for turn in range(MOST_TURNS):
        pair.answer()
        pair.compare(run)
        await around.compare_idle(machine, run)
        if reference.is_over:
            again = await machine.vm().run(case.program, machine.respelled(inputs), run_id=run_id)
            equal("the run when it is asked for again", again.snapshot(), run.snapshot())
            equal("held", (again.suspensions, again.doubts), ((), ()))
            found = machine.history()
            if not pair.is_timed(run):
                around.compare_notes(machine, reference, pair.people)
            if world.chance("erased").random() < (SHARE_OF_SENSITIVE if plan.has_sensitive else SHARE_OF_PLAIN):
                await pair.erase(run)
            pair.compare_records(run)
            met = frozenset(pair.met | {move.how for move in reference.log} | ({"died"} if machine.died else set()))
            met |= {"expired"} & {record.kind for record in found.records}
            return RunSummary((reference.status, reference.reason), met, len(found.records))
        run = await pair.settle(run, turn)
    raise AssertionError("that run does not end")


_Place = tuple[str, tuple[Any, ...]]
"""A step, and the frame in which it waits."""

Request = Callable[[ExecutionVM], Awaitable[Run]]
"""A request to a machine that drives a run."""


async def outlived(machine: Machine, later: int, request: Request, lands: Collection[str]) -> Run:
    """Make a request until a process lives long enough for it. After each death another process recovers all runs.

    `lands` has the kinds of record that show that the request was accepted. Raises the refusals of the machine.
    """
    head = machine.journal.head(machine.run)
    first = 0 if head is None else head.seq + 1
    has_landed = False
    while True:
        vm = machine.vm(later, is_mortal=True)
        try:
            if not has_landed:
                return await request(vm)
            recovered = await vm.recover()
            return recovered[0] if recovered else await vm.get(machine.run)
        except Killed:
            machine.bury()
            machine.died += 1
            kinds = {json.loads(entry.record)["kind"] for entry in machine.journal.read(machine.run, first)}
            has_landed = not kinds.isdisjoint(lands)


class _Pair:
    """A run on the machine and the same run on the reference. `met` has the events worth covering.

    `people` has the names of those who delivered, by the kind of record, in order.
    """

    def __init__(self, case: DrawnCase, machine: Machine, reference: Reference) -> None:
        self.case, self.machine, self.reference, self.world = case, machine, reference, machine.world
        self.answered: list[PendingCall] = []
        self.met: set[str] = set()
        self.people: list[tuple[str, str]] = [("started", machine.world.starter())]

    def answer(self) -> None:
        """Answer the calls of the reference until it waits for a delivery or is over."""
        while self.reference.asked:
            for call in self._next():
                self.answered.append(call)
                if self.world.cancels(call.step, len(self.answered)):
                    self.reference.cancel()
                    self.met.add("cancelled at work")
                outcome = self.world.answer(*call.place)
                self.met.add(type(outcome).__name__)
                self.reference.answer(call.step, outcome, call.frame)

    def _next(self) -> list[PendingCall]:
        """Return the calls to answer next: all of a wave, or one of those in a step with `depends_on`."""
        calls = list(self.reference.asked)
        if not self.world.is_ordered(calls[0].step):
            return calls
        if self.world.has_branches:
            return [min(calls, key=lambda one: self.world.rank(*one.place))]
        return [min(calls, key=lambda one: self.world.rank(*one[:3]))]

    # -- deliveries ----------------------------------------------------------------------------------------------------

    async def settle(self, run: Run, turn: int) -> Run:
        """Make one delivery to both stopped runs. The person who delivers may be refused."""
        chance, reference = self.world.chance("turn", turn), self.reference
        if chance.random() < SHARE_OF_CANCELLED:
            self.met.add("cancelled")
            reference.cancel()
            who = chance.choice(PEOPLE)
            self.people.append(("cancel", who))
            run_id = self.machine.run
            return await outlived(self.machine, 0, lambda vm: vm.cancel(run_id, by=who or None), ("cancel",))
        suspended = reference.held
        is_timed = may_pass(reference) or self.case.program.timeout_seconds is not None
        if is_timed and (not suspended or chance.random() < SHARE_OF_TIME):
            self.met.add("time passed")
            return await let_pass(self.machine, reference, outlived, self.answer)
        phase, step, frame = chance.choice(suspended)
        payload = self.world.value(step, chance) if chance.random() < 0.8 else chance.choice((None, 5, "zz", {}))
        by = chance.choice(PEOPLE)
        most = len(self.case.later)
        later = min(chance.randint(0, most + 1), most)
        policies, value = self.case.policies_with(later), self.machine.respelled(payload)
        request: Request
        verdict: Any = None
        if phase == "waits":
            token = next(one.token for one in run.suspensions if (one.step, one.frame) == (step, frame))
            kind = "resumed"
            request = lambda vm: vm.resume(token, value, by=by or None)  # noqa: E731
            due = self._resumed((step, frame), payload, by, policies)
            self.met |= {due, f"resumed {due == 'taken'}"}
        else:
            verdict = chance.choice(VERDICTS)
            run_id, kind = self.machine.run, "reconciled"
            place = shown(frame, step)
            request = lambda vm: vm.reconcile(run_id, place, verdict, value, by=by or None)  # noqa: E731
            due = self._reconciled((step, frame), verdict, payload, by, policies)
            self.met |= {due, f"{verdict} {due == 'taken'}"}
        if due == "taken":
            self.people.append((kind, by))
        elif due == "not taken" and kind == "resumed":
            self.people.append(("refused", by))
        waived = self.case.waived(policies, self.machine.clock.time)
        try:
            run, result = await outlived(self.machine, later, request, (kind,)), "taken"
        except (DeliveryRefused, RunRefused) as error:
            result = "not taken" if isinstance(error, DeliveryRefused) else "stopped"
        equal(f"delivery by `{by}` to `{step}`", result, due, repr(payload))
        if due == "taken":  # the machine comes first: what it writes says how large the state of both is
            if verdict != "abandon":
                reference.add_policies(policies, waived)
            if verdict:
                assert reference.reconcile(step, verdict, payload, by, frame)
            else:
                assert reference.resume(step, payload, by, frame)
        return run

    def _resumed(self, place: _Place, payload: Any, by: str, policies: Sequence[Policy]) -> str:
        """Return the outcome of a payload to the reference."""
        reference, waived = self.reference, self.case.waived(policies, self.machine.clock.time)
        step, frame = place
        if not reference.takes(step, payload, frame):
            return "not taken"
        if not reference.satisfies(policies, waived):
            return "stopped"
        if not reference.may_settle(step, by, policies, waived):
            return "not taken"
        return "taken"

    def _reconciled(self, place: _Place, verdict: Any, payload: Any, by: str, policies: Sequence[Policy]) -> str:
        """Return the outcome of a verdict on a write in doubt to the reference."""
        reference, waived = self.reference, self.case.waived(policies, self.machine.clock.time)
        step, frame = place
        if verdict != "abandon":
            if not reference.satisfies(policies, waived):
                return "stopped"
            if verdict == "done":
                may_settle = reference.may_settle(step, by, policies, waived)
                if not may_settle or not reference.takes(step, payload, frame):
                    return "not taken"
        return "taken"

    async def erase(self, run: Run) -> None:
        """Erase a run that is over, twice, and check that only its values are gone."""
        machine = self.machine
        for number in range(2):
            erased = await machine.vm().erase(run.id, by=self.world.starter() or None)
            found = machine.history()
            erasures = [record.kind for record in found.records].count("erased")
            equal("erasures on record", erasures, 1 if found.plan.has_sensitive else 0, f"after {number + 1}")
            equal("values that were erased", sorted(machine.journal.vault.get(run.id)), [])
            equal("ending", (erased.status, erased.reason), (run.status, run.reason), "after its erasure")
            equal("state when read again", erased.trace_hash, run.trace_hash, "after its erasure")
            shown = erased.view("trace").items()  # values quoted in errors stay redacted
            left = [name for name, value in shown if value == REDACTED and not name.endswith(".error")]
            equal("values that were erased", left, [])

    # -- comparison ----------------------------------------------------------------------------------------------------

    def compare(self, run: Run) -> None:
        """Compare the full state of both. Raises Parted."""
        reference, machine = self.reference, self.machine
        if machine.parted is not None:
            raise machine.parted
        equal("row after every append", machine.journal.odd, None)
        catch_up(machine, reference, self.answer)
        if self.is_timed(run):
            if reference.reason not in TIMED:  # near both, timing decides which of the two comes first
                equal("ending", (run.status, run.reason), (reference.status, reference.reason), run.error)
            equal("misfits of an honest journal", [fault.what for fault in misfits(machine.history())], [])
            return
        equal("ending", (run.status, run.reason), (reference.status, reference.reason), run.error)
        equal("charges", (run.steps, run.tokens, run.cost), (reference.steps, reference.tokens, reference.cost))
        suspended, doubts = [one.step for one in run.suspensions], [one.step for one in run.doubts]
        equal("held", _listed(suspended, self.world), _listed(reference.waiting, self.world))
        equal("doubts", _listed(doubts, self.world), _listed(reference.doubtful, self.world))
        compare_waits(machine, reference)
        found = machine.history()
        self._compare_values(run, found)
        self._compare_calls()
        equal("broken", sorted(name for name, _ in run.broken), sorted(reference.broken()))
        _compare_moves(_moves(found), reference.log, found.plan)
        equal("dialect of patterns", found.records[0].body.get("patterns"), "re2" if self._has_patterns() else None)
        if not found.plan.has_sensitive and reference.has_known_size:
            equal("size of the state", found.state.size, reference.size)
        if found.last.seq == run.seq:  # a later refusal is a record, too
            again = Run(machine.run, found.plan, found.state, found.last)
            equal("state when read again", again.snapshot(), run.snapshot())
        equal("misfits of an honest journal", [fault.what for fault in misfits(found)], [])
        around.compare_held(machine, run)
        showing.compare_views(run, reference)
        if run.is_over:
            showing.compare_shown(machine, run, self._secrets())
        self._look_for_secrets(run)

    def is_timed(self, run: Run) -> bool:
        """Return whether timing decides what branches had done when a rule ended the run."""
        return self.world.has_branches and run.is_over and run.reason in TIMED

    def compare_records(self, run: Run) -> None:
        """Check the journal against its specification, a verification and a replay."""
        journal = self.machine.journal
        faults = verify(journal, run.id, replay=replayer(journal, run.id, (), self.machine.stored_plan)).faults
        equal("misfits of an honest journal", [fault.what for fault in faults], [])
        equal("records", odd_of(journal, run), None)

    def _has_patterns(self) -> bool:
        documents = (self.case.program.to_dict(), *(policy.to_data() for policy in self.case.policies))
        return any(_has_pattern(one) for one in documents)

    def _compare_values(self, run: Run, found: History) -> None:
        reference = self.reference
        known = dict(run.view("tool"))
        expected = {
            **reference.values,
            **{f"{step}.output": value for step, value in reference.outputs.items()},
            **{f"{step}.error": why for step, why in reference.errors.items()},
            **{f"{step}.error_name": name for step, name in reference.error_names.items()},
            **{f"{step}.errors": value for step, value in reference.item_errors.items()},
        }
        equal("names", sorted(known), sorted(expected))
        for name, value in known.items():
            if not alike(value, expected[name]):
                raise Parted("values", f"`{name}` is {value!r}, and {expected[name]!r} to the reference")
        equal("sensitive", sorted(known.keys() - run.view("model").keys()), sorted(reference.hidden))
        for name, value in held_by(found).items():
            equal("sensitive", sealed_in(value), reference.hidden.get(name, set()), f"in `{name}`")
        if reference.reason == "error" and not tells(run.error, Unworded.telling("", reference.says)):
            raise Parted("values", f"the error is `{run.error}`, which does not say {reference.says}")
        if not alike(run.output, reference.output):
            raise Parted("values", f"the output is {run.output!r}, and {reference.output!r} to the reference")
        equal("sensitive", sealed_in(found.state.output), outermost(reference.hidden_of_output), "in the output")

    def _compare_calls(self) -> None:
        lost = self.world.lost
        calls, answered = (
            [one for one in many if one.place not in lost] for many in (self.machine.asked, self.answered)
        )
        equal("asked", len(calls), len(answered), str(calls[-1:]) + str(answered[-1:]))
        for ours, theirs in zip(sorted(calls, key=_order), sorted(answered, key=_order), strict=True):
            equal("asked", _order(ours), _order(theirs))
            if ours.tool:
                expected = (theirs.tool, theirs.performance)
                equal("performance", (ours.tool, ours.performance), expected, str(_order(ours)))
            pairs = ((dict(ours.args), theirs.args), (ours.prompt, theirs.prompt), (ours.system, theirs.system))
            for one, other in pairs:
                if not alike(one, other):
                    raise Parted("arguments", f"{_order(ours)} is asked {one!r}, and {other!r} by the reference")

    def _secrets(self) -> tuple[str, ...]:
        """Return the sensitive values that stand nowhere else, and their spellings that answers have used."""
        return (*self.case.unique, *sorted(self.world.said)) if self.case.unique else ()

    def _look_for_secrets(self, run: Run) -> None:
        """Search for unique sensitive values in everything except the vault and the arguments of tools."""
        if not self.case.unique:
            return
        places = [entry.record.decode() for entry in self.machine.journal.read(self.machine.run)]
        places += [run.error, *(f"{one.prompt} {one.system}" for one in self.machine.asked if not one.tool)]
        places += [written(dict(run.view(kind))) for kind in ("trace", "model")]
        places += [repr(one.request) for one in run.suspensions]
        for text in self._secrets():
            forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
            for place in places:
                if any(form in place for form in forms):
                    raise Parted("secrets", f"`{text}` stands in `{place[:200]}`")


def _listed(steps: Sequence[str], world: DrawnWorld) -> list[str]:
    """Return steps in order; what branches hold has none."""
    return sorted(steps) if world.has_branches else list(steps)


def _by_place(moves: list[Moved], plan: Plan) -> list[Moved]:
    """Return moves in order, those of each branch together: timing decides what happens between them."""
    beside = {plan.steps[owner].id for owner in plan.program.layout.beside}
    return sorted(moves, key=lambda move: str(branch_of(move.frame, beside)))


_UNCAUGHT: Final = ("set", "condition", "wait", "end")
"""The types of steps that catch no error."""


def _compare_moves(moves: list[Moved], log: list[Moved], plan: Plan) -> None:
    steps = {step.id: step for step in plan.program.layout.steps if step.type != "stage"}
    kinds = {name: step.type for name, step in steps.items()}
    top = [
        move._replace(how="error") if kinds[move.step] in _UNCAUGHT and move.how == "failed" else move
        for move in moves
        if move.step in kinds
    ]
    logged = [move for move in log if move.step in kinds]
    if plan.program.layout.has_siblings:
        top, logged = _by_place(top, plan), _by_place(logged, plan)
    equal("moves", top, logged)
    # A sub-step ended as its last record of the visit says. Sub-steps of a step that never joined are not in the log.
    last = {(move.step, move.visit, move.frame): move for move in moves if move.step not in kinds}
    for move in log:
        if move.step not in kinds:
            equal("sub-step", last.get((move.step, move.visit, move.frame)), move)


def _order(call: PendingCall) -> tuple[Any, ...]:
    return call.place


def _has_pattern(data: Any) -> bool:
    if isinstance(data, Mapping):
        return "pattern" in data or any(map(_has_pattern, data.values()))
    return isinstance(data, list | tuple) and any(map(_has_pattern, data))
