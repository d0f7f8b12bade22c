"""The world of a sandbox: tools and a model that repeat recorded answers, and a store whose process can die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.playing.world import TooLate, WorldClock
from stepward.sabotage.stores.forging import plant
from stepward.sabotage.stores.through import ThroughStore
from stepward.validator.studio.copies import Copy, Delivered, Place, Recorded, place_of
from stepward.validator.studio.examples import NoExample, example_of
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.history import History, load
from stepward.vm.machine.models import ANY_NAME, ModelFailed, ModelReply, ModelRequest
from stepward.vm.machine.replay import cached_plans
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import InDoubt, Suspend, ToolContext, ToolError
from stepward.vm.values import freeze, to_json

if TYPE_CHECKING:
    from stepward.vm.journal.store import Append, Journal, Lease
    from stepward.vm.machine.plan import CallPlan

T = TypeVar("T")

LEASE_SECONDS: Final = 60.0
MOST_DELIVERIES: Final = 200

SETTLER: Final = "somebody in the sandbox"
"""Who delivers where the records name nobody."""

ENDS: Final = "the recording has no answer for this call, and none of its type can be made up"


INTERFERED: Final = {
    "cancel": "Somebody has cancelled the run. Nobody cancels its copy: it goes on.",
    "moved": "Somebody has moved the run to a new version of its program. Its copy stays with the old one.",
}
"""What somebody has done to a run, by kind of record, that is not done to its copy."""


class MortalStore(ThroughStore):
    """A store in memory for processes that can die: a dead one writes nothing.

    `before` and `after` are called with the records of each append, before it is stored and after.
    """

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.is_dead = False
        self.before: Callable[[Append], None] = lambda _: None
        self.after: Callable[[Append], None] = lambda _: None

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the inner store; raises Killed for a process that is dead."""
        if self.is_dead:
            raise Killed("the process is dead")
        return function(*args)

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self.after(append)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        self.before(append)
        super().append(append, fence)
        self.after(append)


class AttemptedCall(NamedTuple):
    """One attempt of a call."""

    call: CallPlan
    place: Place
    attempt: int
    key: str


class TrialWorld:
    """Tools and a model that repeat what was recorded, and the store, the clock and the machines of one sandbox.

    `meddle` returns another answer to an attempt, or None. `dies_after` is a step: when it has been performed, the
    process dies, before it knows the answer. `effects` are the keys of effects that happened, by place, `story` says
    what happened, `breaches` what broke.
    """

    names = ANY_NAME

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.store = MortalStore()
        plant_earlier(copy, self.store.inner)
        self.clock = WorldClock(start=copy.found.records[0].at)
        self.meddle: Callable[[AttemptedCall], CallAnswer | None] = lambda _: None
        self.dies_after = ""
        self.effects: dict[Place, list[str]] = {}
        self.story = [words for kind, words in INTERFERED.items() if any(one.kind == kind for one in copy.found.events)]
        self.breaches: list[Breach] = []
        self._calls = copy.calls
        self._delivered: dict[str, int] = {}
        self._asked: dict[str, Place] = {}
        self._not_done: set[str] = set()
        self._left_open = {place for place, answers in copy.answers.items() if answers[-1].answer.kind == "unknown"}
        self._random = Random(0).randbytes

    @property
    def run_id(self) -> str:
        """The id of the run, which is that of the run that was copied."""
        return self.copy.found.run

    # -- what the machine calls ----------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether the program calls a tool of that name."""
        return any(call.tool == name for call in self._calls.values())

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:  # noqa: ARG002
        """Return the output of a tool, or raise."""
        place = context.step, context.visit, context.frame
        attempt = AttemptedCall(self._calls[context.step], place, context.attempt, context.idempotency_key)
        return _result_of(attempt.call, self._met(attempt).answer)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the model, or raise."""
        attempt = AttemptedCall(
            self._calls[request.step], (request.step, request.visit, request.frame), request.attempt, ""
        )
        recorded = self._met(attempt)
        try:
            content = _result_of(attempt.call, recorded.answer)
        except TooLate:
            raise
        except Exception as error:
            raise ModelFailed(str(error), ModelReply(None, *recorded[1:])) from None
        return ModelReply(content, *recorded[1:])

    def _met(self, attempt: AttemptedCall) -> Recorded:
        if self.store.is_dead:
            raise Killed("the process is dead")
        self._look(attempt)
        self._asked[attempt.key] = attempt.place
        other = self.meddle(attempt)
        recorded = self.recorded(attempt.place, attempt.attempt) if other is None else Recorded(other)
        if attempt.call.writes and recorded.answer.happens:
            self._perform(attempt)
        if attempt.call.id == self.dies_after:
            self.dies_after = ""
            self.die(f"after `{attempt.call.id}` was performed, before its answer is recorded")
        return recorded

    def recorded(self, place: Place, attempt: int) -> Recorded:
        """Return the answer of an attempt: that of the recording, the last one of the step, or one that is made up."""
        answers = self.copy.answers.get(place)
        if answers:
            return answers[min(attempt, len(answers)) - 1]
        others = [several[-1] for (step, _, _), several in self.copy.answers.items() if step == place[0]]
        return others[-1] if others else Recorded(self._made_up(self._calls[place[0]]))

    def _made_up(self, call: CallPlan) -> CallAnswer:
        """Return an answer to a call that the run never made: the disturbance has led it where the recording ends."""
        if call.may_suspend:
            self.story.append(f"The recording has no call of `{call.id}`. In the sandbox it waits for somebody.")
            return CallAnswer("suspends")
        try:
            value = made_up(call)
        except NoExample:
            self.story.append(f"The recording has no answer of `{call.id}`, so that it fails in the sandbox.")
            return CallAnswer("fails", ("", ENDS))
        shown = to_json(freeze(value))
        self.story.append(
            f"The recording has no answer of `{call.id}`. The sandbox makes one up, of its type: {shown}."
        )
        return CallAnswer("returns", value)

    def _look(self, attempt: AttemptedCall) -> None:
        """Note what is broken if a call starts now."""
        call, effects = attempt.call, self.effects.get(attempt.place, [])
        if call.writes and effects and call.keeps_key and attempt.key in effects:
            again = f"`{call.id}` is called again, under the key of the first time"
            self.story.append(f"{again}. Its tool knows the key: there is no second effect.")
        elif call.writes and effects:
            self.breaches.append(Breach(Invariant.ONCE, f"`{call.id}` is performed again, though it happened"))
        if call.is_durable:
            records = [json.loads(entry.record) for entry in self.store.read(self.run_id)]
            if not any(one["kind"] == "intent" and one["note"].get("key") == attempt.key for one in records):
                self.breaches.append(Breach(Invariant.INTENT, f"`{call.id}` starts, and the store has no intent of it"))

    def _perform(self, attempt: AttemptedCall) -> None:
        keys = self.effects.setdefault(attempt.place, [])
        if not (attempt.call.keeps_key and attempt.key in keys):
            keys.append(attempt.key)

    # -- processes -----------------------------------------------------------------------------------------------------

    def die(self, when: str) -> None:
        """Kill the process; raises Killed."""
        self.store.is_dead = True
        self.story.append(f"The process is killed {when}.")
        raise Killed(when)

    def revive(self) -> None:
        """Begin a new process, when the lease of the dead one is over."""
        self.store.is_dead = False
        self.clock.time += int(2 * LEASE_SECONDS * 1_000_000)

    def machine(self) -> ExecutionVM:
        """Return a machine of a process of its own."""
        return ExecutionVM(
            self, self, self.store, self.copy.found.plan.policies, checker=None, clock=self.clock,
            limits=self.copy.limits, retry_delay=lambda _: 0.0, lease_seconds=LEASE_SECONDS, random=self._random,
        )  # fmt: skip

    def start(self) -> Run:
        """Start the run, and return it where it stops first; raises Killed."""
        copy = self.copy
        machine, program = self.machine(), copy.found.plan.program
        if copy.linked:
            return do(self._linked(machine, copy.linked))
        # Under `four_eyes` older releases started runs of nobody, too.
        by = copy.by or ("nobody" if copy.found.plan.four_eyes else None)
        return do(machine.run(program, copy.inputs, run_id=self.run_id, by=by, envelope=copy.envelope))

    async def _linked(self, machine: ExecutionVM, linked: Mapping[str, Any]) -> Run:
        """Begin a run as the machine has begun it that continued another: its first record says what that has left."""
        found = self.copy.found
        note = {name: value for name, value in found.events[0].note.items() if name in ("by", "envelope")}
        driver = await machine._create(found.plan, self.run_id, self.copy.inputs, note, linked)
        return await machine.get(self.run_id) if driver is None else await machine._drive(driver)

    def carry_on(self, run: Run, until: str = "") -> Run:
        """Deliver to a run what was recorded until it ends, waits for what nobody has delivered, or waits at `until`.

        Raises Killed.
        """
        for _ in range(MOST_DELIVERIES):
            if run.is_over:
                break
            if run.status == "RUNNING":
                run = do(self.machine().recover(run.id))[0]
            elif run.doubts:
                settled = self._settle(run)
                if settled is None:
                    break
                run = settled
            else:
                waits = run.suspensions[0]
                found = None if waits.step == until else self.delivery(waits.step)
                if found is None:
                    break
                self.story.append(f"`{waits.step}` gets the answer that was recorded.")
                run = do(self.machine().resume(waits.token, found.value, by=found.by or SETTLER))
        return run

    def delivery(self, step: str) -> Delivered | None:
        """Return the next recorded delivery to a step, or None."""
        number = self._delivered.get(step, 0)
        several = [one for one in self.copy.deliveries.get(step, ()) if one.verdict == "done"]
        self._delivered[step] = number + 1
        return several[min(number, len(several) - 1)] if several else None

    def _settle(self, run: Run) -> Run | None:
        """Say of a write in doubt what is so: the world knows whether it happened.

        None where the recording ends with the doubt: done again, it would only be in doubt again.
        """
        doubt, machine = run.doubts[0], self.machine()
        place = next((one for one, keys in self.effects.items() if doubt.key in keys), None)
        if place is None:
            if doubt.key in self._not_done or self._asked.get(doubt.key) in self._left_open:
                return None
            self._not_done.add(doubt.key)
            self.story.append(f"`{doubt.step}` is in doubt. Somebody looks, and says: it did not happen.")
            return do(machine.reconcile(run.id, doubt.place, "not_done", by=SETTLER))
        try:
            output = self._output(place)
        except NoExample:
            return None
        self.story.append(f"`{doubt.step}` is in doubt. Somebody looks, and says: it happened.")
        return do(machine.reconcile(run.id, doubt.place, "done", output, by=SETTLER))

    def _output(self, place: Place) -> Any:
        """Return what a write has returned: what was recorded, or what is made up; may raise NoExample."""
        delivered = [one for one in self.copy.deliveries.get(place[0], ()) if one.verdict == "done"]
        answers = [one.answer for one in self.copy.answers.get(place, ()) if one.answer.kind == "returns"]
        if not answers and not delivered:
            return made_up(self._calls[place[0]])
        return answers[-1].value if answers else delivered[-1].value

    # -- what is held to be so -----------------------------------------------------------------------------------------

    def history(self) -> History:
        """Return the records of the run in the sandbox."""
        found = load(self.store.inner, self.run_id, cached_plans(self.store.inner))
        assert found is not None, "the run was started"
        return found

    def judge(self) -> None:
        """Note what is broken at the end: an effect that no record tells of, or one that a record only claims."""
        found = self.history()
        claimed = {place_of(one) for one in found.events if _claims(one.kind, one.body)}
        for place in self.effects:
            if place not in claimed:
                self.breaches.append(Breach(Invariant.KEPT, f"`{place[0]}` happened, and no record says so"))
        for one in found.events:
            is_write = one.kind == "attempt" and self._calls[str(one.body["step"])].writes
            if is_write and one.body["kind"] == "success" and place_of(one) not in self.effects:
                what = f"`{one.body['step']}` did not happen, and a record says that it did"
                self.breaches.append(Breach(Invariant.KEPT, what))


def made_up(call: CallPlan) -> Any:
    """Return an output for a call of which there is no recording; raises NoExample if none is easily found."""
    return call.allowed[0] if call.allowed else example_of(call.returns)


def _claims(kind: str, body: Mapping[str, Any]) -> bool:
    """Return whether a record says of a call that its effect happened, or may have."""
    if kind in ("doubt", "resumed", "reconciled"):
        return True
    return kind == "attempt" and (body["kind"] not in ("failed", "skipped", "again") or bool(body.get("unknown")))


def _result_of(call: CallPlan, answer: CallAnswer) -> Any:
    """Return the result of a call, or raise its error."""
    match answer.kind:
        case "fails":
            name, error = answer.value
            raise ToolError(name, error) if name in call.errors else RuntimeError(error)
        case "unknown" | "unknown-done":
            raise InDoubt(answer.value)
        case "late":
            raise TooLate
        case "suspends":
            return Suspend(answer.value)
    return answer.value


def do(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of a machine to its end, in a thread without an event loop; raises what it raises, and Killed."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda *_: None)  # what a dead process leaves behind
        return runner.run(work)


def plant_earlier(copy: Copy, store: Journal) -> None:
    """Put the runs that a copied run continues into the store of its sandbox."""
    for one in copy.earlier:
        plant(store, one.run, one.snapshot.entries, one.snapshot, one.status)
