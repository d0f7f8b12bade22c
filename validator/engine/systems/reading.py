"""The question whether what a `set` or `carry` reads can be read: it is asked where an assignment succeeds or fails."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision, Guard
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.inside import asked_parts, bases
from stepward.vm.expressions.operands import is_condition
from stepward.vm.expressions.syntax import Compare, Constant, Defined, Expression, Logic, Negation, Reference, walk


def conditions_of(
    trees: Iterable[Expression], doubtful: Container[Names], not_null: Container[Names]
) -> list[Expression]:
    """Return the conditions under which assigned expressions can be read: defined, and not null where needed.

    The references that a condition among them reads may depend on values read before: so the condition has to have a
    value.
    """
    parts = [part for tree in trees for part in (*bases(tree), *asked_parts(tree))]
    names = references_of(part for part in parts if not is_condition(part))
    conditions: list[Expression] = [Defined(0, 0, Reference(0, 0, name)) for name in names if name in doubtful]
    conditions += [
        Compare(0, 0, "!=", Reference(0, 0, name), Constant(0, 0, None)) for name in names if name in not_null
    ]
    for part in filter(is_condition, parts):
        if any(name in doubtful or name in not_null for name in references_of([part])):
            conditions.append(Logic(0, 0, "or", (part, Negation(0, 0, part))))
    return conditions


def unread(readable: Decision) -> Iterator[Guard]:
    """Yield the guards under which something can't be read."""
    yield Guard(readable, NONE_HOLDS)
    if any(isinstance(node, Negation) for tree in readable.trees for node in walk(tree)):
        yield Guard(readable, FAILS)
