"""Constrained Horn clauses of a system: what must hold whenever a run comes to the start of a loop.

A predicate stands at each target of a back edge. Its arguments speak of what is live there: whether a reference is
defined and of which kind its value is, Booleans, numbers, the numbers of enum members, and of free texts and arrays the
answers to what is asked of them on some way. A rule is the block formula of all paths from one predicate (or the entry)
to another (or to BAD) on which no third one lies. What the arguments leave out may be anything where a rule begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.encoding import Encoding
from stepward.validator.engine.smt.facts import Facts
from stepward.validator.engine.smt.payloads import Slot, Term, Value
from stepward.validator.engine.smt.plans import START, Plan, Way, ordered, useful
from stepward.validator.engine.smt.smtlib import script
from stepward.validator.engine.smt.terms import TooLarge
from stepward.validator.engine.smt.versions import Environment, Leaf, Versions
from stepward.validator.engine.systems.assigned import Assigned
from stepward.validator.engine.systems.liveness import Liveness
from stepward.validator.engine.systems.system import BAD, ENTRY, System, back_edges
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.engine.values.states import with_owners
from stepward.validator.engine.values.texts import Atom
from stepward.vm.expressions.operators import kind
from stepward.vm.expressions.syntax import Constant

MAX_ROUNDS: Final = 8
"""Times that the rules are built anew because one asks something of a text that another had left out."""

SINK: Final = -2
"""The number of a predicate's node where a rule ends is this, less its own."""

Wanted = dict[tuple[int, Names], dict[Any, None]]
"""What is asked of a free text or an array that is live at a node: an atom, what it may hold, or `length`."""


class Rule(NamedTuple):
    """All paths from a predicate's node (None: the entry) to another's (None: BAD)."""

    source: int | None
    target: int | None
    terms: Versions
    facts: list[Any]
    given: list[Any]
    left: list[Any]

    @property
    def is_empty(self) -> bool:
        """Whether no path can be taken whatever the predicates say."""
        return any(fact is False for fact in self.facts)

    def check(self, definitions: list[str]) -> str:
        """Return a script that is unsatisfiable iff the rule holds under definitions of the predicates."""
        if self.is_empty:
            return script(self.terms, self.facts)
        given = [] if self.source is None else [applied(self.source, self.given)]
        left = [] if self.target is None else [f"(not {applied(self.target, self.left)})"]
        return script(self.terms, self.facts, definitions, [*given, *left])

    def clause(self) -> str:
        """Return the rule as a Horn clause."""
        facts = [fact.sexpr() if z3.is_expr(fact) else str(fact).lower() for fact in self.facts]
        body = f"(and true {' '.join(facts)}{'' if self.source is None else ' ' + applied(self.source, self.given)})"
        head = "false" if self.target is None else applied(self.target, self.left)
        variables = " ".join(f"({one.sexpr()} {one.sort().sexpr()})" for one in self.terms.variables)
        clause = f"(=> {body} {head})"
        return f"(assert (forall ({variables}) {clause}))" if variables else f"(assert {clause})"


def applied(node: int, arguments: list[Any]) -> str:
    """Return a predicate applied to arguments, as text."""
    return f"(at_{node} {' '.join(one.sexpr() for one in arguments)})" if arguments else f"at_{node}"


class Clauses:
    """The clauses of a system; TooLarge is raised where a rule can't be written out."""

    def __init__(self, system: System, domains: Domains, clock: Clock) -> None:
        self.system = system
        self.domains = domains
        self.clock = clock
        self.assigned = Assigned(system, domains)
        self.useful = useful(system)
        self.heads = sorted(
            {system.edges[node][position].target for node, position in back_edges(system)} & self.useful
        )
        live = Liveness(system, domains)
        self.live = {head: with_owners(sorted(live.at[head]), domains) for head in self.heads}
        self.wanted: Wanted = {}
        self.rules: list[Rule] = []
        for _ in range(MAX_ROUNDS):
            before = sum(map(len, self.wanted.values()))
            self.rules = list(self._rules())
            if sum(map(len, self.wanted.values())) == before:
                return
        raise TooLarge

    def sorts(self, head: int) -> list[str]:
        """Return the sorts of a predicate's arguments."""
        rule = next(one for one in self.rules if one.source == head or (one.target == head and not one.is_empty))
        arguments = rule.given if rule.source == head else rule.left
        return [one.sort().sexpr() for one in arguments]

    @cached_property
    def known(self) -> dict[int, str]:
        """The predicates that need no search: true where no rules lead to BAD, false where none lead from the entry.

        Of others Spacer would invent something, with quantifiers where it simplified them away.
        """
        links = [(rule.source, rule.target) for rule in self.rules if not rule.is_empty]
        come = _linked(links)
        leave = _linked([(target, source) for source, target in links])
        return {
            head: "false" if head not in come else "true"
            for head in self.heads
            if head not in come or head not in leave
        }

    def text(self) -> str:
        """Return the clauses as one script: satisfiable iff there are predicates for which every rule holds."""
        known = self.known
        heads = [head for head in self.heads if head not in known]
        predicates = [f"(declare-fun at_{head} ({' '.join(self.sorts(head))}) Bool)" for head in heads]
        rules = [
            rule.clause()
            for rule in self.rules
            if not rule.is_empty and rule.source not in known and rule.target not in known
        ]
        return "\n".join(["(set-logic HORN)", *predicates, *rules, "(check-sat)", ""])

    # -- rules -----------------------------------------------------------------------------------------------------

    def _rules(self) -> Iterator[Rule]:
        for source in (None, *self.heads):
            for target in (*self.heads, None):
                plan = self._plan(source, target)
                if plan is not None:
                    yield self._rule(source, target, plan)

    def _plan(self, source: int | None, target: int | None) -> Plan | None:
        """Return the plan of all paths from one node to another that pass no predicate's node between."""
        end = BAD if target is None else SINK - target
        if source is None and ENTRY in self.heads:
            return Plan([end], {end: [START]}, {}) if target == ENTRY else None
        start = ENTRY if source is None else source
        ways: dict[int, list[Way]] = {start: [START]}
        pending = [start]
        for node in pending:  # grows while it is read
            for position, edge in enumerate(self.system.edges[node] if node >= 0 else ()):
                number = SINK - edge.target if edge.target in self.heads else edge.target
                if edge.target not in self.useful or (number < 0 and number != end):
                    continue
                if number not in ways:
                    ways[number] = []
                    pending.append(number)
                ways[number].append(Way(node, position))
        if end not in ways:
            return None
        kept, pending = {end}, [end]
        for node in pending:
            found = sorted({way.node for way in ways[node] if way != START} - kept)
            kept.update(found)
            pending += found
        ways = {node: entering for node, entering in ways.items() if node in kept}
        return Plan(ordered(ways), ways, {})

    def _rule(self, source: int | None, target: int | None, plan: Plan) -> Rule:
        terms = Versions(self.domains, self.clock)
        terms.by_signs = True  # invariants are looked for among linear ones
        encoding = Encoding(self.system, terms, self.assigned)
        if source is None:
            start = encoding.entry()
        else:
            start = {root: encoding.any_of(root) for root in sorted(self.system.roots)}
        encoding.run(plan, start)
        end = BAD if target is None else SINK - target
        facts = [encoding.at[end]]
        left = []
        if target is not None and encoding.at[end] is not False:
            left = self._left(terms, encoding, target, encoding.before[end])
        given = self._given(terms, source, start) if source is not None else []
        Facts(terms).note()
        return Rule(source, target, terms, [*terms.facts, *facts], given, left)

    # -- arguments -------------------------------------------------------------------------------------------------

    def _given(self, terms: Versions, head: int, start: Environment) -> list[Any]:
        """Return the arguments of the predicate at which a rule begins; note what it asks there."""
        arguments = []
        for names in self._tracked(head):
            root = self.domains.root(names)
            leaf = start[root]
            assert isinstance(leaf, Leaf)
            slot = _slot(terms, leaf, names[len(root) :])
            self._note(head, names, slot)
            arguments += self._arguments(terms, head, names, slot)
        return arguments

    def _left(self, terms: Versions, encoding: Encoding, head: int, environment: Environment) -> list[Any]:
        """Return the arguments of the predicate at which a rule ends."""
        arguments = []
        leaves: dict[Names, Leaf] = {}
        for names in self._tracked(head):
            root = self.domains.root(names)
            leaf = leaves.setdefault(root, encoding.any_of(root))
            value = terms.component(environment[root], names[len(root) :])
            slot = _slot(terms, leaf, names[len(root) :])
            found = self._arguments(terms, head, names, slot)
            _Link(terms, slot, value).state(self.wanted.get((head, names), {}))
            arguments += found
        return arguments

    def _tracked(self, head: int) -> list[Names]:
        return [names for names in self.live[head] if self.domains.root(names) in self.system.roots]

    def _note(self, head: int, names: Names, slot: Slot) -> None:
        asked = self.wanted.setdefault((head, names), {})
        if slot.text is not None and slot.text.members is None:
            asked.update(dict.fromkeys(atom for atom, term in slot.text.atoms.items()))
            asked.update({"length": None} if slot.text.length is not None else {})
        if slot.array is not None:
            asked.update(dict.fromkeys(("holds", *key) for key in slot.array.holds))
            asked.update({"length": None})

    def _arguments(self, terms: Versions, head: int, names: Names, slot: Slot) -> list[Any]:
        """Return the terms of a slot that a predicate speaks of, in an order that hangs on its domain alone."""
        found = [slot.guards[word] for word in slot.kinds[:-1]]
        if z3.is_expr(slot.boolean):
            found.append(slot.boolean)
        if slot.number is not None:
            found.append(slot.number.arg(0) if z3.is_to_real(slot.number) else slot.number)
        if slot.text is not None and slot.text.members is not None:
            found.append(slot.text.number)
        for key in self.wanted.get((head, names), {}):
            found += [term for term in _answers(terms, slot, key) if z3.is_expr(term)]
        return found


def _linked(links: list[tuple[int | None, int | None]]) -> set[int]:
    """Return the nodes that links lead to from None."""
    found: set[int] = set()
    pending: list[int | None] = [None]
    while pending:
        node = pending.pop()
        for source, target in links:
            if source == node and target is not None and target not in found:
                found.add(target)
                pending.append(target)
    return found


def _slot(terms: Versions, leaf: Leaf, fields: tuple[str, ...]) -> Slot:
    terms.component(leaf, fields)
    return terms.slots[(*leaf.key, *fields)]


def _answers(terms: Versions, slot: Slot, key: Any) -> list[Term]:
    """Return the terms for something that is asked of a free text or an array."""
    if isinstance(key, Atom):
        assert slot.text is not None
        return [terms.atom(slot.text, key)]
    if key == "length":
        lengths = [slot.array.length] if slot.array is not None else []
        return lengths + ([terms.text_length(slot.text)] if slot.text is not None and slot.text.members is None else [])
    assert slot.array is not None
    return list(terms.holds(slot.array, key[1], key[2]))


class _Link:
    """States that a slot has the value of something else, as far as a predicate speaks of it."""

    def __init__(self, terms: Versions, slot: Slot, value: Value) -> None:
        self.terms = terms
        self.slot = slot
        self.value = value

    def state(self, wanted: dict[Any, None]) -> None:
        """Note it in the terms."""
        slot = self.slot
        for word in slot.kinds:
            if word == "undefined":
                self._alike(True, slot.guards[word], self.value.fails)
                continue
            has, payload = self.value.kinds.get(word, (False, None))
            self._alike(True, slot.guards[word], has)
            if has is False:
                continue
            if word == "boolean":
                self._alike(has, slot.boolean, payload)
            elif word == "number":
                self._equal(has, slot.number, payload)
            elif word == "string":
                self._text(has, payload, wanted)
            elif word == "array":
                self._array(has, payload, wanted)

    def _alike(self, when: Term, one: Term, other: Term) -> None:
        terms = self.terms
        same = terms.either(terms.both(one, other), terms.both(terms.no(one), terms.no(other)))
        terms.state(terms.either(terms.no(when), same))

    def _equal(self, when: Term, one: Any, other: Any) -> None:
        self.terms.state(self.terms.either(self.terms.no(when), self.terms.real(one) == self.terms.real(other)))

    def _text(self, has: Term, payload: Any, wanted: dict[Any, None]) -> None:
        text = self.slot.text
        assert text is not None
        if text.members is not None:
            for number, member in enumerate(text.members):
                self._alike(has, text.number == number, self.terms.asked("is", payload, member))
            return
        for key in wanted:
            if isinstance(key, Atom):
                answer = self.terms.asked(key.question, payload, key.literal)
                self._alike(has, self.terms.atom(text, key), answer)
            elif key == "length":
                self._equal(has, z3.ToReal(self.terms.text_length(text)), self.terms.length_of(payload))

    def _array(self, has: Term, payload: Any, wanted: dict[Any, None]) -> None:
        array = self.slot.array
        assert array is not None
        for key in wanted:
            if key == "length":
                self._equal(has, z3.ToReal(array.length), self.terms.length_of(payload))
            elif isinstance(key, tuple) and key[0] == "holds":
                one = self.terms.holds(array, key[1], key[2])
                literal = Constant(0, 0, key[2])
                other = self.terms.member(literal, (kind(key[2]), key[2]), ("array", payload))
                self._alike(has, one.holds, other.holds)
                self._alike(has, one.fails, other.fails)
