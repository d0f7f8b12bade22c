"""The verdict on every guardrail, as far as the graph alone decides it.

For each rule a monitor is explored beside the graph twice: over everything that might be possible, which proves, and
over what is certainly possible, which refutes. What lies between is for conditions to decide, and is unknown here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from stepward.validator.analysis.arguments import Inexpressible, at_start
from stepward.validator.analysis.constants import constant_text, constant_value
from stepward.validator.analysis.monitors import (
    AtMostOnceMonitor,
    ExclusiveMonitor,
    FollowedByMonitor,
    NeverMonitor,
    RequiresMonitor,
    UndefinedMonitor,
)
from stepward.validator.analysis.outcomes import (
    ALLOW_LIST,
    LAYER,
    Judgement,
    Origin,
    Outcome,
    not_judged,
    unconfirmed,
    words,
)
from stepward.validator.analysis.product import Bad, Exploration, Monitor, explore_counted
from stepward.validator.analysis.vacuity import vacuous
from stepward.validator.engine.proofs import Proofs
from stepward.validator.findings import Evidence, Property, Verdict
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.facts import certain_reads
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression, Reference, walk
from stepward.vm.language.guardrails import (
    AnyRule,
    AnySelector,
    AtMostOnce,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
    protected,
)
from stepward.vm.language.policy import Policy
from stepward.vm.language.selectors import Hit, by_step
from stepward.vm.language.steps import ToolCall
from stepward.vm.reading.source import Place

if TYPE_CHECKING:
    from stepward.validator.engine.certificates.ground import Ground
    from stepward.validator.engine.reach import Answer
    from stepward.validator.engine.systems.building import Question, Test
    from stepward.validator.engine.witnesses.witness import Claim

TOO_MANY = "program and rule have too many states together"

_WORST = "bypassed"
"""The kind of violation that is said where others are found at the same place."""

Tests = tuple["Test", ...]

Found = tuple[Verdict, Evidence, list[Outcome]]
"""The verdict on a rule, why, and what is reported."""

_KINDS: dict[type[AnyRule], str] = {
    Requires: "requires",
    Never: "never",
    AtMostOnce: "at_most_once",
    FollowedBy: "followed_by",
    Exclusive: "exclusive",
}


def judge(proofs: Proofs) -> Iterator[Judgement]:
    """Yield the verdict on every rule, with an outcome for each place at which it is broken, vacuous or not proved.

    Beside what the machine does not confirm stands an outcome that says so (SW901). A property whose verdict an
    internal error or the clock prevents is unknown; the others are judged as usual.
    """
    judge_one = _Judge(proofs)
    counts: Counter[str | None] = Counter()
    for rule, policy in proofs.facts.meaning.rules:
        name = policy.policy if policy else None
        yield judge_one.isolated_rule(rule, policy, counts[name])
        counts[name] += 1
    for policy in proofs.facts.meaning.policies:
        yield from judge_one.allow_list(policy)


def _with_doubts(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        yield outcome
        if outcome.evidence is not None and outcome.evidence.unconfirmed:
            yield unconfirmed(outcome)


class _Judge:
    def __init__(self, proofs: Proofs) -> None:
        self.facts, self.analyses, self.proofs = proofs.facts, proofs.analyses, proofs
        self.flow = proofs.facts.flow

    def isolated_rule(self, rule: AnyRule, policy: Policy | None, number: int) -> Judgement:
        """Return the verdict on the rule at a position of its list; it is unknown where judging it breaks off."""
        origin = Origin(rule.name, policy, Place(("guardrails", number, "name")))
        asked = self._asked(_KINDS[type(rule)], rule.name, policy, number=number + 1)
        return self._isolated(f"guardrail `{rule.name}`", asked, origin, partial(self.rule, rule, origin))

    def _asked(
        self, kind: str, rule: str, policy: Policy | None, *, number: int | None = None, step: str | None = None
    ) -> Property:
        """Return a property that nothing is known of yet."""
        file, name = self.facts.program.source_name, policy.policy if policy else None
        return Property(kind, rule, Verdict.UNKNOWN, Evidence(LAYER), 0.0, file, name, number, step)

    def _isolated(
        self, what: str, asked: Property, origin: Origin, judge: Callable[[], Found], place: Place | None = None
    ) -> Judgement:
        """Return the verdict on a property; where judging it breaks off, that it is unknown."""
        started, part = perf_counter(), what + origin.of_policy

        def broken(reason: str) -> Found:
            evidence = Evidence(LAYER, reason=reason)
            return Verdict.UNKNOWN, evidence, [not_judged(part, origin, evidence, place, asked.step)]

        verdict, evidence, outcomes = self.proofs.failures.attempt(part, judge, broken)
        answer = asked._replace(verdict=verdict, evidence=evidence, seconds=perf_counter() - started)
        return Judgement(answer, tuple(_with_doubts(outcomes)))

    # -- one rule --------------------------------------------------------------------------------------------------

    def rule(self, rule: AnyRule, origin: Origin) -> Found:
        """Judge a rule."""
        outcomes = list(vacuous(self.facts, rule, origin))
        if self._speaks(rule):
            verdict, evidence, found = self._judged(rule, origin)
            return verdict, evidence, outcomes + found
        if outcomes:
            return Verdict.UNKNOWN, Evidence(LAYER, reason="the rule is vacuous"), outcomes
        evidence = Evidence(LAYER, cut=(f"`{rule.name}` speaks of no step that a run gets to",))
        if self.proofs.certifies:
            evidence = replace(evidence, certificate=self._ground(self._monitor(rule, certain=False)))
        return Verdict.PROVED, evidence, []

    def _judged(self, rule: AnyRule, origin: Origin) -> Found:
        if isinstance(rule, Never) and rule.when is not None:
            return self._never_when(rule, rule.when, origin)
        strict = (
            self._monitor(rule, certain=True) if isinstance(rule, FollowedBy) else None
        )  # the others know no certainty
        return self._decide(self._monitor(rule, certain=False), rule, origin, strict)

    def _monitor(self, rule: AnyRule, *, certain: bool) -> Monitor:
        if isinstance(rule, Requires):
            return RequiresMonitor(self.analyses, self._hits(rule.protects), rule.requires, fresh=rule.fresh)
        if isinstance(rule, Never):
            return NeverMonitor(self.analyses, self._hits(rule.never))
        if isinstance(rule, AtMostOnce):
            return AtMostOnceMonitor(self.analyses, by_step(self._hits(rule.at_most_once)))
        if isinstance(rule, Exclusive):
            return ExclusiveMonitor(self.analyses, *(self._hits(side) for side in rule.exclusive))
        first = self._hits(rule.followed_by.first)
        return FollowedByMonitor(self.analyses, rule, first, self._hits(rule.followed_by.then), certain=certain)

    def _hits(self, selector: AnySelector) -> list[Hit]:
        return self.facts.hits(selector)

    # -- verdicts ------------------------------------------------------------------------------------------------

    def _speaks(self, rule: AnyRule) -> bool:
        """Whether the program can start what the rule protects, forbids or counts; a policy's rule need not."""
        selectors = protected(rule)
        needed = selectors if isinstance(rule, Exclusive) else selectors[:1]
        return all(any(self.flow.reachable[hit.step] for hit in self.facts.hits(selector)) for selector in needed)

    def _decide(self, monitor: Monitor, rule: AnyRule, origin: Origin, strict: Monitor | None = None) -> Found:
        """Search with a monitor over all that is possible, then, with the strict one, over what is certain.

        What lies between the two is for the engine, which goes on with the first of these searches.
        """
        possible = explore_counted(self.flow, monitor, self.analyses.ways.possible)
        if not possible.bad and possible.is_complete:
            return Verdict.PROVED, self._cut(monitor, possible), []
        certain = explore_counted(self.flow, strict or monitor, self.analyses.ways.certain)
        sure = {key: bad for key, bad in certain.bad.items() if self.analyses.ways.is_real(bad)}
        left = sorted(
            (step, kind) for kind, step in possible.bad if not any((one, step) in sure for one in (kind, _WORST))
        )
        proof, question = Evidence(LAYER), self._question(monitor, possible)
        answers: dict[tuple[int, str], Answer] = {}
        if left and possible.is_complete:
            kinds, steps = frozenset(kind for _, kind in left), frozenset(step for step, _ in left)
            asked = replace(question, kinds=kinds, steps=steps)
            whole = self.proofs.engine.ask(asked, self._claims(rule, origin))
            if whole.verdict is Verdict.PROVED:
                left, proof = [], whole.evidence
            elif len(left) == 1:
                answers[left[0]] = whole
        outcomes: list[Outcome] = []
        for step in sorted({step for _, step in possible.bad} or {0}):
            found = self._at(step, [kind for one, kind in left if one == step], question, rule, origin, answers)
            known = min((bad for (_, one), bad in sure.items() if one == step), key=lambda bad: bad.kind, default=None)
            if isinstance(found, Outcome) and (found.code != "SW408" or known is None):
                outcomes.append(found)
            elif known is not None:
                outcomes.append(self._violated(rule, origin, known))
            elif found is not None and not isinstance(found, Outcome):
                proof = _both(proof, found)
        if not possible.is_complete and not outcomes:
            outcomes.append(self._unproved(rule, origin, 0, _WORST, Evidence(LAYER, reason=TOO_MANY)))
        return self._bounded(rule, *self._summed(outcomes, proof))

    def _bounded(self, rule: AnyRule, verdict: Verdict, evidence: Evidence, outcomes: list[Outcome]) -> Found:
        """Return a verdict, or, where it is unknown, the proof that a run can't call the tools twice at all."""
        if verdict is not Verdict.UNKNOWN or not isinstance(rule, AtMostOnce):
            return verdict, evidence, outcomes
        tools = {hit.part.tool if isinstance(hit.part, ToolCall) else None for hit in self._hits(rule.at_most_once)}
        most = [self._most(tool) for tool in tools]
        if any(count is None for count in most) or sum(count or 0 for count in most) > 1:
            return verdict, evidence, outcomes
        return Verdict.PROVED, Evidence("bounds", cut=("a run calls it at most once, whatever the conditions say",)), []

    def _most(self, tool: str | None) -> int | None:
        known = self.analyses.bounds.in_all.tools.get(tool) if tool is not None else None
        return known.performances.count if known is not None else None

    @staticmethod
    def _summed(outcomes: list[Outcome], proof: Evidence) -> Found:
        """Return the verdict that the places of a rule have together, and why."""
        if not outcomes:
            return Verdict.PROVED, proof, []
        worst = next((outcome for outcome in outcomes if outcome.code != "SW408"), outcomes[0])
        assert worst.evidence is not None
        return Verdict.UNKNOWN if worst.code == "SW408" else Verdict.VIOLATED, worst.evidence, outcomes

    # -- the engine ------------------------------------------------------------------------------------------------

    @staticmethod
    def _question(monitor: Monitor, found: Exploration | None = None, tests: Tests = ((),)) -> Question:
        from stepward.validator.engine.systems.building import Question

        return Question(monitor, tests=tests, explored=found)

    def _claims(self, rule: AnyRule, origin: Origin) -> Callable[[str, int], Claim]:
        from stepward.validator.engine.witnesses.witness import Claim

        policy = origin.policy.policy if origin.policy else None

        def claim(kind: str, step: int) -> Claim:
            name = self.flow.steps[step].id
            return Claim(words(rule, kind, name)[0], name, rule.name, policy)  # type: ignore[arg-type]

        return claim

    def _at(
        self,
        step: int,
        kinds: list[str],
        question: Question,
        rule: AnyRule,
        origin: Origin,
        answers: Mapping[tuple[int, str], Answer],
    ) -> Outcome | Evidence | None:
        """Return what the engine says of a rule at one step: the worst that it finds, or its last proof.

        `answers` are those that are there already.
        """
        proof: Evidence | None = None
        for kind in kinds:
            asked = replace(question, kinds=frozenset({kind}), steps=frozenset({step}))
            answer = answers.get((step, kind)) or self.proofs.engine.ask(asked, self._claims(rule, origin))
            if answer.verdict is Verdict.VIOLATED:
                return self._said(rule, origin, answer.kind, step, answer.evidence)
            if answer.verdict is Verdict.UNKNOWN:
                return self._unproved(rule, origin, step, kind, answer.evidence)
            proof = _both(proof, answer.evidence)
        return proof

    def _cut(self, monitor: Monitor, found: Exploration) -> Evidence:
        proof = f"none of {found.pairs} reachable pairs of step and monitor state is bad"
        return Evidence(LAYER, cut=(proof,), certificate=self._ground(monitor, found))

    def _ground(self, monitor: Monitor, found: Exploration | None = None) -> tuple[Ground, ...]:
        """Return what a certificate of an exploration is written from, where that is asked for."""
        if not self.proofs.certifies:
            return ()
        from stepward.validator.engine.certificates.grounds import explored

        found = found or explore_counted(self.flow, monitor, self.analyses.ways.possible)
        return (explored(self.flow, monitor, found),)

    def _never_when(self, rule: Never, when: str, origin: Origin) -> Found:
        try:
            tree = parse(when)
        except ExpressionError as error:
            evidence = Evidence(LAYER, reason="its condition can't be read")
            message = f"guardrail `{rule.name}` is not proved: its condition can't be read: {error.message}"
            place = Place((*origin.place.path[:-1], "when"), within=(error.start, error.end))
            return (
                Verdict.UNKNOWN,
                evidence,
                [Outcome("SW408", message, error.help, place, None, (), evidence, origin.tag)],
            )
        lacking = self._lacking(tree, rule.never)
        if lacking:
            evidence = Evidence(LAYER, reason=f"the program has no `{lacking}`")
            message = f"guardrail `{rule.name}` is not proved: it reads `{lacking}`, which the program does not have"
            help = "correct the name in the guardrail, or give the program that variable"
            place = Place((*origin.place.path[:-1], "when"))
            return Verdict.UNKNOWN, evidence, [Outcome("SW408", message, help, place, None, (), evidence, origin.tag)]
        value = constant_value(tree)
        monitor = NeverMonitor(self.analyses, self._hits(rule.never))
        if value is False:
            proof = Evidence("constants", cut=(f"`{when}` is false",), certificate=self._ground(monitor))
            return Verdict.PROVED, proof, []
        if value is True:
            return self._decide(monitor, rule, origin)
        possible = explore_counted(self.flow, monitor, self.analyses.ways.possible)
        if not possible.bad:
            return Verdict.PROVED, self._cut(monitor, possible), []
        broken = {outcome.step: outcome for outcome in self._unreadable_when(rule, tree, origin)}
        proof, outcomes = Evidence(LAYER), list(broken.values())
        for hit in self._hits(rule.never):
            if self.flow.steps[hit.step].id in broken or ("forbidden", hit.step) not in possible.bad:
                continue
            found = self._tested(hit, tree, rule, origin)
            if isinstance(found, Outcome):
                outcomes.append(found)
            elif found is not None:
                proof = _both(proof, found)
        return self._summed(outcomes, proof)

    def _tested(self, hit: Hit, tree: Expression, rule: AnyRule, origin: Origin) -> Outcome | Evidence | None:
        """Return what the engine says of a call that a `when` forbids, or, in an allow-list, demands."""
        from stepward.validator.engine.systems.system import DOES_NOT_HOLD, HOLDS_OR_FAILS, Decision

        bad = DOES_NOT_HOLD if origin.place == ALLOW_LIST else HOLDS_OR_FAILS
        try:
            tests: Tests = (((Decision((at_start(tree, hit.part, self.facts.meaning),)), bad),),)
        except Inexpressible:
            tests = ((),)
        question = self._question(NeverMonitor(self.analyses, [hit]), tests=tests)
        return self._at(hit.step, ["forbidden"], question, rule, origin, {})

    def _unreadable_when(self, rule: Never, tree: Expression, origin: Origin) -> list[Outcome]:
        """Return where P certainly starts while `when` reads something undefined: the language calls that broken."""
        found: dict[int, Outcome] = {}
        for names in sorted(certain_reads(tree)):
            meant = self.facts.meaning.names.meaning(names)
            if names[0] == "args" or meant is None or any(source.kind == "input" for source in meant.sources):
                continue
            root = names[: len(names) - len(meant.fields)]
            monitor = UndefinedMonitor(self.analyses, root, [hit.step for hit in self._hits(rule.never)])
            for bad in explore_counted(self.flow, monitor, self.analyses.ways.certain).bad.values():
                if bad.step not in found and self.analyses.ways.is_real(bad):
                    step = self.flow.steps[bad.step].id
                    name = "$" + ".".join(root)
                    message = f"`{step}` can start while `{name}` is undefined, so `{rule.when}` can't be ruled out"
                    message += f" (guardrail `{rule.name}`{origin.of_policy})"
                    help = f"define it on every path to `{step}`, or start the rule with `defined({name}) and`"
                    found[bad.step] = Outcome(
                        "SW403",
                        message,
                        help,
                        self._place(rule, bad.step),
                        step,
                        origin.labels,
                        self._shown(rule, origin, bad),
                        origin.tag,
                    )
        return list(found.values())

    def _lacking(self, tree: Expression, selector: AnySelector) -> str | None:
        """Return a reference of a `when` that the program can't have, or None."""
        parts = [hit.part for hit in self.facts.hits(selector)]
        arguments = {name for part in parts if isinstance(part, ToolCall) for name in self._arguments(part)}
        for node in walk(tree):
            if isinstance(node, Reference):
                if node.names[0] == "args":
                    if len(node.names) < 2 or node.names[1] not in arguments:
                        return node.text()
                elif self.facts.meaning.names.meaning(node.names) is None:
                    return node.text()
        return None

    def _arguments(self, call: ToolCall) -> set[str]:
        return set(call.args) | set(self.facts.meaning.tool(call.tool).args or ())

    # -- words -----------------------------------------------------------------------------------------------------

    def _violated(self, rule: AnyRule, origin: Origin, bad: Bad) -> Outcome:
        return self._said(rule, origin, bad.kind, bad.step, self._shown(rule, origin, bad))

    def _said(self, rule: AnyRule, origin: Origin, kind: str, number: int, evidence: Evidence) -> Outcome:
        step = self.flow.steps[number].id
        code, message, help = words(rule, kind, step)
        if origin.place == ALLOW_LIST:
            message, help = (
                f"`{step}` calls a tool that is not allowed",
                "use an allowed tool, or have it put on the list",
            )
            if isinstance(rule, Never) and rule.when is not None:
                message = f"`{step}` can start with arguments that are not allowed: `{rule.when}` does not hold"
                help = f"route control past `{step}` then, or change what it is called with"
        message = f"{message} (guardrail `{rule.name}`{origin.of_policy})"
        return Outcome(code, message, help, self._place(rule, number), step, origin.labels, evidence, origin.tag)

    def _shown(self, rule: AnyRule, origin: Origin, bad: Bad) -> Evidence:
        """Return the path of a violation with the run on the machine that confirms it."""
        claim = self._claims(rule, origin)(bad.kind, bad.step)
        return self.proofs.witnesses.evidence(claim, bad.kind, bad.path, LAYER)

    def _unproved(self, rule: AnyRule, origin: Origin, number: int, kind: str, evidence: Evidence) -> Outcome:
        step = self.flow.steps[number].id
        claim = self._claim(rule, origin, kind, step)
        message = f"it may be that {claim}: {evidence.reason} (guardrail `{rule.name}`{origin.of_policy})"
        help = "if this path can happen, mend it; if not, say why: `# stepward: ignore[SW408] reason`"
        if origin.policy is not None:
            help = "if this path can happen, mend it; if not, ask for a waiver in the policy"
        return Outcome("SW408", message, help, self._place(rule, number), step, origin.labels, evidence, origin.tag)

    def _claim(self, rule: AnyRule, origin: Origin, kind: str, step: str) -> str:
        """Say what has not been ruled out."""
        if origin.place == ALLOW_LIST:
            return f"`{step}` starts with arguments that are not allowed"
        return words(rule, kind, step)[1]

    def _place(self, rule: AnyRule, number: int) -> Place:
        """Return the id of the step, or of the sub-step that the rule speaks of."""
        for selector in protected(rule):
            for hit in self.facts.hits(selector):
                if hit.step == number and hit.sub is not None:
                    return Place(("steps", number, "parallel_steps", hit.sub, "id"))
        return Place(("steps", number, "id"))

    # -- allow-lists -----------------------------------------------------------------------------------------------

    def allow_list(self, policy: Policy) -> Iterator[Judgement]:
        """Judge the tools that a policy allows: every other is forbidden, and so are other arguments than it names."""
        if policy.allow is None:
            return
        allowed = {entry.tool: entry for entry in policy.allow}
        origin = Origin("allow", policy, ALLOW_LIST)
        for site in self.facts.meaning.calls:
            call = site.call
            if not isinstance(call, ToolCall) or not self.flow.reachable[site.step]:
                continue
            entry = allowed.get(call.tool)
            if entry is not None and (entry.when is None or constant_text(entry.when) is True):
                continue
            hit = Hit(site.step, site.sub, call)
            asked = self._asked("allow", call.tool, policy, step=call.id)
            work = partial(self._allowed, hit, call, entry.when if entry is not None else None, origin)
            place = Place(("steps", hit.step, "id"))
            yield self._isolated(f"the allow-list at `{call.id}`", asked, origin, work, place)

    def _allowed(self, hit: Hit, call: ToolCall, when: str | None, origin: Origin) -> Found:
        """Judge a call that an allow-list does not admit as it stands: `when` is what it demands of an allowed tool."""
        rule = Never.model_construct(name="allow", never=_step_selector(call.id), when=when)
        if when is None:
            return self._decide(NeverMonitor(self.analyses, [hit]), rule, origin)
        found = self._tested(hit, parse(when), rule, origin)
        if isinstance(found, Outcome):
            return self._summed([found], Evidence(LAYER))
        return self._summed([], found or Evidence(LAYER))


def _both(one: Evidence | None, other: Evidence) -> Evidence:
    """Return the proof of two places: what the later one says, on the grounds of both."""
    return other if one is None else replace(other, certificate=(*one.certificate, *other.certificate))


def _step_selector(step: str) -> AnySelector:
    from stepward.vm.language.guardrails import StepSelector

    return StepSelector(step=step)
