"""The commands that commands print: whoever copies one gets the same journal, tools, model and policies."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

SHARED: Final = (
    "journal",
    "tools",
    "model",
    "model_options",
    "prices",
    "cache",
    "key_file",
    "old_keys",
    "config",
    "policies",
    "isolated",
    "break_after",
    "otel",
    "otel_values",
)
"""The parameters that say with what a command works: another command about the same run needs them as well."""

FEWER: Final = {"check": ("config", "policies", "isolated")}
"""The parameters of which a command needs no others: a check with `--tools` asks more than the one before."""


GONE: Final = "the run was in memory and is gone"


def command(words: str, *arguments: object, options: Mapping[str, Any] | None = None, repeats_all: bool = False) -> str:
    """Return a command that can be copied, with its arguments and what it shares with the command that prints it.

    `words` name it, as `runs recover`. `options` are the parameters of the command that prints it, by default those of
    the present one; `repeats_all`: it is that command anew, with all of them. What `arguments` say is not said twice.
    """
    if options is None:
        context = click.get_current_context(silent=True)
        options = {} if context is None else context.params
    words_given = [str(one) for one in arguments]
    shown = [*words.split(), *words_given, *_options(words, options, words_given, repeats_all=repeats_all)]
    return "stepward " + " ".join(map(shlex.quote, shown))


def _named(words: str) -> click.Command:
    """Return a command by its words."""
    from stepward.validator.cli import main

    found: click.Command = main
    for word in words.split():
        assert isinstance(found, click.Group), "only a group has further words"
        inner = found.get_command(click.Context(found), word)
        assert inner is not None, "there is such a command"
        found = inner
    if isinstance(found, click.Group):  # `stepward runs` lists
        found = found.commands["list"]
    return found


def _options(words: str, options: Mapping[str, Any], words_given: list[str], *, repeats_all: bool) -> Iterator[str]:
    """Yield the options of a command that have another value than by default."""
    known = {parameter.name: parameter for parameter in _named(words).params if isinstance(parameter, click.Option)}
    for name in known if repeats_all else FEWER.get(words, SHARED):
        parameter, value = known.get(name), options.get(name or "")
        if parameter is None:
            continue
        if value in (None, (), False, parameter.default) or any(name in words_given for name in parameter.opts):
            continue
        option = max(parameter.opts, key=len)
        if parameter.is_flag:
            yield option
            continue
        for one in value if parameter.multiple else (value,):
            yield from (option, without_password(str(one)))


def without_password(name: str) -> str:
    """Return the name of a journal, or another address, as people may see it."""
    from urllib.parse import urlsplit

    parts = urlsplit(name) if "://" in name else None
    if parts is None or parts.password is None:
        return name
    return name.replace(f":{parts.password}@", "@", 1)


def say_interrupted(options: Mapping[str, Any], *run: str | None) -> None:
    """Say on standard error how a run goes on that was interrupted, None for one that is not in the journal yet.

    Without a name these are all runs that lost their machine.
    """
    from stepward.validator.report.text import safe

    if options.get("journal") is None:
        what = GONE
    elif run == (None,):
        what = "nothing was done yet"
    else:
        what = f"`{safe(command('runs recover', *run, options=options))}` goes on with {'it' if run else 'them'}"
    click.echo(f"\ninterrupted: {what}", err=True)
