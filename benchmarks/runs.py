"""The programs that the machine is measured with, the tools they call, and a count of what running them did."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm import ExecutionVM, MemoryJournal, Program, SQLiteJournal

Data = dict[str, Any]

STEPS: Final = 5
EFFECTS: Final[dict[str, Data]] = {
    "none": {"effect": "none"},
    "write": {"effect": "write", "idempotent": True},
}
"""Facts of the no-op tool: one that nobody minds to repeat, and one whose every call needs an intent on the disk."""


class Tools(dict[str, Any]):
    """The two tools, and how often each was called: `noop` returns nothing, `tick` the number of its calls in a run."""

    def __init__(self) -> None:
        self.noops = self.ticks = 0
        super().__init__(noop=self.noop, tick=self.tick)

    async def noop(self) -> None:
        self.noops += 1

    async def tick(self) -> int:
        self.ticks += 1
        return self.ticks


def chain(n: int, effect: str = "none") -> Data:
    """Return n no-op tool steps in a row."""
    steps = [{"id": f"step_{number}", "type": "tool", "tool": "noop"} for number in range(n)]
    return {"name": "chain", "inputs": {}, "tools": {"noop": EFFECTS[effect]}, "steps": steps}


def loop(rounds: int) -> Data:
    """Return a loop of so many rounds: a condition that looks at a counter, and the tool step that moves it on.

    One tool step comes before, which sets the counter to 1, and one after, so `rounds + 1` calls are made.
    """
    tick = {"type": "tool", "tool": "tick", "output_key": "count"}
    return {
        "name": "loop",
        "inputs": {},
        "tools": {"tick": {"effect": "none", "returns": {"type": "integer"}}},
        "steps": [
            {"id": "first", **tick, "next_step": "look"},
            {
                "id": "look",
                "type": "condition",
                "condition": f"$count < {rounds}",
                "then": "again",
                "otherwise": "last",
            },
            {"id": "again", **tick, "max_visits": rounds, "next_step": "look"},
            {"id": "last", "type": "tool", "tool": "tick", "is_terminal": True},
        ],
    }


def performed(rounds: int) -> int:
    """Return how many steps a loop of so many rounds performs: `look` once more than `again`, and the ends."""
    return 2 * rounds + 1


async def run(machine: ExecutionVM, program: Program, steps: int) -> str:
    """Run a program, see that it succeeded and performed as many steps as it must, and return the run's id."""
    done = await machine.run(program)
    assert done.status == "SUCCESS"
    assert done.steps == steps
    return done.id


def record_bytes(journal: MemoryJournal | SQLiteJournal, run_id: str) -> list[int]:
    """Return the size of each record of a run."""
    return [len(entry.record) for entry in journal.read(run_id)]
