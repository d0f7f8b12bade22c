"""Runs that lead to every effect of a program, for the attacks: a random run rarely gets past three conditions.

The checker is asked of each step that writes whether it can never start, and its witness that it can is the way there.
The witnesses of what is wrong with the program come along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from stepward.validator.findings import Finding
from stepward.vm.language.guardrails import Never, StepSelector
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

if TYPE_CHECKING:
    from stepward.sabotage.target import Route

_RULE: Final = "stepward-route"


def routes(program: Program, policies: Sequence[Policy] = ()) -> tuple[Route, ...]:
    """Return a route to each step that writes, where the checker knows one, and one for each witness that it has."""
    from stepward.validator.validator import ProgramValidator

    asked = program.model_copy(update={"guardrails": (*program.guardrails, *_nevers(program, policies))})
    report = ProgramValidator(asked, policies).validate()
    return tuple(_of(finding) for finding in report.findings if finding.evidence and finding.evidence.witness)


def _nevers(program: Program, policies: Sequence[Policy]) -> Iterator[Never]:
    from stepward.vm.language.meaning import Meaning

    meaning = Meaning(program, policies)
    for site in meaning.calls:
        if site.call.type == "tool" and meaning.tool(site.call.tool).effect == "write":
            yield Never(name=f"{_RULE}-{site.call.id}", never=StepSelector(step=site.call.id))


def _of(finding: Finding) -> Route:
    from stepward.sabotage.target import Route

    assert finding.evidence is not None, "a route is made of evidence"
    witness = finding.evidence.witness
    assert witness is not None, "and of its witness"
    data = witness.to_data()
    return Route.of(data["inputs"], data["script"])
