"""The turns of a session: runs that are one run. Each begins with what its rules have seen in the one before.

The runs are named `NAME.1`, `NAME.2` and so on. The policies of each are derived from those of the run before, and from
what the monitors remember at its end, so that a verifier derives them again and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepward.vm.language.past import continued
from stepward.vm.language.policy import Policy
from stepward.vm.machine.history import History
from stepward.vm.machine.plan import policy_digest


def turn_policies(policies: Sequence[Policy], before: History) -> tuple[Policy, ...]:
    """Return the policies of a turn after a run that was under `policies`.

    The names of a turn are its own, so nothing that a condition of an earlier turn has read is assigned again.
    """
    first = next((policy.continues for policy in policies if policy.continues is not None), before.run)
    memories = iter(before.state.monitors)
    meaning = before.plan.meaning
    found = []
    for policy in policies:
        rules = tuple(continued(rule, next(memories), meaning, ()) for rule in policy.guardrails)
        found.append(policy.model_copy(update={"guardrails": rules, "continues": first}))
    return tuple(found)


def turn_name(session: str, number: int) -> str:
    """Return the id of the run of a turn; turns are counted from 1."""
    return f"{session}.{number}"


def turn_before(found: History, read: Callable[[str], History | None]) -> tuple[History | None, str | None]:
    """Return the run of the turn before a turn, and why the turn does not continue it, or None.

    Both are None for a run that is no turn behind another one.
    """
    first = next((policy.continues for policy in found.plan.policies if policy.continues is not None), None)
    if first is None or "continues" in found.records[0].body:  # a continuation says which run it continues
        return None, None
    session, _, number = found.run.rpartition(".")
    if not number.isdecimal() or int(number) < 2 or first != turn_name(session, 1):
        return None, f"it is under policies of a session that begins with run `{first}`, and is no turn of it"
    before = read(turn_name(session, int(number) - 1))
    if before is None:
        return None, f"the turn before it, run `{turn_name(session, int(number) - 1)}`, is not in this store"
    if not before.state.is_over:
        return before, f"the turn before it, run `{before.run}`, has not ended"
    due = [policy_digest(policy) for policy in turn_policies(before.plan.policies, before)]
    if due != list(found.records[0].body["policies"]):
        return before, f"its rules do not begin where run `{before.run}`, the turn before it, has left them"
    return before, None
