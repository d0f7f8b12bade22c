"""Runs that a machine takes up because nobody drives them: those that lost their machine, and those that are due."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import NOBODY, JournalError, Lease
from stepward.vm.machine.chains import chain_before, link_of
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.history import History
from stepward.vm.machine.moving import last_move
from stepward.vm.machine.refusals import NotEquipped, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import run_of

CLAIMED: Final = 100
"""The most runs that a recovery claims at once."""


class Claims(Deliveries):
    """The runs of a store, of which a machine goes on with those that are due."""

    def stop_with(self, stop: asyncio.Event, *, parks: bool = True) -> None:
        """Let all runs of this machine stop once `stop` is set: calls under way come back, and no other call starts.

        From now on a run with nothing but a long delay ahead is let go, too, unless `parks` is false.
        """
        self._setup = replace(self._setup, stop=stop, parks=parks)

    @property
    def is_stopping(self) -> bool:
        """Whether the runs of this machine are to stop."""
        return self._setup.stop is not None and self._setup.stop.is_set()

    async def claim(
        self, limit: int, programs: Collection[str] | None = None, passed: Mapping[str, int] = NOBODY
    ) -> list[Lease]:
        """Lease up to `limit` runs that are due, those due first.

        `programs` are the names of the programs whose runs are wanted, all unless given. A run in `passed` is left out
        while its last record has that number. Raises JournalError if the store can't be used.
        """
        now, ttl = self.clock.now() / 1e6, self._setup.lease_seconds
        return await self._io(self.journal.claim, self._next_holder(), now, ttl, limit, programs, passed)

    async def due(self) -> dict[str, int]:
        """Return the number of runs that are due and that nobody drives, by the name of their program."""
        return await self._io(self.journal.due, self.clock.now() / 1e6)

    async def last_seq(self, run: str) -> int:
        """Return the number of the last record of a run, -1 if there is none; the records are not read."""
        head = await self._io(self.journal.head, run)
        return -1 if head is None else head.seq

    async def version(self, found: History) -> str:
        """Return the digest of the program that a run is of: its own, or that of the version to which it moves.

        A run that goes on with the rest of a version is of that version.
        """
        if found.state.moved or link_of(found) is None:
            return found.state.moved or found.plan.digest
        moved = last_move((await self._io(chain_before, found, self._read))[-1])
        return found.plan.digest if moved is None else str(moved.body["program"])

    async def go_on(self, lease: Lease, require: Callable[[History], Awaitable[None]] | None = None) -> Run:
        """Drive a claimed run until it stops, and return it.

        Raises what `require` raises of the records of a run that is to be left alone, NotEquipped without its tools or
        its model, RunRefused for a run that broke a rule of this machine's policies, and JournalError. On each of these
        the lease is released.
        """
        return await self._go_on(*await self._begin(lease, require))

    async def recover(self, run_id: str | None = None) -> list[Run]:
        """Continue the runs that nobody drives any more, or a single one; return the runs that were continued.

        A run with a lease beyond the longest possible one, given by a wrong clock, is recovered only by its `run_id`.

        A write that had started is repeated under its key if its tool is idempotent; else the run is IN_DOUBT. A run
        stays under the policies of its start, and comes under those of this machine; raises RunRefused if it broke one
        of their rules. If one of several runs is refused, or can't be read or written, its error is raised after the
        others were recovered.
        """
        if run_id is not None:
            found = await self._found(run_id)
            if found.state.is_over:
                return [run_of(found)]
            self._require_tools(found.plan)
            await self._require_current(found.plan)
            driver, _ = await self._taken(run_id, past_any_lease=True)
            return [await self._drive(driver)]
        recovered, failures = await self.recover_all()
        for error in failures.values():
            raise error
        return recovered

    async def recover_all(self) -> tuple[list[Run], dict[str, StepwardError]]:
        """Continue all runs that nobody drives any more, as `recover` does.

        A run that waits is continued if the time of its wait is over. Return the recovered runs and, by run id, the
        errors of the others.
        """
        now = self.clock.now() / 1e6
        recovered: list[Run] = []
        failures: dict[str, StepwardError] = {}
        running = await self.runs(["RUNNING"])
        for row in running:
            if row.fault:
                why = f"the list of runs is damaged at run `{row.run}`: {row.fault}; recover it by its name"
                failures[row.run] = JournalError(why)
            elif row.expires <= now:
                try:
                    recovered += await self._recover_one(row.run)
                except (JournalError, RunRefused) as error:
                    failures[row.run] = error
        recovered += await self._recover_due({row.run for row in running}, failures)
        return recovered, failures

    async def _recover_due(self, tried: set[str], failures: dict[str, StepwardError]) -> list[Run]:
        """Continue the runs whose waits are over, but those that were tried already, and note the errors."""
        recovered: list[Run] = []
        passed: dict[str, int] = {}
        while leases := await self.claim(CLAIMED, passed=passed):
            is_new = False
            for lease in leases:
                try:
                    if lease.run in tried:
                        await self._io(self.journal.release, lease)
                    else:
                        is_new = True
                        tried.add(lease.run)
                        recovered.append(await self.go_on(lease))
                except NotEquipped:  # as in `_recover_one`
                    pass
                except (JournalError, RunRefused) as error:
                    failures[lease.run] = error
                with contextlib.suppress(JournalError):
                    passed[lease.run] = await self.last_seq(lease.run)
            if not is_new:
                break
        return recovered

    async def _recover_one(self, run: str) -> list[Run]:
        lease_and_run = await self._take(run)
        if lease_and_run is None:
            return []
        try:
            return [await self._go_on(*lease_and_run)]
        except NotEquipped:  # a run that needs the tools of another machine is left to that machine
            return []

    async def _go_on(self, driver: Driver, found: History) -> Run:
        """Drive a run that is leased if this machine has what it needs; else the lease is released."""
        try:
            self._require_tools(found.plan)
            await self._require_current(found.plan)
        except BaseException:
            await self._io(self.journal.release, driver.lease)
            raise
        return await self._drive(driver)
