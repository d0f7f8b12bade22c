"""What a reply from the cache costs, as a multiple of a `set` step: `python benchmarks/replies.py`.

CPU time of runs of many steps in memory, taken in turns in one process: steps that set a variable, steps that ask a
model which answers at once, and steps whose reply is in the cache. README.md beside this file says what the figures
mean.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from check import table
from clock import multiple, spread, take_turns

from stepward.vm import ExecutionVM, MemoryJournal, ModelReply, ModelRequest, Program, SQLiteCache

STEPS: Final = 200
AIM: Final = 20


class Instant:
    """A model that answers at once, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.parameters = {"model": "instant"}

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return a short reply."""
        self.asked += 1
        return ModelReply(f"it is {len(request.prompt)}", 7)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each kind of step")
    rounds = parser.parse_args(arguments).rounds
    print(f"Python {platform.python_version()}, {platform.machine()}; ratios, garbage collector off")
    with tempfile.TemporaryDirectory() as folder:
        work = contenders(Path(folder, "replies.db"))
        times = take_turns(list(work.values()), rounds)
    base = times[0]
    rows = [
        [name, f"{multiple(one, base):.1f}", f"±{spread(one, base):.0%}"] for name, one in zip(work, times, strict=True)
    ]
    table(f"a step, as a multiple of a `set` step (aim for a hit: {AIM})", ["step", "ratio", ""], rows)


def contenders(file: Path) -> dict[str, Callable[[], object]]:
    """Return what runs STEPS steps of each kind once; each looks at its result."""
    model, cache = Instant(), SQLiteCache(file)
    setting = [{"id": f"s{n}", "type": "set", "set": {"text": f"'it is {n}'"}} for n in range(STEPS)]
    asking = [{"id": f"s{n}", "type": "llm", "prompt": f"what is {n}?", "output_key": "text"} for n in range(STEPS)]
    keeping = [{**step, "cache": True} for step in asking]
    found: dict[str, Callable[[], object]] = {
        "`set`": _runner(model, None, setting, 0),
        "`llm`, a model that answers at once": _runner(model, None, asking, STEPS),
    }
    _runner(model, cache, keeping, STEPS)()  # the first run keeps the replies
    return {**found, "`llm`, from the cache (a SQLite file)": _runner(model, cache, keeping, 0)}


def _runner(model: Instant, cache: SQLiteCache | None, steps: list[dict[str, Any]], asks: int) -> Callable[[], object]:
    program = Program.from_dict({"name": "steps", "inputs": {}, "steps": steps})

    def once() -> object:
        machine = ExecutionVM(None, model, MemoryJournal(), checker=None, cache=cache)
        before = model.asked
        run = machine.run_sync(program)
        assert (run.status, model.asked - before, run.tokens) == ("SUCCESS", asks, 7 * asks)
        return run

    return once


if __name__ == "__main__":
    main()
