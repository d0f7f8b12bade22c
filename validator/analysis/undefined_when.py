"""What the `when` of a rule reads that may be undefined where a call starts: the rule counts as broken then."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.counting import explore_counted
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.monitors import UndefinedMonitor
from stepward.validator.analysis.outcomes import Outcome
from stepward.vm.expressions.facts import certain_reads
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Expression

Names = tuple[str, ...]


def roots_read(facts: ProgramFacts, tree: Expression) -> Iterator[Names]:
    """Yield the variables and outputs that a condition reads for certain; an input is always defined."""
    for names in sorted(certain_reads(tree)):
        resolution = facts.meaning.names.meaning(names)
        if names[0] != "args" and resolution is not None and not any(one.kind == "input" for one in resolution.sources):
            yield names[: len(names) - len(resolution.fields)]


def with_undefined(analyses: Analyses, broken: Outcome, tree: Expression, step: int, when: str) -> Outcome:
    """Return a violation of a `when` at a step; where a path may leave a name undefined that it reads, it says so."""
    for root in roots_read(analyses.facts, tree):
        monitor = UndefinedMonitor(analyses, root, [step])
        if explore_counted(analyses.facts.flow, monitor, analyses.transitions.possible).bad:
            name = "$" + written(root)
            message = broken.message.replace(f"`{when}` holds", f"`{when}` holds, or `{name}` is undefined")
            help = (
                f"{broken.help}; or, if the rule is about a `{name}` that is there, start it with `defined({name}) and`"
            )
            return broken._replace(message=message, help=help)
    return broken
