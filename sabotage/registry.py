"""Every attack, in the order in which they are played and reported."""

from __future__ import annotations

from typing import Final

from stepward.sabotage.attack import Attack
from stepward.sabotage.attacks import (
    crashes,
    disks,
    entries,
    files,
    forgeries,
    hashes,
    injection,
    interleavings,
    load,
    permissions,
    replays,
    secrecy,
    times,
    transitions,
)

ATTACKS: Final[tuple[type[Attack], ...]] = (
    *injection.ATTACKS,
    *entries.ATTACKS,
    *permissions.ATTACKS,
    *secrecy.ATTACKS,
    *replays.ATTACKS,
    *hashes.ATTACKS,
    *forgeries.ATTACKS,
    *files.ATTACKS,
    *transitions.ATTACKS,
    *crashes.ATTACKS,
    *disks.ATTACKS,
    *times.ATTACKS,
    *interleavings.ATTACKS,
    *load.ATTACKS,
)

ATTACK_BY_NAME: Final[dict[str, type[Attack]]] = {attack.name: attack for attack in ATTACKS}
