"""Mistakes of a fourteenth set, planted by a reader of the machine who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

FOURTEENTH: Final = (
    Planted(
        "a waiver of one code lifts the whole rule",
        (
            (
                "vm/machine/plan.py",
                """\
    \"""Return whether terms waive a rule of a policy, by its name or by all codes of its findings.\"""
    codes = automaton_of(rule).codes
    return terms.waives(policy, rule.name) or all(terms.waives(policy, code) for code in codes)
""",
                """\
    \"""Return whether terms waive a rule of a policy, by its name or by the codes of its findings.\"""
    return terms.waives(policy, rule.name, *automaton_of(rule).codes)
""",
            ),
        ),
    ),
    Planted(
        "a fallback of a sibling comes before",
        (
            (
                "vm/machine/ordering.py",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase == "success")
""",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase in GIVES)
""",
            ),
        ),
    ),
    Planted(
        "a new round keeps what was carried",
        (
            (
                "vm/machine/bodies.py",
                """\
    slots = put(state.slots, each.first) if each.first else state.slots
    return state._replace(each=each, slots=slots, steps=state.steps + 1, trace=trace)
""",
                """\
    return state._replace(each=each, steps=state.steps + 1, trace=trace)
""",
            ),
        ),
    ),
    Planted(
        "a suspended item frees its place",
        (
            (
                "vm/machine/forks.py",
                """\
    Items start in their order, while fewer than `max_concurrency` go on; one that waits for somebody goes on, too.
    After one has failed, none starts, unless the step skips those that fail.
    \"""
    if fork.begun == len(fork.branches):
        return ()
    if fork.items is not None:
        if len(fork.running) < plan.bodies[fork.at].most_beside and not fork.has_stopped:
""",
                """\
    Items start in their order, while fewer than `max_concurrency` go on. After one has failed, none starts, unless the
    step skips those that fail.
    \"""
    if fork.begun == len(fork.branches):
        return ()
    if fork.items is not None:
        states = (fork.branches[number].state for number in fork.running)
        going_on = sum(own is not None and own.status != SUSPENDED for own in states)
        if going_on < plan.bodies[fork.at].most_beside and not fork.has_stopped:
""",
            ),
        ),
    ),
    Planted(
        "an assigned path opens other fields",
        (
            (
                "vm/machine/data.py",
                """\
    before = as_object(base, opened(whole) if is_secret else whole)
""",
                """\
    before = as_object(base, opened(whole))
""",
            ),
        ),
    ),
    Planted(
        "claimed runs do not know their values",
        (
            (
                "vm/machine/runs.py",
                """\
        return await self._begin(lease, performs=performs)
""",
                """\
        taken = await self._begin(lease, performs=performs)
        _teach(*taken)
        return taken
""",
            ),
            (
                "vm/machine/runs.py",
                """\
        if found.plan.has_sensitive:
            for event in found.events:
                driver.known.learn(event)
""",
                "",
            ),
            (
                "vm/machine/runs.py",
                """\
            return


""",
                """\
            return


def _teach(driver: Driver, found: History) -> None:
    \"""Have the driver of a run know the sensitive values of its records.\"""
    if found.plan.has_sensitive:
        for happened in found.events:
            driver.known.learn(happened)


""",
            ),
        ),
    ),
    Planted(
        "a late holder releases the next lease",
        (
            (
                "vm/journal/sqlite.py",
                """\


class SQLiteJournal:
""",
                """\
_RELEASE: Final = "UPDATE runs SET expires = 0 WHERE run = ? AND fence >= ?"


class SQLiteJournal:
""",
            ),
            (
                "vm/journal/sqlite.py",
                """\
        if not self._expire(renewed):
            raise lease_lost(lease.run, lease.fence)
        return renewed

    def release(self, lease: Lease) -> None:
        self._expire(lease._replace(expires=0.0))
""",
                """\
        with self._file.writing(durable=False) as connection:
            is_ours = connection.execute(_EXPIRE, (renewed.expires, lease.run, lease.fence)).rowcount
        if not is_ours:
            raise lease_lost(lease.run, lease.fence)
        return renewed

    def release(self, lease: Lease) -> None:
        with self._file.writing(durable=False) as connection:
            connection.execute(_RELEASE, (lease.run, lease.fence))
""",
            ),
            (
                "vm/journal/sqlite.py",
                """\

    def _expire(self, lease: Lease) -> int:
        with self._file.writing(durable=False) as connection:
            return connection.execute(_EXPIRE, (lease.expires, lease.run, lease.fence)).rowcount
""",
                "",
            ),
        ),
    ),
    Planted(
        "other runs of equal length count as copied",
        (
            (
                "vm/journal/copying.py",
                """\
    if head is not None and row is not None and known is not None and known[:3] == head[:3] and not row.fault:
""",
                """\
    if head is not None and row is not None and known is not None and known[:2] == head[:2] and not row.fault:
""",
            ),
        ),
    ),
    Planted(
        "a wait hides the end of the time",
        (
            (
                "vm/machine/due.py",
                """\
    return min([*found, *(due / 1e6 for due in (first_wait(state), state.ends_by) if due)], default=None)
""",
                """\
    over = first_wait(state) or state.ends_by
    return min([*found, over / 1e6] if over else found, default=None)
""",
            ),
        ),
    ),
    Planted(
        "a model in a branch costs nothing",
        (
            (
                "vm/machine/apply.py",
                """\
    return is_same and "tokens" not in note
""",
                """\
    return is_same
""",
            ),
        ),
    ),
    Planted(
        "nobody settles calls of its own run",
        (
            (
                "vm/machine/authority.py",
                """\
    if state.caller and by in ("", state.caller):
        who = "it can't settle its own calls" if by else "whoever settles its calls has to say who it is"
        return "own_run", f"caller `{state.caller}` asked for the run: {who}"
""",
                """\
    if state.caller and by == state.caller:
        return "own_run", f"caller `{state.caller}` asked for the run: it can't settle its own calls"
""",
            ),
        ),
    ),
    Planted(
        "erasing a middle run spares later ones",
        (
            (
                "vm/machine/runs.py",
                """\
        later = list(chain_after(found, earlier, self._read))
""",
                """\
        later = list(chain_after(found, (), self._read))
""",
            ),
        ),
    ),
)
