"""Mistakes of a thirteenth set, planted by a reader of the machine who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

THIRTEENTH: Final = (
    Planted(
        "branches of a body do not share its rules",
        (
            (
                "vm/machine/monitors.py",
                """\
            is_shared = [one.automaton.is_shared and one.owner in owners for one in self.monitors]
""",
                """\
            is_shared = [one.automaton.is_shared and one.owner is None for one in self.monitors]
""",
            ),
        ),
    ),
    Planted(
        "an expired waiver still lifts its rule",
        (
            (
                "vm/machine/execution.py",
                """\
        self._plans: dict[Any, tuple[Program, Plan, datetime.date | None]] = {}
""",
                """\
        self._plans: dict[Any, tuple[Program, Plan]] = {}
""",
            ),
            (
                "vm/machine/execution.py",
                """\
        today = self._today()
        cached = self._plans.get(id(program))
        if cached is not None and cached[0] is program and cached[2] == today:
            return cached[1]
        policies = applying(program, self.policies)
        plan = Plan(program, policies, waived(program, policies, today))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[id(program)] = (program, plan, today)
""",
                """\
        cached = self._plans.get(id(program))
        if cached is not None and cached[0] is program:
            return cached[1]
        policies = applying(program, self.policies)
        plan = Plan(program, policies, waived(program, policies, self._today()))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[id(program)] = (program, plan)
""",
            ),
        ),
    ),
    Planted(
        "a failed item hands on what it carries",
        (
            (
                "vm/machine/bodies.py",
                """\
        carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
""",
                """\
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
    carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
""",
            ),
        ),
    ),
    Planted(
        "the first branch of the order fails first",
        (
            (
                "vm/machine/branches.py",
                """\
    return [(plan.steps[layout.branches[number]].id, found[number]) for number in layout.written if number in found]
""",
                """\
    return [(plan.steps[layout.branches[number]].id, failure) for number, failure in found.items()]
""",
            ),
        ),
    ),
    Planted(
        "values are put after their records",
        (
            (
                "vm/machine/driver.py",
                """\
        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
""",
                "",
            ),
            (
                "vm/machine/driver.py",
                """\
            await self._give_way()
            return
""",
                """\
            await self._give_way()
            return
        if self.secrets:  # not sooner: whoever has lost the lease brings no values
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
""",
            ),
        ),
    ),
    Planted(
        "two tasks of a machine take a run from each other",
        (
            (
                "vm/machine/runs.py",
                """\
        lease = await self._leased(self.journal.acquire, run, self._next_holder(), at, ttl)
""",
                """\
        lease = await self._leased(self.journal.acquire, run, self._holder, at, ttl)
""",
            ),
        ),
    ),
    Planted(
        "reconciled outputs are not sealed",
        (
            (
                "vm/machine/known.py",
                """\
FROM_OUTSIDE: Final = ("attempt", "resumed", "reconciled")
""",
                """\
FROM_OUTSIDE: Final = ("attempt", "resumed")
""",
            ),
        ),
    ),
    Planted(
        "only the first overdue deadline expires",
        (
            (
                "vm/machine/deliveries.py",
                """\
        if overdue(driver.plan, driver.state, self.clock.now()) is not None:
""",
                """\
        late = overdue(driver.plan, driver.state, self.clock.now())
        if late is not None:
            driver.record(late)
""",
            ),
            (
                "vm/machine/deliveries.py",
                """\
        \"""Record what is over by the clock of this machine; return the call of a token, and the state that it sees.

        Raises DeliveryRefused if its deadline has passed. The run is let go then: whoever takes up runs goes on.
        \"""
        while (event := overdue(driver.plan, driver.state, self.clock.now())) is not None:
            driver.record(event)
""",
                """\
        \"""Return the call of a token after something was over, and the state that it sees.

        Raises DeliveryRefused if its deadline has passed. The run is let go then: whoever takes up runs goes on.
        \"""
""",
            ),
        ),
    ),
    Planted(
        "branches forget what they cost",
        (
            (
                "vm/machine/forks.py",
                """\
    return packed(State, state[:OUTER_PARTS] + changed + own[OWN_PARTS:])
""",
                """\
    found = packed(State, state[:OUTER_PARTS] + changed + own[OWN_PARTS:])
    return found._replace(cost=state.cost)
""",
            ),
        ),
    ),
    Planted(
        "four_eyes of the machine that goes on is ignored",
        (
            (
                "vm/machine/plan.py",
                """\
            for terms in reversed(self.terms)
            for policy in reversed(terms.policies)
            for tool in policy.four_eyes or ()
            if not terms.waives(policy, "four_eyes")
""",
                """\
            for policy in reversed(self.policies)
            for tool in policy.four_eyes or ()
            if not self.terms[0].waives(policy, "four_eyes")
""",
            ),
        ),
    ),
    Planted(
        "a late write is not named at the end",
        (
            (
                "vm/machine/calls.py",
                """\
        if call.writes and (call_state.phase in (OPEN, "doubt") or call_state.is_unknown)
""",
                """\
        if call.writes and call_state.phase in (OPEN, "doubt")
""",
            ),
        ),
    ),
    Planted(
        "a chain forgets writes of its first run",
        (
            (
                "vm/machine/continuing.py",
                """\
    performed = tuple(dict.fromkeys(write for history in _interrupted(chain) for write in _writes(history)))
    return tuple(
        policy.model_copy(
            update={"continues": chain[0].run}
            | ({"performed": performed} if policy.policy == effects and performed else {})
        )
        for policy in policies
    )
""",
                """\
    # Those of earlier runs are in the policy of the last one.
    new = [write for history in _interrupted(chain)[-1:] for write in _writes(history)]
    found = []
    for policy in policies:
        performed = tuple(dict.fromkeys((*policy.performed, *(new if policy.policy == effects else ()))))
        changes = {"continues": chain[0].run} | ({"performed": performed} if performed else {})
        found.append(policy.model_copy(update=changes))
    return tuple(found)
""",
            ),
        ),
    ),
)
