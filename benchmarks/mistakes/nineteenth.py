"""Mistakes of a nineteenth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

NINETEENTH: Final = (
    Planted(
        "a text that holds a sensitive part is open",
        (
            (
                "vm/machine/data.py",
                """\
    return Secret(joined) if any(map(is_sealed, values)) else joined
""",
                """\
    return Secret(joined) if any(isinstance(value, Sealed | Secret) for value in values) else joined
""",
            ),
        ),
    ),
    Planted(
        "a setting of zero is not sent",
        (
            (
                "vm/models/chat.py",
                """\
    return {name: value for name, value in found.items() if value is not None}
""",
                """\
    return {name: value for name, value in found.items() if value}
""",
            ),
        ),
    ),
    Planted(
        "a chain forgets the writes of earlier runs",
        (
            (
                "vm/machine/continuing.py",
                """\
    return chain[:last]
""",
                """\
    first = next((number for number in range(last - 1, 0, -1) if not chain[number - 1].state.moved), 0)
    return chain[first:last]
""",
            ),
        ),
    ),
    Planted(
        "a reply that is not accepted costs nothing",
        (
            (
                "vm/machine/ask.py",
                """\
    return _accepted(plan, reply, max_bytes)._replace(spent=_spent(reply))
""",
                """\
    result = _accepted(plan, reply, max_bytes)
    return result if result.answer == "failed" else result._replace(spent=_spent(reply))
""",
            ),
        ),
    ),
    Planted(
        "a receipt of a pruned run is compared at its end alone",
        (
            (
                "vm/journal/pruning.py",
                """\
        is_end = receipt.seq == len(self.digests) - 1 or receipt.status not in GOING
""",
                """\
        is_end = receipt.seq == len(self.digests) - 1 and receipt.status not in GOING
""",
            ),
        ),
    ),
    Planted(
        "an item without an output leaves no gap",
        (
            (
                "vm/machine/branches.py",
                """\
        output = tuple(None if one.output is UNDEFINED else one.output for one in fork.branches)
""",
                """\
        output = tuple(one.output for one in fork.branches if one.output is not UNDEFINED)
""",
            ),
        ),
    ),
    Planted(
        "a wave does not count its objections",
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
        "a policy of the same name counts as the same",
        (
            (
                "vm/machine/authority.py",
                """\
    covered = {policy_digest(policy) for terms in plan.terms for policy in terms.policies}
    missing = tuple(policy for policy in present.policies if policy_digest(policy) not in covered)
""",
                """\
    covered = {policy.policy for terms in plan.terms for policy in terms.policies}
    missing = tuple(policy for policy in present.policies if policy.policy not in covered)
""",
            ),
        ),
    ),
    Planted(
        "a breaker of a program holds no models",
        (
            (
                "vm/machine/breakers.py",
                """\
        names = [of_tool(tool)] * bool(tool) + [of_program(program) for program in programs]
""",
                """\
        names = [of_tool(tool), *map(of_program, programs)] if tool else []
""",
            ),
        ),
    ),
    Planted(
        "cached tokens are free",
        (
            (
                "vm/models/prices.py",
                """\
        for_cached = self.input if self.cached_input is None else self.cached_input
""",
                """\
        for_cached = self.cached_input or 0
""",
            ),
        ),
    ),
    Planted(
        "a wait hides the end of the run",
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
        "a verdict of nobody is of two people",
        (
            (
                "vm/machine/replay.py",
                """\
    if call is None or verdict != "done":
        return None
    objection = two_people(plan, state, call, str(event.note.get("by", "")))
""",
                """\
    by = event.note.get("by")
    if call is None or verdict != "done" or by is None:
        return None
    objection = two_people(plan, state, call, str(by))
""",
            ),
        ),
    ),
)
