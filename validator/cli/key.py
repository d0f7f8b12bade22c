"""`stepward key`: a pair of keys, one to sign runs and one to verify them."""

from __future__ import annotations

import os
from pathlib import Path

import click

from stepward.validator.cli.machine import MachineError, explained
from stepward.validator.cli.output import write_output
from stepward.validator.cli.ranges import FILE


@click.command()
@click.argument("file", type=FILE)
def key(file: Path) -> None:
    """Make a pair of keys to sign journals.

    The private Ed25519 key goes into FILE, the public one into FILE.pub. The private key signs runs (`--key` of `run`
    and `runs`). Store it where people with write access to the journal can't read it. Give the public key to everybody
    who verifies.
    """
    if file.is_dir():
        raise MachineError(f"`{file}` is a folder", "name a file, which is made")
    public = file.with_name(f"{file.name}.pub")
    if os.path.lexists(public):
        raise MachineError(f"`{public}` exists already, and a key is never written over", "name another file")
    with explained():
        from stepward.vm.journal.signing import SigningKey

        signing_key = SigningKey.make()
        signing_key.save(file)
        write_output(public, signing_key.public.pem(), "correct the path")
    click.echo(f"key {signing_key.id}: private `{file}`, public `{public}`")
