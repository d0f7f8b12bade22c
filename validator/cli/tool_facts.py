"""The facts of the tools that a model may call, for the commands in which one writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import Means, load_tools

if TYPE_CHECKING:
    from stepward.validator.planner.brief import Brief
    from stepward.vm.language.policy import Policy


def facts_of_tools(
    means: Means, policies: list[Policy], options: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the facts of the tools that the options name, and what their functions say of them; None without tools."""
    from stepward.validator.cli.manifest import described, tools_in
    from stepward.validator.cli.servers import server_facts
    from stepward.validator.gateway.judging import in_force

    name = options["tools"]
    if name is None and not means.servers:
        return None, {}
    module = load_tools(name)
    facts = {} if name is None else tools_in(module, name)
    return facts | server_facts(means.servers, in_force(policies)), described(module, facts)


def note_tools(brief: Brief, module: str | None, policies: list[Policy]) -> None:
    """Say on standard error what makes good programs unlikely: no tools, or tools of which nobody states the facts."""
    from stepward.validator.cli.manifest import guessed_tools

    if not brief.manifest:
        click.echo("note: the program may call no tools, because neither `--tools` nor a policy names any", err=True)
    stated = {tool for policy in policies for tool in policy.tools or ()}
    names = [] if module is None else [tool for tool in brief.manifest if tool not in stated]
    guessed = ", ".join(f"`{tool}`" for tool in guessed_tools(load_tools(module), names))
    if guessed:
        help = "say what they do with the decorator `tool` of `stepward.vm`"
        click.echo(f"note: nobody states the effect of {guessed}, so the worst is assumed; {help}", err=True)
