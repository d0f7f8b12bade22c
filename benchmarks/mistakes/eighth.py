"""Mistakes of an eighth set, planted while the campaign learned to find the seventh."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

EIGHTH: Final = (
    Planted(
        "a live run is taken by a machine with a shorter lease",
        (
            (
                "vm/machine/runs.py",
                """\
        is_stranded = row is not None and row.expires > self.clock.now() / 1e6 + LONGEST_LEASE
""",
                """\
        is_stranded = row is not None and row.expires > self.clock.now() / 1e6 + self._setup.lease_seconds
""",
            ),
        ),
    ),
    Planted(
        "the vault is written after the records",
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
                """\
""",
            ),
            (
                "vm/machine/driver.py",
                """\
            return
        self.committed = (state, last)
""",
                """\
            return
        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
        self.committed = (state, last)
""",
            ),
        ),
    ),
    Planted(
        "a replay forgets where the attempts of a round begin",
        (
            (
                "vm/machine/replay.py",
                """\
    return _outcome_misfit(plan, state, call, call_state, event) or _output_misfit(plan, state, event)
""",
                """\
    return _outcome_misfit(plan, state, call, event) or _output_misfit(plan, state, event)
""",
            ),
            (
                "vm/machine/replay.py",
                """\
def _outcome_misfit(plan: Plan, state: State, call: CallPlan, call_state: CallState, event: Event) -> str | None:
""",
                """\
def _outcome_misfit(plan: Plan, state: State, call: CallPlan, event: Event) -> str | None:
""",
            ),
            (
                "vm/machine/replay.py",
                """\
        "again": event.note["attempt"] - call_state.base < tries,
""",
                """\
        "again": event.note["attempt"] < tries,
""",
            ),
        ),
    ),
    Planted(
        "a fallback of a sub-step counts as a success",
        (
            (
                "vm/machine/leaving.py",
                """\
    parts = [(step.position, sub) for sub, call in enumerate(calls) if call.phase == "success"]
""",
                """\
    parts = [(step.position, sub) for sub, call in enumerate(calls) if call.phase in ("success", "fallback")]
""",
            ),
        ),
    ),
    Planted(
        "the allow-list of a later policy is skipped for constant arguments",
        (
            (
                "vm/machine/plan.py",
                """\
        is_free = not any(terms.policies for terms in plan.terms)
        if isinstance(call, ToolCall) and self.arg_types is None and is_free and not any(embedded(call.args)):
""",
                """\
        if isinstance(call, ToolCall) and self.arg_types is None and not plan.policies and not any(embedded(call.args)):
""",
            ),
        ),
    ),
    Planted(
        "an attempt that recovery makes again is charged",
        (
            (
                "vm/machine/calls.py",
                """\
        return sum([call.attempt > 1 and not call.is_started for call in ready])
""",
                """\
        return sum([call.attempt > 1 for call in ready])
""",
            ),
        ),
    ),
    Planted(
        "a number in a text has an exponent",
        (
            (
                "vm/values.py",
                """\
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, int):
        return format(decimal.Decimal(value), "f")
""",
                """\
    if isinstance(value, int | decimal.Decimal):
        return str(value)
""",
            ),
        ),
    ),
    Planted(
        "an output of a sub-step makes no branch stale",
        (
            (
                "vm/language/automata.py",
                """\
from stepward.vm.language.steps import ConditionStep, Failing, parts
""",
                """\
from stepward.vm.language.steps import ConditionStep, Failing
""",
            ),
            (
                "vm/language/automata.py",
                """\
        for sub, part in parts(step)
""",
                """\
        for sub, part in ((None, step),)
""",
            ),
        ),
    ),
    Planted(
        "a neighbour in one `set` becomes sensitive",
        (
            (
                "vm/machine/decide.py",
                """\
    try:
        for name, assigned in assigning.assigns.items():
            tree = trees.get(name)
            values[name] = assigned if tree is None else computed(tree, Reader(plan, state.slots))
""",
                """\
    reader = Reader(plan, state.slots)
    try:
        for name, assigned in assigning.assigns.items():
            tree = trees.get(name)
            values[name] = assigned if tree is None else computed(tree, reader)
""",
            ),
            (
                "vm/machine/data.py",
                """\
    own = Reader(reader.plan, reader.slots)
""",
                """\
    own = reader
""",
            ),
        ),
    ),
    Planted(
        "the trace of a sub-step has all rounds",
        (
            (
                "vm/machine/apply.py",
                """\
from stepward.vm.journal.records import NO_DIGEST, TRACE_TAG
""",
                """\
from stepward.vm.journal.records import TRACE_TAG
""",
            ),
            (
                "vm/machine/apply.py",
                """\
            call._replace(phase=READY, base=call.attempt, trace=NO_DIGEST, due=0) if call.phase == "failed" else call
            for call in calls
""",
                """\
            call._replace(phase=READY, base=call.attempt, due=0) if call.phase == "failed" else call for call in calls
""",
            ),
        ),
    ),
    Planted(
        "a token is read before the lease",
        (
            (
                "vm/machine/deliveries.py",
                """\
            if lease_and_run is not None and (still := _awaited(lease_and_run[1], read)) is not None:
                local, call = still
                break
            if lease_and_run is not None:
                await self._io(self.journal.release, lease_and_run[0].lease)
            elif not pause and await self._impossible_expiry(read.run) is not None:
""",
                """\
            if lease_and_run is not None:
                break
            if not pause and await self._impossible_expiry(read.run) is not None:
""",
            ),
        ),
    ),
    Planted(
        "a cancellation is not seen between calls of models",
        (
            (
                "vm/machine/driver.py",
                """\
        elif plan.is_model:
            self.urgency = max(self.urgency, COMMITS)
""",
                """\
""",
            ),
        ),
    ),
)
