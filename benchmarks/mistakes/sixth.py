"""Mistakes of a sixth set, planted while the campaign learned to find the fifth."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

SIXTH: Final = (
    Planted(
        "`in` passes over members of other types",
        (
            (
                "vm/expressions/operators.py",
                """    return any(_equal(word, item, other) for other in array)
""",
                """    return any(kind(other) == kind(item) and _equal(word, item, other) for other in array)
""",
            ),
        ),
    ),
    Planted(
        "tokens of a rejected reply are free",
        (
            (
                "vm/machine/ask.py",
                """    return _accepted(plan, reply, max_bytes)._replace(spent=_spent(reply))
""",
                """    result = _accepted(plan, reply, max_bytes)
    return result._replace(spent=_spent(reply)) if result.answer == "output" else result
""",
            ),
        ),
    ),
    Planted(
        "a sub-step that falls back has succeeded",
        (
            (
                "vm/machine/leaving.py",
                """\
    parts = [(step.position, sub) for sub, call in enumerate(calls) if call.phase == "success"]
""",
                """\
    parts = [(step.position, sub) for sub, call in enumerate(calls) if call.phase in ("success", "fallback")]
""",
            ),
        ),
    ),
    Planted(
        "a repeat costs nothing",
        (
            (
                "vm/machine/apply.py",
                """    if attempt > call_state.attempt > 0:
""",
                """    if performance > call_state.performance > 0:
""",
            ),
        ),
    ),
    Planted(
        "the first allow-list of a tool decides",
        (
            (
                "vm/machine/calls.py",
                """        if not any(_admits(entry.when, reader, plan.program.language) for entry in entries):
            return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}` with these arguments"
""",
                """        if any(_admits(entry.when, reader, plan.program.language) for entry in entries):
            return None
        return "allow", f"policy `{policy.policy}` does not allow tool `{call.tool}` with these arguments"
""",
            ),
        ),
    ),
    Planted(
        "the status in the list of runs is that before the append",
        (
            (
                "vm/machine/runs.py",
                """            state = apply(found.plan, found.state, event)
            entry = entry_of(event, last, now)
            key = self._setup.key
            signature = None if key is None else key.sign_head(run, entry.seq, entry.digest)
            try:
                append = Append(run, last.seq, [entry], state.status, now / 1e6, True, signature, due_of(state))
""",
                """            state = apply(found.plan, found.state, event)
            entry = entry_of(event, last, now)
            key = self._setup.key
            signature = None if key is None else key.sign_head(run, entry.seq, entry.digest)
            try:
                append = Append(run, last.seq, [entry], found.state.status, now / 1e6, True, signature, due_of(state))
""",
            ),
        ),
    ),
    Planted(
        "a lease is checked before the delay of a retry, and not after it",
        (
            (
                "vm/machine/driver.py",
                """        if is_retry and not is_started:
""",
                """        if setup.clock.now() / 1e6 >= self.lease.expires:
            await self._require_lease()
        if is_retry and not is_started:
""",
            ),
            (
                "vm/machine/driver.py",
                """        if started / 1e6 >= self.lease.expires:
            started = await self._require_lease()
        parts: list[PartUnderWay] | None = [] if plan.is_durable else None
""",
                """        parts: list[PartUnderWay] | None = [] if plan.is_durable else None
""",
            ),
        ),
    ),
    Planted(
        "the lease of a cancelled caller is given back when its first call ends",
        (
            (
                "vm/machine/keeping.py",
                "while (waiting := next((call for call in self._calls if not call.is_over), None)) is not None:",
                """while not any(call.is_over for call in self._calls):
            waiting = self._calls[0]""",
            ),
        ),
    ),
    Planted(
        "the entries of a run are read before its head",
        (
            (
                "vm/journal/chain.py",
                """    head = _readable(journal.head(run))
    entries = journal.read(run)
""",
                """    entries = journal.read(run)
    head = _readable(journal.head(run))
""",
            ),
        ),
    ),
    Planted(
        "a waiver of another program is accepted",
        (
            (
                "vm/language/within.py",
                """        if today is not None and waiver.program == program.name and not waiver.is_expired(today)
""",
                """        if today is not None and not waiver.is_expired(today)
""",
            ),
        ),
    ),
    Planted(
        "`sensitive` below additionalProperties is overlooked",
        (
            (
                "vm/language/types.py",
                """    if spec.properties is None and spec.items is None and spec.additional_properties is None:
""",
                """    if spec.properties is None and spec.items is None:
""",
            ),
        ),
    ),
    Planted(
        "a secret in base64 is known at one alignment",
        (
            (
                "vm/machine/redaction.py",
                """        first = (0, 2, 3)[before]  # these characters depend on the bytes before
""",
                """        first = before * 4 // 3  # these characters depend on the bytes before
""",
            ),
        ),
    ),
)
