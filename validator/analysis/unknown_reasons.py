"""Why a rule is unknown without a search: the reasons, each with what a user can do about it.

More time helps with none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from stepward.validator.analysis.arguments import UNDEFINED
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.outcomes import RUN
from stepward.validator.analysis.sibling_races import exposed, is_decided, is_ordered, only_pays, rivals
from stepward.validator.analysis.siblings import hits_in
from stepward.validator.reasons import UnknownReason
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Constant, Defined, Expression, Reference, all_references, with_children
from stepward.vm.language.guardrails import AnyRule, FollowedBy, Never, StepSelector
from stepward.vm.language.layout import Fork
from stepward.vm.language.steps import AnyStep, BranchStep, InvokeStep, Stage


def unknown_reason(facts: ProgramFacts, rule: AnyRule, owner: int | None) -> UnknownReason | None:
    """Return why a rule is not decided, or None if it can be; `owner` is as in `hits_in`."""
    if isinstance(rule, FollowedBy):
        if rule.ends != "any":
            return None
        return _ends_beside(facts, rule) if owner is None else _within(facts, rule, owner)
    if not isinstance(rule, Never) or rule.when is None:
        return None
    return reads_sibling(facts, rule.when, [hit.step for hit in hits_in(facts, rule.never, owner)])


def _within(facts: ProgramFacts, rule: FollowedBy, owner: int) -> UnknownReason:
    """Return why a `followed_by` of a body with `ends: any` is left open."""
    step, then = facts.flow.steps[owner], rule.followed_by.then.text()
    noun = noun_of(step)
    help = "do without `ends: any`"
    if not facts.flow.layout.has_siblings:
        where = "`guardrails` of the program"
        if isinstance(step, InvokeStep):
            has_ids = any(isinstance(one, StepSelector) for one in (rule.followed_by.first, rule.followed_by.then))
            where += f" that has `{step.id}`" + (f", with steps as `{step.id}/ID`" if has_ids else "")
        help += f", or move it to the {where}, where it is proved; {then} may follow behind the {noun} then"
    return UnknownReason(f"with `ends: any` the run may end within one {noun}, and that is not proved yet", help)


def noun_of(step: AnyStep) -> str:
    """Return the word for one performance of the body of a step."""
    return "branch" if isinstance(step, BranchStep) else "call" if isinstance(step, InvokeStep) else "item"


def ending_in(facts: ProgramFacts, owner: int | None) -> tuple[str, str]:
    """Return what ends where a rule of a body is broken, in words: an item, a branch or a call; without one the run."""
    if owner is None:
        return RUN
    step = facts.flow.steps[owner]
    noun = noun_of(step)
    return f"an item of `{step.id}`" if noun == "item" else f"the {noun} `{step.id}`", noun


# -- the end of a run while siblings run ---------------------------------------------------------------------------


def _ends_beside(facts: ProgramFacts, rule: FollowedBy) -> UnknownReason | None:
    """Return why a rule with `ends: any` is left open: a run may be cancelled in a sibling of the place of P."""
    then = rule.followed_by.then
    counted = {hit[:2] for hit in facts.hits(then)}
    for hit in facts.hits(rule.followed_by.first):
        paying = {one.step for one in facts.hits(then)}
        todo = () if hit[:2] in counted else tuple(_side_by_side(facts, hit.step, paying))
        if todo:
            where = facts.flow.steps[hit.step].id
            reason = f"with `ends: any` the run may end beside `{where}` before {then.text()} starts, "
            help = f"{', '.join(todo)}, or do without `ends: any`"
            return UnknownReason(f"{reason}and that is not proved yet", help, may_be_broken=True)
    return None


def _side_by_side(facts: ProgramFacts, step: int, paying: Collection[int]) -> Iterator[str]:
    """Yield the changes that put an order between each body around a step and the steps that run beside it.

    Nothing where a step that is no Q can start beside it, and is found: a P breaks the rule whenever it succeeds.
    """
    layout = facts.flow.layout
    if is_decided(facts.flow, step, paying.__contains__):
        return
    for owner in layout.owners_of(step):
        if owner in layout.beside:
            yield f"remove `max_concurrency` of `{facts.flow.steps[owner].id}`"
        elif isinstance(facts.flow.steps[owner], BranchStep):
            fork = layout.fork_at(owner)
            index = fork.branches.index(owner)
            free = [sibling for sibling in range(len(fork.branches)) if not is_ordered(fork, index, sibling)]
            if not has_budget(facts):
                free = [
                    sibling for sibling in free if not only_pays(layout, fork.branches[sibling], paying.__contains__)
                ]
            name = facts.flow.steps[owner].id
            for sibling in free:
                yield f"write `depends_on: [{name}]` in `{facts.flow.steps[fork.branches[sibling]].id}`"


def has_budget(facts: ProgramFacts) -> bool:
    """Return whether a budget may keep a Q of a tool from its start."""
    program = facts.program
    return (program.max_steps, program.max_stalled_steps, program.timeout_seconds) != (None, None, None)


def follows_beside(facts: ProgramFacts, rule: FollowedBy) -> bool:
    """Return whether a Q stands in a branch beside that of a P, without an order between the two."""
    layout, then = facts.flow.layout, facts.hits(rule.followed_by.then)
    for hit in facts.hits(rule.followed_by.first):
        for owner in layout.owners_of(hit.step):
            if isinstance(facts.flow.steps[owner], BranchStep):
                fork = layout.fork_at(owner)
                index = fork.branches.index(owner)
                beside = [one for number, one in enumerate(fork.branches) if not is_ordered(fork, index, number)]
                if any(one.step in layout.inside(branch) for branch in beside for one in then):
                    return True
    return False


# -- conditions that read a sibling --------------------------------------------------------------------------------


def unseen(facts: ProgramFacts, step: int) -> frozenset[str]:
    """Return the branches that stand before a step in the layout, and whose outcomes it does not see.

    On a path of the graph, a branch sees the outcomes of those before it. In a run it does not, unless it depends on
    them.
    """
    return frozenset(name for name, _, _ in _unseen(facts, step))


def _unseen(facts: ProgramFacts, step: int) -> Iterator[tuple[str, str, Fork]]:
    """Yield each branch that a step does not see, with the branch that has the step, and their fork."""
    layout = facts.flow.layout
    for owner in layout.owners_of(step):
        if isinstance(facts.flow.steps[owner], BranchStep):
            fork = layout.fork_at(owner)
            number = fork.branches.index(owner)
            for index in range(number):
                if index not in fork.before[number]:
                    yield facts.flow.steps[fork.branches[index]].id, facts.flow.steps[owner].id, fork


def reads_sibling(facts: ProgramFacts, when: str, steps: Iterable[int]) -> UnknownReason | None:
    """Return why a condition is not judged that is asked at some steps, or None.

    What a branch does not see is undefined there, unless an earlier round of the parallel step has left it.
    """
    try:
        tree = facts.meaning.condition(when)
    except ExpressionError:
        return None
    read = {one.names[0]: one.names for one in all_references(tree) if _is_of_id(facts, one.names)}
    for step in steps:
        for name, branch, fork in _unseen(facts, step):
            if name in read and _may_come_again(facts, fork):
                reference = f"`${written(read[name])}`"
                reason = f"its condition reads {reference} in `{branch}`, where an earlier round of "
                reason += f"`{facts.flow.steps[fork.owner].id}` may have left it"
                help = f"write `depends_on: [{name}]` in `{branch}`, or do without {reference} in the condition"
                return UnknownReason(reason, help)
    return None


def _may_come_again(facts: ProgramFacts, fork: Fork) -> bool:
    """Return whether a run, or one item of the body around it, may come to a fork again."""
    layout = facts.flow.layout
    owner = layout.owner(fork.owner)
    around = range(len(facts.flow.steps)) if owner is None else layout.inside(owner)
    visited, pending = {fork.join}, [fork.join]
    while pending:
        for target in facts.flow.successors[pending.pop()]:
            if target == fork.owner:
                return True
            if target in around and target not in visited:
                visited.add(target)
                pending.append(target)
    return False


def rival_of(facts: ProgramFacts, rule: AnyRule, number: int) -> int:
    """Return the step at which a run can end while Q is owed: a Q, or a stage, is reported for a step in a sibling."""
    if not isinstance(rule, FollowedBy) or rule.ends != "any":
        return number
    paying, layout = {hit.step for hit in facts.hits(rule.followed_by.then)}, facts.flow.layout
    if number not in paying and not isinstance(layout.steps[number], Stage):
        return number
    behind = rivals(layout, paying.__contains__).get(number, {})
    return exposed(layout, paying.__contains__).get(number, next(iter(behind.values()), number))


def rival_help(facts: ProgramFacts, rule: AnyRule, number: int) -> str | None:
    """Return what to do where a step in a sibling can start while Q is owed; None if it is owed on the path itself."""
    layout, rival = facts.flow.layout, rival_of(facts, rule, number)
    if rival == number or not isinstance(rule, FollowedBy):
        return None
    stage = layout.steps[number]
    own_owners = {*layout.owners_of(number), *([layout.body_of(number).owner] if isinstance(stage, Stage) else [])}
    rival_owners = set(layout.owners_of(rival))
    pairs = ((own_owners & {*fork.branches}, rival_owners & {*fork.branches}) for fork in layout.forks.values())
    own_branch, rival_branch = next((*one, *two) for one, two in pairs if one and two and one != two)
    names = layout.steps[own_branch].id, layout.steps[rival_branch].id
    order = f"write `depends_on: [{names[0]}]` in `{names[1]}`"
    if isinstance(stage, Stage):
        order = f"let {rule.followed_by.then.text()} follow within `{names[0]}`, and {order}"
    return f"{order}, or do without `ends: any`"


def _is_of_id(facts: ProgramFacts, names: tuple[str, ...]) -> bool:
    """Return whether a reference is to what a step or a branch came to: a variable of its name comes first."""
    resolution = facts.meaning.names.meaning(names)
    return resolution is not None and len(names) - len(resolution.fields) > 1


def is_unseen(facts: ProgramFacts, names: tuple[str, ...], step: int) -> bool:
    """Return whether a reference is to what a branch came to, and a step does not see that."""
    return names[0] in unseen(facts, step) and _is_of_id(facts, names)


def as_seen(facts: ProgramFacts, tree: Expression, step: int) -> Expression:
    """Return a condition in which what a step does not see is undefined."""
    match tree:
        case Reference(names=names):
            return UNDEFINED if is_unseen(facts, names, step) else tree
        case Defined(reference=reference):
            return Constant(0, 0, False) if is_unseen(facts, reference.names, step) else tree
        case _:
            return with_children(tree, lambda child: as_seen(facts, child, step))


def unseen_words(facts: ProgramFacts, names: tuple[str, ...], step: int, when: str) -> tuple[str, str]:
    """Return the message and the help for a rule that needs what a step does not see."""
    reader, reference = facts.flow.steps[step].id, f"${written(names)}"
    branch = next(branch for name, branch, _ in _unseen(facts, step) if name == names[0])
    message = (
        f"`{reader}` can start while `{reference}` is undefined beside `{names[0]}`, so `{when}` can't be ruled out"
    )
    return message, f"write `depends_on: [{names[0]}]` in `{branch}`, or start the rule with `defined({reference}) and`"
