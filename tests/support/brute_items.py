"""The truth about a small program whose items run at once: every interleaving of them, for every short list.

Written from the language's text alone, for the programs of `concurrent_programs`. What an item remembers for a
`requires` is what came before all items, and what it did itself; behind the items counts what any of them did. After a
failed item none starts, unless those are skipped, and the step fails when those under way have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from brute_bodies import listed
from brute_branches import Enumeration, Event, Judge, Member, State
from small_language import OPAQUE, Items

NOT_BEGUN = Member()
AGAIN = "again "
"""Where a run is in a later round of the step, before the number of rounds that have failed."""


class ItemEnumeration(Enumeration):
    """All runs of a program."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.program = program
        self.top = {step["id"]: step for step in program["steps"]}
        self.fork = self.top["both"]
        self.body = {step["id"]: step for step in self.fork["steps"]}
        parts = {**self.top, **self.body}
        self.judges = [Judge(rule, parts) for rule in program["guardrails"]]
        self.own = [Judge(rule, parts, self.body.keys()) for rule in self.fork.get("guardrails", ())]
        self.apart = [judge for judge in self.judges if "requires" in judge.rule] + self.own
        self.judges += self.own
        self.locals = frozenset(
            {"i", "v", *(f"{one}.{what}" for one in self.body for what in ("output", "error", "error_name"))}
        )
        self.owed = [
            place for place, judge in enumerate(self.judges) if judge in self.own and "followed_by" in judge.rule
        ]
        self.fresh = (Event("assigns", "both", self.locals),)
        self.asks = "$both.errors" in str(program)
        self.broken: set[str] = set()
        self._forget()

    def starts(self) -> list[State]:
        """Return the states before the first step."""
        most = self.program["inputs"]["l"]["maxItems"]
        lists = [found for size in range(most + 1) for found in product((False, True), repeat=size)]
        first = self.program["steps"][0]["id"]
        return [
            State(first, tuple(sorted((*env, ("l", items)))), None, tuple((0,) for _ in self.judges))
            for env in self.inputs()
            for items in lists
        ]

    def _told(self, rules: tuple[Any, ...], events: tuple[Event, ...], place: int = 0) -> tuple[Any, ...]:
        """Let all rules see events outside of the items (place 0), or in one of them (from 1 on)."""
        asked = (rules, id(events), place)  # what is known keeps the events, so that no others get their number
        if asked not in self.known:
            self.known[asked] = (events, self._seen(rules, events, place))
        return self.known[asked][1]

    def _seen(self, rules: tuple[Any, ...], events: tuple[Event, ...], place: int = 0) -> tuple[Any, ...]:
        number, known = self._number(events), []
        for which, memories in enumerate(rules):
            here = place if self.judges[which] in self.apart else 0
            memory = self._judged(which, memories[here], events, number)
            known.append((*memories[:here], memory, *memories[here + 1 :]))
        return tuple(known)

    def _next(self, state: State) -> Iterator[State]:
        if state.members is None and self.top[state.at] is self.fork:
            yield self._begun(state._replace(rules=self._told(state.rules, (Event("starts", "both", state.env),))))
            return
        yield from super()._next(state)

    def _begun(self, state: State) -> State:
        """Return the state before the first item of a round: each remembers what came before all of them."""
        members = (NOT_BEGUN,) * len(dict(state.env)["l"])
        rules = tuple(
            ((0 if judge in self.own else memories[0]),) * (1 + len(members)) if judge in self.apart else memories
            for judge, memories in self._paired(state)
        )
        return state._replace(members=members, rules=rules)

    def _beside(self, state: State, members: tuple[Member, ...]) -> Iterator[State]:
        """Yield what may come next where items run: something in one of them, the start of one, or the end of all."""
        items = dict(state.env)["l"]
        running = sum(bool(member.at) and not member.ended for member in members)
        has_failed = self.fork["on_item_error"] == "fail" and any(one.ended == "failed" for one in members)
        new = [place for place, member in enumerate(members) if member == NOT_BEGUN and not has_failed]
        if new and running < self.fork["max_concurrency"]:
            place = new[0]
            rules = self._told(state.rules, self.fresh, place + 1)
            env = tuple(sorted((*state.env, ("i", items[place]))))
            yield self._put(state, place, Member(self.fork["steps"][0]["id"], env), rules)
        for place, member in enumerate(members):
            if member == NOT_BEGUN or member.ended:
                continue
            step = self.body[member.at]
            for events, at, env, visits, _ in self._outcomes(self.fork["steps"], step, member.env, member.visits):
                rules = self._told(state.rules, events, place + 1)
                if at in self.body:
                    yield self._put(state, place, Member(at, env, visits), rules)
                else:
                    rules = self._told(rules, self.fresh, place + 1)
                    ended = Member(ended=at, output=_error_name(step, events) if self.asks and at == "failed" else None)
                    yield self._put(state, place, ended, self._left_item(rules, place + 1, at))
        if not running and not new:
            left = self._with_errors(state, members)
            yield from self._failed(left) if has_failed else self._joined(self._with_outputs(left), members)

    def _left_item(self, rules: tuple[Any, ...], place: int, ending: str) -> tuple[Any, ...]:
        """Let the rules of the body see the end of an item; what it owes, nobody pays any more."""
        known = list(rules)
        for which in self.owed:
            memories = rules[which]
            self._noted(self.judges[which], memories[place], ending)
            known[which] = (*memories[:place], 0, *memories[place + 1 :])
        return tuple(known)

    def _with_errors(self, state: State, members: tuple[Member, ...]) -> State:
        """Return the state behind all items: their errors are known, in the order of the list."""
        if not self.asks:
            return state
        errors = [(place, member.output) for place, member in enumerate(members) if member.ended == "failed"]
        return state._replace(env=tuple(sorted({**dict(state.env), "both.errors": listed(errors)}.items())))

    def _with_outputs(self, state: State) -> State:
        """Return the state behind items that have not failed, or were skipped: the step has an output for each."""
        if "$both.output" not in str(self.program):
            return state
        given = Items((OPAQUE,) * len(dict(state.env)["l"]))
        return state._replace(env=tuple(sorted({**dict(state.env), "both.output": given}.items())))

    def _failed(self, state: State) -> Iterator[State]:
        """Yield what comes behind items of which one has failed: another round, or what follows the error."""
        joined = tuple((max(memories),) if judge in self.apart else memories for judge, memories in self._paired(state))
        gone = Event("assigns", "both", self.locals | {"both.output", "both.error", "both.errors"})
        rules = self._told(joined, (gone,))
        failed = int(state.at.removeprefix(AGAIN)) + 1 if state.at.startswith(AGAIN) else 1
        if self.fork.get("on_error") == "retry" and failed < self.fork["max_retries"]:
            env = tuple(one for one in state.env if one[0] != "both.errors")  # they are bound when the step has ended
            yield self._begun(state._replace(at=f"{AGAIN}{failed}", env=env, rules=rules))
            return
        target = self.fork.get("error_step", "failed")
        if self.fork.get("on_error") == "skip":
            target = self._following(self.program["steps"], self.fork)
        if target in self.top:
            yield State(target, state.env, None, rules)
        else:
            self._ended(rules, target)

    def _joined(self, state: State, members: tuple[Member, ...]) -> Iterator[State]:
        del members
        rules = tuple((max(memories),) if judge in self.apart else memories for judge, memories in self._paired(state))
        done = (
            Event("assigns", "both", self.locals | {"both.output", "both.error", "both.errors"}),
            Event("succeeds", "both"),
        )
        rules = self._told(rules, done)
        target = self._following(self.program["steps"], self.fork)
        if target in self.top:
            yield State(target, state.env, None, rules)
        else:
            self._ended(rules, target)

    def _ended(self, rules: tuple[Any, ...], ending: str) -> None:
        super()._ended(tuple(memories[0] for memories in rules), ending)

    def _paired(self, state: State) -> Iterator[tuple[Judge, Any]]:
        return zip(self.judges, state.rules, strict=True)


def _error_name(step: Mapping[str, Any], events: tuple[Event, ...]) -> str:
    """Return the name of the error of an item that fails at a step; a call fails with any, of which none asks."""
    if events[-1].what == "passes":
        return "Visits"
    return "Declared" if step["type"] == "end" else "Unexpected"
