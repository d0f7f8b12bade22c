"""What a plan is made from: the task, the tools that it may call, the rules that apply, the inputs that it may read.

All of it comes from the operator. Nothing that a model writes changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.gateway.judging import in_force
from stepward.validator.planner.refusal import PlanRefused
from stepward.vm.errors import DocumentError
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.types import TypeSpec
from stepward.vm.unseen import unseen

if TYPE_CHECKING:
    from stepward.validator.planner.before import Before

MAX_TASK: Final = 20_000
"""Characters of the longest task."""

MAX_NAME: Final = 100
"""Characters of the longest name of a program."""

MAX_ABOUT: Final = 400
"""Characters of what a model is told of one tool."""

MAX_TOOLS: Final = 500
"""Tools of one plan."""

OWN: Final = "tools-of-the-plan"
"""The name of the policy that allows a plan its tools."""


@dataclass(frozen=True)
class Brief:
    """What a plan is made from.

    `name` is that of the program. `manifest` has the facts on the tools that it may call, `about` what a model is told
    of them in words. `policies` apply to every program, and the last of them allows these tools alone. `inputs` are the
    types of the inputs that the program may read; None leaves them to the model. `before` are the runs that the program
    is to continue, if there are any.
    """

    task: str
    name: str
    manifest: Mapping[str, ToolSpec]
    policies: tuple[Policy, ...]
    about: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, TypeSpec] | None = None
    before: Before | None = None


def brief_of(
    task: str,
    *,
    name: str,
    manifest: Mapping[str, Any] | None,
    policies: Sequence[Policy],
    about: Mapping[str, str],
    inputs: Mapping[str, Any] | None,
    before: Callable[[Sequence[Policy]], Before] | None = None,
) -> Brief:
    """Return the brief for a task; raises PlanRefused if the task, a type or a fact of a tool is none.

    `manifest` has the tools that can be called, as plain data. Where it is None, they are those of the policies.
    Policies apply whatever their `applies_to` says, and without their waivers: a model must not choose its rules.
    `before` returns the runs that the program is to continue, under policies; then its inputs are what it may read.
    """
    if not task.strip() or len(task) > MAX_TASK:
        words = "is empty" if not task.strip() else f"has {len(task):,} characters, more than {MAX_TASK:,}"
        raise PlanRefused(f"the task {words}", "say in a few sentences what the program has to do")
    try:
        task.encode()
    except UnicodeEncodeError:
        raise PlanRefused("the task has half of a surrogate pair", "write it as valid Unicode") from None
    known = in_force(policies)
    if any(policy.policy == OWN for policy in known):
        raise PlanRefused(f"a policy has the name `{OWN}`", "give it another name: the planner uses this one")
    earlier, own_name = None, OWN
    if before is not None:
        earlier = before(known)
        known = earlier.policies
        own_name = _free_name(OWN, {policy.policy for policy in known})
    facts = _facts(manifest, known)
    allowed = [tool for tool in facts if all(_allows(policy, tool) for policy in known)]
    if len(allowed) > MAX_TOOLS:
        raise PlanRefused(
            f"there are {len(allowed)} tools, more than {MAX_TOOLS}", "allow those that the task needs, by a policy"
        )
    tools = {tool: facts[tool] for tool in allowed}
    own = Policy.from_dict(
        {"policy": own_name, "tools": {tool: spec.to_data() for tool, spec in tools.items()}, "allow": allowed}
    )
    descriptions = {tool: " ".join(about[tool].split())[:MAX_ABOUT] for tool in allowed if about.get(tool, "").strip()}
    types = None if inputs is None else _types(inputs)
    types = types if earlier is None else dict(earlier.types)
    return Brief(task, _name(name), tools, (*known, own), descriptions, types, earlier)


def _free_name(name: str, names: Collection[str]) -> str:
    """Return a name for a policy that no other has: plans before this one have left theirs."""
    number, free = 1, name
    while free in names:
        number += 1
        free = f"{name} ({number})"
    return free


def _facts(manifest: Mapping[str, Any] | None, policies: Sequence[Policy]) -> dict[str, ToolSpec]:
    """Return the facts of each tool: of the manifest and of policies, the stricter ones."""
    if manifest is None:
        return Meaning(_nothing(), policies).manifest
    data = {tool: spec.to_data() if isinstance(spec, ToolSpec) else dict(spec) for tool, spec in manifest.items()}
    try:
        stated = Policy.from_dict({"policy": OWN, "tools": data})
    except DocumentError as error:
        raise PlanRefused(f"the manifest can't be used: {error.problems[0].message}", error.problems[0].help) from None
    merged = Meaning(_nothing(), (stated, *policies)).manifest
    return {tool: merged[tool] for tool in data}


def _allows(policy: Policy, tool: str) -> bool:
    return policy.allow is None or any(entry.tool == tool for entry in policy.allow)


def _name(name: str) -> str:
    if not (0 < len(name) <= MAX_NAME and name.isprintable()) or unseen(name) is not None:
        raise PlanRefused("the name can't be that of a program", f"write 1 to {MAX_NAME} printable characters")
    return name


def _types(inputs: Mapping[str, Any]) -> dict[str, TypeSpec]:
    data = {name: spec.to_data() if isinstance(spec, TypeSpec) else spec for name, spec in inputs.items()}
    try:
        return dict(_nothing(data).inputs or {})
    except DocumentError as error:
        problem = error.problems[0]
        raise PlanRefused(f"an input can't be used: {problem.message}", problem.help) from None


def _nothing(inputs: Mapping[str, Any] | None = None) -> Program:
    """Return a program that does nothing; raises ProgramError for inputs that the language does not have."""
    return Program.from_dict({"name": "nothing", "inputs": dict(inputs or {}), "steps": [{"id": "end", "type": "end"}]})
