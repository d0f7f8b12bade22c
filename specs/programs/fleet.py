"""A scripted fleet of example runs for the studio: `python specs/programs/fleet.py runs.db`; `make studio` starts it.

Some runs are there at once, and then new ones start every few seconds, with tools that take their time. Some wait for
an answer, and once in a while a refund is in doubt: what waits for long is settled by a clerk. It goes
on until it is interrupted, or until the process that has started it is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import tools as example_tools

from stepward.vm import ExecutionVM, InDoubt, ModelReply, ModelRequest, Policy, Program, SQLiteJournal, ToolContext
from stepward.vm.machine.models import ANY_NAME
from stepward.vm.machine.tools import FunctionTools

HERE = Path(__file__).resolve().parent
ANSWERS: dict[str, Any] = {
    "customer_refund": {"approved": True, "approver": "a clerk"},
    "claim_above_limit": {"approved": True},
    "customer_onboarding": {"approved": True, "comment": "fine"},
}
REPLIES: dict[str, Any] = {
    "analyze": "yes",
    "classify": {"topic": "technical", "urgency": 2},
    "suggest": "Please split the export by month; each part is then ready within an hour.",
}
MOST_WAITING = 6
"""Runs that may wait for an answer before the clerk answers the oldest; as many may be in doubt."""


class SlowTools:
    """The example tools, each of which takes up to twice `pause` seconds. Every seventh refund is in doubt."""

    def __init__(self, pause: float, chance: random.Random) -> None:
        self.pause = pause
        self._inner = FunctionTools(example_tools)
        self._chance = chance
        self._refunds = 0

    def has(self, name: str) -> bool:
        return self._inner.has(name)

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        return self._call(name, args, context)

    async def _call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        await asyncio.sleep(self._chance.uniform(0.5, 2) * self.pause)
        output = await self._inner.call(name, args, context)
        if name == "issue_refund":
            self._refunds += 1
            if self._refunds % 7 == 0:
                raise InDoubt("the connection to the payment provider was lost")
        return output


class SlowModel:
    """A model that says what is written down, after some time."""

    names = ANY_NAME

    def __init__(self, tools: SlowTools) -> None:
        self._tools = tools

    async def complete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(self._tools.pause)
        return ModelReply(REPLIES[request.step])


def orders(chance: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """Return the next program by name, and the inputs of its run."""
    name = (
        "customer_refund", "claim_above_limit", "shipping_by_zone", "customer_refund", "support_ticket_routing",
        "large_shipment",
    )[number % 6]  # fmt: skip
    match name:
        case "customer_refund":
            request = chance.choice(["It came broken", "The wrong size", "It never arrived"])
            amount = chance.choice([45, 120, 310, 620, 900])
            email = "ann@example.com"
            return name, {
                "order_id": f"ORD-{number:06}", "request": request, "amount": amount, "customer_email": email
            }  # fmt: skip
        case "claim_above_limit":
            return name, {"claim_id": f"CLM-{number:06}", "amount": chance.choice([85, 240, 620])}
        case "support_ticket_routing":
            tier = chance.choice(["free", "plus", "business"])
            return name, {"ticket_id": f"TCK-{number:06}", "body": "My export ends early", "customer_tier": tier}
        case "large_shipment":
            return name, {"order_id": f"ORD-{number:06}", "total": chance.choice([300, 800, 1300])}
    zone = chance.choice(["union", "domestic", "overseas"])
    return name, {"parcel_id": f"PCL-{number:06}", "zone": zone, "weight_kg": chance.randint(1, 30)}


class Fleet:
    """A machine with the example programs, and the person who answers what waits for long."""

    def __init__(self, journal: SQLiteJournal, tools: SlowTools, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0
        policies = [Policy.load(str(HERE.parent / "policies" / "payments.yaml"))]
        self._machine = ExecutionVM(tools, SlowModel(tools), journal, policies, checker=None)
        self._programs: dict[str, Program] = {}

    async def one(self) -> None:
        """Start the next run, and drive it as far as it goes by itself."""
        self._number += 1
        name, inputs = orders(self._chance, self._number)
        if name not in self._programs:
            self._programs[name] = Program.load(str(HERE / "good" / f"{name}.yaml"))
        await self._machine.run(self._programs[name], inputs, run_id=f"{name}-{self._number:04}", by="the fleet")

    async def answer(self) -> None:
        """Answer the runs that wait, but for the newest ones."""
        waiting = await self._machine.runs(["SUSPENDED"])
        for row in waiting[: max(0, len(waiting) - MOST_WAITING)]:
            run = await self._machine.get(row.run)
            for waits in run.suspensions[:1]:
                await self._machine.resume(waits.token, ANSWERS.get(row.program, {"approved": True}), by="a clerk")
        doubtful = await self._machine.runs(["IN_DOUBT"])
        for row in doubtful[: max(0, len(doubtful) - MOST_WAITING)]:
            run = await self._machine.get(row.run)
            for doubt in run.doubts:
                found = {"refund_id": f"found by a clerk under {doubt.key[:8]}"}
                await self._machine.reconcile(row.run, doubt.step, "done", found, by="a clerk")


async def sail(journal: SQLiteJournal, ready: Path, options: argparse.Namespace) -> None:
    """Make some runs at once, and then one after the other."""
    chance = random.Random(7)
    tools = SlowTools(0.0, chance)
    fleet = Fleet(journal, tools, chance)
    for _ in range(options.first):
        await fleet.one()
    await fleet.answer()
    ready.touch()
    tools.pause = options.pause
    under_way: set[asyncio.Task[None]] = set()
    parent = os.getppid()
    for number in itertools.count():
        if number == options.runs or os.getppid() != parent:
            break
        under_way.add(asyncio.create_task(fleet.one()))
        await asyncio.sleep(options.every)
        await fleet.answer()
        for task in [task for task in under_way if task.done()]:
            under_way.remove(task)
            task.result()
    await asyncio.gather(*under_way)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the fleet of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal")
    parser.add_argument("--first", type=int, default=40, help="runs that are there at once")
    parser.add_argument("--runs", type=int, help="runs after these (without it, they go on)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds from one run to the next")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds that a tool takes")
    options = parser.parse_args(arguments)
    with closing(SQLiteJournal(options.journal)) as journal:
        asyncio.run(sail(journal, Path(f"{options.journal}.ready"), options))


if __name__ == "__main__":
    main()
