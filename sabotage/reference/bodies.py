"""Bodies: the items of a for_each step, one after the other ("Bodies", "For each")."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.data import (
    GONE,
    Changes,
    FieldPath,
    Hidden,
    Holder,
    above,
    below,
    left_with,
    left_without,
)
from stepward.sabotage.reference.echoes import numbers_in, sought
from stepward.sabotage.reference.expressions import CannotEvaluate, Undefined
from stepward.sabotage.reference.later import Later
from stepward.sabotage.reference.plain import NoValue, TooManyBytes, Unworded, said_in, size
from stepward.sabotage.reference.rules import RuleMonitor
from stepward.sabotage.reference.run import Closed, Happened, Over
from stepward.sabotage.reference.types import completed, hidden_paths, is_of

Steps = Generator[None, None, None]
Outputs = list[tuple[Any, set[FieldPath]]]
"""The outputs of items, GONE for one without, each with its sensitive fields."""

Errors = dict[int, tuple[Any, str]]
"""The errors of items with their names, by the number of the item."""


class Bodies(Later):
    """A run that can perform the body of a step for each item of a list."""

    def _list(self, steps: list[Any]) -> Steps:
        """Perform the steps of a list, until an exception ends it."""
        raise NotImplementedError

    def _items_at_once(self, step: Any, items: Any, hidden: set[FieldPath]) -> Generator[None, None, str]:
        """Perform the items of a step that has begun, several at once, and return how it ended."""
        raise NotImplementedError

    def _for_each(self, step: Any) -> Generator[None, None, str]:
        """Perform a for_each step and return how it ended."""
        try:
            items, hidden = self._data.built(step.items)
            computed = {name: self._data.assigned(value) for name, value in sorted(step.carry.items())}
            first = {name: value for name, (value, _) in computed.items()}
            if step.type == "call":
                first = _with_defaults(step, first)
            if not isinstance(items, tuple):
                raise NoValue("no list")
            if len(items) > self._types.most_items(step):
                raise TooMany("too many items")
            if size(first) > self._most_bytes:
                raise NoValue("too large")
        except (CannotEvaluate, NoValue) as error:
            self._visits[step.id] = self._visits.get(step.id, 0) + 1
            self.steps += 1
            return self._without_output(step, str(error), name_of(error), GONE)
        self._ask_rules(step, [(step, None)])
        self._begin(step)
        if step.max_concurrency > 1:
            return (yield from self._items_at_once(step, items, hidden))
        before = self._data.restoring(step.carry)
        begins = self._begins(step, first, {name: paths for name, (_, paths) in computed.items()})
        self._carry(*begins)
        self._assigned_now(facts.assigned_by(step))
        rounds = step.max_retries if step.on_error == "retry" else 1
        for number in range(1, rounds + 1):
            outputs, errors = yield from self._items(step, items, hidden, number)
            if step.type == "call":  # the inputs of the called program are gone with it
                self._carry(*before)
            failed = step.on_item_error == "fail" and bool(errors)
            if not failed or number == rounds:
                break
            self._afford(1)
            self.steps += 1
            self._carry(*begins)
            self._assigned_now(facts.assigned_by(step))
        last = self._data.restoring(step.carry)
        self._carry(*before)
        if failed:
            why, name = next(iter(errors.values()))
            return self._without_output(step, why, name, listed(errors))
        return self._all_left(step, outputs, errors, last)

    def _begins(self, step: Any, first: dict[str, Any], hidden: dict[str, set[FieldPath]]) -> tuple[Changes, Hidden]:
        """Return the first values of what items carry on, or the inputs of a called program, with their sensitive
        fields: those of what they are made of, and those that the type of an input marks."""
        specs = dict(step.declared) if step.type == "call" else {}
        changes: Changes = [((name,), value) for name, value in first.items()]
        found: Hidden = []
        for name, value in first.items():
            spec = specs.get(name[len(step.id) + 1 :])
            paths = hidden.get(name, set()) | hidden_paths(spec, value)
            self._secrets |= set(numbers_in(value, paths)) | set(sought(value, spec))
            found.append(((name,), paths))
        return changes, found

    def _all_left(self, step: Any, outputs: Outputs, errors: Errors, carried: tuple[Changes, Hidden]) -> str:
        """End a for_each step that has succeeded."""
        values = tuple(None if value is GONE else value for value, _ in outputs)
        left = self._sized(values[0] if step.type == "call" else values)
        if left > self._room:
            raise Over("FAILED", "error")
        self._left = left
        changes, hidden = carried
        if step.type == "call":
            ((output, paths),) = outputs
            self._change([*left_with(step, output), *((name, GONE) for name, _ in changes)])
        else:
            paths = {one for number, (_, inner) in enumerate(outputs) for one in above(inner, f"[{number}]")}
            self._change([*left_with(step, values), *changes, ((step.id, "errors"), listed(errors))])
            self._data.hide_all(hidden)
        self._data.hide_all([(where, paths) for where, _ in left_with(step, None)])
        self._succeeded(step)
        return "joined"

    def _keep(self, step: Any, output: Any) -> None:
        """Keep the output of an `end` step of a body; raises TooLarge, BadOutput if a caller needs another type."""
        if size(output) > self._most_bytes:
            raise TooManyBytes("too large")
        caller = next(one for one in facts.all_steps(self.program.whole_steps) if one.id == self._frames[-1][0])
        is_direct = caller.type == "call" and any(one.id == step.id for one in caller.body)
        if is_direct and not is_of(output, self._types.output(caller.id)):
            raise BadOutput("type")

    def _without_output(self, step: Any, why: Any, name: str, errors: Any) -> str:
        self._error_name = name
        changes = left_without(step, Unworded.telling(f"{step.id}: {why}", said_in(why)), name)
        changes += [((name,), GONE) for name in step.carry]
        self._change(changes if step.type == "call" else [*changes, ((step.id, "errors"), errors)])
        return "skipped" if step.on_error == "skip" else "failed"

    # -- items ---------------------------------------------------------------------------------------------------------

    def _items(
        self, step: Any, items: Any, hidden: set[FieldPath], number: int
    ) -> Generator[None, None, tuple[Outputs, Errors]]:
        """Perform the body for each item. Return the outputs, and the errors by item."""
        outputs: Outputs = [(GONE, set())] * len(items)
        errors: Errors = {}
        for index, item in enumerate(items):
            carried = self._data.restoring(step.carry)
            closed = yield from self._frame(step, (item, below(hidden, f"[{index}]")), index, number)
            if closed.status == "SUCCESS":
                outputs[index] = closed.output, closed.hidden
                continue
            self._carry(*carried)
            errors[index] = Unworded.telling(f"{step.id}[{index}] {closed.reason}", closed.says), closed.name
            if step.on_item_error == "fail":
                break
        return outputs, errors

    def _frame(
        self, step: Any, item: tuple[Any, set[FieldPath]], index: int, number: int
    ) -> Generator[None, None, Closed]:
        """Perform the body for one item, which comes with its sensitive fields."""
        idle = self._idle
        inside = {part.id for part in facts.parts_inside(step)}
        own = [RuleMonitor(rule, self.program, self._tool, inside) for rule in step.guardrails]
        self._rules = [*self._rules, *own]
        self._frames = (*self._frames, (step.id, self._visits[step.id], number, index))
        self._idle = 0
        self._forget(step)
        if step.type == "for_each":
            self._data.change([((vars(step)["as"],), item[0])])
            self._data.hide((vars(step)["as"],), item[1])
        if step.index_as is not None:
            self._data.change([((step.index_as,), index)])
        try:
            yield from self._list(list(step.body))
            raise AssertionError("a list of steps ends by an exception")
        except Closed as closed:
            found = closed
        if step.steps is None and found.status == "SUCCESS":
            found.output = self._data.values.get((step.do.id, "output"), GONE)
            found.hidden = self._data.hidden.get((step.do.id, "output"), set())
        self._broken += [one.rule.name for one in own if one.is_broken(found.status, found.reason)]
        self._forget(step)
        self._rules = [one for one in self._rules if one not in own]  # others may have come meanwhile
        self._frames, self._idle, self._calls, self._at = self._frames[:-1], idle, [], step.id
        return found

    def _forget(self, step: Any) -> None:
        """Make the values and visits of a body undefined: an item starts without them, and leaves none."""
        removed: Changes = []
        for where in local(step):
            if where in self._data.values:
                removed.append((where, GONE))
        self._data.change(removed)
        for part in facts.parts_inside(step):
            self._visits.pop(part.id, None)
            self._sizes.pop(part.id, None)
        assigned = [where for inner in facts.steps_inside(step) for where in facts.assigned_by(inner)]
        self._assigned_now([*local(step), *assigned])

    def _carry(self, values: Changes, hidden: Hidden) -> None:
        removed: Changes = [(where, GONE) for where, value in values if value is GONE and where in self._data.values]
        self._data.change([*removed, *((where, value) for where, value in values if value is not GONE)])
        self._data.hide_all(hidden)

    def _assigned_now(self, holders: list[Holder]) -> None:
        self._past.append(Happened("assigned", holders))
        for monitor in self._rules:
            monitor.assigned(holders)


def local(step: Any) -> Iterator[Holder]:
    """Yield what belongs to the body of a step: all that its steps assign, but what its items carry on."""
    if step.type == "for_each":
        yield (vars(step)["as"],)
    if step.index_as is not None:
        yield (step.index_as,)
    for inner in facts.steps_inside(step):
        for where in facts.assigned_by(inner):
            if len(where) > 1 or where[0] not in step.carry:
                yield where
        if inner.type == "for_each":
            yield (vars(inner)["as"],)
            if inner.index_as is not None:
                yield (inner.index_as,)


def _with_defaults(step: Any, carried: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of a called program with defaults; raises BadArguments if it refuses them ("Calls")."""
    whole = completed({name[len(step.id) + 1 :]: value for name, value in carried.items()}, dict(step.declared))
    if whole is None:
        raise BadArguments("arguments")
    return {f"{step.id}/{name}": value for name, value in whole.items()}


class BadArguments(NoValue):
    """A called program does not take its arguments."""


class BadOutput(NoValue):
    """A called program has an output that its caller does not take."""


def listed(errors: Errors) -> Any:
    """Return `$id.errors`: an object for each item that failed."""
    return tuple({"index": index, "error": why, "error_name": name} for index, (why, name) in errors.items())


class TooMany(NoValue):
    """A list has more items than its step takes."""


def name_of(error: Exception) -> str:
    """Return the name of the error of a step whose values can't be computed ("Errors by name", the table)."""
    match error:
        case Undefined():
            return "Undefined"
        case TooMany():
            return "TooManyItems"
        case BadArguments():
            return "BadArguments"
        case TooManyBytes() | BadOutput():
            return "BadOutput"
        case _:
            return "BadValue"
