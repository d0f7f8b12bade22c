"""Canaries of the items of for_each steps; a helper, no tests stand here."""

from __future__ import annotations

from typing import Any

import pytest

from canaries import Canary
from canaries_load import READ
from canaries_transitions import applies, no_meaning
from rewriting import rewrite, rewritten
from stepward.vm.machine import apply, bodies, driver, history, items, leaving, monitors, replay, runs, tools
from stepward.vm.machine.plan import BodyPlan
from stepward.vm.machine.slots import empty

LINES = {
    "name": "lines",
    "language": 2,
    "inputs": {"lines": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "integer"}}},
    "tools": {"look": {"effect": "read", "args": {"of": {"type": "integer"}}, "returns": {"type": "boolean"}}},
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "carry": {"sum": 0},
            "steps": [
                {"id": "look", "type": "tool", "tool": "look", "args": {"of": "$line"}},
                {"id": "add", "type": "set", "set": {"sum": "$sum + 1"}},
            ],
        },
        {"id": "done", "type": "end", "output": "$sum"},
    ],
}
PAYMENTS = {
    "name": "payments",
    "language": 2,
    "inputs": {"lines": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "integer"}}},
    "tools": {"pay": {"effect": "write", "idempotent": True, "args": {"of": {"type": "integer"}}}},
    "steps": [
        {
            "id": "each",
            "type": "for_each",
            "items": "$lines",
            "as": "line",
            "guardrails": [{"name": "once-each", "at_most_once": {"tool": "pay"}}],
            "do": {"id": "pay", "type": "tool", "tool": "pay", "args": {"of": "$line"}},
        }
    ],
}


# -- the replay --------------------------------------------------------------------------------------------------------


def starts_any_item(patch: pytest.MonkeyPatch) -> None:
    """The record of a start may name any item, and nobody holds the records against the program."""
    change = ("if recorded != name or each.item >= len(each.items) or each.failed is not None:", "if not recorded:")
    weak = rewritten(items.item, change, ("name, traced(", "said, traced("))

    def item(plan: Any, state: Any, event: Any) -> Any:
        if state.each is not None:
            state = state._replace(each=state.each._replace(item=event.body["frame"][-1][3]))
        return weak(plan, state, event)

    patch.setitem(apply._HANDLERS, "item", item)
    no_meaning(patch)


def computes_no_items_again(patch: pytest.MonkeyPatch) -> None:
    """A replay takes the start of a for_each step for what its record says."""
    rewrite(patch, replay, "_misfit", ("if kind in FROM_OUTSIDE:", 'if kind in FROM_OUTSIDE or kind == "opened":'))


def takes_any_frame(patch: pytest.MonkeyPatch) -> None:
    """A record may name any frame, or none."""
    rewrite(patch, apply, "apply", ('body.get("frame", ()) != around', "False"))
    applies(patch, apply.apply)
    no_meaning(patch)


# -- the machine -------------------------------------------------------------------------------------------------------


def skips_the_last_item(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "_items", _changed_items(lambda found: found[:-1] if len(found) > 1 else found))


def repeats_the_last_item(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "_items", _changed_items(lambda found: (*found, *found[-1:]) if len(found) < 3 else found))


def begins_with_the_last_item(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "_items", _changed_items(lambda found: found[::-1]))


def _changed_items(change: Any) -> Any:
    whole = bodies._items

    def items_of(value: Any) -> Any:
        found = whole(value)
        return None if found is None else change(found)

    return items_of


def loses_what_items_carry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(items, "begin_item", _beginning(lambda each: each._replace(carried=each.first)))


def _beginning(change: Any) -> Any:
    whole = bodies.begin_item

    def begin_item(plan: Any, state: Any, each: Any, *others: Any) -> Any:
        each = change(each)
        slots = bodies.put(state.slots, each.carried) if each.carried else state.slots
        return whole(plan, state._replace(slots=slots), each, *others)

    return begin_item


def carries_on_what_failed(patch: pytest.MonkeyPatch) -> None:
    """An item that fails hands on what it assigned."""
    failed = "failed = failure if body.stops else None"
    kept = "carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])"
    weak = rewritten(bodies.end_item, (failed, f"{failed}; {kept}"))
    patch.setattr(leaving, "end_item", weak)


def leaves_values_of_the_last_item(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, BodyPlan, "__init__", ("= [(slot, UNDEFINED) for slot in self.locals]", "= []"))


def carries_into_the_next_round(patch: pytest.MonkeyPatch) -> None:
    """Another attempt of a step begins with what the attempt before carried on."""
    weak = rewritten(bodies.again, ("put(state.slots, each.first) if each.first else state.slots", "state.slots"))
    patch.setattr(items, "again", weak)


def forgets_the_frame_in_keys(patch: pytest.MonkeyPatch) -> None:
    whole = tools.idempotency_key

    def key(program: str, run: str, step: str, visit: int, performance: int, frame: Any = ()) -> str:
        del frame
        return whole(program, run, step, visit, performance)

    for module in (tools, replay, driver, runs):
        patch.setattr(module, "idempotency_key", key)


def begins_no_rules_anew(patch: pytest.MonkeyPatch) -> None:
    """The rules of a body see all items together."""
    patch.setattr(monitors.Watch, "begun", lambda self, memories, owner: memories)


def forgets_items_when_it_recovers(patch: pytest.MonkeyPatch) -> None:
    """A run that is read again has the outputs of no item."""
    whole = history.fold

    def fold(plan: Any, events: Any) -> Any:
        state = whole(plan, events)
        frames = [one._replace(each=one.each._replace(outputs=empty(len(one.each.items)))) for one in state.frames]
        return state._replace(frames=tuple(frames))

    for module in (history, replay, runs):
        if hasattr(module, "fold"):
            patch.setattr(module, "fold", fold)


CANARIES = [
    Canary(
        "carries-into-the-next-round",
        "each attempt of a step begins with the first values of `carry`",
        "drawn-rounds",
        READ,
        carries_into_the_next_round,
    ),
    Canary("starts-any-item", "the items of a step come in order, each once", "item-skipped", LINES, starts_any_item),
    Canary("starts-an-item-again", "an item is performed once in a round", "item-repeated", LINES, starts_any_item),
    Canary("starts-items-anyhow", "an item comes after the one before it", "items-swapped", LINES, starts_any_item),
    Canary(
        "computes-no-items-again",
        "a replay computes the items of a step again",
        "list-edited",
        LINES,
        computes_no_items_again,
    ),
    Canary(
        "computes-no-carry-again",
        "a replay computes the first values of carried variables again",
        "carry-edited",
        LINES,
        computes_no_items_again,
    ),
    Canary("takes-no-frame", "a record in a body names its frame", "frame-dropped", LINES, takes_any_frame),
    Canary("takes-any-frame", "a record belongs to the frame that goes on", "frame-exchanged", LINES, takes_any_frame),
    Canary("skips-the-last-item", "a step performs each item", "drawn-bodies", READ, skips_the_last_item),
    Canary("repeats-the-last-item", "a step performs each item once", "drawn-bodies", READ, repeats_the_last_item),
    Canary("begins-at-the-end", "a step performs its items in order", "drawn-bodies", READ, begins_with_the_last_item),
    Canary(
        "loses-what-items-carry",
        "an item starts with what the item before it carries on",
        "drawn-bodies",
        READ,
        loses_what_items_carry,
    ),
    Canary(
        "carries-on-what-failed",
        "an item that fails carries nothing on",
        "drawn-bodies",
        READ,
        carries_on_what_failed,
    ),
    Canary(
        "leaves-values-of-the-last-item",
        "an item starts without the values of the one before it",
        "drawn-bodies",
        READ,
        leaves_values_of_the_last_item,
    ),
    Canary(
        "forgets-the-frame-in-keys",
        "an idempotency key names the frame",
        "keys-that-collide",
        PAYMENTS,
        forgets_the_frame_in_keys,
    ),
    Canary(
        "begins-no-rules-anew",
        "the rules of a body begin anew in each frame",
        "killed-anywhere",
        PAYMENTS,
        begins_no_rules_anew,
    ),
    Canary(
        "forgets-items-when-it-recovers",
        "after a crash, what the items before had is known",
        "killed-anywhere",
        PAYMENTS,
        forgets_items_when_it_recovers,
    ),
]
