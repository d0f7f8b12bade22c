"""`stepward key`: a pair of keys, to sign runs with and to verify them by."""

from __future__ import annotations

import os
from pathlib import Path

import click

from stepward.validator.cli.machine import FILE, MachineError, explained
from stepward.validator.cli.output import write_output


@click.command()
@click.argument("file", type=FILE)
def key(file: Path) -> None:
    """Make a pair of Ed25519 keys: the private one in FILE, the public one in FILE.pub.

    Who has the private key can sign runs (`--key` of `run` and `runs`); keep it from whoever can write the journal. The
    public one is for everybody who verifies.
    """
    public = file.with_name(f"{file.name}.pub")
    if os.path.lexists(public):
        raise MachineError(f"`{public}` exists already, and a key is never written over", "name another file")
    with explained():
        from stepward.vm.journal.signing import SigningKey

        made = SigningKey.make()
        made.save(file)
        write_output(public, made.public.pem(), "correct the path")
    click.echo(f"key {made.id}: private `{file}`, public `{public}`")
