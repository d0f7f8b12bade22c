"""`stepward init`: a first project, from a template."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import click

from stepward.validator.cli.ranges import FileName
from stepward.validator.files import shown_name, why_not
from stepward.validator.result import AdvisedError


class Template(NamedTuple):
    """A template: the name of its program and its policy, what it is about, and the options of its first run."""

    program: str
    policy: str
    about: str
    options: str


TEMPLATES: Final = {
    "approval": Template(
        "approval", "purchasing", "a purchase that may need a manager", "--input item='a chair' --input amount=120"
    ),
    "refund": Template(
        "refund",
        "payments",
        "a refund that a model judges",
        "--input order_id=ORD-000042 --input amount=120 --input request='It came broken' --model script:replies.yaml",
    ),
    "agent-loop": Template(
        "agent_loop",
        "agents",
        "a model that chooses tools in a loop",
        "--input question='When do you open?' --model script:replies.yaml",
    ),
    "erasure": Template("erasure", "data_protection", "a customer who asks to be forgotten", "--inputs inputs.yaml"),
}

_COMMON: Final = (
    ("stepward.toml", "stepward.toml", "the settings of the gate"),
    ("pre-commit-config.yaml", ".pre-commit-config.yaml", "the check before each commit"),
    ("workflow.yml", ".github/workflows/stepward.yml", "the check in CI"),
)
"""Files of every template: their names in the package and in a project, and what they are."""


class MadeFile(NamedTuple):
    """A file of a new project: where it goes, what it is, and its text."""

    path: str
    about: str
    text: str


@click.command()
@click.argument("folder", type=FileName(path_type=Path, file_okay=False), default=".")
@click.option(
    "--template",
    "name",
    type=click.Choice(list(TEMPLATES)),
    default="approval",
    show_default=True,
    help="The kind of project.",
)
def init(folder: Path, name: str) -> None:
    """Make a first project in a folder.

    It has a program, its tools, a policy, a test, and the gate for commits and CI. It passes the gate and its tests at
    once. Existing files are never overwritten. Without FOLDER the project is made in the current folder.
    """
    files = project_of(name)
    _refuse_existing(folder, files)
    for file in files:
        _write(folder / file.path, file.text)
    template = TEMPLATES[name]
    width = max(len(file.path) for file in files)
    click.echo(f"made in `{shown_name(Path(os.path.abspath(folder)))}`: {template.about}")
    click.echo("".join(f"  {file.path:{width}}  {file.about}\n" for file in files))
    click.echo("next:")
    for line in next_commands(folder, template):
        click.echo(f"  {line}")


def project_of(name: str) -> list[MadeFile]:
    """Return the files of the project that a template makes."""
    template = TEMPLATES[name]
    own = {
        "program.yaml": (f"workflows/{template.program}.yaml", "the program"),
        "tools.py.txt": ("tools.py", "the tools that it calls"),
        "policy.yaml": (f"policies/{template.policy}.yaml", "rules that the author of a program can't remove"),
        "inputs.yaml": ("inputs.yaml", "inputs of a first run"),
        "replies.yaml": ("replies.yaml", "the replies of the model in the first run"),
        "test.py.txt": (f"test_{template.program}.py", "tests of the program"),
    }
    home = files("stepward.validator") / "templates"
    written = [
        MadeFile(path, about, (home / name / file).read_text(encoding="utf-8"))
        for file, (path, about) in own.items()
        if (home / name / file).is_file()
    ]
    for file, path, about in _COMMON:
        text = (home / "common" / file).read_text(encoding="utf-8")
        written.append(MadeFile(path, about, text.replace("POLICY", template.policy)))
    return written


def next_commands(folder: Path, template: Template) -> list[str]:
    """Return the commands that show what a new project does; the last one runs it."""
    import shlex

    program = f"workflows/{template.program}.yaml"
    enter = [] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]
    return [
        *enter,
        "stepward check",
        "python -m pytest",
        f"stepward sabotage {program} --families injection --examples 5 --no-specimens",
        f"stepward run {program} {template.options} --tools tools.py --journal runs.db --run-id first",
    ]


def _refuse_existing(folder: Path, files: list[MadeFile]) -> None:
    for file in files:
        if os.path.lexists(folder / file.path):
            raise AdvisedError(
                f"`{shown_name(Path(os.path.abspath(folder / file.path)))}` exists, and no file is overwritten",
                "name another folder, or move the file away",
            )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        help = "name a folder that can be written to"
        raise AdvisedError(f"`{path}` can't be written: {why_not(error)}", help) from None
