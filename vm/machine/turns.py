"""The turns of a session: runs that are one run. Each begins with what its rules have seen in the one before.

The runs are named `NAME.1`, `NAME.2` and so on. The first record of each has its text, and names the turn before it and
its head, as that of a continuation does. The policies of each are derived from those of the run before, and from what
the monitors remember at its end, so that a verifier derives them again and compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepward.vm.language.past import continued
from stepward.vm.language.policy import Policy
from stepward.vm.machine.continuing import Continues
from stepward.vm.machine.history import History
from stepward.vm.machine.plan import policy_digest

_OPENING: Final = frozenset({"data", "max_steps", "signature"})
"""What only the first turn says: it counts for the whole session."""


class TurnRequest(NamedTuple):
    """What the first record of a turn says: its text; and in the first turn what the session was started with."""

    text: str
    data: Mapping[str, Any] = {}
    signature: str | None = None
    max_steps: int | None = None

    def to_body(self) -> dict[str, Any]:
        """Return it as in the record; what is empty is left out."""
        found = {"data": dict(self.data) or None, "signature": self.signature, "max_steps": self.max_steps}
        return {"text": self.text, **{name: value for name, value in found.items() if value is not None}}


def is_turn(found: History) -> bool:
    """Return whether a run is a turn of a session."""
    return "turn" in found.records[0].body


def turn_request_of(found: History) -> TurnRequest:
    """Return what a turn says of itself; raises TypeError or KeyError if that is malformed."""
    body = found.events[0].body["turn"]
    turn = TurnRequest(body["text"], body.get("data", {}), body.get("signature"), body.get("max_steps"))
    is_fine = type(turn.text) is str and isinstance(turn.data, Mapping)
    is_fine = is_fine and type(turn.signature) in (str, type(None)) and type(turn.max_steps) in (int, type(None))
    if not is_fine or not body.keys() <= {"text"} | _OPENING:
        raise TypeError("it is no turn")
    return turn


def turn_policies(policies: Sequence[Policy], before: History) -> tuple[Policy, ...]:
    """Return the policies of a turn after a run that was under `policies`.

    The names of a turn are its own, so nothing that a condition of an earlier turn has read is assigned again.
    """
    first = next((policy.continues for policy in policies if policy.continues is not None), before.run)
    memories = iter(before.state.monitors)
    meaning = before.plan.meaning
    found = []
    for policy in policies:
        rules = tuple(continued(rule, next(memories), meaning, ()) for rule in policy.guardrails)
        found.append(policy.model_copy(update={"guardrails": rules, "continues": first}))
    return tuple(found)


def turn_name(session: str, number: int) -> str:
    """Return the id of the run of a turn; turns are counted from 1."""
    return f"{session}.{number}"


def name_behind(turn: str) -> str:
    """Return the only id that the turn after a turn can have: so a session goes on in one way."""
    session, _, number = turn.rpartition(".")
    return turn_name(session, int(number) + 1)


def link_behind(before: History) -> dict[str, Any]:
    """Return what a turn says of the one before it."""
    number = int(before.run.rpartition(".")[2])
    return {"run": before.run, "head": before.last.digest.hex(), "reads": {}, "number": number}


def steps_left(before: History) -> int | None:
    """Return the steps that a session has left after a turn; None without a bound."""
    max_steps = before.plan.program.max_steps
    return None if max_steps is None else max_steps - before.state.steps


def turn_misfit(found: History, link: Continues | None, before: History | None) -> str | None:
    """Return why a turn does not continue the one before it as a machine would have it, or None.

    `link` is what it says of the turn before it, `before` that run, None for a first turn. Whether that run had ended
    at the head that is named is looked at elsewhere.
    """
    try:
        turn = turn_request_of(found)
    except (TypeError, KeyError, AttributeError):
        return "it does not say in words of the format which turn it is"
    number = 1 if link is None else link.number + 1
    if found.run != turn_name(found.run.rpartition(".")[0], number):
        return f"it says that it is turn {number} of a session, and its id says otherwise"
    if link is None or before is None:
        is_other = any(policy.continues is not None for policy in found.plan.policies)
        if is_other:
            return "its rules have seen something, and it is the first turn of its session"
        budget = turn.max_steps
    else:
        if link.run != turn_name(found.run.rpartition(".")[0], number - 1) or not is_turn(before):
            return f"it continues run `{link.run}`, which is not the turn before it"
        if not before.state.is_over:
            return f"the turn before it, run `{before.run}`, has not ended"
        if link.reads or link.granted or turn.to_body().keys() != {"text"}:
            return "it says what only the first turn of a session says, or what only a continuation says"
        due = [policy_digest(policy) for policy in turn_policies(before.plan.policies, before)]
        if due != list(found.records[0].body["policies"]):
            return f"its rules do not begin where run `{before.run}`, the turn before it, has left them"
        budget = steps_left(before)
    if found.plan.program.max_steps != budget:
        return f"it may take other steps than its session has left, {'any number' if budget is None else budget}"
    return None


def stray(found: History) -> str | None:
    """Return why a run is under rules that have seen another run, and says of none that it continues it, or None."""
    first = next((policy.continues for policy in found.plan.policies if policy.continues is not None), None)
    if first is None or "continues" in found.records[0].body:
        return None
    return f"its rules have seen what run `{first}` has done, and it continues no run"
