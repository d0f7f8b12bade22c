"""`stepward verify`: finds records of a journal that are not as they were written."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stepward.validator.cli.machine import (
    MachineError,
    complete_runs,
    explained,
    format_option,
    open_journal,
)
from stepward.validator.cli.ranges import FILE, FileName

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepward.validator.runs.changed import Changed
    from stepward.vm.journal.receipts import Receipt
    from stepward.vm.journal.signing import VerifyKey
    from stepward.vm.journal.store import Journal
    from stepward.vm.journal.verdict import Verdict

    Changes = Callable[[Verdict], Sequence[Changed]]

DAMAGED, NOTHING_TO_VERIFY = 1, 3

KNOWN: Final = {
    "copy": "the copy has it as it was written",
    "program": "the program says how it was written, and the chain confirms it",
}
"""Where the record comes from that was written, in words."""


@click.command()
@click.argument("journal", type=FileName())
@click.argument("run", required=False, shell_complete=complete_runs)
@click.option(
    "--key", "keys", type=FILE, multiple=True, metavar="FILE", help="A public key to verify signatures (repeatable)."
)
@click.option("--receipt", "receipts", type=FILE, multiple=True, metavar="FILE", help="A receipt (repeatable).")
@click.option("--copy", metavar="FILE", help="A copy of the journal: it shows what was changed in a record.")
@format_option
def verify(journal: str, run: str | None, keys: tuple[Path, ...], receipts: tuple[Path, ...], **options: Any) -> None:
    """Check that a journal is as it was written.

    Checks one RUN, with the runs that it continues and that continue it, or all runs, and reports all damage. With a
    key, every head must be signed by that key. A receipt shows whether records were rewritten or cut since the receipt
    was made. Where a changed record can be known as it was written, from a copy or from the program, the report says
    what was changed in it.

    Exit status: 0 everything is intact, 1 something is not, 2 the journal can't be read, 3 it has no runs.
    """
    gc.enable()  # there may be very many runs
    with explained(), closing(open_journal(journal)) as opened:
        from stepward.vm.journal.signing import VerifyKey

        known = [VerifyKey.load(file) for file in keys]
        verdicts = _verdicts(opened, run, known, [_receipt(file) for file in receipts])
        is_json = options["output_format"] == "json"
        with _copy(options["copy"]) as copy:
            changed = partial(_changed, opened, copy)
            verified, intact = (_print_json if is_json else _print_verdicts)(verdicts, changed)
    if not verified:
        click.echo("error: nothing to verify: the journal has no runs", err=True)
        sys.exit(NOTHING_TO_VERIFY)
    if not is_json:
        click.echo(_summary(verified, intact, is_held=bool(keys or receipts)), nl=False)
    sys.exit(0 if intact == verified else DAMAGED)


def _receipt(file: Path) -> Receipt:
    from stepward.validator.files import why_not
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
) -> Iterable[Verdict]:
    from stepward.vm.journal.verify import verify as check
    from stepward.vm.journal.verify import verify_all
    from stepward.vm.machine.replay import cached_plans, replayer

    if run is None:
        plans = cached_plans(journal)
        again = partial(replayer, journal, plans=plans)
        return verify_all(journal, keys=keys, receipts=receipts, replay=again)
    plans = cached_plans(journal)
    return [
        check(journal, name, keys=keys, receipts=receipts, replay=replayer(journal, name, receipts, plans))
        for name in _chain(journal, run)
    ]


def _chain(journal: Journal, run: str) -> list[str]:
    """Return the runs of the chain of a run, in order; a run whose chain can't be read is verified alone."""
    from stepward.validator.runs.chains import chain_of
    from stepward.vm.errors import StepwardError

    try:
        return [found.run for found in chain_of(journal, run)]
    except StepwardError:
        return [run]


@contextmanager
def _copy(name: str | None) -> Iterator[Journal | None]:
    if name is None:
        yield None
        return
    with closing(open_journal(name)) as opened:
        yield opened


def _changed(journal: Journal, copy: Journal | None, verdict: Verdict) -> list[Changed]:
    """Return what was changed in the records of a run that is not intact."""
    from stepward.validator.runs.changed import changed_records

    return [] if verdict.is_intact else list(changed_records(journal, verdict.run, copy))


def _print_verdicts(verdicts: Iterable[Verdict], changed: Changes) -> tuple[int, int]:
    """Print each verdict when it is known; return the number of verdicts, and of intact runs."""
    verified = intact = 0
    for verdict in verdicts:
        click.echo("".join(f"{line}\n" for line in _lines(verdict, changed(verdict))), nl=False)
        verified, intact = verified + 1, intact + verdict.is_intact
    return verified, intact


def _print_json(verdicts: Iterable[Verdict], changed: Changes) -> tuple[int, int]:
    """Print verdicts as one JSON object, each when it is known; return the same numbers."""
    from stepward.vm.values import to_json

    verified = intact = 0
    click.echo('{\n  "version": 1,\n  "runs": [', nl=False)
    for verdict in verdicts:
        text = to_json(_data(verdict, changed(verdict)), indent=2).replace("\n", "\n    ")
        click.echo(f"{',' if verified else ''}\n    {text}", nl=False)
        verified, intact = verified + 1, intact + verdict.is_intact
    click.echo("\n  ]\n}" if verified else "]\n}")
    return verified, intact


def _lines(verdict: Verdict, changed: Sequence[Changed]) -> Iterator[str]:
    from stepward.validator.report.difference import difference_words
    from stepward.validator.report.text import counted, safe

    parts = ["pruned"] if verdict.is_pruned else []
    parts.append(counted(verdict.records, "record"))
    parts += [f"signed by {verdict.signed_by}"] if verdict.signed_by else []
    parts += [counted(verdict.receipts, "receipt")] if verdict.receipts else []
    parts.append(counted(len(verdict.faults), "fault") if verdict.faults else "intact")
    after = "" if verdict.continues is None else f"; continues run `{safe(verdict.continues)}`"
    yield f"run `{safe(verdict.run)}`: {', '.join(parts)}{after}"
    for fault in verdict.faults:
        yield f"  error: {safe(fault.what)}"
        yield f"    = help: {safe(fault.help)}"
    for one in changed:
        yield f"  record {one.seq} was changed; {KNOWN[one.known_from]}:"
        yield from (f"    {safe(difference_words(*difference))}" for difference in one.differences)
        if not one.differences:
            yield "    what is here is no record any more"


def _summary(verified: int, intact: int, *, is_held: bool) -> str:
    from stepward.validator.report.text import counted

    text = f"{intact:,} of {counted(verified, 'run')} intact\n"
    if not is_held and intact:
        text += "note: without a key or a receipt, "
        text += "a journal that was rewritten completely, or cut together with its head, looks intact too\n"
    return text


def _data(verdict: Verdict, changed: Sequence[Changed]) -> dict[str, Any]:
    head = verdict.head
    return {
        "run": verdict.run,
        "records": verdict.records,
        "head": None if head is None else {"seq": head.seq, "digest": head.digest.hex()},
        "signed_by": verdict.signed_by,
        "receipts": verdict.receipts,
        "pruned": verdict.is_pruned,
        "intact": verdict.is_intact,
        **({} if verdict.continues is None else {"continues": verdict.continues}),
        "changed": [
            {
                "seq": one.seq,
                "known_from": one.known_from,
                "differences": [
                    {"path": list(path), "written": None if missing == 1 else before, "present": after}
                    for path, before, after, missing in one.differences
                ],
            }
            for one in changed
        ],
        "faults": [{"seq": fault.seq, "what": fault.what, "help": fault.help} for fault in verdict.faults],
    }
