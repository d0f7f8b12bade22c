"""Chains of runs: reads the runs that come before one, and checks that each continues the one before as it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stepward.vm.errors import StepwardError
from stepward.vm.journal.canonical import ErasedError, has_gone, opened
from stepward.vm.journal.store import Journal, JournalError
from stepward.vm.language.policy import plain
from stepward.vm.language.types import same
from stepward.vm.machine.continuing import (
    ENDINGS,
    Continues,
    Start,
    allowed_budgets,
    base_policies,
    bounded,
    continues_of,
    derived_policies,
    id_after,
)
from stepward.vm.machine.data import completed
from stepward.vm.machine.events import MOVED
from stepward.vm.machine.handing import read_from, unread
from stepward.vm.machine.history import History, Plans, applied, load
from stepward.vm.machine.moving import departure, last_move, recorded, version_of
from stepward.vm.machine.plan import policy_digest
from stepward.vm.machine.state import before
from stepward.vm.machine.turns import is_turn, name_behind, turn_misfit

Load = Callable[[str], History | None]
"""Reads a run; None if there is none."""


def link_of(found: History) -> Continues | None:
    """Return what a run says of the one before it, or None; raises JournalError if that is malformed."""
    try:
        return continues_of(found.events[0].body)
    except (TypeError, KeyError):
        raise JournalError(f"run `{found.run}` does not say in words of the format which run it continues") from None


def chain_before(found: History, read: Load) -> list[History]:
    """Return the runs of a chain before a run, oldest first; raises JournalError if one is missing or does not fit."""
    chain: list[History] = []
    link = link_of(found)
    while link is not None:
        number, before_it = link.number, read(link.run)
        if before_it is None:
            raise JournalError(f"run `{found.run}` continues run `{link.run}`, which is not in this store")
        chain.insert(0, before_it)
        link = link_of(before_it)
        if number != (1 if link is None else link.number + 1):
            raise JournalError(f"run `{found.run}` is not number {number} of the runs that continue one another")
    return chain


def chain_after(found: History, chain: Sequence[History], read: Load) -> Iterator[History]:
    """Yield the runs of a chain behind a run, in order; `chain` are those before it."""
    names = [one.run for one in (*chain, found)]
    while True:
        following = read(name_behind(names[-1]) if is_turn(found) else id_after(names))
        link = None if following is None else link_of(following)
        if following is None or link is None or link.run != names[-1]:
            return
        names.append(following.run)
        yield following


def link_misfit(found: History, chain: Sequence[History], journal: Journal) -> str | None:
    """Return why a run does not continue the last run of a chain as a machine would have it, or None.

    `chain` are the runs before it, oldest first. Raises JournalError if their records do not fit together.
    """
    link = link_of(found)
    if link is None:
        return None
    last = chain[-1]
    if is_turn(found) or is_turn(last):
        return turn_link_misfit(found, link, last, journal)
    if found.run != id_after([one.run for one in chain]):
        return f"it has another id than the continuation of run `{last.run}`"
    if last.state.moved:
        return _move_misfit(found, chain, link, journal)
    if last.state.status not in (*ENDINGS, "FAILED"):
        return f"it continues run `{last.run}`, which has ended {last.state.status}"
    if not _was_over_at(last, link.head, journal):
        return f"it names a head that run `{last.run}` did not have when it had ended"
    if found.plan.program.language != last.plan.program.language:
        return f"its language is not that of run `{last.run}`"
    blind = unread(chain, found.plan.policies, link.reads)
    return (
        blind or _input_misfit(found, last, link) or _terms_misfit(found, chain) or _budget_misfit(found, chain, link)
    )


def turn_link_misfit(found: History, link: Continues | None, last: History | None, journal: Journal) -> str | None:
    """Return why a run does not continue a turn of a session, `last`, as its next turn, or None; the first turn of a
    session continues none."""
    if not is_turn(found):
        return f"it continues run `{'' if last is None else last.run}`, a turn of a session, and is no turn"
    why = turn_misfit(found, link, last)
    if why is None and link is not None and last is not None and not _was_over_at(last, link.head, journal):
        return f"it names a head that run `{last.run}` did not have when it had ended"
    return why


def _move_misfit(found: History, chain: Sequence[History], link: Continues, journal: Journal) -> str | None:
    """Return why a run does not go on with a new version as the run before it has to, or None."""
    last = chain[-1]
    if last.state.is_over and last.state.reason != MOVED:
        return f"it continues run `{last.run}`, which has ended {last.state.status}"
    if not _was_over_at(last, link.head, journal):
        return f"it names a head that run `{last.run}` did not have when it left for another version"
    moved = last_move(last)
    assert moved is not None, "its state says so"
    version = version_of(journal, moved.body["program"], moved.body.get("granted", {}))
    own = [plain(policy) for policy in found.plan.terms[0].policies]
    missing = {one.policy for one in recorded(journal, moved)} - {one.policy for one in own}
    if missing:
        return f"it is not under policy `{min(missing)}`, under which run `{last.run}` has moved"
    try:
        program, reads, _ = departure(chain, version, own)
    except ErasedError:
        return None  # the types of values can't be looked at any more
    if program.to_data() != found.plan.program.to_data():
        return f"its program is not the rest of the version to which run `{last.run}` has moved"
    if dict(reads) != dict(link.reads) or dict(version.granted) != dict(link.granted):
        return f"it reads or may spend something else than run `{last.run}` has left it"
    notes = [{name: one.records[0].note.get(name) for name in ("by", "envelope")} for one in (last, found)]
    if notes[0] != notes[1]:
        return f"it names another person or caller than run `{last.run}`"
    return _input_misfit(found, last, link) or _terms_misfit(found, chain) or _budget_misfit(found, chain, link)


def _was_over_at(last: History, head: str, journal: Journal) -> bool:
    """Return whether the record with this digest is one with which a run had ended."""
    entries = journal.read(last.run)
    number = next((one.seq for one in entries if one.digest.hex() == head), None)
    if number is None:
        return False
    state = before(last.plan)
    for seq, event in enumerate(last.events[: number + 1]):
        state = applied(last.plan, state, event, seq)
    return state.is_over or state.is_leaving


def _input_misfit(found: History, last: History, link: Continues) -> str | None:
    inputs = found.events[0].body["inputs"]
    for name, reference in link.reads.items():
        if name not in found.plan.inputs:
            return f"it reads `{name}`, which is no input of its program"
        try:
            read = read_from(last, reference)
        except StepwardError as error:
            return str(error)
        if not has_gone(read) and not has_gone(inputs.get(name)) and not same(opened(read), opened(inputs.get(name))):
            return f"its input `{name}` is not what `{reference}` was at the end of run `{last.run}`"
    if any(map(has_gone, inputs.values())):
        return None  # what the defaults are of can't be looked at any more
    read = {name: opened(inputs[name]) for name in link.reads if name in inputs}
    due, why = completed(read, found.plan.input_types)
    if why is not None:
        return f"input {why}"
    is_odd = (name for name, value in inputs.items() if not same(opened(value), opened(due.get(name))))
    return next((f"its input `{name}` comes from nowhere" for name in is_odd), None)


def _terms_misfit(found: History, chain: Sequence[History]) -> str | None:
    """Return why the policies of a continuation are not those that follow from the runs before, or None."""
    for number, terms in enumerate(found.plan.terms):
        base = base_policies(chain, map(plain, terms.policies)) if not number else list(map(plain, terms.policies))
        try:
            due = derived_policies(chain, base, Start.of(found))
        except ErasedError:
            return None  # a digest of arguments can't be computed again
        if {policy_digest(one) for one in due} != {policy_digest(one) for one in terms.policies} or terms.waived:
            return f"its policies are not those in which run `{chain[-1].run}` has left them"
    return None


def _budget_misfit(found: History, chain: Sequence[History], link: Continues) -> str | None:
    try:
        within = bounded(found.plan.program, allowed_budgets(chain, link.granted))
    except StepwardError:
        within = None
    if within is None or within.to_data() != found.plan.program.to_data():
        return f"it may spend more than run `{chain[-1].run}` has left, and was granted"
    return None


def reader(journal: Journal, plans: Plans) -> Load:
    """Return a function that reads runs of a journal."""
    return lambda run: load(journal, run, plans)
