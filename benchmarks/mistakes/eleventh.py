"""Mistakes of an eleventh set, planted by a reader of the machine's code and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

ELEVENTH: Final = (
    Planted(
        "the end of a free reply waits in memory",
        (
            (
                "vm/machine/driver.py",
                """\
        elif plan.is_model:
            self.urgency = max(self.urgency, COMMITS)
""",
                """\
        elif plan.is_model and result.spent.tokens:
            self.urgency = max(self.urgency, COMMITS)
""",
            ),
        ),
    ),
    Planted(
        "a lease is given back once one part of a call is over",
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
        "keys escape what is not ASCII",
        (
            (
                "vm/machine/keys.py",
                """\
from base64 import urlsafe_b64encode
""",
                """\
import json
from base64 import urlsafe_b64encode
""",
            ),
            (
                "vm/machine/keys.py",
                """\
    name = f'"program":"{program}","run":{quoted(run)},"step":{quoted(step)},"visit":{visit}'
""",
                """\
    name = f'"program":"{program}","run":{json.dumps(run)},"step":{json.dumps(step)},"visit":{visit}'
""",
            ),
        ),
    ),
    Planted(
        "a token divides at the first full stop",
        (
            (
                "vm/machine/keys.py",
                """\
        run, separator, secret = text.rpartition(".")
""",
                """\
        run, separator, secret = text.partition(".")
""",
            ),
        ),
    ),
    Planted(
        "entries behind the head are never seen",
        (
            (
                "vm/journal/chain.py",
                """\
    if later is not None and later.seq > head.seq:
""",
                """\
    if later is None or later.seq >= head.seq:
""",
            ),
        ),
    ),
    Planted(
        "fields that no type lists are not sensitive",
        (
            (
                "vm/machine/data.py",
                """\
    return spec.additional_properties if isinstance(spec.additional_properties, TypeSpec) else None
""",
                """\
    return None
""",
            ),
        ),
    ),
    Planted(
        "true is one of an enum that has 1",
        (
            (
                "vm/language/types.py",
                """\
        return key_of(value) in self.member_keys
""",
                """\
        return value in (self.enum or ())
""",
            ),
        ),
    ),
    Planted(
        "no sub-step makes a branch stale",
        (
            (
                "vm/language/automata.py",
                """\
            (number, sub)
            for number, step in enumerate(meaning.flow.steps)
            for sub, part in parts(step)
            if isinstance(part, Failing) and part.id == name[0]
""",
                """\
            (number, None)
            for number, step in enumerate(meaning.flow.steps)
            if isinstance(step, Failing) and step.id == name[0]
""",
            ),
        ),
    ),
    Planted(
        "one list of allowed tools is enough",
        (
            (
                "vm/machine/calls.py",
                """\
        if not any(_admits(entry.when, reader, plan.program.language) for entry in entries):
            return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}` with these arguments"
""",
                """\
        if any(_admits(entry.when, reader, plan.program.language) for entry in entries):
            return None
        return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}` with these arguments"
""",
            ),
        ),
    ),
    Planted(
        "attempts under one key are free",
        (
            (
                "vm/machine/apply.py",
                """\
    if attempt > call_state.attempt > 0:
""",
                """\
    if performance > call_state.performance > 0:
""",
            ),
        ),
    ),
    Planted(
        "siblings that start together do not see each other",
        (
            (
                "vm/machine/calls.py",
                """\
            return attempt.step, *found
        memories = plan.watch.performed(memories, part)
""",
                """\
            return attempt.step, *found
""",
            ),
        ),
    ),
    Planted(
        "only a tool with two people knows its caller",
        (
            (
                "vm/machine/authority.py",
                """\
    if state.caller and by in ("", state.caller):
        who = "it can't settle its own calls" if by else "whoever settles its calls has to say who it is"
""",
                """\
    if policy is not None and state.caller and by in ("", state.caller):
        who = "it can't settle its own calls" if by else "whoever settles its calls has to say who it is"
""",
            ),
        ),
    ),
)
