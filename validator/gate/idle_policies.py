"""What in a policy has no effect on a run: waivers that lift nothing (SW702), and names of unknown tools (SW703)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from stepward.validator.findings import Report
from stepward.validator.gate.policies import PolicyFile, WaiverOutline
from stepward.validator.gate.whole_run import FileFinding
from stepward.vm.reading.source import Place

_BY_MACHINE: Final = "four_eyes"
"""The rule that only the machine enforces: no finding shows whether its waiver is needed."""


class Judged(NamedTuple):
    """What one program that was checked under policies shows of their waivers.

    `reported` and `waived` have the policy and the rule, and also the policy and the code, of each finding.
    `is_complete` says that the program has all findings of its policies.
    """

    name: str
    label: str
    policies: tuple[PolicyFile, ...]
    reported: frozenset[tuple[str, str]]
    waived: frozenset[tuple[str, str]]
    is_complete: bool

    @classmethod
    def of(cls, report: Report, label: str, policies: Iterable[PolicyFile], unjudged: frozenset[str]) -> Judged:
        """Return what a report shows; with a code of `unjudged` among its findings it is not complete."""
        findings = {
            name: frozenset(
                (finding.policy.policy, rule)
                for finding in getattr(report, name)
                if finding.policy is not None
                for rule in (finding.policy.rule, finding.code)
            )
            for name in ("findings", "waived")
        }
        is_complete = not report.failures and not any(finding.code in unjudged for finding in report.findings)
        return cls(report.program, label, tuple(policies), findings["findings"], findings["waived"], is_complete)


def idle_waivers(
    policies: Iterable[PolicyFile], programs: Iterable[Judged], today: datetime.date, *, covers_folder: bool
) -> Iterator[FileFinding]:
    """Yield SW702 for each waiver that lifts no finding.

    A rule that the policy does not have is found in every run. For a program, it is found where all programs of that
    name in this run were judged. A misspelt name of a program is found where the run covers a folder.
    """
    by_name: dict[str, list[Judged]] = {}
    for program in programs:
        if program.name:
            by_name.setdefault(program.name, []).append(program)
    for policy in policies:
        under_policy = {
            name: finding for name, finding in by_name.items() if any(policy in one.policies for one in finding)
        }
        for number, waiver in enumerate(policy.outline.waivers):
            finding = (
                _unknown_rule(policy, number, waiver)
                or _lifts_nothing(policy, number, waiver, under_policy.get(waiver.program, ()), today)
                or (_misspelt_program(policy, number, waiver, under_policy) if covers_folder else None)
            )
            if finding is not None:
                yield finding


def _unknown_rule(policy: PolicyFile, number: int, waiver: WaiverOutline) -> FileFinding | None:
    from stepward.validator.rules.registry import RULE_BY_CODE
    from stepward.vm.language.similar import near_words

    outline = policy.outline
    lists = [name for name, entries in (("allow", outline.allowed), ("four_eyes", outline.four_eyes)) if entries]
    lists += ["requires_deadline"] if outline.requires_deadline else []
    rules = {*(rule.name for rule in outline.rules), *outline.tools, *lists}
    if waiver.rule in rules or waiver.rule in RULE_BY_CODE:
        return None
    message = f"the waiver suppresses nothing: the policy has no rule `{waiver.rule}`"
    help = near_words(waiver.rule, {*rules, *RULE_BY_CODE}) or "remove the waiver, or name a guardrail of this policy"
    return _on_policy("SW702", policy, ("waivers", number, "rule"), message, help)


def _lifts_nothing(
    policy: PolicyFile, number: int, waiver: WaiverOutline, programs: Iterable[Judged], today: datetime.date
) -> FileFinding | None:
    judged = list(programs)
    if not judged or waiver.rule == _BY_MACHINE or not all(one.is_complete for one in judged):
        return None
    # What an expired waiver would lift is reported at the program, with the day.
    is_expired = datetime.date.fromisoformat(waiver.expiry) < today
    if any((policy.outline.name, waiver.rule) in (one.reported if is_expired else one.waived) for one in judged):
        return None
    files = " and ".join(f"`{file}`" for file in dict.fromkeys(one.label for one in judged))
    message = (
        f"the waiver suppresses nothing: `{waiver.program}` in {files} has no finding of `{waiver.rule}` of this policy"
    )
    return _on_policy("SW702", policy, ("waivers", number, "program"), message, "remove the waiver")


def _misspelt_program(
    policy: PolicyFile, number: int, waiver: WaiverOutline, programs: Iterable[str]
) -> FileFinding | None:
    from stepward.vm.language.similar import only_near

    known = set(programs)
    similar = None if waiver.program in known else only_near(waiver.program, known)
    if similar is None:
        return None
    message = f"the waiver suppresses nothing: no program of this run has the name `{waiver.program}`"
    return _on_policy("SW702", policy, ("waivers", number, "program"), message, f"did you mean `{similar}`?")


def unknown_tools(policies: Iterable[PolicyFile], known: Iterable[str]) -> Iterator[FileFinding]:
    """Yield SW703 for each tool in `allow` and `four_eyes` that nothing in a run over a folder knows.

    `known` are the tools that the programs of the run declare or call; all tools of its policies are known as well.
    """
    files = list(policies)
    names = {*known, *(tool for policy in files for tool in policy.outline.tools)}
    for policy in files:
        for field, tools in (("allow", policy.outline.allowed), ("four_eyes", policy.outline.four_eyes)):
            for number, tool in enumerate(tools):
                if tool in names:
                    continue
                message = f"`{field}` names the tool `{tool}`, which no program, manifest or policy of this run knows"
                help = f"remove it from `{field}`, or declare the tool under `tools` of the policy"
                from stepward.vm.language.similar import near_words  # late: most runs have nothing to report

                similar = near_words(tool, names.difference(tools))
                yield _on_policy("SW703", policy, (field, number), message, similar or help)


def _on_policy(code: str, policy: PolicyFile, path: tuple[str | int, ...], message: str, help: str) -> FileFinding:
    from stepward.validator.rules.registry import RULE_BY_CODE

    place, document = Place(path), policy.document
    finding = RULE_BY_CODE[code]().finding(message, help, place)
    located = replace(finding, file=document.name, span=document.locate([place])[place])
    return FileFinding(located, document.text, policy.settings)
