"""Machines with one defence removed; a helper, no tests stand here.

Each canary is a patch in test code and a small program on which one attack has to breach the machine that is left. The
product has no switch for any of it. They are kept by family, in `canaries_*.py`; `CANARIES` has them all.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import Phase

from paths import SUPPORT
from stepward.sabotage.campaign import DEFAULT_EXAMPLES, Matrix, Orders, attack_program
from stepward.sabotage.campaigns import shard
from stepward.sabotage.campaigns.script import Script
from stepward.vm import Policy, Program

SOONER: Final = {
    "lets-one-deadline-pass": 8,
    "spares-later-runs": 2,
    "copies-no-later-policies": 1,
    "asks-before-it-puts": 4,
    "starts-after-a-failed-item": 5,
    "sorts-outer-keys-alone": 4,
    "takes-the-better-word": 3,
    "starts-too-many-items": 4,
    "hides-an-open-sibling": 1,
    "looks-at-no-siblings": 12,
    "takes-true-for-no-change": 5,
    "takes-lengths-for-no-limit": 4,
    "looks-for-no-member": 6,
    "seals-neighbours": 13,
    "binds-no-sub-steps": 9,
    "seals-by-the-last-reference": 13,
    "forgets-paths": 2,
    "judges-all-under-the-first-waivers": 6,
    "knows-policies-by-name": 3,
    "lets-strangers-settle": 3,
    "asks-for-room-twice": 4,
    "strips-no-reply": 4,
    "receipts-of-others-are-good": 7,
    "loses-what-items-carry": 2,
    "knows-no-order": 8,
    "counts-policies": 1,
    "skips-the-last-branch": 3,
    "leaves-the-names-of-a-branch": 1,
    "counts-steps-by-branch": 1,
    "asks-no-later-policy": 1,
    "forgets-delays-when-it-recovers": 1,
    "orders-strictly": 2,
    "lets-nobody-settle": 4,
    "cancellation-is-a-rival": 2,
    "keeps-echoes": 3,
    "forgets-items-when-it-recovers": 15,
    "takes-true-for-one": 4,
    "leaves-values-of-the-last-item": 6,
    "goes-to-the-first-catch": 4,
    "answers-any-item": 7,
    "looks-at-the-last-item": 9,
    "asks-as-anybody": 5,
    "counts-characters": 4,
    "pauses-of-another-attempt": 2,
    "no-limit-of-digits": 1,
    "skips-the-last-item": 6,
    "adds-every-visit": 1,
    "lowers-as-python-does": 6,
    "traces-no-late-policies": 5,
    "takes-a-fallback-for-a-success": 15,
    "no-look-at-keys": 2,
    "any-inputs-for-an-id": 5,
    "other-questions": 2,
    "begins-at-the-end": 7,
    "nobody-says-who-cancelled": 8,
    "repeats-the-last-item": 5,
    "no-exclusive": 4,
    "gives-up-renewing": 2,
    "keeps-outputs": 5,
    "keeps-free-replies-in-memory": 1,
    "refuses-nobody": 14,
    "every-refusal": 9,
    "prunes-by-the-number": 8,
    "fails-by-the-order-of-starts": 10,
    "passes-no-deadline-of-a-write": 4,
    "lets-a-fallback-come-before": 14,
    "loses-an-inner-field": 7,
    "lists-the-oldest-in-files": 2,
    "lists-what-starts-after": 4,
    "compares-lengths": 4,
    "learns-nothing-of-what-it-claims": 7,
    "forgets-writes-of-moved-runs": 3,
    "forgets-the-first-writes": 1,
    "renewed-to-one-end": 2,
    "exits-across-threads": 8,
}
"""Canaries that seed 0 finds late, after many cases or much of one, or never, with a seed that finds them sooner."""


class Canary(NamedTuple):
    """A machine without one defence.

    `patch` removes it; `attack` is the one that must breach then, on `program` under `policies`; `smallest`, where it
    is given, is every decision of the smallest script, by name. Without it the campaign ends with the first script that
    it finds: to make it smaller plays thousands of events.
    """

    name: str
    defence: str
    attack: str
    program: Mapping[str, Any]
    patch: Callable[[pytest.MonkeyPatch], None]
    policies: tuple[Mapping[str, Any], ...] = ()
    smallest: Mapping[str, Any] | None = None

    def campaign(self, examples: int = DEFAULT_EXAMPLES) -> Matrix:
        """Attack with the one attack, within the default budget. A breach counts: it is repeated in another process."""
        policies = [Policy.from_dict(dict(policy)) for policy in self.policies]
        orders = Orders(SOONER.get(self.name, 0), examples, attacks=(self.attack,), stops=True)
        with pytest.MonkeyPatch.context() as patch:
            if self.smallest is None:
                patch.setattr(shard, "_phases", lambda attack, database: [Phase.generate])
            return attack_program(Program.from_dict(dict(self.program)), policies, orders, confirm=lambda *_: True)


def repeated_here(script: Script, postgres: str | None = None) -> bool:
    """Repeat a breach in this process: only here the machine lacks its defence."""
    return script.replay(postgres)[1] is not None


def canaries() -> tuple[Canary, ...]:
    """Return all canaries, by the name of their file."""
    modules = [importlib.import_module(path.stem) for path in sorted(SUPPORT.glob("canaries_*.py"))]
    return tuple(canary for module in modules for canary in module.CANARIES)
