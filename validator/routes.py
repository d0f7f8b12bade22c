"""Runs that lead to every effect and every wait of a program, for the attacks: chance rarely passes three conditions.

For each call that writes or may suspend, the checker is asked to prove that it never starts. Its counterexample is the
route. The witnesses of the program's own findings come along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from stepward.validator.findings import Finding
from stepward.vm.language.guardrails import Never, StepSelector
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

if TYPE_CHECKING:
    from stepward.sabotage.target import Route

_RULE: Final = "stepward-route"

Check = Callable[[Program, Sequence[Policy]], Iterable[Finding]]


def routes(program: Program, policies: Sequence[Policy] = (), *, check: Check) -> tuple[Route, ...]:
    """Return a route to each call that writes or may suspend, where the checker finds one, and one for each witness.

    `check` returns the findings of a program under policies; no second check of proofs is needed for routes.
    """
    asked = program.model_copy(update={"guardrails": (*program.guardrails, *_nevers(program, policies))})
    found = check(asked, policies)
    return tuple(_of(finding) for finding in found if finding.evidence and finding.evidence.witness)


def _nevers(program: Program, policies: Sequence[Policy]) -> Iterator[Never]:
    from stepward.vm.language.meaning import Meaning

    meaning = Meaning(program, policies)
    for site in meaning.calls:
        if site.call.type != "tool":
            continue
        tool = meaning.tool(site.call.tool)
        if tool.effect == "write" or tool.suspends:
            yield Never(name=f"{_RULE}-{site.call.id}", never=StepSelector(step=site.call.id))


def _of(finding: Finding) -> Route:
    from stepward.sabotage.target import Route

    assert finding.evidence is not None, "a route is made of evidence"
    witness = finding.evidence.witness
    assert witness is not None, "and of its witness"
    data = witness.to_data()
    return Route.of(data["inputs"], data["script"])
