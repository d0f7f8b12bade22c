"""Canaries of the family "skipped transitions"; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from canaries import Canary
from canaries_hashes import LOOKED, READS, WRITES, unsigned_machine
from rewriting import rewrite
from stepward.vm.language import automata
from stepward.vm.machine import apply, driver, history, monitors, replay, runs
from stepward.vm.machine.events import Event
from stepward.vm.machine.state import OPEN

TWO_READS = {
    "name": "two_reads",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "boolean"}}},
    "steps": [
        {"id": "look", "type": "tool", "tool": "look"},
        {"id": "more", "type": "tool", "tool": "look"},
        {"id": "done", "type": "end"},
    ],
}
TWO_SETS = {
    "name": "two_sets",
    "inputs": {},
    "steps": [
        {"id": "one", "type": "set", "set": {"a": 1}},
        {"id": "two", "type": "set", "set": {"b": 2}},
        {"id": "done", "type": "end"},
    ],
}
BRANCHES = {
    "name": "branches",
    "inputs": {},
    "tools": {"pay": {"effect": "write"}},
    "steps": [
        {"id": "always", "type": "condition", "condition": "1 < 2", "then": "done", "otherwise": "pay"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "done"},
        {"id": "done", "type": "end"},
    ],
}
LOOPS = {
    "name": "loops",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "boolean"}}},
    "steps": [
        {"id": "look", "type": "tool", "tool": "look", "max_visits": 2, "next_step": "again", "error_step": "done"},
        {"id": "again", "type": "condition", "condition": "$look.output", "then": "look", "otherwise": "done"},
        {"id": "done", "type": "end"},
    ],
}


def shop(*rules: dict[str, Any], steps: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a program with steps that write, under rules that it keeps as it is."""
    usual = [
        {"id": "look", "type": "tool", "tool": "look"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "done"},
        {"id": "refund", "type": "tool", "tool": "refund", "next_step": "done"},
        {"id": "done", "type": "end"},
    ]
    tools = {"look": {"effect": "read"}, "pay": {"effect": "write"}, "refund": {"effect": "write"}}
    return {"name": "shop", "inputs": {}, "tools": tools, "guardrails": list(rules), "steps": steps or usual}


REQUIRES = shop({"name": "look-first", "protects": {"tool": "pay"}, "requires": {"step": "look"}})
NEVER = shop({"name": "no-refund", "never": {"tool": "refund"}})
ONCE = shop({"name": "pay-once", "at_most_once": {"tool": "pay"}})
EXCLUSIVE = shop({"name": "one-of-them", "exclusive": [{"tool": "pay"}, {"tool": "refund"}]})


# -- the fold ----------------------------------------------------------------------------------------------------------


def applies(patch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    """Have everybody fold events in another way."""
    for module in (apply, driver, history, replay, runs):
        patch.setattr(module, "apply", function)


def endless(patch: pytest.MonkeyPatch) -> None:
    """Whatever comes after the end is applied as well."""
    applies(patch, lambda plan, state, event: apply._HANDLERS[event.kind](plan, state, event))


def follows_the_cursor(patch: pytest.MonkeyPatch) -> None:
    """Control goes where the record says."""
    whole = apply.leave

    def leave(plan: Any, state: Any, step: Any, event: Event, way: Any, done: Any) -> Any:
        to = next((other.position for other in plan.steps if other.id == event.body.get("next")), way.to)
        return whole(plan, state, step, event, way._replace(to=to), done)

    patch.setattr(apply, "leave", leave)


def any_place(patch: pytest.MonkeyPatch) -> None:
    """A record is of whatever step it says, and nobody asks whether it was its turn."""
    patch.setattr(apply, "step_of", lambda plan, _, body: next(step for step in plan.steps if step.id == body["step"]))
    no_meaning(patch)


def no_intents(patch: pytest.MonkeyPatch) -> None:
    """An outcome needs no intent."""
    whole = apply._attempt

    def attempt(plan: Any, state: Any, event: Event) -> Any:
        call = next((call for call in plan.steps[state.at].calls if call.id == event.body["step"]), None)
        is_open = state.calls is not None and call is not None and state.calls[call.sub].phase == OPEN
        if call is not None and call.has_intent and not is_open:
            state = apply._intent(plan, state, event)
        return whole(plan, state, event)

    patch.setitem(apply._HANDLERS, "attempt", attempt)


def any_delivery(patch: pytest.MonkeyPatch) -> None:
    """What is delivered is taken, whether somebody waited for it or not."""

    def settled(plan: Any, state: Any, event: Event, _: str) -> Any:
        state, step, sub, held = apply._begin(plan, state, event)
        held = held._replace(phase="success", value=event.body["output"], error="", token="")
        return apply._settle(plan, state, step, sub, held, event)

    patch.setattr(apply, "_settled_from_outside", settled)
    patch.setattr(replay, "_delivery_misfit", lambda *_: None)


# -- the replay --------------------------------------------------------------------------------------------------------


def no_meaning(patch: pytest.MonkeyPatch) -> None:
    """Nobody holds the records against what the machine would have written."""
    for module in (replay, runs):
        patch.setattr(module, "misfits", lambda _: [])


def takes_it_on_trust(patch: pytest.MonkeyPatch) -> None:
    """A verification holds the records against the program, and the machine goes on before that."""
    patch.setattr(runs.Runs, "_require_meaning", lambda *_: None)


def leaves_out(kind: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Have a replay pass over the records of a kind."""

    def removed(patch: pytest.MonkeyPatch) -> None:
        whole = replay._misfit

        def misfit(plan: Any, run: Any, state: Any, happened: Event) -> Any:
            return None if happened.kind == kind else whole(plan, run, state, happened)

        patch.setattr(replay, "_misfit", misfit)

    return removed


def without(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Remove one part of the replay."""
    return lambda patch: patch.setattr(replay, name, lambda *_: None)


def uncounted_visits(patch: pytest.MonkeyPatch) -> None:
    """A replay does not ask whether visits are used up."""
    whole = replay.decide

    def decide(plan: Any, state: Any, *under_way: Any) -> Any:
        step = plan.steps[state.at]
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(step, "max_visits", None)
            return whole(plan, state, *under_way)

    patch.setattr(replay, "decide", decide)


def unguarded_replay(patch: pytest.MonkeyPatch) -> None:
    """A replay does not ask the guardrails."""
    whole = replay.decide

    def decide(plan: Any, state: Any, *under_way: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(monitors.Watch, "objection", lambda *_: None)
            return whole(plan, state, *under_way)

    patch.setattr(replay, "decide", decide)


# -- guardrails --------------------------------------------------------------------------------------------------------


def silent(kind: type[automata.Automaton]) -> Callable[[pytest.MonkeyPatch], None]:
    """Have the monitors of one kind of rule object to nothing."""
    true = monitors.Monitor.objection

    def objection(self: Any, *asked: Any) -> str | None:
        return None if isinstance(self.automaton, kind) else true(self, *asked)

    return lambda patch: patch.setattr(monitors.Monitor, "objection", objection)


FALLS_BACK = {
    "name": "falls_back",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "integer"}}},
    "steps": [
        {
            "id": "look",
            "type": "tool",
            "tool": "look",
            "timeout_seconds": 5,
            "on_timeout": "fallback",
            "fallback": 7,
            "output_key": "seen",
        }
    ],
}


def any_fallback(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        replay,
        "_outcome_misfit",
        ('call.has_fallback and same(call.call.fallback, event.body.get("output"))', "call.has_fallback"),
    )


CANARIES: tuple[Canary, ...] = (
    Canary(
        "any-fallback",
        "a replay holds a fallback against the program",
        "fallback-rewritten",
        FALLS_BACK,
        any_fallback,
        smallest={"inputs": {}, "record": 0, "value": 0},
    ),
    Canary(
        "follows-the-cursor",
        "where control goes, the program says",
        "cursor-edited",
        TWO_READS,
        follows_the_cursor,
    ),
    Canary("any-place", "a record is of the step that the run is at", "step-forgotten", TWO_SETS, any_place),
    Canary("any-order", "a record is of the step that the run is at", "events-reordered", TWO_SETS, any_place),
    Canary(
        "any-ending",
        "a replay decides every ending again",
        "early-ending",
        TWO_SETS,
        leaves_out("ended"),
        smallest={"inputs": {}, "records kept, but one": 0, "ending": 0},
    ),
    Canary(
        "any-branch",
        "a replay decides every condition again",
        "branch-not-taken",
        BRANCHES,
        leaves_out("branched"),
    ),
    Canary(
        "no-meaning",
        "a replay holds the records against the program",
        "branch-not-taken",
        BRANCHES,
        no_meaning,
    ),
    Canary(
        "takes-it-on-trust",
        "a machine without a key goes on only with what it would have written",
        "branch-not-taken",
        BRANCHES,
        takes_it_on_trust,
    ),
    Canary(
        "no-intents",
        "an outcome has its intent before it",
        "outcome-without-intent",
        WRITES,
        no_intents,
        smallest={
            "inputs": {},
            "pay, visit 1, attempt 1": {"does": "returns", "value": False},
            "record": 0,
        },
    ),
    Canary(
        "any-output",
        "a replay holds every output against its type",
        "output-outside-its-type",
        READS,
        without("_output_misfit"),
        smallest={
            "inputs": {},
            **LOOKED,
            "record": 0,
            "output": {"does": "wrong", "value": None},
            "what follows is kept": False,
        },
    ),
    Canary(
        "any-outcome",
        "a replay asks of every outcome whether the program admits it",
        "attempts-beyond-retries",
        READS,
        without("_outcome_misfit"),
        smallest={"inputs": {}, **LOOKED, "record": 0, "what follows is kept": False},
    ),
    Canary("uncounted-visits", "a replay counts visits", "visits-beyond-the-limit", LOOPS, uncounted_visits),
    Canary(
        "any-delivery",
        "only what waits is resumed",
        "forged-delivery",
        READS,
        any_delivery,
        smallest={"inputs": {}, **LOOKED, "record": 0, "kind": 0, "what follows is kept": False},
    ),
    Canary("any-intent", "a replay derives every intent again", "intent-forged", WRITES, without("_intent_misfit")),
    Canary(
        "intents-unsigned",
        "a machine with a key goes on only with what that signed",
        "open-intent-removed",
        WRITES,
        unsigned_machine,
    ),
    Canary("endless", "an ending absorbs", "step-after-the-end", READS, endless),
    Canary(
        "no-requires",
        "what a rule requires comes first",
        "guard-bypassed",
        REQUIRES,
        silent(automata.RequiresAutomaton),
    ),
    Canary("no-never", "what a rule forbids never starts", "guard-bypassed", NEVER, silent(automata.NeverAutomaton)),
    Canary("no-once", "what comes once starts once", "guard-bypassed", ONCE, silent(automata.AtMostOnceAutomaton)),
    Canary(
        "no-exclusive",
        "what excludes one another does not start together",
        "guard-bypassed",
        EXCLUSIVE,
        silent(automata.ExclusiveAutomaton),
    ),
    Canary(
        "unguarded-replay",
        "a replay asks the guardrails again",
        "rejection-removed",
        REQUIRES,
        unguarded_replay,
    ),
)
