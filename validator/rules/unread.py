"""SW212: does anything read what the program declares and stores."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
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
from stepward.vm.language.prefixes import own_name
from stepward.vm.language.program import Program
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import EndStep, Failing, InvokeStep, ToolCall
from stepward.vm.language.transitions import END
from stepward.vm.reading.source import Path, Place

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
    never read. There is one finding for each of the three kinds, and so for each called program. A read is a reference
    in a prompt, an argument, a condition, `set`, `items`, `output` or a guardrail, also of a body. The output of the
    last step of a run is the result, and is never reported. Neither is a constant that `set` assigns, a tool that a
    guardrail names, the item of a for_each step or its number, or a name that begins with `_`.

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
        known = mentioned.union(source.name for source in read if source.kind == "input")
        unread = [name for name in program.inputs or () if name not in known]
        yield from self._finding(_at(("inputs",), unread), "nothing reads the input")
        called = {site.call.tool for site in context.facts.meaning.calls if site.call.type == "tool"}
        called |= _guarded_tools(context) | {_near(tool, program.tools or ()) for tool in called}
        tools = [tool for tool in program.tools or () if tool not in called]
        yield from self._finding(_at(("tools",), tools), "no step calls the tool")
        outputs = {
            output.name: output for output in _unread_outputs(context, read) if own_name(output.name) not in mentioned
        }
        groups: dict[str, list[_Unread]] = {}
        for output in outputs.values():  # a called program has findings of its own
            groups.setdefault(output.name.rpartition("/")[0], []).append(output)
        for group in groups.values():
            yield from self._finding(group, "nothing reads")
        yield from self._finding(list(_uncalled(program)), "no step calls the program")
        yield from self._of_called_programs(context, read, mentioned)

    def _of_called_programs(self, context: Context, read: set[Source], mentioned: set[str]) -> Iterator[Finding]:
        """Yield the same findings for the inputs and tools of each called program, once for all of its calls."""
        layout, guarded = context.facts.flow.layout, _guarded_tools(context)
        known = {(source.step, own_name(source.name)) for source in read if source.kind == "set"}
        calls = {step.home: number for number in layout.bodies if isinstance(step := layout.steps[number], InvokeStep)}
        for home, number in calls.items():
            step = layout.steps[number]
            assert isinstance(step, InvokeStep)
            inputs = [name for name in step.declared if (number, name) not in known and name not in mentioned]
            unread_inputs = _at((*home, "inputs"), inputs)
            yield from self._finding(unread_inputs, "nothing reads the input", " here and in the calls")
            calls_inside = (call for one in layout.inside(number) for _, call in layout.steps[one].calls)
            called = {call.tool for call in calls_inside if isinstance(call, ToolCall)}
            tools = [name for name in step.tools if name not in called | guarded]
            yield from self._finding(_at((*home, "tools"), tools), "no step calls the tool")

    def _finding(self, unread: Sequence[_Unread], message: str, where: str = "") -> Iterator[Finding]:
        unread = [one for one in unread if not own_name(one.name).startswith("_")]
        if not unread:
            return
        words = [f"`{one.name}`" for one in unread[:SHOWN]]
        if len(unread) > SHOWN:
            words.append(f"{len(unread) - SHOWN} more")
        names = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
        plural = "s" if len(unread) > 1 and message != "nothing reads" else ""
        help = f"use it, or remove it{where}; to keep it on purpose, call it `_{own_name(unread[0].name)}`"
        if len(unread) > 1:
            help = f"use them, or remove them{where}; to keep one on purpose, begin its name with `_`"
        related = [Label(one.place, "and this one") for one in unread[1:SHOWN]]
        yield self.finding(f"{message}{plural} {names}", help, unread[0].place, related=related)


def _at(path: Path, names: Iterable[str]) -> list[_Unread]:
    return [_Unread(name, Place((*path, name), key=True)) for name in names]


def _read(context: Context) -> set[Source]:
    """Return every source that a step or a guardrail reads, also in `defined`."""
    names = context.facts.meaning.names
    # A variable of which a field is assigned is not read by that.
    every = context.analyses.assignment.readings
    readings = [one for one in every if one.clause is None or not one.clause.is_base(one.reference.start)]
    read = {source for reading in readings if reading.resolution for source in reading.resolution.sources}
    trees = [clause.tree for clause in context.facts.meaning.clauses if clause.tree is not None]
    for _, when in context.facts.meaning.whens:
        try:
            trees.append(parse(when))
        except ExpressionError:
            continue
    for node in (node for tree in trees for part in asked_parts(tree) for node in walk(part)):
        reference = node.reference if isinstance(node, Defined) else node
        resolution = names.meaning(reference.names) if isinstance(reference, Reference) else None
        read.update(resolution.sources if resolution is not None else ())
    return read


def _mentioned(context: Context) -> set[str]:
    """Return the names in what is meant to read and does not, as their own program has them: other findings say that.

    These are expressions that can't be read, references in quotes, placeholders of other languages, and misspelt names.
    """
    meaning = context.facts.meaning
    texts = [clause.text for clause in meaning.clauses if clause.error is not None or _QUOTED.search(clause.text)]
    for number, step in enumerate(context.facts.flow.steps):
        for _, path, value in step.templates:
            texts += [text for _, text in braced_texts(value, (*context.facts.flow.layout.path(number), *path))]
    names = {name for text in texts for name in re.findall(NAME, text)}
    undefined = {
        reading.reference.names[0] for reading in context.analyses.assignment.readings if reading.resolution is None
    }
    return names | {own_name(_near(name, meaning.names.variables)) for name in undefined}


def _uncalled(program: Program) -> Iterator[_Unread]:
    """Yield the programs of the document that no call leads to: nothing in them is checked."""
    called = {step.home for step in program.layout.steps if isinstance(step, InvokeStep)}
    for name in program.programs or ():
        if ("programs", name) not in called:
            yield _Unread(name, Place(("programs", name), key=True))


def _near(name: str, known: Collection[str]) -> str:
    return near_words(name, known).removeprefix("did you mean `").removesuffix("`?")


def _guarded_tools(context: Context) -> set[str]:
    """Return the tools of which a guardrail of the program, of a body or of a policy speaks."""
    rules = [rule for rule, _ in (*context.facts.meaning.rules, *context.facts.meaning.body_rules)]
    selectors: list[object] = [selector for rule in rules for selector in protected(rule)]
    for rule in rules:
        selectors += guards(rule.requires) if isinstance(rule, Requires) else ()
    return {selector.tool for selector in selectors if isinstance(selector, ToolSelector)}


def _gives_result(context: Context, number: int) -> bool:
    """Return whether a run ends after a step, so that what it stores is the result."""
    flow = context.facts.flow
    fork = flow.layout.forks.get(number)
    body = flow.layout.bodies.get(number)
    last = fork.join if fork is not None else number if body is None else body.next
    targets = [transition.to for transition in flow.transitions[last] if transition.kind == "success"]
    ends = (
        to == END or (to >= 0 and isinstance(step := flow.steps[to], EndStep) and step.output is None) for to in targets
    )
    return any(ends)


def _unread_outputs(context: Context, read: set[Source]) -> Iterator[_Unread]:
    """Yield the outputs with a name and the variables that nothing reads, where the run does not end."""
    known = {(source.step, source.sub, source.name) for source in read if source.kind == "output"}
    assigned = {(source.step, source.name) for source in read if source.kind == "set"}
    for number, step in enumerate(context.facts.flow.steps):
        if _gives_result(context, number) or ((number, None, step.id) in known and step.sub_steps):
            continue
        for name, value in step.assigns.items() if not isinstance(step, InvokeStep) else ():
            if (number, name) not in assigned and next(texts(value), None) is not None:
                yield _Unread(name, Place(assigned_path(context.facts.flow.layout, number, name), key=True))
        whole = [(None, step)] if isinstance(step, Failing) else []
        for sub, part in (*whole, *step.calls):
            key, path = part.output_key, context.facts.flow.layout.path(number, sub)
            if key is not None and (number, sub, part.id) not in known:
                yield _Unread(key, Place((*path, "output_key")))
