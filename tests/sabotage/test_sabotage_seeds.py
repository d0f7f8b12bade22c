"""The whole machine under many seeds: no campaign breaches it."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import pytest

from paths import ROOT
from sizes import size
from stepward.sabotage.attack import Attack
from stepward.sabotage.campaign import Orders, attack_program
from stepward.sabotage.registry import ATTACKS
from stepward.validator import check_program
from stepward.validator.routes import routes
from stepward.vm import Policy, Program

SEEDS: Final = int(os.environ.get("STEPWARD_SEEDS", "1"))
"""How many seeds; the nightly run has 200."""

PARTS: Final = 16
"""Each seed plays one of so many parts of the attacks: a few cases would all be the simplest ones."""

EXAMPLES: Final = size(2, 8)

SPECS: Final = ROOT / "specs"


def played(seed: int) -> tuple[type[Attack], ...]:
    """Return the attacks of a seed; after as many seeds as there are parts each was among them."""
    return ATTACKS[seed % PARTS :: PARTS]


def test_every_attack_has_its_seed() -> None:
    assert {attack for seed in range(PARTS) for attack in played(seed)} == set(ATTACKS)


@pytest.mark.slow
def test_no_seed_breaches_the_whole_machine() -> None:
    program = Program.load(SPECS / "programs/good/customer_refund.yaml")
    policies = [Policy.load(SPECS / "policies/payments.yaml")]
    known = routes(program, policies, check=partial(check_program, recheck=False))
    for seed in range(SEEDS):
        names = tuple(attack.name for attack in played(seed))
        orders = Orders(seed=seed, examples=EXAMPLES, attacks=names, specimens=True)
        matrix = attack_program(program, policies, orders, routes=known)
        found = [f"{script.attack}: {script.what}" for script in (*matrix.breaches, *matrix.unconfirmed)]
        assert not found, f"seed {seed}: {found}"
        assert matrix.events, f"seed {seed} never reached the machine"


@pytest.mark.slow
def test_a_policy_that_is_written_in_another_way_is_new_to_a_run() -> None:
    """`waivers: []` says what no `waivers` say, and has another digest: the reference took the two for one policy."""
    program = Program.load(SPECS / "programs/good/customer_refund.yaml")
    orders = Orders(seed=2035, examples=1, attacks=("drawn-policies",), specimens=True)
    matrix = attack_program(program, [Policy.load(SPECS / "policies/payments.yaml")], orders)
    assert not [script.what for script in (*matrix.breaches, *matrix.unconfirmed)]
    assert matrix.events
