"""Combinations of choices in the order in which to try them, the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from typing import Any, Final

from stepward.validator.analysis.product import USED_UP
from stepward.validator.engine.values.simplest import beside
from stepward.validator.engine.witnesses.witness import Does
from stepward.vm.expressions.fields import ITEMS, index_of
from stepward.vm.expressions.syntax import Arithmetic, Constant, Expression, Minus, walk
from stepward.vm.expressions.template import embedded
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Source
from stepward.vm.language.order import order_of
from stepward.vm.language.steps import AnyStep, ParallelStep, ToolCall, WaitStep
from stepward.vm.language.types import TypeSpec
from stepward.vm.values import MAX_DIGITS, FrozenMap

Location = tuple[Source, tuple[str, ...]]
"""An input or an output, and its field that a step reads."""

MAX_TRIES: Final = 150
"""The most runs in the search for one witness."""

_TIMES: Final = {
    "until": TypeSpec(type=("string",), enum=("2030-01-01T00:00:00Z",)),
    "seconds": TypeSpec(type=("integer",), enum=(1,)),
}
"""Types of which each value is a time to wait, by the field that says it."""


class Valueless(Exception):  # noqa: N818 - reads better where it is caught than with a suffix
    """No value of a type was found."""


def parts_of(step: ParallelStep, ending: str) -> Iterator[tuple[Does, ...]]:
    """Yield the behaviours of the sub-steps for which a parallel step ends as `ending` says, the simplest first."""
    if ending == USED_UP:
        yield ()
        return
    options: list[list[Does]] = []
    for part in step.parallel_steps:
        does: list[Does] = ["returns"]
        if part.on_error == "skip" or ending != "succeeds":
            does.append("fails")
        if part.on_timeout == "fallback":
            does.append("times out")
        options.append(does)
    order = order_of(step)
    for combination in islice(few_first(options), 64):
        fails = [does == "fails" for does in combination]
        if order is not None:
            for sub in order.line:
                fails[sub] = fails[sub] or any(fails[one] for one in order.needs[sub])
        failed = any(one and part.on_error != "skip" for part, one in zip(step.parallel_steps, fails, strict=True))
        if failed == (ending != "succeeds"):
            yield combination


def use_types(step: AnyStep, location: Location, meaning: Meaning) -> Iterator[TypeSpec]:
    """Yield the types of the arguments that a step fills from a source, or of the time for which it waits."""
    if isinstance(step, WaitStep):
        yield _TIMES[step.field]
    for _, call in step.calls:
        if not isinstance(call, ToolCall):
            continue
        for name, spec in (meaning.tool(call.tool).args or {}).items():
            for part in embedded(call.args.get(name)):
                resolution = meaning.names.meaning(part.reference.names)
                if (
                    part.whole
                    and resolution is not None
                    and location[1] == resolution.fields
                    and location[0] in resolution.sources
                ):
                    yield spec


def distinguishing_values(trees: Iterable[Expression]) -> Iterator[Any]:
    """Yield the values that comparisons in some expressions may distinguish."""
    for node in chain.from_iterable(map(walk, trees)):
        if isinstance(node, Constant):
            yield from beside(node.value)


def too_long(trees: Iterable[Expression]) -> Iterator[int]:
    """Yield numbers with which a calculation may have a result of too many digits."""
    if any(isinstance(node, Arithmetic | Minus) for node in chain.from_iterable(map(walk, trees))):
        yield from (10**MAX_DIGITS - 1, 1 - 10**MAX_DIGITS)


def few_first(choices: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield one choice from every list, first those with few choices other than the first of their list."""
    yield from _from(choices, 0)


def with_equal_changes(choices: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield choices from every list as `few_first` does; after single changes those in which all lists change alike.

    What is multiplied needs every number above zero, for example.
    """
    for number in (0, 1):
        yield from _with_changes(choices, number, 0)
    longest = max(map(len, choices), default=0)
    if len(choices) > 1:
        yield from (tuple(options[min(at, len(options) - 1)] for options in choices) for at in range(1, longest))
    yield from _from(choices, 2)


def _from(choices: list[list[Any]], least: int) -> Iterator[tuple[Any, ...]]:
    """Yield choices with at least so many changes; with more than two of them only if there are few lists."""
    for number in range(least, len(choices) + 1):
        if number <= 2 or len(choices) <= 4:
            yield from _with_changes(choices, number, 0)


def _with_changes(choices: list[list[Any]], changes: int, start: int) -> Iterator[tuple[Any, ...]]:
    if changes == 0:
        yield tuple(options[0] for options in choices[start:])
        return
    for position in range(start, len(choices) - changes + 1):
        before = tuple(options[0] for options in choices[start:position])
        for option, after in product(
            choices[position][1:], list(islice(_with_changes(choices, changes - 1, position + 1), MAX_TRIES))
        ):
            yield (*before, option, *after)


def below(spec: TypeSpec | None, fields: tuple[str, ...]) -> TypeSpec | None:
    """Return the type of a field or item of a type; None where it has none."""
    for name in fields:
        if spec is not None:
            spec = spec.items if name[:1] == "[" else (spec.properties or {}).get(name)
    return spec


def replaced(value: Any, fields: tuple[str, ...], inner: Any) -> Any:
    """Return a value with another value in one of its fields or items; an array that is too short repeats it."""
    if not fields:
        return inner
    items = value if isinstance(value, tuple) else ()
    if fields[0] == ITEMS:  # all items alike
        return tuple(replaced(item, fields[1:], inner) for item in items)
    number = index_of(fields[0])
    if number is not None:
        item_replaced = replaced(items[number] if number < len(items) else None, fields[1:], inner)
        return (*items[:number], *[item_replaced] * (number - len(items)), item_replaced, *items[number + 1 :])
    fields_before = value if isinstance(value, dict) else {}
    return FrozenMap({**fields_before, fields[0]: replaced(fields_before.get(fields[0]), fields[1:], inner)})
