"""The errors of stores, with the same messages for every store."""

from __future__ import annotations

from stepward.vm.journal.store import Append, AppendConflict, JournalError, LeaseLost


def append_refused(append: Append, fence: int | None, has: tuple[int, int] | None) -> JournalError:
    """Return the error of a refused append; `has` are the run's last entry and newest fencing number, None if no run.

    A lost lease is reported before a conflict: after losing it there is nothing to read again and decide.
    """
    if has is None:
        return AppendConflict(f"there is no run `{append.run}` to add entries to")
    last, newest = has
    if fence is not None and fence != newest:
        return lease_lost(append.run, fence)
    return AppendConflict(f"the last entry of the run `{append.run}` is {last}, not {append.expected}")


def lease_lost(run: str, fence: int) -> LeaseLost:
    """Return the error for a lease that is not the newest."""
    return LeaseLost(f"the run `{run}` was leased again after lease {fence}: another worker drives it")


def no_such_run(run: str) -> JournalError:
    """Return the error for a run that does not exist."""
    return JournalError(f"there is no run `{run}`")


def erased(run: str) -> LeaseLost:
    """Return the error for putting values of a run that was erased."""
    return LeaseLost(f"the values of run `{run}` were erased, and the vault takes no more of that run")
