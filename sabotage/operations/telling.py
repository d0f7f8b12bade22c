"""What a store and a machine tell of a run, and what they have to."""

from __future__ import annotations

from typing import Any

from stepward.sabotage.operations.accounts import Account
from stepward.vm.journal.store import Journal
from stepward.vm.machine.run import Run


def content(store: Journal, run: str) -> tuple[Any, ...]:
    """Return what a store has of a run."""
    row = store.row(run)
    listed = row and (row.program, row.status, row.seq, row.started, row.updated)
    return listed, store.head(run), store.read(run), store.kept(run), store.vault.get(run)


def facts_of(run: Run) -> tuple[Any, ...]:
    """Return what the machine says of a run."""
    waits = sorted(one.step for one in run.suspensions)
    due = None if run.due is None else round(run.due * 1e6)
    return (
        run.status,
        run.reason if run.is_over else "",
        run.steps,
        run.tokens,
        run.cost,
        due,
        waits,
        [one.step for one in run.doubts],
    )


def expected(one: Account) -> tuple[Any, ...]:
    """Return what it has to say."""
    waits = sorted(suspended.step for suspended in one.suspended)
    doubts = [one.task.id] if one.phase == "doubt" and one.task else []
    return one.status, one.reason, one.steps, one.tokens, one.cost, one.due(), waits, doubts


def is_interrupted(one: Account) -> bool:
    """Return whether another run may go on where a run has ended."""
    return one.is_over and one.status == "BUDGET_EXCEEDED" and one.next is None
