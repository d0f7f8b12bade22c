"""Systems by hand and at random, and a search of their concrete states that shares nothing with the solver layers.

Helpers only; no tests stand here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from random import Random
from typing import Any

from stepward.validator.engine.systems.system import (
    BAD,
    ENTRY,
    FAILS,
    NONE_HOLDS,
    AnyValue,
    Assign,
    CompressedEdge,
    Computed,
    Decision,
    Edge,
    Guard,
    Literal,
    Path,
    System,
    Undefined,
)
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import with_owners
from stepward.vm import Meaning, Program
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate, evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Reference
from stepward.vm.values import FrozenMap, freeze

PROGRAM = {
    "name": "systems",
    "inputs": {
        "ok": {"type": "boolean"},
        "n": {"type": "integer", "minimum": 0, "maximum": 3},
        "e": {"type": "string", "enum": ["x", "y", "z"]},
        "o": {
            "type": "object",
            "properties": {"p": {"type": "boolean"}, "q": {"type": "integer", "minimum": 0, "maximum": 1}},
            "required": ["p"],
            "additionalProperties": False,
        },
        "price": {"type": "number", "minimum": 0, "maximum": 1000},
        "whole": {"type": "integer"},
        "text": {"type": "string"},
        "other": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string"}},
    },
    "steps": [
        {"id": "ask", "type": "llm", "prompt": "?", "allowed_outputs": ["y", "w"], "output_key": "t"},
        {"id": "rate", "type": "llm", "prompt": "?", "returns": {"type": "integer", "minimum": 1, "maximum": 2}},
        {"id": "talk", "type": "llm", "prompt": "?", "returns": {"type": "string"}},
        {"id": "calc", "type": "set", "set": {"f": True, "g": True, "m": 0, "k": 0, "u": "'a'", "v": "'a'", "c": "$o"}},
        {"id": "done", "type": "end"},
    ],
}
MEANING = Meaning(Program.model_validate(PROGRAM))
DOMAINS = Domains(MEANING)
VALUES: dict[str, list[Any]] = {
    "ok": [True, False],
    "n": [0, 1, 2, 3],
    "e": ["x", "y", "z"],
    "o": [FrozenMap(p=p, **q) for p in (True, False) for q in ({}, {"q": 0}, {"q": 1})],
    "ask.output": ["y", "w"],
    "rate.output": [1, 2],
}
FEW_INPUTS = ("ok", "n", "e", "o")
FEW_ROOTS = ("f", "g", "m", "k", "u", "v", "c", "ask.output", "rate.output", "f'", "m'")
FAR = 9
"""Numbers beyond are not followed by the search."""

_GONE = object()


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


def source(text: str) -> Any:
    meant = MEANING.names.meaning(names(text))
    assert meant is not None
    return meant.sources[0]


def given(text: str, *, maybe: bool = False) -> AnyValue:
    return AnyValue(source(text), maybe)


def to(root: str, value: Any) -> Assign:
    """Assign: a value of the system, or the text of an expression after `=`, or what a literal is."""
    if isinstance(value, str) and value.startswith("="):
        is_primed = value.endswith("'") and value.count("'") == 1  # such a name can't be written in a program
        value = Computed(Reference(0, 0, names(value[2:])) if is_primed else parse(value[1:]))
    elif not isinstance(value, AnyValue | Computed | Undefined | Literal):
        value = Literal(freeze(value))
    return Assign(names(root), value)


def when(*texts: str) -> Decision:
    return Decision(tuple(parse(text) for text in texts))


def edge(target: int, *parts: Guard | Assign) -> Edge:
    guards = tuple(part for part in parts if isinstance(part, Guard))
    assigns = tuple(part for part in parts if isinstance(part, Assign))
    return Edge(target, guards, assigns, 1, CompressedEdge(0, None, (), (0, 0)))


def holds(text: str) -> Guard:
    return Guard(when(text), 0)


def system(*edges: Iterable[Edge], inputs: Iterable[str] = FEW_INPUTS, roots: Iterable[str] = FEW_ROOTS) -> System:
    """A system of nodes by their edges; the inputs are tracked, and so are all roots that edges assign."""
    ways = tuple(tuple(one) for one in edges)
    written = {assign.root for one in ways for each in one for assign in each.assigns}
    given_ones = tuple((names(name), source(name)) for name in inputs)
    tracked = frozenset({root for root, _ in given_ones} | written | {names(root) for root in roots})
    return System(ways, tracked, given_ones)


# -- the search of concrete states -----------------------------------------------------------------------------------

Concrete = tuple[tuple[tuple[str, ...], Any], ...]


def read(state: dict[tuple[str, ...], Any], name: tuple[str, ...]) -> Any:
    for size in range(len(name), 0, -1):
        if name[:size] in state:
            value = state[name[:size]]
            for field in name[size:]:
                if not isinstance(value, dict) or field not in value:
                    raise UndefinedReferenceError(".".join(name))
                value = value[field]
            return value
    raise UndefinedReferenceError(".".join(name))


def outcome_at(decision: Decision, state: dict[tuple[str, ...], Any]) -> int:
    for number, tree in enumerate(decision.trees):
        try:
            if evaluate_condition(tree, lambda name: read(state, name)):
                return number
        except EvaluationError:
            return FAILS
    return NONE_HOLDS


def after(
    one: Edge, state: dict[tuple[str, ...], Any], hints: Mapping[tuple[str, ...], Any] | None = None
) -> Iterator[dict[tuple[str, ...], Any]]:
    """Every state after an edge; of what has many values those that are hinted at."""
    if any(outcome_at(guard.decision, state) != guard.outcome for guard in one.guards):
        return
    states = [state]
    for assign in one.assigns:
        states = [new for old in states for new in _assigned(assign, old, hints or {})]
    yield from states


def _assigned(
    assign: Assign, state: dict[tuple[str, ...], Any], hints: Mapping[tuple[str, ...], Any]
) -> Iterator[dict[tuple[str, ...], Any]]:
    rest = {root: value for root, value in state.items() if root != assign.root}
    match assign.value:
        case AnyValue(source=origin, maybe=maybe):
            name = origin.name + (".output" if origin.kind == "output" else "")
            values = VALUES.get(name) or ([hints[assign.root]] if assign.root in hints else [])
            yield from ({**rest, assign.root: value} for value in values)
            if maybe:
                yield rest
        case Literal(value=value):
            yield {**rest, assign.root: freeze(value)}
        case Computed(tree=tree):
            try:
                yield {**rest, assign.root: evaluate(tree, lambda name: read(state, name))}
            except EvaluationError:
                return
        case _:
            yield rest


def starts(of: System, hints: Mapping[tuple[str, ...], Any] | None = None) -> Iterator[dict[tuple[str, ...], Any]]:
    """Every state at the entry; of what has many values those that are hinted at."""
    roots = [root for root, _ in of.inputs if ".".join(root) in VALUES or root in (hints or {})]
    pools = [VALUES.get(".".join(root)) or [(hints or {})[root]] for root in roots]
    for values in itertools.product(*pools):
        yield dict(zip(roots, values, strict=True))


def is_reachable(of: System) -> bool | None:
    """Whether BAD can be reached; None where numbers grow so far that this is not known."""
    seen: set[tuple[int, Any]] = set()
    pending = [(ENTRY, state) for state in starts(of)]
    is_whole = True
    while pending:
        node, state = pending.pop()
        key = (node, frozenset((root, type(value), value) for root, value in state.items()))
        if key in seen:
            continue
        seen.add(key)
        if any(isinstance(value, int | Decimal) and abs(value) > FAR for value in state.values()):
            is_whole = False
            continue
        for one in of.edges[node]:
            for new in after(one, state):
                if one.target == BAD:
                    return True
                pending.append((one.target, new))
    return False if is_whole else None


def is_walked(of: System, path: Path) -> bool:
    """Whether a path is one of the system: some concrete run takes its edges, and has the values of its steps."""
    said = dict.fromkeys(name for state in (path.before, *(step.after for step in path.steps)) for name in state)
    known = with_owners(
        [*of.references, *said], DOMAINS
    )  # a path may have fields that only a copy of their object is asked for
    node = ENTRY
    states = [state for state in starts(of, path.before) if projected(state, known) == typed(path.before)]
    for step in path.steps:
        if step.node != node or not any(step.edge is one for one in of.edges[node]):
            return False
        states = [new for old in states for new in after(step.edge, old, step.after)]
        states = distinct(state for state in states if projected(state, known) == typed(step.after))
        node = step.edge.target
    return node == BAD and bool(states)


def projected(state: dict[tuple[str, ...], Any], known: list[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
    found = {}
    for name in known:
        try:
            found[name] = read(state, name)
        except UndefinedReferenceError:
            continue
    return typed(found)


def typed(state: Mapping[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """A state in which true is not 1; fields are spoken of on their own."""
    return {name: (type(value), {} if isinstance(value, dict) else value) for name, value in state.items()}


def distinct(states: Iterable[dict[tuple[str, ...], Any]]) -> list[dict[tuple[str, ...], Any]]:
    return list(
        {frozenset((root, type(value), value) for root, value in state.items()): state for state in states}.values()
    )


# -- at random -------------------------------------------------------------------------------------------------------

_CONDITIONS = (
    "$ok", "$f", "not $g", "$n > 1", "$n == 2", "$m == 1", "$m < $n", "$k >= 2", "$m + $k == 3", "$e == 'y'",
    "$u == $e", "$u != 'w'", "$v == 'x'", "$u == $v", "$v in ['y', 'z']", "defined($f)", "not defined($u)",
    "$o.p", "defined($o.q)", "$o.q == 1", "$c.p", "$c.q == 0", "$rate.output > 1",
    "defined($c.q) and $c.q == 1", "$ask.output == 'w'",
    "$f or $ok", "$f == $g", "$u starts_with 'x'", "len($v) == 1", "$m * 2 == $k", "$v contains 'y'", "$m == 2 - $n",
)  # fmt: skip
_ASSIGNED: tuple[tuple[str, Any], ...] = (
    ("f", True), ("f", False), ("f", "=$ok"), ("f", "=$g"), ("f", "=not $f"), ("f", "=$n > 1"), ("f", Undefined()),
    ("g", True), ("g", False), ("g", "=$f"), ("g", "=$f and $ok"), ("g", Undefined()), ("m", 0), ("m", 1), ("m", "=$n"),
    ("m", "=$m + 1"), ("m", "=$k"), ("k", "=$m"), ("k", 0), ("k", "=$k + 2"), ("k", "=$n - $m"), ("k", "=$rate.output"),
    ("u", "w"), ("u", "=$e"), ("u", "=$v"), ("u", "=$ask.output"), ("v", "x"), ("v", "=$u"), ("v", "=$e"),
    ("v", Undefined()), ("c", "=$o"), ("c", {"p": False}), ("c", {"p": True, "q": 1}), ("f", "=$c.p"), ("k", "=$c.q"),
    ("f'", "=$g"), ("g", "=$f'"), ("m'", "=$k"), ("k", "=$m'"), ("c", 1), ("m", None),
)  # fmt: skip
_GIVENS = ("ask.output", "rate.output")


def random_system(random: Random, *, acyclic: bool) -> System:
    """A small system: booleans, enums, small whole numbers, an object with an optional field."""
    size = random.randint(2, 6)
    ways: list[list[Edge]] = []
    for node in range(size):
        targets = [*range(node + 1 if acyclic else 0, size), BAD] if node else [*range(1, size)]
        decision = when(*random.sample(_CONDITIONS, random.randint(1, 2)))
        outcomes = [*range(len(decision.trees)), NONE_HOLDS, FAILS]
        found = []
        for _ in range(random.randint(1, 3)):
            guards = [Guard(decision, random.choice(outcomes))] if random.random() < 0.7 else []
            assigns = [_random_assign(random) for _ in range(random.randint(0, 3))]
            found.append(edge(random.choice(targets), *guards, *assigns))
        ways.append(found)
    ways[-1].append(edge(BAD, *(holds(text) for text in random.sample(_CONDITIONS, random.randint(1, 3)))))
    return system(*ways)


def _random_assign(random: Random) -> Assign:
    if random.random() < 0.2:
        name = random.choice(_GIVENS)
        return to(name, given(name, maybe=random.random() < 0.3))
    return to(*random.choice(_ASSIGNED))
