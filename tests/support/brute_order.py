"""Parallel steps with `depends_on` for the enumeration of runs: every outcome, and every order that leads to it.

Sub-steps start and end in any order that `depends_on` allows. A rule is judged along each order by what came before in
time: what is not ordered comes first in some order, and a rule that this breaks is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from brute_program import GOOD, Call, Fate

MAX_ORDERS: Final = 2_000


class Happens(NamedTuple):
    """A sub-step starts or ends: `before` are the names that those that it depends on have assigned."""

    what: str
    part: str
    is_good: bool = False
    before: frozenset[str] = frozenset()


def needs_of(step: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the sub-steps on which each one depends, directly; nothing for a step without an order."""
    parts = step.get("parallel_steps", ())
    if not any("depends_on" in part for part in parts):
        return {}
    return {part["id"]: set(part.get("depends_on", ())) for part in parts}


def before_of(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the sub-steps on which each one depends, at any distance."""
    found = {part: set(direct) for part, direct in needs.items()}
    for _ in needs:
        for part, known in found.items():
            found[part] = known.union(*(found[one] for one in known))
    return found


class Outcome(NamedTuple):
    """What became of all sub-steps, with the references that each one could not read, and the arguments of each."""

    fates: dict[str, Fate]
    undefined: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, Any, tuple[Any, ...]], ...]


def outcomes(calls: Sequence[Call], step: Mapping[str, Any], values: Sequence[Any]) -> Iterator[Outcome]:
    """Yield every joint outcome: one that needs something that came to nothing does not start."""
    needs = needs_of(step)
    before = before_of(needs)
    line = sorted(calls, key=lambda call: len(before[call.id]))
    yield from _outcomes(calls, line, needs, before, list(values), Outcome({}, (), ()))


def _outcomes(
    calls: Sequence[Call],
    line: Sequence[Call],
    needs: Mapping[str, set[str]],
    before: Mapping[str, set[str]],
    values: list[Any],
    known: Outcome,
) -> Iterator[Outcome]:
    if not line:
        yield known
        return
    call, rest = line[0], line[1:]
    seen = list(values)
    for other in calls:  # outputs are bound in order of the list
        if other.id in before[call.id]:
            other.bind(seen, known.fates[other.id])
    kind = "skipped" if call.skips else "failed"
    choices = [Fate(kind, started=False, name="Dependency")]
    if all(known.fates[one].kind in GOOD for one in needs[call.id]):
        missing = call.undefined(tuple(seen))
        known = known._replace(undefined=(*known.undefined, *((call.id, text) for text in missing)))
        choices = [Fate(kind, started=False, name="Undefined")]
        if not missing:
            choices = call.fates
            start = (call.id, call.arguments(tuple(seen)), tuple(seen))
            known = known._replace(arguments=(*known.arguments, start))
    for fate in choices:
        fates = {**known.fates, call.id: fate}
        yield from _outcomes(calls, rest, needs, before, values, known._replace(fates=fates))


def orders(calls: Sequence[Call], step: Mapping[str, Any], fates: Mapping[str, Fate]) -> Iterator[tuple[Happens, ...]]:
    """Yield every order in which the sub-steps that start may start and end."""
    needs = needs_of(step)
    before = before_of(needs)
    named = {call.id: call.names for call in calls}
    started = [call.id for call in calls if fates[call.id].started]
    first = Happens("starts", step["id"])

    def further(begun: frozenset[str], ended: frozenset[str]) -> Iterator[tuple[Happens, ...]]:
        if len(ended) == len(started):
            yield ()
            return
        for part in started:
            if part in begun and part not in ended:
                event = Happens("ends", part, fates[part].kind == "success")
                yield from ((event, *rest) for rest in further(begun, ended | {part}))
            elif part not in begun and needs[part] <= ended:
                assigned = frozenset().union(*(named[one] for one in before[part]))
                event = Happens("starts", part, before=assigned)
                yield from ((event, *rest) for rest in further(begun | {part}, ended))

    for number, found in enumerate(further(frozenset(), frozenset())):
        if number >= MAX_ORDERS:
            raise ValueError("a step has too many orders")
        yield (first, *found)
