"""Differential: the block formula against a search of concrete states (systems.py).

What is proved must be true, a path must be one that the evaluator walks, and on systems without cycles the block
formula must decide. Planted mistakes must be caught. `STEPWARD_SYSTEMS=3000` tries that many random systems.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any

import pytest
import z3

from sizes import asked_for, size
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.engine.smt import blocks, plans
from stepward.validator.engine.smt.answers import SystemAnswer
from stepward.validator.engine.smt.encoding import Encoding, Taken
from stepward.validator.engine.smt.versions import Made, Merge
from stepward.validator.engine.systems import assigned_values, invariants
from stepward.validator.engine.systems.system import BAD, FAILS, NONE_HOLDS, Guard, System, Undefined, has_cycle
from stepward.validator.findings import Verdict
from systems import (
    DOMAINS,
    edge,
    given,
    holds,
    is_reachable,
    is_walked,
    random_system,
    system,
    to,
    when,
)

SYSTEMS = asked_for("STEPWARD_SYSTEMS", 100, 920)
PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN
UNITS = 20_000_000


def searched(of: System) -> SystemAnswer:
    """The answer of the block formula, whose scripts must be unsatisfiable, and whose path one where no loop is."""
    answer = blocks.search(of, DOMAINS, units=UNITS, clock=UNLIMITED)
    if answer.verdict is VIOLATED and not has_cycle(of):
        assert answer.path is not None
        assert is_walked(of, answer.path)
    if answer.verdict is PROVED:
        assert answer.proof is not None
        for written in answer.proof.values():
            solver = z3.Solver(ctx=apart())
            solver.from_string(written())
            assert solver.check() == z3.unsat
    return answer


@cache
def apart() -> z3.Context:
    """Return a context that no layer uses: making one takes longer than most of the scripts."""
    return z3.Context()


def verdict(of: System) -> Verdict:
    return searched(of).verdict


# -- without cycles --------------------------------------------------------------------------------------------------


def diamonds(count: int, goal: int) -> System:
    """Each diamond may add one to a number; the bad state is that the number is `goal`."""
    ways = [[edge(1, to("m", 0))]]
    for number in range(count):
        node, condition = 1 + 3 * number, when(f"$whole > {number}")
        ways += [
            [edge(node + 1, Guard(condition, 0)), edge(node + 2, Guard(condition, NONE_HOLDS))],
            [edge(node + 3, to("m", "=$m + 1"))],
            [edge(node + 3)],
        ]
    return system(*ways, [edge(BAD, holds(f"$m == {goal}"))], inputs=["whole"])


def test_diamonds_in_a_row_are_one_formula() -> None:
    assert verdict(diamonds(40, 39)) is VIOLATED
    assert verdict(diamonds(40, 41)) is PROVED


def test_a_flag_is_copied_through_hundreds_of_diamonds() -> None:
    ways = [[edge(1, to("f", False), to("u", "a"))]]
    many = size(400, 1_000)
    for number in range(many):
        node, condition = 1 + 3 * number, when(f"$whole == {number}")
        ways += [
            [edge(node + 1, Guard(condition, 0)), edge(node + 2, Guard(condition, NONE_HOLDS))],
            [edge(node + 3, to("g", "=$f"), to("f", number == many - 300), to("u", "=$u"))],
            [edge(node + 3, to("f", "=$f"), to("u", "b" if number == many - 1 else "=$u"))],
        ]
    assert verdict(system(*ways, [edge(BAD, holds("$f"), holds("$u == 'b'"))], inputs=["whole"])) is VIOLATED
    assert verdict(system(*ways, [edge(BAD, holds("$f"), holds("$u == 'c'"))], inputs=["whole"])) is PROVED


def straight(*parts: Any, bad: str, inputs: tuple[str, ...] = ("ok", "n", "e", "o")) -> System:
    return system([edge(1, *parts)], [edge(BAD, holds(bad))], inputs=inputs)


TEXTS = ("text", "other", "list")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (straight(to("f", "=$ok"), to("g", "=not $f"), bad="$f == $g"), PROVED),
        # a swap by way of primed names, and one that forgets them
        (straight(to("m", 1), to("k", 2), to("m'", "=$k"), to("k", "=$m"), to("m", "=$m'"), bad="$m == $k"), PROVED),
        (straight(to("m", 1), to("k", 2), to("m", "=$k"), to("k", "=$m"), bad="$m == $k"), VIOLATED),
        (straight(bad="$f"), PROVED),
        (straight(bad="not defined($f)"), VIOLATED),
        (straight(to("f", True), to("f", Undefined()), bad="defined($f)"), PROVED),
        (straight(to("u", given("ask.output", maybe=True)), bad="not defined($u)"), VIOLATED),
        (straight(to("u", given("ask.output")), bad="not defined($u)"), PROVED),
        (straight(to("g", "=$f"), bad="not defined($f)"), PROVED),
        # fields come along with a copy, one that is not required may be missing
        (straight(to("c", "=$o"), bad="not defined($c.p)"), PROVED),
        (straight(to("c", "=$o"), bad="not defined($c.q)"), VIOLATED),
        (straight(to("c", "=$o"), bad="defined($c.q) != defined($o.q)"), PROVED),
        (straight(to("k", "=$o.q"), bad="not defined($o.q)"), PROVED),
        (straight(to("c", {"p": True, "q": 3}), bad="$c.q == 3 and $c.p"), VIOLATED),
        # decimals are exact; what has no finite decimal is no candidate
        (straight(bad="$price * 3 == 0.3", inputs=("price",)), VIOLATED),
        (straight(bad="$price * 3 == 0.1", inputs=("price",)), UNKNOWN),
        (straight(to("m", "=$price + 0.1"), bad="$m < 0.1", inputs=("price",)), PROVED),
        (straight(to("u", "=$text"), bad="$u contains 'ab' and not ($text contains 'a')", inputs=("text",)), PROVED),
        (straight(to("u", "=$text"), bad="$u == $other and len($u) > len($other)", inputs=("text", "other")), PROVED),
        (straight(to("u", "=$text"), bad="$u != $other and $text in $list", inputs=TEXTS), VIOLATED),
        (straight(to("v", "=$list"), bad="$v contains 'a' and len($list) == 0", inputs=("list",)), PROVED),
        (system([edge(BAD, Guard(when("$f"), FAILS))]), VIOLATED),
        (system([edge(BAD, Guard(when("$ok", "$f"), FAILS), holds("$ok"))]), PROVED),
        (system([edge(1)], [edge(2)], []), PROVED),
        (system([edge(BAD)]), VIOLATED),
    ],
)  # fmt: skip
def test_straight_systems_are_decided(of: System, expected: Verdict) -> None:
    assert verdict(of) is expected


def merged(*values: Any, bad: str, inputs: tuple[str, ...] = ("ok", "n", "e", "text", "list")) -> System:
    ways = [edge(1, to("k", number), *([value] if value else [])) for number, value in enumerate(values)]
    return system(ways, [edge(BAD, holds(bad))], inputs=inputs)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (merged(to("u", "=$e"), to("u", given("ask.output")), bad="$u == 'w' and $k == 1"), VIOLATED),
        (merged(to("u", "=$e"), to("u", given("ask.output")), bad="$u == 'w' and $k == 0"), PROVED),
        (merged(to("u", "=$e"), to("u", given("ask.output")), bad="$u == $e and $e == 'w'"), PROVED),
        (merged(to("u", "=$text"), to("u", "abc"), bad="$u contains 'bc' and not ($u contains 'c')"), PROVED),
        (merged(to("u", "=$text"), to("u", "abc"), bad="$u starts_with 'x' and $k == 1"), PROVED),
        (merged(to("u", "=$text"), to("u", "=$e"), bad="$u == $text and $k == 1 and len($text) == 1"), VIOLATED),
        (merged(to("u", "=$text"), to("u", "=$e"), bad="len($u) > 1 and $k == 1"), PROVED),
        (merged(to("u", "=$text"), to("u", 1), bad="$u == 1 and $k == 0"), PROVED),
        (merged(to("u", "=$text"), None, bad="not defined($u) and $k == 0"), PROVED),
        (merged(to("v", "=$list"), to("v", "=$list"), None, bad="$v contains $e and $k == 1"), VIOLATED),
        (merged(to("v", "=['a', 'b']"), to("v", "=$list"), bad="$v contains 'c' and $k == 0"), PROVED),
        (merged(to("v", "=['a', 'b']"), to("v", "=$list"), bad="len($v) == 3 and $k == 0"), PROVED),
    ],
)
def test_texts_and_arrays_keep_their_answers_through_merges(of: System, expected: Verdict) -> None:
    assert verdict(of) is expected


def test_two_open_branches_are_two_paths() -> None:
    assert verdict(merged(to("m", 1), to("m", 2), bad="$m == 1")) is VIOLATED
    assert verdict(merged(to("m", 1), to("m", 2), bad="$m == 2")) is VIOLATED


def test_what_is_not_linear_may_stay_unknown() -> None:
    assert verdict(straight(bad="$price * $price == 2", inputs=("price",))) in (UNKNOWN, PROVED)
    assert verdict(straight(bad="$price * $price < 0", inputs=("price",))) in (UNKNOWN, PROVED)


# -- loops -----------------------------------------------------------------------------------------------------------


def counter(step: int, below: str, bad: str) -> System:
    loop = [edge(1, holds(f"$m < {below}"), to("m", f"=$m + {step}")), edge(BAD, holds(bad))]
    return system([edge(1, to("m", 0))], loop, inputs=["whole"])


@pytest.mark.parametrize(
    "of",
    [
        counter(2, "$whole", "$m == 7"),
        counter(1, "5", "$m == 6"),
        # a flag is set once
        system(
            [edge(1, to("f", False), to("m", 0))],
            [edge(1, holds("not $f"), to("f", True), to("m", "=$m + 1")), edge(1, holds("$f")), edge(2)],
            [edge(1), edge(BAD, holds("$m == 2"))],
        ),
        # what two free texts hold stays when they are swapped
        system(
            [edge(1, holds("$text contains 'ab' and $other starts_with 'ba'"), to("u", "=$text"), to("v", "=$other"))],
            [edge(1, to("u'", "=$v"), to("v", "=$u"), to("u", "=$u'")), edge(BAD, holds("not ($u contains 'a')"))],
            inputs=["text", "other"],
        ),
        system(
            [edge(1, to("u", "=$e"), to("f", "=$e == 'x'"))],
            [edge(1, holds("$f"), to("u", "=$u")), edge(1, holds("not $f"), to("u", given("ask.output"))), edge(2)],
            [edge(BAD, holds("$u == 'w' and $f"))],
        ),
    ],
)  # fmt: skip
def test_of_a_forgotten_loop_a_violation_is_no_more_than_a_candidate(of: System) -> None:
    answer = searched(of)
    assert answer.verdict is VIOLATED
    assert answer.path is not None
    assert not is_walked(of, answer.path)


def test_a_loop_that_leaves_the_flag_alone_needs_no_invariant() -> None:
    loop = [edge(1, holds("$m < 5"), to("m", "=$m + 1")), edge(BAD, holds("$f"))]
    assert verdict(system([edge(1, to("f", False), to("m", 0))], loop)) is PROVED


def irreducible(first: bool, second: bool) -> System:
    """Nodes 1 and 2 form a loop that can be entered at both; what is bad happens at 2."""
    ways = [edge(1, to("g", first)), edge(2, to("g", second))]
    return system(ways, [edge(2)], [edge(1), edge(BAD, holds("$g"))])


def test_a_loop_with_two_entries_is_not_taken_for_one() -> None:
    assert verdict(irreducible(True, False)) is VIOLATED
    assert verdict(irreducible(False, False)) is PROVED


def test_an_entry_that_lies_in_a_loop_keeps_its_start() -> None:
    of = system([edge(1), edge(BAD, holds("$f"))], [edge(0, to("f", "=$ok"))])
    assert verdict(of) is VIOLATED


def test_a_long_chain_needs_no_recursion() -> None:
    chain = [[edge(node + 1)] for node in range(size(5_000, 20_000))]
    assert verdict(system(*chain, [edge(BAD, holds("$ok and not $ok"))])) is PROVED


# -- at random -------------------------------------------------------------------------------------------------------


def differential(seeds: range) -> None:
    """Raise AssertionError where the block formula and the search disagree, or it does not decide what it must."""
    for seed in seeds:
        acyclic = seed % 2 == 0
        of = random_system(Random(seed), acyclic=acyclic)
        truth = is_reachable(of)
        answer = searched(of)
        assert not (truth is True and answer.verdict is PROVED), seed
        if acyclic:
            assert answer.verdict is (VIOLATED if truth else PROVED), seed


def test_layers_agree_with_the_search_of_states() -> None:
    differential(range(size(50, 160)))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(160, SYSTEMS, 300))
def test_layers_agree_with_the_search_of_states_on_many(first: int) -> None:
    differential(range(first, min(first + 300, SYSTEMS)))


# -- planted mistakes ------------------------------------------------------------------------------------------------


def nothing_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plans, "_written", lambda *_: frozenset())


def loops_are_entered_where_edges_lead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plans, "_redirected", lambda entering: entering)


def merges_take_the_next_ways_condition(patch: pytest.MonkeyPatch) -> None:
    true_joined = Encoding._joined

    def joined(ways: list[tuple[Any, Taken]]) -> Any:
        found = true_joined(ways)
        for root, version in found.items():
            if isinstance(version, Merge):
                conditions = [condition for condition, _ in version.parts]
                moved = conditions[1:] + conditions[:1]
                found[root] = Merge(tuple((when, one) for when, (_, one) in zip(moved, version.parts, strict=True)))
        return found

    patch.setattr(Encoding, "_joined", staticmethod(joined))


def roots_are_defined_at_the_entry(patch: pytest.MonkeyPatch) -> None:
    true_entry = Encoding.entry

    def entry(self: Encoding) -> Any:
        found = true_entry(self)
        anything = {root: self.terms.leaf(root, partial(self.assigned.domain, root)) for root in found}
        return {root: anything[root] if isinstance(one, Made) else one for root, one in found.items()}

    patch.setattr(Encoding, "entry", entry)


def the_last_assignment_is_skipped(patch: pytest.MonkeyPatch) -> None:
    true_assigned = Encoding._assigned

    def skipped(self: Encoding, one: Any, before: Any, conditions: Any) -> Any:
        after, made = true_assigned(self, one, before, conditions)
        return ({**after, one.assigns[-1].root: before[one.assigns[-1].root]}, made) if made else (after, made)

    patch.setattr(Encoding, "_assigned", skipped)


def a_way_is_taken_where_it_can_be(patch: pytest.MonkeyPatch) -> None:
    true_way = Encoding.edge

    def way(self: Encoding, one: Any) -> Taken:
        taken = true_way(self, one)
        last = self.terms.facts[-1] if self.terms.facts else None
        if taken.when is False:
            return taken
        if last is not None and z3.is_implies(last) and last.arg(0).eq(taken.when):
            self.terms.facts.append(z3.Implies(last.arg(1), taken.when))
        else:
            self.terms.facts.append(taken.when)
        return taken

    patch.setattr(Encoding, "edge", way)


def computed_values_always_exist(patch: pytest.MonkeyPatch) -> None:
    true_value = Encoding._value
    patch.setattr(Encoding, "_value", lambda self, assign, conditions: true_value(self, assign, []))


def what_is_forgotten_keeps_its_first_value(patch: pytest.MonkeyPatch) -> None:
    true_of = assigned_values.Assigned._union

    def union(self: Any, place: Any) -> Any:
        values = dict(self.values)
        self.values = {root: found[:2] for root, found in values.items()}
        found = true_of(self, place)
        self.values = values
        return found

    patch.setattr(assigned_values.Assigned, "_union", union)


def a_loop_changes_nothing_that_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(invariants, "_joined", lambda before, _after, **_: dict(before))


def judge(seeds: range) -> None:
    """Hold what random systems are seldom like against what is known of it, then random ones."""
    assert verdict(irreducible(True, False)) is VIOLATED
    assert verdict(merged(to("m", 1), to("m", 2), bad="$m == 2")) is VIOLATED
    assert verdict(counter(1, "5", "$m == 3")) is VIOLATED
    differential(seeds)


MISTAKES = (
    nothing_is_forgotten,
    loops_are_entered_where_edges_lead,
    merges_take_the_next_ways_condition,
    roots_are_defined_at_the_entry,
    the_last_assignment_is_skipped,
    a_way_is_taken_where_it_can_be,
    computed_values_always_exist,
    what_is_forgotten_keeps_its_first_value,
    a_loop_changes_nothing_that_holds,
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_planted_mistake_is_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        judge(range(200))


def test_formulas_are_the_same_text_every_time() -> None:
    of = straight(bad="$f")
    first, second = (searched(of).proof for _ in range(2))
    assert first is not None
    assert second is not None
    assert [one() for one in first.values()] == [one() for one in second.values()]
