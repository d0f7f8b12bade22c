"""The verdicts on the conditions of a program: covered, exclusive, constant, and cases that are never taken.

A property that holds for all values of the types is proved by that. Where some values refute it, the engine decides
whether a run reaches the step with such values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from stepward.validator.analysis.monitors import ArrivalMonitor
from stepward.validator.engine.cases import CLASSES, Cases, LayerAnswer
from stepward.validator.engine.clock import OutOfTime
from stepward.validator.engine.smt.answers import Undecided
from stepward.validator.engine.systems.building import Question, Test
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.states import State, holds, shown
from stepward.validator.findings import COVERAGE, EXCLUSIVE_CASES, Evidence, Move, Property, Verdict
from stepward.validator.reasons import UnknownReason
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Logic, Negation
from stepward.vm.language.steps import ConditionStep

if TYPE_CHECKING:
    from stepward.validator.engine.certificates.proof_part import ProofPart
    from stepward.validator.engine.proofs import Proofs
    from stepward.validator.engine.witnesses.witness import Code

T = TypeVar("T")

HERE: Final = "no value that gets here"
"""The start of the words for a proof that needs the steps before, beside the types."""

REFUSED: Final = "the values that were found for it are refused by their types (a `pattern`, for one)"

ILL_FORMED = "it reads a reference without a type that it could be judged by"


class Judged(NamedTuple):
    """A verdict with evidence, and the state in words: `$amount` is 500. `pair` are the positions of two cases that
    hold."""

    verdict: Verdict
    evidence: Evidence
    when: str = ""
    state: State | None = None
    pair: tuple[int, int] | None = None


_ALL_THERE: Final = Judged(Verdict.PROVED, Evidence("graph", cut=("every outcome has a branch",)))


class ConditionVerdict(NamedTuple):
    """The verdict on one property of the condition at a position of the list."""

    number: int
    step: ConditionStep
    judged: Judged
    property: Property


class ConditionVerdicts:
    """The engine's verdicts on the conditions of one program; each condition is analysed on first use."""

    def __init__(self, proofs: Proofs) -> None:
        self.facts, self.analyses, self.proofs = proofs.facts, proofs.analyses, proofs
        self.cases = proofs.readable.cases
        self.clock = proofs.clock
        self.domains = proofs.readable.domains
        self._file = proofs.facts.program.source_name

    def _attempt(self, number: int, work: Callable[[], T], otherwise: Callable[[UnknownReason], T]) -> T:
        """Return the result for one condition; an internal error costs only the verdict on this condition."""
        part = f"the condition of `{self.facts.flow.steps[number].id}`"
        return self.proofs.failures.attempt(part, work, otherwise)

    def judge(self) -> Iterator[ConditionVerdict]:
        """Yield the verdict on the coverage of every condition, then on the cases that have to be exclusive."""
        for number, step in self.facts.conditions:
            yield self._verdict(COVERAGE, number, step, self._coverage)
        for number, step in self.facts.conditions:
            if step.exclusive and len(step.cases or ()) > 1:
                yield self._verdict(EXCLUSIVE_CASES, number, step, self._exclusiveness)

    def _verdict(
        self, name: str, number: int, step: ConditionStep, judge: Callable[[int, ConditionStep], Judged]
    ) -> ConditionVerdict:
        started = perf_counter()
        judged = self._attempt(number, partial(judge, number, step), lambda reason: _not_judged(reason.reason))
        evidence = self._certified(judged.evidence) if judged.verdict is Verdict.PROVED else judged.evidence
        seconds = perf_counter() - started
        known = Property(name, step.id, judged.verdict, evidence, seconds, self._file, step=step.id)
        return ConditionVerdict(number, step, judged, known)

    def _certified(self, evidence: Evidence) -> Evidence:
        """Return evidence with a certificate for constants and complete branches, where certificates are wanted."""
        if evidence.certificate or not self.proofs.certifies:
            return evidence
        from stepward.validator.engine.certificates.proof_data import by_types

        return replace(evidence, certificate=(by_types(None),))

    # -- coverage --------------------------------------------------------------------------------------------------

    def _has_its_branch(self, number: int, step: ConditionStep) -> bool:
        """Whether every outcome has a branch, or constants alone choose an existing branch."""
        if step.otherwise is not None and (step.cases is not None or step.then is not None):
            return True
        # Where a constant chooses a missing branch, it is still possible that no run reaches the step.
        decided = self.facts.decided_branch(number)
        if decided == "otherwise":
            return step.otherwise is not None
        return decided is not None and (decided != "then" or step.then is not None)

    def _coverage(self, number: int, step: ConditionStep) -> Judged:
        """Return whether a condition takes a branch in every reachable state in which it does not fail."""
        if self._has_its_branch(number, step):
            return _ALL_THERE
        cases = self.cases(number)
        if cases is None:
            return _not_judged(ILL_FORMED)
        outcome = NONE_HOLDS
        if step.condition is not None and step.then is None:
            tree, outcome = cases.trees[0], 0
            cases = Cases([Negation(tree.start, tree.end, tree)], self.domains, self.clock)
        answer = cases.covered()
        if answer.verdict is Verdict.PROVED:
            proof = "no value of its types takes no branch"
            return Judged(
                Verdict.PROVED, Evidence(answer.layer, cut=(proof,), certificate=self._proof_parts(cases, proof))
            )
        decision = self.proofs.engine.moves.decision(number)
        assert decision is not None, "its conditions can be read"
        tests: tuple[Test, ...] = (((decision, (outcome,)),),)
        return self._in_context(number, "SW302", cases, answer, tests, lambda _: "takes no branch")

    def _exclusiveness(self, number: int, step: ConditionStep) -> Judged:
        """Return whether no two cases of a step hold in one reachable state."""
        cases = self.cases(number)
        if cases is None:
            return _not_judged(ILL_FORMED)
        answer = cases.exclusive()
        if answer.verdict is Verdict.PROVED:
            proof = "no value of its types makes two cases hold"
            known = self._proof_parts(cases, proof, overlap=True)
            return Judged(Verdict.PROVED, Evidence(answer.layer, cut=(proof,), certificate=known))
        pairs = cases.pairs()
        if pairs is None:
            return _not_judged(answer.reason or "there are too many pairs of cases", answer.layer)
        tests = tuple(_both_hold(cases, *pair) for pair in pairs)
        judged = self._in_context(number, "SW305", cases, answer, tests, partial(_takes, step, cases))
        return judged if judged.state is None else judged._replace(pair=cases.overlap(judged.state))

    def _proof_parts(self, cases: Cases, shows: str, *, overlap: bool = False) -> tuple[ProofPart, ...]:
        """Return the proof parts that no values of its types violate a condition's property, where certificates are
        wanted."""
        if not self.proofs.certifies:
            return ()
        from stepward.validator.engine.certificates.proof_data import by_script, by_types
        from stepward.validator.engine.certificates.proof_part import TooMuch

        if cases.finite is not None:
            return (by_types(cases.finite.space),)

        def write() -> str:
            try:
                return cases.solved.script(cases.solved.overlap if overlap else cases.solved.left)
            except (Undecided, OutOfTime) as error:
                raise TooMuch(str(error)) from None

        return (by_script(shows, write),)

    def _in_context(
        self,
        number: int,
        code: Code,
        cases: Cases,
        answer: LayerAnswer,
        tests: tuple[Test, ...],
        outcome_words: Callable[[State], str],
    ) -> Judged:
        """Return the engine's verdict: whether a run reaches the condition in a state that satisfies one of the tests.

        `code` is that of the violation, and `outcome_words` returns the outcome of the condition in a state, in words.
        """
        from stepward.validator.engine.witnesses.admitted_values import is_admitted
        from stepward.validator.engine.witnesses.witness import Claim

        claim, arrives = Claim(code, self.facts.flow.steps[number].id), ArrivalMonitor(number)
        result = self.proofs.engine.ask(Question(arrives, tests=tests), lambda *_: claim)
        if result.verdict is Verdict.PROVED:
            return Judged(Verdict.PROVED, result.evidence)
        state = result.state if result.verdict is Verdict.VIOLATED else answer.state
        if state is None:
            return Judged(Verdict.UNKNOWN, result.evidence)
        evidence = result.evidence
        if result.verdict is Verdict.VIOLATED:
            *path, last = evidence.path
            evidence = replace(evidence, path=(*path, Move(last.step, outcome_words(state))), reason="")
        elif not is_admitted(self.analyses, state):
            return _not_judged(REFUSED, evidence.layer)
        names = _named_in_message(cases.names, state, self.domains)
        values = tuple(("$" + written(name), state[name]) for name in names if name in state)
        return Judged(result.verdict, replace(evidence, state=values), shown(state, names), state)

    # -- conditions without effect ----------------------------------------------------------------------------------

    def constant(self, number: int) -> tuple[bool, Evidence] | None:
        """Return the only value that a two-way condition can have, and the proof; None where it can have both."""
        return self._attempt(number, lambda: self._constant(number), lambda _: None)

    def _constant(self, number: int) -> tuple[bool, Evidence] | None:
        cases = self.cases(number)
        value = _only_value(cases.outcomes if cases is not None else None)
        if value is not None:
            return value, Evidence(CLASSES, cut=(f"no value of its types makes it {str(not value).lower()}",))
        by_tables = self.proofs.dead.outcomes(number)
        value = _only_value(by_tables[0] if by_tables is not None else None)
        if by_tables is None or value is None:
            return None
        return value, Evidence(by_tables[1], cut=(f"{HERE} makes it {str(not value).lower()}",))

    def never_taken(self, number: int, case: int) -> tuple[Evidence, bool, int | None] | None:
        """Return the proof that a case is never taken; None where it can be taken, or where that is not known.

        Also returns whether the case is always false, or else the earlier case that always holds with it, if there is
        one.
        """
        return self._attempt(number, lambda: self._never_taken(number, case), lambda _: None)

    def _never_taken(self, number: int, case: int) -> tuple[Evidence, bool, int | None] | None:
        cases = self.cases(number)
        if cases is None or not cases.never_taken(case):
            return self._never_gets_there(number, case)
        tree = cases.trees[case]
        if Cases([tree], self.domains, self.clock).never_taken(0):
            return Evidence(CLASSES, cut=("no value of its types makes it true",)), True, None
        for earlier in range(case):
            if Cases([cases.trees[earlier], tree], self.domains, self.clock).never_taken(1):
                return Evidence(CLASSES, cut=("whenever it holds, an earlier case does",)), False, earlier
        return Evidence(CLASSES, cut=("whenever it holds, an earlier case does",)), False, None

    def _never_gets_there(self, number: int, case: int) -> tuple[Evidence, bool, int | None] | None:
        by_tables = self.proofs.dead.outcomes(number)
        if by_tables is None or case in by_tables[0] or not by_tables[0] - {FAILS}:
            return None
        return Evidence(by_tables[1], cut=(f"{HERE} makes it the first to hold",)), False, None


def _not_judged(reason: str, layer: str = "graph") -> Judged:
    return Judged(Verdict.UNKNOWN, Evidence(layer, reason=reason))


def _only_value(outcomes: frozenset[int] | None) -> bool | None:
    """Return the only value that outcomes leave a two-way condition; None where it has both, or always fails."""
    values = {0, NONE_HOLDS} & (outcomes or frozenset())
    return 0 in values if len(values) == 1 else None


def _takes(step: ConditionStep, cases: Cases, state: State) -> str:
    """Return in words which case a condition takes in a state in which two hold."""
    pair = cases.overlap(state)
    if pair is None:
        return ""
    name = (step.cases or ())[pair[0]].name
    return f"case {pair[0] + 1}" if name is None else f"takes {name}"


def _both_hold(cases: Cases, first: int, second: int) -> Test:
    """Return the test that a case is the first that holds, and a later one also holds."""
    both = Logic(0, 0, "and", (cases.trees[first], cases.trees[second]))
    earlier: Test = ((Decision(cases.trees[:first]), (NONE_HOLDS,)),) if first else ()
    return (*earlier, (Decision((both,)), (0,)))


def _named_in_message(names: list[Names], state: State, domains: Domains) -> list[Names]:
    """Return the references that a message names: a field instead of its object, an undefined reference itself.

    A reference that is not in the state and can't be undefined was not tested, and is left out.
    """
    return [
        name
        for name in names
        if (name in state or _may_be_undefined(name, state, domains))
        and not (isinstance(state.get(name), dict) and any(other[: len(name)] == name != other for other in names))
    ]


def _may_be_undefined(name: Names, state: State, domains: Domains) -> bool:
    """Whether a reference outside of a state may be undefined, either itself or because of its owner."""
    if domains.of(name).undefined:
        return True
    owner = domains.parent(name)
    if owner is None:
        return False
    return not holds(state[owner], name[-1]) if owner in state else _may_be_undefined(owner, state, domains)
