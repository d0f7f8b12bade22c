"""The verdict on every guardrail, as far as the graph alone decides it.

For each rule two products of graph and monitor are explored: one over all possible transitions, which proves, and one
over the certain transitions, which refutes. Between them conditions decide, and the verdict here is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from stepward.validator.analysis.arguments import Inexpressible, at_start, unknown_in
from stepward.validator.analysis.bypasses import avoiding_transition
from stepward.validator.analysis.constants import constant_text, constant_value
from stepward.validator.analysis.counting import explore_counted
from stepward.validator.analysis.monitors import RuleMonitor, UndefinedMonitor, never
from stepward.validator.analysis.outcomes import (
    ALLOW_LIST,
    LAYER,
    Judgement,
    Origin,
    Outcome,
    allowed_near,
    not_judged,
    unconfirmed,
    words,
)
from stepward.validator.analysis.product import Bad, Exploration, Monitor, clear_at_home
from stepward.validator.analysis.refused_prompts import with_refusal
from stepward.validator.analysis.repeats import repeat_words
from stepward.validator.analysis.siblings import hits_in, monitor_of
from stepward.validator.analysis.undefined_when import roots_read, with_undefined
from stepward.validator.analysis.unknown_reasons import (
    as_seen,
    ending_in,
    follows_beside,
    is_unseen,
    reads_sibling,
    rival_help,
    rival_of,
    unknown_reason,
    unseen_words,
)
from stepward.validator.analysis.vacuity import is_explained, vacuous
from stepward.validator.engine.proofs import Proofs
from stepward.validator.findings import Evidence, Property, Verdict
from stepward.validator.reasons import UnknownReason
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.facts import certain_reads
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Expression
from stepward.vm.language.automata import automaton_of, bound
from stepward.vm.language.guardrails import (
    AnyGuard,
    AnyRule,
    AnySelector,
    AtMostOnce,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    StepSelector,
    protected,
)
from stepward.vm.language.policy import Policy
from stepward.vm.language.selectors import Match
from stepward.vm.language.steps import Stage, ToolCall
from stepward.vm.reading.source import Place

if TYPE_CHECKING:
    from stepward.validator.engine.certificates.proof_part import ProofPart
    from stepward.validator.engine.reach import PathAnswer
    from stepward.validator.engine.systems.building import Question, Test
    from stepward.validator.engine.witnesses.witness import Claim

TOO_MANY = "program and rule have too many states together"

_NOTHING = Evidence(LAYER)

_WORST = "bypassed"
"""The kind of violation that is reported where others are found at the same step."""

Found = tuple[Verdict, Evidence, list[Outcome]]
"""The verdict on a rule, the evidence, and the outcomes to report."""


def judge(proofs: Proofs) -> Iterator[Judgement]:
    """Yield the verdict on every rule, with an outcome for each location where it is broken, vacuous or not proved.

    A violation that the machine does not confirm gets an additional outcome (SW901). A property whose verdict an
    internal error or the deadline prevents is unknown; the others are judged as usual.
    """
    counts: Counter[str | None] = Counter()
    for rule, policy in proofs.facts.meaning.rules:
        name = policy.policy if policy else None
        origin = Origin(rule.name, policy, Place(("guardrails", counts[name], "name")))
        counts[name] += 1
        claim = Property(
            automaton_of(rule).kind, rule.name, Verdict.UNKNOWN, _NOTHING, policy=name, number=counts[name]
        )
        work = _Judge(proofs, rule, origin).judge_rule
        yield _isolated(proofs, f"guardrail `{rule.name}`", claim, origin, work)
    layout, in_body = proofs.facts.flow.layout, Counter[int]()
    for rule, owner in proofs.facts.meaning.body_rules:
        origin = Origin(rule.name, None, Place((*layout.rules_path(owner), in_body[owner], "name")))
        in_body[owner] += 1
        counts[None] += 1
        claim = Property(automaton_of(rule).kind, rule.name, Verdict.UNKNOWN, _NOTHING, number=counts[None])
        work = _Judge(proofs, rule, origin, owner).judge_rule
        yield _isolated(proofs, f"guardrail `{rule.name}`", claim, origin, work)
    for policy in proofs.facts.meaning.policies:
        yield from _allow_list(proofs, policy)


def _isolated(
    proofs: Proofs, name: str, claim: Property, origin: Origin, judge: Callable[[], Found], place: Place | None = None
) -> Judgement:
    """Return the verdict on a property; unknown where its judgement fails."""
    started, part = perf_counter(), name + origin.of_policy

    def broken(reason: UnknownReason) -> Found:
        evidence = Evidence(LAYER, reason=reason.reason)
        return Verdict.UNKNOWN, evidence, [not_judged(part, origin, evidence, reason.help, place, claim.step)]

    verdict, evidence, outcomes = proofs.failures.attempt(part, judge, broken)
    seconds, file = perf_counter() - started, proofs.facts.program.source_name
    answer = claim._replace(verdict=verdict, evidence=evidence, seconds=seconds, file=file)
    return Judgement(answer, tuple(_with_doubts(outcomes)))


def _with_doubts(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        yield outcome
        if outcome.evidence is not None and outcome.evidence.unconfirmed:
            yield unconfirmed(outcome)


def _allow_list(proofs: Proofs, policy: Policy) -> Iterator[Judgement]:
    """Judge the calls of tools under an allow-list: it forbids other tools, and other arguments than it names."""
    if policy.allow is None:
        return
    facts = proofs.facts
    allowed = {entry.tool: entry for entry in policy.allow}
    origin = Origin("allow", policy, ALLOW_LIST)
    for site in facts.meaning.calls:
        call = site.call
        if not isinstance(call, ToolCall) or site.step not in facts.graph.reachable:
            continue
        entry = allowed.get(call.tool)
        if entry is not None and (entry.when is None or constant_text(entry.when, facts.program.language) is True):
            continue
        when = entry.when if entry is not None else None
        rule = Never.model_construct(name="allow", never=StepSelector(step=call.id), when=when)
        claim = Property("allow", call.tool, Verdict.UNKNOWN, _NOTHING, policy=policy.policy, step=call.id)
        work = partial(_Judge(proofs, rule, origin).judge_call, Match(site.step, site.sub, call), when)
        place = Place((*facts.flow.layout.path(site.step), "id"))
        yield _isolated(proofs, f"the allow-list at `{call.id}`", claim, origin, work, place)


class _Judge:
    """Judges one rule."""

    def __init__(self, proofs: Proofs, rule: AnyRule, origin: Origin, owner: int | None = None) -> None:
        self.facts, self.analyses, self.proofs = proofs.facts, proofs.analyses, proofs
        self.flow = proofs.facts.flow
        self.rule, self.origin, self.owner = rule, origin, owner

    def _hits(self, selector: AnySelector | AnyGuard) -> list[Match]:
        """Return the parts that a selector of the rule matches; that of a body selects in the body."""
        return hits_in(self.facts, selector, self.owner)

    def judge_rule(self) -> Found:
        """Judge a rule of the program, of a body or of a policy."""
        reason = unknown_reason(self.facts, self.rule, self.owner)
        if reason is not None:
            # Only a proof is missing: one path on which siblings come one after another may break the rule.
            undecided = self._unknown(f"guardrail `{self.rule.name}`", reason)
            tried = self._reached() if reason.may_be_broken and self._applies() else undecided
            return tried if tried[0] is Verdict.VIOLATED else undecided
        outcomes = list(vacuous(self.facts, self.rule, self.origin, self.owner))
        if self._applies():  # one mistake is not repeated at each step that the rule protects
            verdict, evidence, broken = self._reached()
            is_said = bool(outcomes) and is_explained(self.facts, self.rule, self.owner)
            return verdict, evidence, outcomes if is_said else outcomes + broken
        if outcomes:
            return Verdict.UNKNOWN, Evidence(LAYER, reason="the rule is vacuous"), outcomes
        evidence = Evidence(LAYER, cut=(f"`{self.rule.name}` selects no step that a run reaches",))
        if self.proofs.certifies:
            evidence = replace(
                evidence, certificate=self._proof_parts(monitor_of(self.rule, self.analyses, owner=self.owner))
            )
        return Verdict.PROVED, evidence, []

    def judge_call(self, hit: Match, when: str | None) -> Found:
        """Judge a call that an allow-list does not allow unconditionally: `when` is the condition for an allowed
        tool."""
        if when is None:
            return self._decide(never(self.analyses, [hit]))
        reason = reads_sibling(self.facts, when, [hit.step])
        if reason is not None:
            return self._unknown(f"the allow-list at `{hit.part.id}`", reason)
        result = self._tested(hit, self.facts.meaning.condition(when))
        if isinstance(result, Outcome):
            return self._summed([result], _NOTHING)
        return self._summed([], result or _NOTHING)

    def _unknown(self, subject: str, reason: UnknownReason) -> Found:
        evidence = Evidence(LAYER, reason=reason.reason)
        return self._summed([not_judged(subject, self.origin, evidence, reason.help)], evidence)

    def _reached(self) -> Found:
        """Judge a rule that selects some reachable step."""
        rule, analyses = self.rule, self.analyses
        if isinstance(rule, Never) and rule.when is not None:
            return self._never_when(rule, rule.when)
        strict = monitor_of(rule, analyses, doubtless=True) if isinstance(rule, FollowedBy) else None
        return self._decide(monitor_of(rule, analyses, owner=self.owner), strict)

    # -- verdicts ------------------------------------------------------------------------------------------------

    def _applies(self) -> bool:
        """True if reachable steps match the rule's selectors: they need not for a policy's rule, and for what was done
        in a run before this one."""
        rule, needed = self.rule, protected(self.rule)[:1]
        if isinstance(rule, Exclusive):
            needed = tuple(side for side, was in zip(rule.exclusive, rule.already, strict=True) if not was)
        elif isinstance(rule, FollowedBy) and rule.already:
            needed = ()
        reachable = self.facts.graph.reachable
        return all(any(hit.step in reachable for hit in self._hits(one)) for one in needed)

    def _decide(self, monitor: Monitor, strict: Monitor | None = None) -> Found:
        """Search with a monitor over all possible transitions, then with the strict one over the certain transitions.

        The engine decides what is left between the two, starting from the first of these searches.
        """
        clear = clear_at_home(self.flow, monitor, self.analyses.transitions.possible)
        if clear is not None:
            return Verdict.PROVED, self._cut(monitor, clear), []
        possible = explore_counted(self.flow, monitor, self.analyses.transitions.possible)
        if not possible.bad and possible.is_complete:
            return Verdict.PROVED, self._cut(monitor, possible.pairs, possible), []
        from stepward.validator.engine.systems.building import Question

        certain = explore_counted(self.flow, strict or monitor, self.analyses.transitions.certain)
        sure = {key: bad for key, bad in certain.bad.items() if self.analyses.transitions.is_real(bad)}
        left = sorted(
            (step, kind) for kind, step in possible.bad if not any((one, step) in sure for one in (kind, _WORST))
        )
        proof, question = Evidence(LAYER), Question(monitor, explored=possible)
        answers: dict[tuple[int, str], PathAnswer] = {}
        if left and possible.is_complete:
            kinds, steps = frozenset(kind for _, kind in left), frozenset(step for step, _ in left)
            joint = replace(question, kinds=kinds, steps=steps)
            whole = self.proofs.engine.ask(joint, self._claim_at)
            if whole.verdict is Verdict.PROVED:
                left, proof = [], whole.evidence
            elif len(left) == 1:
                answers[left[0]] = whole
        outcomes: list[Outcome] = []
        for step in sorted({step for _, step in possible.bad} or {0}):
            answer = self._at(step, [kind for one, kind in left if one == step], question, answers)
            known = min((bad for (_, one), bad in sure.items() if one == step), key=lambda bad: bad.kind, default=None)
            if isinstance(answer, Outcome) and (answer.code != "SW408" or known is None):
                outcomes.append(answer)
            elif known is not None:
                outcomes.append(self._violated(known.kind, known.step, self._shown(known)))
            elif answer is not None and not isinstance(answer, Outcome):
                proof = _both(proof, answer)
        if not possible.is_complete and not outcomes:
            outcomes.append(self._unproved(0, _WORST, Evidence(LAYER, reason=TOO_MANY)))
        return self._summed(outcomes, proof)

    @staticmethod
    def _summed(outcomes: list[Outcome], proof: Evidence) -> Found:
        """Return the verdict on a rule from its outcomes at all steps, with the evidence."""
        if not outcomes:
            return Verdict.PROVED, proof, []
        outcomes = list({(one.code, one.message): one for one in reversed(outcomes)}.values())[::-1]
        worst = next((outcome for outcome in outcomes if outcome.code != "SW408"), outcomes[0])
        assert worst.evidence is not None
        return Verdict.UNKNOWN if worst.code == "SW408" else Verdict.VIOLATED, worst.evidence, outcomes

    # -- the engine ------------------------------------------------------------------------------------------------

    def _claim_at(self, kind: str, step: int) -> Claim:
        """Return the claim of a witness for a violation at a step; a run says the stages of a step by its name."""
        from stepward.validator.engine.witnesses.witness import Claim

        at, policy = self.flow.steps[step], self.origin.policy
        name = at.owner if isinstance(at, Stage) else at.id
        code = words(self.rule, kind, name)[0]
        return Claim(code, name, self.rule.name, policy.policy if policy else None)  # type: ignore[arg-type]

    def _at(
        self, step: int, kinds: list[str], question: Question, answers: Mapping[tuple[int, str], PathAnswer]
    ) -> Outcome | Evidence | None:
        """Return the engine's answer for a rule at one step: the worst outcome, or its last proof.

        `answers` has the answers that are already known.
        """
        proof: Evidence | None = None
        for kind in kinds:
            single = replace(question, kinds=frozenset({kind}), steps=frozenset({step}))
            answer = answers.get((step, kind)) or self.proofs.engine.ask(single, self._claim_at)
            if answer.verdict is Verdict.VIOLATED:
                return self._violated(answer.kind, step, answer.evidence)
            if answer.verdict is Verdict.UNKNOWN:
                return self._unproved(step, kind, answer.evidence)
            proof = _both(proof, answer.evidence)
        return proof

    def _cut(self, monitor: Monitor, pairs: int, exploration: Exploration | None = None) -> Evidence:
        proof = f"none of {pairs} reachable pairs of step and monitor state is bad"
        return Evidence(LAYER, cut=(proof,), certificate=self._proof_parts(monitor, exploration))

    def _proof_parts(self, monitor: Monitor, exploration: Exploration | None = None) -> tuple[ProofPart, ...]:
        """Return the proof part of an exploration, where certificates are wanted; a new one is made in its time."""
        if not self.proofs.certifies:
            return ()
        from stepward.validator.engine.certificates.proof_data import explored

        search = partial(explore_counted, self.flow, monitor, self.analyses.transitions.possible)
        return (explored(self.flow, monitor, search if exploration is None else lambda: exploration),)

    def _never_when(self, rule: Never, when: str) -> Found:
        try:
            tree = self.facts.meaning.condition(when)
        except ExpressionError as error:
            reason = "its condition can't be read"
            return self._senseless(reason, f"{reason}: {error.message}", error.help, (error.start, error.end))
        hits, is_of_policy = self._hits(rule.never), self.origin.policy is not None
        lacking = unknown_in(tree, [hit.part for hit in hits], self.facts.meaning, may_lack=is_of_policy)
        if lacking:
            help = "correct the name in the guardrail, or give the program that variable"
            problem = f"it reads `{lacking}`, which the program does not have"
            return self._senseless(f"the program has no `{lacking}`", problem, help)
        value = constant_value(tree)
        monitor = never(self.analyses, hits)
        if value is False:
            proof = Evidence("constants", cut=(f"`{when}` is false",), certificate=self._proof_parts(monitor))
            return Verdict.PROVED, proof, []
        if value is True:
            return self._decide(monitor)
        possible = explore_counted(self.flow, monitor, self.analyses.transitions.possible)
        if not possible.bad:
            return Verdict.PROVED, self._cut(monitor, possible.pairs, possible), []
        broken = {outcome.step: outcome for outcome in self._unreadable_when(rule, tree)}
        proof, outcomes = Evidence(LAYER), list(broken.values())
        for hit in hits:
            if self.flow.steps[hit.step].id in broken or ("forbidden", hit.step) not in possible.bad:
                continue
            result = self._tested(hit, tree)
            if isinstance(result, Outcome):
                outcomes.append(self._with_unseen(result, hit, tree, when))
            elif result is not None:
                proof = _both(proof, result)
        return self._summed(outcomes, proof)

    def _with_unseen(self, violation: Outcome, hit: Match, tree: Expression, when: str) -> Outcome:
        """Return a violation of a `when`. Its message says so if the condition reads the outcome of a sibling, or an
        undefined name."""
        names = [one for one in sorted(certain_reads(tree)) if is_unseen(self.facts, one, hit.step)]
        if violation.evidence is None or violation.code != "SW403":
            return violation
        if not names:
            return with_undefined(self.analyses, violation, tree, hit.step, when)
        return self._outcome("SW403", *unseen_words(self.facts, names[0], hit.step, when), hit.step, violation.evidence)

    def _senseless(self, reason: str, problem: str, help: str, within: tuple[int, int] | None = None) -> Found:
        """Return the verdict unknown for a rule whose `when` is not valid."""
        place = Place((*self.origin.place.path[:-1], "when"), within=within)
        evidence, message = Evidence(LAYER, reason=reason), f"guardrail `{self.rule.name}` is not proved: {problem}"
        outcome = Outcome("SW408", message, help, place, None, (), evidence, self.origin.tag)
        return Verdict.UNKNOWN, evidence, [outcome]

    def _tested(self, hit: Match, tree: Expression) -> Outcome | Evidence | None:
        """Return the engine's answer for a call with a `when`: forbidden by a rule, or demanded by an allow-list."""
        from stepward.validator.engine.systems.building import Question
        from stepward.validator.engine.systems.system import DOES_NOT_HOLD, HOLDS_OR_FAILS, Decision

        bad = DOES_NOT_HOLD if self.origin.place == ALLOW_LIST else HOLDS_OR_FAILS
        try:
            condition = as_seen(self.facts, at_start(tree, hit.part, self.facts.meaning), hit.step)
            tests: tuple[Test, ...] = (((Decision((condition,)), bad),),)
        except Inexpressible:
            tests = ((),)
        return self._at(hit.step, ["forbidden"], Question(never(self.analyses, [hit]), tests=tests), {})

    def _is_assigned_earlier(self, hit: Match, names: tuple[str, ...]) -> bool:
        """Return whether a sibling that a sub-step depends on assigns a variable or an output."""
        earlier = self.analyses.assignment.earlier(hit.step, hit.sub)
        return any(names[: len(one)] == one for one in earlier.defined | earlier.undefined)

    def _is_known_otherwise(self, hit: Match, root: tuple[str, ...]) -> bool:
        """Return whether a path does not say if a name is defined where a call starts."""
        return self._is_assigned_earlier(hit, root) or is_unseen(self.facts, root, hit.step)

    def _unreadable_when(self, rule: Never, tree: Expression) -> list[Outcome]:
        """Return the violations where P certainly starts while `when` reads something undefined, which breaks the
        rule."""
        broken: dict[int, Outcome] = {}
        for root in roots_read(self.facts, tree):
            hits = [hit for hit in self._hits(rule.never) if not self._is_known_otherwise(hit, root)]
            monitor = UndefinedMonitor(self.analyses, root, [hit.step for hit in hits])
            for bad in explore_counted(self.flow, monitor, self.analyses.transitions.certain).bad.values():
                if bad.step not in broken and self.analyses.transitions.is_real(bad):
                    step = self.flow.steps[bad.step].id
                    name = "$" + written(root)
                    message = f"`{step}` can start while `{name}` is undefined, so `{rule.when}` can't be ruled out"
                    help = f"define it on every path to `{step}`, or start the rule with `defined({name}) and`"
                    broken[bad.step] = self._outcome("SW403", message, help, bad.step, self._shown(bad))
        return list(broken.values())

    # -- words -----------------------------------------------------------------------------------------------------

    def _violated(self, kind: str, number: int, evidence: Evidence) -> Outcome:
        rule, rival_words = self.rule, rival_help(self.facts, self.rule, number)
        number = rival_of(self.facts, rule, number)
        step = self._named(number)
        code, message, help = words(rule, kind, step, ending_in(self.facts, self.owner))
        calls = (site.call for site in self.facts.meaning.calls if site.step == number)
        if kind == "retried" and any(call.retry is not None for call in calls):
            help = help.replace("`on_error: retry`", "`retry`")
        if isinstance(rule, AtMostOnce) and kind != "retried" and not rule.already:
            rule_steps = {self.flow.steps[hit.step].id for one in protected(rule) for hit in self._hits(one)}
            message, help = repeat_words(self.facts, self.origin, self.owner, number, evidence.path, rule_steps)
        if code == "SW401":
            monitor = RuleMonitor(self.analyses, bound(rule, self.facts.meaning, self.facts.hits))
            avoiding = avoiding_transition(monitor, self.analyses, evidence.path)
            help += f"; this path avoids it where {avoiding}" if avoiding else ""
            if number in self.facts.meaning.orders and any(number in found for found in monitor.comes):
                help += "; a sibling comes before it only by `depends_on`"
        if isinstance(rule, FollowedBy) and follows_beside(self.facts, rule):
            help += "; a sibling comes after it only by `depends_on`"
        message, help = with_refusal(self.analyses, rule, evidence.path, message, help)
        if isinstance(rule, FollowedBy) and any(move.how.startswith("fails") for move in evidence.path):
            from stepward.validator.engine.witnesses.comparing import long_results

            help += long_results(self.analyses, evidence.path)
        help = help if rival_words is None else rival_words
        if self.origin.place == ALLOW_LIST:
            message = f"`{step}` calls a tool that is not allowed"
            similar = allowed_near(self.facts, self.origin.policy, number)
            help = f"use an allowed tool{similar}, or have it put on the list"
            if isinstance(rule, Never) and rule.when is not None:
                message = f"`{step}` can start with arguments that are not allowed: `{rule.when}` does not hold"
                help = f"route the run around `{step}` in that state, or change its arguments"
        return self._outcome(code, message, help, number, evidence)

    def _named(self, number: int) -> str:
        """Return the id of a step, or that of the only sub-step that a `requires` protects in a step with
        `depends_on`."""
        step, rule = self.flow.steps[number], self.rule
        if number not in self.facts.meaning.orders or not isinstance(rule, Requires):
            return step.id
        hits = [hit.part.id for hit in self._hits(rule.protects) if hit.step == number]
        return hits[0] if len(hits) == 1 else step.id

    def _outcome(self, code: str, message: str, help: str, number: int, evidence: Evidence) -> Outcome:
        """Return the outcome to report for the rule at a step."""
        message += f" (guardrail `{self.rule.name}`{self.origin.of_policy})"
        step, place = self.flow.steps[number].id, self._location(number)
        return Outcome(code, message, help, place, step, self.origin.labels, evidence, self.origin.tag)

    def _shown(self, bad: Bad) -> Evidence:
        """Return the path of a violation with the run of the machine that confirms it."""
        return self.proofs.witnesses.evidence(self._claim_at(bad.kind, bad.step), bad.kind, bad.path, LAYER)

    def _unproved(self, number: int, kind: str, evidence: Evidence) -> Outcome:
        number = rival_of(self.facts, self.rule, number)
        message = f"it may be that {self._claim(kind, self.flow.steps[number].id)}"
        message = f"{with_refusal(self.analyses, self.rule, evidence.path, message, '')[0]}: {evidence.reason}"
        help = "if this path can happen, fix it; if not, say why: `# stepward: ignore[SW408] reason`"
        if self.origin.policy is not None:
            help = "if this path can happen, fix it; if not, ask for a waiver in the policy"
            if self.origin.policy.continues is not None:
                help = "exclude this path by a condition: no waiver counts in a continuation"
        return self._outcome("SW408", message, help, number, evidence)

    def _claim(self, kind: str, step: str) -> str:
        """Return the words for a violation that is not ruled out."""
        if self.origin.place == ALLOW_LIST:
            return f"`{step}` starts with arguments that are not allowed"
        return words(self.rule, kind, step, ending_in(self.facts, self.owner))[1]

    def _location(self, number: int) -> Place:
        """Return the location of the step's id, or of the id of the sub-step that the rule selects."""
        hits = (hit for selector in protected(self.rule) for hit in self._hits(selector) if hit.step == number)
        sub = next((hit.sub for hit in hits if hit.sub is not None), None)
        return Place((*self.flow.layout.path(number, sub), "id"))


def _both(first: Evidence | None, second: Evidence) -> Evidence:
    """Return the joint proof of two steps: the later evidence, with the proof parts of both."""
    return second if first is None else replace(second, certificate=(*first.certificate, *second.certificate))
