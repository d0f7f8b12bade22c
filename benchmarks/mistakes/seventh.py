"""Mistakes of a seventh set, planted while the campaign learned to find the sixth."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

SEVENTH: Final = (
    Planted(
        "an attempt that a retried round makes again is not charged",
        (
            (
                "vm/machine/apply.py",
                """    if attempt > call_state.attempt > 0:
""",
                """    if attempt > call_state.attempt > call_state.base:
""",
            ),
        ),
    ),
    Planted(
        "an output of a sub-step makes no condition stale",
        (
            (
                "vm/language/automata.py",
                """from stepward.vm.language.steps import ConditionStep, Failing, parts
""",
                """from stepward.vm.language.steps import ConditionStep, Failing
""",
            ),
            (
                "vm/language/automata.py",
                """        for sub, part in parts(step)
""",
                """        for sub, part in ((None, step),)
""",
            ),
        ),
    ),
    Planted(
        "a fallback hides a write in doubt",
        (
            (
                "vm/machine/calls.py",
                """    if result.answer == "timeout" and call.has_fallback:
""",
                """    if (result.answer == "timeout" or is_unknown) and call.has_fallback:
""",
            ),
        ),
    ),
    Planted(
        "the vault keeps the first token of a reference",
        (
            (
                "vm/journal/sqlite_vault.py",
                """            connection.executemany("INSERT OR REPLACE INTO secrets VALUES (?, ?, ?)", rows)
""",
                """            connection.executemany("INSERT OR IGNORE INTO secrets VALUES (?, ?, ?)", rows)
""",
            ),
        ),
    ),
    Planted(
        "renewal ends with its first failure",
        (
            (
                "vm/machine/driver.py",
                """            except LeaseLost:
                return  # the next append raises it, where it can be reported
            except JournalError:
                pass  # the next append raises it, unless the store recovers
""",
                """            except JournalError:
                return  # the next append raises it, where it can be reported
""",
            ),
        ),
    ),
    Planted(
        "a doubt names a key that the tool never got",
        (
            (
                "vm/machine/runs.py",
                """                suspensions.append(Suspension(call.id, token, call_state.value, frame))
            elif call_state.phase == "doubt":
                key = idempotency_key(plan.digest, found.run, call.id, visit, call_state.performance, frame)
""",
                """                suspensions.append(Suspension(call.id, token, call_state.value, frame))
            elif call_state.phase == "doubt":
                key = idempotency_key(plan.digest, found.run, call.id, visit, call_state.attempt, frame)
""",
            ),
        ),
    ),
    Planted(
        "an erasure is done once only",
        (
            (
                "vm/machine/deliveries.py",
                """        secrets = await self._io(self.journal.vault.get, run_id)
""",
                """        found = await self._found(run_id)
        if found.state.is_erased:
            return run_of(found)
        secrets = await self._io(self.journal.vault.get, run_id)
""",
            ),
        ),
    ),
    Planted(
        "the last reference of an expression decides whether it is sensitive",
        (
            (
                "vm/machine/state.py",
                """        if self.plan.has_sensitive and is_sealed(value):
            self.touched = True
            return opened(value)
        return value
""",
                """        self.touched = self.plan.has_sensitive and is_sealed(value)
        return opened(value) if self.touched else value
""",
            ),
        ),
    ),
    Planted(
        "waivers of a policy whose name begins like another one's",
        (
            (
                "vm/machine/authority.py",
                """    names = tuple(f"{policy.policy}:" for policy in missing)
""",
                """    names = tuple(policy.policy for policy in missing)
""",
            ),
        ),
    ),
    Planted(
        "a receipt of a number that is on the chain is passed over",
        (
            (
                "vm/journal/verify.py",
                """    off_chain = [receipt for receipt in good if chain.digests.get(receipt.seq) != receipt.digest]
""",
                """    off_chain = [receipt for receipt in good if receipt.seq not in on_chain]
""",
            ),
        ),
    ),
    Planted(
        "values of a map are not checked",
        (
            (
                "vm/language/types.py",
                """    for name, item in value.items():
""",
                """    if not known and spec.additional_properties is not False:
        return
    for name, item in value.items():
""",
            ),
        ),
    ),
    Planted(
        "an intent beside that of a sibling is not durable",
        (
            (
                "vm/machine/driver.py",
                """        self.urgency = ANY_TIME if not self.pending else self.urgency
""",
                """        self.urgency = ANY_TIME
""",
            ),
        ),
    ),
)
