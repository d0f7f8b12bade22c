"""Mistakes of a twentieth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTIETH: Final = (
    Planted(
        "a resume goes on with what was read before the lease",
        (
            (
                "vm/machine/deliveries.py",
                """\
        driver, found = lease_and_run
""",
                """\
        driver, _ = lease_and_run
""",
            ),
        ),
    ),
    Planted(
        "a run that stays keeps none before it",
        (
            (
                "vm/machine/retention.py",
                """\
                    if one.why is None:
                        going.add(one.run)
""",
                """\
                    going.add(one.run)
""",
            ),
        ),
    ),
    Planted(
        "short outputs are not searched for halves",
        (
            (
                "vm/machine/redaction.py",
                """\
        least = min(map(len, (whole, *joined, *encoded, *halves)))
""",
                """\
        least = min(map(len, (whole, *joined, *encoded)))
""",
            ),
        ),
    ),
    Planted(
        "settings of zero are no part of the key of a cache",
        (
            (
                "vm/machine/caching.py",
                """\
        model_settings = {name: value for name, value in settings.items() if value is not None}
""",
                """\
        model_settings = {name: value for name, value in settings.items() if value}
""",
            ),
        ),
    ),
    Planted(
        "any success ends all failures in a row",
        (
            (
                "vm/machine/breakers.py",
                """\
            self._failures.pop(tool, None)
""",
                """\
            self._failures.clear()
""",
            ),
        ),
    ),
    Planted(
        "the own budget of a run replaces what its chain has left",
        (
            (
                "vm/machine/continuing.py",
                """\
        limits = [one for one in (budget, left) if one is not None]
        left = arithmetic("-", min(limits), getattr(history.state, name)) if limits else None
""",
                """\
        limit = left if budget is None else budget
        left = None if limit is None else arithmetic("-", limit, getattr(history.state, name))
""",
            ),
        ),
    ),
    Planted(
        "receipts of a pruned run may be signed by anybody",
        (
            (
                "vm/journal/verify.py",
                """\
from dataclasses import replace
""",
                """\
""",
            ),
            (
                "vm/journal/verify.py",
                """\
    if kept is not None:
        good, bad = _judged(run, receipts, keys)
        verdict = verify_pruned(run, kept, keys, good)
        return replace(verdict, faults=(*verdict.faults, *bad))
    signer = signer_of(run, head, keys)
    good, bad = _judged(run, receipts, keys)
""",
                """\
    good, bad = _judged(run, receipts, keys)
    if kept is not None:
        return verify_pruned(run, kept, keys, good)
    signer = signer_of(run, head, keys)
""",
            ),
        ),
    ),
    Planted(
        "a copy lacks the policies that came later",
        (
            (
                "vm/journal/copying.py",
                """\
        if record.kind in ("started", "governed", "moved"):
            yield from (digest for digest in body.get("policies", ()) if isinstance(digest, str))
        if record.kind in ("started", "moved"):
""",
                """\
        if record.kind in ("started", "moved"):
            yield from (digest for digest in body.get("policies", ()) if isinstance(digest, str))
""",
            ),
        ),
    ),
    Planted(
        "keys of runs without values are kept",
        (
            (
                "vm/journal/encryption.py",
                """\
        for run in runs:
""",
                """\
        for run in runs if count else ():
""",
            ),
        ),
    ),
    Planted(
        "a plan of another day is taken",
        (
            (
                "vm/machine/execution.py",
                """\
        if cached is not None and cached[0] is program and cached[2] == today:
""",
                """\
        if cached is not None and cached[0] is program:
""",
            ),
        ),
    ),
    Planted(
        "what a condition read in the first runs is forgotten",
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
        "halves are rounded away from zero",
        (
            (
                "vm/lisp/functions/arithmetic.py",
                """\
    return math.floor(Fraction(number(value, "round")) + Fraction(1, 2))
""",
                """\
    return int(Decimal(number(value, "round")).to_integral_value(decimal.ROUND_HALF_UP))
""",
            ),
        ),
    ),
)
