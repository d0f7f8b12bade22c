"""A million adversarial events over the good programs: `python benchmarks/sabotage.py`.

An event is something that reached the machine or its store: a record, a call of a tool or model, a delivery, a change
by an attacker. The campaign goes round the programs until there are enough, then gives more to each attack that had too
few; the last column of its first table shows whether memory stays flat. Ends with an error when anything was breached.

The chaos mode of llm-nano-vm is a function of a benchmark in its repository, not of its package: given that file, it
runs here too. It counts orders, each of up to fifty events, that a stub within the file handles.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Final

from check import table

from stepward.sabotage.campaign import Matrix, Orders
from stepward.sabotage.invariants import Outcome
from stepward.sabotage.registry import ATTACKS
from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program

ROOT: Final = Path(__file__).parents[1]
EVENTS: Final = 1_000_000
EXAMPLES: Final = 100
LEAST: Final = 1_000
"""Events that each attack has at least, unless it enumerates."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack until there are enough events, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="how many events there are to be")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="cases of each attack and program in a round")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes to attack with")
    parser.add_argument("--chaos", type=Path, help="the file of llm-nano-vm with its chaos mode, to run beside")
    options = parser.parse_args(arguments)
    cores = os.cpu_count()
    print(f"Python {platform.python_version()}, {platform.machine()}, {cores} cores; {options.workers} workers")
    matrices = campaign(options.events, options.examples, options.workers)
    by_program(matrices)
    by_attack(matrices)
    total = sum(matrix.events for matrix, _ in matrices)
    seconds = sum(matrix.seconds for matrix, _ in matrices)
    breaches = sum(len(matrix.breaches) for matrix, _ in matrices)
    rate = total / seconds
    print(f"\n{total:,} events in {seconds:,.0f} s: {rate:,.0f} a second")
    if options.chaos is not None:
        orders = chaos(options.chaos)
        print(f"chaos mode of llm-nano-vm: {orders:,.0f} orders a second; ours is {rate / orders:.2f} of that")
    print(f"{breaches} breaches")
    assert not breaches, "a breach"
    assert total >= options.events, "too few events"


def campaign(events: int, examples: int, workers: int) -> list[tuple[Matrix, float]]:
    """Return the matrix of each program and round, with the memory of this process and its workers after it, in MB."""
    policies = [Policy.load(file) for file in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    files = sorted(file for file in (ROOT / "specs/programs/good").iterdir() if file.suffix in (".yaml", ".json"))
    found: list[tuple[Matrix, float]] = []
    seed = 0
    while sum(matrix.events for matrix, _ in found) < events:
        for file in files:
            if seed and sum(matrix.events for matrix, _ in found) >= events:
                break
            orders = Orders(seed=seed, examples=examples, workers=workers)
            began = time.monotonic()
            matrix = ProgramValidator(Program.load(file), policies).sabotage(orders)
            found.append((matrix, peak_megabytes()))
            took = time.monotonic() - began
            print(f"seed {seed} {matrix.program}: {matrix.events:,} events in {took:.0f} s", flush=True)
            for script in matrix.breaches:
                print(f"  BREACH {script.attack}: {script.what}")
        seed += 1
    while few := too_few(found):
        for file in files:
            orders = Orders(seed=seed, examples=examples, attacks=tuple(few), workers=workers)
            found.append((ProgramValidator(Program.load(file), policies).sabotage(orders), peak_megabytes()))
        print(f"seed {seed}: more of {', '.join(few)}", flush=True)
        seed += 1
    return found


def too_few(matrices: list[tuple[Matrix, float]]) -> list[str]:
    """Return the attacks that had too few events, and do not enumerate."""
    events: Counter[str] = Counter()
    for matrix, _ in matrices:
        events.update({row.attack.name: row.events for row in matrix.rows})
    return [attack.name for attack in ATTACKS if events[attack.name] < LEAST and not attack.enumerates]


def chaos(file: Path) -> float:
    """Return the orders a second that the chaos mode in a benchmark of llm-nano-vm says it did."""
    name = "nano_vm_chaos"
    spec = spec_from_loader(name, SourceFileLoader(name, str(file)))  # the file has no suffix
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    throughput: float = module.bench_12_chaos_mode().throughput
    return throughput


def peak_megabytes() -> float:
    """Return the largest memory that this process or one of its workers has had so far."""
    import resource

    scale = 1024 if platform.system() == "Linux" else 1024 * 1024
    own, others = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(own, others) / scale


def by_program(matrices: list[tuple[Matrix, float]]) -> None:
    """Print what each program came to, and how memory went."""
    rows = [
        [
            matrix.program,
            str(matrix.seed),
            f"{matrix.events:,}",
            f"{matrix.events / matrix.seconds:,.0f}",
            f"{peak:.0f}",
        ]
        for matrix, peak in matrices
    ]
    print()
    table("programs", ["program", "seed", "events", "events/s", "peak MB so far"], rows)


def by_attack(matrices: list[tuple[Matrix, float]]) -> None:
    """Print what each attack came to."""
    events: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    outcomes: dict[str, Counter[str]] = {attack.name: Counter() for attack in ATTACKS}
    for matrix, _ in matrices:
        for row in matrix.rows:
            events[row.attack.name] += row.events
            seconds[row.attack.name] += row.seconds
            outcomes[row.attack.name].update(row.outcomes)
    rows = []
    for attack in ATTACKS:
        counts = [f"{outcomes[attack.name][outcome]:,}" for outcome in Outcome]
        rows.append([attack.name, *counts, f"{events[attack.name]:,}", f"{seconds[attack.name]:.0f}"])
    print()
    table("attacks", ["attack", *(str(outcome).replace("_", " ") for outcome in Outcome), "events", "CPU s"], rows)


if __name__ == "__main__":
    main()
