"""Guardrails that name what the program does not have (SW407).

A selected step that no run reaches is SW102 or SW103: those findings say what to do, so the rule is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.outcomes import Origin, Outcome
from stepward.vm.language.guardrails import (
    AnyGuard,
    AnyRule,
    AnySelector,
    BranchSelector,
    FollowedBy,
    Never,
    Requires,
    StepSelector,
    ToolSelector,
    guards,
    protected,
)
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import ConditionStep, ToolCall


def vacuous(facts: ProgramFacts, rule: AnyRule, origin: Origin) -> Iterator[Outcome]:
    """Yield an outcome for each selector of a program's own rule that matches nothing.

    A policy's rule is vacuous when it matches in no program of the run: see `matched_policy_rules`.
    """
    if origin.policy is not None:
        return
    selectors: list[AnySelector | AnyGuard] = []
    if not (isinstance(rule, Never) and rule.when is None):
        selectors += protected(rule)
    if isinstance(rule, Requires):
        selectors += guards(rule.requires)
    for selector in selectors:
        if not facts.hits(selector):
            yield _outcome(facts, selector, origin, is_needed=selector in _needed(rule))


def is_misspelt(facts: ProgramFacts, rule: AnyRule) -> bool:
    """Return whether a rule asks for a name that the program does not have, but for one that it has almost.

    Steps that break such a rule break it for that cause, or it can be said only when the name is right.
    """
    return any(not facts.hits(selector) and _near(facts, selector) for selector in _needed(rule))


def _needed(rule: AnyRule) -> tuple[AnySelector | AnyGuard, ...]:
    """Return the selectors of what a rule asks for, and not of what it applies to."""
    if isinstance(rule, FollowedBy):
        return (rule.followed_by.then,)
    return guards(rule.requires) if isinstance(rule, Requires) else ()


def matched_policy_rules(facts: ProgramFacts) -> frozenset[tuple[str, str]]:
    """Return the policies and rules, by name, that match a step of the program."""
    rules = [(rule, policy) for rule, policy in facts.meaning.rules if policy is not None]
    return frozenset((policy.policy, rule.name) for rule, policy in rules if any(map(facts.hits, protected(rule))))


def _near(facts: ProgramFacts, selector: AnySelector | AnyGuard) -> str:
    """Return a suggestion for the name in a selector that matches nothing."""
    if isinstance(selector, ToolSelector):
        called = [site.call.tool for site in facts.meaning.calls if isinstance(site.call, ToolCall)]
        return near_words(selector.tool, called)
    if isinstance(selector, BranchSelector) and selector.step in facts.flow.position:
        step = facts.flow.steps[facts.flow.position[selector.step]]
        if not isinstance(step, ConditionStep):
            return f"`{step.id}` is not a condition: name it without a branch"
        names = [name for name in step.branch_names if isinstance(name, str)]
        listed = " and ".join(f"`{name}`" for name in step.branch_names)
        return near_words(str(selector.branch), names) or f"name one of its branches: {listed}"
    if isinstance(selector, StepSelector | BranchSelector):
        return near_words(selector.step, facts.flow.position)
    return ""


def _outcome(facts: ProgramFacts, selector: AnySelector | AnyGuard, origin: Origin, *, is_needed: bool) -> Outcome:
    help = _near(facts, selector) or "correct the name in the guardrail, or add the step that it names"
    name = selector.text()
    effect = f"asks for {name}, which" if is_needed else f"has no effect: {name}"
    message = f"guardrail `{origin.name}` {effect} is nowhere in the program"
    return Outcome("SW407", message, help, origin.place, None, (), None, origin.tag)
