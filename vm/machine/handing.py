"""What a continuation reads of the run before it: values of variables and outputs at the end of that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stepward.vm.errors import ExpressionError, UndefinedReferenceError
from stepward.vm.expressions.fields import names_in, written
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Defined, walk
from stepward.vm.journal.canonical import Sealed, Secret, has_gone, is_sealed, opened
from stepward.vm.language.guardrails import Never
from stepward.vm.language.policy import Policy
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.continuing import open_bodies
from stepward.vm.machine.data import marked, refused
from stepward.vm.machine.history import History
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.slots import UNDEFINED, put
from stepward.vm.machine.state import Reader
from stepward.vm.values import FrozenMap

MAX_READS: Final = 1_000
"""The most values that one continuation reads."""


def readable(last: History) -> dict[str, Any]:
    """Return the variables and outputs that a continuation of a run may read, with their values; sealed ones sealed.

    What belongs to an item that had not ended is not among them, and of what items carry on it is the value with which
    that item began.
    """
    plan, reader = last.plan, _reader(last)
    found = {}
    for name in plan.names_of_slots.values():
        try:
            found[name] = reader.raw(tuple(name.split(".")))
        except UndefinedReferenceError:
            continue
    return dict(sorted(found.items()))


def read_from(last: History, reference: str) -> Any:
    """Return the value of a reference at the end of a run, sealed parts sealed; raises RunRefused without one."""
    try:
        names = names_in(reference)
        if written(names) != reference.removeprefix("$") or "/" in names[0]:  # what a called program has is its own
            raise RunRefused(f"`{reference}` is no variable or output, such as `sum` or `check.output`")
        return _reader(last).raw(names)
    except ExpressionError:
        raise RunRefused(f"`{reference}` is no variable or output, such as `sum` or `check.output`") from None
    except UndefinedReferenceError:
        raise RunRefused(f"`{reference}` is not defined at the end of run `{last.run}`") from None


def _reader(last: History) -> Reader:
    """Return a reader of the values at the end of a run, outside of all bodies that had not ended."""
    plan, slots = last.plan, last.state.slots
    for each in reversed(open_bodies(last.state)):
        body = plan.bodies[each.at]
        slots = put(slots, [*each.carried, *((slot, UNDEFINED) for slot in body.locals)])
    return Reader(plan, slots)


def values_read(last: History, reads: Mapping[str, str]) -> dict[str, Any]:
    """Return the inputs of a continuation; raises RunRefused for one that is undefined or was erased."""
    if len(reads) > MAX_READS:
        raise RunRefused(f"a continuation reads {MAX_READS} values at most, not {len(reads)}")
    found = {}
    for name, reference in reads.items():
        value = read_from(last, reference)
        if has_gone(value):
            raise RunRefused(f"`{reference}` of run `{last.run}` was erased")
        found[name] = value
    return found


def unread(chain: Sequence[History], policies: Iterable[Policy], reads: Mapping[str, str]) -> str | None:
    """Return why a condition of a rule would not see a value of the runs before as it is, or None.

    A condition that reads what is undefined forbids the start; only one that asks `defined` could be misled.
    """
    names = {name for policy in policies for text in _conditions(policy) for name in _names_in_defined(text, chain[-1])}
    for name in sorted(names):
        for history in chain:
            if name in readable(history) and reads.get(name) != name:
                return f"a rule asks whether `{name}` is defined, and run `{history.run}` has it: read it, too"
    return None


def _conditions(policy: Policy) -> Iterator[str]:
    yield from (rule.when for rule in policy.guardrails if isinstance(rule, Never) and rule.when is not None)
    yield from (entry.when for entry in policy.allow or () if entry.when is not None)


def _names_in_defined(text: str, last: History) -> Iterator[str]:
    """Yield the variables and outputs of which a condition asks whether they are defined."""
    try:
        tree = parse(text, last.plan.program.language)
    except ExpressionError:
        return  # it can't be evaluated, which forbids the start
    for node in walk(tree):
        if isinstance(node, Defined) and node.reference.names[0] != "args":
            located = last.plan.meaning.names.locate(node.reference.names)
            yield ".".join(node.reference.names[:1] if located is None else located[0])


def plain_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values without their seals: those of the inputs are set by the types of the program."""
    return FrozenMap((name, opened(value)) for name, value in values.items())


def uncovered(sealed: Any, marked: Any) -> bool:
    """Return whether a part of a value that was sensitive is not marked as sensitive in the inputs."""
    if not is_sealed(sealed) or isinstance(marked, Secret | Sealed):
        return False
    if isinstance(sealed, Sealed | Secret):
        return True
    if isinstance(sealed, dict):
        return any(uncovered(value, marked[name]) for name, value in sealed.items())
    return any(uncovered(one, other) for one, other in zip(sealed, marked, strict=True))


def type_of(last: History, source: str) -> TypeSpec:
    """Return the type of an input that reads a value: that of the value in its own program, or what it is."""
    value, spec = readable(last)[source], stated_type(last, source)
    is_fit = spec is not None and not spec.has_default and refused(opened(value), spec, source) is None
    if spec is not None and is_fit and not uncovered(value, marked(opened(value), spec)):
        return spec
    data = {"type": _word(opened(value)), **({"sensitive": True} if is_sealed(value) else {})}
    return TypeSpec.model_validate(data, strict=False)


def stated_type(last: History, source: str) -> TypeSpec | None:
    """Return the type of a variable or an output in its program, if all that gives it a value is of one type."""
    names, typing = last.plan.meaning.names, last.plan.meaning.typing
    if source in last.plan.input_types:
        return last.plan.input_types[source]
    step, _, what = source.partition(".")
    specs = (
        [names.outputs[step]] if what == "output" and step in names.outputs else list(names.variables.get(source, ()))
    )
    return typing.effective(specs[0]) if len(specs) == 1 else None


def _word(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, tuple) else "number"
