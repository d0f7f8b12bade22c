"""One question to Z3, within limits of time and work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3

from stepward.validator.engine.clock import Clock


def check(solver: Any, assumed: Iterable[Any], units: int, clock: Clock) -> Any:
    """Return z3.sat, z3.unsat, or z3.unknown where the solver stopped at `units`.

    Z3 does not always respect its own time limit: the clock interrupts it. Raises OutOfTime in that case.
    """
    solver.set("rlimit", units)
    solver.set("timeout", clock.milliseconds())
    with clock.stopping(solver.ctx.interrupt):
        try:
            result = solver.check(*assumed)
        except z3.Z3Exception:
            clock.check()
            raise
    if result == z3.unknown:
        clock.check()
    return result
