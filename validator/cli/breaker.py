"""`stepward breaker`: shows, opens and closes the breakers of tools and programs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import (
    MachineError,
    explained,
    format_option,
    journal_option,
    open_journal,
    print_json,
)
from stepward.validator.cli.output import uses_color

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal, Switch

by_option = click.option("--by", required=True, metavar="NAME", help="Your name, for the journal.")
why_option = click.option("--why", required=True, metavar="TEXT", help="The reason, for those who look later.")
name_argument = click.argument("name", metavar="NAME")


@click.group()
def breaker() -> None:
    """Keep runs from a tool or a program that fails.

    While the breaker `tool:NAME` or `program:NAME` is open, runs that reach a call of the tool, or any call of the
    program, are held: they do not fail, and nobody takes them up. When somebody closes the breaker, they are due again.
    Machines open the breaker of a tool by themselves with `--break-after N`.
    """


@breaker.command(name="list")
@click.option("--all", "shows_all", is_flag=True, help="List every time that a breaker was opened or closed.")
@journal_option
@format_option
def list_(shows_all: bool, **options: Any) -> None:
    """List the open breakers, with who opened them, when and why."""
    from stepward.validator.report.table import Column, render
    from stepward.validator.report.text import counted

    with explained(), closing(open_journal(options["journal"])) as journal:
        opened, found = journal.opened(), journal.switches()
    if not shows_all:
        found = list({one.name: one for one in found if one.name in opened}.values())
    data = [_data(one) for one in found]
    if options["output_format"] == "json":
        print_json({"version": 1, "breakers": data})
        return
    names = ("breaker", "state", "at", "by", "why")
    text = render([*map(Column, names)], [[one[name] for name in names] for one in data], color=uses_color())
    click.echo(f"{text}\n" if data else "", nl=False, color=uses_color())
    click.echo(counted(len(opened), "open breaker"))


@breaker.command(name="open")
@name_argument
@why_option
@by_option
@journal_option
def open_(name: str, why: str, by: str, **options: Any) -> None:
    """Open a breaker: `tool:NAME` or `program:NAME`.

    Exit status: 0 it is open, 2 the command can't be used.
    """
    with explained(), closing(open_journal(options["journal"])) as journal:
        _switch(journal, name, True, why, by)


@breaker.command()
@name_argument
@why_option
@by_option
@journal_option
def close(name: str, why: str, by: str, **options: Any) -> None:
    """Close a breaker. The runs that it holds are due again.

    Exit status: 0 it is closed, 2 the command can't be used.
    """
    with explained(), closing(open_journal(options["journal"])) as journal:
        _switch(journal, name, False, why, by)


def _switch(journal: Journal, name: str, is_open: bool, why: str, by: str) -> None:
    from stepward.validator.report.text import safe
    from stepward.vm.journal.store import Switch
    from stepward.vm.machine.authority import require_name
    from stepward.vm.machine.refusals import DeliveryRefused

    kind, _, named = name.partition(":")
    if kind not in ("tool", "program") or not named:
        raise MachineError(f"`{name}` is no breaker", "write `tool:NAME` or `program:NAME`")
    require_name(by, DeliveryRefused)
    state = "open" if is_open else "closed"
    done = journal.switch(Switch(name, is_open, time.time(), why, by))
    click.echo(f"breaker `{safe(name)}` is {state}" + ("" if done else ", as it was before"))


def _data(one: Switch) -> dict[str, str]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.at))
    return {"breaker": one.name, "state": "open" if one.is_open else "closed", "at": at, "by": one.by, "why": one.why}
