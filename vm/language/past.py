"""What a run leaves of a rule for the run that continues it: the rule with its memory written into `already`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, assert_never

from stepward.vm.language.automata import FRESH, LEVELS, STALE, read_by
from stepward.vm.language.guardrails import (
    AnyRule,
    AtMostOnce,
    Came,
    Exclusive,
    FollowedBy,
    LevelWord,
    Never,
    Requires,
    guards,
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
            return _changed(rule, _continued_guards(rule, memory, meaning, assigned))
        case Never():
            return rule
        case AtMostOnce() | FollowedBy():
            return _changed(rule, bool(memory))
        case Exclusive():
            return _changed(rule, (bool(memory & 1), bool(memory & 2)))
        case _:
            assert_never(rule)


def plain_rule(rule: AnyRule) -> AnyRule:
    """Return a rule without what runs before left of it."""
    return rule if isinstance(rule, Never) else _changed(rule, None)


def _changed(rule: Requires | AtMostOnce | FollowedBy | Exclusive, already: Any) -> AnyRule:
    """Return a rule with this `already`, and without the field where no run has left anything."""
    if not already or (isinstance(already, tuple) and not any(_says(one) for one in already)):
        data = {name: getattr(rule, name) for name in rule.model_fields_set if name != "already"}
        return type(rule).model_construct(rule.model_fields_set - {"already"}, **data)
    return rule.model_copy(update={"already": already})


def _says(one: Any) -> bool:
    return one.level != "never" if isinstance(one, Came) else bool(one)


def _continued_guards(rule: Requires, memory: Any, meaning: Meaning, assigned: Collection[str]) -> tuple[Came, ...]:
    found = []
    for number, guard in enumerate(dict.fromkeys(guards(rule.requires))):
        before = rule.already[number].reads if rule.already else ()
        reads = sorted({*before, *(".".join(names) for names in read_by(guard, meaning))})
        level = STALE if memory[number] == FRESH and rule.fresh and set(reads) & set(assigned) else memory[number]
        found.append(Came.model_construct(level=_WORDS[level], reads=tuple(reads) if level else ()))
    return tuple(found)
