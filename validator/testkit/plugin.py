"""The plugin for pytest: fixtures, and coverage of programs by the runs of a test suite. pytest loads it by itself.

The fixtures cost nothing until a test asks for them. With `--stepward-coverage PROGRAM`, pytest says at its end what no
run of a bench has taken of this program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepward.testing.bench import Bench
    from stepward.testing.fakes import FakeClock
    from stepward.validator.coverage import Coverage, RunCoverage
    from stepward.vm.language.program import Program
    from stepward.vm.machine.run import Run


class Collector:
    """Collects what runs have taken of their programs; `programs` are those to report on, with their files."""

    def __init__(self, programs: Sequence[tuple[str, Program]]) -> None:
        self.programs = programs
        self.runs: list[RunCoverage] = []

    def add(self, run: Run) -> None:
        """Let a run count, also one that no bench made."""
        from stepward.validator.coverage import taken_by

        if self.programs:
            self.runs.append(taken_by(run.trace))

    def results(self) -> list[Coverage]:
        """Return the coverage of each program."""
        from stepward.validator.coverage import coverage_by

        return [coverage_by(program, self.runs, file) for file, program in self.programs]


_COLLECTOR: pytest.StashKey[Collector] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("stepward", "coverage of Stepward programs")
    group.addoption(
        "--stepward-coverage",
        action="append",
        default=[],
        metavar="PROGRAM",
        help="say at the end what no run has taken of this program (repeatable)",
    )
    group.addoption(
        "--stepward-fail-under",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="fail if a program of --stepward-coverage is covered by less",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the programs of `--stepward-coverage`; raises pytest.UsageError for a file that has none."""
    config.stash[_COLLECTOR] = Collector(_programs(config.getoption("--stepward-coverage")))


def _programs(files: Sequence[str]) -> list[tuple[str, Program]]:
    if not files:
        return []
    from stepward.vm.errors import DocumentError
    from stepward.vm.language.program import Program
    from stepward.vm.machine.plan import Plan

    found = []
    try:
        for file in files:
            found += [(file, program) for program in Program.load_all(file)]
        for _, program in found:
            Plan(program)
    except (OSError, DocumentError) as error:
        raise pytest.UsageError(f"--stepward-coverage: {error}") from None
    return found


@pytest.fixture
def stepward_coverage(pytestconfig: pytest.Config) -> Collector:
    """What `--stepward-coverage` counts: `stepward_coverage.add(run)` lets a run of any machine count."""
    return pytestconfig.stash[_COLLECTOR]


@pytest.fixture
def stepward_bench(stepward_coverage: Collector) -> Callable[..., Bench]:
    """Return a function that makes a Bench; its arguments are those of `stepward.testing.Bench`."""
    from stepward.testing.bench import Bench

    def make(*given: Any, **options: Any) -> Bench:
        return Bench(*given, **{"on_run": stepward_coverage.add, **options})

    return make


@pytest.fixture
def stepward_clock() -> FakeClock:
    """Return a FakeClock, for a machine that a test makes by itself."""
    from stepward.testing.fakes import FakeClock

    return FakeClock()


# -- the report at the end ---------------------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of pytest-xdist has collected."""
    from stepward.validator.coverage import CoverageItem, RunCoverage

    collector = node.config.stash[_COLLECTOR]
    for program, ways in getattr(node, "workeroutput", {}).get("stepward", ()):
        collector.runs.append(RunCoverage(program, frozenset(CoverageItem(*way) for way in ways)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what this worker of pytest-xdist has collected; elsewhere, fail below `--stepward-fail-under`."""
    config = session.config
    collector = config.stash[_COLLECTOR]
    if hasattr(config, "workeroutput"):
        config.workeroutput["stepward"] = [
            [run.program, [list(way) for way in sorted(run.ways)]] for run in collector.runs
        ]
    elif session.exitstatus == pytest.ExitCode.OK and _below(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the coverage of each program."""
    collector = config.stash[_COLLECTOR]
    if not collector.programs:
        return
    from stepward.validator.report.coverage import render

    terminalreporter.section("stepward coverage")
    for result in collector.results():
        terminalreporter.write_line(render(result))
    for result in _below(config):
        terminalreporter.write_line(f"ERROR: `{result.program}` is covered by less than {_least(config):g} %", red=True)


def _below(config: pytest.Config) -> list[Coverage]:
    return [result for result in config.stash[_COLLECTOR].results() if result.percent < _least(config)]


def _least(config: pytest.Config) -> float:
    least: float = config.getoption("--stepward-fail-under")
    return least
