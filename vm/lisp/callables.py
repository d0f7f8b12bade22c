"""Functions as values: what can be called, and those that are not written in Lisp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.limits import Meter
from stepward.vm.lisp.values import MeteredValue


class Function(MeteredValue):
    """A function: `begin` gets the context and the arguments, and gives the value, or a generator that evaluates it."""

    __slots__ = ()

    def begin(self, ctx: Any, args: list[Any]) -> Any:
        """Call the function."""
        raise NotImplementedError


class Native(Function):
    """A function that is not written in Lisp: one of the table, or one that another function made.

    `run` gets the context and the arguments. It returns the value, or a generator that yields what has to be evaluated
    first. `least` and `most` are the numbers of arguments that it takes; `most` None is any number.
    `usage` says how it is called.
    """

    __slots__ = ("least", "most", "name", "run", "usage")

    def __init__(
        self,
        meter: Meter,
        name: str,
        run: Callable[..., Any],
        least: int = 0,
        most: int | None = None,
        usage: str = "",
    ) -> None:
        super().__init__(meter)
        self.name, self.run, self.least, self.most, self.usage = name, run, least, most, usage
        self.hold(300)

    def begin(self, ctx: Any, args: list[Any]) -> Any:
        """Call the function; raises a Fault for another number of arguments than it takes."""
        count = len(args)
        if count < self.least or (self.most is not None and count > self.most):
            raise self._arity(count)
        return self.run(ctx, *args)

    def _arity(self, count: int) -> Fault:
        if self.most is None:
            expected = f"at least {self.least}"
        elif self.least == self.most:
            expected = f"{self.least}"
        else:
            expected = f"{self.least} to {self.most}"
        plural = "" if expected.endswith(" 1") or expected == "1" else "s"
        hint = f"write `{self.usage}`" if self.usage else ""
        return Fault("arity_error", f"`{self.name}` takes {expected} argument{plural}, not {count}", hint, given=count)
