"""The one question: is a bad state of program and monitor reachable on a feasible run?

The layers are asked in turn, cheapest first, each only for what the one before left open. A proof of a layer needs no
confirmation; a path that a layer finds counts only when the machine has followed it to the violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.analysis.counting import explore_prompt
from stepward.validator.analysis.monitors import ArrivalMonitor
from stepward.validator.analysis.product import explore
from stepward.validator.engine.certificates import proof_data
from stepward.validator.engine.certificates.proof_data import cut
from stepward.validator.engine.certificates.proof_part import ProofPart
from stepward.validator.engine.clock import OutOfTime
from stepward.validator.engine.search.explicit import LAYER as EXPLICIT
from stepward.validator.engine.search.explicit import MAX_STATES, Search, TooManyStates
from stepward.validator.engine.search.finite import LAYER as FINITE
from stepward.validator.engine.search.finite import Table
from stepward.validator.engine.systems.building import Builder, Question, Test, TooLarge
from stepward.validator.engine.systems.moves import Moves
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Computed, Decision, Path, System, has_cycle
from stepward.validator.engine.systems.unrolled import unrolled
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.states import State
from stepward.validator.engine.witnesses.witness import Claim
from stepward.validator.findings import Evidence, Move, Verdict
from stepward.vm.expressions.syntax import Arithmetic, Constant, Defined, Expression, children, walk

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.validator.analysis.readings import Reading
    from stepward.validator.engine.conditions import Conditions
    from stepward.validator.engine.smt import answers as solver
    from stepward.validator.engine.witnesses.synthesis import Witnesses

GRAPH: Final = "graph"

MAX_UNITS: Final = 20_000_000
"""Units of work that the solver may take for one program (Z3's `rlimit`): some ten seconds."""

MAX_PRODUCTS: Final = 12
"""The most multiplications of two variables in a system that the solver is asked about."""

MAX_PATHS: Final = 4
"""The most paths of one system that the machine is asked to follow."""

FEW_STATES: Final = 1_500
"""The states of a system with loops that are searched before the solver is asked: it may need no counting."""

ROUNDS: Final = (1, 2, 3, 6)
"""How many rounds of loops are followed, where a proof fails and no run takes the path shown."""


@dataclass(frozen=True)
class PathAnswer:
    """The answer to a question: proved, violated with a confirmed witness, or unknown with the reason.

    For a question that is not proved, `kind`, `step` and the path describe the violation, or the first candidate;
    `state` are the values of the tracked references there.
    """

    verdict: Verdict
    evidence: Evidence
    kind: str = ""
    step: int = 0
    state: State = field(default_factory=dict)


Claims = Callable[[str, int], Claim]
"""Returns the claim of a violation, given its kind and step."""


class Engine:
    """Answers questions about one program."""

    def __init__(
        self,
        analyses: Analyses,
        readable: Conditions,
        witnesses: Callable[[], Witnesses],
        *,
        certifies: bool,
    ) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.readable = readable
        self.witnesses = witnesses
        self.certifies = certifies
        self.domains = readable.domains
        self.clock = readable.clock
        self.moves = Moves(analyses, self.domains)
        self.units = MAX_UNITS

    def ask(self, question: Question, claims: Claims) -> PathAnswer:
        """Return the answer of the layers to a question."""
        try:
            builder = Builder(self.analyses, self.moves, question)
        except TooLarge:
            return PathAnswer(Verdict.UNKNOWN, Evidence(GRAPH, reason="program and rule have too many states together"))
        if not builder.is_reachable:
            proof = f"none of {builder.product.exploration.pairs} reachable pairs of step and monitor state is bad"
            return PathAnswer(Verdict.PROVED, Evidence(GRAPH, cut=(proof,), certificate=self.proof_parts(cut, builder)))
        answer = _Search(self, builder, claims).answer()
        if answer.verdict is not Verdict.UNKNOWN:
            return answer
        return self._of_prompt_items(question, claims) or self._without_counts(builder, question, claims) or answer

    def _without_counts(self, counted: Builder, question: Question, claims: Claims) -> PathAnswer | None:
        """Return an answer that needs no counts; None if there is none.

        Where it is counted whether an item of a longer list has come, the rounds of its loop begin inside of an item,
        and there the formula forgets what the item is.
        """
        if not counted.product.exploration.is_counted or all(one.is_whole for one in self.facts.lengths.values()):
            return None
        explored = explore(self.facts.flow, question.monitor, self.analyses.transitions.possible)
        try:
            builder = Builder(self.analyses, self.moves, replace(question, explored=explored))
        except TooLarge:
            return None
        answer = _Search(self, builder, claims).answer()
        return answer if answer.verdict is not Verdict.UNKNOWN else None

    def _of_prompt_items(self, question: Question, claims: Claims) -> PathAnswer | None:
        """Return a violation by a run whose items start as soon as the machine starts them; None if there is none."""
        flow, possible = self.facts.flow, self.analyses.transitions.possible
        explored = explore_prompt(flow, question.monitor, possible)
        if explored is None:
            return None
        builder = Builder(self.analyses, self.moves, replace(question, explored=explored))
        answer = _Search(self, builder, claims).answer() if builder.is_reachable else None
        return answer if answer is not None and answer.verdict is Verdict.VIOLATED else None

    def proof_parts(self, write: Callable[..., ProofPart], *facts: Any) -> tuple[ProofPart, ...]:
        """Return the proof parts, where certificates are wanted."""
        return (write(*facts),) if self.certifies else ()

    def undefined(self, reading: Reading) -> PathAnswer:
        """Return whether a run may read a reference while it, or its owner, is undefined."""
        step = self.facts.flow.steps[reading.step]
        missing = Decision((Defined(0, 0, reading.reference),))
        test: Test = ((missing, (NONE_HOLDS,)),)
        decision = self.moves.evaluated(reading.step, reading.path)
        if decision is not None:
            # A reference is read only in the evaluated part of a condition.
            test = ((decision, (FAILS,)), *test)
        claim = Claim("SW202", self.analyses.reader(reading).id, reference=reading.reference.text())
        arrives = ArrivalMonitor(reading.step)
        answer = self.ask(Question(arrives, tests=(test,)), lambda *_: claim)
        path = (*answer.evidence.path[:-1], Move(step.id, "starts")) if answer.evidence.path else ()
        return replace(answer, evidence=replace(answer.evidence, path=path))


class _Search:
    """The search for the answer to one question, layer by layer."""

    def __init__(self, engine: Engine, builder: Builder, claims: Claims) -> None:
        self.engine = engine
        self.facts, self.analyses = engine.analyses.facts, engine.analyses
        self.builder = builder
        self.claims = claims
        self.tried: list[str] = []
        self.candidate: PathAnswer | None = None
        self.no_run_reason = ""
        self.safe_rounds = 0
        """How many first rounds of all loops have no violation."""
        self.uncounted: list[System] = []
        """The systems with more states than were searched at first."""

    def answer(self) -> PathAnswer:
        """Return the first answer of a layer, or unknown with the list of layers that were tried."""
        for layer in (self._finite, self._formula, self._counting):
            for system in self._systems():
                if self.engine.clock.has_struck:
                    break
                answer = layer(system)
                if answer is not None:
                    return answer
        words = self.engine.clock.words
        if self.engine.clock.has_struck and not any(words in one for one in self.tried):
            self.tried.append(f"no more ({words})")
        reason = "tried: " + "; ".join(self.tried) if self.tried else "no layer could represent it"
        if self.safe_rounds:
            first = "first round has" if self.safe_rounds == 1 else f"first {self.safe_rounds} rounds have"
            reason = f"the {first} no violation; {reason}"
        if self.no_run_reason:
            reason = f"no run was found that takes the path below: {self.no_run_reason}; {reason}"
        if self.candidate is None:
            return PathAnswer(Verdict.UNKNOWN, Evidence(FINITE, reason=reason))
        return replace(self.candidate, evidence=replace(self.candidate.evidence, reason=reason))

    def _systems(self) -> Iterator[System]:
        """Yield the sliced system, and the whole system where it differs."""
        yield self._sliced
        if self._whole is not None:
            yield self._whole

    @cached_property
    def _sliced(self) -> System:
        return self.builder.system(self.builder.sliced())

    @cached_property
    def _whole(self) -> System | None:
        whole = self.builder.whole()
        is_other = len(whole.relevant) != len(self._sliced.edges) or whole.roots != self._sliced.roots
        return self.builder.system(whole) if is_other else None

    def _finite(self, system: System) -> PathAnswer | None:
        try:
            table = Table(system, self.engine.domains, self.engine.clock)
            if not table.breaches():
                states = sum(mask.bit_count() for mask in table.reachable)
                proof = f"none of {states} reachable classes at {len(system.edges)} places leads to the violation"
                return self._proved(FINITE, proof, proof_data.table, system, table)
            cheapest = table.cheapest()
        except TooMany:
            self._note(FINITE, "too many classes")
            return self._explicit(system)
        except OutOfTime as error:
            self._note(FINITE, str(error))
            return None
        assert cheapest is not None, "what the table reaches has a path"
        answer = self._affordable(*cheapest, proof_data.table, system, table)
        return self._explicit(system) if answer is None and not table.is_exact else answer

    def _counting(self, system: System) -> PathAnswer | None:
        """Search a system whose states were too many at first."""
        return self._explicit(system, MAX_STATES) if system in self.uncounted else None

    def _explicit(self, system: System, most: int | None = None) -> PathAnswer | None:
        most = most or (FEW_STATES if has_cycle(system) else MAX_STATES)
        try:
            search = Search(system, self.engine.domains, self.engine.clock)
            cheapest = search.cheapest(most)
        except TooMany as error:
            if isinstance(error, TooManyStates) and most < MAX_STATES:
                self.uncounted.append(system)
            else:
                self._note(EXPLICIT, "too many values")
            return None
        except OutOfTime as error:
            self._note(EXPLICIT, str(error))
            return None
        if cheapest is None:
            proof = (
                f"none of {len(search.reached)} reachable states at {len(system.edges)} places leads to the violation"
            )
            return self._proved(EXPLICIT, proof, proof_data.states, system, search)
        return self._affordable(*cheapest, proof_data.states, system, search)

    def _proved(self, layer: str, proof: str, write: Callable[..., ProofPart], *facts: Any) -> PathAnswer:
        """Return the answer that the property is proved, with the parts of its certificate."""
        domains = self.engine.domains
        known = self.engine.proof_parts(lambda: write(self.builder, facts[0], domains, *facts[1:]))
        return PathAnswer(Verdict.PROVED, Evidence(layer, cut=(proof,), certificate=known))

    def _formula(self, system: System) -> PathAnswer | None:
        products = _products(system)
        if products > MAX_PRODUCTS:
            self._note("solver", "too many values are multiplied by one another: Z3 does not respect limits there")
            return None
        if has_cycle(system):
            return self._with_loops(system)
        solved, answer = self._solved(system)
        return answer or self._shown(solved)

    def _shown(self, solved: solver.SystemAnswer) -> PathAnswer | None:
        """Return a proof of the solver, or note why there is none."""
        if solved.verdict is Verdict.PROVED:
            assert solved.proof is not None, "the solver says why"
            known = self.engine.proof_parts(proof_data.solved, self.builder, solved.proof)
            proof = "no values satisfy the formula of all paths"
            return PathAnswer(Verdict.PROVED, Evidence(solved.layer, cut=(proof,), certificate=known))
        if solved.path is None:
            self._note(solved.layer, solved.reason)
        return None

    def _with_loops(self, system: System) -> PathAnswer | None:
        """Return a proof about all rounds of the loops, or a violation in the first rounds.

        A path through a loop that is cut has any values behind it. In the first rounds the loop is followed, so its
        values are those of a run.
        """
        from stepward.validator.engine.smt.skipped_rounds import skipped_rounds

        is_explained = bool(self.no_run_reason)
        solved, answer = self._solved(system, most=1)
        answer = answer or self._shown(solved)
        if solved.path is not None and answer is None:
            if not is_explained:
                self.no_run_reason = skipped_rounds(self.facts.flow, system, solved.path) or self.no_run_reason
            solved, answer = self._solved(system, most=1, relates=True)
            answer = answer or self._shown(solved)
        for rounds in ROUNDS if solved.path is not None and answer is None else ():
            known, answer = self._solved(unrolled(system, rounds))
            if answer is not None:
                break
            if rounds > 1 and known.verdict is Verdict.PROVED:
                self.safe_rounds = max(self.safe_rounds, rounds - 1)
        return answer

    def _solved(
        self, system: System, most: int = MAX_PATHS, *, relates: bool = False
    ) -> tuple[solver.SystemAnswer, PathAnswer | None]:
        """Return what the solver says, and the violation on one of its first paths that a run takes."""
        from stepward.validator.engine.smt import blocks

        engine, tried = self.engine, list[PathAnswer | None]()

        def accepts(path: Path) -> bool:
            tried.append(self._confirmed(path))
            return tried[-1] is not None or len(tried) == most

        fails = engine.moves.overflow.may_happen
        solved = blocks.search(
            system,
            engine.domains,
            fails,
            units=engine.units,
            clock=engine.clock,
            accepts=accepts,
            relates=relates,
        )
        engine.units -= solved.units
        return solved, tried[-1] if tried else None

    def _affordable(self, path: Path, cost: int, write: Callable[..., ProofPart], *facts: Any) -> PathAnswer | None:
        most = self.facts.program.max_steps
        if most is not None and cost > most:
            proof = f"the shortest path to the violation takes {cost} steps, and `max_steps` allows {most}"
            return self._proved(path.layer, proof, write, *facts, most)
        return self._confirmed(path)

    def _confirmed(self, path: Path) -> PathAnswer | None:
        """Return the violation at the end of a path, if the machine confirms it."""

        from stepward.validator.engine.witnesses.failing_items import with_other_items
        from stepward.validator.engine.witnesses.paths import Traced

        witnesses = self.engine.witnesses()
        traced = Traced(self.analyses, self.builder, path, witnesses)
        last = path.steps[-1].edge.compressed
        moves = tuple(traced.moves)
        claim = self.claims(last.kind, last.step)
        witness = witnesses.confirm(claim, last.kind, moves, traced.known)
        if isinstance(witness, str):
            moves, witness = with_other_items(witnesses, claim, last.kind, moves, traced.known) or (moves, witness)
        moves = moves if isinstance(witness, str) else witnesses.replayer.with_errors(witnesses.taken)
        evidence = Evidence(path.layer, path=moves)
        state = path.steps[-2].after if len(path.steps) > 1 else path.before
        if not isinstance(witness, str):
            return PathAnswer(Verdict.VIOLATED, replace(evidence, witness=witness), last.kind, last.step, state)
        self._note(path.layer, "a path without a run")
        self.no_run_reason = self.no_run_reason or witness
        self.candidate = self.candidate or PathAnswer(Verdict.UNKNOWN, evidence, last.kind, last.step)
        return None

    def _note(self, layer: str, reason: str) -> None:
        note = f"{layer} ({reason})"
        if note not in self.tried:
            self.tried.append(note)


def _products(system: System) -> int:
    """Return the number of edges that read or assign a product of two values that are not constants."""
    trees = [
        [tree for guard in edge.guards for tree in guard.decision.trees]
        + [one.value.tree for one in edge.assigns if isinstance(one.value, Computed)]
        for edges in system.edges
        for edge in edges
    ]
    return sum(any(_multiplies(tree) for tree in each) for each in trees)


def _multiplies(tree: Expression) -> bool:
    return any(
        any(sign == "*" for sign, _ in node.rest) and sum(not isinstance(one, Constant) for one in children(node)) > 1
        for node in walk(tree)
        if isinstance(node, Arithmetic)
    )
