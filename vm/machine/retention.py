"""Retention: old runs are pruned. Of each stays what a receipt needs, and its id, so that nothing happens twice."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from stepward.vm.arguments import NUMBER, require
from stepward.vm.errors import StepwardError
from stepward.vm.journal.pruning import Pruned
from stepward.vm.journal.store import Row
from stepward.vm.machine.authority import require_name
from stepward.vm.machine.chains import link_of
from stepward.vm.machine.claims import Claims
from stepward.vm.machine.continuing import id_after
from stepward.vm.machine.events import UNFINISHED
from stepward.vm.machine.history import History
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.turns import is_turn, name_behind

CHANGED: Final = "it has changed meanwhile: prune again"


class Prunable(NamedTuple):
    """A run that ended before some time: when, in seconds since the epoch, and why it stays, if it does.

    `is_fault`: because it can't be read, has changed meanwhile, or is signed and the machine has no key.
    """

    run: str
    ended: float
    why: str | None = None
    is_fault: bool = False


class Retention(Claims):
    """The runs of a store, of which old ones are pruned."""

    async def prunable(self, before: float, *, program: str | None = None) -> list[Prunable]:
        """Return the runs that ended before a time, in seconds since the epoch, the newest first; nothing is changed.

        `program` is the name of a program. A run stays if a later one stands on it that stays itself: one that
        continues it, or the next turn of its session. So does one whose records are damaged.
        """
        require(NUMBER, before=before)
        found: list[Prunable] = []
        going: set[str] = set()
        for row in reversed(await self.runs(program=program)):
            if row.started < before and row.status not in UNFINISHED:
                one = await self._io(self._judge, row, before, going)
                if one is not None:
                    found.append(one)
                    if one.why is None:
                        going.add(one.run)
        return found

    async def prune(self, before: float, *, program: str | None = None, by: str | None = None) -> list[Prunable]:
        """Prune the runs that `prunable` returns, and return them, with those that stay and why.

        The sensitive values of each are erased first. Then its records are removed, and what is kept is signed if the
        machine has a key. Its id is taken for ever. `by` names the person who does it.
        """
        require_name(by, DeliveryRefused)
        found = await self.prunable(before, program=program)
        with_values = []
        for one in found:
            if one.why is None and await self._note_erasure(one.run, by):
                with_values.append(one.run)
        if with_values:
            await self._io(self.journal.vault.erase_all, with_values)
        outcomes: list[Prunable] = []
        for one in found:
            why = one.why or await self._io(self._prune_one, one.run, by)
            outcomes.append(one._replace(why=why, is_fault=one.is_fault or why == CHANGED))
        return outcomes

    def _judge(self, row: Row, before: float, going: Collection[str]) -> Prunable | None:
        try:
            history = self._read(row.run)
            if history is None or not history.state.is_over:
                return None
            ended = _ended(history) / 1e6
            if ended >= before:
                return None
            why = self._lacks_signer(history)
            return Prunable(row.run, ended, why or self._needed(history, going), is_fault=why is not None)
        except StepwardError as error:
            return Prunable(row.run, row.updated, f"it can't be read: {error}", True)

    def _needed(self, history: History, going: Collection[str]) -> str | None:
        """Return why a run stays for the sake of a later one, or None; `going` are runs that are pruned with it."""
        link = link_of(history)
        if is_turn(history):
            name = name_behind(history.run)
        else:
            first, number = (history.run, 0) if link is None else (history.run.rpartition("~")[0], link.number)
            name = id_after([first, *[""] * number])
        other = None if name in going else self._read(name)
        following = None if other is None else link_of(other)
        stands = following is not None and following.run == history.run
        return f"run `{name}` stands on it" if stands else None

    def _prune_one(self, run: str, by: str | None) -> str | None:
        """Prune a run, and return why it stays, or None: somebody may have continued it since it was found."""
        history = self._read(run)
        if history is None or not history.state.is_over:
            return CHANGED
        why = self._needed(history, ())
        if why is not None:
            return why
        pruned = Pruned(
            run,
            history.plan.program.name,
            history.plan.digest,
            history.state.status,
            history.state.trace,
            tuple(entry.digest for entry in self.journal.read(run)),
            _ended(history),
            self.clock.now(),
            by,
        ).signed(self._setup.key)
        if pruned.digests[-1] != history.last.digest or not self.journal.prune(pruned.head, pruned.to_bytes()):
            return CHANGED
        return None


def _ended(history: History) -> int:
    """Return when a run ended, in microseconds since the epoch."""
    at: int = next(record.at for record in reversed(history.records) if "ends" in record.body)
    return at
