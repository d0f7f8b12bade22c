"""A turn continues the one before: the rules in force begin with what they have seen so far."""

from __future__ import annotations

from collections.abc import Sequence

from stepward.vm.language.past import continued as continued_rule
from stepward.vm.language.policy import Policy
from stepward.vm.machine.history import History


def continued(policies: Sequence[Policy], before: History | None, first: str) -> tuple[Policy, ...]:
    """Return the policies for a turn after a run, which was under the same ones; `first` is the first run of all.

    The names of a turn are its own, so nothing that a condition of an earlier turn has read is assigned again.
    """
    if before is None:
        return tuple(policies)
    memories = iter(before.state.monitors)
    meaning = before.plan.meaning
    found = []
    for policy in policies:
        rules = tuple(continued_rule(rule, next(memories), meaning, ()) for rule in policy.guardrails)
        found.append(policy.model_copy(update={"guardrails": rules, "continues": first}))
    return tuple(found)
