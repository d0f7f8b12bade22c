"""Runs that are killed at random moments; a helper that is run as a script, no tests stand here.

    python tests/support/kill_child.py '{"folder": "/somewhere", "kills": 100, "seed": 1}'

`crash_child.py` kills at every point that it knows. Here the parent kills from outside, whatever the process is at: the
one that begins the run, and then those that go on with it. Programs, recorder and judge are those of `crash_child.py`.
The seed decides the modes and the moments; what a process is at by then, the operating system decides.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from crash_child import Campaign
from crash_judge import records_of
from crash_world import TickingTools, World, forked, waited_for, why_failed
from stepward.vm import InDoubt, Program, SQLiteJournal

WIDE = """
name: wide
inputs: {n: {type: integer}}
tools:
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}}
  ship: {effect: write, idempotent: false, args: {item: {type: integer}}, returns: {type: string}}
steps:
  - id: first
    type: parallel
    max_concurrency: 4
    parallel_steps:
      - {id: a, type: tool, tool: ship, args: {item: 1}}
      - {id: b, type: tool, tool: ship, args: {item: 102}}
      - {id: c, type: tool, tool: mail, args: {text: c}}
      - {id: d, type: tool, tool: ship, args: {item: 203}}
      - {id: e, type: tool, tool: mail, args: {text: e}}
      - {id: f, type: tool, tool: ship, args: {item: 4}}
  - id: second
    type: parallel
    parallel_steps:
      - {id: g, type: tool, tool: ship, args: {item: $n}}
      - {id: h, type: tool, tool: mail, args: {text: h}}
      - {id: i, type: tool, tool: ship, args: {item: 105}}
  - {id: done, type: end, output: {n: $n}}
"""

STUBBORN = """
name: stubborn
inputs: {n: {type: integer}}
tools:
  look: {effect: read, idempotent: true, args: {what: {type: string}}, returns: {type: integer}}
  pay:
    effect: write
    idempotent: false
    args: {amount: {type: integer}}
    returns: {type: object, properties: {receipt: {type: string}}, required: [receipt]}
  mail: {effect: write, idempotent: true, args: {text: {type: string}}, returns: {type: string}}
  ship: {effect: write, idempotent: false, args: {item: {type: integer}}, returns: {type: string}}
steps:
  - {id: stock, type: tool, tool: look, args: {what: stock}, on_error: retry, max_retries: 20, output_key: left}
  - {id: pay, type: tool, tool: pay, args: {amount: $n}, on_error: retry, max_retries: 20, output_key: paid}
  - {id: tell, type: tool, tool: mail, args: {text: "paid: $paid.receipt"}, on_error: retry, max_retries: 20}
  - id: both
    type: parallel
    parallel_steps:
      - {id: box, type: tool, tool: ship, args: {item: 100}, on_error: retry, max_retries: 20}
      - {id: note, type: tool, tool: mail, args: {text: both}, on_error: retry, max_retries: 20}
  - {id: done, type: end, output: {receipt: $paid.receipt}}
"""

FAILURES = 2
"""How often a stubborn tool fails before it does what it is asked, in the life of its world."""


class StubbornTools(TickingTools):
    """Tools that fail at first: by an error, or, where they are idempotent, after they have done it."""

    def _perform(self, name: str, key: str, args: Mapping[str, Any]) -> Any:
        path = self.recorder.path.with_name(f"tries-{name}-{'-'.join(map(str, args.values()))}".replace(" ", "_"))
        file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        os.write(file, b".")
        tries = os.fstat(file).st_size
        os.close(file)
        if tries > FAILURES:
            return super()._perform(name, key, args)
        if name == "mail":
            super()._perform(name, key, args)
            raise InDoubt("the answer was lost")
        raise ConnectionError("nobody answers")


class StubbornWorld(World):
    """A world whose tools fail at first."""

    tools = StubbornTools


# name: the program, how its tools and its journal are called, seconds that an effect takes
MODES: dict[str, tuple[str, str, float]] = {
    "sync": ("every", "inline", 0.001),
    "async": ("every", "loop", 0.001),
    "thread": ("every", "threads", 0.001),
    "parallel": ("wide", "threads", 0.002),
    "retry": ("stubborn", "threads", 0.001),
    "suspend": ("refund", "inline", 0.001),
    "items": ("lines", "inline", 0.001),
    "calls": ("calls", "loop", 0.001),
    "together": ("together", "threads", 0.002),
}


class RandomKills(Campaign):
    """Trials of one mode, killed by chance; `Campaign` drives each to its end, and judges it."""

    def __init__(self, spec: Mapping[str, Any], mode: str, chance: random.Random) -> None:
        program, calls, self.slowness = MODES[mode]
        self.chance = chance
        self.kind = mode
        self.kills: Counter[str] = Counter()
        folder = str(Path(spec["folder"], mode))
        self.span = 0.0
        super().__init__({**spec, "folder": folder, "program": program, "mode": calls})

    def counted(self, world: World, work: Callable[..., None], *args: Any) -> list[str]:
        """Time the run that nobody kills, too: moments are drawn from as long."""
        started = time.monotonic()
        points = super().counted(world, work, *args)
        self.span = time.monotonic() - started
        return points

    def world(self, name: str) -> World:
        folder = self.folder / name
        folder.mkdir(parents=True)
        texts = {"wide": WIDE, "stubborn": STUBBORN}
        make = StubbornWorld if self.name == "stubborn" else World
        world = make(folder, "every" if self.name in texts else self.name, self.mode, self.shelf)
        if self.name in texts:
            world.program, world.inputs = Program.from_yaml(texts[self.name]), {"n": 7}
        world.slowness = self.slowness
        return world

    def one_trial(self) -> None:
        """Begin a run and kill it; go on with it and kill that, up to four times; then two recover it at once."""
        world = self.world(f"{self.kind}-{self.trials}")
        hours = 0
        works: list[Callable[[], None]] = [lambda: world.begin(_pass)]
        for _ in range(self.chance.randint(0, 4)):
            hours += 1
            again = self.chance.choice((world.recover, world.finish))
            works.append(lambda again=again, hours=hours: again(hours, _pass))  # type: ignore[misc]
        for work in works:
            if self.killed_by_chance(world, work) == "ended":
                break
        before = len(self.faults)
        self.race(world, hours + 1)
        self.end(world, hours + 2, world.folder.name)
        if len(self.faults) == before:
            shutil.rmtree(world.folder)

    def killed_by_chance(self, world: World, work: Callable[[], None]) -> str:
        """Do some work in a process that is killed at some moment, and return the kind of the last record then."""
        pid = forked(world.folder, work)
        time.sleep(self.chance.uniform(0, self.span))
        os.kill(pid, signal.SIGKILL)  # the number is its own until somebody has waited for it
        status = waited_for(pid)
        last = last_record(world)
        if status == -signal.SIGKILL:
            self.kills[last] += 1
        elif status:
            self.faults.append(f"{world.folder.name}: {why_failed(world.folder)}")
        return last

    @property
    def under_way(self) -> int:
        """How many kills came while the run was under way: it had started, and had not ended."""
        return self.kills.total() - self.kills[""] - self.kills["ended"]


def _pass(point: str) -> None:
    """Let a point go by: here nobody counts them."""


def last_record(world: World) -> str:
    """Return the kind of the last record that a killed process left; empty where there is no run."""
    if not (world.folder / "runs.db").exists():
        return ""
    with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
        records = records_of(journal)
    return str(records[-1]["kind"]) if records else ""


def main() -> None:
    gc.freeze()
    spec = json.loads(sys.argv[1])
    chance = random.Random(spec["seed"])
    campaigns = {mode: RandomKills(spec, mode, chance) for mode in spec.get("modes", MODES)}
    share = -(-spec["kills"] // len(campaigns))
    for campaign in campaigns.values():
        while campaign.under_way < share and len(campaign.faults) < 20 and not campaign.has_enough:
            campaign.one_trial()
    said = {
        mode: {"trials": one.trials, "under_way": one.under_way, "kills": one.kills, "faults": one.faults}
        for mode, one in campaigns.items()
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
