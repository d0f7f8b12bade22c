"""A run under policies that are new to it, and who may settle its calls ("Policies, Choices")."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.data import Data
from stepward.sabotage.reference.rules import Kept, Terms, is_allowed, may_settle, rules_of
from stepward.sabotage.reference.waves import Waves

if TYPE_CHECKING:
    from stepward.vm import Policy


class Later(Waves):
    """A run that a machine with other policies may go on with, and whose calls somebody may settle."""

    _by = ""

    def keeps(self, policies: Sequence[Policy], waived: Collection[str] = ()) -> bool:
        """Return whether the run has kept the rules of policies that it is not under yet: else it is refused."""
        return self._is_cancelled or self._folded(self._missing(policies, waived)) is not None

    def come_under(self, policies: Sequence[Policy], waived: Collection[str] = ()) -> None:
        """Hold the run to further policies, whose rules its past has kept; one that is cancelled comes under none."""
        terms = self._missing(policies, waived)
        if not terms.policies or self._is_cancelled:
            return
        rules = self._folded(terms)
        assert rules is not None, "a run that broke a rule is refused"
        self._terms.append(terms)
        self._rules += rules

    def may_settle(self, step: str, by: str, policies: Sequence[Policy] = (), waived: Collection[str] = ()) -> bool:
        """Return whether somebody may say what a call of the present step returned, also under further policies."""
        tool = next(call.step.tool for call in self._calls if call.step.id == step)
        return all(may_settle(tool, by, self._by, terms) for terms in (*self._terms, self._missing(policies, waived)))

    def _missing(self, policies: Sequence[Policy], waived: Collection[str]) -> Terms:
        """Return those that the run is not under yet; of the others the waivers of that time go on to count."""
        held = [policy for terms in self._terms for policy in terms.policies]
        missing = [policy for policy in facts.policies_of(self.program, policies) if policy not in held]
        names = {policy.policy for policy in missing}
        return Terms(tuple(missing), frozenset(one for one in waived if one.partition(":")[0] in names))

    def _folded(self, terms: Terms) -> list[Kept] | None:
        """Return the rules of terms as they stand after all that has happened; None where they were broken.

        What a tool is by these policies, too, decides what their rules speak of.
        """
        known = [*self._policies, *terms.policies]
        rules = rules_of(self.program, terms, lambda name: facts.tool(name, self.program, known))
        data = Data(self.program)
        for happened in self._past:
            if happened.what == "starts":
                data.held = dict(happened.held or {})
                if not self._was_admitted(happened.about, happened.more, rules, terms, data):
                    return None
            if happened.what == "settled":
                if not may_settle(happened.about, happened.more, self._by, terms):
                    return None
                continue
            for kept in rules:
                _tell(kept, happened.what, happened.about, happened.more)
        return rules

    def _was_admitted(self, part: Any, args: Any, rules: Sequence[Kept], terms: Terms, data: Data) -> bool:
        if any(kept.forbids(part, args, data.read) for kept in rules):
            return False
        return part.type != "tool" or is_allowed(part.tool, args, terms, data.read)


def _tell(kept: Kept, what: str, about: Any, more: Any) -> None:
    if what == "starts":
        kept.starts(about)
    elif what == "assigned":
        kept.assigned(about)
    elif what == "took":
        kept.took(about, more)
    else:
        kept.succeeded(about)
