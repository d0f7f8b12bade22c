"""The models of guardrails: rules over all feasible runs, in a program or in a policy."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, assert_never

from pydantic import Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from stepward.vm.language.node import Node
from stepward.vm.reading.source import Path


class ToolSelector(Node):
    """Every step and sub-step that calls a tool."""

    tool: str

    def text(self) -> str:
        """Return what is selected, in words."""
        return f"tool `{self.tool}`"


class StepSelector(Node):
    """One step or sub-step."""

    step: str

    def text(self) -> str:
        """Return what is selected, in words."""
        return f"step `{self.step}`"


class EffectSelector(Node):
    """Every step and sub-step whose tool has an effect of this kind."""

    effect: Literal["write"]

    def text(self) -> str:
        """Return what is selected, in words."""
        return "every tool that writes"


class BranchSelector(Node):
    """One branch of a condition step: `then`, `otherwise`, a case's name, or its number counted from 1."""

    step: str
    branch: str | int

    def text(self) -> str:
        """Return what is selected, in words."""
        return f"branch `{self.branch}` of step `{self.step}`"


def _keys(value: Any) -> set[str]:
    """Return the field names of a mapping or model, by which its kind is distinguished; none for other values."""
    if isinstance(value, dict):
        return set(value)
    return set(type(value).model_fields) if isinstance(value, Node) else set()


def _selector_tag(value: Any) -> str | None:
    keys = _keys(value)
    for key, tag in (("branch", "branch"), ("step", "step"), ("tool", "tool"), ("effect", "effect")):
        if key in keys:
            return tag
    return None


Selector = Annotated[
    Annotated[ToolSelector, Tag("tool")]
    | Annotated[StepSelector, Tag("step")]
    | Annotated[EffectSelector, Tag("effect")],
    Discriminator(_selector_tag),
]
"""P: what a rule protects, forbids or counts."""

Guard = Annotated[
    Annotated[ToolSelector, Tag("tool")]
    | Annotated[StepSelector, Tag("step")]
    | Annotated[BranchSelector, Tag("branch")],
    Discriminator(_selector_tag),
]
"""G: what must have succeeded before."""


class AllOf(Node):
    """Every one of several requirements."""

    all_of: Annotated[tuple[Requirement, ...], Field(strict=False, min_length=1)]


class AnyOf(Node):
    """At least one of several requirements."""

    any_of: Annotated[tuple[Requirement, ...], Field(strict=False, min_length=1)]


def _requirement_tag(value: Any) -> str | None:
    keys = _keys(value)
    return "all_of" if "all_of" in keys else "any_of" if "any_of" in keys else _selector_tag(value)


Requirement = Annotated[
    Annotated[AllOf, Tag("all_of")]
    | Annotated[AnyOf, Tag("any_of")]
    | Annotated[ToolSelector, Tag("tool")]
    | Annotated[StepSelector, Tag("step")]
    | Annotated[BranchSelector, Tag("branch")],
    Discriminator(_requirement_tag),
]


class Rule(Node):
    """The base of the guardrails; findings and waivers refer to `name`."""

    name: str = Field(min_length=1)


LevelWord = Literal["never", "stale", "fresh"]


class Came(Node):
    """What runs before this one left of a single G: whether it counts, and the variables that make it stale."""

    level: LevelWord
    reads: Annotated[tuple[str, ...], Field(strict=False)] = ()


# Every kind of rule but `never` may have `already`: what the runs before a continuation left of it. The machine writes
# it, into policies with `continues`; nobody else can. Of `requires` it has an entry for each different G, in the order
# in which they are written; of `exclusive` it says of P and of Q whether they were performed; of `at_most_once` that P
# was, and of `followed_by` that Q is owed.


class Requires(Rule):
    """Before each start of P, G succeeded; a G with a branch goes stale unless `fresh` is false."""

    protects: Selector
    requires: Requirement
    fresh: bool = True
    already: SkipJsonSchema[Annotated[tuple[Came, ...], Field(strict=False)]] = ()


class Never(Rule):
    """P never starts in a state in which `when` holds; without `when`, it never starts at all."""

    never: Selector
    when: str | None = None


class AtMostOnce(Rule):
    """No run performs P twice."""

    at_most_once: Selector
    already: SkipJsonSchema[bool] = False


class Sequence(Node):
    """P, and Q, which has to start after P succeeded."""

    first: Selector
    then: Selector


class FollowedBy(Rule):
    """Every run that ends and in which P succeeded starts Q after that.

    Without `ends`, the rule applies to endings that the program causes; with `any`, also to runs that are cancelled or
    out of budget; with `success`, only to status SUCCESS.
    """

    followed_by: Sequence
    ends: Literal["any", "success"] | None = None
    already: SkipJsonSchema[bool] = False


class Exclusive(Rule):
    """No run performs both P and Q."""

    exclusive: Annotated[tuple[Selector, Selector], Field(strict=False)]
    already: SkipJsonSchema[Annotated[tuple[bool, bool], Field(strict=False)]] = (False, False)


RULE_MODELS: dict[str, type[Rule]] = {
    "protects": Requires,
    "never": Never,
    "at_most_once": AtMostOnce,
    "followed_by": FollowedBy,
    "exclusive": Exclusive,
}
"""The rules, by a field that only one of them has."""


def _rule_tag(value: Any) -> str | None:
    keys = _keys(value)
    if "requires" in keys:
        return "protects"
    return next((key for key in RULE_MODELS if key in keys), None)


Guardrail = Annotated[
    Annotated[Requires, Tag("protects")]
    | Annotated[Never, Tag("never")]
    | Annotated[AtMostOnce, Tag("at_most_once")]
    | Annotated[FollowedBy, Tag("followed_by")]
    | Annotated[Exclusive, Tag("exclusive")],
    Discriminator(_rule_tag),
]

AnyRule = Requires | Never | AtMostOnce | FollowedBy | Exclusive
AnySelector = ToolSelector | StepSelector | EffectSelector
AnyGuard = ToolSelector | StepSelector | BranchSelector
AnyRequirement = AllOf | AnyOf | ToolSelector | StepSelector | BranchSelector

PARTS: Final[tuple[type[Node], ...]] = (
    *RULE_MODELS.values(),
    *(AllOf, AnyOf, ToolSelector, StepSelector, EffectSelector, BranchSelector, Sequence, Came),
)
"""The models of rules, and of the mappings in them."""


def model_of(path: Path, owner: Any) -> type[Node]:
    """Return the model of a mapping within the `guardrails` of a document, from its path and what it has."""
    keys = _keys(owner)
    if len(path) == 2:
        return RULE_MODELS[next((key for key in RULE_MODELS if key in keys), "protects")]
    if path[-1] == "followed_by":
        return Sequence
    models: dict[str, type[Node]]
    models = {"all_of": AllOf, "any_of": AnyOf, "tool": ToolSelector, "effect": EffectSelector}
    return models.get(_requirement_tag(owner) or "", BranchSelector)


def protected(rule: AnyRule) -> tuple[AnySelector, ...]:
    """Return the selectors of a rule that name what it protects, forbids or counts."""
    match rule:
        case Requires():
            return (rule.protects,)
        case Never():
            return (rule.never,)
        case AtMostOnce():
            return (rule.at_most_once,)
        case FollowedBy():
            return (rule.followed_by.first, rule.followed_by.then)
        case Exclusive():
            return rule.exclusive
        case _:
            assert_never(rule)


def has_past(rule: AnyRule) -> bool:
    """Return whether a rule says what the runs before this one left of it."""
    return "already" in rule.model_fields_set


def plain_rule(rule: AnyRule) -> AnyRule:
    """Return a rule without what runs before left of it."""
    return rule if isinstance(rule, Never) else with_past(rule, None)


def with_past(rule: Requires | AtMostOnce | FollowedBy | Exclusive, already: Any) -> AnyRule:
    """Return a rule with this `already`, and without the field where no run has left anything."""
    if not already or (isinstance(already, tuple) and not any(_says(one) for one in already)):
        data = {name: getattr(rule, name) for name in rule.model_fields_set if name != "already"}
        return type(rule).model_construct(rule.model_fields_set - {"already"}, **data)
    return rule.model_copy(update={"already": already})


def _says(one: Any) -> bool:
    return one.level != "never" if isinstance(one, Came) else bool(one)


def guards(requirement: AnyRequirement) -> tuple[AnyGuard, ...]:
    """Return the single guards of a requirement, in the order in which they are written."""
    if isinstance(requirement, AllOf | AnyOf):
        parts = requirement.all_of if isinstance(requirement, AllOf) else requirement.any_of
        return tuple(guard for part in parts for guard in guards(part))
    return (requirement,)


def requirement_text(requirement: AnyRequirement) -> str:
    """Return a requirement in words."""
    if isinstance(requirement, AllOf):
        return " and ".join(requirement_text(part) for part in requirement.all_of)
    if isinstance(requirement, AnyOf):
        return " or ".join(requirement_text(part) for part in requirement.any_of)
    return requirement.text()
