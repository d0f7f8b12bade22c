"""What is known of references where a condition has come out so, and where it reads them."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given, settings

from evaluations import look_up
from sizes import size
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.facts import certain_reads, facts, reads
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Constant, Defined, Expression, Reference, walk
from strategies import conditions, states


@given(conditions(), states())
@settings(max_examples=size(40, 250), deadline=None)
def test_facts_hold_in_every_state_with_that_outcome(text: str, state: dict[str, Any]) -> None:
    tree = parse(text)
    try:
        outcome = evaluate(tree, lambda names: look_up(state, names))
    except EvaluationError:
        assume(False)
    assume(isinstance(outcome, bool))
    found = facts(tree, outcome)
    for names in found.defined | certain_reads(tree):
        look_up(state, names)
    for names in found.not_null:
        assert look_up(state, names) is not None


def marked(tree: Expression) -> Expression:
    """Return the tree with each reference's place as its last name, so that a lookup tells which one is read."""

    def mark(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(mark(item) for item in part)
        return marked(part) if dataclasses.is_dataclass(part) else part

    if isinstance(tree, Constant):
        return tree
    if isinstance(tree, Reference):
        return Reference(tree.start, tree.end, (*tree.names, str(tree.start)))
    return type(tree)(**{field.name: mark(getattr(tree, field.name)) for field in dataclasses.fields(tree)})


@given(conditions(), states())
@settings(max_examples=size(40, 300), deadline=None)
def test_what_is_known_at_a_read_holds_when_it_is_read(text: str, state: dict[str, Any]) -> None:
    tree = parse(text)
    known = {reference.start: certain for reference, certain in reads(tree)}
    asked = {node.reference.start for node in walk(tree) if isinstance(node, Defined)}

    def lookup(names: tuple[str, ...]) -> Any:
        place = int(names[-1])
        assert place in known or place in asked
        for other in known[place].defined if place in known else ():
            look_up(state, other)
        for other in known[place].not_null if place in known else ():
            assert look_up(state, other) is not None
        return look_up(state, names[:-1])

    with suppress(EvaluationError):
        evaluate(marked(tree), lookup)


@pytest.mark.parametrize(
    ("text", "outcome", "defined", "not_null"),
    [
        ("$a == 1", True, {"a"}, {"a"}),
        ("$a == 1", False, {"a"}, set()),
        ("$a != null", True, {"a"}, {"a"}),
        ("$a != null", False, {"a"}, set()),
        ("$a == null", False, {"a"}, {"a"}),
        ("$a < $b", False, {"a", "b"}, {"a", "b"}),
        ("defined($a)", True, {"a"}, set()),
        ("defined($a)", False, set(), set()),
        ("not defined($a)", False, {"a"}, set()),
        ("defined($a) and $a > 1", True, {"a"}, {"a"}),
        ("defined($a) and $a > 1", False, set(), set()),
        ("$a == 1 or $b == 1", True, {"a"}, set()),
        ("$a == 1 or $b == 1", False, {"a", "b"}, set()),
        ("not defined($a) or $a == 2", False, {"a"}, set()),
        ("defined($a) and $b == 1 or defined($a)", True, {"a"}, set()),
        ("$a > 1 and $b > 1 or $a > 3 and $c > 1", True, {"a"}, {"a"}),
        ("$o.field == 'x'", True, {"o.field"}, {"o.field"}),
        ("true or $a == 1", True, set(), set()),
    ],
)
def test_facts_that_can_be_had_are_had(text: str, outcome: bool, defined: set[str], not_null: set[str]) -> None:
    found = facts(parse(text), outcome)
    assert {".".join(names) for names in found.defined} == defined
    assert {".".join(names) for names in found.not_null} == not_null


def test_a_field_that_is_defined_tells_that_its_object_is() -> None:
    found = facts(parse("$o.a.b == 1"), True)
    assert found.knows_defined(("o",))
    assert found.knows_defined(("o", "a", "b"))
    assert not found.knows_defined(("o", "a", "b", "c"))
