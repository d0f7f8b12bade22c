"""The page of all rules, specs/rules.md, made from their documentation.

To write it again: `python -m stepward.validator.rules.pages > specs/rules.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.rules.base import Rule
from stepward.validator.rules.registry import RULES

_INTRODUCTION = """\
# Rules

This page is generated from the docstrings of the rules (`python -m stepward.validator.rules.pages > specs/rules.md`):
edit the docstrings, and not this page. `stepward explain CODE` shows the same text. An error fails the gate. A warning
fails it only with `--fail-on warning`.
"""


def rules_page() -> str:
    """Return the page in Markdown: all rules in a table, then each with its documentation."""
    rows = [f"| {_link(rule)} | `{rule.name}` | {rule.severity} | {_first_line(rule)} |" for rule in RULES]
    table = "\n".join(["| code | name | severity | what is wrong |", "|---|---|---|---|", *rows])
    return "\n".join([_INTRODUCTION, "## All of them", "", table, "", "## One by one", "", *map(_entry, RULES)])


def _link(rule: type[Rule]) -> str:
    return f"[{rule.code}](#{rule.code.lower()}-{rule.name})"


def _first_line(rule: type[Rule]) -> str:
    return rule.documentation().split("\n", maxsplit=1)[0]


def _entry(rule: type[Rule]) -> str:
    return "\n".join([f"### {rule.code} {rule.name}", "", *_with_lower_headings(rule.documentation(), 2), ""])


def _with_lower_headings(text: str, levels: int) -> Iterator[str]:
    """Yield the lines of a text with its headings lowered by `levels`; fenced lines do not change."""
    is_fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_fenced = not is_fenced
        yield "#" * levels + line if line.startswith("#") and not is_fenced else line


if __name__ == "__main__":
    print(rules_page(), end="")
