"""Mistakes of a reader of the code and the pages who had not seen the attacks: each breaks a sentence of a page."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

DRIVER: Final = "vm/machine/driver.py"

SECOND: Final = (
    Planted(
        "a retried round starts its sub-steps with fresh counters",
        (
            (
                "vm/machine/apply.py",
                """        again = tuple(
            call._replace(phase=READY, base=call.attempt, trace=NO_DIGEST, due=0) if call.phase == "failed" else call
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
        (
            (
                "vm/machine/deliveries.py",
                "        driver, found = lease_and_run\n",
                "        driver, _ = lease_and_run\n",
            ),
        ),
    ),
    Planted(
        "whether a token is awaited is not asked again under the lease",
        (
            (
                "vm/machine/deliveries.py",
                """            if lease_and_run is not None and (still := _awaited(lease_and_run[1], read)) is not None:
                local, call = still
                break
            if lease_and_run is not None:
                await self._io(self.journal.release, lease_and_run[0].lease)
            elif not pause""",
                """            if lease_and_run is not None:
                break
            if not pause""",
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
                'call.has_fallback and same(call.call.fallback, event.body.get("output"))',
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
                "                connection.execute(_MARK_ERASED, (run,))\n",
                "                if count:\n                    connection.execute(_MARK_ERASED, (run,))\n",
            ),
        ),
    ),
)
