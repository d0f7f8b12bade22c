"""The check of many files: every program under its own settings, then the findings on the run as a whole."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.failures import CODE as INTERNAL
from stepward.validator.failures import Failure, Failures
from stepward.validator.files import absolute, shown_name
from stepward.validator.findings import Finding, Property, Report
from stepward.validator.gate.baseline import Baseline, write_baseline
from stepward.validator.gate.cached_reports import CachedFile, FileCache, SourceFile
from stepward.validator.gate.discovery import (
    Candidate,
    Contents,
    candidate_bytes,
    documents_in,
    find_candidates,
    read_candidate,
    read_content,
    shown_text,
)
from stepward.validator.gate.idle_policies import Judged, idle_waivers, unknown_tools
from stepward.validator.gate.policies import Policies
from stepward.validator.gate.settings import Configurations, FileIgnore, Settings
from stepward.validator.gate.suppressions import IDLE, UNUSED, Silenced, read_comments, silence
from stepward.validator.gate.whole_run import (
    FileFinding,
    NamedProgram,
    Use,
    idle_entries,
    shared_waivers,
    stale_baseline,
    vacuous_rules,
)
from stepward.validator.result import AdvisedError, RunResult, Suppressed
from stepward.vm.errors import DocumentError, PolicyError
from stepward.vm.reading.document import Format
from stepward.vm.reading.files import LISP
from stepward.vm.reading.limits import MAX_BYTES

# A run that finds everything in the cache must not wait for the models of programs and for the rules: they are imported
# where a program is checked.
if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import ProgramBounds
    from stepward.validator.gate.cache import Cache
    from stepward.validator.gate.tool_module import ToolModule
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program

STDIN: Final = "<stdin>"

BLOCKING: Final = frozenset({"SW001", "SW002", "SW003", "SW004", "SW101", "SW106"})
"""Findings without which guardrails can be judged. Under a policy they can't be silenced: the author of a program could
otherwise escape all findings of the policy by breaking the program and silencing the break."""

UNJUDGED: Final = BLOCKING | {INTERNAL}
"""Findings after which nobody knows whether the program keeps its rules."""


@dataclass(slots=True)
class _Entry:
    """A finding, the settings that decide whether it is reported, and the number of its program, if any."""

    finding: Finding
    settings: Settings
    program: int | None = None


class Run:
    """Checks paths, texts and objects, and collects their reports; `result` returns the whole.

    `today` is the day by which waivers are judged; `on_file` gets the name of each file before it is read.
    `with_bounds` computes the bounds of programs, `with_fixes` the fixes of findings, and `certify` keeps the proofs
    that certificates are written from. Files of paths whose reports a `cache` has are not checked again; `certify`
    turns the cache off, because cached reports have no proofs. The functions of `tools` are compared with the manifest
    of each program.
    """

    def __init__(  # noqa: PLR0913 - each is an option of the command
        self,
        configurations: Configurations,
        *,
        skip_non_programs: bool = False,
        with_bounds: bool = False,
        with_fixes: bool = False,
        certify: bool = False,
        today: datetime.date | None = None,
        on_file: Callable[[str], None] | None = None,
        cache: Cache | None = None,
        tools: ToolModule | None = None,
    ) -> None:
        self._tools = tools
        self._configurations = configurations
        self._skip_non_programs = skip_non_programs
        self._with_bounds = with_bounds
        self._with_fixes = with_fixes
        self._today = today or datetime.datetime.now(datetime.UTC).date()
        self._check_arguments: Mapping[str, Any] = {"today": self._today, "certify": certify}
        self._on_file = on_file
        self._policies = Policies()
        self._cache: FileCache | None = None
        if cache is not None and not certify and tools is None:
            self._cache = FileCache(cache, self._policies, self._today, with_bounds=with_bounds, with_fixes=with_fixes)
        self._entries: list[_Entry] = []
        self._silenced: list[tuple[_Entry, Suppressed]] = []
        self.files: set[str] = set()
        self._properties: list[Property] = []
        self._bounds: list[ProgramBounds] = []
        self._sources: dict[str, str] = {}
        self._uses: dict[tuple[FilePath | None, int], Use] = {}
        self._failures = Failures(AdvisedError, PolicyError)
        self._failed: list[Failure] = []
        self._read: set[str] = set()
        self._matched: set[tuple[str, str]] = set()
        self._called: set[str] = set()
        self._declared: set[str] = set()
        self._judged: list[Judged] = []
        self._named: list[NamedProgram] = []
        self._settings: dict[int, Settings] = {}
        self._skipped: list[str] = []
        self._excluded: list[str] = []
        self._programs = 0
        self._not_literal: list[str] = []
        self._covers_folder = False

    # -- targets -------------------------------------------------------------------------------------------------------

    def check_paths(self, targets: Sequence[str | FilePath]) -> None:
        """Check the programs in files and folders.

        Raises TargetError and ConfigurationError for files that can't be read, PolicyError for a file that is no
        policy.
        """
        self._covers_folder |= any(map(os.path.isdir, targets))
        for candidate in find_candidates(targets, self._configurations):
            label = shown_name(candidate.path)
            if candidate.is_excluded:
                self._excluded.append(label)
                continue
            if self._on_file is not None:
                self._on_file(label)
            self._isolated(candidate.path, label, partial(self._check_file, candidate, label))
            self._read.add(str(candidate.path))

    def check_text(self, content: bytes, filename: str | None) -> None:
        """Check the programs in the content of standard input; `filename` is the file that it stands for, if any."""
        path = absolute(filename or STDIN)
        label = shown_name(path) if filename else STDIN
        name = str(path) if filename else STDIN

        def check() -> None:
            contents = read_content(content, name, label, must_be_program=not self._skip_non_programs)
            self._add_contents(contents, path, label)

        self._isolated(path, label, check)

    def check_object(self, value: Program | dict[str, Any], name: str) -> None:
        """Check a program that was built in code; `name` is what reports call it."""
        from stepward.validator.validator import unreadable
        from stepward.vm.language.program import Program

        settings = self._configurations.above(FilePath.cwd())
        policies = self._policies.of(settings)

        def check() -> None:
            document, label = None, name
            try:
                program = value if isinstance(value, Program) else Program.from_dict(value)
                document = program.document
                report = self._report(program, policies, settings)
            except DocumentError as error:
                report = unreadable(error)
            if document is not None and os.path.isfile(document.name):
                label = shown_name(absolute(document.name))
            text, format = (document.text, document.format) if document else ("", "json")
            self._add_reports([report], text, format, absolute(label), label, settings)

        self._isolated(absolute(name), name, check)

    def policies_of(self, program: Program) -> list[Policy]:
        """Return the policies for a program of a file; raises what `check_program` does."""
        return self._policies.of(self._configurations.above(absolute(program.source_name).parent))

    def check_program(self, program: Program, derived: Sequence[Policy] | None = None) -> list[Policy]:
        """Check one program of a file that may hold several, and return the policies for it.

        It is checked under these, or under policies that were `derived` from them for a continuation. Raises
        ConfigurationError for settings that can't be used, PolicyError for a file that is no policy.
        """
        document = program.document
        assert document is not None, "a program of a file was read from it"
        path = absolute(document.name)
        settings = self._configurations.above(path.parent)
        configured = self._policies.of(settings)
        policies, text, format = configured if derived is None else derived, document.text, document.format

        def check() -> None:
            report = self._report(program, policies, settings)
            self._add_reports([report], text, format, path, shown_name(path), settings)

        self._isolated(path, shown_name(path), check)
        return configured

    def _report(self, program: Program, policies: Sequence[Policy], settings: Settings) -> Report:
        from stepward.validator.validator import ProgramValidator, isolated

        def check() -> Report:
            report = ProgramValidator(program, policies, **self._check_arguments, **settings.for_proofs).validate()
            return report if self._tools is None else self._tools.compared(report, program, policies)

        return isolated(program.source_name, check)

    def _isolated(self, path: FilePath, label: str, check: Callable[[], None]) -> None:
        """Check a file; an internal error ends the check of this file only."""
        self._failures = Failures(AdvisedError, PolicyError)
        self._failures.attempt("the check of this file", check, lambda _: None)
        self._add_failures(path, label)

    def _add_failures(self, path: FilePath, label: str) -> None:
        """Add a finding for each internal error that no report has."""
        if not self._failures.found:
            return
        from stepward.validator.rules.housekeeping import InternalError

        for finding in InternalError().of(self._failures.found):
            self._entries.append(_Entry(replace(finding, file=label), self._configurations.above(path.parent)))
            self.files.add(label)
        self._failed += self._failures.found

    # -- one file ------------------------------------------------------------------------------------------------------

    def _check_file(self, candidate: Candidate, label: str) -> None:
        file = self._source(candidate, label) if self._cache is not None else None
        if file is None or self._cache is None:
            contents = read_candidate(candidate, skip_non_programs=self._skip_non_programs)
            self._add_contents(contents, candidate.path, label)
            return
        find = partial(self._cache.find, file, self._configurations)
        cached = self._failures.attempt("the reading of the cache", find, lambda _: None)
        if cached is not None:
            self._add_known(cached, file)
            return
        contents = read_content(file.content, str(file.path), label, must_be_program=file.must_be_program)
        self._add_contents(contents, file.path, label, file)

    def _source(self, candidate: Candidate, label: str) -> SourceFile | None:
        """Return a file with its content, or None when it is too large to be cached."""
        content = candidate_bytes(candidate.path)
        if content is None or len(content) > MAX_BYTES:
            return None
        return SourceFile(candidate.path, label, content, candidate.is_named and not self._skip_non_programs)

    def _add_known(self, cached: CachedFile, file: SourceFile) -> None:
        self._not_literal += [f"{file.label}:{line}" for line in cached.not_literal]
        if cached.reports is None:
            self._skipped.append(file.label)
            return
        settings = self._configurations.above(file.path.parent)
        text = shown_text(file.content)
        self._add_reports(list(cached.reports), text, _format(file.path), file.path, file.label, settings)

    def _add_contents(self, contents: Contents, path: FilePath, label: str, file: SourceFile | None = None) -> None:
        """Add the reports on the contents of a file; `file` is given where they are to be cached."""
        self._not_literal += [f"{label}:{line}" for line in contents.not_literal]
        if contents.error is None and not contents.documents:
            self._skipped.append(label)
            if file is not None and self._cache is not None:
                self._cache.store_non_program(file, contents.not_literal)
            return
        settings = self._configurations.above(path.parent)
        started = time.monotonic()
        reports = list(self._reports(contents, settings, path))
        if file is not None and contents.is_whole and self._cache is not None and not self._failures.found:
            seconds = time.monotonic() - started
            store = partial(self._cache.store, file, settings, reports, contents.not_literal, seconds)
            self._failures.attempt("the writing of the cache", store, lambda _: None)
        self._add_reports(reports, contents.text, _format(path), path, label, settings)

    def _reports(self, contents: Contents, settings: Settings, path: FilePath) -> Iterator[Report]:
        from stepward.validator.validator import unreadable, validate_document

        policies = self._policies.of(settings)
        if contents.error is not None:
            yield unreadable(contents.error)
        for number, document in enumerate(contents.documents):
            report = validate_document(document, policies, **self._check_arguments, **settings.for_proofs)
            if self._tools is not None:
                report = self._tools.compared(report, document, policies)
            if self._with_fixes and any(finding.correction is not None for finding in report.findings):
                from stepward.validator.gate.corrections import with_fixes

                read = partial(documents_in, path=path)
                fix = partial(with_fixes, report.findings, contents.documents, number, read)
                fixed = self._failures.attempt("the fixes", fix, partial(_first, report.findings))
                report = replace(report, findings=tuple(fixed))
            yield report

    def _add_reports(
        self, reports: list[Report], text: str, format: Format, path: FilePath, label: str, settings: Settings
    ) -> None:
        self._settings[id(settings)] = settings
        owners: dict[int, int] = {}
        findings = []
        for number, report in enumerate(reports, start=self._programs):
            self._matched |= report.matched_policy_rules
            self._called |= report.called_tools
            self._declared |= report.declared_tools
            self._judged.append(Judged.of(report, label, self._policies.use(settings), UNJUDGED))
            self._named.append(NamedProgram(report.program, str(path), label, number - self._programs))
            self._properties.extend(_with_file(label, entry) for entry in report.properties)
            self._failed += report.failures
            measured = partial(getattr, report, "bounds") if self._with_bounds else lambda: None
            bounds = self._failures.attempt(f"the bounds of `{report.program}`", measured, lambda _: None)
            if bounds is not None:
                self._bounds.append(replace(bounds, file=label))
            for reported in report.waived:
                waived = replace(reported, file=label)
                self._silenced.append((_Entry(waived, settings), Suppressed(waived, "waiver", waived.waiver or "")))
            for reported in report.findings:
                finding = replace(reported, file=label)
                owners[id(finding)] = number
                findings.append(finding)
        result = self._failures.attempt(
            "the comments that silence findings",
            lambda: silence(findings, read_comments(text, format), label, partial(self._is_fixed, settings=settings)),
            lambda _: Silenced(findings),
        )
        for finding, reason in result.silenced:
            self._silenced.append((_Entry(finding, settings), Suppressed(finding, "comment", reason)))
        for finding in (*result.remaining, *result.complaints):
            entry = _Entry(finding, settings, owners.get(id(finding), self._programs))
            ignored = self._file_ignored(finding, path, settings)
            if ignored is None:
                self._entries.append(entry)
            else:
                self._silenced.append((entry, Suppressed(finding, "configuration", ignored.reason)))
        self.files.add(label)
        self._note_matched_files(path, settings)
        if findings or result.complaints:
            self._sources[label] = text
        self._programs += len(reports)

    def _is_fixed(self, finding: Finding, settings: Settings) -> bool:
        """Return whether a finding can't be silenced: only a policy can lift it, or nothing, as an internal error."""
        if finding.policy is not None or finding.code == INTERNAL:  # an internal error hides unknown findings
            return True
        return finding.code in BLOCKING and bool(settings.policies)

    def _file_ignored(self, finding: Finding, path: FilePath, settings: Settings) -> FileIgnore | None:
        for entry in settings.per_file_ignores:
            if finding.code == UNUSED or not finding.code.startswith(entry.codes) or not entry.files.verdict(path):
                continue
            use = self._use_of(entry, settings)
            if self._is_fixed(finding, settings):
                use.fixed = finding
            else:
                use.silenced = True
                return entry
        return None

    def _note_matched_files(self, path: FilePath, settings: Settings) -> None:
        for entry in settings.per_file_ignores:
            if entry.files.verdict(path):
                self._use_of(entry, settings)

    def _use_of(self, entry: FileIgnore, settings: Settings) -> Use:
        return self._uses.setdefault((settings.source, entry.number), Use(entry, settings))

    # -- the whole run -------------------------------------------------------------------------------------------------

    def result(self, new_baseline: FilePath | None = None) -> RunResult:
        """Return the result of the run; `new_baseline` is a file to list all findings in that can be hidden.

        Raises ConfigurationError for a baseline that can't be read or written.
        """
        self._failures = Failures(AdvisedError, PolicyError)
        if self._covers_folder:
            self._add_whole_run_findings()
        used = self._policies.used()
        shared = partial(shared_waivers, used, self._named, self._today)
        self._add_found(self._failures.collect("the search for shared waivers", shared))
        idle = partial(idle_waivers, used, self._judged, self._today, covers_folder=self._covers_folder)
        self._add_found(self._failures.collect("the search for idle waivers", idle))
        self._add_failures(FilePath.cwd() / STDIN, ".")
        entries = sorted(self._entries, key=lambda entry: entry.finding.sort_key())
        visible, hidden, stale = self._hide(entries, new_baseline)
        visible = sorted(filter(self._is_wanted, visible), key=lambda entry: entry.finding.sort_key())
        findings = tuple(entry.finding for entry in visible)
        files = {finding.file for finding in findings}
        listed = ((entry, Suppressed(entry.finding, "baseline", "the baseline lists it")) for entry in hidden)
        silenced = [*self._silenced, *listed]
        return RunResult(
            findings=findings,
            failing=frozenset(entry.finding for entry in visible if _fails(entry)),
            suppressed=tuple(
                sorted(
                    (suppressed for entry, suppressed in silenced if self._is_wanted(entry)),
                    key=lambda suppressed: suppressed.finding.sort_key(),
                )
            ),
            files=tuple(sorted(self.files)),
            properties=tuple(sorted(self._properties, key=lambda entry: entry.file)),
            bounds=tuple(sorted(self._bounds, key=lambda entry: entry.file)),
            sources={file: text for file, text in self._sources.items() if file in files},
            programs=self._programs,
            programs_with_findings=len({entry.program for entry in visible} - {None}),
            skipped=len(self._skipped),
            skipped_files=tuple(sorted(self._skipped)),
            excluded=tuple(sorted(set(self._excluded))),
            not_literal=tuple(self._not_literal),
            hidden=len(hidden),
            stale=tuple(stale),
            failures=tuple(self._failed),
        )

    def _add_whole_run_findings(self) -> None:
        """Add the findings on the run as a whole that need all programs of a folder."""
        idle = partial(idle_entries, self._uses.values())
        self._add_found(self._failures.collect("the search for idle entries", idle))
        # A rule of a policy is not called vacuous while some program can't be judged: it may match there.
        if self._programs and not any(entry.finding.code in UNJUDGED for entry in self._entries):
            find = partial(vacuous_rules, self._policies.used(), self._matched, self._called)
            self._add_found(self._failures.collect("the search for vacuous rules of policies", find))
            unknown = partial(unknown_tools, self._policies.used(), self._called | self._declared)
            self._add_found(self._failures.collect("the search for unknown tools in policies", unknown))

    def _add_found(self, findings: Iterable[FileFinding]) -> None:
        for finding in findings:
            self._sources[finding.file] = finding.text
            self._entries.append(_Entry(finding.finding, finding.settings))

    def _is_wanted(self, entry: _Entry) -> bool:
        return self._is_fixed(entry.finding, entry.settings) or entry.settings.selects(entry.finding.code)

    def _can_hide(self, entry: _Entry) -> bool:
        return entry.finding.code not in IDLE and not self._is_fixed(entry.finding, entry.settings)

    def _hide(
        self, entries: list[_Entry], new_baseline: FilePath | None
    ) -> tuple[list[_Entry], list[_Entry], list[Mapping[str, Any]]]:
        """Return the findings that baselines do not hide, those that they hide, and the stale entries."""
        if new_baseline is not None:
            hidden = [entry for entry in entries if self._can_hide(entry) and self._is_wanted(entry)]
            write_baseline(absolute(new_baseline), (entry.finding for entry in hidden))
            left = [entry for entry in entries if not (self._can_hide(entry) and self._is_wanted(entry))]
            return left, hidden, []
        owners = {path: settings for settings in self._settings.values() if (path := settings.baseline) is not None}
        baselines = {path: Baseline.load(absolute(path)) for path in sorted(owners)}
        left, hidden = [], []
        for entry in entries:
            is_hidden = self._can_hide(entry) and _is_hidden(entry, baselines)
            (hidden if is_hidden else left).append(entry)
        stale: list[Mapping[str, Any]] = []
        unjudged = {str(absolute(entry.finding.file)) for entry in entries if entry.finding.code in UNJUDGED}
        for path, baseline in baselines.items():
            idle = baseline.stale(partial(self._knows, unjudged))
            stale += [{"baseline": shown_name(baseline.path), **entry} for entry in idle]
            for stale_finding in stale_baseline(baseline.path, idle, owners[path]):
                self._sources[stale_finding.file] = stale_finding.text
                left.append(_Entry(stale_finding.finding, stale_finding.settings))
        return left, hidden, stale

    def _knows(self, unjudged: set[str], file: FilePath) -> bool:
        """Return whether this run has all findings of a file; of a file that is gone, a run over a folder has."""
        path = os.path.normpath(file)
        if path in self._read:
            return path not in unjudged
        return self._covers_folder and not os.path.exists(path)


def _with_file(file: str, entry: Property) -> Property:
    return entry if entry.file == file else entry._replace(file=file)


def _format(path: FilePath) -> Format:
    if path.suffix in LISP:
        return "lisp"
    return {".py": "python", ".json": "json"}.get(path.suffix, "yaml")  # type: ignore[return-value]


def _first(findings: tuple[Finding, ...], _: str) -> Sequence[Finding]:
    return findings


def _fails(entry: _Entry) -> bool:
    """Return whether a finding fails the gate: one that leaves the program unjudged always does."""
    return entry.settings.fails(entry.finding) or entry.finding.code in UNJUDGED


def _is_hidden(entry: _Entry, baselines: Mapping[FilePath, Baseline]) -> bool:
    path = entry.settings.baseline
    return path is not None and baselines[path].hides(entry.finding)
