"""The policies of a run: each file is read once, and parsed only when its rules are needed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

from stepward.validator.files import absolute, shown_name, why_not
from stepward.validator.gate.settings import ConfigurationError, Settings
from stepward.vm.reading.limits import MAX_BYTES

if TYPE_CHECKING:
    from stepward.validator.result import RunResult
    from stepward.vm.errors import PolicyError
    from stepward.vm.language.policy import Policy
    from stepward.vm.reading.document import Document


class PolicyRule(NamedTuple):
    """A guardrail of a policy; one that bans a tool (`is_ban`) is not vacuous where no program has the tool."""

    name: str
    is_ban: bool


class WaiverOutline(NamedTuple):
    """A waiver of a policy, without its reason."""

    program: str
    rule: str
    expiry: str


class PolicyOutline(NamedTuple):
    """The parts of a policy that findings on the whole run need: its name, its guardrails in order, the tools of which
    it states facts, its waivers, the tools that its lists name, and whether it asks for deadlines."""

    name: str
    rules: tuple[PolicyRule, ...]
    tools: tuple[str, ...] = ()
    waivers: tuple[WaiverOutline, ...] = ()
    allowed: tuple[str, ...] = ()
    four_eyes: tuple[str, ...] = ()
    requires_deadline: bool = False

    @classmethod
    def from_data(cls, data: list[Any]) -> PolicyOutline:
        """Return the outline that was stored as JSON."""
        name, rules, tools, waivers, allowed, four_eyes, requires_deadline = data
        return cls(
            name,
            tuple(PolicyRule(*rule) for rule in rules),
            tuple(tools),
            tuple(WaiverOutline(*waiver) for waiver in waivers),
            tuple(allowed),
            tuple(four_eyes),
            requires_deadline,
        )


class PolicyFile:
    """A policy that programs of the run were checked under; `settings` are the first that named it."""

    def __init__(self, label: str, content: bytes, settings: Settings) -> None:
        self.label = label
        self.settings = settings
        self._content = content
        self._policy: Policy | None = None
        self._outline: PolicyOutline | None = None

    @property
    def policy(self) -> Policy:
        """The policy; raises PolicyError for a file that is no policy."""
        if self._policy is None:
            from stepward.vm.language.policy import Policy

            self._policy = Policy.from_bytes(self._content, self.label)
        return self._policy

    @property
    def document(self) -> Document:
        """The document that the policy was read from."""
        document = self.policy.document
        assert document is not None, "the policies of a run are read from files"
        return document

    @property
    def outline(self) -> PolicyOutline:
        """The outline of the policy, from the cache or as it is read now."""
        if self._outline is None:
            from stepward.vm.language.guardrails import Never

            policy = self.policy
            self._outline = PolicyOutline(
                policy.policy,
                tuple(
                    PolicyRule(rule.name, isinstance(rule, Never) and rule.when is None) for rule in policy.guardrails
                ),
                tuple(policy.tools or ()),
                tuple(WaiverOutline(waiver.program, waiver.rule, waiver.expiry) for waiver in policy.waivers),
                tuple(entry.tool for entry in policy.allow or ()),
                policy.four_eyes or (),
                policy.requires_deadline,
            )
        return self._outline

    def know(self, outline: PolicyOutline) -> None:
        """Use the cached outline of these bytes, unless there is one already."""
        self._outline = self._outline or outline


class Policies:
    """The policies of a run, each file once."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._used: dict[str, PolicyFile] = {}

    def of(self, settings: Settings) -> list[Policy]:
        """Return the policies that the settings name; raises as `PolicyFile.policy` and `use` do.

        Raises ConfigurationError for two files with one name: findings, and waivers of either, go by the name.
        """
        files = self.use(settings)
        first: dict[str, PolicyFile] = {}
        for file in files:
            earlier = first.setdefault(file.policy.policy, file)
            if earlier is not file:
                message = f"`{earlier.label}` and `{file.label}` are two policies with the name `{file.policy.policy}`"
                raise ConfigurationError(message, f"give the one in `{file.label}` another name")
        return [file.policy for file in files]

    def use(self, settings: Settings) -> list[PolicyFile]:
        """Return the files that the settings name, and note that a program is checked under them.

        Raises ConfigurationError for a file that can't be read.
        """
        files = {}
        for path in settings.policies:
            real = os.path.realpath(path)
            if real not in self._used:
                self._used[real] = PolicyFile(shown_name(absolute(path)), self._content(path), settings)
            files[real] = self._used[real]
        return list(files.values())

    def used(self) -> Iterable[PolicyFile]:
        """Return every policy that a program of the run was checked under."""
        return self._used.values()

    def contents(self, settings: Settings) -> list[tuple[str, bytes]]:
        """Return names and bytes of the files that the settings name; raises ConfigurationError as `use` does."""
        files = {os.path.realpath(path): path for path in settings.policies}
        return [(shown_name(absolute(path)), self._content(path)) for path in files.values()]

    def _content(self, path: FilePath) -> bytes:
        real = os.path.realpath(path)
        if real not in self._contents:
            try:
                with absolute(path).open("rb") as file:
                    self._contents[real] = file.read(MAX_BYTES + 1)
            except OSError as error:
                message = f"the policy `{shown_name(absolute(path))}` can't be read: {why_not(error)}"
                raise ConfigurationError(message, "correct the path") from None
        return self._contents[real]


def policy_result(error: PolicyError) -> RunResult:
    """Return the result of a run that ends because a policy can't be used: its problems as findings."""
    from stepward.validator.result import UNUSABLE, AdvisedError, RunResult
    from stepward.validator.validator import unreadable
    from stepward.vm.errors import ProgramError
    from stepward.vm.reading.files import read_file

    document: Document | None = None
    try:
        documents = read_file(error.name)
        document = documents[0] if len(documents) == 1 else None
    except (OSError, ProgramError):
        pass
    report = unreadable(error, document)
    return RunResult(
        findings=report.findings,
        failing=frozenset(report.findings),
        sources={error.name: document.text if document else ""},
        error=AdvisedError("a policy can't be used, so nothing was checked"),
        status=UNUSABLE,
    )
