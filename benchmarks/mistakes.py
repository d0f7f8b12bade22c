"""Mistakes in the machine that a campaign has to find, each as edits of the package; `planted.py` plants them.

`FIRST` are those that were named before the attacks were extended for them. `SECOND` were planted by a reader of the
machine's code and its pages who had not seen the attacks: each breaks a sentence of a page. `THIRD` are those of
another such reader, after the campaign had learned to find the second set, `FOURTH` those of one more, after the third.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Planted(NamedTuple):
    """A mistake: its name, and the edits that make it, each a file, the text that it has, and the text that it gets."""

    name: str
    edits: tuple[tuple[str, str, str], ...]


DRIVER: Final = "vm/machine/driver.py"

FIRST: Final = (
    Planted(
        "a lease is good one second too long",
        (
            (DRIVER, "if started / 1e6 >= self.lease.expires:", "if started / 1e6 >= self.lease.expires + 1:"),
            (DRIVER, "if now / 1e6 < self.lease.expires:", "if now / 1e6 < self.lease.expires + 1:"),
        ),
    ),
    Planted(
        "a lease is given back while a cancelled caller's tool runs",
        (
            (
                "vm/machine/runs.py",
                "            is_held = bool(calls)\n",
                "            is_held = False\n",
            ),
        ),
    ),
    Planted(
        "an unsigned record is accepted under a key",
        (
            (
                "vm/machine/history.py",
                "if key is not None and signer_of",
                "if key is not None and head.signature is not None and signer_of",
            ),
        ),
    ),
    Planted("the vault is not rewritten on erasure", (("vm/journal/sqlite_vault.py", "        file.rewrite()\n", ""),)),
    Planted(
        "a request is redacted only at the top",
        (
            (
                "vm/machine/known.py",
                "return FrozenMap((self.redacted(key, is_attempt=is_attempt), item) for key, item in items)",
                "return value",
            ),
        ),
    ),
    Planted(
        "`never` lets a step start where its condition fails",
        (
            (
                "vm/machine/monitors.py",
                """        except EvaluationError as error:
            return f"`{self.when}` can't be evaluated: {error}"
""",
                """        except EvaluationError:
            return None
""",
            ),
        ),
    ),
    Planted(
        "a write that timed out counts as failed",
        (("vm/machine/ask.py", 'return Result("timeout", error=f"', 'return Result("failed", error=f"'),),
    ),
    Planted(
        "a limit of size is off by one",
        (("vm/machine/calls.py", "    if size > most:", "    if size > most + 1:"),),
    ),
    Planted(
        "a call starts after a cancellation",
        (
            (DRIVER, "        if self.state.is_cancelled and not call.is_started:\n            return\n", ""),
            (
                DRIVER,
                "            if self.state.is_cancelled and not self._is_open(call):\n                return\n",
                "",
            ),
        ),
    ),
    Planted(
        "staleness is ignored",
        (
            (
                "vm/machine/monitors.py",
                "self._stale.get(left.position, ())",
                "()",
            ),
        ),
    ),
    Planted(
        "a lease is taken two seconds early",
        (
            ("vm/journal/memory.py", "stored.expires > now:", "stored.expires > now + 2:"),
            ("vm/journal/sqlite.py", "CAST(expires AS REAL) <= ?)", "CAST(expires AS REAL) <= ? + 2)"),
        ),
    ),
    Planted(
        "a replay believes the types of deliveries",
        (
            (
                "vm/machine/replay.py",
                "return _delivery_misfit(plan, state, happened) or _output_misfit(plan, state, happened)\n",
                "return _delivery_misfit(plan, state, happened)\n",
            ),
        ),
    ),
)

SECOND: Final = (
    Planted(
        "a retried round starts its sub-steps with fresh counters",
        (
            (
                "vm/machine/apply.py",
                """        again = tuple(
            call._replace(phase=READY, base=call.attempt, trace=NO_DIGEST) if call.phase == "failed" else call
            for call in calls
        )
""",
                """        again = tuple(FRESH if call.phase == "failed" else call for call in calls)
""",
            ),
        ),
    ),
    Planted(
        "guardrails are asked about each sibling as if none started with it",
        (
            (
                "vm/machine/calls.py",
                "            return attempt.step, *found\n        memories = plan.watch.performed(memories, part)\n",
                "            return attempt.step, *found\n",
            ),
        ),
    ),
    Planted(
        "a run that ends between attempts of a write is silent about it",
        (
            (
                "vm/machine/calls.py",
                'call.writes and (call_state.phase in (OPEN, "doubt") or call_state.is_unknown)',
                'call.writes and call_state.phase in (OPEN, "doubt")',
            ),
        ),
    ),
    Planted(
        "a field below a field of a sensitive object is read in the clear",
        (
            (
                "vm/machine/state.py",
                """            if type(value) is Sealed or type(value) is Secret:
                is_secret = True
""",
                """            is_secret = type(value) is Sealed or type(value) is Secret
            if is_secret:
""",
            ),
        ),
    ),
    Planted(
        "a rule over all that write leaves out tools that nobody declared",
        (
            (
                "vm/language/selectors.py",
                "    return meaning.tool(part.tool).effect == selector.effect\n",
                "    spec = meaning.manifest.get(part.tool)\n"
                "    return spec is not None and spec.effect == selector.effect\n",
            ),
        ),
    ),
    Planted(
        "what a sibling seals while the vault is written is lost",
        (
            (
                DRIVER,
                """            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
""",
                """            await setup.io(setup.journal.vault.put, self.run, dict(self.secrets))
            self.secrets.clear()
""",
            ),
        ),
    ),
    Planted(
        "who may resume is asked of the run before new policies come over it",
        (("vm/machine/deliveries.py", "        driver, found = taken\n", "        driver, _ = taken\n"),),
    ),
    Planted(
        "whether a token is awaited is not asked again under the lease",
        (
            (
                "vm/machine/deliveries.py",
                """            if taken is not None and _awaited(taken[1], read) is not None:
                break
            if taken is not None:
                await self._io(self.journal.release, taken[0].lease)
            elif not waits""",
                """            if taken is not None:
                break
            if not waits""",
            ),
        ),
    ),
    Planted(
        "tasks of one thread hold leases under one name",
        (
            (
                "vm/machine/runs.py",
                """        self._leases += 1
        return f"{self._holder}:{self._leases}"
""",
                """        import threading

        return f"{self._holder}:{threading.get_ident()}"
""",
            ),
        ),
    ),
    Planted(
        "a replay admits any fallback",
        (
            (
                "vm/machine/replay.py",
                'call.has_fallback and same(call.call.fallback, happened.body.get("output"))',
                "call.has_fallback",
            ),
        ),
    ),
    Planted(
        "a head that was put back is taken for an older look at it",
        (
            (
                "vm/journal/chain.py",
                """    later = _readable(journal.head(run))
    if later is not None and later.seq > head.seq:
""",
                """    if head is not None:
""",
            ),
        ),
    ),
    Planted(
        "erasing a run without values leaves no tombstone",
        (
            (
                "vm/journal/sqlite_vault.py",
                "            connection.execute(_MARK_ERASED, (run,))\n",
                "            if count:\n                connection.execute(_MARK_ERASED, (run,))\n",
            ),
        ),
    ),
)

THIRD: Final = (
    Planted(
        "a renewal always writes the same end of the lease",
        (
            (
                "vm/machine/driver.py",
                """        while True:
            now = setup.clock.now() / 1e6
""",
                """        now = setup.clock.now() / 1e6
        while True:
""",
            ),
        ),
    ),
    Planted(
        "the size of an output is compared in characters",
        (
            (
                "vm/machine/driver.py",
                "            limits, most = self.state.limits, len(happened.text) * MAX_CHARACTER\n",
                "            limits, most = self.state.limits, len(happened.text)\n",
            ),
        ),
    ),
    Planted(
        "a repeated read is the same performance",
        (
            (
                "vm/machine/plan.py",
                "        self.keeps_key = spec.idempotent\n",
                "        self.keeps_key = self.is_idempotent\n",
            ),
        ),
    ),
    Planted(
        "a constant first call is not asked of later policies",
        (
            (
                "vm/machine/plan.py",
                "        is_free = not any(terms.policies for terms in plan.terms)\n",
                "        is_free = not plan.policies\n",
            ),
        ),
    ),
    Planted(
        "a write that suspends undeclared is counted as failed",
        (
            (
                "vm/machine/ask.py",
                '        return Result("doubt" if plan.writes else "failed", error=why)\n',
                '        return Result("failed", error=why)\n',
            ),
        ),
    ),
    Planted(
        "a token budget is looked at once for a whole wave",
        (
            (
                "vm/machine/calls.py",
                """    if plan.program.max_tokens is not None and step.concurrency is not None:
        starting = starting[: step.concurrency]  # the budget is checked before each call, as far as timing allows
""",
                "",
            ),
        ),
    ),
    Planted(
        "replay takes what is sealed for erased",
        (
            (
                "vm/machine/replay.py",
                "    return any(_has_gone(value) for chunk in state.slots for value in chunk)\n",
                "    return any(is_sealed(value) for chunk in state.slots for value in chunk)\n",
            ),
        ),
    ),
    Planted(
        "erased values are read from the vault",
        (
            (
                "vm/journal/sealing.py",
                """        if reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
        secret = secrets.get(reference)
""",
                """        secret = secrets.get(reference)
        if secret is None and reference in erased:
            return Sealed(reference, committed, None, is_gone=True)
""",
            ),
        ),
    ),
    Planted(
        "of many values none is sought in groups",
        (
            (
                "vm/machine/redaction.py",
                "        for text in (read.text, *read.folded, *read.joined):\n",
                "        for text in (read.text, *read.folded):\n",
            ),
        ),
    ),
    Planted(
        "a starter without a name may approve",
        (
            (
                "vm/machine/authority.py",
                """    elif not state.by:
        why = f"{asks}, and that is not known"
""",
                "",
            ),
        ),
    ),
    Planted(
        "true is 1 in an enum",
        (
            (
                "vm/language/types.py",
                """    if isinstance(value, bool):
        return (bool, value)
""",
                """    if value is None or isinstance(value, str | int | Decimal):  # as most are
        return value
""",
            ),
        ),
    ),
    Planted(
        "an unsigned receipt is accepted under keys",
        (
            (
                "vm/journal/verify.py",
                """        elif keys and receipt.signer(keys) is None:
            what = "carries no signature" if receipt.signature is None else "is signed by none of the given keys"
""",
                """        elif keys and receipt.signature is not None and receipt.signer(keys) is None:
            what = "is signed by none of the given keys"
""",
            ),
        ),
    ),
)

FOURTH: Final = (
    Planted(
        "below the first level the keys of an object stand in a text in the order in which a tool wrote them",
        (
            (
                "vm/values.py",
                """        parts.extend(_json_parts(item, indent, level + 1, in_order=in_order))
""",
                """        parts.extend(_json_parts(item, indent, level + 1))
""",
            ),
        ),
    ),
    Planted(
        "an object with a sensitive field, written into a longer text, leaves the text in the clear",
        (
            (
                "vm/machine/data.py",
                """from stepward.vm.journal.canonical import Secret, is_sealed, opened
""",
                """from stepward.vm.journal.canonical import Sealed, Secret, is_sealed, opened
""",
            ),
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
        changes += _failure_changes(call, event.body["error"])
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
                """            given[name] = (said and given[name]) if name == "idempotent" else (said or given[name])
""",
                """            given[name] = said or given[name]
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
                """                result = _delivered(found, call, output)
""",
                """                result = Result("output") if output is None else _delivered(found, call, output)
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
                """        self.committed = (last.state, last.entry)
""",
                """        if secrets:  # not before: a driver that was fenced leaves nothing that no record names
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
        self.committed = (last.state, last.entry)
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

SETS: Final = {"first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH}
"""The sets by name."""
