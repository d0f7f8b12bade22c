"""Has a run held that reaches an open breaker."""

from __future__ import annotations

from typing import Any

from stepward.vm.machine.events import Result
from stepward.vm.machine.plan import CallPlan


async def look(driver: Any) -> None:
    """Ask the store which breakers are open, if it is time: what the machine knows is stale by then.

    This comes before the decision which calls start: between that and the records of their starts nothing is awaited,
    or a call could be decided on twice, and siblings that go on meanwhile would not know that it starts.
    """
    breakers = driver.setup.breakers
    if breakers.is_stale:
        await driver.setup.io(breakers.look)


def is_held(driver: Any, call: CallPlan) -> bool:
    """Return whether a breaker is open that keeps a call from starting; the driver stops then."""
    breakers = driver.setup.breakers
    if driver.held_by is None and breakers.seen[0]:
        driver.held_by = breakers.open_one("" if call.is_model else call.tool, call.programs)
    return driver.held_by is not None


async def count(driver: Any, call: CallPlan, result: Result, now: float) -> None:
    """Count what came of a call, and open the breaker of its tool if that failed too often."""
    breakers = driver.setup.breakers
    switch = None if call.is_model else breakers.count(call.tool, result, now)
    if switch is not None:
        await driver.setup.io(breakers.open, switch)


async def was_closed(driver: Any) -> bool:
    """Have the run held until the breaker is closed; return whether it is closed by now, so that the run goes on."""
    await driver.flush()
    hold = driver.setup.journal.hold
    if driver.state.is_over or await driver.setup.io(hold, driver.lease, driver.held_by):
        return False
    driver.held_by = None
    driver.setup.breakers.forget()
    return True
