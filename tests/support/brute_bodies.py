"""For_each steps for the enumeration of runs: every list of items, every item, in the order of the language's text.

An item starts with nothing in the names of the body. What it leaves are the variables that items carry on, and what
guardrails of the program remember; those of the body begin anew with each item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from brute_fields import variables_of
from brute_force import Search
from brute_program import END, Event, Move, Rule, Truth, outputs_of
from small_language import (
    GONE,
    OPAQUE,
    Items,
    Unreadable,
    Values,
    compiled,
    domain,
    filled,
    frozen,
    parsed,
    templates,
)

LONGEST = 2
"""The most items of a list that is an input."""


class Frame(NamedTuple):
    """A for_each step that goes on. `kept` are the carried values before the item, `failed` the error of the last."""

    step: int
    items: tuple[Any, ...]
    item: int
    round: int
    first: tuple[Any, ...]
    kept: tuple[Any, ...]
    failed: str = ""
    errors: tuple[tuple[int, str], ...] = ()
    """The items of this round that have failed, each with the name of its error, where a condition asks for them."""


def truth_of_bodies(program: dict[str, Any]) -> Truth:
    """Return what happens on some run of a program with for_each steps."""
    return _Search(program).run()


def flat(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a list, each followed by those of its body."""
    for step in steps:
        yield step
        yield from flat(body_of(step))


def body_of(step: dict[str, Any]) -> list[dict[str, Any]]:
    return list(step.get("steps") or ([step["do"]] if "do" in step else []))


class _Search(Search):
    def __init__(self, program: dict[str, Any]) -> None:
        self.owner: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}
        self._place(program["steps"], None)
        steps = list(flat(program["steps"]))
        super().__init__({**program, "steps": steps}, blind=False)
        self.inside = {
            number: [self.position[one["id"]] for one in flat(body_of(step))]
            for number, step in enumerate(steps)
            if step["type"] == "for_each"
        }
        self.own: dict[int, range] = {}
        for number in self.inside:
            within = {**self.program, "steps": [self.steps[one] for one in self.inside[number]]}
            made = [Rule(rule, within, self.names) for rule in steps[number].get("guardrails", ())]
            self.own[number] = range(len(self.rules), len(self.rules) + len(made))
            self.rules += made
            self.truth.broken |= {rule.name: set() for rule in made}
        self.whens += [
            (rule, compiled(parsed(rule.rule["when"]), self.names.where) if "when" in rule.rule else None)
            for places in self.own.values()
            for rule in (self.rules[place] for place in places)
            if "never" in rule.rule
        ]
        self.local = {number: self._local(number) for number in self.inside}
        self.gone = {number: self._slots_gone(number) for number in self.inside}
        self.others = {number: self._rules_beside(number) for number in range(len(steps))}
        self.unended: dict[Event, Event] = {}

    def _place(self, steps: list[dict[str, Any]], owner: str | None) -> None:
        for step in steps:
            self.lists[step["id"]] = [one["id"] for one in steps]
            if owner is not None:
                self.owner[step["id"]] = owner
            self._place(body_of(step), step["id"])

    def _successor(self, number: int, step: dict[str, Any]) -> tuple[int, str]:
        if "next_step" in step:
            return self.position[step["next_step"]], ""
        beside = self.lists[step["id"]]
        following = beside.index(step["id"]) + 1
        if step.get("is_terminal") or step["id"] in self.arms or following == len(beside):
            return END, "FAILED" if step.get("outcome") == "failure" else "SUCCESS"
        return self.position[beside[following]], ""

    def _local(self, number: int) -> frozenset[str]:
        """Return all that an item finds undefined, or changes: to a guardrail it is assigned when an item starts and
        ends."""
        step = self.steps[number]
        found = {step["as"], *([step["index_as"]] if "index_as" in step else [])}
        for one in self.inside[number]:
            inner = self.steps[one]
            found |= self._assigned(one, inner) if inner["type"] not in ("condition", "end") else set()
            found |= (
                {inner["as"], *([inner["index_as"]] if "index_as" in inner else [])} if one in self.inside else set()
            )
        return frozenset(found)

    def _assigned(self, number: int, step: dict[str, Any]) -> frozenset[str]:
        if step["type"] == "set":
            return frozenset(variables_of(step))
        found = super()._assigned(number, step)
        return found | {f"{step['id']}.errors", *step.get("carry", ())} if step["type"] == "for_each" else found

    def _inputs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        lists = {step["items"] for step in self.steps if isinstance(step.get("items"), str)}
        for name, spec in super()._inputs():
            yield name, {"all lists": spec} if f"${name}" in lists else spec

    def _values_of(self, spec: dict[str, Any]) -> tuple[Any, ...]:
        if "all lists" not in spec:
            return domain(spec)
        inner = spec["all lists"]
        least, most = inner.get("minItems", 0), min(LONGEST, inner.get("maxItems", LONGEST))
        return tuple(
            Items(one)
            for size in range(least, max(least, most) + 1)
            for one in product(domain(inner["items"]), repeat=size)
        )

    # -- states: the step or the stage, values, visits, memory, frames -------------------------------------------------

    def _begin(self, values: Values) -> Any:
        memory = tuple(rule.start for rule in self.rules)
        for places in self.own.values():
            memory = _without(memory, places)
        return (0, values, (0,) * (len(self.bounds) + 1), memory, ())

    def _seen(self, memory: tuple[Any, ...], event: Event) -> tuple[tuple[Any, ...], list[tuple[str, str, int]]]:
        seen = [
            (None, "", 0) if held is None else rule.sees(held, event)
            for rule, held in zip(self.rules, memory, strict=True)
        ]
        broken = [(rule.name, code, extra) for rule, (_, code, extra) in zip(self.rules, seen, strict=True) if code]
        return tuple(after for after, _, _ in seen), broken

    def _forbid(self, number: int, started: Any, values: Values) -> None:
        """Judge the `never` rules, without those of bodies in which the step is not."""
        known, others = self.whens, self.others[number]
        if others:
            self.whens = [one for one in known if self.rules.index(one[0]) not in others]
        super()._forbid(number, started, values)
        self.whens = known

    def _around(self, number: int) -> Iterator[int]:
        name = self.steps[number]["id"]
        while name in self.owner:
            name = self.owner[name]
            yield self.position[name]

    def _following(self, state: Any, spent: int, limit: int | None) -> Iterator[tuple[int, Any]]:
        number, values, visits, memory, frames = state
        if number >= len(self.steps):
            yield from self._between(values, visits, memory, frames, spent, limit)
            return
        for cost, (to, after, counted, held, ending) in self._visited(
            (number, values, visits, memory), frames, spent, limit
        ):
            if to == END:
                yield cost, self._closed(after, counted, held, frames, ending, number)
            elif number in self.inside and to == len(self.steps):
                items, first = ending
                frame = Frame(number, items, 0, 1, first, first)
                yield cost, (to, after, counted, held, (*frames, frame))
            else:
                yield cost, (to, after, counted, held, frames)

    def _visited(
        self, place: tuple[Any, ...], frames: tuple[Frame, ...], spent: int, limit: int | None
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        number, values, visits, memory = place
        step = self.steps[number]
        self._stopped(step, memory, is_cancelled=True)
        if number in self.bounds:
            at = self.counter[number]
            count = visits[at]
            visits = (*visits[:at], count + 1, *visits[at + 1 :])
            if count >= self.bounds[number]:
                move = self._passed(number, step, values, first=count == self.bounds[number])
                yield from self._gone(move, visits, memory, frames, spent, limit)
                return
        if limit is not None and spent + self.cost[number] > limit:
            self._stopped(step, memory, is_cancelled=False)
            return
        self.truth.reached.add(step["id"])
        if number in self.inside:
            yield from self._entered(number, step, (values, visits, memory), frames, spent, limit)
            return
        moves = self.known_moves[number].get(values)
        if moves is None:
            moves = self.known_moves[number][values] = list(dict.fromkeys(self._moves(number, step, values)))
        for move in moves:
            yield from self._gone(move, visits, memory, frames, spent, limit)

    def _gone(
        self, move: Move, visits: Any, memory: Any, frames: tuple[Frame, ...], spent: int, limit: int | None
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Take a move. One that ends a body ends no run, so rules of the program are not judged by it."""
        ends = bool(frames) and move.to == END
        after, broken = self._told(memory, self._without_ending(move.event) if ends else move.event)
        is_affordable = limit is None or spent + move.cost <= limit
        for rule, code, extra in broken:
            in_time = limit is None or spent + self.cost[move.event.step] + extra <= limit
            if is_affordable if code == "SW405" else in_time:
                self.truth.broken[rule].add((code, self.steps[move.event.step]["id"]))
        if is_affordable and (ends or move.to != END):
            yield move.cost, (move.to, move.values, visits, after, (move.event.ending, move.name))

    def _without_ending(self, event: Event) -> Event:
        found = self.unended.get(event)
        if found is None:
            found = self.unended[event] = event._replace(ending="")
        return found

    # -- for_each steps ------------------------------------------------------------------------------------------------

    def _entered(
        self, number: int, step: dict[str, Any], held: tuple[Any, ...], frames: Any, spent: int, limit: int | None
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        values, visits, memory = held
        try:
            items = self._read(step["items"], values)
            first = tuple(self._first(value, values) for value in step.get("carry", {}).values())
        except Unreadable as why:
            if why.reference is not None:
                self.truth.undefined.add((step["id"], why.reference))
            yield from self._gone(
                self._failed(number, step, values, _name(why), 1), visits, memory, frames, spent, limit
            )
            return
        wrong = "BadValue" if not isinstance(items, Items) else "TooManyItems" if len(items) > step["max_items"] else ""
        if wrong:
            yield from self._gone(self._failed(number, step, values, wrong, 1), visits, memory, frames, spent, limit)
            return
        self._forbid(number, [(step["id"], ())], values)
        event = Event(number, (step["id"],), assigned=self._assigned(number, step))
        after, broken = self._told(memory, event)
        for rule, code, _ in broken:
            self.truth.broken[rule].add((code, step["id"]))
        now = self._put(values, dict(zip(step.get("carry", ()), first, strict=True)))
        yield 1, (len(self.steps), now, visits, after, (items, first))

    def _read(self, value: Any, values: Values) -> Any:
        return filled(value, self.names.where)(values) if templates(value) else frozen(value)

    def _first(self, value: Any, values: Values) -> Any:
        if isinstance(value, str):
            return compiled(parsed(value), self.names.where)(values)
        return filled(value, self.names.where)(values) if templates(value) else frozen(value)

    def _put(self, values: Values, new: dict[str, Any]) -> Values:
        after = list(values)
        for name, value in new.items():
            if name in self.names.slots:
                after[self.names.slots[name]] = value
        return tuple(after)

    def _slots_gone(self, number: int) -> frozenset[int]:
        """Return the slots of what an item finds undefined; of what items carry on it has the value."""
        kept = self.steps[number].get("carry", ())
        found = (self.names.slots.get(name) for name in self.local[number] if name not in kept)
        return frozenset(slot for slot in found if slot is not None)

    def _rules_beside(self, number: int) -> set[int]:
        """Return the places of the rules of bodies in which a step is not."""
        around = set(self._around(number))
        return {place for owner, places in self.own.items() for place in places if owner not in around}

    def _noticed(self, memory: Any, step: int, names: frozenset[str]) -> Any:
        return self._told(memory, Event(step, assigned=names))[0]

    def _forgotten(self, number: int, values: Values, visits: Any) -> tuple[Values, Any]:
        gone = list(values)
        for slot in self.gone[number]:
            gone[slot] = GONE
        if not self.bounds:
            return tuple(gone), visits
        counted = list(visits)
        for one in self.inside[number]:
            if one in self.counter:
                counted[self.counter[one]] = 0
        return tuple(gone), tuple(counted)

    def _between(
        self, values: Values, visits: Any, memory: Any, frames: tuple[Frame, ...], spent: int, limit: int | None
    ) -> Iterator[tuple[int, Any]]:
        """Start the next item, or the next round, or leave the step."""
        frame, around = frames[-1], frames[:-1]
        number, step = frame.step, self.steps[frame.step]
        carry = list(step.get("carry", ()))
        if not frame.failed and frame.item < len(frame.items):
            values, visits = self._forgotten(number, values, visits)
            kept = tuple(values[self.names.slots[name]] if name in self.names.slots else GONE for name in carry)
            given = {step["as"]: frame.items[frame.item]}
            given |= {step["index_as"]: frame.item} if "index_as" in step else {}
            memory = list(self._noticed(memory, number, self.local[number]))
            for place in self.own[number]:
                memory[place] = self.rules[place].start
            first = self.position[body_of(step)[0]["id"]]
            frame = frame._replace(item=frame.item + 1, kept=kept)
            yield 0, (first, self._put(values, given), visits, tuple(memory), (*around, frame))
            return
        rounds = step.get("max_retries", 3) if step.get("on_error") == "retry" else 1
        if frame.failed and frame.round < rounds:
            if limit is not None and spent + 1 > limit:
                self._stopped(step, memory, is_cancelled=False)
                return
            memory = self._noticed(memory, number, self._assigned(number, step))
            again = frame._replace(item=0, round=frame.round + 1, kept=frame.first, failed="", errors=())
            now = self._put(values, dict(zip(carry, frame.first, strict=True)))
            yield 1, (len(self.steps), now, visits, memory, (*around, again))
            return
        move = (
            self._failed(number, step, values, frame.failed, 0)
            if frame.failed
            else self._joined(number, step, values, frame.item)
        )
        move = move._replace(values=self._put(move.values, {f"{step['id']}.errors": listed(frame.errors)}))
        for cost, (to, after, counted, held, ending) in self._gone(move, visits, memory, around, spent, limit):
            if to == END:
                yield cost, self._closed(after, counted, held, around, ending, number)
            else:
                yield cost, (to, after, counted, held, around)

    def _joined(self, number: int, step: dict[str, Any], values: Values, items: int) -> Move:
        given = Items((OPAQUE,) * items)
        new = {**dict.fromkeys(outputs_of(step), given), f"{step['id']}.error": GONE, f"{step['id']}.error_name": GONE}
        to, ending = self.successor[number]
        event = Event(number, (), (), (step["id"],), (), self._assigned(number, step), ending)
        return Move(to, self._put(values, new), event, 0)

    def _failed(self, number: int, step: dict[str, Any], values: Values, name: str, cost: int) -> Move:
        new = {**dict.fromkeys(outputs_of(step), GONE), **dict.fromkeys(step.get("carry", ()), GONE)}
        new |= {f"{step['id']}.error": "error", f"{step['id']}.error_name": name, f"{step['id']}.errors": GONE}
        skips = step.get("on_error") == "skip"
        to, ending = self._way(number, step, "skipped" if skips else "failed", name)
        event = Event(number, assigned=self._assigned(number, step), ending=ending)
        return Move(to, self._put(values, new), event, cost, "Declared" if skips else name)

    def _passed(self, number: int, step: dict[str, Any], values: Values, *, first: bool) -> Move:
        move = super()._passed(number, step, values, first=first)
        if step["type"] != "for_each" or move.to == END:
            return move
        new = {**dict.fromkeys(outputs_of(step), GONE), **dict.fromkeys(step.get("carry", ()), GONE)}
        new |= {f"{step['id']}.error": "error", f"{step['id']}.error_name": "Visits", f"{step['id']}.errors": GONE}
        return move._replace(values=self._put(move.values, new))

    def _closed(
        self, values: Values, visits: Any, memory: Any, frames: tuple[Frame, ...], ending: Any, step: int
    ) -> Any:
        """End the body of an item."""
        status, name = ending
        frame = frames[-1]
        number, each = frame.step, self.steps[frame.step]
        for place in self.own[number]:
            rule = self.rules[place]
            if "followed_by" in rule.rule and memory[place] and _counts(rule.rule.get("ends"), status):
                self.truth.broken[rule.name].add(("SW405", self.steps[step]["id"]))
        if status != "SUCCESS":
            values = self._put(values, dict(zip(each.get("carry", ()), frame.kept, strict=True)))
        values, visits = self._forgotten(number, values, visits)
        memory = _without(self._noticed(memory, number, self.local[number]), self.own[number])
        failed = name if status != "SUCCESS" and each.get("on_item_error", "fail") == "fail" else ""
        if status != "SUCCESS" and f"{each['id']}.errors" in self.names.slots:
            frame = frame._replace(errors=(*frame.errors, (frame.item - 1, name)))
        return (len(self.steps), values, visits, memory, (*frames[:-1], frame._replace(failed=failed)))

    def _on_edges(self) -> set[str]:
        found: set[str] = set()
        pending = [0]
        while pending:
            number = pending.pop()
            step = self.steps[number]
            if step["id"] in found:
                continue
            found.add(step["id"])
            pending += [self.position[target] for target in _targets(step)]
            if number in self.inside:
                pending.append(self.position[body_of(step)[0]["id"]])
            if step["type"] not in ("condition", "end") and self.successor[number][0] != END:
                pending.append(self.successor[number][0])
        return found


def _targets(step: dict[str, Any]) -> list[str]:
    named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    entries = [*step.get("cases", ()), *step.get("catch", ())]
    return [target for target in [*named, *(entry["then"] for entry in entries)] if target is not None]


def listed(errors: Iterable[tuple[int, str]]) -> Items:
    """Return `$id.errors` of items that failed, each with the name of its error."""
    return Items((("error", OPAQUE), ("error_name", name), ("index", item)) for item, name in errors)


def _without(memory: tuple[Any, ...], places: range) -> tuple[Any, ...]:
    """Return what rules remember without those of a body that is not performed."""
    return tuple(None if place in places else held for place, held in enumerate(memory))


def _counts(ends: str | None, status: str) -> bool:
    return ends != "success" or status == "SUCCESS"


def _name(why: Unreadable) -> str:
    return "Undefined" if why.reference is not None else "BadValue"
