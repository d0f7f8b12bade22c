"""SW221 and SW222: do the functions of `check --tools` fit what is declared of their tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.findings import Finding, Severity
from stepward.validator.rules.base import ReportedElsewhere
from stepward.vm.expressions.template import texts
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.similar import near_words
from stepward.vm.language.steps import ToolCall
from stepward.vm.language.type_words import WORDS
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.reading.source import Place
from stepward.vm.values import freeze

# A check without `--tools` does not import the machine.
if TYPE_CHECKING:
    from stepward.vm.machine.tools import FunctionTools

_WORDS: Final = {**WORDS, "integer": "an integer"}


class FunctionMismatch(ReportedElsewhere):
    """The Python function of a tool does not match its declaration in the manifest.

    ## What it does
    With `stepward check --tools MODULE`, compares each tool's function with its declaration. The function has to exist.
    Its argument names, the types of its annotations, and whether it can return `Suspend` have to match. A missing
    annotation, or one that does not name a kind of value, is not compared. A function without a return type counts as
    one that suspends if its code names `Suspend`. For a tool without `args` in the manifest, the arguments of each step
    that calls it are compared: their names, and the values without references.

    ## Why it is bad
    The machine refuses the program, or the call fails in every run that reaches it. If the output has a wrong type, the
    call has failed. If the tool writes, nobody then knows whether the write happened. The same is true of a suspension
    that the manifest does not declare.

    ## Example
    ```yaml
    name: refund
    inputs: {amount: {type: number}}
    tools: {refund: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: refund, args: {amount: $amount}}
    ```
    ```python
    def refund(sum: float, idempotency_key: str) -> None: ...
    ```

    ## Use instead
    ```yaml
    name: refund
    inputs: {amount: {type: number}}
    tools: {refund: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: refund, args: {amount: $amount}}
    ```
    ```python
    def refund(amount: float, idempotency_key: str) -> None: ...
    ```
    """

    code = "SW221"
    name = "function-mismatch"

    def of(self, meaning: Meaning, tools: FunctionTools, module: str) -> Iterator[Finding]:
        """Yield what does not fit; `module` is the name of the functions' module in messages."""
        from stepward.vm.machine.equipment import signature_fault

        for name, place, step in called(meaning):
            function = tools.function(name)
            if function is None:
                message = f"`{module}` has no function for tool `{name}`"
                help = near_words(name, tools.names()) or f"write a function `{name}`, or correct the name of the tool"
                yield self.finding(message, help, place, step=step)
                continue
            spec = meaning.tool(name)
            if spec.args is None:
                yield from self._of_calls(meaning, name, function)
            fault = None if spec.args is None else signature_fault(function, spec.args)
            if fault is not None:
                help = "give the function the arguments of the manifest, or correct `args`"
                yield self.finding(f"tool `{name}`: {fault}", help, place, step=step)
            for message, help in _faults_of_annotations(name, function, spec):
                yield self.finding(message, help, place, step=step)

    def _of_calls(self, meaning: Meaning, name: str, function: Any) -> Iterator[Finding]:
        """Yield what does not fit in the calls of a tool for which the manifest declares no `args`."""
        from stepward.vm.machine.equipment import signature_fault

        for site in meaning.calls:
            if not isinstance(site.call, ToolCall) or site.call.tool != name:
                continue
            fault = signature_fault(function, site.call.args, "the step gives")
            if fault is not None:
                help = "give the function the arguments of the step, or correct `args` of the step"
                yield self.finding(f"tool `{name}`: {fault}", help, Place((*site.path, "tool")), step=site.call.id)
                continue
            for argument, fault in _faults_of_constants(function, site.call.args):
                message = f"the function of tool `{name}` does not take this `{argument}`: it {fault}"
                place = Place((*site.path, "args", argument))
                yield self.finding(message, "correct the value, or the annotation", place, step=site.call.id)


class KeyNotTaken(ReportedElsewhere):
    """The Python function of an idempotent write has no parameter for the idempotency key.

    ## What it does
    With `stepward check --tools MODULE`, reports the function of a tool that is declared as an idempotent write, if it
    has neither a parameter `idempotency_key` nor a parameter `context`. A write needs no key if doing it twice has the
    same effect as doing it once, for example when it sets a status. For such a write, suppress the finding and give
    this reason.

    ## Why it is bad
    The machine repeats an idempotent write after a crash. Without the key, the function can't know that it is the same
    write, so the write may happen twice.

    ## Example
    ```yaml
    name: refund
    inputs: {amount: {type: number}}
    tools: {refund: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: refund, args: {amount: $amount}}
    ```
    ```python
    def refund(amount: float) -> None: ...
    ```

    ## Use instead
    ```yaml
    name: refund
    inputs: {amount: {type: number}}
    tools: {refund: {effect: write, idempotent: true, args: {amount: {type: number}}}}
    steps:
      - {id: refund, type: tool, tool: refund, args: {amount: $amount}}
    ```
    ```python
    def refund(amount: float, idempotency_key: str) -> None: ...
    ```
    """

    code = "SW222"
    name = "key-not-taken"
    severity = Severity.WARNING

    def of(self, meaning: Meaning, tools: FunctionTools) -> Iterator[Finding]:
        """Yield the idempotent writes whose functions do not take a key."""
        for name, place, step in called(meaning):
            spec = meaning.tool(name)
            if spec.effect == "write" and spec.idempotent and tools.has(name) and not tools.special(name):
                message = (
                    f"the manifest declares tool `{name}` as idempotent, but its function takes no `idempotency_key`"
                )
                help = "add the parameter `idempotency_key` and pass it on, or declare `idempotent: false`"
                yield self.finding(message, help, place, step=step)


def called(meaning: Meaning) -> Iterator[tuple[str, Place, str]]:
    """Yield each tool that a program calls, with the place that declares it, or else its first call, and that step."""
    tools: set[str] = set()
    for site in meaning.calls:
        if isinstance(site.call, ToolCall) and site.call.tool not in tools:
            name = site.call.tool
            tools.add(name)
            is_declared = name in (meaning.program.tools or {})
            place = Place(("tools", name), key=True) if is_declared else Place((*site.path, "tool"))
            yield name, place, site.call.id


def _faults_of_annotations(name: str, function: Any, spec: ToolSpec) -> Iterator[tuple[str, str]]:
    from stepward.vm.language.annotations import signature_of
    from stepward.vm.machine.equipment import SPECIAL
    from stepward.vm.machine.tools import Suspend

    signature = signature_of(function, SPECIAL, Suspend)
    if signature.suspends and not spec.suspends:
        message = f"the function of tool `{name}` returns `Suspend`, and the manifest does not say `suspends: true`"
        yield message, f"add `suspends: true` to tool `{name}`"
    if signature.suspends is False and spec.suspends:
        message = f"the manifest says `suspends: true` of tool `{name}`, and its function never returns `Suspend`"
        yield message, "add `| Suspend` to the return type of the function, or remove `suspends: true`"
    for argument, declared in (spec.args or {}).items():
        data = (signature.args or {}).get(argument)
        where, kinds = _outside(declared, _spec(data), argument)
        if kinds:
            message = f"the manifest allows {kinds} for `{where}` of tool `{name}`, but the function does not"
            yield message, "correct the annotation, or the type in the manifest"
    if spec.returns is not None:
        where, kinds = _outside(_spec(signature.returns), spec.returns, "output")
        if kinds:
            whose = "output" if where == "output" else f"`{where}`"
            message = (
                f"the function of tool `{name}` may return {kinds} as its {whose}, but the manifest does not allow that"
            )
            yield message, "correct the annotation, or `returns` in the manifest"


def _faults_of_constants(function: Any, args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the arguments without references that the annotations do not allow, each with what it has to be."""
    from stepward.vm.language.annotations import signature_of
    from stepward.vm.machine.equipment import SPECIAL
    from stepward.vm.machine.tools import Suspend

    types = signature_of(function, SPECIAL, Suspend).args or {}
    for name, value in args.items():
        spec = _spec(types.get(name))
        fault = None if spec is None or any(texts(value)) else refusal(freeze(value), spec)
        if fault is not None:
            yield name, fault


def _spec(data: dict[str, Any] | None) -> TypeSpec | None:
    if not data:
        return None
    known = {key: value for key, value in data.items() if key != "default"}
    return TypeSpec.model_validate(known) if known else None


def _outside(narrow: TypeSpec | None, wide: TypeSpec | None, where: str) -> tuple[str, str]:
    """Return a part of a type and the kinds of it that another type does not allow; empty if it allows all."""
    if narrow is None or wide is None or (narrow.type is None and narrow.enum is None):
        return where, ""
    kinds = wide.kinds | ({"integer"} if "number" in wide.kinds else set())
    outside = {"integer" if inner == "number" and narrow.enum is not None else inner for inner in narrow.kinds} - kinds
    if outside:
        return where, " or ".join(sorted({_WORDS[inner] for inner in outside}))
    parts = [(narrow.items, wide.items, f"{where}[]")]
    parts += [
        (inner, (wide.properties or {}).get(key), f"{where}.{key}") for key, inner in (narrow.properties or {}).items()
    ]
    for inner, inner_wide, inner_where in parts:
        outside_part = _outside(inner, inner_wide, inner_where)
        if outside_part[1]:
            return outside_part
    return where, ""
