"""One question to Z3, within the time and the work that it may take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3

from stepward.validator.engine.clock import Clock


def asked(solver: Any, assumed: Iterable[Any], units: int, clock: Clock) -> Any:
    """Return z3.sat, z3.unsat, or z3.unknown where the solver gave up within so many units.

    Z3 does not always keep to its own limit of time: the clock interrupts it. Raises OutOfTime when it has.
    """
    solver.set("rlimit", units)
    solver.set("timeout", clock.milliseconds())
    with clock.stopping(solver.ctx.interrupt):
        try:
            result = solver.check(*assumed)
        except z3.Z3Exception:
            clock.look()
            raise
    if result == z3.unknown:
        clock.look()
    return result
