"""Branches: bodies that run at once, each with a state of its own ("Branches"). Items may be such bodies, too."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.bodies import Errors, listed, local
from stepward.sabotage.reference.calls import Call
from stepward.sabotage.reference.computing import Computing
from stepward.sabotage.reference.data import (
    GONE,
    Changes,
    FieldPath,
    Holder,
    above,
    below,
    left_with,
    left_without,
)
from stepward.sabotage.reference.plain import MOST_NAMED, Unworded, size
from stepward.sabotage.reference.rules import RuleMonitor
from stepward.sabotage.reference.run import Closed, Over
from stepward.sabotage.reference.siblings import Member, before, in_branch, join

_OWN: Final = (
    "_data",
    "_secrets",
    "_rules",
    "_visits",
    "_frames",
    "_idle",
    "_calls",
    "_at",
    "_error_name",
    "_is_begun",
    "_is_ordered",
    "_members",
    "_sizes",
    "_resting",
)
"""What each branch has for itself."""


class Branches(Computing):
    """A run that can perform the branches of a parallel step."""

    _members: list[Member] = []  # noqa: RUF012 - it is replaced, never changed
    ended_beside = False
    """Whether the run has ended while branches ran: what they had done by then may depend on timing."""
    has_stopped_items = False
    """Whether an item has failed after which none starts, in a list of which not all start at once: which of them have
    started by then depends on timing."""
    _resting: Any = None

    @property
    def is_beside(self) -> bool:
        """Whether branches run now."""
        return bool(self._members)

    @contextmanager
    def _within(self, member: Member) -> Iterator[None]:
        """Let the run be what a branch sees of it."""
        outside = {name: getattr(self, name) for name in _OWN}
        for name, value in member.own.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            member.own = {name: getattr(self, name) for name in _OWN}
            for name, value in outside.items():
                setattr(self, name, value)

    def _everywhere(self, look: Callable[[], Iterable[Any]]) -> list[Any]:
        """Return what is found in all branches that run, or in the run itself where none does."""
        if not self._members:
            return list(look())
        found: list[Any] = []
        for member in self._members:
            if member.course is not None and member.closed is None:
                with self._within(member):
                    found += self._everywhere(look)
        return found

    def _all_calls(self) -> list[Call]:
        """Return the calls of the present steps, in all branches."""
        return self._everywhere(lambda: self._calls)

    def _known_anywhere(self) -> set[str]:
        """Return the sensitive values of the run and of all its branches, also those of their present steps."""
        found = self._secrets | self._brought()
        for member in self._members:
            if member.own:
                with self._within(member):
                    found |= self._known_anywhere()
        return found

    # -- the step ------------------------------------------------------------------------------------------------------

    def _fork(self, step: Any) -> Generator[None, None, str]:
        """Perform the branches of a step and return how it ended."""
        self._begin(step)
        members = []
        for name, branch in sorted(step.branches.items()):
            members.append(Member(name, list(branch.steps), branch.guardrails))
            members[-1].needs = branch.depends_on
        self._assigned_now([where for one in members for where, _ in left_without(_part(one), "", "")])
        yield from self._beside(step, members)
        return self._come_together(step, members)

    def _beside(self, step: Any, members: list[Member]) -> Generator[None, None, None]:
        """Perform branches until none goes on."""
        self._members = members
        while True:
            while sum(self._advance(step, member, members) for member in members):
                pass  # others may go on because of what has ended
            if not any(member.course is not None and member.closed is None for member in members):
                break
            phases = {call.phase for call in self._all_calls()}
            self.status = "RUNNING" if "asked" in phases else "IN_DOUBT" if "doubt" in phases else "SUSPENDED"
            yield
        # What each has found out counts outside of it only now ("Echoes").
        self._secrets = self._secrets.union(*(one.own["_secrets"] for one in members if one.own))
        self._members = []
        self._calls, self._at = [], step.id

    def _items_at_once(self, step: Any, items: Any, hidden: set[FieldPath]) -> Generator[None, None, str]:
        """Perform the items of a step that has begun, several at once, and return how it ended."""
        rounds = step.max_retries if step.on_error == "retry" else 1
        for number in range(1, rounds + 1):
            self._assigned_now(facts.assigned_by(step))
            ended, errors = yield from self._round(step, items, hidden, number)
            failed = step.on_item_error == "fail" and bool(errors)
            if not failed or number == rounds:
                break
            self._afford(1)
            self.steps += 1
        if failed:  # the first in the order of the items counts, whichever was first in time
            return self._without_output(step, *errors[min(errors)], listed(errors))
        outputs = [(GONE, set()) if place in errors else (closed.output, closed.hidden) for place, closed in ended]
        return self._all_left(step, outputs, errors, ([], []))

    def _round(
        self, step: Any, items: Any, hidden: set[FieldPath], number: int
    ) -> Generator[None, None, tuple[list[tuple[int, Closed]], Errors]]:
        """Perform the items in an attempt of a step. Return how those ended that started, and the errors, by item."""
        members = [Member(place, list(step.body), step.guardrails) for place in range(len(items))]
        for place, (member, item) in enumerate(zip(members, items, strict=True)):
            index: Changes = [] if step.index_as is None else [((step.index_as,), place)]
            member.given = [((vars(step)["as"],), item), *index]
            member.hidden = [((vars(step)["as"],), below(hidden, f"[{place}]"))]
            member.gone = [*local(step), *member.gone]
            member.round = number
        yield from self._beside(step, members)
        self._join_rules(members)
        self._assigned_now([*local(step), *(where for one in members[:1] for where in one.gone)])
        ended = [(place, one.closed) for place, one in enumerate(members) if one.closed is not None]
        errors: Errors = {
            place: (Unworded.telling(f"{step.id}[{place}] {closed.reason}", closed.says), closed.name)
            for place, closed in ended
            if closed.status != "SUCCESS"
        }
        return ended, errors

    def _advance(self, step: Any, member: Member, members: list[Member]) -> bool:
        """Let a branch go on as far as it can; return whether others may go on because of that."""
        if member.closed is not None:
            return False
        if member.course is None:
            if not _may_start(step, member, members):
                return False
            self._start_branch(step, member, members)
        with self._within(member):
            if not self._may_go_on():
                return False
            try:
                assert member.course is not None
                next(member.course)
            except Closed as closed:
                member.closed = closed
                if step.type == "for_each" and step.on_item_error == "fail" and not member.is_good:
                    self.has_stopped_items |= len(members) > int(step.max_concurrency)
                if step.type == "for_each" and step.do is not None and closed.status == "SUCCESS":
                    closed.output = self._data.values.get((step.do.id, "output"), GONE)
                    closed.hidden = self._data.hidden.get((step.do.id, "output"), set())
                self._assigned_now(member.gone)
                self._broken += [one.rule.name for one in member.rules if one.is_broken(closed.status, closed.reason)]
                self._rules = [one for one in self._rules if one not in member.rules]
        return member.closed is not None

    def _may_go_on(self) -> bool:
        """Return whether there is something to do: no call that is under way holds the branch."""
        if self._members:
            return True
        waiting = [call for call in self._calls if call.phase == "asked"]
        answered = [call for call in waiting if call.answer is not None]
        return not waiting or len(answered) == len(waiting) or (self._is_ordered and bool(answered))

    def _start_branch(self, step: Any, member: Member, members: list[Member]) -> None:
        earlier = before(member, members)
        changes = [*(change for one in earlier for change in _left_by(one)), *member.given]
        hidden = [*(_hidden_by(one) for one in earlier), *member.hidden]
        inside = {part.id for part in facts.parts_in(member.steps)}
        own = [RuleMonitor(rule, self.program, self._tool, inside) for rule in member.guardrails]
        member.rules = own
        member.own = {
            "_data": self._data.with_changes(changes, hidden),
            "_secrets": self._secrets.union(*(one.own["_secrets"] for one in earlier)),
            "_rules": [
                *(
                    in_branch(rule, [one.own["_rules"][place] for one in earlier])
                    for place, rule in enumerate(self._rules)
                ),
                *own,
            ],
            "_visits": dict(self._visits),
            "_frames": (*self._frames, (step.id, self._visits[step.id], member.round, member.name)),
            "_idle": 0,
            "_calls": [],
            "_at": "",
            "_error_name": "",
            "_is_begun": False,
            "_is_ordered": False,
            "_members": [],
            "_sizes": self._sizes | {str(one.name): _size_left(one) for one in earlier},
            "_resting": None,
        }
        for part in facts.parts_in(member.steps):
            member.own["_visits"].pop(part.id, None)
        if step.type == "for_each":
            with self._within(member):
                self._assigned_now(member.gone)
        member.course = self._list(member.steps)

    def _fold(self) -> None:
        """Let rules remember what branches did that end with the run."""
        for member in self._members:
            if member.course is not None and member.closed is None:
                with self._within(member):
                    self._fold()
        self._join_rules(self._members)

    def _join_rules(self, members: list[Member]) -> None:
        for place, rule in enumerate(self._rules):
            ended = [(one, one.own["_rules"][place]) for one in members if one.course is not None]
            join(rule, ended, members)

    def _come_together(self, step: Any, members: list[Member]) -> str:
        """Apply what the branches came to, then the result of the whole."""
        self._join_rules(members)
        changes, failed, errors = [], [], []
        for member in members:
            if member.is_good:
                changes += _left_by(member)
                continue
            name = "Dependency" if member.closed is None else member.closed.name
            failed.append(name)
            why = Unworded.telling(f"{member.name} {name}", () if member.closed is None else member.closed.says)
            errors.append((name, f"`{member.name}`", why.says))
            changes += left_without(_part(member), why, name)
        known = {where for where, _ in changes}
        ended = [(str(one.name), one.closed.output) for one in members if one.is_good and one.closed is not None]
        output = {facts.written_name(name): output_of for name, output_of in ended if output_of is not GONE}
        inside = [where for one in members for where in one.gone]
        outcome = "joined" if not failed else "skipped" if step.on_error == "skip" else "failed"
        if size(output) > self._room:
            raise Over("FAILED", "error")
        if failed:
            self._error_name = next((name for name in failed if name != "Dependency"), failed[0])
            own = [one for one in errors if one[0] != "Dependency"] or errors
            says = [text for _, branch, texts in own[:MOST_NAMED] for text in (branch, *texts)]
            hides = [f"{one[1]}: " for one in errors if one not in own]
            why = Unworded.telling(f"{failed} failed", says, hides)
            changes += left_without(step, why, self._error_name)
        else:
            changes += left_with(step, output)
        self._assigned_now(inside)
        self._change(changes, known)
        good = [one for one in members if one.is_good]
        self._data.hide_all([_hidden_by(one) for one in good])
        paths = {path for one in good for path in above(one.closed.hidden, facts.written_name(str(one.name)))}  # type: ignore[union-attr]
        if not failed:
            self._data.hide_all([(where, paths) for where, _ in left_with(step, None)])
        self._left = self._sized(output)
        if outcome == "joined":
            self._succeeded(step)
        return outcome


def _may_start(step: Any, member: Member, members: list[Member]) -> bool:
    """Return whether a branch may start: what it depends on has succeeded, and of items few enough go on.

    No item starts after one that has failed, unless those are skipped.
    """
    if step.type == "for_each":
        started = [one for one in members if one.course is not None]
        going = [one for one in started if one.closed is None]
        has_failed = any(one.closed is not None and not one.is_good for one in started)
        may_not = has_failed and step.on_item_error == "fail"
        return not may_not and member is members[len(started)] and len(going) < int(step.max_concurrency)
    return all(one.is_good for one in members if one.name in member.needs)


def _size_left(member: Member) -> int:
    """Return the size of the output of a branch, 0 for one without an output."""
    assert member.closed is not None
    return 0 if member.closed.output is GONE else size(member.closed.output)


def _left_by(member: Member) -> list[Any]:
    assert member.closed is not None
    return left_with(_part(member), member.closed.output)


def _part(member: Member) -> Any:
    return facts.AsPart(str(member.name))


def _hidden_by(member: Member) -> tuple[Holder, set[FieldPath]]:
    assert member.closed is not None
    return (str(member.name), "output"), member.closed.hidden
