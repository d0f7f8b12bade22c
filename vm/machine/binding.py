"""Whether rules that name steps bind the program that goes on with a run.

A rule about `{step: pay}` says nothing of a step `pay_b`. So a program that goes on under such rules must not do what
they are about in a step of another name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import parts as pieces_of
from stepward.vm.expressions.template import texts
from stepward.vm.language.guardrails import (
    AnyRule,
    FollowedBy,
    Never,
    Requires,
    Selector,
    StepSelector,
    ToolSelector,
    plain_rule,
    protected,
)
from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyPart, EndStep, LlmCall, ToolCall, parts
from stepward.vm.machine.history import History
from stepward.vm.machine.refusals import RunRefused

LOST = "SW407"
"""The code under which somebody accepts that a rule has no effect any more."""


class Named(NamedTuple):
    """A step that a rule of earlier runs names as what it is about: the rule, the run that has it, and the step."""

    rule: AnyRule
    run: str
    step: AnyPart


def parts_of(program: Program) -> dict[str, AnyPart]:
    """Return the steps and sub-steps of a program by their ids."""
    return {part.id: part for step in program.layout.steps for _, part in parts(step)}


def named_steps(chain: Sequence[History]) -> Iterator[Named]:
    """Yield the steps that rules of a chain of runs are about, and not those that they ask for."""
    homes = [parts_of(history.plan.program) for history in chain]
    runs = [history.run for history in chain]
    seen = set[tuple[AnyRule, str, str]]()  # two policies may give different rules one name
    for number, history in enumerate(chain):
        of_policies = [rule for terms in history.plan.terms for one in terms.policies for rule in one.guardrails]
        own = [(rule, number) for rule in history.plan.program.guardrails]
        for rule, first in (*own, *((rule, 0) for rule in of_policies)):
            selected = protected(rule)[:1] if isinstance(rule, FollowedBy) else protected(rule)
            for name in (one.step for one in selected if isinstance(one, StepSelector)):
                home = next((one for one in range(first, len(chain)) if name in homes[one]), None)
                if home is not None and (plain_rule(rule), runs[home], name) not in seen:
                    seen.add((plain_rule(rule), runs[home], name))
                    yield Named(rule, runs[home], homes[home][name])


def require_bound(
    chain: Sequence[History], program: Program, reads: Mapping[str, str], accept: Collection[str] = ()
) -> None:
    """Raise RunRefused if a continuation does what a rule is about in a step that the rule does not name.

    It may make a call that a run before has made under the same id, with the same arguments. A step that calls nothing
    has to be there, unless `accept` has the code of a rule without effect, or it is an end that the program lacks.
    """
    own, handed_on = parts_of(program), {name for name, read in reads.items() if name == read}
    known = [parts_of(history.plan.program) for history in chain]
    for rule, run, step in named_steps(chain):
        about = f"guardrail `{rule.name}` of run `{run}` is about `{step.id}`"
        if not isinstance(step, ToolCall | LlmCall):
            if LOST not in accept and not _keeps(own, step) and not _lacks_end(own.values(), step):
                what = f"{LOST}: {about}, and the program has no step of this id and {_kind(step)}"
                raise RunRefused(what, f"give the step that takes its place the id `{step.id}`, or add one", LOST)
            continue
        for part in _doing_the_same(own.values(), step):
            if not any(_was_made(part, one.get(part.id), handed_on) for one in known):
                raise RunRefused(f"{about}, and `{part.id}` {_deed(step)}, too", _bound_help(own, step, part))


def require_moved_bound(chain: Sequence[History], version: Program, reached: Collection[str]) -> None:
    """Raise RunRefused if a version does what a rule is about in a step that the rule does not name.

    `reached` are the steps of the rest. A step may stay as it is. The rules of the version may say the same of another
    step, or leave the rule and its step as they are.
    """
    own = parts_of(version)
    known = [parts_of(history.plan.program) for history in chain]
    for rule, run, step in named_steps(chain):
        about = f"guardrail `{rule.name}` of run `{run}` is about `{step.id}`"
        is_same = _keeps(own, step) and getattr(own[step.id], "tool", None) == getattr(step, "tool", None)
        if is_same and _has_rule(version, rule):
            continue
        if not isinstance(step, ToolCall | LlmCall):
            if not is_same:
                what = f"{about}, and the version has no step of this id and {_kind(step)}"
                raise RunRefused(what, "keep the step, so that the rule holds for it")
            continue
        for part in _doing_the_same((own[name] for name in sorted(reached) if name in own), step):
            is_kept = any(_was_made(part, one.get(part.id), None) for one in known)
            if not is_kept and not _has_rule_for(version, rule, part):
                what = f"{about}, and `{part.id}` of the version {_deed(step)}, too"
                says = f"give the version a rule that says the same of `{part.id}`"
                raise RunRefused(what, f"{_bound_help(own, step, part)}, or {says}")


def _keeps(own: Mapping[str, AnyPart], step: AnyPart) -> bool:
    """Return whether a program has a step as it was: its id, its type, and how it ends."""
    there = own.get(step.id)
    is_alike = getattr(there, "type", None) == step.type
    return is_alike and getattr(there, "outcome", None) == getattr(step, "outcome", None)


def _lacks_end(own: Collection[AnyPart], step: AnyPart) -> bool:
    """Return whether a step is the end of a failed run, and a program declares no such end.

    Nothing comes after an end, so nothing is free of a rule about it but another end that says the same. A program may
    end in success without an `end` step.
    """
    return (
        isinstance(step, EndStep)
        and step.outcome == "failure"
        and not any(isinstance(one, EndStep) and one.outcome == "failure" for one in own)
    )


def _kind(step: AnyPart) -> str:
    outcome = f" with `outcome: {step.outcome}`" if isinstance(step, EndStep) else ""
    return f"of type `{step.type}`{outcome}"


def _bound_help(own: Mapping[str, AnyPart], step: AnyPart, part: AnyPart) -> str:
    """Return what to do with a call, so that the rule about a step holds for it.

    One step can have an id, and that of a step in a called program begins with the id of the call.
    """
    home, _, name = step.id.rpartition("/")
    if home == part.id.rpartition("/")[0] and step.id not in own:
        return f"give it the id `{name}`"
    if home:
        return f"make the call in step `{name}` of the program that step `{home}` calls"
    return f"make the call in step `{step.id}` of the program itself, and leave `{part.id}` out"


def _doing_the_same(own: Collection[AnyPart] | Iterator[AnyPart], step: AnyPart) -> Iterator[AnyPart]:
    """Yield the parts with another id that do what a step does: call its tool, or ask a model the same."""
    for part in own:
        match step, part:
            case ToolCall(), ToolCall():
                does_same = part.tool == step.tool
            case LlmCall(), LlmCall():
                does_same = _asks_same(part, step)
            case _:
                does_same = False
        if does_same and part.id != step.id:
            yield part


def _asks_same(part: LlmCall, step: LlmCall) -> bool:
    """Return whether two steps ask a model the same: in the same words, whatever values are in them.

    A prompt without words of its own may ask anything.
    """
    words = [_words_of(one.prompt) for one in (part, step)]
    return not all(words) or words[0] == words[1]


def _words_of(prompt: str) -> list[str]:
    """Return the words of a prompt without its references."""
    plain = " ".join(piece for piece in pieces_of(prompt) if isinstance(piece, str))
    return re.findall(r"\w+", plain.casefold())


def _deed(step: AnyPart) -> str:
    """Return what a call does, in words."""
    return f"calls `{step.tool}`" if isinstance(step, ToolCall) else "asks a model the same"


def _was_made(part: AnyPart, before: AnyPart | None, readable: Collection[str] | None) -> bool:
    """Return whether a call is one that was there before; with `readable`, it may read only these variables."""
    if before is None or getattr(part, "tool", None) != getattr(before, "tool", None):
        return False
    templates, known = (tuple(template.value for template in one.templates) for one in (part, before))
    return templates == known and (readable is None or _read_by(templates) <= set(readable))


def _read_by(values: object) -> set[str]:
    """Return the first names of the references in templates."""
    found = (piece for _, text in texts(values) for piece in pieces_of(text))
    return {piece.names[0] for piece in found if isinstance(piece, Reference)}


def _has_rule(version: Program, rule: AnyRule) -> bool:
    """Return whether a version has a rule as it was."""
    return plain_rule(rule).to_data() in [plain_rule(one).to_data() for one in version.guardrails]


def _has_rule_for(version: Program, rule: AnyRule, part: AnyPart) -> bool:
    """Return whether a version says of a call what a rule says of a step, by its id or by its tool.

    Only `requires` and `never` remember nothing of what the step itself has done: of others the past would be lost.
    """
    selectors: list[Selector] = [StepSelector(step=part.id)]
    if isinstance(part, ToolCall):
        selectors.append(ToolSelector(tool=part.tool))
    return any(_says_the_same(one, rule, selectors) for one in version.guardrails)


def _says_the_same(one: AnyRule, rule: AnyRule, selectors: Collection[Selector]) -> bool:
    """Return whether one rule says of what the selectors name all that another one says of its own step."""
    if isinstance(one, Requires) and isinstance(rule, Requires):
        return one.protects in selectors and (one.requires, one.fresh) == (rule.requires, rule.fresh)
    if isinstance(one, Never) and isinstance(rule, Never):
        return one.never in selectors and one.when in (None, rule.when)
    return False
