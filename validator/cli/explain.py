"""`stepward explain`: the documentation of the rules."""

from __future__ import annotations

import click


@click.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain a code that a check reports.

    Prints what the rule reports, why it is a problem, and what to write instead. CODE is a code or the name of a rule,
    such as SW401 or guardrail-bypassed. Without CODE, the command lists all rules.
    """
    from stepward.validator.rules.registry import RULES

    if code is None:
        for rule in RULES:
            click.echo(f"{rule.code}  {rule.severity:<7}  {rule.name}")
        return
    found = next((rule for rule in RULES if code.upper() == rule.code or code.lower() == rule.name), None)
    if found is None:
        from stepward.validator.cli.meant import meant_by
        from stepward.validator.gate.settings import near_code

        raise click.UsageError(f"`{code}` is not a code; {meant_by(code, ()) or near_code(code)}")
    click.echo(f"{found.code} {found.name} ({found.severity})\n\n{found.documentation()}")
