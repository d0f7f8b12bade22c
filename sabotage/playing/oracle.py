"""The oracle checks after every event that it was allowed. It trusts the store and the world, not the machine.

The reference interpreter runs beside the run and gets the same answers. So it predicts at every moment which calls are
due, where control goes and how the run ends. When a process dies, its unwritten answers are lost; then the reference
starts again from the store.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.places import Place, frame_of, place_of
from stepward.sabotage.playing.timing import is_in_wave_to_count, is_spent, is_timed, may_end
from stepward.sabotage.playing.waiting import expire, let_pass, run_out
from stepward.sabotage.playing.world import COST_OF_A_REPLY, TOKENS_OF_A_REPLY, Asking, Performance, World
from stepward.sabotage.reference import (
    Answer as ReferenceAnswer,
)
from stepward.sabotage.reference import (
    Lost,
    Raised,
    Reference,
    Replied,
    Returned,
    TimedOut,
    Waits,
)
from stepward.sabotage.reference import PendingCall as Awaited
from stepward.sabotage.reference.plain import Unworded
from stepward.sabotage.stores.plain_records import branch_of, oddities
from stepward.sabotage.stores.plain_status import Standing, odd_row
from stepward.sabotage.target import is_told_first
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.language.types import same
from stepward.vm.machine.history import History
from stepward.vm.machine.keys import FrameName, shown
from stepward.vm.machine.replay import misfits
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Limits
from stepward.vm.values import freeze, to_json

FROM_OUTSIDE = ("cancel", "refused", "erased")
OVER = frozenset({"SUCCESS", "FAILED", "BUDGET_EXCEEDED", "STALLED", "CANCELLED"})


class Turn(NamedTuple):
    """A transition: the step that was left, its visit, the next step, and the frame.

    There is no next step at the end of the run, or of an item.
    """

    step: str
    visit: int
    next: str | None
    frame: FrameName = ()

    def text(self) -> str:
        """Describe the transition in words."""
        name = shown(self.frame, self.step)
        what = "the item" if self.frame else "the run"
        return f"`{name}` goes to `{self.next}`" if self.next else f"{what} ends at `{name}`"


@dataclass
class Watched:
    """The run that an oracle watches: its id, its inputs, and the store in which it is."""

    id: str
    inputs: dict[str, Any]
    store: Journal


class Oracle:
    """Watches one run in its world and its store.

    `history` reads the run from the store, as another process would. An attack that delivers a valid payload calls
    `expect` first. An attack that changes the store behind the machine's back calls `rest` first: from then on only the
    world is watched.
    """

    def __init__(
        self,
        world: World,
        run: Watched,
        limits: Limits,
        history: Callable[[], History],
    ) -> None:
        self.case = world.case
        self.target = world.target
        self.world = world
        self.run = run
        self._limits = limits
        self._history = history
        self._payloads: dict[tuple[str, int], Any] = {}
        self.rests = self.is_adrift = self.is_timed = False
        self.reads_rows = True
        """Whether the list of runs has to have the run as its records say, after every write."""
        self._steps = frozenset(step.id for step in self.target.program.layout.steps if step.type != "stage")
        self._deaths: set[int] = set()
        """The numbers of records that were written when a process died."""
        self._begin()

    def _begin(self) -> None:
        target, limits = self.target, self._limits
        self.reference = Reference(
            target.program,
            target.policies,
            target.plan.waived,
            max_output_bytes=limits.output_bytes,
            max_steps=limits.steps,
        )
        self.records: list[dict[str, Any]] = []
        self._standing = Standing(target.siblings)
        self.turns: list[Turn] = []
        self._to_come = set(self._deaths)
        """Of these numbers, those that the reference has yet to hear of."""
        self._due: defaultdict[Any, list[Turn]] = defaultdict(list)
        """The turns of the reference, by branch: it says nothing of the order of those in different branches."""
        self._taken: Counter[Any] = Counter()
        self._logged = 0
        self.intents: dict[str | tuple[Place, int], int] = {}
        """The intents by their key, and by the attempt: a model is given no key."""
        self.durable = -1
        self.claimed: set[Performance] = set()
        self._is_over = self._is_stopped = False
        self._unwritten: set[tuple[Place, int]] = set()
        """The attempts whose answers are not in the store."""
        self._performing: dict[str, Performance] = {}
        """The last performance of each step; in items that run at once, of each step in each of them."""
        self._delivered: Counter[str] = Counter()

    def _begin_again(self) -> None:
        """Forget the answers that are not in the store."""
        durable = self.durable
        self._begin()
        self._read()
        self.durable = min(durable, len(self.records) - 1)
        self._deaths = {death for death in self._deaths if death <= len(self.records)}

    def due(self, step: str) -> int:
        """Return the number of the next payload of a step, counted from 1."""
        return self._delivered[step] + 1

    def expect(self, step: str, payload: Any) -> None:
        """Record a payload that is delivered to a step, for when the store says that it was accepted."""
        self._payloads[step, self.due(step)] = payload

    def known(self, step: str, number: int, payload: Any) -> None:
        """Record a payload that another process delivered to a step, by its number."""
        self._payloads[step, number] = payload

    def forget(self) -> None:
        """Record that a process is gone, and with it the answers that it did not write."""
        if self.rests:
            return
        self._begin_again()
        self.is_adrift = self.rests = self.is_timed or is_in_wave_to_count(self.reference, self.target)
        if not self.rests:
            self._deaths.add(len(self.records))
            self._interrupt()

    def _interrupt(self) -> None:
        """Let the reference know that a process has died here."""
        starts = self.intents
        self.reference.interrupt(lambda one: ((one.step, one.visit, one.frame), one.attempt) in starts)

    def rest(self) -> None:
        """Stop reading the store, because from here on the attacker controls its content."""
        self.rests = True

    # -- after every write ---------------------------------------------------------------------------------------------

    def look(self, *, durable: bool = False) -> None:
        """Read the new entries of the store, or all again if it has fewer than before. Raises Breach."""
        if self.rests:
            return
        head = self.run.store.head(self.run.id)
        if (-1 if head is None else head.seq) + 1 < len(self.records):
            self._begin_again()
        self._read()
        if durable:
            self.durable = len(self.records) - 1

    def _read(self) -> None:
        for entry in self.run.store.read(self.run.id, len(self.records)):
            if self.is_timed:
                return
            if len(self.records) in self._to_come:
                self._to_come.remove(len(self.records))
                self._interrupt()
            record = json.loads(entry.record)
            self.records.append(record)
            self._standing.follow(record)
            self._follow(record)
        if self.records and self.reads_rows:
            odd = odd_row(self.run.store, self.run.id, len(self.records) - 1, self._standing)
            if odd is not None:
                raise Breach(Invariant.KEPT, f"after `{self.records[-1]['kind']}` {odd}")

    def _follow(self, record: dict[str, Any]) -> None:
        kind, body, note = record["kind"], record["body"], record["note"]
        if self._is_over and kind not in FROM_OUTSIDE:
            raise Breach(Invariant.ENDINGS, f"`{kind}` of `{body.get('step')}` was written after the end of the run")
        if kind == "started":
            self.reference.start(self.run.inputs)
        elif kind == "intent":
            is_late = any(record["kind"] == "cancel" for record in self.records)
            if is_late and is_told_first(self.world.target.calls[body["step"]]):
                raise Breach(Invariant.ENDINGS, f"`{body['step']}` starts after the run was cancelled")
            self.intents[note["key"]] = self.intents[place_of(body), note["attempt"]] = record["seq"]
            self._performing[shown(self._branch_of(frame_of(body)), body["step"])] = place_of(body), note["performance"]
        elif kind in ("attempt", "doubt", "resumed", "reconciled"):
            self._answered(kind, body, note)
        elif kind in ("waited", "expired"):
            (let_pass if kind == "waited" else expire)(self.reference, self.records)
        elif kind == "ended" and body.get("reason") == "cancelled":
            self._stopped()
        elif kind == "ended" and body.get("reason") == "time":
            run_out(self.reference, self.records)
        self._named(body.get("in_doubt", ()))
        self._is_over = self._is_over or "ends" in body
        is_left = "step" in body and not body.keys().isdisjoint(("next", "ends", "closes"))
        if is_left and body.get("reason") != "abandoned":
            self._turned(kind, body)
        self._heed_timing()

    def _heed_timing(self) -> None:
        """Follow the run no further where timing decides what it has done. Effects are still counted."""
        if is_timed(self.reference):
            self.is_timed = self.is_adrift = self.rests = True

    def _answered(self, kind: str, body: dict[str, Any], note: dict[str, Any]) -> None:
        step, place = body["step"], place_of(body)
        before, last = self._performing.get(shown(self._branch_of(frame_of(body)), body["step"]), (place, 1))
        performance = note.get("performance") or (last if before == place else 1)
        if kind == "resumed" or (kind == "reconciled" and note["verdict"] == "done"):
            payload = self._payloads.get((step, self.due(step)))
            self._delivered[step] += 1
            if not self.reference.takes_now(step, payload, place[2]):
                raise Breach(Invariant.DATA, f"`{step}` took {_shown(payload)}, which is not of its type")
        elif kind == "reconciled":
            self.reference.reconcile(step, note["verdict"], frame=place[2])
        elif kind == "doubt":
            if self._unwritten:  # the process is gone, with its answers
                self._begin_again()
                return
            self._awaited(place)
            self.reference.answer(step, Lost(), place[2])
        elif (place, note["attempt"]) in self._unwritten:
            self._unwritten.remove((place, note["attempt"]))
        else:
            self._awaited(place)
            self.reference.answer(step, self._answer(place, note["attempt"]), place[2])
        # A fallback says that the last attempt was late, not that nothing happened.
        if body.get("kind") in ("success", "doubt", "suspended", "fallback") or kind in (
            "doubt",
            "reconciled",
            "resumed",
        ):
            self.claimed.add((place, performance))

    def _stopped(self) -> None:
        """Record that the run was cancelled. Raises Breach if nobody cancelled it."""
        if not any(record["kind"] == "cancel" for record in self.records):
            raise Breach(Invariant.ENDINGS, "the run ended as cancelled, and nobody had asked for that")
        # Not earlier: the driver learns of it with the next append, and first finishes calls under way.
        self.reference.cancel()
        self._is_stopped = True

    def _named(self, in_doubt: Sequence[str]) -> None:
        """Record the effects in doubt that the last record names."""
        for (step, visit, frame), performance in self._performing.values():
            if shown(frame, step) in in_doubt:
                self.claimed.add(((step, visit, frame), performance))

    def _awaited(self, place: Place) -> Awaited:
        found = next((one for one in self.reference.asked if (one.step, one.visit, one.frame) == place), None)
        if found is None:
            step, visit, frame = place
            what = f"`{shown(frame, step)}` was performed for the {visit}. time"
            raise Breach(self._why_not(), f"{what}, where it is not its turn")
        return found

    def _why_not(self) -> Invariant:
        """Return the invariant that an unexpected performance breaks."""
        reference = self.reference
        if reference.reason == "guardrail":
            return Invariant.GUARDRAIL
        if any(move.how == "blocked" for move in reference.log[-2:]):
            return Invariant.PERMISSION
        if reference.status == "BUDGET_EXCEEDED" or reference.reason in ("visits", "no-progress"):
            return Invariant.BOUNDS
        return Invariant.ENDINGS if reference.status in OVER else Invariant.GRAPH

    def _answer(self, place: Place, attempt: int) -> ReferenceAnswer:
        """Return the last answer of the world to an attempt."""
        for asking, answer in reversed(self.world.attempts):
            if (asking.place, asking.attempt) == (place, attempt):
                return _reference_answer(asking, answer)
        raise Breach(Invariant.KEPT, f"an outcome of `{place[0]}` is recorded, and nobody asked it")

    def _branch_of(self, frame: FrameName) -> FrameName:
        return branch_of(frame, self.target.siblings.beside)

    def _turned(self, kind: str, body: dict[str, Any]) -> None:
        """Compare a transition with that of the reference."""
        turn = Turn(body["step"], body["visit"], body.get("next"), frame_of(body))
        log = self.reference.log
        for move in log[self._logged :]:
            if move.step in self._steps:
                self._due[self._branch_of(move.frame)].append(Turn(move.step, move.visit, move.next, move.frame))
        self._logged = len(log)
        branch = self._branch_of(turn.frame)
        number = self._taken[branch]
        self._taken[branch] += 1
        self.turns.append(turn)
        due = self._due[branch][number] if number < len(self._due[branch]) else None
        if turn.step not in self._steps or kind in ("rejected", "blocked") or due == turn:
            return
        where = "the run waits" if due is None else due.text()
        raise Breach(Invariant.GRAPH, f"{turn.text()}, where the program says that {where}")

    # -- before every call ---------------------------------------------------------------------------------------------

    def asked(self, asking: Asking) -> None:
        """Check that a call may be made now. Raises Breach."""
        call = asking.call
        performance = asking.place, asking.performance
        same_performance = [effect for effect in self.world.effects if effect.done == performance]
        if call.writes and same_performance and not (call.keeps_key and same_performance[0].key == asking.key):
            raise Breach(Invariant.ONCE, f"`{call.id}` is performed again, though it happened")
        if self.rests:
            return
        self.look()
        if self._unwritten and not self._is_due(asking):
            self._begin_again()
        awaited = self._awaited(asking.place)
        intent = self.intents.get(asking.key or (asking.place, asking.attempt))
        if call.is_durable and (intent is None or intent > self.durable):
            raise Breach(Invariant.INTENT, f"`{call.id}` starts, and the store has no durable intent of it")
        if awaited.attempt != asking.attempt:
            raise Breach(Invariant.BOUNDS, f"`{call.id}` makes attempt {asking.attempt}, not {awaited.attempt}")
        if not call.is_model and not _agree(awaited.args, asking.args):
            words = f"{_shown(asking.args)}, and the program says {_shown(awaited.args)}"
            raise Breach(Invariant.DATA, f"`{call.id}` is given {words}")
        request = asking.request
        if request is not None and not _agree((awaited.prompt, awaited.system), (request.prompt, request.system)):
            raise Breach(Invariant.DATA, f"the prompt of `{call.id}` is not the one that the program says")

    def _is_due(self, asking: Asking) -> bool:
        return any(
            (one.step, one.visit, one.frame, one.attempt) == (*asking.place, asking.attempt)
            for one in self.reference.asked
        )

    def answered(self, asking: Asking, answer: CallAnswer) -> None:
        """Record the answer of the world."""
        if not self.rests:
            self._unwritten.add((asking.place, asking.attempt))
            self.reference.answer(asking.call.id, _reference_answer(asking, answer), asking.frame)
            self._heed_timing()

    # -- at the end ----------------------------------------------------------------------------------------------------

    def judge(self, run: Run) -> None:
        """Check that a watched run ended as predicted, in the machine and in the store. Raises Breach."""
        if self.is_adrift:
            self._judge_counts()
            self._judge_store(run)
            if self.is_timed and not may_end(run, self.reference):
                why = self.reference.reason
                raise Breach(Invariant.GRAPH, f"the run is {run.status} ({run.reason}), and it had to end for {why}")
            return
        self.look()
        self._judge_effects(run)
        self._judge_store(run)
        if self._is_stopped or run.reason == "time" or is_spent(run, self.reference, self.target.program):
            return  # the last step depends on when the run was cancelled, or on whose reply was first
        reference = self.reference
        if (run.status, run.reason) != (reference.status, reference.reason):
            words = f"{run.status} ({run.reason}), and it had to be {reference.status} ({reference.reason})"
            raise Breach(Invariant.GRAPH, f"the run is {words}")
        spent, due = (run.steps, run.tokens, run.cost), (reference.steps, reference.tokens, reference.cost)
        if spent != due:
            words = "{} steps, {} tokens and a cost of {}, not {}, {} and {}".format(*spent, *due)
            raise Breach(Invariant.BOUNDS, f"the run was charged {words}")
        if run.is_over and not _agree(reference.output, run.output):
            raise Breach(Invariant.DATA, f"the run returns {_shown(run.output)}, not {_shown(reference.output)}")
        if sorted(rule for rule, _ in run.broken) != sorted(reference.broken()):
            words = f"{_listed(rule for rule, _ in run.broken)}, and it broke {_listed(reference.broken())}"
            raise Breach(Invariant.GUARDRAIL, f"the run is said to have broken {words}")
        self._judge_values(run)

    def listed(self, run: Run) -> None:
        """Check that the list of runs has a run as its journal has it. Raises Breach."""
        row = self.run.store.row(run.id)
        if self.rests and not self.is_adrift:
            return
        listed = None if row is None else (row.program, row.status, row.seq)
        if listed != (run.program, run.status, run.seq):
            raise Breach(Invariant.REPLAY, f"the list of runs says {listed} of a run that is {run.status} at {run.seq}")

    def _judge_effects(self, run: Run) -> None:
        """Check that each effect happened once and is in the journal."""
        counts = self._judge_counts()
        for performance in counts:
            if performance not in self.claimed and run.is_over and run.reason != "abandoned":
                raise Breach(Invariant.KEPT, f"`{performance[0][0]}` happened, and the journal says that it did not")
        for record in self.records:
            body, note = record["body"], record["note"]
            if record["kind"] != "attempt" or body.get("kind") != "success" or not self._writes(body["step"]):
                continue
            if (place_of(body), note["performance"]) not in counts:
                raise Breach(Invariant.KEPT, f"the journal says that `{body['step']}` happened, and it did not")

    def _judge_counts(self) -> Counter[Performance]:
        """Return how often each performance happened. Raises Breach for one that happened twice."""
        counts = Counter(effect.done for effect in self.world.effects)
        for performance, count in counts.items():
            if count > 1:
                raise Breach(Invariant.ONCE, f"`{performance[0][0]}` happened {count} times in one performance")
        return counts

    def _writes(self, step: str) -> bool:
        call = self.target.calls.get(step)
        return call is not None and call.writes

    def _judge_values(self, run: Run) -> None:
        reference = self.reference
        has = run.view("tool")
        due = {**reference.values, **{f"{step}.output": value for step, value in reference.outputs.items()}}
        due |= {f"{step}.error_name": name for step, name in reference.error_names.items()}
        due |= {f"{step}.errors": errors for step, errors in reference.item_errors.items()}
        values = {name: value for name, value in has.items() if not name.endswith(".error")}
        for name in due.keys() | values.keys():
            if name not in values or name not in due or not _agree(due[name], values[name]):
                words = f"{_shown(values.get(name))}, and the program says {_shown(due.get(name))}"
                raise Breach(Invariant.DATA, f"`{name}` is {words}")

    def _judge_store(self, run: Run) -> None:
        """Check that another process reads and finds the same run, and would have decided alike."""
        self.listed(run)
        found = self._history()
        again = Run(self.run.id, found.plan, found.state, found.last)
        if again.snapshot() != run.snapshot() or again.trace_hash != run.trace_hash:
            raise Breach(Invariant.REPLAY, "the journal, read again, gives another state")
        faults = [*verify(self.run.store, self.run.id, keys=[self.case.key.public]).faults, *misfits(found)]
        if faults:
            raise Breach(Invariant.REPLAY, f"an honest journal is called damaged: {faults[0]}")
        odd = odd_of(self.run.store, again)
        if odd is not None:
            raise Breach(Invariant.REPLAY, f"the journal is not as its page says: {odd}")


def odd_of(store: Journal, run: Run) -> str | None:
    """Return how the records of a run differ from the journal's specification, or None if they conform."""
    records = [entry.record for entry in store.read(run.id)]
    program = store.document(json.loads(records[0])["body"]["program"])
    assert program is not None, "a run that was read has its program"
    return next(oddities(run.id, records, program, run.trace_hash), None)


def _reference_answer(asking: Asking, answer: CallAnswer) -> ReferenceAnswer:
    """Convert an answer of the world to an answer for the reference."""
    if answer.kind in ("returns", "wrong"):
        is_model = asking.call.is_model
        return Replied(answer.value, TOKENS_OF_A_REPLY, COST_OF_A_REPLY) if is_model else Returned(answer.value)
    if answer.kind == "fails":
        return Raised(why=answer.value)
    if answer.kind == "late":
        return TimedOut()
    return Waits() if answer.kind == "suspends" else Lost()


def _agree(due: Any, has: Any) -> bool:
    """Whether a value equals that of the reference. The texts of errors are not compared."""
    if isinstance(due, Unworded):
        return isinstance(has, str)
    if isinstance(due, Mapping) and isinstance(has, Mapping):
        return due.keys() == has.keys() and all(_agree(due[name], has[name]) for name in due)
    if isinstance(due, list | tuple) and isinstance(has, list | tuple):
        return len(due) == len(has) and all(map(_agree, due, has))
    return same(due, has)


def _listed(rules: Iterable[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in sorted(rules)) or "no guardrail"


def _shown(value: Any) -> str:
    text = to_json(freeze(value))
    return text if len(text) <= 80 else f"{text[:77]}..."
