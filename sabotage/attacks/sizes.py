"""Load at the limit of the state: exactly as large as allowed, or a byte larger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.injection import Interceptor
from stepward.sabotage.attacks.load import filled, has_room
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.trial import MAX_DELIVERIES, Trial
from stepward.sabotage.playing.world import Asking
from stepward.sabotage.target import Target
from stepward.vm.language.program import Program
from stepward.vm.machine.refusals import DeliveryRefused, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Limits

_LEAVING: Final = ("attempt", "resumed", "reconciled", "expired", "assigned", "joined", "blocked", "passed")
"""The kinds of records with which a step may leave something, or nothing, in the state."""

_VALUES: Final = frozenset({"output", "values", "request"})
"""The fields of records with a value that needs room."""

SOME: Final = 900
"""The bytes of an output that is made larger, so that the state is larger than the first record of a run."""


def _is_plain(target: Target) -> bool:
    return not (target.plan.bodies or target.plan.has_sensitive)


class StateAtTheEdge(Attack):
    """A run is repeated in a state that is exactly as large as the run needs, or a byte smaller."""

    family = Family.LOAD
    surface = "outputs and payloads together"
    action = "as large as a run may be, or a byte larger"
    invariant = Invariant.BOUNDS
    defence = "what all steps have left is added up from the journal, and compared to the byte before each record"
    severity = "high"
    weight = 2
    needs = (
        Need("no call has an output of any length", lambda target: any(map(has_room, target.calls.values()))),
        Need("a step has a body, or a value is sensitive", _is_plain),
    )

    def play(self, case: Case) -> Outcome:
        """Play a run, add up what it left in the state, and repeat it with as much room, and with a byte less."""
        from hypothesis import strategies as st

        first, ended = self._played(case, Limits())
        records = _records(first)
        most = most_at_once(records, _parents(case.target))
        # The limit also bounds the first record, which is not what this attack is about.
        case.needs(ended is not None and most >= len(first.store.inner.read(first.run)[0].record))
        missing = case.pick("missing bytes", st.sampled_from((0, 1)))
        case.story.clear()
        case.log(f"the same run again, where the state needs {most} bytes and may have {most - missing}")
        again, run = self._played(case, Limits(state_bytes=most - missing))
        found = most_at_once(_records(again), _parents(case.target))
        left = f"the state of the run had {found} bytes, and {most - missing} are allowed"
        case.hold(found <= most - missing, Invariant.BOUNDS, left)
        if missing:
            return Outcome.BLOCKED
        case.hold(run is not None, Invariant.REFUSAL, "a delivery is refused that makes the state as large as allowed")
        assert run is not None
        assert ended is not None
        is_same = (run.status, run.reason, run.trace_hash) == (ended.status, ended.reason, ended.trace_hash)
        case.hold(is_same, Invariant.BOUNDS, f"the run ends {run.status} in a state that is as large as it needs")
        case.hold(not again.faults(), Invariant.REPLAY, "an honest journal is called damaged")
        return Outcome.ABSORBED

    @staticmethod
    def _played(case: Case, limits: Limits) -> tuple[Trial, Run | None]:
        """Play a run to its end, or to the first delivery that is refused: then there is no end."""
        trial = Trial(case, limits=limits)
        # The reference is asked about sizes elsewhere: this attack adds them up from the records alone.
        trial.oracle.rest()

        def answer(asking: Asking) -> CallAnswer:
            value = case.pick(f"answer: {asking.name}", case.target.output(asking.call))
            full = filled(value, asking.call.returns, SOME)
            return CallAnswer("returns", value if full is None else full)

        trial.world.decides.append(Interceptor(case, has_room, answer))
        machine = trial.machine()
        try:
            run = trial.start(machine)
            for _ in range(MAX_DELIVERIES):
                if run.is_over:
                    break
                run = trial.deliver(run, machine)
        except (DeliveryRefused, RunRefused):
            return trial, None
        return trial, run


def _parents(target: Target) -> dict[str, str]:
    """Return the step to which each sub-step belongs."""
    return {call.id: step.id for step in target.plan.steps if step.is_parallel for call in step.calls}


def _records(trial: Trial) -> list[dict[str, Any]]:
    return [json.loads(entry.record) for entry in trial.store.inner.read(trial.run)]


def most_at_once(records: Iterable[Mapping[str, Any]], parents: Mapping[str, str]) -> int:
    """Return the bytes for which a run needs room at once, by its records outside of bodies.

    A step counts for the value that it left at its last visit; a request has to fit, and counts no longer when it is
    answered. `parents` are the steps of sub-steps, which count where they are joined.
    """
    left: dict[str, int] = {}
    together: dict[str, Any] = {}
    most = 0
    for record in records:
        body = record["body"]
        if record["kind"] not in _LEAVING or body.get("kind") in ("again", "doubt"):
            continue
        step = body["step"]
        owner = parents.get(step, step)
        if owner != step:
            together |= {step: body["output"]} if "output" in body else {}
        value = together if record["kind"] == "joined" else next((body[key] for key in _VALUES if key in body), None)
        is_value = record["kind"] == "joined" or not _VALUES.isdisjoint(body)
        size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) if is_value else 0
        most = max(most, sum(left.values()) - left.get(owner, 0) + size)
        if owner == step and "request" not in body and (is_value or record["kind"] != "reconciled"):
            left[owner], together = size, {}
    return most


CHARACTERS: Final = ("a", "\u00e9", "\u20ac", "\U0001f600", '"', "\n")
"""One for each number of bytes that a character has, and two that are escaped."""

SHAPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "v": {"id": "one", "type": "set", "set": {"v": "$given"}},
    "c": {
        "id": "one",
        "type": "for_each",
        "items": [1],
        "as": "item",
        "carry": {"c": "$given"},
        "steps": [{"id": "in", "type": "set", "set": {"c": "$item"}}],
    },
}
"""Steps that leave one value under a name, or carry it in: what the step needs room for is an object of that name."""


@cache
def _leaving(name: str, kind: str) -> Program:
    return Program.from_dict(
        {"name": "sized", "language": 2, "inputs": {"given": {"type": kind}}, "steps": [dict(SHAPES[name])]}
    )


class ValuesAtTheEdge(Attack):
    """A step computes a value, or carries one into its items, that is as large as allowed, or a byte larger: a text of
    characters of one to four bytes, or a long number."""

    family = Family.LOAD
    surface = "values that a step computes, or carries into its items"
    action = "as large as allowed, or a byte larger, in characters of each length"
    invariant = Invariant.BOUNDS
    defence = "a value that may be too large is measured in bytes, whatever its characters are"
    severity = "medium"
    weight = 3
    draws = True

    def play(self, case: Case) -> Outcome:
        """Run each step with each value, under the exact limit and under one byte less."""
        chance = Random(f"sizes {case.seed()}")
        many = chance.randint(40, 90)
        values: list[Any] = [character * many for character in CHARACTERS]
        values += ["a" * many + chance.choice(CHARACTERS), int("9" * many)]
        for name, number in case.each("step, value", [(name, at) for name in SHAPES for at in range(len(values))]):
            value = values[number]
            text = json.dumps({name: value}, ensure_ascii=False, separators=(",", ":"))
            size = len(text.encode()) + (4 if isinstance(value, int) else 0)  # the tag and quotes of an exact number
            for missing in (0, 1):
                case.act(f"`{name}` has {size} bytes, and {size - missing} are allowed")
                machine = case.machine(limits=Limits(output_bytes=size - missing))
                program = _leaving(name, "string" if isinstance(value, str) else "integer")
                run = case.do(machine.run(program, {"given": value}, run_id=case.run_id()))
                is_well = run.status == "SUCCESS"
                case.hold(
                    is_well is not bool(missing), self.invariant, f"with {missing} bytes less, it is {run.status}"
                )
        return Outcome.ABSORBED
