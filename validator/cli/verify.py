"""`stepward verify`: whether a journal is what was written, and where it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepward.validator.cli.machine import (
    FILE,
    MachineError,
    complete_runs,
    explained,
    format_option,
    open_journal,
    print_json,
)

if TYPE_CHECKING:
    from stepward.vm.journal.receipts import Receipt
    from stepward.vm.journal.signing import VerifyKey
    from stepward.vm.journal.store import Journal
    from stepward.vm.journal.verdict import Verdict

DAMAGED, NOTHING_TO_VERIFY = 1, 3


@click.command()
@click.argument("journal", type=click.Path())
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option(
    "--key", "keys", type=FILE, multiple=True, metavar="FILE", help="A public key to hold it to (repeatable)."
)
@click.option("--receipt", "receipts", type=FILE, multiple=True, metavar="FILE", help="A receipt (repeatable).")
@format_option
def verify(journal: str, run: str | None, keys: tuple[Path, ...], receipts: tuple[Path, ...], **options: Any) -> None:
    """Check that the runs in JOURNAL, or one of them, are what was written, and say where they are not.

    With a key every head has to be signed by it; a receipt shows what was rewritten or cut since it was given. Exits
    with 0 when all is intact, 1 when something is not, 2 when the journal can't be read, 3 when it has no runs.
    """
    with explained(), closing(open_journal(journal)) as opened:
        from stepward.vm.journal.signing import VerifyKey

        known = [VerifyKey.load(file) for file in keys]
        verdicts = _verdicts(opened, run, known, [_receipt(file) for file in receipts])
    if options["output_format"] == "json":
        print_json({"version": 1, "runs": [_data(verdict) for verdict in verdicts]})
    else:
        click.echo("".join(f"{line}\n" for line in _lines(verdicts, bool(keys or receipts))), nl=False)
    if not verdicts:
        click.echo("error: nothing to verify: the journal has no runs", err=True)
        sys.exit(NOTHING_TO_VERIFY)
    sys.exit(0 if all(verdict.is_intact for verdict in verdicts) else DAMAGED)


def _receipt(file: Path) -> Receipt:
    from stepward.validator.gate.paths import why_not
    from stepward.vm.journal.receipts import Receipt, ReceiptRefused

    try:
        return Receipt.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = why_not(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise MachineError(f"the receipt `{file}` can't be read: {why}", "correct the path") from None
    except ReceiptRefused as error:
        raise MachineError(f"`{file}`: {error}") from None


def _verdicts(
    journal: Journal, run: str | None, keys: Sequence[VerifyKey], receipts: Sequence[Receipt]
) -> list[Verdict]:
    from stepward.vm.journal.verify import verify as check
    from stepward.vm.journal.verify import verify_all
    from stepward.vm.machine.replay import replayer

    if run is None:
        return verify_all(journal, keys=keys, receipts=receipts, replay=lambda name: replayer(journal, name, receipts))
    return [check(journal, run, keys=keys, receipts=receipts, replay=replayer(journal, run, receipts))]


def _lines(verdicts: Sequence[Verdict], is_held: bool) -> Iterator[str]:
    from stepward.validator.report.text import counted, safe

    for verdict in verdicts:
        parts = [counted(verdict.records, "record")]
        parts += [f"signed by {verdict.signed_by}"] if verdict.signed_by else []
        parts += [counted(verdict.receipts, "receipt")] if verdict.receipts else []
        parts.append(counted(len(verdict.faults), "fault") if verdict.faults else "intact")
        yield f"run `{safe(verdict.run)}`: {', '.join(parts)}"
        for fault in verdict.faults:
            yield f"  error: {safe(fault.what)}"
            yield f"    = help: {safe(fault.help)}"
    if not verdicts:
        return
    intact = sum(verdict.is_intact for verdict in verdicts)
    yield f"{intact:,} of {counted(len(verdicts), 'run')} intact"
    if not is_held and intact:
        yield "note: without a key or a receipt, a journal rewritten whole, or cut with its head, looks intact too"


def _data(verdict: Verdict) -> dict[str, Any]:
    head = verdict.head
    return {
        "run": verdict.run,
        "records": verdict.records,
        "head": None if head is None else {"seq": head.seq, "digest": head.digest.hex()},
        "signed_by": verdict.signed_by,
        "receipts": verdict.receipts,
        "intact": verdict.is_intact,
        "faults": [{"seq": fault.seq, "what": fault.what, "help": fault.help} for fault in verdict.faults],
    }
