"""Which programs have a meaning that is clear enough to run them."""

from __future__ import annotations

from stepward.vm.errors import ExpressionError, Problem, ProgramError
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.parser import parse
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.order import endless_branches, misorders, sibling_reads
from stepward.vm.language.scopes import crossings
from stepward.vm.language.steps import parts
from stepward.vm.reading.source import Place


def require_runnable(meaning: Meaning) -> None:
    """Raise ProgramError if no machine could run the program; the checker finds more, with better messages."""
    program, flow = meaning.program, meaning.flow
    problems: list[Problem] = []
    ids = [part.id for step in flow.steps for _, part in parts(step)]
    if len(ids) != len(set(ids)):
        twice = next(name for name in ids if ids.count(name) > 1)
        problems.append(Problem("SW005", f"two steps have the id `{twice}`", "give each step an id of its own"))
    if flow.has_missing_target:
        problems.append(Problem("SW101", "a branch, `next_step`, `error_step` or `catch` names no step of the program"))
    problems += [
        Problem("SW106", f"`{flow.steps[number].id}` is an arm that the step above leads to")
        for number in sorted(flow.ambiguous_arms)
    ]
    problems += [
        Problem("SW109", one.message, "name other sub-steps of the same step, without a circle", one.place)
        for one in misorders(program)
    ]
    problems += [
        Problem(
            "SW105",
            f"nothing bounds a loop beside which others go on: {', '.join(f'`{flow.steps[one].id}`' for one in loop)}",
            "add `max_visits` to one of its steps",
            Place(flow.layout.path(loop[0])),
        )
        for loop in endless_branches(flow)
    ]
    problems += [
        Problem(
            "SW502",
            f"`${written(one.names)}` is read in the branch `{one.branch}`, which runs at the same time",
            "name the other branch in `depends_on` and read its output, or read it behind the parallel step",
            Place(one.path),
        )
        for one in sibling_reads(program, meaning.read_at)
    ]
    for crossing in crossings(program):
        name = crossing.binding.name
        message = f"a body assigns `{name}`, which belongs to the steps around it"
        problems.append(Problem("SW006", message, "assign another name", Place(crossing.binding.path)))
    for number in flow.layout.bodies:
        if meaning.most_items(number) is None:
            name = flow.steps[number].id
            message = f"`max_items` is missing in `{name}`, and the type of its list has no `maxItems`"
            problems.append(Problem("SW002", message, "add `max_items`", Place(flow.layout.path(number))))
    for clause in meaning.clauses:
        if clause.error is not None:
            locate = clause.place(clause.error.start, clause.error.end)
            problems.append(Problem("SW301", clause.error.message, clause.error.help, locate))
    for rule, text in meaning.whens:
        try:
            parse(text)
        except ExpressionError as error:
            problems.append(Problem("SW301", f"in rule `{rule.name}`: {error.message}", error.help))
    if problems:
        raise ProgramError(program.source_name, tuple(problems))
