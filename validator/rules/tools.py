"""SW206 and SW207: are tools called as they are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import Rule
from stepward.vm.expressions.operators import Kinds
from stepward.vm.expressions.syntax import Reference
from stepward.vm.expressions.template import embedded, fill, parts
from stepward.vm.language.clauses import CallSite
from stepward.vm.language.similar import near_name, near_words, respelt
from stepward.vm.language.steps import InvokeStep, ToolCall
from stepward.vm.language.type_words import WORDS, either
from stepward.vm.language.types import TypeSpec, refusal, same
from stepward.vm.language.views import static_kinds
from stepward.vm.reading.source import Path, Place


class UndeclaredTool(Rule):
    """A step calls a tool that is not in the program's manifest.

    ## What it does
    Reports every call of a tool that the program's `tools` section does not list, and suggests the nearest listed name.
    The rule does not check a program without `tools`: such a program uses the declarations in the policy files.

    ## Why it is bad
    If a program has a `tools` section, only the listed tools exist, so the call fails. Also, Stepward does not know the
    effect and the arguments of such a tool.

    ## Example
    ```yaml
    name: refund
    tools: {issue_refund: {effect: write, idempotent: true}}
    steps:
      - {id: refund, type: tool, tool: isue_refund}
    ```

    ## Use instead
    ```yaml
    name: refund
    tools: {issue_refund: {effect: write, idempotent: true}}
    steps:
      - {id: refund, type: tool, tool: issue_refund}
    ```
    """

    code = "SW206"
    name = "undeclared-tool"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every call of a tool that a present `tools` section does not list."""
        tools = context.facts.program.tools
        if tools is None:
            return
        for site in context.facts.meaning.calls:
            if site.call.type == "tool" and site.call.tool not in tools:
                help = near_words(site.call.tool, tools) or "declare it under `tools`"
                message = f"the tool `{site.call.tool}` is not declared"
                place = Place((*site.path, "tool"))
                correction = respelt(place, site.call.tool, tools)
                yield self.finding(message, help, place, step=site.call.id, correction=correction)


class _Taker(NamedTuple):
    """What takes arguments: a tool or a program, with the types of the arguments by name."""

    kind: str
    name: str
    declared: Mapping[str, TypeSpec]


class _At(NamedTuple):
    """A call of a program: its position, its step and its path."""

    step: int
    call: InvokeStep
    path: Path


class ToolArguments(Rule):
    """An argument is missing, unknown to the tool, or of the wrong type.

    ## What it does
    Compares the arguments of every call with what the tool declares under `args`. Declared arguments are required
    unless they have a `default`; a tool without `args` takes anything. Compares the arguments of every `call` step with
    the `inputs` of its program in the same way. If an argument is only a reference, it has the
    type of the referenced value: that of the output of a body is what its `end` steps, or the call of `do`, give. If a
    reference is part of a longer text, the argument is text.

    ## Why it is bad
    The step fails before it starts, in every run that reaches it. Retries do not help.

    ## Example
    ```yaml
    name: refund
    inputs: {order: {type: integer}}
    tools: {issue_refund: {effect: write, idempotent: true, args: {order: {type: integer}, amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: issue_refund, args: {order: $order, amount: "10.50"}}
    ```

    ## Use instead
    ```yaml
    name: refund
    inputs: {order: {type: integer}}
    tools: {issue_refund: {effect: write, idempotent: true, args: {order: {type: integer}, amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: issue_refund, args: {order: $order, amount: 10.50}}
    ```
    """

    code = "SW207"
    name = "tool-arguments"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every argument that does not fit what the tool declares."""
        for site in context.facts.meaning.calls:
            declared = context.facts.meaning.tool(site.call.tool).args if site.call.type == "tool" else None
            if site.call.type == "tool" and declared is not None:
                related = self._declaration(context, site.call.tool)
                yield from self._call(context, site, site.call, _Taker("tool", site.call.tool, declared), related)
        layout = context.facts.flow.layout
        for number in layout.bodies:
            step = layout.steps[number]
            if isinstance(step, InvokeStep):
                taker = _Taker("program", step.program, step.declared)
                related = [Label(Place(step.home, key=True), "the program is here")]
                yield from self._call(context, _At(number, step, layout.path(number)), step, taker, related)

    def _call(
        self, context: Context, site: CallSite | _At, call: ToolCall | InvokeStep, taker: _Taker, related: list[Label]
    ) -> Iterator[Finding]:
        declared = taker.declared
        absent = [name for name, spec in declared.items() if name not in call.args and not spec.has_default]
        unknown = [name for name in call.args if name not in declared]
        pairs = _pairs(unknown, [name for name in declared if name not in call.args])
        for name in absent:
            if name not in pairs.values():
                place = Place((*site.path, "args"), key=True) if call.args else Place((*site.path, taker.kind))
                message = f"the argument `{name}` of `{taker.name}` is missing"
                yield self.finding(message, f"add `{name}` to `args`", place, step=call.id, related=related)
        for name, value in call.args.items():
            if name in unknown:
                place, right = Place((*site.path, "args", name), key=True), pairs.get(name)
                help = (
                    f"rename `{name}` to `{right}`"
                    if right
                    else f"remove it; the {taker.kind} takes {_listed(declared)}"
                )
                message = f"`{taker.name}` has no argument `{name}`"
                message += f", and `{right}` is missing" if right in absent else ""
                correction = respelt(place, name, [right]) if right else None
                yield self.finding(message, help, place, step=call.id, related=related, correction=correction)
            else:
                mismatch = _mismatch(context, site, name, value, declared[name])
                if mismatch is not None:
                    message, help = mismatch
                    place = Place((*site.path, "args", name))
                    yield self.finding(message, help, place, step=call.id, related=related)

    def _declaration(self, context: Context, tool: str) -> list[Label]:
        if context.facts.program.tools is None or tool not in context.facts.program.tools:
            return []
        return [Label(Place(("tools", tool), key=True), "the tool is declared here")]


def _pairs(unknown: list[str], missing: list[str]) -> dict[str, str]:
    """Return which declared argument each unknown one stands for: the most similar one, or the only one that is left.

    The arguments of a call are few, so a name that is left over on each side is one argument with two names.
    """
    pairs: dict[str, str] = {}
    for name in unknown:
        similar = near_name(name, [one for one in missing if one not in pairs.values()])
        if similar is not None:
            pairs[name] = similar
    ours, theirs = ([one for one in names if one not in (*pairs, *pairs.values())] for names in (unknown, missing))
    return {**pairs, ours[0]: theirs[0]} if len(ours) == len(theirs) == 1 else pairs


def _listed(names: Mapping[str, TypeSpec]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _mismatch(context: Context, site: CallSite | _At, name: str, value: Any, spec: TypeSpec) -> tuple[str, str] | None:
    """Return a message and a help for an argument of a wrong type; None where it fits, or its type is not known."""
    pieces = parts(value) if isinstance(value, str) and "$" in value else ()
    if len(pieces) == 1 and isinstance(pieces[0], Reference):
        return _reference_mismatch(context, site, name, pieces[0], spec)
    if pieces and any(isinstance(piece, Reference) for piece in pieces):
        if "string" not in spec.kinds:
            return (
                f"the argument `{name}` must be {_wanted(spec)}, but a reference inside longer text gives text",
                "write the reference alone",
            )
        return None
    if isinstance(value, dict | tuple) and any(True for _ in embedded(value)):
        return None
    filled = fill(value, _no_lookup) if pieces or isinstance(value, dict | tuple) else value
    reason = refusal(filled, spec)
    return (
        (f"the argument `{name}` is of the wrong type: it {reason}", "write a value that the tool takes")
        if reason
        else None
    )


def _reference_mismatch(
    context: Context, site: CallSite | _At, name: str, reference: Reference, spec: TypeSpec
) -> tuple[str, str] | None:
    view = context.facts.meaning.view(reference.names)
    if view is None or view.never:
        return None
    from_bodies = _given(context, reference)
    kinds = view.kinds if from_bodies is None and view.is_known else from_bodies
    if kinds is None:
        return None
    accepted = static_kinds(spec.kinds)
    outside = kinds - accepted
    if "null" in outside and context.analyses.not_null.at(site.step, [reference.names]):
        outside -= {"null"}
    text = reference.text()
    if outside:
        verb = "is" if not kinds & accepted else "may be"
        help = f"pass {_wanted(spec)}, or correct {_origin(text, from_bodies)}"
        if outside == {"null"} and verb == "may be":
            alternative = (
                "declare a type without null" if from_bodies is None else f"correct {_origin(text, from_bodies)}"
            )
            help = f"test `{text} != null` on every path to `{site.call.id}`, or {alternative}"
        return f"the argument `{name}` must be {_wanted(spec)}, but `{text}` {verb} {either(outside)}", help
    if view.enum and spec.enum and not any(same(a, b) for a in view.enum for b in spec.enum):
        return f"the argument `{name}` can have none of the values of `{text}`", "pass a value that the tool takes"
    return None


def _given(context: Context, reference: Reference) -> Kinds | None:
    """Return the kinds of the values that bodies give a reference; None where they give none, or any."""
    resolution = context.facts.meaning.names.meaning(reference.names)
    from_bodies = [] if resolution is None else context.facts.given_by_bodies.kinds_given(resolution)
    known = [one for one in from_bodies if one is not None]
    return frozenset().union(*known) if known and len(known) == len(from_bodies) else None


def _origin(text: str, from_bodies: Kinds | None) -> str:
    return f"the type of `{text}` where it is declared" if from_bodies is None else f"what the body gives as `{text}`"


def _wanted(spec: TypeSpec) -> str:
    return " or ".join(WORDS["number" if word == "integer" else word] for word in sorted(spec.kinds))


def _no_lookup(names: tuple[str, ...]) -> object:
    raise AssertionError(f"a constant reads nothing, not {names}")
