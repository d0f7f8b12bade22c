"""Mistakes of a twenty-second set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTY_SECOND: Final = (
    Planted(
        "a budget of the program counts in place of what the chain has left",
        (
            (
                "vm/machine/continuing.py",
                """\
        limits = [one for one in (budget, left) if one is not None]
        left = arithmetic("-", min(limits), getattr(history.state, name)) if limits else None
""",
                """\
        limit = left if budget is None else budget  # what a program says was bounded by what was left to it
        left = None if limit is None else arithmetic("-", limit, getattr(history.state, name))
""",
            ),
        ),
    ),
    Planted(
        "an unknown cost is recorded as nothing",
        (
            (
                "vm/models/recordings.py",
                """\
    cost = None if reply.cost is None else portable(exact(reply.cost))
""",
                """\
    cost = portable(exact(reply.cost or 0))
""",
            ),
        ),
    ),
    Planted(
        "a reply that repeats a part of a sensitive value is kept",
        (
            (
                "vm/machine/caching.py",
                """\
from stepward.vm.journal.canonical import is_sealed
""",
                """\
from stepward.vm.journal.canonical import Sealed
""",
            ),
            (
                "vm/machine/caching.py",
                """\
        if body["kind"] != "success" or is_sealed(body["output"]):
            return
        try:
            await self._io(self._cache.put, key, write_entry(key, CachedReply(body["output"], result.spent.model)))
""",
                """\
        if body["kind"] != "success" or isinstance(body["output"], Sealed):
            return
        try:
            await self._io(self._cache.put, key, write_entry(key, CachedReply(result.value, result.spent.model)))
""",
            ),
        ),
    ),
    Planted(
        "the deadline of the first branch that waits counts",
        (
            (
                "vm/machine/due.py",
                """\
    inner = [first_wait(own) for own in _going_on(state.fork)]
    return min((due for due in inner if due), default=0)
""",
                """\
    inner = (first_wait(own) for own in _going_on(state.fork))
    return next((due for due in inner if due), 0)
""",
            ),
        ),
    ),
    Planted(
        "a continuation brings waivers of policies that the run was not under",
        (
            (
                "vm/machine/runs.py",
                """\
            missing = Terms(derived_policies(chain, list(map(plain, missing.policies)), Start.of(found)))
""",
                """\
            derived = derived_policies(chain, list(map(plain, missing.policies)), Start.of(found))
            missing = missing._replace(policies=derived)
""",
            ),
        ),
    ),
    Planted(
        "a receipt of the end is not compared behind an erasure",
        (
            (
                "vm/journal/pruning.py",
                """\
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        # Only the last record shows how the run ended.
        is_end = receipt.seq == len(self.digests) - 1
""",
            ),
        ),
    ),
    Planted(
        "the steps of the Lisp are looked at every 256 steps",
        (
            (
                "vm/lisp/limits.py",
                """\
        self._look_at = min(self.steps + _LOOK_EVERY, most)
""",
                """\
        self._look_at = self.steps + _LOOK_EVERY
""",
            ),
        ),
    ),
    Planted(
        "a failed dependency gives a parallel step its name",
        (
            (
                "vm/machine/calls.py",
                """\
    name = own[0][1].name  # the first in the order of the program, not in time
""",
                """\
    name = failed[0][1].name  # the first in the order of the program, not in time
""",
            ),
        ),
    ),
    Planted(
        "the breaker of a program holds no calls of models",
        (
            (
                "vm/machine/holding.py",
                """\
    if driver.held_by is None and breakers.seen[0]:
        driver.held_by = breakers.open_one("" if call.is_model else call.tool, call.programs)
""",
                """\
    if driver.held_by is None and breakers.seen[0] and not call.is_model:
        driver.held_by = breakers.open_one(call.tool, call.programs)
""",
            ),
        ),
    ),
    Planted(
        "a wait counts from the first question",
        (
            (
                "vm/telemetry/spans.py",
                """\
                    visit.held[id] = record.at
""",
                """\
                    visit.held.setdefault(id, record.at)
""",
            ),
        ),
    ),
    Planted(
        "nested objects in longer texts keep the order of their keys",
        (
            (
                "vm/values.py",
                """\
        _write_json(item, indent, level + 1, parts, in_order=in_order)
""",
                """\
        _write_json(item, indent, level + 1, parts)
""",
            ),
        ),
    ),
    Planted(
        "a branch knows the sensitive values of branches that it names alone",
        (
            (
                "vm/machine/known.py",
                """\
            for name, before in zip(ids, fork.before, strict=True):
""",
                """\
            for name, before in zip(ids, fork.needs, strict=True):
""",
            ),
        ),
    ),
)
