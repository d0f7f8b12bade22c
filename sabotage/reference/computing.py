"""Steps that compute a value with an expression of PTC-Lisp ("Compute")."""

from __future__ import annotations

import math
from typing import Any

from stepward.sabotage.reference.bodies import Bodies
from stepward.sabotage.reference.data import left_with, left_without
from stepward.sabotage.reference.echoes import numbers_in, sought
from stepward.sabotage.reference.expressions import Undefined
from stepward.sabotage.reference.plain import NoValue, Unworded, to_value
from stepward.sabotage.reference.templates import filled, names_in
from stepward.sabotage.reference.types import is_of


class Computing(Bodies):
    """A run that can perform `compute` steps."""

    def _compute(self, step: Any) -> str:
        """Evaluate the expression of a `compute` step, and return how the step ends. A failure does not count as a
        start, so rules are asked when there is a value ("Steps", "Compute").

        There is one evaluator of PTC-Lisp: the reference does not judge it.
        """
        returns = self._types.output(step.id)
        try:
            value = _value_of(step.lisp, to_value(filled(step.args, self._data.read)))
            self._left = self._sized({step.output_key or f"{step.id}.output": value})
            if not is_of(value, returns) or self._left > self._most_bytes:
                raise _NotComputed("BadOutput")
        except (Undefined, NoValue, _NotComputed) as error:
            unread = "Undefined" if isinstance(error, Undefined) else "BadValue"
            self._error_name = str(error) if isinstance(error, _NotComputed) else unread
            self._begin(step)
            self._change(left_without(step, Unworded(f"{step.id} {error}"), self._error_name))
            return "skipped" if step.on_error == "skip" else "failed"
        self._ask_rules(step, [(step, None)])
        self._begin(step)
        self._starts(step, None)
        self._change(left_with(step, value))
        is_secret = any(map(self._data.hidden_below, names_in(step.args)))
        paths: set[tuple[str, ...]] = {()} if is_secret else self._types.hidden_output(step.id, value)
        for where in [(step.id, "output"), *([(step.output_key,)] if step.output_key is not None else [])]:
            self._data.hide(where, paths)
        self._secrets |= set(numbers_in(value, paths)) | set(sought(value, returns))
        self._succeeded(step)
        return "set"


class _NotComputed(Exception):  # noqa: N818 - it says what did not happen
    """A `compute` step has no value; its text is the name of the error."""


def _value_of(text: str, args: Any) -> Any:
    """Return the value of an expression of PTC-Lisp; raises _NotComputed if it has none."""
    from stepward.vm.lisp import Limits, evaluate

    outcome = evaluate(text, args, Limits(steps=1_000_000, memory=16_000_000, seconds=math.inf))
    if outcome.error is not None:
        raise _NotComputed("Unexpected")
    return to_value(outcome.value)
