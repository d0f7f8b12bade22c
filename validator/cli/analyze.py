"""`stepward analyze`: measures of runs, baselines of healthy ones, alarms where a fleet changes."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import MachineError, explained, format_option, open_journal
from stepward.validator.cli.output import json_of, uses_color, write_output
from stepward.validator.cli.ranges import FILE, Whole
from stepward.validator.cli.run_lists import since
from stepward.validator.cli.written import Written
from stepward.validator.files import why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepward.validator.dynamics.analysis import Fleet
    from stepward.validator.dynamics.baseline import Baseline
    from stepward.validator.dynamics.course import Course

ALARM, NOTHING = 1, 3

SQLITE: Final = b"SQLite format 3\x00"
"""The first bytes of a journal in a file."""

EXTRA: Final = "pip install 'stepward[analysis]'"

SPANS_NOTE: Final = "Of spans the state is the name of the span before."


@click.command()
@click.argument("runs", metavar="RUNS...", nargs=-1, required=True)
@click.option(
    "--learn", cls=Written, type=FILE, metavar="FILE", help="Take these runs for healthy, and write their baseline."
)
@click.option("--baseline", type=FILE, metavar="FILE", help="Compare the runs with this baseline of healthy ones.")
@click.option("--fail-on", type=click.Choice(["drift", "any"]), help="Exit with 1 on an alarm of this kind.")
@click.option("--program", metavar="NAME", help="Look only at the runs of this program.")
@click.option("--since", "start", metavar="TIME", help="Look only at runs that started at this time or later.")
@click.option("--family-by", metavar="NAME", help="The input (of spans: the attribute) that is the task family.")
@click.option("--window", type=Whole(min=1), default=50, show_default=True, help="Runs of a window.")
@click.option(
    "-o", "--output", cls=Written, type=FILE, metavar="FILE", help="Write a page (.html) or plots (.png), too."
)
@format_option
def analyze(runs: tuple[str, ...], output_format: str, **options: Any) -> None:
    """Measure how runs behave, and say since when they behave otherwise than healthy ones.

    RUNS are journals, or files with OpenTelemetry spans as JSON (OTLP). Runs that have not ended are left out.

    Exit status: 0 nothing that `--fail-on` names, 1 there is such an alarm, 2 the command can't be used, 3 there is no
    run to look at.
    """
    _check(options)
    start = None if options["start"] is None else since(options["start"], time.time())
    courses: list[Course] = []
    left_out, has_spans = 0, False
    for name in runs:
        found, missing, is_spans = _read(name, options["program"], start, options["family_by"])
        courses += found
        left_out, has_spans = left_out + missing, has_spans or is_spans
    if not courses:
        click.echo("error: nothing to analyze: there is no run that has ended", err=True)
        sys.exit(NOTHING)
    _require_family(courses, options["family_by"], has_spans=has_spans)
    from stepward.validator.dynamics.analysis import fleets_of

    fleets = fleets_of(courses)
    if options["learn"] is not None:
        _learn(fleets, options["learn"], output_format)
        return
    notes = [SPANS_NOTE] if has_spans else []
    notes += [f"{left_out} runs have not ended, and are left out."] if left_out else []
    _report(fleets, options, output_format, notes, left_out)


def _check(options: dict[str, Any]) -> None:
    """Raise UsageError for options that do not go together, MachineError where the extra is needed and missing."""
    learns, output = options["learn"] is not None, options["output"]
    if learns and (options["baseline"] is not None or output is not None):
        raise click.UsageError("--learn only writes a baseline: give it without --baseline and --output")
    if options["fail_on"] and options["baseline"] is None:
        raise click.UsageError("--fail-on needs --baseline; `stepward analyze RUNS --learn FILE` makes one")
    if output is not None and output.suffix not in (".html", ".png"):
        raise click.UsageError(f"--output: `{output}` ends neither in .html nor in .png")
    needs = learns or options["baseline"] is not None or (output is not None and output.suffix == ".png")
    if needs:
        require_analysis()


def require_analysis() -> None:
    """Raise MachineError if the extra `analysis` is not installed."""
    from stepward.validator.dynamics.analysis import is_installed

    if not is_installed():
        raise MachineError("baselines and PNG files need the extra `analysis`", f"install it: {EXTRA}")


def _require_family(courses: Sequence[Course], family_by: str | None, *, has_spans: bool) -> None:
    """Raise MachineError for an option that puts no run into a task family: it is misspelt."""
    if family_by is None or any(course.family for course in courses):
        return
    help = (
        "name an attribute of the spans"
        if has_spans
        else "name an input: `stepward runs show RUN` shows those of a run"
    )
    raise MachineError(f"`--family-by {family_by}` puts no run into a task family", help)


# -- runs --------------------------------------------------------------------------------------------------------------


def _read(name: str, program: str | None, start: float | None, family_by: str | None) -> tuple[list[Course], int, bool]:
    """Return the runs of a journal or a file, how many have not ended, and whether they are from spans."""
    if name.startswith(("postgresql://", "postgres://")) or _is_sqlite(name):
        return (*_of_journal(name, program, start, family_by), False)
    from stepward.validator.dynamics.spans import SpansRefused, courses_in

    help = "name a journal, or spans in OTLP as JSON"
    try:
        found = list(courses_in(Path(name).read_text(encoding="utf-8"), family_by))
    except OSError as error:
        raise MachineError(f"`{name}` can't be read: {why_not(error)}", "correct the path") from None
    except UnicodeDecodeError:
        raise MachineError(f"`{name}` is neither a journal nor a text", help) from None
    except SpansRefused as error:
        raise MachineError(f"`{name}` can't be used: {error}", help) from None
    chosen = [
        course
        for course in found
        if program in (None, course.program) and (start is None or course.started >= start * 1e6)
    ]
    return chosen, 0, True


def _is_sqlite(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _of_journal(name: str, program: str | None, start: float | None, family_by: str | None) -> tuple[list[Course], int]:
    from stepward.validator.dynamics.journals import courses_of

    with explained(), closing(open_journal(name)) as journal:
        rows = journal.rows(program=program, since=start)
        courses = list(courses_of(journal, rows, family_by))
    return courses, len(rows) - len(courses)


# -- results -----------------------------------------------------------------------------------------------------------


def _learn(fleets: Sequence[Sequence[Course]], file: Path, output_format: str) -> None:
    from stepward.validator.dynamics.baseline import BaselineRefused, baselines_text, learn
    from stepward.validator.report.text import counted, safe

    found: list[Baseline] = []
    skipped: list[str] = []
    for courses in fleets:
        try:
            found.append(learn(courses))
        except BaselineRefused as error:
            skipped.append(str(error))
    if not found:
        raise MachineError(f"there is no baseline to learn: {'; '.join(skipped)}", "name more healthy runs")
    write_output(file, baselines_text(found), "correct the path of `--learn`")
    if output_format == "json":
        learnt = [{"program": one.program, "family": one.family, "runs": one.runs} for one in found]
        click.echo(json_of({"version": 1, "learnt": learnt, "skipped": skipped}), nl=False)
        return
    for one in found:
        kinds = counted(len(one.kinds.weights), "kind")
        click.echo(f"`{safe(one.program)}`{f' ({safe(one.family)})' if one.family else ''}: {one.runs} runs of {kinds}")
    for why in skipped:
        click.echo(f"note: {safe(why)}")
    click.echo(f"`{file}` has {counted(len(found), 'baseline')}")


def _report(
    fleets: Sequence[Sequence[Course]], options: dict[str, Any], output_format: str, notes: list[str], left_out: int
) -> None:
    from stepward.validator.dynamics.analysis import analyzed
    from stepward.validator.report.dynamics import analysis_data, fleet_name, render_fleet

    baselines = {} if options["baseline"] is None else baselines_in(options["baseline"])
    found = [
        analyzed(courses, baselines.get((courses[0].program, courses[0].family)), options["window"])
        for courses in fleets
    ]
    if options["baseline"] is not None:
        notes += [f"There is no baseline of {fleet_name(one)}." for one in found if one.baseline is None]
    if output_format == "json":
        click.echo(json_of(analysis_data(found, left_out)), nl=False)
    else:
        from stepward.validator.report.text import safe

        color = uses_color()
        click.echo("\n".join(render_fleet(one, color=color) for one in found), nl=False, color=color)
        click.echo("".join(f"note: {safe(note)}\n" for note in notes), nl=False)
    if options["output"] is not None:
        _write(found, options["output"], notes)
    kinds = {"drift": {"drift"}, "any": {"drift", "outlier"}, None: set()}[options["fail_on"]]
    sys.exit(ALARM if any(alarm.kind in kinds for one in found for alarm in one.alarms) else 0)


def baselines_in(file: Path) -> dict[tuple[str, str], Baseline]:
    """Return the baselines in a file, by program and task family; raises MachineError."""
    from stepward.validator.dynamics.baseline import BaselineRefused, read_baselines

    help = "make it with `stepward analyze RUNS --learn FILE`"
    try:
        return {(one.program, one.family): one for one in read_baselines(file.read_text(encoding="utf-8"))}
    except OSError as error:
        raise MachineError(f"`{file}` can't be read: {why_not(error)}", help) from None
    except UnicodeDecodeError:
        raise MachineError(f"`{file}` is not UTF-8", help) from None
    except BaselineRefused as error:
        raise MachineError(f"`{file}` can't be used: {error}", help) from None


def _write(fleets: Sequence[Fleet], file: Path, notes: Sequence[str]) -> None:
    if file.suffix == ".png":
        from stepward.validator.dynamics.png import png

        write_output(file, png(fleets), "correct the path of `--output`")
        return
    from stepward.validator.review.dynamics import analysis_page

    write_output(file, analysis_page(fleets, notes), "correct the path of `--output`")
