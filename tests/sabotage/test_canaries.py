"""The campaign is itself tested: a machine without one defence is breached within the default budget, each of them.

By day one canary of each attack is played, and each twelfth of the others. `STEPWARD_CANARIES=bit-flip-in-record` plays
all canaries of that attack, or the one of that name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from canaries import SOONER, Canary, canaries
from paths import SUPPORT
from silent_checks import checks, fired
from sizes import MANY, by_day, size
from stepward.sabotage.attacks import drawn, recorded
from stepward.sabotage.campaigns.script import Script
from stepward.sabotage.registry import ATTACK_BY_NAME, attacks_in
from stepward.vm.values import freeze

ALL = canaries()
WANTED = os.environ.get("STEPWARD_CANARIES")
OF_ATTACKS = list({canary.attack: canary for canary in reversed(ALL)}.values())[::-1]
CHOSEN = (*OF_ATTACKS, *by_day((canary for canary in ALL if canary not in OF_ATTACKS), 12))
PLAYED = [canary for canary in ALL if WANTED in (canary.attack, canary.name)] if WANTED else CHOSEN
assert PLAYED, f"there is no canary or attack `{WANTED}`"

CHUNK = 100
"""Each chunk starts a process that replays its breaches."""

CHUNKS = [PLAYED[start : start + CHUNK] for start in range(0, len(PLAYED), CHUNK)]
WHOLE = list(
    {
        repr((canary.attack, canary.program, canary.policies) if MANY else canary.attack): canary for canary in PLAYED
    }.values()
)[:: size(8, 1)]
"""Canaries that differ in what they attack: on the whole machine the others would be the same campaign. By day one for
each eighth attack: the replay of its breach, and `test_the_machine_of_a_new_project_holds` with more programs, ask of
every attack whether it alarms without a cause."""

REPLAYED = {canary.name for canary in (PLAYED if WANTED or MANY else OF_ATTACKS[::12])}
"""Canaries whose breaches another process replays: by day one for each twelfth attack."""

MOST_SILENT = 158
"""The single checks of attacks that no canary makes go off, at most: 153 of 241; by night other seeds find others."""

WHOLE_CHUNKS = [WHOLE[start : start + CHUNK] for start in range(0, len(WHOLE), CHUNK)]
WHOLE_EXAMPLES = size(2, 30)
"""Cases on the whole machine: other tests search with more that it holds; here the attack must not be at fault."""

WHOLE_PROGRAMS = size(2, 30)
"""Programs of a case that draws them, and by day few scenes: other tests play the same on the whole machine."""


def breached(canary: Canary) -> Script:
    with pytest.MonkeyPatch.context() as patch:
        canary.patch(patch)
        matrix = canary.campaign()
    assert len(matrix.breaches) == 1, f"the canary `{canary.name}` survived"
    script = matrix.breaches[0]
    if canary.smallest is not None:
        assert freeze(dict(script.choices)) == freeze(dict(canary.smallest)), canary.name
    return script


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda chunk: f"{chunk[0].name}..{chunk[-1].name}")
def test_the_campaign_breaches_every_machine_without_a_defence(chunk: list[Canary], tmp_path: Path) -> None:
    scripts = {canary.name: breached(canary) for canary in chunk}
    kept = scripts.keys() & REPLAYED
    for name in kept:
        (tmp_path / f"{name}.json").write_text(scripts[name].to_json())
    child = SUPPORT / "canary_child.py"
    done = subprocess.run([sys.executable, child, tmp_path], capture_output=True, text=True, timeout=600, check=True)
    replayed = {name: (broken, whole) for name, broken, whole in map(json.loads, done.stdout.splitlines())}
    assert replayed.keys() == kept
    for name, (broken, whole) in replayed.items():
        assert broken == "breached", f"another process does not see the breach of `{name}`"
        assert whole != "breached", f"the whole machine is breached by the script of `{name}`"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", WHOLE_CHUNKS, ids=lambda chunk: f"{chunk[0].name}..{chunk[-1].name}")
def test_the_same_attacks_do_not_breach_the_whole_machine(chunk: list[Canary], monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = recorded.recordings
    monkeypatch.setattr(recorded, "recordings", lambda kind: scenes(kind)[: size(3, 1_000)])
    for attack in attacks_in(drawn):
        monkeypatch.setattr(attack, "programs", WHOLE_PROGRAMS)
    for canary in chunk:
        for examples in (WHOLE_EXAMPLES, 10):
            matrix = canary.campaign(examples)
            assert matrix.ok, f"{canary.name}: {matrix.breaches[0].what}"
            if matrix.events:
                break
        assert matrix.events, f"the attack of `{canary.name}` never reached the machine"


def test_every_attack_has_a_machine_that_it_breaches() -> None:
    breached = {canary.attack for canary in ALL}
    lacking, unknown = set(ATTACK_BY_NAME) - breached, breached - set(ATTACK_BY_NAME)
    assert not lacking, f"a canary in tests/support/canaries_*.py has to show that they can breach: {sorted(lacking)}"
    assert not unknown, f"these canaries name no attack: {sorted(unknown)}"


def test_every_canary_finds_the_lines_that_it_changes() -> None:
    """A campaign would say the same, but only in a test that takes long."""
    for canary in ALL:
        with pytest.MonkeyPatch.context() as patch:
            canary.patch(patch)


def test_there_are_enough_canaries() -> None:
    assert len({canary.name for canary in ALL}) == len(ALL)
    assert {canary.name for canary in ALL} >= SOONER.keys()
    assert len({canary.defence for canary in ALL}) >= 20
    assert sum(canary.smallest is not None for canary in ALL) >= 8


def test_a_check_that_goes_off_is_found_by_its_place() -> None:
    wanted = {"state-a-byte-more", "state-a-byte-less"}
    found = fired(canary for canary in ALL if canary.name in wanted)
    assert {place for name, place in found if name == "sizes.py"} == {"StateAtTheEdge.play 1", "StateAtTheEdge.play 3"}
    assert found < checks().keys()


@pytest.mark.slow
@pytest.mark.skipif(not MANY, reason="it plays every canary once more")
def test_no_more_checks_are_silent_than_before() -> None:
    """`python tests/support/silent_checks.py` lists them; a canary makes the number smaller."""
    assert len(checks().keys() - fired(ALL)) <= MOST_SILENT
