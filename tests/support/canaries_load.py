"""Canaries of the family "load"; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.sabotage.playing.world import COST_OF_A_REPLY
from stepward.vm import values
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Lease
from stepward.vm.machine import apply, calls, decide, deliveries, driver, leaving, replay, runs, sizes
from stepward.vm.machine.events import FREE, Event, make_event
from stepward.vm.machine.plan import StepPlan
from stepward.vm.machine.state import State

EDGE = "state-at-the-edge"
TEXT = {"type": "string"}
_LOOKING = {"id": "look", "type": "tool", "tool": "look"}
_WAITING = [{"id": "approve", "type": "tool", "tool": "approve"}, _LOOKING]
READ = {
    "name": "read",
    "inputs": {},
    "tools": {"look": {"effect": "read"}},
    "steps": [_LOOKING],
}
TWO_READS = {
    "name": "two_reads",
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": {"type": "boolean"}}},
    "steps": [{"id": "first", "type": "tool", "tool": "look"}, {"id": "second", "type": "tool", "tool": "look"}],
}
RETRIED = {
    "name": "retried",
    "inputs": {},
    "tools": {"book": {"effect": "write", "idempotent": True}},
    "steps": [{"id": "book", "type": "tool", "tool": "book", "on_error": "retry"}],
}
WAITS = {
    "name": "waits",
    "inputs": {},
    "tools": {
        "approve": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
        "look": {"effect": "read"},
    },
    "steps": _WAITING,
}
LOOKS_AND_WAITS = {
    "name": "looks_and_waits",
    "inputs": {},
    "tools": {"ask": {"effect": "none", "suspends": True, "returns": {"enum": ["a" * 60, "b" * 60]}}, **READ["tools"]},
    "steps": [_LOOKING, {"id": "ask", "type": "tool", "tool": "ask"}],
}
LOOKS_AND_SETS = {**READ, "name": "looks_and_sets", "steps": [_LOOKING, {"id": "s", "type": "set", "set": {"y": 1}}]}
SIBLINGS = {
    "name": "siblings",
    "inputs": {},
    "tools": {"look": {"effect": "read"}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "parallel_steps": [{"id": name, "type": "tool", "tool": "look"} for name in ("one", "two")],
        }
    ],
}
ASKED = {
    "name": "asked",
    "inputs": {},
    "tools": {"approve": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}}},
    "steps": [
        {"id": "ask", "type": "llm", "prompt": "yes?", "allowed_outputs": ["yes"], "on_error": "retry"},
        {"id": "approve", "type": "tool", "tool": "approve"},
        {"id": "again", "type": "llm", "prompt": "yes?"},
    ],
}
ASSIGNED = {
    "name": "assigned",
    "inputs": {},
    "steps": [
        {"id": "first", "type": "set", "set": {"x": 1}},
        {"id": "second", "type": "set", "set": {"x": 1}},
        {"id": "third", "type": "end"},
    ],
}
POLLED = {
    "name": "polled",
    "inputs": {},
    "tools": {"poll": {"effect": "read", "returns": {"type": "boolean"}}},
    "max_steps": 6,
    "steps": [
        {"id": "poll", "type": "tool", "tool": "poll", "output_key": "done", "next_step": "check"},
        {"id": "check", "type": "condition", "condition": "$done", "then": "end", "otherwise": "poll"},
        {"id": "end", "type": "end"},
    ],
}


def measures_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "oversize", lambda plan, state, step, value: None)


def measures_no_state(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, sizes, "refusal", ("if total > state", "if total > 1000 * state"))


def allows_a_byte_more(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, sizes, "refusal", ("if total > state.limits.state_bytes", "if total > state.limits.state_bytes + 1"))


def allows_a_byte_less(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, sizes, "refusal", ("if total > state", "if total >= state"))


def counts_whole_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "left_size", lambda state, event, name: len(event.text))


def _with_a_byte_less(state: State) -> State:
    return state._replace(limits=state.limits._replace(state_bytes=state.limits.state_bytes - 1))


def delivers_a_byte_less(patch: pytest.MonkeyPatch) -> None:
    measure = deliveries.oversize
    patch.setattr(deliveries, "oversize", lambda plan, state, *rest: measure(plan, _with_a_byte_less(state), *rest))


def replays_a_byte_less(patch: pytest.MonkeyPatch) -> None:
    decide_ = replay.decide
    patch.setattr(replay, "decide", lambda plan, state, *rest: decide_(plan, _with_a_byte_less(state), *rest))


def forgets_what_siblings_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "_too_large_together", lambda *_: None)


def counts_no_levels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(values, "MAX_DEPTH", 100)


def counts_no_digits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(values, "_LARGEST_INT", 10**2000)


def tries_once_more(patch: pytest.MonkeyPatch) -> None:
    outcome = calls.outcome_of
    patch.setattr(calls, "outcome_of", lambda call, tried, result: outcome(call, tried - 1, result))


def _forgets(patch: pytest.MonkeyPatch, forget: Callable[[State], State]) -> None:
    """Have whoever picks up a run forget something of its state."""
    take = runs.Runs._take

    async def taken(self: Any, run: str, *until: Any, **how: Any) -> Any:
        found = await take(self, run, *until, **how)
        if found is not None:
            found[0].state = forget(found[0].state)
        return found

    patch.setattr(runs.Runs, "_take", taken)


def forgets_steps(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, lambda state: state._replace(steps=0))


def forgets_tokens(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, lambda state: state._replace(tokens=0))


def forgets_attempts(patch: pytest.MonkeyPatch) -> None:
    def forget(state: State) -> State:
        return state._replace(calls=state.calls and tuple(call._replace(attempt=0) for call in state.calls))

    _forgets(patch, forget)


def has_steps_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "out_of_steps", lambda plan, state, cost: False)


def names_no_doubts(patch: pytest.MonkeyPatch) -> None:
    end = calls.ended

    def ended(*args: Any) -> Event:
        body = {name: value for name, value in end(*args).body.items() if name != "in_doubt"}
        return make_event("ended", body)

    patch.setattr(calls, "ended", ended)
    patch.setattr(decide, "ended", ended)


def forgets_costs(patch: pytest.MonkeyPatch) -> None:
    _forgets(patch, lambda state: state._replace(cost=0))


def _miscounts(patch: pytest.MonkeyPatch, miscount: Callable[[State], State]) -> None:
    """Have the machine check the budgets of models in another state."""
    whole = calls.used_up
    patch.setattr(calls, "used_up", lambda plan, state: whole(plan, miscount(state)))


def looks_for_tokens_too_late(patch: pytest.MonkeyPatch) -> None:
    _miscounts(patch, lambda state: state._replace(tokens=state.tokens - 1))


def has_tokens_without_end(patch: pytest.MonkeyPatch) -> None:
    _miscounts(patch, lambda state: state._replace(tokens=-1))


def looks_for_costs_too_late(patch: pytest.MonkeyPatch) -> None:
    _miscounts(patch, lambda state: state._replace(cost=state.cost - COST_OF_A_REPLY / 10))


def has_money_without_end(patch: pytest.MonkeyPatch) -> None:
    _miscounts(patch, lambda state: state._replace(cost=-1))


def charges_no_rejected_replies(patch: pytest.MonkeyPatch) -> None:
    ask_model = driver.ask_model

    async def asked(*args: Any) -> Any:
        result = await ask_model(*args)
        return result._replace(spent=FREE) if result.rule else result

    patch.setattr(driver, "ask_model", asked)


def sees_progress_everywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leaving, "_is_same", lambda before, after: False)


def counts_no_visits(patch: pytest.MonkeyPatch) -> None:
    begin = StepPlan.__init__

    def begun(self: StepPlan, *args: Any) -> None:
        begin(self, *args)
        self.max_visits = None

    patch.setattr(StepPlan, "__init__", begun)


def leases_to_anybody(patch: pytest.MonkeyPatch) -> None:
    acquire = MemoryJournal.acquire

    def acquired(self: MemoryJournal, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        return acquire(self, run, holder, now + 1e9, ttl)

    patch.setattr(MemoryJournal, "acquire", acquired)


def records_every_refusal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs, "MAX_REFUSALS", 1 << 30)


def charges_attempts_anew(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, calls, "_unpaid", ("call.attempt > 1 and not call.is_started", "call.attempt > 1"))


CANARIES: tuple[Canary, ...] = (
    Canary(
        name="no-limit-of-outputs",
        defence="an output over its limit fails",
        attack="output-too-large",
        program=READ,
        patch=measures_nothing,
        smallest={"beside the limit": 1, "inputs": {}, "calls before it": 0, "answer: look, visit 1, attempt 1": None},
    ),
    Canary("no-limit-of-the-state", "the state has a limit", "state-too-large", READ, measures_no_state),
    Canary("state-a-byte-more", "the state has its limit to the byte", EDGE, READ, allows_a_byte_more),
    Canary("state-a-byte-less", "a state may be as large as its limit", EDGE, READ, allows_a_byte_less),
    Canary("whole-records-in-the-state", "a step counts for the value that it left", EDGE, WAITS, counts_whole_records),
    Canary("payload-a-byte-less", "a payload may fill the state", EDGE, LOOKS_AND_WAITS, delivers_a_byte_less),
    Canary("replay-a-byte-less", "a replay measures as the run did", EDGE, LOOKS_AND_SETS, replays_a_byte_less),
    Canary("siblings-uncounted", "outputs of sub-steps count together", EDGE, SIBLINGS, forgets_what_siblings_left),
    Canary("no-limit-of-levels", "levels of a value are bounded", "huge-values", READ, counts_no_levels),
    Canary("no-limit-of-digits", "digits of a number are bounded", "huge-values", READ, counts_no_digits),
    Canary(
        name="one-attempt-more",
        defence="attempts are bounded",
        attack="everything-fails",
        program=RETRIED,
        patch=tries_once_more,
        smallest={"everything": "fails", "inputs": {}},
    ),
    Canary("no-budget-of-steps", "the budget of steps is kept", "steps-at-the-edge", TWO_READS, has_steps_without_end),
    Canary("steps-anew", "steps are counted on when a run is resumed", "steps-at-the-edge", WAITS, forgets_steps),
    Canary(
        name="doubts-unnamed",
        defence="a run out of budget names what may have happened",
        attack="steps-at-the-edge",
        program=RETRIED,
        patch=names_no_doubts,
    ),
    Canary("no-budget-of-tokens", "the budget of tokens is kept", "tokens-at-the-edge", ASKED, has_tokens_without_end),
    Canary(
        name="free-rejected-replies",
        defence="rejected replies are charged",
        attack="tokens-at-the-edge",
        program=ASKED,
        patch=charges_no_rejected_replies,
    ),
    Canary(
        "tokens-one-more",
        "the budget of tokens is used up by its last token",
        "tokens-at-the-edge",
        ASKED,
        looks_for_tokens_too_late,
    ),
    Canary("tokens-anew", "tokens are counted on when a run is resumed", "tokens-at-the-edge", ASKED, forgets_tokens),
    Canary("no-budget-of-money", "the budget of money is kept", "cost-at-the-edge", ASKED, has_money_without_end),
    Canary(
        "money-one-more",
        "the budget of money is used up by its last reply",
        "cost-at-the-edge",
        ASKED,
        looks_for_costs_too_late,
    ),
    Canary("money-anew", "costs are added up on when a run is resumed", "cost-at-the-edge", ASKED, forgets_costs),
    Canary(
        name="progress-everywhere",
        defence="steps that change no value are counted",
        attack="stalls-at-the-edge",
        program=ASSIGNED,
        patch=sees_progress_everywhere,
        smallest={"inputs": {}, "budget": 1, "killed at point": None},
    ),
    Canary("no-visits", "visits are bounded", "visits-at-the-edge", POLLED, counts_no_visits),
    Canary(
        name="attempts-anew",
        defence="attempts are counted on when a run is recovered",
        attack="retries-after-crash",
        program=RETRIED,
        patch=forgets_attempts,
    ),
    Canary(
        name="attempts-charged-anew",
        defence="an attempt that recovery makes again is charged once",
        attack="retries-after-crash",
        program=RETRIED,
        patch=charges_attempts_anew,
    ),
    Canary("leases-to-anybody", "a run has one lease at a time", "reentrant-tool", READ, leases_to_anybody),
    Canary(
        name="every-refusal",
        defence="a bounded number of refusals is recorded",
        attack="refused-deliveries",
        program=READ,
        patch=records_every_refusal,
    ),
)
