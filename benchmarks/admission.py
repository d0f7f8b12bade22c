"""What the gate at the door costs: runs of example programs with and without `checker=check_program`.

    python benchmarks/admission.py            # half a minute; --rounds=1 is quicker

Each row is a process of its own, since what is loaded once counts for the first program that it checks. "Later" is the
median of batches that take turns, with and without, in that process.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time

import click
from check import table

from stepward.vm import ExecutionVM, Program, ScriptedModel
from stepward.vm.reading.files import read_file

PROGRAMS = Path(__file__).parents[1] / "specs/programs"
BATCH, BATCHES = 50, 15

INPUTS = {
    "password_reset": {"account_id": "ACC-000001", "customer_email": "ann@example.com"},
    "customer_refund": {
        "order_id": "ORD-000042",
        "request": "It came broken",
        "amount": 620,
        "customer_email": "ann@example.com",
    },
    "loan_decision": {
        "application_id": "LAP-000001",
        "amount": 9000,
        "term_months": 36,
        "purpose": "car",
        "employment": "permanent",
        "age": 41,
        "country": "DE",
        "statement": "a car for the way to work",
    },
}


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Processes for each row.")
def main(rounds: int) -> None:
    """Print a row for each program."""
    rows = []
    for name in INPUTS:
        command = [sys.executable, __file__, name]
        found = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds)]
        first, with_first, second, without, later = (median(column) for column in zip(*found, strict=True))
        cells = [f"{seconds * 1e3:.1f} ms" for seconds in (first, with_first, second)]
        rows.append([name, *cells, *(f"{seconds * 1e6:,.0f} µs" for seconds in (without, later))])
    header = [
        "",
        "first run, no checker",
        "with, checker not loaded",
        "with, loaded",
        "later, no checker",
        "later, with",
    ]
    table("a run with and without checker=check_program, CPU", header, rows)


def measure(name: str) -> list[float]:
    """Return the CPU seconds of first runs, and of later ones."""
    sys.path.insert(0, str(PROGRAMS))  # the tools import their neighbours
    tools = runpy.run_path(str(PROGRAMS / "tools.py"))
    program = Program.load(PROGRAMS / f"good/{name}.yaml")
    replies = PROGRAMS / f"replies/{name}.yaml"
    model = ScriptedModel(read_file(replies)[0].data if replies.exists() else {})

    def machine(checker: object) -> ExecutionVM:
        return ExecutionVM(tools, model, checker=checker)  # type: ignore[arg-type]

    def seconds(vm: ExecutionVM, runs: int = 1) -> float:
        start = process_time()
        for _ in range(runs):
            vm.run_sync(program, INPUTS[name])
        return (process_time() - start) / runs

    seconds(machine(None))  # imports, and the loop of this thread
    plain = machine(None)
    first = seconds(plain)
    start = process_time()
    from stepward.validator import check_program

    checked = machine(check_program)
    with_first = process_time() - start + seconds(checked)
    again = seconds(machine(check_program))
    turns = [(seconds(plain, BATCH), seconds(checked, BATCH)) for _ in range(BATCHES)]
    return [first, with_first, again, *(median(turn[side] for turn in turns) for side in (0, 1))]


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in INPUTS:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
