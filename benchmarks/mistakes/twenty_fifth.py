"""Mistakes of a twenty-fifth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

TWENTY_FIFTH: Final = (
    Planted(
        "the time of a run is not looked at while something else waits",
        (
            (
                "vm/machine/due.py",
                """\
    return min([*found, *(due / 1e6 for due in (first_wait(state), state.ends_by) if due)], default=None)
""",
                """\
    until = first_wait(state) or state.ends_by
    return min([*found, *([until / 1e6] if until else [])], default=None)
""",
            ),
        ),
    ),
    Planted(
        "a negative offset with minutes is read an hour wrong",
        (
            (
                "vm/language/instants.py",
                """\
    offset = 0 if sign is None else (int(hours) * 60 + int(minutes)) * (1 if sign == "+" else -1)
""",
                """\
    offset = 0 if sign is None else int(sign + hours) * 60 + int(minutes)
""",
            ),
        ),
    ),
    Planted(
        "further fields of an object with properties are not sensitive",
        (
            (
                "vm/machine/data.py",
                """\
    known = (spec.properties or {}).get(key)
    if known is not None:
        return known
""",
                """\
    if spec.properties is not None:
        return spec.properties.get(key)
""",
            ),
        ),
    ),
    Planted(
        "a copy made again keeps values that were erased",
        (
            (
                "vm/journal/copying.py",
                """\
    if found:
        target.vault.erase_all(found)
    return set(found)
""",
                """\
    return set(found)
""",
            ),
        ),
    ),
    Planted(
        "a receipt of an ending is not held against what is kept behind it",
        (
            (
                "vm/journal/pruning.py",
                """\
        # What follows the end, such as an erasure, changes neither.
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        # A receipt of before the end knows neither.
        is_end = receipt.seq == len(self.digests) - 1
""",
            ),
        ),
    ),
    Planted(
        "inner objects of a text have no sorted keys",
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
        "only the writes of the run before are kept from being made again",
        (
            (
                "vm/machine/continuing.py",
                """\
    last = next((number for number in range(len(chain), 0, -1) if not chain[number - 1].state.moved), 0)
    return chain[:last]
""",
                """\
    return [history for history in chain[-1:] if not history.state.moved]
""",
            ),
        ),
    ),
    Planted(
        "a call is settled by nobody where the caller may not",
        (
            (
                "vm/machine/authority.py",
                """\
    if state.caller and by in ("", state.caller):
        who = "it can't settle its own calls" if by else "whoever settles its calls has to say who it is"
        return "own_run", f"caller `{state.caller}` asked for the run: {who}"
""",
                """\
    if state.caller and by == state.caller:
        return "own_run", f"caller `{state.caller}` asked for the run: it can't settle its own calls"
""",
            ),
        ),
    ),
    Planted(
        "truths are members of numbers",
        (
            (
                "vm/language/types.py",
                """\
    if isinstance(value, bool):
        return (bool, value)
""",
                """\

""",
            ),
        ),
    ),
    Planted(
        "lower maps letters as the Python at hand",
        (
            (
                "vm/expressions/letters.py",
                """\
    return text.lower() if text.isascii() else text.translate(_mapping(_TO_LOWER))
""",
                """\
    return text.lower()
""",
            ),
        ),
    ),
    Planted(
        "an average counts what is nil",
        (
            (
                "vm/lisp/functions/aggregates.py",
                """\
            count += 1
""",
                """\
        count += 1
""",
            ),
        ),
    ),
    Planted(
        "a recording with more parameters than the model is taken",
        (
            (
                "vm/models/recordings.py",
                """\
        names = sorted(name for name in {*own, *self.parameters} if not same(own.get(name), self.parameters.get(name)))
""",
                """\
        names = sorted(name for name in own if not same(own[name], self.parameters.get(name)))
""",
            ),
        ),
    ),
)
