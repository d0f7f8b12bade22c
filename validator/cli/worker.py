"""`stepward worker`: drives the runs of a journal that are due."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.held import break_option
from stepward.validator.cli.machine import (
    LEASE,
    MachineError,
    driving_options,
    explained,
    load_means,
    load_policies,
    open_journal,
    policy_options,
)
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE, FileName, Real, Whole

if TYPE_CHECKING:
    from stepward.validator.cli.machine import Means
    from stepward.validator.cli.worker_status import Log
    from stepward.validator.dynamics.guard import DriftGuard
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.plan import Plan
    from stepward.vm.machine.worker import Worker

LOOK: Final = 30.0
"""Seconds between two looks for drift."""


@click.command()
@click.option(
    "--journal",
    required=True,
    metavar="URL",
    help="The journal: a SQLite file, or `postgresql://…`; it is made if new.",
)
@click.option(
    "--programs",
    "folder",
    required=True,
    type=FileName(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder with the programs whose runs are driven; it is read once, at the start.",
)
@driving_options
@break_option
@click.option("--baseline", type=FILE, metavar="FILE", help="Open the breaker of a program whose runs drift from this.")
@click.option("--family-by", metavar="NAME", help="The input that is the task family, as for `stepward analyze`.")
@policy_options
@click.option("--at-once", type=Whole(1), default=4, show_default=True, metavar="N", help="Drive N runs at once.")
@click.option(
    "--poll",
    type=Real(0.05, 30),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two looks for runs that are due.",
)
@click.option(
    "--lease",
    type=Real(1, 86_400),
    default=LEASE,
    show_default=True,
    metavar="SECONDS",
    help="How long a run stays with a worker that shows no sign of life.",
)
@click.option(
    "--grace",
    type=Real(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls under way may take when the worker is to end.",
)
@click.option("--once", is_flag=True, help="End when nothing is due any more.")
@click.option(
    "--status-port",
    type=Whole(0, 65_535),
    metavar="PORT",
    help="Serve `/health` and `/metrics` on this port of the loopback interface (0: any free one).",
)
def worker(folder: Path, **options: Any) -> None:
    """Drive the runs of a journal that are due.

    A run is due when it was written by `stepward run --queue`, when its delay is over, or when its driver has crashed.
    Any number of workers may share a journal: each run is driven by one at a time. Runs of programs that are not in
    DIR, or that differ there, are left alone. The log is on standard output, one JSON object a line, without values.

    SIGTERM and Ctrl-C end the worker: calls under way come back, and other workers go on with its runs.

    Exit status: 0 it was ended, or nothing is due any more; 2 it can't be used, or with --once the journal failed.
    """
    gc.enable()  # unlike a check, a worker lasts
    from stepward.validator.cli.worker_status import standard_log, status_served
    from stepward.vm.machine.worker import Pace, Worker

    log = standard_log()
    with explained(), ExitStack() as stack:
        policies = load_policies(options)
        plans = _plans(folder, options, policies)
        means = load_means(options)
        _require_tools(means, plans)
        journal = stack.enter_context(closing(open_journal(options["journal"], create=True)))
        machine = means.machine(journal, policies, lease_seconds=options["lease"])
        programs: dict[str, frozenset[str]] = {}
        for plan in plans:
            name = plan.program.name
            programs[name] = programs.get(name, frozenset()) | {plan.digest}
        pace = Pace(options["at_once"], options["poll"], options["grace"])
        driving = Worker(machine, programs, log, pace)
        guard = _guard(journal, options, plans)
        status: dict[str, int] = {}
        if options["status_port"] is not None:
            with _port_explained(options["status_port"]):
                status["status_port"] = stack.enter_context(status_served(options["status_port"], driving.counts))
        log("started", {"pid": os.getpid(), "programs": sorted(programs), **status})
        with redirect_stdout(sys.stderr):  # output of a tool is no part of the log
            asyncio.run(_work(driving, guard, log, once=options["once"]))
        machine.let_go()  # tools that were interrupted end with this process
        log("ended", {"taken": driving.counts.taken})


async def _work(worker: Worker, guard: DriftGuard | None, log: Log, *, once: bool) -> None:
    """Let a worker work until it is to end, by a signal or because nothing is due, and a guard look at its runs."""
    loop, stop, done = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    guarding = None if guard is None else asyncio.create_task(_watch(guard, log, stop, done))
    try:
        await worker.work(stop, once=once)
    finally:
        done.set()
        if guarding is not None:
            await guarding


async def _watch(guard: DriftGuard, log: Log, stop: asyncio.Event, done: asyncio.Event) -> None:
    """Let a guard look every LOOK seconds, and once more when nothing is due any more."""
    from stepward.vm.journal.store import JournalError

    while not done.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), LOOK)
        if stop.is_set():
            return
        try:
            opened = await asyncio.to_thread(guard.look, time.time())
        except JournalError:
            log("store_failed", {"for": "drift"})
            continue
        for switch in opened:
            log("opened", {"breaker": switch.name, "why": switch.why})


def _guard(journal: Journal, options: dict[str, Any], plans: list[Plan]) -> DriftGuard | None:
    """Return what opens breakers for drift, or None if there are no baselines; raises MachineError."""
    if options["baseline"] is None:
        if options["family_by"] is not None:
            raise click.UsageError("--family-by is for --baseline")
        return None
    from stepward.validator.cli.analyze import baselines_in, require_analysis
    from stepward.validator.dynamics.guard import DriftGuard

    require_analysis()
    inputs = sorted({name for plan in plans for name in plan.inputs})
    if options["family_by"] not in (None, *inputs):
        help = f"they have {', '.join(f'`{name}`' for name in inputs) or 'none'}"
        raise MachineError(f"`--family-by {options['family_by']}` is no input of the programs", help)
    return DriftGuard(journal, baselines_in(options["baseline"]), options["family_by"])


def _plans(folder: Path, options: dict[str, Any], policies: list[Policy]) -> list[Plan]:
    """Return the programs in a folder, ready to run; raises MachineError for one that can't be run."""
    from stepward.validator.cli.loading import configurations_of
    from stepward.validator.files import shown_name
    from stepward.validator.gate.discovery import find_candidates, read_candidate
    from stepward.vm.errors import DocumentError
    from stepward.vm.language.program import Program
    from stepward.vm.language.within import applying
    from stepward.vm.machine.plan import Plan

    plans = []
    for candidate in find_candidates([folder], configurations_of(options)):
        contents = read_candidate(candidate)
        try:
            if contents.error is not None:
                raise contents.error
            for program in map(Program.from_document, contents.documents):
                plans.append(Plan(program, applying(program, policies)))
        except DocumentError as error:
            name, problem = shown_name(candidate.path), error.problems[0]
            message = f"`{name}` can't be run: {problem.code} {problem.message}"
            raise MachineError(message, f"`{command('check', name)}` says more") from None
    if not plans:
        raise MachineError(f"there is no program in `{folder}`", "name the folder with the programs of the runs")
    return plans


def _require_tools(means: Means, plans: list[Plan]) -> None:
    """Raise MachineError if a tool or the model of a program is missing: its runs would be left alone unnoticed."""
    for plan in plans:
        means.require(plan)


@contextmanager
def _port_explained(port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = str(error.strerror).lower()
        raise MachineError(f"port {port} can't be used: {why}", "name another one with `--status-port`") from None
