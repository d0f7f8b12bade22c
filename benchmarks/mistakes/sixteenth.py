"""Mistakes of a sixteenth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

SIXTEENTH: Final = (
    Planted(
        "siblings before do not count in a wave",
        (
            (
                "vm/machine/calls.py",
                """\
        memories = plan.watch.performed(memories, part)
""",
                """\
""",
            ),
        ),
    ),
    Planted(
        "what was not done gets a new key",
        (
            (
                "vm/machine/apply.py",
                """\
    return _with_call(state, step, sub, call_state._replace(phase=READY, repeats=True))
""",
                """\
    return _with_call(state, step, sub, call_state._replace(phase=READY, repeats=step.calls[sub].keeps_key))
""",
            ),
        ),
    ),
    Planted(
        "no forms without separators beside many values",
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
        "the runs behind are looked for as from the first",
        (
            (
                "vm/machine/runs.py",
                """\
        later = list(chain_after(found, earlier, self._read))
""",
                """\
        later = list(chain_after(found, (), self._read))
""",
            ),
        ),
    ),
    Planted(
        "writes of a run that moved are forgotten",
        (
            (
                "vm/machine/continuing.py",
                """\
    last = next((number for number in range(len(chain), 0, -1) if not chain[number - 1].state.moved), 0)
    return chain[:last]
""",
                """\
    return [history for history in chain if not history.state.moved]
""",
            ),
        ),
    ),
    Planted(
        "a wait hides an earlier end of the run",
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
        "records behind the head count as growth",
        (
            (
                "vm/journal/chain.py",
                """\
    if head is None or all(type(entry.seq) is not int or entry.seq <= head.seq for entry in entries):
        return head, entries
    later = _readable(journal.head(run))
    if later is not None and later.seq > head.seq:
        entries = [entry for entry in entries if type(entry.seq) is not int or entry.seq <= head.seq]
    return head, entries
""",
                """\
    if head is None:
        return head, entries
    # What was appended since the head was read belongs to a later one.
    return head, [entry for entry in entries if type(entry.seq) is not int or entry.seq <= head.seq]
""",
            ),
        ),
    ),
    Planted(
        "only starts with an intent count under new policies",
        (
            (
                "vm/machine/authority.py",
                """\
    if event.kind in ("intent", "attempt") and event.note["performance"] > call_state.performance:
""",
                """\
    if event.kind == "intent" and event.note["performance"] > call_state.performance:
""",
            ),
        ),
    ),
    Planted(
        "only the innermost body names a program",
        (
            (
                "vm/machine/plan.py",
                """\
            call.programs += tuple(name for owner in outer if isinstance(owner, InvokeStep) for name in owner.names)
""",
                """\
            if outer and isinstance(outer[-1], InvokeStep):
                call.programs += tuple(outer[-1].names)
""",
            ),
        ),
    ),
    Planted(
        "a failed reply costs nothing",
        (
            (
                "vm/machine/ask.py",
                """\
        return Result("failed", error=error_text(error), spent=_spent(error.spent))
""",
                """\
        return Result("failed", error=error_text(error))
""",
            ),
        ),
    ),
    Planted(
        "a chain with nothing left is taken as right",
        (
            (
                "vm/machine/chains.py",
                """\
        within = None
    if within is None or within.to_data() != found.plan.program.to_data():
""",
                """\
        return None
    if within.to_data() != found.plan.program.to_data():
""",
            ),
        ),
    ),
    Planted(
        "a wait stays due at once in a file",
        (
            (
                "vm/journal/sqlite.py",
                """\
    WHERE run = ? AND seq = ? AND fence = coalesce(?, fence) AND kept IS NULL AND due = ? AND held IS NULL\"\"\"
""",
                """\
    WHERE run = ? AND seq = ? AND fence = coalesce(?, fence) AND kept IS NULL AND due <= ? AND held IS NULL\"\"\"
""",
            ),
        ),
    ),
)
