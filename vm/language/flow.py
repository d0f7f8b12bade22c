"""Control flow: the one function that says where a run goes after a step (specs/language.md, "Control flow").

The machine, the checker, the diagrams and the sabotage oracle read it from here, and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, cast

from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyStep, Case, LlmStep, ParallelStep, ToolStep

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end"]
"""Why control goes on: what became of the step.

`success`, `fallback` and `skipped` go to the successor; `failed` to the error step, or ends the run (a condition or a
`set` fails only where an expression has no value); `branch` is a condition's choice, `uncovered` that it has none;
`visits` that the step was not started again; `end` an `end` step.
"""

Status = Literal["SUCCESS", "FAILED", "STALLED"]

END: Final = -1
"""The run ends: the transition has an ending."""

MISSING: Final = -2
"""The program names a step that it does not have."""


class Ending(NamedTuple):
    """How a run ends: its status, and the reason: `declared` for an ending that the program itself states."""

    status: Status
    reason: Literal["declared", "error", "uncovered", "visits"]


class Transition(NamedTuple):
    """One way out of a step. `to` is the position of the next step, END or MISSING.

    `field` is the path, below the step, of the field that names the target; `branch` is `then`, `otherwise`, or the
    number of a case counted from 1.
    """

    kind: Kind
    to: int
    ending: Ending | None = None
    branch: str | int | None = None
    field: tuple[str | int, ...] = ()

    @property
    def is_drawn(self) -> bool:
        """Whether the program states this way itself: an edge of the graph or a declared ending."""
        return self.to != END or (self.ending is not None and self.ending.reason == "declared")


_Parts = tuple[Kind, int, Ending | None, str | int | None, tuple[str | int, ...]]
"""A transition as a plain tuple, which is made in a tenth of the time: a large program has hundreds of thousands."""

SUCCEEDED: Final = Ending("SUCCESS", "declared")
DECLARED_FAILURE: Final = Ending("FAILED", "declared")

_USUAL: Final = frozenset(
    ["id", "type", "next_step", "tool", "args", "prompt", "system", "allowed_outputs", "output_key", "output", "set"]
).union(["condition", "then", "otherwise", "cases", "exclusive", "parallel_steps", "max_concurrency"])
"""The fields that say what a step does, and where control goes when all is well."""

_FAILING: Final = frozenset(["on_error", "error_step", "on_timeout"])
"""The fields that say where control goes when a call does not succeed."""

_new: Final = tuple.__new__

_ENDS_WELL: Final = Transition("success", END, SUCCEEDED)
_ENDS_IN_FAILURE: Final = Transition("success", END, DECLARED_FAILURE)
_FAILS: Final = Transition("failed", END, Ending("FAILED", "error"))
_UNCOVERED: Final = Transition("uncovered", END, Ending("FAILED", "uncovered"))
_STALLS: Final = Transition("visits", END, Ending("STALLED", "visits"))
_END_STEP: Final = Transition("end", END, SUCCEEDED)
_END_STEP_FAILURE: Final = Transition("end", END, DECLARED_FAILURE)


class Flow:
    """The control flow of a program: for each step, by its position, every way out of it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.steps
        # What is asked of every step of a large program is asked here; only what was given is in it.
        self.fields: list[dict[str, Any]] = [step.__dict__ for step in program.steps]
        self._names_missing = False
        self._ambiguous: set[int] = set()
        ids: list[str] = [fields["id"] for fields in self.fields]
        self.position = dict(zip(ids, range(len(ids)), strict=True))
        if len(self.position) < len(ids):  # SW005; the first of two steps is the one that targets mean
            self.position = dict(zip(reversed(ids), reversed(range(len(ids))), strict=True))

    @cached_property
    def kinds(self) -> list[str]:
        """The type of every step, by its position."""
        return [fields["type"] for fields in self.fields]

    @cached_property
    def positions_of(self) -> dict[str, list[int]]:
        """The positions of the steps of each type that the program has, in ascending order."""
        kinds = self.kinds
        return {kind: [number for number, found in enumerate(kinds) if found == kind] for kind in set(kinds)}

    @cached_property
    def arms(self) -> frozenset[str]:
        """The ids that a branch, a case or an `error_step` names."""
        conditions = [self.fields[number] for number in self.positions_of.get("condition", ())]
        names: set[str | None] = {fields.get("then") for fields in conditions}
        names.update([fields.get("otherwise") for fields in conditions])
        names.update(case.then for fields in conditions if "cases" in fields for case in fields["cases"] or ())
        names.update([self.fields[number]["error_step"] for number in self.having("error_step")])
        names.discard(None)
        return cast("frozenset[str]", frozenset(names))

    @cached_property
    def unusual(self) -> list[int]:
        """The steps with a field that few steps have: what speaks of such fields need not look at the others."""
        return [number for number, fields in enumerate(self.fields) if not _USUAL.issuperset(fields)]

    def having(self, field: str) -> Sequence[int]:
        """Return the steps to which a field was given that few steps have, in ascending order."""
        assert field not in _USUAL, "too many have it"
        return self._having.get(field, ())

    @cached_property
    def _having(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number in self.unusual:
            for field in self.fields[number]:
                if field not in _USUAL:
                    found.setdefault(field, []).append(number)
        return found

    @cached_property
    def transitions(self) -> list[tuple[Transition, ...]]:
        """Every way out of every step, by its position."""
        return [_transitions(ways) for ways in self._ways]

    def transitions_of(self, number: int) -> tuple[Transition, ...]:
        """Return every way out of one step, without making those of the others."""
        return _transitions(self._ways[number])

    @cached_property
    def _ways(self) -> list[tuple[_Parts, ...]]:
        unusual = frozenset(self.unusual)
        return [self._ways_out(number, fields, number in unusual) for number, fields in enumerate(self.fields)]

    @cached_property
    def has_missing_target(self) -> bool:
        """Whether the program names a step that it does not have."""
        assert self.successors is not None, "it is noted when they are made"
        return self._names_missing

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, by position and without repetition."""
        result: list[tuple[int, ...]] = []
        for ways in self._ways:
            if len(ways) == 2 and ways[1] is _FAILS and ways[0][1] >= 0:  # as of most steps
                result.append((ways[0][1],))
                continue
            targets: list[int] = []
            for way in ways:
                to = way[1]
                if to >= 0:
                    targets.append(to)
                elif to == MISSING:
                    self._names_missing = True
            are_distinct = len(targets) < 2 or (len(targets) == 2 and targets[0] != targets[1])
            result.append(tuple(targets if are_distinct else dict.fromkeys(targets)))
        return result

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The steps that each step may follow."""
        result: list[list[int]] = [[] for _ in self.steps]
        for number, following in enumerate(self.successors):
            for target in following:
                result[target].append(number)
        return result

    @cached_property
    def reachable(self) -> bytearray:
        """For each step, 1 where some path of edges leads to it from the entry."""
        seen = bytearray(len(self.steps))
        seen[0] = 1
        pending = [0]
        successors = self.successors
        while pending:
            for target in successors[pending.pop()]:
                if not seen[target]:
                    seen[target] = 1
                    pending.append(target)
        return seen

    @cached_property
    def ambiguous_arms(self) -> frozenset[int]:
        """The steps at which rules 3 and 4 clash (SW106): both ways out are given, and the program is refused."""
        assert self._ways is not None, "they note it when they are made"
        return frozenset(self._ambiguous)

    def falls_through(self, number: int) -> bool:
        """Return whether control goes from this step to the next in the list because nothing else is said (rule 4)."""
        fields = self.fields[number]
        return _says_nothing(fields) and fields["id"] not in self.arms

    def is_arm_without_successor(self, number: int) -> bool:
        """Return whether the run ends after this step because it is an arm that does not say where to go (rule 3)."""
        fields = self.fields[number]
        is_last = number + 1 == len(self.steps)
        return _says_nothing(fields) and not is_last and fields["id"] in self.arms and number not in self.ambiguous_arms

    def _ways_out(self, number: int, fields: dict[str, Any], is_unusual: bool) -> tuple[_Parts, ...]:
        kind = fields["type"]
        if kind == "condition":
            ways = self._branches(fields)
        elif kind == "end":
            return (_END_STEP_FAILURE if fields.get("outcome") == "failure" else _END_STEP,)
        else:
            successor = self._successor(number, fields)
            if kind == "parallel" or (is_unusual and kind != "set" and not _FAILING.isdisjoint(fields)):
                ways = (successor, *self._failures(self.steps[number], successor))
            else:
                ways = (successor, _FAILS)
            if number in self._ambiguous:
                ways = (successor, ("success", number + 1, None, None, ()), *ways[1:])
        if not is_unusual or fields.get("max_visits") is None:
            return ways
        error_step = fields.get("error_step")
        if error_step is None:
            return (*ways, _STALLS)
        # Once; the second time the run stalls.
        return (*ways, ("visits", self.position.get(error_step, MISSING), None, None, ("error_step",)), _STALLS)

    def _successor(self, number: int, fields: dict[str, Any]) -> _Parts:
        next_step = fields.get("next_step")
        if next_step is not None:
            return ("success", self.position.get(next_step, MISSING), None, None, ("next_step",))
        ends = fields.get("is_terminal") or number + 1 == len(self.steps)
        if not ends and fields["id"] not in self.arms:
            return ("success", number + 1, None, None, ())
        if not ends and self._is_entered_from_above(number):
            self._ambiguous.add(number)
        return _ENDS_IN_FAILURE if fields.get("outcome") == "failure" else _ENDS_WELL

    def _is_entered_from_above(self, number: int) -> bool:
        """Return whether control gets to an arm in another way, too: from the step above, or because a run starts."""
        is_meant = self.position[self.fields[number]["id"]] == number  # of two steps with one id the first is the arm
        return is_meant and (number == 0 or self.falls_through(number - 1))

    def _failures(self, step: AnyStep, successor: _Parts) -> tuple[_Parts, ...]:
        """Return the ways out of a model's, a tool's or a parallel step that did not succeed."""
        assert isinstance(step, LlmStep | ToolStep | ParallelStep)
        ways: tuple[_Parts, ...] = ()
        if isinstance(step, ParallelStep):
            if all(part.on_error == "skip" for part in step.parallel_steps):
                return ()
        elif step.on_timeout == "fallback":
            ways = (("fallback", *successor[1:]),)
        if step.on_error == "skip":
            ways += (("skipped", *successor[1:]),)
        if step.error_step is not None:  # beside `skip` it is SW002: both ways are given, and the program is refused
            ways += (("failed", self.position.get(step.error_step, MISSING), None, None, ("error_step",)),)
        elif step.on_error != "skip":
            ways += (_FAILS,)
        return ways

    def _branches(self, fields: dict[str, Any]) -> tuple[_Parts, ...]:
        then, otherwise, cases = fields.get("then"), fields.get("otherwise"), fields.get("cases")
        last: _Parts = _UNCOVERED
        if otherwise is not None:
            last = ("branch", self.position.get(otherwise, MISSING), None, "otherwise", ("otherwise",))
        if then is not None:
            return (("branch", self.position.get(then, MISSING), None, "then", ("then",)), last, _FAILS)
        if cases is None:
            return (last, _UNCOVERED, _FAILS)
        return (*(self._case(number, case) for number, case in enumerate(cases)), last, _FAILS)

    def _case(self, number: int, case: Case) -> _Parts:
        return ("branch", self.position.get(case.then, MISSING), None, number + 1, ("cases", number, "then"))


def _transitions(ways: tuple[_Parts, ...]) -> tuple[Transition, ...]:
    return tuple([way if type(way) is Transition else _new(Transition, way) for way in ways])


def _says_nothing(fields: dict[str, Any]) -> bool:
    """Return whether a step does not say itself where control goes on success."""
    if fields["type"] in ("condition", "end") or fields.get("next_step") is not None:
        return False
    return not fields.get("is_terminal")
