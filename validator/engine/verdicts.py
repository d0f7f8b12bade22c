"""The verdicts on the conditions of a program: covered, exclusive, constant, and cases that are never taken.

Proved is what holds for all values of the types. A state that refutes it is `violated` where a run certainly gets to
the step in it, and else a candidate: `unknown`, with that state.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.engine.cases import Answer, Cases
from stepward.validator.engine.domains import Domains, Names
from stepward.validator.engine.states import State, references_of, shown
from stepward.validator.findings import Evidence, Move, Verdict
from stepward.vm.expressions.syntax import Negation
from stepward.vm.language.steps import ConditionStep

if TYPE_CHECKING:
    from stepward.validator.analysis.context import Context

ELSEWHERE = "what comes before it decides that, and this version does not reason about it yet"
"""Why a state that refutes is only a candidate."""

REFUSED = "the values that were found for it are refused by their types (a `pattern`, for one)"

ILL_FORMED = "it reads what has no type that it could be judged by"


class Judged(NamedTuple):
    """A verdict, why, and the state in words: `$amount` is 500."""

    verdict: Verdict
    evidence: Evidence
    when: str = ""
    state: State | None = None


class ConditionVerdicts:
    """What the engine says of the conditions of one program; each step is looked at when it is first asked for."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.domains = Domains(context.meaning)
        self._cases: dict[int, Cases | None] = {}
        self._pairs: dict[int, tuple[int, int] | None] = {}
        self._covered: dict[int, Judged] = {}
        self._exclusive: dict[int, Judged] = {}

    @cached_property
    def _ill_typed(self) -> frozenset[int]:
        return frozenset(clause.step for clause, _ in self.context.type_problems)

    @cached_property
    def _in_conflict(self) -> frozenset[str]:
        """The first names of what uses give unlike types."""
        return frozenset(one.name.lstrip("$").split(".")[0] for one in self.context.meaning.typing.conflicts)

    def cases(self, number: int) -> Cases | None:
        """Return the conditions of a step; None where one of them is ill-formed."""
        if number not in self._cases:
            self._cases[number] = self._readable(number)
        return self._cases[number]

    def _readable(self, number: int) -> Cases | None:
        trees = [clause.tree for clause in self.context.meaning.clauses_of.get(number, ())]
        known = [tree for tree in trees if tree is not None]
        if len(known) < len(trees) or not known or number in self._ill_typed:
            return None
        for name in references_of(known):
            if name[0] in self._in_conflict or not self.domains.of(name).kinds:
                return None
        return Cases(known, self.domains)

    # -- coverage --------------------------------------------------------------------------------------------------

    def covered(self, number: int) -> Judged:
        """Return whether a condition that lacks a branch takes one in every state that can be and does not fail."""
        if number not in self._covered:
            self._covered[number] = self._coverage(number)
        return self._covered[number]

    def _coverage(self, number: int) -> Judged:
        cases, step = self.cases(number), self.context.flow.steps[number]
        assert isinstance(step, ConditionStep)
        if cases is None:
            return Judged(Verdict.UNKNOWN, Evidence("graph", reason=ILL_FORMED))
        if step.condition is not None and step.then is None:
            tree = cases.trees[0]
            cases = Cases([Negation(tree.start, tree.end, tree)], self.domains)
        return self._judged(number, cases, cases.covered(), "takes no branch", "no value of its types takes no branch")

    def exclusive(self, number: int) -> Judged:
        """Return whether no two cases of a step hold in one state that can be."""
        if number not in self._exclusive:
            self._exclusive[number] = self._exclusiveness(number)
        return self._exclusive[number]

    def _exclusiveness(self, number: int) -> Judged:
        cases = self.cases(number)
        if cases is None:
            return Judged(Verdict.UNKNOWN, Evidence("graph", reason=ILL_FORMED))
        answer = cases.exclusive()
        pair = None if answer.state is None else cases.overlap(answer.state)
        self._pairs[number] = pair
        how = "" if pair is None else self._takes(number, pair[0])
        return self._judged(number, cases, answer, how, "no value of its types makes two cases hold")

    def overlap(self, number: int) -> tuple[int, int] | None:
        """Return the positions of the two cases that the state of `exclusive` shows."""
        return self._pairs.get(number)

    def _takes(self, number: int, case: int) -> str:
        step = self.context.flow.steps[number]
        assert isinstance(step, ConditionStep)
        name = (step.cases or ())[case].name
        return f"case {case + 1}" if name is None else f"takes {name}"

    def _judged(self, number: int, cases: Cases, answer: Answer, how: str, proof: str) -> Judged:
        if answer.verdict is Verdict.PROVED:
            return Judged(Verdict.PROVED, Evidence(answer.layer, cut=(proof,)))
        if answer.state is None:
            return Judged(Verdict.UNKNOWN, Evidence(answer.layer, reason=answer.reason))
        from stepward.validator.engine.reached import is_admitted, path_to

        if not is_admitted(self.context, number, answer.state):
            return Judged(Verdict.UNKNOWN, Evidence(answer.layer, reason=REFUSED))
        path = path_to(self.context, number, answer.state)
        names = _worth_saying(cases.names, answer.state)
        values = tuple(("$" + ".".join(name), answer.state[name]) for name in names if name in answer.state)
        when = shown(answer.state, names)
        if path is None:
            evidence = Evidence(answer.layer, reason=ELSEWHERE, state=values)
            return Judged(Verdict.UNKNOWN, evidence, when, answer.state)
        path = (*path[:-1], Move(path[-1].step, how))
        return Judged(Verdict.VIOLATED, Evidence(answer.layer, path=path, state=values), when, answer.state)

    # -- what decides nothing --------------------------------------------------------------------------------------

    def constant(self, number: int) -> tuple[bool, Evidence] | None:
        """Return the one value that a two-way condition can have, and the proof; None where it has both."""
        cases = self.cases(number)
        found = cases.constant(0) if cases is not None else None
        if found is None:
            return None
        return found[0], Evidence(found[1], cut=(f"no value of its types makes it {str(not found[0]).lower()}",))

    def never_taken(self, number: int, case: int) -> tuple[Evidence, bool, int | None] | None:
        """Return the proof that a case is never taken; None where it can be, or nobody knows.

        With it: whether the case is false by itself, and else the earlier case that always holds when it does, if one
        such alone is enough.
        """
        cases = self.cases(number)
        layer = cases.never_taken(case) if cases is not None else None
        if cases is None or layer is None:
            return None
        tree = cases.trees[case]
        if Cases([tree], self.domains).never_taken(0) is not None:
            return Evidence(layer, cut=("no value of its types makes it true",)), True, None
        for earlier in range(case):
            if Cases([cases.trees[earlier], tree], self.domains).never_taken(1) is not None:
                return Evidence(layer, cut=("whenever it holds, an earlier case does",)), False, earlier
        return Evidence(layer, cut=("whenever it holds, an earlier case does",)), False, None


def _worth_saying(names: list[Names], state: State) -> list[Names]:
    """Return the references that a message names: a field speaks for its object, what is undefined for itself."""
    return [
        name
        for name in names
        if not (isinstance(state.get(name), dict) and any(other[: len(name)] == name != other for other in names))
    ]
