"""Chains: the runs that continue one another, which are shown as one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepward.vm.machine.chains import chain_after, chain_before, link_of, reader
from stepward.vm.machine.history import load, stored_plan
from stepward.vm.machine.refusals import NoSuchRun
from stepward.vm.machine.turns import is_turn
from stepward.vm.values import as_text

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.machine.continuing import Continues
    from stepward.vm.machine.history import History


def chain_of(journal: Journal, run: str) -> tuple[History, ...]:
    """Return the runs of the chain that a run belongs to, in order; a run that continues none and is not continued is
    a chain by itself.

    Raises NoSuchRun, and JournalError for records that can't be read or do not fit together.
    """
    plans = partial(stored_plan, journal)
    found = load(journal, run, plans)
    if found is None:
        raise NoSuchRun(f"there is no run `{run}`")
    read = reader(journal, plans)
    before = chain_before(found, read)
    return (*before, found, *chain_after(found, before, read))


def boundary_of(found: History, before: History) -> str:
    """Return the words for the boundary between a run and the one that it continues; texts in them are not safe."""
    link = link_of(found)
    if link is None:
        return f"run `{found.run}` goes on"
    if is_turn(found):
        return f"run `{found.run}` is the next turn of the session"
    words = "goes on with another version" if before.state.moved else "goes on where that has ended"
    return f"run `{found.run}` {words}: it {link_words(link)}"


def link_words(link: Continues) -> str:
    """Return what a continuation reads, and what it was granted, in words."""
    read = ", ".join(name if name == source else f"{name} ({source})" for name, source in link.reads.items())
    granted = ", ".join(f"{as_text(amount)} {name}" for name, amount in sorted(link.granted.items()))
    return f"reads {read or 'nothing'}{f'; granted: {granted}' if granted else ''}"
