"""Policies: rules and facts that the author of a program can't drop, for the checker and the machine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from stepward.vm.arguments import BYTES, PATH, TEXT, require
from stepward.vm.errors import ExpressionError, PolicyError, Problem, ProgramError
from stepward.vm.expressions.parser import parse
from stepward.vm.language.guardrails import Guardrail, Never, Requires, guards, has_past, plain_rule
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.node import Node
from stepward.vm.patterns.matching import RE2
from stepward.vm.reading.document import Document
from stepward.vm.reading.source import Place


def _date(text: str) -> str:
    try:
        # Only this format: `fromisoformat` also reads 20270630 and 2027-W26-3.
        datetime.datetime.strptime(text, "%Y-%m-%d")
        if len(text) != len("2027-06-30"):
            raise ValueError
    except ValueError:
        raise PydanticCustomError("date", "a date is written `2027-06-30`") from None
    return text


class Allowed(Node):
    """A tool that may be called, optionally with a condition on its arguments (`$args.x`)."""

    tool: Annotated[str, Field(min_length=1)]
    when: str | None = None


class Waiver(Node):
    """A rule of the policy that one program may break until a date, and the reason."""

    program: str
    rule: str
    reason: Annotated[str, Field(min_length=1)]
    expiry: Annotated[str, AfterValidator(_date)]

    def is_expired(self, today: datetime.date) -> bool:
        """Return whether the waiver has run out; its last day still counts."""
        return datetime.date.fromisoformat(self.expiry) < today


_DERIVED: Final = ("continues", "performed", "applies_to", "waivers")
"""The fields of a policy that say something of a chain of runs, or to whom it applies."""


class Performed(Node):
    """A write that a run before this one has started: no call may repeat it.

    `args` is the digest of its arguments, but for those that `without` names: they are sensitive.
    """

    tool: str
    args: str
    without: Annotated[tuple[str, ...], Field(strict=False)] = ()


def _allowed(value: Any) -> Any:
    return {"tool": value} if isinstance(value, str) else value


class Policy(Node):
    """Facts about tools, an allow-list, guardrails and waivers, for the programs that it applies to.

    `requires_deadline`: each call that may suspend a run has to say `deadline_seconds`.
    """

    # `continues` is the id of the first run of a chain, `performed` are writes of a run in it. Only the machine writes
    # them: into the policies that it derives for a run that continues another.

    policy: Annotated[str, Field(min_length=1, json_schema_extra={"pattern": "^[^:]+$"})]
    description: str = ""
    applies_to: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    tools: dict[str, ToolSpec] | None = None
    allow: Annotated[tuple[Annotated[Allowed, BeforeValidator(_allowed)], ...], Field(strict=False)] | None = None
    four_eyes: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] | None = None
    requires_deadline: bool = False
    guardrails: Annotated[tuple[Guardrail, ...], Field(strict=False)] = ()
    waivers: Annotated[tuple[Waiver, ...], Field(strict=False)] = ()
    continues: SkipJsonSchema[str | None] = None
    performed: SkipJsonSchema[Annotated[tuple[Performed, ...], Field(strict=False)]] = ()

    kind: ClassVar[str] = "policy"
    entry_models: ClassVar[dict[str, type[Node]]] = {"allow": Allowed, "waivers": Waiver}
    _document: Document | None = PrivateAttr(None)

    @property
    def document(self) -> Document | None:
        """The document that the policy was read from; None when it was built in code."""
        return self._document

    @classmethod
    def load(cls, path: str | FilePath) -> Policy:
        """Return the policy in a YAML or JSON file; raises PolicyError if it holds none, OSError without a file."""
        from stepward.vm.reading.files import read_file

        require(PATH, path=path)
        return cls._alone(str(path), lambda: read_file(path))

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Policy:
        """Return the policy that the content of a file describes; raises PolicyError if it is not a policy.

        `name` is that of the file: its ending decides the format, and messages name it.
        """
        from stepward.vm.reading.files import decode, read_text

        require(BYTES, content=content)
        require(TEXT, name=name)
        return cls._alone(name, lambda: read_text(name, decode(content, name), is_json=name.endswith(".json")))

    @classmethod
    def _alone(cls, name: str, read: Callable[[], list[Document]]) -> Policy:
        try:
            documents = read()
        except ProgramError as error:
            raise PolicyError(error.name, error.problems) from None
        if not documents:
            problem = Problem("SW001", "the file is empty", "write a policy, which begins with `policy:` and its name")
            raise PolicyError(name, (problem,))
        if len(documents) > 1:
            problem = Problem("SW001", f"a policy file holds one policy, not {len(documents)}", "split the file")
            raise PolicyError(name, (problem,))
        return cls._build(documents[0].data, documents[0])

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Policy:
        """Return the policy that plain data describes; raises PolicyError if it is not a policy."""
        return cls._build(data, None)

    @classmethod
    def from_record(cls, data: dict[str, Any], patterns: str | None) -> Policy:
        """Return a policy that is stored in a journal; `patterns` is their dialect, as the journal names it."""
        return cls._build(data, None, patterns, is_recorded=True)

    @classmethod
    def _build(
        cls, data: Any, document: Document | None, patterns: str | None = RE2, *, is_recorded: bool = False
    ) -> Policy:
        from stepward.vm.language.loading import build

        name = document.name if document else "<dict>"
        policy = build(cls, data, name, document.problems if document else (), PolicyError, patterns)
        problems = [*policy._unreadable_conditions(), *policy._misplaced_past(is_file=document is not None)]
        if not is_recorded:
            problems += [*policy._ambiguous_name(), *policy._doubled_entries()]
        if problems:
            raise PolicyError(name, tuple(problems))
        policy._document = document
        return policy

    def _unreadable_conditions(self) -> Iterator[Problem]:
        """Yield the problems of the conditions: a policy with one is refused as a whole."""
        clauses = [(("allow", number, "when"), entry.when) for number, entry in enumerate(self.allow or ())]
        clauses += [
            (("guardrails", number, "when"), rule.when)
            for number, rule in enumerate(self.guardrails)
            if isinstance(rule, Never)
        ]
        for path, text in clauses:
            try:
                parse(text or "true")
            except ExpressionError as error:
                yield Problem("SW301", error.message, error.help, Place(path, within=(error.start, error.end)))

    def _misplaced_past(self, *, is_file: bool) -> Iterator[Problem]:
        """Yield the problems of what only the machine writes, for a run that continues another."""
        for name in ("continues", "performed") if is_file else ():
            if name in self.model_fields_set:
                yield Problem("SW002", f"the machine writes `{name}`, no policy file", "remove it", Place((name,)))
        for number, rule in enumerate(self.guardrails):
            place = Place(("guardrails", number, "already"))
            if has_past(rule) and (is_file or self.continues is None):
                message = "the machine writes `already`, for a run that continues another"
                yield Problem("SW002", message, "remove it", place)
            elif isinstance(rule, Requires) and rule.already and len(rule.already) != len(set(guards(rule.requires))):
                message = f"`already` of `{rule.name}` needs an entry for each requirement"
                yield Problem("SW002", message, "derive the policy again", place)

    def _ambiguous_name(self) -> Iterator[Problem]:
        """Yield the problem of a name with a colon: records name a waived rule `policy:rule`.

        Recorded policies may have one.
        """
        if ":" in self.policy:
            help = f"write it without the colon, as `{self.policy.replace(':', '-')}`"
            yield Problem("SW002", f"the name `{self.policy}` of a policy has a colon", help, Place(("policy",)))

    def _doubled_entries(self) -> Iterator[Problem]:
        """Yield the entries of the allow-list for a tool that an earlier entry names.

        Recorded policies may have some: to the machine, a call is allowed if one of them allows it.
        """
        named: dict[str, Allowed] = {}
        for number, entry in enumerate(self.allow or ()):
            first = named.setdefault(entry.tool, entry)
            if first is not entry:
                conditions = [one.when for one in (first, entry) if one.when is not None]
                both = " or ".join(f"({when})" for when in conditions)
                hint = (
                    "remove one of the two"
                    if len(conditions) < 2
                    else f"remove it, and write `when: {both}` in the first"
                )
                yield Problem("SW002", f"the list names tool `{entry.tool}` twice", hint, Place(("allow", number)))

    def applies(self, program_name: str, path: str) -> bool:
        """Return whether the policy applies to a program, by its name or by the path of its file (glob patterns)."""
        if self.applies_to is None:
            return True
        path = path.replace("\\", "/")
        return any(
            fnmatchcase(program_name, pattern) or fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
            for pattern in self.applies_to
        )

    def waivers_of(self, program_name: str, *rules: str) -> tuple[Waiver, ...]:
        """Return the waivers of a rule for a program, also expired ones; `rules` are the names of the rule."""
        return tuple(waiver for waiver in self.waivers if waiver.program == program_name and waiver.rule in rules)


def plain(policy: Policy) -> Policy:
    """Return a policy without what runs before left of its rules; it applies to every program, without waivers."""
    data = {name: getattr(policy, name) for name in policy.model_fields_set if name not in _DERIVED}
    if "guardrails" in data:
        data["guardrails"] = tuple(map(plain_rule, policy.guardrails))
    return Policy.model_construct(set(data), **data)


def require_distinct(policies: Iterable[Policy]) -> None:
    """Raise PolicyError if two different policies for one program have the same name.

    Waivers, findings and proofs name a rule by the names of its policy and its own.
    """
    named: dict[str, Policy] = {}
    for policy in policies:
        first = named.setdefault(policy.policy, policy)
        if first is not policy and first.to_data() != policy.to_data():
            home = policy.document.name if policy.document else "<dict>"
            message = f"two policies for one program have the name `{policy.policy}`"
            problem = Problem("SW002", message, "give each policy a name of its own", Place(("policy",)))
            raise PolicyError(home, (problem,))
