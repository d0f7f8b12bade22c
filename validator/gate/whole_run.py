"""Findings on a whole run: entries of `per-file-ignores` and of baselines that silence nothing, rules that protect
nothing, and waivers that more than one program can use."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from stepward.validator.failures import CODE as INTERNAL
from stepward.validator.files import shown_name
from stepward.validator.findings import Finding, PolicyTag
from stepward.validator.gate.policies import PolicyFile
from stepward.validator.gate.settings import FileIgnore, Settings
from stepward.validator.gate.suppressions import complaint
from stepward.vm.errors import ProgramError
from stepward.vm.reading.source import Place, Span


@dataclass(slots=True)
class Use:
    """The effect of one entry of `per-file-ignores` that matches a file of this run."""

    entry: FileIgnore
    settings: Settings
    silenced: bool = False
    fixed: Finding | None = None


class NamedProgram(NamedTuple):
    """A program of the run: its name, the path and the label of its file, and its number in that file."""

    name: str
    path: str
    label: str
    number: int


class FileFinding(NamedTuple):
    """A finding on a file without a program, the text of that file, and the settings that decide whether it is
    reported."""

    finding: Finding
    text: str
    settings: Settings

    @property
    def file(self) -> str:
        """The file that the finding is about."""
        return self.finding.file


def idle_entries(uses: Iterable[Use]) -> Iterator[FileFinding]:
    """Yield SW701 for the entries of `per-file-ignores` that silence nothing."""
    for use in uses:
        source = use.settings.source
        if source is None or use.silenced:
            continue
        label = shown_name(source)
        text = source.read_text(encoding="utf-8", errors="replace")
        names = ", ".join(f"`{line}`" for line in use.entry.files.lines)
        message, help = f"the entry of `per-file-ignores` for {names} suppresses nothing", "remove it"
        if use.fixed is not None:
            message = f"`{use.fixed.code}` in `{use.fixed.file}` {_why_fixed(use.fixed)} and can't be silenced"
            help = "fix the finding, and remove this entry of `per-file-ignores`"
        heading = text.split("\n")[use.entry.line - 1].rstrip()
        span = Span(use.entry.line, 1, use.entry.line, len(heading) + 1)
        yield FileFinding(complaint(message, help, label, span), text, use.settings)


def stale_baseline(path: FilePath, entries: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[FileFinding]:
    """Yield SW704 for a baseline with stale entries, at the first of them; nothing if there are none."""
    if not entries:
        return
    from stepward.validator.rules.registry import RULE_BY_CODE
    from stepward.vm.reading.files import read_text

    first, label = entries[0], shown_name(path)
    others = f", and {len(entries) - 1:,} more" if len(entries) > 1 else ""
    words = "1 entry matches" if len(entries) == 1 else f"{len(entries):,} entries match"
    message = f"{words} no finding any more: {first['code']} in `{first['file']}`{others}"
    help = f"write the baseline again with `--write-baseline {label}`; `--statistics` lists these entries"
    text, span = path.read_text(encoding="utf-8", errors="replace"), None
    with suppress(ProgramError):  # the entry has no place in a baseline that is too large for the reader
        (document,) = read_text(label, text, is_json=True)
        number = next(n for n, one in enumerate(document.data["findings"]) if one.items() >= _key(first).items())
        place = Place(("findings", number, "file"))
        span = document.locate([place])[place]
    finding = RULE_BY_CODE["SW704"]().finding(message, help, Place(("findings",)))
    yield FileFinding(replace(finding, file=label, span=span), text, settings)


def _key(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("file", "code", "step", "message")}


def _why_fixed(finding: Finding) -> str:
    if finding.code == INTERNAL:
        return "is an internal error"
    return f"comes from the policy `{finding.policy}`" if finding.policy else "prevents the check of policies"


def vacuous_rules(
    policies: Iterable[PolicyFile], matched: set[tuple[str, str]], called: set[str]
) -> Iterator[FileFinding]:
    """Yield SW407 for the rules and facts of policies that match nothing in any program of the run.

    `matched` are the other rules, each with its policy; `called` are the tools that programs of the run call. Facts of
    a tool that nothing calls are reported only where its name is a misspelling of one that is called.
    """
    for policy in policies:
        for number, rule in enumerate(policy.outline.rules):
            if not rule.is_ban and (policy.outline.name, rule.name) not in matched:
                yield _vacuous(policy, rule.name, number, called)
        strangers = called - set(policy.outline.tools)
        for tool in policy.outline.tools if strangers else ():
            yield from _misspelt(policy, tool, called, strangers)


def _vacuous(policy: PolicyFile, rule: str, number: int, called: set[str]) -> FileFinding:
    from stepward.vm.language.guardrails import ToolSelector, protected
    from stepward.vm.language.similar import near_words

    message = f"guardrail `{rule}` has no effect: what it protects is in no program of this run"
    help = "correct the name in the guardrail, or `applies_to`; or check the programs that it is about in one run"
    selectors = protected(policy.policy.guardrails[number])
    unknown = [one.tool for one in selectors if isinstance(one, ToolSelector) and one.tool not in called]
    similar = near_words(unknown[0], called) if unknown else ""
    if similar:
        message = f"guardrail `{rule}` has no effect: no program of this run calls the tool `{unknown[0]}`"
        help = similar
    return _on_policy(policy, Place(("guardrails", number, "name")), message, help, rule)


def _misspelt(policy: PolicyFile, tool: str, called: set[str], strangers: set[str]) -> Iterator[FileFinding]:
    from stepward.vm.language.similar import only_near

    similar = only_near(tool, strangers) if tool not in called else None
    if similar is not None:
        message = f"what the policy says of `{tool}` holds for nothing: no program of this run calls that tool"
        yield _on_policy(policy, Place(("tools", tool), key=True), message, f"did you mean `{similar}`?", tool)


def shared_waivers(
    policies: Iterable[PolicyFile], programs: Iterable[NamedProgram], today: datetime.date
) -> Iterator[FileFinding]:
    """Yield SW005 for each waiver that counts for several programs of the run, because they have one name."""
    by_name: dict[str, list[NamedProgram]] = {}
    for program in dict.fromkeys(programs):
        by_name.setdefault(program.name, []).append(program)
    shared = {name: sharing for name, sharing in by_name.items() if len(sharing) > 1}
    for policy in policies:
        for number, (name, _, _) in enumerate(policy.outline.waivers):
            sharing = [one for one in shared.get(name, ()) if policy.policy.applies(name, one.path)]
            waiver = policy.policy.waivers[number] if len(sharing) > 1 else None
            if waiver is not None and not waiver.is_expired(today):
                files = " and ".join(f"`{file}`" for file in dict.fromkeys(one.label for one in sharing))
                message = f"the waiver counts for {len(sharing)} programs: `{name}` is a name of each, in {files}"
                help = f"give each program a name of its own, as in `{name}_2`; the waiver stays with one of them"
                place = Place(("waivers", number, "program"))
                yield _on_policy(policy, place, message, help, waiver.rule, "SW005")


def _on_policy(
    policy: PolicyFile, place: Place, message: str, help: str, about: str, code: str = "SW407"
) -> FileFinding:
    from stepward.validator.rules.registry import RULE_BY_CODE

    finding = RULE_BY_CODE[code]().finding(message, help, place, policy=PolicyTag(policy.outline.name, about))
    document = policy.document
    located = replace(finding, file=document.name, span=document.locate([place])[place])
    return FileFinding(located, document.text, policy.settings)
