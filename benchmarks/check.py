"""What a check costs, as multiples of something everybody can run: `python benchmarks/check.py`.

Every figure is a ratio of CPU times that were taken in turns in this one run; README.md beside this file says what
each of them means.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from clock import collector, commands_take_turns, multiple, spread, take_turns
from peer import NOT_INSTALLED, peer_check
from shapes import SHAPES, Shape, chain
from stages import stages

from stepward.validator import ProgramValidator
from stepward.validator.context import Context
from stepward.validator.findings import Finding, Report
from stepward.validator.rules.registry import RULES
from stepward.vm import Program

SIZES = (1_000, 10_000, 100_000)
PEER_SIZES = (100, 500, 1_000, 10_000)
RULES_SHOWN = 5
STRUCTURAL = ("SW0", "SW1", "SW6")

Work = Callable[[str, Shape, int], object]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table."""
    options = _options(arguments)
    print(f"Python {platform.python_version()}, {platform.machine()}; CPU times as ratios, garbage collector off")
    growth("structural check", structural_check, options.sizes, options.rounds)
    growth("whole check", check, options.sizes, options.rounds)
    where_it_goes(max(options.sizes))
    with_the_collector(options.sizes, options.rounds)
    cold(options.cold_rounds)
    side_by_side(options.peer_sizes, options.rounds)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    def sizes(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=sizes, default=list(SIZES), help="steps of the programs, with commas")
    parser.add_argument(
        "--peer-sizes", type=sizes, default=list(PEER_SIZES), help="the same, side by side with the peer"
    )
    parser.add_argument("--rounds", type=int, help="rounds of every size instead of 25 to 3")
    parser.add_argument("--cold-rounds", type=int, default=15, help="rounds of the cold start")
    return parser.parse_args(arguments)


def _rounds(size: int, wanted: int | None) -> int:
    return wanted or (25 if size <= 1_000 else 9 if size <= 10_000 else 3)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column to the left and the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f"\n{title}")
    for row in (header, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())


def structural(program: Program) -> list[Finding]:
    """Return what the rules of shape, control flow and budget find: those that look at no data, as SW103 does."""
    return structural_findings(Context(program))


def structural_findings(context: Context) -> list[Finding]:
    """Return the same of a context, which may be asked for more afterwards."""
    rules = [rule for rule in RULES if rule.code.startswith(STRUCTURAL) and rule.code != "SW103"]
    return [finding for rule in rules for finding in rule().check(context)]


def structural_check(text: str, shape: Shape, n: int) -> Program:
    """Load a program and do the structural check, and see that it is clean and whole."""
    program = Program.from_json(text)
    assert structural(program) == []
    assert len(program.steps) == n
    assert shape.expected(n).conditions == [step.type for step in program.steps].count("condition")
    return program


def check(text: str, shape: Shape, n: int) -> Report:
    """Load a program and run every rule, and see that they looked at everything."""
    report = ProgramValidator(Program.from_json(text)).validate()
    codes = [finding.code for finding in report.findings if finding.code != "SW212"]  # nothing reads the notes of steps
    assert codes == (["SW201"] if "fault" in shape.name else [])
    assert len(report.properties) == shape.expected(n).conditions
    return report


def growth(title: str, work: Work, sizes: Sequence[int], rounds: int | None) -> None:
    """A check as a multiple of `json.loads` of the same text, and how that grows with the size."""
    rows = []
    for shape in SHAPES:
        multiples, per_step, cells = [], [], [shape.name]
        for size in sizes:
            text = json.dumps(shape.program(size))
            loads, ours = take_turns([_loads(text), _bound(work, text, shape, size)], _rounds(size, rounds))
            multiples.append(multiple(ours, loads))
            per_step.append(median(ours) / size)
            cells += [f"{multiples[-1]:.1f}", f"±{spread(ours, loads):.0%}"]
        cells += [f"{times[-1] / times[0]:.2f}" for times in (multiples, per_step)]
        rows.append(cells)
    header = ["shape", *(part for size in sizes for part in (f"{size:,} steps", "")), "growth", "per step"]
    table(f"{title}, as a multiple of json.loads of the same text", header, rows)


def _loads(text: str) -> Callable[[], object]:
    return lambda: json.loads(text)


def _bound(work: Work, text: str, shape: Shape, size: int) -> Callable[[], object]:
    return lambda: work(text, shape, size)


def where_it_goes(size: int) -> None:
    """The stages of one check of each shape, as multiples of `json.loads`; of the rules the dearest of each shape."""
    columns: list[dict[str, float]] = []
    for shape in SHAPES:
        text = json.dumps(shape.program(size))
        stages(json.dumps(shape.program(100)))
        (loads,) = take_turns([_loads(text)], 5)
        with collector(enabled=False):
            columns.append({name: seconds / median(loads) for name, seconds in stages(text).items()})
    rules = [{name: value for name, value in column.items() if name.startswith("SW")} for column in columns]
    shown = sorted({name for column in rules for name in sorted(column, key=column.__getitem__)[-RULES_SHOWN:]})
    names = [*(name for name in columns[0] if not name.startswith("SW")), *shown]
    rows = [[name, *(f"{column.get(name, 0):.2f}" for column in columns)] for name in names]
    others = [sum(column.values()) - sum(column.get(name, 0) for name in names) for column in columns]
    rows.append(["other rules", *(f"{value:.2f}" for value in others)])
    rows.append(["together", *(f"{sum(column.values()):.2f}" for column in columns)])
    header = ["stage", *(shape.name for shape in SHAPES)]
    table(f"where it goes, {size:,} steps, as multiples of json.loads (1 of them is json.loads itself)", header, rows)


def with_the_collector(sizes: Sequence[int], rounds: int | None) -> None:
    """The chain again with the garbage collector on, on both sides: what a library user pays."""
    shape, row = SHAPES[0], [SHAPES[0].name]
    for size in sizes:
        text = json.dumps(shape.program(size))
        work = [_loads(text), _bound(check, text, shape, size)]
        loads, ours = take_turns(work, _rounds(size, rounds), gc_enabled=True)
        row.append(f"{multiple(ours, loads):.1f}")
    header = ["shape", *(f"{size:,} steps" for size in sizes)]
    table("the same with the garbage collector on, on both sides", header, [row])


def cold(rounds: int) -> None:
    """A cold `stepward check` of ten steps beside the imports that a tool of this kind can't do without."""
    command = Path(sys.executable).with_name("stepward")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ten_steps.json"
        program.write_text(json.dumps(chain(10)), encoding="utf-8")
        off = "import gc; gc.disable(); "
        commands = {
            "python -c 'import networkx, pydantic'": [sys.executable, "-c", off + "import networkx, pydantic"],
            "stepward check ten_steps.json": [str(command), "check", "--no-cache", str(program)],
            "python -c pass": [sys.executable, "-c", off + "pass"],
        }
        if not command.exists() or not _has_command():
            print("\ncold start: the command is not installed")
            return
        times = commands_take_turns(list(commands.values()), rounds)
    rows = [
        [name, f"{median(seconds) * 1000:.0f} ms", f"{multiple(seconds, times[0]):.2f}"]
        for name, seconds in zip(commands, times, strict=True)
    ]
    table(f"cold start, CPU of a child process, median of {rounds}", ["command", "CPU", "of the imports"], rows)


def _has_command() -> bool:
    from stepward.validator import cli

    return hasattr(cli, "main")


def side_by_side(sizes: Sequence[int], rounds: int | None) -> None:
    """Our check, structural and whole, beside the peer's, from plain data, building the program included."""
    rows = []
    for shape in SHAPES[:3]:
        for size in sizes:
            data = shape.program(size)
            ours = [_structural(data), _ours(data, size)]
            theirs = peer_check(data, size)
            if isinstance(theirs, str):
                times = take_turns(ours, 3)
                cells = [f"{median(one) * 1000:.1f} ms" for one in times]
                rows.append([shape.name, f"{size:,}", *cells, theirs, "", ""])
                continue
            part, whole, other = take_turns([*ours, theirs], _rounds(size, rounds))
            cells = [f"{median(times) * 1000:.1f} ms" for times in (part, whole, other)]
            ratios = [f"{multiple(times, other):.2f}" for times in (part, whole)]
            rows.append([shape.name, f"{size:,}", *cells, *ratios])
    header = ["shape", "steps", "structural", "whole", "llm-nano-vm", "structural ratio", "whole ratio"]
    table("side by side with llm-nano-vm's ProgramValidator: from_dict and validate", header, rows)
    if peer_check(SHAPES[0].program(10), 10) == NOT_INSTALLED:
        print("(pip install 'stepward[peers]' for the other side)")


def _structural(data: dict[str, object]) -> Callable[[], object]:
    def work() -> object:
        program = Program.from_dict(data)
        assert structural(program) == []
        return program

    return work


def _ours(data: dict[str, object], size: int) -> Callable[[], object]:
    def work() -> object:
        program = Program.from_dict(data)
        report = ProgramValidator(program).validate()
        assert len(program.steps) == size
        assert report.ok
        return report

    return work


if __name__ == "__main__":
    main()
