"""Values to attack with, made from what a program says: its types, and the constants of its conditions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Constant, Expression, walk
from stepward.vm.language.guardrails import Never
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.patterns.languages import shortest
from stepward.vm.values import freeze

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NEAR: Final = (0, 1, -1, Decimal("0.01"), Decimal("-0.01"))
"""The distances from a threshold at which values are tried."""

TRICKY_TEXTS: Final = (
    "",
    "$",
    "$$",
    "#",
    "##n1",
    "a\x00b",
    "\u202eevil",
    "yes\n",
    "𝔘nicode",
    "' or true or '",
    "null",
)
"""Texts that some reader takes for another value."""

MAX_ITEMS: Final = 3

MAX_EXAMPLES: Final = 16
"""The number of shortest texts of a pattern that are tried."""


class Constants:
    """The constants in the conditions of a program and its policies. Behaviour changes at these values."""

    def __init__(self, meaning: Meaning) -> None:
        found = [node.value for tree in _conditions(meaning) for node in walk(tree) if isinstance(node, Constant)]
        scalars = [part for value in found for part in (value if isinstance(value, tuple) else (value,))]
        numbers = {value for value in scalars if isinstance(value, int | Decimal) and not isinstance(value, bool)}
        beside = {number + step for number in numbers for step in NEAR}
        self.numbers: tuple[int | Decimal, ...] = tuple(sorted(beside | {0, 1, -1}, key=lambda n: (abs(n), n)))
        self.texts: tuple[str, ...] = tuple(sorted({value for value in scalars if isinstance(value, str)}))


def _conditions(meaning: Meaning) -> Iterable[Expression]:
    yield from (clause.tree for clause in meaning.clauses if clause.tree is not None)
    texts = [rule.when for rule, _ in meaning.rules if isinstance(rule, Never)]
    texts += [entry.when for policy in meaning.policies for entry in policy.allow or ()]
    yield from (parse(text) for text in texts if text is not None)


def values_of(spec: TypeSpec | None, constants: Constants) -> SearchStrategy[Any]:
    """Return a strategy for values of a type, the simplest first, or for all values if there is no type."""
    from hypothesis import strategies as st

    if spec is None:
        return st.one_of(st.none(), st.booleans(), _numbers(None, constants, whole=False), _texts(None, constants))
    if spec.enum is not None:
        return st.sampled_from([_plain(member) for member in spec.enum])
    by_kind = [_MAKERS[kind](spec, constants) for kind in sorted(spec.kinds, key=list(_MAKERS).index)]
    return st.one_of(by_kind).filter(lambda value: refusal(value, spec) is None)


def _numbers(spec: TypeSpec | None, constants: Constants, *, whole: bool) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    bounds = (None, None) if spec is None else (spec.lower_bound, spec.upper_bound)
    low, high = (None if bound is None else bound.number for bound in bounds)

    def fits(number: int | Decimal) -> bool:
        return (spec is None or refusal(number, spec) is None) and not (whole and number % 1)

    ends = [end for end in (low, high) if end is not None and fits(end)]
    near = [number for number in (*constants.numbers, *ends) if fits(number)]
    least = None if low is None else int(-(-low // 1))
    most = None if high is None else int(high // 1)
    kinds: list[SearchStrategy[Any]] = [st.sampled_from(near)] if near else []
    if least is None or most is None or least <= most:
        kinds.append(st.integers(least, most) if most is None or most < 10**6 else st.integers(least, 10**6))
    if not whole:
        kinds.append(st.decimals(low, high, allow_nan=False, allow_infinity=False, places=2))
    return st.one_of(kinds)


def _texts(spec: TypeSpec | None, constants: Constants) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if spec is not None and spec.pattern is not None:
        return _matching(spec.pattern, spec.max_length)
    longest = 20 if spec is None or spec.max_length is None else min(20, spec.max_length)
    known = [text for text in (*constants.texts, *TRICKY_TEXTS) if len(text) <= longest]
    dates = st.dates(datetime.date(2020, 1, 1), datetime.date(2030, 1, 1)).map(str)
    least = 0 if spec is None or spec.min_length is None else spec.min_length
    if least:
        return st.text(st.characters(codec="utf-8"), min_size=least, max_size=max(least, longest))
    free = st.text(st.characters(codec="utf-8"), max_size=longest)
    return st.one_of(st.sampled_from(known), free, dates) if longest >= 10 else st.one_of(st.sampled_from(known), free)


def _matching(pattern: str, longest: int | None) -> SearchStrategy[Any]:
    """Return a strategy for texts that match a pattern: the shortest ones, and those that Hypothesis generates.

    Hypothesis reads Python's regular expressions. Within ASCII most of them have the same meaning in RE2.
    """
    import re
    import warnings

    from hypothesis import strategies as st

    found = shortest(pattern, longest, MAX_EXAMPLES)
    kinds: list[SearchStrategy[Any]] = [st.sampled_from(found)] if found else []
    if pattern.isascii():
        try:
            with warnings.catch_warnings(action="error"):  # for syntax whose meaning differs from RE2's
                read = re.compile(pattern)
        except (re.error, Warning):
            pass
        else:
            kinds.append(st.from_regex(read, fullmatch=True, alphabet=st.characters(codec="ascii")))
    return st.one_of(kinds)


def _arrays(spec: TypeSpec, constants: Constants) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    least = spec.min_items or 0
    most = MAX_ITEMS if spec.max_items is None else spec.max_items
    return st.lists(values_of(spec.items, constants), min_size=least, max_size=max(least, min(most, MAX_ITEMS)))


def _objects(spec: TypeSpec, constants: Constants) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    known: Mapping[str, TypeSpec] = spec.properties or {}
    always = {name: values_of(known.get(name), constants) for name in spec.required}
    maybe = {name: values_of(inner, constants) for name, inner in known.items() if name not in always}
    return st.fixed_dictionaries(always, optional=maybe)


def _nothing(_: TypeSpec, __: Constants) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    return st.none()


def _truths(_: TypeSpec, __: Constants) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    return st.booleans()


_MAKERS: Final = {
    "boolean": _truths,
    "integer": lambda spec, constants: _numbers(spec, constants, whole=True),
    "number": lambda spec, constants: _numbers(spec, constants, whole=False),
    "string": _texts,
    "object": _objects,
    "array": _arrays,
    "null": _nothing,
}

_OTHERS: Final[tuple[Any, ...]] = (None, True, -7, Decimal("0.5"), "other", [], {}, [1, [2, [3]]], {"next_step": "end"})


def others_than(spec: TypeSpec, constants: Constants) -> SearchStrategy[Any]:
    """Return a strategy for values that are not of a type. It is empty for a type that accepts all values."""
    from hypothesis import strategies as st

    wrong = [value for value in (*_OTHERS, *constants.texts, *TRICKY_TEXTS) if refusal(freeze(value), spec) is not None]
    beyond = [end for end in (_below(spec), _above(spec)) if end is not None and refusal(end, spec) is not None]
    return st.sampled_from([*wrong, *beyond]) if wrong or beyond else st.nothing()


def _below(spec: TypeSpec) -> Any:
    return None if spec.minimum is None else spec.minimum - 1


def _above(spec: TypeSpec) -> Any:
    return None if spec.maximum is None else spec.maximum + 1


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
