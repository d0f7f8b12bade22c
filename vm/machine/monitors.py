"""Monitors of guardrails: the machine asks the automaton of each rule in force before a part starts.

They implement "Guardrails" of specs/language.md for one concrete run. The memory of a monitor is part of the state, so
that it survives crashes and can be replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import Lookup, evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.language.automata import Objection, awaited, bound
from stepward.vm.language.guardrails import AnyGuard, AnyRule, AnySelector, Never
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.selectors import Match, matches

Part = tuple[int, int | None]
"""The position of a step, and that of a sub-step in it or None."""

_WORDS: Final[dict[Objection, str]] = {
    "bypassed": "what it requires did not come before",
    "stale": "what it requires came, but is stale",
    "forbidden": "it must never start",
    "repeated": "it was performed before",
    "both": "what it excludes was performed",
}


class LeftStep(NamedTuple):
    """How a step was left: its position, the branch that was taken, and the parts of it that succeeded.

    Of a step with `depends_on`, `followers` are the sub-steps that started and depend on each one.
    """

    position: int
    branch: str | int | None
    succeeded: tuple[Part, ...]
    followers: tuple[frozenset[int], ...] = ()


class Before(NamedTuple):
    """What comes before a sub-step with `depends_on`: the position of its step, the sub-steps before it that succeeded,
    and all sub-steps before it."""

    position: int
    succeeded: frozenset[int]
    ended: frozenset[int]


class Monitor:
    """Monitors a rule. `starts` are the parts whose start matters for it, `steps` the steps whose end matters.

    A rule of a body sees only the steps of the body; `owner` is the position of the step that has it.
    """

    def __init__(self, rule: AnyRule, meaning: Meaning, owner: int | None = None) -> None:
        self.owner = owner
        found = bound(rule, meaning, partial(_matches, meaning=meaning, owner=owner))
        self.name, self.automaton = rule.name, found.automaton
        self.when = rule.when if isinstance(rule, Never) else None
        self.language = meaning.program.language
        self.starts: dict[Part, frozenset[int]] = {}
        for number, hits in enumerate(found.starts):
            for hit in hits:
                self.starts[hit[:2]] = self.starts.get(hit[:2], frozenset()) | {number}
        self._comes: dict[int, list[tuple[int, Part, str | int | None]]] = {}
        self._stale: dict[int, list[int]] = {}
        self._stale_parts: dict[Part, list[int]] = {}
        for number, (selector, hits) in enumerate(zip(self.automaton.comes, found.comes, strict=True)):
            for hit in hits:
                self._comes.setdefault(hit.step, []).append((number, hit[:2], awaited(selector, hit)))
            for step in found.stale_by[number]:
                self._stale.setdefault(step, []).append(number)
            for part in found.stale_parts[number]:
                self._stale_parts.setdefault(part, []).append(number)
        self.steps = self._comes.keys() | self._stale.keys()

    def objection(self, memory: Any, part: Part, lookup: Lookup) -> str | None:
        """Return why a part must not start now, or None."""
        found = self.automaton.objection(memory, self.starts[part])
        if found is None or self.when is None:
            return None if found is None else _WORDS[found]
        try:
            return f"`{self.when}` holds" if evaluate_condition(parse(self.when, self.language), lookup) else None
        except EvaluationError as error:
            return f"`{self.when}` can't be evaluated: {error}"

    def performed(self, memory: Any, part: Part) -> Any:
        """Return the memory after a part has started."""
        return self.automaton.started(memory, self.starts[part])

    def within(self, memory: Any, before: Before) -> Any:
        """Return the memory at the start of a sub-step that depends on others, given the one at that of its step."""
        succeeded = [number for number, (_, sub), _ in self._comes.get(before.position, ()) if sub in before.succeeded]
        stale = [number for sub in before.ended for number in self._stale_parts.get((before.position, sub), ())]
        return self.automaton.left(memory, succeeded, stale)

    def _is_paid(self, part: Part, left: LeftStep) -> bool:
        """Return whether what has to follow a part started behind it, within its own parallel step."""
        sub = part[1]
        if not left.followers or sub is None or not self.automaton.counts_starts:
            return False
        return any((left.position, one) in self.starts for one in left.followers[sub])

    def left(self, memory: Any, left: LeftStep) -> Any:
        """Return the memory after a step was left."""
        succeeded = [
            number
            for number, part, branch in self._comes.get(left.position, ())
            if part in left.succeeded and branch in (None, left.branch) and not self._is_paid(part, left)
        ]
        return self.automaton.left(memory, succeeded, self._stale.get(left.position, ()))

    def complaint(self, memory: Any, status: str, reason: str) -> str | None:
        """Return what did not follow in a run that ended, or None."""
        if not self.automaton.owes(memory, status, reason):
            return None
        return f"{self.automaton.starts[0].text()} did not follow"


class Watch:
    """All monitors of a plan, with an index from parts and steps to the few monitors for which they matter.

    `first` are their memories before the run.
    """

    def __init__(self, rules: Iterable[tuple[AnyRule, Meaning]], own: Meaning) -> None:
        found = [Monitor(rule, meaning) for rule, meaning in rules]
        found += [Monitor(rule, own, owner) for rule, owner in own.body_rules]
        self.monitors = tuple(found)
        self._layout = own.flow.layout
        self.of_bodies: dict[int, tuple[int, ...]] = {}
        for number, monitor in enumerate(found):
            if monitor.owner is not None:
                self.of_bodies[monitor.owner] = (*self.of_bodies.get(monitor.owner, ()), number)
        self._shared_at: dict[int, tuple[int, ...]] = {}
        self.guarded: dict[Part, tuple[int, ...]] = {}
        self.notified: dict[int, tuple[int, ...]] = {}
        self.first = tuple(monitor.automaton.first for monitor in self.monitors)
        for number, monitor in enumerate(self.monitors):
            for part in monitor.starts:
                self.guarded[part] = (*self.guarded.get(part, ()), number)
            for step in monitor.steps:
                self.notified[step] = (*self.notified.get(step, ()), number)

    def objection(
        self, memories: tuple[Any, ...], part: Part, lookup: Lookup, before: Before | None = None
    ) -> tuple[str, str] | None:
        """Return the name of a rule that a start would break, and the reason; or None.

        `before` is what comes before a sub-step that depends on others.
        """
        for number in self.guarded.get(part, ()):
            monitor, memory = self.monitors[number], memories[number]
            why = monitor.objection(memory if before is None else monitor.within(memory, before), part, lookup)
            if why is not None:
                return monitor.name, why
        return None

    def performed(self, memories: tuple[Any, ...], part: Part) -> tuple[Any, ...]:
        """Return the memories after a part has started."""
        if part not in self.guarded:
            return memories
        changed = list(memories)
        for number in self.guarded[part]:
            changed[number] = self.monitors[number].performed(memories[number], part)
        return tuple(changed)

    def left(self, memories: tuple[Any, ...], left: LeftStep) -> tuple[Any, ...]:
        """Return the memories after a step was left."""
        if left.position not in self.notified:
            return memories
        changed = list(memories)
        for number in self.notified[left.position]:
            changed[number] = self.monitors[number].left(memories[number], left)
        return tuple(changed)

    def begun(self, memories: tuple[Any, ...], owner: int) -> tuple[Any, ...]:
        """Return the memories in a new frame of the body of a step, and after one: its rules have seen nothing."""
        if owner not in self.of_bodies:
            return memories
        changed = list(memories)
        for number in self.of_bodies[owner]:
            changed[number] = self.first[number]
        return tuple(changed)

    def forked(self, memories: tuple[Any, ...], before: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the memories at the start of a branch; `before` are those at the ends of branches before it."""
        if not self.monitors:
            return memories
        return tuple(
            monitor.automaton.forked(memory, [one[number] for one in before])
            for number, (monitor, memory) in enumerate(zip(self.monitors, memories, strict=True))
        )

    def joined(
        self, memories: tuple[Any, ...], ends: Sequence[tuple[Any, ...]], before: Sequence[frozenset[int]]
    ) -> tuple[Any, ...]:
        """Return the memories behind branches; `ends` are those at their ends, `before` the branches before each."""
        return tuple(
            monitor.automaton.joined(memory, [one[number] for one in ends], before)
            for number, (monitor, memory) in enumerate(zip(self.monitors, memories, strict=True))
        )

    def shared(self, own: tuple[Any, ...], others: tuple[Any, ...], owner: int) -> tuple[Any, ...]:
        """Return the memories `own`, with those of `others` for the rules whose memory branches share.

        `owner` is the position of the step that owns the body of the branch: the rules of that body, and of bodies in
        it, hold for each of their frames by itself.
        """
        if owner not in self._shared_at:
            owners = {None, *self._layout.owners_of(owner)}
            is_shared = [one.automaton.is_shared and one.owner in owners for one in self.monitors]
            self._shared_at[owner] = tuple(compress(range(len(is_shared)), is_shared))
        beside = self._shared_at[owner]
        if not beside:
            return own
        found = list(own)
        for number in beside:
            found[number] = others[number]
        return tuple(found)

    def complaints_of(
        self, memories: tuple[Any, ...], owner: int, status: str, reason: str
    ) -> tuple[tuple[str, str], ...]:
        """Return the `followed_by` rules of a body that a frame broke, with the reasons."""
        if owner not in self.of_bodies:
            return ()
        found = [(self.monitors[number], memories[number]) for number in self.of_bodies[owner]]
        return _with_reasons((monitor.name, monitor.complaint(memory, status, reason)) for monitor, memory in found)

    def complaints(self, memories: tuple[Any, ...], status: str, reason: str) -> tuple[tuple[str, str], ...]:
        """Return the `followed_by` rules that an ended run broke, with the reasons."""
        return _with_reasons(
            (monitor.name, monitor.complaint(memory, status, reason))
            for monitor, memory in zip(self.monitors, memories, strict=True)
        )


def _with_reasons(found: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, why) for name, why in found if why is not None)


def _matches(selector: AnySelector | AnyGuard, meaning: Meaning, owner: int | None) -> list[Match]:
    """Return what a selector matches, within the body of a step."""
    found = matches(selector, meaning)
    if owner is None:
        return found
    inside = meaning.flow.layout.inside(owner)
    return [match for match in found if match.step in inside]
