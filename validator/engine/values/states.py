"""States of a condition: the values of its references, and the evaluator's result for them.

A state that a layer finds counts only when the machine's evaluator shows its claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stepward.validator.engine.values.domains import Domains, Names
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import Lookup, evaluate_condition
from stepward.vm.expressions.syntax import Expression, all_references
from stepward.vm.values import to_json

State = Mapping[Names, Any]
"""The values of references by name; undefined references are left out."""

_LONGEST: Final = 60


def references_of(trees: Iterable[Expression]) -> list[Names]:
    """Return the references that conditions read or test, in the order of the text, each once."""
    return list(dict.fromkeys(reference.names for tree in trees for reference in all_references(tree)))


def with_owners(names: Iterable[Names], domains: Domains) -> list[Names]:
    """Return references with their owners, owners first."""
    found: dict[Names, None] = {}
    for name in names:
        chain = [name]
        while (owner := domains.parent(chain[-1])) is not None:
            chain.append(owner)
        found.update(dict.fromkeys(reversed(chain)))
    return list(found)


def outcome(tree: Expression, state: State) -> bool | None:
    """Return the value of a condition in a state; None where it fails."""

    def lookup(names: Names) -> Any:
        if names not in state:
            raise UndefinedReferenceError(".".join(names))
        return state[names]

    try:
        return evaluate_condition(tree, lookup)
    except EvaluationError:
        return None


def decided(trees: Iterable[Expression], lookup: Lookup) -> int | None:
    """Return the position of the first expression that holds, -1 if none holds; None where one fails before.

    `lookup` raises UndefinedReferenceError where a reference has no value.
    """
    for number, tree in enumerate(trees):
        try:
            if evaluate_condition(tree, lookup):
                return number
        except EvaluationError:
            return None
    return -1


def is_possible(state: State, names: Iterable[Names], domains: Domains) -> bool:
    """Return whether each value is in its reference's domain, and each object has its required fields."""
    for name in names:
        domain, owner = domains.of(name), domains.parent(name)
        has_owner = owner is None or isinstance(state.get(owner), dict)
        if name in state:
            if not has_owner or not domain.allows(state[name]):
                return False
        elif has_owner and not domain.undefined:
            return False
    return True


def shown(state: State, names: Iterable[Names]) -> str:
    """Return the values of references in the words of a message: `$amount` is 500."""
    return " and ".join(f"`${'.'.join(name)}` is {_value(state, name)}" for name in names)


def _value(state: State, name: Names) -> str:
    if name not in state:
        return "undefined"
    if isinstance(state[name], dict):
        return "an object"
    text = to_json(state[name])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
