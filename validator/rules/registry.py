"""Every rule, in the order of the codes. To add one, write its class in the file of its family."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Final

from stepward.validator.rules import (
    arms,
    budgets,
    called,
    carried,
    conditions,
    control_flow,
    deadlines,
    effects,
    errors,
    feasibility,
    functions,
    guardrails,
    housekeeping,
    items,
    names,
    orders,
    placeholders,
    shape,
    text_flow,
    tools,
    types,
    undeclared,
    unread,
)
from stepward.validator.rules.base import Rule

_FAMILIES: Final = (
    arms,
    budgets,
    called,
    carried,
    conditions,
    control_flow,
    deadlines,
    effects,
    errors,
    feasibility,
    functions,
    guardrails,
    housekeeping,
    items,
    names,
    orders,
    placeholders,
    shape,
    text_flow,
    tools,
    types,
    undeclared,
    unread,
)


def _rules_in(module: ModuleType) -> Iterator[type[Rule]]:
    """Yield the rules that a file defines. What has no code is a base."""
    for member in vars(module).values():
        is_own = isinstance(member, type) and member.__module__ == module.__name__
        if is_own and issubclass(member, Rule) and hasattr(member, "code"):
            yield member


RULES: Final[tuple[type[Rule], ...]] = tuple(
    sorted((rule for family in _FAMILIES for rule in _rules_in(family)), key=lambda rule: rule.code)
)

RULE_BY_CODE: Final[dict[str, type[Rule]]] = {rule.code: rule for rule in RULES}
