"""`stepward schema`: the JSON Schema of programs and policies, for editors."""

from __future__ import annotations

import click


@click.command()
@click.argument("kind", type=click.Choice(["program", "policy"]), default="program")
def schema(kind: str) -> None:
    """Print a JSON Schema for your editor.

    It is the schema of a program or, with the argument `policy`, the schema of a policy.
    """
    import json

    from stepward.validator.schema import json_schema

    click.echo(json.dumps(json_schema(kind), indent=2, ensure_ascii=False))
