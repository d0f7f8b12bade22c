"""Mistakes of a twenty-first set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTY_FIRST: Final = (
    Planted(
        "what is left for models follows from the program of each run",
        (
            (
                "vm/machine/continuing.py",
                """\
        limits = [one for one in (budget, left) if one is not None]
        left = arithmetic("-", min(limits), getattr(history.state, name)) if limits else None
""",
                """\
        limit = left if budget is None else budget  # a continuation has no more in its program than was left
        left = None if limit is None else arithmetic("-", limit, getattr(history.state, name))
""",
            ),
        ),
    ),
    Planted(
        "a fallback is kept as a reply",
        (
            (
                "vm/machine/caching.py",
                """\
        if body["kind"] != "success" or is_sealed(body["output"]):
""",
                """\
        if "output" not in body or is_sealed(body["output"]):
""",
            ),
        ),
    ),
    Planted(
        "a write in doubt with a known error is no failure",
        (
            (
                "vm/machine/breakers.py",
                """\
        has_failed = result.answer in ("timeout", "doubt") or (result.answer == "failed" and result.name == UNEXPECTED)
""",
                """\
        has_failed = result.answer == "timeout" or (result.answer in ("failed", "doubt") and result.name == UNEXPECTED)
""",
            ),
        ),
    ),
    Planted(
        "a receipt of a pruned run is compared for the last record alone",
        (
            (
                "vm/journal/pruning.py",
                """\
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        # A receipt from before the end says where the run stood then.
        is_end = receipt.seq == self.head.seq
""",
            ),
        ),
    ),
    Planted(
        "what waits is due to nobody in a copy",
        (
            (
                "vm/machine/stored_due.py",
                """\
from stepward.vm.machine.events import UNFINISHED
""",
                """\
from stepward.vm.machine.events import RUNNING
""",
            ),
            (
                "vm/machine/stored_due.py",
                """\
        if row is None or row.status not in UNFINISHED:
""",
                """\
        if row is None or row.status != RUNNING:
""",
            ),
        ),
    ),
    Planted(
        "visits of the newest run that moved count alone",
        (
            (
                "vm/machine/moving.py",
                """\
                visits[step.id] = visits.get(step.id, 0) + visits_of(history.state, step)
""",
                """\
                visits.setdefault(step.id, visits_of(history.state, step))
""",
            ),
        ),
    ),
    Planted(
        "a price of zero is no price",
        (
            (
                "vm/models/prices.py",
                """\
        for_cached = self.input if self.cached_input is None else self.cached_input
""",
                """\
        for_cached = self.cached_input or self.input
""",
            ),
        ),
    ),
    Planted(
        "the day of a waiver is that of the time zone",
        (
            (
                "vm/machine/execution.py",
                """\
        return datetime.datetime.fromtimestamp(self.clock.now() / 1e6, datetime.UTC).date()
""",
                """\
        return datetime.date.fromtimestamp(self.clock.now() / 1e6)
""",
            ),
        ),
    ),
    Planted(
        "what earlier runs read is forgotten",
        (
            (
                "vm/language/past.py",
                """\
        before = rule.already[number].reads if rule.already else ()
        reads = sorted({*before, *(".".join(names) for names in read_by(guard, meaning))})
""",
                """\
        reads = sorted(".".join(names) for names in read_by(guard, meaning))
""",
            ),
        ),
    ),
    Planted(
        "a text without a percent sign is not decoded",
        (
            (
                "vm/machine/escapes.py",
                """\
    if "%" in text or "+" in text:
""",
                """\
    if "%" in text:
""",
            ),
        ),
    ),
    Planted(
        "doubts of siblings are named for one ending alone",
        (
            (
                "vm/machine/decide.py",
                """\
        if type(action) is Event and "ends" in action.body:
            return with_doubts(plan, state, action)
        memory.keep(number, fork.branches[number], action)
""",
                """\
        if type(action) is Event and action.kind == "ended":
            return with_doubts(plan, state, action)
        memory.keep(number, fork.branches[number], action)
""",
            ),
        ),
    ),
    Planted(
        "what all other sets have is taken out",
        (
            (
                "vm/lisp/functions/sets.py",
                """\
    return ctx.set(unwrapped(one) for one in found[0].members if not any(one in other.members for other in found[1:]))
""",
                """\
    return ctx.set(unwrapped(one) for one in found[0].members if not all(one in other.members for other in found[1:]))
""",
            ),
        ),
    ),
)
