"""What a campaign means for a release, by table: only one in which every attack ran that applies allows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepward.sabotage.campaign import LEFT_OUT, Matrix, Row
from stepward.sabotage.campaigns.script import Script
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.registry import ATTACKS
from stepward.validator.report.decision import ReleaseVerdict, decide, decision_words

RAN = {"outcomes": {Outcome.BLOCKED: 3}}


def script(invariant: Invariant) -> Script:
    data: dict[str, Any] = {"attack": ATTACKS[0].name, "program": {"name": "p"}, "policies": (), "routes": ()}
    return Script(**data, choices={}, invariant=invariant.key, what="it broke", story=("it ran",), seed=1)


def matrix(changed: dict[int, dict[str, Any]], *, number: int = len(ATTACKS)) -> Matrix:
    """Return a campaign in which every attack held, but for some of another kind."""
    rows = []
    for place, attack in enumerate(ATTACKS[:number]):
        given = changed.get(place, RAN)
        rows.append(Row(attack, **{**given, "outcomes": Counter(given.get("outcomes", {}))}))
    return Matrix("p", 1, 100, tuple(rows), 1.0, 0)


ONCE, KEPT = script(Invariant.ONCE), script(Invariant.KEPT)
LOOKED = {"outcomes": {Outcome.NOT_APPLICABLE: 4}}
ASKED = f"only 5 of {len(ATTACKS)} attacks were asked for"

CASES: list[tuple[Matrix, ReleaseVerdict, str]] = [
    (matrix({}), ReleaseVerdict.RELEASE, "release `p`: nothing broke, and every attack that applies to it ran"),
    (matrix({0: {"misses": "there is no loop"}, 1: {"misses": LEFT_OUT}}), ReleaseVerdict.RELEASE, "release `p`: "),
    (matrix({0: {}}), ReleaseVerdict.UNKNOWN, "nothing broke, but 1 attack did not get its turn"),
    (matrix({0: {}, 1: {}}), ReleaseVerdict.UNKNOWN, "nothing broke, but 2 attacks did not get their turn"),
    (matrix({0: {"lost": 2}}), ReleaseVerdict.UNKNOWN, "but the workers died that played 1 attack"),
    (matrix({0: LOOKED}), ReleaseVerdict.UNKNOWN, "nothing broke, but no run came to what 1 attack needs"),
    (
        matrix({0: LOOKED, 1: {}}),
        ReleaseVerdict.UNKNOWN,
        "but 1 attack did not get its turn, and no run came to what 1",
    ),
    (matrix({}, number=5), ReleaseVerdict.UNKNOWN, f"not known whether to release `p`: nothing broke, but {ASKED}"),
    (matrix({place: {} for place in range(len(ATTACKS))}), ReleaseVerdict.UNKNOWN, "nothing ran, and "),
    (
        matrix({place: {"misses": "no"} for place in range(5)}, number=5),
        ReleaseVerdict.UNKNOWN,
        "nothing ran, and only 5 of",
    ),
    (matrix({place: {"misses": "no"} for place in range(len(ATTACKS))}), ReleaseVerdict.UNKNOWN, "`p`: nothing ran"),
    (matrix({0: {**RAN, "unconfirmed": ONCE}}), ReleaseVerdict.UNKNOWN, "release `p`: 1 breach did not show again"),
    (
        matrix({0: {**RAN, "unconfirmed": ONCE}, 1: {}}),
        ReleaseVerdict.UNKNOWN,
        "1 breach did not show again, and 1 attack",
    ),
    (
        matrix({0: {**RAN, "breach": ONCE}}),
        ReleaseVerdict.REFUSE,
        "do not release `p`: 1 attack broke what the machine promis",
    ),
    (matrix({0: {**RAN, "breach": ONCE}, 1: {}}), ReleaseVerdict.REFUSE, f": {Invariant.ONCE.value}"),
    (
        matrix({0: {**RAN, "breach": ONCE}, 1: {**RAN, "breach": KEPT}, 2: {**RAN, "breach": ONCE}}, number=5),
        ReleaseVerdict.REFUSE,
        f"`p`: 3 attacks broke what the machine promises: {Invariant.ONCE.value}; {Invariant.KEPT.value}",
    ),
]


@pytest.mark.parametrize(("found", "verdict", "words"), CASES)
def test_a_campaign_has_a_verdict_with_its_reasons(found: Matrix, verdict: ReleaseVerdict, words: str) -> None:
    decision = decide(found)
    assert decision.verdict is verdict
    assert words in decision_words(decision, found.program)
