"""The pages that a caller may read: the language, the rules, the schemas."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from stepward.validator.gateway.refusals import RequestRefused

LESSON: Final = "lesson.md"
"""Teaches a model the language in a few thousand characters."""

LISP: Final = "lisp.md"
"""Teaches a model PTC-Lisp on one card of at most 5,000 characters."""

LANGUAGE: Final = "language.md"
"""The whole reference of the language."""


@cache
def page(name: str) -> str:
    """Return a page that comes with the package."""
    return (files("stepward.validator") / "pages" / name).read_text(encoding="utf-8")


def rule_page(code: str) -> str:
    """Return the page of a rule, by its code or its name; raises RequestRefused for neither."""
    from stepward.validator.rules.registry import RULES

    found = next((rule for rule in RULES if code.upper() == rule.code or code.lower() == rule.name), None)
    if found is None:
        raise RequestRefused("there is no rule of this code or name", "read `stepward://rules`, the list of all rules")
    return f"{found.code} {found.name} ({found.severity})\n\n{found.documentation()}\n"


def list_of_rules() -> str:
    """Return one line for each rule: its code, severity and name."""
    from stepward.validator.rules.registry import RULES

    return "".join(f"{rule.code}  {rule.severity:<7}  {rule.name}\n" for rule in RULES)
