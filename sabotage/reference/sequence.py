"""The steps of a run, one after the other: visits and budgets, and what each type of step does."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from stepward.sabotage.reference import facts
from stepward.sabotage.reference.bodies import name_of
from stepward.sabotage.reference.data import GONE, left_without
from stepward.sabotage.reference.echoes import numbers_in
from stepward.sabotage.reference.expressions import CannotEvaluate, holds
from stepward.sabotage.reference.fields import Fields, by_variable
from stepward.sabotage.reference.plain import NoValue, TooManyBytes, Unworded, size
from stepward.sabotage.reference.run import Closed, Over
from stepward.sabotage.reference.waits import Waits
from stepward.sabotage.reference.waves import Pause
from stepward.vm.expressions.parser import parse


class Sequence(Waits):
    """The part of a run that performs its steps in order."""

    def _run(self) -> Pause:
        """Run the program from its first step ("Control flow")."""
        facts.refuse_unknown(self.program)
        yield from self._list(list(self.program.whole_steps))

    def _list(self, steps: list[Any]) -> Pause:
        by_id = {step.id: step for step in reversed(steps)}
        at = steps[0].id
        while True:
            self._calls, self._is_begun, self._at = [], False, at
            at = yield from self._enter(by_id[at])

    def _enter(self, step: Any) -> Generator[None, None, str]:
        """Check visits and budgets, then execute a step. Return the next step."""
        visit = self._visits.get(step.id, 0) + 1
        if step.type != "end" and step.max_visits is not None and visit > step.max_visits:
            return self._beyond(step, visit)
        self._afford(1 + len(facts.parts_of(step)))
        stalled = self.program.max_stalled_steps
        if stalled is not None and self._idle >= stalled:
            raise Over("STALLED", "no-progress")
        if step.type in ("llm", "tool"):
            outcome = yield from self._perform(step, [step])
            return self._leave(step, outcome)
        if step.type in facts.WITH_BODY:
            outcome = yield from self._for_each(step)
            return self._leave(step, outcome)
        if step.type == "compute":
            return self._leave(step, self._compute(step))
        self._ask_rules(step, [(step, None)])
        if step.type == "parallel" and step.branches:
            outcome = yield from self._fork(step)
            return self._leave(step, outcome)
        if step.type == "parallel":
            outcome = yield from self._perform(step, list(step.parallel_steps))
            return self._leave(step, outcome)
        self._begin(step)
        try:
            if step.type == "wait":
                yield from self._wait(step)
                return self._leave(step, "waited")
            return self._decide(step)
        except (CannotEvaluate, NoValue) as error:
            # Conditions, `set`, `wait` and `end` have no `error_step` ("Failure, Choices").
            self._error_name = name_of(error)
            raise self._over(step, "error", "FAILED", "error") from None

    def _beyond(self, step: Any, visit: int) -> str:
        """Handle a visit beyond the limit: it does not start the step, and goes where its error leads once ("Control
        flow" 9)."""
        self._visits[step.id] = visit
        why = Unworded(f"visits of {step.id}")
        parts = [*facts.parts_of(step), step]
        changes = [change for part in parts for change in left_without(part, why, "Visits")]
        if step.type in facts.WITH_BODY:
            changes += [
                *(((step.id, "errors"), GONE) for _ in facts.items_named(step)),
                *(((name,), GONE) for name in step.carry),
            ]
        self._change(changes)
        target = facts.caught(step, "Visits") if facts.has_output(step) else None
        if target is None or visit > step.max_visits + 1:
            raise self._over(step, "visits", "STALLED", "visits")
        return self._move(step, "visits", target)

    def _decide(self, step: Any) -> str:
        if step.type == "condition":
            return self._choose(step)
        if step.type == "set":
            return self._assign(step)
        assert step.type == "end", f"the reference does not say what a `{step.type}` step does"
        output, hidden = self._data.built(step.output)
        if not self._frames:
            self.output, self.hidden_of_output = output, hidden
        else:
            self._keep(step, output)
        over = self._over(step, "end", "SUCCESS" if step.outcome == "success" else "FAILED", "declared", output)
        if isinstance(over, Closed):
            over.hidden = hidden
        raise over

    def _choose(self, step: Any) -> str:
        """Choose the first case that holds; later ones are not evaluated ("Steps", "Conditions" 1)."""
        branches: list[tuple[str, str | None, str, set[Any]]] = [
            (case.when, case.then, str(number), {number, case.name})
            for number, case in enumerate(step.cases or (), start=1)
        ]
        if step.condition is not None:
            branches = [(step.condition, step.then, "then", {"then"})]
        target, how, labels = step.otherwise, "otherwise", {"otherwise"}
        for when, then, label, names in branches:
            if holds(parse(when, self.program.language), self._data.read):
                target, how, labels = then, label, names
                break
        self._change([])
        if target is None:
            raise self._over(step, "uncovered", "FAILED", "uncovered")
        self._took(step, labels)
        self._succeeded(step)
        return self._move(step, how, target)

    def _assign(self, step: Any) -> str:
        """Evaluate all expressions, then assign. A value that is not a text stands for itself ("Steps")."""
        computed = {
            name: self._data.changed((name,), value) if isinstance(value, Fields) else self._data.assigned(value)
            for name, value in by_variable(step.set).items()
        }
        new = {name: value for name, (value, _) in computed.items()}
        if size(new) > self._most_bytes:
            raise TooManyBytes("too large")
        self._left = self._sized(new)
        self._change([((name,), value) for name, value in new.items()])
        for name, value in new.items():
            paths = computed[name][1]
            self._data.hide((name,), paths)
            self._secrets |= set(numbers_in(value, paths))
        self._succeeded(step)
        return self._leave(step, "set")
