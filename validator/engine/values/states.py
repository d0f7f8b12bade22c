"""States of a condition: the values of its references, and the evaluator's result for them.

A state that a layer finds counts only when the machine's evaluator shows its claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from stepward.validator.engine.values.domains import Domain, Domains, Names
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import Lookup, evaluate, evaluate_condition
from stepward.vm.expressions.fields import index_of, part, written
from stepward.vm.expressions.syntax import Expression, all_references
from stepward.vm.values import to_json

State = Mapping[Names, Any]
"""The values of references by name; undefined references are left out."""

UNDEFINED: Final = object()
"""Stands for the value of a reference that has none."""

_LONGEST: Final = 60


def references_of(trees: Iterable[Expression]) -> list[Names]:
    """Return the references that conditions read or test, in the order of the text, each once."""
    return list(dict.fromkeys(reference.names for tree in trees for reference in all_references(tree)))


def with_owners(names: Iterable[Names], domains: Domains) -> list[Names]:
    """Return references with their owners, owners first."""
    references: dict[Names, None] = {}
    for name in names:
        chain = [name]
        while (owner := domains.parent(chain[-1])) is not None:
            chain.append(owner)
        references.update(dict.fromkeys(reversed(chain)))
    return list(references)


def lookup_in(state: State) -> Lookup:
    """Return the function by which the evaluator reads a state."""

    def lookup(names: Names) -> Any:
        if names not in state:
            raise UndefinedReferenceError(written(names))
        return state[names]

    return lookup


def value_of(tree: Expression, state: State) -> Any:
    """Return the value of an expression in a state; UNDEFINED where it fails."""
    try:
        return evaluate(tree, lookup_in(state))
    except EvaluationError:
        return UNDEFINED


def outcome(tree: Expression, state: State) -> bool | None:
    """Return the value of a condition in a state; None where it fails."""
    try:
        return evaluate_condition(tree, lookup_in(state))
    except EvaluationError:
        return None


def within(value: Any, fields: Sequence[str]) -> Any:
    """Return a field of a value; UNDEFINED where there is none."""
    for name in fields:
        value = part(value, name, UNDEFINED)
    return value


def holds(owner: Any, name: str) -> bool:
    """Return whether a value may have a field, or certainly has an item; `name` is that of a field or an index.

    The value is a representative of its class: an object without fields stands for all objects, an array for those of
    its length.
    """
    number = index_of(name)
    return isinstance(owner, dict) if number is None else isinstance(owner, tuple) and number < len(owner)


def is_required(names: Names, domain: Domain) -> bool:
    """Return whether a field is there wherever its owner may have it; an item of an array always is."""
    return not domain.undefined or index_of(names[-1]) is not None


def is_possible(state: State, names: Iterable[Names], domains: Domains) -> bool:
    """Return whether each value is in its reference's domain, and each object has its required fields."""
    for name in names:
        domain, owner = domains.of(name), domains.parent(name)
        has_owner = owner is None or holds(state.get(owner), name[-1])
        if name in state:
            if not has_owner or not domain.allows(state[name]):
                return False
        elif has_owner and is_required(name, domain):
            return False
    return True


def shown(state: State, names: Iterable[Names]) -> str:
    """Return the values of references in the words of a message: `$amount` is 500."""
    return " and ".join(f"`${written(name)}` is {_value(state, name)}" for name in names)


def _value(state: State, name: Names) -> str:
    if name not in state:
        return "undefined"
    if isinstance(state[name], dict):
        return "an object"
    text = to_json(state[name])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
