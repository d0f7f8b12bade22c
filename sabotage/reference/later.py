"""Runs under policies that come later, and the people who may settle calls ("Policies, Choices")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.data import Data
from stepward.sabotage.reference.members import Members
from stepward.sabotage.reference.rules import RuleMonitor, Terms, is_allowed, may_settle, rules_of, terms_of
from stepward.sabotage.reference.run import Happened

if TYPE_CHECKING:
    from stepward.vm import Policy


class Later(Members):
    """A run that machines with other policies may continue, and whose calls people may settle."""

    _by = _caller = ""

    @property
    def terms(self) -> tuple[Terms, ...]:
        """The policies that the run came under together, each time with their waived rules."""
        return tuple(self._terms)

    def satisfies(self, policies: Sequence[Policy], waived: Collection[str] = ()) -> bool:
        """Return whether the past of the run satisfies the rules of new policies; otherwise it is refused."""
        return self._is_cancelled or self._folded(self._missing(policies, waived)) is not None

    def add_policies(self, policies: Sequence[Policy], waived: Collection[str] = ()) -> None:
        """Put the run under new policies whose rules its past satisfies, unless it is cancelled."""
        terms = self._missing(policies, waived)
        if not terms.policies or self._is_cancelled:
            return
        rules = self._folded(terms)
        assert rules is not None, "a run that broke a rule is refused"
        self._terms.append(terms)
        self._rules += rules

    def _everywhere(self, look: Callable[[], Iterable[Any]]) -> list[Any]:
        """Return what is found in all branches that run, or in the run itself where none does."""
        raise NotImplementedError

    def may_settle(self, step: str, by: str, policies: Sequence[Policy] = (), waived: Collection[str] = ()) -> bool:
        """Return whether a person may settle a call of the current step, also under new policies."""
        if self._caller and by in ("", self._caller):
            return False
        tool = next(call.step.tool for call in self._everywhere(lambda: self._calls) if call.step.id == step)
        return all(may_settle(tool, by, self._by, terms) for terms in (*self._terms, self._missing(policies, waived)))

    def _missing(self, policies: Sequence[Policy], waived: Collection[str]) -> Terms:
        """Return the policies that are new to the run. For the others, the earlier waivers still count.

        A stored run has no path: a policy applies by the name of the program, or if the run has one of its name. What
        is written in another way is new, also if it says the same.
        """
        known_policies = [policy for terms in self._terms for policy in terms.policies]
        names = {policy.policy for policy in known_policies}
        present = [one for one in policies if one.policy in names or facts.governs(one, self.program.name)]
        written = [policy.to_data() for policy in known_policies]
        missing = [policy for policy in present if policy.to_data() not in written]
        return terms_of(missing, waived)

    def _folded(self, terms: Terms) -> list[RuleMonitor] | None:
        """Return the rule monitors of terms after replaying the past, or None if a rule was broken.

        The facts of tools include these policies, since they decide which steps a rule selects.
        """
        known = [*self._policies, *terms.policies]
        rules = rules_of(self.program, terms, lambda name: facts.tool(name, self.program, known))
        data = Data(self.program)
        for event in self._past:
            if event.what == "starts":
                data.values = dict(event.held or {})
                if not self._was_admitted(event, rules, terms, data):
                    return None
            if event.what == "settled":
                if not may_settle(event.about, event.more, self._by, terms):
                    return None
                continue
            for monitor in rules:
                _replay_event(monitor, event.what, event.about, event.more)
        return rules

    def _was_admitted(self, start: Happened, rules: Sequence[RuleMonitor], terms: Terms, data: Data) -> bool:
        part, args = start.about, start.more
        if any(monitor.forbids_behind(part, args, data.read, start.earlier) for monitor in rules):
            return False
        return part.type != "tool" or is_allowed(part.tool, args, terms, data.read, self.program.language)


def _replay_event(monitor: RuleMonitor, what: str, about: Any, more: Any) -> None:
    if what == "starts":
        monitor.starts(about)
    elif what == "assigned":
        monitor.assigned(about)
    elif what == "took":
        monitor.took(about, more)
    else:
        monitor.succeeded(about, more)
