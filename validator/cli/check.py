"""`stepward check`: the gate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.output import print_error, refuse_two_configurations, uses_color, write_output
from stepward.validator.cli.ranges import FILE, FileName, Real
from stepward.validator.cli.written import OverwriteError, Written, refuse_all
from stepward.validator.report import FORMATS, OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepward.validator.failures import Failures
    from stepward.validator.gate.cache import Cache
    from stepward.validator.gate.settings import Configurations
    from stepward.validator.report import Format
    from stepward.validator.result import RunResult

FOUND, INTERNAL, NOTHING_TO_CHECK = 1, 2, 3

FORMAT = click.Choice([*FORMATS])


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The options of the command line. `outputs` are the files to write beside the report, by format."""

    paths: tuple[str, ...]
    output_format: str
    output_file: Path | None
    outputs: Mapping[str, Path]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    policies: tuple[Path, ...]
    fail_on: str | None
    time_limit: float | None
    no_recheck: bool
    exit_zero: bool
    fix: bool
    diff: bool
    baseline: Path | None
    write_baseline: Path | None
    witnesses: Path | None
    certificates: Path | None
    statistics: bool
    skip_non_programs: bool
    objects: tuple[str, ...]
    tools: str | None
    no_cache: bool
    stdin_filename: str | None
    config: Path | None
    isolated: bool

    @property
    def formats(self) -> list[Format]:
        """All formats that are asked for."""
        return [FORMATS[name] for name in (self.output_format, *self.outputs)]


def _output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each format that can be written beside the report."""
    for name in reversed(OUTPUTS):
        help = f"Write {FORMATS[name].title} there, beside the report."
        command = click.option(f"--{name}-output", cls=Written, type=FILE, metavar="FILE", help=help)(command)
    return command


@click.command()
@click.argument("paths", nargs=-1, type=FileName())
@click.option("--output-format", type=FORMAT, default="full", show_default=True, help="The format.")
@click.option(
    "--output-file", cls=Written, type=FILE, metavar="FILE", help="The file to write, instead of standard output."
)
@_output_options
@click.option("--select", multiple=True, metavar="CODES", help="Report these codes only: `SW401,SW5` (repeatable).")
@click.option("--ignore", multiple=True, metavar="CODES", help="Do not report these codes (repeatable).")
@click.option("--policy", "policies", type=FILE, multiple=True, metavar="FILE", help="A policy to apply (repeatable).")
@click.option(
    "--fail-on",
    metavar="LEVEL|CODES",
    help="What makes the check fail: `error`, `warning`, or codes or prefixes.  [default: error]",
)
@click.option(
    "--time-limit",
    type=Real(0, min_open=True),
    metavar="SECONDS",
    help="Stop the proofs of a program after this number of seconds.  [default: 60]",
)
@click.option("--no-recheck", is_flag=True, help="Skip the second checker, and report the proofs as not rechecked.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes to the files, then report the remaining findings.")
@click.option(
    "--diff",
    is_flag=True,
    help="Show what `--fix` would change, instead of a report. Exits with 1 if it would change something.",
)
@click.option("--baseline", type=FILE, metavar="FILE", help="Do not report the findings that this file lists.")
@click.option(
    "--write-baseline",
    cls=Written,
    type=FILE,
    metavar="FILE",
    help="Write the findings of this check to a baseline file.",
)
@click.option("--witnesses", type=FILE, metavar="DIR", help="Write a file for each violation, for `stepward replay`.")
@click.option("--certificates", type=FILE, metavar="DIR", help="Write a file for each proof, for `stepward recheck`.")
@click.option(
    "--statistics",
    is_flag=True,
    help="Count the findings by code, show the upper bounds of a run, and list skipped files, waivers and stale "
    "entries of the baseline.",
)
@click.option("--skip-non-programs", is_flag=True, help="Skip files that are not programs, even if they are named.")
@click.option(
    "--object", "objects", multiple=True, metavar="MODULE:NAME", help="Import a program from Python, and check it."
)
@click.option("--tools", metavar="MODULE", help="Import a module, and compare its functions with the manifest.")
@click.option(
    "--no-cache", is_flag=True, envvar="STEPWARD_NO_CACHE", help="Check every file again, and do not use the cache."
)
@click.option("--stdin-filename", metavar="NAME", help="The file name of standard input, if PATHS is `-`.")
@click.option("--config", type=FILE, metavar="FILE", help="Use this configuration for all files.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def check(**arguments: Any) -> None:
    """Check the programs in files and folders.

    PATHS are files and folders; without them the current folder is checked. `-` is standard input.

    Exit status: 0 no error was found, 1 at least one was, 2 the command or its configuration can't be used, 3 there is
    nothing to check.
    """
    outputs = {name: path for name in OUTPUTS if (path := arguments.pop(f"{name}_output")) is not None}
    options = CheckOptions(outputs=outputs, **arguments)
    _refuse_contradictions(options)
    if not options.objects and options.tools is None:
        # Programs need no pydantic plugin, and to search for one takes a tenth of a short check. An imported object
        # may have models that need one.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from contextlib import suppress

    from stepward.validator.cli.internal import print_failures, show_tracebacks
    from stepward.validator.failures import Failures
    from stepward.validator.gate.policies import policy_result
    from stepward.validator.result import AdvisedError, undecided
    from stepward.vm.errors import PolicyError

    try:
        result = _result(options)
    except PolicyError as error:
        result = policy_result(error)
        _print_report(result, options, Failures())
        assert result.error is not None, "nothing was decided"
        raise result.error from None
    except OverwriteError:
        raise
    except AdvisedError as error:
        if not options.diff:
            with suppress(AdvisedError):  # the first error matters more than a report that can't be written
                _print_report(undecided(error), options, Failures())
        raise
    result = replace(result, status=_status(result, options))
    failures = Failures(AdvisedError, click.ClickException, OSError)
    _print_report(result, options, failures)
    if options.witnesses is not None:
        from stepward.validator.cli.witnesses import write_witnesses

        write_witnesses(result, options.witnesses, failures)
    if options.certificates is not None:
        from stepward.validator.cli.certificates import write_certificates

        write_certificates(result, options.certificates, failures)
    for words in _not_checked(result.not_literal):
        click.echo(f"warning: {words}", err=True)
    if options.skip_non_programs and not result.programs and result.skipped:
        files = "1 file is" if result.skipped == 1 else f"{result.skipped:,} files are"
        click.echo(f"warning: nothing was checked: {files} no program", err=True)
    if result.status == NOTHING_TO_CHECK:
        print_nothing_to_check(options.paths, result)
    print_failures(failures.found)
    show_tracebacks((*result.failures, *failures.found))
    sys.exit(INTERNAL if failures.found else result.status)


def _not_checked(places: Iterable[str]) -> Iterator[str]:
    """Yield for each file which programs in it only exist when its code runs; a place is `file:line`."""
    for _, group in groupby(places, key=lambda place: place.rpartition(":")[0]):
        first, *others = group
        if others:
            words = f"`{first}` and {len(others)} more in this file are not checked: these programs are put together"
        else:
            words = f"`{first}` is not checked: this program is put together"
        yield f"{words} when the code runs; give {'each' if others else 'it'} with `--object module:NAME`"


def _result(options: CheckOptions) -> RunResult:
    """Return the result of the check, after the fixes of `--fix` or the diff of `--diff`."""
    configurations = _configurations(options)
    if options.certificates is not None:
        from stepward.validator.cli.certificates import certificates_folder

        certificates_folder(options.certificates)
    if options.fix or options.diff:
        _apply_fixes(options, configurations)
    return _run(options, configurations)


def _refuse_contradictions(options: CheckOptions) -> None:
    limit = options.time_limit
    if limit is not None and not 0 < limit < float("inf"):  # `nan` is not between them either
        raise click.UsageError("--time-limit is a number of seconds above 0")
    refuse_two_configurations(config=options.config, isolated=options.isolated)
    if options.statistics and not FORMATS[options.output_format].is_text:
        raise click.UsageError("--statistics is text; the JSON has its numbers under `summary`")
    files = [*([options.output_file] if options.output_file else []), *options.outputs.values()]
    if len({os.path.abspath(path) for path in files}) < len(files):
        raise click.UsageError("two reports can't be written to one file: give each its own name")
    if options.fix and options.diff:
        raise click.UsageError("--fix changes the files, --diff leaves them as they are: give one of the two")
    folders = options.witnesses or options.certificates
    if options.diff and (files or options.statistics or folders or options.write_baseline):
        raise click.UsageError("--diff prints a diff instead of the report, and writes nothing else")
    if (options.fix or options.diff) and "-" in options.paths:
        raise click.UsageError("--fix and --diff need files, and do not work on standard input")
    if options.stdin_filename and "-" not in options.paths:
        raise click.UsageError("--stdin-filename needs `-` among the paths")


def _apply_fixes(options: CheckOptions, configurations: Configurations) -> None:
    """Fix the files, or show the diff and exit."""
    from stepward.validator.cli.fix import fix, show_diff

    result = _run(replace(options, write_baseline=None, certificates=None), configurations)
    if options.fix:
        fix(result, configurations)
    elif result.programs or result.findings:
        sys.exit(show_diff(result, configurations))


def _configurations(options: CheckOptions) -> Configurations:
    from stepward.validator.gate.settings import (
        Configurations,
        Overrides,
        UnknownCodeError,
        checked_codes,
        checked_fail_on,
    )

    def codes(
        name: str, texts: tuple[str, ...], checked: Callable[[list[str]], tuple[str, ...]] = checked_codes
    ) -> tuple[str, ...] | None:
        codes_of_line = [code.strip() for text in texts for code in text.split(",") if code.strip()]
        if not texts:
            return None
        if not codes_of_line:
            raise click.UsageError(f"--{name} names no code")
        try:
            return checked(codes_of_line)
        except UnknownCodeError as error:
            raise click.UsageError(f"--{name}: {error.message}; {error.help}") from None

    overrides = Overrides(
        select=codes("select", options.select),
        ignore=codes("ignore", options.ignore),
        fail_on=None if options.fail_on is None else codes("fail-on", (options.fail_on,), checked_fail_on),
        baseline=options.baseline,
        policies=options.policies,
        time_limit=options.time_limit,
        recheck=False if options.no_recheck else None,
    )
    return Configurations(overrides, config=options.config, is_isolated=options.isolated)


def _run(options: CheckOptions, configurations: Configurations) -> RunResult:
    from stepward.validator.cli.loading import programs_in
    from stepward.validator.gate.checking import Run
    from stepward.vm.errors import PolicyError

    tools = None
    if options.tools is not None:
        from stepward.validator.cli.machine import load_tools
        from stepward.validator.gate.tool_module import ToolModule

        tools = ToolModule(load_tools(options.tools), options.tools)
    progress = _Progress()
    cache = None if options.no_cache else _cache(options, configurations)
    run = Run(
        configurations,
        skip_non_programs=options.skip_non_programs,
        with_bounds=options.statistics or any(one.has_bounds for one in options.formats),
        with_fixes=options.fix or options.diff or any(one.has_fixes for one in options.formats),
        certify=options.certificates is not None,
        on_file=progress.listener,
        cache=cache,
        tools=tools,
    )
    try:
        for name in options.objects:
            from stepward.validator.cli.objects import load_object

            run.check_object(load_object(name), name)
        paths = options.paths or ([] if options.objects else ["."])
        if "-" in paths:
            from stepward.vm.reading.limits import MAX_BYTES

            run.check_text(sys.stdin.buffer.read(MAX_BYTES + 1), options.stdin_filename)
        files = [path for path in paths if path != "-"]
        try:
            run.check_paths(files)
        except PolicyError:  # a report of it is written, too
            refuse_all(click.get_current_context(), configurations, programs_in(files, configurations))
            raise
        refuse_all(click.get_current_context(), configurations, run.files)
        return run.result(options.write_baseline)
    finally:
        progress.clear()
        if cache is not None:
            cache.close()


def _cache(options: CheckOptions, configurations: Configurations) -> Cache | None:
    """Return the cache beside the configuration of the current folder, or in that folder if it has none."""
    from stepward.validator.gate.cache import FOLDER, Cache
    from stepward.validator.gate.settings import ConfigurationError
    from stepward.validator.gate.version import version_digest

    folder = Path.cwd()
    try:
        source = None if options.config or options.isolated else configurations.above(folder).source
    except ConfigurationError:
        source = None  # maybe no file of this run uses that configuration
    return Cache.open((source.parent if source else folder) / FOLDER, version_digest)


class _Progress:
    """Shows on standard error which file is checked, if that is a terminal and there are many."""

    _AFTER = 20

    def __init__(self) -> None:
        self._count = 0
        is_terminal = sys.stderr.isatty()
        self.listener: Callable[[str], None] | None = self._show if is_terminal else None

    def _show(self, name: str) -> None:
        self._count += 1
        if self._count >= self._AFTER:
            click.echo(f"\r\x1b[K{self._count} files … {name[-60:]}", nl=False, err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._count >= self._AFTER:
            click.echo("\r\x1b[K", nl=False, err=True)


def _print_report(result: RunResult, options: CheckOptions, failures: Failures) -> None:
    from stepward.validator.report import render, safely_rendered

    color = options.output_file is None and uses_color()
    if options.statistics:
        from stepward.validator.report.statistics import render as render_statistics

        text = failures.attempt(
            "the statistics", lambda: render_statistics(result), lambda _: render(result, "concise", color=color)
        )
    else:
        text = safely_rendered(result, options.output_format, failures, color=color)
    if options.output_file is not None:
        write_output(options.output_file, text, "correct the path of `--output-file`")
    elif result.findings or result.error is None or not FORMATS[options.output_format].is_text:
        click.echo(text, nl=False, color=color)  # people see errors on standard error
    for name, path in options.outputs.items():
        text = safely_rendered(result, name, failures)
        write_output(path, text, f"correct the path of `--{name}-output`")


def _status(result: RunResult, options: CheckOptions) -> int:
    if result.failures:
        return INTERNAL
    if not result.programs and not result.findings:
        covers_folder = not options.paths or any(map(os.path.isdir, options.paths))
        return 0 if options.skip_non_programs and not covers_folder else NOTHING_TO_CHECK
    return FOUND if result.is_failed and not options.exit_zero else 0


def print_nothing_to_check(paths: Iterable[str], result: RunResult) -> None:
    """Say that there is no program in files and folders, and why."""
    where = ", ".join(paths) or "the current folder"
    if result.not_literal:
        help = "check a program, or a function that returns one, with `stepward check --object module:NAME`"
        print_error(f"nothing to check: what is in {where} is put together when the code runs", help)
        return
    if result.excluded:
        help = "remove the pattern from `exclude` or `extend-exclude`, or name another file"
        excluded = ", ".join(f"`{path}`" for path in result.excluded[:3]) + (", …" if len(result.excluded) > 3 else "")
        print_error(f"nothing to check: the configuration excludes {excluded}", help)
        return
    help = "a program is a mapping with a list of `steps`; see `stepward check --help`"
    print_error(f"nothing to check: there is no program in {where}", help)
