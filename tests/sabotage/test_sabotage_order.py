"""The order of a campaign: which attacks come first, on what each runs, and what an option leaves out."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from paths import GOOD
from stepward.sabotage import campaign
from stepward.sabotage.attack import Attack
from stepward.sabotage.campaign import LEFT_OUT, Matrix, Orders, ProgramSource, attack_program
from stepward.sabotage.campaigns.shard import Shard, ShardResult
from stepward.sabotage.campaigns.specimen_programs import SPECIMENS
from stepward.sabotage.invariants import Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.choices import Drawn, Recorded
from stepward.sabotage.registry import ATTACK_BY_NAME, ATTACKS
from stepward.sabotage.target import Target
from stepward.vm import Program
from stepward.vm.journal.memory import MemoryJournal

REFUND = GOOD / "customer_refund.yaml"


def order_of_play(monkeypatch: pytest.MonkeyPatch, orders: Orders) -> tuple[Matrix, list[Shard]]:
    """Return the matrix of a campaign on the refund whose attacks all hold, without a play, and its shards in turn."""

    def absorbed(target: Target, attack: Attack, one: Shard, *_: Any, **__: Any) -> ShardResult:
        return ShardResult(one, Counter({Outcome.ABSORBED: one.cases}), 0, 0.0, None)

    monkeypatch.setattr(campaign, "run_shard", absorbed)
    begun: list[Shard] = []
    matrix = attack_program(Program.load(REFUND), orders=orders, progress=lambda one, *_: begun.append(one))
    return matrix, begun


def test_tables_come_among_the_first_shards_and_a_short_campaign_has_others_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They find much, and came after everything else: 40 s of CPU passed before them."""
    _, begun = order_of_play(monkeypatch, Orders(specimens=True))
    tables = {attack for attack in ATTACKS if attack.draws and attack.weight > 10}
    first = [ATTACK_BY_NAME[one.attack] for one in begun[: len(ATTACKS)]]
    assert set(first) == set(ATTACKS), "all come before any comes again"
    early = {attack for attack in tables if attack.weight <= 50}
    assert len(early) >= 15
    assert early <= set(first[: 3 * len(early) + 3])
    cost: Counter[bool] = Counter()
    for one, attack in zip(begun, first, strict=False):
        cost[attack in tables] += one.cases * attack.weight
        assert cost[True] <= 2.4 * cost[False], f"`{attack.name}` keeps the others waiting"


def test_a_table_in_parts_is_played_whole_before_any_attack_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first part comes among the first shards. A table that was played at once kept the others waiting."""
    _, begun = order_of_play(monkeypatch, Orders(specimens=True))
    in_parts = {attack.name: attack.parts for attack in ATTACKS if attack.parts > 1}
    assert len(in_parts) >= 8
    played = [(one.attack, one.number) for one in begun if one.attack in in_parts]
    assert sorted(played) == sorted((name, part) for name, parts in in_parts.items() for part in range(parts))
    rest = begun[len(ATTACKS) :][: sum(in_parts.values()) - len(in_parts)]
    assert all(one.number and one.attack in in_parts for one in rest)
    assert [one.number for one in rest] == sorted(one.number for one in rest)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10])
def test_each_thing_is_in_one_part(parts: int) -> None:
    case = Case(Target(Program.load(REFUND), ()), Drawn(), MemoryJournal(), "case", asyncio.Runner())
    seen = []
    for case.part in range(parts):
        for thing in case.each("thing", "abcdefghij", parts):
            assert "abcdefghij"[case.choices.decisions["thing"]] == thing, "a script names it by its number of all"
            seen.append(thing)
    assert "".join(seen) == "abcdefghij"


def test_a_script_plays_its_thing_whatever_part_it_was_in() -> None:
    case = Case(Target(Program.load(REFUND), ()), Recorded({"thing": 9}), MemoryJournal(), "case", asyncio.Runner())
    assert list(case.each("thing", "abcdefghij", 3)) == ["j"]


@pytest.mark.parametrize("has_specimens", [True, False])
def test_what_an_attack_makes_itself_is_not_the_program(monkeypatch: pytest.MonkeyPatch, has_specimens: bool) -> None:
    """Such attacks counted as having run on the program."""
    matrix, _ = order_of_play(monkeypatch, Orders(specimens=has_specimens))
    for row in matrix.rows:
        if row.attack.draws:
            assert (row.ran_on_program, row.ran_on) == (False, ProgramSource.OWN)
        elif row.misses is None:
            assert (row.ran_on_program, row.ran_on) == (True, ProgramSource.PROGRAM)
        else:
            assert (row.ran_on_program, row.ran_on) == (False, ProgramSource.BUILT_IN if has_specimens else None)
    counted = [matrix.ran_on(ground) for ground in ProgramSource]
    assert sum(counted) == matrix.ran
    assert counted[-1] == sum(attack.draws for attack in ATTACKS)
    assert matrix.ran_all is has_specimens


def test_only_the_program_is_attacked_where_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("reply-outside-the-set", "output-ill-typed", "one-of-many", "drawn-types")
    matrix, begun = order_of_play(monkeypatch, Orders(attacks=names, drawn=False))
    assert {one.attack for one in begun} == set(names[:2])
    assert [(row.ran_on, row.why_not) for row in matrix.rows if row.attack.draws] == [(None, LEFT_OUT)] * 2
    assert (matrix.ran, matrix.ran_all) == (2, True), "what was to be left out is not missed"
    missed, _ = order_of_play(monkeypatch, Orders(attacks=(*names, "item-skipped"), drawn=False))
    assert not missed.ran_all, "there are no items"


def test_attacks_begin_with_different_specimens_and_those_that_draw_programs_play_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is wrong where items run at once was played after all attacks had been on three other specimens."""
    matrix, begun = order_of_play(monkeypatch, Orders(specimens=True))
    drawing = {attack.name for attack in ATTACKS if attack.draws}
    assert len(drawing) > 20
    first_turns = begun[: 2 * len(ATTACKS) - 40]
    before = Counter(one.specimen for one in first_turns)
    assert before.keys() == {"", *SPECIMENS}
    assert min(before.values()) >= 5, "each is played by several attacks in the second turn"
    shards = [one for one in begun if one.attack in drawing]
    assert not any(one.specimen for one in shards)
    assert max(one.cases for one in shards) <= 20, "they come again and again, and never for long"
    assert all(row.cases > 0 for row in matrix.rows)
