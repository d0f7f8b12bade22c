"""Skipped transitions: the journal has other items of a for_each step than those that were performed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from stepward.sabotage.attack import Need
from stepward.sabotage.attacks.rewriting import FROM_OUTSIDE, Forged, changed, rewriting, with_body
from stepward.sabotage.attacks.tampering import pick_index
from stepward.sabotage.attacks.transitions import picked, with_key
from stepward.sabotage.invariants import Invariant
from stepward.sabotage.needs import BODIES
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.places import frame_of
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.forging import Data
from stepward.vm.machine.keys import FrameName, shown

FrameMember = tuple[str, int, int, int | str]

_FIRST: Final[tuple[Any, ...]] = (0, 7, None, "", [])
"""The values of which one is written for a carried variable."""

ITEMS = Need(
    "there is no for_each step", lambda target: not all(body.is_branch for body in target.plan.bodies.values())
)
IN_ORDER = Need(
    "there is no for_each step whose items come in order",
    lambda target: not all(body.is_branch or body.is_beside for body in target.plan.bodies.values()),
)

AT_ONCE = Need("no items run at once", lambda target: target.siblings.beside)
STOPPING = Need(
    "no step stops after a failed item",
    lambda target: any(body.is_beside and body.stops for body in target.plan.bodies.values()),
)


def _end_of(records: list[Data], seq: int, beside: Collection[str]) -> int | None:
    """Return the number of the record behind an item that begins at `seq`, None if the run goes on no further.

    That is the start of the next item, or the end of the step; in a branch, records of siblings may come before it.
    Behind items that run at once it is the end of the step.
    """
    frame = frame_of(records[seq]["body"])
    for record in records[seq + 1 :]:
        found, kind = frame_of(record["body"]), record["kind"]
        is_next = kind == "item" and found[:-1] == frame[:-1] and found[-1][0] == frame[-1][0]
        if (is_next and frame[-1][0] not in beside) or (
            kind == "joined" and found == frame[:-1] and record["body"]["step"] == frame[-1][0]
        ):
            return int(record["seq"])
    return None


def _split(records: list[Data], first: Data) -> tuple[list[Data], list[Data]]:
    """Return the records of the item that begins with `first`, and the others among some records."""
    frame = frame_of(first["body"])
    inside = [one for one in records if frame_of(one["body"])[: len(frame)] == frame]
    return inside, [one for one in records if one not in inside]


def _item(trial: Trial, records: list[Data], *, is_in_order: bool = False) -> tuple[int, int]:
    """Pick an item that ended. Return the numbers of its first record and of the one behind it.

    With `is_in_order` it has to come behind the one before it.
    """
    beside = trial.target.siblings.beside

    def fits(one: Data) -> bool:
        is_fine = _is_item(one) and not (is_in_order and frame_of(one["body"])[-1][0] in beside)
        return is_fine and _end_of(records, one["seq"], beside) is not None

    seq = picked(trial.case, records, fits)
    end = _end_of(records, seq, beside)
    assert end is not None, "it was picked for that"
    return seq, end


def _is_item(record: Data) -> bool:
    """Return whether an item starts with a record."""
    return record["kind"] == "item" and not isinstance(frame_of(record["body"])[-1][3], str)


def _named(record: Data) -> str:
    frame = frame_of(record["body"])
    return f"`{shown(frame[:-1], frame[-1][0])}[{frame[-1][3]}]`"


@rewriting(
    surface="records of an item",
    action="all of them removed",
    invariant=Invariant.KEPT,
    defence="items start in order, and a for_each step ends after the last one",
    needs=(ITEMS,),
)
def item_skipped(trial: Trial, records: list[Data]) -> Forged:
    """All records of an item are removed, so that the run goes on as if the item had not been there."""
    seq, end = _item(trial, records)
    _, others = _split(records[seq:end], records[seq])
    trial.case.log(f"drop the records before {end} that are {_named(records[seq])}")
    return Forged([*records[:seq], *others, *records[end:]], seq + len(others) + 1)


@rewriting(
    surface="records of an item",
    action="all of them written twice",
    invariant=Invariant.ONCE,
    defence="each item is performed once in a round, and the record of its start names the one that is due",
    needs=(ITEMS,),
)
def item_repeated(trial: Trial, records: list[Data]) -> Forged:
    """All records of an item are written a second time behind the item, as if it had been performed twice."""
    seq, end = _item(trial, records)
    inside, _ = _split(records[seq:end], records[seq])
    trial.case.log(f"write the records of {_named(records[seq])} once more before record {end}")
    return Forged([*records[:end], *inside, *records[end:]], end + 1)


@rewriting(
    surface="order of items",
    action="the records of two neighbours swapped",
    defence="items come in order, and the record of the start of an item names the one that is due",
    needs=(IN_ORDER,),
)
def items_swapped(trial: Trial, records: list[Data]) -> Forged:
    """The records of two consecutive items change places, as if the later one had been performed first."""
    case = trial.case
    seq, middle = _item(trial, records, is_in_order=True)
    case.needs(records[middle]["kind"] == "item")
    end = case.needs(_end_of(records, middle, trial.target.siblings.beside))
    case.log(f"let {_named(records[seq])} come after {_named(records[middle])}")
    earlier, between = _split(records[seq:middle], records[seq])
    later, others = _split(records[middle:end], records[middle])
    swapped = [*later, *earlier, *between, *others]
    return Forged([*records[:seq], *swapped, *records[end:]], seq + 1)


def _is_end(record: Data, siblings: FrameName) -> bool:
    """Return whether an item of a round ends with a record; `siblings` is the frame of any of them."""
    frame = frame_of(record["body"])
    is_beside = frame[:-1] == siblings[:-1] and bool(frame) and frame[-1][:3] == siblings[-1][:3]
    return "closes" in record["body"] and is_beside


def _most_beside(trial: Trial, frame: FrameName) -> int:
    """Return how many items of a step may run at once."""
    plan = trial.target.plan
    return next(body.most_beside for at, body in plan.bodies.items() if plan.steps[at].id == frame[-1][0])


@rewriting(
    surface="start of an item that runs at once with others",
    action="written before the end of the item in whose place it comes",
    invariant=Invariant.BOUNDS,
    defence="no more items run at once than `max_concurrency` says",
    needs=(AT_ONCE,),
)
def item_too_early(trial: Trial, records: list[Data]) -> Forged:
    """The start of an item is put before the record with which an item ended that had its place."""
    case, beside = trial.case, trial.target.siblings.beside

    def place(record: Data) -> int | None:
        """Return the number of the end of an item that had to come before the start of this one."""
        frame = frame_of(record["body"])
        if not _is_item(record) or frame[-1][0] not in beside:
            return None
        before = int(frame[-1][3]) - _most_beside(trial, frame)  # so many items had to end
        ends = [int(one["seq"]) for one in records[: record["seq"]] if _is_end(one, frame)]
        return ends[before] if 0 <= before < len(ends) else None

    seq = picked(case, records, lambda record: place(record) is not None)
    first = place(records[seq])
    assert first is not None, "it was picked for that"
    case.log(f"start {_named(records[seq])} before record {first}")
    return Forged([*records[:first], records[seq], *records[first:seq], *records[seq + 1 :]], seq + 1)


@rewriting(
    surface="start of an item that runs at once with others",
    action="put behind the failure of another one",
    defence="after a failed item no other starts, unless the step skips those that fail",
    needs=(AT_ONCE, STOPPING),
    trial=Trial,
)
def item_after_failure(trial: Trial, records: list[Data]) -> Forged:
    """The records of an item are put behind the failure of another one, as if it had started after that."""
    case, plan = trial.case, trial.target.plan
    stopping = {plan.steps[at].id for at, body in plan.bodies.items() if body.is_beside and body.stops}

    def failure_after(record: Data) -> int | None:
        """Return the number of the first failure of an item, if this one started before it, and went on or ended."""
        frame = frame_of(record["body"])
        if not _is_item(record) or frame[-1][0] not in stopping:
            return None
        ends = [one for one in records if _is_end(one, frame) and one["body"]["closes"] != "SUCCESS"]
        is_other = bool(ends) and frame_of(ends[0]["body"]) != frame
        return int(ends[0]["seq"]) if is_other and ends[0]["seq"] > record["seq"] else None

    seq = picked(case, records, lambda record: failure_after(record) is not None)
    failed = failure_after(records[seq])
    assert failed is not None, "it was picked for that"
    inside, others = _split(records[seq : failed + 1], records[seq])
    case.log(f"let {_named(records[seq])} start behind record {failed}")
    return Forged([*records[:seq], *others, *inside, *records[failed + 1 :]], failed + 1)


@rewriting(
    surface="items on record",
    action="one left out, performed twice, or put last",
    invariant=Invariant.DATA,
    defence="a replay computes the items again before a machine continues the run",
    needs=(ITEMS,),
)
def list_edited(trial: Trial, records: list[Data]) -> Forged:
    """The list in the record of the start of a for_each step is changed: an item is left out, repeated, or moved."""
    case = trial.case
    seq = picked(case, records, lambda record: record["kind"] == "opened" and record["body"].get("items"))
    items = records[seq]["body"]["items"]
    number = pick_index(case, "item", len(items))
    without = [*items[:number], *items[number + 1 :]]
    ways = [without, [*without, items[number]], [*items, items[number]]]
    found = ways[pick_index(case, "change", len(ways))]
    case.needs(found != items)
    case.log(f"write the items {found} into record {seq}, in place of {items}")
    return changed(records, seq, with_body(records[seq], items=found))


@rewriting(
    surface="first values of carried variables on record",
    action="another value",
    invariant=Invariant.DATA,
    defence="a replay computes the first values of `carry` again before a machine continues the run",
    needs=(
        Need(
            "no for_each step carries variables",
            lambda target: any(body.carried for body in target.plan.bodies.values()),
        ),
    ),
)
def carry_edited(trial: Trial, records: list[Data]) -> Forged:
    """The first value of a carried variable is replaced, so that the items would begin with another one."""
    case = trial.case
    seq = picked(case, records, lambda record: record["kind"] == "opened" and record["body"].get("carry"))
    carry = records[seq]["body"]["carry"]
    name = sorted(carry)[pick_index(case, "variable", len(carry))]
    values = [other for other in _FIRST if other != carry[name]]
    value: Any = values[pick_index(case, "value", len(values))]
    case.log(f"write into record {seq} that `{name}` begins with {value!r}, in place of {carry[name]!r}")
    return changed(records, seq, with_body(records[seq], carry=carry | {name: value}))


def _in_item(case: Case, records: list[Data]) -> int:
    """Pick a record that stands in a frame and is not of its start."""
    return picked(case, records, lambda record: _is_inside(record) and record["kind"] not in FROM_OUTSIDE)


def _is_inside(record: Data) -> bool:
    return bool(record["body"].get("frame")) and record["kind"] != "item"


def _within(trial: Trial, record: Data, frame: FrameName) -> Data:
    """Return a record in another frame, with the key that it has there."""
    changed = with_body(record, frame=[list(member) for member in frame])
    if not frame:
        del changed["body"]["frame"]
    return with_key(trial, changed) if "key" in record["note"] else changed


@rewriting(
    surface="frame of a record in a body",
    action="removed, with all frames or the innermost one",
    defence="each record in a body names its frame, which has to be the one that goes on",
    needs=(BODIES,),
)
def frame_dropped(trial: Trial, records: list[Data]) -> Forged:
    """A record in a body is written as one of the steps around it."""
    case = trial.case
    seq = _in_item(case, records)
    frame = frame_of(records[seq]["body"])
    depth = pick_index(case, "frames kept", len(frame))
    case.log(f"leave {len(frame) - depth} of the frames of record {seq} out")
    return changed(records, seq, _within(trial, records[seq], frame[:depth]))


@rewriting(
    surface="frame of a record in a body",
    action="replaced by that of another item, branch, visit or round",
    defence="each record in a body names its frame, which has to be the one that goes on",
    needs=(BODIES,),
)
def frame_exchanged(trial: Trial, records: list[Data]) -> Forged:
    """A record in a body is put into another item or branch, another visit of the step, or another round of it."""
    case = trial.case
    seq = _in_item(case, records)
    frame = frame_of(records[seq]["body"])
    depth = pick_index(case, "frame", len(frame))
    others = _others(records, frame, depth, trial.target.siblings.beside)
    other = others[pick_index(case, "other frame", len(others))]
    case.log(f"put record {seq} into frame {other}, in place of {frame[depth]}")
    return changed(records, seq, _within(trial, records[seq], (*frame[:depth], other, *frame[depth + 1 :])))


def _others(records: list[Data], frame: FrameName, depth: int, beside: Collection[str]) -> list[FrameMember]:
    """Return what may stand in a frame in place of one of its members."""
    step, visit, round_, one = frame[depth]
    others: list[FrameMember] = [(step, visit + 1, round_, one), (step, visit, round_ + 1, one)]
    if step in beside:  # an item that runs at the same time may be at the same step
        return others
    if isinstance(one, int):
        return [*others, (step, visit, round_, one + 1), *([(step, visit, round_, one - 1)] if one else [])]
    frames = {frame_of(record["body"])[: depth + 1] for record in records}
    siblings = sorted(found[-1] for found in frames if found[:-1] == frame[:depth] and len(found) > depth)
    return [*others, *(found for found in siblings if found != frame[depth] and found[0] == step)]
