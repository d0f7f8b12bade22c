"""Moves runs that wait to new versions of their programs, for a machine whose checker proves the rest of a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.within import require_program
from stepward.vm.machine.admission import Admission
from stepward.vm.machine.authority import require_name
from stepward.vm.machine.chains import chain_before
from stepward.vm.machine.continuation import checked_grant, handed_over
from stepward.vm.machine.continuing import id_after
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.events import NOTHING
from stepward.vm.machine.history import History
from stepward.vm.machine.moving import (
    Rehearsal,
    Version,
    departure,
    last_move,
    moved_event,
    recorded,
    rehearsed,
    require_movable,
    version_of,
)
from stepward.vm.machine.plan import Plan, document_of, policy_digest
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.retention import Retention
from stepward.vm.machine.run import Run
from stepward.vm.machine.runs import run_of


class Migration(NamedTuple):
    """A move that the checker has allowed: the run with its head, the step on which it waits, and the new version.

    `becomes` is the id of the run that goes on when the step has ended; `carries` are the values of this run that it
    reads. `guardrails` are the rules that were proved from the present state, with the names of their policies.
    """

    run: str
    head: str
    step: str
    version: str
    becomes: str
    carries: tuple[str, ...]
    guardrails: tuple[str, ...]


class Migrations(Retention):
    """The runs of a store, with their moves to other versions."""

    policies: tuple[Policy, ...]
    _admission: Admission

    async def _create(
        self,
        plan: Plan,
        run: str,
        inputs: Mapping[str, Any],
        who: Mapping[str, Any] = NOTHING,
        more: Mapping[str, Any] = NOTHING,
    ) -> Driver | None:
        """Create a run, with `more` in its first record; None if it exists."""
        raise NotImplementedError

    async def migration(self, run_id: str, program: Program, *, grant: Mapping[str, Any] = NOTHING) -> Migration:
        """Return how a suspended run would move to a version of its program; nothing is changed.

        `grant` adds to what the run has left of its budgets. Raises NoSuchRun; RunRefused if the run can't move in this
        way, or the checker does not prove the rest of the version from the present state of the run; ProgramError for a
        version that can't run; JournalError for records that do not fit together.
        """
        chain = await self._io(self._chain_to, run_id)
        version = self._version(program, grant)
        return _migration_of(chain, version, await self._proved(chain, version))

    async def migrate(
        self,
        run_id: str,
        program: Program,
        *,
        head: str | None = None,
        grant: Mapping[str, Any] = NOTHING,
        by: str | None = None,
    ) -> Migration:
        """Move a suspended run to a version of its program, and return how.

        The step on which the run waits ends as before, and its resume token stays what it is. Then another run goes on
        with the rest of the version. With `head`, the digest of the last record that the caller has seen, a run that
        has changed since is refused. `by` names the person. The other parameters and errors are those of `migration`;
        RunBusy while somebody else drives the run.
        """
        who = require_name(by, RunRefused)
        version = self._version(program, grant)
        require_movable((await self._io(self._chain_to, run_id))[-1], version)
        driver, found = await self._taken(run_id)
        try:
            await driver.flush()
            chain = await self._io(self._chain_to, run_id)
            if head is not None and head != found.last.digest.hex():
                raise RunRefused(f"run `{run_id}` has another head than the one that was named: look at it again")
            rehearsal = await self._proved(chain, version)
            documents = {version.digest: Plan(program).document, rehearsal.plan.digest: rehearsal.plan.document}
            for digest, text in {**documents, **rehearsal.plan.policy_documents}.items():
                await self._io(self.journal.put_document, digest, text)
            driver.record(moved_event(chain[-1], version, rehearsal.plan.policies, who))
            await driver.flush()
        finally:
            await self._io(self.journal.release, driver.lease)
        return _migration_of(chain, version, rehearsal)

    def _version(self, program: Program, grant: Mapping[str, Any]) -> Version:
        require_program(program)
        return Version(program, Plan(program).digest, checked_grant(grant))

    async def _proved(self, chain: Sequence[History], version: Version) -> Rehearsal:
        """Return what the last run of a chain becomes, if it may; raises RunRefused otherwise."""
        last, program = chain[-1], version.program
        require_movable(last, version)
        if not self._admission.asks:
            raise RunRefused("this machine has no checker, and so nothing can prove the version: give it one")
        present = [one for one in self.policies if one.applies(program.name, program.source_name)]
        moved = moved_event(last, version, (), NOTHING)
        rehearsal = rehearsed(chain, version, moved, present)
        why = await self._unproved(rehearsal)
        if why is not None:
            raise RunRefused(f"run `{last.run}` can't move to this version from where it is: {why}")
        self._require_tools(rehearsal.plan)
        await self._require_current(rehearsal.plan)
        return rehearsal

    async def _unproved(self, rehearsal: Rehearsal) -> str | None:
        """Return what the checker says against the rest of a version, or None.

        What it says of any values counts only if it says it also of the values that are there.
        """
        errors = await self._admission.errors(rehearsal.plan, rehearsal.plan.policies)
        if errors:
            narrow = rehearsal.narrow
            codes = {one.code for one in await self._admission.errors(narrow, narrow.policies)}
            errors = tuple(one for one in errors if one.code in codes)
        return f"{errors[0].code}: {errors[0].message}" if errors else None

    async def _depart(self, driver: Driver) -> None:
        """Create the run that goes on with a new version, before the run that moves to it ends."""
        found = await self._found(driver.run)
        chain = [*await self._io(chain_before, found, self._read), found]
        moved = last_move(found)
        assert moved is not None, "it moves"
        version = await self._io(version_of, self.journal, moved.body["program"], moved.body.get("granted", NOTHING))
        known = await self._io(recorded, self.journal, moved)
        named = {policy.policy for policy in known}
        present = [one for one in self.policies if one.policy in named or one.applies(version.program.name, "")]
        program, reads, policies = departure(chain, version, [*known, *present])
        plan = Plan(program, policies)
        self._require_tools(plan)
        inputs, continues = handed_over(chain, plan, reads, version.granted)
        note = found.records[0].note
        who: dict[str, Any] = {name: note[name] for name in ("by", "envelope") if name in note}
        for policy in policies:
            await self._io(self.journal.put_document, policy_digest(policy), document_of(policy))
        run = id_after([one.run for one in chain])
        driver.successor = await self._create(plan, run, inputs, who, {"continues": continues})

    async def _drive(self, driver: Driver) -> Run:
        """Drive a run until it stops, and the run behind it if it moves to another version."""
        run = await super()._drive(driver)
        if not run.has_moved:
            return run
        found = await self._found(driver.run)
        following = driver.successor
        if following is None:
            chain = [*await self._io(chain_before, found, self._read), found]
            name = id_after([one.run for one in chain])
            lease_and_run = await self._take(name)
            if lease_and_run is None:
                return run_of(await self._found(name))
            following = lease_and_run[0]
        run = await self._drive(following)
        return await self.cancel(run.id) if found.state.is_cancelled else run


def _migration_of(chain: Sequence[History], version: Version, rehearsal: Rehearsal) -> Migration:
    last = chain[-1]
    rules = [(policy.policy, rule.name) for policy in rehearsal.plan.policies for rule in policy.guardrails]
    return Migration(
        last.run,
        last.last.digest.hex(),
        last.plan.steps[last.state.at].id,
        version.digest,
        id_after([one.run for one in chain]),
        tuple(sorted(set(rehearsal.reads.values()))),
        tuple(f"{policy}:{name}" for policy, name in rules),
    )
