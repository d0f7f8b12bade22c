"""Where a path avoids a guard: the transition that no run with the guard takes, and the step at which it turns away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.monitors import RuleMonitor
from stepward.validator.analysis.product import how
from stepward.validator.findings import Move
from stepward.vm.language.automata import bound
from stepward.vm.language.guardrails import Requires
from stepward.vm.language.transitions import Kind, Transition

_VERBS: Final[dict[Kind, str]] = {
    "success": "goes",
    "failed": "fails and goes",
    "skipped": "fails and goes on",
    "fallback": "times out and goes on",
    "visits": "has used up its `max_visits` and goes",
}


def avoiding_transition(monitor: RuleMonitor, analyses: Analyses, path: Sequence[Move]) -> str:
    """Return the words for the last transition of a path if no run that takes it can have passed a guard before.

    Empty otherwise: then it is open which transition of the path is the wrong one.
    """
    flow = analyses.facts.flow
    numbers = {step.id: number for number, step in enumerate(flow.steps)}
    if len(path) < 2 or numbers[path[-2].step] in _behind_guards(monitor, analyses):
        return ""
    source, target = path[-2], path[-1].step
    candidates = [
        one
        for one in flow.transitions[numbers[source.step]]
        if one.to == numbers[target] and how(one) == source.how and not monitor.may_satisfy(numbers[source.step], one)
    ]
    return _words(candidates[0], source.step, target) if len(candidates) == 1 else ""


def parting_step(analyses: Analyses, rule: str | None, policy: str | None, path: Sequence[Move]) -> str:
    """Return the id of the last step of a path from which the guard of a `requires` rule can still be reached.

    The path leaves the safe paths there. Empty for rules of other kinds, and where the guard can be reached to the end
    of the path.
    """
    import networkx

    facts = analyses.facts
    rules = (
        one
        for one, owner in facts.meaning.rules
        if isinstance(one, Requires) and (one.name, owner.policy if owner else None) == (rule, policy)
    )
    rule_found = next(rules, None)
    if rule_found is None:
        return ""
    monitor = RuleMonitor(analyses, bound(rule_found, facts.meaning, facts.hits))
    guards = {step for steps in monitor.comes for step in steps}
    before = guards.union(*(networkx.ancestors(facts.graph.digraph, guard) for guard in guards))
    position = facts.flow.position
    leads = [position[move.step] in before for move in path]
    last = next((number for number in reversed(range(len(leads))) if leads[number]), None)
    return path[last].step if last is not None and last + 1 < len(path) else ""


def _behind_guards(monitor: RuleMonitor, analyses: Analyses) -> set[int]:
    """Return the steps that a run can reach after it has passed some guard."""
    import networkx

    flow, graph = analyses.facts.flow, analyses.facts.graph.digraph
    guards = {step for found in monitor.comes for step in found}
    targets = {
        one.to for step in guards for one in flow.transitions[step] if one.to >= 0 and monitor.may_satisfy(step, one)
    }
    return targets.union(*(networkx.descendants(graph, target) for target in targets))


def _words(transition: Transition, source: str, target: str) -> str:
    if transition.kind == "branch":
        branch = transition.branch
        name = f"case {branch}" if isinstance(branch, int) else f"branch `{branch}`"
        return f"{name} of `{source}` goes to `{target}`"
    return f"`{source}` {_VERBS[transition.kind]} to `{target}`" if transition.kind in _VERBS else ""
