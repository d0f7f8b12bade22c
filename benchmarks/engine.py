"""What proofs cost: `python benchmarks/engine.py`. README.md beside this file says what the figures mean.

Every program is made by hard.py, with what is true of it; a verdict that is not true, or a violation without a
witness that the machine confirmed, ends the run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from check import structural, structural_findings, table
from clock import commands_take_turns, multiple, spread, take_turns
from hard import CASES, HARD, Hard, cases
from twins import TWINS

from stepward.validator import ProgramValidator
from stepward.validator.context import Context
from stepward.validator.findings import Property
from stepward.vm import Program

SIZES = {"diamonds with a hole": 40, "diamonds without": 40, "a flag copied": 1_000}
CORRELATED = (1_000, 10_000, 100_000)
TWIN_SIZES = (1_000, 3_000, 10_000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--twins", action="store_true", help="only the rules that are broken beside those that hold")
    options = parser.parse_args(arguments)
    beside_a_proof(options.rounds)
    if options.twins:
        return
    correlated(options.rounds)
    in_seconds(options.rounds)


def decided(hard: Hard, n: int) -> Property:
    """Return the verdict on the one guardrail of a program, once it was seen to be true."""
    context = Context(Program.from_dict(hard.program(n)))
    (found,) = [one for one in context.verdicts.properties if one.rule == "approved-first"]
    assert found.verdict.value in (hard.verdict, "unknown"), f"{hard.name}: {found.verdict} is not true"
    assert found.verdict.value != "violated" or found.evidence.witness is not None, "it has a witness"
    return found


def beside_a_proof(rounds: int) -> None:
    """The whole check of long programs with a rule that holds, and with one that is broken, beside the same without."""
    rows, commands = [], []
    for twins in TWINS:
        for size in TWIN_SIZES:
            plain = json.dumps(twins.program(size, breaks=True, has_rule=False))
            texts = [json.dumps(twins.program(size, breaks=breaks)) for breaks in (False, True)]
            verdicts = ("", "proved", "violated")
            turns = [_checked(text, verdict) for text, verdict in zip((plain, *texts), verdicts, strict=True)]
            base, proved, violated = take_turns(turns, rounds)
            cells = [f"{multiple(one, base):.2f} ±{spread(one, base):.0%}" for one in (proved, violated)]
            per_step = f"{median(base) / size * 1_000_000:.0f} µs"
            rows.append([f"{twins.name}, {size:,}", per_step, *cells])
            base, proved, violated = _commands((plain, *texts), rounds)
            cells = [f"{multiple(one, base):.2f} ±{spread(one, base):.0%}" for one in (proved, violated)]
            commands.append([f"{twins.name}, {size:,}", f"{median(base):.2f} s", *cells])
    title = "a rule that conditions have nothing to do with: the whole check, as a multiple of that without the rule"
    table(title, ["program, steps", "without, per step", "proved", "violated"], rows)
    title = "the same by the command `stepward check`, from a JSON file to the printed report"
    table(title, ["program, steps", "without", "proved", "violated"], commands)


def _commands(texts: Sequence[str], rounds: int) -> list[list[float]]:
    stepward = str(Path(sys.executable).with_name("stepward"))
    with TemporaryDirectory() as folder:
        commands = []
        for number, text in enumerate(texts):
            file = Path(folder) / f"{number}.json"
            file.write_text(text)
            commands.append([stepward, "check", "--no-cache", str(file)])
        return commands_take_turns(commands, rounds, allowed=(0, 1))


def _checked(text: str, verdict: str) -> Callable[[], object]:
    def work() -> None:
        report = ProgramValidator(Program.from_json(text)).validate()
        assert [one.verdict.value for one in report.properties if one.rule == "approved-first"] == [verdict] * bool(
            verdict
        )
        found = [one for one in report.findings if one.code == "SW401"]
        assert len(found) == (verdict == "violated")
        assert all(one.evidence is not None and one.evidence.witness is not None for one in found)

    return work


def correlated(rounds: int) -> None:
    """The guardrail of a long program with correlated conditions, beside loading and structural check of the same."""
    (hard,) = [one for one in HARD if one.name == "correlated conditions"]
    rows = []
    for size in CORRELATED:
        text = json.dumps(hard.program(size))
        base, ours = take_turns([_structural(text), _with_guardrail(text)], rounds)
        together = multiple(ours, base)
        rows.append([f"{size:,}", f"{together - 1:.2f}", f"{together:.2f}", f"±{spread(ours, base):.0%}"])
    title = "a guardrail, as a multiple of loading and structural check"
    table(title, ["steps", "by itself", "all together", ""], rows)


def _structural(text: str) -> Callable[[], object]:
    def work() -> None:
        assert structural(Program.from_json(text)) == []

    return work


def _with_guardrail(text: str) -> Callable[[], object]:
    def work() -> None:
        program = Program.from_json(text)
        context = Context(program)
        assert structural_findings(context) == []
        assert context.verdicts.outcomes == (), "it is proved"

    return work


def in_seconds(rounds: int) -> None:
    """CPU seconds of a process of its own, all imports included: what a user waits for."""
    rows = []
    for hard in HARD:
        if hard.name not in SIZES:
            continue
        size = SIZES[hard.name]
        found = decided(hard, size)
        script = f"import engine; engine.decided(engine.HARD[{HARD.index(hard)}], {size})"
        rows.append([f"{hard.name}, {size:,}", found.verdict.value, found.evidence.layer, _seconds(script, rounds)])
    for name in CASES:
        script = f"import engine; engine.covered({name!r})"
        rows.append([f"200 cases, {name}", *covered(name), _seconds(script, rounds)])
    rows.append(["the imports alone", "", "", _seconds("import engine", rounds)])
    table("CPU seconds of a process, imports included", ["program", "verdict", "layer", "seconds"], rows)


def covered(name: str) -> tuple[str, str]:
    """Return verdict and layer on the coverage of 200 cases."""
    context = Context(Program.from_dict(cases(200, name)))
    found, exclusive = (one.property for one in context.verdicts.conditions)
    assert found.verdict.value == exclusive.verdict.value == "proved", f"{name}: {found}"
    return found.verdict.value, found.evidence.layer


def _seconds(script: str, rounds: int) -> str:
    timed = f"import time; {script}; print(time.process_time())"
    command = [sys.executable, "-c", timed]
    folder = __file__.rsplit("/", 1)[0]
    # As for a user: what is imported is compiled already.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment).stdout)
        for _ in range(rounds + 1)
    ][1:]
    return f"{median(times):.2f}"


if __name__ == "__main__":
    main()
