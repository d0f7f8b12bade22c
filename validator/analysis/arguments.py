"""Conditions on the arguments of a call, rewritten as conditions on the state in which the call starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.expressions.facts import reads
from stepward.vm.expressions.fields import part as field_of
from stepward.vm.expressions.syntax import Constant, Defined, Expression, Reference, with_children
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import BaseStep, ToolCall

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Meaning


_ABSENT: Final = object()

UNDEFINED: Final = Reference(0, 0, ("$args",))
"""Stands for an argument that is not passed. No name contains a dollar sign, but a variable may be called `args`."""


class Inexpressible(Exception):  # noqa: N818 - no error: the verdict is found in another manner, or is unknown
    """No condition on the state can express the argument: it is built from text, or means all arguments at once."""


def at_start(tree: Expression, part: BaseStep, meaning: Meaning) -> Expression:
    """Return a condition with each `$args.x` replaced by the value that the call passes.

    Raises Inexpressible where that value is text with references in it.
    """
    match tree:
        case Reference(names=names):
            return _argument(tree, part, meaning) if names[0] == "args" else tree
        case Defined(reference=reference):
            value = at_start(reference, part, meaning)
            return Defined(0, 0, value) if isinstance(value, Reference) else Constant(0, 0, True)
        case _:
            return with_children(tree, lambda child: at_start(child, part, meaning))


def _argument(reference: Reference, part: BaseStep, meaning: Meaning) -> Expression:
    if len(reference.names) == 1:
        raise Inexpressible
    if not isinstance(part, ToolCall):
        return UNDEFINED  # only calls of tools have arguments
    name, fields = reference.names[1], reference.names[2:]
    if name in part.args:
        value: Any = part.args[name]
    else:
        spec = (meaning.tool(part.tool).args or {}).get(name)
        if spec is None or not spec.has_default:
            return UNDEFINED
        value = spec.default
    references = list(embedded(value))
    if references and references[0].whole and not references[0].path:
        return Reference(0, 0, (*references[0].reference.names, *fields))
    if references:
        raise Inexpressible
    for field in fields:
        value = field_of(value, field, _ABSENT)
        if value is _ABSENT:
            return UNDEFINED
    if isinstance(value, Mapping) or (isinstance(value, str) and "$$" in value):
        raise Inexpressible
    return Constant(0, 0, value)


def unknown_in(tree: Expression, parts: Sequence[BaseStep], meaning: Meaning, *, may_lack: bool) -> str | None:
    """Return a reference of a `when` that the program does not have, or None; `parts` are those that its rule selects.

    With `may_lack`, as for a rule about many programs, a reference that is read only where it is defined does not
    count.
    """
    calls = [part for part in parts if isinstance(part, ToolCall)]
    arguments = {name for call in calls for name in (*call.args, *(meaning.tool(call.tool).args or ()))}
    for node, known in reads(tree):
        if may_lack and known.knows_defined(node.names):
            continue
        if node.names[0] == "args":
            if len(node.names) < 2 or node.names[1] not in arguments:
                return node.text()
        elif meaning.names.meaning(node.names) is None:
            return node.text()
    return None
