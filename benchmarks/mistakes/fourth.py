"""Mistakes of one more such reader, planted after the campaign had learned to find the third set."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

FOURTH: Final = (
    Planted(
        "below the first level the keys of an object stand in a text in the order in which a tool wrote them",
        (
            (
                "vm/values.py",
                """        _write_json(item, indent, level + 1, parts, in_order=in_order)
""",
                """        _write_json(item, indent, level + 1, parts)
""",
            ),
        ),
    ),
    Planted(
        "an object with a sensitive field, written into a longer text, leaves the text in the clear",
        (
            (
                "vm/machine/data.py",
                """    return Secret(joined) if any(map(is_sealed, values)) else joined
""",
                """    return Secret(joined) if any(isinstance(value, Sealed | Secret) for value in values) else joined
""",
            ),
        ),
    ),
    Planted(
        "a parallel step that has used up its visits keeps the outputs of its sub-steps",
        (
            (
                "vm/machine/apply.py",
                """    for call in step.calls if step.is_parallel else ():
        changes += failure_changes(call, error, name)
""",
                """""",
            ),
        ),
    ),
    Planted(
        "a program's own max_steps takes the place of the machine's limit",
        (
            (
                "vm/machine/calls.py",
                """    spent = state.steps + cost
    return spent > state.limits.steps or (plan.max_steps is not None and spent > plan.max_steps)
""",
                """    most = state.limits.steps if plan.max_steps is None else plan.max_steps
    return state.steps + cost > most
""",
            ),
        ),
    ),
    Planted(
        "a tool is idempotent where the program says so, though a policy knows that it is not",
        (
            (
                "vm/language/meaning.py",
                """\
            fields[name] = (declared and fields[name]) if name == "idempotent" else (declared or fields[name])
""",
                """\
            fields[name] = declared or fields[name]
""",
            ),
        ),
    ),
    Planted(
        "a run that is under a policy need not come under another version of it that has the same name",
        (
            (
                "vm/machine/authority.py",
                """    covered = {policy_digest(policy) for terms in plan.terms for policy in terms.policies}
    missing = tuple(policy for policy in present.policies if policy_digest(policy) not in covered)
""",
                """    covered = {policy.policy for terms in plan.terms for policy in terms.policies}
    missing = tuple(policy for policy in present.policies if policy.policy not in covered)
""",
            ),
        ),
    ),
    Planted(
        "a write that is reconciled as done without an output has returned null, of whatever type it is",
        (
            (
                "vm/machine/deliveries.py",
                """                result = _delivered(found.plan, local, call, output)
""",
                """                result = Result("output")
                if output is not None:
                    result = _delivered(found.plan, local, call, output)
""",
            ),
        ),
    ),
    Planted(
        "a machine with short leases takes a long lease of another one for that of a wrong clock",
        (
            (
                "vm/machine/runs.py",
                """        is_stranded = row is not None and row.expires > self.clock.now() / 1e6 + LONGEST_LEASE
""",
                """        longest = self._setup.lease_seconds
        is_stranded = row is not None and row.expires > self.clock.now() / 1e6 + longest
""",
            ),
        ),
    ),
    Planted(
        "a lease that is kept for an interrupted call with a time-out is not renewed before that has passed",
        (
            (
                "vm/machine/keeping.py",
                """            ends = due if waiting.until is None else min(due, waiting.until)
""",
                """            ends = due if waiting.until is None else waiting.until
""",
            ),
        ),
    ),
    Planted(
        "sensitive values and the secrets of tokens are put into the vault after the records that name them",
        (
            (
                "vm/machine/driver.py",
                """        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
""",
                """        secrets = dict(self.secrets)
""",
            ),
            (
                "vm/machine/driver.py",
                """            return
        self.committed = (state, last)
""",
                """            return
        if secrets:  # not before: a driver that was fenced leaves nothing that no record names
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
        self.committed = (state, last)
""",
            ),
        ),
    ),
    Planted(
        "a check of many runs judges each under the waivers of the first run of its program and policies",
        (
            (
                "vm/machine/replay.py",
                """    @lru_cache(maxsize=MAX_PLANS)
    def plan(*documents: Any) -> Plan:
        return stored_plan(journal, *documents)
""",
                """    kept: dict[Any, Plan] = {}

    def plan(program: Any, policies: Any, waived: Any, later: Any, patterns: Any) -> Plan:
        key = program, policies, later, patterns
        if key not in kept:
            if len(kept) >= MAX_PLANS:
                del kept[next(iter(kept))]
            kept[key] = stored_plan(journal, program, policies, waived, later, patterns)
        return kept[key]
""",
            ),
        ),
    ),
    Planted(
        "an erasure that is repeated because it failed does not write the vault again",
        (
            (
                "vm/journal/sqlite_vault.py",
                """        file.rewrite()
""",
                """        if count:
            file.rewrite()
""",
            ),
        ),
    ),
)
