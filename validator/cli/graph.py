"""`stepward graph`: a diagram of a program."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from stepward.validator.cli.machine import DEFAULT_JOURNAL, complete_runs, explained, open_journal
from stepward.validator.cli.output import refuse_two_configurations, write_output
from stepward.validator.cli.printed import command
from stepward.validator.cli.ranges import FILE, Whole
from stepward.validator.cli.written import Written, refuse_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepward.validator.analysis.facts import ProgramFacts
    from stepward.validator.diagram.marks import Marks, Walk
    from stepward.validator.diagram.picture import Picture
    from stepward.validator.failures import Failures
    from stepward.validator.findings import Finding
    from stepward.vm.errors import DocumentError
    from stepward.vm.language.program import Program

INTERNAL: Final = 2

FORMATS: Final = ("svg", "png", "dot", "mermaid")
SUFFIXES: Final = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}

DISTANCE: Final = 2


@click.command()
@click.argument("file", type=FILE, required=False)
@click.option(
    "--run",
    metavar="RUN",
    help="Draw the path of this run, and of the runs that continue it, instead of a program.",
    shell_complete=complete_runs,
)
@click.option("--journal", metavar="FILE", help="The journal of that run.  [default: runs.db]")
@click.option("-o", "--output", cls=Written, type=FILE, help="The file to write; its extension gives the format.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format.  [default: by the extension, or dot]"
)
@click.option("--program", "name", metavar="NAME", help="The name of the program, if the file has several.")
@click.option("--policy", "policies", type=FILE, multiple=True, metavar="FILE", help="A policy to apply (repeatable).")
@click.option("--witness", type=FILE, metavar="FILE", help="Draw the path of this witness.  [default: the first found]")
@click.option("--collapse", is_flag=True, help="Draw parallel steps, and chains without a branch, as one node each.")
@click.option("--around", metavar="STEP", help="Draw this step, and the steps near it.")
@click.option(
    "--distance",
    type=Whole(1),
    metavar="N",
    help="With --around: the number of steps before and after.  [default: 2]",
)
@click.option("--left-to-right", is_flag=True, help="Draw from left to right instead of from top to bottom.")
@click.option("--no-findings", is_flag=True, help="Do not check the program, and draw it without findings.")
@click.option("--config", type=FILE, metavar="FILE", help="Use this configuration.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def graph(file: Path | None, **options: Any) -> None:
    """Draw a program and its findings, or with `--run` what a run has done.

    Runs that continue one another are drawn as one, with the path of each through its program. Writes an SVG or PNG
    picture, or DOT or Mermaid text. Without -o it goes to standard output.
    """
    _refuse_contradictions(options)
    chosen = options["format_"] or _format_of(options["output"])
    if options["run"] is not None:
        _draw_chain(file, chosen, options)
        return
    if file is None:
        raise click.UsageError("name the file of a program, or a run of a journal with --run")
    program = _load(file, options["name"])
    _check_step(program, options["around"])
    from stepward.validator.diagram.drawing import draw
    from stepward.validator.failures import Failures
    from stepward.vm.errors import StepwardError

    failures = Failures(StepwardError, click.ClickException)
    facts, marks = _alone(program, options) if options["no_findings"] else _checked(program, file, options, failures)
    picture = _viewed(draw(facts, marks, is_brief=options["collapse"]), options)
    _write(_drawn(picture, chosen), options["output"])
    _note_parts(picture)
    if failures.found:
        from stepward.validator.cli.internal import print_failures

        print_failures(failures.found)
        sys.exit(INTERNAL)


_OF_PROGRAMS: Final = {
    "name": "--program",
    "policies": "--policy",
    "witness": "--witness",
    "around": "--around",
    "no_findings": "--no-findings",
}
"""Options that don't go with the picture of a run."""


def _draw_chain(file: Path | None, chosen: str, options: dict[str, Any]) -> None:
    """Draw a run and the runs of its chain."""
    unusable = [
        *(["PROGRAM"] if file is not None else []),
        *(_OF_PROGRAMS[one] for one in _OF_PROGRAMS if options[one]),
    ]
    if unusable:
        raise click.UsageError(f"--run draws what the journal has: leave {', '.join(unusable)} out")
    refuse_inputs(options["output"], "-o", [options["journal"] or DEFAULT_JOURNAL])
    with explained(), closing(open_journal(options["journal"] or DEFAULT_JOURNAL)) as journal:
        from stepward.validator.diagram.chains import draw_chain
        from stepward.validator.runs.chains import chain_of

        picture = _viewed(draw_chain(chain_of(journal, options["run"]), is_brief=options["collapse"]), options)
    _write(_drawn(picture, chosen), options["output"])
    _note_parts(picture)


def _refuse_contradictions(options: dict[str, Any]) -> None:
    if options["journal"] is not None and options["run"] is None:
        raise click.UsageError("--journal is for the picture of a run: name it with --run")
    refuse_two_configurations(config=options["config"], isolated=options["isolated"])
    if options["distance"] is not None and options["around"] is None:
        raise click.UsageError("--distance is for --around STEP: name the step, or leave --distance out")
    if options["no_findings"] and options["policies"]:
        raise click.UsageError("--policy is for a check, --no-findings leaves it out: give one of the two")


def _format_of(output: Path | None) -> str:
    if output is None:
        return "dot"
    if output.suffix not in SUFFIXES:
        raise click.UsageError(
            f"--output: `{output}` does not end in .svg, .png, .dot or .mmd; say which with --format"
        )
    return SUFFIXES[output.suffix]


def _viewed(picture: Picture, options: dict[str, Any]) -> Picture:
    """Return the part and the level of a picture that the options ask for."""
    from stepward.validator.diagram.around import around
    from stepward.validator.diagram.collapse import collapsed
    from stepward.validator.diagram.stubs import with_stubs

    picture = picture._replace(is_sideways=options["left_to_right"])
    if options["around"] is not None:
        picture = around(picture, options["around"], options["distance"] or DISTANCE)
    return with_stubs(collapsed(picture) if options["collapse"] else picture)


def _note_parts(picture: Picture) -> None:
    """Say that a diagram is in several parts, and which options draw less."""
    if picture.heads and not picture.is_brief:
        click.echo(f"note: the program is large, so its diagram has {len(picture.heads)} parts side by side", err=True)
        click.echo(
            "  = help: `--collapse` draws the first level, and `--around STEP` draws one step and its neighbours",
            err=True,
        )


def _drawn(picture: Any, format_: str) -> bytes:
    if format_ == "mermaid":
        from stepward.validator.diagram.mermaid import to_mermaid

        return to_mermaid(picture).encode()
    from stepward.validator.diagram.dot import to_dot
    from stepward.validator.diagram.rendering import render

    source = to_dot(picture)
    return source.encode() if format_ == "dot" else render(source, format_)


def _write(content: bytes, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()  # here a full disk is still reported
        return
    write_output(output, content, "correct the path of `-o`")


def _check_step(program: Program, step: str | None) -> None:
    """Refuse a step to draw around that the program does not have."""
    from stepward.validator.gate.settings import ConfigurationError, did_you_mean

    ids = [part.id for one in program.layout.steps for part in (one, *one.sub_steps) if part.type != "stage"]
    if step is not None and step not in ids:
        raise ConfigurationError(
            f"--around: program `{program.name}` has no step `{step}`",
            did_you_mean(step, ids, "leave `--around` out: the diagram shows all steps"),
        )


# -- the program -------------------------------------------------------------------------------------------------------


def _load(file: Path, name: str | None) -> Program:
    from stepward.validator.cli.loading import load_program
    from stepward.vm.errors import DocumentError

    try:
        return load_program(file, name)
    except DocumentError as error:
        _refuse(error, str(file), f"`{command('check', file)}` says where, and what to do")


def _refuse(error: DocumentError, file: str, help: str) -> NoReturn:
    for problem in error.problems:
        click.echo(f"error: `{file}`: {problem.message}", err=True)
    click.echo(f"  = help: {help}", err=True)
    sys.exit(2)


def _alone(program: Program, options: dict[str, Any]) -> tuple[ProgramFacts, Marks]:
    """Return the facts about the program, and the path of the witness as the only mark."""
    from stepward.validator.analysis.facts import ProgramFacts
    from stepward.validator.diagram.marks import Marks

    facts = ProgramFacts(program)
    return facts, Marks(walk=_walk(facts, options["witness"], ()))


def _checked(program: Program, file: Path, options: dict[str, Any], failures: Failures) -> tuple[ProgramFacts, Marks]:
    """Return the facts about the program under its policies, and the marks of a check with the same configuration.

    Where an internal error prevents the marks, `failures` records it, and there are none.
    """
    from stepward.validator.cli.loading import gate_of, refuse_configured
    from stepward.validator.context import Context
    from stepward.validator.diagram.marks import Marks, marks_of
    from stepward.vm.errors import PolicyError

    refuse_configured(file, options)
    gate = gate_of(options)
    try:
        policies = gate.check_program(program)
    except PolicyError as error:
        _refuse(error, error.name, "fix the policy before a program can be checked under it")
    result = gate.result()
    context = Context(program, policies)

    def marks() -> Marks:
        walk = _walk(context.facts, options["witness"], result.findings)
        return marks_of(context, result.findings, result.properties, walk)

    return context.facts, failures.attempt("the marking of findings", marks, lambda _: Marks())


# -- the path ----------------------------------------------------------------------------------------------------------


def _walk(facts: ProgramFacts, witness: Path | None, findings: Sequence[Finding]) -> Walk | None:
    from stepward.validator.diagram.marks import first_path, walk_of

    if witness is not None:
        return _replayed(facts, witness)
    finding = first_path(findings)
    if finding is None:
        return None
    from stepward.validator.report.values import Values

    assert finding.evidence is not None, "it has a path"
    values = Values().of(finding)
    title = f"{finding.code} at {finding.step}" + (f", with {', '.join(values)}" if values else "")
    return walk_of(facts.flow, finding.evidence.path, title)


def _replayed(facts: ProgramFacts, file: Path) -> Walk:
    """Return the path of a witness file; the machine replays it."""
    from stepward.validator.cli.replay import read_witness
    from stepward.validator.diagram.marks import walk_of
    from stepward.validator.engine.witnesses.replay import replay
    from stepward.validator.gate.settings import ConfigurationError

    witness = read_witness(str(file))
    if witness.program.to_data() != facts.program.to_data():
        message = f"`{file}` is a witness of another program, `{witness.program.name}`, or of another version of it"
        raise ConfigurationError(message, "name a witness that `stepward check --witnesses` wrote for this file")
    seen = replay(witness)
    claim = witness.claim
    return walk_of(facts.flow, seen.moves, f"{claim.code} at {claim.step}: {seen.why}")
