"""`stepward report`: the review page."""

from __future__ import annotations

import json
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import MachineError, explained, open_journal
from stepward.validator.cli.output import refuse_two_configurations, write_output
from stepward.validator.cli.ranges import FILE, FileName, Whole
from stepward.validator.cli.written import Written, refuse_all
from stepward.validator.files import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from stepward.validator.dynamics.analysis import Fleet
    from stepward.validator.dynamics.course import Course
    from stepward.validator.failures import Failures
    from stepward.validator.result import RunResult
    from stepward.validator.review.programs import ProgramView
    from stepward.validator.review.runs import RunsView, RunView
    from stepward.vm.journal.store import Journal, Row

FOUND, INTERNAL = 1, 2

MOST_MEASURED, LEAST_MEASURED, WINDOW = 300, 10, 25
"""The runs that ended last whose measures are shown, the fewest of a program for that, and the runs of a window."""


@click.command()
@click.argument("paths", nargs=-1, type=FileName(), required=True)
@click.option(
    "-o", "--output", cls=Written, type=FILE, default="report.html", show_default=True, help="The file to write."
)
@click.option("--policy", "policies", type=FILE, multiple=True, metavar="FILE", help="A policy to apply (repeatable).")
@click.option("--sabotage", type=FILE, metavar="FILE", help="Show a campaign: the JSON of `stepward sabotage`.")
@click.option("--journal", metavar="FILE", help="Show the runs of this journal, with measures and plots.")
@click.option("--records", type=Whole(min=0), default=20, show_default=True, metavar="N",
              help="Show the newest N runs step by step; 0 reads no records, and shows no measures.")  # fmt: skip
@click.option("--run", "chosen", multiple=True, metavar="RUN", help="Show this run step by step (repeatable).")
@click.option("--config", type=FILE, metavar="FILE", help="Use this configuration for all files.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def report(paths: tuple[str, ...], output: Path, **options: Any) -> None:
    """Write a page for review: programs, findings, proofs, and the runs that show violations.

    The page is one file. It needs no network and shows no sensitive value of a run. Exits like `stepward check`: with 1
    if the gate fails, with 2 if the page can't be made, with 3 if there is no program.
    """
    from stepward.validator.cli.loading import configurations_of
    from stepward.validator.failures import Failures
    from stepward.validator.gate.checking import Run as Gate
    from stepward.validator.report.text import counted
    from stepward.validator.review.page import page
    from stepward.vm.errors import StepwardError

    refuse_two_configurations(config=options["config"], isolated=options["isolated"])
    if options["chosen"] and options["journal"] is None:
        raise click.UsageError("--run is for the runs of a journal; name it with --journal")
    failures = Failures(StepwardError, click.ClickException)
    configurations = configurations_of(options)
    gate = Gate(configurations)
    gate.check_paths(paths)
    refuse_all(click.get_current_context(), configurations, gate.files)
    result = gate.result()
    views = [view for file in result.files for view in views_of(file, result, options, failures)]
    text = page(
        views,
        others=_others(result, views),
        sabotage=None if options["sabotage"] is None else _campaign(options["sabotage"]),
        runs=None if options["journal"] is None else _runs(options),
        measures=None if options["journal"] is None else _measures(options),
    )
    write_output(output, text, "correct the path of `-o`")
    counts = f"{counted(len(views), 'program')} and {counted(len(result.findings), 'finding')}"
    click.echo(f"`{output}` has {counts}")
    found = [*result.failures, *failures.found]
    if found:
        from stepward.validator.cli.internal import print_failures

        print_failures(found)
        sys.exit(INTERNAL)
    if not result.programs and not result.findings:
        from stepward.validator.cli.check import NOTHING_TO_CHECK, print_nothing_to_check

        print_nothing_to_check(paths, result)
        sys.exit(NOTHING_TO_CHECK)
    sys.exit(FOUND if result.is_failed else 0)


def views_of(file: str, result: RunResult, options: dict[str, Any], failures: Failures) -> Iterator[ProgramView]:
    """Yield what a page shows of each program in a file; a check has said what is wrong with those that are none."""
    from stepward.validator.cli.loading import gate_of
    from stepward.validator.files import absolute
    from stepward.validator.gate.discovery import Candidate, read_candidate
    from stepward.validator.review.programs import view_of
    from stepward.vm.errors import DocumentError
    from stepward.vm.language.program import Program

    documents = read_candidate(Candidate(absolute(file), is_named=False)).documents
    for document in documents:
        try:
            program = Program.from_document(document)
        except DocumentError:
            continue
        # Findings do not say which program of a file they are of, and a check of one program alone lacks those that
        # need all: so a file with one program has the findings of the whole check, and is not checked again.
        alone, own = gate_of(options), result
        if len(documents) == 1:
            policies = alone.policies_of(program)
        else:
            policies = alone.check_program(program)
            own = alone.result()
        findings = [one for one in own.findings if one.file == file]
        properties = [one for one in own.properties if one.file == file]
        yield view_of(program, policies, file, findings, properties, failures)


def _others(result: RunResult, views: list[ProgramView]) -> list[dict[str, str]]:
    """Return the findings that no program on the page has: of files that are no program, of policies, of baselines."""
    drawn = {view.file for view in views}
    return [
        {"file": one.file, "code": one.code, "message": one.message, "help": one.help}
        for one in result.findings
        if one.file not in drawn
    ]


KNOWN_VERSIONS: Final = (1, 2)
"""The versions of the JSON of a campaign that have what the page shows."""


def _campaign(file: Path) -> Mapping[str, Any]:
    """Return the result of a campaign; raises MachineError for a file that is none."""
    help = "make it with `stepward sabotage PROGRAM --output-format json --output-file FILE`"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MachineError(f"`{file}` can't be read: {why_not(error)}", help) from None
    except (ValueError, RecursionError):
        raise MachineError(f"`{file}` is no JSON", help) from None
    if not _is_campaign(data):
        raise MachineError(f"`{file}` is no result of a campaign", help)
    campaign: Mapping[str, Any] = data
    return campaign


def _is_campaign(data: Any) -> bool:
    """Return whether data has what the page shows of a campaign."""

    def has(value: Any, *names: str) -> bool:
        return isinstance(value, dict) and value.keys() >= set(names)

    return (
        has(data, "version", "program", "seed", "attacks", "summary")
        and data["version"] in KNOWN_VERSIONS
        and has(data["summary"], "ran", "attacks", "breaches", "cases", "events")
        and isinstance(data["attacks"], list)
        and all(
            has(one, "name", "family", "outcome", "cases", "events", "why_not", "breach")
            and (one["breach"] is None or has(one["breach"], "invariant", "what"))
            for one in data["attacks"]
        )
    )


def _runs(options: dict[str, Any]) -> RunsView:
    """Return the list of all runs, from the table of the journal, and the records of the newest or the named ones."""
    from stepward.validator.review.runs import RunsView, chain_views, row_of
    from stepward.validator.runs.chains import chain_of

    with explained(), closing(open_journal(options["journal"])) as journal:
        rows = journal.rows()[::-1]
        newest = [row.run for row in rows[: options["records"]]]
        shown: dict[str, RunView] = {}
        for name in dict.fromkeys((*options["chosen"], *newest)):
            if name not in shown:
                shown |= {view.id: view for view in chain_views(chain_of(journal, name))}
        return RunsView(tuple(map(row_of, rows)), tuple(shown.values()))


def _measures(options: dict[str, Any]) -> Element | None:
    """Return the section of the measures, None where no program has runs enough, or no records are to be read."""
    from stepward.validator.review.dynamics import measures_section

    if not options["records"]:
        return None
    with explained(), closing(open_journal(options["journal"])) as journal:
        fleets = _fleets(journal, journal.rows()[::-1])
    return measures_section(fleets) if fleets else None


def _fleets(journal: Journal, newest: Sequence[Row]) -> tuple[Fleet, ...]:
    """Return the analysis of the runs that ended last, without a baseline; damaged runs are left out."""
    from stepward.validator.dynamics.analysis import analyzed, fleets_of
    from stepward.validator.dynamics.journals import courses_of
    from stepward.vm.journal.store import JournalError
    from stepward.vm.machine.events import UNFINISHED

    courses: list[Course] = []
    for row in [row for row in newest if row.status not in UNFINISHED][:MOST_MEASURED]:
        with suppress(JournalError):  # `verify` says what is wrong with it
            courses += courses_of(journal, [row], None)
    return tuple(analyzed(one, None, WINDOW) for one in fleets_of(courses) if len(one) >= LEAST_MEASURED)
