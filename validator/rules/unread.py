"""SW212: does anything read what the program declares and stores."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label, Severity
from stepward.validator.rules.base import Rule
from stepward.validator.rules.placeholders import braced_texts
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.inside import asked_parts
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Defined, Reference, walk
from stepward.vm.expressions.template import texts
from stepward.vm.language.guardrails import Requires, ToolSelector, guards, protected
from stepward.vm.language.names import Source, assigned_path
from stepward.vm.language.program import Program
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import EndStep, InvokeStep
from stepward.vm.language.transitions import END
from stepward.vm.reading.source import Place

SHOWN: Final = 3
"""The names that one message and its labels show."""


_QUOTED: Final = re.compile(rf"""['"]\${NAME}""")


class _Unread(NamedTuple):
    name: str
    place: Place


class NeverRead(Rule):
    """Nothing reads an input, an output or a variable, or no step calls a declared tool.

    ## What it does
    Reports inputs that nothing reads, tools that no step calls, and outputs and variables that have a name but are
    never read. There is one finding for each of the three kinds. A read is a reference in a prompt, an argument, a
    condition, `set`, `output` or a guardrail. Some names are never reported: the output of the last step of a run (it
    is the result), a constant that `set` assigns, a tool that a guardrail names, and a name that begins with `_`.

    ## Why it is bad
    Often the name is misspelt in the step that should read it, or a check was forgotten: for example, no condition
    reads the amount. Otherwise every caller has to pass a value that has no effect.

    ## Example
    ```yaml
    name: refund
    inputs: {order: {type: integer}, amount: {type: number}}
    tools: {issue_refund: {effect: write, idempotent: true, args: {order: {type: integer}}}}
    steps:
      - {id: refund, type: tool, tool: issue_refund, args: {order: $order}}
    ```

    ## Use instead
    ```yaml
    name: refund
    inputs: {order: {type: integer}, amount: {type: number}}
    tools: {issue_refund: {effect: write, idempotent: true, args: {order: {type: integer}, amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: issue_refund, args: {order: $order, amount: $amount}}
    ```
    """

    code = "SW212"
    name = "never-read"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for the inputs, one for the tools, and one for outputs and variables."""
        program = context.facts.program
        read, mentioned = _read(context), _mentioned(context)
        inputs = [
            _Unread(name, Place(("inputs", name), key=True))
            for name in program.inputs or ()
            if name not in mentioned and not any(source.kind == "input" and source.name == name for source in read)
        ]
        yield from self._finding(inputs, "nothing reads the input")
        called = {site.call.tool for site in context.facts.meaning.calls if site.call.type == "tool"}
        called |= _guarded_tools(context) | {_near(tool, program.tools or ()) for tool in called}
        tools = [_Unread(tool, Place(("tools", tool), key=True)) for tool in program.tools or () if tool not in called]
        yield from self._finding(tools, "no step calls the tool")
        outputs = {one.name: one for one in _unread_outputs(context, read) if one.name not in mentioned}
        groups: dict[str, list[_Unread]] = {}
        for one in outputs.values():  # a called program has findings of its own
            groups.setdefault(one.name.rpartition("/")[0], []).append(one)
        for group in groups.values():
            yield from self._finding(group, "nothing reads")
        yield from self._finding(list(_uncalled(program)), "no step calls the program")

    def _finding(self, found: Sequence[_Unread], what: str) -> Iterator[Finding]:
        found = [one for one in found if not one.name.rpartition("/")[2].startswith("_")]
        if not found:
            return
        words = [f"`{one.name}`" for one in found[:SHOWN]]
        if len(found) > SHOWN:
            words.append(f"{len(found) - SHOWN} more")
        names = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
        plural = "s" if len(found) > 1 and what != "nothing reads" else ""
        help = f"use it, or remove it; to keep it on purpose, call it `_{found[0].name.rpartition('/')[2]}`"
        if len(found) > 1:
            help = "use them, or remove them; to keep one on purpose, begin its name with `_`"
        related = [Label(one.place, "and this one") for one in found[1:SHOWN]]
        yield self.finding(f"{what}{plural} {names}", help, found[0].place, related=related)


def _read(context: Context) -> set[Source]:
    """Return every source that a step or a guardrail reads, also in `defined`."""
    names = context.facts.meaning.names
    # A variable of which a field is assigned is not read by that.
    every = context.analyses.assignment.readings
    readings = [one for one in every if one.clause is None or not one.clause.is_base(one.reference.start)]
    read = {source for reading in readings if reading.meant for source in reading.meant.sources}
    trees = [clause.tree for clause in context.facts.meaning.clauses if clause.tree is not None]
    for _, when in context.facts.meaning.whens:
        try:
            trees.append(parse(when))
        except ExpressionError:
            continue
    for node in (node for tree in trees for part in asked_parts(tree) for node in walk(part)):
        reference = node.reference if isinstance(node, Defined) else node
        meant = names.meaning(reference.names) if isinstance(reference, Reference) else None
        read.update(meant.sources if meant is not None else ())
    return read


def _mentioned(context: Context) -> set[str]:
    """Return the names in what is meant to read and does not: other findings speak of that.

    These are expressions that can't be read, references in quotes, placeholders of other languages, and misspelt names.
    """
    meaning = context.facts.meaning
    texts = [clause.text for clause in meaning.clauses if clause.error is not None or _QUOTED.search(clause.text)]
    for number, step in enumerate(context.facts.flow.steps):
        for _, path, value in step.templates:
            texts += [text for _, text in braced_texts(value, (*context.facts.flow.layout.path(number), *path))]
    found = {name for text in texts for name in re.findall(NAME, text)}
    undefined = {
        reading.reference.names[0] for reading in context.analyses.assignment.readings if reading.meant is None
    }
    return found | {_near(name, meaning.names.variables) for name in undefined}


def _uncalled(program: Program) -> Iterator[_Unread]:
    """Yield the programs of the document that no call leads to: nothing in them is checked."""
    called = {step.home for step in program.layout.steps if isinstance(step, InvokeStep)}
    for name in program.programs or ():
        if ("programs", name) not in called:
            yield _Unread(name, Place(("programs", name), key=True))


def _near(name: str, known: Collection[str]) -> str:
    return near_words(name, known).removeprefix("did you mean `").removesuffix("`?")


def _guarded_tools(context: Context) -> set[str]:
    """Return the tools of which a guardrail of the program or of a policy speaks."""
    selectors: list[object] = [selector for rule, _ in context.facts.meaning.rules for selector in protected(rule)]
    for rule, _ in context.facts.meaning.rules:
        selectors += guards(rule.requires) if isinstance(rule, Requires) else ()
    return {selector.tool for selector in selectors if isinstance(selector, ToolSelector)}


def _gives_result(context: Context, number: int) -> bool:
    """Return whether a run ends after a step, so that what it stores is the result."""
    steps = context.facts.flow.steps
    targets = [way.to for way in context.facts.flow.transitions[number] if way.kind == "success"]
    ends = (to == END or (to >= 0 and isinstance(step := steps[to], EndStep) and step.output is None) for to in targets)
    return any(ends)


def _unread_outputs(context: Context, read: set[Source]) -> Iterator[_Unread]:
    """Yield the outputs with a name and the variables that nothing reads, where the run does not end."""
    known = {(source.step, source.sub, source.name) for source in read if source.kind == "output"}
    assigned = {(source.step, source.name) for source in read if source.kind == "set"}
    for number, step in enumerate(context.facts.flow.steps):
        if _gives_result(context, number) or ((number, None, step.id) in known and step.sub_steps):
            continue
        for name, value in step.assigns.items():
            if (number, name) not in assigned and next(texts(value), None) is not None:
                yield _Unread(name, Place(assigned_path(context.facts.flow.layout, number, name), key=True))
        for sub, call in step.calls:
            key, path = call.output_key, context.facts.flow.layout.path(number, sub)
            if key is not None and (number, sub, call.id) not in known:
                yield _Unread(key, Place((*path, "output_key")))
