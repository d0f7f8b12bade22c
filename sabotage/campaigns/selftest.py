"""The self-test of the attacks: each attacks a machine without one defence, and has to breach it.

A machine loses its defence through its arguments (store, policy, key), not through a switch in the machine. The tests
cover every defence; these few are for the log of a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepward.sabotage.campaigns.shard import Shard, run_shard
from stepward.sabotage.playing.case import Weakness
from stepward.sabotage.registry import ATTACK_BY_NAME
from stepward.sabotage.stores.weak_stores import HastyStore, KeepingStore, SharingStore
from stepward.sabotage.target import Target
from stepward.vm.language.program import Program
from stepward.vm.machine.state import Limits

CASES: Final = 50
SEED: Final = 1


class Silenced(NamedTuple):
    """A defence that a `weakness` removes, and the attack on a program that has to detect that."""

    defence: str
    attack: str
    program: Mapping[str, Any]
    weakness: Weakness


class Alarm(NamedTuple):
    """The result of one self-test: `went_off` says that the attack breached the weak machine, `what` how."""

    defence: str
    attack: str
    went_off: bool
    what: str


_BOUNDLESS: Final = Limits(output_bytes=1 << 40, state_bytes=1 << 40)


def _without(**options: Any) -> Weakness:
    return Weakness(options=MappingProxyType(options))


_PAYS: Final = {
    "name": "pays",
    "inputs": {"amount": {"type": "integer", "minimum": 1}, "card": {"type": "string", "sensitive": True}},
    "tools": {
        "ask": {"effect": "none", "args": {}, "suspends": True},
        "pay": {"effect": "write", "idempotent": False, "args": {"amount": {"type": "integer"}}},
        "book": {"effect": "write", "idempotent": True, "args": {"amount": {"type": "integer"}}},
    },
    "steps": [
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"amount": "$amount"}},
        {"id": "book", "type": "tool", "tool": "book", "args": {"amount": "$amount"}},
    ],
}

SILENCED: Final = (
    Silenced("an intent is on the disk before its effect", "killed-anywhere", _PAYS, Weakness(HastyStore)),
    Silenced("one machine at a time has the lease of a run", "two-drivers", _PAYS, Weakness(SharingStore)),
    Silenced("what is erased is destroyed", "erased-run-asked-for", _PAYS, Weakness(KeepingStore)),
    Silenced("tools that no policy allows are not called", "tool-outside-the-policy", _PAYS, _without(policy=())),
    Silenced("outputs have a limit of size", "output-too-large", _PAYS, _without(limits=_BOUNDLESS)),
)


def alarms() -> tuple[Alarm, ...]:
    """Attack every weak machine and return the results."""
    return tuple(_tried(silenced) for silenced in SILENCED)


def _tried(silenced: Silenced) -> Alarm:
    attack = ATTACK_BY_NAME[silenced.attack]()
    target = Target(Program.from_dict(dict(silenced.program)))
    shard = Shard(silenced.attack, 0, max(1, CASES // attack.weight), SEED)
    found = run_shard(target, attack, shard, weakness=silenced.weakness).found
    return Alarm(silenced.defence, silenced.attack, found is not None, "" if found is None else found.what)
