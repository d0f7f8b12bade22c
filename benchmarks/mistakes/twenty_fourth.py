"""Mistakes of a twenty-fourth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTY_FOURTH: Final = (
    Planted(
        "a sibling that fell back counts as one that succeeded",
        (
            (
                "vm/machine/ordering.py",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase == "success")
""",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase in GIVES)
""",
            ),
        ),
    ),
    Planted(
        "a passed deadline forgets that a write may have happened",
        (
            (
                "vm/machine/apply.py",
                """\
        is_unknown=bool(body.get("unknown")),
""",
                """\

""",
            ),
        ),
    ),
    Planted(
        "more than 32 sensitive values are not found in groups",
        (
            (
                "vm/machine/redaction.py",
                """\
        for text in (*read.unbroken, *read.folded, *read.joined):
""",
                """\
        for text in (*read.unbroken, *read.folded):
""",
            ),
        ),
    ),
    Planted(
        "a price of zero for cached tokens is none",
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
        "a receipt of another end fits behind a further record",
        (
            (
                "vm/journal/pruning.py",
                """\
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        is_end = receipt.seq == len(self.digests) - 1
""",
            ),
        ),
    ),
    Planted(
        "the past is not searched for people who settled their own calls",
        (
            (
                "vm/machine/authority.py",
                """\
    if event.kind == "resumed" or (event.kind == "reconciled" and event.note.get("verdict") == "done"):
""",
                """\
    if event.kind == "resumed":
""",
            ),
        ),
    ),
    Planted(
        "a wait goes on when the time of its run is over",
        (
            (
                "vm/machine/due.py",
                """\
    return min([*found, *(due / 1e6 for due in (first_wait(state), state.ends_by) if due)], default=None)
""",
                """\
    return min([*found, *(due / 1e6 for due in (first_wait(state) or state.ends_by,) if due)], default=None)
""",
            ),
        ),
    ),
    Planted(
        "a temperature of zero is no part of the key of a reply",
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
        "distinct-by takes true for one",
        (
            (
                "vm/lisp/functions/aggregates.py",
                """\
        key = wrapped((yield from ctx.apply(key_of(function), item)))
""",
                """\
        key = yield from ctx.apply(key_of(function), item)
""",
            ),
        ),
    ),
    Planted(
        "errors of items stay from the round before",
        (
            (
                "vm/machine/bodies.py",
                """\
        round=each.round + 1, item=0, carried=each.first, outputs=room, errors=room, failed=None, trace=NO_DIGEST
""",
                """\
        round=each.round + 1, item=0, carried=each.first, outputs=room, failed=None, trace=NO_DIGEST
""",
            ),
        ),
    ),
    Planted(
        "a failed dependency names the error of branches",
        (
            (
                "vm/machine/branches.py",
                """\
    fields |= named(plan, own[0][1].name)
""",
                """\
    fields |= named(plan, failures[0][1].name)
""",
            ),
        ),
    ),
    Planted(
        "what was granted is forgotten in the second continuation",
        (
            (
                "vm/machine/continuing.py",
                """\
        if left is not None and link is not None:
""",
                """\
        if left is not None and link is not None and most is None:
""",
            ),
        ),
    ),
)
