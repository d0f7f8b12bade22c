"""Mistakes of a tenth set, planted by a reader of the machine's code and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TENTH: Final = (
    Planted(
        "no arguments are taken for none",
        (
            (
                "vm/machine/state.py",
                """\
        if self.args is not None and names[0] == "args":
""",
                """\
        if self.args and names[0] == "args":
""",
            ),
        ),
    ),
    Planted(
        "only the last field of a path is looked at for secrets",
        (
            (
                "vm/machine/state.py",
                """\
            if type(value) is Sealed or type(value) is Secret:
                is_secret = True
""",
                """\
            is_secret = type(value) is Sealed or type(value) is Secret
            if is_secret:
""",
            ),
        ),
    ),
    Planted(
        "a settled output is not compared with its siblings",
        (
            (
                "vm/machine/known.py",
                """\
        if event.kind != "attempt":
""",
                """\
        if event.kind == "resumed":
""",
            ),
        ),
    ),
    Planted(
        "outputs of sub-steps make no branch stale",
        (
            (
                "vm/language/automata.py",
                """\
        for sub, part in parts(step)
""",
                """\
        for sub, part in ((None, step),)
""",
            ),
        ),
    ),
    Planted(
        "a settlement comes under the terms of before",
        (
            (
                "vm/machine/deliveries.py",
                """\
        driver, found = await self._taken(run_id, performs=verdict != "abandon")
""",
                """\
        driver, _ = await self._taken(run_id, performs=verdict != "abandon")
""",
            ),
        ),
    ),
    Planted(
        "a repetition of what was not done is free",
        (
            (
                "vm/machine/apply.py",
                """\
    if attempt > call_state.attempt > 0:
""",
                """\
    if attempt > call_state.attempt > 0 and not call_state.repeats:
""",
            ),
        ),
    ),
    Planted(
        "a suspension hides an open sibling",
        (
            (
                "vm/machine/apply.py",
                """\
    if not phases & {READY, OPEN} and not state.is_cancelled:
""",
                """\
    if READY not in phases and not state.is_cancelled:
""",
            ),
        ),
    ),
    Planted(
        "a lease is given back once one call is over",
        (
            (
                "vm/machine/keeping.py",
                """\
        return is_late or all(part.is_set() for part in self.done)
""",
                """\
        return is_late or any(part.is_set() for part in self.done)
""",
            ),
        ),
    ),
    Planted(
        "a retry of a read keeps its performance",
        (
            (
                "vm/machine/calls.py",
                """\
    if call_state.performance and (is_started or call.keeps_key or call_state.repeats):
""",
                """\
    if call_state.performance and (is_started or call.is_idempotent or call_state.repeats):
""",
            ),
        ),
    ),
    Planted(
        "a vault is not told of an erasure without values",
        (
            (
                "vm/machine/deliveries.py",
                """\
        return bool(secrets) or is_sealed
""",
                """\
        return bool(references)
""",
            ),
        ),
    ),
    Planted(
        "a delivered output may be of any type",
        (
            (
                "vm/machine/replay.py",
                """\
        return _delivery_misfit(plan, state, event) or _output_misfit(plan, state, event)
""",
                """\
        return _delivery_misfit(plan, state, event)
""",
            ),
        ),
    ),
    Planted(
        "only declared fields can be required",
        (
            (
                "vm/language/types.py",
                """\
        if name not in value:
""",
                """\
        if name in known and name not in value:
""",
            ),
        ),
    ),
)
