"""The results of a check: findings, the verdicts behind them, and the report that has both."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.vm.reading.document import Document
from stepward.vm.reading.source import Correction, Place, Span

if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import ProgramBounds
    from stepward.validator.engine.certificates.certificate import Certificate
    from stepward.validator.engine.certificates.proof_part import ProofPart
    from stepward.validator.engine.witnesses.witness import Witness
    from stepward.validator.failures import Failure


class Severity(StrEnum):
    """How bad a finding is: an error fails the gate, a warning only with `--fail-on warning`."""

    ERROR = "error"
    WARNING = "warning"


class Verdict(StrEnum):
    """The answer about a property: proved, violated, or unknown with the reason."""

    PROVED = "proved"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a path: the step, and its outcome (`branch then`, `failed`, `skipped`, …).

    `error` is the name of the error of a step that failed, if errors have names in the program; it is only shown. So is
    `opens`: the step goes on to its items or branches, and has not succeeded yet; and `closes`: it ends only its body.
    """

    step: str
    how: str
    error: str = field(default="", compare=False)
    opens: bool = field(default=False, compare=False)
    closes: bool = field(default=False, compare=False)

    @property
    def shown(self) -> str:
        """The outcome as it is shown, without the name of the error."""
        return "starts" if self.opens else "ends its body" if self.closes else self.how

    @property
    def words(self) -> str:
        """The outcome in words, with the name of the error."""
        return self.shown.replace("fails", f"fails with {self.error}", 1) if self.error else self.shown

    def to_data(self) -> dict[str, Any]:
        """Return the move as plain data."""
        return {"step": self.step, "how": self.shown} | ({"error": self.error} if self.error else {})


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a finding or verdict can be believed.

    `layer` is the part of the engine that decided it (`graph`, `data flow`); `path` leads to the violation; `cut` are
    the transitions whose absence proves that there is none; `reason` says why the verdict is unknown. `state` has the
    values of references that show a finding about a condition; all others are undefined. `witness` is a run that the
    machine has confirmed; `unconfirmed` says what the machine did instead, on a path that was called certain (SW901).
    `certificate` are the parts of a proof, where the check was asked for them.
    """

    layer: str
    path: tuple[Move, ...] = ()
    cut: tuple[str, ...] = ()
    reason: str = ""
    state: tuple[tuple[str, Any], ...] = ()
    witness: Witness | None = field(default=None, compare=False)
    unconfirmed: str = field(default="", compare=False)
    certificate: tuple[ProofPart, ...] = field(default=(), compare=False, repr=False)

    def to_data(self, *, witness: bool = True) -> dict[str, Any]:
        """Return the evidence as plain data, without empty fields; `witness` says whether its witness is included."""
        data = {
            "path": [move.to_data() for move in self.path],
            "cut": list(self.cut),
            "reason": self.reason,
            "state": dict(self.state),
            "unconfirmed": self.unconfirmed,
            "witness": self.witness.to_data() if witness and self.witness is not None else None,
        }
        return {"layer": self.layer, **{name: value for name, value in data.items() if value}}


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that helps to understand a finding; `document` is its document, the program's if None."""

    place: Place
    text: str
    document: Document | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a text: `text` replaces the part at `span`; at an empty span it is inserted."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A safe fix of a finding: what it does, and the edits of its file, in the order of the text."""

    title: str
    edits: tuple[Edit, ...]


class PolicyTag(NamedTuple):
    """The names of a policy and of its rule, or of the tool that it tells facts of. Names may hold any character.

    `continues`: the rule is in force in a run that continues another, where no waiver counts.
    """

    policy: str
    rule: str
    continues: bool = False

    def __str__(self) -> str:
        """Return both names for a reader: `policy/rule`."""
        return f"{self.policy}/{self.rule}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a program.

    `span` is None for a program that was built in code: `place` is then its location in the data. `policy` names the
    policy and the rule that the finding comes from; such a finding can't be suppressed, deselected or put on a
    baseline. `waiver` is the reason why the policy allows it, and until when. `path_spans` are the locations of the
    steps of the evidence's path. `correction` is a change of the data that removes the finding, where that is
    safe; `fix` is the same as edits of the text, where the check was asked for it.
    """

    code: str
    name: str
    severity: Severity
    message: str
    help: str
    place: Place
    step: str | None = None
    related: tuple[Label, ...] = ()
    evidence: Evidence | None = None
    policy: PolicyTag | None = None
    waiver: str | None = None
    file: str = ""
    span: Span | None = None
    path_spans: tuple[Span | None, ...] = ()
    correction: Correction | None = field(default=None, compare=False)
    fix: Fix | None = field(default=None, compare=False)

    def fingerprint(self) -> tuple[str, str, str, str]:
        """Return what identifies the finding on any line: file, code, step, message."""
        return (self.file, self.code, self.step or "", self.message)

    def sort_key(self) -> tuple[Any, ...]:
        """Return a key that orders findings by location, then by code and message."""
        span = self.span or Span(0, 0, 0, 0)
        # A program that was built in code has no spans: its findings are ordered by path, list indexes as numbers.
        path = tuple((str(part), 0) if isinstance(part, str) else ("", part) for part in self.place.path)
        return (self.file, span.line, span.column, () if self.span else path, self.code, self.message)


COVERAGE: Final = "coverage"
"""The name of the property that a condition always takes a branch."""

EXCLUSIVE_CASES: Final = "exclusive cases"
"""The name of the property that no two cases of a condition hold at once."""


class Property(NamedTuple):
    """A question about a program and its verdict; `rule` is the guardrail or step that it is about.

    `policy` names the policy that a guardrail is from, `number` is its position in that list, counted from 1; `step` is
    the step that an allow-list or a question about a condition is about. `rechecked` says that the second checker has
    accepted the proof in this run. `certify` writes the certificate of a proof, where the check was asked for it.
    """

    name: str
    rule: str
    verdict: Verdict
    evidence: Evidence
    seconds: float = 0.0
    file: str = ""
    policy: str | None = None
    number: int | None = None
    step: str | None = None
    certify: Callable[[], Certificate] | None = None
    rechecked: bool = False


@dataclass(frozen=True)
class Report:
    """The result of checking one program; `waived` are the findings that a policy allows for a while.

    `matched_policy_rules` are the (policy, rule) pairs that protect a step of this program: a rule that no program of a
    run matches is vacuous. `measure` computes `bounds`. `failures` are the internal errors of the check, each of which
    is in a finding (SW903). `called_tools` are the tools that the program calls, where policies apply to it;
    `declared_tools` are those of its manifest.
    """

    program: str
    file: str
    findings: tuple[Finding, ...] = ()
    properties: tuple[Property, ...] = ()
    matched_policy_rules: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    measure: Callable[[], ProgramBounds] | None = field(default=None, repr=False, compare=False)
    waived: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()
    called_tools: frozenset[str] = field(default_factory=frozenset)
    declared_tools: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def bounds(self) -> ProgramBounds | None:
        """The most that one run can do, computed on first use; None for a document that is no program."""
        return None if self.measure is None else replace(self.measure(), file=self.file)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that fail the gate."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that do not fail the gate by themselves."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def ok(self) -> bool:
        """Whether there is no error-level finding."""
        return not self.errors


def located(findings: list[Finding], document: Document | None, file: str) -> tuple[Finding, ...]:
    """Return the findings with their file and spans, sorted and without duplicates; each document is searched once."""
    places: dict[int, tuple[Document, list[Place]]] = {}
    steps = _step_places(document) if any(map(_path, findings)) else {}
    for finding in findings:
        for place, home in _places(finding, document, steps):
            if home is not None:
                places.setdefault(id(home), (home, []))[1].append(place)
    spans = {key: home.locate(wanted) for key, (home, wanted) in places.items()}

    def span(place: Place | None, home: Document | None) -> Span | None:
        return spans[id(home)][place] if home is not None and place is not None else None

    result = [
        replace(
            finding,
            file=file,
            span=finding.span or span(finding.place, document),
            related=tuple(
                replace(label, span=span(label.place, label.document or document)) for label in finding.related
            ),
            path_spans=tuple(span(_home_of(move, steps), document) for move in _path(finding)),
        )
        for finding in findings
    ]
    return tuple(sorted(dict.fromkeys(result), key=Finding.sort_key))


def _path(finding: Finding) -> tuple[Move, ...]:
    return finding.evidence.path if finding.evidence is not None else ()


def _step_places(document: Document | None) -> dict[str, Place]:
    """Return the place of the id of each step and sub-step of a program, and of the name of each branch.

    A step of a called program has the id of the call before its own. The steps of a file are in another document.
    """
    if document is None or not isinstance(document.data, dict):
        return {}
    places: dict[str, Place] = {}
    _add_places(places, document.data, Place(()), "", {})
    return places


def _add_places(places: dict[str, Place], program: Any, home: Place, prefix: str, around: Mapping[str, Any]) -> None:
    """Add the places of the steps of a program at `home`; `around` has what it can call, beside what it lists."""
    known = dict(around)
    listed = program.get("programs") or {}
    known |= {name: (one, home.child("programs", name), known) for name, one in listed.items()}
    pending = deque((home.child("steps", number), step) for number, step in enumerate(program["steps"]))
    while pending:
        own, step = pending.popleft()
        places.setdefault(prefix + step["id"], own.child("id"))
        for name in ("parallel_steps", "steps"):
            pending += [(own.child(name, number), inner) for number, inner in enumerate(step.get(name) or ())]
        pending += [(own.child("do"), step["do"])] if step.get("do") else []
        for name, branch in (step.get("branches") or {}).items():
            at = own.child("branches", name)
            places.setdefault(prefix + name, Place(at.path, key=True))
            pending += [(at.child("steps", number), inner) for number, inner in enumerate(branch["steps"])]
        called, where, known_there = known.get(step.get("program"), ({}, home, {}))
        if "steps" in called:
            _add_places(places, called, where, f"{prefix}{step['id']}/", known_there)


def _home_of(move: Move, steps: Mapping[str, Place]) -> Place | None:
    """Return the place of the step of a move; for a stage, whose id has a space, that of its step."""
    return steps.get(move.step, steps.get(move.step.partition(" ")[0]))


def _places(
    finding: Finding, document: Document | None, steps: Mapping[str, Place]
) -> list[tuple[Place, Document | None]]:
    own = [] if finding.span else [(finding.place, document)]
    path = [(home, document) for move in _path(finding) if (home := _home_of(move, steps)) is not None]
    return [*own, *path, *((label.place, label.document or document) for label in finding.related)]
