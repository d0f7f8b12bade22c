"""Words for a step that did not start because the machine refuses its prompt: it holds a sensitive value (SW208)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from stepward.validator.findings import Move
from stepward.vm.language.guardrails import AnyRule, FollowedBy
from stepward.vm.language.steps import LlmCall

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

_REFUSED: Final = "Refused"


def refused_step(analyses: Analyses, rule: AnyRule, path: Sequence[Move]) -> str:
    """Return the id of the step that a rule asks for, if a path refuses its prompt; else an empty text."""
    if not isinstance(rule, FollowedBy):
        return ""
    failing = {move.step: move for move in path if move.how.startswith("fails")}
    for hit in analyses.facts.hits(rule.followed_by.then):
        move = failing.get(analyses.facts.flow.steps[hit.step].id)
        if move is None or not isinstance(hit.part, LlmCall) or analyses.public_values.are_all_in(hit.part):
            continue
        # Where all that it reads is there, nothing else prevents its start.
        if move.error == _REFUSED or hit.step not in analyses.assignment.doubtful_steps:
            return hit.part.id
    return ""


def with_refusal(analyses: Analyses, rule: AnyRule, path: Sequence[Move], message: str, help: str) -> tuple[str, str]:
    """Return the message and the help of a violation, with the step whose prompt is refused on its path."""
    step = refused_step(analyses, rule, path)
    if not step:
        return message, help
    message += f": the machine refuses the prompt of `{step}` where it holds a sensitive value"
    return message, f"remove the sensitive value from the prompt of `{step}`, or {help}"
