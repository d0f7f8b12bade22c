"""Members of a step that run at once: branches or items, what is before one, and what rules remember of them."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from typing import Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.data import Changes, Hidden, Holder
from stepward.sabotage.reference.rules import RuleMonitor
from stepward.sabotage.reference.run import Closed


class Member:
    """A branch: what it has for itself while it runs, and what it came to.

    `needs` are the names of the branches that it depends on, `given` what its names are when it begins, `hidden` the
    sensitive fields of that, and `gone` what counts as assigned when it ends.
    """

    def __init__(self, name: str | int, steps: list[Any], rules: Any) -> None:
        self.name, self.steps, self.guardrails = name, steps, rules
        self.round = 1
        self.needs: tuple[str, ...] = ()
        self.given: Changes = []
        self.hidden: Hidden = []
        self.gone: list[Holder] = [where for inner in facts.all_steps(steps) for where in facts.assigned_by(inner)]
        self.own: dict[str, Any] = {}
        self.course: Generator[None, None, None] | None = None
        self.rules: list[RuleMonitor] = []
        self.closed: Closed | None = None

    @property
    def is_good(self) -> bool:
        """Whether it has succeeded."""
        return self.closed is not None and self.closed.status == "SUCCESS"


def before(member: Member, members: list[Member]) -> list[Member]:
    """Return the branches on which one depends, at any distance."""
    names = set(member.needs)
    for _ in members:
        names |= {name for one in members if one.name in names for name in one.needs}
    return [one for one in members if one.name in names]


def in_branch(rule: RuleMonitor, earlier: list[RuleMonitor]) -> RuleMonitor:
    """Return a rule as a branch begins with it: what came before it, and nothing owed there. Starts count for all."""
    found = copy(rule)
    found.came, found.stale = _levels([rule, *earlier])
    found.owes = found.has_paid = False
    return found


def _levels(rules: list[RuleMonitor]) -> tuple[set[str], set[str]]:
    """Return the guards that came in one of several places, and those among them that are stale in all of these."""
    succeeded = set().union(*(rule.came for rule in rules))
    fresh = set().union(*(rule.came - rule.stale for rule in rules))
    return succeeded, (succeeded - fresh) | set().union(*(rule.stale - rule.came for rule in rules)) - fresh


def join(rule: RuleMonitor, ended: list[tuple[Member, RuleMonitor]], members: list[Member]) -> None:
    """Let a rule remember what branches did: what one owes is paid in one behind it, what came before in any."""
    rule.came, rule.stale = _levels([rule, *(one for _, one in ended)])
    paying = [member for member, one in ended if one.has_paid]
    owing = [member for member, one in ended if one.owes]
    rule.owes = (rule.owes and not paying) or any(
        not any(member in before(later, members) for later in paying) for member in owing
    )
    rule.has_paid = rule.has_paid or bool(paying)
