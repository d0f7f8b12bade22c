"""What a run leaves of a rule for the run that continues it: the rule with its memory written into `already`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, assert_never

from stepward.vm.language.automata import FRESH, LEVELS, STALE, read_by
from stepward.vm.language.guardrails import (
    AnyRule,
    AtMostOnce,
    BranchSelector,
    Came,
    Exclusive,
    FollowedBy,
    LevelWord,
    Never,
    Requires,
    StepSelector,
    guards,
    with_past,
)
from stepward.vm.language.meaning import Meaning

_WORDS: Final[dict[int, LevelWord]] = {level: word for word, level in LEVELS.items()}


def continued(rule: AnyRule, memory: Any, meaning: Meaning, assigned: Collection[str]) -> AnyRule:
    """Return a rule as a continuation has it, after a run that remembers `memory` of it.

    `meaning` is that of the run's program. `assigned` are the variables that the continuation begins with another value
    than the run had: they make stale what read them.
    """
    match rule:
        case Requires():
            return with_past(rule, _continued_guards(rule, memory, meaning, assigned))
        case Never():
            return rule
        case AtMostOnce() | FollowedBy():
            return with_past(rule, bool(memory))
        case Exclusive():
            return with_past(rule, (bool(memory & 1), bool(memory & 2)))
        case _:
            assert_never(rule)


def asked_steps(rule: AnyRule) -> tuple[str, ...]:
    """Return the ids of the steps that a rule asks for: those of which a start or a success satisfies it."""
    match rule:
        case Requires():
            return tuple(one.step for one in guards(rule.requires) if isinstance(one, StepSelector | BranchSelector))
        case FollowedBy():
            then = rule.followed_by.then
            return (then.step,) if isinstance(then, StepSelector) else ()
        case Never() | AtMostOnce() | Exclusive():
            return ()
        case _:
            assert_never(rule)


def _continued_guards(rule: Requires, memory: Any, meaning: Meaning, assigned: Collection[str]) -> tuple[Came, ...]:
    found = []
    for number, guard in enumerate(dict.fromkeys(guards(rule.requires))):
        before = rule.already[number].reads if rule.already else ()
        reads = sorted({*before, *(".".join(names) for names in read_by(guard, meaning))})
        level = STALE if memory[number] == FRESH and rule.fresh and set(reads) & set(assigned) else memory[number]
        found.append(Came.model_construct(level=_WORDS[level], reads=tuple(reads) if level else ()))
    return tuple(found)
