"""The words for an effect that a run can perform twice: what is repeated, and what can be done about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.outcomes import Origin
from stepward.validator.findings import Move
from stepward.vm.language.steps import ForEachStep

_FAILED: Final = ("fail", "times out", "skipped", "fallback")
"""How the outcomes of steps begin that have failed, in the words of the machine and in those of transitions."""


def repeat_words(
    facts: ProgramFacts,
    origin: Origin,
    owner: int | None,
    number: int,
    path: Sequence[Move],
    rule_steps: Collection[str],
) -> tuple[str, str]:
    """Return the message and the help for a step that repeats on a path what it or another step has performed.

    `rule_steps` are the ids of the steps that the rule is about, `owner` the step in whose body it counts.
    """
    step = facts.flow.steps[number].id
    before = next((move for move in path[:-1] if move.step in rule_steps), None)
    earlier = before.step if before is not None and before.step != step else ""
    # The machine counts a call from its start: nobody knows what one that failed has done.
    has_failed = before is not None and before.how.startswith(_FAILED)
    if earlier:
        done = "may have done, although it failed" if has_failed else "has done"
        message = f"`{step}` can repeat in one run what `{earlier}` {done}"
        return message, f"keep only one of `{earlier}` and `{step}` on this path"
    message = f"`{step}` can be performed a second time in one run"
    message += ", and the first may have been done, although it failed" if has_failed else ""
    return message, _help(facts, origin, owner, number)


def _help(facts: ProgramFacts, origin: Origin, owner: int | None, number: int) -> str:
    """Return the help that lets a run reach a step only once; it depends on what brings the run there again."""
    flow = facts.flow
    around = flow.layout.owners_of(number)
    inner = around[around.index(owner) + 1 :] if owner is not None and owner in around else around
    bodies = (flow.steps[one] for one in inner)
    items = [step for step in bodies if isinstance(step, ForEachStep) and not step.is_once]
    if any(number in loop for loop in facts.graph.written_loops):
        return "take it out of the loop, or let a run reach it only once with `max_visits: 1`"
    if not items:
        return "let a run reach it only once"
    names = [f"`{step.id}`" for step in items]
    help = f"let one item alone reach it, with `max_items: 1` for {' and '.join(names)}; if each may perform it once, "
    return help + (
        "ask for a waiver in the policy" if origin.policy else f"write the rule under `guardrails` of {names[-1]}"
    )
