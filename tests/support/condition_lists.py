"""Lists of conditions, the types of what they read, and what the evaluator says of them, state by state.

Helpers only; no tests stand here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

from stepward.validator.engine.cases import Cases
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import State, outcome
from stepward.vm import Meaning, Program
from stepward.vm.language.types import refusal
from stepward.vm.values import FrozenMap

Pools = dict[tuple[str, ...], list[Any]]
GONE = object()

FEW: dict[str, Any] = {
    "ok": {"type": "boolean"},
    "n": {"type": "integer", "minimum": 0, "maximum": 3},
    "m": {"type": ["integer", "null"], "minimum": 1, "maximum": 2},
    "e": {"type": "string", "enum": ["x", "xy", "z"]},
    "p": {"type": "number", "enum": [0, 0.5, 2]},
}
FEW_POOLS: Pools = {
    ("ok",): [True, False],
    ("n",): [0, 1, 2, 3],
    ("m",): [1, 2, None],
    ("e",): ["x", "xy", "z"],
    ("p",): [0, Decimal("0.5"), 2],
    ("r",): ["u", "v", GONE],
}
MANY: dict[str, Any] = {
    "a": {"type": "number"},
    "b": {"type": "integer"},
    "c": {"type": ["number", "null"], "minimum": 0},
    "s": {"type": "string"},
    "t": {"type": "string", "maxLength": 3},
    "l": {"type": "array", "items": {"type": "integer"}},
    "o": {"type": "object", "properties": {"f": {"type": "number"}, "g": {"type": "boolean"}}, "required": ["g"]},
    "any": {},
}
ANYTHING = [None, True, False, 1, 0, "a", "", (), FrozenMap()]
_NUMBERS = [0, 1, 2, 3, -1, Decimal("0.5"), Decimal("1.5"), Decimal("2.5"), 4, 100, -7]
_TEXTS = ["", "a", "b", "ab", "ba", "aba", "abc", "aab", "xab", "x", "bxa", "abxba", "aabb"]
MANY_POOLS: Pools = {
    ("a",): _NUMBERS,
    ("b",): [number for number in _NUMBERS if isinstance(number, int)],
    ("c",): [None, *(number for number in _NUMBERS if number >= 0)],
    ("s",): _TEXTS,
    ("t",): [text for text in _TEXTS if len(text) <= 3],
    ("l",): [(), (1,), (2,), (1, 2), (3,), (0, 0, 0)],
    ("o",): [FrozenMap({"g": True}), FrozenMap({"g": False, "f": 1}), FrozenMap({"g": True, "f": Decimal("0.5")})],
    ("r",): ["u", "v", GONE],
}


def program(inputs: dict[str, Any], conditions: list[str]) -> Program:
    return Program.from_dict(
        {
            "language": 2,
            "inputs": inputs,
            "steps": [
                {"id": "ask", "type": "llm", "prompt": "u or v?", "output_key": "r", "allowed_outputs": ["u", "v"]},
                {"id": "c", "type": "condition", "cases": [{"when": one, "then": "e"} for one in conditions]},
                {"id": "e", "type": "end"},
            ],
        }
    )


def cases_of(inputs: dict[str, Any], conditions: list[str], *, by_solver: bool = False) -> Cases:
    """Return conditions over inputs; `by_solver` leaves them to the solver alone."""
    meaning = Meaning(program(inputs, conditions))
    trees = [clause.tree for clause in meaning.clauses_of[1]]
    assert all(tree is not None for tree in trees), conditions
    cases = Cases([tree for tree in trees if tree is not None], Domains(meaning), UNLIMITED)
    if by_solver:
        cases.__dict__.update(finite=None, calculated=None)
    return cases


# -- conditions that mean something ----------------------------------------------------------------------------------


def few_atom(random: Random) -> str:
    number = random.choice(["$n", "$m", "$p", "$n + 1", "2 * $n", "$n * $m", "-$p", "len($e)", "$n - $p"])
    order, bound = random.choice(["<", "<=", ">", ">=", "==", "!="]), random.choice(["0", "1", "2", "0.5", "$n"])
    question = random.choice(["contains", "not contains", "starts_with", "ends_with"])
    return random.choice(
        [
            f"{number} {order} {bound}",
            f"$e {random.choice(['==', '!='])} '{random.choice(['x', 'xy', 'z'])}'",
            f"$e {question} '{random.choice(['x', 'y', ''])}'",
            f"$e {random.choice(['in', 'not in'])} ['x', '{random.choice(['xy', 'z'])}']",
            f"{random.choice(['$n', '$p', '$m'])} in [1, 2]",
            random.choice(["$ok", "$ok == false", "not $ok", "$m == null", "$m != null", "defined($r)"]),
            f"$r == '{random.choice('uv')}'",
            f"{random.choice(['upper($e)', 'upper(trim($e))'])} {random.choice(['==', '!='])} 'X'",
            f"matches($e, '{random.choice(['^x', 'y$', '^.$'])}')",
        ]
    )


def sum_atom(random: Random) -> str:
    number = random.choice(["$n + $p", "$n - $p", "-$p", "$m * $n", "$m + 1"])
    order, bound = random.choice(["<", "<=", ">", ">=", "==", "!="]), random.choice(["0", "1", "0.5"])
    return random.choice([f"{number} {order} {bound}"] * 5 + [few_atom(random)])


def many_atom(random: Random) -> str:
    number = random.choice(["$a", "$a", "$b", "$b", "$c", "$a + $b", "2 * $b", "$a - $c", "$o.f", "len($s)", "len($l)"])
    bound = random.choice(["0", "1", "2", "2.5", "$a", "$b"])
    text, literal = random.choice(["$s", "$s", "$t"]), random.choice(["a", "b", "ab", "ba", "aba", ""])
    return random.choice(
        [
            f"{number} {random.choice(['<', '<=', '>', '>=', '==', '!='])} {bound}",
            f"{number} {random.choice(['<', '>='])} {bound}",
            f"{text} {random.choice(['==', '!=', 'contains', 'not contains', 'starts_with', 'ends_with'])} '{literal}'",
            f"'{literal}' {random.choice(['contains', 'starts_with'])} {text}",
            f"$s {random.choice(['==', 'contains', '!='])} $t",
            f"{random.choice(['1', '2', '$b'])} {random.choice(['in', 'not in'])} $l",
            f"{random.choice(['lower', 'upper', 'trim'])}({text}) {random.choice(['==', '!='])} '{literal}'",
            f"matches({text}, '{random.choice(['^a', 'b$', 'ab'])}')",
            f"$any == {random.choice(['1', 'null', repr('a'), 'true'])}",
            random.choice(["$c == null", "$o.g", "not $o.g", "defined($o.f)", "defined($r)", "$r == 'u'"]),
        ]
    )


def condition(random: Random, atom: Callable[[Random], str], depth: int = 2) -> str:
    shape = random.random()
    if depth == 0 or shape < 0.35:
        return atom(random)
    if shape < 0.5:
        return f"not ({condition(random, atom, depth - 1)})"
    word = random.choice([" and ", " or "])
    return word.join(f"({condition(random, atom, depth - 1)})" for _ in range(random.choice([2, 2, 3])))


def lists(seed: int, count: int, atom: Callable[[Random], str]) -> Iterator[list[str]]:
    random = Random(f"{atom.__name__}/{seed}")
    return ([condition(random, atom) for _ in range(random.choice([1, 2, 2, 3]))] for _ in range(count))


# -- what the evaluator says -----------------------------------------------------------------------------------------


def values_of(cases: Cases, state: State) -> list[bool | None]:
    return [outcome(tree, state) for tree in cases.trees]


def taken_by(values: list[bool | None]) -> int | None:
    """Return the case that is taken; None where none is, because all are false or because one fails first."""
    first = next((number for number, value in enumerate(values) if value is not False), None)
    return None if first is None or values[first] is None else first


def is_gap(values: list[bool | None]) -> bool:
    return all(value is False for value in values)


def is_overlap(values: list[bool | None]) -> bool:
    first = taken_by(values)
    return first is not None and True in values[first + 1 :]


def flat(names: list[tuple[str, ...]], roots: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """Return the values of references, given those of variables."""
    found = {}
    for name in names:
        value = roots[name[:1]]
        for field in name[1:]:
            value = value.get(field, GONE) if isinstance(value, dict) else GONE
        if value is not GONE:
            found[name] = value
    return found


def every_state(cases: Cases, pools: Pools) -> Iterator[State]:
    roots = sorted({name[:1] for name in cases.names})
    for values in itertools.product(*(pools[root] for root in roots)):
        yield flat(cases.names, dict(zip(roots, values, strict=True)))


def sampled_states(conditions: list[str], cases: Cases, random: Random, count: int) -> Iterator[State]:
    pools = {**MANY_POOLS, ("any",): [value for value in ANYTHING if is_admitted(conditions, value)]}
    if pools["any",]:
        for _ in range(count):
            roots = {name[:1]: random.choice(pools[name[:1]]) for name in cases.names}
            yield flat(cases.names, roots)


def is_admitted(conditions: list[str], value: Any) -> bool:
    """Return whether the machine would take the value for the input that has no declared type."""
    meaning = Meaning(program(MANY, conditions))
    spec = meaning.typing.effective(meaning.names.variables["any"][0])
    return spec is None or refusal(value, spec) is None
