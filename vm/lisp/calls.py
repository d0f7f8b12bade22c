"""Nodes that make and call functions, and functions written in Lisp."""

from __future__ import annotations

from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from stepward.vm.lisp.callables import Function
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.nodes import Again, Branching, Frame, Leaf, Node
from stepward.vm.lisp.values import Steps, Var, weigh
from stepward.vm.reading.source import Span


@dataclass(frozen=True, slots=True)
class Arm:
    """A function for one number of arguments.

    `params` are the slots of its arguments, `rest` that of further ones; `prologue` takes patterns apart. `captures`
    are pairs of a slot of the function around it and one of its own.
    """

    params: tuple[int, ...]
    rest: int | None
    prologue: Node
    body: Node
    size: int
    captures: tuple[tuple[int, int], ...]
    itself: int | None


class Closure(Function):
    """A function written in Lisp, with the values of the names around it."""

    __slots__ = ("captured", "fn")

    def __init__(self, ctx: Context, fn: Fn, captured: tuple[tuple[Any, ...], ...]) -> None:
        super().__init__(ctx.meter)
        self.fn = fn
        self.captured = captured
        self.hold(200 + sum(16 + weigh(value) for values in captured for value in values))

    def arm(self, count: int) -> int:
        """Return the number of the arm for so many arguments; raises a Fault without one."""
        for number, arm in enumerate(self.fn.arms):
            if len(arm.params) == count or (arm.rest is not None and count >= len(arm.params)):
                return number
        expected = " or ".join(f"{len(arm.params)}{' or more' if arm.rest is not None else ''}" for arm in self.fn.arms)
        name = f"`{self.fn.name}`" if self.fn.name else "the function"
        raise Fault("arity_error", f"{name} takes {expected} arguments, not {count}", "", wanted=expected, given=count)

    def begin(self, ctx: Context, args: list[Any]) -> Steps:
        """Evaluate the body with arguments."""
        number = self.arm(len(args))
        arm = self.fn.arms[number]
        frame: Frame = [None] * arm.size
        for (_, slot), value in zip(arm.captures, self.captured[number], strict=True):
            frame[slot] = value
        if arm.itself is not None:
            frame[arm.itself] = self
        fixed = len(arm.params)
        if arm.rest is not None:
            args = [*args[:fixed], ctx.list(args[fixed:]) if len(args) > fixed else None]
        slots = arm.params if arm.rest is None else (*arm.params, arm.rest)
        while True:
            for slot, value in zip(slots, args, strict=True):
                frame[slot] = value
            if not arm.prologue.leaf:
                yield arm.prologue.steps(ctx, frame)
            outcome = arm.body.get(ctx, frame) if arm.body.leaf else (yield arm.body.steps(ctx, frame))
            if type(outcome) is not Again:
                return outcome
            args = outcome.values


@dataclass(frozen=True, slots=True)
class Fn(Leaf):
    """`fn`, `#()` and `defn`: makes a function."""

    name: str
    arms: tuple[Arm, ...]

    def get(self, ctx: Context, frame: Frame) -> Any:
        captured = tuple(tuple(frame[outer] for outer, _ in arm.captures) for arm in self.arms)
        return Closure(ctx, self, captured)


@dataclass(frozen=True, slots=True)
class Call(Branching):
    """A call of a function."""

    function: Node
    args: tuple[Node, ...]
    span: Span

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        try:
            node = self.function
            function = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
            args = []
            for node in self.args:
                args.append(node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame)))
            outcome = ctx.begin(function, args)
            if type(outcome) is GeneratorType:
                outcome = yield outcome
        except Fault as fault:
            if fault.span is None:
                fault.span = self.span
            raise
        return outcome


@dataclass(frozen=True, slots=True)
class Def(Branching):
    """`def`, `defn` and `defonce`."""

    name: str
    value: Node
    once: bool

    def steps(self, ctx: Context, frame: Frame) -> Steps:
        if not (self.once and self.name in ctx.globals):
            node = self.value
            ctx.globals[self.name] = node.get(ctx, frame) if node.leaf else (yield node.steps(ctx, frame))
        return Var(self.name)
