"""How two runs differ: in their terms, step by step, and value by value.

The records of both runs are aligned: two records are about the same event if their kind, step, visit and attempt are
equal. Where one run has an event that the other lacks, that is one difference. In two records of the same event every
value is compared. Times, durations and keys always differ, so they are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

Data = Mapping[str, Any]
"""A record as plain data: `seq`, `kind`, `body` and `note`, as in the JSON of a run."""

ALWAYS_DIFFERENT: Final = frozenset({"started", "took", "due", "time", "key", "token", "run"})
"""The fields of a note that differ between any two runs."""

WHERE_TO: Final = frozenset({"next", "ends", "branch", "kind"})
"""The fields of a body that say where a run went."""


class Difference(NamedTuple):
    """One difference. `path` leads to the value inside of the event; it is empty for an event that one run lacks.

    `event` is the kind of the record, `seq` the numbers of the records in the two runs. `before` and `after` are the
    values of the first and the second run; they are whole bodies where `path` is empty. `missing` is the number of the
    run that lacks the event or the value: 1, 2, or 0 for neither.
    """

    event: str
    step: str
    visit: int
    seq: tuple[int | None, int | None]
    path: tuple[str | int, ...]
    before: Any
    after: Any
    missing: int = 0

    @property
    def is_of_control(self) -> bool:
        """Whether the runs go different ways here."""
        return not self.path or (len(self.path) == 1 and self.path[0] in WHERE_TO)


def differences(first: Sequence[Data], second: Sequence[Data]) -> list[Difference]:
    """Return the differences between the records of two runs, in the order of their records."""
    matcher = SequenceMatcher(None, [_event(one) for one in first], [_event(one) for one in second], autojunk=False)
    found: list[Difference] = []
    for word, low, high, start, end in matcher.get_opcodes():
        if word == "equal":
            for before, after in zip(first[low:high], second[start:end], strict=True):
                found += _between(before, after)
            continue
        found += [_alone(one, missing=2) for one in first[low:high]]
        found += [_alone(one, missing=1) for one in second[start:end]]
    return found


def _event(record: Data) -> Hashable:
    """Return what makes a record one about the same event: its kind, its frame and step, its visit and attempt."""
    body, note = record["body"], record["note"]
    return record["kind"], repr(body.get("frame")), body.get("step"), body.get("visit"), note.get("attempt")


def _alone(record: Data, *, missing: int) -> Difference:
    body, number = record["body"], record["seq"]
    step, visit = body.get("step", ""), body.get("visit", 0)
    if missing == 1:
        return Difference(record["kind"], step, visit, (None, number), (), None, body, missing)
    return Difference(record["kind"], step, visit, (number, None), (), body, None, missing)


def _between(before: Data, after: Data) -> Iterator[Difference]:
    body = before["body"]
    seq = (before["seq"], after["seq"])
    values = [
        *values_between(body, after["body"]),
        *values_between(_comparable(before["note"]), _comparable(after["note"])),
    ]
    for path, old, new, missing in values:
        yield Difference(before["kind"], body.get("step", ""), body.get("visit", 0), seq, path, old, new, missing)


def _comparable(note: Data) -> Data:
    return {name: value for name, value in note.items() if name not in ALWAYS_DIFFERENT}


def values_between(
    before: Any, after: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Any, int]]:
    """Yield the path of each difference between two values, both values, and which one is missing."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            if name not in after:
                yield (*path, name), before[name], None, 2
            elif name not in before:
                yield (*path, name), None, after[name], 1
            else:
                yield from values_between(before[name], after[name], (*path, name))
        return
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        common = min(len(before), len(after))
        for number in range(common):
            yield from values_between(before[number], after[number], (*path, number))
        for number in range(common, len(before)):
            yield (*path, number), before[number], None, 2
        for number in range(common, len(after)):
            yield (*path, number), None, after[number], 1
        return
    # Exact types: true equals 1 in Python, and no other way.
    if isinstance(before, bool) is not isinstance(after, bool) or before != after:
        yield path, before, after, 0
