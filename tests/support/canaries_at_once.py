"""Canaries of items of for_each steps that run at once; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from canaries import Canary
from canaries_transitions import no_meaning
from rewriting import rewrite, rewritten
from stepward.vm.machine import apply, branches, decide, deliveries, driver, forks, history, replay, runs, tools
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.monitors import Watch
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import Branch, Fork

NUMBERS = {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "integer"}}
SAVES_AT_ONCE: dict[str, Any] = {
    "name": "saves_at_once",
    "language": 2,
    "inputs": {"lines": NUMBERS},
    "tools": {
        "save": {
            "effect": "write",
            "idempotent": True,
            "args": {"of": {"type": "integer"}},
            "returns": {"type": "integer"},
        }
    },
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "max_concurrency": 2,
            "do": {"id": "save", "type": "tool", "tool": "save", "args": {"of": "$line"}},
        },
        {"id": "done", "type": "end", "output": "$each.output"},
    ],
}
PAYS_AT_ONCE = {
    "name": "pays_at_once",
    "language": 2,
    "inputs": {"lines": NUMBERS},
    "tools": {"pay": {"effect": "write", "idempotent": True, "args": {"of": {"type": "integer"}}}},
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "max_concurrency": 2,
            "on_error": "retry",
            "max_retries": 2,
            "guardrails": [{"name": "once-each", "at_most_once": {"tool": "pay"}}],
            "do": {"id": "pay", "type": "tool", "tool": "pay", "args": {"of": "$line"}},
        }
    ],
}
ASKS_AT_ONCE = {
    "name": "asks_at_once",
    "language": 2,
    "inputs": {"lines": NUMBERS},
    "tools": {"ask": {"effect": "none", "suspends": True, "returns": {"type": "integer"}}},
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "max_concurrency": 2,
            "on_item_error": "skip",
            "do": {"id": "ask", "type": "tool", "tool": "ask"},
        },
        {"id": "done", "type": "end", "output": "$each.output"},
    ],
}

SKIPS_AT_ONCE = {
    **SAVES_AT_ONCE,
    "name": "skips_at_once",
    "steps": [{**SAVES_AT_ONCE["steps"][0], "on_item_error": "skip"}, SAVES_AT_ONCE["steps"][1]],
}

Patch = Callable[[pytest.MonkeyPatch], None]


def _start_those_left(patch: pytest.MonkeyPatch) -> None:
    """Let the first item start that neither goes on nor has ended, whatever started before."""

    def may_start(plan: Plan, fork: Fork) -> Iterable[int]:
        if fork.items is None:
            return real(plan, fork)
        has_room = len(fork.running) < plan.bodies[fork.at].most_beside and not fork.has_stopped
        return [at for at, one in enumerate(fork.branches) if one.state is None and not one.is_done][:has_room]

    real = forks.may_start
    for module in (forks, branches, decide, replay):
        patch.setattr(module, "may_start", may_start)


def _read_again(change: Callable[[Branch], Branch]) -> Patch:
    """Return a patch by which a run that is read again has other items."""

    def patched(patch: pytest.MonkeyPatch) -> None:
        whole = history.fold
        _start_those_left(patch)

        def fold(plan: Any, events: Any) -> Any:
            state = whole(plan, events)
            if state.fork is None or state.fork.items is None:
                return state
            fork = state.fork._replace(branches=(Branch(),) * len(state.fork.branches), running=(), begun=0)
            for number, one in enumerate(map(change, state.fork.branches)):
                fork = fork.changed(number, one) if one != Branch() else fork
            return state._replace(fork=fork)

        for module in (history, replay, runs):
            if hasattr(module, "fold"):
                patch.setattr(module, "fold", fold)

    return patched


def _anew(one: Branch) -> Branch:
    return Branch() if one.is_done else one


def _done(one: Branch) -> Branch:
    return Branch(None, True) if one.state is None else one


starts_items_again_when_it_recovers = _read_again(_anew)
forgets_items_to_come_when_it_recovers = _read_again(_done)


def leaves_no_hole(patch: pytest.MonkeyPatch) -> None:
    """The output has no entry for an item without one: the others move up."""
    change = (
        "output = tuple(None if one.output is UNDEFINED else one.output for one in fork.branches)",
        "output = tuple(one.output for one in fork.branches if one.output is not UNDEFINED)",
    )
    rewrite(patch, branches, "_joined_items", change)


def puts_outputs_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """An item that ends has the place of the first one that has not."""
    whole = forks.after_branch

    def after_branch(plan: Any, state: Any, number: int, own: Any) -> Any:
        found = whole(plan, state, number, own)
        if own.result is None or state.fork.items is None:
            return found
        first = next(at for at, one in enumerate(state.fork.branches) if not one.is_done)
        placed = list(found.fork.branches)
        placed[number], placed[first] = placed[first]._replace(is_done=placed[first].is_done), placed[number]
        return found._replace(fork=found.fork._replace(branches=tuple(placed)))

    patch.setattr(apply, "after_branch", after_branch)


def traces_as_they_come(patch: pytest.MonkeyPatch) -> None:
    """The trace of an item says how many have ended before it."""
    whole = forks.after_branch

    def after_branch(plan: Any, state: Any, number: int, own: Any) -> Any:
        if own.result is not None and state.fork.items is not None:
            before = sum(one.is_done for one in state.fork.branches)
            own = own._replace(result=own.result._replace(trace=own.result.trace[:-1] + bytes([before])))
        return whole(plan, state, number, own)

    patch.setattr(apply, "after_branch", after_branch)


def mixes_rules_of_bodies(patch: pytest.MonkeyPatch) -> None:
    """The rules of a body see what other items do."""
    rewrite(patch, Watch, "shared", ("one.automaton.is_shared and one.owner in owners", "one.automaton.is_shared"))
    patch.setattr(Watch, "begun", lambda self, memories, owner: memories)


def waits_with_the_first(patch: pytest.MonkeyPatch) -> None:
    """A run waits as soon as one of its items does."""
    rewrite(patch, forks, "_status", ("RUNNING in found or not found or any(may_start(plan, fork))", "not found"))


def forgets_who_waits(patch: pytest.MonkeyPatch) -> None:
    """Only the first item that waits can be answered."""

    def awaited(found: Any, token: Any) -> Any:
        first = next(iter(leaves(found.plan, found.state)))
        right = whole(found, token)
        return right if right is not None and right[0].frame == first.frame else None

    whole = deliveries._awaited
    patch.setattr(deliveries, "_awaited", awaited)


def answers_any_item(patch: pytest.MonkeyPatch) -> None:
    """A token settles the first item that waits at its step."""
    whole = deliveries._awaited

    def awaited(found: Any, token: Any) -> Any:
        right = whole(found, token)
        if right is None:
            return None
        for here in leaves(found.plan, found.state):
            for call, state in zip(found.plan.steps[here.at].calls, here.calls or (), strict=False):
                if state.phase == "suspended" and call.id == right[1].id:
                    return here, call
        return right

    patch.setattr(deliveries, "_awaited", awaited)


def keeps_keys_over_rounds(patch: pytest.MonkeyPatch) -> None:
    """An idempotency key is the same in each round."""
    whole = tools.idempotency_key

    def key(program: str, run: str, step: str, visit: int, performance: int, frame: Any = ()) -> str:
        return whole(program, run, step, visit, performance, tuple((*one[:2], 1, one[3]) for one in frame))

    for module in (tools, replay, driver, runs):
        patch.setattr(module, "idempotency_key", key)


def keeps_keys_over_items(patch: pytest.MonkeyPatch) -> None:
    """An idempotency key is the same for each item."""
    whole = tools.idempotency_key

    def key(program: str, run: str, step: str, visit: int, performance: int, frame: Any = ()) -> str:
        return whole(program, run, step, visit, performance, tuple((*one[:3], 0) for one in frame))

    for module in (tools, replay, driver, runs):
        patch.setattr(module, "idempotency_key", key)


def tries_once_more(patch: pytest.MonkeyPatch) -> None:
    """A step has one round more than its `max_retries`."""
    rewrite(patch, branches, "failed_items", ("attempt < body.attempts", "attempt <= body.attempts"))
    rewrite(patch, branches, "_joined_items", ("fork.round >= body.attempts", "fork.round > body.attempts"))


def performs_only_what_failed(patch: pytest.MonkeyPatch) -> None:
    """Another round leaves the items out that have succeeded."""
    left = "tuple(Branch() if one.failure is not None or not one.is_done else one for one in fork.branches)"
    change = (
        "(Branch(),) * len(fork.branches), fork.items, fork.round + 1, fork.stops)",
        f"(left := {left}), fork.items, fork.round + 1, fork.stops, (), sum(one.is_done for one in left))",
    )
    rewrite(patch, branches, "_joined_items", change)
    _start_those_left(patch)


def leaves_items_behind(patch: pytest.MonkeyPatch) -> None:
    """A step ends with the first failed item, though others are under way."""
    change = ("if fork.running:", "if fork.running and not fork.has_stopped:")
    weak = rewritten(branches.is_joined, change)
    for module in (branches, decide):
        patch.setattr(module, "is_joined", weak)


def joins_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    """A record may end a step of which an item has never started."""
    change = ("fork.begun == len(fork.branches) or fork.has_stopped", "True")
    rewrite(patch, branches, "is_joined", change)  # the machine that plays the run asks another module for it
    no_meaning(patch)


def starts_items_whenever(patch: pytest.MonkeyPatch) -> None:
    """A record may start an item whether or not there is room, and whether or not another has failed."""

    def may_start(plan: Plan, fork: Fork) -> Iterable[int]:
        del plan
        return [at for at, one in enumerate(fork.branches) if one.state is None and not one.is_done]

    patch.setattr(branches, "may_start", may_start)
    no_meaning(patch)


CANARIES = [
    Canary(
        "starts-items-again",
        "after a crash, an item that has ended does not start again",
        "killed-anywhere",
        SAVES_AT_ONCE,
        starts_items_again_when_it_recovers,
    ),
    Canary(
        "forgets-items-to-come",
        "after a crash, items that have not started still do",
        "killed-anywhere",
        SAVES_AT_ONCE,
        forgets_items_to_come_when_it_recovers,
    ),
    Canary(
        "leaves-no-hole",
        "the output of an item stands at its place in the list",
        "sibling-comes-late",
        SKIPS_AT_ONCE,
        leaves_no_hole,
    ),
    Canary(
        "puts-outputs-as-they-come",
        "the output of an item is its own, whichever ends first",
        "sibling-comes-late",
        SAVES_AT_ONCE,
        puts_outputs_as_they_come,
    ),
    Canary(
        "traces-as-they-come",
        "the trace hash does not depend on the order in which items end",
        "killed-anywhere",
        SAVES_AT_ONCE,
        traces_as_they_come,
    ),
    Canary(
        "mixes-rules-of-items",
        "the rules of a body hold for each item by itself",
        "killed-anywhere",
        PAYS_AT_ONCE,
        mixes_rules_of_bodies,
    ),
    Canary(
        "waits-with-the-first-item",
        "items go on while another one waits",
        "killed-anywhere",
        ASKS_AT_ONCE,
        waits_with_the_first,
    ),
    Canary(
        "forgets-which-items-wait",
        "each item that waits can be answered",
        "tokens-at-once",
        ASKS_AT_ONCE,
        forgets_who_waits,
    ),
    Canary(
        "answers-any-item",
        "a token settles the item that it was made for",
        "tokens-in-any-order",
        ASKS_AT_ONCE,
        answers_any_item,
    ),
    Canary(
        "keeps-keys-over-rounds",
        "an idempotency key names the round",
        "killed-anywhere",
        PAYS_AT_ONCE,
        keeps_keys_over_rounds,
    ),
    Canary(
        "keeps-keys-over-items",
        "an idempotency key names the item",
        "killed-anywhere",
        PAYS_AT_ONCE,
        keeps_keys_over_items,
    ),
    Canary(
        "tries-items-once-more",
        "a step has as many rounds as `max_retries` says",
        "everything-fails",
        PAYS_AT_ONCE,
        tries_once_more,
    ),
    Canary(
        "performs-only-what-failed",
        "another round performs all items",
        "killed-anywhere",
        PAYS_AT_ONCE,
        performs_only_what_failed,
    ),
    Canary(
        "leaves-items-behind",
        "a step ends when those of its items have ended that were under way",
        "killed-anywhere",
        PAYS_AT_ONCE,
        leaves_items_behind,
    ),
    Canary(
        "joins-without-an-item",
        "all items are performed before a step ends",
        "item-skipped",
        SAVES_AT_ONCE,
        joins_whoever_is_there,
    ),
    Canary(
        "starts-items-without-room",
        "a replay knows how many items may run at once",
        "item-too-early",
        SAVES_AT_ONCE,
        starts_items_whenever,
    ),
    Canary(
        "starts-items-after-a-failure",
        "a replay knows that no item starts after one has failed",
        "item-after-failure",
        SAVES_AT_ONCE,
        starts_items_whenever,
    ),
]
