"""Mistakes of a eighteenth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

EIGHTEENTH: Final = (
    Planted(
        "a wave does not count its own starts",
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
        "a verdict is not compared with sensitive values",
        (
            (
                "vm/machine/known.py",
                """\
FROM_OUTSIDE: Final = ("attempt", "resumed", "reconciled")
\"\"\"The kinds of records that bring an output from outside.\"\"\"

DELIVERIES: Final = ("resumed", "reconciled")

""",
                """\
DELIVERIES: Final = ("resumed", "reconciled")

FROM_OUTSIDE: Final = ("attempt", "resumed")
\"\"\"The kinds of records that bring an output from outside.\"\"\"

""",
            ),
        ),
    ),
    Planted(
        "an attempt that is tried again costs nothing",
        (
            (
                "vm/machine/apply.py",
                """\
    if "tokens" in note:
""",
                """\
    if "tokens" in note and kind in SETTLED:
""",
            ),
        ),
    ),
    Planted(
        "a question has no settings",
        (
            (
                "vm/machine/caching.py",
                """\
        settings = {name: getattr(model_call, name) for name in ("model", "temperature", "max_output_tokens")}
""",
                """\
        settings = {name: getattr(model_call, name) for name in ("temperature", "max_output_tokens")}
""",
            ),
        ),
    ),
    Planted(
        "a copy lacks values",
        (
            (
                "vm/journal/copying.py",
                """\
    values = source.vault.get(chain.run)
    lacking = {sealed.reference for _, sealed in chain.sealed} - erased - values.keys()
""",
                """\
    named = {sealed.reference for _, sealed in chain.sealed} - erased
    values = {name: value for name, value in source.vault.get(chain.run).items() if name in named}
    lacking = named - values.keys()
""",
            ),
        ),
    ),
    Planted(
        "keys of erased runs stay",
        (
            (
                "vm/journal/encryption.py",
                """\
        for run in runs:
            self._keys.destroy(key_name(run))
""",
                """\
        if count:  # without values there is no key
            for run in runs:
                self._keys.destroy(key_name(run))
""",
            ),
        ),
    ),
    Planted(
        "marks of fields are lost",
        (
            (
                "vm/machine/data.py",
                """\
        return FrozenMap((key, marked(item, part_of(spec, key))) for key, item in value.items())
""",
                """\
        fields = spec.properties or {}
        return FrozenMap((key, marked(item, fields.get(key))) for key, item in value.items())
""",
            ),
        ),
    ),
    Planted(
        "anybody may settle",
        (
            (
                "vm/machine/authority.py",
                """\
    elif not state.by:
        why = f"{asks}, and that is not known"
    elif by == state.by:
""",
                """\
    elif state.by and by == state.by:
""",
            ),
        ),
    ),
    Planted(
        "a replay compares no outputs",
        (
            (
                "vm/machine/replay.py",
                """\
    return all(name == "error" or _same(value, event.body[name]) for name, value in decided.body.items())
""",
                """\
    told = ("error", "output")  # texts for people; outputs are held to their types
    return all(name in told or _same(value, event.body[name]) for name, value in decided.body.items())
""",
            ),
        ),
    ),
    Planted(
        "a closed breaker frees nobody",
        (
            (
                "vm/journal/sqlite.py",
                """\
                connection.execute("UPDATE runs SET due = 0, held = NULL WHERE held = ?", (switch.name,))
""",
                """\
                connection.execute("UPDATE runs SET held = NULL WHERE held = ?", (switch.name,))
""",
            ),
        ),
    ),
    Planted(
        "another round keeps what was before",
        (
            (
                "vm/machine/bodies.py",
                """\
    slots = put(state.slots, each.first) if each.first else state.slots
    return state._replace(each=each, slots=slots, steps=state.steps + 1, trace=trace)
""",
                """\
    return state._replace(each=each, steps=state.steps + 1, trace=trace)
""",
            ),
        ),
    ),
    Planted(
        "an input that reads another variable is not assigned",
        (
            (
                "vm/machine/continuing.py",
                """\
        return frozenset(name for name in self.inputs if self.reads.get(name) != name)
""",
                """\
        return frozenset(name for name in self.inputs if name not in self.reads)
""",
            ),
        ),
    ),
)
