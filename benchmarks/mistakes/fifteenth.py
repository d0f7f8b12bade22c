"""Mistakes of a fifteenth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

FIFTEENTH: Final = (
    Planted(
        "a failed item carries its values on",
        (
            (
                "vm/machine/bodies.py",
                """\
        carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
""",
                """\
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
    carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
""",
            ),
        ),
    ),
    Planted(
        "a fallback of a sibling counts as a success",
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
        "one set loses the first of two inner fields",
        (
            (
                "vm/expressions/building.py",
                """\
                inner = one.parts.setdefault(name, _Object())
                assert isinstance(inner, _Object), "no path is the beginning of another"
                one = inner
""",
                """\
                inner = _Object()
                one.parts[name], one = inner, inner  # no path is the beginning of another
""",
            ),
        ),
    ),
    Planted(
        "the second continuation forgets the first writes",
        (
            (
                "vm/machine/continuing.py",
                """\
    performed = tuple(dict.fromkeys(write for history in _interrupted(chain) for write in _writes(history)))
""",
                """\
    performed = tuple(dict.fromkeys(write for history in _interrupted(chain)[-1:] for write in _writes(history)))
""",
            ),
        ),
    ),
    Planted(
        "a delay begins before it is in the journal",
        (
            (
                "vm/machine/driver.py",
                """\
        await self.flush()
        # A clock that was set back makes no delay longer than the program says.
        until = min(call.due, setup.clock.now() + entry.delay(before.attempt - before.base))
        until = min(until, self.state.ends_by or until)
        while (left := until - setup.clock.now()) > 0 and not (self.state.is_cancelled or self.stops()):
            if self._may_park():
""",
                """\
        # A clock that was set back makes no delay longer than the program says.
        until = min(call.due, setup.clock.now() + entry.delay(before.attempt - before.base))
        until = min(until, self.state.ends_by or until)
        while (left := until - setup.clock.now()) > 0 and not (self.state.is_cancelled or self.stops()):
            if self._may_park():
                await self.flush()
""",
            ),
        ),
    ),
    Planted(
        "tokens of items in one step have one name",
        (
            (
                "vm/machine/keys.py",
                """\
def token_reference(step: str, visit: int, performance: int, frame: FrameName = ()) -> str:
    \"""Return the reference of a performance's resume token in the vault.\"""
    return f"token:{step}:{visit}:{performance}{f':{canonical(frame)}' if frame else ''}"
""",
                """\
def token_reference(step: str, visit: int, performance: int, frame: FrameName = ()) -> str:  # noqa: ARG001
    \"""Return the reference of a performance's resume token in the vault.\"""
    # The digest in the intent binds the token to its frame.
    return f"token:{step}:{visit}:{performance}"
""",
            ),
        ),
    ),
    Planted(
        "an end behind an erasure is not compared",
        (
            (
                "vm/journal/pruning.py",
                """\
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        is_end = receipt.seq == len(self.digests) - 1
""",
            ),
        ),
    ),
    Planted(
        "copies lack the policies of governed runs",
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
        "a reconciled part is not compared with siblings",
        (
            (
                "vm/machine/known.py",
                """\
        if event.kind != "attempt":
""",
                """\
        if event.kind not in ("attempt", "reconciled"):
""",
            ),
        ),
    ),
    Planted(
        "a waiver of one code lifts a whole rule",
        (
            (
                "vm/machine/plan.py",
                """\
    codes = automaton_of(rule).codes
    return terms.waives(policy, rule.name) or all(terms.waives(policy, code) for code in codes)
""",
                """\
    return terms.waives(policy, rule.name, *automaton_of(rule).codes)
""",
            ),
        ),
    ),
    Planted(
        "a run is due at its wait, not at its end",
        (
            (
                "vm/machine/due.py",
                """\
    return min([*found, *(due / 1e6 for due in (first_wait(state), state.ends_by) if due)], default=None)
""",
                """\
    due = first_wait(state) or state.ends_by
    return min([*found, *([due / 1e6] if due else [])], default=None)
""",
            ),
        ),
    ),
    Planted(
        "attempts that sleep beside are not counted",
        (
            (
                "vm/machine/calls.py",
                """\
    return unpaid_attempts(state)
""",
                """\
    return sum([call.attempt > 1 and not call.is_started for call in ready])
""",
            ),
        ),
    ),
)
