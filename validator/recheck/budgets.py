"""Budgets: the most steps that a run can take, where `max_visits` bounds every loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.validator.recheck.failures import most_attempts
from stepward.validator.recheck.flow import END
from stepward.validator.recheck.reading import Reading
from stepward.vm.language.steps import LlmCall, ParallelStep, ToolCall

MAX_NODES: Final = 20_000
"""Pairs of step and visits that are explored."""

Node = tuple[int, tuple[int, ...]]
"""A step, with the number of earlier visits of every step with `max_visits`."""


class Budget:
    """An upper bound of the steps that runs of one program take from `max_steps`."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.bounds = reading.bounds
        self.slot = {step: number for number, step in enumerate(self.bounds)}

    def most(self) -> int | None:
        """Return the most steps that a run takes; None where it is unbounded, or beyond MAX_NODES."""
        if self.reading.layout.bodies:
            return None  # how many items there are is not counted here
        entry: Node = (0, (0,) * len(self.bounds))
        known: dict[Node, int] = {}
        path: dict[Node, Iterator[Node]] = {entry: self._following(entry)}
        while path:
            node, following = next(reversed(path.items()))
            for target in following:
                if target in path:
                    return None
                if target not in known:
                    if len(known) + len(path) >= MAX_NODES:
                        return None
                    path[target] = self._following(target)
                    break
            else:
                del path[node]
                known[node] = self._cost(node) + max((known[one] for one in self._following(node)), default=0)
        return known[entry]

    def _is_used_up(self, node: Node) -> bool:
        number, visits = node
        return number in self.slot and visits[self.slot[number]] >= self.bounds[number]

    def _following(self, node: Node) -> Iterator[Node]:
        """Yield the nodes that may follow, for any values of conditions."""
        number, visits = node
        is_used_up = self._is_used_up(node)
        if number in self.slot:
            slot = self.slot[number]
            if visits[slot] > self.bounds[number]:
                return  # the next visit stalls the run
            visits = (*visits[:slot], visits[slot] + 1, *visits[slot + 1 :])
        for transition in self.reading.control.transitions[number]:
            if transition.to != END and (transition.kind == "visits") is is_used_up:
                yield transition.to, visits

    def _cost(self, node: Node) -> int:
        step = self.reading.steps[node[0]]
        if self._is_used_up(node):
            return 0
        if isinstance(step, ParallelStep):
            repeated = sum(self._attempts(part) for part in step.parallel_steps if part.on_error != "skip")
            rounds = step.max_retries - 1 if step.on_error == "retry" else 0
            return 1 + sum(map(self._attempts, step.parallel_steps)) + rounds * (1 + repeated)
        return self._attempts(step) if isinstance(step, LlmCall | ToolCall) else 1

    def _attempts(self, call: LlmCall | ToolCall) -> int:
        """Return the attempts of one visit. An idempotent write with an unknown outcome is repeated."""
        spec = self.reading.tool(call.tool) if isinstance(call, ToolCall) else None
        if spec is not None and spec.effect == "write" and spec.idempotent:
            return max(call.max_retries, *(entry.max_attempts for entry in call.retry or ()), 1)
        return most_attempts(call, self.reading.tool)
