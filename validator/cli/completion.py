"""`stepward completion`: the script that makes a shell complete the command."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for your shell.

    bash: `eval "$(stepward completion bash)"` in ~/.bashrc; zsh: the same with zsh in ~/.zshrc;
    fish: `stepward completion fish > ~/.config/fish/completions/stepward.fish`.
    """
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None, "the choice lists shells that click knows"
    click.echo(completer(context.find_root().command, {}, "stepward", "_STEPWARD_COMPLETE").source())
