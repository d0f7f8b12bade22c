"""Proof parts: the justification of a layer's proof, as plain data for a certificate (specs/certificates.md).

They are written only on demand. A slice omits what the property can't observe. Here every pair of step and monitor
state is written again, so that a checker needs no knowledge of slices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from stepward.validator.analysis.monitors import ArrivalMonitor, RuleMonitor
from stepward.validator.engine.certificates.proof_part import ProofPart, TooMuch
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.engine.search.explicit import Search
from stepward.validator.engine.search.finite import Table
from stepward.validator.engine.systems.building import Builder, Slice
from stepward.validator.engine.systems.system import AnyValue, System
from stepward.validator.engine.values.classes import Slot
from stepward.validator.engine.values.cuts import Cutting, TooMany, class_values
from stepward.validator.engine.values.described import described
from stepward.validator.engine.values.domains import Domains, Names, real
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.inner_names import as_word
from stepward.vm.language.automata import NeverAutomaton

if TYPE_CHECKING:
    from stepward.validator.analysis.product import Exploration, Monitor
    from stepward.validator.engine.values.classes import Space
    from stepward.vm.language.flow import Flow

MAX_STATES: Final = 300_000
"""The most single states of one certificate."""

MAX_LATE: Final = 64
"""The most values of a delayed choice that are written out; beyond that the reference is left open."""


# -- cuts --------------------------------------------------------------------------------------------------------------


def memory(monitor: Monitor, state: Any, *, counts: bool) -> dict[str, Any]:
    """Return the memory of a monitor, as certificates write it."""
    inner, visits = state if counts else (state, None)
    is_blank = isinstance(monitor, ArrivalMonitor) or _forbids(monitor)
    data: dict[str, Any] = {"memory": [] if is_blank else list(inner) if isinstance(inner, tuple) else [inner]}
    return data if visits is None else {**data, "visits": list(visits)}


def _forbids(monitor: Monitor) -> TypeGuard[RuleMonitor]:
    """Return whether a monitor is that of a `never`, which has no memory."""
    return isinstance(monitor, RuleMonitor) and isinstance(monitor.automaton, NeverAutomaton)


def explored(flow: Flow, monitor: Monitor, search: Callable[[], Exploration]) -> ProofPart:
    """Return the proof part that a search finds no bad pair; it is made when the part is written."""

    def write() -> dict[str, Any]:
        exploration = search()
        rows = [
            {"step": flow.steps[step].id, **memory(monitor, state, counts=exploration.is_counted), "states": "any"}
            for step, state in exploration.visited
        ]
        return {"counts_visits": exploration.is_counted, "rows": rows}

    return ProofPart("cut", write, lambda: {"counts_visits": search().is_counted})


def cut(builder: Builder) -> ProofPart:
    """Return the proof part that no pair from which the property can be broken is reachable."""
    return ProofPart("cut", lambda: _Rows(builder).data([]), lambda: _counted(builder))


def _counted(builder: Builder) -> dict[str, Any]:
    """Return the field that says whether the product of a builder counts visits."""
    return {"counts_visits": builder.product.monitor is not builder.question.monitor}


class _Rows:
    """The rows of the pairs of one product."""

    def __init__(self, builder: Builder) -> None:
        self.flow = builder.facts.flow
        self.monitor = builder.question.monitor
        self.product = builder.product
        self.counts: bool = _counted(builder)["counts_visits"]

    def data(self, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return a table with these rows, and with rows that allow any state for the pairs that can't break the
        property."""
        return {"counts_visits": self.counts, "rows": [*rows, *self._rest()]}

    def head(self, number: int) -> dict[str, Any]:
        """Return the first fields of the row of a pair."""
        step, state = self.product.pairs[number]
        return {"step": self.flow.steps[step].id, **memory(self.monitor, state, counts=self.counts)}

    def _rest(self) -> Iterator[dict[str, Any]]:
        for number, alive in enumerate(self.product.alive):
            if not alive:
                yield {**self.head(number), "states": "any"}


# -- tables ------------------------------------------------------------------------------------------------------------


class _Whole:
    """A system without slicing: a node for every pair, with the guards of the sliced system."""

    def __init__(self, builder: Builder, system: System) -> None:
        self.rows = _Rows(builder)
        self.names = builder.facts.meaning.names
        pairs = builder.product.pairs
        self.pairs = [number for number in range(len(pairs)) if builder.product.alive[number]]
        whole = builder.system(Slice(system.roots, set(self.pairs), list(range(len(pairs)))))
        relevant = set(system.decisions)
        edges = tuple(
            tuple(edge._replace(guards=tuple(one for one in edge.guards if one.decision in relevant)) for edge in edges)
            for edges in whole.edges
        )
        self.system = replace(whole, edges=edges)

    def table(self, contents: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Return a table with what is known of the states of each pair; a pair without any has no row."""
        numbered = zip(self.pairs, contents, strict=False)  # no rows for what is within a step
        return self.rows.data({**self.rows.head(number), **one} for number, one in numbered if one)


def table(builder: Builder, system: System, domains: Domains, known: Table, most: int | None = None) -> ProofPart:
    """Return the proof part that no reachable class of states passes an edge to a violation.

    With `most`: that every path to a violation costs more than this budget.
    """

    def write() -> dict[str, Any]:
        whole = _Whole(builder, system)
        own_table = Table(whole.system, domains, UNLIMITED)
        coded = _Coded(own_table.space)
        contents: list[dict[str, Any]]
        if most is None:
            contents = [{"states": coded.runs(mask)} if mask else {} for mask in own_table.reachable]
        else:
            levels = own_table.levels(most)
            contents = [
                {"costs": [[cost, coded.runs(mask)] for cost, mask in one.items()]} if one else {} for one in levels
            ]
        return {"references": coded.references(), **whole.table(contents)}

    def outline() -> dict[str, Any]:
        return {"references": _Coded(known.space).references(), **_counted(builder)}

    return ProofPart("table" if most is None else "budget", write, outline)


class _Coded:
    """The states of a space, numbered as in certificates. Primed names have no value between edges and are left out."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.slots = [slot for name, slot in space.slots.items() if real(name) == name and not _is_nothing(name)]
        self.unused = {slot.names: self._unused(slot) for slot in self.slots}
        self.is_same = not any(self.unused.values()) and all(
            slot in self.slots or len(slot.values) == 1 for slot in space.slots.values()
        )

    def _unused(self, slot: Slot) -> list[str]:
        """Return the literals that no type allows. They are cuts too, so that no other class contains them."""
        return unused_literals(self.space.cutting, slot.names, slot.values)

    def references(self) -> list[dict[str, Any]]:
        """Return the references and their classes."""
        cutting = self.space.cutting
        return [
            {
                "name": _shown(slot.names),
                "classes": [
                    *(described(value, cutting.domain[slot.names], cutting.cuts[slot.names]) for value in slot.values),
                    *({"text": text} for text in self.unused[slot.names]),
                ],
            }
            for slot in self.slots
        ]

    def runs(self, mask: int) -> list[Any]:
        """Return the states of a set as numbers and ranges of numbers."""
        if self.is_same:
            return [_run(match.start(), match.end() - 1) for match in re.finditer("1+", bin(mask)[:1:-1])]
        numbers = set()
        for match in re.finditer("1", bin(mask)[:1:-1]):
            number, total = 0, 1
            for slot in self.slots:
                number += match.start() // slot.stride % len(slot.values) * total
                total *= len(slot.values) + len(self.unused[slot.names])
            numbers.add(number)
        return _stretches(numbers)


def unused_literals(cutting: Cutting, name: Names, values: Iterable[Any]) -> list[str]:
    """Return the literals that conditions ask of a reference to any text, and that are not among its values."""
    if not cutting.domain[name].any_text:
        return []
    known = {value for value in values if isinstance(value, str)}
    return [atom.literal for atom in cutting.cuts[name].atoms if atom.question == "is" and atom.literal not in known]


def _run(first: int, last: int) -> Any:
    return first if first == last else [first, last]


def _stretches(numbers: Iterable[int]) -> list[Any]:
    """Return numbers in order, with consecutive ones as ranges."""
    stretches: list[list[int]] = []
    for number in sorted(numbers):
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    return [_run(first, last) for first, last in stretches]


def _is_nothing(names: Names) -> bool:
    """Return whether a reference stands for a missing argument: no name of a program contains a dollar sign."""
    return names[0].startswith("$")


def _shown(names: Names) -> str:
    return "$" + written((as_word(names[0]), *names[1:]))


# -- single states -----------------------------------------------------------------------------------------------------


def states(builder: Builder, system: System, domains: Domains, search: Search, most: int | None = None) -> ProofPart:
    """Return the proof part that no reachable state passes an edge to a violation.

    With `most`: that every path to a violation costs more than this budget.
    """

    def write() -> dict[str, Any]:
        listed = _Listed(builder, system, domains, most)
        return {"references": listed.classes.references(), **listed.whole.table(map(held, listed.numbers()))}

    def held(known: dict[int, int]) -> dict[str, Any]:
        if most is None or not known:
            return {"states": _stretches(known)} if known else {}
        by_cost: dict[int, set[int]] = {}
        for number, cost in known.items():
            by_cost.setdefault(cost, set()).add(number)
        return {"costs": [[cost, _stretches(by_cost[cost])] for cost in sorted(by_cost)]}

    def outline() -> dict[str, Any]:
        classes = _Classes(search)
        for node, blocks in search.reached:
            for root, block in zip(search.live[node], blocks, strict=True):
                if not isinstance(block, AnyValue):
                    for name, value in zip(search.below[root], block, strict=True):
                        if name in classes.numbers:
                            classes.number(name, value)
        return {"references": classes.references(), **_counted(builder)}

    return ProofPart("states" if most is None else "budget", write, outline)


class _Classes:
    """The numbered classes of the references of a search; `any` stands for a value that is not chosen yet."""

    def __init__(self, search: Search) -> None:
        self.cutting = search.cutting
        self.names = [name for name in search.cutting.names if real(name) == name and not _is_nothing(name)]
        self.numbers: dict[Names, dict[str, int]] = {name: {} for name in self.names}
        self.listed: dict[Names, list[Any]] = {name: [] for name in self.names}
        for name in self.names:
            values: list[Any] = []
            with suppress(TooMany):  # calculations have no bounds: then only the classes in states are listed
                values = class_values(search.domains.of(name), self.cutting.cuts[name])
            # Literals are listed in any case: the class of all other texts is understood by them.
            for value in (*values, *unused_literals(self.cutting, name, values)):
                self.number(name, value)

    def number(self, name: Names, value: Any) -> int:
        """Return the number of the class of a value."""
        return self._numbered(
            name, described(value, self.cutting.domain[name], self.cutting.cuts[name], by_source=True)
        )

    def any(self, name: Names) -> int:
        """Return the number that leaves a reference open."""
        return self._numbered(name, "any")

    def _numbered(self, name: Names, value: Any) -> int:
        known = self.numbers[name]
        if repr(value) not in known:
            known[repr(value)] = len(known)
            self.listed[name].append(value)
        return known[repr(value)]

    def references(self) -> list[dict[str, Any]]:
        """Return the references and their classes."""
        return [{"name": _shown(name), "classes": self.listed[name]} for name in self.names]


class _Listed:
    """The states of an explicit search over a system without slicing, each with its cost."""

    def __init__(self, builder: Builder, system: System, domains: Domains, most: int | None) -> None:
        self.whole = _Whole(builder, system)
        self.search = Search(self.whole.system, domains, UNLIMITED)
        self.classes = _Classes(self.search)
        self.names = self.classes.names
        self.costs: list[dict[tuple[int, ...], int]] = [{} for _ in self.whole.pairs]
        for cost, (node, blocks) in self.search.settled():
            if most is not None and cost > most:
                break
            if len(self.search.reached) > MAX_STATES:
                raise TooMuch(f"it has over {MAX_STATES:,} states")
            for state in self._spelled(node, blocks) if 0 <= node < len(self.costs) else ():
                self.costs[node].setdefault(state, cost)

    def _spelled(self, node: int, blocks: tuple[Any, ...]) -> Iterator[tuple[int, ...]]:
        """Yield states as class numbers, one for each reference; references that are not live are left open."""
        states: list[dict[Names, Any]] = [{}]
        for root, block in zip(self.search.live[node], blocks, strict=True):
            choices: list[tuple[Any, ...]] = []
            if not isinstance(block, AnyValue):
                choices = [block]
            elif not self._is_plain(root):
                choices = list(self.search.choices_of(root, block))
            if choices and (len(choices) == 1 or len(choices) * len(states) <= MAX_LATE):
                names = self.search.below[root]
                states = [{**known, **dict(zip(names, one, strict=True))} for known in states for one in choices]
        for known in states:
            classes = self.classes
            yield tuple(classes.number(one, known[one]) if one in known else classes.any(one) for one in self.names)

    def _is_plain(self, root: Names) -> bool:
        """Whether a variable has an input as its only source, so that its type is all that is known about it."""
        resolution = self.whole.names.meaning(root)
        return resolution is not None and [source.kind for source in resolution.sources] == ["input"]

    def numbers(self) -> list[dict[int, int]]:
        """Return for each node the numbers of its states, each with its cost."""
        sizes = [len(self.classes.numbers[name]) for name in self.names]
        result = []
        for known in self.costs:
            coded: dict[int, int] = {}
            for state, cost in known.items():
                number, total = 0, 1
                for size, position in zip(sizes, state, strict=True):
                    number, total = number + position * total, total * size
                coded[number] = cost
            result.append(coded)
        return result


# -- formulas and values -----------------------------------------------------------------------------------------------


def solved(builder: Builder, proof: Mapping[str, Callable[[], str]]) -> ProofPart:
    """Return the proof part that formulas are unsatisfiable, the one of all paths among them."""
    part = by_scripts(proof)
    return replace(part, write=lambda: {"places": list(_violations(builder)), **part.write()})


def _violations(builder: Builder) -> Iterator[dict[str, Any]]:
    """Yield the steps and the kinds of violation of a question."""
    question, flow = builder.question, builder.facts.flow
    if _forbids(question.monitor):
        for step, hits in question.monitor.starts[0].items():
            if question.asks("forbidden", step):
                for match in hits:
                    kind = "forbidden" if match.sub is None else f"forbidden {match.part.id}"
                    yield {"step": flow.steps[step].id, "kind": kind}
        return
    steps = range(len(flow.steps)) if question.steps is None else sorted(question.steps)
    kinds = {"uncovered", "overlap"} if isinstance(question.monitor, ArrivalMonitor) else question.kinds or _KINDS
    for step in [question.monitor.step] if isinstance(question.monitor, ArrivalMonitor) else steps:
        for kind in sorted(kinds):
            yield {"step": flow.steps[step].id, "kind": kind}


_KINDS: Final = frozenset({"bypassed", "stale", "repeated", "retried", "both", "missing"})


def by_types(space: Space | None) -> ProofPart:
    """Return the proof part that no values allowed by the types violate a condition's property; None for constants."""
    return ProofPart("cases", lambda: {"references": _Coded(space).references() if space is not None else []})


def by_script(shows: str, write: Callable[[], str]) -> ProofPart:
    """Return the proof part that one formula about the values of a condition's references is unsatisfiable."""
    return by_scripts({shows: write})


def by_scripts(proof: Mapping[str, Callable[[], str]]) -> ProofPart:
    """Return the proof part that formulas are unsatisfiable; each is written under what it shows."""
    scripts = proof.items()
    return ProofPart("formula", lambda: {"scripts": [{"shows": one, "text": write()} for one, write in scripts]})
