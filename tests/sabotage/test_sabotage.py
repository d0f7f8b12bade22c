"""The campaign itself: it repeats from its seed, hangs on nobody's number, counts what it did, and reports it."""

from __future__ import annotations

import json
import os
from collections import Counter
from decimal import Decimal
from itertools import count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase

from canaries import repeated_here
from canaries_injection import CLOSED, takes_any_reply
from canaries_replays import ASKS
from machines import both, program, tool
from paths import DATA, GOOD, ROOT
from sizes import size
from stepward.sabotage import campaign
from stepward.sabotage.attack import Family, Stateful
from stepward.sabotage.attacks import continuations
from stepward.sabotage.campaign import Matrix, Orders, attack_program
from stepward.sabotage.campaigns import shard
from stepward.sabotage.campaigns.confirming import is_repeated
from stepward.sabotage.campaigns.script import Script, ScriptRefused
from stepward.sabotage.campaigns.selftest import alarms
from stepward.sabotage.campaigns.shard import Shard
from stepward.sabotage.campaigns.threats import page
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.choices import Drawn, Recorded
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.world import TOKENS_OF_A_REPLY
from stepward.sabotage.reference import Raised, Reference, Returned
from stepward.sabotage.registry import ATTACK_BY_NAME, ATTACKS
from stepward.sabotage.target import Route, Target
from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program
from stepward.vm.values import freeze, to_json

REFUND = GOOD / "customer_refund.yaml"


def counts(matrix: Matrix) -> dict[str, Any]:
    """What a matrix says but for seconds."""
    return {row.attack.name: (dict(row.outcomes), row.events, row.breach, row.misses) for row in matrix.rows}


def test_a_process_can_be_killed_before_and_after_every_write_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []

    async def pass_by(points: Points, name: str) -> None:
        passed.append(name)

    monkeypatch.setattr(Points, "pass_by", pass_by)
    attack_program(Program.load(REFUND), (), Orders(0, 2, attacks=("killed-anywhere",)))
    for when in ("before", "after"):
        said = {name for name in passed if name.startswith(f"{when} the append of ")}
        assert f"{when} the append of started" in said
        assert any("attempt" in name for name in said)


# -- the registry ------------------------------------------------------------------------------------------------------


def test_there_are_thirty_attacks_and_no_two_do_the_same() -> None:
    assert len(ATTACKS) >= 30
    assert len(ATTACK_BY_NAME) == len(ATTACKS)
    same = Counter((attack.surface, attack.action, attack.invariant) for attack in ATTACKS)
    assert [what for what, count in same.items() if count > 1] == []


def test_every_family_has_attacks() -> None:
    assert {attack.family for attack in ATTACKS} == set(Family)


def test_every_attack_says_what_it_is() -> None:
    for attack in ATTACKS:
        assert (attack.__doc__ or "").strip().endswith("."), attack.name
        for text in (attack.surface, attack.action, attack.defence, attack.enumerates):
            assert not text.endswith("."), attack.name
            assert "\n" not in text, attack.name
        assert attack.severity in ("critical", "high", "medium"), attack.name
        assert isinstance(attack.invariant, Invariant), attack.name
        assert attack.weight >= 1, attack.name


def test_every_invariant_is_aimed_at() -> None:
    assert {attack.invariant for attack in ATTACKS} == set(Invariant)


def test_the_threat_model_is_fresh() -> None:
    assert (ROOT / "specs/threat-model.md").read_text() == page(), "`make docs` writes it"


def test_an_attack_on_what_it_makes_itself_needs_nothing_of_a_program() -> None:
    assert [attack.name for attack in ATTACKS if attack.draws and attack.needs] == []


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the attacks that have looked at the program under attack."""
    found: set[str] = set()
    begun = shard.CaseRunner.case

    class Watched(Case):
        @property
        def target(self) -> Target:  # type: ignore[override]
            found.add(vars(self)["attack"])
            return vars(self)["target"]

    def case(made_by: Any, choices: Any) -> Case:
        made = begun(made_by, choices)
        vars(made)["attack"] = made_by.attack.name
        made.__class__ = Watched
        return made

    monkeypatch.setattr(shard.CaseRunner, "case", case)
    return found


# -- seeds and shards --------------------------------------------------------------------------------------------------

FEW = ("reply-outside-the-set", "killed-anywhere", "actors-in-any-order")


@pytest.mark.slow
def test_a_seed_repeats_a_campaign_whatever_the_number_of_workers() -> None:
    program, examples = Program.load(REFUND), size(3, 24)
    one, same = (attack_program(program, orders=Orders(seed=3, examples=examples, attacks=FEW[:2])) for _ in range(2))
    two = attack_program(program, orders=Orders(seed=3, examples=examples, attacks=FEW[:2], workers=2))
    other = attack_program(program, orders=Orders(seed=4, examples=examples, attacks=FEW[:2]))
    assert counts(one) == counts(same) == counts(two)
    assert counts(one) != counts(other)


TOKENS = [attack.name for attack in ATTACKS if "token" in attack.name]


def test_a_seed_repeats_every_case_in_which_a_token_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a case does hangs on its decisions alone: no random token or salt decides anything."""
    played: list[tuple[Outcome, Any]] = []
    end = shard._Tally.end

    def noted(tally: Any, case: Any, outcome: Outcome) -> None:
        played.append((outcome, freeze(dict(case.choices.decisions))))
        end(tally, case, outcome)

    monkeypatch.setattr(shard._Tally, "end", noted)
    program, orders = Program.from_dict(dict(ASKS)), Orders(seed=5, examples=size(20, 60), attacks=tuple(TOKENS))
    attack_program(program, orders=orders)
    once = list(played)
    played.clear()
    attack_program(program, orders=orders)
    assert [case for case, same in zip(once, played, strict=True) if case != same] == []


def test_what_is_found_first_does_not_hang_on_who_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    takes_any_reply(monkeypatch)
    orders = Orders(examples=150, attacks=("reply-outside-the-set",))
    matrix = attack_program(Program.from_dict(dict(CLOSED)), orders=orders, confirm=repeated_here)
    assert matrix.rows[0].outcomes[Outcome.BREACHED] == 4, "each of four shards breaches"
    assert len(matrix.breaches) == 1


@pytest.mark.parametrize("is_shrunk", [False, True])
def test_a_breach_is_played_again_only_to_make_it_smaller(monkeypatch: pytest.MonkeyPatch, is_shrunk: bool) -> None:
    takes_any_reply(monkeypatch)
    breaches: list[Breach] = []
    play = shard.play

    def noted(attack: Any, case: Any) -> Outcome:
        try:
            return play(attack, case)
        except Breach as breach:
            breaches.append(breach)
            raise

    monkeypatch.setattr(shard, "play", noted)
    if not is_shrunk:
        monkeypatch.setattr(shard, "_phases", lambda attack, database: [Phase.generate])
    orders = Orders(examples=60, attacks=("reply-outside-the-set",), stops=True)
    matrix = attack_program(Program.from_dict(dict(CLOSED)), orders=orders, confirm=lambda *_: True)
    assert len(matrix.breaches) == 1
    assert matrix.breaches[0].choices == breaches[-1].choices
    assert (len(breaches) > 1) is is_shrunk


def test_a_campaign_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=count().__next__))
    matrix = attack_program(Program.load(REFUND), orders=Orders(examples=500, attacks=FEW[:1], seconds=2))
    assert matrix.left > 0
    assert 0 < matrix.rows[0].cases < 500


def test_families_and_attacks_are_chosen() -> None:
    crash = Orders(families=(Family.CRASH,)).chosen()
    assert {attack.family for attack in crash} == {Family.CRASH}
    assert [attack.name for attack in Orders(attacks=FEW[:1]).chosen()] == [FEW[0]]


# -- reaching what an attack is named after ----------------------------------------------------------------------------


ON_SPECIMENS = ("tokens-in-any-order", "tokens-at-once", "item-too-early", "item-after-failure")
SENT = [attack for attack in ATTACKS[:: size(12, 1)] if attack.name not in ON_SPECIMENS]
"""By day each twelfth attack: `test_cli_init.py` plays all of them, and `test_canaries.py` has each of them breach."""


@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn")
def test_every_attack_reaches_its_place_in_some_good_program(looking: set[str]) -> None:
    """Most do so in a few cases; the others are played with more. Those that look at no program say so (`draws`)."""
    policies = [Policy.load(file) for file in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    reached: set[str] = set()
    programs = ("customer_refund", "database_migration", "nightly_report", "release_notes", "failed_payment_recovery")
    programs += ("team_budget", "suppliers_at_once", "invoice_dunning", "spending_request", "nightly_archive")
    for examples, name in product((size(1, 2), 20), programs):
        left = tuple(attack.name for attack in SENT if attack.name not in reached)
        if not left:
            break
        program = Program.load(GOOD / f"{name}.yaml")
        matrix = attack_program(program, policies, Orders(examples=examples, attacks=left))
        assert matrix.ok, matrix.breaches[0].what
        reached |= {row.attack.name for row in matrix.rows if row.ran}
    assert reached == {attack.name for attack in SENT}
    program = Program.load(GOOD / "price_update.yaml")
    matrix = attack_program(program, policies, Orders(examples=size(24, 60), attacks=ON_SPECIMENS, specimens=True))
    assert matrix.ok, matrix.breaches[0].what
    assert all(row.ran for row in matrix.rows), "these need several items at once, which a good program seldom has"
    assert looking == {attack.name for attack in SENT if not attack.draws}.union(ON_SPECIMENS)


@pytest.mark.parametrize("attack", ["killed-anywhere", "stale-driver", "sigkill"])
def test_a_wave_that_a_crash_ends_may_be_one_that_the_tokens_do_not_suffice_for(attack: str) -> None:
    models = [{"id": name, "type": "llm", "prompt": name} for name in ("one", "other")]
    steps = [{"id": "both", "type": "parallel", "parallel_steps": models}]
    program = Program.from_dict({"name": "both", "max_tokens": TOKENS_OF_A_REPLY, "steps": steps})
    matrix = attack_program(program, orders=Orders(attacks=(attack,)))
    assert matrix.ok, matrix.breaches[0].what


def test_a_crash_ends_a_wave_and_the_next_one_has_what_was_to_be_tried_again() -> None:
    parts = [{"id": f"s{number}", "type": "tool", "tool": tool} for number, tool in enumerate(("mail", "sign", "sign"))]
    steps = [{"id": "all", "type": "parallel", "max_concurrency": 1, "parallel_steps": parts}]
    tools = {"mail": {"effect": "write", "idempotent": True}, "sign": {"effect": "none"}}
    program = Program.from_dict({"name": "waves", "tools": tools, "steps": steps})
    matrix = attack_program(program, orders=Orders(attacks=("retries-after-crash",), examples=size(6, 12)))
    assert matrix.ok, matrix.breaches[0].what


@pytest.mark.parametrize("has_started", [True, False])
def test_a_crash_ends_a_wave_and_no_attempt_is_charged_twice(has_started: bool) -> None:
    failing = {"on_error": "retry", "max_retries": 3}
    reference = Reference(program(both("p", tool("a", **failing), tool("b", **failing))))
    reference.start({})
    for name in "ab":
        reference.answer(name, Raised())
    reference.answer("a", Raised())
    assert [(one.step, one.attempt, reference.steps) for one in reference.asked] == [("b", 2, 5)]
    reference.interrupt(lambda _: has_started)
    assert [(one.step, one.attempt) for one in reference.asked] == [("a", 3), ("b", 2)], "in one wave"
    assert [one.performance for one in reference.asked] == [3, 2], "an attempt that is made again is no performance"
    assert reference.steps == 6
    for name in "ab":
        reference.answer(name, Returned(1))
    assert (reference.status, reference.steps) == ("SUCCESS", 6)


def test_routes_lead_to_effects_that_chance_does_not_find() -> None:
    steps: list[dict[str, Any]] = [
        {"id": "gate", "type": "condition", "condition": "$code == 7351", "then": "pay", "otherwise": "stop"},
        {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
        {"id": "stop", "type": "end"},
    ]
    tools = {"pay": {"effect": "write", "idempotent": False, "args": {}}}
    program = Program.from_dict(
        {"name": "lock", "inputs": {"code": {"type": "integer"}}, "tools": tools, "steps": steps}
    )
    from stepward.validator import check_program
    from stepward.validator.routes import routes

    found = routes(program, check=check_program)
    assert [dict(route.inputs) for route in found] == [{"code": 7351}]
    target = Target(program, (), found)
    assert target.routes[0].answer("pay", 1, 1) is None


def test_a_route_is_what_a_witness_says() -> None:
    entry = {"step": "a", "visit": 1, "does": "returns", "value": 1}
    later = {"step": "a", "visit": 1, "attempt": 2, "does": "fails"}
    route = Route.of({"x": 1}, [entry, later])
    assert route.answer("a", 1, 1) == entry
    assert route.answer("a", 1, 2) == later
    assert route.answer("a", 2, 1) is None
    assert Route.of(route.inputs, route.script) == route


# -- breaches are repeated ---------------------------------------------------------------------------------------------


def test_a_decision_is_what_a_script_can_hold() -> None:
    from hypothesis import given
    from hypothesis import strategies as st

    written = st.sampled_from([Decimal("0.00"), Decimal("1E+2"), 0.5, (1, {"a": (Decimal("2.50"),)}), "0.00"])

    @given(st.data())
    def check(data: st.DataObject) -> None:
        choices = Drawn(data)
        made = choices.pick("it", written)
        read = json.loads(to_json(freeze(choices.decisions)), parse_float=Decimal)
        assert Recorded(read).pick("it", written) == made
        assert repr(read["it"]) == repr(made)

    check()


@pytest.mark.slow
def test_a_breach_is_repeated_by_a_process_whose_machine_has_the_defect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = breach(monkeypatch)
    assert not is_repeated(script), "the whole machine holds"
    patch = "import pytest; from canaries_injection import takes_any_reply; takes_any_reply(pytest.MonkeyPatch())"
    (tmp_path / "sitecustomize.py").write_text(patch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(ROOT / "tests/support"))))
    assert is_repeated(script), "a machine that takes any reply does not"


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["run-id-reused", "run-id-raced"])
def test_no_seed_makes_a_false_alarm_of_one_value_written_in_two_ways(attack: str) -> None:
    program = Program.load(REFUND)
    for seed in range(4, size(5, 10)):
        matrix = attack_program(program, orders=Orders(seed=seed, examples=60, attacks=(attack,)))
        assert matrix.ok


# -- the time goes round -----------------------------------------------------------------------------------------------


def test_every_attack_gets_a_share_of_the_time_before_any_gets_a_second() -> None:
    begun: list[Shard] = []
    orders = Orders(examples=11, attacks=("reply-outside-the-set", "inputs-ill-typed", "forged-tool-name"))
    attack_program(Program.load(REFUND), orders=orders, progress=lambda shard, done, total: begun.append(shard))
    assert [shard.number for shard in begun] == [0, 0, 0, 1, 1, 1]
    assert len({shard.attack for shard in begun[:3]}) == 3


# -- scripts -----------------------------------------------------------------------------------------------------------


def breach(monkeypatch: pytest.MonkeyPatch) -> Script:
    with monkeypatch.context() as patch:
        takes_any_reply(patch)
        orders = Orders(attacks=("reply-outside-the-set",))
        matrix = attack_program(Program.from_dict(dict(CLOSED)), orders=orders, confirm=repeated_here)
        return matrix.breaches[0]


def test_a_script_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = breach(monkeypatch)
    file = tmp_path / "breach.json"
    file.write_text(script.to_json())
    again = Script.load(file)
    assert again.to_json() == script.to_json()
    assert again.replay()[0] is Outcome.BLOCKED, "the machine as it is holds"
    takes_any_reply(monkeypatch)
    outcome, found, story = again.replay()
    assert outcome is Outcome.BREACHED
    assert isinstance(found, Breach)
    assert found.what == script.what
    assert story == script.story


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: [], "no attack script"),
        (lambda data: data | {"version": 2}, "another version"),
        (lambda data: data | {"choices": []}, "`choices` of the attack script"),
        (lambda data: data | {"more": 1}, "no attack script"),
    ],
)
def test_what_is_no_script_is_refused(change: Any, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "breach.json"
    file.write_text(json.dumps(change(json.loads(breach(monkeypatch).to_json()))))
    with pytest.raises(ScriptRefused, match=words):
        Script.load(file)


@pytest.mark.parametrize("file", sorted((DATA / "breaches").iterdir()), ids=lambda file: file.stem)
def test_a_breach_that_was_mended_does_not_show_any_more(file: Path) -> None:
    assert Script.load(file).replay()[0] is not Outcome.BREACHED


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_the_validator_attacks_what_it_validates() -> None:
    matrix = ProgramValidator(Program.load(REFUND)).sabotage(Orders(examples=10, attacks=FEW[:1]))
    assert matrix.ok
    assert matrix.rows[0].outcome is Outcome.BLOCKED
    assert matrix.events > 10


def test_every_alarm_of_the_self_test_goes_off() -> None:
    found = alarms()
    assert len(found) >= 4
    assert all(alarm.went_off for alarm in found), [alarm.defence for alarm in found if not alarm.went_off]


def test_a_silent_alarm_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepward.sabotage.campaigns import selftest
    from stepward.sabotage.playing.case import Weakness

    monkeypatch.setattr(selftest, "SILENCED", (selftest.SILENCED[0]._replace(weakness=Weakness()),))
    assert [alarm.went_off for alarm in alarms()] == [False]


def test_stateful_attacks_are_told_from_others() -> None:
    assert [attack.name for attack in ATTACKS if issubclass(attack, Stateful)] == ["actors-in-any-order"]


@pytest.mark.parametrize("seed", [1, 3])
def test_what_a_deadline_settles_is_no_delivery(seed: int) -> None:
    program = Program.load(GOOD / "spending_request.yaml")
    matrix = attack_program(program, orders=Orders(seed=seed, attacks=("killed-while-delivering",), examples=40))
    assert matrix.ok, matrix.breaches[0].what


TWO_PEOPLE = {
    "name": "two_people",
    "inputs": {"x": {"type": "string", "maxLength": 5}},
    "tools": {
        "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
        "pay": {
            "effect": "write",
            "idempotent": False,
            "args": {"x": {"type": "string"}},
            "returns": {"type": "string"},
        },
    },
    "steps": [
        {"id": "asked", "type": "tool", "tool": "ask", "output_key": "said"},
        {"id": "agreed", "type": "condition", "condition": "$said", "then": "pay", "otherwise": "no"},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"x": "$x"}, "next_step": "done"},
        {"id": "done", "type": "end"},
        {"id": "no", "type": "end", "outcome": "failure"},
    ],
}


def test_no_attack_takes_it_for_a_breach_that_a_policy_asks_for_two_people() -> None:
    """Attacks start and settle as two people then. Each that applies to the program plays, by day each fourth."""
    eyes = Policy.from_dict({"policy": "eyes", "four_eyes": ["ask", "pay"]})
    names = tuple(attack.name for attack in ATTACKS[:: size(4, 1)])
    orders = Orders(seed=1, examples=1, attacks=names, drawn=False)
    matrix = attack_program(Program.from_dict(TWO_PEOPLE), [eyes], orders)
    assert not {row.attack.name: row.breach for row in matrix.rows if row.breach}
    assert sum(not row.misses for row in matrix.rows) > size(25, 100)


RULES_ABOUT_STEPS = (
    {"name": "one-end", "exclusive": [{"step": "done"}, {"step": "no"}]},
    {"name": "asked-once", "at_most_once": {"step": "agreed"}},
    {"name": "agreed-first", "protects": {"step": "done"}, "requires": {"step": "agreed", "branch": "then"}},
    {"name": "paid-once", "at_most_once": {"step": "pay"}},
)


def test_no_attack_takes_it_for_a_breach_that_a_rule_is_about_a_step() -> None:
    """What an attacker continues a run with has other steps, and is refused for it."""
    program = Program.from_dict(TWO_PEOPLE | {"guardrails": [*RULES_ABOUT_STEPS]})
    continuing = tuple(attack.name for attack in ATTACKS if attack.__module__ == continuations.__name__)
    matrix = attack_program(program, orders=Orders(seed=1, examples=2, attacks=continuing, drawn=False))
    assert not {row.attack.name: row.breach for row in matrix.rows if row.breach}
    assert sum(not row.misses for row in matrix.rows) > 4
