"""The campaign is itself tested: a machine without one defence is breached within the default budget, each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from canaries import Canary, canaries
from stepward.sabotage.registry import ATTACK_BY_NAME
from stepward.vm.values import freeze

ALL = canaries()


@pytest.mark.slow
@pytest.mark.parametrize("canary", ALL, ids=lambda canary: canary.name)
def test_the_campaign_breaches_a_machine_without_a_defence(
    canary: Canary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        canary.patch(patch)
        matrix = canary.campaign()
    assert len(matrix.breaches) == 1, f"the canary `{canary.name}` survived"
    script = matrix.breaches[0]
    if canary.smallest is not None:
        assert freeze(dict(script.choices)) == freeze(dict(canary.smallest))
    (tmp_path / f"{canary.name}.json").write_text(script.to_json())
    child = Path(__file__).with_name("canary_child.py")
    done = subprocess.run([sys.executable, child, tmp_path], capture_output=True, text=True, timeout=120, check=True)
    name, broken, whole = json.loads(done.stdout)
    assert name == canary.name
    assert broken == "breached", "another process does not see the breach"
    assert whole != "breached", "the whole machine is breached too"


@pytest.mark.slow
@pytest.mark.parametrize("canary", ALL, ids=lambda canary: canary.name)
def test_the_same_campaign_does_not_breach_the_whole_machine(canary: Canary) -> None:
    matrix = canary.campaign()
    assert matrix.ok, matrix.breaches[0].what
    assert matrix.events, "the attack never reached the machine"


def test_every_attack_has_a_machine_that_it_breaches() -> None:
    assert {canary.attack for canary in ALL} == set(ATTACK_BY_NAME)


def test_there_are_enough_canaries() -> None:
    assert len({canary.name for canary in ALL}) == len(ALL)
    assert len({canary.defence for canary in ALL}) >= 20
    assert sum(canary.smallest is not None for canary in ALL) >= 8
