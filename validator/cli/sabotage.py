"""`stepward sabotage`: attacks on the machine that runs a program, and their replay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import print_json, print_report
from stepward.validator.cli.output import json_of, print_error, progress_bar, refuse_two_configurations, uses_color
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE, Real, Whole
from stepward.validator.cli.real_tools import attack_real_tools, calls_real_tools
from stepward.validator.cli.written import Written
from stepward.validator.result import AdvisedError

if TYPE_CHECKING:
    from stepward.sabotage.campaign import Matrix, Orders, Progress
    from stepward.sabotage.campaigns.script import Script
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program

FORMATS: Final = ("text", "json", "junit")
BREACHED: Final = 1
UNCONFIRMED: Final = 3
NOT_ALL_RAN: Final = 4
DEFAULT_SECONDS: Final = 100.0
"""Seconds of a campaign without options for its length."""

SEEDS: Final = 2**32


class _Names(click.ParamType[tuple[str, ...]]):
    """Names, separated by commas."""

    name = "names"

    def __init__(self, what: str) -> None:
        self.what = what

    def known(self) -> tuple[str, ...]:
        from stepward.sabotage.attack import Family
        from stepward.sabotage.registry import ATTACK_BY_NAME

        return tuple(str(family) for family in Family) if self.what == "family" else tuple(ATTACK_BY_NAME)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        from difflib import get_close_matches

        names = tuple(name.strip().lower() for name in str(value).split(",") if name.strip())
        known = self.known()
        if not names:
            self.fail(f"the text names no {self.what}; there are: {', '.join(known)}", param, ctx)
        for name in names:
            if name not in known:
                near = get_close_matches(name, known, 1)
                mean = f"; did you mean `{near[0]}`?" if near else ""
                self.fail(f"there is no {self.what} `{name}`{mean} There are: {', '.join(known)}", param, ctx)
        return names


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option("--program", "name", metavar="NAME", help="The name of the program, if the file has several.")
@click.option("--policy", "policies", type=FILE, multiple=True, metavar="FILE", help="A policy to apply (repeatable).")
@click.option("--examples", type=Whole(1), help="The number of cases of each attack.  [default: 100]")
@click.option(
    "--time",
    "seconds",
    type=Real(0, min_open=True),
    help="Start no attack after this many seconds.  [default: 100, without --examples or --seed]",
)
@click.option(
    "--families", type=_Names("family"), metavar="NAMES", help="Run only these families, separated by commas."
)
@click.option("--attacks", type=_Names("attack"), metavar="NAMES", help="Run only these attacks, separated by commas.")
@click.option(
    "--no-specimens", is_flag=True, help="Attack only this program: no built-in program, nothing that attacks make."
)
@click.option(
    "--require-all", is_flag=True, help="Exit with 4 if an attack did not run, unless --no-specimens leaves it out."
)
@click.option("--seed", type=Whole(0, 1 << 64), help="Repeat the campaign that printed this seed.")
@click.option("--workers", type=Whole(1), default=1, help="The number of processes that run attacks.  [default: 1]")
@click.option("--dask", metavar="ADDRESS", help="Run attacks on the Dask cluster whose scheduler has this address.")
@click.option("--save", type=FILE, metavar="DIR", help="The folder for saved breaches.  [default: stepward-breaches]")
@click.option("--details", is_flag=True, help="Also print a row for each attack, and name those that did not run.")
@click.option("--output-format", type=click.Choice(FORMATS), default="text", help="The format of the report.")
@click.option("--output-file", cls=Written, type=FILE, metavar="FILE", help="Write the report there.")
@click.option("--replay", type=FILE, metavar="FILE", help="Only replay this saved breach.")
@click.option("--self-test", is_flag=True, help="Test the attacks: attack machines with a missing defence.")
@click.option("--tools", metavar="MODULE", help="With --call-real-tools: a module, or a .py file, with the tools.")
@click.option(
    "--call-real-tools", is_flag=True, help="Call the functions of --tools, without a network, and check their effects."
)
@click.option(
    "--probe",
    metavar="MODULE:FUNCTION",
    help="With --call-real-tools: a function that returns the state that the tools change.",
)
@click.option("--config", type=FILE, metavar="FILE", help="Use this configuration.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def sabotage(file: Path | None, **options: Any) -> None:
    """Attack the machine that runs a program.

    FILE is the program. The attacks run against the real machine and its real store. Each attack is tried in many
    generated cases, and an independent oracle judges the outcome. A breach is reduced to the smallest case, repeated in
    a new process, and saved.

    Exit status: 0 nothing broke, 1 something did, 2 the command can't be used, 3 something broke once and not again, 4
    an attack did not run (only with --require-all).
    """
    is_real = calls_real_tools(options)
    if options["dask"] is not None and options["workers"] > 1:
        raise click.UsageError("`--workers` is about processes of this machine: leave it out with `--dask`")
    if options["replay"] is not None:
        sys.exit(_replay(options["replay"], options))
    if options["self_test"]:
        sys.exit(_self_test(options))
    if file is None:
        raise click.UsageError("Missing argument 'FILE': name a program, or --replay, or --self-test.")
    _refuse_left_out(options)
    program, policies = _loaded(file, options)
    sys.exit(_call_tools(program, policies, options) if is_real else _attack(program, policies, options))


# -- a campaign --------------------------------------------------------------------------------------------------------


def _loaded(file: Path, options: dict[str, Any]) -> tuple[Program, list[Policy]]:
    """Return the program and the policies that the gate would check it under."""
    from stepward.validator.cli.loading import gate_of, load_program, refuse_configured
    from stepward.vm.errors import DocumentError

    refuse_two_configurations(config=options["config"], isolated=options["isolated"])
    refuse_configured(file, options)
    gate = gate_of(options)
    try:
        program = load_program(file, options["name"])
        return program, list(gate.check_program(program))
    except DocumentError as error:
        for problem in error.problems:
            click.echo(f"error: `{error.name}`: {problem.message}", err=True)
        raise AdvisedError(f"`{file}` can't be attacked", f"`{command('check', file)}` says what to fix") from None


def _refuse_left_out(options: dict[str, Any]) -> None:
    """Raise click.UsageError for an attack that is named, and that another option leaves out."""
    from stepward.sabotage.registry import ATTACK_BY_NAME

    own = [name for name in options["attacks"] or () if ATTACK_BY_NAME[name].draws]
    if own and options["no_specimens"]:
        raise click.UsageError(
            f"`{own[0]}` attacks what it makes itself, and not this program: leave it out with `--no-specimens`"
        )


def _seed(options: dict[str, Any]) -> int:
    """Return the seed of a campaign: the one of the option, or a new one."""
    import secrets

    seed: int | None = options["seed"]
    return secrets.randbelow(SEEDS) if seed is None else seed


def _orders(options: dict[str, Any]) -> Orders:
    from stepward.sabotage.attack import Family
    from stepward.sabotage.campaign import DEFAULT_EXAMPLES, Orders

    return Orders(
        seed=_seed(options),
        examples=options["examples"] or DEFAULT_EXAMPLES,
        seconds=_seconds(options),
        families=tuple(Family(name) for name in options["families"] or ()),
        attacks=options["attacks"] or (),
        workers=options["workers"],
        # Earlier breaches are tried first, unless the option asks for the same campaign again.
        database=None if options["seed"] is not None else ".stepward_cache/sabotage",
        specimens=not options["no_specimens"],
        drawn=not options["no_specimens"],
        dask=options["dask"],
    )


def _seconds(options: dict[str, Any]) -> float | None:
    if options["seconds"] is not None or options["examples"] is not None or options["seed"] is not None:
        seconds: float | None = options["seconds"]
        return seconds
    return DEFAULT_SECONDS


def _attack(program: Program, policies: list[Policy], options: dict[str, Any]) -> int:
    from stepward.sabotage.campaigns.cluster import ClusterRefused
    from stepward.sabotage.campaigns.shard import NoCases
    from stepward.validator.validator import ProgramValidator
    from stepward.vm.errors import ProgramError

    orders = _orders(options)
    try:
        with progress_bar("the gate looks for routes to each effect") as report_part:
            seen: Progress | None = report_part and (lambda shard, done, total: report_part(shard.attack, done, total))
            matrix = ProgramValidator(program, policies).sabotage(orders, progress=seen)
    except ProgramError as error:
        help = "`stepward check` says what to fix"
        raise AdvisedError(f"no machine can run `{program.name}`: {error.problems[0].message}", help) from None
    except ClusterRefused as error:
        raise AdvisedError(str(error), error.help) from None
    except NoCases as error:
        raise AdvisedError(str(error), "look at `pattern`, `minimum` and `maximum` of inputs and outputs") from None
    saved = _save(matrix, options["save"])
    _print_matrix(matrix, saved, options)
    if matrix.breaches:
        return BREACHED
    if matrix.unconfirmed:
        return UNCONFIRMED
    return _require_all(matrix, details=options["details"]) if options["require_all"] else 0


def _require_all(matrix: Matrix, *, details: bool) -> int:
    """Say which attacks `--require-all` misses, if any, and return the exit status."""
    from stepward.validator.report.text import counted

    missed = sum(not row.ran and not row.is_left_out for row in matrix.rows)
    if not missed:
        return 0
    help = "the report says why" if details else "`--details` says why"
    print_error(f"{counted(missed, 'attack')} did not run, and `--require-all` asks for all", help)
    return NOT_ALL_RAN


def _call_tools(program: Program, policies: list[Policy], options: dict[str, Any]) -> int:
    from stepward.sabotage.real.campaign import DEFAULT_EXAMPLES, Orders

    orders = Orders(_seed(options), options["examples"] or DEFAULT_EXAMPLES, options["seconds"])
    return attack_real_tools(program, policies, options, orders)


def _save(matrix: Matrix, folder: Path | None) -> dict[str, str]:
    """Write the script of each breach, and return the files by attack."""
    import re

    from stepward.validator.files import why_not
    from stepward.vm.writing import put

    if folder is None:
        folder = Path("stepward-breaches")
        if folder.is_symlink():
            raise AdvisedError(f"`{folder}` is a symbolic link", "remove it, or name a folder with `--save`")
    saved: dict[str, str] = {}
    try:
        for script in (*matrix.breaches, *matrix.unconfirmed):
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^A-Za-z0-9_]+", "_", matrix.program)[:60]
            file = folder / f"{name}-{script.attack}.json"
            put(file, script.to_json().encode())
            saved[script.attack] = str(file)
    except OSError as error:
        raise AdvisedError(f"`{folder}` can't be written to: {why_not(error)}", "name another with `--save`") from None
    return saved


def _print_matrix(matrix: Matrix, saved: dict[str, str], options: dict[str, Any]) -> None:
    from stepward.validator.report.matrix import to_data, to_junit, to_text

    formats: dict[str, Callable[[bool], str]] = {
        "json": lambda _: json_of(to_data(matrix, saved)),
        "junit": lambda _: to_junit(matrix),
        "text": lambda color: to_text(matrix, saved, details=options["details"], color=color),
    }
    print_report(formats[options["output_format"]], options["output_file"])


# -- a breach, again ---------------------------------------------------------------------------------------------------


def _replay(file: Path, options: dict[str, Any]) -> int:
    from stepward.sabotage.playing.choices import ScriptMisfit
    from stepward.validator.report.text import safe
    from stepward.vm.errors import DocumentError

    script = _script(file)
    try:
        outcome, breach, story = script.replay()
    except (ScriptMisfit, DocumentError) as error:
        help = "it was saved by another version, or edited: run the campaign again"
        raise AdvisedError(f"`{file}` can't be played: {error}", help) from None
    if options["output_format"] == "json":
        what = None if breach is None else {"invariant": breach.invariant.key, "what": breach.what}
        print_json({"version": 1, "attack": script.attack, "outcome": outcome, "breach": what, "story": list(story)})
    else:
        lines = [f"{number}. {line}" for number, line in enumerate(story, start=1)]
        verdict = f"{outcome}: {breach.what}" if breach is not None else f"{outcome}: the breach does not show any more"
        click.echo("".join(f"{safe(line)}\n" for line in [f"{script.attack}:", *lines, verdict]), nl=False)
    return BREACHED if breach is not None else 0


def _script(file: Path) -> Script:
    from stepward.sabotage.campaigns.script import Script, ScriptRefused
    from stepward.validator.files import why_not

    try:
        return Script.load(file)
    except OSError as error:
        raise AdvisedError(f"`{file}` can't be read: {why_not(error)}", "correct the path") from None
    except ScriptRefused as error:
        raise AdvisedError(str(error), "a campaign saves one for each breach, in the folder of `--save`") from None


def _self_test(options: dict[str, Any]) -> int:
    from stepward.sabotage.campaigns.selftest import alarms
    from stepward.validator.report.table import Column, render

    found = alarms()
    survived = [alarm for alarm in found if not alarm.went_off]
    if options["output_format"] == "json":
        print_json({"version": 1, "alarms": [alarm._asdict() for alarm in found], "survived": len(survived)})
    else:
        columns = [Column(name) for name in ("machine without", "attack", "alarm", "what it found")]
        rows = [
            [alarm.defence, alarm.attack, "went off" if alarm.went_off else "SILENT", alarm.what] for alarm in found
        ]
        click.echo(render(columns, rows, color=uses_color()), nl=False, color=uses_color())
        click.echo("every alarm went off" if not survived else f"{len(survived)} of {len(found)} alarms are silent")
    return BREACHED if survived else 0
