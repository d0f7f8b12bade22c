"""The plugin for pytest: its fixtures, and what a suite has covered, also by workers of pytest-xdist (partly slow)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("warm")

PROGRAM = """
name: small
inputs: {n: {type: integer}}
steps:
  - {id: large, type: condition, condition: "$n > 5", then: big, otherwise: little}
  - {id: big, type: end, output: big}
  - {id: little, type: end, output: little}
"""
SUITE = """
from stepward.vm import ExecutionVM, Program

def test_big(stepward_bench):
    assert stepward_bench("small.yaml").run({"n": 6}).output == "big"

def test_clock(stepward_clock, stepward_coverage):
    machine = ExecutionVM(checker=None, clock=stepward_clock)
    run = machine.run_sync(Program.load("small.yaml"), {"n": N})
    stepward_coverage.add(run)
    assert stepward_clock.time > 0
"""


def write(folder: Path, second: int) -> list[str]:
    """Write a program and its tests, and return the options that make a session of its own of them."""
    (folder / "small.yaml").write_text(PROGRAM, encoding="utf-8")
    (folder / "test_small.py").write_text(SUITE.replace("N}", f"{second}}}"), encoding="utf-8")
    return ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", "/dev/null", "test_small.py"]


def run_pytest(folder: Path, *options: str, second: int = 7) -> tuple[int, str]:
    """Run the suite in a process of its own: what one imports in this process, the next would import again."""
    command = [sys.executable, "-m", "pytest", *write(folder, second), *options]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_fixtures_are_there_and_say_nothing_unless_asked(tmp_path: Path) -> None:
    status, text = run_pytest(tmp_path)
    assert (status, "2 passed" in text, "stepward coverage" in text) == (0, True, False), text


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_suite_says_what_it_has_not_taken(tmp_path: Path, workers: list[str]) -> None:
    status, text = run_pytest(tmp_path, "--stepward-coverage", "small.yaml", *workers)
    assert status == 0, text
    assert "coverage of `small` by 2 runs: 3 of 5 (60 %)" in text
    assert "small.yaml:5:77  `large` takes `otherwise`, to `little`" in text


def test_a_suite_may_take_all_of_it(tmp_path: Path) -> None:
    _, text = run_pytest(tmp_path, "--stepward-coverage", "small.yaml", second=1)
    assert "coverage of `small` by 2 runs: 5 of 5 (100 %)" in text


def test_a_suite_fails_below_the_bar(tmp_path: Path) -> None:
    options = ("--stepward-coverage", "small.yaml", "--stepward-fail-under")
    status, text = run_pytest(tmp_path, *options, "61")
    assert status == 1
    assert "ERROR: `small` is covered by less than 61 %" in text
    assert run_pytest(tmp_path, *options, "60")[0] == 0


def test_a_file_that_is_no_program_is_an_error_in_words(tmp_path: Path) -> None:
    status, text = run_pytest(tmp_path, "--stepward-coverage", "none.yaml")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "--stepward-coverage: " in text
    assert "Traceback" not in text
