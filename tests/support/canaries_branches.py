"""Canaries of branches that run at once; a helper, no tests stand here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ, TEXT
from canaries_transitions import no_meaning
from rewriting import rewritten
from stepward.vm.machine import apply, branches, decide, deliveries, forks, history, replay, runs
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.slots import UNDEFINED
from stepward.vm.machine.state import Fork
from stepward.vm.values import FrozenMap

SAVES = {
    "name": "saves",
    "language": 2,
    "inputs": {},
    "tools": {"save": {"effect": "write", "idempotent": True, "returns": {"type": "boolean"}}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "branches": {
                "left": {
                    "steps": [
                        {"id": "seen", "type": "tool", "tool": "save"},
                        {"id": "told", "type": "end", "output": "$seen.output"},
                    ]
                },
                "right": {
                    "depends_on": ["left"],
                    "steps": [{"id": "more", "type": "tool", "tool": "save"}],
                },
                "third": {"steps": [{"id": "set", "type": "set", "set": {"n": 1}}]},
            },
        },
        {"id": "done", "type": "end", "output": {"all": "$both.output", "left": "$left.output"}},
    ],
}
PAYS = {
    "name": "pays_twice",
    "language": 2,
    "inputs": {},
    "tools": {"pay": {"effect": "write", "idempotent": True}},
    "guardrails": [{"name": "once", "at_most_once": {"tool": "pay"}}],
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "branches": {
                "left": {"steps": [{"id": "one", "type": "tool", "tool": "pay"}]},
                "right": {"steps": [{"id": "other", "type": "tool", "tool": "pay"}]},
            },
        }
    ],
}
WAITS = {
    "name": "waits_twice",
    "language": 2,
    "inputs": {},
    "tools": {"approve": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "branches": {
                "left": {"steps": [{"id": "one", "type": "tool", "tool": "approve"}]},
                "right": {"steps": [{"id": "other", "type": "tool", "tool": "approve"}]},
            },
        }
    ],
}
TEXTS = {
    "name": "texts",
    "language": 2,
    "inputs": {},
    "tools": {"look": {"effect": "read", "returns": TEXT}},
    "steps": [
        {
            "id": "both",
            "type": "parallel",
            "branches": {
                name: {
                    "steps": [
                        {"id": f"{name}_seen", "type": "tool", "tool": "look"},
                        {"id": f"{name}_told", "type": "end", "output": f"${name}_seen.output"},
                    ]
                }
                for name in ("left", "right", "third")
            },
        }
    ],
}


# -- the replay --------------------------------------------------------------------------------------------------------


def takes_any_branch(patch: pytest.MonkeyPatch) -> None:
    """A record may name any branch: it is taken for one of that in which its step is."""
    whole = apply._in_branches

    def in_branches(plan: Any, state: Any, event: Any) -> Any:
        layout, frame = plan.program.layout, tuple(map(tuple, event.body.get("frame", ())))
        at = next(number for number, step in enumerate(layout.steps) if step.id == event.body["step"])
        owners = [owner for owner in layout.owners_of(at) if plan.bodies.get(owner) and plan.bodies[owner].is_branch]
        if owners and frame and event.kind != "item":
            right = (*frame[:-1], (*frame[-1][:3], plan.steps[owners[-1]].id))
            event = event._replace(body=FrozenMap({**event.body, "frame": right}))
        return whole(plan, state, event)

    patch.setattr(apply, "_in_branches", in_branches)
    no_meaning(patch)


def joins_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    """Branches are joined although one of them has not started."""

    def failures(plan: Any, state: Any) -> Any:
        ids = [plan.steps[at].id for at in plan.program.layout.forks[state.fork.at].branches]
        return [(name, one.failure) for name, one in zip(ids, state.fork.branches, strict=True) if one.failure]

    patch.setattr(branches, "failures_of", failures)
    no_meaning(patch)


def starts_any_branch(patch: pytest.MonkeyPatch) -> None:
    """A branch starts whether or not those have ended that it depends on."""

    def may_start(plan: Any, fork: Any) -> Any:
        del plan
        return [number for number, one in enumerate(fork.branches) if one.state is None and not one.is_done]

    patch.setattr(branches, "may_start", may_start)
    no_meaning(patch)


# -- the machine -------------------------------------------------------------------------------------------------------


def drops_an_output(patch: pytest.MonkeyPatch) -> None:
    """A join leaves out what a branch came to."""
    whole = branches.output_changes
    patch.setattr(branches, "output_changes", lambda step, value: [] if step.id == "left" else whole(step, value))


def skips_the_last_branch(patch: pytest.MonkeyPatch) -> None:
    """The last of several branches has ended when it is to start."""
    whole = branches.forked

    def forked(plan: Any, state: Any, event: Any) -> Any:
        state = whole(plan, state, event)
        if len(state.fork.branches) < 2:
            return state
        done = state.fork.branches[-1]._replace(is_done=True, output=UNDEFINED, monitors=state.monitors)
        return state._replace(fork=state.fork.changed(len(state.fork.branches) - 1, done))

    patch.setattr(apply, "forked", forked)


def leaves_the_names_of_a_branch(patch: pytest.MonkeyPatch) -> None:
    """What a branch assigned stays where it has ended."""
    whole = forks.after_branch

    def after_branch(plan: Any, state: Any, number: int, own: Any) -> Any:
        found = whole(plan, state, number, own)
        return found if own.result is None else found._replace(slots=own.slots)

    patch.setattr(apply, "after_branch", after_branch)


def counts_steps_by_branch(patch: pytest.MonkeyPatch) -> None:
    """What a branch spends is forgotten where it ends."""
    whole = forks.after_branch

    def after_branch(plan: Any, state: Any, number: int, own: Any) -> Any:
        return whole(plan, state, number, own)._replace(steps=state.steps)

    patch.setattr(apply, "after_branch", after_branch)


def lets_rules_forget_siblings(patch: pytest.MonkeyPatch) -> None:
    """What siblings have started does not count."""
    patch.setattr(forks, "after_branch", _alone(forks.after_branch))
    patch.setattr(apply, "after_branch", _alone(apply.after_branch))


def _alone(whole: Any) -> Any:
    def after_branch(plan: Any, state: Any, number: int, own: Any) -> Any:
        return whole(plan, state, number, own)._replace(monitors=state.monitors)

    return after_branch


def forgets_branches_when_it_recovers(patch: pytest.MonkeyPatch) -> None:
    """A run that is read again has the outputs of no branch."""
    whole = history.fold

    def fold(plan: Any, events: Any) -> Any:
        state = whole(plan, events)
        if state.fork is None:
            return state
        lost = tuple(one._replace(output=UNDEFINED) for one in state.fork.branches)
        return state._replace(fork=state.fork._replace(branches=lost))

    for module in (history, replay, runs):
        if hasattr(module, "fold"):
            patch.setattr(module, "fold", fold)


def settles_whoever_waits(patch: pytest.MonkeyPatch) -> None:
    """A token that was used settles a sibling that still waits."""
    whole = deliveries._awaited

    def awaited(found: Any, token: Any) -> Any:
        right = whole(found, token)
        if right is not None:
            return right
        for here in leaves(found.plan, found.state):
            for call, call_state in zip(found.plan.steps[here.at].calls, here.calls or (), strict=False):
                if call_state.phase == "suspended":
                    return here, call
        return None

    patch.setattr(deliveries, "_awaited", awaited)


def measures_no_join(patch: pytest.MonkeyPatch) -> None:
    """What branches leave together has no limit."""
    patch.setattr(branches, "oversize", lambda *_: None)


def starts_too_many_items(patch: pytest.MonkeyPatch) -> None:
    """All items of a step start at once, whatever `max_concurrency` says."""
    real = forks.may_start

    def may_start(plan: Plan, fork: Fork) -> Iterable[int]:
        if fork.items is None:
            return real(plan, fork)
        return [at for at, one in enumerate(fork.branches) if one.state is None and not one.is_done][:1]

    for module in (forks, branches, decide, replay):
        patch.setattr(module, "may_start", may_start)


def starts_after_a_failed_item(patch: pytest.MonkeyPatch) -> None:
    """Items of a step start as if none had failed."""
    real = forks.may_start
    for module in (forks, branches, decide, replay):
        patch.setattr(module, "may_start", lambda plan, fork: real(plan, fork._replace(stops=False)))


def fails_by_the_order_of_starts(patch: pytest.MonkeyPatch) -> None:
    """A join fails with the error of the branch that may start first."""
    weak = rewritten(branches.failures_of, ("for number in layout.written if number in found", "for number in found"))
    patch.setattr(branches, "failures_of", weak)


def names_what_did_not_start(patch: pytest.MonkeyPatch) -> None:
    """The error of a join names branches that did not start, beside those that failed."""
    weak = rewritten(branches.join, ("in own[:3])", "in failures[:3])"))
    patch.setattr(decide, "join", weak)


CANARIES = [
    Canary(
        "names-what-did-not-start",
        "what did not start does not explain a failure",
        "drawn-joins",
        READ,
        names_what_did_not_start,
    ),
    Canary(
        "fails-by-the-order-of-starts",
        "a join fails with the error of the first branch by name",
        "drawn-joins",
        READ,
        fails_by_the_order_of_starts,
    ),
    Canary(
        "starts-after-a-failed-item",
        "after a failed item none starts",
        "drawn-items",
        READ,
        starts_after_a_failed_item,
    ),
    Canary("starts-too-many-items", "at most so many items run at once", "drawn-items", READ, starts_too_many_items),
    Canary(
        "takes-any-branch", "a record belongs to the branch of its step", "frame-exchanged", SAVES, takes_any_branch
    ),
    Canary("joins-too-early", "all branches end before a join", "branch-skipped", SAVES, joins_whoever_is_there),
    Canary(
        "starts-any-branch",
        "a branch starts behind those that it depends on",
        "branch-too-early",
        SAVES,
        starts_any_branch,
    ),
    Canary("drops-an-output", "a join binds what each branch came to", "killed-anywhere", SAVES, drops_an_output),
    Canary("skips-the-last-branch", "each branch is performed", "drawn-branches", READ, skips_the_last_branch),
    Canary(
        "leaves-the-names-of-a-branch",
        "what a branch assigned is gone where it has ended",
        "drawn-branches",
        READ,
        leaves_the_names_of_a_branch,
    ),
    Canary(
        "counts-steps-by-branch",
        "what branches spend is added up",
        "drawn-branches",
        READ,
        counts_steps_by_branch,
    ),
    Canary(
        "lets-rules-forget-siblings",
        "rules count what siblings have started",
        "killed-anywhere",
        PAYS,
        lets_rules_forget_siblings,
    ),
    Canary(
        "forgets-branches-when-it-recovers",
        "after a crash, what branches came to is known",
        "killed-anywhere",
        SAVES,
        forgets_branches_when_it_recovers,
    ),
    Canary(
        "settles-whoever-waits",
        "a token settles one call, and no sibling of it",
        "token-twice",
        WAITS,
        settles_whoever_waits,
    ),
    Canary("no-limit-of-joins", "what branches leave has a limit", "state-too-large", TEXTS, measures_no_join),
]
