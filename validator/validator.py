"""`ProgramValidator`: a program and policies in, a report out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stepward.validator.analysis.graph import StepGraph
from stepward.validator.analysis.vacuity import matched_policy_rules
from stepward.validator.called_findings import in_called_programs
from stepward.validator.context import Context
from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.engine.watch import Watch
from stepward.validator.failures import Failures
from stepward.validator.findings import Finding, Label, Property, Report, located
from stepward.validator.reasons import UnknownReason
from stepward.validator.waivers import with_waivers
from stepward.vm.arguments import FUNCTION, NUMBER, made, require
from stepward.vm.errors import DocumentError, Problem
from stepward.vm.language.program import Program
from stepward.vm.reading.document import Document

if TYPE_CHECKING:
    from stepward.sabotage.campaign import Matrix, Orders, Progress
    from stepward.vm.language.policy import Policy


class ProgramValidator:
    """Checks one program under the policies that apply to it.

    `today` is the day by which waivers are judged, by default the current one. With `certify` each proved property can
    write its certificate; with `recheck` a property is reported proved only if the second checker accepts its proof.
    `time_limit` are the seconds after which the check is stopped; properties that are not decided by then are unproved
    (SW408). `clock` is a running clock to use instead. Raises ValueError for a limit that is no number above 0.

        report = ProgramValidator(Program.load("refund.yaml")).validate()
        assert report.ok, report.errors
    """

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy] = (),
        *,
        today: datetime.date | None = None,
        certify: bool = False,
        recheck: bool = True,
        time_limit: float = LIMIT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        require(made(datetime.date).or_none(), today=today)
        require(NUMBER, time_limit=time_limit)
        require(made(Clock, words="a running clock of the engine").or_none(), clock=clock)
        if not time_limit > 0:  # `nan` is not above 0 either
            raise ValueError("`time_limit` is a number of seconds above 0")
        self._today = today or datetime.datetime.now(datetime.UTC).date()
        self._certify, self._recheck = certify, recheck
        certifies = certify or recheck
        self._context = Context(program, policies, certifies=certifies, time_limit=time_limit, clock=clock)

    @property
    def graph(self) -> StepGraph:
        """The program's step graph; its `digraph` is the NetworkX graph."""
        return self._context.facts.graph

    def validate(self) -> Report:
        """Return every finding of every rule, in the order of the text, and the verdict on every property.

        An internal error ends the rule or the property in which it happens, and is a finding (SW903).
        """
        from stepward.validator.rules.guardrails import Unproved
        from stepward.validator.rules.housekeeping import InternalError
        from stepward.validator.rules.registry import RULES

        context, program, failures = self._context, self._context.facts.program, self._context.proofs.failures
        found: list[Finding] = []
        with Watch(context.proofs.clock) as failures.watch:
            for rule in sorted(RULES, key=lambda rule: rule.asks_engine):
                found += failures.collect(f"rule {rule.code}", partial(rule().check, context))
            properties = context.verdicts.properties
            properties = failures.attempt("the certificates", lambda: self._certified(properties), lambda _: properties)
            if self._recheck and properties:
                from stepward.validator.rechecking import rechecked

                properties, refusals = rechecked(properties, context)
                found += refusals
        failures.watch = None
        found = in_called_programs(found, program)
        if context.proofs.clock.has_struck:
            found.append(Unproved().stopped(context))
        meaning = context.facts.meaning
        waived = failures.attempt("the waivers", lambda: with_waivers(found, meaning, self._today), lambda _: found)
        matched = failures.attempt(
            "the rules of policies", partial(matched_policy_rules, context.facts), lambda _: frozenset()
        )
        findings = list(_located(waived, program, failures))
        findings += _located(InternalError().of(failures.found), program, Failures())
        findings.sort(key=Finding.sort_key)
        analyses = context.analyses  # not the context: the proofs in it hold what Z3 takes
        return Report(
            program=program.name,
            file=program.source_name,
            findings=tuple(finding for finding in findings if finding.waiver is None),
            waived=tuple(finding for finding in findings if finding.waiver is not None),
            properties=tuple(self._without_proof_parts(one) for one in properties),
            matched_policy_rules=matched,
            called_tools=_called_tools(context) if context.facts.meaning.policies else frozenset(),
            declared_tools=frozenset(program.tools or ()),
            measure=lambda: analyses.bounds.in_all,
            failures=tuple(failures.found),
        )

    def sabotage(self, orders: Orders | None = None, *, progress: Progress | None = None) -> Matrix:
        """Attack the machine that runs the program under these policies, and return the results.

        `orders` are the attacks and their effort; `progress` is called for each part that is done. The routes that the
        checker finds to each effect are among the runs that are tried. Raises ProgramError for a program that no
        machine can run.
        """
        from stepward.sabotage.campaign import Orders, attack_program
        from stepward.validator.routes import routes

        require(made(Orders).or_none(), orders=orders)
        require(FUNCTION.or_none(), progress=progress)
        context = self._context
        program, policies = context.facts.program, context.facts.meaning.policies
        known_routes = routes(program, policies, check=partial(check_program, recheck=False))
        return attack_program(program, policies, orders or Orders(), routes=known_routes, progress=progress)

    def _certified(self, properties: list[Property]) -> list[Property]:
        """Return properties; if certificates are asked for, each proved one with a function that writes its own."""
        if not self._certify:
            return properties
        from stepward.validator.engine.certificates.certifying import certified

        return [certified(one, self._context.facts) for one in properties]

    def _without_proof_parts(self, one: Property) -> Property:
        """Return a property without the parts of its proof, unless its certificate may still be written."""
        if self._certify or not one.evidence.certificate:
            return one
        return one._replace(evidence=replace(one.evidence, certificate=()))


def check_program(program: Program, policies: Sequence[Policy] = (), *, recheck: bool = True) -> tuple[Finding, ...]:
    """Return the findings of a program; `ExecutionVM(checker=check_program)` calls it before a program's first run."""
    return ProgramValidator(program, policies=policies, recheck=recheck).validate().findings


def _located(findings: list[Finding], program: Program, failures: Failures) -> tuple[Finding, ...]:
    """Return findings with their file, and with their locations in the text where these can be found."""
    name = program.source_name
    return failures.attempt(
        "the places of findings",
        lambda: located(findings, program.document, name),
        lambda _: tuple(replace(finding, file=name) for finding in findings),
    )


def isolated(name: str, check: Callable[[], Report]) -> Report:
    """Return the report of a check, or one that says that the check broke off. `name` is that of the file."""
    failures = Failures()

    def broken(why: UnknownReason) -> Report:
        from stepward.validator.rules.guardrails import Unproved
        from stepward.validator.rules.housekeeping import InternalError

        reported = InternalError().of(failures.found) or [Unproved().unchecked(why)]
        findings = tuple(replace(finding, file=name) for finding in reported)
        return Report("", name, findings, failures=tuple(failures.found))

    def checked() -> Report:
        try:
            return check()
        except DocumentError as error:  # a policy for a program that it calls
            return unreadable(error)

    return failures.attempt("the check of this program", checked, broken)


def validate_document(
    document: Document,
    policies: Sequence[Policy] = (),
    *,
    today: datetime.date | None = None,
    certify: bool = False,
    recheck: bool = True,
    time_limit: float = LIMIT_SECONDS,
) -> Report:
    """Return the report of a document; if it is no program, its problems are the findings."""

    def check() -> Report:
        clock = Clock(time_limit)
        try:
            with Watch(clock) as watch:
                program = watch.guarded(lambda: Program.from_document(document))
            validator = ProgramValidator(
                program, policies, today=today, certify=certify, recheck=recheck, time_limit=time_limit, clock=clock
            )
        except DocumentError as error:
            return unreadable(error, document)
        return validator.validate()

    return isolated(document.name, check)


def unreadable(error: DocumentError, document: Document | None = None) -> Report:
    """Return the report of a document that is no program, with the problems of reading it as findings."""
    findings = [_finding(problem) for problem in error.problems]
    return Report("", error.name, located(findings, document, error.name))


def _finding(problem: Problem) -> Finding:
    from stepward.validator.rules.registry import RULE_BY_CODE

    rule, related = RULE_BY_CODE[problem.code](), [Label(place, text) for place, text in problem.related]
    found = rule.finding(
        problem.message, problem.help, problem.place, step=problem.step, related=related, correction=problem.correction
    )
    return replace(found, span=problem.span)


def _called_tools(context: Context) -> frozenset[str]:
    return frozenset(site.call.tool for site in context.facts.meaning.calls if site.call.type == "tool")
