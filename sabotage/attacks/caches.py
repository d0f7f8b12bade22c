"""The cache of replies: somebody else has written into it, or it is broken."""

from __future__ import annotations

import json
import time
from itertools import zip_longest
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.drawn.questions import HIDDEN, MODELS, RUNS, TOPICS, Got, Questions, got, questions_program
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.needs import MODEL
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.quiet import without_log_of_caches
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import calls_in, variant
from stepward.sabotage.recorded.shared.given import ReplyTable
from stepward.vm.language.types import fits
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.plan import CallPlan
from stepward.vm.models.cache import CachedReply, CacheFault, write_entry
from stepward.vm.values import FrozenMap, freeze, to_json

LIES: Final = ("another type", "another question", "damaged", "locked", "down")

SECONDS: Final = 0.003
"""How long the cache takes to keep an entry."""

VALUES: Final[tuple[Any, ...]] = (7, "no such reply", None, True, (), FrozenMap(odd=("x", 1)))


class Poisoned:
    """A cache that lies in one way, and counts its lies: `value` is a reply that no step accepts."""

    def __init__(self, lie: str, value: Any) -> None:
        self.lies = 0
        self._lie = lie
        self._value = value
        self._entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return a lie, or None; raises CacheFault, or an error as a client of a server does."""
        others = [entry for other, entry in self._entries.items() if other != key]
        if self._lie == "another question" and not others:
            return None
        self.lies += 1
        match self._lie:
            case "another type":
                return write_entry(key, CachedReply(self._value, "m"))
            case "another question":
                return others[-1]
            case "damaged":
                return self._entries.get(key, write_entry(key, CachedReply("x", "m")))[:-2]
            case "locked":
                raise CacheFault("another process holds it")
        raise ConnectionError("the server is down")

    def put(self, key: str, entry: bytes) -> None:
        """Keep an entry, slowly as a server does: siblings of the step that asked go on meanwhile."""
        time.sleep(SECONDS)
        self._entries[key] = entry


class PoisonedCache(Attack):
    """The cache of replies holds a reply of another type, the reply to another question, or damaged entries; or it is
    locked or away."""

    family = Family.INJECTION
    surface = "cache of replies"
    action = "entries that are forged, exchanged or damaged, and a cache that fails"
    invariant = Invariant.DATA
    defence = "a kept reply is judged as any other, names its question, and is passed over if anything is wrong"
    severity = "high"
    needs = (MODEL,)

    def play(self, case: Case) -> Outcome:
        """Run the program with a cache that lies: nothing of the cache may reach the run, and no run may fail."""
        from hypothesis import strategies as st

        target = variant(case.target, "cached", _cached)
        models = [call for call in target.calls.values() if call.is_model]
        value = next((one for one in VALUES if not any(_accepts(call, one) for call in models)), UNFIT)
        lie = case.pick("lie", st.sampled_from([one for one in LIES if value is not UNFIT or one != "another type"]))
        cache = Poisoned(lie, value)
        trial = Trial(case, target=target)
        case.log(f"the cache of replies lies: {lie}")
        with without_log_of_caches():
            trial.finish(trial.machine(cache=cache))  # the oracle knows of every reply whether a model gave it
        case.needs(cache.lies)
        return Outcome.BLOCKED


class RepliesAcrossRuns(Attack):
    """Several runs, under models with like parameters, share one honest cache: they ask again and again, alike but for
    one part of the question, with sensitive values in questions and replies, in loops, and after failures."""

    family = Family.INJECTION
    surface = "cache of replies"
    action = "questions that are alike, of several runs and models"
    invariant = Invariant.DATA
    defence = (
        "a reply is kept under all that decides it, taken once by a run, free of charge, and never if it is sensitive"
    )
    severity = "high"
    weight = 4
    draws = True
    programs = 5

    def play(self, case: Case) -> Outcome:
        """Compare each run with a plain table of replies."""
        seed = case.seed()
        for number in case.each("program", range(self.programs)):
            self._play(case, Random(f"replies {seed} {number}"))
        return Outcome.ABSORBED

    def _play(self, case: Case, chance: Random) -> None:
        program, cache, table = questions_program(chance), ReplyTable(), dict[str, Any]()
        topics, models = chance.sample(TOPICS, 2), chance.sample(MODELS, 2)
        case.log(f"run this program: {to_json(freeze(program.to_dict()))}")
        for number in range(RUNS):
            topic, parameters = chance.choice(topics), chance.choice(models)
            model = Questions(chance, parameters, table, 1_000 * number)
            due = list(model.due(program, topic))
            case.act(f"ask {parameters} about `{topic}`")
            machine = case.machine({}, model, case.store, clock=ManualClock(), cache=cache)
            run = case.do(machine.run(program, {"t": topic, "h": HIDDEN}, run_id=case.run_id()))
            has = list(got([json.loads(entry.record) for entry in case.store.read(run.id)]))
            case.hold(
                has == due, self.invariant, f"the run got {_first_other(has, due)}, and not {_first_other(due, has)}"
            )
            spent = sum(one.tokens for one in due)
            case.hold(run.tokens == spent, Invariant.BOUNDS, f"the run was charged {run.tokens} tokens, not {spent}")
            leaks = [entry for entry in cache.entries.values() if HIDDEN.encode() in entry]
            case.hold(not leaks, Invariant.SECRECY, "the cache has a sensitive value")


def _first_other(these: list[Got], others: list[Got]) -> Got | None:
    """Return the first of these that is not so among the others."""
    return next((one for one, other in zip_longest(these, others) if one != other), None)


UNFIT: Final = object()
"""In place of a value: every value is accepted by some step."""


def _accepts(call: CallPlan, value: Any) -> bool:
    return value in call.allowed if call.allowed is not None else fits(value, call.returns)


def _cached(data: dict[str, Any]) -> None:
    """Let every call of a model use the cache."""
    for call in calls_in(data):
        if call["type"] == "llm":
            call["cache"] = True
