"""Guardrails that name a step or tool which does not exist, or an `end` step that has no effect there (SW407).

A selected step that no run reaches is SW102 or SW103: those findings say what to do, so the rule is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.outcomes import Origin, Outcome
from stepward.validator.analysis.siblings import hits_in
from stepward.validator.analysis.unknown_reasons import ending_in
from stepward.vm.language.guardrails import (
    AnyGuard,
    AnyRule,
    AnySelector,
    AtMostOnce,
    BranchSelector,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    StepSelector,
    ToolSelector,
    guards,
    protected,
)
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import ConditionStep, EndStep, ToolCall


def vacuous(facts: ProgramFacts, rule: AnyRule, origin: Origin, owner: int | None = None) -> Iterator[Outcome]:
    """Yield an outcome for each selector of a program's own rule that matches nothing, or only what never counts.

    `owner` is the position of the step in whose body the rule stands: it matches in the body alone. A policy's rule is
    vacuous when it matches in no program of the run: see `matched_policy_rules`.
    """
    if origin.policy is not None:
        return
    selectors: list[AnySelector | AnyGuard] = []
    if not (isinstance(rule, Never) and rule.when is None):
        selectors += protected(rule)
    if isinstance(rule, Requires):
        selectors += guards(rule.requires)
    for selector in selectors:
        if not hits_in(facts, selector, owner):
            yield _nowhere(facts, selector, origin, owner, is_needed=selector in _needed(rule))
    for message, help in _idle_ends(facts, rule, owner):
        yield _outcome(origin, message, help)


def is_explained(facts: ProgramFacts, rule: AnyRule, owner: int | None = None) -> bool:
    """Return whether SW407 explains why steps break a rule, so that they are not reported, too.

    The rule asks for a name that the program has in another spelling, for a step outside of its body, or for an `end`
    step. Whether the steps are right can be said when the name is.
    """
    for selector in _needed(rule):
        if not hits_in(facts, selector, owner) and (facts.hits(selector) or _near(facts, selector)):
            return True
        if isinstance(rule, Requires) and _is_end(facts, selector):
            return True
    return False


def _needed(rule: AnyRule) -> tuple[AnySelector | AnyGuard, ...]:
    """Return the selectors of what a rule asks for, without those of what it applies to."""
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


def _nowhere(
    facts: ProgramFacts, selector: AnySelector | AnyGuard, origin: Origin, owner: int | None, *, is_needed: bool
) -> Outcome:
    where, help = "nowhere in the program", "correct the name in the guardrail, or add the step that it names"
    if owner is not None and facts.hits(selector):
        where = f"not in {ending_in(facts, owner)[0]}: the rule sees only the steps there"
        help = "name a step that is there, or move the guardrail to the `guardrails` of the program"
    else:
        help = _near(facts, selector) or help
    name = selector.text()
    effect = f"asks for {name}, which is" if is_needed else f"has no effect: {name} is"
    return _outcome(origin, f"{effect} {where}", help)


def _idle_ends(facts: ProgramFacts, rule: AnyRule, owner: int | None) -> Iterator[tuple[str, str]]:
    """Yield a message and a help for each selector of a rule for which an `end` step has no meaning.

    An `end` step starts, and ends its body: it does not succeed, and nothing comes after it. So it may be protected or
    forbidden, exclude another step, and be what has to follow.
    """
    match rule:
        case Requires():
            for name in (one.text() for one in guards(rule.requires) if _is_end(facts, one)):
                message = f"asks for {name}, which is an `end` step: nothing comes after it"
                yield message, "name the branch that leads to it, or a step before it"
        case FollowedBy():
            name = rule.followed_by.first.text()
            if _is_end(facts, rule.followed_by.first):
                help = "name a step before it; what has to come before it is a rule with `protects` and `requires`"
                yield f"has no effect: {name} is an `end` step, and nothing comes after it", help
        case AtMostOnce():
            name = rule.at_most_once.text()
            if _is_end(facts, rule.at_most_once, owner):
                yield (
                    f"has no effect: {name} is an `end` step, so it comes once",
                    "remove the guardrail, or name another step",
                )
        case Exclusive():
            left, right = rule.exclusive
            if left != right and all(_is_end(facts, one, owner) for one in rule.exclusive):
                message = f"has no effect: {left.text()} and {right.text()} are `end` steps, so only one of them comes"
                yield message, "remove the guardrail, or name a step before one of them"
        case Never():
            pass
        case _:
            assert_never(rule)


ANYWHERE: Final = -1
"""An `end` step of any body."""


def _is_end(facts: ProgramFacts, selector: AnySelector | AnyGuard, owner: int | None = ANYWHERE) -> bool:
    """Return whether a selector names an `end` step; with `owner`, one that ends what the rule is about."""
    hits = [hit for hit in facts.hits(selector) if isinstance(hit.part, EndStep)]
    return any(owner == ANYWHERE or facts.flow.layout.owner(hit.step) == owner for hit in hits)


def _outcome(origin: Origin, message: str, help: str) -> Outcome:
    return Outcome("SW407", f"guardrail `{origin.name}` {message}", help, origin.place, None, (), None, origin.tag)
