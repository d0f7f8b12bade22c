"""Runs of small programs on the machine, with every choice left to chance: what happens there must be in the truth."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from small_language import domain, thawed
from stepward.vm import ExecutionVM, MemoryJournal, ModelReply, Program, Run, ToolContext
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ModelRequest


class Chance:
    """Tools and a model that say anything that they may say, fail, and come late."""

    def __init__(self, data: dict[str, Any], seed: object) -> None:
        self.data = data
        self.random = Random(str(seed))
        self.clock = ManualClock()

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        self.fail()
        return thawed(self.random.choice(domain(self.data["tools"][name].get("returns"))))

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.fail()
        if request.schema is not None:
            return ModelReply(thawed(self.random.choice(domain(dict(request.schema)))))
        return ModelReply(self.random.choice(request.allowed or ("any",)))

    def fail(self) -> None:
        """Fail now and then, or be too late."""
        roll = self.random.random()
        if roll < 0.25:
            raise ValueError("it did not happen")
        if roll < 0.4:
            self.clock.time += 2_000_000

    def run(self) -> Run:
        """Run the program once; one that waits for somebody to look is cancelled."""
        machine = ExecutionVM(self, self, MemoryJournal(), clock=self.clock)
        inputs = {name: thawed(self.random.choice(domain(spec))) for name, spec in self.data.get("inputs", {}).items()}
        return machine.run_sync(Program.from_dict(self.data), inputs, run_id="run")
