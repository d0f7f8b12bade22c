"""`stepward runs sign`: has a new key sign what an old one has signed."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any

import click

from stepward.validator.cli.machine import (
    explained,
    format_option,
    journal_option,
    key_option,
    load_key,
    load_old_keys,
    open_journal,
    print_json,
)


@click.command()
@key_option
@journal_option
@format_option
def sign(**options: Any) -> None:
    """Sign the runs of a journal with a new key.

    The head of each run that an `--old-key` has signed is verified, and then signed with `--key`. After that no command
    needs the old key, and `stepward verify` with the new one alone refuses what the old one signs. Runs may go on
    meanwhile. A run that is damaged, or signed by none of the keys, is left as it is and named.

    Exit status: 0 the new key has signed every run, 1 some are left, 2 the command can't be used.
    """
    if options["key_file"] is None or not options["old_keys"]:
        raise click.UsageError("name the new private key with --key, and the old public one with --old-key")
    from stepward.validator.report.text import counted, safe
    from stepward.vm.journal.rotation import sign_anew
    from stepward.vm.machine.replay import cached_plans, replayer

    gc.enable()
    counts: Counter[str] = Counter()
    left: list[dict[str, Any]] = []
    with explained(), closing(open_journal(options["journal"])) as journal:
        key = load_key(options["key_file"])
        assert key is not None, "a file was named"
        again = partial(replayer, journal, receipts=(), plans=cached_plans(journal))
        for one in sign_anew(journal, key, load_old_keys(options["old_keys"], key), again):
            counts["left" if one.faults else "signed" if one.is_new else "had"] += 1
            left += [{"run": one.run, "what": fault.what, "help": fault.help} for fault in one.faults[:1]]
    if options["output_format"] == "json":
        print_json({"version": 1, "key": key.id, "signed": counts["signed"], "had": counts["had"], "left": left})
    else:
        for fault in left:
            click.echo(f"left: run `{safe(fault['run'])}`: {safe(fault['what'])}; {safe(fault['help'])}", err=True)
        had = f", {counts['had']:,} had been" if counts["had"] else ""
        click.echo(f"{counted(counts['signed'], 'run')} signed by {key.id}{had}")
    sys.exit(1 if left else 0)
