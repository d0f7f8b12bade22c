"""Differential: relations between the numbers of loops, against a search of concrete states and the runs of programs.

What is proved by relations must be true, and each script of it unsatisfiable. `STEPWARD_RELATIONS=6000` tries that many
random systems.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import z3

from brute_force import truth
from comparing import checked
from layers import impatient, only
from sizes import MANY, asked_for
from stepward.validator import Verdict
from stepward.validator.engine import reach
from stepward.validator.engine.clock import UNLIMITED
from stepward.validator.engine.smt import blocks
from stepward.validator.engine.smt.encoding import Encoding
from stepward.validator.engine.systems.system import BAD, FAILS, NONE_HOLDS, Edge, Guard, System
from systems import DOMAINS, edge, given, holds, is_reachable, system, to, when

FIRST = 20
"""The first of the systems by day: relations decide one of the next two."""

SYSTEMS = asked_for("STEPWARD_RELATIONS", 8, 1_000)
PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN

# -- systems at random -----------------------------------------------------------------------------------------------

CONDITIONS = (
    "$m < $n", "$m <= 3", "$k >= 2", "$m + $k == 3", "$k > $m", "$m + $n <= 4", "$k < 3", "$n > 1", "$m == $k",
    "$m * 2 == $k", "$k <= $n", "$o.q == 1", "$m - $k == 1", "$m > 3", "$k + $m > 4", "$c.q <= 1", "$m < 0",
)  # fmt: skip
ASSIGNED: tuple[tuple[str, Any], ...] = (
    ("m", 0), ("m", "=$n"), ("m", "=$m + 1"), ("m", "=$m - 1"), ("k", 0), ("k", "=$k + 2"), ("k", "=$k - 1"),
    ("m", "=$k"), ("k", "=$m + $n"), ("m", "=$m + $n"), ("k", "=$k - $n"), ("k", "=$rate.output"),
    ("m", "=$m + $rate.output"), ("k", "=$k - $rate.output"), ("c", "=$o"), ("k", "=$c.q"), ("m", None),
)  # fmt: skip
TOGETHER: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("m", "=$m + 1"), ("k", "=$k - 1")),
    (("m", "=$m + $n"), ("k", "=$k - $n")),
    (("m", "=$m + 1"), ("k", "=$k + 2")),
    (("m'", "=$m"), ("m", "=$k"), ("k", "=$m'")),
    (("m", "=$m + $rate.output"), ("k", "=$k - $rate.output")),
)


def numeric_system(random: Random) -> System:
    """Return a small system with loops that count."""
    size = random.randint(2, 5)
    ways = [[_edge(random, node, size) for _ in range(random.randint(1, 3))] for node in range(size)]
    ways[-1].append(edge(BAD, *(holds(text) for text in random.sample(CONDITIONS, random.randint(1, 2)))))
    return system(*ways)


def _edge(random: Random, node: int, size: int) -> Edge:
    target = random.choice([*range(size), BAD] if node else [*range(1, size)])
    decision = when(random.choice(CONDITIONS))
    guards = [Guard(decision, random.choice([0, 0, NONE_HOLDS, FAILS]))] if random.random() < 0.6 else []
    if target == BAD and not guards:
        guards = [holds(random.choice(CONDITIONS))]
    begun: list[tuple[str, Any]] = []
    if node == 0 and random.random() < 0.8:
        begun = [("m", random.choice([0, 1, "=$n"])), ("k", random.choice([0, 2, 3, "=$n"]))]
        begun.append(("rate.output", given("rate.output")))
    several = random.choice(TOGETHER)
    if random.random() < 0.6:
        several = tuple(random.choice(ASSIGNED) for _ in range(random.randint(0, 2)))
    return edge(target, *guards, *(to(*one) for one in (*begun, *several)))


def differential(seeds: range) -> int:
    """Return how many systems relations alone decide; raises AssertionError where what they prove is not true."""
    decided = 0
    for seed in seeds:
        of = numeric_system(Random(seed))
        alone, related = (
            blocks.search(of, DOMAINS, units=20_000_000, clock=UNLIMITED, relates=relates) for relates in (False, True)
        )
        if related.verdict is PROVED:
            assert is_reachable(of) is not True, seed
            assert related.proof is not None
            for written in related.proof.values():
                solver = z3.Solver()
                solver.from_string(written())
                assert solver.check() == z3.unsat, seed
        assert alone.verdict is not PROVED or related.verdict is PROVED, seed
        decided += alone.verdict is not related.verdict
    return decided


@pytest.mark.parametrize("first", range(FIRST, FIRST + SYSTEMS, 500))
def test_what_relations_prove_of_systems_is_true(first: int) -> None:
    assert differential(range(first, min(first + 500, FIRST + SYSTEMS)))


def test_an_entry_into_a_loop_that_is_taken_for_a_round_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then relations that contradict one another would rule out the way into the loop, and so prove everything."""
    called = Encoding._called
    monkeypatch.setattr(Encoding, "_called", lambda self, name, term, is_new=False: called(self, name, term))
    with pytest.raises(AssertionError):
        differential(range(8))


# -- programs --------------------------------------------------------------------------------------------------------

SMALL = {"type": "integer", "minimum": 0, "maximum": 2}
GUARD = {"id": "fits", "type": "condition", "condition": "$x <= $left", "then": "take", "otherwise": "no"}
TAKE = {"id": "take", "type": "set", "set": {"left": "$left - $x", "paid": "$paid + $x"}, "next_step": "pay"}
PAY = {"id": "pay", "type": "tool", "tool": "pay", "next_step": "no"}
NO = {"id": "no", "type": "end"}
LEFT, MORE = (TAKE | {"set": {"left": "$left - $x"}}, TAKE | {"id": "more", "set": {"paid": "$paid + $x"}})
BODIES: dict[str, list[dict[str, Any]]] = {
    "together": [GUARD, TAKE, PAY, NO],
    "apart": [GUARD, LEFT | {"next_step": "more"}, MORE | {"next_step": "pay"}, PAY, NO],
    "unguarded": [TAKE, PAY, NO],
    "paid first": [GUARD, PAY | {"id": "take", "next_step": "give"}, TAKE | {"id": "give", "next_step": "no"}, NO],
    "failing between": [
        GUARD,
        LEFT | {"next_step": "pay"},
        PAY | {"next_step": "more"},
        MORE | {"next_step": "no"},
        NO,
    ],
    "unequal": [GUARD, TAKE | {"set": {"left": "$left - $x", "paid": "$paid + 2"}}, PAY, NO],
    "twice": [GUARD, TAKE | {"set": {"left": "$left - 1", "paid": "$paid + 2"}}, PAY, NO],
    "swapped": [GUARD, TAKE | {"set": {"left": "$paid", "paid": "$left"}}, PAY, NO],
}
STARTS: dict[str, dict[str, Any]] = {
    "constants": {"left": 3, "paid": 0},
    "an input": {"left": "$n", "paid": 0},
    "two inputs": {"left": "$n", "paid": "$n"},
}
RULES = {
    "below": "$left < 0",
    "above": "$paid > 3",
    "sum": "$left + $paid != 3",
    "input": "$left + $paid != $n",
    "limit": "$paid > $n",
    "either": "$left + $paid > 4",
    "double": "$left * 2 + $paid != 6",
}


def program(body: str, start: str, on_item_error: str) -> dict[str, Any]:
    """Return a program that pays from what is left, with rules about what is left and what was paid."""
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, "steps": BODIES[body]}
    each |= {"carry": STARTS[start], "on_item_error": on_item_error}
    return {
        "name": "relations",
        "language": 2,
        "inputs": {"l": {"type": "array", "items": SMALL, "maxItems": 2}, "n": SMALL},
        "tools": {"pay": {"effect": "write", "idempotent": True}, "book": {"effect": "write", "idempotent": True}},
        "guardrails": [
            {"name": f"{name} {tool}", "never": {"tool": tool}, "when": rule}
            for name, rule in RULES.items()
            for tool in ("pay", "book")
        ],
        "steps": [each, {"id": "book", "type": "tool", "tool": "book", "is_terminal": True}],
    }


VARIANTS = [(body, start, how) for body in BODIES for start in STARTS for how in ("skip", "fail")]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("body", "start", "how"), VARIANTS if MANY else VARIANTS[::11])
def test_what_relations_prove_of_programs_is_true(
    body: str, start: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The formula alone is asked: it does not count items, so what it proves holds of any number."""
    data = program(body, start, how)
    broken = truth(data).broken
    only(monkeypatch, "block formula")
    said = {one.rule: one for one in checked(data).properties if one.name == "never"}
    for rule, one in said.items():
        assert one.verdict is not PROVED or (not broken[rule] and one.rechecked), rule
        assert one.verdict is not VIOLATED or broken[rule], rule


def test_a_refund_loop_is_decided() -> None:
    data = program("together", "constants", "fail")
    data["inputs"]["l"]["maxItems"] = 50
    data["steps"][0]["max_items"] = 50
    said = {one.rule: one.verdict for one in checked(data).properties if one.name == "never"}
    for rule in ("below", "above", "sum"):
        assert {said[f"{rule} pay"], said[f"{rule} book"]} == {PROVED}, rule
    assert said["limit book"] is VIOLATED


def test_a_sum_stays_below_a_multiple_that_a_rule_names() -> None:
    """The rule compares two numbers with a factor that is no relation of each round: it is tried as a bound."""
    add = {"id": "add", "type": "set", "set": {"left": "$left + $x", "paid": "$paid + 1"}, "is_terminal": True}
    data = program("together", "constants", "fail")
    data["steps"][0] |= {"steps": [add], "carry": {"left": 0, "paid": 0}, "max_items": 50}
    data["inputs"]["l"]["maxItems"] = 50
    data["guardrails"] = [{"name": "average", "never": {"tool": "book"}, "when": "$left > $paid * 2"}]
    (said,) = [one for one in checked(data).properties if one.name == "never"]
    assert said.verdict is PROVED


def test_what_is_left_open_says_which_loop_the_path_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line bounds this sum: twice the sum is `n * n - n`."""
    impatient(monkeypatch)
    monkeypatch.setattr(reach, "MAX_STATES", reach.FEW_STATES)
    add = {"id": "add", "type": "set", "set": {"left": "$left + $paid", "paid": "$paid + 1"}, "is_terminal": True}
    data = program("together", "constants", "fail")
    data["steps"][0] |= {"steps": [add], "carry": {"left": 0, "paid": 0}, "max_items": 50}
    data["inputs"]["l"]["maxItems"] = 50
    data["guardrails"] = [{"name": "square", "never": {"tool": "book"}, "when": "$left * 2 != $paid * $paid - $paid"}]
    (found,) = [one for one in checked(data).findings if one.code == "SW408"]
    assert (
        "it leaves out rounds of the loop at `each`, and they may leave any value in `$left` and `$paid`"
        in found.message
    )
